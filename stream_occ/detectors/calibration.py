"""Thresholds from normal rows alone: groups of people to hold out, and the quantile that rejects a given share."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_occ.samples import FloatArray, IntArray

__all__ = ["group_folds", "quantile_threshold"]


def quantile_threshold(scores: FloatArray, reject_share: float) -> float:
    """The smallest of `scores` (n,) above which at most floor(reject_share * n) of them lie.

    With s_1 >= s_2 >= ... it is s_(m + 1), m = floor(reject_share * n); an outlier is a score above it, so exactly m
    scores are rejected unless ties at the threshold keep more in. m is computed from the decimal number as written:
    0.29 of 100 is 29, though 0.29 * 100 is 28.999999999999996 in floating point. reject_share in [0, 1); high scores
    are abnormal. Raises ValueError for no scores, non-finite ones or another share.

    >>> quantile_threshold(np.array([1.0, 2.0, 3.0, 4.0]), 0.25)
    3.0
    """
    scores = np.asarray(scores, dtype=np.float64)
    if scores.ndim != 1 or scores.size == 0 or not np.isfinite(scores).all():
        raise ValueError(f"scores must be finite with shape (n >= 1,); got shape {scores.shape}")
    if not 0.0 <= reject_share < 1.0:
        raise ValueError(f"reject_share must be in [0, 1); got {reject_share}")
    n_rejected = int(Fraction(repr(float(reject_share))) * scores.size)
    return float(np.sort(scores)[scores.size - 1 - n_rejected])


def group_folds(groups: Sequence[Any] | NDArray[Any], n_folds: int, seed: int) -> IntArray:
    """Fold number (n,) of each row such that no group is in two folds and folds are of about equal size.

    Groups are shuffled by seed, then the largest first go to the fold with fewest rows (ties: lowest number). Raises
    ValueError for fewer groups than folds.
    """
    names, member, sizes = np.unique(np.asarray(groups), return_inverse=True, return_counts=True)
    if not 2 <= n_folds <= len(names):
        raise ValueError(f"n_folds must be in 2..{len(names)}, the number of groups; got {n_folds}")
    shuffled = np.random.default_rng(seed).permutation(len(names))
    fold_of_group, filled = np.empty(len(names), dtype=np.int64), np.zeros(n_folds, dtype=np.int64)
    for group in shuffled[np.argsort(-sizes[shuffled], kind="stable")]:
        fold_of_group[group] = int(np.argmin(filled))
        filled[fold_of_group[group]] += sizes[group]
    folds: IntArray = fold_of_group[member]
    return folds
