"""Rows that come as mappings of feature names to numbers, for detectors that learn on a stream."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from stream_occ.kernels import FARTHEST
from stream_occ.samples import FloatArray

Row = dict[Any, Any]

__all__ = ["Columns", "Row", "check_finite"]


class Columns:
    """Names of features in the order of their columns: sorted at first sight, later ones appended."""

    def __init__(self) -> None:
        self.names: tuple[Any, ...] = ()

    def learn(self, x: Row) -> None:
        """Gives a column to each name not seen before."""
        new = set(x).difference(self.names)
        if new:
            self.names += tuple(sorted(new, key=str))

    def row(self, x: Row) -> FloatArray:
        """x as a row of the known columns; raises ValueError for NaN or infinity in them."""
        row = np.array([x.get(name, 0.0) for name in self.names], dtype=np.float64)
        if not np.isfinite(row).all():
            check_finite(x)
        clipped: FloatArray = np.clip(row, -FARTHEST, FARTHEST)
        return clipped


def check_finite(x: Row) -> None:
    """Raises ValueError that names the features that are NaN or infinite."""
    bad = [str(name) for name, value in x.items() if not math.isfinite(value)]
    if bad:
        raise ValueError(f"x must be finite; got NaN or infinity in {', '.join(bad)}")
