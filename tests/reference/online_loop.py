"""Slow twin of the online output layer: Nystrom kernel ridge regression to 1, solved as one system over all rows.

In the landmarks' own coefficients a, O(x) = k(x)'a: the minimum of sum w_i (1 - k_i'a)^2 + ridge a'Ka, without the
pseudo-root of K that the package works with. numpy alone; nothing here is shared with the package.
"""

import math

import numpy as np

Rows = list[list[float]]


def kernel(x: list[float], y: list[float], bandwidth: float) -> float:
    """exp(-|x - y|^2 / bandwidth)."""
    return math.exp(-math.fsum((p - q) ** 2 for p, q in zip(x, y, strict=True)) / bandwidth)


def mean_squared_distance(rows: Rows) -> float:
    """Over all pairs, each row with itself included."""
    total = math.fsum((p - q) ** 2 for x in rows for y in rows for p, q in zip(x, y, strict=True))
    return total / len(rows) ** 2


def outputs(tested: Rows, learned: Rows, weights: list[float], landmarks: Rows, ridge: float) -> list[float]:
    """O(x) of the tested rows."""
    bandwidth = mean_squared_distance(landmarks)
    between = np.array([[kernel(x, y, bandwidth) for y in landmarks] for x in landmarks])
    rows = np.array([[kernel(x, y, bandwidth) for y in landmarks] for x in learned])
    weighted = rows * np.array(weights)[:, None]
    coefficients = np.linalg.solve(weighted.T @ rows + ridge * between, weighted.sum(axis=0))
    return [
        math.fsum(c * kernel(x, y, bandwidth) for c, y in zip(coefficients.tolist(), landmarks, strict=True))
        for x in tested
    ]
