"""Scaling of features, fitted on training normals alone: min-max (paper 1), z-score (paper 2) or robust."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from stream_occ.errors import UsageError
from stream_occ.samples import FloatArray
from stream_occ.scoring._model import Scaler

_NORMAL_IQR = 1.349  # interquartile range of a standard normal

__all__ = ["SCALINGS", "FeatureScaler", "fit_scaler"]


def _min_max(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    low = X.min(axis=0)
    return low, X.max(axis=0) - low


def _z_score(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    constant = np.ptp(X, axis=0) == 0.0  # the rounded standard deviation of a constant may be above 0
    return X.mean(axis=0), np.where(constant, 0.0, X.std(axis=0, ddof=1))


def _robust(X: FloatArray) -> tuple[FloatArray, FloatArray]:
    low, middle, high = np.quantile(X, (0.25, 0.5, 0.75), axis=0)
    return middle, (high - low) / _NORMAL_IQR


SCALINGS: dict[str, Callable[[FloatArray], tuple[FloatArray, FloatArray]]] = {
    "min-max": _min_max,
    "z-score": _z_score,
    "robust": _robust,
}


def fit_scaler(X: FloatArray, kind: str) -> Scaler:
    """The scaler (x - center) / scale of training rows X (n >= 2, d); later rows are not clipped.

    - `min-max`: center the minimum, scale max - min;
    - `z-score`: the mean, the standard deviation with n - 1;
    - `robust`: the median, (Q3 - Q1) / 1.349, quartiles interpolated linearly.

    A scale of 0 (a constant column; for `robust` also one whose middle half is constant) is replaced by 1. Raises
    UsageError for another kind, ValueError for fewer than 2 rows or non-finite ones.

    >>> fit_scaler(np.array([[1.0], [3.0]]), "min-max").transform(np.array([[4.0]])).tolist()
    [[1.5]]
    """
    if kind not in SCALINGS:
        raise UsageError("scaling", f"be one of {', '.join(SCALINGS)}", repr(kind), "Use min-max if in doubt")
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.ndim != 2 or len(X) < 2 or not np.isfinite(X).all():
        raise ValueError(f"X must be finite with shape (n >= 2, d); got shape {X.shape}")
    center, scale = SCALINGS[kind](X)
    return Scaler(kind, center, np.where(scale > 0.0, scale, 1.0))


class FeatureScaler(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """`fit_scaler` as a scikit-learn transformer; the fitted scaler is `scaler_`."""

    def __init__(self, kind: str = "min-max") -> None:
        self.kind = kind

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        """Fits the scaler on rows X (n, d); y is ignored."""
        rows: FloatArray = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        self.scaler_ = fit_scaler(rows, self.kind)
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Scaled rows (n, d), not clipped."""
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, reset=False, dtype=np.float64)
        return self.scaler_.transform(rows)
