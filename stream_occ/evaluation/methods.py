"""Baselines that every detector is set beside: the largest acceleration, 5-NN distance, Mahalanobis, isolation forest.

The last three see the same features as the detectors, z-scored (ddof 1) on the training windows; the first sees the
largest |a| of the recorded samples alone, and is the rule that a fall detector must beat to be worth its trouble.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from stream_occ.evaluation.protocol import Method, ScoreWindows, Windows
from stream_occ.samples import FloatArray

BLOCK_ROWS = 1024


@dataclass(frozen=True, slots=True)
class PeakAcceleration:
    """Largest |a| among a window's recorded samples, m/s2; nothing is fitted."""

    key: str = "peak_acc"

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """The measure itself."""
        del normal, seed
        return lambda windows: windows.peak_acc_ms2


@dataclass(frozen=True, slots=True)
class MeanDistance:
    """Mean Euclidean distance to the `n_neighbors` nearest training windows."""

    key: str = "knn5"
    n_neighbors: int = 5

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """Keeps all training windows."""
        del seed
        from sklearn.neighbors import NearestNeighbors

        scale = z_scaler(normal.X)
        k = min(self.n_neighbors, len(normal))
        index = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(scale(normal.X))

        def score(windows: Windows) -> FloatArray:
            if not len(windows):
                return np.empty(0)
            rows = scale(windows.X)
            means = [index.kneighbors(block)[0].mean(axis=1) for block in _blocks(rows)]
            return np.concatenate(means)

        return score


@dataclass(frozen=True, slots=True)
class Mahalanobis:
    """Distance to the training mean under the training covariance, shrunk after Ledoit and Wolf."""

    key: str = "mahalanobis"

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """Keeps the mean and a triangular factor of the shrunk covariance; solves with it, inverts nothing."""
        del seed
        from scipy.linalg import cholesky, solve_triangular
        from sklearn.covariance import ledoit_wolf

        scale = z_scaler(normal.X)
        rows = scale(normal.X)
        mean = rows.mean(axis=0)
        covariance, _ = ledoit_wolf(rows - mean, assume_centered=True)
        # a set of constant columns alone has covariance 0: a trace of the identity keeps it positive definite
        factor = cholesky(covariance + 1e-9 * np.eye(covariance.shape[0]), lower=True)

        def score(windows: Windows) -> FloatArray:
            whitened = solve_triangular(factor, (scale(windows.X) - mean).T, lower=True)
            distance: FloatArray = np.sqrt((whitened**2).sum(axis=0))
            return distance

        return score


@dataclass(frozen=True, slots=True)
class IsolationForest:
    """Isolation forest of scikit-learn; its anomaly score, high = isolated by few splits."""

    key: str = "isolation_forest"
    n_estimators: int = 200

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """Grows the trees, seeded."""
        from sklearn.ensemble import IsolationForest as Forest

        scale = z_scaler(normal.X)
        forest = Forest(n_estimators=self.n_estimators, random_state=seed % 2**32, n_jobs=1).fit(scale(normal.X))

        def score(windows: Windows) -> FloatArray:
            if not len(windows):
                return np.empty(0)
            anomaly: FloatArray = -forest.score_samples(scale(windows.X))
            return anomaly

        return score


BASELINES: dict[str, Method] = {
    method.key: method for method in (PeakAcceleration(), MeanDistance(), Mahalanobis(), IsolationForest())
}


def z_scaler(X: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Scales columns to mean 0 and standard deviation 1 (ddof 1) over X; a constant column is only centred."""
    mean = X.mean(axis=0)
    spread = X.std(axis=0, ddof=1) if X.shape[0] > 1 else np.zeros(X.shape[1])
    spread = np.where(spread > 1e-12 * np.maximum(1.0, np.abs(mean)), spread, 1.0)
    return lambda rows: (rows - mean) / spread


def _blocks(rows: FloatArray) -> list[FloatArray]:
    """Views of at most BLOCK_ROWS rows: a distance matrix of a whole fold would not fit in memory."""
    return [rows[i : i + BLOCK_ROWS] for i in range(0, rows.shape[0], BLOCK_ROWS)]
