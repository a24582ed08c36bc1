"""What every detector shares: scikit-learn's outlier methods on a frozen scorer, seeds, and checks of parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from stream_occ.samples import FloatArray
from stream_occ.scoring import Scorer

MOST_EXACT_ROWS = 5_000
N_LANDMARKS = 1_000

__all__ = [
    "FrozenScorerMixin",
    "TuningWarning",
    "as_generator",
    "check_parameter",
    "is_count",
    "is_number",
    "on_landmarks",
]


class TuningWarning(UserWarning):
    """Tuning ended where one would not want it: on the grid's edge, or with a threshold that separates nothing."""


class FrozenScorerMixin:
    """scikit-learn's outlier methods on a fitted `scorer_`: scores in training and in the service are the same bits.

    ===================  ==================  ==========================================
    quantity             high means          accepted (+1) where
    ===================  ==================  ==========================================
    `score_samples`      normal              score_samples >= offset_
    `decision_function`  normal              >= 0
    `predict`            +1 normal           -1 is an outlier
    `score_one`          abnormal            score_one <= score_threshold_
    `to_scorer().score`  abnormal            score <= score_threshold_
    ===================  ==================  ==========================================

    For new rows only, so without scikit-learn's OutlierMixin and its `fit_predict`: a row that was trained on is its
    own nearest neighbour at distance 0 and is accepted.
    """

    scorer_: Scorer
    offset_: float
    score_threshold_: float

    @property
    def decides_by_itself(self) -> bool:
        """Whether fit's own threshold is meant to be used; False where it takes one from held-out data."""
        return True

    def score_samples(self, X: ArrayLike) -> FloatArray:
        """Minus the scorer's score (n,): high = normal."""
        rows = self._rows(X)
        return -self.scorer_.score(rows)

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """score_samples - offset_ (n,): >= 0 is normal."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: ArrayLike) -> NDArray[np.int64]:
        """+1 for normal rows, -1 for outliers, (n,)."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1).astype(np.int64)

    def score_one(self, x: Mapping[str, float] | ArrayLike) -> float:
        """Score of one row, high = abnormal: a mapping of feature names to values, or the d values.

        A mapping is read by the names seen in fit, else in its own order.
        """
        if isinstance(x, Mapping):
            names = getattr(self, "feature_names_in_", tuple(x))
            missing = [str(name) for name in names if name not in x]
            if missing:
                raise ValueError(f"x must give every feature seen in fit; missing {', '.join(missing)}")
            x = [x[name] for name in names]
        check_is_fitted(self)
        return float(self.scorer_.score(np.asarray(x, dtype=np.float64)[None])[0])

    def to_scorer(self) -> Scorer:
        """The frozen scorer (numpy alone) that a model file carries; outlier where its score > score_threshold_."""
        check_is_fitted(self)
        return self.scorer_

    def _rows(self, X: ArrayLike) -> FloatArray:
        """X checked against what fit saw, as float64 rows."""
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, reset=False, dtype=np.float64, order="C")
        return rows


def as_generator(random_state: Any) -> np.random.Generator:
    """A Generator from a seed, a Generator (used as it is), a RandomState or None (fresh entropy)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    if isinstance(random_state, np.random.RandomState):
        return np.random.default_rng(random_state.randint(0, 2**31 - 1, size=4))
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(f"random_state must be a whole number >= 0 or a generator; got {random_state!r}") from error


def check_parameter(name: str, value: object, expected: str, ok: bool) -> None:
    """Raises ValueError that names the parameter, what must hold and what came, unless ok."""
    if not ok:
        raise ValueError(f"{name} must be {expected}; got {value!r}")


def is_number(value: object) -> TypeGuard[float]:
    """Whether value is a finite int or float; a bool is not."""
    if not isinstance(value, int | float | np.integer | np.floating) or isinstance(value, bool):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an int beyond floating point
        return False


def on_landmarks(detector: Any, n_rows: int) -> bool:
    """Sets 1,000 landmarks on a detector that could have them and has none, where its rows are more than 5,000.

    An exact kernel fit takes time and memory cubic and quadratic in the rows: what trains on days of windows uses this
    and says so.
    """
    params = detector.get_params(deep=False)
    if n_rows <= MOST_EXACT_ROWS or params.get("n_landmarks", 0) is not None:
        return False
    detector.set_params(n_landmarks=N_LANDMARKS)
    return True


def is_count(value: object, least: int) -> bool:
    """Whether value is a whole number >= least; a bool is not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and int(value) >= least
