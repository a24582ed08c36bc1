"""One layer of kernel ridge regression with a graph: exact, or in the span of landmark rows; leave-one-out values.

Minimises 1/2 Tr{beta'(I + lam Phi L Phi')beta} + C/2 sum_i |t_i - beta' phi_i|^2 (Gautam et al., arXiv 1904.06491,
equations 5 to 36 in one form): W = (K + (lam/C) L K + I/C)^-1 T.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy.linalg import LinAlgError, cho_solve, cholesky, solve_triangular

from stream_occ.detectors._graphs import CholeskyRoot, Laplacian, Root, laplacian
from stream_occ.kernels import KernelPoints, mean_bandwidth, rms_bandwidth, squared_distances
from stream_occ.samples import FloatArray, IntArray
from stream_occ.scoring.krr_network import LARGEST_WEIGHT, SMALLEST_BANDWIDTH

__all__ = ["LayerFit", "LayerSettings", "fit_layer", "reject_index"]

_CHUNK = 1024  # rows of one block of distances


@dataclass(frozen=True, slots=True)
class LayerSettings:
    """Checked parameters of one layer: C > 0, lam >= 0, bandwidth "rms", "mean" or A2 itself, the rest of the graph."""

    graph: str | None
    C: float
    lam: float
    bandwidth: str | float
    n_neighbors: int | None
    heat_width: float
    n_clusters: int


@dataclass(frozen=True, slots=True, eq=False)
class LayerFit:
    """points (m, d) and weights (m, t) under one bandwidth A2; outputs (N, t) of the training rows.

    With leave-one-out: `held_out` (N, 2), each row's |t - W'k| and -log mean kernel, had the row not been there.
    """

    points: FloatArray
    weights: FloatArray
    bandwidth: float
    outputs: FloatArray
    held_out: FloatArray | None


def fit_layer(
    X: FloatArray,
    T: FloatArray,
    settings: LayerSettings,
    *,
    landmarks: IntArray | None,
    seed: int,
    leave_one_out: bool,
) -> LayerFit:
    """Regresses T (N, t) on rows X (N, d), from all rows or from the rows `landmarks` (row numbers)."""
    kernel = KernelPoints(X if landmarks is None else X[landmarks], _bandwidth(X, settings.bandwidth))
    K = kernel.matrix(X)
    L = laplacian(
        settings.graph,
        kernel,
        X,
        K,
        n_neighbors=settings.n_neighbors,
        heat_width=settings.heat_width,
        n_clusters=settings.n_clusters,
        seed=seed,
    )
    try:
        if landmarks is None:
            weights, slack = _solve_exact(K, T, L, settings, leave_one_out)
        else:
            weights, slack = _solve_landmarks(kernel.matrix(kernel.points), K, T, L, settings, landmarks, leave_one_out)
    except LinAlgError as error:
        got = f"C = {settings.C:g}, lam = {settings.lam:g}"
        raise ValueError(
            f"C and lam must leave the regression solvable in float64; got {got}. Bring them nearer to 1"
        ) from error
    if not np.abs(weights).max() <= LARGEST_WEIGHT:
        raise ValueError(f"X and C must give weights within +-{LARGEST_WEIGHT:g}; lower C or scale the features first")
    outputs, held_out = K @ weights, None
    if slack is not None:
        residual = np.linalg.norm(T - outputs, axis=1) / np.maximum(slack, 1e-300)
        held_out = np.column_stack([residual, _held_out_remoteness(kernel, X, landmarks)])
    return LayerFit(kernel.points, weights, kernel.bandwidth, outputs, held_out)


def reject_index(n_rows: int, eta: float, rule: str) -> int:
    """Place of theta1 among n ascending values: ceil(n (1 - eta)) ("code") or the max(1, floor(eta n))-th largest.

    eta counts as the decimal number it is printed as: .29 * 100 is 29.

    >>> [reject_index(n, 0.05, "code") for n in (10, 20, 21)], [reject_index(n, 0.05, "paper") for n in (10, 20, 40)]
    ([9, 18, 19], [9, 19, 38])
    """
    n_rejected = int(Fraction(repr(float(eta))) * n_rows)
    return n_rows - 1 - n_rejected if rule == "code" else n_rows - max(1, n_rejected)


def _bandwidth(X: FloatArray, bandwidth: str | float) -> float:
    if isinstance(bandwidth, float):
        return bandwidth
    found = rms_bandwidth(X) if bandwidth == "rms" else mean_bandwidth(X)
    if found < SMALLEST_BANDWIDTH or np.ptp(X, axis=0).max() == 0.0:
        raise ValueError(
            f"every layer's input must hold rows that differ by more than rounding; got n_samples = {len(X)} that do "
            "not. Scale the features, or raise C"
        )
    return found


Solution = tuple[FloatArray, FloatArray | None]


def _solve_exact(K: FloatArray, T: FloatArray, L: Laplacian, settings: LayerSettings, leave_one_out: bool) -> Solution:
    """W (N, t), and 1 - S_ii of the hat matrix S, KW = ST."""
    root = L.root(settings.lam / settings.C)
    weights, G = _solve(K, root, T, settings.C)
    return weights, root.slack(G, 1.0 / settings.C) if leave_one_out else None


def _solve_landmarks(
    K: FloatArray,
    K_nm: FloatArray,
    T: FloatArray,
    L: Laplacian,
    settings: LayerSettings,
    landmarks: IntArray,
    leave_one_out: bool,
) -> Solution:
    """The same in the span of the landmarks' phi, K (m, m) their kernel: outputs are JKW, J = K_nm K^-1.

    Minimising over f = KW, the outputs at the landmarks, gives the exact form with J'(I + (lam/C) L)J for
    I + (lam/C) L and J'T for T. J is I on the landmarks themselves, so that with m = N no digit of it is lost.
    """
    m = len(landmarks)
    K_safe = K + m * (m + 1) * np.finfo(np.float64).eps * np.eye(m)  # Higham 2002, theorem 10.7: no pivot is negative
    J = cho_solve((cholesky(K_safe, lower=True, check_finite=False), True), K_nm.T, check_finite=False)  # J' (m, N)
    J[:, landmarks] = np.eye(m)
    A = J @ J.T
    if settings.lam > 0.0:
        A += settings.lam / settings.C * L.quadratic(J.T)
    root = CholeskyRoot(cholesky(A, lower=True, overwrite_a=True, check_finite=False))
    weights, G = _solve(K, root, J @ T, settings.C)
    if not leave_one_out:
        return weights, None
    mapped = root.solve(J)
    slack = 1.0 - np.einsum("ij,ij->j", mapped, mapped)
    whitened = solve_triangular(G, mapped, lower=True, overwrite_b=True, check_finite=False)
    slack += np.einsum("ij,ij->j", whitened, whitened) / settings.C
    return weights, slack


def _solve(K: FloatArray, root: Root, T: FloatArray, C: float) -> tuple[FloatArray, FloatArray]:
    """W = R Q^-1 R^-1 T, Q = R'KR + I/C = GG'; and G."""
    Q = root.congruence(K)
    Q[np.diag_indices_from(Q)] += 1.0 / C
    G = cholesky(Q, lower=True, overwrite_a=True, check_finite=False)
    return root.times(cho_solve((G, True), root.solve(T), check_finite=False)), G


def _held_out_remoteness(kernel: KernelPoints, X: FloatArray, landmarks: IntArray | None) -> FloatArray:
    """-log of each row's mean kernel value with the kernel's points (N,), itself left out where it is one of them."""
    n_rows, n_points = len(X), len(kernel.points)
    place = np.full(n_rows, -1)
    place[np.arange(n_rows) if landmarks is None else landmarks] = np.arange(n_points)
    remoteness = np.empty(n_rows)
    for start in range(0, n_rows, _CHUNK):
        exponents = squared_distances(X[start : start + _CHUNK], kernel.points) / kernel.bandwidth
        own = place[start : start + _CHUNK]
        inside = np.flatnonzero(own >= 0)
        exponents[inside, own[inside]] = np.inf
        nearest = exponents.min(axis=1)
        total = np.exp(nearest[:, None] - exponents).sum(axis=1)
        remoteness[start : start + _CHUNK] = nearest - np.log(total / (n_points - (own >= 0)))
    return remoteness
