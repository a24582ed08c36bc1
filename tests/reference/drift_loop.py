"""Slow twin of ADWIN's test on all cuts of a list of values in [0, 1]. math alone."""

import math


def bound(values: list[float], cut: int, delta: float, min_size: int) -> float:
    """By how much the means of both sides may differ by chance."""
    n = len(values)
    mean = math.fsum(values) / n
    variance = math.fsum((value - mean) ** 2 for value in values) / n
    m = 1 / (1 / (cut - min_size + 1) + 1 / (n - cut - min_size + 1))
    d = math.log(2 * math.log(n) / delta)
    return math.sqrt(2 / m * variance * d) + 2 / (3 * m) * d


def find_change(values: list[float], delta: float, min_size: int) -> tuple[float, int]:
    """(excess, cut) as stream_occ.drift defines them."""
    found = []
    for cut in range(min_size, len(values) - min_size + 1):
        difference = math.fsum(values[:cut]) / cut - math.fsum(values[cut:]) / (len(values) - cut)
        found.append((abs(difference) / bound(values, cut, delta, min_size), -cut))
    excess, cut = max(found)
    return excess, -cut
