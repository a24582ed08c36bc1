"""Frozen nearest-neighbour ensemble: scores by nn_ratio in each member's map of the same training rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np

from stream_occ.engines import Members, MembersSearch, open_members, ratio_of
from stream_occ.samples import BoolArray, FloatArray, IntArray
from stream_occ.scoring._base import Arrays, check_arrays, check_shapes, finite_rows, refusal

LARGEST_RATIO = 1e300  # stands for an infinite ratio in a published score
LOG_LIMIT = float(np.log(1e12))  # a member's log ratio is clipped to +- this: 0/0 or x/0 cannot rule the mean

_ARRAYS = ("X", "maps", "own_distance", "n_neighbors", "theta", "floor")

COMBINE_RULES = ("single", "vote", "mean")

__all__ = ["COMBINE_RULES", "LARGEST_RATIO", "LOG_LIMIT", "FrozenScorer", "ratio_of"]


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
        self._members = Members(X, maps, own_distance, n_neighbors, theta, floor)
        self.combine = combine

    @cached_property
    def _search(self) -> MembersSearch:
        return open_members(self._members)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_search"}  # opened anew where it comes

    @property
    def n_features(self) -> int:
        """Columns that `score` expects."""
        return int(self._members.X.shape[1])

    @property
    def n_members(self) -> int:
        """Number of members L."""
        return len(self._members.maps)

    def ratios(self, X: FloatArray) -> FloatArray:
        """nn_ratio (n, L) of each row in each member; may be +inf."""
        return self._search.ratios(finite_rows(X, self.n_features))[0]

    def n_rejecting(self, X: FloatArray) -> IntArray:
        """Members (n,) that reject each row: nn_ratio >= theta."""
        return self._search.n_rejecting(finite_rows(X, self.n_features))

    def is_outvoted(self, X: FloatArray) -> BoolArray:
        """Whether at least half of the members reject each row (n,); compiled, no more are asked than that takes."""
        return self._search.more_reject(finite_rows(X, self.n_features), (self.n_members - 1) // 2)

    def score(self, X: FloatArray) -> FloatArray:
        """Scores (n,), high = abnormal, always finite, of scaled rows X (n, d)."""
        if self.combine == "vote":
            return self.n_rejecting(X) / self.n_members
        return self._combined(self.ratios(X))

    def score_and_nearest(self, X: FloatArray, k: int) -> tuple[FloatArray, IntArray | None]:
        """Scores, and the k nearest training rows (n, k) of each row, nearest first, ties by lower row.

        None where other rows are looked for: with several members, a map that is not the identity, or rows left out.
        """
        if not self._members.is_plain:
            return self.score(X), None
        ratios, nearest_rows = self._search.ratios(finite_rows(X, self.n_features), k)
        return self._combined(ratios), nearest_rows[:, :k]

    def _combined(self, ratios: FloatArray) -> FloatArray:
        """Scores (n,) from the members' nn_ratio (n, L)."""
        if self.combine == "vote":
            votes: FloatArray = np.add.reduce(ratios >= self._members.theta, axis=1, dtype=np.int64) / self.n_members
            return votes
        if self.combine == "single":
            return np.minimum(ratios[:, 0], LARGEST_RATIO)
        with np.errstate(divide="ignore"):
            logs = np.clip(np.log(ratios / self._members.theta), -LOG_LIMIT, LOG_LIMIT)
        mean: FloatArray = np.add.reduce(logs, axis=1) / self.n_members
        return mean

    def arrays(self) -> Arrays:
        """Training rows, maps and the members' numbers."""
        return {name: getattr(self._members, name) for name in _ARRAYS}

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
