"""Loop-written twin of paper 2: kernels and Laplacians entry by entry, one plain solve a layer.

Gautam et al., arXiv 1904.06491: (K + (lam/C) L K + I/C) W = T as it stands, with full matrices. numpy alone; nothing
here is shared with the package. Clusters are given by the caller as a function of a layer's input.
"""

import math
from collections.abc import Callable

import numpy as np

Cluster = Callable[[np.ndarray], np.ndarray]


def squared_distance(x: np.ndarray, y: np.ndarray) -> float:
    """|x - y|^2."""
    return math.fsum((float(a) - float(b)) ** 2 for a, b in zip(x, y, strict=True))


def bandwidth(X: np.ndarray, rule: str) -> float:
    """A2: the mean of all N^2 squared distances (rms), or twice the square of the mean distance (mean)."""
    squared = [squared_distance(x, y) for x in X for y in X]
    if rule == "rms":
        return math.fsum(squared) / len(squared)
    return 2.0 * (math.fsum(math.sqrt(value) for value in squared) / len(squared)) ** 2


def kernel(X: np.ndarray, Y: np.ndarray, A2: float) -> np.ndarray:
    """k(x_i, y_j)."""
    return np.array([[math.exp(-squared_distance(x, y) / A2) for y in Y] for x in X])


def nearest(K: np.ndarray, i: int, k: int) -> list[int]:
    """The k rows other than i of the largest kernel value with it."""
    others = [j for j in range(len(K)) if j != i]
    return sorted(others, key=lambda j: (-K[i, j], j))[:k]


def heat(K: np.ndarray, k: int | None, spread: float | None = None) -> np.ndarray:
    """D - V, v_ij = exp(-|phi_i - phi_j|^2 / (2 sigma^2)); between all, or where one is among the other's k nearest.

    sigma^2 is spread where given, else the mean of |phi_i - phi_j|^2 over K.
    """
    n = len(K)
    apart = [[K[i, i] + K[j, j] - 2.0 * K[i, j] for j in range(n)] for i in range(n)]
    sigma_squared = sum(map(math.fsum, apart)) / n**2 if spread is None else spread
    V = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            linked = k is None or j in nearest(K, i, k) or i in nearest(K, j, k)
            if i != j and linked:
                V[i, j] = math.exp(-apart[i][j] / (2.0 * sigma_squared))
    return np.diag(V.sum(axis=1)) - V


def locally_linear(K: np.ndarray, k: int) -> np.ndarray:
    """(I - A)'(I - A), each row of A rebuilding phi_i from its k nearest with weights of sum 1; ridge 1e-3 tr/k."""
    n = len(K)
    A = np.zeros((n, n))
    for i in range(n):
        near = nearest(K, i, k)
        gram = np.array([[K[i, i] - K[i, a] - K[i, b] + K[a, b] for b in near] for a in near])
        gram += 1e-3 * np.trace(gram) / len(near) * np.eye(len(near))
        solved = np.linalg.solve(gram, np.ones(len(near)))
        for place, j in enumerate(near):
            A[i, j] = solved[place] / solved.sum()
    rest = np.eye(n) - A
    return rest.T @ rest


def scatter(labels: np.ndarray, by_size: bool) -> np.ndarray:
    """I - sum_k 1_k 1_k' / N_k; by_size: each cluster's block over its N_k."""
    n = len(labels)
    L = np.zeros((n, n))
    for i in range(n):
        size = sum(1 for label in labels if label == labels[i])
        for j in range(n):
            if labels[i] == labels[j]:
                L[i, j] = ((1.0 if i == j else 0.0) - 1.0 / size) / (size if by_size else 1.0)
    return L


def laplacian(
    graph: str | None, X: np.ndarray, K: np.ndarray, k: int | None, cluster: Cluster, spread: float | None = None
) -> np.ndarray:
    """L of one layer's input."""
    n = len(X)
    if graph is None:
        return np.zeros((n, n))
    if graph == "le":
        return heat(K, k, spread)
    if graph == "lle":
        assert k is not None
        return locally_linear(K, k)
    if graph in ("lda", "cv"):
        return scatter(np.zeros(n), by_size=graph == "cv")
    return scatter(cluster(X), by_size=graph == "sv")


def landmark_weights(
    K: np.ndarray, landmarks: np.ndarray, L: np.ndarray, T: np.ndarray, C: list[float], lam: float
) -> np.ndarray:
    """W (m, t) that minimises sum_i C_i |t_i - K_im W|^2 + Tr{W'K_mm W + lam W'K_mn L K_nm W}, one plain solve."""
    K_nm = K[:, landmarks]
    left = K_nm.T @ (np.diag(C) + lam * L) @ K_nm + K[np.ix_(landmarks, landmarks)]
    W: np.ndarray = np.linalg.solve(left, K_nm.T @ (np.diag(C) @ T))
    return W


class Network:
    """n_layers - 1 auto-encoders, then one output taught to be 1 (`reconstruct`: one auto-encoder alone)."""

    def __init__(
        self,
        X: np.ndarray,
        n_layers: int,
        graph: str | None,
        C: float,
        lam: float,
        *,
        k: int | None,
        cluster: Cluster,
        rule: str = "rms",
        reconstruct: bool = False,
    ) -> None:
        self.layers: list[tuple[np.ndarray, np.ndarray, float]] = []
        self.systems: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []  # K, L, T
        for h in range(n_layers):
            A2 = bandwidth(X, rule)
            K = kernel(X, X, A2)
            L = laplacian(graph, X, K, k, cluster)
            T = X if reconstruct or h < n_layers - 1 else np.ones((len(X), 1))
            W = np.linalg.solve(K + (lam / C) * L @ K + np.eye(len(X)) / C, T)
            self.layers.append((X, W, A2))
            self.systems.append((K, L, T))
            X = K @ W

    def outputs(self, Z: np.ndarray) -> np.ndarray:
        """The last layer's output for new rows."""
        for X, W, A2 in self.layers:
            Z = kernel(Z, X, A2) @ W
        return Z


def theta1(residuals: np.ndarray, rejected: int, rule: str) -> float:
    """rejected = floor(eta N): the (rejected + 1)-th largest (code), or the max(1, rejected)-th largest (paper)."""
    descending = sorted((float(value) for value in residuals), reverse=True)
    return descending[rejected] if rule == "code" else descending[max(1, rejected) - 1]


def left_out(K: np.ndarray, L: np.ndarray, T: np.ndarray, C: float, lam: float, i: int) -> np.ndarray:
    """Residual of row i by the regression that does not see its error: its C is 0, graph and kernel stay."""
    weight = np.eye(len(K)) * C
    weight[i, i] = 0.0
    W = np.linalg.solve(lam * L @ K + np.eye(len(K)) + weight @ K, weight @ T)
    residual: np.ndarray = T[i] - K[i] @ W
    return residual
