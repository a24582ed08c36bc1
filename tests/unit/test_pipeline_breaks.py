"""Where a stream breaks off: the impact after the last whole hop is looked at, and is no reason to look away."""

import numpy as np
import pytest

from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.windowing import CutterState, WindowShape, closing_window
from tests.unit.test_pipeline import moving
from tests.unit.toy_model import toy_model

STEP_NS = 20_000_000


def falling(n, start_ms=0):
    """n samples in motion, the last of which is an impact of 20 m/s2."""
    block = moving("a", n, start_ms=start_ms)
    block.acc_ms2[-1, 0] = 20.0
    return block


def joined(*blocks):
    return SampleBlock(
        "a",
        np.concatenate([block.t_ns for block in blocks]),
        np.concatenate([block.acc_ms2 for block in blocks]),
        np.concatenate([block.gyr_rads for block in blocks]),
    )


@pytest.mark.parametrize("n_after_hop", range(5))
def test_device_that_dies_in_the_impact_becomes_an_alarm(n_after_hop):
    """At every phase of the hop: nothing but ticks after the impact, and suspected, pending, alarm come."""
    pipeline = Pipeline(toy_model())
    block = falling(200 + n_after_hop)
    end_ns = int(block.t_ns[-1])
    state, told = pipeline.initial(), []
    for piece_ns, piece in [(0, []), (end_ns, [block]), *((end_ns + s * NS_PER_S, []) for s in range(1, 70))]:
        state, _, alerts = pipeline.step(state, piece, piece_ns)
        told += alerts
    assert [alert.state for alert in told if alert.state != "checking"][:3] == ["suspected", "pending", "alarm"]
    assert told[0].t_ns == end_ns
    assert "no_data" in next(alert for alert in told if alert.state == "pending").reasons


@pytest.mark.parametrize("n_after_hop", range(5))
def test_impact_before_a_gap_is_seen_when_the_stream_goes_on(n_after_hop):
    """By stamps alone: the same in one block as in two, with the time of the impact."""
    pipeline, before = Pipeline(toy_model()), falling(200 + n_after_hop)
    after = moving("a", 100, start_ms=10_000)
    _, decisions, alerts = pipeline.step(pipeline.initial(), [joined(before, after)], 0)
    assert alerts[0].t_ns == before.t_ns[-1]
    assert sum(decision.label == "outlier" for decision in decisions) == 1
    state, first, some = pipeline.step(pipeline.initial(), [before], 0)
    _, second, more = pipeline.step(state, [after], 0)
    assert (first + second, some + more) == (decisions, alerts)


def test_quiet_end_of_a_stream_tells_nothing_new():
    """No verdict, no window counted, once and for all: such a window counts only where it is flagged."""
    pipeline = Pipeline(toy_model())
    state, decisions, _ = pipeline.step(pipeline.initial(), [moving("a", 203)], 0)
    n_windows = state.devices["a"].n_windows
    for s in (8, 16, 24, 32):
        state, made, alerts = pipeline.step(state, [], s * NS_PER_S)
        assert (made, alerts) == ([], [])
    assert state.devices["a"].n_windows == n_windows == len(decisions)


def test_closing_window_ends_with_the_last_sample():
    """203 samples, windows of 20 every 5: the last whole one ends with sample 199, the closing one with 202."""
    pipeline = Pipeline(toy_model())
    state, _, _ = pipeline.step(pipeline.initial(), [moving("a", 203)], 0)
    shape = WindowShape.of(rate_hz=50.0, window_s=0.4, hop_s=0.1)
    batch = closing_window(state.devices["a"].cutter, device_id="a", shape=shape)
    assert batch.t_end_ns.tolist() == [202 * STEP_NS]
    expected = moving("a", 203)
    np.testing.assert_allclose(batch.signals[0, :3].T, expected.acc_ms2[183:])


@pytest.mark.parametrize("n", [0, 1, 19, 20, 200])
def test_no_closing_window_in_too_short_a_segment_or_after_a_whole_hop(n):
    """Windows that are there already, and windows that cannot be."""
    shape = WindowShape.of(rate_hz=50.0, window_s=0.4, hop_s=0.1)
    cutter = CutterState()
    if n:
        state, _, _ = Pipeline(toy_model()).step(Pipeline(toy_model()).initial(), [moving("a", n)], 0)
        cutter = state.devices["a"].cutter
    assert len(closing_window(cutter, device_id="a", shape=shape)) == 0


def ticked(pipeline, state, from_ns, until_s=70):
    """The state after so many seconds of ticks alone, and what they bring."""
    decided, told = [], []
    for s in range(1, until_s):
        state, decisions, alerts = pipeline.step(state, [], from_ns + s * NS_PER_S)
        decided, told = decided + decisions, told + alerts
    return state, decided, told


def test_device_that_dies_before_its_first_whole_window_becomes_an_alarm():
    """17 samples of windows of 20, 10 at least, an impact last: looked at in silence, and deadlines count from then."""
    pipeline, block = Pipeline(toy_model(min_window_s=0.2)), falling(17)
    end_ns = int(block.t_ns[-1])
    state, decisions, _ = pipeline.step(pipeline.initial(), [block], end_ns)
    assert decisions == []
    state, [decision], told = ticked(pipeline, state, end_ns)
    assert (decision.label, decision.t_end_ns, decision.score) == ("outlier", end_ns, 20.0)
    assert [alert.state for alert in told if alert.state != "checking"][:3] == ["suspected", "pending", "alarm"]
    whole_alone = Pipeline(toy_model())
    state, _, _ = whole_alone.step(whole_alone.initial(), [block], end_ns)
    assert ticked(whole_alone, state, end_ns)[1:] == ([], [])


def test_short_piece_between_gaps_is_looked_at_in_order():
    """10, 9 and 20 samples, an impact last in each, in one block: the first and the last are judged, in their order."""
    pipeline = Pipeline(toy_model(min_window_s=0.2))
    pieces = [falling(n, start_ms=5000 * i) for i, n in enumerate((10, 9, 20))]
    _, decisions, _ = pipeline.step(pipeline.initial(), [joined(*pieces)], 0)
    assert [decision.t_end_ns for decision in decisions] == [int(pieces[i].t_ns[-1]) for i in (0, 2)]


def test_short_piece_that_is_normal_has_no_verdict():
    """It is no sign of health: a window that ends a stream counts where it is flagged."""
    pipeline = Pipeline(toy_model(min_window_s=0.2))
    state, _, _ = pipeline.step(pipeline.initial(), [moving("a", 17)], 0)
    state, decided, told = ticked(pipeline, state, 0)
    assert (decided, told, state.devices["a"].n_windows) == ([], [], 0)


def test_stream_that_goes_on_after_a_gap_is_not_silent():
    """6 s after its last window and 0.1 s after its last sample nothing ends, though enough came for a short one."""
    pipeline = Pipeline(toy_model(min_window_s=0.2))
    state, _, _ = pipeline.step(pipeline.initial(), [moving("a", 200)], 4 * NS_PER_S)
    state, _, _ = ticked(pipeline, state, 4 * NS_PER_S, until_s=13)
    for start_ms, now_s in ((20_000, 20.1), (20_100, 20.2), (20_200, 20.3)):
        state, decisions, _ = pipeline.step(state, [falling(5, start_ms=start_ms)], round(now_s * NS_PER_S))
        assert decisions == []
