"""In what a window is unlike the normal windows nearest to it: feature by feature, in robust z.

Told are the features that made the score: of a fusion those that are evidence by what they add to it, and all by their
share of what novelty adds, which is that of their squared z.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_occ.samples import FloatArray
from stream_occ.scoring import evidence_fusion
from stream_occ.scoring._base import Scorer

N_NEAREST = 5
N_TOLD = 5
MAX_SCALE_ROWS = 2000  # evenly spaced: enough for a median, and quick
TINY = 1e-300
NORMAL_MAD = 1.4826  # the standard deviation of a normal law over its median absolute deviation
_ROWS = ("X", "points", "points_1", "novelty.X", "novelty.points", "novelty.points_1")


def known_rows(scorer: Scorer) -> FloatArray | None:
    """The training rows (or landmarks) that a scorer keeps; None where it keeps none."""
    arrays = scorer.arrays()
    return next((arrays[name] for name in _ROWS if name in arrays), None)


class Explainer:
    """Robust z of rows against a scorer's nearest normal rows; the spread of all its rows is found once."""

    def __init__(self, scorer: Scorer, names: Sequence[str]) -> None:
        self._scorer, self._rows, self._names = scorer, known_rows(scorer), names
        self._spread = np.empty(0) if self._rows is None else spread_of(self._rows)

    def explain(self, x: FloatArray) -> tuple[tuple[str, float], ...]:
        """The 5 features that did most for the score of a scaled row x (d,), the most first, each with its robust z.

        Empty where the scorer keeps no rows.
        """
        if self._rows is None or not len(self._rows):
            return ()
        z = against_nearest(x, self._rows, self._spread)
        made = z**2
        if isinstance(self._scorer, evidence_fusion.FrozenScorer):
            novelty, *evidence = self._scorer.explain(x[None])[0].tolist()
            made *= max(novelty, 0.0) / max(float(made.sum()), TINY)
            for column, part in zip(self._scorer.columns.tolist(), evidence, strict=True):
                made[column] += max(part, 0.0)
        return tuple((self._names[i], float(z[i])) for i in np.argsort(-made, kind="stable")[:N_TOLD])


def against_nearest(x: FloatArray, rows: FloatArray, spread: FloatArray) -> FloatArray:
    """Robust z (d,) of a row x (d,): from the median of the 5 nearest rows (n, d), over the spread (d,) of all rows."""
    away = np.add.reduce((rows - x) ** 2, axis=1)
    nearest = rows[np.argsort(away, kind="stable")[:N_NEAREST]]
    z: FloatArray = (x - np.median(nearest, axis=0)) / spread
    return z


def spread_of(rows: FloatArray) -> FloatArray:
    """1.4826 times the median absolute deviation of each column (d,); its standard deviation where that is 0, 1 where
    both are."""
    if not len(rows):
        return np.ones(rows.shape[1])
    some = rows[:: -(-len(rows) // MAX_SCALE_ROWS)]
    spread = NORMAL_MAD * np.median(np.abs(some - np.median(some, axis=0)), axis=0)
    spread = np.where(spread > 0, spread, some.std(axis=0))
    return np.where(spread > 0, spread, 1.0)
