"""Feature set `khan31r`: 31 features of a window, a reconstruction of those behind the fall data of paper 1.

Source: Khan and Ahmad (arXiv 1604.01686) take 31 features of accelerometer and gyroscope from earlier work of the
first author and print no list. The families (mean, maximum, minimum, standard deviation, IQR, signal magnitude area,
spectral entropy, energy, correlation, derivative), the norms and the number 31 are known; how the 31 spread over the
families is our choice. So this is a reconstruction with a version of its own, not the list of that work: should the
list turn up, it becomes another feature set.

With a = |acc| and w = |gyr| (norms taken after each axis was filtered):

====== ================================================================================================
1-4    mean of a_x, a_y, a_z, a
5-8    mean of w_x, w_y, w_z, w
9-10   maximum of a, w
11-12  minimum of a, w
13-14  standard deviation (ddof 0) of a, w
15-16  interquartile range of a, w, quartiles interpolated linearly
17-18  signal magnitude area (1/m) sum(|x| + |y| + |z|) of acc, gyr
19-20  spectral entropy of a, w, over bins 1 .. m // 2, in [0, 1]
21-22  energy of a, w from the one-sided spectrum without DC, which is the variance
23-28  Pearson correlation of acc x-y, x-z, y-z, gyr x-y, x-z, y-z
29-30  mean absolute derivative of a, w, per second
31     Pearson correlation of a with w
====== ================================================================================================

A row whose peak-to-peak is at most 1e-9 of its largest magnitude is constant, which is decided before any transform
(rounding alone would give a constant 9.81 an entropy of .4 to .8): its correlations, entropy and energy are 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stream_occ.engines import warmed
from stream_occ.features import _window_statistics as statistics
from stream_occ.features._compiled import fill_khan31r
from stream_occ.features._window_statistics import CHANNELS, NORMS, Channels
from stream_occ.samples import FloatArray
from stream_occ.windowing import WindowsLike, as_batch

__all__ = ["FAMILIES", "FEATURE_SET", "NAMES", "ORIENTATION_FREE", "Khan31r"]

_AXIS_PAIRS = (
    ("acc_x", "acc_y"),
    ("acc_x", "acc_z"),
    ("acc_y", "acc_z"),
    ("gyr_x", "gyr_y"),
    ("gyr_x", "gyr_z"),
    ("gyr_y", "gyr_z"),
)
_NORM_PAIRS = (("acc_norm", "gyr_norm"),)


def mean(channels: Channels) -> FloatArray:
    """Mean of each axis and norm: features 1-8."""
    return channels.mean


def maximum(channels: Channels) -> FloatArray:
    """Largest norm: features 9-10."""
    return channels.high[:, NORMS]


def minimum(channels: Channels) -> FloatArray:
    """Smallest norm: features 11-12."""
    return channels.low[:, NORMS]


def standard_deviation(channels: Channels) -> FloatArray:
    """Standard deviation, ddof 0, of the norms: features 13-14."""
    return statistics.std(channels.sum_squares[:, NORMS], channels.n_samples)


def interquartile_range(channels: Channels) -> FloatArray:
    """Upper minus lower quartile of the norms: features 15-16."""
    return statistics.iqr(channels.norms)


def signal_magnitude_area(channels: Channels) -> FloatArray:
    """Mean L1 norm of acceleration and of rotation: features 17-18."""
    return statistics.signal_magnitude_area(channels)


def spectral_entropy(channels: Channels) -> FloatArray:
    """How evenly the power of the norms spreads over frequency, 0 (one bin) to 1 (all bins alike): features 19-20."""
    return statistics.spectral_entropy(channels.norm_power)


def energy(channels: Channels) -> FloatArray:
    """Spectral energy of the norms without DC: features 21-22."""
    return statistics.energy(channels.norm_power, channels.n_samples)


def axis_correlation(channels: Channels) -> FloatArray:
    """Pearson correlation of each pair of axes of one sensor: features 23-28."""
    return statistics.correlations(channels, _AXIS_PAIRS)


def mean_abs_derivative(channels: Channels) -> FloatArray:
    """Mean absolute first derivative of the norms, per second: features 29-30."""
    return statistics.mean_abs_derivative(channels.norms, channels.rate_hz)


def norm_correlation(channels: Channels) -> FloatArray:
    """Pearson correlation of the acceleration's norm with the rotation's: feature 31."""
    return statistics.correlations(channels, _NORM_PAIRS)


@dataclass(frozen=True, slots=True)
class Family:
    """Features that one function computes side by side: `compute(channels)` is (n, len(names))."""

    names: tuple[str, ...]
    compute: Callable[[Channels], FloatArray]


FAMILIES: tuple[Family, ...] = (
    Family(tuple(f"mean_{channel}_{'ms2' if channel.startswith('acc') else 'rads'}" for channel in CHANNELS), mean),
    Family(("max_acc_norm_ms2", "max_gyr_norm_rads"), maximum),
    Family(("min_acc_norm_ms2", "min_gyr_norm_rads"), minimum),
    Family(("std_acc_norm_ms2", "std_gyr_norm_rads"), standard_deviation),
    Family(("iqr_acc_norm_ms2", "iqr_gyr_norm_rads"), interquartile_range),
    Family(("sma_acc_ms2", "sma_gyr_rads"), signal_magnitude_area),
    Family(("spectral_entropy_acc_norm", "spectral_entropy_gyr_norm"), spectral_entropy),
    Family(("energy_acc_norm_m2s4", "energy_gyr_norm_rad2s2"), energy),
    Family(tuple(f"corr_{one}_{other}" for one, other in _AXIS_PAIRS), axis_correlation),
    Family(("mean_abs_derivative_acc_norm_ms3", "mean_abs_derivative_gyr_norm_rads2"), mean_abs_derivative),
    Family(("corr_acc_norm_gyr_norm",), norm_correlation),
)

NAMES: tuple[str, ...] = tuple(name for family in FAMILIES for name in family.names)

# The 17 features of the norms alone: turning the sensor on the body changes none of them. The signal magnitude areas
# are not among them: an L1 norm survives swapped and mirrored axes, but no other rotation.
ORIENTATION_FREE: tuple[str, ...] = tuple(name for name in NAMES if "_norm" in name)


@dataclass(frozen=True, slots=True)
class Khan31r:
    """The 31 features, after a first-order low-pass at lowpass_hz (None for none), for rates above min_rate_hz.

    >>> FEATURE_SET.name, FEATURE_SET.version, len(FEATURE_SET.NAMES), len(ORIENTATION_FREE)
    ('khan31r', 1, 31, 17)
    """

    name: str
    lowpass_hz: float | None
    min_rate_hz: float
    min_stream_hz: float
    min_window_s: None = None  # the paper's windows are whole
    version: int = 1
    NAMES: ClassVar[tuple[str, ...]] = NAMES

    def extract(self, windows: WindowsLike) -> FloatArray:
        """Features (n, 31) of windows as given: the low-pass is the stream's work, done before windows are cut.

        A row's bits depend on its window alone. Entropy and derivative move with the sampling rate: train and score
        at one rate. Raises ValueError where the rate is not above min_rate_hz, a window has fewer than 4 samples, or
        a value is NaN, infinite or absurd; the error names the window.
        """
        batch = as_batch(windows)
        statistics.check_rate(self.name, batch.rate_hz, above_hz=self.min_rate_hz)
        n, _, m = batch.signals.shape
        features = np.empty((n, len(NAMES)))
        chunk = statistics.windows_at_once(m)
        kernels = warmed("_khan31r")
        work: FloatArray | None = None
        for start in range(0, n, chunk):
            rows = slice(start, start + chunk)
            signals = batch.signals[rows]
            if kernels is not None and fill_khan31r(kernels, signals, batch.rate_hz, features[rows]):
                continue
            if work is None:
                work = statistics.workspace(min(chunk, n), m)
            channels = statistics.prepare(signals, batch.rate_hz, work=work, first_index=start)
            features[rows] = np.concatenate([family.compute(channels) for family in FAMILIES], axis=1)
        return features


# Trials of WEDA-FALL run at 39.4 to 39.6 Hz: at a tenth below 40 Hz the low-pass has lost nearly 3 dB, so what aliases
# is small.
FEATURE_SET = Khan31r("khan31r", lowpass_hz=20.0, min_rate_hz=40.0, min_stream_hz=36.0)
