"""The compiled engine: the numpy engine's answers to the bit, from trees of blocks. Needs numba (extra `fast`).

Each member's rows are put where its map takes them, turned to their own principal axes (distances stay), and halved
into blocks of 16 leaves of 16 rows with boxes. A search goes through the nearest blocks first, and passes over boxes
and rows that are farther than the k-th nearest so far: in float32, so what it finds are candidates. They are measured
again in float64 from the shared rows, in the order of summation of the numpy engine.

Bound. Lengths are in units of `scale`, y is a row's place, z the query's, u = 2^-24. Places are computed with an error
of at most `error` / 2, and so is the distance that decides, both in float64. Rounding y and z to float32 moves them by
at most u|y| and u|z|; for a row at distance d, |y| <= |z| + d. Squaring and adding e differences in float32 changes the
distance by a factor within 1 +- (e + 3) u, a box by 1 +- 18 u, and the norm of the last dimensions by u|z|. So where s
is the k-th smallest float32 distance, a row among the k nearest has one of at most (s + margin) slack, with margin =
error + 6.2 u|z| and slack = 1 + (3 e + 48) u; where |z| is above 64 radii, z and all sums are float64, only y is
rounded, by at most u times the radius, and margin = error + 2.1 u radius. 1e-20 stands for squares that underflow.

Certificate. Accepting, D_J < theta (D_K + floor), is a sum over the J nearest rows of d - theta (own + floor) that is
negative: so one of its terms is. Where no row x is nearer than its reach theta (own(x) + floor), the member rejects,
and no neighbour is looked for. The reach is enlarged by more than all rounding; where it is 0, a row at distance 0
counts as within it.
"""

from __future__ import annotations

import numpy as np

from stream_occ.engines import _kernels as kernels
from stream_occ.engines._kernels import HALF_ULP, MOST_COLUMNS, Trees
from stream_occ.engines._members import Members, NumpyMembers
from stream_occ.engines._planting import plant
from stream_occ.engines._vectors import BOXED, LANES, LEAF
from stream_occ.neighbors import check_count
from stream_occ.samples import BoolArray, FloatArray, IntArray

_SAMPLE = 4096  # rows that principal axes and units are found from
_FARTHEST = 1e15  # places reach no farther: their squares fit into float32
_TINY = 1e-160  # squares of less underflow in float64

__all__ = ["CompiledMembers", "CompiledRows", "handles"]


def handles(n_columns: int) -> bool:
    """Whether rows of so many columns can be summed as numpy does."""
    return n_columns <= MOST_COLUMNS


class CompiledRows:
    """The rows X (N, d) that neighbours are looked for among, for queries that come one batch after another."""

    def __init__(self, X: FloatArray) -> None:
        self._X = _required(X)
        self._trees = _plant(self._X, np.eye(X.shape[1])[None], [np.arange(len(X))])
        self._error = _Error(self._X, self._trees.center, np.sqrt(X.shape[1]))
        placed = self._trees.ids.ravel()
        self._order = placed[placed >= 0].astype(np.int64)

    def of(self, Q: FloatArray, k: int, *, skip: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """As `neighbors.NearestRows.of`."""
        check_count(k, len(self._X), skip)
        Q = _required(Q)
        is_join = skip is not None and len(Q) == len(self._X) and np.array_equal(skip, np.arange(len(Q)))
        order = self._order if is_join else np.arange(len(Q))  # neighbours one after another: their rows are at hand
        skip = np.full(len(Q), -1) if skip is None else np.ascontiguousarray(skip, dtype=np.int64)
        found: tuple[FloatArray, IntArray] = kernels.nearest(
            self._trees, self._X, self._trees.turn, True, Q, order, self._error.of(Q), k, skip
        )
        return found


class CompiledMembers:
    """The members of an ensemble: what `_members.NumpyMembers` finds, to the bit."""

    def __init__(self, members: Members) -> None:
        self._members, self._X = members, _required(members.X)
        kept = [np.flatnonzero(own >= 0.0) for own in members.own_distance]
        self._trees = _plant(self._X, members.maps, kept, _reaches(members))
        self._is_plain = members.is_plain
        self._maps = self._trees.turn if self._is_plain else _padded(members.maps.transpose(0, 2, 1))
        self._error = _Error(self._X, self._trees.center, members.largest_map)

    def ratios(self, Z: FloatArray, k: int = 1) -> tuple[FloatArray, IntArray]:
        """nn_ratio (n, L), and the J or, where that is more, k rows that are nearest in the first member."""
        members, Z = self._members, _required(Z)
        n_nearest = np.maximum(members.n_neighbors, k)
        into = (self._trees, self._X, self._maps, self._is_plain, Z, self._error.of(Z))
        found: tuple[FloatArray, IntArray] = kernels.ratios(
            *into, n_nearest, members.n_neighbors, members.own_distance, members.floor
        )
        return found

    def n_rejecting(self, Z: FloatArray) -> IntArray:
        """Members (n,) that reject each row: nn_ratio >= theta."""
        return self._votes(Z, -1)

    def more_reject(self, Z: FloatArray, bar: int) -> BoolArray:
        """Whether more than `bar` members reject each row (n,); asks no more members than that takes."""
        is_above: BoolArray = self._votes(Z, bar) > bar
        return is_above

    def _votes(self, Z: FloatArray, bar: int) -> IntArray:
        members, Z = self._members, _required(Z)
        into = (self._trees, self._X, self._maps, self._is_plain, Z, self._error.of(Z))
        counts: IntArray = kernels.votes(
            *into, members.n_neighbors, members.own_distance, members.floor, members.theta, bar
        )
        return counts


class _Error:
    """Bounds on how far off computed distances are, in the data's units, twice over: those that decide, and places."""

    def __init__(self, X: FloatArray, center: FloatArray, largest_map: float) -> None:
        self._n_features, self._factor = X.shape[1], 64.0 * (X.shape[1] + 8) ** 1.5 * 2.0**-53 * largest_map
        self._size = np.sqrt(np.max(np.einsum("ij,ij->i", X, X))) + np.sqrt(center @ center)

    def of(self, Z: FloatArray) -> FloatArray:
        bound: FloatArray = self._factor * (np.sqrt(np.einsum("ij,ij->i", Z, Z)) + self._size) + _TINY
        return bound


def _required(X: FloatArray) -> FloatArray:
    """X as the kernels' signatures have it; no copy where it is so already."""
    return np.require(X, np.float64, ("C", "A"))


def _padded(matrices: FloatArray) -> FloatArray:
    """Matrices (L, d, e) with columns of zeros up to a multiple of 8."""
    width = -(-matrices.shape[2] // LANES) * LANES
    padded = np.zeros((*matrices.shape[:2], width))
    padded[:, :, : matrices.shape[2]] = matrices
    return padded


def _reaches(members: Members) -> FloatArray:
    """(L, N): a member accepts no row that is at least so far from all of its rows, and not at distance 0."""
    rounding = 1e-12 + 8.0 * members.n_neighbors[:, None] * 2.0**-53
    reach = members.theta[:, None] * (members.own_distance + members.floor[:, None])
    larger: FloatArray = reach * (1.0 + rounding) + _TINY
    return larger


def _plant(X: FloatArray, maps: FloatArray, kept: list[IntArray], reaches: FloatArray | None = None) -> Trees:
    """Block trees of the kept rows of each member, in the places that its map takes them to."""
    n_members, n_columns = maps.shape[:2]
    n_blocks = -(-max(len(numbers) for numbers in kept) // LEAF**2)
    n_boxed = min(n_columns, BOXED + 1)
    leaves = (n_members, n_blocks, LEAF)
    f4 = np.float32
    trees = Trees(
        center=np.median(X, axis=0),
        turn=_padded(np.zeros((n_members, X.shape[1], n_columns))),
        scale=np.empty(n_members),
        radius=np.empty(n_members),
        rows=np.empty((*leaves, n_columns, LEAF), f4),
        ids=np.empty((*leaves, LEAF), np.int32),
        low=np.empty((n_members, n_blocks, n_boxed, LEAF), f4),
        high=np.empty((n_members, n_blocks, n_boxed, LEAF), f4),
        far_low=np.empty((n_members, n_boxed, n_blocks), f4),
        far_high=np.empty((n_members, n_boxed, n_blocks), f4),
        reach=np.zeros((*leaves, LEAF) if reaches is not None else (n_members, 0, LEAF, LEAF), f4),
        leaf_reach=np.zeros(leaves if reaches is not None else (n_members, 0, LEAF), f4),
        far_reach=np.zeros((n_members, n_blocks) if reaches is not None else (n_members, 0), f4),
    )
    centered = X - trees.center
    for member, numbers in enumerate(kept):
        rows = centered if len(numbers) == len(X) else centered[numbers]
        turn, scale = _axes(rows[:: -(-len(rows) // _SAMPLE)], maps[member])
        places = rows @ turn
        radius = float(np.sqrt(np.max(np.einsum("ij,ij->i", places, places))))
        if radius > _FARTHEST:
            excess = radius / _FARTHEST
            turn, places, scale, radius = turn / excess, places / excess, scale * excess, _FARTHEST
        trees.turn[member, :, :n_columns] = turn
        trees.scale[member], trees.radius[member] = scale, radius
        parts = (trees.rows, trees.ids, trees.low, trees.high, trees.far_low, trees.far_high)
        order = plant(places, numbers, *(part[member] for part in parts))
        if reaches is not None:
            reach = np.zeros(n_blocks * LEAF**2)
            reach[: len(numbers)] = reaches[member, numbers[order]] * ((1.0 + 4.0 * HALF_ULP) / scale)
            with np.errstate(over="ignore"):  # beyond float32 it is infinite: no row is out of reach
                trees.reach[member] = reach.reshape(n_blocks, LEAF, LEAF)
    if reaches is not None:
        np.max(trees.reach, axis=3, out=trees.leaf_reach)
        np.max(trees.leaf_reach, axis=2, out=trees.far_reach)
    return trees


def _axes(rows: FloatArray, matrix: FloatArray) -> tuple[FloatArray, float]:
    """What turns rows to the principal axes of their images, in units of `scale`: the images' median norm."""
    images = rows @ matrix.T
    norm = np.sqrt(np.einsum("ij,ij->i", images, images))
    scale = max(float(np.median(norm)), float(norm.max()) / _FARTHEST, 1e-150)
    images /= scale
    _, axes = np.linalg.eigh(images.T @ images)
    return matrix.T @ axes[:, ::-1] / scale, scale


def _check_order() -> None:
    """Raises ImportError where this numpy sums in another order than ours, so that scores would differ in last bits."""
    rng = np.random.default_rng(0)
    X, Z, maps = rng.normal(size=(64, 31)), rng.normal(size=(8, 31)), rng.normal(size=(2, 23, 31))
    members = Members(X, maps, np.ones((2, 64)), np.array([3, 2]), np.ones(2), np.zeros(2))
    if not np.array_equal(CompiledMembers(members).ratios(Z)[0], NumpyMembers(members).ratios(Z)[0]):
        raise ImportError("this numpy sums in an order that the compiled engine does not know")


_check_order()
