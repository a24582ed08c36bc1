"""Statistics of many windows at once, each row's bits independent of the rows beside it.

Everything reduces over the last, contiguous axis (numpy's pairwise sum of one row at a time), transforms row by row
(pocketfft, sort) or works elementwise; no BLAS and no einsum, whose order of summation may follow the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_occ.samples import BoolArray, FloatArray

# Channels of `Channels.values`; the norms are every fourth.
CHANNELS = ("acc_x", "acc_y", "acc_z", "acc_norm", "gyr_x", "gyr_y", "gyr_z", "gyr_norm")
NORMS = slice(3, None, 4)

MIN_SAMPLES = 4  # below, the spectral entropy has at most one bin: 0 / ln 1

# Beyond any sensor by 90 orders of magnitude, and squares summed over a window still are finite.
MAGNITUDE_LIMIT = 1e100

# Peak-to-peak over largest magnitude below which a channel is constant: above the rounding of norm, filter and
# interpolation (some 1e-15), far below the last bit of any sensor.
CONSTANT_TOLERANCE = 1e-9

# Windows prepared at a time, fewer where they are longer: their work arrays stay in the processor's cache (khan31r on
# 250 samples: 18 us a window in chunks of 64, 20 of 32, 25 of 256) and memory stays bounded.
CHUNK_WINDOWS = 64
CHUNK_SAMPLES = 64 * 250

_TINY = float(np.finfo(np.float64).tiny)


def check_rate(name: str, rate_hz: float, *, above_hz: float) -> None:
    """Raises ValueError for windows that are sampled too slowly for the feature set."""
    if not rate_hz > above_hz:
        raise ValueError(
            f"windows must be sampled at more than {above_hz:g} Hz for {name}; got {rate_hz:g} Hz. "
            "Resample faster, or take khan31r-nofilter."
        )


def windows_at_once(n_samples: int) -> int:
    """How many windows of n_samples are prepared at a time."""
    return max(1, min(CHUNK_WINDOWS, CHUNK_SAMPLES // max(1, n_samples)))


@dataclass(frozen=True, slots=True, eq=False)
class Channels:
    """n windows of m samples prepared once for all features: axes, norms and what several features share.

    values, centred: (n, 8, m) in the order of CHANNELS, centred has each row's mean removed; low, high, mean,
    sum_squares (of centred): (n, 8); is_constant: bool (n, 8); norm_power: |X_k|^2 of the centred norms, bins
    k = 1 .. m // 2, (n, 2, m // 2), zero where constant; scratch: (n, 8, m), to be overwritten by whoever needs it.
    """

    values: FloatArray
    centred: FloatArray
    low: FloatArray
    high: FloatArray
    mean: FloatArray
    sum_squares: FloatArray
    is_constant: BoolArray
    norm_power: FloatArray
    rate_hz: float
    scratch: FloatArray

    @property
    def n_samples(self) -> int:
        """Samples in a window."""
        return int(self.values.shape[2])

    @property
    def norms(self) -> FloatArray:
        """The norms of acceleration and rotation, (n, 2, m)."""
        norms: FloatArray = self.values[:, NORMS]
        return norms


def workspace(n_windows: int, n_samples: int) -> FloatArray:
    """The arrays that `prepare` fills, to be reused for the next windows: fresh pages cost as much as the features."""
    return np.empty((3, n_windows, len(CHANNELS), n_samples))


def prepare(signals: FloatArray, rate_hz: float, *, work: FloatArray, first_index: int = 0) -> Channels:
    """Channels of windows (n, 6, m), n >= 1, rows acc x, y, z, gyr x, y, z, views of work until it is used again.

    work is a workspace of at least n windows of m samples; first_index is the number of the first window in errors.
    Raises ValueError where m < 4, or where a window holds a value that is not finite or not below 1e100.
    """
    n, _, m = signals.shape
    if m < MIN_SAMPLES:
        raise ValueError(f"windows must hold at least {MIN_SAMPLES} samples; got {m}. Lengthen the window.")
    values, centred, scratch = work[:, :n]
    values[:, 0:3] = signals[:, 0:3]
    values[:, 4:7] = signals[:, 3:6]
    low, high = np.empty((n, 8)), np.empty((n, 8))
    for axes in (slice(0, 3), slice(4, 7)):
        low[:, axes], high[:, axes] = checked_range(values[:, axes], axes, first_index)
        euclidean_norm(values[:, axes], values[:, axes.stop], scratch[:, 0])
    low[:, NORMS], high[:, NORMS] = values[:, NORMS].min(axis=-1), values[:, NORMS].max(axis=-1)
    is_constant = high - low <= CONSTANT_TOLERANCE * np.maximum(high, -low)
    mean = np.add.reduce(values, axis=-1) / m
    np.subtract(values, mean[:, :, np.newaxis], out=centred)
    sum_squares = np.add.reduce(np.multiply(centred, centred, out=scratch), axis=-1)
    return Channels(
        values=values,
        centred=centred,
        low=low,
        high=high,
        mean=mean,
        sum_squares=sum_squares,
        is_constant=is_constant,
        norm_power=_power(centred[:, NORMS], is_constant[:, NORMS]),
        rate_hz=rate_hz,
        scratch=scratch,
    )


def euclidean_norm(xyz: FloatArray, out: FloatArray, scratch: FloatArray) -> None:
    """Fill out (n, m) with sqrt(x^2 + y^2 + z^2) of axes (n, 3, m), summed in this order."""
    np.multiply(xyz[:, 0], xyz[:, 0], out=out)
    for axis in (1, 2):
        out += np.multiply(xyz[:, axis], xyz[:, axis], out=scratch)
    np.sqrt(out, out=out)


def checked_range(xyz: FloatArray, axes: slice, first_index: int) -> tuple[FloatArray, FloatArray]:
    """Smallest and largest value of each row (n, 3); NaN and infinity show in them, so no further pass is needed."""
    low, high = xyz.min(axis=-1), xyz.max(axis=-1)
    usable = (low > -MAGNITUDE_LIMIT) & (high < MAGNITUDE_LIMIT)
    if not bool(usable.all()):
        window, axis = (int(i) for i in np.argwhere(~usable)[0])
        row = xyz[window, axis]
        sample = int(np.argmin(np.abs(row) < MAGNITUDE_LIMIT))
        raise ValueError(
            f"windows must hold finite values below {MAGNITUDE_LIMIT:g}; got {row[sample]} in "
            f"window {first_index + window}, {CHANNELS[axes.start + axis]}, sample {sample}. "
            "Score no window with a gap or a fault."
        )
    return low, high


def _power(centred: FloatArray, is_constant: BoolArray) -> FloatArray:
    """|X_k|^2 of each row, k = 1 .. m // 2, DC dropped; zero where constant, so that rounding is no spectrum."""
    spectrum = np.fft.rfft(centred, axis=-1)[..., 1:]
    real, imag = np.ascontiguousarray(spectrum.real), np.ascontiguousarray(spectrum.imag)
    power: FloatArray = real * real
    power += imag * imag
    power[is_constant] = 0.0
    return power


def std(sum_squares: FloatArray, n_samples: int) -> FloatArray:
    """Standard deviation, ddof 0, from the sum of squared deviations."""
    deviation: FloatArray = np.sqrt(sum_squares / n_samples)
    return deviation


def iqr(values: FloatArray) -> FloatArray:
    """Interquartile range of each row; quartiles interpolated linearly between order statistics (Hyndman-Fan 7)."""
    # A whole sort: vectorised in numpy, it takes 1 us a row pair where partition at four places takes 8.
    ordered = np.sort(values, axis=-1)
    last = values.shape[-1] - 1

    def quantile(share: float) -> FloatArray:
        whole = int(share * last)
        below, above = ordered[..., whole], ordered[..., min(whole + 1, last)]
        between: FloatArray = below + (above - below) * (share * last - whole)
        return between

    return quantile(0.75) - quantile(0.25)


def signal_magnitude_area(channels: Channels) -> FloatArray:
    """(1/m) sum(|x| + |y| + |z|) of acceleration and of rotation, (n, 2)."""
    magnitude = np.abs(channels.values, out=channels.scratch)
    total = magnitude[:, 0::4]
    total += magnitude[:, 1::4]
    total += magnitude[:, 2::4]
    area: FloatArray = np.add.reduce(total, axis=-1) / channels.n_samples
    return area


def spectral_entropy(power: FloatArray) -> FloatArray:
    """-sum p ln p / ln K of each row, p = power / sum(power) over its K bins; 0 ln 0 = 0, and 0 for no power at all."""
    total = np.add.reduce(power, axis=-1)
    share = power / np.where(total > 0.0, total, 1.0)[..., np.newaxis]
    # p ln(max(p, smallest normal number)) is exactly 0 at p = 0.
    terms = np.maximum(share, _TINY)
    np.log(terms, out=terms)
    terms *= share
    # Subtracted from 0, not negated: an entropy of 0 is +0.
    entropy: FloatArray = (0.0 - np.add.reduce(terms, axis=-1)) / np.log(power.shape[-1])
    return entropy


def energy(power: FloatArray, n_samples: int) -> FloatArray:
    """(2/m^2) sum |X_k|^2 of each row over one-sided bins without DC, the Nyquist bin of an even m weighted 1, not 2.

    By Parseval's theorem this is the variance (ddof 0).
    """
    twice = 2.0 * np.add.reduce(power, axis=-1)
    if n_samples % 2 == 0:
        twice = twice - power[..., -1]
    scaled: FloatArray = twice / float(n_samples) ** 2
    return scaled


def correlations(channels: Channels, pairs: Sequence[tuple[str, str]]) -> FloatArray:
    """Pearson correlation of each pair of channels, (n, len(pairs)), clipped to [-1, 1]; 0 where either is constant."""
    ones = [CHANNELS.index(one) for one, _ in pairs]
    others = [CHANNELS.index(other) for _, other in pairs]
    products = channels.scratch[:, : len(pairs)]
    for k, (one, other) in enumerate(zip(ones, others, strict=True)):
        np.multiply(channels.centred[:, one], channels.centred[:, other], out=products[:, k])
    # Roots first: the product of two sums of squares may overflow or vanish where neither does.
    root = np.sqrt(channels.sum_squares)
    scale = root[:, ones] * root[:, others]
    undefined = channels.is_constant[:, ones] | channels.is_constant[:, others] | (scale == 0.0)
    scale[undefined] = 1.0
    ratio = np.add.reduce(products, axis=-1)
    ratio /= scale
    ratio[undefined] = 0.0
    correlation: FloatArray = np.minimum(np.maximum(ratio, -1.0), 1.0)
    return correlation


def mean_abs_derivative(values: FloatArray, rate_hz: float) -> FloatArray:
    """rate/(m - 1) sum |x_i+1 - x_i| of each row: the mean speed of change, per second."""
    step = values[..., 1:] - values[..., :-1]
    np.abs(step, out=step)
    speed: FloatArray = np.add.reduce(step, axis=-1) * (rate_hz / step.shape[-1])
    return speed
