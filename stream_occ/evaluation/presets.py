"""Detectors of this package as methods of evaluation: the default model, a model configuration, or a preset by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from stream_occ import features
from stream_occ.errors import DataError, UsageError, nearest
from stream_occ.evaluation.extraction import FrontEnd
from stream_occ.evaluation.methods import BASELINES
from stream_occ.evaluation.protocol import Method, ScoreWindows, Windows
from stream_occ.samples import FloatArray, IntArray
from stream_occ.training.config import TrainingConfig
from stream_occ.training.fitting import with_params

DEFAULT_KEY = "default"


@dataclass(frozen=True)
class DetectorMethod:
    """A preset with its scaler, both fitted on the training windows, scored as the running service scores.

    An ensemble that votes is scored by the share of rejecting members. stride: every how many windows of a recording
    one is trained on.
    """

    key: str
    preset: str = "working"
    params: dict[str, Any] = field(default_factory=dict)
    scaling: str = "min-max"
    stride: int = 1
    max_windows: int = 50_000
    feature_names: tuple[str, ...] | None = None

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """Fits scaler and detector; the score is that of the frozen scorer, which the model file would carry."""
        from stream_occ.detectors._base import on_landmarks
        from stream_occ.detectors.scaling import fit_scaler
        from stream_occ.detectors.selection import group_arguments

        detector = self.make(seed)
        rows = self._rows(normal, seed)
        X, people = normal.X[rows], [normal.subject[i] for i in rows]
        on_landmarks(detector, len(X))
        scaler = fit_scaler(X, self.scaling)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # tuning at the edge of its grid, once a fit: docs/results.md says so
            try:
                detector.fit(scaler.transform(X), **group_arguments(detector, people))
            except ValueError as error:
                raise DataError(
                    f"method {self.key}", "suit the training windows", str(error), "Leave it out of --methods"
                ) from error
        scorer = detector.to_scorer()

        def score(windows: Windows) -> FloatArray:
            if not len(windows):
                return np.empty(0)
            scores: FloatArray = scorer.score(scaler.transform(windows.X))
            return scores

        return score

    def make(self, seed: int) -> Any:
        """The unfitted detector; ConfigError for parameters that it does not have."""
        from stream_occ.detectors import preset

        detector = preset(self.preset, random_state=seed % 2**32, n_jobs=1, feature_names=self.feature_names)
        return with_params(detector, self.preset, self.params)

    def _rows(self, normal: Windows, seed: int) -> IntArray:
        """Rows to train on: every stride-th of each recording, at most max_windows of them, drawn with the seed."""
        starts = np.flatnonzero(np.diff(normal.recording, prepend=-1))
        lengths = np.diff(np.append(starts, len(normal)))
        position = np.arange(len(normal)) - np.repeat(starts, lengths)
        rows: IntArray = np.flatnonzero(position % self.stride == 0).astype(np.int64)
        if rows.size > self.max_windows:
            rows = np.sort(np.random.default_rng([seed, 1]).choice(rows, self.max_windows, replace=False))
        return rows


def note_of_landmarks(methods: Sequence[Method], n_windows: int) -> list[str]:
    """A line that names the methods which folds of n_windows normal windows, or most of them, make fit on landmarks."""
    from stream_occ.detectors._base import MOST_EXACT_ROWS, N_LANDMARKS, on_landmarks

    own = [method for method in methods if isinstance(method, DetectorMethod)]
    named = [m.key for m in own if on_landmarks(m.make(0), min(n_windows // m.stride, m.max_windows))]
    where = f"where a fold trains on more than {MOST_EXACT_ROWS} windows"
    return [f"{', '.join(named)}: fitted on {N_LANDMARKS} landmarks {where}"] if named else []


def default_method(config: TrainingConfig) -> tuple[DetectorMethod, FrontEnd]:
    """The method `default`: what `stream-occ train` makes of the configuration, with people held out here."""
    config = config.resolved()
    front_end = FrontEnd(config.feature_set, config.rate_hz, config.window_s, config.hop_s)
    method = DetectorMethod(
        DEFAULT_KEY,
        config.detector.name,
        dict(config.detector.params),
        config.scaler,
        max(1, round((config.train_hop_s or config.hop_s) / config.hop_s)),
        config.limits.max_windows,
        features.load(config.feature_set).NAMES,
    )
    return method, front_end


def methods_of(names: Sequence[str], config: TrainingConfig) -> tuple[list[Method], FrontEnd]:
    """Methods by name: `default`, a baseline or a preset (scaled as its paper does); UsageError for an unknown one.

    All see the windows and features of the model configuration. A name given twice counts once.
    """
    from stream_occ.detectors import preset_names, preset_scaling

    default, front_end = default_method(config)
    known: dict[str, Method] = {DEFAULT_KEY: default, **BASELINES}
    for name in preset_names():
        known[name] = replace(default, key=name, preset=name, params={}, scaling=preset_scaling(name))
    unknown = [name for name in names if name not in known]
    if unknown:
        remedy = nearest(unknown[0], known, "Separate names by commas")
        raise UsageError("--methods", f"be among {', '.join(known)}", repr(unknown[0]), remedy)
    chosen = [known[name] for name in dict.fromkeys(names)]
    if not chosen:
        raise UsageError("--methods", "name at least one method", "none", "Leave it out for the default ones")
    default.make(0)
    return chosen, front_end
