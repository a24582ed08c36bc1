"""A scorer and a feature set small enough to score by hand, registered as if they were files of the package."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from stream_occ.errors import ModelError
from stream_occ.scoring import Model, Scaler

FEATURE_NAMES = ("acc_mean", "acc_max", "gyr_mean")


class FrozenScorer:
    """Squared distance to a centre, plus a bonus per row from a small table; enough to need arrays and parameters."""

    KIND: ClassVar[str] = "fake_distance"

    def __init__(self, center: np.ndarray, power: int) -> None:
        self.center, self.power = center, power

    @property
    def n_features(self) -> int:
        return int(self.center.shape[0])

    def score(self, X: np.ndarray) -> np.ndarray:
        return (np.abs(X - self.center) ** self.power).sum(axis=1)

    def arrays(self) -> dict[str, np.ndarray]:
        return {"center": self.center, "table": np.arange(5, dtype=np.uint8)}

    def params(self) -> dict[str, Any]:
        return {"power": self.power}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], params: dict[str, Any]) -> FrozenScorer:
        if arrays["center"].ndim != 1 or params["power"] not in (1, 2):
            raise ModelError("fake_distance", "have power 1 or 2", repr(params["power"]), "Train the model again")
        return cls(arrays["center"], params["power"])


@dataclass(frozen=True)
class FakeFeatureSet:
    """Three plain features: mean and largest |a|, mean |w|."""

    name: str = "fake3"
    version: int = 7
    NAMES: tuple[str, ...] = FEATURE_NAMES
    lowpass_hz: float | None = None
    min_rate_hz: float = 10.0
    min_stream_hz: float = 10.0
    min_window_s: float | None = None

    def extract(self, windows: Any) -> np.ndarray:
        acc = np.sqrt((windows.signals[:, :3] ** 2).sum(axis=1))
        gyr = np.sqrt((windows.signals[:, 3:] ** 2).sum(axis=1))
        return np.column_stack([acc.mean(axis=1), acc.max(axis=1), gyr.mean(axis=1)])


def register(feature_set: FakeFeatureSet | None = None) -> None:
    """Makes `fake_distance` and `fake3` loadable by name."""
    scorer_module = ModuleType("stream_occ.scoring.fake_distance")
    scorer_module.FrozenScorer = FrozenScorer
    sys.modules["stream_occ.scoring.fake_distance"] = scorer_module
    feature_module = ModuleType("stream_occ.features.fake3")
    feature_module.FEATURE_SET = feature_set or FakeFeatureSet()
    sys.modules["stream_occ.features.fake3"] = feature_module


def make_model(**changes: Any) -> Model:
    """A model whose score of a row x is sum(|(x - 1) / 2|**2); threshold 3."""
    register()
    fields: dict[str, Any] = {
        "model_id": "",
        "feature_set": FakeFeatureSet(),
        "rate_hz": 50.0,
        "window_s": 5.0,
        "hop_s": 0.5,
        "sos": np.array([[0.1, 0.2, 0.0, 1.0, -0.7, 0.0]]),
        "scaler": Scaler("z-score", np.ones(3), np.full(3, 2.0)),
        "scorer": FrozenScorer(np.zeros(3), 2),
        "threshold": 3.0,
        "metadata": {"training": {"n_windows": 12, "note": "naïve, 5 % <b>"}, "seed": 0},
    }
    return Model(**{**fields, **changes})


SELF_TEST_X = np.array([[1.0, 1.0, 1.0], [3.0, 1.0, 1.0], [5.0, 3.0, -1.0]])
SELF_TEST_SCORES = [0.0, 1.0, 6.0]
