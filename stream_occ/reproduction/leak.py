"""The class label leaking into random projections: what the printed RP figures of paper 1 come from.

The first author's public code multiplies the whole row, class attribute included, by the random matrix. All training
rows are targets and carry one label, so training notices nothing; each tested outlier is moved by its label, a whole
range of a scaled feature in nearly every direction, and is rejected. Here it is done on purpose, to show it, and
only where `reproduce paper1 --leak` asks: no detector or preset can reach it, since imports point downwards.
"""

from __future__ import annotations

import numpy as np

from stream_occ.samples import BoolArray, FloatArray

__all__ = ["with_label"]


def with_label(X: FloatArray, y: BoolArray) -> FloatArray:
    """Scaled rows (n, d + 1) with the label as one more feature: 0 for targets, 1 for outliers.

    >>> with_label(np.array([[0.2], [0.3]]), np.array([False, True])).tolist()
    [[0.2, 0.0], [0.3, 1.0]]
    """
    return np.column_stack([X, y.astype(np.float64)])
