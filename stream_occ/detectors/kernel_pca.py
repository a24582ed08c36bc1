"""Kernel PCA for novelty detection (Hoffmann 2007), a comparator of Gautam et al. (arXiv 1904.06491)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from stream_occ.detectors._base import FrozenScorerMixin, as_generator, check_parameter, is_count, is_number
from stream_occ.detectors._kernel_rows import bandwidth_of
from stream_occ.detectors.calibration import quantile_threshold
from stream_occ.kernels import KernelPoints
from stream_occ.samples import FloatArray
from stream_occ.scoring.kernel_expansion import FrozenScorer

SCALING = "z-score"  # of paper 2
MAX_ROWS = 15_000  # about five N x N matrices are alive at once: 9 GB
_RANK_TOLERANCE = 1e-12  # eigenvalues below this part of the largest are rounding

__all__ = ["KernelPCANovelty"]


class KernelPCANovelty(FrozenScorerMixin, BaseEstimator):  # type: ignore[misc]
    """Accepts a row that the leading principal directions of the training rows in kernel space rebuild well.

    E(x) = |phi(x) - mean phi|^2 - sum_l f_l(x)^2, f_l the projection on principal direction l, for the kernel
    exp(-d^2 / A2). `score_samples` = -E. Accepted iff E <= threshold, the smallest training E above which at most
    floor(eta N) training rows lie. In-sample: people held out are rejected more often.

    The training E add up to the eigenvalues left out. So with variance >= 1 - eta the threshold is below 1, while
    E >= 1 for a row so far from all others that its kernel is 0: far rows are always outliers. With fewer components
    that is not certain; fit keeps to what was asked.

    X is used as given: scale it first. Time N^3 and memory N^2, so at most 15,000 rows; the scorer keeps all rows and
    q x N weights. With `n_landmarks` = m < N the mean and the directions are those of m rows drawn without replacement,
    bandwidth and threshold still those of all N: time m^3 + N m q, memory m^2. The sum above is then that of the m rows
    alone, and so no proof for far rows.

    Parameters
    ----------
    n_components : q >= 1 principal directions, or None to go by `variance`.
    variance : q is the smallest number of directions with at least this share, in (0, 1], of the total variance.
    eta : share of training rows that may be rejected, in [0, 1).
    bandwidth : A2, or "rms" (mean squared distance) or "mean" (2 times the squared mean distance).
    n_landmarks : None for the exact solution, or how many training rows, drawn once, it is made of.
    random_state : seed of that draw; without effect on an exact fit.

    Attributes
    ----------
    n_components_, bandwidth_, offset_, score_threshold_ : what fit settled on.
    eigenvalues_ : (N,) or (m,) of the centred kernel matrix, largest first.

    Examples
    --------
    >>> X = np.arange(20.0)[:, None]
    >>> KernelPCANovelty().fit(X).predict([[9.5], [60.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        n_components: int | None = None,
        variance: float = 0.95,
        *,
        eta: float = 0.05,
        bandwidth: float | Literal["rms", "mean"] = "rms",
        n_landmarks: int | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.variance = variance
        self.eta = eta
        self.bandwidth = bandwidth
        self.n_landmarks = n_landmarks
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, *, progress: Callable[[int, int], None] | None = None) -> Self:
        """Learns from normal rows X (N, d); y is ignored. Calls progress(1, 1) at the end.

        Raises ValueError for bad parameters, NaN, identical or too many rows, or more components than the rows span.
        """
        known = self.n_components is None or is_count(self.n_components, 1)
        check_parameter("n_components", self.n_components, "an int >= 1 or None", known)
        is_share = is_number(self.variance) and 0 < self.variance <= 1
        check_parameter("variance", self.variance, "a number in (0, 1]", is_share)
        check_parameter("eta", self.eta, "a number in [0, 1)", is_number(self.eta) and 0 <= self.eta < 1)
        is_size = self.n_landmarks is None or is_count(self.n_landmarks, 2)
        check_parameter("n_landmarks", self.n_landmarks, "None or an int >= 2", is_size)
        given: FloatArray = validate_data(self, X, dtype=np.float64, order="C", ensure_min_samples=2)
        rows = self._drawn(given)
        if len(rows) > MAX_ROWS:
            raise ValueError(f"X must have at most {MAX_ROWS} rows; got {len(rows)}. Set n_landmarks, e.g. 1000")
        self.bandwidth_ = bandwidth_of(given, self.bandwidth)
        kernel = KernelPoints(rows, self.bandwidth_).matrix(rows)
        column_means = kernel.mean(axis=0)
        mean = float(column_means.mean())
        eigenvalues, vectors = np.linalg.eigh(kernel - column_means - (column_means - mean)[:, None])
        self.eigenvalues_ = np.maximum(eigenvalues[::-1], 0.0)
        self.n_components_ = self._n_components(self.eigenvalues_)
        leading = vectors[:, ::-1][:, : self.n_components_].T
        leading = leading - leading.mean(axis=1, keepdims=True)  # f_l then needs no centring of k(x) by its own mean
        components = np.ascontiguousarray(leading / np.sqrt(self.eigenvalues_[: self.n_components_, None]))
        self.scorer_: FrozenScorer = FrozenScorer(
            rows,
            bandwidth=self.bandwidth_,
            constant=1.0 + mean,
            linear=np.full(len(rows), -2.0 / len(rows)),
            components=components,
            offset=-(components @ column_means),
        )
        self.score_threshold_ = quantile_threshold(self.scorer_.score(given), float(self.eta))
        self.offset_ = -self.score_threshold_
        if progress is not None:
            progress(1, 1)
        return self

    def _drawn(self, X: FloatArray) -> FloatArray:
        """A copy of the rows that span the directions: all, or n_landmarks of them in their order."""
        if self.n_landmarks is None or self.n_landmarks >= len(X):
            return X.copy()
        drawn = as_generator(self.random_state).choice(len(X), self.n_landmarks, replace=False)
        return X[np.sort(drawn)]

    def _n_components(self, eigenvalues: FloatArray) -> int:
        """q, of eigenvalues (N,) with the largest first; raises ValueError for more than the rows span."""
        if eigenvalues[0] == 0.0:
            raise ValueError(f"bandwidth must be small enough to tell rows apart; got {self.bandwidth_:.3g}")
        rank = int(np.count_nonzero(eigenvalues > _RANK_TOLERANCE * eigenvalues[0]))
        if self.n_components is None:
            reached = np.cumsum(eigenvalues)
            return min(rank, int(np.searchsorted(reached, float(self.variance) * reached[-1])) + 1)
        check_parameter("n_components", self.n_components, f"at most {rank}, what X spans", self.n_components <= rank)
        return int(self.n_components)


PRESETS: dict[str, Callable[[], KernelPCANovelty]] = {"KPCA": KernelPCANovelty}
