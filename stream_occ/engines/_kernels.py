"""Compiled search in block trees: candidates by float32 within a proven margin, then float64 in numpy's own order.

`compiled.py` says what is proven and calls what is compiled here, all of it when this file is imported and none of it
later: every function that Python calls has its one signature.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit, types

from stream_occ.engines._sums import PAIRWISE, short_sum
from stream_occ.engines._vectors import (
    BOXED,
    LANES,
    LEAF,
    STAGE,
    add_squares,
    array,
    box_squares,
    compiled,
    eight_sums,
    lowest_bit,
    not_above,
    part,
)

MOST_COLUMNS = PAIRWISE  # numpy sums more than these in another order
LARGEST = 3e38  # a box distance; infinity marks a block that was visited
HALF_ULP = 2.0**-24  # largest relative error of rounding to float32
DOUBLE = 64.0  # rows farther out than this many radii of the data are compared in float64


class Trees(NamedTuple):
    """Block trees of L members: S blocks of 16 leaves of 16 rows, e dimensions, B boxes.

    A row's place is y = (x - center) @ turn. rows (L, S, 16, e, 16): places, float32. ids (L, S, 16, 16): row numbers,
    -1: none. low and high (L, S, B, 16): boxes of leaves; far_low and far_high (L, B, S): of blocks. reach
    (L, S, 16, 16), leaf_reach (L, S, 16) and far_reach (L, S): within what distance a row lets another be accepted, and
    the largest of a leaf's and a block's. scale and radius (L,): what 1 is in the data's units, and the largest |y|.
    """

    center: Any
    turn: Any
    scale: Any
    radius: Any
    rows: Any
    ids: Any
    low: Any
    high: Any
    far_low: Any
    far_high: Any
    reach: Any
    leaf_reach: Any
    far_reach: Any


class Work(NamedTuple):
    """What one call writes to.

    in_single and in_double: a row's place, what its boxes are compared with, distances of blocks, of leaves, of rows.
    """

    in_single: Any
    in_double: Any
    best: Any
    found: Any
    place: Any
    squared: Any
    row: Any
    centered: Any
    mapped: Any
    mapped_row: Any
    squares: Any


_f4, _f8, _i4, _i8 = types.float32, types.float64, types.int32, types.int64
_TREES = types.NamedTuple(
    (
        *(array(_f8, n, readonly=False) for n in (1, 3, 1, 1)),
        array(_f4, 5, readonly=False),
        array(_i4, 4, readonly=False),
        *(array(_f4, n, readonly=False) for n in (4, 4, 3, 3, 4, 3, 2)),
    ),
    Trees,
)
_INTO = (_TREES, array(_f8, 2), array(_f8, 3), types.bool_, array(_f8, 2))  # trees, X, maps, is_plain, queries


# --- parts, which numba puts into the functions below -----------------------------------------------------------------


@part()
def _mapped(x, matrix, out):
    """out = x @ matrix (d, multiple of 8), as `projection.project` gives it, to the bit."""
    for first in range(0, len(out), LANES):
        eight_sums(x, matrix, first, out)


@part()
def _squared(a, b, n, squares):
    """Squared distance of a[:n] and b[:n] as `neighbors.pair_distances_squared` gives it, to the bit."""
    for j in range(n):
        t = a[j] - b[j]
        squares[j] = t * t
    return short_sum(squares, 0, n)


@part()
def _box_distances(low, high, boxed, out):
    """Squared distances of a place to boxes (B, m)."""
    out[:] = 0.0
    for j in range(len(boxed)):
        yj, lo, hi = boxed[j], low[j], high[j]
        for m in range(len(out)):
            t = max(max(lo[m] - yj, yj - hi[m]), yj - yj)
            out[m] += t * t


@part()
def _leaf(rows, y, limit, out):
    """Squared distances of y to 16 rows (e, 16); bits of those not above limit, and 0 where all are seen to be."""
    out[:] = 0.0
    near = 0
    for start in range(0, len(rows), STAGE):
        add_squares(rows, y, start, min(start + STAGE, len(rows)), out)
        near = not_above(out, limit)
        if near == 0:
            break
    return near


@part()
def _widened(distance, margin, slack, like):
    """The largest squared distance computed, in the type of like, for a row that is not farther than distance."""
    t = (distance + margin) * slack
    return like.dtype.type(t * t * 1.0000003)


@part()
def _search(trees, member, at, margin, slack, k, skip, work):
    """Finds candidates for the k nearest rows, nearest blocks first: how many are in work.place."""
    y, boxed, far, near, out = at
    best, found, place, ids = work.best[:k], work.found, work.place, trees.ids[member]
    best[:] = np.inf
    limit = y.dtype.type(np.inf)
    n_found = 0
    _box_distances(trees.far_low[member], trees.far_high[member], boxed, far)
    for s in range(len(far)):
        far[s] = min(far[s], y.dtype.type(LARGEST))
    for turn in range(len(far)):
        s = np.argmin(far)
        if far[s] > limit:
            break
        far[s] = np.inf
        box_squares(trees.low[member, s], trees.high[member, s], boxed, near)
        start = np.argmin(near) if turn == 0 else 0
        leaves = not_above(near, limit)
        leaves = (leaves >> start) | (leaves << (LEAF - start) & (1 << LEAF) - 1)
        while leaves != 0:
            leaf = (lowest_bit(leaves) + start) % LEAF
            leaves &= leaves - 1
            if near[leaf] > limit:
                continue
            rows = _leaf(trees.rows[member, s, leaf], y, limit, out)
            while rows != 0:
                m = lowest_bit(rows)
                rows &= rows - 1
                row = ids[s, leaf, m]
                if out[m] > limit or row < 0 or row == skip:
                    continue
                found[n_found], place[n_found] = out[m], row
                n_found += 1
                if out[m] < best[k - 1]:
                    i = k - 1
                    while i > 0 and best[i - 1] > out[m]:
                        best[i] = best[i - 1]
                        i -= 1
                    best[i] = out[m]
                    limit = _widened(np.sqrt(best[k - 1]), margin, slack, y)
    n_kept = 0
    for i in range(n_found):
        if not (found[i] > limit):
            place[n_kept] = place[i]
            n_kept += 1
    return n_kept


@part()
def _reached(trees, member, at, margin, slack):
    """Whether y may be within reach of some row; the nearest block is looked at first."""
    y, boxed, far, near, out = at
    reach, leaf_reach, far_reach = trees.reach[member], trees.leaf_reach[member], trees.far_reach[member]
    _box_distances(trees.far_low[member], trees.far_high[member], boxed, far)
    first = np.argmin(far)
    for turn in range(-1, len(far)):
        s = first if turn < 0 else turn
        if turn == first or far[s] > _widened(far_reach[s], margin, slack, y):
            continue
        box_squares(trees.low[member, s], trees.high[member, s], boxed, near)
        start = np.argmin(near) if turn < 0 else 0
        for step in range(LEAF):
            leaf = (start + step) % LEAF
            limit = _widened(leaf_reach[s, leaf], margin, slack, y)
            if near[leaf] > limit:
                continue
            rows = _leaf(trees.rows[member, s, leaf], y, limit, out)
            while rows != 0:
                m = lowest_bit(rows)
                rows &= rows - 1
                is_beyond = out[m] > _widened(reach[s, leaf, m], margin, slack, y)
                if not is_beyond and trees.ids[member, s, leaf, m] >= 0:
                    return True
    return False


@part()
def _box_place(y, n, boxed):
    """boxed = the leading dimensions of y, and the norm of the rest."""
    square = 0.0
    for j in range(BOXED, n):
        t = np.float64(y[j])
        square += t * t
    boxed[-1] = np.sqrt(square)
    for j in range(min(BOXED, n)):
        boxed[j] = y[j]


@part()
def _put(trees, member, z, error, work):
    """Puts z into its place: (whether float64 is needed, margin, slack); the bound in compiled.py."""
    single, y = work.in_single[0], work.in_double[0]
    n = len(single)
    for j in range(len(z)):
        work.centered[j] = z[j] - trees.center[j]
    _mapped(work.centered, trees.turn[member], y)
    norm = 0.0
    for j in range(n):
        norm += y[j] * y[j]
    norm = np.sqrt(norm)
    margin = error / trees.scale[member] + 1e-20
    if not (norm <= DOUBLE * trees.radius[member]):
        _box_place(y, n, work.in_double[1])
        return True, margin + 2.1 * HALF_ULP * trees.radius[member], 1.0 + 1e-12
    for j in range(n):
        single[j] = y[j]
    _box_place(single, n, work.in_single[1])
    return False, margin + 6.2 * HALF_ULP * norm, 1.0 + (3 * n + 48) * HALF_ULP


@part()
def _recheck(X, z, matrix, is_plain, n_found, k, work):
    """The k nearest of the candidates, by float64 in fixed order, ties by lower row: work.squared and work.row."""
    squared, row, n = work.squared, work.row, len(work.squares)
    if not is_plain:
        _mapped(z, matrix, work.mapped)
    squared[:k] = np.inf
    row[:k] = len(X)
    for i in range(n_found):
        candidate = work.place[i]
        if is_plain:
            t = _squared(z, X[candidate], n, work.squares)
        else:
            _mapped(X[candidate], matrix, work.mapped_row)
            t = _squared(work.mapped, work.mapped_row, n, work.squares)
        last = k - 1
        if t > squared[last] or (t == squared[last] and candidate > row[last]):
            continue
        while last > 0 and (squared[last - 1] > t or (squared[last - 1] == t and row[last - 1] > candidate)):
            squared[last], row[last] = squared[last - 1], row[last - 1]
            last -= 1
        squared[last], row[last] = t, candidate


@part()
def _nearest(trees, X, maps, is_plain, member, z, put, k, skip, work):
    """The k nearest rows of z, which is put: work.squared and work.row."""
    is_double, margin, slack = put
    if is_double:
        n_found = _search(trees, member, work.in_double, margin, slack, k, skip, work)
    else:
        n_found = _search(trees, member, work.in_single, margin, slack, k, skip, work)
    _recheck(X, z, maps[member], is_plain, n_found, k, work)


@part()
def _ratio(squared, row, own, floor, k):
    """nn_ratio as the numpy engine gives it, to the bit."""
    distance, reference = 0.0, 0.0
    for i in range(k):
        distance += np.sqrt(squared[i])
        reference += own[row[i]]
    distance /= k
    reference = reference / k + floor
    if distance == 0.0:
        return 0.0
    return np.inf if reference == 0.0 else distance / reference


@njit
def _workspace(trees, k):
    d, width, e = trees.turn.shape[1], trees.turn.shape[2], trees.rows.shape[3]
    n_places, n_far, n_boxed = trees.ids[0].size, trees.ids.shape[1], trees.far_low.shape[1]
    f = np.float32
    return Work(
        (np.empty(e, f), np.empty(n_boxed, f), np.empty(n_far, f), np.empty(LEAF, f), np.empty(LEAF, f)),
        (np.empty(width), np.empty(n_boxed), np.empty(n_far), np.empty(LEAF), np.empty(LEAF)),
        np.empty(k),
        np.empty(n_places),
        np.empty(n_places, np.int32),
        np.empty(k),
        np.empty(k, np.int64),
        np.empty(d),
        np.empty(width),
        np.empty(width),
        np.empty(e),
    )


# --- what Python calls ------------------------------------------------------------------------------------------------


@compiled(*_INTO, array(_i8, 1), array(_f8, 1), _i8, array(_i8, 1))
def nearest(trees, X, maps, is_plain, Q, order, errors, k, skip):
    """distances and rows (n, k) of the k nearest rows of each row of Q in member 0, but for row skip[i] (-1: none)."""
    distances, rows = np.empty((len(Q), k)), np.empty((len(Q), k), np.int64)
    work = _workspace(trees, k)
    for i in order:
        put = _put(trees, 0, Q[i], errors[i], work)
        _nearest(trees, X, maps, is_plain, 0, Q[i], put, k, skip[i], work)
        for j in range(k):
            distances[i, j], rows[i, j] = np.sqrt(work.squared[j]), work.row[j]
    return distances, rows


@compiled(*_INTO, array(_f8, 1), array(_i8, 1), array(_i8, 1), array(_f8, 2), array(_f8, 1))
def ratios(trees, X, maps, is_plain, Z, errors, n_nearest, n_neighbors, own_distance, floor):
    """nn_ratio (n, L), and the n_nearest[0] rows that are nearest in member 0."""
    found, rows = np.empty((len(Z), len(n_nearest))), np.empty((len(Z), n_nearest[0]), np.int64)
    work = _workspace(trees, n_nearest.max())
    for member in range(len(n_nearest)):
        for i in range(len(Z)):
            put = _put(trees, member, Z[i], errors[i], work)
            _nearest(trees, X, maps, is_plain, member, Z[i], put, n_nearest[member], -1, work)
            found[i, member] = _ratio(work.squared, work.row, own_distance[member], floor[member], n_neighbors[member])
            if member == 0:
                rows[i] = work.row[: n_nearest[0]]
    return found, rows


@compiled(*_INTO, array(_f8, 1), array(_i8, 1), array(_f8, 2), array(_f8, 1), array(_f8, 1), _i8)
def votes(trees, X, maps, is_plain, Z, errors, n_neighbors, own_distance, floor, theta, bar):
    """Members (n,) that reject each row; with bar >= 0 the count ends where it is, or cannot come, above bar."""
    n_rejecting = np.zeros(len(Z), np.int64)
    work = _workspace(trees, n_neighbors.max())
    for member in range(len(theta)):
        k, n_left = n_neighbors[member], len(theta) - member
        for i in range(len(Z)):
            if bar >= 0 and (n_rejecting[i] > bar or n_rejecting[i] + n_left <= bar):
                continue
            put = is_double, margin, slack = _put(trees, member, Z[i], errors[i], work)
            if is_double:
                may_accept = _reached(trees, member, work.in_double, margin, slack)
            else:
                may_accept = _reached(trees, member, work.in_single, margin, slack)
            if may_accept:
                _nearest(trees, X, maps, is_plain, member, Z[i], put, k, -1, work)
                ratio = _ratio(work.squared, work.row, own_distance[member], floor[member], k)
                n_rejecting[i] += ratio >= theta[member]
            else:
                n_rejecting[i] += 1
    return n_rejecting
