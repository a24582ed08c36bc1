"""Selection as the authors of the second paper do it: with outliers in the validation folds. For comparison alone.

A true one-class detector has none to choose by. Nothing that trains a model imports this module: `import-linter` keeps
the detectors and the trainer below it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_occ.detectors._tuning import inner_folds
from stream_occ.detectors.selection import held_out_rejections
from stream_occ.samples import BoolArray, FloatArray

__all__ = ["fowlkes_mallows", "select_with_outliers_for_reproduction_only"]


def select_with_outliers_for_reproduction_only(
    candidates: Sequence[Any], X: FloatArray, outliers: FloatArray, *, n_folds: int, rng: np.random.Generator
) -> int:
    """The candidate, trained on targets X (n, d), with the best Fowlkes-Mallows index over held-out rows of both kinds.

    Targets and outliers (m, d) are dealt out to n_folds apart; outliers never train. The index is that of all held-out
    rows together. Ties go to the last candidate, the simplest.
    """
    rows = np.concatenate([X, outliers])
    is_outlier = np.arange(len(rows)) >= len(X)
    fold = inner_folds(is_outlier, n_folds, rng)
    values = [
        fowlkes_mallows(held_out_rejections(candidate, rows, fold, trains=~is_outlier), is_outlier)
        for candidate in candidates
    ]
    rounded = np.round(values, 12)
    return int(np.flatnonzero(rounded == rounded.max())[-1])


def fowlkes_mallows(rejected: BoolArray, is_outlier: BoolArray) -> float:
    """sqrt(precision recall) with targets as the positive class; 0 where nothing is accepted.

    The authors' published code calls this gmean. It hardly counts outliers where they are few: accepting everything
    gives sqrt(share of targets).

    >>> round(fowlkes_mallows(np.array([False, False, True]), np.array([False, True, True])), 6)  # sqrt(1/2 * 1)
    0.707107
    """
    accepted_targets = np.count_nonzero(~rejected & ~is_outlier)
    product = np.count_nonzero(~rejected) * np.count_nonzero(~is_outlier)
    return float(accepted_targets / np.sqrt(product)) if product else 0.0
