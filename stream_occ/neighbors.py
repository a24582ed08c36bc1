"""Exact nearest neighbours in two steps: a matrix product that may only discard, and a fixed-order float64 recheck.

The product runs in BLAS, whose order of summation depends on the batch, so nothing it computes reaches a result. It
discards a row only where a proven bound on all rounding errors says that the row cannot be among the k nearest.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_occ.samples import BoolArray, FloatArray, IntArray

_GROUP = 16  # columns whose smallest value stands for all of them in the first pass
_COARSE = 8  # groups whose smallest value bounds the k-th smallest from above
_CHUNK = 4096  # columns of one product: with a block of rows it fits the second-level cache
_BLOCK = 64  # rows of one product
_SINGLE_LIMIT = 1e3  # queries farther out than this many data radii are filtered in float64
_COMPACT = 1 / 16  # all queries are, where the median row lies nearer the centre than this share of the radius

UNDERFLOW = 1e-160  # squares of less vanish: so much more may a computed distance be off

__all__ = [
    "UNDERFLOW",
    "CandidateFilter",
    "NearestRows",
    "check_count",
    "nearest",
    "nearest_of_pairs",
    "pair_distances_squared",
]


class CandidateFilter:
    """Finds for each query a superset of its k nearest rows, in one or more metrics over the same rows.

    Metric l measures (z - x)' G_l (z - x) = z'G_l z - 2 (G_l z)'x + x'G_l x. The rows are stored once, centred and
    divided by their largest norm; each metric adds its G_l and the N numbers x'G_l x.

    Bound. With u the unit roundoff of the product's dtype, any order of summation and fused or not, the computed
    f = x'Gx - 2 (Gz)'x is off by at most E = (d + 8) u (|2Gz| max|x| + max x'Gx), doubled here for safety; what
    float64 rounds off in G, Gz and x'Gx adds less than 8 (d + 8 + tr G) tr G 2^-53 (1 + |z|), norms of x being <= 1.
    The recheck's distances are off by at most delta (given by the caller). A row within the recheck's k nearest then
    has f <= T = (sqrt(max(U + E + z'Gz, 0)) + 2 delta)^2 + E - z'Gz, U the k-th smallest computed f or anything above
    it: the k-th smallest of the minima over disjoint groups. Whatever is not finite survives.
    """

    def __init__(self, X: FloatArray, metrics: FloatArray | None = None, *, keep: BoolArray | None = None) -> None:
        n_rows, n_features = X.shape
        self._center = X.mean(axis=0)
        centered = X - self._center
        radius = float(np.sqrt(np.max(np.einsum("ij,ij->i", centered, centered), initial=0.0)))
        self._radius = radius if radius > 0.0 and np.isfinite(radius) else 1.0
        centered /= self._radius
        compact = float(np.median(np.einsum("ij,ij->i", centered, centered))) >= _COMPACT**2
        self._single_limit = _SINGLE_LIMIT if compact else -1.0  # far training rows leave float32 too blunt a filter
        self.n_rows = n_rows
        self._metrics = np.eye(n_features)[None] if metrics is None else metrics
        self._traces = np.trace(self._metrics, axis1=1, axis2=2)
        n_padded = -(-n_rows // (_GROUP * _COARSE)) * _GROUP * _COARSE
        self._rows64 = np.zeros((n_features, n_padded))
        self._rows64[:, :n_rows] = centered.T
        self._rows32 = self._rows64.astype(np.float32)
        self._norms64 = np.full((len(self._metrics), n_padded), np.inf)
        for norms, metric in zip(self._norms64, self._metrics, strict=True):
            norms[:n_rows] = np.einsum("ij,ij->i", centered @ metric, centered)
        if keep is not None:
            self._norms64[:, :n_rows][~keep] = np.inf
        self._norms32 = self._norms64.astype(np.float32)
        self._largest_norms = np.max(self._norms64, axis=1, where=np.isfinite(self._norms64), initial=0.0)

    def candidates(
        self, Z: FloatArray, n_neighbors: IntArray, delta: FloatArray, *, skip: IntArray | None = None
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        """Yields (query, metric, row) of surviving pairs, sorted, in blocks; no query-metric is split over blocks.

        Z (n, d) queries; n_neighbors (L,) of each metric; delta (n,) error bound of the recheck's distances, in the
        units of the data; skip (n,): a row that is no neighbour of the query (-1: none). A block is ordered by metric,
        then query, then row; padding and rows that are not kept never come out.
        """
        centered = (Z - self._center) / self._radius
        size = np.sqrt(np.einsum("ij,ij->i", centered, centered))
        near = size <= self._single_limit
        for subset, single in ((np.flatnonzero(near), True), (np.flatnonzero(~near), False)):
            if subset.size == 0:
                continue
            scaled_delta = delta[subset] / self._radius
            yield from self._blocks(
                centered[subset], n_neighbors, scaled_delta, single=single, queries=subset, skip=skip
            )

    def _blocks(
        self,
        Z: FloatArray,
        n_neighbors: IntArray,
        delta: FloatArray,
        *,
        single: bool,
        queries: IntArray,
        skip: IntArray | None,
    ) -> Iterator[tuple[IntArray, IntArray, IntArray]]:
        n_queries, n_metrics = Z.shape[0], len(self._metrics)
        transformed = np.concatenate([Z @ metric for metric in self._metrics])  # (L * n, d), metric by metric
        own = np.einsum("ij,ij->i", transformed, np.tile(Z, (n_metrics, 1)))
        metric_of = np.repeat(np.arange(n_metrics), n_queries)
        query_of = np.tile(np.arange(n_queries), n_metrics)
        dtype: type[Any] = np.float32 if single else np.float64
        factors = (-2.0 * transformed).astype(dtype)
        roundoff = 2.0**-24 if single else 2.0**-53
        reach = 2.0 * np.sqrt(np.einsum("ij,ij->i", transformed, transformed)) + self._largest_norms[metric_of]
        error = 2.0 * (Z.shape[1] + 8) * roundoff * reach + 1e-30
        metric_error = 8.0 * (Z.shape[1] + 8 + self._traces) * self._traces * 2.0**-53
        error += metric_error[metric_of] * (1.0 + np.sqrt(np.einsum("ij,ij->i", Z, Z)))[query_of]
        for start in range(0, n_metrics * n_queries, _BLOCK):
            part = slice(start, start + _BLOCK)
            query = query_of[part]
            own_row = None if skip is None else skip[queries[query]]
            found = self._survivors(
                factors[part],
                metric_of[part],
                n_neighbors[metric_of[part]],
                own[part],
                error[part],
                delta[query],
                own_row,
            )
            position, row = found
            yield queries[query[position]], metric_of[part][position], row

    def _survivors(
        self,
        factors: NDArray[Any],
        metric: IntArray,
        n_neighbors: IntArray,
        own: FloatArray,
        error: FloatArray,
        delta: FloatArray,
        skip: IntArray | None,
    ) -> tuple[IntArray, IntArray]:
        """(position in the block, row) of the pairs that may be among the k nearest, sorted."""
        single = factors.dtype == np.float32
        rows, norms = (self._rows32, self._norms32) if single else (self._rows64, self._norms64)
        n_padded = rows.shape[1]
        k_max = int(n_neighbors.max())
        width = _GROUP if n_padded >= 4 * _GROUP * k_max else 1
        coarse = _COARSE if n_padded >= 4 * _GROUP * _COARSE * k_max else 1
        values = np.empty((len(factors), n_padded), dtype=factors.dtype)
        lowest = np.empty((len(factors), n_padded // width), dtype=factors.dtype)
        bounds = np.flatnonzero(np.diff(metric, prepend=-1, append=-1))
        for start in range(0, n_padded, _CHUNK):
            chunk = values[:, start : start + _CHUNK]
            np.matmul(factors, rows[:, start : start + _CHUNK], out=chunk)
            for first, last in pairwise(bounds):
                chunk[first:last] += norms[metric[first], start : start + _CHUNK]
            if skip is not None:
                own_here = np.flatnonzero((skip >= start) & (skip < start + _CHUNK))
                chunk[own_here, skip[own_here] - start] = np.inf
            grouped = chunk.reshape(len(factors), width, -1)
            np.minimum.reduce(grouped, axis=1, out=lowest[:, start // width : start // width + grouped.shape[2]])
        bounding = np.minimum.reduce(lowest.reshape(len(lowest), coarse, -1), axis=1)
        smallest = np.partition(bounding, k_max - 1, axis=1)[:, :k_max].astype(np.float64)
        smallest.sort(axis=1)
        kth = smallest[np.arange(len(factors)), n_neighbors - 1]
        with np.errstate(invalid="ignore", over="ignore"):
            radius = np.sqrt(np.maximum(kth + error + own * (1.0 + 1e-12), 0.0)) + 2.0 * delta
            limit = radius * radius * (1.0 + 1e-12) + error - own * (1.0 - 1e-12)
            ceiling = np.nextafter(limit.astype(factors.dtype), factors.dtype.type(np.inf))
        position, group = np.divmod(np.flatnonzero(~(lowest > ceiling[:, None])), lowest.shape[1])
        chunk_start = group * width // _CHUNK * _CHUNK
        stride = np.minimum(n_padded - chunk_start, _CHUNK) // width
        columns = (chunk_start + group - chunk_start // width)[:, None] + stride[:, None] * np.arange(width)
        candidate = values[position[:, None], columns]
        inside = ~(candidate > ceiling[position][:, None]) & (norms[metric[position][:, None], columns] < np.inf)
        if skip is not None:
            inside &= columns != skip[position][:, None]
        key = np.sort((position[:, None] * n_padded + columns)[inside])
        return np.divmod(key, n_padded)


def pair_distances_squared(A: FloatArray, B: FloatArray) -> FloatArray:
    """Squared distances (m,) of rows A[i] and B[i]: float64, one fixed order of summation whatever m is."""
    difference = np.subtract(A, B, order="C")
    np.multiply(difference, difference, out=difference)
    squared: FloatArray = np.add.reduce(difference, axis=-1)
    return squared


def nearest_of_pairs(
    query: IntArray, row: IntArray, squared: FloatArray, n_queries: int, k: int
) -> tuple[FloatArray, IntArray]:
    """The k nearest of each query among its candidates: distances (n, k) ascending and rows, ties by lower row.

    `query` ascends from 0 to n_queries - 1 and `row` ascends within a query; every query has at least k candidates.
    """
    first = np.searchsorted(query, np.arange(n_queries + 1))
    counts = np.diff(first)
    table = np.full((n_queries, int(counts.max(initial=k))), np.inf)
    place = np.arange(len(query)) - first[query]
    table[query, place] = squared
    order = np.argsort(table, axis=1, kind="stable")[:, :k]
    distances = np.sqrt(np.take_along_axis(table, order, axis=1))
    return distances, row[first[:-1, None] + order]


def check_count(k: int, n_rows: int, skip: IntArray | None) -> None:
    """Raises ValueError unless k rows can be found, with skip one less than there are."""
    available = n_rows if skip is None else n_rows - 1
    if not 1 <= k <= available:
        raise ValueError(f"k must be in 1..{available} for {n_rows} rows; got {k}")


class NearestRows:
    """The rows X (N, d) that `nearest` looks among, for queries that come one batch after another."""

    def __init__(self, X: FloatArray) -> None:
        self._X, self._filter = X, CandidateFilter(X)
        self._largest_row = np.sqrt(np.max(np.einsum("ij,ij->i", X, X)))

    def of(self, Q: FloatArray, k: int, *, skip: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Distances and row numbers (n, k) of the rows nearest to each row of Q (n, d): see `nearest`."""
        n_queries = len(Q)
        check_count(k, len(self._X), skip)
        distances, rows = np.empty((n_queries, k)), np.empty((n_queries, k), dtype=np.int64)
        size = np.sqrt(np.einsum("ij,ij->i", Q, Q)) + self._largest_row
        delta = 4.0 * (self._X.shape[1] + 8) * 2.0**-53 * size + UNDERFLOW
        for query, _, row in self._filter.candidates(Q, np.array([k]), delta, skip=skip):
            present, local = np.unique(query, return_inverse=True)
            squared = pair_distances_squared(Q[query], self._X[row])
            distances[present], rows[present] = nearest_of_pairs(local, row, squared, len(present), k)
        return distances, rows


def nearest(Q: FloatArray, X: FloatArray, k: int, *, skip: IntArray | None = None) -> tuple[FloatArray, IntArray]:
    """Distances (n, k), ascending, and row numbers in X (N, d) of the k nearest rows of each row of Q (n, d).

    Exact: float64 distances sqrt(sum (q - x)^2), equal distances by lower row number, duplicates at distance 0.
    skip (n,): number of the row that query i itself is and that is no neighbour of its own (-1: none): excluded by
    number, never by distance 0. Needs k <= N, or k < N with skip.

    >>> nearest(np.array([[0.1]]), np.array([[0.0], [1.0], [0.2]]), 2)[1].tolist()
    [[0, 2]]
    """
    return NearestRows(X).of(Q, k, skip=skip)
