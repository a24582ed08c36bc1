"""Random linear maps of the features (Algorithm 5 of Khan & Ahmad) and their batch-independent application."""

from __future__ import annotations

import math

import numpy as np

from stream_occ.samples import FloatArray

_BLOCK_BYTES = 1 << 19  # of products held at a time: fits the second-level cache

__all__ = ["draw_projection", "draw_subspace", "project"]


def draw_projection(n_features: int, rng: np.random.Generator) -> FloatArray:
    """Sparse random map (d, d): entries +sqrt 3, 0, -sqrt 3 with chances 1/6, 2/3, 1/6, then rows of unit length.

    A row of zeros (chance (2/3)^d each) has no direction and is drawn again. The map acts as p = R x: row i of R is
    the direction of the new feature i. The paper normalises the rows too, so sqrt 3 cancels and only weights remain.
    """
    signs = np.empty((n_features, n_features))
    for row in signs:
        row[:] = 0.0
        while not row.any():
            row[:] = rng.choice((1.0, 0.0, -1.0), size=n_features, p=(1 / 6, 2 / 3, 1 / 6))
    entries = signs * math.sqrt(3.0)
    projection: FloatArray = entries / np.sqrt(np.sum(entries**2, axis=1, keepdims=True))
    return projection


def draw_subspace(n_features: int, max_features: float, rng: np.random.Generator) -> FloatArray:
    """Selection (e, d) of e = max(1, round half up(max_features d)) distinct features, in their order, as a 0/1 map."""
    n_kept = max(1, math.floor(max_features * n_features + 0.5))
    kept = np.sort(rng.choice(n_features, size=n_kept, replace=False))
    return np.eye(n_features)[kept]


def project(X: FloatArray, projection: FloatArray) -> FloatArray:
    """Rows p = R x, (n, e), of X (n, d): each summed over its products in one fixed order, so independent of n.

    No BLAS: a matrix product may sum a row in another order in another batch.

    >>> project(np.array([[1.0, 2.0]]), np.array([[0.0, 1.0]])).tolist()
    [[2.0]]
    """
    n_kept, n_features = projection.shape
    projected = np.empty((len(X), n_kept))
    step = max(1, _BLOCK_BYTES // (8 * n_kept * n_features))
    for start in range(0, len(X), step):
        products = np.multiply(X[start : start + step, None, :], projection, order="C")
        np.add.reduce(products, axis=-1, out=projected[start : start + step])
    return projected
