"""Other people's outlier detectors, and what is not installed of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from stream_occ.detectors import RandomProjectionEnsemble
from stream_occ.samples import BoolArray, FloatArray

__all__ = ["absent", "detectors", "shared_product"]


def absent(*names: str) -> tuple[str, ...]:
    """Those of these packages that are not installed."""
    return tuple(name for name in names if find_spec(name) is None)


def shared_product(detector: RandomProjectionEnsemble) -> Callable[[FloatArray], BoolArray]:
    """The whole vote by one float32 BLAS product of all members with shared rows, as one writes it first.

    |R(z - x)|^2 = z'Gz - 2 z'Gx + x'Gx with G = R'R; what comes out of it decides, unchecked.
    """
    arrays = detector.to_scorer().arrays()
    X, maps = arrays["X"].astype(np.float32), arrays["maps"]
    metrics = np.matmul(maps.transpose(0, 2, 1), maps).astype(np.float32)
    norms = np.einsum("nd,lde,ne->ln", X, metrics, X, optimize=True)
    own, theta, n_neighbors = arrays["own_distance"], arrays["theta"], arrays["n_neighbors"].tolist()

    def decide(Z: FloatArray) -> BoolArray:
        mapped = np.matmul(Z.astype(np.float32), metrics)  # (L, n, d)
        n_rejecting = np.zeros(len(Z), dtype=np.int64)
        for member, j in enumerate(n_neighbors):
            squared = norms[member] - 2.0 * (mapped[member] @ X.T)
            nearest = np.argpartition(squared, j - 1, axis=1)[:, :j]
            of_row = np.einsum("nd,nd->n", mapped[member], Z)[:, None]
            distance = np.sqrt(np.maximum(np.take_along_axis(squared, nearest, axis=1) + of_row, 0.0))
            n_rejecting += distance.mean(axis=1) >= theta[member] * own[member][nearest].mean(axis=1)
        decided: BoolArray = n_rejecting > (len(n_neighbors) - 1) // 2
        return decided

    return decide


def detectors(X: FloatArray) -> Mapping[str, Callable[[FloatArray], Any]]:
    """A call of each detector that is there, fitted on X, that scores rows; they decide otherwise than ours.

    scikit-learn's LocalOutlierFactor, OneClassSVM, IsolationForest and NearestNeighbors, PyOD's KNN and river's
    HalfSpaceTrees (which has learned the last 5,000 rows; it takes them one by one).
    """
    from sklearn.ensemble import IsolationForest
    from sklearn.neighbors import LocalOutlierFactor, NearestNeighbors
    from sklearn.svm import OneClassSVM

    found: dict[str, Callable[[FloatArray], Any]] = {
        "sklearn NearestNeighbors(10)": NearestNeighbors(n_neighbors=10).fit(X).kneighbors,
        "sklearn LocalOutlierFactor": LocalOutlierFactor(novelty=True).fit(X).score_samples,
        "sklearn OneClassSVM": OneClassSVM(nu=0.05).fit(X).score_samples,
        "sklearn IsolationForest": IsolationForest(n_estimators=100, random_state=0).fit(X).score_samples,
    }
    if not absent("pyod"):
        found["PyOD KNN"] = import_module("pyod.models.knn").KNN(n_neighbors=10).fit(X).decision_function
    if not absent("river"):
        trees = import_module("river.anomaly").HalfSpaceTrees(n_trees=25, height=8, seed=0)
        for row in X[-5000:]:
            trees.learn_one(dict(enumerate(row.tolist())))
        found["river HalfSpaceTrees"] = lambda Z: [trees.score_one(dict(enumerate(row.tolist()))) for row in Z]
    return found
