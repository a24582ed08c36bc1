"""Loop-written twin of the nearest-neighbour engines: float64 brute force on lists, nothing shared with the package.

The order of summation is part of what the engines promise, so it is part of the twin: sums of up to 128 terms are made
of 8 running sums over every eighth term, added by pairs, and the terms that are left over, one after another.
"""

import math

Rows = list[list[float]]


def ordered_sum(terms: list[float]) -> float:
    """The sum in that order."""
    even = len(terms) - len(terms) % 8
    total = 0.0
    if even:
        running = terms[:8]
        for start in range(8, even, 8):
            running = [running[i] + terms[start + i] for i in range(8)]
        pairs = [running[i] + running[i + 1] for i in (0, 2, 4, 6)]
        total = (pairs[0] + pairs[1]) + (pairs[2] + pairs[3])
    for term in terms[even:]:
        total += term
    return total


def mapped(row: list[float], matrix: Rows) -> list[float]:
    """R x."""
    return [ordered_sum([x * r for x, r in zip(row, line, strict=True)]) for line in matrix]


def nearest(z: list[float], rows: Rows, k: int, left_out: set[int]) -> list[tuple[float, int]]:
    """(squared distance, number) of the k nearest rows, equal ones by number."""
    found = [
        (ordered_sum([(a - b) * (a - b) for a, b in zip(z, row, strict=True)]), number)
        for number, row in enumerate(rows)
        if number not in left_out
    ]
    return sorted(found)[:k]


def ratio(z: list[float], rows: Rows, own: list[float], j: int, floor: float) -> float:
    """nn_ratio of z among mapped rows; own is negative for rows that are left out."""
    near = nearest(z, rows, j, {number for number, value in enumerate(own) if value < 0})
    distance = reference = 0.0
    for squared, number in near:
        distance += math.sqrt(squared)
        reference += own[number]
    distance, reference = distance / j, reference / j + floor
    if distance == 0.0:
        return 0.0
    return math.inf if reference == 0.0 else distance / reference
