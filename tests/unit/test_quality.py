"""What |a| at rest says of units and gravity, and signals that are stuck."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.quality import (
    CLEAN,
    STALLED,
    HoldState,
    QualityState,
    RailState,
    Signs,
    constant_signals,
    held_signals,
    is_moving,
    is_noisy,
    is_spinning,
    mean_std,
    push_rail,
    rest_fault,
    rest_magnitude_ms2,
    watch,
)
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import SampleBlock
from stream_occ.windowing import CutterState, WindowShape, push_chunk


def window(level, spread, seed=0):
    """One (1, 6, 250) window with acc z at `level` and Gaussian noise of `spread` on each axis."""
    signals = np.random.default_rng(seed).normal(0, spread, (1, 6, 250))
    signals[0, 2] += level
    return signals


@pytest.mark.parametrize(
    ("level", "spread", "fault"),
    [
        (9.81, 0.03, None),
        (10.6, 0.05, None),  # 80 mg of offset
        (1.0, 0.004, "acc_unit_g_as_ms2"),
        (96.2, 0.3, "acc_unit_ms2_as_g"),
        (1000.0, 3.0, "acc_unit_mg_as_ms2"),
        (0.0, 0.02, "gravity_missing"),
        (5.5, 0.02, "acc_scale"),
    ],
)
def test_rest_magnitude_names_the_mistake(level, spread, fault):
    """A still device with a wrong unit, scale or without gravity is named; one at 9.81 is not."""
    magnitude = rest_magnitude_ms2(window(level, spread))[0]
    assert rest_fault(magnitude) == fault
    assert np.isfinite(magnitude)


def test_mean_and_std_are_numpys_to_the_bit():
    """Of rows of any length and size; one has a NaN."""
    rng = np.random.default_rng(0)
    for n, m in ((1, 1), (1, 225), (7, 50), (100, 8)):
        values = rng.normal(size=(n, m)) * 10.0 ** rng.integers(-8, 8, size=(n, 1))
        values[0, 0] = np.nan if n == 7 else values[0, 0]
        mean, std = mean_std(values)
        assert mean.tobytes() == values.mean(axis=-1).tobytes()
        assert std.tobytes() == values.std(axis=-1).tobytes()


def test_moving_device_says_nothing():
    """While |a| spreads there is no magnitude at rest, hence no fault."""
    assert np.isnan(rest_magnitude_ms2(window(9.81, 2.0))[0])
    assert rest_fault(float("nan")) is None


def held_loop(values, n_hold, n_stall):
    """Bit r of each row where signal r has not changed for n_hold steps, one sample after another, and bit 12 where one
    that is not 0 has not for n_stall steps and another of its sensor has in each, or where no acceleration has."""
    marks, run, lively = [], [0] * 6, [0] * 6
    for i, row in enumerate(values):
        for r in range(6):
            is_same = bool(i) and row[r] == values[i - 1][r]
            run[r], lively[r] = (run[r] + 1, 0) if is_same else (0, lively[r] + 1)
        stalls = min(run[:3]) >= n_stall
        for r in range(6):
            first = r - r % 3
            stalls |= run[r] >= n_stall and row[r] != 0 and max(lively[first : first + 3]) >= n_stall
        marks.append(sum(1 << r for r in range(6) if run[r] >= n_hold) + (STALLED if stalls else 0))
    return marks


@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 1.0])] * 6), max_size=30),
    st.lists(st.integers(0, 30), max_size=6),
    st.sampled_from([2.0, 3.0, 8.0]),
)
def test_held_signals_equal_a_loop_for_any_cutting(rows, points, rate_hz):
    """At 2 and 3 Hz a signal is held after two and three steps without a change; it stalls after 0.3 s, two at 8 Hz."""
    values = np.array(rows).reshape(-1, 6)
    state, marks = HoldState(), []
    bounds = [0, *sorted(min(p, len(rows)) for p in points), len(rows)]
    for a, b in pairwise(bounds):
        state, made = held_signals(state, values[a:b], rate_hz=rate_hz)
        marks += made.tolist()
    assert marks == held_loop(rows, round(rate_hz), round(0.3 * rate_hz))


@pytest.mark.parametrize(
    ("stuck", "value", "n", "is_stalled"),
    [
        ([1], 3.0, 16, True),
        ([1], 3.0, 15, False),
        ([4], 0.1, 16, True),
        ([4], 0.0, 50, False),
        ([0, 1, 2], 0.0, 16, True),
    ],
)
def test_signal_that_stalls_is_told_after_three_tenths_of_a_second(stuck, value, n, is_stalled):
    """Sixteen equal samples at 50 Hz are fifteen steps; a gyroscope may leave out what is small, and tell 0."""
    values = np.random.default_rng(0).normal(size=(60, 6))
    values[60 - n :, stuck] = value
    _, marks = held_signals(HoldState(), values, rate_hz=50.0)
    assert (marks[-1] & STALLED != 0) == is_stalled
    assert not (marks[:-1] & STALLED).any() or n > 16


def test_held_signal_is_stuck_only_once_the_device_moves():
    """Lying still, a coarse sensor keeps its value; moving, it cannot. Stuck it stays until it is no longer held."""
    state, names = QualityState(), []
    at_end = 0b000001_000001
    for signs in (Signs(at_end), Signs(1, is_moving=True), Signs(at_end, is_moving=True), Signs(1), Signs(), Signs(1)):
        state = watch(state, signs)
        names.append(state.faults)
    assert names == [(), (), ("acc_stuck",), ("acc_stuck",), (), ()]
    assert state.counts == {"acc_stuck": 2}


def test_signal_that_is_constant_throughout_a_window_that_moves():
    """A fall in its middle and nobody moving at its end; not one that is 0, and none of a device that lies."""
    fallen, lying = window(9.81, 0.01)[0], window(9.81, 0.01)[0]
    fallen[2, 100:120] += 8.0
    for each in (fallen, lying):
        each[0], each[3], each[4] = 0.3, 0.01, 0.0
    assert constant_signals(np.stack([fallen, lying])).tolist() == [0b001001, 0]
    assert watch(QualityState(), Signs(0b001001_001001, constant=0b001001)).faults == ("acc_stuck", "gyr_stuck")


def test_what_moves():
    """A swing of |a|, or of the angle, in the last second; not before it, and not an offset of the gyroscope."""
    still, swings, turns, swung = (window(9.81, 0.01)[0] for _ in range(4))
    still[4] += 1.0
    swings[2] += 2.0 * np.sin(np.arange(250))
    turns[4] += 1.0 * np.sin(np.arange(250))
    swung[2, :200] += 2.0 * np.sin(np.arange(200))
    assert is_moving(np.stack([still, swings, turns, swung])[:, :, -50:]).tolist() == [False, True, True, False]


def rails_loop(values):
    """One sample after another: (acc rail, gyr rail), and which are at full scale."""
    rails, run, high, marks, before = [0.0, 0.0], [0] * 6, [50] * 6, [], None
    for row in values:
        for r in range(6):
            run[r] = run[r] + 1 if before is not None and row[r] == before[r] else 0
            high[r] = high[r] + 1 if abs(row[r]) >= (14.0 if r < 3 else 4.2) else 0
        before = row
        is_full = False
        for sensor in (0, 1):
            signals = range(3 * sensor, 3 * sensor + 3)
            large = [r for r in signals if 0 < high[r] < 50]
            flat = [abs(row[r]) for r in large if run[r] >= 2]
            rails[sensor] = max([rails[sensor], *(abs(row[r]) for r in large)])
            is_full |= any(value >= 0.95 * rails[sensor] for value in flat)
        marks.append(bool(is_full))
    return tuple(rails), marks


ROWS = st.tuples(
    *[st.sampled_from([1.0, 15.0, 16.0, -20.0])] * 2,
    st.just(0.5),
    *[st.sampled_from([0.1, 4.0, -4.3])] * 2,
    st.just(0.0),
)


@given(
    st.lists(st.tuples(ROWS, st.sampled_from([1, 2, 3, 4, 60])), max_size=12), st.lists(st.integers(0, 200), max_size=6)
)
def test_saturated_samples_equal_a_loop_for_any_cutting(runs, points):
    """The third sample in a row at the largest value so far, of one axis, and those that follow."""
    rows = [row for row, n in runs for _ in range(n)]
    values = np.array(rows, dtype=float).reshape(-1, 6)
    state, marked = RailState(), []
    for a, b in pairwise(sorted({0, *(min(p, len(values)) for p in points), len(values)})):
        state, marks = push_rail(state, values[a:b])
        marked += [False] * (b - a) if marks is None else marks.tolist()
    rails, expected = rails_loop(rows)
    assert state.rail == rails
    assert marked == expected


@given(
    st.lists(st.integers(2, 45), min_size=2, max_size=150),
    st.lists(st.integers(0, 150), max_size=6),
    st.integers(0, 2**32),
    st.sampled_from([0.0, 0.1]),
)
def test_windows_that_hold_a_saturated_sample_are_told_for_any_cutting(steps_ms, points, seed, reorder_s):
    """Those with one from their first sample to their last, or in the step of the grid before, or among the two samples
    that an end is made of; slower and faster than the grid, sent twice, and out of order."""
    rng, t_ns = np.random.default_rng(seed), np.cumsum(steps_ms) * 1_000_000
    wave = 25 * np.sin(2 * np.pi * t_ns / rng.uniform(0.5e9, 1.5e9))
    values = rng.normal(size=(t_ns.size, 6))
    values[:, rng.integers(3)] = np.clip(wave, -19.6, 19.6)
    order = np.argsort(t_ns + rng.uniform(0, 0.09e9, t_ns.size)) if reorder_s else np.arange(t_ns.size)
    order = np.repeat(order, 2)
    state, cutter, starts, found = ResamplerState(), CutterState(), [], []
    for a, b in pairwise([0, *sorted(min(p, order.size) for p in points), order.size]):
        rows = order[a:b]
        block = SampleBlock("dev", t_ns[rows], values[rows, :3], values[rows, 3:])
        state, chunks = resample(state, block, rate_hz=50.0, settings=StreamSettings(reorder_s=reorder_s))
        for chunk in chunks:
            cutter, batch = push_chunk(cutter, chunk, device_id="dev", shape=WindowShape(50.0, 10, 3), sos=None)
            starts += batch.t_start_ns.tolist()
            found += batch.saturated.tolist()
    full_ns = t_ns[np.array(rails_loop(values)[1])]
    expected = []
    for start_ns in starts:
        end_ns = start_ns + 9 * 20_000_000
        first_ns = min(t_ns[t_ns <= start_ns][-1], max(start_ns - 19_999_999, t_ns[0]))
        expected.append(bool(((full_ns >= first_ns) & (full_ns <= t_ns[t_ns >= end_ns][0])).any()))
    assert found == expected


def test_windows_that_overlap_a_change_of_axes_are_told():
    """Of the window in which gravity turned unseen and those after it, as many as may have it inside."""
    state, names = QualityState(), []
    for signs in (Signs(is_turned=True), *[Signs()] * 3, Signs(is_turned=True, held=0b001000)):
        state = watch(state, signs, n_overlapping=3)
        names.append(state.faults)
    assert names == [("axis_change",)] * 3 + [(), ()]


def test_jump_that_may_be_one_is_in_the_next_windows_too():
    """A quarter of those that overlap it, rounded up: it would be too near to their beginning to be seen."""
    state, told = QualityState(), []
    for signs in (Signs(is_jump=True), CLEAN, CLEAN, CLEAN):
        state = watch(state, signs, n_overlapping=6)
        told.append(state.n_jumped)
    assert (told, state.faults) == ([2, 1, 0, 0], ())


def test_axes_are_named_once_windows_enough_speak_against_them():
    """Nine windows' lengths of votes, three a window: with two overlapping, six windows; eighteen in favour end it."""
    state, told = QualityState(), []
    against, favour, held = Signs(vote=1), Signs(vote=-1), Signs(vote=1, held=1)
    for signs in [held] * 6 + [against] * 5 + [favour] * 15 + [against] * 6 + [CLEAN] * 50 + [favour] * 18:
        state = watch(state, signs, n_overlapping=2)
        told.append("axis_change" in state.faults)
    assert told == [False] * (6 + 5 + 15 + 5) + [True] * (1 + 50 + 17) + [False]


def test_noise_is_told_from_motion():
    """White noise of 2 m/s2 on each axis; not of 0.5, not a swing of 20 m/s2 twice a second, not a window too short."""
    rng = np.random.default_rng(0)
    loud, low, swing = (rng.normal(0, s, (6, 150)) for s in (2.0, 0.5, 0.02))
    swing[2] += 20 * np.sin(2 * np.pi * 2 * np.arange(150) / 50)
    throughout, in_part = is_noisy(np.stack([loud, low, swing]))
    assert (throughout.tolist(), in_part.tolist()) == ([True, False, False], [True, False, False])
    assert [found.tolist() for found in is_noisy(loud[None, :, :9])] == [[False], [False]]


def test_window_of_which_three_quarters_are_noise_is_noisy():
    """Of 150 samples the first or the last 122; not 98."""
    rng, sample = np.random.default_rng(0), np.arange(150)
    loud, low = (rng.normal(0, s, (6, 150)) for s in (2.0, 0.1))
    windows = [np.where(rows, loud, low) for rows in (sample < 122, sample >= 28, sample < 98, sample >= 52)]
    assert is_noisy(np.stack(windows))[0].tolist() == [True, True, False, False]


def test_noise_in_part_of_a_window_is_told_at_its_ends():
    """The first or the last 66 samples, not 40, and not as many in the middle."""
    rng = np.random.default_rng(0)
    loud, low = rng.normal(0, 4.0, (6, 150)), rng.normal(0, 0.02, (6, 150))
    sample = np.arange(150)
    noisy = [sample < 66, sample >= 84, sample >= 110, (sample >= 42) & (sample < 108)]
    throughout, in_part = is_noisy(np.stack([np.where(rows, loud, low) for rows in noisy]))
    assert (throughout.any(), in_part.tolist()) == (False, [True, True, False, False])


def test_noise_counts_once_it_lasts():
    """Sixty noisy windows make the fault, thirty clean ones take it back."""
    state, told = QualityState(), []
    for signs in [Signs(is_noisy=True)] * 59 + [Signs()] * 30 + [Signs(is_noisy=True)] * 61 + [CLEAN] * 31:
        state = watch(state, signs)
        told.append("noisy" in state.faults)
    assert told == [False] * (59 + 30 + 59) + [True] * (2 + 29) + [False] * 2


@pytest.mark.parametrize(("rads", "spins"), [(7.2, False), (19.9, False), (20.1, True), (40.0, True)])
def test_only_what_turns_as_nobody_does_spins(rads: float, spins: bool) -> None:
    """Root mean square over the window, of all three axes: a swing of amplitude rads * 2 ** 0.5 has rads."""
    signals = np.zeros((2, 6, 250))
    signals[1, 4] = rads * 2**0.5 * np.sin(2 * np.pi * 2.0 * np.arange(250) / 50.0)
    assert is_spinning(signals).tolist() == [False, spins]
