"""Members of a nearest-neighbour ensemble, and the engine that is always there: numpy."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from stream_occ.neighbors import UNDERFLOW, CandidateFilter, nearest_of_pairs, pair_distances_squared
from stream_occ.projection import project
from stream_occ.samples import BoolArray, FloatArray, IntArray

_ROWS = 256  # rows measured at a time: bounds memory

__all__ = ["Members", "NumpyMembers", "ratio_of"]


def ratio_of(distance: FloatArray, reference: FloatArray) -> FloatArray:
    """distance / reference with 0/0 = 0 (a duplicate among duplicates is accepted) and x/0 = +inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = distance / reference
    return np.where(distance == 0.0, 0.0, ratio)


@dataclass(frozen=True, eq=False)
class Members:
    """L members over shared rows X (N, d), each with its map (L, e, d), J (L,), theta (L,) and floor (L,).

    own_distance (L, N): D_K's terms, negative where a member leaves the row out. floor: the second term of D_K + floor.
    """

    X: FloatArray
    maps: FloatArray
    own_distance: FloatArray
    n_neighbors: IntArray
    theta: FloatArray
    floor: FloatArray

    @cached_property
    def is_plain(self) -> bool:
        """Whether there is one member, of all rows as they are."""
        is_alone = len(self.maps) == 1 and bool((self.own_distance >= 0.0).all())
        return is_alone and np.array_equal(self.maps[0], np.eye(self.X.shape[1]))

    @cached_property
    def largest_map(self) -> float:
        """Largest Frobenius norm of a map: no distance grows by more."""
        return float(np.sqrt(np.max(np.einsum("lij,lij->l", self.maps, self.maps))))


class NumpyMembers:
    """Measures rows in all members at once: a matrix product discards, float64 in a fixed order decides."""

    def __init__(self, members: Members) -> None:
        self._members = members
        metrics = np.matmul(members.maps.transpose(0, 2, 1), members.maps)
        self._filter = CandidateFilter(members.X, metrics, keep=members.own_distance >= 0.0)
        self._largest_row = float(np.sqrt(np.max(np.einsum("ij,ij->i", members.X, members.X))))

    def ratios(self, Z: FloatArray, k: int = 1) -> tuple[FloatArray, IntArray]:
        """nn_ratio (n, L), and the J or, where that is more, k rows that are nearest in the first member."""
        n_nearest = np.maximum(self._members.n_neighbors, k)
        ratios = np.empty((len(Z), len(n_nearest)))
        nearest_rows = np.empty((len(Z), int(n_nearest[0])), dtype=np.int64)
        for start in range(0, len(Z), _ROWS):
            part = slice(start, start + _ROWS)
            self._measure(Z[part], n_nearest, ratios[part], nearest_rows[part])
        return ratios, nearest_rows

    def n_rejecting(self, Z: FloatArray) -> IntArray:
        """Members (n,) that reject each row: nn_ratio >= theta."""
        rejecting: IntArray = np.add.reduce(self.ratios(Z)[0] >= self._members.theta, axis=1, dtype=np.int64)
        return rejecting

    def more_reject(self, Z: FloatArray, bar: int) -> BoolArray:
        """Whether more than `bar` members reject each row (n,)."""
        return self.n_rejecting(Z) > bar

    def _measure(self, Z: FloatArray, n_nearest: IntArray, ratios: FloatArray, nearest_rows: IntArray) -> None:
        """Fills ratios (n, L) and nearest_rows (n, n_nearest[0])."""
        size = np.sqrt(np.einsum("ij,ij->i", Z, Z)) + self._largest_row
        delta = 8.0 * (Z.shape[1] + 8) * 2.0**-53 * self._members.largest_map * size + UNDERFLOW
        for query, metric, row in self._filter.candidates(Z, n_nearest, delta):
            first = np.flatnonzero(np.diff(metric, prepend=-1, append=-1))
            for start, stop in pairwise(first):
                member = int(metric[start])
                present, local = np.unique(query[start:stop], return_inverse=True)
                pairs = Z[present], local, row[start:stop]
                ratios[present, member], found = self._decide(member, *pairs, int(n_nearest[member]))
                if member == 0:
                    nearest_rows[present] = found

    def _decide(
        self, member: int, Z: FloatArray, query: IntArray, row: IntArray, n_nearest: int
    ) -> tuple[FloatArray, IntArray]:
        """nn_ratio (n,) and nearest rows (n, n_nearest) in one member, from candidates (query, row): the exact part."""
        members = self._members
        k, matrix = int(members.n_neighbors[member]), members.maps[member]
        squared = pair_distances_squared(project(Z, matrix)[query], project(members.X[row], matrix))
        distances, nearest_rows = nearest_of_pairs(query, row, squared, len(Z), n_nearest)
        own = members.own_distance[member][nearest_rows]
        distance = np.cumsum(distances, axis=1)[:, k - 1] / k
        reference = np.cumsum(own, axis=1)[:, k - 1] / k
        return ratio_of(distance, reference + members.floor[member]), nearest_rows
