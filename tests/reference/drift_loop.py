"""Slow twin of the rank test for one change: ranks by counting, sums by loops, every cut tried. math alone."""

import math


def rank_change(values: list[float], min_size: int, largest_correlation: float = 0.95) -> tuple[float, int]:
    """(z, cut) as stream_occ.drift defines them."""
    n = len(values)
    if n < 2 * min_size:
        return 0.0, n
    ranks = [sum(other < value for other in values) + (sum(o == value for o in values) + 1) / 2 for value in values]
    best, best_cut = 0.0, min_size
    for cut in range(min_size, n - min_size + 1):
        after = math.fsum(ranks[cut:])
        expected = (n - cut) * (n + 1) / 2
        z = (after - expected) / math.sqrt(cut * (n - cut) * (n + 1) / 12)
        if abs(z) > abs(best) + 1e-12:
            best, best_cut = z, cut
    rest = []
    for side in (ranks[:best_cut], ranks[best_cut:]):
        rest += [rank - math.fsum(side) / len(side) for rank in side]
    power = math.fsum(value * value for value in rest)
    r = math.fsum(rest[i] * rest[i + 1] for i in range(n - 1)) / power if power > 0 else 0.0
    r = min(max(r, 0.0), largest_correlation)
    return best / math.sqrt((1 + r) / (1 - r)), best_cut
