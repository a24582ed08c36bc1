"""The trainer: recordings of normal activity to a model, its threshold from people held out, and what it was made of.

Falls never enter: not the fit, not the scaling, not the threshold. What the trainer says of a model is which share of
normal windows it accepts; it makes no claim about falls, for which it saw no data.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from stream_occ import __version__, features
from stream_occ.artifacts import MAX_SELF_TEST_ROWS, pack_model, unpack_model
from stream_occ.samples import FloatArray
from stream_occ.scoring import Model
from stream_occ.training import fitting
from stream_occ.training.anomalies import blindness, check_tells_apart, inject_anomalies, note_of_anomalies
from stream_occ.training.config import DataSource, TrainingConfig, load_training_config
from stream_occ.training.data import ProgressReport, RecordingSource, TrainingData, read_training_data
from stream_occ.training.holding_out import Evidence, hold_out

__all__ = [
    "DataSource",
    "Evidence",
    "TrainingConfig",
    "TrainingResult",
    "as_filed",
    "load_training_config",
    "summarize",
    "train",
]

N_SELF_TEST_ROWS = 24
N_SELF_TEST_ANOMALIES = 8
MAX_LOADER_NOTES = 5
_VERSIONED = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, slots=True, eq=False)
class TrainingResult:
    """A model, ready to be saved with `self_test_X`; `summary` is plain JSON; feature_quantiles (5, d) for the report.

    feature_quantiles: minimum, 5 %, median, 95 %, maximum of each unscaled training feature.
    """

    model: Model
    summary: dict[str, Any]
    self_test_X: FloatArray
    evidence: Evidence
    feature_quantiles: FloatArray


def train(
    sources: Sequence[RecordingSource],
    config: TrainingConfig | None = None,
    progress: ProgressReport = lambda stage, done, total: None,
) -> TrainingResult:
    """A model of the normal recordings in `sources`; the same data, configuration and versions give the same bytes.

    Raises ConfigError for a configuration that fits no feature set or detector, and DataError, one line that names
    what is off, for data that cannot be trained on or that give a detector which tells nothing apart. By a paper's
    own rule a blind one, which accepts all anomalies or rejects all normal windows, is a model that says so: `blind`.
    """
    from threadpoolctl import threadpool_limits

    # BLAS threads gain nothing on products this small and spin where cores are shared (measured: 8 times the CPU)
    with threadpool_limits(limits=1, user_api="blas"):
        return _train(sources, config or TrainingConfig(), progress)


def _train(sources: Sequence[RecordingSource], config: TrainingConfig, progress: ProgressReport) -> TrainingResult:
    detector = fitting.make_detector(config)  # a wrong name or parameter is told before the data are read
    config = _with_rule(config.resolved(), detector)
    feature_set = features.load(config.feature_set)
    sos = features.design_lowpass(feature_set, config.rate_hz)
    everything = read_training_data(sources, config, feature_set=feature_set, sos=sos, progress=progress)
    data = everything.items()
    notes: list[str] = []
    config = _bounded(config, detector, len(data.X), notes)
    evidence, quantile = hold_out(everything, config, progress, notes)
    every_row = np.ones(len(data.X), dtype=bool)
    scaler, detector = fitting.fit(
        data.X, config, "Fitting the model", progress, notes, fitting.people_of(data, every_row)
    )
    threshold = float(detector.score_threshold_) if quantile is None else quantile
    summary = summarize(data, config, evidence, threshold, notes)
    model = Model(
        model_id="",
        feature_set=feature_set,
        rate_hz=config.rate_hz,
        window_s=config.window_s,
        hop_s=config.hop_s,
        sos=sos,
        scaler=scaler,
        scorer=detector.to_scorer(),
        threshold=threshold,
    )
    anomalies = inject_anomalies(data.X, config.seed)
    summary["anomalies_rejected"] = rejected = check_tells_apart(model, data.X, anomalies)
    is_printed = quantile is None and fitting.decides_by_itself(detector)
    blind = blindness(rejected, evidence.rejected, evidence.unit, is_printed=is_printed)
    if blind:
        summary["blind"] = blind
    summary["notes"] += note_of_anomalies(rejected)
    if hasattr(detector, "tuning_summary"):
        summary["tuning"] = detector.tuning_summary()
    model = replace(model, metadata=_metadata(summary, config, data.digests))
    return as_filed(model, summary, evidence, data.X, more_self_test=anomalies[:N_SELF_TEST_ANOMALIES])


def as_filed(
    model: Model, summary: dict[str, Any], evidence: Evidence, X: FloatArray, *, more_self_test: FloatArray
) -> TrainingResult:
    """The result with the model as its file will give it back, id and all; self-test rows are spread over X, then more.

    X (n, d), more_self_test (m, d): unscaled.
    """
    spread = np.unique(np.linspace(0, len(X) - 1, N_SELF_TEST_ROWS).round().astype(np.int64))
    self_test_X = np.concatenate([X[spread], more_self_test])[:MAX_SELF_TEST_ROWS]
    model = unpack_model(pack_model(model, self_test_X=self_test_X))
    quantiles = np.quantile(X, [0, 0.05, 0.5, 0.95, 1], axis=0)
    return TrainingResult(model, {"model_id": model.model_id, **summary}, self_test_X, evidence, quantiles)


def _with_rule(config: TrainingConfig, detector: Any) -> TrainingConfig:
    """The configuration with the threshold rule `auto` replaced by the one that the detector asks for."""
    if config.threshold.rule != "auto":
        return config
    rule = "detector" if fitting.decides_by_itself(detector) else "budget"
    return config.model_copy(update={"threshold": config.threshold.model_copy(update={"rule": rule})})


def _bounded(config: TrainingConfig, detector: Any, n_rows: int, notes: list[str]) -> TrainingConfig:
    """The configuration with landmarks where an exact kernel fit of so many rows would take hours and gigabytes."""
    from stream_occ.detectors._base import on_landmarks

    if not on_landmarks(detector, n_rows):
        return config
    n_landmarks = detector.get_params(deep=False)["n_landmarks"]
    notes.append(
        f"fitted on {n_landmarks} landmarks, drawn from {n_rows} windows: --param n_landmarks=N takes more or fewer"
    )
    chosen = config.detector.model_copy(update={"params": {**config.detector.params, "n_landmarks": n_landmarks}})
    return config.model_copy(update={"detector": chosen})


def summarize(
    data: TrainingData, config: TrainingConfig, evidence: Evidence, threshold: float, notes: list[str]
) -> dict[str, Any]:
    """All that is said of a training run, as plain JSON."""
    rates = [recording.rate_hz for recording in data.recordings]
    n_rejected = int(evidence.rejected.sum())
    n_people = len({recording.person for recording in data.recordings})
    if config.train_hop_s not in (None, config.hop_s) and evidence.claim is not None:
        notes.append(
            f"alarms were counted on a window every {config.train_hop_s:g} s, and the service looks every "
            f"{config.hop_s:g} s: expect more, and calibrate"
        )
    if config.threshold.rule == "quantile" and n_rejected < 5:
        notes.append(f"the threshold rests on {n_rejected} rejected windows: record more for a surer one")
    return {
        "datasets": sorted({recording.name.partition("/")[0] for recording in data.recordings}),
        "n_people": n_people,
        "n_recordings": len(data.recordings),
        "n_windows": len(data.X),
        "hours": sum(recording.duration_s for recording in data.recordings) / 3600,
        "n_falls_left_out": data.tally.n_falls,
        "n_filtered_out": data.tally.n_filtered,
        "n_too_short": data.tally.n_too_short,
        "n_windows_thinned": data.tally.n_windows_thinned,
        "refused_rows": dict(sorted(data.tally.refused_rows.items())),
        "rate_hz_measured": {"min": min(rates), "median": float(np.median(rates)), "max": max(rates)},
        "range": data.reach().to_json(),
        "placements": sorted({recording.placement for recording in data.recordings}),
        "activities": _by_activity(data, evidence),
        "threshold": {
            "value": threshold,
            "rule": config.threshold.rule,
            "held_out": evidence.unit,
            "n_folds": evidence.n_folds,
            "n_windows": len(evidence.scores),
            "n_rejected": n_rejected,
            "rejected_share": n_rejected / len(evidence.scores),
            **({} if evidence.claim is None else evidence.claim.to_json()),
        },
        "config": config.model_dump(mode="json"),
        "seed": config.seed,
        "data_sha256": data.data_sha256,
        "versions": _versions(),
        "notes": list(dict.fromkeys(notes)) + _loader_notes(data.tally.notes),
    }


def _loader_notes(notes: list[str]) -> list[str]:
    more = [f"loader: and {len(notes) - MAX_LOADER_NOTES} more notes"] if len(notes) > MAX_LOADER_NOTES else []
    return [f"loader: {note}" for note in notes[:MAX_LOADER_NOTES]] + more


def _by_activity(data: TrainingData, evidence: Evidence) -> dict[str, dict[str, float | int]]:
    """Recordings, windows and share of held-out windows accepted, for each activity."""
    names = np.array(evidence.activities)
    table: dict[str, dict[str, float | int]] = {}
    for name in sorted(set(evidence.activities)):
        rows = names == name
        table[name] = {
            "n_recordings": sum(recording.activity == name for recording in data.recordings),
            "n_windows": int(rows.sum()),
            "accepted_share": float(1 - evidence.rejected[rows].mean()),
        }
    return table


def _metadata(summary: dict[str, Any], config: TrainingConfig, digests: Sequence[str]) -> dict[str, Any]:
    """What goes into the model file: no names of people and no paths leave the trainer's machine with it."""
    training = {key: summary[key] for key in summary if key not in {"config", "threshold", "notes"}}
    settings = config.model_dump(mode="json", exclude={"data", "people", "exclude_people"})
    return {
        "training": training,
        "calibration": summary["threshold"],
        "config": settings,
        "seed": config.seed,
        "data_sha256": summary["data_sha256"],
        "recording_digests": list(digests),
        "versions": summary["versions"],
        "placement": "/".join(summary["placements"]),
    }


def _versions() -> dict[str, str]:
    found = {"stream_occ": __version__, "python": platform.python_version()}
    for name in _VERSIONED:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
