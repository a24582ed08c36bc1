"""Loop-written twin of a decision's explanation: lists and math alone, one row, one column after the other."""

import math

from tests.reference.ocnn_loop import Rows, median, neighbors

N_NEAREST = 5
N_TOLD = 5


def spread(column: list[float]) -> float:
    """1.4826 median absolute deviations of a column, else its standard deviation, else 1."""
    middle = median(column)
    deviation = 1.4826 * median([abs(value - middle) for value in column])
    if deviation > 0.0:
        return deviation
    mean = math.fsum(column) / len(column)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in column) / len(column)) or 1.0


def robust_z(x: list[float], rows: Rows) -> list[float]:
    """How far each number of x is from the median of its five nearest rows, in spreads of all rows."""
    near = [rows[number] for _, number in neighbors(x, rows, min(N_NEAREST, len(rows)))]
    return [(x[c] - median([row[c] for row in near])) / spread([row[c] for row in rows]) for c in range(len(x))]


def explained(x: list[float], rows: Rows, parts: dict[int | None, float] | None = None) -> list[tuple[int, float]]:
    """(column, z) of the five that did most. parts: what novelty (None) and evidence columns add to a score."""
    z = robust_z(x, rows)
    together = math.fsum(value**2 for value in z)
    made = []
    for c, value in enumerate(z):
        if parts is None:
            made.append(value**2)
        else:
            share = value**2 / together if together > 0.0 else 0.0
            made.append(share * max(parts[None], 0.0) + max(parts.get(c, 0.0), 0.0))
    order = sorted(range(len(x)), key=lambda c: (-made[c], -abs(z[c]), c))
    return [(c, z[c]) for c in order[:N_TOLD]]
