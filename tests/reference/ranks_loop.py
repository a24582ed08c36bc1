"""Slow twins of stream_occ.reproduction.ranks: plain loops, numpy alone.

Exhaustive sets are found by their definition: a set of pairs is one if "equal" can hold for these pairs and no other,
that is if it is closed under transitivity.
"""

from itertools import combinations
from math import erfc, sqrt

import numpy as np


def ranks(row):
    """Rank of each score of one data set: 1 + the number of better ones + half the number of equal others."""
    result = []
    for i, own in enumerate(row):
        better = sum(1 for other in row if other > own)
        equal = sum(1 for j, other in enumerate(row) if j != i and other == own)
        result.append(1 + better + equal / 2)
    return result


def mean_ranks(scores):
    """Mean of `ranks` over data sets."""
    rows = [ranks(row) for row in scores]
    return [float(np.mean([row[j] for row in rows])) for j in range(len(rows[0]))]


def friedman_statistic(scores):
    """Friedman's chi squared by the textbook's formula, divided by the correction for ties."""
    n, k = len(scores), len(scores[0])
    sums = [n * mean for mean in mean_ranks(scores)]
    statistic = 12 / (n * k * (k + 1)) * sum(total**2 for total in sums) - 3 * n * (k + 1)
    tied = 0
    for row in scores:
        for value in set(row):
            t = list(row).count(value)
            tied += t**3 - t
    return statistic / (1 - tied / (n * (k**3 - k)))


def p_value(a, b, k, n):
    """Two-sided normal p-value of a difference of mean ranks."""
    return erfc(abs(a - b) / sqrt(k * (k + 1) / (6 * n)) / sqrt(2))


def is_exhaustive(pairs, k):
    """Whether equality of exactly these pairs is transitive."""
    equal = {(i, i) for i in range(k)} | set(pairs) | {(j, i) for i, j in pairs}
    return all((a, d) in equal for a, b in equal for c, d in equal if b == c)


def bergmann_hommel(mean, n):
    """max over all exhaustive sets with the pair of size * smallest p, at most 1; every set of pairs is looked at."""
    k = len(mean)
    pairs = list(combinations(range(k), 2))
    raw = {(i, j): p_value(mean[i], mean[j], k, n) for i, j in pairs}
    adjusted = dict.fromkeys(pairs, 0.0)
    for size in range(1, len(pairs) + 1):
        for chosen in combinations(pairs, size):
            if is_exhaustive(chosen, k):
                bound = size * min(raw[pair] for pair in chosen)
                for pair in chosen:
                    adjusted[pair] = max(adjusted[pair], bound)
    return {pair: min(1.0, value) for pair, value in adjusted.items()}
