"""Uniform samples from jittered, late, doubled, bursty and backward stamps; a hole stays a hole.

Every rule speaks of single samples in the order in which they come, so that any cutting of a stream into messages
gives the same grid, bit for bit, and only differences of stamps enter: shifting a stream in time changes nothing.

1. Order. A sample waits until the newest stamp seen is `reorder_s` ahead of it; one that comes later than that is
   refused and counted `late`; of equal stamps the first is kept, the rest are counted `duplicate`, and so is a late
   sample that is one of the last SEEN_SAMPLES, stamp and values: it was sent twice. The sample that is released next
   after a late one, or after some that were sent and are not here, is marked: it ends a loss.
2. Clock. `CLOCK_RESET_SAMPLES` late samples in a row: the device's clock has been set back, and a new segment starts
   with them, from where they rise to the end. Until then they are held, and are late once one comes in time.
3. Gap. Two samples more than `gap_s` apart end a segment; a shorter hole is interpolated and its grid points counted.
4. Grid. Sample k of a segment lies at its first stamp + round(k 1e9 / rate_hz) ns; its value is on the straight line
   between the two samples around it. Nothing is made up beyond the last sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from stream_occ.grid import HOLE_STEPS, GridChunk, grid_chunk
from stream_occ.quality import RailState, push_rail
from stream_occ.samples import NS_PER_S, FloatArray, IntArray, SampleBlock

CLOCK_RESET_SAMPLES = 25  # half a second at 50 Hz: longer than any burst of stragglers in the recorded sets
SEEN_SAMPLES = 1024  # 20 s at 50 Hz: twice as long as any message of a device here, and 8 kB of its state
RATE_STAMPS = 65  # the measured rate is that of the last 64 intervals


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """gap_s > 0: the longest hole to be interpolated, s. reorder_s >= 0: how long a sample waits for stragglers, s."""

    gap_s: float = 0.5
    reorder_s: float = 0.0

    @property
    def gap_ns(self) -> int:
        """gap_s in ns."""
        return round(self.gap_s * NS_PER_S)

    @property
    def reorder_ns(self) -> int:
        """reorder_s in ns."""
        return round(self.reorder_s * NS_PER_S)


@dataclass(frozen=True, slots=True)
class StreamCounters:
    """What happened to a device's samples since its first one."""

    n_samples: int = 0
    late: int = 0
    duplicate: int = 0
    clock_reset: int = 0
    gap: int = 0
    interpolated: int = 0
    saturated: int = 0


_MARK_WEIGHTS: IntArray = np.array([3, 5, 7, 11, 13, 17], dtype=np.int64) * 0x1000_0001_0000_0F  # odd
_NO_T: IntArray = np.empty(0, dtype=np.int64)
_NO_V: FloatArray = np.empty((0, 6))
_Sample = tuple[int, FloatArray]  # stamp, the six values
_Changes = dict[str, Any]  # fields of the state that have other values after a message


@dataclass(frozen=True, slots=True, eq=False)
class ResamplerState:
    """Where a device's stream stands. max_t_ns: newest stamp of this clock; last_*: newest released sample;
    anchor_t_ns, n_grid, n_released: start of the segment, grid points and samples in it; waiting_*: accepted, not yet
    released; late*: the last ones, which are late or begin another clock; seen: `_marks` of the last SEEN_SAMPLES,
    without doubles; rail: of what was released; saturated_t_ns, lossy_t_ns: its samples that are saturated, and those
    right after a loss that was bridged, that may touch a grid sample to come; lost_t_ns: the earliest stamps that the
    samples right after losses may have, where those are still to come; is_after_loss: the next
    sample that comes follows one."""

    max_t_ns: int | None = None
    late_t_ns: IntArray = field(default_factory=lambda: _NO_T)
    late: FloatArray = field(default_factory=lambda: _NO_V)
    waiting_t_ns: IntArray = field(default_factory=lambda: _NO_T)
    waiting: FloatArray = field(default_factory=lambda: _NO_V)
    last_t_ns: int | None = None
    last: FloatArray = field(default_factory=lambda: _NO_V)
    anchor_t_ns: int = 0
    n_grid: int = 0
    n_released: int = 0
    recent_t_ns: IntArray = field(default_factory=lambda: _NO_T)
    seen: IntArray = field(default_factory=lambda: _NO_T)
    rail: RailState = field(default_factory=RailState)
    saturated_t_ns: IntArray = field(default_factory=lambda: _NO_T)
    lossy_t_ns: IntArray = field(default_factory=lambda: _NO_T)
    lost_t_ns: IntArray = field(default_factory=lambda: _NO_T)
    is_after_loss: bool = False
    counters: StreamCounters = StreamCounters()

    @property
    def measured_rate_hz(self) -> float | None:
        """Samples a second over the last 64 intervals of the segment; None before there are two samples."""
        if self.recent_t_ns.size < 2:
            return None
        return (self.recent_t_ns.size - 1) * NS_PER_S / float(self.recent_t_ns[-1] - self.recent_t_ns[0])

    def hole_share(self, rate_hz: float) -> float:
        """Share of the time of the last 64 intervals that is more than a grid's two steps after the sample before."""
        if self.recent_t_ns.size < RATE_STAMPS:
            return 0.0
        beyond_ns = np.diff(self.recent_t_ns) - HOLE_STEPS * NS_PER_S / rate_hz
        return float(np.maximum(beyond_ns, 0).sum() / (self.recent_t_ns[-1] - self.recent_t_ns[0]))

    @property
    def segment_s(self) -> float:
        """For how long samples have come without a gap."""
        return 0.0 if self.last_t_ns is None else (self.last_t_ns - self.anchor_t_ns) / NS_PER_S

    @property
    def measured_jitter_ms(self) -> float | None:
        """Standard deviation of the last 64 intervals of the segment, ms; None before there are two samples."""
        return float(np.diff(self.recent_t_ns).std()) / 1e6 if self.recent_t_ns.size > 1 else None


def resample(
    state: ResamplerState, block: SampleBlock, *, rate_hz: float, settings: StreamSettings
) -> tuple[ResamplerState, list[GridChunk]]:
    """The grid samples that `block` completes, in order, and the state after it."""
    chunks: list[GridChunk] = []
    is_after_loss = False
    if block.found_t_ns.size:
        state = replace(state, lost_t_ns=state.lost_t_ns[~np.isin(state.lost_t_ns, block.found_t_ns)])
    if block.lost_rows.size or state.is_after_loss:
        block, is_after_loss = _with_losses(block, state)
    values = np.concatenate((block.acc_ms2, block.gyr_rads), axis=1)
    n_samples = state.counters.n_samples + len(block)
    parts, marks = _admit(state, block, values, settings.reorder_ns)
    for part in parts:
        if part.resets:
            state = _reset_clock(state, block.full_scale, rate_hz, settings, chunks)
        if part.lost_t_ns:
            lost_t_ns = np.array(part.lost_t_ns, dtype=np.int64)
            state = replace(state, lost_t_ns=np.concatenate([state.lost_t_ns, lost_t_ns]))
        waiting, n_double, t_ns, released = _release(state, part.t_ns, part.values, settings.reorder_ns)
        made, tally = _interpolate(state, t_ns, released, block.full_scale, rate_hz, settings, chunks)
        tally = {"late": part.late, "duplicate": part.duplicate + n_double, **tally}
        counters = replace(_counted(state.counters, tally), n_samples=n_samples)
        state = replace(state, **marks, **waiting, **made, counters=counters)  # each costs as much as five numpy calls
    return state if state.is_after_loss == is_after_loss else replace(state, is_after_loss=is_after_loss), chunks


def _with_losses(block: SampleBlock, state: ResamplerState) -> tuple[SampleBlock, bool]:
    """The block with the losses before its own samples, and whether one is behind the last of them."""
    rows = np.union1d(block.lost_rows, [0]) if state.is_after_loss else block.lost_rows
    own = rows[rows < len(block)]
    own = own[~np.isin(block.t_ns[own], block.found_t_ns)]
    return replace(block, lost_rows=own), bool((rows >= len(block)).any())


def _counted(counters: StreamCounters, tally: dict[str, int]) -> StreamCounters:
    more = {name: getattr(counters, name) + n for name, n in tally.items() if n}
    return replace(counters, **more) if more else counters


def _marks(t_ns: IntArray, values: FloatArray) -> IntArray:
    """A number (n,) for each sample (n, 6) that only the same stamp and values have; integers, so in any order."""
    bits: IntArray = np.ascontiguousarray(values).view(np.int64) @ _MARK_WEIGHTS
    return bits + t_ns


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Samples that are kept, on one clock, and how many were refused; resets: the clock was set back before them;
    lost_t_ns: as in `ResamplerState`."""

    t_ns: IntArray
    values: FloatArray
    late: int
    duplicate: int
    resets: bool
    lost_t_ns: list[int]


def _admit(
    state: ResamplerState, block: SampleBlock, values: FloatArray, reorder_ns: int
) -> tuple[list[_Part], _Changes]:
    """The block's samples sorted into kept, late and duplicate; and the state's late ones, and marks, at its end."""
    t_ns = block.t_ns
    if t_ns.size == 0:
        return [], {}
    marks = _marks(t_ns, values)
    newest = int(t_ns[0]) - 1 - reorder_ns if state.max_t_ns is None else state.max_t_ns
    before = np.maximum.accumulate(np.concatenate(([newest], t_ns[:-1])))  # the newest stamp before each row
    if (t_ns > before - reorder_ns).all():
        lost_t_ns = [newest - reorder_ns + 1] if state.late_t_ns.size else []
        lost_t_ns += t_ns[block.lost_rows].tolist()
        part = _Part(t_ns, values, state.late_t_ns.size, 0, resets=False, lost_t_ns=lost_t_ns)
        return [part], {"late_t_ns": _NO_T, "late": _NO_V, "seen": _last(SEEN_SAMPLES, state.seen, marks)}
    run = list(zip(state.late_t_ns.tolist(), state.late, strict=True))
    seen = _Seen(state.seen)
    is_lost = np.isin(np.arange(t_ns.size), block.lost_rows).tolist()
    rows = zip(t_ns.tolist(), values, marks.tolist(), is_lost, strict=True)
    parts = list(_admit_one_by_one(newest, run, rows, seen, reorder_ns))
    last = _last(SEEN_SAMPLES, state.seen, np.array(seen.added, dtype=np.int64))
    late_t_ns, late = _stacked(run)
    return parts, {"late_t_ns": late_t_ns, "late": late, "seen": last}


def _last(n: int, before: IntArray, after: IntArray) -> IntArray:
    """The last n numbers of both."""
    return np.concatenate([before[max(0, before.size + after.size - n) :], after[-n:]])


class _Seen:
    """Tells which marks are among the last SEEN_SAMPLES."""

    def __init__(self, marks: IntArray) -> None:
        self.added: list[int] = []
        self._n = int(marks.size)
        self._place: dict[int, int] = dict(zip(marks.tolist(), range(self._n), strict=True))

    def __contains__(self, mark: int) -> bool:
        return self._place.get(mark, -1) >= max(0, self._n - SEEN_SAMPLES)

    def add(self, mark: int) -> None:
        self.added.append(mark)
        self._place[mark] = self._n
        self._n += 1


def _admit_one_by_one(
    newest: int, run: list[_Sample], rows: Iterable[tuple[int, FloatArray, int, bool]], seen: _Seen, reorder_ns: int
) -> Iterator[_Part]:
    """As `_admit`, row by row: only blocks with a late or doubled stamp come. run: the late ones in a row so far."""
    kept: list[_Sample] = []
    lost: list[int] = []
    late, duplicate, resets = 0, 0, False
    for t, row, mark, is_lost in rows:
        is_late = t <= newest - reorder_ns
        if is_lost:
            lost.append(max(t, newest - reorder_ns + 1))
        if is_late and (t == newest or mark in seen):  # the first without a reorder buffer alone
            duplicate += 1
            continue
        seen.add(mark)
        if not is_late:
            if run:
                lost.append(newest - reorder_ns + 1)
            late += len(run)
            run.clear()
            kept.append((t, row))
            newest = max(newest, t)
            continue
        run.append((t, row))
        if len(run) == CLOCK_RESET_SAMPLES:
            yield _Part(*_stacked(kept), late, duplicate, resets, lost)
            first = max((i for i in range(1, len(run)) if run[i][0] <= run[i - 1][0]), default=0)
            kept, newest = run[first:], t
            late, duplicate, resets, lost = first, 0, True, []
            run.clear()
    yield _Part(*_stacked(kept), late, duplicate, resets, lost)


def _stacked(samples: Sequence[_Sample]) -> tuple[IntArray, FloatArray]:
    if not samples:
        return _NO_T, _NO_V
    t_ns = np.array([t for t, _ in samples], dtype=np.int64)
    return t_ns, np.array([row for _, row in samples], dtype=np.float64).reshape(-1, 6)


def _release(
    state: ResamplerState, t_ns: IntArray, values: FloatArray, reorder_ns: int
) -> tuple[_Changes, int, IntArray, FloatArray]:
    """Adds accepted samples to those waiting; takes out, sorted and without doubles, those that wait no longer.

    What changes in the state, how many were doubles, and what was taken out.
    """
    if t_ns.size == 0:
        return {}, 0, _NO_T, _NO_V
    newest = int(t_ns.max()) if state.max_t_ns is None else max(state.max_t_ns, int(t_ns.max()))
    if reorder_ns == 0:  # admitted stamps rise strictly
        return {"max_t_ns": newest}, 0, t_ns, values
    t_ns = np.concatenate([state.waiting_t_ns, t_ns])
    values = np.concatenate([state.waiting, values])
    order = np.argsort(t_ns, kind="stable")
    t_ns, values = t_ns[order], values[order]
    first = np.ones(t_ns.size, dtype=np.bool_)
    first[1:] = t_ns[1:] != t_ns[:-1]
    n_double = int(t_ns.size - first.sum())
    t_ns, values = t_ns[first], values[first]
    n_ready = int(np.searchsorted(t_ns, newest - reorder_ns, side="right"))
    waiting = {"waiting_t_ns": t_ns[n_ready:].copy(), "waiting": values[n_ready:].copy()}
    return {"max_t_ns": newest, **waiting}, n_double, t_ns[:n_ready], values[:n_ready]


def _reset_clock(
    state: ResamplerState,
    full_scale: tuple[float, float],
    rate_hz: float,
    settings: StreamSettings,
    chunks: list[GridChunk],
) -> ResamplerState:
    """Lets those waiting go on the old clock, then forgets it."""
    made, tally = _interpolate(state, state.waiting_t_ns, state.waiting, full_scale, rate_hz, settings, chunks)
    counters = _counted(state.counters, {"clock_reset": 1, **tally})
    return ResamplerState(counters=counters, rail=made.get("rail", state.rail))


def _interpolate(
    state: ResamplerState,
    t_ns: IntArray,
    values: FloatArray,
    full_scale: tuple[float, float],
    rate_hz: float,
    settings: StreamSettings,
    chunks: list[GridChunk],
) -> tuple[_Changes, dict[str, int]]:
    """Cuts released samples at gaps and appends the grid samples that each stretch completes to `chunks`; what changes
    in the state, and what is to be counted."""
    if t_ns.size == 0:
        return {}, {}
    rail, is_saturated = push_rail(state.rail, values, full_scale=full_scale)
    new_t = _NO_T if is_saturated is None else t_ns[is_saturated]
    saturated_t = np.concatenate([state.saturated_t_ns, new_t]) if new_t.size else state.saturated_t_ns
    if state.last_t_ns is not None:
        t_ns = np.concatenate([[state.last_t_ns], t_ns])
        values = np.concatenate([state.last, values])
    lossy_t, lost_t = _find_losses(state, t_ns, settings.gap_ns)
    cuts = (t_ns[1:] - t_ns[:-1] > settings.gap_ns).nonzero()[0] + 1
    bounds = [0, *cuts.tolist(), t_ns.size]
    is_new = state.last_t_ns is None
    anchor, n_grid, recent = state.anchor_t_ns, state.n_grid, state.recent_t_ns
    n_released, interpolated = state.n_released, 0
    for start, stop in pairwise(bounds):
        t, v = t_ns[start:stop], values[start:stop]
        if start > 0 or is_new:
            anchor, n_grid, n_released, recent = int(t[0]), 0, 1, t[:1]
        recent = _last(RATE_STAMPS, recent, t[1:])
        chunk = grid_chunk(t, v, anchor, n_grid, n_released - 1, rate_hz, (saturated_t, lossy_t))
        n_released += len(t) - 1
        if chunk is not None:
            interpolated += 0 if chunk.bridges is None else int(np.count_nonzero(chunk.bridges))
            chunks.append(chunk)
            n_grid += len(chunk.values)
    last_t_ns = int(t_ns[-1])
    kept_ns = last_t_ns - round(NS_PER_S / rate_hz) - 1  # the last grid sample is not older than that
    made = {
        "last_t_ns": last_t_ns,
        "last": values[-1:].copy(),
        "anchor_t_ns": anchor,
        "n_grid": n_grid,
        "n_released": n_released,
        "recent_t_ns": recent,
        "rail": rail,
        "saturated_t_ns": _later(saturated_t, kept_ns),
        "lossy_t_ns": _later(lossy_t, kept_ns),
        "lost_t_ns": lost_t,
    }
    return made, {"gap": len(cuts), "interpolated": interpolated, "saturated": new_t.size}


def _find_losses(state: ResamplerState, t_ns: IntArray, gap_ns: int) -> tuple[IntArray, IntArray]:
    """lossy_t_ns and lost_t_ns of the state once the first samples after losses are among these, the last released one
    first; a loss longer than a gap is one, and bridged by nothing."""
    if not state.lost_t_ns.size:
        return state.lossy_t_ns, state.lost_t_ns
    at = np.searchsorted(t_ns, state.lost_t_ns)
    is_here = at < t_ns.size
    found = np.unique(at[is_here & (at > 0)])
    found = found[t_ns[found] - t_ns[found - 1] <= gap_ns]
    return np.concatenate([state.lossy_t_ns, t_ns[found]]), state.lost_t_ns[~is_here]


def _later(t_ns: IntArray, than_ns: int) -> IntArray:
    return t_ns[t_ns >= than_ns] if t_ns.size else _NO_T
