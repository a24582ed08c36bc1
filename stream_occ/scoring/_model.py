"""A trained model in memory: how to cut and filter a stream, which features, which scaler, scorer and threshold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_occ.features import FeatureSet, slowest_stream_hz
from stream_occ.samples import Contributions, FloatArray
from stream_occ.scoring._base import Scorer
from stream_occ.scoring._explanation import Explainer


@dataclass(frozen=True, slots=True, eq=False)
class Scaler:
    """(x - center) / scale, column by column; `kind` is min-max, z-score or robust; scale is never 0."""

    kind: str
    center: FloatArray
    scale: FloatArray

    def transform(self, X: FloatArray) -> FloatArray:
        """Scaled rows (n, d); elementwise, so independent of the batch."""
        scaled: FloatArray = (X - self.center) / self.scale
        return scaled


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """All that `detect` needs. A window is an outlier where score > threshold.

    sos: float64 (n_sections, 6) second-order sections applied to each axis on the resampled stream, or None.
    metadata: JSON-serialisable (training summary, seed, data hash, library versions, calibration, placement).
    """

    model_id: str
    feature_set: FeatureSet
    rate_hz: float
    window_s: float
    hop_s: float
    sos: FloatArray | None
    scaler: Scaler
    scorer: Scorer
    threshold: float
    metadata: dict[str, Any] = field(default_factory=dict)
    _explainer: Explainer = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_explainer", Explainer(self.scorer, self.feature_set.NAMES))

    @property
    def blindness(self) -> str:
        """Why the trainer says that the model tells nothing apart ("accepts all 200 ..."); empty for all others."""
        training = self.metadata.get("training")
        return str(training.get("blind", "")) if isinstance(training, dict) else ""

    @property
    def min_stream_hz(self) -> float:
        """The slowest measured rate of a stream whose windows tell what is normal."""
        return slowest_stream_hz(self.rate_hz, self.feature_set)

    @property
    def min_window_s(self) -> float | None:
        """The shortest window by which a stream is judged that ends before a whole one; None: it is not."""
        return self.feature_set.min_window_s

    def score_features(self, X: FloatArray) -> FloatArray:
        """Scores (n,), high = abnormal, of unscaled feature rows X (n, d); each row alone decides its score."""
        if X.shape[0] == 0:
            return np.empty(0)
        return self.scorer.score(self.scaler.transform(X))

    def judge(self, X: FloatArray) -> tuple[FloatArray, list[Contributions]]:
        """Scores as `score_features`, to the bit, and of each row the features that did most for it.

        At most 5, each (name, robust z against the nearest normal rows), the most first: see `scoring._explanation`.
        """
        if X.shape[0] == 0:
            return np.empty(0), []
        return self._explainer.judge(self.scaler.transform(X))

    def warm(self) -> None:
        """Does what the first window would do once, searches planted and kernels loaded, before it comes."""
        self.judge(self.scaler.center[None])
