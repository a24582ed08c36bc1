"""The trainer: recordings of normal activity to a model, its threshold from people held out, and what it was made of.

Falls never enter: not the fit, not the scaling, not the threshold. What the trainer says of a model is which share of
normal windows it accepts; it makes no claim about falls, for which it saw no data.
"""

from __future__ import annotations

import inspect
import platform
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stream_occ import __version__, features
from stream_occ.artifacts import pack_model, unpack_model
from stream_occ.errors import ConfigError, DataError
from stream_occ.features import FeatureSet
from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.samples import FloatArray, IntArray
from stream_occ.scoring import Model, Scaler
from stream_occ.training.anomalies import blindness, check_tells_apart, inject_anomalies, note_of_anomalies
from stream_occ.training.config import DataSource, TrainingConfig, load_training_config
from stream_occ.training.data import ProgressReport, RecordingSource, TrainingData, read_training_data

__all__ = [
    "DataSource",
    "Evidence",
    "TrainingConfig",
    "TrainingResult",
    "load_training_config",
    "train",
]

N_SELF_TEST_ROWS = 24
MAX_LOADER_NOTES = 5
PART_S = 60.0  # of one person's day, held out in turn
N_SELF_TEST_ANOMALIES = 8
_VERSIONED = ("numpy", "scipy", "scikit-learn")


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Scores (n,) of normal windows by detectors that never saw their person (recording, part): `unit` says which.

    `rejected` (n,) is by the threshold of the rule: the model's own, or for `detector` that of the fold's detector.
    """

    unit: str
    n_folds: int
    scores: FloatArray
    rejected: NDArray[np.bool_]
    activities: tuple[str, ...]


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
    detector = make_detector(config)  # a wrong name or parameter is told before the data are read
    config = _with_rule(config.resolved(), detector)
    feature_set = features.load(config.feature_set)
    sos = design_filter(config, feature_set)
    data = read_training_data(sources, config, feature_set=feature_set, sos=sos, progress=progress)
    notes: list[str] = []
    config = _bounded(config, detector, len(data.X), notes)
    evidence, quantile = _hold_out(data, config, progress, notes)
    every_row = np.ones(len(data.X), dtype=bool)
    scaler, detector = _fit(data.X, config, "Fitting the model", progress, notes, _people(data, every_row))
    threshold = float(detector.score_threshold_) if quantile is None else quantile
    summary = _summary(data, config, evidence, threshold, notes)
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
    is_printed = quantile is None and _decides_by_itself(detector)
    blind = blindness(rejected, evidence.rejected, evidence.unit, is_printed=is_printed)
    if blind:
        summary["blind"] = blind
    summary["notes"] += note_of_anomalies(rejected)
    if hasattr(detector, "tuning_summary"):
        summary["tuning"] = detector.tuning_summary()
    model = replace(model, metadata=_metadata(summary, config))
    spread = np.unique(np.linspace(0, len(data.X) - 1, N_SELF_TEST_ROWS).round().astype(np.int64))
    self_test_X = np.concatenate([data.X[spread], anomalies[:N_SELF_TEST_ANOMALIES]])
    model = unpack_model(pack_model(model, self_test_X=self_test_X))
    summary = {"model_id": model.model_id, **summary}
    quantiles = np.quantile(data.X, [0, 0.05, 0.5, 0.95, 1], axis=0)
    return TrainingResult(model, summary, self_test_X, evidence, quantiles)


def _with_rule(config: TrainingConfig, detector: Any) -> TrainingConfig:
    """The configuration with the threshold rule `auto` replaced by the one that the detector asks for."""
    if config.threshold.rule != "auto":
        return config
    rule = "detector" if _decides_by_itself(detector) else "quantile"
    return config.model_copy(update={"threshold": config.threshold.model_copy(update={"rule": rule})})


def _decides_by_itself(detector: Any) -> bool:
    return bool(getattr(detector, "decides_by_itself", False))


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


def design_filter(config: TrainingConfig, feature_set: FeatureSet) -> FloatArray | None:
    """Second-order sections of the feature set's low-pass at the model's rate; ConfigError for too low a rate."""
    if config.rate_hz <= feature_set.min_rate_hz:
        raise ConfigError(
            "rate_hz",
            f"be above {feature_set.min_rate_hz:g} for feature set {feature_set.name}",
            f"{config.rate_hz:g}",
            "Raise the rate, or take a feature set for slower streams",
        )
    return None if feature_set.lowpass_hz is None else butter1_lowpass_sos(feature_set.lowpass_hz, config.rate_hz)


def make_detector(config: TrainingConfig) -> Any:
    """The unfitted estimator that the configuration names, with its parameters and the seed."""
    from stream_occ.detectors import preset

    names = features.load(config.feature_set).NAMES
    detector = preset(config.detector.name, random_state=config.seed, feature_names=names)
    try:
        return detector.set_params(**config.detector.params)
    except (TypeError, ValueError) as error:
        known = ", ".join(sorted(detector.get_params()))
        raise ConfigError(
            "detector.params",
            f"be parameters of {config.detector.name}",
            str(error).split(" Valid")[0],
            f"It has {known}",
        ) from error


def _people(data: TrainingData, rows: NDArray[np.bool_]) -> list[str]:
    """The person behind each of these rows."""
    return [data.recordings[i].person for i in data.recording[rows].tolist()]


def _fit(
    X: FloatArray,
    config: TrainingConfig,
    stage: str,
    progress: ProgressReport,
    notes: list[str],
    people: list[str],
) -> tuple[Scaler, Any]:
    """Scaler and detector fitted on rows X; what the detector warns of goes to the notes."""
    from stream_occ.detectors.scaling import fit_scaler
    from stream_occ.detectors.selection import group_arguments

    scaler, detector = fit_scaler(X, config.scaler), make_detector(config)
    shows_progress = "progress" in inspect.signature(detector.fit).parameters
    extra = group_arguments(detector, people)
    if shows_progress:
        extra["progress"] = lambda done, total: progress(stage, done, total)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            detector.fit(scaler.transform(X), **extra)
        except ValueError as error:
            raise DataError(
                "training data",
                f"suit detector {config.detector.name}",
                str(error),
                "Change its parameters or the data",
            ) from error
    notes.extend(f"{stage}: {warning.message}" for warning in caught)
    if not shows_progress:
        progress(stage, 1, 1)
    return scaler, detector


def _hold_out(
    data: TrainingData, config: TrainingConfig, progress: ProgressReport, notes: list[str]
) -> tuple[Evidence, float | None]:
    """Scores of held-out windows, and the threshold of rule `quantile` (None for rule `detector`)."""
    from stream_occ.detectors.calibration import quantile_threshold

    unit, fold, guard = _folds(data, config)
    n_folds = int(fold.max()) + 1
    scores, own_threshold = np.empty(len(data.X)), np.empty(len(data.X))
    for number in range(n_folds):
        out = fold == number
        stage = f"Holding out {unit}, {number + 1} of {n_folds}"
        rows = ~out & ~_near(out, guard)
        scaler, detector = _fit(data.X[rows], config, stage, progress, notes, _people(data, rows))
        scores[out] = detector.to_scorer().score(scaler.transform(data.X[out]))
        own_threshold[out] = detector.score_threshold_
    activities = tuple(data.activities())
    if config.threshold.rule == "detector":
        return Evidence(unit, n_folds, scores, scores > own_threshold, activities), None
    threshold = quantile_threshold(scores, config.threshold.reject_share)
    return Evidence(unit, n_folds, scores, scores > threshold, activities), threshold


def _folds(data: TrainingData, config: TrainingConfig) -> tuple[str, IntArray, int]:
    """What is held out, the fold (n,) of each row, and how many rows beside a fold overlap it.

    People where there are two or more. Of one person every n-th minute: held out in longer parts, an activity that was
    done once would be strange to the fold that has it, and its scores would lift the threshold above falls.
    """
    from stream_occ.detectors.calibration import group_folds

    recordings = data.recording.tolist()
    names = [data.recordings[i].person for i in recordings]
    n_people, n_folds, n = len(set(names)), config.threshold.n_folds, len(data.X)
    if n_people >= 2:
        return "people", group_folds(names, min(n_folds, n_people), config.seed), 0
    hop_s = config.train_hop_s or config.hop_s
    guard = int(np.ceil(config.window_s / hop_s))
    if n < 2 * n_folds * guard:
        raise DataError(
            "training data",
            f"hold {2 * n_folds * guard} windows where there is one person alone",
            f"{n}",
            "Record for longer, or record another person",
        )
    part = max(guard, min(round(PART_S / hop_s), n // (2 * n_folds)))
    return "minutes of the same person", np.arange(n) // part % n_folds, guard


def _near(out: NDArray[np.bool_], guard: int) -> NDArray[np.bool_]:
    """Rows less than `guard` rows from a held-out one."""
    near = np.zeros_like(out)
    for shift in range(1, guard):
        near[shift:] |= out[:-shift]
        near[:-shift] |= out[shift:]
    return near


def _summary(
    data: TrainingData, config: TrainingConfig, evidence: Evidence, threshold: float, notes: list[str]
) -> dict[str, Any]:
    """All that is said of a training run, as plain JSON."""
    rates = [recording.rate_hz for recording in data.recordings]
    n_rejected = int(evidence.rejected.sum())
    n_people = len({recording.person for recording in data.recordings})
    if n_people == 1:
        notes.append(
            "one person: the threshold comes from other minutes of the same recordings, and says nothing of other "
            "people and other days. Record several people, or hours of this one"
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


def _metadata(summary: dict[str, Any], config: TrainingConfig) -> dict[str, Any]:
    """What goes into the model file: no names of people and no paths leave the trainer's machine with it."""
    training = {key: summary[key] for key in summary if key not in {"config", "threshold", "notes"}}
    settings = config.model_dump(mode="json", exclude={"data", "people", "exclude_people"})
    return {
        "training": training,
        "calibration": summary["threshold"],
        "config": settings,
        "seed": config.seed,
        "data_sha256": summary["data_sha256"],
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
