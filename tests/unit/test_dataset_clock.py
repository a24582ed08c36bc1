"""Instants of sampling from stamps of arrival, and the gyroscope at the accelerometer's stamps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.datasets._clock import interpolate_gyr, sampling_instants

MS = 1_000_000


def burst_arrivals(true_ns: np.ndarray, *, every_ns: int = 100 * MS) -> np.ndarray:
    """A watch that sends what it has every 100 ms, samples 2 ms apart within a message."""
    sent = (true_ns // every_ns + 1) * every_ns
    place = np.zeros(len(true_ns), dtype=np.int64)
    for i in range(1, len(true_ns)):
        place[i] = place[i - 1] + 1 if sent[i] == sent[i - 1] else 0
    return sent + place * 2 * MS


@pytest.mark.parametrize("rate_hz", [24.7, 39.5, 49.4, 102.4])
def test_bursts_are_spread_over_the_time_in_which_they_were_sampled(rate_hz: float) -> None:
    """Whatever the true rate, instants lie on the true line but for one constant delay, to within 10 ms over 12 s."""
    true_ns = np.rint(np.arange(round(12 * rate_hz)) * 1e9 / rate_hz).astype(np.int64)
    delay = sampling_instants(burst_arrivals(true_ns)) - true_ns
    assert np.ptp(delay) < 10 * MS
    assert 0 < np.median(delay) < 110 * MS


def test_rate_is_the_sensors_not_the_nominal_one() -> None:
    """39.5 Hz under a folder called 50Hz comes out as 39.5 Hz, to 0.1 %."""
    true_ns = np.rint(np.arange(480) * 1e9 / 39.5).astype(np.int64)
    instants = sampling_instants(burst_arrivals(true_ns))
    assert 479 / (instants[-1] - instants[0]) * 1e9 == pytest.approx(39.5, rel=1e-3)


def test_lost_samples_leave_a_hole_of_their_own_length() -> None:
    """20 samples of 20 ms never arrived: the instants jump by their 0.4 s there and nowhere else."""
    true_ns = np.delete(np.arange(600, dtype=np.int64) * 20 * MS, slice(300, 320))
    steps = np.diff(sampling_instants(burst_arrivals(true_ns)))
    assert np.argmax(steps) == 299
    assert steps[299] == pytest.approx(21 * 20 * MS, rel=0.01)
    assert np.delete(steps, 299) == pytest.approx(20 * MS, rel=0.01)


def test_late_message_is_no_hole() -> None:
    """A message 0.3 s late that brings all its samples leaves the line as it is."""
    true_ns = np.arange(600, dtype=np.int64) * 20 * MS
    arrival = burst_arrivals(true_ns)
    arrival[300:315] = arrival[314]
    steps = np.diff(sampling_instants(arrival))
    assert steps == pytest.approx(20 * MS, rel=0.01)


@given(st.lists(st.integers(0, 10**10), min_size=4, max_size=60), st.integers(-(2**60), 2**60))
def test_instants_move_with_the_clock_and_never_step_back(stamps: list[int], shift: int) -> None:
    """Adding a constant to all stamps adds it to all instants, exactly; order is kept for any stamps."""
    arrival = np.sort(np.array(stamps, dtype=np.int64))
    instants = sampling_instants(arrival)
    assert (np.diff(instants) >= 0).all()
    assert (sampling_instants(arrival + shift) == instants + shift).all()


@pytest.mark.parametrize("stamps", [[], [5], [5, 9], [5, 6, 11], [7] * 50, [0, 0, 0, 2, 727272726, 1636363640]])
def test_too_few_or_standing_stamps_are_left_as_given(stamps: list[int]) -> None:
    """No line is drawn through three points, nor through one instant."""
    assert sampling_instants(np.array(stamps, dtype=np.int64)).tolist() == stamps


def test_gyroscope_is_interpolated_linearly() -> None:
    """Hand case: halfway and a quarter of the way, per axis; a stamp hit exactly takes that value."""
    gyr = np.array([[0.0, 0.0, 0.0], [4.0, -8.0, 1.0], [4.0, 0.0, 1.0]])
    merged = interpolate_gyr(np.array([10, 15, 20, 25]), np.array([10, 20, 40]), gyr)
    assert merged.keep.all()
    assert merged.gyr_rads.tolist() == [[0.0, 0.0, 0.0], [2.0, -4.0, 0.5], [4.0, -8.0, 1.0], [4.0, -6.0, 1.0]]


def test_nothing_is_extrapolated() -> None:
    """Accelerometer rows before and after the gyroscope's time are left out and counted."""
    merged = interpolate_gyr(np.array([9, 10, 20, 21, 22]), np.array([10, 20]), np.zeros((2, 3)))
    assert merged.keep.tolist() == [False, True, True, False, False]
    assert merged.n_outside == 3


def test_hole_of_exactly_the_bound_is_bridged_and_a_longer_one_is_not() -> None:
    """0.5 s is bridged; one ns more is a hole, whose edges still have their values."""
    stamps = np.array([0, 1, 500 * MS, 500 * MS + 1])
    bridged = interpolate_gyr(stamps[:3], np.array([0, 500 * MS]), np.zeros((2, 3)))
    assert bridged.keep.all()
    hole = interpolate_gyr(stamps, np.array([0, 500 * MS + 1]), np.zeros((2, 3)))
    assert hole.keep.tolist() == [True, False, False, True]
    assert hole.n_in_hole == 2


def test_late_and_doubled_gyroscope_rows() -> None:
    """Rows are put in order of their stamps; of two with one stamp the first in the file counts."""
    merged = interpolate_gyr(np.array([15]), np.array([20, 10, 20]), np.array([[4.0] * 3, [0.0] * 3, [99.0] * 3]))
    assert merged.gyr_rads.tolist() == [[2.0, 2.0, 2.0]]
    assert merged.n_duplicate_gyr == 1


def test_empty_gyroscope_leaves_no_row() -> None:
    """Without gyroscope no row is whole."""
    merged = interpolate_gyr(np.array([1, 2]), np.empty(0, np.int64), np.empty((0, 3)))
    assert merged.n_outside == 2
    assert merged.gyr_rads.shape == (0, 3)


@given(
    st.lists(st.integers(0, 10**9), min_size=1, max_size=30),
    st.lists(st.integers(0, 10**9), min_size=1, max_size=30, unique=True),
)
def test_interpolation_agrees_with_numpy_where_there_is_no_hole(acc: list[int], gyr: list[int]) -> None:
    """np.interp is the independent twin; 1e-9 leaves room for its other order of operations."""
    t_gyr = np.array(gyr)
    values = np.column_stack([np.sin(t_gyr), np.cos(t_gyr), t_gyr / 1e9])
    merged = interpolate_gyr(np.array(acc), t_gyr, values, max_hole_s=2.0)
    order = np.argsort(t_gyr)
    kept = np.array(acc)[merged.keep]
    assert set(kept.tolist()) == {t for t in acc if min(gyr) <= t <= max(gyr)}
    for axis in range(3):
        twin = np.interp(kept, t_gyr[order], values[order, axis])
        assert merged.gyr_rads[:, axis] == pytest.approx(twin, abs=1e-9)
