"""What a window's signals tell apart from its score: is its end still, does it move at all, where is down."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from stream_occ.quality import mean_std
from stream_occ.samples import BoolArray, FloatArray
from stream_occ.windowing import WindowBatch

TAIL_S = 1.0  # of a window's end and of its beginning; a shorter window is taken whole
# A wearer's breath moves a device at chest or waist by more than its noise; the gyroscope's offset is taken off.
MOTIONLESS_ACC_MS2 = 0.1
MOTIONLESS_GYR_RADS = 0.02
STUCK_SPREAD = 1e-6  # m/s2, rad/s: a hundredth of the least step of a 16-bit sensor of 2 g and 250 deg/s
_CHUNK = 256

Direction = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class MotionLimits:
    """Still is where std |a| < acc_ms2 and mean |w| < gyr_rads over the last second."""

    acc_ms2: float
    gyr_rads: float


@dataclass(frozen=True, slots=True, eq=False)
class Motion:
    """Of n windows: std of |a| (m/s2) and mean |w| (rad/s) over the last second; unit mean acceleration (n, 3) of the
    first and of the last second; whether nothing moves beyond noise; whether no value changes at all."""

    acc_std_ms2: FloatArray
    gyr_mean_rads: FloatArray
    gravity_before: FloatArray
    gravity_after: FloatArray
    is_motionless: BoolArray
    is_stuck: BoolArray

    def take(self, rows: np.ndarray[Any, Any]) -> Motion:
        """The motion of some of the windows, by mask or by number."""
        return Motion(*(getattr(self, field.name)[rows] for field in fields(self)))

    def is_still(self, limits: MotionLimits) -> BoolArray:
        """Which windows' last second is still; one with a NaN is not."""
        still: BoolArray = (self.acc_std_ms2 < limits.acc_ms2) & (self.gyr_mean_rads < limits.gyr_rads)
        return still


def motion(batch: WindowBatch) -> Motion:
    """The motion in each window; NaN where a signal is not finite, and for the direction of no acceleration."""
    n, n_tail = len(batch), max(1, min(batch.n_samples, round(TAIL_S * batch.rate_hz)))
    found = _unfilled(n)
    with np.errstate(all="ignore"):
        for start in range(0, n, _CHUNK):  # windows overlap: all their samples at once would be many copies
            rows = slice(start, start + _CHUNK)
            _fill(found, rows, batch.signals[rows], n_tail)
    return found


def joined(parts: Sequence[Motion]) -> Motion:
    """The motion of all windows of the parts, in their order; of none where there are none."""
    names = [field.name for field in fields(Motion)]
    return Motion(*(np.concatenate([getattr(part, name) for part in (_unfilled(0), *parts)]) for name in names))


def _unfilled(n: int) -> Motion:
    acc_std, gyr_mean = np.empty(n), np.empty(n)
    before, after, is_motionless, is_stuck = np.empty((n, 3)), np.empty((n, 3)), np.empty(n, bool), np.empty(n, bool)
    return Motion(acc_std, gyr_mean, before, after, is_motionless, is_stuck)


def _fill(found: Motion, rows: slice, signals: FloatArray, n_tail: int) -> None:
    tail, norm = signals[:, :, -n_tail:], _norm(signals[:, :3])
    found.acc_std_ms2[rows] = mean_std(np.ascontiguousarray(norm[:, -n_tail:]))[1]
    found.gyr_mean_rads[rows] = _mean(_norm(tail[:, 3:]))
    found.gravity_before[rows] = _direction(signals[:, :3, :n_tail])
    found.gravity_after[rows] = _direction(tail[:, :3])
    turning = _norm(signals[:, 3:] - _mean(np.ascontiguousarray(signals[:, 3:]))[..., None])
    is_steady = np.sqrt(_mean(turning * turning)) < MOTIONLESS_GYR_RADS
    found.is_motionless[rows] = (mean_std(norm)[1] < MOTIONLESS_ACC_MS2) & is_steady
    spread = np.maximum.reduce(signals, axis=-1) - np.minimum.reduce(signals, axis=-1)
    found.is_stuck[rows] = (spread < STUCK_SPREAD).all(axis=-1)


def _mean(values: FloatArray) -> FloatArray:
    """Means over the last axis; the bits of numpy's own, which take twice as long."""
    mean: FloatArray = np.add.reduce(values, axis=-1) / values.shape[-1]
    return mean


def _norm(vectors: FloatArray) -> FloatArray:
    """Length (n, m) of vectors (n, 3, m)."""
    length: FloatArray = np.ascontiguousarray(np.sqrt(vectors[:, 0] ** 2 + vectors[:, 1] ** 2 + vectors[:, 2] ** 2))
    return length


def _direction(acc: FloatArray) -> FloatArray:
    """Unit mean (n, 3) of accelerations (n, 3, m)."""
    mean = _mean(np.ascontiguousarray(acc))
    unit: FloatArray = mean / np.sqrt(np.add.reduce(mean * mean, axis=-1, keepdims=True))
    return unit


def direction_of(unit: FloatArray) -> Direction | None:
    """A row of directions as the engine takes it; None where it has none."""
    x, y, z = unit.tolist()
    return (x, y, z) if np.isfinite(x + y + z) else None


def angle_deg(a: Direction | None, b: Direction | None) -> float | None:
    """Angle between two unit vectors, 0 to 180 degrees; None where one has no direction."""
    if a is None or b is None:
        return None
    cosine = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return math.degrees(math.acos(min(1.0, max(-1.0, cosine))))
