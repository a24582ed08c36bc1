"""Methods compared over data sets by their ranks: Friedman's test, and which pairs differ after it.

Pairs are told apart by z = (R_i - R_j) / sqrt(k (k + 1) / (6 N)) on mean ranks R of k methods over N data sets, with
two-sided normal p-values, adjusted for all pairs at once by Bergmann and Hommel's exhaustive sets, or by Holm where
there are too many methods for these (Demsar, JMLR 7, 2006; Garcia & Herrera, JMLR 9, 2008). Khan & Ahmad's Tables V to
VIII are made so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from stream_occ.samples import FloatArray

MAX_EXHAUSTIVE = 9  # 21,147 partitions; each further method makes them about six times as many
TIE_DIGITS = 12  # scores equal but for rounding are tied

Pair = tuple[int, int]

__all__ = ["FriedmanTest", "bergmann_hommel", "friedman", "holm_against_best", "mean_ranks", "nemenyi_difference"]


@dataclass(frozen=True, slots=True, eq=False)
class FriedmanTest:
    """statistic: chi squared of k - 1 degrees, corrected for ties; mean_ranks (k,), 1 = best."""

    statistic: float
    p_value: float
    mean_ranks: FloatArray


def mean_ranks(scores: ArrayLike) -> FloatArray:
    """Mean over data sets of each method's rank, (k,); scores (n_sets, k), the highest gets rank 1, ties their mean.

    >>> mean_ranks([[0.9, 0.5, 0.5], [0.8, 0.7, 0.1]]).tolist()
    [1.0, 2.25, 2.75]
    """
    ranks: FloatArray = _ranks(scores).mean(axis=0)
    return ranks


def friedman(scores: ArrayLike) -> FriedmanTest:
    """Whether k >= 2 methods differ at all over N data sets: scores (N, k), high = better.

    Where every data set ties all methods nothing speaks for a difference: statistic 0, p-value 1.
    """
    ranks = _ranks(scores)
    n_sets, k = ranks.shape
    means = ranks.mean(axis=0)
    # the variance of the ranks as they are, ties included: (k^2 - 1) / 12 without ties
    within = float(((ranks - (k + 1) / 2) ** 2).sum()) / (n_sets * (k - 1))
    if within == 0.0:
        return FriedmanTest(0.0, 1.0, means)
    statistic = n_sets * float(((means - (k + 1) / 2) ** 2).sum()) / within
    return FriedmanTest(statistic, float(stats.chi2.sf(statistic, k - 1)), means)


def bergmann_hommel(ranks: ArrayLike, n_sets: int) -> dict[Pair, float]:
    """Adjusted p-value of each pair i < j of k <= 9 methods from their mean ranks (k,) over n_sets data sets.

    A set of pairs is exhaustive if they can be the only ones with no difference: the pairs within the blocks of a
    partition of the methods. p(i, j) = max over exhaustive sets E with (i, j) of |E| min p(E), at most 1.
    """
    raw = _raw_p_values(ranks, n_sets)
    k = len(np.asarray(ranks))
    if k > MAX_EXHAUSTIVE:
        raise ValueError(f"ranks must be of at most {MAX_EXHAUSTIVE} methods; got {k}. Use holm_against_best")
    adjusted = dict.fromkeys(raw, 0.0)
    for blocks in _partitions(k):
        pairs = [pair for block in blocks for pair in combinations(block, 2)]
        bound = len(pairs) * min((raw[pair] for pair in pairs), default=0.0)
        for pair in pairs:
            adjusted[pair] = max(adjusted[pair], bound)
    return {pair: min(1.0, p) for pair, p in adjusted.items()}


def holm_against_best(ranks: ArrayLike, n_sets: int) -> dict[Pair, float]:
    """Holm-adjusted p-value of each other method against the one of best mean rank, as (best, other); any number.

    z = (R_i - R_best) / sqrt(k (k + 1) / (6 N)), two-sided normal, k - 1 comparisons (Demsar, JMLR 7, 2006).
    """
    values = np.asarray(ranks, dtype=np.float64)
    raw, best = _raw_p_values(values, n_sets), int(np.argmin(values))
    others = sorted((i for i in range(len(values)) if i != best), key=lambda i: -values[i])
    adjusted, largest = {}, 0.0
    for step, other in enumerate(others):
        largest = max(largest, (len(others) - step) * raw[min(best, other), max(best, other)])
        adjusted[best, other] = min(1.0, largest)
    return adjusted


def nemenyi_difference(k: int, n_sets: int, *, alpha: float = 0.05) -> float:
    """Difference of mean ranks of k methods that is significant at level alpha (Nemenyi), for a diagram of ranks."""
    if k < 2 or n_sets < 1 or not 0.0 < alpha < 1.0:
        raise ValueError(f"k >= 2, n_sets >= 1 and 0 < alpha < 1 must hold; got {k}, {n_sets}, {alpha}")
    quantile = float(stats.studentized_range.ppf(1.0 - alpha, k, np.inf))
    return quantile / math.sqrt(2.0) * _rank_error(k, n_sets)


def _ranks(scores: ArrayLike) -> FloatArray:
    """Ranks (n_sets, k) within each data set; ValueError unless scores are finite, of >= 1 set and >= 2 methods."""
    rows = np.asarray(scores, dtype=np.float64)
    if rows.ndim != 2 or rows.shape[0] < 1 or rows.shape[1] < 2 or not np.isfinite(rows).all():
        raise ValueError(f"scores must be finite with shape (n_sets >= 1, n_methods >= 2); got shape {rows.shape}")
    ranks: FloatArray = stats.rankdata(-np.round(rows, TIE_DIGITS), axis=1)
    return ranks


def _rank_error(k: int, n_sets: int) -> float:
    return math.sqrt(k * (k + 1) / (6.0 * n_sets))


def _raw_p_values(ranks: ArrayLike, n_sets: int) -> dict[Pair, float]:
    values = np.asarray(ranks, dtype=np.float64)
    if values.ndim != 1 or len(values) < 2 or n_sets < 1:
        raise ValueError(f"ranks must have shape (k >= 2,) over n_sets >= 1; got shape {values.shape}, {n_sets} sets")
    error = _rank_error(len(values), n_sets)
    pairs = combinations(range(len(values)), 2)
    return {(i, j): 2.0 * float(stats.norm.sf(abs(values[i] - values[j]) / error)) for i, j in pairs}


def _partitions(k: int) -> Iterator[Sequence[tuple[int, ...]]]:
    """All ways to divide 0..k-1 into blocks."""
    if k == 0:
        yield ()
        return
    last = k - 1
    for blocks in _partitions(last):
        yield (*blocks, (last,))
        for i, block in enumerate(blocks):
            yield (*blocks[:i], (*block, last), *blocks[i + 1 :])
