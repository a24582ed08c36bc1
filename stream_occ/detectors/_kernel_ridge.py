"""What the kernel ridge regressions share: the fit of their layers, thresholds, and checks of parameters and rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from stream_occ.detectors._base import (
    FrozenScorerMixin,
    TuningWarning,
    as_generator,
    check_parameter,
    is_count,
    is_number,
)
from stream_occ.detectors._graphs import GRAPHS
from stream_occ.detectors._krr_solver import LayerFit, LayerSettings, fit_layer, reject_index
from stream_occ.errors import ModelError
from stream_occ.samples import FloatArray
from stream_occ.scoring.krr_network import (
    LARGEST_BAND,
    MAX_LAYERS,
    PRECISIONS,
    SMALLEST_BANDWIDTH,
    SMALLEST_WIDTH,
    FrozenScorer,
)

__all__ = ["MAX_EXACT_ROWS", "KernelRidge"]

MAX_EXACT_ROWS = 20_000  # three to four N x N matrices are alive at once: 13 GB
_MAX_COORDINATE = 1e36
_FEW_ROWS = 20  # below, one tie decides
_CHECKED_ROWS = 256
_BAND_OVER_SEEN = 8.0
_LEAST_BAND = 1e-6
_MANY_POINTS = 1000  # below, a second BLAS thread costs more than it gains: with 500 landmarks twice the CPU time


class KernelRidge(FrozenScorerMixin, BaseEstimator):  # type: ignore[misc]
    """What the three share; the attributes with a value are those that not every subclass has as parameters."""

    graph: Any
    C: Any
    lam: Any
    theta1_rule: Any
    eta: Any
    bandwidth: Any
    n_landmarks: Any
    graph_neighbors: Any
    heat_width: Any
    n_clusters: Any
    random_state: Any
    n_jobs: Any
    precision: Any
    threshold: Any = "theta1"
    evidence: Any = "output"
    n_layers: Any = 1
    C_out: Any = None
    _gives_rows_back = False

    def fit(self, X: ArrayLike, y: object = None, *, progress: Callable[[int, int], None] | None = None) -> Self:
        """Learns from normal rows X (N, d); y is ignored. Calls progress(done, n_layers) after each layer.

        Raises ValueError for bad parameters, NaN, rows that coincide, or too many rows for memory.
        """
        layers = self._layer_settings()
        rows: FloatArray = validate_data(self, X, dtype=np.float64, order="C").copy()
        self._check_rows(rows)
        generator = as_generator(self.random_state)
        seed = int(generator.integers(2**31))
        landmarks = None
        if self.n_landmarks is not None:
            landmarks = np.sort(generator.choice(len(rows), min(int(self.n_landmarks), len(rows)), replace=False))
        found: list[LayerFit] = []
        inputs = rows
        n_points = len(rows) if landmarks is None else len(landmarks)
        with threadpool_limits(self._n_threads(n_points), user_api="blas"):
            for number, settings in enumerate(layers, start=1):
                is_taught_one = number == len(layers) and not self._gives_rows_back
                targets = np.ones((len(rows), 1)) if is_taught_one else inputs
                held_out = self.evidence == "layers"
                layer = fit_layer(inputs, targets, settings, landmarks=landmarks, seed=seed, leave_one_out=held_out)
                found.append(layer)
                inputs = layer.outputs
                if progress is not None:
                    progress(number, len(layers))
        self.bandwidths_ = np.array([layer.bandwidth for layer in found])
        self._set_threshold(rows, found)
        if self.precision == "float32":
            self._take_single(rows)
        return self

    def residual(self, X: ArrayLike) -> FloatArray:
        """The paper's raw quantity (n,), high = abnormal: |O - 1| (theta1), |O - mean O| (theta2), |x - W'k|^2."""
        rows = self._rows(X)
        return self.scorer_.residual(rows)

    def _n_threads(self, n_points: int) -> int | None:
        """Threads of BLAS, None to leave them as they are."""
        if self.n_jobs is None:
            return None
        return int(effective_n_jobs(self.n_jobs)) if n_points >= _MANY_POINTS else 1

    @property
    def decides_by_itself(self) -> bool:
        """True for the paper's threshold; layer evidence needs one from held-out data."""
        return bool(self.evidence != "layers")

    def tuning_summary(self) -> dict[str, Any]:
        """theta, the share of training rows accepted and each layer's bandwidth, as plain JSON."""
        check_is_fitted(self)
        return {
            "theta": {"value": self.theta_},
            "training_acceptance": {"share": self.training_acceptance_},
            "bandwidth": {f"layer {number}": float(A2) for number, A2 in enumerate(self.bandwidths_, start=1)},
        }

    def _set_threshold(self, X: FloatArray, layers: list[LayerFit]) -> None:
        """Builds the scorer, and the threshold from what it says of the training rows."""
        held_out = np.array([layer.held_out for layer in layers]) if self.evidence == "layers" else None
        make = partial(
            FrozenScorer,
            [layer.points for layer in layers],
            [layer.weights for layer in layers],
            bandwidth=self.bandwidths_,
            evidence="reconstruction" if self._gives_rows_back else self.evidence,
        )
        if held_out is not None:
            median, high = np.quantile(held_out, [0.5, 0.95], axis=1)
            width = np.maximum(np.maximum(high - median, 1e-6 * np.abs(median)), SMALLEST_WIDTH)
            self.scorer_: FrozenScorer = make(scales=(median, width))
            scores = ((held_out - median[:, None]) / width[:, None]).max(axis=(0, 2))
        elif self.threshold == "theta2":
            outputs = make().outputs(X)[:, 0]
            self.scorer_ = make(center=float(outputs.mean()))
            scores = np.abs(outputs - self.scorer_.center)
        else:
            self.scorer_ = make()
            scores = self.scorer_.residual(X)
        if self.threshold == "theta2":
            self.theta_ = float(self.eta) * self.scorer_.center
        else:
            self.theta_ = float(np.sort(scores)[reject_index(len(X), self.eta, self.theta1_rule)])
        is_strict = self.theta1_rule == "code"
        self.score_threshold_ = float(np.nextafter(self.theta_, -np.inf)) if is_strict else self.theta_
        self.offset_ = -self.score_threshold_
        self.training_acceptance_ = float(np.mean(scores <= self.score_threshold_))
        if self.training_acceptance_ == 0.0 and len(X) >= _FEW_ROWS:
            warnings.warn(
                "the threshold rejects all training rows: look for rows far from the rest, or change C and lam",
                TuningWarning,
                stacklevel=3,
            )

    def _take_single(self, X: FloatArray) -> None:
        """Has the scorer work in float32, with the band that training rows show; raises ValueError where it is wide."""
        double, band = self.scorer_, np.inf
        try:
            single = FrozenScorer.from_arrays(double.arrays(), {**double.params(), "precision": "float32"})
        except ModelError:  # numbers that float32 does not hold
            pass
        else:
            some = X[:: -(-len(X) // _CHECKED_ROWS)]
            scores = double.score(some)
            largest = np.max(np.abs(single.score(some) - scores) / (1.0 + np.abs(scores)))
            band = max(_BAND_OVER_SEEN * float(largest), _LEAST_BAND)
        if not band <= LARGEST_BAND:
            raise ValueError(
                f"precision must be float64 for these rows and parameters; got float32, in which scores may differ by "
                f"{band:.1g}. Scale the features, lower C, or take fewer landmarks"
            )
        single.band = band
        self.scorer_ = single

    def _layer_settings(self) -> list[LayerSettings]:
        """One entry a layer, from checked parameters; raises ValueError naming the one that is off."""
        check_parameter("graph", self.graph, f"None or one of {', '.join(GRAPHS)}", self.graph in (None, *GRAPHS))
        is_depth = is_count(self.n_layers, 1) and self.n_layers <= MAX_LAYERS
        check_parameter("n_layers", self.n_layers, f"an int in 1..{MAX_LAYERS}", is_depth)
        is_ridge = [is_number(C) and C > 0 for C in (self.C, self.C if self.C_out is None else self.C_out)]
        check_parameter("C", self.C, "a finite number > 0", is_ridge[0])
        check_parameter("C_out", self.C_out, "None or a finite number > 0", is_ridge[1])
        check_parameter("lam", self.lam, "a finite number >= 0", is_number(self.lam) and self.lam >= 0)
        check_parameter("eta", self.eta, "a number in (0, 1)", is_number(self.eta) and 0 < self.eta < 1)
        self._check_rules()
        self._check_sizes()
        return [
            LayerSettings(
                graph=self.graph,
                C=float(self.C_out if self.C_out is not None and number == self.n_layers else self.C),
                lam=float(self.lam),
                bandwidth=bandwidth,
                n_neighbors=None if self.graph_neighbors is None else int(self.graph_neighbors),
                heat_width=float(self.heat_width),
                n_clusters=int(self.n_clusters),
            )
            for number, bandwidth in enumerate(self._bandwidths(), start=1)
        ]

    def _check_rules(self) -> None:
        for name, known in (("threshold", ("theta1", "theta2")), ("theta1_rule", ("code", "paper"))):
            value = getattr(self, name)
            check_parameter(name, value, f"one of {', '.join(known)}", value in known)
        check_parameter("precision", self.precision, f"one of {', '.join(PRECISIONS)}", self.precision in PRECISIONS)
        check_parameter("evidence", self.evidence, "output or layers", self.evidence in ("output", "layers"))
        is_of_output = self.threshold == "theta1" or self.evidence == "output"
        check_parameter("threshold", self.threshold, "theta1 with evidence='layers'", is_of_output)

    def _check_sizes(self) -> None:
        landmarks, neighbors = self.n_landmarks, self.graph_neighbors
        check_parameter("n_landmarks", landmarks, "None or an int >= 2", landmarks is None or is_count(landmarks, 2))
        check_parameter("n_clusters", self.n_clusters, "an int >= 1", is_count(self.n_clusters, 1))
        is_width = is_number(self.heat_width) and self.heat_width > 0
        check_parameter("heat_width", self.heat_width, "a finite number > 0", is_width)
        is_full = neighbors is None and self.graph == "le" and landmarks is None
        check_parameter(
            "graph_neighbors",
            neighbors,
            "an int >= 1, or None for the fully connected le graph without landmarks",
            is_count(neighbors, 1) or is_full or (neighbors is None and self.graph not in ("le", "lle")),
        )

    def _bandwidths(self) -> list[str | float]:
        """One a layer: "rms", "mean" or A2."""
        given = self.bandwidth
        each = [given] * self.n_layers if isinstance(given, str) or np.ndim(given) == 0 else list(given)
        is_known = [value in ("rms", "mean") if isinstance(value, str) else _is_squared_length(value) for value in each]
        check_parameter(
            "bandwidth",
            given,
            f"rms, mean, a number >= {SMALLEST_BANDWIDTH:g}, or one of these for each of {self.n_layers} layers",
            len(each) == self.n_layers and all(is_known),
        )
        return [value if isinstance(value, str) else float(value) for value in each]

    def _check_rows(self, X: FloatArray) -> None:
        """Raises ValueError unless the rows differ, are of sane size, and fit into memory."""
        if np.ptp(X, axis=0).max() == 0.0:
            raise ValueError(
                f"X must hold at least two distinct rows; got n_samples = {len(X)}, all the same. "
                "Check that the sensor moved"
            )
        if np.abs(X).max() > _MAX_COORDINATE:
            raise ValueError(
                f"X must lie within +-{_MAX_COORDINATE:g}; got {np.abs(X).max():.3g}. Scale the features first"
            )
        if self.n_landmarks is None and len(X) > MAX_EXACT_ROWS:
            raise ValueError(
                f"X must have at most {MAX_EXACT_ROWS} rows for an exact fit; got {len(X)}. Set n_landmarks, e.g. 500"
            )


def _is_squared_length(value: object) -> bool:
    return is_number(value) and value >= SMALLEST_BANDWIDTH
