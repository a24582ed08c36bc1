"""What the compiled feature sets share: parts that numba puts into their functions, with numpy's order of summation.

Values are finite and below LIMIT, so that nothing overflows and no NaN comes up: what is beyond goes to the numpy form.
The sign of a zero may differ from numpy's, no other bit. Transforms, sorting and logarithms are numpy's own.
"""

from __future__ import annotations

import math

import numpy as np
from numba import types

from stream_occ.engines._sums import sum_of
from stream_occ.engines._vectors import array, part

LIMIT = 1e30
CONSTANT_TOLERANCE = 1e-9
TINY = float(np.finfo(np.float64).tiny)
WINDOWS = types.Array(types.float64, 3, "A", readonly=True)  # (n, 6, m), views of a stream too


def filled(n_dimensions, dtype=types.float64):
    """numba's type of an array that is written to."""
    return array(dtype, n_dimensions, readonly=False)


@part()
def mean_of(x, first, n):
    return sum_of(x, first, n) / n


@part(fastmath={"nnan", "nsz"})
def highest(x, n):
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


@part(fastmath={"nnan", "nsz"})
def lowest(x, n):
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


@part()
def length(x, y, z):
    return math.sqrt(x * x + y * y + z * z)


@part()
def load(window, rows):
    """Copies a window's rows; False where a value is no number or not below LIMIT."""
    usable = True
    for row in range(6):
        for j in range(rows.shape[1]):
            value = window[row, j]
            rows[row, j] = value
            usable &= (value > -LIMIT) & (value < LIMIT)
    return usable


@part()
def fill_shares(power, first, n, shares, terms):
    """Power as shares of its sum, and what the logarithm of each is taken of."""
    total = sum_of(power, first, n)
    if not total > 0.0:
        total = 1.0
    for j in range(n):
        shares[j] = power[first + j] / total
        terms[j] = max(shares[j], TINY)


@part()
def entropy_of(shares, logs, log_n, scratch):
    for j in range(len(shares)):
        scratch[j] = logs[j] * shares[j]
    return (0.0 - sum_of(scratch, 0, len(shares))) / log_n
