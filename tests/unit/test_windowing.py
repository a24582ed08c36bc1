"""Where windows start, how many there are, and that none crosses a gap."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.samples import SampleBlock, Window
from stream_occ.windowing import WindowShape, as_batch, concatenate, cut_windows, iter_windows

MS = 1_000_000


def still(t_ms, device_id="dev"):
    """A block of a device lying on a table: acc z 9.81, nothing else; acc x counts samples."""
    t = np.asarray(t_ms, dtype=np.int64)
    acc = np.tile([0.0, 0.0, 9.81], (t.size, 1))
    acc[:, 0] = np.arange(t.size)
    return SampleBlock(device_id, t * MS, acc, np.zeros((t.size, 3)))


def test_windows_start_every_hop_and_end_inside_the_segment():
    """1 s at 50 Hz holds 51 grid samples: windows of 0.5 s every 0.2 s start at 0, 200, 400 ms."""
    batch = cut_windows(still(range(0, 1001, 20)), rate_hz=50.0, window_s=0.5, hop_s=0.2)
    assert (batch.t_start_ns // MS).tolist() == [0, 200, 400]
    assert batch.signals.shape == (3, 6, 25)
    assert batch.signals[1, 0].tolist() == list(range(10, 35))


def test_no_window_crosses_a_gap():
    """Two stretches of 0.6 s with 2 s between give one window of 0.5 s each, the second at its own anchor."""
    batch = cut_windows(still([*range(0, 600, 20), *range(2600, 3200, 20)]), rate_hz=50.0, window_s=0.5, hop_s=0.5)
    assert (batch.t_start_ns // MS).tolist() == [0, 2600]
    assert batch.signals[1, 0].tolist() == list(range(30, 55))


def test_windows_behind_a_filter_carry_what_the_sensor_made():
    """Before the filter they are those of no filter, the one that ends the piece before a gap and off the hop too."""
    t_ms, shape = [*range(0, 700, 20), *range(2600, 3200, 20)], WindowShape.of(rate_hz=50.0, window_s=0.5, hop_s=0.5)
    sos = butter1_lowpass_sos(10.0, 50.0)
    behind, plain = (
        concatenate(list(iter_windows(still(t_ms), shape, sos=s, closing=True)), shape) for s in (sos, None)
    )
    assert plain.raw is None
    assert behind.closes.tolist() == [False, True, False]
    assert not np.array_equal(behind.signals, plain.signals)
    np.testing.assert_array_equal(behind.unfiltered, plain.signals)


def test_window_over_samples_that_came_too_late_is_marked():
    """Three in a row at 50 Hz, dropped behind one that is newer: a hole of 80 ms. One alone leaves 40 ms, no hole."""
    for late, is_marked in (([10, 11, 12], True), ([10], False)):
        order = np.array([k for k in range(30) if k not in late])
        rows = np.insert(order, 20, late)
        block = SampleBlock("dev", rows * 20_000_000, np.ones((30, 3)), np.ones((30, 3)))
        batch = cut_windows(block, rate_hz=50.0, window_s=0.2, hop_s=0.1)
        assert batch.bridged.tolist() == [False, is_marked, is_marked, False, False]


@pytest.mark.parametrize(("hole_ms", "bridged"), [(40, []), (60, [75, 100]), (300, [75, 100])])
def test_window_over_a_short_hole_is_marked(hole_ms, bridged):
    """Samples stop at 2 s for a while: of the windows of 50 those from 75 and from 100 on hold grid sample 101.

    40 ms is one sample that is missing, the next ones are near; from 60 ms on some grid sample has none.
    """
    t_ms = [*range(0, 2001, 20), *range(2000 + hole_ms, 6000, 20)]
    batch = cut_windows(still(t_ms), rate_hz=50.0, window_s=1.0, hop_s=0.5)
    starts = np.rint(batch.t_start_ns / (20 * MS)).astype(int)
    assert starts.tolist() == list(range(0, 300 - 49, 25))
    assert starts[batch.bridged].tolist() == bridged


@given(st.lists(st.integers(1, 40), min_size=20, max_size=120), st.booleans())
def test_no_window_spans_a_gap_and_all_over_holes_are_marked(steps, is_closing):
    """Intervals of 20 to 800 ms: a window has no interval above 0.5 s in it, and is marked where it has a grid sample
    within one above 40 ms."""
    t_ms = np.cumsum([0, *(20 * step for step in steps)])
    shape = WindowShape(50.0, 25, 10)
    for batch in iter_windows(still(t_ms), shape, closing=is_closing):
        for start_ns, end_ns, is_marked in zip(batch.t_start_ns, batch.t_end_ns, batch.bridged, strict=True):
            grid = range(round(start_ns / MS), round(end_ns / MS) + 1, 20)
            inside = [(a, b) for a, b in pairwise(t_ms.tolist()) if any(a < t < b for t in grid)]
            assert all(b - a <= 500 for a, b in inside)
            assert bool(is_marked) == any(b - a > 40 for a, b in inside)


def ends_of(t_ms, shape, *, closing=True):
    """(first sample, samples, whether it is off the hop) of all windows, sample numbers as `still` writes them."""
    batches = iter_windows(still(t_ms), shape, closing=closing)
    rows = [
        (batch, signals, ends) for batch in batches for signals, ends in zip(batch.signals, batch.closes, strict=True)
    ]
    return [(int(signals[0, 0]), batch.n_samples, bool(ends)) for batch, signals, ends in rows]


@pytest.mark.parametrize(("n", "windows"), [(9, []), (10, [10]), (14, [14]), (24, [24])])
def test_piece_that_ends_before_a_whole_window_is_one_of_its_length(n, windows):
    """Windows of 25 samples, 10 at least: of n samples before a gap all, of as many at the recording's end, too."""
    shape = WindowShape(50.0, 25, 5, n_least=10)
    before, after = range(0, 20 * n, 20), range(5000, 5000 + 20 * n, 20)
    assert ends_of([*before, *after], shape) == [(first, n, True) for first in (0, n) for n in windows]
    assert ends_of([*before, *after], shape, closing=False) == []
    assert ends_of([*before, *after], replace(shape, n_least=None)) == []


def test_piece_with_a_whole_window_ends_as_ever():
    """27 samples of windows of 25 every 5: one on the hop, one that ends the piece; at the recording's end one."""
    shape = WindowShape(50.0, 25, 5, n_least=10)
    whole = [(0, 25, False), (2, 25, True)]
    assert ends_of([*range(0, 540, 20), *range(5000, 5540, 20)], shape) == [*whole, (27, 25, False)]


def test_short_window_carries_marks_and_unfiltered_signals():
    """6 and 8 samples around a hole of 60 ms, then a gap: two grid samples are bridged, marked, and as they came."""
    t_ms, shape = [*range(0, 120, 20), *range(160, 320, 20), 5000], WindowShape(50.0, 25, 5, n_least=10)
    sos = butter1_lowpass_sos(5.0, 50.0)
    [window] = [batch for batch in iter_windows(still(t_ms), shape, sos=sos, closing=True) if len(batch)]
    assert (window.n_samples, window.t_start_ns.tolist(), window.t_end_ns.tolist()) == (16, [0], [300 * MS])
    assert window.bridged.tolist() == [True]
    np.testing.assert_allclose(window.unfiltered[0, 0], [*range(6), 16 / 3, 17 / 3, *range(6, 14)], rtol=1e-12)
    assert not np.allclose(window.signals, window.unfiltered)


def test_hop_longer_than_window_leaves_samples_out():
    """Windows of 0.1 s every 0.3 s take 5 samples of each 15."""
    batch = cut_windows(still(range(0, 1000, 20)), rate_hz=50.0, window_s=0.1, hop_s=0.3)
    assert batch.signals[:, 0, 0].tolist() == [0.0, 15.0, 30.0, 45.0]


def test_recording_shorter_than_a_window_gives_none():
    """An empty batch still tells its window length."""
    batch = cut_windows(still(range(0, 400, 20)), rate_hz=50.0, window_s=0.5, hop_s=0.1)
    assert batch.signals.shape == (0, 6, 25)
    assert len(batch) == 0


def test_last_axis_of_a_batch_is_contiguous():
    """Reductions over a window have one order, so windows are views along their samples."""
    batch = cut_windows(still(range(0, 3000, 20)), rate_hz=50.0, window_s=0.5, hop_s=0.1)
    assert batch.signals.strides[-1] == 8


def test_filter_of_a_resting_signal_changes_nothing():
    """Started at its steady state the low-pass passes a constant from the first sample on, after a gap too."""
    block = still([*range(0, 600, 20), *range(2600, 3200, 20)])
    block.acc_ms2[:, 0] = 1.5
    batch = cut_windows(block, rate_hz=50.0, window_s=0.5, hop_s=0.5, sos=butter1_lowpass_sos(20.0, 50.0))
    np.testing.assert_allclose(batch.signals[:, 2], 9.81, rtol=1e-12)
    np.testing.assert_allclose(batch.signals[:, 0], 1.5, rtol=1e-12)


def test_as_batch_puts_accelerometer_before_gyroscope():
    """Rows of `signals` are acc x, y, z, gyr x, y, z."""
    acc, gyr = np.arange(12.0).reshape(4, 3), 100 + np.arange(12.0).reshape(4, 3)
    batch = as_batch([Window("a", 5, 50.0, acc, gyr), Window("b", 9, 50.0, acc, gyr)])
    assert batch.signals[1, :, 2].tolist() == [6.0, 7.0, 8.0, 106.0, 107.0, 108.0]
    assert (batch.device_ids, batch.t_start_ns.tolist()) == (("a", "b"), [5, 9])


@pytest.mark.parametrize(
    "other",
    [
        Window("b", 0, 50.0, np.zeros((5, 3)), np.zeros((5, 3))),
        Window("b", 0, 25.0, np.zeros((4, 3)), np.zeros((4, 3))),
    ],
)
def test_windows_of_other_length_or_rate_are_refused(other):
    """The message names the window that does not fit."""
    with pytest.raises(ValueError, match="window 1 has"):
        as_batch([Window("a", 0, 50.0, np.zeros((4, 3)), np.zeros((4, 3))), other])


def test_concatenation_of_one_batch_is_that_batch():
    """No copy is made of a single batch; empty ones do not count."""
    shape = WindowShape.of(rate_hz=50.0, window_s=0.5, hop_s=0.1)
    batch = cut_windows(still(range(0, 3000, 20)), rate_hz=50.0, window_s=0.5, hop_s=0.1)
    assert concatenate([concatenate([], shape), batch], shape) is batch


def test_window_end_is_the_stamp_of_its_last_sample():
    """25 samples at 50 Hz span 480 ms."""
    assert Window("a", 100 * MS, 50.0, np.zeros((25, 3)), np.zeros((25, 3))).t_end_ns == 580 * MS
