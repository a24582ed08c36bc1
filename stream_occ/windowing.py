"""Windows of a uniform stream, one by one or stacked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from stream_occ.filtering import sos_filter, sos_initial_state
from stream_occ.grid import HOLE_STEPS, GridChunk, grid_offset_ns
from stream_occ.quality import HELD_BITS, N_SIGNALS, SIGNAL_BITS, HoldState, held_signals
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import NS_PER_S, BoolArray, FloatArray, IntArray, SampleBlock, Window

BRIDGED, SATURATED, LOSSY, SLOW = ((HELD_BITS + 1) << n for n in range(4))  # the next bits
MOST_OF_HOLES = 0.18  # of a window; batches stamped 1.5 times too fast have .2, and .75 % of MobiFall's windows as much
STRETCH_SAMPLES = 64  # as many intervals as the measured rate is of: windows and `rate_too_low` tell the same
_NO_HELD: IntArray = np.empty(0, dtype=np.int64)
_NO_SIGNALS: FloatArray = np.empty((6, 0))


@dataclass(frozen=True, slots=True, eq=False)
class WindowBatch:
    """n windows of equal length and rate, of any devices.

    device_ids: n names; t_start_ns: int64 (n,); signals: float64 (n, 6, m), rows acc x, y, z (m/s2), gyr x, y, z
    (rad/s); the last axis is contiguous, so that every reduction over it has one order whatever the batch. held: int64
    (n,), bit r is set where signal r kept one value for long (`quality.held_signals`), bit 6 + r where it did up to the
    window's end, bit 12 where one stalled, bit 13 where a hole was bridged in it, bit 14 where a sample of it is
    saturated, bit 15 where a loss was bridged in it or much of it is holes, bit 16 where too few samples came in it;
    None: nobody has looked.
    is_closing: bool (n,), made by `closing_window`; None: none of them. raw: the signals before the model's filter,
    (n, 6, m); None: there was none.
    """

    device_ids: tuple[str, ...]
    t_start_ns: IntArray
    rate_hz: float
    signals: FloatArray
    held: IntArray | None = None
    is_closing: BoolArray | None = None
    raw: FloatArray | None = None

    def __len__(self) -> int:
        return int(self.signals.shape[0])

    @property
    def n_samples(self) -> int:
        """Samples in a window."""
        return int(self.signals.shape[2])

    @property
    def t_end_ns(self) -> IntArray:
        """Stamps (n,) of the windows' last samples."""
        ends: IntArray = self.t_start_ns + round((self.n_samples - 1) * NS_PER_S / self.rate_hz)
        return ends

    @property
    def unfiltered(self) -> FloatArray:
        """The signals (n, 6, m) as the sensor made them: a model's low-pass takes noise away, and with it the sign."""
        return self.signals if self.raw is None else self.raw

    @property
    def bridged(self) -> BoolArray:
        """Which of the n windows have interpolated samples, with none near that the device sent."""
        return np.zeros(len(self), dtype=np.bool_) if self.held is None else self.held & BRIDGED != 0

    @property
    def saturated(self) -> BoolArray:
        """Which of the n windows have a sample at the sensor's full scale (`quality.push_rail`)."""
        return np.zeros(len(self), dtype=np.bool_) if self.held is None else self.held & SATURATED != 0

    @property
    def lossy(self) -> BoolArray:
        """Which of the n windows bridge samples that were sent and lost, refused or late, or are full of holes."""
        return np.zeros(len(self), dtype=np.bool_) if self.held is None else self.held & LOSSY != 0

    @property
    def slow(self) -> BoolArray:
        """Which of the n windows came, or came in part, at less than `WindowShape.min_stream_hz`."""
        return np.zeros(len(self), dtype=np.bool_) if self.held is None else self.held & SLOW != 0

    @property
    def closes(self) -> BoolArray:
        """Which of the n windows end a segment off the hop: such a one counts where it is flagged alone."""
        return np.zeros(len(self), dtype=np.bool_) if self.is_closing is None else self.is_closing


WindowsLike = WindowBatch | Sequence[Window]


def as_batch(windows: WindowsLike) -> WindowBatch:
    """Windows stacked; raises ValueError where lengths or rates differ, or where there is none to tell the length."""
    if isinstance(windows, WindowBatch):
        return windows
    if not windows:
        raise ValueError("windows must hold at least one window; an empty WindowBatch carries its own length")
    first = windows[0]
    m, rate_hz = first.acc_ms2.shape[0], first.rate_hz
    signals = np.empty((len(windows), 6, m))
    for i, window in enumerate(windows):
        if window.acc_ms2.shape != (m, 3) or window.gyr_rads.shape != (m, 3) or window.rate_hz != rate_hz:
            raise ValueError(
                f"windows must all have shape ({m}, 3) at {rate_hz} Hz; window {i} has {window.acc_ms2.shape} and "
                f"{window.gyr_rads.shape} at {window.rate_hz} Hz"
            )
        signals[i, :3] = window.acc_ms2.T
        signals[i, 3:] = window.gyr_rads.T
    t_start_ns = np.array([window.t_start_ns for window in windows], dtype=np.int64)
    return WindowBatch(tuple(window.device_id for window in windows), t_start_ns, rate_hz, signals)


@dataclass(frozen=True, slots=True)
class WindowShape:
    """length and hop of windows in samples, both at least 1, on a grid of rate_hz; min_stream_hz: the slowest stream
    of which a window tells enough; n_least: samples from which on a segment that ends before its first whole window is
    a window of its own, None: it never is."""

    rate_hz: float
    n_samples: int
    n_hop: int
    min_stream_hz: float = 0.0
    n_least: int | None = None

    @classmethod
    def of(
        cls,
        *,
        rate_hz: float,
        window_s: float,
        hop_s: float,
        min_stream_hz: float = 0.0,
        min_window_s: float | None = None,
    ) -> WindowShape:
        """The shape nearest to a window length, hop and least length in seconds."""
        n_samples, n_hop = max(1, round(window_s * rate_hz)), max(1, round(hop_s * rate_hz))
        n_least = None if min_window_s is None else max(1, round(min_window_s * rate_hz))
        return cls(rate_hz, n_samples, n_hop, min_stream_hz, n_least)

    def are_slow(self, n_came: IntArray, first: IntArray) -> BoolArray | None:
        """Which of the windows from `first` (n,) on are slow, n_came as in `GridChunk`; None: none of them.

        A window is where less than min_stream_hz comes in a stretch of it, of the time of 64 samples at that rate or of
        the whole window where that is shorter: a second half that crawls is not made good by a first that runs.
        """
        if self.min_stream_hz <= 0.0 or self.n_samples == 1:
            return None
        n_steps = min(self.n_samples - 1, round(STRETCH_SAMPLES * self.rate_hz / self.min_stream_hz))
        is_slow = n_came[n_steps:] - n_came[:-n_steps] < self.min_stream_hz * n_steps / self.rate_hz
        if not np.count_nonzero(is_slow):
            return None
        slow: BoolArray = np.logical_or.reduce(sliding_window_view(is_slow, self.n_samples - n_steps)[first], axis=1)
        return slow

    def are_holes(self, n_came: IntArray, first: IntArray) -> BoolArray | None:
        """Which of the windows, as in `are_slow`, are holes for more than MOST_OF_HOLES of their grid samples.

        In a hole no sample came for HOLE_STEPS. However many came in all, they are bunched, and what lies between may
        be made up.
        """
        is_hole, n_most = n_came[HOLE_STEPS:] == n_came[:-HOLE_STEPS], MOST_OF_HOLES * self.n_samples
        if self.min_stream_hz <= 0.0 or np.count_nonzero(is_hole) <= n_most:
            return None
        n_holes = np.concatenate([[0], np.cumsum(is_hole)])
        holes: BoolArray = n_holes[first + self.n_samples - HOLE_STEPS] - n_holes[first] > n_most
        return holes

    def marks(self, n_came: IntArray, first: IntArray) -> IntArray | int:
        """SLOW and LOSSY of the windows of a segment from `first` (n,) on, by the samples that came up to each."""
        slow, holes = self.are_slow(n_came, first), self.are_holes(n_came, first)
        return (0 if slow is None else np.where(slow, SLOW, 0)) | (0 if holes is None else np.where(holes, LOSSY, 0))


@dataclass(frozen=True, slots=True, eq=False)
class CutterState:
    """What a segment keeps for its next window: filtered signals (6, n) from grid sample `first` on, and where there is
    a filter `raw`, the same before it.

    `next_start` is the grid sample at which the next window starts; filter_state as `filtering.sos_filter` keeps it;
    held: int64 (n,), which of the unfiltered signals are held at each grid sample, BRIDGED, SATURATED and LOSSY;
    n_came: int64 (n,), as in `GridChunk`. anchor_t_ns: stamp of grid sample 0.
    The latest window's length at least is kept, for `closing_window`; is_closed: it was cut since the last chunk.
    """

    first: int = 0
    next_start: int = 0
    signals: FloatArray = field(default_factory=lambda: _NO_SIGNALS)
    raw: FloatArray = field(default_factory=lambda: _NO_SIGNALS)
    filter_state: FloatArray | None = None
    held: IntArray = field(default_factory=lambda: _NO_HELD)
    n_came: IntArray = field(default_factory=lambda: _NO_HELD)
    hold: HoldState = field(default_factory=HoldState)
    anchor_t_ns: int = 0
    is_closed: bool = False


def push_chunk(
    state: CutterState, chunk: GridChunk, *, device_id: str, shape: WindowShape, sos: FloatArray | None
) -> tuple[CutterState, WindowBatch]:
    """Filters the next grid samples of a stream and cuts the windows that they complete; a new segment starts afresh.

    Window j of a segment starts at its grid sample j * n_hop. The batch is a view on the filtered signals: no sample
    is copied per window.
    """
    if chunk.starts_segment:
        state = CutterState(filter_state=None if sos is None else sos_initial_state(sos, chunk.values[0]))
    values, filter_state = chunk.values, state.filter_state
    if sos is not None and filter_state is not None:
        values, filter_state = sos_filter(sos, values, filter_state)
    hold, held = held_signals(state.hold, chunk.values, rate_hz=shape.rate_hz)
    if chunk.bridges is not None:
        held |= np.where(chunk.bridges, BRIDGED, 0)
    if chunk.saturated is not None:
        held |= np.where(chunk.saturated, SATURATED, 0)
    if chunk.lossy is not None:
        held |= np.where(chunk.lossy, LOSSY, 0)
    held, n_came = np.concatenate([state.held, held]), np.concatenate([state.n_came, chunk.n_came])
    signals = _grown(state.signals, values)
    raw = state.raw if sos is None else _grown(state.raw, chunk.values)
    first, start = state.first, state.next_start
    end = first + signals.shape[1]
    n_windows = max(0, (end - shape.n_samples - start) // shape.n_hop + 1)
    batch = concatenate([], shape)
    if n_windows:
        starts = start + shape.n_hop * np.arange(n_windows, dtype=np.int64)
        cut = _cut(signals, start - first, shape, n_windows)
        raw_cut = None if sos is None else _cut(raw, start - first, shape, n_windows)
        t_start_ns = chunk.anchor_t_ns + grid_offset_ns(starts, shape.rate_hz)
        is_held = np.zeros(n_windows, dtype=np.int64)
        if held.any():
            marks = sliding_window_view(held[start - first :], shape.n_samples)[:: shape.n_hop][:n_windows]
            is_held = np.bitwise_or.reduce(marks, axis=1) | (marks[:, -1] & SIGNAL_BITS) << N_SIGNALS
        is_held |= shape.marks(n_came, starts - first)
        batch = WindowBatch((device_id,) * n_windows, t_start_ns, shape.rate_hz, cut, is_held, raw=raw_cut)
    next_start = start + n_windows * shape.n_hop
    keep_from = max(first, min(next_start, end - shape.n_samples))
    signals, raw = signals[:, keep_from - first :].copy(), raw[:, keep_from - first :].copy()
    held, n_came = held[keep_from - first :].copy(), n_came[keep_from - first :].copy()
    kept = CutterState(keep_from, next_start, signals, raw, filter_state, held, n_came, hold, chunk.anchor_t_ns)
    return kept, batch


def _grown(signals: FloatArray, values: FloatArray) -> FloatArray:
    """Signals (6, n) and the samples (m, 6) after them, as rows."""
    n = signals.shape[1]
    grown = np.empty((6, n + len(values)))
    grown[:, :n] = signals
    grown[:, n:] = values.T
    return grown


def _cut(signals: FloatArray, first: int, shape: WindowShape, n_windows: int) -> FloatArray:
    """Windows (n_windows, 6, m) of contiguous signals (6, n) from sample `first` on, as a view."""
    row, step = signals.strides
    strides = (shape.n_hop * step, row, step)
    return np.ndarray((n_windows, 6, shape.n_samples), np.float64, signals, first * step, strides)


def closing_window(state: CutterState, *, device_id: str, shape: WindowShape) -> WindowBatch:
    """The window that ends with the segment's last grid sample, where no other does; all of a shorter segment that
    holds `n_least` samples, none of one that does not.

    For where a stream breaks off: the samples after the last whole hop are in no other window.
    """
    end = state.first + state.signals.shape[1]
    n_least = shape.n_samples if shape.n_least is None else min(shape.n_samples, shape.n_least)
    if state.is_closed or end - state.first < n_least or end - shape.n_samples == state.next_start - shape.n_hop:
        return concatenate([], shape)
    start = max(state.first, end - shape.n_samples)
    t_start_ns = state.anchor_t_ns + grid_offset_ns(np.array([start]), shape.rate_hz)
    held = (
        np.bitwise_or.reduce(state.held[start - state.first :], keepdims=True)
        | (state.held[-1] & SIGNAL_BITS) << N_SIGNALS
    )
    held |= replace(shape, n_samples=end - start).marks(state.n_came, np.array([start - state.first]))
    signals, raw = (np.ascontiguousarray(kept[None, :, start - state.first :]) for kept in (state.signals, state.raw))
    is_closing, raw_of = np.ones(1, dtype=np.bool_), raw if state.raw.size else None
    return WindowBatch((device_id,), t_start_ns, shape.rate_hz, signals, held, is_closing, raw_of)


def concatenate(batches: Sequence[WindowBatch], shape: WindowShape) -> WindowBatch:
    """Batches of windows of one length, one after another; without copying where there is but one."""
    batches = [batch for batch in batches if len(batch)]
    if len(batches) == 1:
        return batches[0]
    if not batches:
        return WindowBatch((), np.empty(0, dtype=np.int64), shape.rate_hz, np.empty((0, 6, shape.n_samples)))
    return WindowBatch(
        tuple(name for batch in batches for name in batch.device_ids),
        np.concatenate([batch.t_start_ns for batch in batches]),
        shape.rate_hz,
        np.concatenate([batch.signals for batch in batches]),
        np.concatenate([np.zeros(len(b), dtype=np.int64) if b.held is None else b.held for b in batches]),
        np.concatenate([batch.closes for batch in batches]),
        None if all(b.raw is None for b in batches) else np.concatenate([b.unfiltered for b in batches]),
    )


def iter_windows(
    block: SampleBlock,
    shape: WindowShape,
    *,
    sos: FloatArray | None = None,
    settings: StreamSettings | None = None,
    closing: bool = False,
) -> Iterator[WindowBatch]:
    """All windows of a whole recording in order, some at a time, by the very steps that a stream goes through.

    closing: those before a gap that end a segment off the hop, too, as the service looks at them once the stream goes
    on; such a window may be shorter than the others. The recording's end is no break (somebody pressed stop): it makes
    such a window only of a segment that has no other, which nobody would look at otherwise.
    """
    _, chunks = resample(ResamplerState(), block, rate_hz=shape.rate_hz, settings=settings or StreamSettings())
    state = CutterState()
    for chunk in chunks:
        if closing and chunk.starts_segment:
            yield closing_window(state, device_id=block.device_id, shape=shape)
        state, batch = push_chunk(state, chunk, device_id=block.device_id, shape=shape, sos=sos)
        yield batch
    if closing and state.next_start == 0:
        yield closing_window(state, device_id=block.device_id, shape=shape)


def cut_windows(
    block: SampleBlock,
    *,
    rate_hz: float,
    window_s: float,
    hop_s: float,
    sos: FloatArray | None = None,
    settings: StreamSettings | None = None,
) -> WindowBatch:
    """All windows of a whole recording as one batch; nothing is flushed at its end."""
    shape = WindowShape.of(rate_hz=rate_hz, window_s=window_s, hop_s=hop_s)
    return concatenate(list(iter_windows(block, shape, sos=sos, settings=settings)), shape)
