"""The compiled parts of khan31r: `features/khan31r.py` says what each number is, `features/_compiled.py` calls them."""

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
from stream_occ.engines._vectors import compiled, part

_f8, _c16 = types.float64, types.complex128


# --- parts, which numba puts into the functions below -----------------------------------------------------------------


@part()
def _quantile(ordered, share):
    last = len(ordered) - 1
    whole = int(share * last)
    below, above = ordered[whole], ordered[min(whole + 1, last)]
    return below + (above - below) * (share * last - whole)


@part()
def _correlation(centred, root, is_constant, one, other, s):
    scale = root[one] * root[other]
    if is_constant[one] or is_constant[other] or scale == 0.0:
        return 0.0
    for j in range(len(s)):
        s[j] = centred[one, j] * centred[other, j]
    return min(max(sum_of(s, 0, len(s)) / scale, -1.0), 1.0)


# --- what Python calls ------------------------------------------------------------------------------------------------


@compiled(WINDOWS, filled(3))
def prepare_khan31r(signals, work):
    """Fills work (n, 12, m): channels (acc x, y, z, norm, gyr x, y, z, norm), both norms centred, and both as they are,
    to be sorted; False where a window is not for compiled code."""
    for i in range(len(signals)):
        rows = work[i]
        if not load(signals[i], rows):
            return False
        for j in range(rows.shape[1]):
            rows[7, j] = length(rows[3, j], rows[4, j], rows[5, j])
            rows[6, j], rows[5, j], rows[4, j] = rows[5, j], rows[4, j], rows[3, j]
            rows[3, j] = length(rows[0, j], rows[1, j], rows[2, j])
        for k in range(2):
            norm = rows[4 * k + 3]
            mean = mean_of(norm, 0, len(norm))
            for j in range(len(norm)):
                rows[8 + k, j] = norm[j] - mean
                rows[10 + k, j] = norm[j]
    return True


@compiled(filled(3), _f8, filled(3, _c16), filled(4), filled(2))
def fill_khan31r(work, rate_hz, spectrum, entropy, X):
    """Fills X but for its entropies, and what those are made of: entropy (2, n, 2, bins), shares and terms."""
    n, _, m = work.shape
    n_bins = spectrum.shape[2] - 1
    centred, s = np.empty((8, m)), np.empty(m)
    root, is_constant = np.empty(8), np.empty(8, np.bool_)
    for i in range(n):
        x, rows, ordered = X[i], work[i], work[i, 10:]
        for c in range(8):
            low, high = lowest(rows[c], m), highest(rows[c], m)
            is_constant[c] = high - low <= CONSTANT_TOLERANCE * max(high, -low)
            mean = mean_of(rows[c], 0, m)
            for j in range(m):
                centred[c, j] = rows[c, j] - mean
                s[j] = centred[c, j] * centred[c, j]
            squares = sum_of(s, 0, m)
            root[c] = math.sqrt(squares)
            x[c] = mean
            if c % 4 == 3:
                k = c // 4
                x[8 + k], x[10 + k], x[12 + k] = high, low, math.sqrt(squares / m)
        for k in range(2):
            first, norm = 4 * k, rows[4 * k + 3]
            x[14 + k] = _quantile(ordered[k], 0.75) - _quantile(ordered[k], 0.25)
            for j in range(m):
                s[j] = abs(rows[first, j]) + abs(rows[first + 1, j]) + abs(rows[first + 2, j])
            x[16 + k] = mean_of(s, 0, m)
            for j in range(n_bins):
                f = spectrum[i, k, j + 1]
                s[j] = 0.0 if is_constant[first + 3] else f.real * f.real + f.imag * f.imag
            fill_shares(s, 0, n_bins, entropy[0, i, k], entropy[1, i, k])
            twice = 2.0 * sum_of(s, 0, n_bins)
            if m % 2 == 0:
                twice -= s[n_bins - 1]
            x[20 + k] = twice / float(m) ** 2
            x[22 + 3 * k] = _correlation(centred, root, is_constant, first, first + 1, s)
            x[23 + 3 * k] = _correlation(centred, root, is_constant, first, first + 2, s)
            x[24 + 3 * k] = _correlation(centred, root, is_constant, first + 1, first + 2, s)
            for j in range(m - 1):
                s[j] = abs(norm[j + 1] - norm[j])
            x[28 + k] = sum_of(s, 0, m - 1) * (rate_hz / (m - 1))
        x[30] = _correlation(centred, root, is_constant, 3, 7, s)


@compiled(filled(4), _f8, filled(2))
def finish_khan31r(entropy, log_n, X):
    """Fills the entropies."""
    scratch = np.empty(entropy.shape[3])
    for i in range(len(X)):
        for k in range(2):
            X[i, 18 + k] = entropy_of(entropy[0, i, k], entropy[1, i, k], log_n, scratch)
