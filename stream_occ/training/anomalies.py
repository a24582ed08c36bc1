"""Whether a trained model tells anything apart: anomalies injected at known distances, and normal windows held out."""

from __future__ import annotations

import numpy as np

from stream_occ.errors import DataError
from stream_occ.samples import BoolArray, FloatArray
from stream_occ.scoring import Model

N_ANOMALIES = 200
ANOMALY_RANGES = (1.0, 2.0, 5.0, 10.0)  # how many training ranges an injected anomaly lies off, in every feature
_REMEDY = "Take another detector or threshold rule, or train on more and more varied activity"

__all__ = ["blindness", "check_tells_apart", "inject_anomalies", "note_of_anomalies"]


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
    """Share of anomalies rejected, by the number of ranges they lie off; DataError where everything scores alike."""
    scores = model.score_features(anomalies)
    some = model.score_features(X[:: max(1, len(X) // 1000)])
    if np.ptp(np.concatenate([scores, some])) == 0:
        raise DataError("trained model", "give different scores", f"{scores[0]:.6g} for every window", _REMEDY)
    rejected = scores > model.threshold
    n_ranges = len(ANOMALY_RANGES)
    return {f"{ranges:g}": float(rejected[i::n_ranges].mean()) for i, ranges in enumerate(ANOMALY_RANGES)}


def note_of_anomalies(rejected: dict[str, float]) -> list[str]:
    """A warning where windows far from all that was trained on pass as normal."""
    farthest = f"{ANOMALY_RANGES[-1]:g}"
    if rejected[farthest] == 1.0:
        return []
    share = f"{100 * (1 - rejected[farthest]):.0f} %"
    return [f"accepts {share} of injected anomalies {farthest} training ranges off: this detector can miss what is far"]


def blindness(anomalies: dict[str, float], held_out: BoolArray, unit: str, *, is_printed: bool) -> str:
    """What makes a model blind, or "": all anomalies accepted, or all normal windows held out (n,) rejected.

    anomalies: share rejected, by ranges. is_printed: the threshold is a paper's own rule, whose models are there to be
    compared with, blind ones too. Raises DataError for a blind model whose threshold is ours.
    """
    said = []
    if not any(anomalies.values()):
        said.append(("reject some injected anomalies", f"accepts all {N_ANOMALIES} injected anomalies"))
    if held_out.all():
        said.append(("accept some normal windows", f"rejects all {len(held_out)} normal windows of held-out {unit}"))
    if said and not is_printed:
        expected, found = said[0]
        raise DataError("trained model", expected, f"a model that {found}", _REMEDY)
    return f"{' and '.join(found for _, found in said)}: for research alone" if said else ""
