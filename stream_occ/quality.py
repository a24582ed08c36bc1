"""What samples tell of the sensor that made them: units and gravity at rest, signals that are stuck.

Every rule speaks of single samples or single windows, so that any cutting of a stream into messages tells the same.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np

from stream_occ.samples import STANDARD_GRAVITY_MS2, BoolArray, FloatArray, IntArray

# A window is at rest where |a| spreads by less than this share of its mean, or by less than REST_STD_MS2.
REST_RELATIVE_STD = 0.02
REST_STD_MS2 = 0.15
# Cheap accelerometers are off by 50 to 80 mg an axis at rest (MPU-6050 data sheet): 12 % of g holds that in one axis.
GRAVITY_TOLERANCE = 0.12
MEAN_OF_GRAVITY = (0.5, 2.5)  # of a window in which a body moves
LEAST_OF_MOTION, MOST_OF_MOTION = 0.85, 1.6  # times gravity: what walks and runs have in the mean
LEAST_STANDING = 0.8  # times gravity: what stands still in a window of any that do not jump
_CHUNK = 256

N_SIGNALS = 6
SIGNAL_BITS = (1 << N_SIGNALS) - 1
ACC_BITS, GYR_BITS = 0b000111, 0b111000
STALLED = 1 << 2 * N_SIGNALS  # a signal in it has stalled
HELD_BITS = STALLED | STALLED - 1  # of `WindowBatch.held`: signals held in a window, and to its end, and STALLED
HOLD_S = 1.0  # a signal is held once it has kept one value for so long; 0.4 s is the longest in MobiFall, at 2 g
STALL_S = 0.3  # it stalls where it has for so long while another of its sensor changes with each sample
# Noise: in pieces of so many samples a noise of more than so much, and second differences (squared) so much larger
# than first ones: 3 for white noise, 2.3 behind a low-pass of 20 Hz. Few samples show it by chance alone: a noise of
# 2 m/s2 is in 98 of 100 pieces at rest, so in all 27 of half of the windows. Between two steps a body is smooth.
NOISE_PIECE = 8
NOISE_MS2 = 1.0
NOISE_RATIO = 1.5
NOISE_SHARE = 0.75  # of a window's pieces; no window of MobiFall's activities has more than 0.7
NOISY_WINDOWS = 60
NOISE_PIECES = 8  # at a window's beginning or end: 1.3 s at 50 Hz
AXES_WINDOWS = 9  # times a window's length: votes against the axes, of which a window has three, one in favour of them
# A signal is at its full scale where RAIL_STEPS + 1 samples in a row have one value, not below RAIL_SHARE of the
# largest so far. The smallest full scales in use are 1.5 g and 250 deg/s.
RAIL_STEPS = 2
RAIL_ACC_MS2 = 14.0
RAIL_GYR_RADS = 4.2
RAIL_SHARE = 0.95
RAIL_SAMPLES = 50  # no motion is so high for so long: that is gravity in another unit
_RAIL_FLOOR = np.array([RAIL_ACC_MS2] * 3 + [RAIL_GYR_RADS] * 3)
# A second moves where |a| spreads or the device turns by more than this (std |a|, root mean square |w| about its mean):
# then every axis of both sensors must, and at rest a coarse sensor may well keep one value.
MOVING_STD_MS2 = 0.5
MOVING_TURN_RADS = 0.2

# No window of 3 or 5 s of the seven data sets here turns faster than 7.2 rad/s (root mean square), and walking in
# degrees/s is beyond 40.
SPIN_RADS = 20.0

# What |a| at rest would be under the usual mistakes, in m/s2 as decoded.
_MISTAKES: tuple[tuple[str, float], ...] = (
    ("acc_unit_g_as_ms2", 1.0),
    ("acc_unit_ms2_as_g", STANDARD_GRAVITY_MS2 * STANDARD_GRAVITY_MS2),
    ("acc_unit_mg_as_ms2", 1000.0),
    ("acc_unit_mg_as_g", 1000.0 * STANDARD_GRAVITY_MS2),
)


def mean_std(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Means and standard deviations (n,) of rows (n, m): the bits of numpy's own, which take three times as long."""
    m = values.shape[-1]
    mean = np.add.reduce(values, axis=-1, keepdims=True) / m
    off = values - mean
    return mean[..., 0], np.sqrt(np.add.reduce(off * off, axis=-1) / m)


def norm_mean_std(signals: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (n,) of |a| in each of the windows (n, 6, m), m/s2."""
    mean, std = np.empty(len(signals)), np.empty(len(signals))
    for start in range(0, len(signals), _CHUNK):  # windows overlap: all their samples at once would be many copies
        acc = signals[start : start + _CHUNK, :3]
        norm = np.ascontiguousarray(np.sqrt(acc[:, 0] ** 2 + acc[:, 1] ** 2 + acc[:, 2] ** 2))
        mean[start : start + _CHUNK], std[start : start + _CHUNK] = mean_std(norm)
    return mean, std


def rest_magnitude_ms2(signals: FloatArray) -> FloatArray:
    """Mean |a| (n,) of the windows (n, 6, m) that are at rest, m/s2; NaN for those that are not."""
    return rest_of(*norm_mean_std(signals))


def rest_of(mean: FloatArray, std: FloatArray) -> FloatArray:
    """As `rest_magnitude_ms2`, from mean and standard deviation of |a| (n,) in each window."""
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


_NONE_BEFORE = np.full((1, 6), np.nan)  # equal to no sample
_NO_STEPS: IntArray = np.zeros(6, dtype=np.int64)


def motion_fault(mean_ms2: float, gravity_ms2: float = math.nan) -> str | None:
    """The named mistake that the mean |a| of a window points to, at rest or not; None where a body may show it, or NaN.

    Nobody is for seconds at less than half of gravity or at more than 2.5 times as much: sprinting is below 2. What a
    ride leaves without gravity is in the mean what gravity is in g, but little of it stands still: gravity_ms2, as in
    `Signs`, where that is known.
    """
    low, high = (share * STANDARD_GRAVITY_MS2 for share in MEAN_OF_GRAVITY)
    if not (mean_ms2 < low or mean_ms2 > high):
        return None
    for code, expected in _MISTAKES:
        if LEAST_OF_MOTION * expected <= mean_ms2 < MOST_OF_MOTION * expected:
            is_bare = mean_ms2 < low and gravity_ms2 < LEAST_STANDING * expected
            return "gravity_missing" if is_bare else code
    return "gravity_missing" if mean_ms2 < low else "acc_scale"


@dataclass(frozen=True, slots=True, eq=False)
class HoldState:
    """The last grid sample (0 or 1, 6) of a segment, and for how many steps each signal (6,) has kept its value, and
    has not."""

    last: FloatArray = field(default_factory=lambda: np.empty((0, 6)))
    n_steps: IntArray = field(default_factory=lambda: _NO_STEPS)
    n_changes: IntArray = field(default_factory=lambda: _NO_STEPS)


def held_signals(state: HoldState, values: FloatArray, *, rate_hz: float) -> tuple[HoldState, IntArray]:
    """Which signals of each of the next grid samples (n, 6) are held: bit r of int64 (n,) for signal r; and STALLED
    where one is for a shorter time while another of its sensor changes, or where no acceleration changes for as long.

    A value of exactly 0 may be held by a sensor that leaves out what is small.
    """
    after, n_steps = _hold(state, values)
    n_changes = state.n_changes + len(values)
    if n_steps is None:
        return HoldState(after.last, after.n_steps, n_changes), np.zeros(len(values), dtype=np.int64)
    step = np.arange(1, len(values) + 1)[:, None]
    same = np.maximum.accumulate(np.where(n_steps > 0, step, 0), axis=0)
    changes = np.where(same > 0, step - same, step + state.n_changes)
    n_stall = round(STALL_S * rate_hz)
    is_lively = (changes >= n_stall).reshape(-1, 2, 3).any(axis=2)
    is_long = n_steps >= n_stall
    stalls = (is_long & (values != 0) & np.repeat(is_lively, 3, axis=1)).any(axis=1) | is_long[:, :3].all(axis=1)
    held = ((n_steps >= round(HOLD_S * rate_hz)) << np.arange(6)).sum(axis=1)
    return HoldState(after.last, after.n_steps, changes[-1]), held | np.where(stalls, STALLED, 0)


def _hold(state: HoldState, values: FloatArray) -> tuple[HoldState, IntArray | None]:
    """The state after the next samples (n, 6), and for how many steps each has kept its values; None: for none."""
    if len(values) == 0:
        return state, None
    before = state.last if len(state.last) else _NONE_BEFORE
    rows = np.concatenate([before, values])
    is_same = rows[1:] == rows[:-1]
    if not np.count_nonzero(is_same):  # nearly always; any() is slower
        return HoldState(values[-1:].copy(), _NO_STEPS), None
    step = np.arange(1, len(values) + 1)[:, None]
    changed = np.maximum.accumulate(np.where(is_same, 0, step), axis=0)
    n_steps = np.where(changed > 0, step - changed, step + state.n_steps)
    return HoldState(values[-1:].copy(), n_steps[-1]), n_steps


@dataclass(frozen=True, slots=True, eq=False)
class RailState:
    """hold: as in `HoldState`, of samples before any resampling; n_high: for how many samples each signal (6,) has been
    above its floor. rail: the largest value seen so far of (acc, gyr) above it, m/s2 and rad/s."""

    hold: HoldState = field(default_factory=HoldState)
    n_high: IntArray = field(default_factory=lambda: np.full(6, RAIL_SAMPLES, dtype=np.int64))
    rail: tuple[float, float] = (0.0, 0.0)

    @property
    def is_high(self) -> bool:
        """True where a signal is above its floor."""
        return bool(self.n_high.any())


_NO_HOLD, _NOT_HIGH, _NO_SCALE = HoldState(), np.zeros(6, dtype=np.int64), (np.inf, np.inf)


def push_rail(
    state: RailState, values: FloatArray, *, full_scale: tuple[float, float] = _NO_SCALE
) -> tuple[RailState, BoolArray | None]:
    """The state after samples (n > 0, 6), in order and without doubles, and which are saturated; None: none is.

    A sample is saturated where it is the third or a later one in a row with the same value of an axis, which is large,
    and was not shortly before, and not far below the largest value seen so far; or where an axis is at the full scale
    that is known, of (acc, gyr).
    """
    size = np.abs(values)
    state, is_saturated = _push_rail(state, values, size)
    if full_scale != _NO_SCALE:
        is_full: BoolArray = np.logical_or.reduce(size >= np.repeat(full_scale, 3), axis=1)
        is_saturated = is_full if is_saturated is None else is_full | is_saturated
    return state, None if is_saturated is None or not is_saturated.any() else is_saturated


def _push_rail(state: RailState, values: FloatArray, size: FloatArray) -> tuple[RailState, BoolArray | None]:
    """As `push_rail` where no full scale is known; None where no sample can be saturated."""
    if not np.count_nonzero(size >= _RAIL_FLOOR):  # nearly always
        return (_low(state.rail) if state.is_high else state), None
    hold, n_steps = _hold(state.hold, values)
    if n_steps is None and not state.is_high and len(values) < RAIL_SAMPLES and (size[-1] < _RAIL_FLOOR).all():
        acc_ms2, gyr_rads = size[:, :3].max(), size[:, 3:].max()  # up and down again, nothing flat
        acc_rail = max(state.rail[0], float(acc_ms2) if acc_ms2 >= RAIL_ACC_MS2 else 0.0)
        gyr_rail = max(state.rail[1], float(gyr_rads) if gyr_rads >= RAIL_GYR_RADS else 0.0)
        return _low((acc_rail, gyr_rail)), None
    step = np.arange(1, len(values) + 1)[:, None]
    low = np.maximum.accumulate(np.where(size < _RAIL_FLOOR, step, 0), axis=0)
    n_high = np.where(low > 0, step - low, step + state.n_high)
    is_high = (n_high > 0) & (n_high < RAIL_SAMPLES)
    is_flat = is_high & (False if n_steps is None else n_steps >= RAIL_STEPS)
    highest, flat = (np.where(rows, size, 0.0).reshape(-1, 2, 3).max(axis=2) for rows in (is_high, is_flat))
    rails = np.maximum.accumulate(np.maximum(highest, state.rail), axis=0)
    is_saturated: BoolArray = ((flat > 0) & (flat >= RAIL_SHARE * rails)).any(axis=1)
    acc_rail, gyr_rail = rails[-1].tolist()
    high, rail = np.minimum(n_high[-1], RAIL_SAMPLES), (acc_rail, gyr_rail)
    return (RailState(hold, high, rail) if high.any() else _low(rail)), is_saturated


def _low(rail: tuple[float, float]) -> RailState:
    """The state after a sample that is high on no axis: what came before it matters no more."""
    return RailState(_NO_HOLD, _NOT_HIGH, rail)


def constant_signals(signals: FloatArray) -> IntArray:
    """Which signals keep one value throughout each of the windows (n, 6, m) while it moves: bits as in `held_signals`.

    Not those that are exactly 0, as there.
    """
    is_constant = (signals == signals[:, :, :1]).all(axis=2) & (signals[:, :, 0] != 0)
    bits: IntArray = (is_constant << np.arange(N_SIGNALS)).sum(axis=1)
    return np.where(is_moving(signals), bits, 0)


def is_moving(signals: FloatArray) -> BoolArray:
    """Which of the pieces (n, 6, m) of windows move; one with a NaN does not."""
    moving = np.empty(len(signals), dtype=np.bool_)
    for i, window in enumerate(signals):  # asked of few windows
        acc, gyr = window[:3], window[3:] - window[3:].mean(axis=-1, keepdims=True)
        spread, turn = np.sqrt((acc**2).sum(axis=0)).std(), np.sqrt((gyr**2).sum(axis=0).mean())
        moving[i] = spread > MOVING_STD_MS2 or turn > MOVING_TURN_RADS
    return moving


def is_spinning(signals: FloatArray) -> BoolArray:
    """Which of the windows (n, 6, m) turn faster, root mean square, than anybody does for so long."""
    gyr = signals[:, 3:]
    spinning: BoolArray = np.einsum("nij,nij->n", gyr, gyr) > SPIN_RADS**2 * signals.shape[2]
    return spinning


def is_noisy(signals: FloatArray) -> tuple[BoolArray, BoolArray]:
    """Which windows (n, 6, m) have noise in place of motion: in NOISE_SHARE of them, their beginning or end among it;
    and which for NOISE_PIECES at their beginning or end. None where m is too short to tell.

    White noise of standard deviation s on each axis has second differences of variance 6 s2 and first ones of 2 s2; a
    body's motion is smooth: at 50 Hz its second differences are hardly larger than its first.
    """
    noisy, in_part = np.zeros(len(signals), dtype=np.bool_), np.zeros(len(signals), dtype=np.bool_)
    n_pieces = (signals.shape[2] - 2) // NOISE_PIECE
    if n_pieces <= 0:
        return noisy, in_part
    tail = signals.shape[2] - 2 - n_pieces * NOISE_PIECE
    ends = _is_rough(signals[:, :3], 1)[:, 0], _is_rough(signals[:, :3, -NOISE_PIECE - 2 :], 1)[:, 0]
    rows = np.flatnonzero(ends[0] | ends[1])  # of nearly all windows neither is
    if rows.size:
        rough, n_end = _is_rough(signals[rows, :3, tail:], n_pieces), min(NOISE_PIECES, n_pieces)
        noisy[rows] = rough.sum(axis=1) >= NOISE_SHARE * n_pieces
        in_part[rows] = rough[:, :n_end].all(axis=1) | rough[:, -n_end:].all(axis=1)
    return noisy, in_part


def _is_rough(acc: FloatArray, n_pieces: int) -> BoolArray:
    """Which of the first pieces of accelerations (n, 3, m) are noise: (n, n_pieces)."""
    acc = acc[:, :, : n_pieces * NOISE_PIECE + 2]
    first = acc[:, :, 1:] - acc[:, :, :-1]
    second = first[:, :, 1:] - first[:, :, :-1]
    shape = (len(acc), 3, n_pieces, NOISE_PIECE)
    rough = (second * second).reshape(shape).sum(axis=(1, 3))
    is_rough: BoolArray = rough > 18 * NOISE_PIECE * NOISE_MS2**2
    if np.count_nonzero(is_rough):
        smooth = (first[:, :, 1:] ** 2).reshape(shape).sum(axis=(1, 3))
        is_rough &= rough > NOISE_RATIO * smooth
    return is_rough


@dataclass(frozen=True, slots=True)
class QualityState:
    """What is known of a device's sensor. stuck: signals found stuck, bits as in `held_signals`; n_turned: windows to
    come that may overlap the one in which an axis changed; n_jumped: in which one that may have changed is too near to
    their beginning to show; n_askew: votes against the axes, is_askew: enough of them; n_noisy: noisy windows, less
    two for each that is not, at most NOISY_WINDOWS; faults: what holds now; counts: windows that each fault has
    touched."""

    stuck: int = 0
    n_turned: int = 0
    n_jumped: int = 0
    n_askew: int = 0
    is_askew: bool = False
    n_noisy: int = 0
    faults: tuple[str, ...] = ()
    counts: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Signs:
    """What one window shows.

    held: signals held in it, and six bits higher those held to its end (bits as in `WindowBatch`); is_moving: at its
    end; constant: signals that keep one value throughout while it moves (`constant_signals`); is_stuck: no signal
    changes; is_turned: gravity turns unseen by the gyroscope; is_noisy: noise in place of motion; is_saturated: it
    holds a saturated sample; is_lossy: it bridges a loss, is full of holes or has too few samples; is_spinning: it
    turns as nobody does; vote: 1 against the axes, -1 in favour of them; is_jump: gravity turns by less than is_turned
    asks (`attitude.Agreement`); is_odd: anything else that no working sensor shows; gravity_ms2: what stands still in
    it, NaN where that was not looked at.
    """

    held: int = 0
    is_moving: bool = False
    constant: int = 0
    is_stuck: bool = False
    is_turned: bool = False
    is_noisy: bool = False
    is_saturated: bool = False
    is_lossy: bool = False
    is_spinning: bool = False
    vote: int = 0
    is_jump: bool = False
    is_odd: bool = False
    gravity_ms2: float = math.nan


CLEAN = Signs()


def watch(state: QualityState, signs: Signs, *, n_overlapping: int = 1) -> QualityState:
    """The state after one more window, whose faults are those that touch this window.

    A signal that is held to the end of a window that moves there, or throughout one that moves anywhere, is stuck
    (`acc_stuck`, `gyr_stuck`), and stays so until a window comes in which it is not held. `stuck`: no signal
    changes. `axis_change`: gravity turned without the gyroscope, and neither is stuck; of n_overlapping windows
    from that one on each may still have it inside. It holds as well once windows enough have voted against the
    axes, three times as heavily as any in favour, until those have outvoted them. `noisy`: NOISY_WINDOWS windows of
    noise, of which each other one takes two back, until none is left. `saturated`, `gyr_scale`: of this window alone.
    """
    if signs is CLEAN and not (state.faults or state.n_noisy or state.n_jumped):
        return state
    stuck = (
        signs.held & SIGNAL_BITS & (state.stuck | signs.constant | (signs.held >> N_SIGNALS if signs.is_moving else 0))
    )
    n_turned = max(0, state.n_turned - 1)
    if signs.is_turned and not signs.held:
        n_turned = n_overlapping
    n_jumped = -(-n_overlapping // 4) if signs.is_jump else max(0, state.n_jumped - 1)
    n_votes = 0 if signs.held else signs.vote * (3 if signs.vote > 0 else 1)
    n_most = AXES_WINDOWS * n_overlapping
    n_askew = min(n_most, max(0, state.n_askew + n_votes))
    is_askew = n_askew == n_most or (state.is_askew and n_askew > 0)
    faults = ["stuck"] if signs.is_stuck else [name for name, bits in _SENSOR_BITS if stuck & bits]
    if n_turned or is_askew:
        faults.append("axis_change")
    n_noisy = min(state.n_noisy + 1, NOISY_WINDOWS) if signs.is_noisy else max(0, state.n_noisy - 2)
    if n_noisy == NOISY_WINDOWS or (n_noisy and "noisy" in state.faults):
        faults.append("noisy")
    if signs.is_saturated:
        faults.append("saturated")
    if signs.is_spinning:
        faults.append("gyr_scale")
    counts = {**state.counts, **{name: state.counts.get(name, 0) + 1 for name in faults}}
    return QualityState(stuck, n_turned, n_jumped, n_askew, is_askew, n_noisy, tuple(faults), counts)


_SENSOR_BITS = (("acc_stuck", ACC_BITS), ("gyr_stuck", GYR_BITS))
