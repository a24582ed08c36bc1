"""Frozen nearest-neighbour ensemble: scores by nn_ratio in each member's map of the same training rows."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from stream_occ.neighbors import CandidateFilter, nearest_of_pairs, pair_distances_squared
from stream_occ.projection import project
from stream_occ.samples import FloatArray, IntArray
from stream_occ.scoring._base import Arrays, check_arrays, check_shapes, finite_rows, refusal

LARGEST_RATIO = 1e300  # stands for an infinite ratio in a published score
LOG_LIMIT = float(np.log(1e12))  # a member's log ratio is clipped to +- this: 0/0 or x/0 cannot rule the mean
_ROWS = 256  # rows scored at a time: bounds memory

COMBINE_RULES = ("single", "vote", "mean")

__all__ = ["COMBINE_RULES", "LARGEST_RATIO", "LOG_LIMIT", "FrozenScorer", "ratio_of"]


def ratio_of(distance: FloatArray, reference: FloatArray) -> FloatArray:
    """distance / reference with 0/0 = 0 (a duplicate among duplicates is accepted) and x/0 = +inf."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = distance / reference
    return np.where(distance == 0.0, 0.0, ratio)


class FrozenScorer:
    """Scores rows by how far they lie from training rows, compared with how far those lie from each other.

    Member l maps rows by p = R_l x and computes nn_ratio_l = D_J / (D_K + floor_l): D_J the mean distance to the J_l
    nearest training rows, D_K the mean of those rows' own mean distances to their K nearest. Score, high = abnormal:

    - `single` (one member): nn_ratio, at most 1e300;
    - `vote`: share of members that reject, nn_ratio_l >= theta_l;
    - `mean`: mean over members of log(nn_ratio_l / theta_l), each clipped to +-log(1e12).

    A row's score is bit-identical in any batch. Coordinates beyond +-1e100 count as +-1e100; NaN and inf are refused.
    """

    KIND: ClassVar[str] = "ocnn_ensemble"

    def __init__(
        self,
        X: FloatArray,
        *,
        maps: FloatArray,
        own_distance: FloatArray,
        n_neighbors: IntArray,
        theta: FloatArray,
        floor: FloatArray,
        combine: str,
    ) -> None:
        """X (N, d) training rows; maps (L, e, d); own_distance (L, N), negative where member l leaves the row out.

        n_neighbors (L,) is J_l, theta (L,) and floor (L,), the whole second term of the denominator. Arrays are
        trusted here; `from_arrays` checks them.
        """
        self._X, self._maps, self._own_distance = X, maps, own_distance
        self._n_neighbors, self._theta, self._floor = n_neighbors, theta, floor
        self.combine = combine
        kept = own_distance >= 0.0
        self._filter = CandidateFilter(X, np.matmul(maps.transpose(0, 2, 1), maps), keep=kept)
        self._largest_row = float(np.sqrt(np.max(np.einsum("ij,ij->i", X, X))))
        self._is_plain = bool(kept.all()) and maps.shape[0] == 1 and np.array_equal(maps[0], np.eye(X.shape[1]))

    @property
    def n_features(self) -> int:
        """Columns that `score` expects."""
        return int(self._X.shape[1])

    @property
    def n_members(self) -> int:
        """Number of members L."""
        return len(self._maps)

    def ratios(self, X: FloatArray) -> FloatArray:
        """nn_ratio (n, L) of each row in each member; may be +inf."""
        return self._search(X)[0]

    def n_rejecting(self, X: FloatArray) -> IntArray:
        """Members (n,) that reject each row: nn_ratio >= theta."""
        rejecting: IntArray = np.add.reduce(self.ratios(X) >= self._theta, axis=1, dtype=np.int64)
        return rejecting

    def score(self, X: FloatArray) -> FloatArray:
        """Scores (n,), high = abnormal, always finite, of scaled rows X (n, d)."""
        return self._combined(self.ratios(X))

    def score_and_nearest(self, X: FloatArray, k: int) -> tuple[FloatArray, IntArray | None]:
        """Scores, and the k nearest training rows (n, k) of each row, nearest first, ties by lower row.

        None where other rows are looked for: with several members, a map that is not the identity, or rows left out.
        """
        if not self._is_plain:
            return self.score(X), None
        ratios, nearest_rows = self._search(X, k)
        return self._combined(ratios), nearest_rows[:, :k]

    def _combined(self, ratios: FloatArray) -> FloatArray:
        """Scores (n,) from the members' nn_ratio (n, L)."""
        if self.combine == "vote":
            votes: FloatArray = np.add.reduce(ratios >= self._theta, axis=1, dtype=np.int64) / self.n_members
            return votes
        if self.combine == "single":
            return np.minimum(ratios[:, 0], LARGEST_RATIO)
        with np.errstate(divide="ignore"):
            logs = np.clip(np.log(ratios / self._theta), -LOG_LIMIT, LOG_LIMIT)
        mean: FloatArray = np.add.reduce(logs, axis=1) / self.n_members
        return mean

    def _search(self, X: FloatArray, k: int = 1) -> tuple[FloatArray, IntArray]:
        """nn_ratio (n, L), and the J or, where that is more, k rows that are nearest in the first member."""
        X = finite_rows(X, self.n_features)
        n_nearest = np.maximum(self._n_neighbors, k)
        ratios = np.empty((len(X), self.n_members))
        nearest_rows = np.empty((len(X), int(n_nearest[0])), dtype=np.int64)
        for start in range(0, len(X), _ROWS):
            part = slice(start, start + _ROWS)
            ratios[part], nearest_rows[part] = self._search_block(X[part], n_nearest)
        return ratios, nearest_rows

    def _search_block(self, X: FloatArray, n_nearest: IntArray) -> tuple[FloatArray, IntArray]:
        ratios = np.empty((len(X), self.n_members))
        nearest_rows = np.empty((len(X), int(n_nearest[0])), dtype=np.int64)
        n_features = self.n_features
        size = np.sqrt(np.einsum("ij,ij->i", X, X)) + self._largest_row
        delta = 8.0 * (n_features + 8) * 2.0**-53 * np.sqrt(self._maps.shape[1]) * size
        for query, metric, row in self._filter.candidates(X, n_nearest, delta):
            first = np.flatnonzero(np.diff(metric, prepend=-1, append=-1))
            for start, stop in pairwise(first):
                member = int(metric[start])
                present, local = np.unique(query[start:stop], return_inverse=True)
                pairs = X[present], local, row[start:stop]
                ratios[present, member], found = self._search_member(member, *pairs, int(n_nearest[member]))
                if member == 0:
                    nearest_rows[present] = found
        return ratios, nearest_rows

    def _search_member(
        self, member: int, X: FloatArray, query: IntArray, row: IntArray, n_nearest: int
    ) -> tuple[FloatArray, IntArray]:
        """nn_ratio (n,) and nearest rows (n, n_nearest) in one member, from candidates (query, row): the exact part."""
        k = int(self._n_neighbors[member])
        mapped, mapped_rows = project(X, self._maps[member]), project(self._X[row], self._maps[member])
        squared = pair_distances_squared(mapped[query], mapped_rows)
        distances, nearest_rows = nearest_of_pairs(query, row, squared, len(X), n_nearest)
        own = self._own_distance[member][nearest_rows]
        distance = np.cumsum(distances, axis=1)[:, k - 1] / k
        reference = np.cumsum(own, axis=1)[:, k - 1] / k
        return ratio_of(distance, reference + self._floor[member]), nearest_rows

    def arrays(self) -> Arrays:
        """Training rows, maps and the members' numbers."""
        return {
            "X": self._X,
            "maps": self._maps,
            "own_distance": self._own_distance,
            "n_neighbors": self._n_neighbors,
            "theta": self._theta,
            "floor": self._floor,
        }

    def params(self) -> dict[str, Any]:
        """The rule that combines the members."""
        return {"combine": self.combine}

    @classmethod
    def from_arrays(cls, arrays: Arrays, params: dict[str, Any]) -> Self:
        """The scorer again; raises ModelError where arrays and params do not fit each other."""
        combine = params.get("combine")
        if combine not in COMBINE_RULES:
            raise refusal("params: combine", f"be one of {', '.join(COMBINE_RULES)}", repr(combine))
        _check_arrays(arrays, single=combine == "single")
        return cls(
            arrays["X"],
            maps=arrays["maps"],
            own_distance=arrays["own_distance"],
            n_neighbors=arrays["n_neighbors"],
            theta=arrays["theta"],
            floor=arrays["floor"],
            combine=combine,
        )


def _check_arrays(arrays: Arrays, *, single: bool) -> None:
    """Raises ModelError unless names, dtypes, shapes and values are those of a fitted ensemble."""
    dimensions = {"X": 2, "maps": 3, "own_distance": 2, "n_neighbors": 1, "theta": 1, "floor": 1}
    check_arrays(arrays, dimensions, integers=("n_neighbors",))
    (n_rows, n_features), n_members = arrays["X"].shape, len(arrays["maps"])
    per_member = dict.fromkeys(("n_neighbors", "theta", "floor"), (n_members,))
    shapes = {"maps": (n_members, arrays["maps"].shape[1], n_features), "own_distance": (n_members, n_rows)}
    check_shapes(arrays, shapes | per_member)
    if single and n_members != 1:
        raise refusal("maps", "hold one member for a single detector", str(n_members))
    kept = np.count_nonzero(arrays["own_distance"] >= 0.0, axis=1)
    if (arrays["n_neighbors"] < 1).any() or (arrays["n_neighbors"] > kept).any():
        raise refusal("n_neighbors", f"be in 1..{int(kept.min())}", str(arrays["n_neighbors"].tolist()))
    if (arrays["theta"] <= 0.0).any() or (arrays["floor"] < 0.0).any():
        raise refusal("theta and floor", "be above 0 and at least 0", "a lower value")
