"""The resampler's rules on streams small enough to work out by hand."""

import numpy as np
import pytest

from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import SampleBlock

MS = 1_000_000


def ramp(t_ms, device_id="dev"):
    """A block whose acc x equals its stamp in ms; the other axes are 0."""
    t = np.asarray(t_ms, dtype=np.int64)
    acc = np.zeros((t.size, 3))
    acc[:, 0] = t
    return SampleBlock(device_id, t * MS, acc, np.zeros((t.size, 3)))


def run(*blocks, **settings):
    """Grid chunks and last state of blocks at 50 Hz."""
    state, made = ResamplerState(), []
    for block in blocks:
        state, chunks = resample(state, block, rate_hz=50.0, settings=StreamSettings(**settings))
        made += chunks
    return made, state


def test_jittered_stamps_are_put_on_the_line_between_neighbours():
    """A signal that is linear in time comes out linear, whatever the jitter."""
    chunks, _ = run(ramp([0, 17, 45, 58, 83, 100]))
    np.testing.assert_allclose(np.concatenate([c.values for c in chunks])[:, 0], [0, 20, 40, 60, 80, 100], atol=1e-12)


def test_grid_is_anchored_at_the_first_sample():
    """The first grid sample is the first sample itself."""
    chunks, _ = run(ramp([1003, 1023, 1043]))
    assert chunks[0].anchor_t_ns == 1003 * MS
    assert chunks[0].values[:, 0].tolist() == [1003.0, 1023.0, 1043.0]


def test_nothing_is_made_up_beyond_the_last_sample():
    """A grid point waits for the sample that closes its interval."""
    chunks, _ = run(ramp([0, 39]))
    assert sum(len(c.values) for c in chunks) == 2


def test_hole_of_exactly_gap_s_is_interpolated_and_counted():
    """500 ms with gap_s 0.5 is a hole: its 24 inner grid points are interpolated and counted."""
    chunks, state = run(ramp([0, 20, 520]))
    assert state.counters.gap == 0
    assert state.counters.interpolated == 24
    assert sum(len(c.values) for c in chunks) == 27


def test_hole_longer_than_gap_s_starts_a_new_segment():
    """501 ms is a gap: no grid sample lies in it and the grid restarts at the first sample after it."""
    chunks, state = run(ramp([0, 20, 521, 541]))
    assert state.counters.gap == 1
    assert state.counters.interpolated == 0
    assert [(c.anchor_t_ns // MS, c.starts_segment, len(c.values)) for c in chunks] == [(0, True, 2), (521, True, 2)]


def test_first_of_equal_stamps_is_kept():
    """A doubled stamp counts as duplicate and its first value stands."""
    first, second = ramp([0, 20]), ramp([20, 40])
    second.acc_ms2[0, 0] = 999.0
    chunks, state = run(first, second)
    assert state.counters.duplicate == 1
    assert np.concatenate([c.values for c in chunks])[:, 0].tolist() == [0.0, 20.0, 40.0]


def test_late_sample_is_refused_without_reorder_buffer():
    """A straggler is counted late and nothing else changes."""
    chunks, state = run(ramp([0, 40, 20, 60]))
    assert state.counters.late == 1
    np.testing.assert_allclose(np.concatenate([c.values for c in chunks])[:, 0], [0, 20, 40, 60], atol=1e-12)


def test_reorder_buffer_puts_a_straggler_in_its_place():
    """With reorder_s 0.1 a sample 60 ms late is used; the buffer holds back what is younger than 100 ms."""
    block = ramp([0, 20, 60, 80, 40, 100, 120, 140])
    block.acc_ms2[4, 0] = -7.0  # the straggler's own value must come out
    chunks, state = run(block, reorder_s=0.1)
    assert state.counters.late == 0
    assert np.concatenate([c.values for c in chunks])[:, 0].tolist() == [0.0, 20.0, -7.0]


def test_clock_set_back_starts_a_new_segment():
    """A device whose clock jumps back an hour is heard again after 25 samples, and none is lost."""
    before = 3_600_000 + np.arange(50) * 20
    after = np.arange(100) * 20
    chunks, state = run(ramp(before), ramp(after))
    assert state.counters.clock_reset == 1
    assert state.counters.late == 0
    anchors = [c.anchor_t_ns // MS for c in chunks if c.starts_segment]
    assert anchors == [3_600_000, 0]
    assert sum(len(c.values) for c in chunks) == 150


def test_late_samples_are_held_until_it_is_known_what_they_are():
    """24 in a row: neither late nor a clock that was set back; the next one decides."""
    before, after = ramp(3_600_000 + np.arange(50) * 20), ramp(np.arange(24) * 20)
    _, state = run(before, after)
    assert (state.counters.late, state.counters.clock_reset) == (0, 0)
    _, in_time = run(before, after, ramp([3_601_000]))
    assert (in_time.counters.late, in_time.counters.clock_reset) == (24, 0)
    _, reset = run(before, after, ramp([480]))
    assert (reset.counters.late, reset.counters.clock_reset) == (0, 1)


def test_straggler_just_before_the_clock_is_set_back_is_late():
    """Of 25 samples the first is of the old clock: the new one begins with the second."""
    chunks, state = run(ramp(3_600_000 + np.arange(50) * 20), ramp([3_600_970, *range(0, 480, 20)]))
    assert (state.counters.late, state.counters.clock_reset) == (1, 1)
    assert [c.anchor_t_ns // MS for c in chunks if c.starts_segment] == [3_600_000, 0]


@pytest.mark.parametrize("reorder_s", [0.0, 0.2])
@pytest.mark.parametrize("n", [1, 24, 25, 100, 1024])
def test_message_sent_twice_is_taken_once_however_long_it_is(n, reorder_s):
    """Its second coming is n duplicates: neither late nor a clock that was set back, and the grid is the same."""
    first, second = ramp(np.arange(n) * 20), ramp((n + np.arange(100)) * 20)
    once, _ = run(first, second, reorder_s=reorder_s)
    twice, state = run(first, first, second, reorder_s=reorder_s)
    for a, b in zip(once, [c for c in twice if len(c.values)], strict=True):
        np.testing.assert_array_equal(a.values, b.values)
    assert (state.counters.duplicate, state.counters.late, state.counters.clock_reset) == (n, 0, 0)


def test_older_message_sent_again_is_known_by_its_samples():
    """100 samples, 100 more, the first 100 again, then on: nothing but 100 duplicates."""
    parts = [ramp((np.arange(100) + 100 * i) * 20) for i in range(3)]
    _, state = run(parts[0], parts[1], parts[0], parts[2])
    assert (state.counters.duplicate, state.counters.late, state.counters.clock_reset) == (100, 0, 0)
    assert (state.counters.gap, state.counters.interpolated) == (0, 0)


def test_stragglers_sent_twice_are_no_clock_that_was_set_back():
    """20 late samples, and the same 20 again: 20 late, 20 duplicates."""
    stragglers = ramp(np.arange(20) * 20 + 7)
    _, state = run(ramp(np.arange(100) * 20), stragglers, stragglers, ramp([2000]))
    assert (state.counters.late, state.counters.duplicate, state.counters.clock_reset) == (20, 20, 0)


def test_same_stamps_with_other_values_are_a_clock_that_was_set_back():
    """A device that started anew at the same instant of its clock is heard again."""
    before = ramp(np.arange(100) * 20)
    after = SampleBlock("dev", before.t_ns, before.acc_ms2 + 1.0, before.gyr_rads)
    _, state = run(before, after)
    assert (state.counters.clock_reset, state.counters.late) == (1, 0)


def test_one_stray_stamp_from_the_future_does_not_deafen_the_device():
    """After a single sample an hour ahead the stream is taken up again within half a second of samples."""
    stray = np.concatenate([np.arange(50) * 20, [3_600_000], 1000 + np.arange(100) * 20])
    chunks, state = run(ramp(stray))
    assert state.counters.clock_reset == 1
    assert [c.anchor_t_ns // MS for c in chunks if c.starts_segment][-1] == 1000


@pytest.mark.parametrize("rate_hz", [84.0, 50.0, 200.0])
def test_measured_rate_is_that_of_the_samples_not_of_the_grid(rate_hz):
    """The rate is intervals over time of the last 64 intervals."""
    t_ns = np.rint(np.arange(400) * 1e9 / rate_hz).astype(np.int64)
    block = SampleBlock("dev", t_ns, np.zeros((400, 3)), np.zeros((400, 3)))
    _, state = run(block)
    assert state.measured_rate_hz == pytest.approx(rate_hz, rel=1e-6)


def test_sine_sampled_at_200_hz_keeps_its_values_on_the_50_hz_grid():
    """Grid points that fall on samples take their values exactly."""
    t_ns = np.arange(801) * 5 * MS
    wave = np.sin(2 * np.pi * 3 * t_ns / 1e9)
    acc = np.stack([wave, wave, wave], axis=1)
    chunks, _ = run(SampleBlock("dev", t_ns, acc, acc))
    np.testing.assert_array_equal(np.concatenate([c.values for c in chunks])[:, 0], wave[::4])


def test_empty_block_changes_nothing():
    """A message without samples makes no chunk."""
    chunks, state = run(ramp([]), ramp([0, 20]))
    assert len(chunks) == 1
    assert state.counters.n_samples == 2
