"""The compiled parts of fall31: `features/fall31.py` says what each number is, `features/_compiled.py` calls them."""

from __future__ import annotations

import math

import numpy as np
from numba import types

from stream_occ.engines._features import (
    CONSTANT_TOLERANCE,
    WINDOWS,
    entropy_of,
    fill_shares,
    filled,
    highest,
    length,
    load,
    lowest,
    mean_of,
)
from stream_occ.engines._sums import sum_of
from stream_occ.engines._vectors import array, compiled, part

N_SIZES = 23  # features that are logarithms

_f8, _i8, _c16 = types.float64, types.int64, types.complex128


# --- parts, which numba puts into the functions below -----------------------------------------------------------------


@part()
def _std(x, first, n, scratch):
    mean = mean_of(x, first, n)
    for j in range(n):
        deviation = x[first + j] - mean
        scratch[j] = deviation * deviation
    return math.sqrt(sum_of(scratch, 0, n) / n)


@part()
def _running_sum(x, out):
    total = x[0]
    out[0] = total
    for j in range(1, len(x)):
        total += x[j]
        out[j] = total


@part()
def _moving_mean(x, width, sums, out):
    """Fills out with the means of width samples in a row; how many there are."""
    n = len(x) - width + 1
    _running_sum(x, sums)
    out[0] = sums[width - 1] / width
    for i in range(1, n):
        out[i] = (sums[i + width - 1] - sums[i - 1]) / width
    return n


@part()
def _largest_range(x, width, s, t):
    """Largest difference of two values within width samples, by doubling."""
    n, reach = len(x), 1
    for j in range(n):
        s[j] = t[j] = x[j]
    while reach < width:
        step = min(reach, width - reach)
        n -= step
        for j in range(n):
            s[j] = s[j + step] if s[j + step] > s[j] else s[j]
            t[j] = t[j + step] if t[j + step] < t[j] else t[j]
        reach += step
    for j in range(n):
        s[j] -= t[j]
    return highest(s, n)


@part()
def _median_deviation(ordered, median):
    """Median of |x - median| of sorted x: the deviations rise on either side of it, so that two pointers merge them."""
    m = len(ordered)
    left, right = m // 2 - 1, m // 2
    before, last = 0.0, 0.0
    for _ in range(m // 2 + 1):
        below = abs(ordered[left] - median) if left >= 0 else math.inf
        above = abs(ordered[right] - median) if right < m else math.inf
        before = last
        if below < above:
            last = below
            left -= 1
        else:
            last = above
            right += 1
    return 0.5 * ((last if m % 2 else before) + last)


@part()
def _norms(rows, a, w):
    for j in range(len(a)):
        a[j] = length(rows[0, j], rows[1, j], rows[2, j])
        w[j] = length(rows[3, j], rows[4, j], rows[5, j])


@part()
def _size(x, floor):
    return max(x, 0.0) + floor


@part()
def _fill_levels(acc, a, centred, ordered, lags, x, sizes, s, t):
    """Impact, kurtosis, fall and impact, spread."""
    m, q = len(a), len(a) // 4
    top = ordered[m - 1]
    median = 0.5 * (ordered[(m - 1) // 2] + ordered[m // 2])
    spread = _median_deviation(ordered, median)
    std = _std(a, 0, m, s)
    mx, my, mz = mean_of(acc[0], 0, m), mean_of(acc[1], 0, m), mean_of(acc[2], 0, m)
    for j in range(m):
        s[j] = length(acc[0, j] - mx, acc[1, j] - my, acc[2, j] - mz)
    sizes[0] = _size(top, 0.1)
    sizes[1] = _size(highest(s, m), 0.1)
    sizes[2] = _size((top - median) / (spread + 0.1), 0.1)
    scale = max(std, 0.05)
    for j in range(m):
        z = centred[j] / scale
        z *= z
        s[j] = z * z
    sizes[3] = _size(mean_of(s, 0, m), 1.0)
    sizes[4] = _size(_largest_range(a, lags[0], s, t), 0.1)
    x[5] = ordered[0]
    n = _moving_mean(a, lags[1], t, s)
    x[6] = lowest(s, n)
    sizes[5] = _size(highest(s, n), 0.1)
    sizes[9] = _size(std, 0.05)
    sizes[10] = _size(spread, 0.05)
    sizes[11] = _size(_std(a, 0, q, t), 0.05)
    sizes[12] = _size(_std(a, m - q, q, t), 0.05)


@part()
def _fill_jerk(acc, step, rate_hz, sizes, s, t):
    n, per_s = acc.shape[1] - step, rate_hz / step
    for j in range(n):
        k = j + step
        s[j] = length(acc[0, k] - acc[0, j], acc[1, k] - acc[1, j], acc[2, k] - acc[2, j]) * per_s
    sizes[6] = _size(highest(s, n), 1.0)
    sizes[7] = _size(mean_of(s, 0, n), 1.0)
    sizes[8] = _size(_std(s, 0, n, t), 1.0)


@part()
def _fill_rotation(w, width, sizes, s, t):
    m, q = len(w), len(w) // 4
    sizes[13] = _size(highest(w, m), 0.05)
    sizes[14] = _size(mean_of(w, 0, m), 0.02)
    sizes[15] = _size(_std(w, 0, m, t), 0.02)
    sizes[16] = _size(mean_of(w, 0, q), 0.02)
    sizes[17] = _size(mean_of(w, m - q, q), 0.02)
    sizes[18] = _size(highest(s, _moving_mean(w, width, t, s)), 0.02)


@part()
def _fill_tilt(acc, width, lag, means, s, far, near):
    """Lengths of difference and sum of unit means: of the first and last quarter, then of those that lie lag apart."""
    m, q = acc.shape[1], acc.shape[1] // 4
    for axis in range(3):
        means[axis, 0], means[axis, 1] = mean_of(acc[axis], 0, q), mean_of(acc[axis], m - q, q)
    _unify(means, s, 2)
    _fill_half_angles(means, 1, 1, s, far, near)
    far[0], near[0] = far[1], near[1]
    n = 0
    for axis in range(3):
        n = _moving_mean(acc[axis], width, s, means[axis])
    _unify(means, s, n)
    _fill_half_angles(means, lag, n - lag, s, far, near)


@part()
def _unify(vectors, sizes, n):
    """Vectors (3, n) made unit ones; sizes: their lengths, 0 where they (nearly) vanish and were left."""
    for j in range(n):
        sizes[j] = length(vectors[0, j], vectors[1, j], vectors[2, j])
        size = sizes[j]
        if size < 1e-6:
            size, sizes[j] = 1.0, 0.0
        for axis in range(3):
            vectors[axis, j] /= size


@part()
def _fill_half_angles(unit, lag, n, sizes, far, near):
    for j in range(n):
        k = j + lag
        far[j + 1] = length(unit[0, k] - unit[0, j], unit[1, k] - unit[1, j], unit[2, k] - unit[2, j])
        near[j + 1] = length(unit[0, k] + unit[0, j], unit[1, k] + unit[1, j], unit[2, k] + unit[2, j])
        if sizes[j] == 0.0 or sizes[k] == 0.0:
            far[j + 1], near[j + 1] = 0.0, 1.0


@part()
def _fill_spectrum(spectrum, m, edges, is_constant, sizes, shares, s):
    first, n, scale = edges[0], edges[7] - edges[0], 2.0 / (0.375 * float(m) ** 2)
    for k in range(n):
        x = spectrum[first + k]
        s[k] = 0.0 if is_constant else (x.real * x.real + x.imag * x.imag) * scale
    for band in range(4):
        low, high = edges[2 * band] - first, edges[2 * band + 1] - first
        sizes[19 + band] = _size(sum_of(s, low, high - low), 4e-4)
    fill_shares(s, 0, n, shares, sizes[N_SIZES:])


# --- what Python calls ------------------------------------------------------------------------------------------------


@compiled(WINDOWS, array(_f8, 1), *(filled(2),) * 4)
def prepare_fall31(signals, taper, a, w, centred, tapered):
    """Norms of windows (n, 6, m), centred and tapered; False where a window is not for compiled code."""
    n, _, m = signals.shape
    rows = np.empty((6, m))
    for i in range(n):
        if not load(signals[i], rows):
            return False
        _norms(rows, a[i], w[i])
        mean = mean_of(a[i], 0, m)
        for j in range(m):
            centred[i, j] = a[i, j] - mean
            tapered[i, j] = centred[i, j] * taper[j]
    return True


@compiled(filled(2, _c16), filled(2))
def square(spectrum, power):
    """|X_k|^2 of complex rows."""
    for i in range(spectrum.shape[0]):
        for k in range(spectrum.shape[1]):
            x = spectrum[i, k]
            power[i, k] = x.real * x.real + x.imag * x.imag


@compiled(
    *(WINDOWS, _f8, types.UniTuple(_i8, 7), types.UniTuple(_i8, 8)),
    *(filled(3), filled(2), filled(2, _c16), *(filled(2),) * 6),
)
def fill_fall31(signals, rate_hz, lags, edges, parts, ordered, spectrum, shift, X, sizes, shares, far, near):
    """Fills X but for its logarithms, entropy and angles; sizes: what those are taken of, far and near: of what angles.

    lags: samples in 1 s, .2 s, .04 s, at most 1 s, 2 s, .3 s and 2 s; edges: bins of the four bands; parts: a, w, a
    centred.
    """
    a, w, centred, _ = parts
    m = signals.shape[2]
    s, t, acc, means = np.empty(m), np.empty(m), np.empty((3, m)), np.empty((3, m))
    for i in range(len(a)):
        for axis in range(3):
            for j in range(m):
                acc[axis, j] = signals[i, axis, j]
        is_constant = ordered[i, m - 1] - ordered[i, 0] <= CONSTANT_TOLERANCE * ordered[i, m - 1]
        _fill_levels(acc, a[i], centred[i], ordered[i], lags, X[i], sizes[i], s, t)
        _fill_jerk(acc, lags[2], rate_hz, sizes[i], s, t)
        _fill_rotation(w[i], lags[0], sizes[i], s, t)
        _fill_tilt(acc, lags[3], lags[4], means, s, far[i], near[i])
        _running_sum(centred[i], s)
        for j in range(m):
            s[j] /= rate_hz
        X[i, 23] = lowest(s, m)
        X[i, 24] = highest(s, m) - X[i, 23]
        _fill_spectrum(spectrum[i], m, edges, is_constant, sizes[i], shares[i], s)
        X[i, 30] = 0.0
        if not is_constant and shift[i, 0] > 0.0:
            X[i, 30] = highest(shift[i, lags[5] :], lags[6] - lags[5] + 1) / shift[i, 0]


@compiled(array(_i8, 1), filled(2), filled(2), _f8, filled(2), filled(2))
def finish_fall31(columns, logs, shares, log_n, half_angles, X):
    """Fills the columns of X that are logarithms, the angles and the entropy."""
    n_bins = shares.shape[1]
    scratch = np.empty(n_bins)
    for i in range(len(X)):
        for k in range(N_SIZES):
            X[i, columns[k]] = logs[i, k]
        X[i, 21] = 2.0 * half_angles[i, 0]
        X[i, 22] = 2.0 * highest(half_angles[i, 1:], half_angles.shape[1] - 1)
        X[i, 29] = entropy_of(shares[i], logs[i, N_SIZES:], log_n, scratch) if n_bins > 1 else 0.0
