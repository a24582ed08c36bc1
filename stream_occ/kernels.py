"""The Gaussian kernel k(x, y) = exp(-|x - y|^2 / A2) of paper 2, its bandwidths, and its sums row by row.

What scores a new row works on that row alone, with products of the same shapes for every row, so that a score has the
same bits in any batch. Training uses whole matrices.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_occ.samples import FloatArray

__all__ = ["KernelPoints", "mean_bandwidth", "rms_bandwidth", "squared_distances"]

FARTHEST = 1e100  # coordinates are clipped to +- this, so that no square overflows
_FARTHEST_SINGLE = 1e12  # the same in float32
_CHUNK = 1024  # rows of one block of distances where only their sum is wanted


def squared_distances(X: FloatArray, Y: FloatArray) -> FloatArray:
    """|x_i - y_j|^2 (n, m), clipped at 0, of rows X (n, d) and Y (m, d); exactly 0 on the diagonal where Y is X."""
    center = np.median(Y, axis=0)  # the expansion below loses digits far from the origin; one far row moves a mean
    X, same = X - center, Y is X
    Y = X if same else Y - center
    squared = X @ Y.T
    squared *= -2.0
    squared += np.einsum("ij,ij->i", X, X)[:, None]
    squared += np.einsum("ij,ij->i", Y, Y)
    np.maximum(squared, 0.0, out=squared)
    if same:
        np.fill_diagonal(squared, 0.0)
    return squared


def rms_bandwidth(X: FloatArray) -> float:
    """A2 = the mean of all N^2 squared distances between rows X (N, d), the N zeros of the diagonal included.

    As in the authors' code, without a factor 2. It equals twice the mean squared distance to the mean row.
    """
    centered = X - X.mean(axis=0)
    return 2.0 * float(np.einsum("ij,ij->", centered, centered)) / len(X)


def mean_bandwidth(X: FloatArray) -> float:
    """A2 = 2 sigma^2, sigma the mean of all N^2 distances between rows X (N, d), the diagonal's zeros included.

    As in paper 2's text: "sigma = the mean Euclidean distance", in exp(-d^2 / (2 sigma^2)).
    """
    total = 0.0
    for start in range(0, len(X), _CHUNK):
        squared = squared_distances(X[start : start + _CHUNK], X)
        np.fill_diagonal(squared[:, start:], 0.0)  # a row's distance to itself, which the expansion rounds
        total += float(np.sqrt(squared).sum())
    return 2.0 * (total / len(X) ** 2) ** 2


class KernelPoints:
    """Rows Y (m, d) that new rows are compared with, under one bandwidth A2 > 0; values of dtype float64 or float32.

    In float32 coordinates count as at most 1e12 from the rows' centre.
    """

    __slots__ = ("_rows", "bandwidth", "center", "points")

    def __init__(self, points: FloatArray, bandwidth: float, *, dtype: type[Any] = np.float64) -> None:
        self.points, self.bandwidth = points, bandwidth
        self.center = np.median(points, axis=0)  # as in squared_distances
        shifted = points - self.center
        rows = np.empty((len(points), points.shape[1] + 2))  # times (x, |x|^2, 1): -|x - y|^2 / A2 in one product
        np.multiply(shifted, 2.0 / bandwidth, out=rows[:, :-2])
        rows[:, -2] = -1.0 / bandwidth
        rows[:, -1] = np.einsum("ij,ij->i", shifted, shifted) / -bandwidth
        self._rows = rows.astype(dtype, copy=False)

    @property
    def largest(self) -> float:
        """The largest magnitude in what rows are multiplied with."""
        return float(np.abs(self._rows).max())

    def logarithms(self, x: FloatArray) -> FloatArray:
        """log k(x, y_j) = -|x - y_j|^2 / A2 (m,), at most 0, of one row x (d,), finite and within +-1e100."""
        extended = np.empty(len(x) + 2)
        shifted = np.subtract(x, self.center, out=extended[:-2])
        extended[-2] = shifted.dot(shifted)  # .dot: half the overhead of @, which a few hundred points feel
        extended[-1] = 1.0
        if self._rows.dtype == np.float32:
            if extended[-2] > _FARTHEST_SINGLE**2:
                shifted[:] = np.minimum(np.maximum(shifted, -_FARTHEST_SINGLE), _FARTHEST_SINGLE)
                extended[-2] = shifted.dot(shifted)
            extended = extended.astype(np.float32)
        logarithms: FloatArray = self._rows.dot(extended)
        return np.minimum(logarithms, 0.0, out=logarithms)

    def exponents(self, x: FloatArray) -> FloatArray:
        """|x - y_j|^2 / A2 (m,), at least 0, of one row x (d,), finite and within +-1e100."""
        logarithms = self.logarithms(x)
        return np.negative(logarithms, out=logarithms)

    def row(self, x: FloatArray) -> FloatArray:
        """k(x, y_j) (m,) of one row x (d,)."""
        logarithms = self.logarithms(x)
        return np.exp(logarithms, out=logarithms)

    def matrix(self, X: FloatArray) -> FloatArray:
        """k(x_i, y_j) (n, m) of rows X (n, d), for training: equal to `row` but for rounding."""
        same = X is self.points
        squared = squared_distances(X, X if same else self.points)
        squared /= -self.bandwidth
        np.exp(squared, out=squared)
        return squared
