"""Compiled building of block trees: rows halved until 16 are left, and boxes around them."""

from __future__ import annotations

import numpy as np
from numba import types

from stream_occ.engines._vectors import BOXED, LEAF, STAGE, array, compiled


@compiled(
    *(array(types.float64, 2), array(types.int64, 1)),
    *(
        array(kind, n, readonly=False)
        for kind, n in (
            (types.float32, 4),
            (types.int32, 3),
            (types.float32, 3),
            (types.float32, 3),
            (types.float32, 2),
            (types.float32, 2),
        )
    ),
)
def plant(y, numbers, rows, ids, low, high, far_low, far_high):
    """Fills one member's part of the trees with places y (n, e) of the rows `numbers`; the order (n,) that they are in.

    Halves by the widest leading dimension, at multiples of 256 and then of 16 rows.
    """
    n, e = y.shape
    order = np.arange(n)
    stack = [(0, n)]
    while len(stack):
        start, stop = stack.pop()
        if stop - start <= LEAF:
            continue
        unit = LEAF * LEAF if stop - start > LEAF * LEAF else LEAF
        middle = start + max(1, -(-(stop - start) // unit) // 2) * unit
        column, widest = 0, -1.0
        for j in range(min(e, STAGE)):
            total, square = 0.0, 0.0
            for i in range(start, stop):
                t = y[order[i], j]
                total += t
                square += t * t
            if square - total * total / (stop - start) > widest:
                column, widest = j, square - total * total / (stop - start)
        left, right = start, stop - 1
        while left < right:
            pivot = y[order[(left + right) // 2], column]
            i, j = left, right
            while i <= j:
                while y[order[i], column] < pivot:
                    i += 1
                while y[order[j], column] > pivot:
                    j -= 1
                if i <= j:
                    order[i], order[j] = order[j], order[i]
                    i += 1
                    j -= 1
            if middle <= j:
                right = j
            elif middle >= i:
                left = i
            else:
                break
        stack.append((start, middle))
        stack.append((middle, stop))
    rows[:], ids[:] = np.inf, -1
    low[:], high[:], far_low[:], far_high[:] = np.inf, -np.inf, np.inf, -np.inf
    for i in range(n):
        s, leaf, m = i // (LEAF * LEAF), i // LEAF % LEAF, i % LEAF
        ids[s, leaf, m] = numbers[order[i]]
        square = 0.0
        for j in range(e):
            t = np.float32(y[order[i], j])
            rows[s, leaf, j, m] = t
            if j < BOXED:
                low[s, j, leaf], high[s, j, leaf] = min(low[s, j, leaf], t), max(high[s, j, leaf], t)
            else:
                square += np.float64(t) * np.float64(t)
        if e > BOXED:
            below, above = (
                np.float32(np.sqrt(square) * (1.0 - 2.0**-23)),
                np.float32(np.sqrt(square) * (1.0 + 2.0**-23)),
            )
            low[s, BOXED, leaf], high[s, BOXED, leaf] = (
                min(low[s, BOXED, leaf], below),
                max(high[s, BOXED, leaf], above),
            )
    for s in range(len(low)):
        for j in range(low.shape[1]):
            far_low[j, s], far_high[j, s] = low[s, j].min(), high[s, j].max()
    return order
