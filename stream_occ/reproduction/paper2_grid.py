"""The second paper's methods and their grids: four proposals with two thresholds each, and eleven peers.

Axes of a grid are in the order of a candidate's complexity: layers first (most layers first), then C (largest first),
then lam (smallest first), then clusters (most first).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from stream_occ.detectors.kernel_pca import KernelPCANovelty
from stream_occ.detectors.krr import Graph, KernelRidgeAutoEncoder, KernelRidgeOCC, MultiLayerKRR
from stream_occ.detectors.svm import SVDD, KernelOCSVM

ETA = 0.05  # share of training targets to reject, as in the paper, for every method

Axes = Mapping[str, Sequence[Any]]

GRIDS: Mapping[str, Axes] = {
    "small": {
        "n_layers": (3, 2, 1),
        "C": (8.0, 1.0, 0.125),
        "C_out": (None,),
        "lam": (0.125, 8.0),
        "n_clusters": (10, 2),
        "variance": (0.95, 0.9, 0.85),
    },
    "full": {
        "n_layers": (5, 4, 3, 2, 1),
        "C": tuple(2.0**power for power in range(3, -4, -1)),
        "C_out": tuple(2.0**power for power in range(3, -4, -1)),
        "lam": tuple(2.0**power for power in range(-3, 4)),
        "n_clusters": tuple(range(20, 1, -1)),
        "variance": (0.95, 0.9, 0.85),
    },
}
"""Values by axis; the paper's own are `full`. C_out is the last layer's C, None as the others'."""

_RIDGE = ("C", "lam")
_CLUSTERED = ("C", "lam", "n_clusters")
_PROPOSALS: tuple[tuple[str, Graph, tuple[str, ...]], ...] = (
    ("LMKOC-LE", "le", ("n_layers", "C", "C_out", "lam")),
    ("LMKOC-LLE", "lle", ("n_layers", "C", "C_out", "lam")),
    ("GMKOC-LDA", "lda", ("n_layers", "C", "C_out", "lam")),
    ("GMKOC-CDA", "cda", ("n_layers", "C", "C_out", "lam", "n_clusters")),
)
_THRESHOLDS: tuple[Literal["theta1", "theta2"], ...] = ("theta1", "theta2")

METHODS: Mapping[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    **{
        f"{name}({rule})": (partial(MultiLayerKRR, graph=graph, threshold=rule), axes)
        for name, graph, axes in _PROPOSALS
        for rule in _THRESHOLDS
    },
    "OCSVM": (partial(KernelOCSVM, nu=ETA), ()),
    "SVDD": (partial(SVDD, nu=ETA), ()),
    "KPCA": (KernelPCANovelty, ("variance",)),
    "KOC": (KernelRidgeOCC, ("C",)),
    "AEKOC": (KernelRidgeAutoEncoder, ("C",)),
    "LKOC-LE": (partial(KernelRidgeOCC, graph="le"), _RIDGE),
    "LKOC-LLE": (partial(KernelRidgeOCC, graph="lle"), _RIDGE),
    "GKOC-LDA": (partial(KernelRidgeOCC, graph="lda"), _RIDGE),
    "GKOC-CDA": (partial(KernelRidgeOCC, graph="cda"), _CLUSTERED),
    "GKOC-CV": (partial(KernelRidgeOCC, graph="cv"), _RIDGE),
    "GKOC-SV": (partial(KernelRidgeOCC, graph="sv"), _CLUSTERED),
}
"""By name: a function that makes the estimator, and the axes it is chosen along. Peers of one layer use theta1."""

__all__ = ["ETA", "GRIDS", "METHODS", "grid_of"]


def grid_of(method: str, grid: str) -> dict[str, Sequence[Any]]:
    """Parameter -> values of one method, in the order of complexity.

    >>> grid_of("KOC", "small")
    {'C': (8.0, 1.0, 0.125)}
    """
    return {axis: GRIDS[grid][axis] for axis in METHODS[method][1]}
