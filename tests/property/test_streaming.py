"""Any cutting of a stream into messages and steps, any restart point: the same grid, windows, decisions, alerts."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.checkpoint import dump_state, load_state
from stream_occ.clock import ClockState
from stream_occ.events import EventPolicy
from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.pipeline import Pipeline, PipelineState
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import SampleBlock
from stream_occ.watching import shown
from stream_occ.windowing import concatenate, iter_windows
from tests.property.streams import block_of, cut, stamps
from tests.reference.resampling_loop import resample_loop
from tests.unit.toy_model import toy_model

SETTINGS = st.sampled_from([StreamSettings(), StreamSettings(reorder_s=0.1), StreamSettings(gap_s=0.2, reorder_s=1.0)])
RATES = st.sampled_from([50.0, 31.25, 100.0])


def grid_of(blocks, rate_hz, stream):
    """Segments [(anchor, values)] and counters that the resampler makes of blocks, one after another."""
    state, segments = ResamplerState(), []
    for block in blocks:
        state, chunks = resample(state, block, rate_hz=rate_hz, settings=stream)
        for chunk in chunks:
            if chunk.starts_segment:
                segments.append((chunk.anchor_t_ns, []))
            segments[-1][1].append(chunk.values)
    return [(anchor, np.concatenate(parts)) for anchor, parts in segments], state


@given(stamps(), st.lists(st.integers(0, 160), max_size=8), RATES, SETTINGS)
def test_resampler_equals_its_loop_twin_for_any_cutting(t_ns, points, rate_hz, stream):
    """Values, anchors and counters equal those of a loop over single samples, bit for bit."""
    block = block_of(t_ns)
    expected, counted = resample_loop(
        t_ns,
        np.hstack([block.acc_ms2, block.gyr_rads]),
        rate_hz=rate_hz,
        gap_s=stream.gap_s,
        reorder_s=stream.reorder_s,
    )
    segments, state = grid_of(cut(block, points), rate_hz, stream)
    assert [anchor for anchor, _ in segments] == [anchor for anchor, _ in expected]
    for (_, made), (_, wanted) in zip(segments, expected, strict=True):
        np.testing.assert_array_equal(made, wanted)
    assert {name: getattr(state.counters, name) for name in counted} == counted
    assert state.counters.n_samples == len(block)


REPEATS = st.lists(st.tuples(st.integers(0, 160), st.integers(1, 80)), max_size=3)


@given(stamps(), REPEATS, st.lists(st.integers(0, 400), max_size=8), SETTINGS)
def test_stretches_sent_twice_are_told_as_the_loop_twin_does(t_ns, repeats, points, stream):
    """Behind some sample the stretch before it comes again; of the last 40 samples it is known to be the same."""
    whole, order = block_of(t_ns), np.arange(len(t_ns))
    for behind, length in repeats:
        at = min(behind, len(order))
        order = np.concatenate([order[:at], order[max(0, at - length) : at], order[at:]])
    values = np.hstack([whole.acc_ms2, whole.gyr_rads])[order]
    block = SampleBlock("dev", whole.t_ns[order], values[:, :3], values[:, 3:])
    options = {"rate_hz": 50.0, "gap_s": stream.gap_s, "reorder_s": stream.reorder_s, "remembered": 40}
    expected, counted = resample_loop(block.t_ns, values, **options)
    with patch("stream_occ.resampling.SEEN_SAMPLES", 40):
        segments, state = grid_of(cut(block, points), 50.0, stream)
    assert [anchor for anchor, _ in segments] == [anchor for anchor, _ in expected]
    for (_, made), (_, wanted) in zip(segments, expected, strict=True):
        np.testing.assert_array_equal(made, wanted)
    assert {name: getattr(state.counters, name) for name in counted} == counted


@given(stamps(), st.integers(-(10**18), 10**18), SETTINGS)
def test_shifting_a_stream_in_time_changes_no_value(t_ns, shift_ns, stream):
    """Replayed today or recorded last year, the grid has the same bits."""
    block = block_of(t_ns)
    moved = SampleBlock("dev", block.t_ns + shift_ns, block.acc_ms2, block.gyr_rads)
    here, _ = grid_of([block], 50.0, stream)
    there, _ = grid_of([moved], 50.0, stream)
    assert [anchor + shift_ns for anchor, _ in here] == [anchor for anchor, _ in there]
    for (_, a), (_, b) in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)


POLICIES = st.sampled_from(
    [
        EventPolicy(k=1, n=2, check=False, countdown_s=0.0, repeat_s=5.0, refractory_s=0.3),
        EventPolicy(k=2, n=3, still_s=0.5, still_acc_ms2=5.0, still_gyr_rads=20.0, check_s=1.0, silence_s=2.0),
        EventPolicy(k=1, n=1, check_s=0.3, max_check_s=0.6, countdown_s=0.3, refractory_s=0.2, merge_s=0.5),
    ]
)


@given(
    stamps(),
    st.lists(st.integers(0, 160), max_size=6),
    SETTINGS,
    POLICIES,
    st.integers(0, 5),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)
@settings(max_examples=200)
def test_step_gives_the_same_for_any_batching_ticks_and_restarts(
    t_ns, points, stream, policy, restart_at, with_ticks, with_filter, is_clipped
):
    """One block or many, ticks within their grace, a restart from bytes anywhere: equal decisions, alerts and state."""
    sos = butter1_lowpass_sos(20.0, 50.0) if with_filter else None
    pipeline = Pipeline(toy_model(sos=sos), stream, policy)
    blocks = [block_of(t_ns, seed=1, device_id="a", is_clipped=is_clipped), block_of(t_ns[::-1], seed=2, device_id="b")]
    whole_state, whole_decisions, whole_alerts = pipeline.step(pipeline.initial(), blocks, 0)
    state, decisions, alerts = pipeline.initial(), [], []
    for i, pieces in enumerate(zip(cut(blocks[0], points), cut(blocks[1], points[::-1]), strict=True)):
        if with_ticks:
            state, none, nothing = pipeline.step(state, [], 600_000_000 * i)
            assert (none, nothing) == ([], [])
        if i == restart_at:
            state = load_state(dump_state(state))
        state, made, changes = pipeline.step(state, pieces, 600_000_000 * i)
        decisions += made
        alerts += changes
    for device in ("a", "b"):
        assert [d for d in decisions if d.device_id == device] == [d for d in whole_decisions if d.device_id == device]
        assert [a for a in alerts if a.device_id == device] == [a for a in whole_alerts if a.device_id == device]
    assert dump_state(timeless(state)) == dump_state(timeless(whole_state))


def timeless(state):
    """The state without the instants at which samples came."""
    untimed = {"seen_ns": None, "grid_ns": None, "clock": ClockState()}
    return PipelineState({name: replace(device, **untimed) for name, device in state.devices.items()})


@given(stamps(), st.lists(st.integers(0, 160), max_size=6), SETTINGS, st.integers(0, 6))
def test_every_piece_of_a_stream_ends_in_a_window_where_it_is_long_enough(t_ns, points, stream, restart_at):
    """Windows of 20 samples every 5, 10 at least, all flagged: of the loop twin's segments of n samples those that end
    at 19, 24, ... and with the last, or all n from 10 on; the same from messages of any size, and over a restart.

    Offline the end of the recording is no break, but for a segment that would go unseen.
    """
    block = block_of(t_ns)
    values = np.hstack([block.acc_ms2, block.gyr_rads])
    times = {"rate_hz": 50.0, "gap_s": stream.gap_s, "reorder_s": stream.reorder_s}
    segments, _ = resample_loop(t_ns, values, **times)
    lengths = [(anchor, len(rows)) for anchor, rows in segments]
    last = [sorted({*range(19, n, 5), *([n - 1] if n >= 10 else [])}) for _, n in lengths]
    expected = [anchor + k * 20_000_000 for (anchor, _), ends in zip(lengths, last, strict=True) for k in ends]
    pipeline = Pipeline(toy_model(threshold=-1.0, min_window_s=0.2), stream)
    state, ends = pipeline.initial(), []
    for i, piece in enumerate(cut(block, points)):
        state = load_state(dump_state(state)) if i == restart_at else state
        state, decisions, _ = pipeline.step(state, [piece], 0)
        ends += [d.t_end_ns for d in decisions]
    for now_s in range(1, 20):  # in silence
        state, decisions, _ = pipeline.step(state, [], now_s * 1_000_000_000)
        ends += [d.t_end_ns for d in decisions]
    assert ends == expected
    offline = [
        t for b in iter_windows(block, pipeline.shape, settings=stream, closing=True) for t in b.t_end_ns.tolist()
    ]
    n_last = lengths[-1][1] if lengths else 0
    assert offline == (expected[:-1] if n_last > 20 and n_last % 5 else expected)


@given(stamps(), SETTINGS, st.booleans())
def test_offline_windows_are_those_of_the_stream(t_ns, stream, is_clipped):
    """`iter_windows` over a recording and the pipeline fed sample by sample make the same windows, of which the same
    get no verdict: those with a saturated sample, over samples that came late, or with too few.

    Nothing is flagged here: a window that ends where the stream breaks off counts for the stream alone, if flagged.
    """
    block = block_of(t_ns, is_clipped=is_clipped)
    pipeline = Pipeline(replace(toy_model(), threshold=1e9), stream)
    batch = concatenate(list(iter_windows(block, pipeline.shape, settings=stream)), pipeline.shape)
    state, ends = pipeline.initial(), []
    for piece in cut(block, range(len(block))):
        state, decisions, _ = pipeline.step(state, [piece], 0)
        ends += [d.t_end_ns for d in decisions]
    told = shown([batch], pipeline.shape)
    assert ends == told.t_end_ns[~told.is_faulty].tolist()
    doubtful = batch.saturated | batch.lossy | batch.slow
    assert told.is_faulty[doubtful].all()
    assert is_clipped or doubtful[told.is_faulty].all()
