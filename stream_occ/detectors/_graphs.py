"""Graph Laplacians of paper 2 (Gautam et al., arXiv 1904.06491) in the kernel's feature space.

Every L (N, N) is symmetric, positive semidefinite, has L1 = 0, and is kept without N x N numbers where its form allows.
phi-distances are |phi_i - phi_j|^2 = 2 - 2 K_ij; for a Gaussian kernel a row's nearest rows there are those in X.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
from scipy import sparse
from scipy.linalg import cholesky, lapack, solve_triangular
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from stream_occ.kernels import KernelPoints
from stream_occ.samples import FloatArray, IntArray

__all__ = [
    "GRAPHS",
    "BlockLaplacian",
    "BlockRoot",
    "CholeskyRoot",
    "GramLaplacian",
    "Laplacian",
    "MatrixLaplacian",
    "Root",
    "laplacian",
]

GRAPHS = ("le", "lle", "lda", "cda", "cv", "sv")
_LLE_RIDGE = 1e-3  # of the local Gram matrix, relative to its mean diagonal
_CHUNK = 512  # rows whose neighbourhoods are compared, or right-hand sides that are solved for, at a time


class Root(Protocol):
    """R of A = I + scale * L = RR'."""

    def times(self, V: FloatArray) -> FloatArray:
        """R V."""

    def solve(self, V: FloatArray) -> FloatArray:
        """R^-1 V."""

    def congruence(self, K: FloatArray) -> FloatArray:
        """R'KR (its lower triangle), a new array."""

    def slack(self, G: FloatArray, ridge: float) -> FloatArray:
        """Diagonal of I - A^-1 + ridge * F'F, F = G^-1 R^-1, of a lower triangular G."""


class Laplacian(Protocol):
    """L (N, N), in the two forms that fitting needs."""

    def quadratic(self, V: FloatArray) -> FloatArray:
        """V'LV (m, m) of V (N, m)."""

    def root(self, scale: float) -> Root:
        """R of I + scale * L = RR'."""


class BlockLaplacian:
    """L = sum_k w_k (I_k - 1_k 1_k' / N_k) over clusters k: lda, cda, cv, sv, and no graph at all (w = 0)."""

    def __init__(self, labels: IntArray, weights: FloatArray) -> None:
        """labels (N,) in 0..k-1, each taken; weights (k,)."""
        self._basis = np.eye(len(weights))[labels] / np.sqrt(np.bincount(labels))  # orthonormal columns
        self._labels, self._weights = labels, weights

    def quadratic(self, V: FloatArray) -> FloatArray:
        """V'LV (m, m) of V (N, m), from rows less their cluster's mean."""
        centered = V - self._basis @ (self._basis.T @ V)
        centered *= np.sqrt(self._weights[self._labels, None])
        product: FloatArray = centered.T @ centered
        return product

    def root(self, scale: float) -> BlockRoot:
        """R of I + scale * L, which has the same blocks."""
        return BlockRoot(self._basis, np.sqrt(1.0 + scale * self._weights)[self._labels])


class BlockRoot:
    """R = S + B diag(1 - s) B', symmetric: s on what differs from a cluster's mean, 1 on the means. O(N) a column."""

    def __init__(self, basis: FloatArray, scale: FloatArray) -> None:
        """basis B (N, k), orthonormal columns; scale s (N,), the same within a cluster."""
        self._basis, self._scale = basis, scale[:, None]

    def times(self, V: FloatArray) -> FloatArray:
        """R V."""
        return self._apply(V, self._scale)

    def solve(self, V: FloatArray) -> FloatArray:
        """R^-1 V."""
        return self._apply(V, 1.0 / self._scale)

    def congruence(self, K: FloatArray) -> FloatArray:
        """RKR, a new array."""
        return self.times(self.times(K).T)

    def slack(self, G: FloatArray, ridge: float) -> FloatArray:
        """Diagonal of I - A^-1 + ridge * F'F, F = G^-1 R^-1."""
        # R^-1 e_j = e_j / s + (1 - 1/s) B B'e_j, and G^-1 B is a few columns
        inverse_scale = 1.0 / self._scale[:, 0]
        rest = 1.0 - inverse_scale
        means = solve_triangular(G, self._basis, lower=True, check_finite=False)
        graph = rest * (1.0 + inverse_scale) * (1.0 - np.einsum("ij,ij->i", self._basis, self._basis))
        squared = np.square(rest) * np.einsum("ij,jk,ik->i", self._basis, means.T @ means, self._basis)
        for start, block in _unit_solutions(G):
            own = slice(start, start + block.shape[1])
            on_means = np.einsum("ij,ji->i", self._basis[own], means[start:].T @ block)
            squared[own] += np.square(inverse_scale[own]) * np.einsum("ij,ij->j", block, block)
            squared[own] += 2.0 * inverse_scale[own] * rest[own] * on_means
        slack: FloatArray = graph + ridge * squared
        return slack

    def _apply(self, V: FloatArray, scale: FloatArray) -> FloatArray:
        if (scale == 1.0).all():
            return V.copy()
        means = self._basis @ (self._basis.T @ V)
        return means + scale * (V - means)


class MatrixLaplacian:
    """L given whole, sparse or dense: le, lle."""

    def __init__(self, matrix: Any) -> None:
        self._matrix = matrix

    def quadratic(self, V: FloatArray) -> FloatArray:
        """V'LV (m, m) of V (N, m)."""
        product: FloatArray = V.T @ (self._matrix @ V)
        return product

    def root(self, scale: float) -> CholeskyRoot:
        """The Cholesky factor of I + scale * L."""
        A = self._matrix.toarray() if sparse.issparse(self._matrix) else self._matrix.copy()
        A *= scale
        A[np.diag_indices_from(A)] += 1.0
        return CholeskyRoot(cholesky(A.T, lower=True, overwrite_a=True, check_finite=False))


class GramLaplacian(MatrixLaplacian):
    """L = M'M of a sparse M: lle."""

    def __init__(self, factor: Any) -> None:
        super().__init__((factor.T @ factor).tocsr())
        self._factor_of_matrix = factor

    def quadratic(self, V: FloatArray) -> FloatArray:
        """V'LV (m, m) of V (N, m): M has a tenth of L's numbers, and half of the product is the other half."""
        mapped = self._factor_of_matrix @ V
        product: FloatArray = mapped.T @ mapped
        return product


class CholeskyRoot:
    """R, lower triangular, in Fortran order."""

    def __init__(self, factor: FloatArray) -> None:
        self._factor = factor

    def times(self, V: FloatArray) -> FloatArray:
        """R V."""
        product: FloatArray = self._factor @ V
        return product

    def solve(self, V: FloatArray) -> FloatArray:
        """R^-1 V."""
        solution: FloatArray = solve_triangular(self._factor, V, lower=True, check_finite=False)
        return solution

    def congruence(self, K: FloatArray) -> FloatArray:
        """R'KR in its lower triangle, of symmetric K, in N^3 operations: half of what two products take."""
        product: FloatArray
        product, _ = lapack.dsygst(K.T, self._factor, itype=2, lower=1)
        return product

    def slack(self, G: FloatArray, ridge: float) -> FloatArray:
        """Diagonal of I - A^-1 + ridge * F'F, F = G^-1 R^-1."""
        slack = np.ones(len(G))
        for start, block in _unit_solutions(self._factor):
            own = slice(start, start + block.shape[1])
            slack[own] -= np.einsum("ij,ij->j", block, block)
            whitened = solve_triangular(G[start:, start:], block, lower=True, overwrite_b=True, check_finite=False)
            slack[own] += ridge * np.einsum("ij,ij->j", whitened, whitened)
        return slack


def _unit_solutions(G: FloatArray) -> Iterator[tuple[int, FloatArray]]:
    """Rows from `start` on of G^-1 e_j, j = start, start + 1, ..., block by block; above them, they are 0."""
    for start in range(0, len(G), _CHUNK):
        block = np.zeros((len(G) - start, min(_CHUNK, len(G) - start)), order="F")
        np.fill_diagonal(block, 1.0)
        yield start, solve_triangular(G[start:, start:], block, lower=True, overwrite_b=True, check_finite=False)


def laplacian(
    graph: str | None,
    kernel: KernelPoints,
    X: FloatArray,
    K: FloatArray,
    *,
    n_neighbors: int | None,
    heat_width: float = 1.0,
    n_clusters: int,
    seed: int,
) -> Laplacian:
    """L of rows X (N, d) under `kernel`, K (N, m) their kernel values with its points; graph None is L = 0.

    - le: D - V, heat kernel v_ij = exp(-|phi_i - phi_j|^2 / (2 sigma^2)), sigma^2 heat_width times the mean
      |phi_i - phi_j|^2 in K; between rows of which one is among the other's n_neighbors nearest, or (n_neighbors
      None, K square) between all;
    - lle: (I - A)'(I - A), rows of A the weights, of sum 1, that best rebuild phi_i from its n_neighbors nearest;
    - lda: I - 11'/N, and cv: the same over N;
    - cda: I - sum_k 1_k 1_k' / N_k over k-means clusters of X, and sv: each cluster's block over N_k.
    """
    n_rows = len(X)
    if graph == "le":
        return MatrixLaplacian(_heat(kernel, X, K, n_neighbors, heat_width))
    if graph == "lle":
        assert n_neighbors is not None
        return GramLaplacian(_locally_linear(kernel, X, n_neighbors))
    if graph in ("cda", "sv"):
        labels = _cluster(X, n_clusters, seed)
        sizes = np.bincount(labels)
        return BlockLaplacian(labels, np.ones(len(sizes)) if graph == "cda" else 1.0 / sizes)
    weight = {None: 0.0, "lda": 1.0, "cv": 1.0 / n_rows}[graph]
    return BlockLaplacian(np.zeros(n_rows, dtype=np.int64), np.array([weight]))


def _heat(kernel: KernelPoints, X: FloatArray, K: FloatArray, n_neighbors: int | None, width: float) -> Any:
    """D - V of the heat kernel: sparse between neighbours, dense between all."""
    sigma_squared = width * max(2.0 - 2.0 * float(K.mean()), 1e-300)
    if n_neighbors is None:
        V = np.exp((K - 1.0) / sigma_squared)
        np.fill_diagonal(V, 0.0)
        np.negative(V, out=V)
        V[np.diag_indices_from(V)] = -V.sum(axis=1)
        return V
    neighbors = _nearest(X, n_neighbors)
    near = np.concatenate([_local_kernel(kernel, X, rows)[:, 0, 1:] for rows in _neighborhoods(neighbors)])
    V = _sparse_rows(np.exp((near - 1.0) / sigma_squared), neighbors)
    V = V.maximum(V.T)
    return sparse.diags_array(np.asarray(V.sum(axis=1)).ravel()).tocsr() - V


def _locally_linear(kernel: KernelPoints, X: FloatArray, n_neighbors: int) -> Any:
    """I - A, sparse."""
    neighbors = _nearest(X, n_neighbors)
    weights = []
    for rows in _neighborhoods(neighbors):
        local = _local_kernel(kernel, X, rows)
        own = local[:, :1, 1:]
        gram = 1.0 - own - own.transpose(0, 2, 1) + local[:, 1:, 1:]
        diagonal = np.einsum("ijj->ij", gram)  # a writable view
        mean = diagonal.mean(axis=1, keepdims=True)
        diagonal += _LLE_RIDGE * np.where(mean > 0.0, mean, 1.0)
        solved = np.linalg.solve(gram, np.ones((*gram.shape[:2], 1)))[..., 0]
        weights.append(solved / solved.sum(axis=1, keepdims=True))
    return sparse.eye_array(len(X), format="csr") - _sparse_rows(np.concatenate(weights), neighbors)


def _nearest(X: FloatArray, n_neighbors: int) -> IntArray:
    """Row numbers (N, k) of each row's nearest others, k at most N - 1."""
    index = NearestNeighbors(n_neighbors=min(n_neighbors, len(X) - 1)).fit(X)
    neighbors: IntArray = index.kneighbors(return_distance=False)
    return neighbors


def _neighborhoods(neighbors: IntArray) -> list[IntArray]:
    """Each row's number and its neighbours' (n, k + 1), in chunks."""
    rows = np.column_stack([np.arange(len(neighbors)), neighbors])
    return [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)]


def _local_kernel(kernel: KernelPoints, X: FloatArray, rows: IntArray) -> FloatArray:
    """Kernel values (n, k, k) among the rows X[rows[i]], from differences: exact for rows that coincide."""
    near = X[rows]
    squared = np.stack([np.square(near - near[:, j : j + 1]).sum(axis=2) for j in range(rows.shape[1])], axis=1)
    values: FloatArray = np.exp(-squared / kernel.bandwidth)
    return values


def _sparse_rows(values: FloatArray, columns: IntArray) -> Any:
    """Sparse (N, N) with values (N, k) at columns (N, k)."""
    n_rows, k = columns.shape
    return sparse.csr_array((values.ravel(), columns.ravel(), np.arange(n_rows + 1) * k), shape=(n_rows, n_rows))


def _cluster(X: FloatArray, n_clusters: int, seed: int) -> IntArray:
    """k-means clusters 0..k-1 (N,) of the rows, none empty, at most N - 1 and at most the number of distinct rows."""
    most = min(n_clusters, len(X) - 1, len(np.unique(X, axis=0)))
    # one thread: partial sums of several are added in the order in which they end
    with threadpool_limits(limits=1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # rows that differ by rounding make fewer clusters
        labels = KMeans(n_clusters=most, n_init=3, random_state=seed).fit_predict(X)
    return np.unique(labels, return_inverse=True)[1].astype(np.int64)
