"""Windows of a uniform stream, one by one or stacked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_occ.samples import FloatArray, IntArray, Window


@dataclass(frozen=True, slots=True, eq=False)
class WindowBatch:
    """n windows of equal length and rate, of any devices.

    device_ids: n names; t_start_ns: int64 (n,); signals: float64 (n, 6, m), rows acc x, y, z (m/s2), gyr x, y, z
    (rad/s); the last axis is contiguous, so that every reduction over it has one order whatever the batch.
    """

    device_ids: tuple[str, ...]
    t_start_ns: IntArray
    rate_hz: float
    signals: FloatArray

    def __len__(self) -> int:
        return int(self.signals.shape[0])

    @property
    def n_samples(self) -> int:
        """Samples in a window."""
        return int(self.signals.shape[2])


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
