"""Whether a trained model tells anything apart: anomalies injected at known distances, and normal windows held out."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stream_occ.errors import DataError
from stream_occ.samples import FloatArray
from stream_occ.scoring import Model

N_ANOMALIES = 200
ANOMALY_RANGES = (1.0, 2.0, 5.0, 10.0)  # how many training ranges an injected anomaly lies off, in every feature
_REMEDY = "Take another detector or threshold rule, or train on more and more varied activity"

__all__ = ["check_accepts", "check_tells_apart", "inject_anomalies", "note_of_anomalies"]


def inject_anomalies(X: FloatArray, seed: int) -> FloatArray:
    """Rows (200, d) of which no useful detector accepts all: each feature off either way, by ANOMALY_RANGES in turn."""
    rng = np.random.default_rng([seed, 2])
    size = np.ptp(X, axis=0)
    size = np.where(size > 0, size, 1.0)
    sign = rng.choice([-1.0, 1.0], (N_ANOMALIES, X.shape[1]))
    ranges = np.resize(ANOMALY_RANGES, N_ANOMALIES)[:, None]
    anomalies: FloatArray = X[rng.integers(len(X), size=N_ANOMALIES)] + sign * ranges * size
    return anomalies


def check_tells_apart(model: Model, X: FloatArray, anomalies: FloatArray) -> dict[str, float]:
    """Share of anomalies rejected, by the number of ranges they lie off.

    Raises DataError for a model that scores everything alike or accepts all anomalies.
    """
    scores = model.score_features(anomalies)
    some = model.score_features(X[:: max(1, len(X) // 1000)])
    if np.ptp(np.concatenate([scores, some])) == 0:
        raise DataError("trained model", "give different scores", f"{scores[0]:.6g} for every window", _REMEDY)
    rejected = scores > model.threshold
    if not rejected.any():
        got = f"a model that accepts all {len(scores)} ({ANOMALY_RANGES[0]:g} to {ANOMALY_RANGES[-1]:g} ranges off)"
        raise DataError("trained model", "reject injected anomalies", got, _REMEDY)
    n_ranges = len(ANOMALY_RANGES)
    return {f"{ranges:g}": float(rejected[i::n_ranges].mean()) for i, ranges in enumerate(ANOMALY_RANGES)}


def note_of_anomalies(rejected: dict[str, float]) -> list[str]:
    """A warning where windows far from all that was trained on pass as normal."""
    farthest = f"{ANOMALY_RANGES[-1]:g}"
    if rejected[farthest] == 1.0:
        return []
    share = f"{100 * (1 - rejected[farthest]):.0f} %"
    return [f"accepts {share} of injected anomalies {farthest} training ranges off: this detector can miss what is far"]


def check_accepts(rejected: NDArray[np.bool_], unit: str) -> None:
    """Raises DataError for a model that rejects all normal windows (n,) of held-out people (recordings, parts)."""
    if rejected.all():
        got = f"a model that rejects all {len(rejected)}"
        raise DataError("trained model", "accept normal windows of held-out " + unit, got, _REMEDY)
