"""A model small enough to follow by hand: two features of a 0.4 s window, score = their largest size."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stream_occ.scoring import Model, Scaler
from stream_occ.windowing import as_batch


@dataclass(frozen=True)
class ToyFeatures:
    """Last acc x and mean gyr z of a window."""

    name: str = "toy"
    version: int = 1
    NAMES: tuple[str, ...] = ("last_acc_x_ms2", "mean_gyr_z_rads")
    lowpass_hz: float | None = None
    min_rate_hz: float = 0.0
    min_stream_hz: float = 0.0
    min_window_s: float | None = None

    def extract(self, windows):
        signals = as_batch(windows).signals
        return np.stack([signals[:, 0, -1], np.ascontiguousarray(signals[:, 5]).mean(axis=-1)], axis=1)


@dataclass(frozen=True)
class ToyScorer:
    """Largest absolute feature."""

    KIND: ClassVar[str] = "toy"
    n_features: int = 2

    def score(self, X):
        return np.abs(X).max(axis=1)

    def arrays(self):
        return {}

    def params(self):
        return {}


def toy_model(threshold=9.0, *, rate_hz=50.0, window_s=0.4, hop_s=0.1, sos=None, min_window_s=None):
    """20-sample windows every 5 samples at 50 Hz; an outlier where |last acc x| or |mean gyr z| exceeds threshold."""
    scaler = Scaler("z-score", np.zeros(2), np.ones(2))
    return Model(
        "toy", ToyFeatures(min_window_s=min_window_s), rate_hz, window_s, hop_s, sos, scaler, ToyScorer(), threshold
    )
