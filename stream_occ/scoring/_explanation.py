"""In what a window is unlike the normal windows nearest to it: feature by feature, in robust z.

Told are the features that made the score: of a fusion those that are evidence by what they add to it, and all by their
share of what novelty adds, which is that of their squared z. Where nothing is added, as in most normal windows of a
fusion, they go by |z|, which is the order by shares of whatever little novelty would add.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_occ.engines import RowsSearch, open_rows
from stream_occ.samples import Contributions, FloatArray, IntArray
from stream_occ.scoring import evidence_fusion
from stream_occ.scoring._base import Scorer, SearchingScorer, finite_rows

N_NEAREST = 5
N_TOLD = 5
MAX_SCALE_ROWS = 2000  # evenly spaced: enough for a median, and quick
TINY = 1e-300
NORMAL_MAD = 1.4826  # the standard deviation of a normal law over its median absolute deviation
_ROWS = ("X", "points", "points_1", "novelty.X", "novelty.points", "novelty.points_1")


def known_rows(scorer: Scorer) -> FloatArray | None:
    """The training rows (or landmarks, or support vectors) that a scorer keeps; None where it keeps none."""
    arrays = scorer.arrays()
    rows = next((arrays[name] for name in _ROWS if name in arrays), None)
    return rows if rows is not None and len(rows) else None


class Explainer:
    """Scores rows, and says what made each score: robust z against the nearest normal rows that the scorer keeps.

    Where the scorer hands over the rows that it has just found, nothing is searched twice; else they are searched here,
    as exactly. The spread of all rows is found once.
    """

    def __init__(self, scorer: Scorer, names: Sequence[str]) -> None:
        self._scorer, self._rows, self._names = scorer, known_rows(scorer), names
        self._spread = np.empty(0) if self._rows is None else spread_of(self._rows)
        self._search: RowsSearch | None = None  # made when first needed: it is as large as the rows

    def judge(self, X: FloatArray) -> tuple[FloatArray, list[Contributions]]:
        """Scores (n,) of scaled rows X (n, d) as by the scorer, and of each row the 5 features that did most for it.

        The most first, each with its robust z, equal ones by |z|, then in their order. Empty where the scorer keeps no
        rows. A row's answer is bit-identical in any batch.
        """
        X = finite_rows(X, self._scorer.n_features)
        fusion = self._scorer if isinstance(self._scorer, evidence_fusion.FrozenScorer) else None
        novelty, nearest = self._searched(self._scorer if fusion is None else fusion.novelty, X)
        parts = None if fusion is None else fusion.parts_of(novelty, X)
        scores = novelty if parts is None else evidence_fusion.total(parts)
        if self._rows is None or nearest is None:
            return scores, [()] * len(X)
        z = robust_z(X, self._rows[nearest], self._spread)
        made = z**2
        if fusion is not None and parts is not None:
            made *= (np.maximum(parts[:, 0], 0.0) / np.maximum(np.add.reduce(made, axis=1), TINY))[:, None]
            for columns, part in zip(fusion.groups, parts.T[1:], strict=True):
                made[:, columns] += (np.maximum(part, 0.0) / len(columns))[:, None]
        first = np.lexsort((-np.abs(z), -made))[:, :N_TOLD]
        told = zip(first.tolist(), np.take_along_axis(z, first, axis=1).tolist(), strict=True)
        return scores, [tuple((self._names[i], size) for i, size in zip(*row, strict=True)) for row in told]

    def _searched(self, scorer: Scorer, X: FloatArray) -> tuple[FloatArray, IntArray | None]:
        """Scores by the scorer that keeps the rows, and the nearest of them; None where it keeps none."""
        if self._rows is None:
            return scorer.score(X), None
        k = min(N_NEAREST, len(self._rows))
        if isinstance(scorer, SearchingScorer):
            scores, nearest = scorer.score_and_nearest(X, k)
            if nearest is not None:
                return scores, nearest
        else:
            scores = scorer.score(X)
        if self._search is None:
            self._search = open_rows(self._rows)
        return scores, self._search.of(X, k)[1]


def robust_z(X: FloatArray, nearest: FloatArray, spread: FloatArray) -> FloatArray:
    """Robust z (n, d), at most +-1e6, of rows X (n, d): from the median of their nearest rows (n, k, d), over the
    spread (d,) of all rows."""
    limit = evidence_fusion.LARGEST_Z
    with np.errstate(over="ignore"):
        z: FloatArray = np.clip((X - np.median(nearest, axis=1)) / spread, -limit, limit)
    return z


def spread_of(rows: FloatArray) -> FloatArray:
    """1.4826 times the median absolute deviation of each column (d,); its standard deviation where that is 0, 1 where
    both are."""
    some = rows[:: -(-len(rows) // MAX_SCALE_ROWS)]
    spread = NORMAL_MAD * np.median(np.abs(some - np.median(some, axis=0)), axis=0)
    spread = np.where(spread > 0, spread, some.std(axis=0))
    return np.where(spread > 0, spread, 1.0)
