"""One fit: the estimator that a configuration names, on scaled rows."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from stream_occ import features
from stream_occ.errors import ConfigError, DataError, nearest
from stream_occ.samples import BoolArray, FloatArray
from stream_occ.scoring import Scaler
from stream_occ.training.config import TrainingConfig
from stream_occ.training.data import ProgressReport, TrainingData


def decides_by_itself(detector: Any) -> bool:
    """True where theta or a majority of the detector's own decides."""
    return bool(getattr(detector, "decides_by_itself", False))


def make_detector(config: TrainingConfig) -> Any:
    """The unfitted estimator that the configuration names, with its parameters and the seed."""
    from stream_occ.detectors import preset

    names = features.load(config.feature_set).NAMES
    detector = preset(config.detector.name, random_state=config.seed, feature_names=names)
    return with_params(detector, config.detector.name, config.detector.params)


def with_params(detector: Any, name: str, params: Mapping[str, Any]) -> Any:
    """The preset `name` with these parameters in place of its own; ConfigError for one that it does not have."""
    if "feature_names" in params:
        raise ConfigError("detector.params", "leave names to feature_set", "feature_names", "Remove it")
    try:
        return detector.set_params(**params)
    except (TypeError, ValueError) as error:
        known = sorted(detector.get_params())
        unknown = [param for param in params if param not in known]
        near = nearest(unknown[0], known, "") if unknown else ""
        got = repr(unknown[0]) if unknown else str(error)
        remedy = f"{near} It has {', '.join(known)}".lstrip()
        raise ConfigError("detector.params", f"be parameters of {name}", got, remedy) from error


def people_of(data: TrainingData, rows: BoolArray) -> list[str]:
    """The person behind each of these rows."""
    return [data.recordings[i].person for i in data.recording[rows].tolist()]


def fit(
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

    detector = make_detector(config)
    shows_progress = "progress" in inspect.signature(detector.fit).parameters
    extra = group_arguments(detector, people)
    if shows_progress:
        extra["progress"] = lambda done, total: progress(stage, done, total)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            scaler = fit_scaler(X, config.scaler)
            detector.fit(scaler.transform(X), **extra)
        except (ValueError, TypeError, AttributeError) as error:
            if not isinstance(error, ValueError) and not config.detector.params:
                raise  # no parameter of a wrong kind: our own fault
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
