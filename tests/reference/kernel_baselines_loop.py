"""Loop-written twins of paper 2's kernel comparators: kernel PCA as Hoffmann (2007) prints it, and KKT conditions.

numpy alone, for eigenvectors; nothing here is shared with the package.
"""

import math

import numpy as np

Rows = list[list[float]]


def kernel(a: list[float], b: list[float], bandwidth: float) -> float:
    """exp(-|a - b|^2 / bandwidth)."""
    return math.exp(-math.fsum((p - q) ** 2 for p, q in zip(a, b, strict=True)) / bandwidth)


def rms_bandwidth(rows: Rows) -> float:
    """Mean of all N^2 squared distances."""
    return math.fsum((p - q) ** 2 for a in rows for b in rows for p, q in zip(a, b, strict=True)) / len(rows) ** 2


def mean_bandwidth(rows: Rows) -> float:
    """2 sigma^2, sigma the mean of all N^2 distances."""
    return 2.0 * (math.fsum(math.dist(a, b) for a in rows for b in rows) / len(rows) ** 2) ** 2


def centered_eigen(rows: Rows, bandwidth: float) -> tuple[list[float], list[list[float]]]:
    """Eigenvalues, largest first, and eigenvectors of K - 1K - K1 + 1K1, entry by entry."""
    n = len(rows)
    K = [[kernel(a, b, bandwidth) for b in rows] for a in rows]
    means = [math.fsum(row) / n for row in K]
    mean = math.fsum(means) / n
    centered = [[K[i][j] - means[i] - means[j] + mean for j in range(n)] for i in range(n)]
    values, vectors = np.linalg.eigh(np.array(centered))
    return values[::-1].tolist(), vectors.T[::-1].tolist()


def n_components(eigenvalues: list[float], share: float) -> int:
    """The smallest number of leading eigenvalues whose sum is at least this share of all."""
    total = math.fsum(eigenvalues)
    number = 1
    while math.fsum(eigenvalues[:number]) < share * total:
        number += 1
    return number


def recerr(x: list[float], rows: Rows, bandwidth: float, q: int) -> float:
    """Hoffmann's recerr: projections on alpha_l = v_l / sqrt(mu_l), each corrected by sums over alpha and K."""
    n = len(rows)
    values, vectors = centered_eigen(rows, bandwidth)
    K = [[kernel(a, b, bandwidth) for b in rows] for a in rows]
    row_sums = [math.fsum(row) / n for row in K]
    total = math.fsum(row_sums) / n
    k = [kernel(x, row, bandwidth) for row in rows]
    mean = math.fsum(k) / n
    error = 1.0 - 2.0 * mean + total
    for value, vector in zip(values[:q], vectors[:q], strict=True):
        alpha = [v / math.sqrt(value) for v in vector]
        alpha_sum = math.fsum(alpha)
        correction = alpha_sum * total - math.fsum(a * s for a, s in zip(alpha, row_sums, strict=True))
        projection = math.fsum(a * v for a, v in zip(alpha, k, strict=True)) + correction - alpha_sum * mean
        error -= projection**2
    return error


def centered_form(x: list[float], rows: Rows, bandwidth: float, q: int) -> float:
    """|phi(x) - mean|^2 minus squared projections of the centred kernel row on v_l / sqrt(mu_l)."""
    n = len(rows)
    values, vectors = centered_eigen(rows, bandwidth)
    k = [kernel(x, row, bandwidth) for row in rows]
    means = [math.fsum(kernel(a, b, bandwidth) for b in rows) / n for a in rows]
    total = math.fsum(means) / n
    centered = [k[i] - means[i] - math.fsum(k) / n + total for i in range(n)]
    error = 1.0 - 2.0 * math.fsum(k) / n + total
    for value, vector in zip(values[:q], vectors[:q], strict=True):
        error -= math.fsum(v * c for v, c in zip(vector, centered, strict=True)) ** 2 / value
    return error


def ball_score(x: list[float], rows: Rows, alpha: list[float], bandwidth: float) -> float:
    """|phi(x) - sum alpha phi(x_i)|^2: k(x,x) - 2 alpha'k + alpha' K alpha."""
    cross = math.fsum(a * kernel(x, row, bandwidth) for a, row in zip(alpha, rows, strict=True))
    norm = math.fsum(
        a * b * kernel(p, q, bandwidth)
        for a, p in zip(alpha, rows, strict=True)
        for b, q in zip(alpha, rows, strict=True)
    )
    return 1.0 - 2.0 * cross + norm


def kkt_gap(rows: Rows, alpha: list[float], upper: float, bandwidth: float) -> float:
    """The largest K alpha of a row with weight minus the smallest of a row below the bound: at most 0 if solved."""
    sums = [math.fsum(a * kernel(row, other, bandwidth) for a, other in zip(alpha, rows, strict=True)) for row in rows]
    may_fall = [s for s, a in zip(sums, alpha, strict=True) if a > 0.0]
    may_rise = [s for s, a in zip(sums, alpha, strict=True) if a < upper]
    return max(may_fall) - min(may_rise) if may_rise else 0.0
