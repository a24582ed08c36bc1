"""What a frozen scorer is: numpy alone, loaded from a model file, one number a row, high = abnormal."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from stream_occ.errors import ModelError
from stream_occ.plugins import load_plugin
from stream_occ.samples import FloatArray

Arrays = dict[str, NDArray[Any]]


class Scorer(Protocol):
    """Scores scaled feature vectors; a scorer of kind K lives in stream_occ/scoring/K.py as class `FrozenScorer`.

    A row's score depends on that row alone, bit for bit: never on what else is in the batch.
    """

    KIND: ClassVar[str]

    @property
    def n_features(self) -> int:
        """Columns that `score` expects."""

    def score(self, X: FloatArray) -> FloatArray:
        """Scores (n,), high = abnormal, always finite, of scaled rows X (n, n_features)."""

    def arrays(self) -> Arrays:
        """Arrays to be stored, by name; float64, float32, int64, int32 or uint8."""

    def params(self) -> dict[str, Any]:
        """JSON-serialisable parameters that `from_arrays` needs beside the arrays."""

    @classmethod
    def from_arrays(cls, arrays: Arrays, params: dict[str, Any]) -> Self:
        """The scorer again; raises ModelError where arrays and params do not fit each other."""


def load_scorer(kind: str, arrays: Arrays, params: dict[str, Any]) -> Scorer:
    """The scorer of `kind`, found by its file name; raises ModelError for an unknown kind."""
    module = load_plugin("stream_occ.scoring", kind, kind="model file: scorer", error=ModelError)
    scorer: Scorer = module.FrozenScorer.from_arrays(arrays, params)
    return scorer


def as_rows(X: FloatArray, n_features: int) -> FloatArray:
    """X as C-contiguous float64 (n, n_features)."""
    X = np.ascontiguousarray(X, dtype=np.float64)
    if X.ndim != 2 or X.shape[1] != n_features:
        raise ValueError(f"X must have shape (n, {n_features}); got {X.shape}")
    return X
