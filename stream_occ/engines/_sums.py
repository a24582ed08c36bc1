"""Compiled sums in numpy's order, so with its bits: `add.reduce` adds up at most 128 values in eight sums side by side,
and halves what is longer."""

from __future__ import annotations

import numpy as np
from numba import njit

from stream_occ.engines._vectors import lane_sum, part

PAIRWISE = 128


@part()
def short_sum(x, first, n):
    """Sum of x[first : first + n] for n of at most 128: eight sums side by side, then the rest."""
    even = n - n % 8
    total = lane_sum(x, first, first + even) if even else 0.0
    for j in range(first + even, first + n):
        total += x[j]
    return total


@njit(error_model="numpy", _nrt=True)
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
        total = short_sum(x, starts[depth], counts[depth])
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


@part()
def sum_of(x, first, n):
    """Sum of x[first : first + n] as numpy's add.reduce gives it, to the bit."""
    if n <= PAIRWISE:
        return 0.0 + short_sum(x, first, n)
    half = n // 2
    half -= half % 8
    if n - half <= PAIRWISE:
        return 0.0 + (short_sum(x, first, half) + short_sum(x, first + half, n - half))
    return 0.0 + _halved_sum(x, first, n)
