"""Frozen kernel expansion: kernel PCA, support vector data description and the one-class SVM score by one formula."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np

from stream_occ.kernels import FARTHEST, KernelPoints
from stream_occ.samples import FloatArray
from stream_occ.scoring._base import Arrays, check_arrays, check_shapes, finite_rows, refusal

LEAST_BANDWIDTH = 1e-100  # squared distances of clipped rows divided by it stay finite

__all__ = ["LEAST_BANDWIDTH", "FrozenScorer"]


class FrozenScorer:
    """Score of a row, high = abnormal: constant + linear . k(x) - |components k(x) + offset|^2.

    k(x)_j = exp(-|x - y_j|^2 / bandwidth) over the m points y_j that were kept. The last term is that of kernel PCA;
    without components it is absent. A row's score is bit-identical in any batch. Coordinates beyond +-1e100 count as
    +-1e100; NaN and inf are refused.
    """

    KIND: ClassVar[str] = "kernel_expansion"

    def __init__(
        self,
        points: FloatArray,
        *,
        bandwidth: float,
        constant: float,
        linear: FloatArray,
        components: FloatArray | None = None,
        offset: FloatArray | None = None,
    ) -> None:
        """points (m, d); linear (m,); components (q, m) and offset (q,), both or neither; trusted here."""
        self._kernel = KernelPoints(points, bandwidth)
        self.constant, self._linear = constant, linear
        self._components, self._offset = components, offset

    @property
    def n_features(self) -> int:
        """Columns that `score` expects."""
        return int(self._kernel.points.shape[1])

    def score(self, X: FloatArray) -> FloatArray:
        """Scores (n,), high = abnormal, always finite, of scaled rows X (n, d)."""
        rows = finite_rows(X, self.n_features)
        return np.array([self._score_of(self._kernel.row(x)) for x in rows], dtype=np.float64)

    def _score_of(self, kernel: FloatArray) -> float:
        """The formula for one k(x) (m,)."""
        score = self.constant + float(np.einsum("j,j->", self._linear, kernel))
        if self._components is None or self._offset is None:
            return score
        projected = np.einsum("ij,j->i", self._components, kernel)
        projected += self._offset
        return score - float(np.einsum("i,i->", projected, projected))

    def arrays(self) -> Arrays:
        """Points and their weights; components and offset where there are any."""
        arrays: Arrays = {"points": self._kernel.points, "linear": self._linear}
        if self._components is not None and self._offset is not None:
            arrays |= {"components": self._components, "offset": self._offset}
        return arrays

    def params(self) -> dict[str, Any]:
        """The two numbers of the formula."""
        return {"bandwidth": self._kernel.bandwidth, "constant": self.constant}

    @classmethod
    def from_arrays(cls, arrays: Arrays, params: dict[str, Any]) -> Self:
        """The scorer again; raises ModelError where arrays and params do not fit each other."""
        bandwidth, constant = (_number(params, name) for name in ("bandwidth", "constant"))
        if bandwidth < LEAST_BANDWIDTH:
            raise refusal("params: bandwidth", f"be at least {LEAST_BANDWIDTH}", str(bandwidth))
        _check_arrays(arrays)
        return cls(**arrays, bandwidth=bandwidth, constant=constant)


def _number(params: dict[str, Any], name: str) -> float:
    value = params.get(name)
    if not isinstance(value, float) or not abs(value) <= FARTHEST:
        raise refusal(f"params: {name}", f"be a number within +-{FARTHEST}", repr(value))
    return value


def _check_arrays(arrays: Arrays) -> None:
    """Raises ModelError unless names, dtypes, shapes and values are those of a fitted expansion."""
    has_components = len(arrays) > 2
    check_arrays(arrays, {"points": 2, "linear": 1} | ({"components": 2, "offset": 1} if has_components else {}))
    n_points = len(arrays["points"])
    check_shapes(arrays, {"linear": (n_points,)})
    if has_components:
        check_shapes(arrays, {"components": (len(arrays["offset"]), n_points)})
