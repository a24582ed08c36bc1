"""What the Gaussian-kernel detectors check alike: training rows that differ, and the bandwidth they give."""

from __future__ import annotations

import numpy as np

from stream_occ.detectors._base import check_parameter, is_number
from stream_occ.kernels import FARTHEST, mean_bandwidth, rms_bandwidth
from stream_occ.samples import FloatArray
from stream_occ.scoring.kernel_expansion import LEAST_BANDWIDTH

__all__ = ["bandwidth_of"]


def bandwidth_of(X: FloatArray, bandwidth: object) -> float:
    """A2 of exp(-d^2 / A2) for training rows X (N, d): by the rule "rms" or "mean", or the number given.

    Raises ValueError for another rule, identical rows, and rows or numbers whose squares leave floating point.
    """
    rules = {"rms": rms_bandwidth, "mean": mean_bandwidth}
    known = bandwidth in rules if isinstance(bandwidth, str) else is_number(bandwidth) and bandwidth >= LEAST_BANDWIDTH
    check_parameter("bandwidth", bandwidth, f'"rms", "mean" or a finite number >= {LEAST_BANDWIDTH}', known)
    if np.abs(X).max() > FARTHEST:
        raise ValueError(f"X must lie within +-{FARTHEST}; got {np.abs(X).max():.3g}. Scale the features first")
    if np.ptp(X, axis=0).max() == 0.0:
        raise ValueError(
            f"X must hold at least two distinct rows; got {len(X)} identical ones, of bandwidth 0. "
            "Check that the sensor moved"
        )
    value = rules[bandwidth](X) if isinstance(bandwidth, str) else float(bandwidth)  # type: ignore[arg-type]
    if value < LEAST_BANDWIDTH:
        raise ValueError(f"X must have a bandwidth >= {LEAST_BANDWIDTH}; got {value:.3g}. Scale the features first")
    return value
