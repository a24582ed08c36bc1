"""Small data sets in memory for tests of the trainer."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from stream_occ.datasets import LoadReport
from stream_occ.errors import DataError
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from stream_occ.training import TrainingConfig, train
from tests import fake_model

GRAVITY = 9.80665


def recording(subject: str = "1", activity: str = "walk", trial: str = "1", **changes: Any) -> Recording:
    """Twenty seconds of a swinging, turning sensor at 50 Hz; the same names give the same samples."""
    rate_hz, duration_s = changes.pop("rate_hz", 50.0), changes.pop("duration_s", 20.0)
    rng = np.random.default_rng([ord(c) for c in subject + activity + trial])
    t = np.arange(round(duration_s * rate_hz)) / rate_hz
    swing = 2.0 * np.sin(2 * np.pi * 1.5 * t + rng.uniform(0, 6))
    acc = np.column_stack([swing, 0.5 * swing, GRAVITY + swing]) + rng.normal(0, 0.3, (len(t), 3))
    gyr = np.column_stack([swing, -swing, 0.2 * swing]) + rng.normal(0, 0.1, (len(t), 3))
    t_ns = (t * NS_PER_S).astype(np.int64)
    acc, gyr = changes.pop("acc", lambda a: a)(acc), changes.pop("gyr", lambda w: w)(gyr)
    whole = Recording("fake", subject, activity, trial, False, None, "waist", SampleBlock("d", t_ns, acc, gyr))
    return dataclasses.replace(whole, **changes)


class Source:
    """A data set in memory; counts how often a block was looked at through `iter_recordings`."""

    name = "fake"

    def __init__(self, recordings: list[Recording]) -> None:
        self.recordings, self.report = recordings, LoadReport("fake")

    @property
    def n_files(self) -> int:
        return len(self.recordings)

    def iter_recordings(self) -> Iterator[Recording]:
        yield from self.recordings


def people(n: int = 4, **changes: Any) -> list[Recording]:
    return [recording(str(i), activity, **changes) for i in range(n) for activity in ("sit", "walk")]


def config(**changes: Any) -> TrainingConfig:
    """The small feature set, a fast detector and windows of 5 s."""
    fake_model.register()
    fields: dict[str, Any] = {
        "feature_set": "fake3",
        "detector": {"name": "11NN"},
        "scaler": "z-score",
        "window_s": 5.0,
    }
    return TrainingConfig.model_validate({**fields, **changes})


def refusal(recordings: list[Recording], error: type[Exception] = DataError, **changes: Any) -> str:
    with pytest.raises(error) as caught:
        train([Source(recordings)], config(**changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)
