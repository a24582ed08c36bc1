"""Frozen kernel ridge regression network: layers of Gaussian kernels, scored row by row."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from stream_occ.kernels import KernelPoints
from stream_occ.samples import FloatArray
from stream_occ.scoring._base import Arrays, check_arrays, check_shapes, finite_rows, refusal

MAX_LAYERS = 5
SMALLEST_BANDWIDTH = 1e-24  # of A2; with the bounds below no exponent, output or score overflows
SMALLEST_WIDTH = 1e-30  # of the scale that an evidence is measured in
LARGEST_WEIGHT = 1e80
_SMALLEST_MEAN = 1e-250  # kernels below lose digits
_SMALLEST_MEAN_SINGLE = 1e-30
_LARGEST_SINGLE = 1e8  # in a kernel's rows and in a layer's weights: with it no float32 overflows
LARGEST_BAND = 1e-3  # of float32; seen are 1e-6 to 1e-4
EVIDENCE = ("output", "reconstruction", "layers")
PRECISIONS = ("float64", "float32")

__all__ = [
    "EVIDENCE",
    "LARGEST_BAND",
    "LARGEST_WEIGHT",
    "MAX_LAYERS",
    "PRECISIONS",
    "SMALLEST_BANDWIDTH",
    "SMALLEST_WIDTH",
    "FrozenScorer",
]


class FrozenScorer:
    """Scores rows by how badly layers x^h = W_h' k_h(x^(h-1)), k_h Gaussian, give back what they were taught.

    Hidden layers were taught their own input, the last one the number 1: its output is O. Score, high = abnormal:

    - `output`: |O - center|, center 1 or the mean output of the training rows;
    - `reconstruction` (one layer, taught its input): |x - W'k(x)|^2;
    - `layers`: the largest over layers of (r_h - median) / width and (u_h - median) / width, r_h = |t_h - x^h| with
      t_h = x^(h-1) (last layer: center), u_h = -log of the mean of k_h, scales from held-out training values. Kernels
      vanish far from the training rows and all later layers with them; this keeps what the first ones saw.

    A row's score is bit-identical in any batch. Coordinates beyond +-1e100 count as +-1e100; NaN and inf are refused.

    precision float32: kernels and maps take half the memory and, on thousands of points, .6 of the time. A score s is
    then off by at most `band` (1 + |s|): decisions are those of float64 but for scores so near to the threshold. The
    band is no proven bound, since one for sums over thousands of weights of both signs is larger than the scores: it
    is 8 times what the training rows' scores were off by at most.
    """

    KIND: ClassVar[str] = "krr_network"

    def __init__(
        self,
        points: list[FloatArray],
        weights: list[FloatArray],
        *,
        bandwidth: FloatArray,
        evidence: str,
        center: float = 1.0,
        scales: tuple[FloatArray, FloatArray] | None = None,
        precision: str = "float64",
        band: float = 0.0,
    ) -> None:
        """Layer h has points (m, d_h), weights (m, d_(h+1)) and bandwidth[h] = A2.

        scales: median and width (n_layers, 2) of r_h and u_h, with evidence `layers` alone. Arrays are trusted here;
        `from_arrays` checks them.
        """
        self._weights, self._bandwidth = weights, bandwidth
        self.precision, self.band = precision, band
        dtype = np.float32 if precision == "float32" else np.float64
        self._least_mean = _SMALLEST_MEAN_SINGLE if precision == "float32" else _SMALLEST_MEAN
        with np.errstate(over="ignore"):  # `is_in_range` tells
            self._kernels = [
                KernelPoints(rows, float(A2), dtype=dtype) for rows, A2 in zip(points, bandwidth, strict=True)
            ]
            # a layer's outputs and its mean kernel in one product; of one layout however the weights came
            self._maps_and_mean = [
                np.ascontiguousarray(np.vstack([matrix.T, np.full(len(matrix), 1.0 / len(matrix))]), dtype=dtype)
                for matrix in weights
            ]
        self._maps = [rows[:-1] for rows in self._maps_and_mean]
        is_last = [False] * (len(self._kernels) - 1) + [True]
        self._layers = list(zip(self._kernels, self._maps_and_mean, is_last, strict=True))
        self.evidence, self.center = evidence, center
        self._scales = scales
        # plain floats: a window alone is scored faster with them, and to the same bits
        self._plain_scales = [] if scales is None else np.stack(scales, axis=2).reshape(-1, 4).tolist()

    @property
    def n_features(self) -> int:
        """Columns that `score` expects."""
        return int(self._kernels[0].points.shape[1])

    @property
    def n_layers(self) -> int:
        """Number of layers."""
        return len(self._kernels)

    @property
    def is_in_range(self) -> bool:
        """False where float32 is too small for the model's numbers."""
        largest = max(*(kernel.largest for kernel in self._kernels), *(np.abs(rows).max() for rows in self._maps))
        return self.precision == "float64" or bool(largest <= _LARGEST_SINGLE)

    def outputs(self, X: FloatArray) -> FloatArray:
        """The last layer's output (n, t)."""
        rows = finite_rows(X, self.n_features)
        outputs = np.empty((len(rows), len(self._maps[-1])))
        for i, x in enumerate(rows):
            outputs[i] = self._output(x)
        return outputs

    def evidences(self, X: FloatArray) -> FloatArray:
        """r_h and u_h (n, n_layers, 2) of each row and layer."""
        return np.array([self._evidence(x) for x in finite_rows(X, self.n_features)]).reshape(-1, self.n_layers, 2)

    def score(self, X: FloatArray) -> FloatArray:
        """Scores (n,), high = abnormal, always finite, of scaled rows X (n, d)."""
        if self._scales is None:
            return self.residual(X)
        return np.array([self._largest(x) for x in finite_rows(X, self.n_features)], dtype=np.float64)

    def residual(self, X: FloatArray) -> FloatArray:
        """|O - center| (n,), or |x - W'k(x)|^2 for a reconstruction."""
        outputs = self.outputs(X)
        if self.evidence != "reconstruction":
            return np.abs(outputs[:, 0] - self.center)
        squared: FloatArray = np.add.reduce(np.square(finite_rows(X, self.n_features) - outputs), axis=1)
        return squared

    def _output(self, x: FloatArray) -> FloatArray:
        for kernel, matrix in zip(self._kernels, self._maps, strict=True):
            x = matrix.dot(kernel.row(x))
        return x

    def _largest(self, x: FloatArray) -> float:
        """The largest evidence of one row, each in its own scale."""
        scaled = [
            max((r - r_median) / r_width, (u - u_median) / u_width)
            for (r, u), (r_median, r_width, u_median, u_width) in zip(
                self._evidence(x), self._plain_scales, strict=True
            )
        ]
        return max(scaled)

    def _evidence(self, x: FloatArray) -> list[tuple[float, float]]:
        found = []
        for kernel, matrix, is_last in self._layers:
            product = matrix.dot(kernel.row(x))
            output, mean = product[:-1], product.item(-1)
            difference = output - (self.center if is_last else x)
            remoteness = -math.log(mean) if mean > self._least_mean else _remoteness(kernel.logarithms(x))
            found.append((math.sqrt(difference.dot(difference)), remoteness))
            x = output
        return found

    def arrays(self) -> Arrays:
        """Each layer's points and weights, the bandwidths, the center, and the scales of layer evidence."""
        arrays: Arrays = {"bandwidth": self._bandwidth, "center": np.array([self.center])}
        for number, (kernel, weights) in enumerate(zip(self._kernels, self._weights, strict=True), start=1):
            arrays[f"points_{number}"], arrays[f"weights_{number}"] = kernel.points, weights
        if self._scales is not None:
            arrays |= {"median": self._scales[0], "width": self._scales[1]}
        return arrays

    def params(self) -> dict[str, Any]:
        """What is scored, the number of layers, and the precision and its band where that is not float64."""
        params = {"evidence": self.evidence, "n_layers": self.n_layers}
        return params if self.precision == "float64" else params | {"precision": self.precision, "band": self.band}

    @classmethod
    def from_arrays(cls, arrays: Arrays, params: dict[str, Any]) -> Self:
        """The scorer again; raises ModelError where arrays and params do not fit each other."""
        evidence, n_layers = params.get("evidence"), params.get("n_layers")
        if evidence not in EVIDENCE:
            raise refusal("params: evidence", f"be one of {', '.join(EVIDENCE)}", repr(evidence))
        most = 1 if evidence == "reconstruction" else MAX_LAYERS
        if type(n_layers) is not int or not 1 <= n_layers <= most:
            raise refusal("params: n_layers", f"be a whole number in 1..{most} for {evidence}", repr(n_layers))
        precision, band = params.get("precision", "float64"), params.get("band", 0.0)
        if precision not in PRECISIONS:
            raise refusal("params: precision", f"be one of {', '.join(PRECISIONS)}", repr(precision))
        if not isinstance(band, float) or not 0.0 <= band <= LARGEST_BAND:
            raise refusal("params: band", f"be a number in [0, {LARGEST_BAND:g}]", repr(band))
        _check_arrays(arrays, n_layers, evidence)
        numbers = range(1, n_layers + 1)
        scorer = cls(
            [arrays[f"points_{number}"] for number in numbers],
            [arrays[f"weights_{number}"] for number in numbers],
            bandwidth=arrays["bandwidth"],
            evidence=evidence,
            center=float(arrays["center"][0]),
            scales=(arrays["median"], arrays["width"]) if evidence == "layers" else None,
            precision=precision,
            band=band,
        )
        if not scorer.is_in_range:
            raise refusal("params: precision", f"be float64 for numbers beyond +-{_LARGEST_SINGLE:g}", repr(precision))
        return scorer


def _remoteness(logarithms: FloatArray) -> float:
    """-log of the mean kernel where the mean itself underflows."""
    nearest = float(logarithms.max())
    return -nearest - math.log(float(np.exp(logarithms - nearest).mean()))


def _check_arrays(arrays: Arrays, n_layers: int, evidence: str) -> None:
    """Raises ModelError unless names, dtypes, shapes and values are those of a fitted network."""
    dimensions = {"bandwidth": 1, "center": 1}
    dimensions |= {f"{name}_{number}": 2 for number in range(1, n_layers + 1) for name in ("points", "weights")}
    if evidence == "layers":
        dimensions |= {"median": 2, "width": 2}
    check_arrays(arrays, dimensions)
    _check_shapes(arrays, n_layers, evidence)
    _check_least("bandwidth", arrays, SMALLEST_BANDWIDTH)
    if evidence == "layers":
        _check_least("width", arrays, SMALLEST_WIDTH)
    for number in range(1, n_layers + 1):
        largest = np.abs(arrays[f"weights_{number}"]).max()
        if largest > LARGEST_WEIGHT:
            raise refusal(f"weights_{number}", f"lie within +-{LARGEST_WEIGHT:g}", f"{largest:g}")


def _check_shapes(arrays: Arrays, n_layers: int, evidence: str) -> None:
    n_features = arrays["points_1"].shape[1]
    shapes = {"bandwidth": (n_layers,), "center": (1,), "median": (n_layers, 2), "width": (n_layers, 2)}
    widths = [n_features] * n_layers + [n_features if evidence == "reconstruction" else 1]
    for number, (n_inputs, n_outputs) in enumerate(pairwise(widths), start=1):
        n_points = len(arrays[f"points_{number}"])
        shapes |= {f"points_{number}": (n_points, n_inputs), f"weights_{number}": (n_points, n_outputs)}
    check_shapes(arrays, {name: shape for name, shape in shapes.items() if name in arrays})


def _check_least(name: str, arrays: Arrays, least: float) -> None:
    if arrays[name].min() < least:
        raise refusal(name, f"be at least {least:g}", f"{arrays[name].min():g}")
