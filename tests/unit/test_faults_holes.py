"""A window in which too few samples came, or over samples that were sent and are not here, is never normal."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulators.faults import load_fault
from simulators.replay import schedule
from stream_occ.checkpoint import dump_state, load_state
from stream_occ.codecs import load_codec
from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.pipeline import Pipeline
from stream_occ.resampling import StreamSettings
from stream_occ.samples import Recording, SampleBlock, joined
from stream_occ.windowing import WindowShape, iter_windows
from tests.property.streams import block_of, cut
from tests.unit.service_bench import JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model

MS = 1_000_000
SHAPE = WindowShape(50.0, 225, 25, 22.5)  # 4.5 s every 0.5 s
LEAST, STRETCH_MS = 63.9, 2840  # 142 steps of the grid, the nearest to 64 samples at 22.5 Hz
CODEC = load_codec("msgpack")


def at(*rates_s: tuple[float, float]) -> np.ndarray:
    """Stamps (ms) of a stream that runs at so many Hz for so many seconds, one rate after another."""
    stamps = [0.0]
    for hz, length_s in rates_s:
        stamps += [stamps[-1] + 1000 / hz * (i + 1) for i in range(round(hz * length_s))]
    return np.rint(stamps).astype(np.int64)


def slow_windows(t_ms: np.ndarray, *, closing: bool = False) -> list[tuple[int, bool]]:
    """(start in ms, whether it is slow) of all windows."""
    batches = iter_windows(block_of(t_ms * MS), SHAPE, closing=closing)
    return [(round(t / MS), bool(slow)) for b in batches for t, slow in zip(b.t_start_ns, b.slow, strict=True)]


@pytest.mark.parametrize(("hz", "is_slow"), [(20.0, True), (22.0, True), (23.0, False), (25.0, False), (84.0, False)])
def test_stream_of_one_rate_is_slow_throughout_or_nowhere(hz: float, is_slow: bool) -> None:
    """The model of 50 Hz takes every second sample, and a tenth less: 22.5 Hz."""
    told = slow_windows(at((hz, 10.0)))
    assert len(told) == 12
    assert {slow for _, slow in told} == {is_slow}


def test_window_that_is_slow_in_part_is_slow() -> None:
    """10 Hz for 3 s in the midst of 50 Hz: whatever has 2.84 s of it with fewer than 64 samples."""
    told = dict(slow_windows(at((50.0, 6.0), (10.0, 3.0), (50.0, 8.0))))
    # With d s of the slow part, 10 d + 50 (2.84 - d) < 63.9 from d = 1.95 on: windows that hold 7.05 to 7.95 s so far.
    assert [start for start, slow in told.items() if slow] == list(range(3500, 7001, 500))


def test_hole_makes_a_fast_stream_not_slow_and_a_slow_one_it_does() -> None:
    """0.4 s without samples leave 122 of 142 at 50 Hz, and 61 of 71 at 25 Hz."""
    for hz, n_slow in ((50.0, 0), (25.0, 9)):
        t_ms = at((hz, 20.0))
        told = slow_windows(t_ms[(t_ms <= 10_000) | (t_ms >= 10_400)])
        assert sum(slow for _, slow in told) == n_slow


@given(st.lists(st.integers(10, 90), min_size=60, max_size=160), st.sampled_from([1, 2, 3]), st.booleans())
def test_slow_windows_are_those_that_a_count_by_hand_finds(steps_ms: list[int], speed: int, closing: bool) -> None:
    """For every stretch of 2.84 s from a grid sample on, and for windows before a gap off the hop, too."""
    steps = [step // speed for step in steps_ms for _ in range(speed)]
    t_ms = np.cumsum([0, *steps, 600, *steps])
    for start, slow in slow_windows(t_ms, closing=closing):
        counts = [
            ((t_ms > a) & (t_ms <= a + STRETCH_MS)).sum() for a in range(start, start + 4480 - STRETCH_MS + 1, 20)
        ]
        assert slow == (min(counts) < LEAST)


def bunched(batch_s: float, factor: float, *, length_s: float = 20.0, hz: float = 50.0) -> np.ndarray:
    """Stamps (ms) of batches of which each begins in time and is stamped so much too fast."""
    i, n = np.arange(round(length_s * hz)), round(batch_s * hz)
    return np.rint((i // n * n + i % n / factor) * 1000 / hz).astype(np.int64)


@pytest.mark.parametrize(
    ("batch_s", "factor", "is_full"),
    [(0.2, 1.0, False), (0.2, 1.5, True), (0.2, 2.0, True), (0.2, 4.0, True), (1.0, 1.5, True), (1.0, 1.1, False)],
)
def test_window_that_is_full_of_holes_is_never_normal(batch_s: float, factor: float, is_full: bool) -> None:
    """Enough samples came for their number, in bunches: between them at least 0.18 of the time was made up."""
    batches = list(iter_windows(block_of(bunched(batch_s, factor) * MS), SHAPE))
    lossy = np.concatenate([batch.lossy for batch in batches])
    assert len(lossy) >= 30
    assert set(lossy.tolist()) == {is_full}
    assert not any(batch.slow.any() for batch in batches)


@pytest.mark.parametrize("hz", [23.0, 25.0, 31.0, 50.0, 100.0])
def test_jitter_makes_no_holes(hz: float) -> None:
    """Of a sixth of an interval (standard deviation), at any rate that is not too slow."""
    rng = np.random.default_rng(5)
    t_ms = np.unique(np.rint(np.arange(round(60 * hz)) * 1000 / hz + rng.normal(0, 1000 / hz / 6, round(60 * hz))))
    batches = iter_windows(block_of(t_ms.astype(np.int64) * MS), SHAPE)
    assert not any(batch.lossy.any() for batch in batches)


@given(st.lists(st.sampled_from([5, 5, 20, 20, 90, 160]), min_size=60, max_size=160), st.booleans())
def test_windows_full_of_holes_are_those_that_a_count_by_hand_finds(steps_ms: list[int], closing: bool) -> None:
    """A grid sample lies in a hole where none came since the one two before it."""
    t_ms = np.cumsum([0, *steps_ms, 600, *steps_ms])
    for batch in iter_windows(block_of(t_ms * MS), SHAPE, closing=closing):
        for start_ns, lossy in zip(batch.t_start_ns.tolist(), batch.lossy.tolist(), strict=True):
            grid_ms = [start_ns / MS + 20 * i for i in range(batch.n_samples)]
            n_holes = sum(not any(a < t <= b for t in t_ms) for a, b in zip(grid_ms, grid_ms[2:], strict=False))
            assert lossy == (n_holes > 0.18 * batch.n_samples)


@pytest.mark.parametrize(("hz", "is_slow"), [(20.0, True), (25.0, False)])
def test_evaluation_leaves_out_what_the_service_gives_no_verdict(hz: float, is_slow: bool) -> None:
    """A recording of which every window is slow is unscored; both look at the windows."""
    recording = Recording("test", "1", "WAL", "1", False, None, "waist", block_of(at((hz, 10.0)) * MS))
    trial = extract_trial(recording, FrontEnd("fall31", 50.0, 4.5, 0.5))
    assert (trial.is_slow, len(trial.X)) == (is_slow, 0 if is_slow else 12)


SETTINGS = (StreamSettings(), StreamSettings(reorder_s=0.1))


@pytest.mark.parametrize(("stream", "first"), [(SETTINGS[0], 31), (SETTINGS[1], 26)])
def test_window_over_a_sample_that_came_too_late_has_no_verdict(stream: StreamSettings, first: int) -> None:
    """Sample 20 comes behind sample 30, after windows to its place were decided. Of the windows of 20 every 5, those
    that hold a grid sample from there to the next sample that was released: 31, or 26 where samples wait for 0.1 s."""
    order = [*range(20), *range(21, 31), 20, *range(31, 100)]
    block = block_of(np.array(order) * 20 * MS)
    pipeline = Pipeline(toy_model(threshold=1e6), stream)
    _, decisions, _ = pipeline.step(pipeline.initial(), [block], 0)
    ends = [round(d.t_end_ns / (20 * MS)) for d in decisions]
    n_waiting = 0 if stream.reorder_s == 0 else 5
    assert ends == [end for end in range(19, 100 - n_waiting, 5) if not end - 19 <= first <= end]


@st.composite
def troubled(draw: st.DrawFn) -> SampleBlock:
    """Samples of 50 Hz, of which some are lost, some come late, and some stretches crawl."""
    steps = draw(st.lists(st.sampled_from([20, 20, 20, 20, 80, 300, 600]), min_size=40, max_size=160))
    t_ms = np.cumsum(steps)
    delay = draw(st.lists(st.sampled_from([0] * 12 + [50, 500]), min_size=len(steps), max_size=len(steps)))
    order = np.argsort(t_ms + np.array(delay), kind="stable")
    lost = draw(st.lists(st.integers(0, len(steps) - 1), max_size=4, unique=True))
    return replace(block_of(t_ms[order] * MS), lost_rows=np.array(sorted(lost), dtype=np.int64))


def pieces_of(block: SampleBlock, points: list[int]) -> list[SampleBlock]:
    """The block cut at rows, each piece with the losses before its own samples."""
    pieces, first = [], 0
    for piece in cut(block, points):
        rows = block.lost_rows - first
        pieces.append(replace(piece, lost_rows=rows[(rows >= 0) & (rows < len(piece))]))
        first += len(piece)
    return pieces


@given(troubled(), st.lists(st.integers(0, 160), max_size=8), st.sampled_from(SETTINGS), st.integers(0, 8))
def test_any_cutting_and_restart_gives_the_same_verdicts(
    block: SampleBlock, points: list[int], stream: StreamSettings, restart_at: int
) -> None:
    """One block, its pieces, or its pieces joined again: equal decisions and, but for arrival, state."""
    pipeline = Pipeline(toy_model(threshold=1e6), stream)
    whole, decisions, _ = pipeline.step(pipeline.initial(), [block], 0)
    state, made = pipeline.initial(), []
    for i, piece in enumerate(pieces_of(block, points)):
        state = load_state(dump_state(state)) if i == restart_at else state
        state, more, _ = pipeline.step(state, [piece], 0)
        made += more
    assert made == decisions
    again, same, _ = pipeline.step(pipeline.initial(), joined(pieces_of(block, points)), 0)
    assert same == decisions
    assert dump_state(again) == dump_state(whole)


@given(troubled(), st.sampled_from(SETTINGS))
def test_no_window_over_a_loss_is_normal(block: SampleBlock, stream: StreamSettings) -> None:
    """A window that holds the sample after a loss, and the one before it, has no verdict; where none came late."""
    order = np.argsort(block.t_ns)
    block = replace(block_of(block.t_ns[order]), lost_rows=block.lost_rows)
    pipeline = Pipeline(toy_model(threshold=1e6), stream)
    _, decisions, _ = pipeline.step(pipeline.initial(), [block], 0)
    for decision in decisions:
        start_ns = decision.t_end_ns - 380 * MS
        for after in block.lost_rows[block.lost_rows > 0]:
            assert not (start_ns <= block.t_ns[after - 1] and block.t_ns[after] <= decision.t_end_ns)


def played(fault: str | None, *, hz: float = 50.0, length_s: float = 30.0) -> Bench:
    """The service after a recording of hz was replayed to it with a fault, in messages of a quarter of a second."""
    bench = Bench(
        toy_model(threshold=1e6, window_s=3.0, hop_s=0.5),
        inputs=[{"pattern": "wearables/{device}/imu", "codec": "msgpack"}],
        output={"state_interval_s": 0.25},
    )
    recording = Recording("test", "1", "WAL", "1", False, None, "waist", block_of(at((hz, length_s)) * MS))
    disturb = (lambda block: block) if fault is None else load_fault(fault)()
    for due in schedule({"w1": [recording]}, start_ns=T0_NS, batch_s=0.25):
        block = disturb(due.block)
        bench.now_s = due.due_s
        if len(block):
            assert bench.deliver("wearables/w1/imu", CODEC.encode(block))
        bench.run()
    return bench


@pytest.mark.parametrize(
    ("fault", "name", "counts"),
    [
        (None, None, "none"),
        ("lost:8", "missing", "all"),  # every 2 s, and a window is of 3 s
        ("lost:30", "missing", "some"),  # windows of 3 s every 0.5 s over 0.26 s: 6 or 7 each, and fewer at the end
        ("order:20", "late", "all"),
        ("rate:2.5", "rate_too_low", "all"),  # 20 Hz
        ("rate:2", None, "none"),  # 25 Hz
    ],
)
def test_fault_that_makes_holes_costs_the_windows_it_touches(fault: str | None, name: str | None, counts: str) -> None:
    """None of them is normal; the others are."""
    bench = played(fault)
    state = bench.state()
    n, n_unscorable = state["counters"]["windows"], state["counters"].get("unscorable", 0)
    told = {each for message in bench.link.of("stream_occ/w1/state") for each in message["faults"]}
    assert told - {"unscorable", "not_scored", "no_data"} == ({name} if name else set())
    assert {"none": n_unscorable == 0, "some": 18 < n_unscorable <= 28, "all": n_unscorable >= n - 4}[counts]
    assert n > 40


@pytest.mark.parametrize(("moved", "name"), [(10**6, "epoch_unit"), (1, "stamp_out_of_range"), (None, "missing")])
def test_message_that_was_refused_or_lost_leaves_windows_without_a_verdict(moved: int | None, name: str) -> None:
    """Of 30 messages of 5 samples the 15th: samples 70 to 74. Of 27 windows of 20 every 5 those that hold a grid sample
    of the hole or its end, 70 to 75, end at 74 to 94."""
    bench = Bench(toy_model(threshold=1e6))
    for number in range(30):
        t_ns = T0_NS + np.arange(5 * number, 5 * number + 5) * 20 * MS
        block = replace(block_of(t_ns), number=(1, number))
        if number == 14:
            if moved is None:
                continue
            block = replace(block, t_ns=block.t_ns // moved - (0 if moved > 1 else 10**18), number=None)
        bench.deliver("wearables/w1/imu", JSON.encode(block))
        bench.run(0.1)
    bench.run(60.0)  # until the counters are told again
    counters = bench.state()["counters"]
    assert (counters[name], counters["windows"], counters["unscorable"]) == (1, 27, 5)
