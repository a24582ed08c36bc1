"""The signals behind an alert: a device's latest samples, and the stretch of them that ends with a window."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from stream_occ.grid import grid_offset_ns
from stream_occ.resampling import StreamSettings
from stream_occ.samples import NS_PER_S, SampleBlock

KEEP_WINDOWS = 1.5  # a window ends at the latest hop, somewhat before the latest sample
MAX_RATE_RATIO = 8.0  # a device that sends more samples than this many times the model's rate keeps its latest ones
COLUMNS = ("acc_x_ms2", "acc_y_ms2", "acc_z_ms2", "gyr_x_rads", "gyr_y_rads", "gyr_z_rads")


@dataclass(frozen=True, slots=True, eq=False)
class Waveform:
    """Uniform samples, float32 (n, 6) in the order of COLUMNS; row k lies at t0_ns + k / rate_hz."""

    t0_ns: int
    rate_hz: float
    values: NDArray[np.float32]

    def to_bytes(self) -> bytes:
        """Row after row, little-endian."""
        return self.values.astype("<f4").tobytes()


@dataclass(slots=True)
class SignalMemory:
    """A device's latest samples as they came, neither filtered nor cut: `keep_s` of them and at most max_samples."""

    keep_s: float
    max_samples: int
    _blocks: deque[SampleBlock] = field(default_factory=deque)
    _ends_ns: deque[int] = field(default_factory=deque)  # of each block
    _n_samples: int = 0
    _is_even: bool = True  # blocks end one after another

    def push(self, block: SampleBlock) -> None:
        """Adds samples; `trim` takes the old ones away."""
        end_ns = int(block.t_ns.max())
        self._is_even = self._is_even and (not self._ends_ns or end_ns >= self._ends_ns[-1])
        self._blocks.append(block)
        self._ends_ns.append(end_ns)
        self._n_samples += len(block)

    def trim(self) -> None:
        """Forgets blocks that end earlier than keep_s before the latest one, or after it (a clock set back)."""
        if not self._blocks:
            return
        latest_ns = self._ends_ns[-1]
        oldest_ns = latest_ns - round(self.keep_s * NS_PER_S)
        if self._is_even:
            while self._ends_ns[0] < oldest_ns:
                self._ends_ns.popleft()
                self._n_samples -= len(self._blocks.popleft())
            if self._n_samples <= self.max_samples:
                return
        kept: deque[SampleBlock] = deque()
        ends_ns: deque[int] = deque()
        room = self.max_samples
        for block, end_ns in zip(reversed(self._blocks), reversed(self._ends_ns), strict=True):
            if room > 0 and oldest_ns <= end_ns <= latest_ns:
                n = min(room, len(block))
                room -= n
                kept.appendleft(block if n == len(block) else _last(block, n))
                ends_ns.appendleft(end_ns)
        self._blocks, self._ends_ns, self._n_samples = kept, ends_ns, self.max_samples - room
        self._is_even = all(earlier <= later for earlier, later in pairwise(ends_ns))

    def cut(self, t_end_ns: int, *, window_s: float, rate_hz: float) -> Waveform | None:
        """The window_s up to t_end_ns on the window's own grid, from the last hole on; None where that is nothing."""
        if not self._blocks:
            return None
        t_ns, first = np.unique(np.concatenate([block.t_ns for block in self._blocks]), return_index=True)
        holes = np.flatnonzero((np.diff(t_ns) > StreamSettings().gap_ns) & (t_ns[1:] <= t_end_ns))
        start = int(holes[-1]) + 1 if holes.size else 0
        n = max(1, round(window_s * rate_hz))
        grid = t_end_ns - int(grid_offset_ns(n - 1, rate_hz)) + grid_offset_ns(np.arange(n), rate_hz)
        grid = grid[(grid >= t_ns[start]) & (grid <= t_ns[-1])]
        if grid.size == 0:
            return None
        rows = [np.hstack([block.acc_ms2, block.gyr_rads]) for block in self._blocks]
        values = np.concatenate(rows)[first[start:]]
        x, xp = (grid - grid[0]).astype(np.float64), (t_ns[start:] - grid[0]).astype(np.float64)
        columns = [np.interp(x, xp, column) for column in values.T]
        return Waveform(int(grid[0]), rate_hz, np.stack(columns, axis=1).astype(np.float32))


def _last(block: SampleBlock, n: int) -> SampleBlock:
    """Copies, so that the rest can go."""
    return SampleBlock(block.device_id, block.t_ns[-n:].copy(), block.acc_ms2[-n:].copy(), block.gyr_rads[-n:].copy())


class Signals:
    """The signal memories of all devices, for windows of one length and rate."""

    def __init__(self, window_s: float, rate_hz: float, *, reorder_s: float = 0.0) -> None:
        self._window_s = window_s
        self._keep_s = KEEP_WINDOWS * window_s + reorder_s
        self._rate_hz = rate_hz
        self._memories: dict[str, SignalMemory] = {}
        self._grown: dict[str, SignalMemory] = {}  # since the last `trim`

    def push(self, blocks: Sequence[SampleBlock]) -> None:
        """Adds samples; `trim` afterwards bounds what is kept."""
        for block in blocks:
            memory = self._memories.get(block.device_id)
            if memory is None:
                max_samples = round(MAX_RATE_RATIO * self._keep_s * self._rate_hz)
                memory = self._memories[block.device_id] = SignalMemory(self._keep_s, max_samples)
            memory.push(block)
            self._grown[block.device_id] = memory

    def trim(self) -> None:
        """Forgets what is too old for a window that ends now."""
        for memory in self._grown.values():
            memory.trim()
        self._grown.clear()

    def cut(self, device_id: str, t_end_ns: int) -> Waveform | None:
        """The device's window that ends at t_end_ns."""
        memory = self._memories.get(device_id)
        return None if memory is None else memory.cut(t_end_ns, window_s=self._window_s, rate_hz=self._rate_hz)

    def forget(self, device_id: str) -> None:
        """The device is not known any more."""
        self._memories.pop(device_id, None)
