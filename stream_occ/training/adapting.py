"""A personal model: a general one blended with one wearer's own normal recordings, and what that changes for them.

It needs the general model's file alone. Its features, windows, scales and weights stay, and so does the threshold: what
it claims was counted on people held out, of whom the model knew nothing, while the minutes of one wearer are too few to
support another. Nothing that looks like a fall to the general model becomes normal (`blending`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stream_occ.alarm_budget import HOURS_PER_DAY, MAX_FLAGGED_SHARE, Claim, claim
from stream_occ.errors import DataError, ModelError
from stream_occ.events import EventPolicy
from stream_occ.samples import BoolArray, FloatArray
from stream_occ.scoring import Model
from stream_occ.training import TrainingResult, as_filed, summarize
from stream_occ.training.anomalies import check_tells_apart, inject_anomalies, note_of_anomalies
from stream_occ.training.blending import beside, blend, k_neighbors_of, n_rows_of, own_scores, thinned
from stream_occ.training.config import TrainingConfig
from stream_occ.training.data import ProgressReport, RecordingSource, TrainingData, read_training_data
from stream_occ.training.holding_out import Evidence, watched_recordings

FEW_MINUTES = 10.0

__all__ = ["adapt", "settings_of"]


def settings_of(general: Model) -> dict[str, Any]:
    """What the general model has decided of a training configuration, by dotted key."""
    calibration = general.metadata.get("calibration")
    asked = calibration.get("asked_per_day") if isinstance(calibration, dict) else None
    return {
        "feature_set": general.feature_set.name,
        "rate_hz": float(general.rate_hz),
        "window_s": float(general.window_s),
        "hop_s": float(general.hop_s),
        "threshold.rule": "budget",
        "threshold.max_false_alarms_per_day": float(asked) if isinstance(asked, int | float) else 1.0,
    }


def adapt(
    sources: Sequence[RecordingSource],
    general: Model,
    config: TrainingConfig,
    *,
    self_test_X: FloatArray,
    is_vouched: bool = False,
    progress: ProgressReport = lambda stage, done, total: None,
) -> TrainingResult:
    """The model of one wearer; config with what `settings_of` gives, self_test_X the general model's, kept.

    is_vouched: somebody knows that no fall is in the recordings, so that what looks like one is blended too.

    Raises ModelError for a model that no rows can be added to, and DataError, one line, for recordings that cannot be
    trained on, of several people, worn elsewhere, known to the model already, or of which too much looks like a fall.
    """
    k_neighbors = _check_model(general)
    everything = read_training_data(
        sources, config, feature_set=general.feature_set, sos=general.sos, progress=progress
    )
    data, is_item = everything.items(), ~everything.shown.is_closing
    _check_wearer(data, general, config)
    scaled = general.scaler.transform(everything.X)
    before = general.scorer.score(scaled)
    fall_like = before > general.threshold
    admitted = is_item
    if not is_vouched:
        near = beside(fall_like, everything.recording, everything.shown.t_end_ns, general.window_s)
        admitted = is_item & ~near
        _check_share(fall_like[is_item], admitted[is_item], config.limits.min_windows)
    progress("Holding out minutes", 0, 1)
    after = own_scores(
        general.scorer,
        scaled,
        everything,
        np.arange(len(scaled)),
        admitted=admitted,
        k_neighbors=k_neighbors,
        window_s=general.window_s,
    )
    progress("Holding out minutes", 1, 1)
    scorer = blend(general.scorer, scaled[admitted], k_neighbors)
    claims = [_claim(everything, scores, general, config) for scores in (before, after)]
    before, after = before[is_item], after[is_item]
    effect = _effect(data, general, fall_like[is_item], admitted[is_item], (before, after), claims)
    evidence = Evidence(
        "minutes of the wearer", 2, after, after > general.threshold, tuple(data.activities()), claims[1]
    )
    summary = summarize(data, config, evidence, general.threshold, _notes(effect))
    summary["threshold"]["rule"] = "of the general model"
    summary["adaptation"] = effect
    model = replace(general, scorer=scorer, metadata=_metadata(general, data, effect))
    anomalies = inject_anomalies(data.X, config.seed)
    summary["anomalies_rejected"] = rejected = check_tells_apart(model, data.X, anomalies)
    summary["notes"] += note_of_anomalies(rejected)
    return as_filed(model, summary, evidence, data.X, more_self_test=self_test_X)


def _check_model(general: Model) -> int:
    """K of its members' own distances."""
    training = general.metadata.get("training")
    if general.blindness:
        raise ModelError("--adapt", "name a model that tells normal activity apart", "a blind one", "Train another")
    if "adaptation" in general.metadata:
        raise ModelError(
            "--adapt",
            "name a general model",
            "one that was adapted already",
            "Adapt the general model again, with all of the wearer's recordings",
        )
    tuning = training.get("tuning") if isinstance(training, dict) else None
    k_neighbors = k_neighbors_of(general.scorer, tuning)
    if k_neighbors is None:
        raise ModelError(
            "--adapt",
            "name a model that keeps its training rows and has one K, such as fused or working",
            f"one of kind {general.scorer.KIND}",
            "Train a new model on the recordings of others and the wearer's together",
        )
    return k_neighbors


def _check_wearer(data: TrainingData, general: Model, config: TrainingConfig) -> None:
    """One person, whose recordings the model does not know, worn where it was trained."""
    people = sorted({recording.subject for recording in data.recordings})
    if len({recording.person for recording in data.recordings}) > 1:
        got = ", ".join(people[:10])
        raise DataError("recordings", "be of one wearer", f"{len(people)} people ({got})", "Name one with --people")
    known = general.metadata.get("recording_digests")
    n_known = len(set(data.digests).intersection(known)) if isinstance(known, list) else 0
    if n_known:
        got = f"{n_known} of {len(data.digests)} that it was trained on"
        raise DataError("recordings", "be new to the general model", got, "Record others")
    trained_at = str(general.metadata.get("placement", "unknown")).split("/")
    worn = {recording.placement for recording in data.recordings} - {"unknown"}
    if worn and "unknown" not in trained_at and not worn <= set(trained_at) and not config.allow_mixed_placement:
        raise DataError(
            "recordings",
            f"be worn where the model was trained, {'/'.join(trained_at)}",
            ", ".join(sorted(worn)),
            "Adapt a model of that place, or say --allow-mixed-placement",
        )


def _check_share(fall_like: BoolArray, admitted: BoolArray, least: int) -> None:
    share, n, n_admitted = float(fall_like.mean()), len(fall_like), int(admitted.sum())
    if share > MAX_FLAGGED_SHARE:
        raise DataError(
            "recordings",
            f"look normal to the general model: at most {MAX_FLAGGED_SHARE:.0%} of the windows above its threshold",
            f"{share:.1%} of {n}",
            "Check sensor and placement; where somebody knows that no fall is among them, say --vouched",
        )
    if n_admitted < least:
        expected = f"give {least} windows apart from those that look like a fall"
        raise DataError("recordings", expected, f"{n_admitted} of {n}", "Record more normal activity")


def _claim(data: TrainingData, scores: FloatArray, general: Model, config: TrainingConfig) -> Claim:
    watched = watched_recordings(data, scores, general.window_s)
    policy = EventPolicy().for_windows(general.window_s, general.hop_s)
    return claim(watched, general.threshold, policy, config.threshold.max_false_alarms_per_day)


def _effect(
    data: TrainingData,
    general: Model,
    fall_like: BoolArray,
    admitted: BoolArray,
    scores: tuple[FloatArray, FloatArray],
    claims: list[Claim],
) -> dict[str, Any]:
    """What the wearer's held-out minutes say of the adaptation, and what went into it, as plain JSON."""
    n_general = n_rows_of(general.scorer)
    told = [
        {
            "n_flagged_windows": int((own > general.threshold).sum()),
            "n_alarms": found.n_alarms,
            "alarms_per_hour": [rate / HOURS_PER_DAY for rate in (found.rate_per_day, found.low, found.high)],
            "mean_score": float(own.mean()),
        }
        for own, found in zip(scores, claims, strict=True)
    ]
    return {
        "adapted_from": general.model_id,
        "minutes": 60 * claims[1].hours,
        "n_windows": len(fall_like),
        "n_fall_like": int(fall_like.sum()),
        "n_left_out": int((~admitted).sum()),
        "n_rows_general": n_general,
        "n_rows_wearer": len(thinned(int(admitted.sum()), n_general)),
        "before": told[0],
        "after": told[1],
        "data_sha256": data.data_sha256,
    }


def _notes(effect: dict[str, Any]) -> list[str]:
    before, after = effect["before"]["n_alarms"], effect["after"]["n_alarms"]
    notes = []
    if effect["minutes"] < FEW_MINUTES:
        notes.append(f"{effect['minutes']:.1f} min of the wearer: record at least {FEW_MINUTES:g}, of all they do")
    n_fall_like, n_left_out = effect["n_fall_like"], effect["n_left_out"]
    above = f"{n_fall_like} windows above the general model's threshold"
    if n_left_out:
        notes.append(
            f"{above} were left out, {n_left_out} with those that overlap them: see whether a fall is among the "
            "recordings; --vouched takes them in"
        )
    elif n_fall_like:
        notes.append(f"{above} count as normal now: vouched for")
    if after >= before:
        notes.append(
            f"no fewer alarms on held-out minutes: {before} with the general model, {after} adapted. The general model "
            "does as well for this wearer, as far as these minutes tell"
        )
    return notes


def _metadata(general: Model, data: TrainingData, effect: dict[str, Any]) -> dict[str, Any]:
    """That of the general model, with what was added."""
    old = general.metadata
    training, digests = old.get("training"), old.get("recording_digests")
    training = training if isinstance(training, dict) else {}
    datasets = {str(name) for name in training.get("datasets") or ()}
    datasets |= {recording.name.partition("/")[0] for recording in data.recordings}
    return {
        **old,
        "training": {**training, "datasets": sorted(datasets)},
        "adaptation": effect,
        "recording_digests": [*(digests if isinstance(digests, list) else []), *data.digests],
    }
