"""Compiled parts of the feature sets, with numpy's bits: its order of summation, and its own transform, sort and log.

What each number is: `features/fall31.py` and `features/khan31r.py`; `features/_compiled.py` calls what is here. Values
are finite and below LIMIT, so that nothing overflows and no NaN comes up: what is beyond goes to the numpy form. The
sign of a zero may differ from numpy's, no other bit.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit, types

from stream_occ.engines._vectors import array, compiled

LIMIT = 1e30
CONSTANT_TOLERANCE = 1e-9
TINY = float(np.finfo(np.float64).tiny)
PAIRWISE = 128  # numpy adds up so many in eight sums, and halves what is longer
N_SIZES = 23  # features of fall31 that are logarithms

_f8, _i8, _c16 = types.float64, types.int64, types.complex128
_WINDOWS = types.Array(_f8, 3, "A", readonly=True)  # (n, 6, m), views of a stream too


def _out(n_dimensions, dtype=_f8):
    return array(dtype, n_dimensions, readonly=False)


# --- parts, which numba puts into the functions below -----------------------------------------------------------------


@njit(error_model="numpy")
def _short_sum(x, first, n):
    """Sum of at most 128 values: eight sums side by side, then the rest."""
    if n < 8:
        total = 0.0
        for j in range(first, first + n):
            total += x[j]
        return total
    a, b, c, d = x[first], x[first + 1], x[first + 2], x[first + 3]
    e, f, g, h = x[first + 4], x[first + 5], x[first + 6], x[first + 7]
    even = n - n % 8
    for j in range(first + 8, first + even, 8):
        a += x[j]
        b += x[j + 1]
        c += x[j + 2]
        d += x[j + 3]
        e += x[j + 4]
        f += x[j + 5]
        g += x[j + 6]
        h += x[j + 7]
    total = ((a + b) + (c + d)) + ((e + f) + (g + h))
    for j in range(first + even, first + n):
        total += x[j]
    return total


@njit(error_model="numpy")
def _halved_sum(x, first, n):
    """Sum of any number of values, halved until few; a stack in place of recursion, which numba cannot cache."""
    starts, counts = np.empty(64, np.int64), np.empty(64, np.int64)
    is_second, totals = np.zeros(64, np.bool_), np.empty(64)
    starts[0], counts[0], depth = first, n, 0
    while True:
        if counts[depth] > PAIRWISE:
            half = counts[depth] // 2
            starts[depth + 1], counts[depth + 1] = starts[depth], half - half % 8
            depth += 1
            is_second[depth] = False
            continue
        total = _short_sum(x, starts[depth], counts[depth])
        while depth > 0 and is_second[depth]:
            depth -= 1
            total = totals[depth] + total
        if depth == 0:
            return total
        parent = depth - 1
        totals[parent] = total
        starts[depth] = starts[parent] + counts[depth]
        counts[depth] = counts[parent] - counts[depth]
        is_second[depth] = True


@njit(error_model="numpy")
def _sum(x, first, n):
    """Sum of x[first : first + n] as numpy's add.reduce gives it, to the bit."""
    if n <= PAIRWISE:
        return 0.0 + _short_sum(x, first, n)
    half = n // 2
    half -= half % 8
    if n - half <= PAIRWISE:
        return 0.0 + (_short_sum(x, first, half) + _short_sum(x, first + half, n - half))
    return 0.0 + _halved_sum(x, first, n)


@njit(error_model="numpy")
def _mean(x, first, n):
    return _sum(x, first, n) / n


@njit(error_model="numpy")
def _std(x, first, n, scratch):
    mean = _mean(x, first, n)
    for j in range(n):
        deviation = x[first + j] - mean
        scratch[j] = deviation * deviation
    return math.sqrt(_sum(scratch, 0, n) / n)


@njit(error_model="numpy", fastmath={"nnan", "nsz"})
def _highest(x, n):
    a = b = c = d = x[0]  # four at once: each waits for the one before it
    even = n - n % 4
    for j in range(0, even, 4):
        a = x[j] if x[j] > a else a
        b = x[j + 1] if x[j + 1] > b else b
        c = x[j + 2] if x[j + 2] > c else c
        d = x[j + 3] if x[j + 3] > d else d
    for j in range(even, n):
        a = x[j] if x[j] > a else a
    return max(max(a, b), max(c, d))


@njit(error_model="numpy", fastmath={"nnan", "nsz"})
def _lowest(x, n):
    a = b = c = d = x[0]
    even = n - n % 4
    for j in range(0, even, 4):
        a = x[j] if x[j] < a else a
        b = x[j + 1] if x[j + 1] < b else b
        c = x[j + 2] if x[j + 2] < c else c
        d = x[j + 3] if x[j + 3] < d else d
    for j in range(even, n):
        a = x[j] if x[j] < a else a
    return min(min(a, b), min(c, d))


@njit(error_model="numpy")
def _length(x, y, z):
    return math.sqrt(x * x + y * y + z * z)


@njit(error_model="numpy")
def _running_sum(x, out):
    total = x[0]
    out[0] = total
    for j in range(1, len(x)):
        total += x[j]
        out[j] = total


@njit(error_model="numpy")
def _moving_mean(x, width, sums, out):
    """Fills out with the means of width samples in a row; how many there are."""
    n = len(x) - width + 1
    _running_sum(x, sums)
    out[0] = sums[width - 1] / width
    for i in range(1, n):
        out[i] = (sums[i + width - 1] - sums[i - 1]) / width
    return n


@njit(error_model="numpy")
def _largest_range(x, width, s, t):
    """Largest difference of two values within width samples, by doubling."""
    n, reach = len(x), 1
    s[:] = x
    t[:] = x
    while reach < width:
        step = min(reach, width - reach)
        n -= step
        for j in range(n):
            s[j] = s[j + step] if s[j + step] > s[j] else s[j]
            t[j] = t[j + step] if t[j + step] < t[j] else t[j]
        reach += step
    for j in range(n):
        s[j] -= t[j]
    return _highest(s, n)


@njit(error_model="numpy")
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


@njit(error_model="numpy")
def _load(window, rows):
    """Copies a window's rows; False where a value is no number or not below LIMIT."""
    usable = True
    for row in range(6):
        for j in range(rows.shape[1]):
            value = window[row, j]
            rows[row, j] = value
            usable &= (value > -LIMIT) & (value < LIMIT)
    return usable


@njit(error_model="numpy")
def _norms(rows, a, w):
    for j in range(len(a)):
        a[j] = _length(rows[0, j], rows[1, j], rows[2, j])
        w[j] = _length(rows[3, j], rows[4, j], rows[5, j])


@njit(error_model="numpy")
def _shares(power, first, n, shares, terms):
    """Power as shares of its sum, and what the logarithm of each is taken of."""
    total = _sum(power, first, n)
    if not total > 0.0:
        total = 1.0
    for j in range(n):
        shares[j] = power[first + j] / total
        terms[j] = max(shares[j], TINY)


@njit(error_model="numpy")
def _entropy(shares, logs, log_n, scratch):
    for j in range(len(shares)):
        scratch[j] = logs[j] * shares[j]
    return (0.0 - _sum(scratch, 0, len(shares))) / log_n


@njit(error_model="numpy")
def _size(x, floor):
    return max(x, 0.0) + floor


@njit(error_model="numpy")
def _fill_levels(acc, a, centred, ordered, lags, x, sizes, s, t):
    """Impact, kurtosis, fall and impact, spread."""
    m, q = len(a), len(a) // 4
    top = ordered[m - 1]
    median = 0.5 * (ordered[(m - 1) // 2] + ordered[m // 2])
    spread = _median_deviation(ordered, median)
    std = _std(a, 0, m, s)
    mx, my, mz = _mean(acc[0], 0, m), _mean(acc[1], 0, m), _mean(acc[2], 0, m)
    for j in range(m):
        s[j] = _length(acc[0, j] - mx, acc[1, j] - my, acc[2, j] - mz)
    sizes[0] = _size(top, 0.1)
    sizes[1] = _size(_highest(s, m), 0.1)
    sizes[2] = _size((top - median) / (spread + 0.1), 0.1)
    scale = max(std, 0.05)
    for j in range(m):
        z = centred[j] / scale
        z *= z
        s[j] = z * z
    sizes[3] = _size(_mean(s, 0, m), 1.0)
    sizes[4] = _size(_largest_range(a, lags[0], s, t), 0.1)
    x[5] = ordered[0]
    n = _moving_mean(a, lags[1], t, s)
    x[6] = _lowest(s, n)
    sizes[5] = _size(_highest(s, n), 0.1)
    sizes[9] = _size(std, 0.05)
    sizes[10] = _size(spread, 0.05)
    sizes[11] = _size(_std(a, 0, q, t), 0.05)
    sizes[12] = _size(_std(a, m - q, q, t), 0.05)


@njit(error_model="numpy")
def _fill_jerk(acc, step, rate_hz, sizes, s, t):
    n, per_s = acc.shape[1] - step, rate_hz / step
    for j in range(n):
        k = j + step
        s[j] = _length(acc[0, k] - acc[0, j], acc[1, k] - acc[1, j], acc[2, k] - acc[2, j]) * per_s
    sizes[6] = _size(_highest(s, n), 1.0)
    sizes[7] = _size(_mean(s, 0, n), 1.0)
    sizes[8] = _size(_std(s, 0, n, t), 1.0)


@njit(error_model="numpy")
def _fill_rotation(w, width, sizes, s, t):
    m, q = len(w), len(w) // 4
    sizes[13] = _size(_highest(w, m), 0.05)
    sizes[14] = _size(_mean(w, 0, m), 0.02)
    sizes[15] = _size(_std(w, 0, m, t), 0.02)
    sizes[16] = _size(_mean(w, 0, q), 0.02)
    sizes[17] = _size(_mean(w, m - q, q), 0.02)
    sizes[18] = _size(_highest(s, _moving_mean(w, width, t, s)), 0.02)


@njit(error_model="numpy")
def _fill_tilt(acc, width, lag, means, s, far, near):
    """Lengths of difference and sum of unit means: of the first and last quarter, then of those that lie lag apart."""
    m, q = acc.shape[1], acc.shape[1] // 4
    for axis in range(3):
        means[axis, 0], means[axis, 1] = _mean(acc[axis], 0, q), _mean(acc[axis], m - q, q)
    _unify(means, s, 2)
    _fill_half_angles(means, 1, 1, s, far, near)
    far[0], near[0] = far[1], near[1]
    n = 0
    for axis in range(3):
        n = _moving_mean(acc[axis], width, s, means[axis])
    _unify(means, s, n)
    _fill_half_angles(means, lag, n - lag, s, far, near)


@njit(error_model="numpy")
def _unify(vectors, sizes, n):
    """Vectors (3, n) made unit ones; sizes: their lengths, 0 where they (nearly) vanish and were left."""
    for j in range(n):
        sizes[j] = _length(vectors[0, j], vectors[1, j], vectors[2, j])
        size = sizes[j]
        if size < 1e-6:
            size, sizes[j] = 1.0, 0.0
        for axis in range(3):
            vectors[axis, j] /= size


@njit(error_model="numpy")
def _fill_half_angles(unit, lag, n, sizes, far, near):
    for j in range(n):
        k = j + lag
        far[j + 1] = _length(unit[0, k] - unit[0, j], unit[1, k] - unit[1, j], unit[2, k] - unit[2, j])
        near[j + 1] = _length(unit[0, k] + unit[0, j], unit[1, k] + unit[1, j], unit[2, k] + unit[2, j])
        if sizes[j] == 0.0 or sizes[k] == 0.0:
            far[j + 1], near[j + 1] = 0.0, 1.0


@njit(error_model="numpy")
def _fill_spectrum(spectrum, m, edges, is_constant, sizes, shares, s):
    first, n, scale = edges[0], edges[7] - edges[0], 2.0 / (0.375 * float(m) ** 2)
    for k in range(n):
        x = spectrum[first + k]
        s[k] = 0.0 if is_constant else (x.real * x.real + x.imag * x.imag) * scale
    for band in range(4):
        low, high = edges[2 * band] - first, edges[2 * band + 1] - first
        sizes[19 + band] = _size(_sum(s, low, high - low), 4e-4)
    _shares(s, 0, n, shares, sizes[N_SIZES:])


@njit(error_model="numpy")
def _quantile(ordered, share):
    last = len(ordered) - 1
    whole = int(share * last)
    below, above = ordered[whole], ordered[min(whole + 1, last)]
    return below + (above - below) * (share * last - whole)


@njit(error_model="numpy")
def _correlation(centred, root, is_constant, one, other, s):
    scale = root[one] * root[other]
    if is_constant[one] or is_constant[other] or scale == 0.0:
        return 0.0
    for j in range(len(s)):
        s[j] = centred[one, j] * centred[other, j]
    return min(max(_sum(s, 0, len(s)) / scale, -1.0), 1.0)


# --- what Python calls ------------------------------------------------------------------------------------------------


@compiled(_WINDOWS, array(_f8, 1), *(_out(2),) * 4)
def prepare_fall31(signals, taper, a, w, centred, tapered):
    """Norms of windows (n, 6, m), centred and tapered; False where a window is not for compiled code."""
    n, _, m = signals.shape
    rows = np.empty((6, m))
    for i in range(n):
        if not _load(signals[i], rows):
            return False
        _norms(rows, a[i], w[i])
        mean = _mean(a[i], 0, m)
        for j in range(m):
            centred[i, j] = a[i, j] - mean
            tapered[i, j] = centred[i, j] * taper[j]
    return True


@compiled(_out(2, _c16), _out(2))
def square(spectrum, power):
    """|X_k|^2 of complex rows."""
    for i in range(spectrum.shape[0]):
        for k in range(spectrum.shape[1]):
            x = spectrum[i, k]
            power[i, k] = x.real * x.real + x.imag * x.imag


@compiled(
    *(_WINDOWS, _f8, types.UniTuple(_i8, 7), types.UniTuple(_i8, 8), _out(3), _out(2), _out(2, _c16)), *(_out(2),) * 6
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
        X[i, 23] = _lowest(s, m)
        X[i, 24] = _highest(s, m) - X[i, 23]
        _fill_spectrum(spectrum[i], m, edges, is_constant, sizes[i], shares[i], s)
        X[i, 30] = 0.0
        if not is_constant and shift[i, 0] > 0.0:
            X[i, 30] = _highest(shift[i, lags[5] :], lags[6] - lags[5] + 1) / shift[i, 0]


@compiled(array(_i8, 1), _out(2), _out(2), _f8, _out(2), _out(2))
def finish_fall31(columns, logs, shares, log_n, half_angles, X):
    """Fills the columns of X that are logarithms, the angles and the entropy."""
    n_bins = shares.shape[1]
    scratch = np.empty(n_bins)
    for i in range(len(X)):
        for k in range(N_SIZES):
            X[i, columns[k]] = logs[i, k]
        X[i, 21] = 2.0 * half_angles[i, 0]
        X[i, 22] = 2.0 * _highest(half_angles[i, 1:], half_angles.shape[1] - 1)
        X[i, 29] = _entropy(shares[i], logs[i, N_SIZES:], log_n, scratch) if n_bins > 1 else 0.0


@compiled(_WINDOWS, _out(3), _out(3))
def prepare_khan31r(signals, norms, centred):
    """Norms (n, 2, m) of windows and the same centred; False where a window is not for compiled code."""
    n, _, m = signals.shape
    rows = np.empty((6, m))
    for i in range(n):
        if not _load(signals[i], rows):
            return False
        _norms(rows, norms[i, 0], norms[i, 1])
        for k in range(2):
            mean = _mean(norms[i, k], 0, m)
            for j in range(m):
                centred[i, k, j] = norms[i, k, j] - mean
    return True


@compiled(_WINDOWS, _f8, _out(3), _out(3), _out(3, _c16), _out(2), _out(3), _out(3))
def fill_khan31r(signals, rate_hz, norms, ordered, spectrum, X, terms, shares):
    """Fills X but for its entropies, and what those are made of."""
    n, _, m = signals.shape
    n_bins = spectrum.shape[2] - 1
    rows, centred, s = np.empty((8, m)), np.empty((8, m)), np.empty(m)
    root, is_constant = np.empty(8), np.empty(8, np.bool_)
    for i in range(n):
        x = X[i]
        for k in range(2):
            for axis in range(3):
                for j in range(m):
                    rows[4 * k + axis, j] = signals[i, 3 * k + axis, j]
            for j in range(m):
                rows[4 * k + 3, j] = norms[i, k, j]
        for c in range(8):
            low, high = _lowest(rows[c], m), _highest(rows[c], m)
            is_constant[c] = high - low <= CONSTANT_TOLERANCE * max(high, -low)
            mean = _mean(rows[c], 0, m)
            for j in range(m):
                centred[c, j] = rows[c, j] - mean
                s[j] = centred[c, j] * centred[c, j]
            squares = _sum(s, 0, m)
            root[c] = math.sqrt(squares)
            x[c] = mean
            if c % 4 == 3:
                k = c // 4
                x[8 + k], x[10 + k], x[12 + k] = high, low, math.sqrt(squares / m)
        for k in range(2):
            x[14 + k] = _quantile(ordered[i, k], 0.75) - _quantile(ordered[i, k], 0.25)
            for j in range(m):
                s[j] = abs(rows[4 * k, j]) + abs(rows[4 * k + 1, j]) + abs(rows[4 * k + 2, j])
            x[16 + k] = _mean(s, 0, m)
            for j in range(n_bins):
                f = spectrum[i, k, j + 1]
                s[j] = 0.0 if is_constant[4 * k + 3] else f.real * f.real + f.imag * f.imag
            _shares(s, 0, n_bins, shares[i, k], terms[i, k])
            twice = 2.0 * _sum(s, 0, n_bins)
            if m % 2 == 0:
                twice -= s[n_bins - 1]
            x[20 + k] = twice / float(m) ** 2
            first = 4 * k
            x[22 + 3 * k] = _correlation(centred, root, is_constant, first, first + 1, s)
            x[23 + 3 * k] = _correlation(centred, root, is_constant, first, first + 2, s)
            x[24 + 3 * k] = _correlation(centred, root, is_constant, first + 1, first + 2, s)
            for j in range(m - 1):
                s[j] = abs(norms[i, k, j + 1] - norms[i, k, j])
            x[28 + k] = _sum(s, 0, m - 1) * (rate_hz / (m - 1))
        x[30] = _correlation(centred, root, is_constant, 3, 7, s)


@compiled(_out(3), _out(3), _f8, _out(2))
def finish_khan31r(logs, shares, log_n, X):
    """Fills the entropies."""
    scratch = np.empty(shares.shape[2])
    for i in range(len(X)):
        for k in range(2):
            X[i, 18 + k] = _entropy(shares[i, k], logs[i, k], log_n, scratch)
