"""Support vector data description and the one-class SVM, comparators of Gautam et al. (arXiv 1904.06491)."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import validate_data

from stream_occ.detectors._base import FrozenScorerMixin, check_parameter, is_number
from stream_occ.detectors._kernel_rows import bandwidth_of
from stream_occ.kernels import KernelPoints
from stream_occ.samples import FloatArray
from stream_occ.scoring.kernel_expansion import FrozenScorer

SCALING = "z-score"  # of paper 2
_TOLERANCE = 1e-12  # of the KKT conditions, relative to the largest sum alpha k
_SNAP = 1e-12  # weights this part of the bound from 0 or from the bound are there
_STEPS_A_ROW = 1000  # of the solver, at most
_CACHED_NUMBERS = 2**27  # of K kept at a time: 1 GB
_LEAST_CURVATURE = 1e-12  # of a step between two rows that are nearly the same

__all__ = ["SVDD", "KernelOCSVM"]


class _SupportVectors(FrozenScorerMixin, BaseEstimator):  # type: ignore[misc]
    """Both detectors' fit: the dual min 1/2 alpha' K alpha, 0 <= alpha <= 1/(nu N), sum alpha = 1.

    SVDD maximises sum alpha_i K_ii - alpha' K alpha under the same constraints: as K_ii = 1 here, the same alpha.
    """

    def __init__(self, nu: float = 0.05, bandwidth: float | Literal["rms", "mean"] = "rms") -> None:
        self.nu = nu
        self.bandwidth = bandwidth

    def fit(self, X: ArrayLike, y: object = None, *, progress: Callable[[int, int], None] | None = None) -> Self:
        """Learns from normal rows X (N, d); y is ignored. Calls progress(1, 1) at the end.

        Raises ValueError for bad parameters, NaN or identical rows.
        """
        check_parameter("nu", self.nu, "a number in (0, 1]", is_number(self.nu) and 0 < self.nu <= 1)
        rows: FloatArray = validate_data(self, X, dtype=np.float64, order="C", ensure_min_samples=2)
        self.bandwidth_ = bandwidth_of(rows, self.bandwidth)
        upper = 1.0 / (float(self.nu) * len(rows))
        alpha = solve_dual(KernelPoints(rows, self.bandwidth_), upper)
        self.support_ = np.flatnonzero(alpha)
        self.alpha_ = alpha[self.support_]
        sums = -self._scorer(rows, 0.0, -1.0).score(rows)  # by the scorer's own bits: rows on the boundary tie with it
        rho = -_boundary(-sums, alpha, upper)
        constant, factor, self.score_threshold_ = self._form(rho, float(alpha @ sums))
        self.scorer_: FrozenScorer = self._scorer(rows, constant, factor)
        self.offset_ = -self.score_threshold_
        if progress is not None:
            progress(1, 1)
        return self

    def _form(self, rho: float, norm: float) -> tuple[float, float, float]:
        """(constant, factor, threshold) for score = constant + factor * sum alpha k; rho the sum at the boundary."""
        raise NotImplementedError

    def _scorer(self, rows: FloatArray, constant: float, factor: float) -> FrozenScorer:
        """constant + factor * sum_i alpha_i k(x, x_i) over the support vectors."""
        points = rows[self.support_]
        return FrozenScorer(points, bandwidth=self.bandwidth_, constant=constant, linear=factor * self.alpha_)


class SVDD(_SupportVectors):
    """Accepts a row within the smallest soft ball around the training rows in kernel space (Tax & Duin 2004).

    score(x) = |phi(x) - a|^2 = 1 - 2 sum_i alpha_i k(x, x_i) + alpha' K alpha, a = sum_i alpha_i phi(x_i), for the
    kernel exp(-d^2 / A2). `score_samples` = -score. Accepted iff score <= R^2, the score at the support vectors below
    the bound (the largest of them, as they are equal but for rounding): the boundary is normal. At most floor(nu N)
    training rows are rejected. Where no support vector is below the bound, any R^2 from the largest score of the
    other rows to the smallest at the bound solves the problem, and R^2 is the middle; with nu = 1 every row is at the
    bound and R^2 is the smallest score. A row far from all has score 1 + alpha' K alpha > R^2: an outlier.

    X is used as given: scale it first. The scorer keeps the support vectors alone. With a Gaussian kernel SVDD decides
    as KernelOCSVM does; they differ in the score's scale.

    Parameters
    ----------
    nu : largest share of training rows rejected, in (0, 1]; dd_tools' fracrej, eta of paper 2.
    bandwidth : A2, or "rms" (mean squared distance) or "mean" (2 times the squared mean distance).

    Attributes
    ----------
    support_, alpha_ : support vectors' row numbers and their weights, which add up to 1.
    bandwidth_, offset_, score_threshold_ : what fit settled on; score_threshold_ is R^2.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> SVDD().fit(X).predict([[0.0, 0.0], [9.0, 9.0]]).tolist()
    [1, -1]
    """

    def _form(self, rho: float, norm: float) -> tuple[float, float, float]:
        return 1.0 + norm, -2.0, 1.0 + norm - 2.0 * rho


class KernelOCSVM(_SupportVectors):
    """Accepts a row on the training rows' side of a hyperplane in kernel space (Schoelkopf et al. 2001).

    score(x) = rho - sum_i alpha_i k(x, x_i) for the kernel exp(-d^2 / A2); accepted iff score <= 0. rho is the sum at
    the support vectors below the bound; where there is none, the middle of what the KKT conditions allow, as for SVDD.
    At most floor(nu N) training rows are rejected; a row far from all has score rho > 0, an outlier.

    Parameters and attributes as SVDD's; score_threshold_ is 0. Its alpha is that of scikit-learn's OneClassSVM
    (gamma = 1 / A2) divided by nu N.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> KernelOCSVM().fit(X).predict([[0.0, 0.0], [9.0, 9.0]]).tolist()
    [1, -1]
    """

    def _form(self, rho: float, norm: float) -> tuple[float, float, float]:
        return rho, -1.0, 0.0


def solve_dual(kernel: KernelPoints, upper: float) -> FloatArray:
    """alpha (N,) of min 1/2 alpha' K alpha, 0 <= alpha <= upper, sum alpha = 1, to a relative KKT gap of 1e-12.

    Weight moves between two rows a step: to i below the bound with the least gradient (K alpha)_i, from the row whose
    step lowers the objective most (Fan, Chen & Lin 2005, second order). Starts from the rows farthest from the mean
    row. Only kernel rows of rows that ever had weight are kept: here float64, where LIBSVM's are float32, which leaves
    its alpha off by about 1e-6 of the bound. Where the steps do not suffice: ConvergenceWarning.
    """
    n_rows, rows = len(kernel.points), _Rows(kernel)
    alpha, gradient, left = np.zeros(n_rows), np.zeros(n_rows), 1.0
    for i in np.argsort(-kernel.exponents(kernel.center), kind="stable").tolist():
        alpha[i] = min(upper, left)
        gradient += alpha[i] * rows[i]
        left -= alpha[i]
        if left <= _SNAP * upper:
            break
    for _ in range(_STEPS_A_ROW * n_rows):
        i = int(np.argmin(np.where(alpha < upper, gradient, np.inf)))
        support = np.flatnonzero(alpha)
        gap = gradient[support] - gradient[i]
        if alpha[i] >= upper or gap.max() <= _TOLERANCE * gradient.max():
            return alpha
        curvature = np.maximum(2.0 - 2.0 * rows[i][support], _LEAST_CURVATURE)
        best = int(np.argmax(np.where(gap > 0.0, gap * gap / curvature, -1.0)))
        j = int(support[best])
        step = min(gap[best] / curvature[best], alpha[j], upper - alpha[i])
        alpha[i] = _snapped(alpha[i] + step, upper)
        alpha[j] = _snapped(alpha[j] - step, upper)
        gradient += step * (rows[i] - rows[j])
    text = f"the dual is not solved after {_STEPS_A_ROW} steps a row: scale the features or change the bandwidth"
    warnings.warn(text, ConvergenceWarning, stacklevel=3)
    return alpha


class _Rows(dict[int, FloatArray]):
    """Rows of K, computed when asked for; the oldest go where there are too many."""

    def __init__(self, kernel: KernelPoints) -> None:
        super().__init__()
        self._kernel = kernel
        self._most = max(2, _CACHED_NUMBERS // len(kernel.points))

    def __missing__(self, i: int) -> FloatArray:
        if len(self) >= self._most:
            del self[next(iter(self))]
        self[i] = self._kernel.row(self._kernel.points[i])
        return self[i]


def _snapped(weight: float, upper: float) -> float:
    """0 or upper where rounding alone keeps a weight off it."""
    if weight <= _SNAP * upper:
        return 0.0
    return upper if weight >= (1.0 - _SNAP) * upper else weight


def _boundary(scores: FloatArray, alpha: FloatArray, upper: float) -> float:
    """Threshold on the training rows' scores (N,), high = abnormal, by the KKT conditions.

    Rows below the bound lie within the boundary or on it, rows at the bound on it or outside, rows between on it. So
    no row below the bound scores above the threshold, whatever the rounding.
    """
    inside, outside = scores[alpha < upper], scores[alpha >= upper]
    if inside.size == 0:
        return float(outside.min())
    largest = float(inside.max())
    if ((alpha > 0.0) & (alpha < upper)).any():
        return largest
    return max(largest, 0.5 * (largest + float(outside.min())))


PRESETS: dict[str, Callable[[], SVDD | KernelOCSVM]] = {"SVDD": SVDD, "OCSVM": KernelOCSVM}
