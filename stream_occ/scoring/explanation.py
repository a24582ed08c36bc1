"""In what a window is unlike the normal windows nearest to it: feature by feature, in robust z."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_occ.samples import FloatArray
from stream_occ.scoring._base import Scorer

N_NEAREST = 5
N_TOLD = 5
MAX_SCALE_ROWS = 2000  # evenly spaced: enough for a median, and quick
NORMAL_MAD = 1.4826  # the standard deviation of a normal law over its median absolute deviation
_ROWS = ("X", "points", "points_1", "novelty.X", "novelty.points", "novelty.points_1")


def known_rows(scorer: Scorer) -> FloatArray | None:
    """The training rows (or landmarks) that a scorer keeps; None where it keeps none."""
    arrays = scorer.arrays()
    return next((arrays[name] for name in _ROWS if name in arrays), None)


def against_nearest(x: FloatArray, rows: FloatArray) -> FloatArray:
    """Robust z (d,) of a row x (d,): from the median of the 5 nearest rows (n, d), over the spread of all rows.

    The spread is 1.4826 times the median absolute deviation; the standard deviation where that is 0, 1 where both are.
    """
    away = np.add.reduce((rows - x) ** 2, axis=1)
    nearest = rows[np.argsort(away, kind="stable")[:N_NEAREST]]
    some = rows[:: -(-len(rows) // MAX_SCALE_ROWS)]
    spread = NORMAL_MAD * np.median(np.abs(some - np.median(some, axis=0)), axis=0)
    spread = np.where(spread > 0, spread, some.std(axis=0))
    z: FloatArray = (x - np.median(nearest, axis=0)) / np.where(spread > 0, spread, 1.0)
    return z


def explain(x: FloatArray, scorer: Scorer, names: Sequence[str]) -> tuple[tuple[str, float], ...]:
    """The 5 features in which a scaled row x (d,) is furthest from its nearest normal rows, furthest first, with z.

    Empty where the scorer keeps no rows.
    """
    rows = known_rows(scorer)
    if rows is None or not len(rows):
        return ()
    z = against_nearest(x, rows)
    return tuple((names[i], float(z[i])) for i in np.argsort(-np.abs(z), kind="stable")[:N_TOLD])
