"""What samples tell of their units, rate and stamps. Numbers whose unit nobody says come as if they were SI."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stream_occ.quality import RailState, push_rail, rest_fault, rest_magnitude_ms2
from stream_occ.samples import (
    ACC_UNITS,
    DEG_TO_RAD,
    GYR_UNITS,
    NS_PER_S,
    STANDARD_GRAVITY_MS2,
    BoolArray,
    FloatArray,
    IntArray,
)

# Counts of g of common sensors at their ranges, and of deg/s: MPU-6050, MPU-9250, ICM-20948, BMI160, LSM6DS3.
ACC_COUNTS = (16384.0, 8192.0, 4096.0, 2048.0)
GYR_COUNTS = (131.0, 65.5, 32.8, 16.4)
GAP_S = 0.5
AT_END = 0.995  # of the largest value: a range is not quite as wide up as down
_NEAR = 0.12  # as in quality: a cheap sensor is off by so much at rest
_STILL_MOVE = 0.15  # |a| within this share of gravity: what turns is gravity, and not the wearer who accelerates
_TURN_S = 0.1
_MIN_TURNS = 40
_MIN_CORRELATION = 0.7
_MAX_RADS = 40.0  # beyond 2000 deg/s
_MAX_DEGS = 4500.0  # of the widest range there is
# What lies still reads its offset: 0.3 rad/s would be 17 deg/s, and cheap gyroscopes are off by 1, the worst by 10.
_MAX_REST_RADS = 0.3
_MAX_REST_DEGS = 20.0
_STILL_AXIS = 0.01
_LEAST_COUNTS = 100.0  # of g: no sensor counts coarser


@dataclass(frozen=True, slots=True)
class Timing:
    """Of one device. jitter_ms: spread of the steps; n_gaps: steps over GAP_S; skew_s: arrival after the last stamp."""

    n_samples: int
    rate_hz: float | None
    jitter_ms: float | None
    n_gaps: int
    n_doubled: int
    skew_s: float
    skew_spread_s: float


@dataclass(frozen=True, slots=True)
class AccFinding:
    """unit and counts_per_unit that bring |a| nearest to gravity, None where that takes a scale of its own.

    rest: |a| at rest, as sent; moving: its median; is_near: to 12 % at rest, so the unit is no guess; fault: of m/s2.
    """

    unit: str | None
    counts_per_unit: float | None
    rest: float | None
    moving: float
    is_near: bool
    fault: str | None


@dataclass(frozen=True, slots=True)
class GyrFinding:
    """unit and counts_per_unit, None where nothing tells. why: what says so."""

    unit: str | None
    counts_per_unit: float | None
    why: Literal["turns", "rest", "size", "nothing"]
    is_mirrored: bool = False


def timing(t_ns: IntArray, skew_ns: Sequence[int]) -> Timing:
    """Rate and jitter of stamps in order of arrival."""
    unique = np.unique(t_ns)
    steps_s = np.diff(unique) / NS_PER_S
    steady = steps_s[steps_s <= GAP_S]
    skew_s = np.array(skew_ns, dtype=np.float64) / NS_PER_S if len(skew_ns) else np.zeros(1)
    return Timing(
        n_samples=int(t_ns.size),
        rate_hz=float(steady.size / steady.sum()) if steady.size and steady.sum() > 0 else None,
        jitter_ms=float(steady.std() * 1000) if steady.size else None,
        n_gaps=int((steps_s > GAP_S).sum()),
        n_doubled=int(t_ns.size - unique.size),
        skew_s=float(np.median(skew_s)),
        skew_spread_s=float(np.percentile(skew_s, 95) - np.percentile(skew_s, 5)),
    )


def acc_finding(acc: FloatArray, rate_hz: float | None) -> AccFinding:
    """The unit that |a| at rest points to, by `stream_occ.quality`; without rest, what |a| is on average."""
    m = max(8, round(rate_hz or 50.0))
    n_windows = len(acc) // m
    moving = float(np.median(np.sqrt((acc * acc).sum(axis=1))))
    rest = None
    if n_windows:
        windows = np.zeros((n_windows, 6, m))
        windows[:, :3] = acc[: n_windows * m].reshape(n_windows, m, 3).transpose(0, 2, 1)
        magnitudes = rest_magnitude_ms2(windows)
        if not np.isnan(magnitudes).all():
            rest = float(np.nanmedian(magnitudes))
    magnitude = moving if rest is None else rest
    fault = rest_fault(magnitude)
    if fault == "gravity_missing" and rest is not None:
        return AccFinding("m/s2", None, rest, moving, False, fault)
    counted: list[tuple[str, float | None, float]] = [("g", counts, counts) for counts in ACC_COUNTS]
    known = [(unit, None, STANDARD_GRAVITY_MS2 / si) for unit, si in ACC_UNITS.items()]
    unit, counts, gravity = min([*known, *counted], key=lambda one: abs(np.log(max(magnitude, 1e-9) / one[2])))
    is_near = abs(magnitude / gravity - 1) <= _NEAR
    if rest is not None and not is_near and magnitude >= _LEAST_COUNTS:
        return AccFinding(None, None, rest, moving, False, fault)
    return AccFinding(unit, counts, rest, moving, is_near and rest is not None, fault)


def gyr_finding(t_ns: IntArray, acc: FloatArray, gyr: FloatArray, gravity: float) -> GyrFinding:
    """The unit in which rotations turn gravity as the accelerometer sees it turn; else what rest and size leave.

    gravity: |a| at rest, as sent.
    """
    factor, correlation = turn_factor(t_ns, acc, gyr, gravity)
    if factor is not None and abs(correlation) >= _MIN_CORRELATION:
        names = [(unit, None, si) for unit, si in GYR_UNITS.items()]
        counted = [("deg/s", counts, DEG_TO_RAD / counts) for counts in GYR_COUNTS]
        unit, counts, _ = min([*names, *counted], key=lambda entry: abs(np.log(abs(factor) / entry[2])))
        return GyrFinding(unit, counts, "turns", is_mirrored=correlation < 0)
    if (gyr == np.rint(gyr)).all() or np.abs(gyr).max() > _MAX_DEGS:  # counts, mdeg/s, or nothing at all
        return GyrFinding(None, None, "nothing")
    rest = still_turning(t_ns, acc, gyr, gravity)
    if rest is not None and _MAX_REST_RADS < rest < _MAX_REST_DEGS:
        return GyrFinding("deg/s", None, "rest")
    if np.abs(gyr).max() > _MAX_RADS:
        return GyrFinding("deg/s", None, "size")
    return GyrFinding(None, None, "nothing")


def still_turning(t_ns: IntArray, acc: FloatArray, gyr: FloatArray, gravity: float) -> float | None:
    """|mean w| in the second in which least turned of those in which no axis of acc moved; None without one."""
    span_s = float(t_ns[-1] - t_ns[0]) / NS_PER_S
    m = max(8, round((len(t_ns) - 1) / span_s)) if span_s > 0 else len(t_ns) + 1
    n = len(acc) // m
    seconds = acc[: n * m].reshape(n, m, 3)
    is_still = (seconds.std(axis=1) < _STILL_AXIS * gravity).all(axis=1)
    if not is_still.any():
        return None
    turned = gyr[: n * m].reshape(n, m, 3).mean(axis=1)[is_still]
    return float(np.sqrt((turned * turned).sum(axis=1)).min())


def turn_factor(t_ns: IntArray, acc: FloatArray, gyr: FloatArray, gravity: float) -> tuple[float | None, float]:
    """rad/s of one unit of gyr, by least squares, and the correlation that says how far to believe it.

    A direction u that is fixed in the world turns in the sensor's axes by du/dt = -w x u.
    """
    t_s = (t_ns - t_ns[0]) / NS_PER_S
    order = np.unique(t_s, return_index=True)[1]
    t_s, acc, gyr = t_s[order], acc[order], gyr[order]
    if len(t_s) < _MIN_TURNS:
        return None, 0.0
    lag = max(1, round(_TURN_S / max(float(np.median(np.diff(t_s))), 1e-4)))
    norm = np.sqrt((acc * acc).sum(axis=1))
    smooth, is_calm = _moving_mean(acc, lag), _moving_mean((abs(norm - gravity) < _STILL_MOVE * gravity)[:, None], lag)
    u = smooth / np.maximum(np.sqrt((smooth * smooth).sum(axis=1, keepdims=True)), 1e-12)
    w = _moving_mean(gyr, lag)
    middle = np.arange(lag, len(u) - lag)
    dt_s = t_s[middle + lag] - t_s[middle - lag]
    turned = u[middle + lag] - u[middle - lag]
    told = -np.cross(w[middle], u[middle]) * dt_s[:, None]
    is_used = (is_calm[middle, 0] > 0.99) & (dt_s < 10 * _TURN_S)
    turned, told = turned[is_used], told[is_used]
    power, seen = float((told * told).sum()), float((turned * turned).sum())
    if is_used.sum() < _MIN_TURNS or power == 0 or seen / is_used.sum() < 1e-5:  # less than 0.2 degrees a step: noise
        return None, 0.0
    shared = float((told * turned).sum())
    return (shared / power or None), shared / np.sqrt(power * seen)


def pinned(t_ns: IntArray, values: FloatArray) -> tuple[float, int] | None:
    """The size at which samples of one sensor stay, as at the end of its range, and how many do; None: none do.

    values (n, 6), m/s2 and rad/s: 0 in the columns of the other sensor. By the rule of `quality`, and at the largest
    value of all: what repeats below it is chance.
    """
    order = np.unique(t_ns, return_index=True)[1]
    size = np.abs(values[order]).max(axis=1)
    is_saturated = push_rail(RailState(), values[order])[1] if len(order) else None
    if is_saturated is None:
        return None
    is_at_end = is_saturated & (size >= AT_END * size.max())
    return (float(size[is_at_end].max()), int(is_at_end.sum())) if is_at_end.any() else None


def _moving_mean(values: FloatArray | BoolArray, n: int) -> FloatArray:
    """Mean over 2 n + 1 rows around each, fewer at the ends."""
    total = np.concatenate([np.zeros((1, values.shape[1])), np.cumsum(values.astype(np.float64), axis=0)])
    low = np.maximum(np.arange(len(values)) - n, 0)
    high = np.minimum(np.arange(len(values)) + n + 1, len(values))
    mean: FloatArray = (total[high] - total[low]) / (high - low)[:, None]
    return mean
