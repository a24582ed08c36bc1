"""The feature sets by compiled code, to the bit as by numpy; zeros apart, whose sign may differ.

Transforms, sorting, logarithms and arc tangents stay numpy's own; sums keep its order. `kernels` is what
`engines.warmed` gives for the set. Each function fills X (n, 31), or returns False where the numpy form is to do it:
for a value that is not finite or absurd, and windows too short.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_occ.features._window_statistics import MIN_SAMPLES
from stream_occ.samples import FloatArray

_HAS_ROOM = not np.__version__.startswith("1.")
_LOGARITHMS = np.array([0, 1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 25, 26, 27, 28])


@dataclass(frozen=True, slots=True, eq=False)
class _Plan:
    """What fall31's windows of one length and rate share; lags and edges as `fill_fall31` takes them."""

    lags: tuple[int, ...]
    edges: tuple[int, ...]
    taper: FloatArray
    n_angles: int
    log_bins: float


@lru_cache(maxsize=16)
def _plan(m: int, rate_hz: float, bands_hz: Sequence[tuple[float, float]]) -> _Plan:
    def lag(seconds: float, at_most: int) -> int:
        return max(1, min(round(seconds * rate_hz), at_most))

    third, longest = lag(1.0, m // 3), lag(2.0, m - 1)
    n_means = m - third + 1
    apart = lag(2.0, n_means - 1)
    hertz = np.arange(m // 2 + 1) * (rate_hz / m)
    edges = tuple(int(edge) for band in bands_hz for edge in np.searchsorted(hertz, band))
    n_bins = edges[-1] - edges[0]
    return _Plan(
        lags=(lag(1.0, m), lag(0.2, m), lag(0.04, m - 1), third, apart, lag(0.3, longest), longest),
        edges=edges,
        taper=0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(m) / m),
        n_angles=n_means - apart,
        log_bins=float(np.log(n_bins)) if n_bins > 1 else 1.0,
    )


def fill_fall31(
    kernels: Any, signals: FloatArray, rate_hz: float, bands_hz: Sequence[tuple[float, float]], X: FloatArray
) -> bool:
    """Fills X with fall31 of windows (n, 6, m)."""
    n, _, m = signals.shape
    if m < MIN_SAMPLES:
        return False
    plan = _plan(m, rate_hz, bands_hz)
    parts = np.empty((4, n, m))
    a, _, centred, tapered = parts
    if not kernels.prepare_fall31(signals, plan.taper, *parts):
        return False
    ordered = a.copy()
    ordered.sort(axis=-1)
    padded, spectrum = np.empty((n, m + 1), np.complex128), np.empty((n, m // 2 + 1), np.complex128)
    power, similar = np.empty((n, m + 1)), np.empty((n, 2 * m))
    kernels.square(_transformed(np.fft.rfft, centred, padded, 2 * m), power)
    n_bins, n_sizes = plan.edges[-1] - plan.edges[0], len(_LOGARITHMS)
    sizes, shares = np.empty((n, n_sizes + n_bins)), np.empty((n, n_bins))
    far, near = np.empty((2, n, 1 + plan.n_angles))
    kernels.fill_fall31(
        *(signals, rate_hz, plan.lags, plan.edges, parts),
        *(ordered, _transformed(np.fft.rfft, tapered, spectrum), _transformed(np.fft.irfft, power, similar, 2 * m)),
        *(X, sizes, shares, far, near),
    )
    kernels.finish_fall31(_LOGARITHMS, np.log(sizes), shares, plan.log_bins, np.arctan2(far, near), X)
    return True


def fill_khan31r(kernels: Any, signals: FloatArray, rate_hz: float, X: FloatArray) -> bool:
    """Fills X with khan31r of windows (n, 6, m)."""
    n, _, m = signals.shape
    if m < MIN_SAMPLES:
        return False
    work, entropy = np.empty((n, 12, m)), np.empty((2, n, 2, m // 2))
    spectrum = np.empty((n, 2, m // 2 + 1), np.complex128)
    if not kernels.prepare_khan31r(signals, work):
        return False
    work[:, 10:].sort(axis=-1)
    kernels.fill_khan31r(work, rate_hz, _transformed(np.fft.rfft, work[:, 8:10], spectrum), entropy, X)
    terms = entropy[1]
    np.log(terms, out=terms)
    kernels.finish_khan31r(entropy, _log(m // 2), X)
    return True


def _transformed(transform: Any, x: FloatArray, room: NDArray[Any], length: int | None = None) -> Any:
    """The transform of x over its last axis; into room where numpy can (2.0), which then finds nothing out."""
    return transform(x, length, out=room) if _HAS_ROOM else transform(x, length)


@lru_cache(maxsize=16)
def _log(n: int) -> float:
    return float(np.log(n))
