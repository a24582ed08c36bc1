"""One-class nearest neighbours: 11NN, 1KNN, J1NN and JKNN of Khan & Ahmad (arXiv 1604.01686) by their parameters."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data

from stream_occ.detectors._base import (
    FrozenScorerMixin,
    TuningWarning,
    as_generator,
    check_parameter,
    is_count,
    is_number,
)
from stream_occ.detectors._tuning import MemberFit, MemberSettings, NoiseSide, fit_member
from stream_occ.samples import BoolArray, FloatArray
from stream_occ.scoring.ocnn_ensemble import FrozenScorer

__all__ = ["OCNN", "TuningWarning"]


class OCNN(FrozenScorerMixin, BaseEstimator):  # type: ignore[misc]
    """Accepts a row whose J nearest training rows are about as near to it as they are to their own K nearest.

    nn_ratio(x) = D_J / (D_K + floor * m): D_J the mean distance of x to its J nearest training rows, D_K the mean over
    these J of each one's mean distance to its K nearest training rows other than itself (by row number, never by
    distance), m the median over training rows of their own mean distance to K (of the positive ones where most are 0).
    Euclidean, float64; equal distances go to the lower row number; 0/0 = 0 and x/0 = +inf. Accepted iff nn_ratio <
    theta, strictly: offset_ = -nextafter(theta, -inf). `score_samples` = -nn_ratio, infinity standing as 1e300.

    X is used as given: scale it first. Where the paper leaves a choice: noise never trains an inner fold, the final
    training set is all of X, repeats included, and J, K are chosen at theta = 1 before theta. Options change the first
    three.

    Parameters
    ----------
    n_neighbors : J >= 1, or "cv" for Algorithm 3 (1..max_neighbors).
    k_neighbors : K >= 1, or "cv" likewise.
    theta : threshold > 0, or "empirical" for Algorithm 4.
    floor : >= 0; 0 is the paper's ratio, a large floor orders rows as the plain mean distance to J neighbours does.
    max_neighbors : largest J and K tried by "cv"; the paper took 10, and 5 for its sets of sensor windows.
    omega : whisker multiplier that Algorithm 2 starts from (the paper calls it a rate).
    n_inner_folds : inner folds G >= 2.
    drop_noise : leave the rows that Algorithm 2 rejects out of the final training set.
    random_state : seed (int), numpy Generator, RandomState or None; deals rows out to inner folds.
    train_on_noise : let noise train the inner folds that do not test it (the paper's text says both yes and no).
    noise_side : "both" as printed (equation 9), or "upper": rows near the mean row are no noise.
    drop_duplicates : keep repeated rows once, the first of each; J, K, noise and theta then see distinct rows alone.

    Attributes
    ----------
    n_neighbors_, k_neighbors_, theta_, offset_, score_threshold_ : what fit settled on.
    noise_ : bool (N,), rows rejected by Algorithm 2 (a dropped repeat is not among them), or None where it did not run.

    Examples
    --------
    >>> X = np.arange(10.0)[:, None]
    >>> OCNN().fit(X).predict([[4.5], [30.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        n_neighbors: int | Literal["cv"] = 1,
        k_neighbors: int | Literal["cv"] = 1,
        theta: float | Literal["empirical"] = 1.0,
        floor: float = 0.0,
        max_neighbors: int = 10,
        omega: float = 1.5,
        n_inner_folds: int = 2,
        drop_noise: bool = False,
        random_state: Any = None,
        *,
        train_on_noise: bool = False,
        noise_side: NoiseSide = "both",
        drop_duplicates: bool = False,
    ) -> None:
        self.n_neighbors = n_neighbors
        self.k_neighbors = k_neighbors
        self.theta = theta
        self.floor = floor
        self.max_neighbors = max_neighbors
        self.omega = omega
        self.n_inner_folds = n_inner_folds
        self.drop_noise = drop_noise
        self.random_state = random_state
        self.train_on_noise = train_on_noise
        self.noise_side = noise_side
        self.drop_duplicates = drop_duplicates

    def fit(self, X: ArrayLike, y: object = None, *, progress: Callable[[int, int], None] | None = None) -> Self:
        """Learns from normal rows X (N, d); y is ignored. Calls progress(1, 1) at the end.

        Raises ValueError for bad parameters, NaN, identical rows, or too few rows.
        """
        settings = self.settings()
        rows: FloatArray = validate_data(self, X, dtype=np.float64, order="C", ensure_min_samples=2)
        check_training_rows(rows)
        found = fit_member(rows, settings, as_generator(self.random_state))
        warn_of([found])
        self.n_neighbors_, self.k_neighbors_, self.theta_ = found.n_neighbors, found.k_neighbors, found.theta
        self.noise_ = found.noise
        self.scorer_: FrozenScorer = build_scorer(rows, np.eye(rows.shape[1])[None], [found], "single")
        self.score_threshold_ = float(np.nextafter(found.theta, -np.inf))
        self.offset_ = -self.score_threshold_
        if progress is not None:
            progress(1, 1)
        return self

    @property
    def decides_by_itself(self) -> bool:
        """True for the papers' ratio, which theta decides; with a floor the ratio needs a threshold from data."""
        return self.floor == 0

    def nn_ratio(self, X: ArrayLike) -> FloatArray:
        """D_J / (D_K + floor * m) of each row, (n,), high = abnormal; +inf where the denominator alone is 0."""
        rows = self._rows(X)
        return self.scorer_.ratios(rows)[:, 0]

    def tuning_summary(self) -> dict[str, Any]:
        """theta, J, K and number of noise rows that fit settled on, in the ensembles' form, as plain JSON."""
        check_is_fitted(self)
        noise = None if self.noise_ is None else self.noise_[None]
        return summary_of([self.n_neighbors_], [self.k_neighbors_], [self.theta_], noise)

    def settings(self) -> MemberSettings:
        """The parameters, checked; raises ValueError naming the one that is off."""
        for name in ("drop_noise", "train_on_noise", "drop_duplicates"):
            check_parameter(
                name, getattr(self, name), "True or False", isinstance(getattr(self, name), bool | np.bool_)
            )
        check_parameter("max_neighbors", self.max_neighbors, "an int >= 1", is_count(self.max_neighbors, 1))
        check_parameter("n_inner_folds", self.n_inner_folds, "an int >= 2", is_count(self.n_inner_folds, 2))
        check_parameter("omega", self.omega, "a finite number >= 0", is_number(self.omega) and self.omega >= 0)
        check_parameter("floor", self.floor, "a finite number >= 0", is_number(self.floor) and self.floor >= 0)
        for name in ("n_neighbors", "k_neighbors"):
            value = getattr(self, name)
            check_parameter(name, value, 'an int >= 1 or "cv"', value == "cv" or is_count(value, 1))
        is_theta = self.theta == "empirical" or (is_number(self.theta) and self.theta > 0)
        check_parameter("theta", self.theta, 'a finite number > 0 or "empirical"', is_theta)
        check_parameter("noise_side", self.noise_side, '"both" or "upper"', self.noise_side in ("both", "upper"))
        return MemberSettings(
            n_neighbors=None if self.n_neighbors == "cv" else int(self.n_neighbors),
            k_neighbors=None if self.k_neighbors == "cv" else int(self.k_neighbors),
            theta=None if self.theta == "empirical" else float(self.theta),
            floor=float(self.floor),
            max_neighbors=int(self.max_neighbors),
            omega=float(self.omega),
            n_inner_folds=int(self.n_inner_folds),
            drop_noise=bool(self.drop_noise),
            train_on_noise=bool(self.train_on_noise),
            noise_side=self.noise_side,
            drop_duplicates=bool(self.drop_duplicates),
        )


def build_scorer(X: FloatArray, maps: FloatArray, members: list[MemberFit], combine: str) -> FrozenScorer:
    """The frozen scorer of fitted members over shared rows X; it keeps a copy of X."""
    return FrozenScorer(
        X.copy(),
        maps=maps,
        own_distance=np.stack([member.own_distance for member in members]),
        n_neighbors=np.array([member.n_neighbors for member in members], dtype=np.int64),
        theta=np.array([member.theta for member in members]),
        floor=np.array([member.floor for member in members]),
        combine=combine,
    )


def summary_of(
    n_neighbors: ArrayLike, k_neighbors: ArrayLike, theta: ArrayLike, noise: BoolArray | None
) -> dict[str, Any]:
    """Spread over members (L,) as plain JSON: theta and n_noise as min, median, max; J and K as members per value.

    n_noise is None where Algorithm 2 did not run; noise is (L, N).
    """

    def spread(values: ArrayLike) -> dict[str, float]:
        low, middle, high = np.quantile(np.asarray(values, dtype=np.float64), (0.0, 0.5, 1.0)).tolist()
        return {"min": low, "median": middle, "max": high}

    def counts(values: ArrayLike) -> dict[str, int]:
        return {str(value): int(n) for value, n in zip(*np.unique(values, return_counts=True), strict=True)}

    return {
        "theta": spread(theta),
        "n_neighbors": counts(n_neighbors),
        "k_neighbors": counts(k_neighbors),
        "n_noise": None if noise is None else spread(np.count_nonzero(noise, axis=1)),
    }


def check_training_rows(X: FloatArray) -> None:
    """Raises ValueError unless the rows differ and their squares are finite."""
    if np.ptp(X, axis=0).max() == 0.0:
        raise ValueError(
            f"X must hold at least two distinct rows; got {len(X)} identical ones. Check that the sensor moved"
        )
    if np.abs(X).max() > 1e100:
        raise ValueError(f"X must lie within +-1e100; got {np.abs(X).max():.3g}. Scale the features first")


def warn_of(members: list[MemberFit]) -> None:
    """One TuningWarning for each thing that happened in any member, with the number of members."""
    texts = {
        "neighbors": "no J and K accept a target and reject a noise row of one inner fold: the smallest are used",
        "edge": "the best J or K is the largest one tried: raise max_neighbors or fix them",
        "theta": "no threshold accepts a target and rejects a noise row: theta = 1 is used",
    }
    for note, text in texts.items():
        n_affected = sum(note in member.notes for member in members)
        if n_affected:
            share = "" if len(members) == 1 else f" ({n_affected} of {len(members)} members)"
            warnings.warn(f"{text}{share}", TuningWarning, stacklevel=3)


PRESETS: dict[str, Callable[[], OCNN]] = {
    "11NN": OCNN,
    "11NN(theta)": lambda: OCNN(theta="empirical"),
    "JKNN": lambda: OCNN(n_neighbors="cv", k_neighbors="cv"),
    "1KNN": lambda: OCNN(k_neighbors="cv"),
    "J1NN": lambda: OCNN(n_neighbors="cv"),
}
