"""Feature set `fall31`: 31 features of a window that holds an impact and what comes after it, the same however worn.

All are made of a = |acc|, w = |gyr|, lengths of differences of the acceleration vector and angles between its means:
turning the sensor on the body changes none. All times are in seconds, all bands end at 10 Hz, the cut-off of the
low-pass before, and the spectrum is in mean squares, so that the rate of the stream shows little (a test holds the set
to it from 25 to 200 Hz). Sizes enter as log(x + f): falls differ from daily life by factors, and a distance in logs is
not ruled by the few hardest movements of training. f, about the noise of a phone's sensor, keeps rest finite. Levels
are taken against the window's own mean or median, never against 9.81: cheap sensors are off by several percent.

========================  =========  ==========================================================================
impact
log_max_acc               m/s2       log(max a + .1): how hard
log_max_dynamic_acc       m/s2       log(max |acc - mean acc| + .1): as above, gravity taken out by direction too
log_peak_over_mad                    log((max a - median a) / (mad a + .1) + .1), mad the median of |a - median a|:
                                     one impact in stillness stands out, one of many steps does not
log_kurtosis_acc                     log(mean((a - mean)^4) / max(std, .05)^4 + 1): rare and large, or common
log_range_acc_1s          m/s2       log(largest max - min of a within 1 s + .1): weightlessness, then impact
min_acc                   m/s2       min a: the fall itself, when the body gives way
min_acc_200ms             m/s2       smallest mean of a over 200 ms: weightlessness that lasts
log_max_acc_200ms         m/s2       log(largest mean of a over 200 ms + .1): a force that lasts, not a knock
log_max_jerk              m/s3       log(max j + 1), j = |acc(t + 40 ms) - acc(t)| / 40 ms: how sudden
log_mean_jerk             m/s3       log(mean j + 1): how lively all along, one burst weighing little
log_std_jerk              m/s3       log(std j + 1): one burst or steady motion
how much, and when
log_std_acc               m/s2       log(std a + .05): how much motion in all, its bursts above all
log_median_dynamic_acc    m/s2       log(median |a - median a| + .05): motion without its bursts
log_std_acc_first, _last  m/s2       log(std a + .05) in the first and last quarter: before and after
rotation
log_max_gyr               rad/s      log(max w + .05): a body that topples turns fast
log_mean_gyr              rad/s      log(mean w + .02): how much turning in all, where gravity has no part
log_std_gyr               rad/s      log(std w + .02): one swift turn in stillness, or steady turning
log_mean_gyr_first, _last rad/s      log(mean w + .02) in the first and last quarter: busy before, still after
log_turn_1s               rad        log(largest mean of w over 1 s * 1 s + .02): toppling turns about a right angle
posture and velocity
tilt_first_last           rad        angle between the mean acc of the first and the last quarter: lying after standing
max_tilt_2s               rad        largest angle between means of acc over 1 s that lie 2 s apart: a posture that
                                     changes fast, wherever in the window
min_velocity              m/s        smallest running integral of a - mean a, 0 at both ends: speed lost in falling
range_velocity            m/s        largest less smallest of it: speed lost and gained again, in either order
spectrum of a (Hann)
log_band_*                m2/s4      log(mean square in .3-1.5, 1.5-3.5, 3.5-6, 6-10 Hz + 4e-4): gait, shaking, impact
spectral_entropy                     evenness over .3 to 10 Hz, 0 (one bin) to 1: an impact is even, a gait is not
autocorrelation_peak                 largest autocorrelation of a at lags of .3 to 2 s: walking repeats, a fall does not
========================  =========  ==========================================================================

Times longer than a short window allows are cut to it. From 3 s on none is cut: the longest is that of max_tilt_2s, two
means over 1 s that begin 2 s apart. A window at rest has entropy 0 and autocorrelation 0, an angle with a vanishing
mean is 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stream_occ.engines import warmed
from stream_occ.features import _window_statistics as statistics
from stream_occ.features._compiled import fill_fall31
from stream_occ.features._window_statistics import CONSTANT_TOLERANCE
from stream_occ.samples import BoolArray, FloatArray
from stream_occ.windowing import WindowsLike, as_batch

__all__ = ["FAMILIES", "FEATURE_SET", "NAMES", "Fall31", "Signals"]

BANDS_HZ = ((0.3, 1.5), (1.5, 3.5), (3.5, 6.0), (6.0, 10.0))
_HANN_MEAN_SQUARE = 0.375
_NOISE_POWER = 4e-4  # (.02 m/s2)^2


@dataclass(frozen=True, slots=True, eq=False)
class Signals:
    """n windows of m samples, prepared once for all families; every array has the samples last.

    acc (n, 3, m); a, w (n, m) norms; ordered (n, m) a sorted; deviation (n, m) |a - median a| sorted; mean_a, median_a
    (n,); is_constant (n,) where a does not vary.
    """

    acc: FloatArray
    a: FloatArray
    w: FloatArray
    ordered: FloatArray
    deviation: FloatArray
    mean_a: FloatArray
    median_a: FloatArray
    is_constant: BoolArray
    rate_hz: float

    @property
    def n_samples(self) -> int:
        """Samples in a window."""
        return int(self.a.shape[1])

    @property
    def quarter(self) -> int:
        """Samples in a quarter of a window."""
        return self.n_samples // 4

    def lag(self, seconds: float, at_most: int) -> int:
        """Samples in so many seconds, at least 1 and at most `at_most`."""
        return max(1, min(round(seconds * self.rate_hz), at_most))


def prepare(signals: FloatArray, rate_hz: float, *, first_index: int = 0) -> Signals:
    """Signals of windows (n, 6, m); raises ValueError for fewer than 4 samples or a value that is no finite number."""
    m = signals.shape[2]
    if m < statistics.MIN_SAMPLES:
        raise ValueError(f"windows must hold at least {statistics.MIN_SAMPLES} samples; got {m}. Lengthen the window.")
    acc, gyr = np.ascontiguousarray(signals[:, :3]), np.ascontiguousarray(signals[:, 3:])
    for xyz, axes in ((acc, slice(0, 3)), (gyr, slice(4, 7))):
        statistics.checked_range(xyz, axes, first_index)
    a, w = _norm(acc), _norm(gyr)
    ordered = np.sort(a, axis=-1)
    median = _median_of_sorted(ordered)
    return Signals(
        acc=acc,
        a=a,
        w=w,
        ordered=ordered,
        deviation=np.sort(np.abs(a - median[:, np.newaxis]), axis=-1),
        mean_a=_mean(a),
        median_a=median,
        is_constant=ordered[:, -1] - ordered[:, 0] <= CONSTANT_TOLERANCE * ordered[:, -1],
        rate_hz=rate_hz,
    )


def _norm(xyz: FloatArray) -> FloatArray:
    """|v| (n, m) of vectors (n, 3, m)."""
    out, scratch = np.empty((xyz.shape[0], xyz.shape[2])), np.empty((xyz.shape[0], xyz.shape[2]))
    statistics.euclidean_norm(xyz, out, scratch)
    return out


def _mean(x: FloatArray) -> FloatArray:
    mean: FloatArray = np.add.reduce(x, axis=-1) / x.shape[-1]
    return mean


def _std(x: FloatArray) -> FloatArray:
    centred = x - _mean(x)[..., np.newaxis]
    return statistics.std(np.add.reduce(centred * centred, axis=-1), x.shape[-1])


def _median_of_sorted(ordered: FloatArray) -> FloatArray:
    m = ordered.shape[-1]
    median: FloatArray = 0.5 * (ordered[..., (m - 1) // 2] + ordered[..., m // 2])
    return median


def _log(x: FloatArray, floor: float) -> FloatArray:
    """log(x + floor) of sizes x >= 0, which rounding may have made negative."""
    logs: FloatArray = np.log(np.maximum(x, 0.0) + floor)
    return logs


def _moving_mean(x: FloatArray, width: int) -> FloatArray:
    """Means of `width` samples in a row, (..., m - width + 1)."""
    total = np.cumsum(x, axis=-1)
    means: FloatArray = total[..., width - 1 :].copy()
    means[..., 1:] -= total[..., :-width]
    means /= width
    return means


def _moving_extreme(x: FloatArray, width: int, extreme: np.ufunc) -> FloatArray:
    """Largest or smallest of `width` samples in a row, by doubling: (..., m - width + 1)."""
    reach = 1
    while reach < width:
        step = min(reach, width - reach)
        x = extreme(x[..., :-step], x[..., step:])
        reach += step
    return x


def _angle(one: FloatArray, other: FloatArray) -> FloatArray:
    """Angle between vectors (n, 3, ...), 0 to pi, exact for small and large ones; 0 where either is (nearly) 0."""
    one, is_zero_one = _unit(one)
    other, is_zero_other = _unit(other)
    angle: FloatArray = 2.0 * np.arctan2(_length(one - other), _length(one + other))
    angle[is_zero_one | is_zero_other] = 0.0
    return angle


def _unit(vectors: FloatArray) -> tuple[FloatArray, BoolArray]:
    size = _length(vectors)
    is_zero = size < 1e-6
    return vectors / np.where(is_zero, 1.0, size)[:, np.newaxis], is_zero


def _length(vectors: FloatArray) -> FloatArray:
    x, y, z = vectors[:, 0], vectors[:, 1], vectors[:, 2]
    length: FloatArray = np.sqrt(x * x + y * y + z * z)
    return length


def impact(signals: Signals) -> FloatArray:
    """Size of the largest acceleration, with and without gravity, and how alone it stands."""
    top, spread = signals.ordered[:, -1], _median_of_sorted(signals.deviation)
    dynamic = _norm(signals.acc - _mean(signals.acc)[..., np.newaxis]).max(axis=-1)
    alone = (top - signals.median_a) / (spread + 0.1)
    return np.stack([_log(top, 0.1), _log(dynamic, 0.1), _log(alone, 0.1)], axis=1)


def kurtosis(signals: Signals) -> FloatArray:
    """Fourth moment of a over its standard deviation (at least .05), centred."""
    scale = np.maximum(_std(signals.a), 0.05)
    z = (signals.a - signals.mean_a[:, np.newaxis]) / scale[:, np.newaxis]
    z *= z
    return _log(_mean(z * z), 1.0)[:, np.newaxis]


def fall_and_impact(signals: Signals) -> FloatArray:
    """Largest range of a within 1 s, smallest a, smallest and largest mean of a over 200 ms."""
    width = signals.lag(1.0, signals.n_samples)
    swing = _moving_extreme(signals.a, width, np.maximum) - _moving_extreme(signals.a, width, np.minimum)
    brief = _moving_mean(signals.a, signals.lag(0.2, signals.n_samples))
    heaviest = _log(brief.max(axis=-1), 0.1)
    return np.stack([_log(swing.max(axis=-1), 0.1), signals.ordered[:, 0], brief.min(axis=-1), heaviest], axis=1)


def jerk(signals: Signals) -> FloatArray:
    """Largest, mean and spread of the change of acc over 40 ms, per second."""
    step = signals.lag(0.04, signals.n_samples - 1)
    speed = _norm(signals.acc[..., step:] - signals.acc[..., :-step]) * (signals.rate_hz / step)
    return np.stack([_log(speed.max(axis=-1), 1.0), _log(_mean(speed), 1.0), _log(_std(speed), 1.0)], axis=1)


def spread(signals: Signals) -> FloatArray:
    """Standard deviation and median deviation of a; standard deviation in its first and last quarter."""
    a, q = signals.a, signals.quarter
    parts = [_std(a), _median_of_sorted(signals.deviation), _std(a[:, :q]), _std(a[:, -q:])]
    return np.stack([_log(part, 0.05) for part in parts], axis=1)


def rotation(signals: Signals) -> FloatArray:
    """Largest, mean and spread of w, its mean in the first and last quarter, and the largest way turned in 1 s."""
    w, q = signals.w, signals.quarter
    turn = _moving_mean(w, signals.lag(1.0, signals.n_samples)).max(axis=-1)
    parts = [_mean(w), _std(w), _mean(w[:, :q]), _mean(w[:, -q:]), turn]
    return np.stack([_log(w.max(axis=-1), 0.05), *(_log(part, 0.02) for part in parts)], axis=1)


def tilt(signals: Signals) -> FloatArray:
    """Angle from the mean acc of the first to the last quarter; largest between means over 1 s, 2 s apart."""
    acc, q = signals.acc, signals.quarter
    means = _moving_mean(acc, signals.lag(1.0, signals.n_samples // 3))
    lag = signals.lag(2.0, means.shape[-1] - 1)
    ends = _angle(_mean(acc[..., :q]), _mean(acc[..., -q:]))
    return np.stack([ends, _angle(means[..., lag:], means[..., :-lag]).max(axis=-1)], axis=1)


def velocity(signals: Signals) -> FloatArray:
    """Smallest value and range of the running integral of a - mean a."""
    path = np.cumsum(signals.a - signals.mean_a[:, np.newaxis], axis=-1) / signals.rate_hz
    low = path.min(axis=-1)
    return np.stack([low, path.max(axis=-1) - low], axis=1)


def spectrum(signals: Signals) -> FloatArray:
    """Log of the mean square of a in four bands, and the evenness of its power from .3 to 10 Hz."""
    m = signals.n_samples
    taper = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(m) / m)
    power = _power((signals.a - signals.mean_a[:, np.newaxis]) * taper, m)
    power *= 2.0 / (_HANN_MEAN_SQUARE * float(m) ** 2)
    power[signals.is_constant] = 0.0
    hertz = np.arange(power.shape[-1]) * (signals.rate_hz / m)
    edges = [np.searchsorted(hertz, band) for band in BANDS_HZ]
    bands = [_log(np.add.reduce(power[:, low:high], axis=-1), _NOISE_POWER) for low, high in edges]
    whole = power[:, edges[0][0] : edges[-1][1]]
    entropy = statistics.spectral_entropy(whole) if whole.shape[-1] > 1 else np.zeros(len(power))
    return np.stack([*bands, entropy], axis=1)


def _power(x: FloatArray, n: int) -> FloatArray:
    """|X_k|^2 of each row, padded to n samples, k = 0 .. n // 2."""
    found = np.fft.rfft(x, n, axis=-1)
    real, imag = np.ascontiguousarray(found.real), np.ascontiguousarray(found.imag)
    power: FloatArray = real * real + imag * imag
    return power


def periodicity(signals: Signals) -> FloatArray:
    """Largest autocorrelation of a, by sums over the overlap alone / the whole, at lags of .3 to 2 s."""
    m = signals.n_samples
    shift = np.fft.irfft(_power(signals.a - signals.mean_a[:, np.newaxis], 2 * m), 2 * m, axis=-1)[:, :m]
    last = signals.lag(2.0, m - 1)
    first = signals.lag(0.3, last)
    peak = shift[:, first : last + 1].max(axis=-1)
    usable = ~signals.is_constant & (shift[:, 0] > 0.0)
    return np.where(usable, peak / np.where(usable, shift[:, 0], 1.0), 0.0)[:, np.newaxis]


@dataclass(frozen=True, slots=True)
class Family:
    """Features that one function computes side by side: `compute(signals)` is (n, len(names))."""

    names: tuple[str, ...]
    compute: Callable[[Signals], FloatArray]


FAMILIES: tuple[Family, ...] = (
    Family(("log_max_acc", "log_max_dynamic_acc", "log_peak_over_mad"), impact),
    Family(("log_kurtosis_acc",), kurtosis),
    Family(("log_range_acc_1s", "min_acc", "min_acc_200ms", "log_max_acc_200ms"), fall_and_impact),
    Family(("log_max_jerk", "log_mean_jerk", "log_std_jerk"), jerk),
    Family(("log_std_acc", "log_median_dynamic_acc", "log_std_acc_first", "log_std_acc_last"), spread),
    Family(
        ("log_max_gyr", "log_mean_gyr", "log_std_gyr", "log_mean_gyr_first", "log_mean_gyr_last", "log_turn_1s"),
        rotation,
    ),
    Family(("tilt_first_last", "max_tilt_2s"), tilt),
    Family(("min_velocity", "range_velocity"), velocity),
    Family(
        ("log_band_0p3_1p5_hz", "log_band_1p5_3p5_hz", "log_band_3p5_6_hz", "log_band_6_10_hz", "spectral_entropy"),
        spectrum,
    ),
    Family(("autocorrelation_peak",), periodicity),
)

NAMES: tuple[str, ...] = tuple(name for family in FAMILIES for name in family.names)


@dataclass(frozen=True, slots=True)
class Fall31:
    """The 31 features, after a first-order low-pass at 10 Hz, for rates above 20 Hz.

    >>> FEATURE_SET.name, FEATURE_SET.version, len(FEATURE_SET.NAMES)
    ('fall31', 1, 31)
    """

    name: str = "fall31"
    lowpass_hz: float | None = 10.0
    min_rate_hz: float = 20.0
    min_stream_hz: float = 22.0  # bands up to 10 Hz need more than 20, and a nominal 25 Hz runs at 22 or more
    min_window_s: float = 3.0  # max_tilt_2s: 2 s from the beginning of one mean over 1 s to that of the other
    version: int = 1
    NAMES: ClassVar[tuple[str, ...]] = NAMES

    def extract(self, windows: WindowsLike) -> FloatArray:
        """Features (n, 31) of windows as given: the low-pass is the stream's work, done before windows are cut.

        A row's bits depend on its window alone. Raises ValueError where the rate is not above 20 Hz, a window has
        fewer than 4 samples, or a value is NaN, infinite or absurd; the error names the window.
        """
        batch = as_batch(windows)
        statistics.check_rate(self.name, batch.rate_hz, above_hz=self.min_rate_hz)
        n, _, m = batch.signals.shape
        features = np.empty((n, len(NAMES)))
        chunk = statistics.windows_at_once(m)
        kernels = warmed("_fall31")
        for start in range(0, n, chunk):
            rows = slice(start, start + chunk)
            signals = batch.signals[rows]
            if kernels is not None and fill_fall31(kernels, signals, batch.rate_hz, BANDS_HZ, features[rows]):
                continue
            prepared = prepare(signals, batch.rate_hz, first_index=start)
            features[rows] = np.concatenate([family.compute(prepared) for family in FAMILIES], axis=1)
        return features


FEATURE_SET = Fall31()
