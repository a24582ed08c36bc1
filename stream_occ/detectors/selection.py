"""Choosing a detector's parameters from normal rows alone: by consistency, or by proxies for outliers (paper 1)."""

from __future__ import annotations

import inspect
import itertools
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from stream_occ.detectors._base import FrozenScorerMixin, as_generator, check_parameter, is_count, is_number
from stream_occ.detectors._tuning import inner_folds, noise_mask
from stream_occ.detectors.calibration import group_folds
from stream_occ.detectors.krr import KernelRidgeOCC, MultiLayerKRR
from stream_occ.detectors.ocnn import OCNN
from stream_occ.samples import BoolArray, FloatArray, IntArray

Groups = Sequence[Any] | NDArray[Any]

_OMEGA = 1.5  # whisker that Algorithm 2 starts from
_LEAST_PROXIES = 5  # as many as paper 1 asks for
_SEEDS = 2**31 - 1
_LANDMARKS = 500  # an exact fit of each candidate in each fold would take hours on a day of windows

_PART_ROWS = 120  # a minute at the usual hop: neighbouring windows overlap at its borders alone
_LEAST_PARTS = 10

SCALING = "z-score"  # of paper 2

__all__ = [
    "SelectedDetector",
    "SelectionWarning",
    "candidates_of",
    "consistency_limit",
    "gmean",
    "group_arguments",
    "held_out_rejections",
]


class SelectionWarning(UserWarning):
    """No candidate passed the rule; the least bad one was taken."""


class SelectedDetector(FrozenScorerMixin, BaseEstimator):  # type: ignore[misc]
    """A detector whose parameters are chosen from a grid with normal rows alone, then refitted on all of them.

    Candidates are the grid's combinations, the first parameter changing slowest; list each parameter's values from the
    most complex model to the simplest: large C, small lam, many layers or clusters first.

    - `consistency`: the first candidate, hence the most complex, whose share of held-out normal rows rejected is at
      most eta + 2 sqrt(eta (1 - eta) / M), M the held-out rows: two standard errors above what it was built to reject.
      Later ones are not tried. A model too complex for its data rejects more of what it has not seen. Where none is
      consistent, the one that rejects least, with a SelectionWarning; ties to the simplest.
    - `iqr-proxy`: Algorithm 2 of Khan & Ahmad (arXiv 1604.01686) marks the rows oddly far from (or near to) the mean as
      proxies for outliers. They never train a fold; the candidate with the best mean over folds of
      sqrt(TPR TNR), proxies standing for outliers, wins; ties to the simplest. Folds without proxies or without targets
      are left out. Where every mean is 0, a SelectionWarning.

    Parameters
    ----------
    estimator : an unfitted detector, None for OCNN().
    grid : parameter name -> values, most complex first; None or empty for the estimator as it is.
    rule : "consistency" or "iqr-proxy".
    eta : share of normal rows a model is meant to reject, in (0, 1); also set on an estimator that has an `eta`.
    n_folds : held-out parts >= 2; fewer where there are fewer groups or rows.
    random_state : seed, Generator, RandomState or None; deals out the folds and seeds the candidates, all alike.

    Attributes
    ----------
    estimator_, params_, index_ : the refitted winner, its combination and its place in the order of complexity.
    measured_ : of each candidate tried, in order: share rejected (`consistency`) or mean gmean (`iqr-proxy`).

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(60, 2))
    >>> found = SelectedDetector(OCNN(), {"theta": [0.5, 1e3]}, random_state=0).fit(X)
    >>> found.params_  # theta = 0.5 rejects most rows
    {'theta': 1000.0}
    """

    def __init__(
        self,
        estimator: Any = None,
        grid: Mapping[str, Sequence[Any]] | None = None,
        rule: Literal["consistency", "iqr-proxy"] = "consistency",
        eta: float = 0.05,
        n_folds: int = 5,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.grid = grid
        self.rule = rule
        self.eta = eta
        self.n_folds = n_folds
        self.random_state = random_state

    @property
    def decides_by_itself(self) -> bool:
        """Whether the estimator's own threshold is meant to decide."""
        return bool(getattr(getattr(self, "estimator_", self._estimator()), "decides_by_itself", False))

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        groups: Groups | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Chooses and refits on normal rows X (N, d); y is ignored. progress(done, total) counts candidates and refit.

        groups (N,) names the person (or recording) of each row: no group is in two folds, so that overlapping windows
        cannot vouch for each other. Raises ValueError for bad parameters, one group, too few rows, and whatever a
        candidate refuses.
        """
        self._check()
        rows: FloatArray = validate_data(self, X, dtype=np.float64, order="C", ensure_min_samples=2)
        rng = as_generator(self.random_state)
        seed = int(rng.integers(_SEEDS))
        combinations, candidates = candidates_of(self._estimator(), self.grid or {}, eta=self.eta, seed=seed)
        told = progress or (lambda done, total: None)
        choose = self._by_consistency if self.rule == "consistency" else self._by_proxies
        self.index_, self.measured_ = choose(rows, candidates, groups, rng, told)
        self.params_ = combinations[self.index_]
        self.estimator_ = candidates[self.index_].fit(rows)
        self.scorer_, self.offset_ = self.estimator_.to_scorer(), self.estimator_.offset_
        self.score_threshold_ = self.estimator_.score_threshold_
        told(len(candidates) + 1, len(candidates) + 1)
        return self

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """As the chosen detector: high = normal."""
        rows = self._rows(X)
        scores: FloatArray = self.estimator_.score_samples(rows)
        return scores

    def tuning_summary(self) -> dict[str, Any]:
        """The chosen parameters that are numbers, and what was measured of the winner, as plain JSON."""
        check_is_fitted(self)
        chosen = {name: float(value) for name, value in self.params_.items() if is_number(value)}
        measured = {"candidate": float(self.index_), "measured": float(self.measured_[self.index_])}
        return {"chosen": chosen or None, f"selection by {self.rule}": measured}

    def _by_consistency(
        self,
        X: FloatArray,
        candidates: list[Any],
        groups: Groups | None,
        rng: np.random.Generator,
        told: Callable[[int, int], None],
    ) -> tuple[int, FloatArray]:
        fold = self._folds(len(X), groups, rng)
        limit = consistency_limit(self.eta, len(X))
        shares: list[float] = []
        for candidate in candidates:
            shares.append(float(held_out_rejections(candidate, X, fold).mean()))
            told(len(shares), len(candidates) + 1)
            if shares[-1] <= limit:
                return len(shares) - 1, np.array(shares)
        best = _last_of_best(-np.array(shares))
        text = (
            f"no candidate rejects at most {limit:.3g} of held-out normal rows; the least, {shares[best]:.3g}, is taken"
        )
        warnings.warn(text, SelectionWarning, stacklevel=3)
        return best, np.array(shares)

    def _by_proxies(
        self,
        X: FloatArray,
        candidates: list[Any],
        groups: Groups | None,
        rng: np.random.Generator,
        told: Callable[[int, int], None],
    ) -> tuple[int, FloatArray]:
        is_proxy = noise_mask(X, omega=_OMEGA, n_needed=max(self.n_folds, _LEAST_PROXIES))
        fold = inner_folds(is_proxy, self.n_folds, rng) if groups is None else self._folds(len(X), groups, rng)
        both = [k for k in range(int(fold.max()) + 1) if len(set(is_proxy[fold == k].tolist())) == 2]
        means: list[float] = []
        for candidate in candidates:
            rejected = held_out_rejections(candidate, X, fold, trains=~is_proxy)
            gmeans = [gmean(rejected[fold == k], is_proxy[fold == k]) for k in both]
            means.append(float(np.mean(gmeans)) if gmeans else 0.0)
            told(len(means), len(candidates) + 1)
        best = _last_of_best(np.array(means))
        if means[best] == 0.0:
            text = "no candidate accepts a held-out target and rejects a proxy; the simplest is taken"
            warnings.warn(text, SelectionWarning, stacklevel=3)
        return best, np.array(means)

    def _folds(self, n_rows: int, groups: Groups | None, rng: np.random.Generator) -> IntArray:
        """Fold number (n,) of each row, groups kept whole; without groups each row is one."""
        names = np.arange(n_rows) if groups is None else np.asarray(groups)
        if len(names) != n_rows:
            raise ValueError(f"groups must have one entry a row of X ({n_rows}); got {len(names)}")
        n_groups = len(np.unique(names))
        if n_groups < 2:
            raise ValueError(
                "groups must name at least two people or recordings; got 1. Leave groups out to hold out rows"
            )
        return group_folds(names, min(self.n_folds, n_groups), int(rng.integers(_SEEDS)))

    def _estimator(self) -> Any:
        return OCNN() if self.estimator is None else self.estimator

    def _check(self) -> None:
        is_grid = self.grid is None or isinstance(self.grid, Mapping)
        check_parameter("grid", self.grid, "None or a mapping of parameters to lists of values", is_grid)
        check_parameter("rule", self.rule, "consistency or iqr-proxy", self.rule in ("consistency", "iqr-proxy"))
        check_parameter("eta", self.eta, "a share in (0, 1)", is_number(self.eta) and 0.0 < self.eta < 1.0)
        check_parameter("n_folds", self.n_folds, "an int >= 2", is_count(self.n_folds, 2))
        if not hasattr(self._estimator(), "to_scorer"):
            raise ValueError(f"estimator must be a detector of stream_occ or None; got {self.estimator!r}")


def candidates_of(
    estimator: Any, grid: Mapping[str, Sequence[Any]], *, eta: float, seed: int
) -> tuple[list[dict[str, Any]], list[Any]]:
    """The grid's combinations, first parameter slowest, and an unfitted clone of the estimator for each.

    eta and random_state are set where the estimator has them and the grid does not give them. Raises ValueError for an
    empty list of values or a parameter the estimator does not have.
    """
    for name, values in grid.items():
        if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or len(values) == 0:
            raise ValueError(f"grid[{name!r}] must be a list of values, most complex first; got {values!r}")
    common = {"eta": eta, "random_state": seed}
    known = estimator.get_params(deep=False)
    common = {name: value for name, value in common.items() if name in known and name not in grid}
    combinations = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
    return combinations, [clone(estimator).set_params(**common, **combination) for combination in combinations]


def group_arguments(detector: Any, people: Sequence[str]) -> dict[str, Any]:
    """`groups` for a detector whose fit takes them, nothing for another: what no fold may split, one entry a row.

    People where there are two or more; of one person minutes, so that an activity done once is in many groups.
    """
    if "groups" not in inspect.signature(detector.fit).parameters:
        return {}
    if len(set(people)) > 1:
        return {"groups": list(people)}
    part = max(1, min(_PART_ROWS, len(people) // _LEAST_PARTS))
    return {"groups": np.arange(len(people)) // part}


def consistency_limit(eta: float, n_rows: int) -> float:
    """eta + 2 sqrt(eta (1 - eta) / n_rows): the largest share of n_rows that a consistent model may reject.

    >>> consistency_limit(0.5, 100)
    0.6
    """
    return eta + 2.0 * math.sqrt(eta * (1.0 - eta) / n_rows)


def held_out_rejections(candidate: Any, X: FloatArray, fold: IntArray, *, trains: BoolArray | None = None) -> BoolArray:
    """Whether each row of X (n, d) is rejected by a clone of candidate fitted on the other folds' rows.

    trains (n,) says which rows may train; all where None.
    """
    rejected = np.zeros(len(X), dtype=bool)
    may_train = np.ones(len(X), dtype=bool) if trains is None else trains
    for number in range(int(fold.max()) + 1):
        out = fold == number
        rejected[out] = clone(candidate).fit(X[~out & may_train]).predict(X[out]) == -1
    return rejected


def gmean(rejected: BoolArray, is_outlier: BoolArray) -> float:
    """sqrt(TPR TNR): TPR the share of targets accepted, TNR the share of outliers rejected; both kinds must be there.

    >>> gmean(np.array([False, False, True, True]), np.array([False, False, False, True]))  # sqrt(2/3)
    0.816496580927726
    """
    tpr, tnr = np.mean(~rejected[~is_outlier]), np.mean(rejected[is_outlier])
    return float(np.sqrt(tpr * tnr))


def _last_of_best(values: FloatArray) -> int:
    """The last place of the largest value: candidates are listed from complex to simple. Rounding makes no winner."""
    rounded = np.round(values, 12)
    return int(np.flatnonzero(rounded == rounded.max())[-1])


PRESETS: dict[str, Callable[[], SelectedDetector]] = {
    # layer evidence: by its output alone a deep model accepts far rows, and consistency takes it for the better one
    "MKOC_consistency": lambda: SelectedDetector(
        MultiLayerKRR(evidence="layers", n_landmarks=_LANDMARKS),
        {"n_layers": (3, 2, 1), "C": (8.0, 1.0, 0.125)},
        "consistency",
    ),
    "KOC_iqr-proxy": lambda: SelectedDetector(
        KernelRidgeOCC(n_landmarks=_LANDMARKS), {"C": (8.0, 4.0, 2.0, 1.0, 0.5, 0.25, 0.125)}, "iqr-proxy"
    ),
}
