"""Recordings as paper 1 uses them: windows with half overlap, khan31r features, windows of falls as outliers.

The paper's own list of 31 features is not known. People without activities are dropped, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stream_occ import features
from stream_occ.datasets import open_dataset
from stream_occ.errors import DataError
from stream_occ.samples import NS_PER_S, BoolArray, FloatArray, Recording
from stream_occ.windowing import WindowBatch, cut_windows

RATE_HZ = 50.0  # khan31r asks for more than 40; the paper resamples nothing
FEATURE_SET = "khan31r"

__all__ = ["SENSOR_SETS", "SensorSet", "sensor_windows"]


@dataclass(frozen=True, slots=True)
class SensorSet:
    """How one set's recordings are read: loader, window length (half overlap), and the people used, None for all."""

    loader: str
    window_s: float
    people: frozenset[str] | None = None


SENSOR_SETS: Mapping[str, SensorSet] = {
    # mf: the nine people of the set's first version who have activities
    "mf": SensorSet("mobifall", 3.0, frozenset({"2", "3", "4", "5", "7", "8", "9", "10", "11"})),
    "dlr": SensorSet("csv", 1.28),
    "cov": SensorSet("csv", 2.56),
}


def sensor_windows(
    name: str, path: Path, *, progress: Callable[[str, int, int], None] = lambda stage, done, total: None
) -> tuple[FloatArray, BoolArray]:
    """Features (n, 31) of the set's windows, and y (n,) True for those of falls; DataError where none is left.

    Windows that overlap an annotated fall are outliers; without annotation every window of a fall recording is.
    """
    chosen, feature_set = SENSOR_SETS[name], features.load(FEATURE_SET)
    sos = features.design_lowpass(feature_set, RATE_HZ)
    rows, outlier, subjects = [np.empty((0, len(feature_set.NAMES)))], [np.empty(0, dtype=bool)], []
    with open_dataset(chosen.loader, path) as dataset:
        for done, recording in enumerate(dataset.iter_recordings(), start=1):
            progress(f"Reading {name}", done, dataset.n_files)
            if chosen.people is not None and recording.subject not in chosen.people:
                continue
            length_s = chosen.window_s
            batch = cut_windows(recording.block, rate_hz=RATE_HZ, window_s=length_s, hop_s=length_s / 2, sos=sos)
            if len(batch):
                X = feature_set.extract(batch)
                usable = np.isfinite(X).all(axis=1)
                rows.append(X[usable])
                outlier.append(_of_fall(recording, batch)[usable])
                subjects += [recording.subject] * int(usable.sum())
    X, y, subject = np.concatenate(rows), np.concatenate(outlier), np.array(subjects)
    kept = np.isin(subject, subject[~y])
    if not kept.any():
        raise DataError(str(path), f"hold normal activities for {name}", "none", "See docs/reproduction.md")
    return X[kept], y[kept]


def _of_fall(recording: Recording, batch: WindowBatch) -> BoolArray:
    if not recording.is_fall or recording.fall_interval_ns is None:
        return np.full(len(batch), recording.is_fall)
    start_ns, end_ns = recording.fall_interval_ns
    last_ns = batch.t_start_ns + round((batch.n_samples - 1) * NS_PER_S / batch.rate_hz)
    overlaps: BoolArray = (batch.t_start_ns <= end_ns) & (last_ns >= start_ns)
    return overlaps
