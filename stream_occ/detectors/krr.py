"""Kernel ridge regression for one class, in layers and with graphs: KOC, AEKOC, LKOC, GKOC, MKOC, LMKOC, GMKOC.

Gautam, Tiwari, Suresh & Iosifidis, arXiv 1904.06491 (Cognitive Computation 13(2):552-569, 2021); AEKOC is Gautam,
Tiwari & Leng, Neurocomputing 261, 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np  # noqa: F401 - the doctests use it

from stream_occ.detectors._graphs import GRAPHS
from stream_occ.detectors._kernel_ridge import KernelRidge

__all__ = ["KernelRidgeAutoEncoder", "KernelRidgeOCC", "MultiLayerKRR"]

SCALING = "z-score"  # what the authors' code does to the rows before any of these

Graph = Literal["le", "lle", "lda", "cda", "cv", "sv"] | None
Bandwidth = float | str | Sequence[float | str]


class KernelRidgeOCC(KernelRidge):
    """Accepts a row whose regression output O = k(x)'W, taught to be 1 on training rows, is near 1 (KOC, LKOC, GKOC).

    W = (K + (lam/C) L K + I/C)^-1 1, K the Gaussian kernel of training rows, L the graph's Laplacian in feature space.
    Raw quantity `residual`: |O - 1| (theta1) or |O - mean O| (theta2), high = abnormal; `score_samples` is minus it.
    Both sides of 1 are abnormal. X is used as given: z-score it first (`SCALING`), as the authors' code does.

    Thresholds: theta1 under "code" is the training residual at place ceil(N (1 - eta)) in ascending order, rows at it
    rejected (floor(eta N) + 1 training rows, as in the authors' code); under "paper" it is the max(1, floor(eta N))-th
    largest, rows at it accepted. theta2 = eta * mean O, without the floor printed in equation 39, which makes it 0; it
    can reject most training rows: see `training_acceptance_`.

    Parameters
    ----------
    graph : None, "le" (heat kernel), "lle" (locally linear), "lda", "cda" (scatter, of k-means clusters), "cv", "sv"
        (variance, of k-means clusters).
    C : weight > 0 of the errors; the ridge is I/C.
    lam : weight >= 0 of the graph.
    threshold, theta1_rule, eta : see above; "code" and "paper" also say whether a row at theta2 is rejected.
    bandwidth : "rms": A2 in k = exp(-d^2 / A2) is the mean of all N^2 squared distances; "mean": twice the square of
        the mean distance; a number: A2 itself.
    n_landmarks : None for the exact solution (N <= 20,000), or how many training rows, drawn once, span it: N m^2 work
        and scores that cost m kernel values a layer. With as many landmarks as rows it is exact.
    graph_neighbors : neighbours of "le" and "lle", at most N - 1; None: the fully connected "le", exact fits only.
    heat_width : sigma^2 of "le" in units of the mean squared distance in feature space, > 0.
    n_clusters : k-means clusters of "cda" and "sv", clustered anew in every layer, at most N - 1.
    random_state : seed of clusters and landmarks.
    n_jobs : threads of BLAS in fit, as in joblib; None leaves them as they are set.
    precision : "float32": scores in .6 of the time where they cost thousands of kernel values, off by at most
        `scorer_.band` (1 + |score|); thresholds come from float64. ValueError where that is too coarse.

    Attributes
    ----------
    theta_, offset_, score_threshold_ : outlier where residual > score_threshold_ = -offset_.
    training_acceptance_ : share of the training rows that it accepts.
    bandwidths_ : A2 of each layer.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 21)[:, None]
    >>> KernelRidgeOCC().fit(X).predict([[0.3], [30.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        graph: Graph = None,
        C: float = 1.0,
        lam: float = 1.0,
        threshold: Literal["theta1", "theta2"] = "theta1",
        theta1_rule: Literal["code", "paper"] = "code",
        eta: float = 0.05,
        bandwidth: float | str = "rms",
        *,
        n_landmarks: int | None = None,
        graph_neighbors: int | None = 10,
        heat_width: float = 1.0,
        n_clusters: int = 5,
        random_state: Any = 0,
        n_jobs: int | None = None,
        precision: Literal["float64", "float32"] = "float64",
    ) -> None:
        self.graph = graph
        self.C = C
        self.lam = lam
        self.threshold = threshold
        self.theta1_rule = theta1_rule
        self.eta = eta
        self.bandwidth = bandwidth
        self.n_landmarks = n_landmarks
        self.graph_neighbors = graph_neighbors
        self.heat_width = heat_width
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.precision = precision


class KernelRidgeAutoEncoder(KernelRidge):
    """Accepts a row that kernel ridge regression, taught to give training rows back, gives back well (AEKOC).

    W = (K + (lam/C) L K + I/C)^-1 X. Raw quantity `residual`: |x - W'k(x)|^2, which grows without bound far from the
    training rows. Threshold theta1 on it. Parameters and attributes as in `KernelRidgeOCC`.

    Examples
    --------
    >>> X = np.linspace(-1.0, 1.0, 21)[:, None]
    >>> KernelRidgeAutoEncoder(C=8).fit(X).predict([[0.3], [30.0]]).tolist()
    [1, -1]
    """

    _gives_rows_back = True

    def __init__(
        self,
        graph: Graph = None,
        C: float = 1.0,
        lam: float = 1.0,
        theta1_rule: Literal["code", "paper"] = "code",
        eta: float = 0.05,
        bandwidth: float | str = "rms",
        *,
        n_landmarks: int | None = None,
        graph_neighbors: int | None = 10,
        heat_width: float = 1.0,
        n_clusters: int = 5,
        random_state: Any = 0,
        n_jobs: int | None = None,
        precision: Literal["float64", "float32"] = "float64",
    ) -> None:
        self.graph = graph
        self.C = C
        self.lam = lam
        self.theta1_rule = theta1_rule
        self.eta = eta
        self.bandwidth = bandwidth
        self.n_landmarks = n_landmarks
        self.graph_neighbors = graph_neighbors
        self.heat_width = heat_width
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.precision = precision


class MultiLayerKRR(KernelRidge):
    """n_layers - 1 kernel ridge auto-encoders, each on the former's output, then `KernelRidgeOCC` (MKOC, LMKOC, GMKOC).

    X^h = K^h W^h, W^h = (K^h + (lam/C) L^h K^h + I/C)^-1 X^(h-1), h < n_layers; no activation between. Bandwidth, graph
    and clusters are found anew in each layer, from that layer's input. With one layer it is `KernelRidgeOCC`.

    With evidence="output", the paper's, a row far from all training rows has kernel 0 with each, so that the first
    auto-encoder maps it to 0, the middle of z-scored rows, and the layers after may take it for normal.
    evidence="layers" keeps what each layer sees: the score is the largest over layers of the reconstruction error and
    of -log of the mean kernel, each less its median and over the distance from the median to the 95th percentile, both
    of leave-one-out training values. Its default theta is the theta1 rule on leave-one-out training scores, which share
    those scales: take a threshold from held-out data.

    Parameters as in `KernelRidgeOCC`, and
    n_layers : 1..5.
    C_out : C of the last layer; None: as the others.
    bandwidth : also one for each layer.
    evidence : "output" (theta1 or theta2) or "layers" (theta1).

    Attributes as there; with evidence="layers" `training_acceptance_` is of leave-one-out scores, and
    `residual` is still |O - 1|.

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> MultiLayerKRR(2, "lle", evidence="layers").fit(X).predict([[0.1, 0.2, 0.3], [30.0, 0.0, 0.0]]).tolist()
    [1, -1]
    """

    def __init__(
        self,
        n_layers: int = 2,
        graph: Graph = None,
        C: float = 1.0,
        lam: float = 1.0,
        C_out: float | None = None,
        threshold: Literal["theta1", "theta2"] = "theta1",
        theta1_rule: Literal["code", "paper"] = "code",
        eta: float = 0.05,
        bandwidth: Bandwidth = "rms",
        evidence: Literal["output", "layers"] = "output",
        n_landmarks: int | None = None,
        *,
        graph_neighbors: int | None = 10,
        heat_width: float = 1.0,
        n_clusters: int = 5,
        random_state: Any = 0,
        n_jobs: int | None = None,
        precision: Literal["float64", "float32"] = "float64",
    ) -> None:
        self.n_layers = n_layers
        self.graph = graph
        self.C = C
        self.lam = lam
        self.C_out = C_out
        self.threshold = threshold
        self.theta1_rule = theta1_rule
        self.eta = eta
        self.bandwidth = bandwidth
        self.evidence = evidence
        self.n_landmarks = n_landmarks
        self.graph_neighbors = graph_neighbors
        self.heat_width = heat_width
        self.n_clusters = n_clusters
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.precision = precision


def _presets() -> dict[str, Callable[[], Any]]:
    """The paper's detectors by its names, and the working ones."""
    made: dict[str, Callable[[], Any]] = {}
    graphs: tuple[Any, ...] = (None, *GRAPHS)
    for graph in graphs:
        prefix = "" if graph is None else "L" if graph in ("le", "lle") else "G"
        suffix = "" if graph is None else f"-{graph.upper()}"
        made[f"{prefix}KOC{suffix}"] = partial(KernelRidgeOCC, graph, n_jobs=-1)
        made[f"{prefix}KOC{suffix}_theta2"] = partial(KernelRidgeOCC, graph, threshold="theta2", n_jobs=-1)
        made[f"{prefix}MKOC{suffix}_theta1"] = partial(MultiLayerKRR, graph=graph, n_jobs=-1)
        made[f"{prefix}MKOC{suffix}_theta2"] = partial(MultiLayerKRR, graph=graph, threshold="theta2", n_jobs=-1)
    made["AEKOC"] = partial(KernelRidgeAutoEncoder, n_jobs=-1)
    made["MKOC_layers"] = partial(MultiLayerKRR, evidence="layers", n_jobs=-1)
    made["LMKOC-LLE_layers"] = partial(MultiLayerKRR, graph="lle", evidence="layers", n_jobs=-1)
    return made


PRESETS = _presets()
