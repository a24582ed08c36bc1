"""What a frozen scorer is: numpy alone, loaded from a model file, one number a row, high = abnormal."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from stream_occ.errors import ModelError
from stream_occ.kernels import FARTHEST
from stream_occ.plugins import load_plugin
from stream_occ.samples import FloatArray, IntArray

Arrays = dict[str, NDArray[Any]]


class Scorer(Protocol):
    """Scores scaled feature vectors; a scorer of kind K lives in stream_occ/scoring/K.py as class `FrozenScorer`.

    A row's score depends on that row alone, bit for bit on one machine: never on what else is in the batch.
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


@runtime_checkable
class SearchingScorer(Protocol):
    """A scorer that looks for the training rows nearest to each row, and may hand them over with the score."""

    def score_and_nearest(self, X: FloatArray, k: int) -> tuple[FloatArray, IntArray | None]:
        """As `score`, to the bit, and the numbers (n, k) of the nearest rows of its array `X`, nearest first, ties by
        lower row; None where it looks for other rows. k is at most the number of rows."""


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


def finite_rows(X: FloatArray, n_features: int) -> FloatArray:
    """X as C-contiguous float64 (n, n_features), clipped to +-1e100; ValueError for NaN and infinity. Read it only."""
    X = as_rows(X, n_features)
    if np.vdot(X, X) <= FARTHEST**2:  # NaN is not; the common case in a fifth of the time of what follows
        return X
    if not np.isfinite(X).all():
        raise ValueError("X must be finite; got NaN or infinity")
    return np.minimum(np.maximum(X, -FARTHEST), FARTHEST)  # np.clip takes three times as long for one row


def refusal(what: str, expected: str, got: str) -> ModelError:
    """The error of a scorer whose stored arrays or parameters do not fit."""
    return ModelError(f"model file: scorer {what}", expected, got, "Train the model again or restore the file")


def check_arrays(arrays: Arrays, dimensions: dict[str, int], *, integers: tuple[str, ...] = ()) -> None:
    """Raises ModelError unless the arrays have these names and numbers of dimensions, and are non-empty and finite.

    All are float64 within +-1e100, but int64 those called in `integers`.
    """
    if set(arrays) != set(dimensions):
        raise refusal("arrays", f"be {', '.join(sorted(dimensions))}", ", ".join(sorted(arrays)) or "none")
    for name, n_dimensions in dimensions.items():
        array, dtype = arrays[name], np.dtype(np.int64 if name in integers else np.float64)
        if array.dtype != dtype or array.ndim != n_dimensions or 0 in array.shape:
            got = f"{array.dtype} of shape {array.shape}"
            raise refusal(name, f"be non-empty {dtype} with {n_dimensions} dimensions", got)
        if not (np.abs(array) <= FARTHEST).all():
            raise refusal(name, f"be finite and within +-{FARTHEST:g}", "NaN, infinity or a number beyond")


def check_shapes(arrays: Arrays, shapes: dict[str, tuple[int, ...]]) -> None:
    """Raises ModelError unless each array named in shapes has its shape."""
    for name, shape in shapes.items():
        if arrays[name].shape != shape:
            raise refusal(name, f"have shape {shape}", str(arrays[name].shape))
