"""Compiled steps of a stream, with numpy's bits: `resampling` and `filtering` say what each number is."""

from __future__ import annotations

import numpy as np
from numba import types

from stream_occ.engines._vectors import compiled

_f8, _i8 = types.float64, types.int64


def _any(n_dimensions, dtype=_f8):
    """Arrays in any order, views among them."""
    return types.Array(dtype, n_dimensions, "A", readonly=True)


@compiled(_any(1, _i8), _any(2), *(_i8,) * 4, *(_f8,) * 2)
def grid(t_ns, v, anchor, first, last, n_before, step_ns, hole_ns):
    """Values (n, 6) of the grid samples from `first` to `last`, or until t_ns ends, how many samples came up to each,
    which of them bridge a hole, and how many do."""
    end = t_ns[-1] - anchor
    n_most = last + 1 - first
    values, n_came, bridges = np.empty((n_most, v.shape[1])), np.empty(n_most, np.int64), np.empty(n_most, np.bool_)
    n = n_bridged = left = 0
    for k in range(first, last + 1):
        offset = np.int64(np.rint(np.float64(k) * step_ns))
        if offset > end:
            break
        while left + 1 < len(t_ns) and t_ns[left + 1] - anchor <= offset:
            left += 1
        right = min(left + 1, len(t_ns) - 1)
        since = t_ns[left] - anchor
        width = max(t_ns[right] - anchor - since, 1)
        weight = np.float64(offset - since) / np.float64(width)
        for j in range(v.shape[1]):
            values[n, j] = v[left, j] + (v[right, j] - v[left, j]) * weight
        n_came[n] = left + n_before
        bridges[n] = width > hole_ns and weight > 0.0
        n_bridged += bridges[n]
        n += 1
    return values[:n], n_came[:n], bridges[:n], n_bridged


@compiled(_any(2), _any(2), _any(3))
def sos_filter(sos, x, state):
    """Filtered samples (n, channels), and the state after them."""
    y, after = x.copy(), np.zeros(state.shape)
    for i in range(len(sos)):
        b0, b1, b2, a1, a2 = sos[i, 0], sos[i, 1], sos[i, 2], sos[i, 4], sos[i, 5]
        g1, g2, is_first = b1 - a1 * b0, b2 - a2 * b0, b2 == 0.0 and a2 == 0.0
        for c in range(x.shape[1]):
            z1, z2 = state[i, 0, c], state[i, 1, c]
            for j in range(len(y)):
                value = y[j, c]
                y[j, c] = b0 * value + z1
                if is_first:
                    z1 = g1 * value - a1 * z1
                else:
                    z1, z2 = (g1 * value - a1 * z1) + z2, g2 * value - a2 * z1
            after[i, 0, c] = z1
            if not is_first:
                after[i, 1, c] = z2
    return y, after
