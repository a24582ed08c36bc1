"""Novelty fused with one-sided evidence of a fall: the default detector."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted, validate_data

from stream_occ.detectors._base import FrozenScorerMixin, as_generator, check_parameter, is_count, is_number
from stream_occ.detectors.calibration import group_folds, quantile_threshold
from stream_occ.detectors.ensembles import RandomSubspaceEnsemble
from stream_occ.detectors.ocnn import OCNN
from stream_occ.errors import nearest
from stream_occ.samples import BoolArray, FloatArray, IntArray
from stream_occ.scoring.evidence_fusion import LARGEST_Z, FrozenScorer, contributions, total

SCALING = "z-score"
LEAST_LEFT = 0.05  # of the rows, without the people held out: fewer do not show what is normal
LEAST_MOVING = 20  # rows: 10 s of movement in windows every half second
LEAST_SPREAD = 1e-9  # relative: below, a column is constant up to rounding
CENTER_QUANTILE, UPPER_QUANTILE = 0.50, 0.95
RANGE_QUANTILES = (0.01, 0.99)  # of the `moving` column: from rest to hard movement
PLAIN_DISTANCE = 1e6  # so large a floor leaves of the ratio the distance alone: the floor's own median is that of rest

__all__ = ["EvidenceFusion"]


class EvidenceFusion(FrozenScorerMixin, BaseEstimator):  # type: ignore[misc]
    """Scores a row by how new it is, plus how far single columns, which a fall drives up, exceed normal activity.

    score(x) = weight * z(n(x)) + sum over evidence of max(z(x_column), -2), z(e) = (e - q50) / (q95 - q50).
    Where evidence is several columns, which a fall drives up together, the least of their z counts. n is the score of
    `estimator`'s frozen scorer. Every q50 and q95 is of normal rows alone: those of evidence columns of training rows,
    those of n of rows whose group (person) the estimator did not see: in-sample a row is its own nearest neighbour, and
    the novelty of a person not seen would then be out of all proportion. A linear scaling of the columns changes no z
    of theirs. Where q95 = q50 the scale is 1. The weight of novelty is q95 - q50 of the sum over evidence, and at least
    1: from normal rows alone it follows that novelty counts as much as all evidence together, however many there are
    and however they hang together.

    With `moving` the quantiles are of the rows that move: those in which this column lies above the middle of its 1 %
    and 99 % quantiles. Of a day that is mostly rest they would else span from rest to movement, and what is new would
    hardly count.

    Accepted iff score <= score_threshold_, which rejects the share `eta` of the training rows by their held-out
    novelty; for a threshold on people held out from the scales too, calibrate from outside.

    Parameters
    ----------
    estimator : a detector of this package; None for `nearest_neighbours()`. Its random_state and n_jobs are replaced.
    evidence : columns, by number or by name, or lists of columns that must come together; none: novelty alone.
    feature_names : names of all columns, needed where evidence or moving is given by name.
    moving : column, by number or by name, that is high in movement and low at rest; None: all rows count.
    novelty_weight : in [0, 1e6]; None: from the rows, as above, and 1 without evidence.
    eta : share of training rows that may be rejected, in [0, 1).
    n_folds : groups of people, each held out once.
    random_state, n_jobs : passed on to the estimator.

    Attributes
    ----------
    estimator_ : the estimator fitted on all rows.
    novelty_weight_, offset_, score_threshold_ : what fit settled on.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 3))
    >>> fused = EvidenceFusion(evidence=("shock",), feature_names=("a", "b", "shock"), random_state=0).fit(X)
    >>> fused.predict([[0.0, 0.0, 0.0], [0.0, 0.0, 9.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        estimator: Any = None,
        evidence: Sequence[str | int | Sequence[str | int]] = (),
        *,
        feature_names: Sequence[str] | None = None,
        moving: str | int | None = None,
        novelty_weight: float | None = None,
        eta: float = 0.05,
        n_folds: int = 3,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.evidence = evidence
        self.feature_names = feature_names
        self.moving = moving
        self.novelty_weight = novelty_weight
        self.eta = eta
        self.n_folds = n_folds
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(
        self,
        X: ArrayLike,
        y: object = None,
        *,
        groups: Sequence[Any] | NDArray[Any] | None = None,
        progress: Callable[[int, int], None] | None = None,
    ) -> Self:
        """Learns from normal rows X (N, d); y is ignored. groups (N,): whose row it is.

        With fewer than two groups, or where one has nearly all rows, contiguous blocks of rows are held out.
        progress(done, n_folds + 1) counts fits.
        Raises ValueError for bad parameters, evidence that is not among the features, and what the estimator refuses.
        """
        parts, moving = self._check_parameters()
        given = [column for part in parts for column in part]
        rows: FloatArray = validate_data(self, X, dtype=np.float64, order="C", ensure_min_samples=2)
        self._check_names(rows.shape[1])
        for name, numbers in (("evidence", given), ("moving", moving)):
            is_inside = max((*numbers, -1)) < rows.shape[1]
            check_parameter(name, getattr(self, name), f"below {rows.shape[1]}, the columns of X", is_inside)
        columns, starts = np.array(given, dtype=np.int64), np.cumsum([0, *map(len, parts)], dtype=np.int64)[:-1]
        fold = self._folds(len(rows), groups)
        n_fits = int(fold.max()) + 2
        generators = as_generator(self.random_state).spawn(n_fits)
        novelty = np.empty(len(rows))
        for number in range(n_fits - 1):
            out = fold == number
            novelty[out] = self._make(generators[number]).fit(rows[~out]).to_scorer().score(rows[out])
            if progress is not None:
                progress(number + 1, n_fits)
        self.estimator_ = self._make(generators[-1]).fit(rows)
        raw = np.column_stack([novelty, rows[:, columns]])
        of_scale = raw[moves(rows[:, moving[0]])] if moving else raw
        if len(of_scale) < LEAST_MOVING <= len(raw):
            warnings.warn(
                f"only {len(of_scale)} of {len(raw)} windows move, and scales are theirs alone: record more movement",
                stacklevel=2,
            )
        center, scale = np.quantile(of_scale, CENTER_QUANTILE, axis=0), _spread(of_scale)
        evidence = total(contributions(of_scale, starts, center, scale, 0.0))
        fitted = min(max(1.0, float(_spread(evidence))), LARGEST_Z)
        self.novelty_weight_ = fitted if self.novelty_weight is None else float(self.novelty_weight)
        self.scorer_: FrozenScorer = FrozenScorer(
            self.estimator_.to_scorer(),
            names=[" and ".join(map(str, together(part))) for part in self.evidence],
            columns=columns,
            starts=starts,
            center=center,
            scale=scale,
            weight=self.novelty_weight_,
        )
        held_out = total(contributions(raw, starts, center, scale, self.novelty_weight_))
        self.score_threshold_ = quantile_threshold(held_out, float(self.eta))
        self.offset_ = -self.score_threshold_
        if progress is not None:
            progress(n_fits, n_fits)
        return self

    @property
    def decides_by_itself(self) -> bool:
        """False: the threshold comes from people held out."""
        return False

    @property
    def named_features(self) -> tuple[str, ...]:
        """Features that evidence and moving name."""
        parts = self.evidence if isinstance(self.evidence, list | tuple) else ()  # else `fit` says what is wrong
        columns = [*(column for part in parts for column in together(part)), self.moving]
        return tuple(column for column in columns if isinstance(column, str))

    def _check_parameters(self) -> tuple[list[list[int]], list[int]]:
        """Columns of each evidence, and (0 or 1) of `moving`; raises ValueError for what is off."""
        given = self.novelty_weight
        is_weight = given is None or (is_number(given) and 0 <= given <= LARGEST_Z)
        check_parameter("novelty_weight", given, f"None or a number in [0, {LARGEST_Z:g}]", is_weight)
        check_parameter("eta", self.eta, "a number in [0, 1)", is_number(self.eta) and 0 <= self.eta < 1)
        check_parameter("n_folds", self.n_folds, "an int >= 2", is_count(self.n_folds, 2))
        expected = "a list of columns, or of lists of them that are not empty"
        check_parameter("evidence", self.evidence, expected, isinstance(self.evidence, list | tuple))
        parts = [together(part) for part in self.evidence]
        check_parameter("evidence", self.evidence, expected, all(parts))
        moving = () if self.moving is None else (self.moving,)
        return [self._columns("evidence", part) for part in parts], self._columns("moving", moving)

    def _check_names(self, n_columns: int) -> None:
        names = self.feature_names
        is_named = names is None or (
            isinstance(names, Sequence)
            and len(names) == len({name for name in names if isinstance(name, str)}) == n_columns
        )
        check_parameter("feature_names", names, f"None or a name for each of the {n_columns} columns of X", is_named)

    def _columns(self, parameter: str, names: Sequence[str | int]) -> list[int]:
        known = tuple(self.feature_names) if isinstance(self.feature_names, Sequence) else ()
        columns = []
        for name in names:
            is_known = name in known if isinstance(name, str) else is_count(name, 0)
            if not is_known:
                remedy = nearest(str(name), known, "Correct it")
                raise ValueError(
                    f"{parameter} must be one of the features that the detector is fitted on; got {name!r}. {remedy}"
                )
            columns.append(known.index(name) if isinstance(name, str) else int(name))
        return columns

    def explain(self, X: ArrayLike) -> FloatArray:
        """What novelty and each evidence add to the score of each row, (n, 1 + e)."""
        check_is_fitted(self)
        return self.scorer_.explain(self._rows(X))

    def tuning_summary(self) -> dict[str, Any]:
        """That of the estimator, if it has one."""
        check_is_fitted(self)
        found: dict[str, Any] = getattr(self.estimator_, "tuning_summary", dict)()
        return found

    def _folds(self, n: int, groups: Sequence[Any] | NDArray[Any] | None) -> IntArray:
        """Fold (n,) of each row: by group, or contiguous blocks where the groups cannot be held out in turn."""
        n_groups = 0 if groups is None else len(set(np.asarray(groups).tolist()))
        if groups is not None and len(groups) != n:
            raise ValueError(f"groups must have one entry a row of X ({n}); got {len(groups)}")
        if groups is not None and n_groups >= 2:
            fold: IntArray = group_folds(groups, min(self.n_folds, n_groups), 0)
            if n - np.bincount(fold).max() >= LEAST_LEFT * n:
                return fold
        return (np.arange(n) * min(self.n_folds, n) // n).astype(np.int64)

    def _make(self, rng: np.random.Generator) -> Any:
        """A new estimator with its own draws."""
        made = nearest_neighbours() if self.estimator is None else clone(self.estimator)
        own = {"random_state": rng, "n_jobs": self.n_jobs}
        return made.set_params(**{key: value for key, value in own.items() if key in made.get_params(deep=False)})


def together(evidence: str | int | Sequence[str | int]) -> tuple[str | int, ...]:
    """Columns that are one evidence: its own, or those of a list."""
    return tuple(evidence) if isinstance(evidence, list | tuple) else (evidence,)  # type: ignore[return-value]


def _spread(columns: FloatArray) -> FloatArray:
    """q95 - q50 of columns (n, ...), or 1 where that is nothing."""
    center, upper = np.quantile(columns, [CENTER_QUANTILE, UPPER_QUANTILE], axis=0)
    spread = upper - center
    found: FloatArray = np.where(spread > LEAST_SPREAD * np.maximum(1.0, np.abs(center)), spread, 1.0)
    return found


def moves(column: FloatArray) -> BoolArray:
    """Rows above the middle of the column's range; all of them where it has none."""
    low, high = np.quantile(column, RANGE_QUANTILES)
    moves: BoolArray = column > (low + high) / 2
    return moves if moves.any() else np.ones(len(column), dtype=np.bool_)


def nearest_neighbours() -> RandomSubspaceEnsemble:
    """The log of the mean distance to 3 neighbours, in one space of all features.

    It is `OCNN` with a floor beside which the neighbours' own distances vanish: where most of a day is rest, a floor of
    ten medians is next to none for movements, and the ratio says little of how far they are.
    """
    member = OCNN(n_neighbors=3, k_neighbors=3, floor=PLAIN_DISTANCE)
    return RandomSubspaceEnsemble(member, n_estimators=1, combine="mean", max_features=1.0)


def _fused() -> EvidenceFusion:
    """The default: of the impact how hard it is and how alone it stands in its window; of the aftermath a posture other
    than before, as far as there was an impact."""
    impact = "log_max_dynamic_acc", "log_peak_over_mad"
    aftermath = ("log_max_dynamic_acc", "tilt_first_last")
    evidence = (*impact, aftermath)
    return EvidenceFusion(nearest_neighbours(), evidence, moving="log_std_acc", n_jobs=-1)


PRESETS: dict[str, Callable[[], EvidenceFusion]] = {"fused": _fused}
