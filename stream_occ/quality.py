"""What samples tell of the sensor that made them: units and gravity at rest, signals that are stuck.

Every rule speaks of single samples or single windows, so that any cutting of a stream into messages tells the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stream_occ.samples import STANDARD_GRAVITY_MS2, BoolArray, FloatArray, IntArray

# A window is at rest where |a| spreads by less than this share of its mean, or by less than REST_STD_MS2.
REST_RELATIVE_STD = 0.02
REST_STD_MS2 = 0.15
# Cheap accelerometers are off by 50 to 80 mg an axis at rest (MPU-6050 data sheet): 12 % of g holds that in one axis.
GRAVITY_TOLERANCE = 0.12
_CHUNK = 256

HOLD_S = 1.0  # a signal is held once it has kept one value for so long; 0.4 s is the longest in MobiFall, at 2 g
# A window moves where |a| spreads or the device turns by more than this (std |a|, root mean square |w| about its mean):
# then every axis of both sensors must, and at rest a coarse sensor may well keep one value.
MOVING_STD_MS2 = 0.5
MOVING_TURN_RADS = 0.2

# What |a| at rest would be under the usual mistakes, in m/s2 as decoded.
_MISTAKES: tuple[tuple[str, float], ...] = (
    ("acc_unit_g_as_ms2", 1.0),
    ("acc_unit_ms2_as_g", STANDARD_GRAVITY_MS2 * STANDARD_GRAVITY_MS2),
    ("acc_unit_mg_as_ms2", 1000.0),
    ("acc_unit_mg_as_g", 1000.0 * STANDARD_GRAVITY_MS2),
)


def rest_magnitude_ms2(signals: FloatArray) -> FloatArray:
    """Mean |a| (n,) of the windows (n, 6, m) that are at rest, m/s2; NaN for those that are not."""
    mean, std = np.empty(len(signals)), np.empty(len(signals))
    for start in range(0, len(signals), _CHUNK):  # windows overlap: all their samples at once would be many copies
        acc = signals[start : start + _CHUNK, :3]
        norm = np.ascontiguousarray(np.sqrt(acc[:, 0] ** 2 + acc[:, 1] ** 2 + acc[:, 2] ** 2))
        mean[start : start + _CHUNK], std[start : start + _CHUNK] = norm.mean(axis=-1), norm.std(axis=-1)
    at_rest = std < np.maximum(REST_RELATIVE_STD * mean, REST_STD_MS2 * (mean < STANDARD_GRAVITY_MS2 / 2))
    rest: FloatArray = np.where(at_rest, mean, np.nan)
    return rest


def rest_fault(magnitude_ms2: float) -> str | None:
    """The named mistake that |a| at rest points to, or None where it is gravity.

    `gravity_missing`: nothing is left at rest; `acc_unit_<sent>_as_<declared>`: another unit than declared;
    `acc_scale`: neither. A magnitude of NaN (not at rest) says nothing: None.
    """
    if np.isnan(magnitude_ms2) or abs(magnitude_ms2 / STANDARD_GRAVITY_MS2 - 1) <= GRAVITY_TOLERANCE:
        return None
    for code, expected in _MISTAKES:
        if abs(magnitude_ms2 / expected - 1) <= GRAVITY_TOLERANCE:
            return code
    return "gravity_missing" if magnitude_ms2 < REST_STD_MS2 * 4 else "acc_scale"


@dataclass(frozen=True, slots=True, eq=False)
class HoldState:
    """The last grid sample (0 or 1, 6) of a segment, and for how many steps each signal (6,) has kept its value."""

    last: FloatArray = field(default_factory=lambda: np.empty((0, 6)))
    n_steps: IntArray = field(default_factory=lambda: np.zeros(6, dtype=np.int64))


def held_signals(state: HoldState, values: FloatArray, *, rate_hz: float) -> tuple[HoldState, IntArray]:
    """Which signals of each of the next grid samples (n, 6) are held: bit r of int64 (n,) for signal r."""
    if len(values) == 0:
        return state, np.zeros(0, dtype=np.int64)
    rows = np.concatenate([state.last, values])
    last = rows[-1:].copy()
    is_same = rows[1:] == rows[:-1]
    if not is_same.any():  # nearly always
        is_kept = len(rows) == len(values) + 1 or len(values) > 1
        return HoldState(last, np.zeros_like(state.n_steps) if is_kept else state.n_steps), _zeros(len(values))
    step = np.arange(1, len(is_same) + 1)[:, None]
    changed = np.maximum.accumulate(np.where(is_same, 0, step), axis=0)
    n_steps = np.where(changed > 0, step - changed, step + state.n_steps)
    bits = ((n_steps >= round(HOLD_S * rate_hz)) << np.arange(6)).sum(axis=1)
    held = np.concatenate([_zeros(len(values) - len(bits)), bits])  # the first sample of a segment has none before it
    return HoldState(last, n_steps[-1]), held


def _zeros(n: int) -> IntArray:
    return np.zeros(n, dtype=np.int64)


def is_moving(signals: FloatArray) -> BoolArray:
    """Which of the windows (n, 6, m) move; one with a NaN does not."""
    moving = np.empty(len(signals), dtype=np.bool_)
    for i, window in enumerate(signals):  # asked of few windows
        acc, gyr = window[:3], window[3:] - window[3:].mean(axis=-1, keepdims=True)
        spread, turn = np.sqrt((acc**2).sum(axis=0)).std(), np.sqrt((gyr**2).sum(axis=0).mean())
        moving[i] = spread > MOVING_STD_MS2 or turn > MOVING_TURN_RADS
    return moving


@dataclass(frozen=True, slots=True)
class QualityState:
    """What is known of a device's sensor. stuck: signals found stuck, bits as in `held_signals`; faults: what holds
    now; counts: windows that each fault has touched."""

    stuck: int = 0
    faults: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signs:
    """What one window shows: signals held in it (bits), whether it moves, whether no signal of it changes at all."""

    held: int = 0
    is_moving: bool = False
    is_stuck: bool = False


_CLEAN = Signs()


def watch(state: QualityState, signs: Signs) -> QualityState:
    """The state after one more window, whose faults are those that touch this window.

    A signal that is held while the device moves is stuck (`acc_stuck`, `gyr_stuck`), and stays so until a window comes
    in which it is not held. `stuck`: no signal changes.
    """
    if signs == _CLEAN and not state.faults:
        return state
    stuck = signs.held & (state.stuck | (signs.held if signs.is_moving else 0))
    faults = []
    if signs.is_stuck:
        faults.append("stuck")
    else:
        faults += [name for name, bits in _SENSOR_BITS if stuck & bits]
    counts = {**state.counts, **{name: state.counts.get(name, 0) + 1 for name in faults}}
    return QualityState(stuck, tuple(faults), counts)


_SENSOR_BITS = (("acc_stuck", 0b000111), ("gyr_stuck", 0b111000))
