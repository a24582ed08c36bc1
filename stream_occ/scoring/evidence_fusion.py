"""Frozen fusion: how strange a window is, by any other frozen scorer, plus what single features say for a fall."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from stream_occ.samples import FloatArray, IntArray
from stream_occ.scoring._base import Arrays, Scorer, finite_rows, load_scorer, refusal

LEAST_EVIDENCE = -2.0  # nearly one-sided: little of an evidence takes no more than this from the score
LARGEST_Z = 1e6  # a part beyond counts as this: the sum stays finite, and the other parts show in its digits
NOVELTY = "novelty"

__all__ = ["LARGEST_Z", "LEAST_EVIDENCE", "NOVELTY", "FrozenScorer"]


class FrozenScorer:
    """Score of a row, high = abnormal: weight z(novelty score) + sum over evidence of max(z(evidence), -2).

    Evidence is a column, z(e) = (e - center) / scale, at most +-1e6, or several that must come together: the least of
    their z. However little of an evidence there is, it takes at most 2 from the score: it cannot hide a strange row. A
    row's score is bit-identical in any batch.
    """

    KIND: ClassVar[str] = "evidence_fusion"

    def __init__(
        self,
        novelty: Scorer,
        *,
        names: Sequence[str],
        columns: IntArray,
        starts: IntArray,
        center: FloatArray,
        scale: FloatArray,
        weight: float = 1.0,
    ) -> None:
        """names of the e evidences, starts (e,) of theirs among the columns (c,); center, scale (1 + c,), the novelty
        first; trusted here."""
        self.novelty, self.names = novelty, tuple(names)
        self.columns, self._starts = columns, starts
        self.groups = np.split(columns, starts)[1:]  # columns of each evidence
        self._center, self._scale, self.weight = center, scale, weight

    @property
    def n_features(self) -> int:
        """Columns that `score` expects."""
        return self.novelty.n_features

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the columns of `explain`: novelty, then the evidence."""
        return (NOVELTY, *self.names)

    def score(self, X: FloatArray) -> FloatArray:
        """Scores (n,), high = abnormal, always finite, of scaled rows X (n, d)."""
        return total(self.explain(X))

    def explain(self, X: FloatArray) -> FloatArray:
        """What each part adds to the score, (n, 1 + e); times its weight, 1 is the 95 % quantile of normal rows."""
        X = finite_rows(X, self.n_features)
        return self.parts_of(self.novelty.score(X), X)

    def parts_of(self, novelty: FloatArray, X: FloatArray) -> FloatArray:
        """As `explain`, from the novelty scores (n,) of finite rows X (n, d) that somebody has already."""
        raw = np.column_stack([novelty, X[:, self.columns]])
        return contributions(raw, self._starts, self._center, self._scale, self.weight)

    def arrays(self) -> Arrays:
        """The fusion's numbers and, with a prefix, the arrays of the novelty scorer."""
        own: Arrays = {
            "columns": self.columns,
            "starts": self._starts,
            "center": self._center,
            "scale": self._scale,
        }
        return own | {f"{NOVELTY}.{name}": array for name, array in self.novelty.arrays().items()}

    def params(self) -> dict[str, Any]:
        """Names and weight, and kind and parameters of the novelty scorer."""
        inner = {"kind": self.novelty.KIND, "params": self.novelty.params()}
        return {"names": list(self.names), "weight": self.weight, NOVELTY: inner}

    @classmethod
    def from_arrays(cls, arrays: Arrays, params: dict[str, Any]) -> Self:
        """The scorer again; raises ModelError where arrays and params do not fit each other."""
        inner, names, weight = params.get(NOVELTY), params.get("names"), params.get("weight")
        if not isinstance(inner, dict) or not isinstance(inner.get("params"), dict) or inner.get("kind") == cls.KIND:
            raise refusal("params: novelty", "name another kind of scorer and its params", repr(inner)[:80])
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise refusal("params: names", "be a list of names", repr(names)[:80])
        if not isinstance(weight, float) or not 0.0 <= weight <= LARGEST_Z:
            raise refusal("params: weight", f"be a number in [0, {LARGEST_Z:g}]", repr(weight)[:80])
        prefix = f"{NOVELTY}."
        nested = {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}
        novelty = load_scorer(str(inner.get("kind")), nested, inner["params"])
        own = {name: array for name, array in arrays.items() if not name.startswith(prefix)}
        if "columns" in own and own["columns"].shape == (len(names),):  # of models made before they were kept
            own.setdefault("starts", np.arange(len(names), dtype=np.int64))
        _check_arrays(own, len(names), novelty.n_features)
        return cls(novelty, names=names, weight=weight, **own)


def contributions(
    raw: FloatArray, starts: IntArray, center: FloatArray, scale: FloatArray, weight: float
) -> FloatArray:
    """Parts (n, 1 + e) of the score, of raw (n, 1 + c) novelty scores and columns in that order."""
    with np.errstate(over="ignore"):
        z = np.clip((raw - center) / scale, -LARGEST_Z, LARGEST_Z)
    least: FloatArray = np.minimum.reduceat(z, np.concatenate([[0], 1 + starts]), axis=1)
    least[:, 0] *= weight
    least[:, 1:] = np.maximum(least[:, 1:], LEAST_EVIDENCE)
    return least


def total(parts: FloatArray) -> FloatArray:
    """Sum (n,) of each row, part by part from the left: no batch changes the order."""
    summed = parts[:, 0].copy()
    for column in parts.T[1:]:
        summed += column
    return summed


def _check_arrays(arrays: Arrays, n_evidence: int, n_features: int) -> None:
    """Raises ModelError unless names, dtypes, shapes and values are those of a fitted fusion."""
    n = arrays["columns"].size if "columns" in arrays else 0
    shapes = {"columns": (n,), "starts": (n_evidence,), "center": (1 + n,), "scale": (1 + n,)}
    if set(arrays) != set(shapes):
        raise refusal("arrays", f"be {', '.join(sorted(shapes))} and those of novelty", ", ".join(sorted(arrays)))
    for name, shape in shapes.items():
        dtype = np.dtype(np.int64 if name in ("columns", "starts") else np.float64)
        if arrays[name].dtype != dtype or arrays[name].shape != shape:
            raise refusal(name, f"be {dtype} of shape {shape}", f"{arrays[name].dtype} of shape {arrays[name].shape}")
    if ((arrays["columns"] < 0) | (arrays["columns"] >= n_features)).any():
        raise refusal("columns", f"be in 0..{n_features - 1}", str(arrays["columns"].tolist())[:80])
    bounds = [*arrays["starts"].tolist(), n]  # of each evidence's columns
    if bounds[0] != 0 or any(start >= end for start, end in pairwise(bounds)):
        raise refusal("starts", f"rise from 0 to below {n}, the number of columns", str(bounds[:-1])[:80])
    if not np.isfinite(arrays["center"]).all() or not (np.isfinite(arrays["scale"]) & (arrays["scale"] > 0)).all():
        raise refusal("center and scale", "be finite, scale above 0", "other values")
