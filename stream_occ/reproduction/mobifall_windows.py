"""MobiFall as paper 1 uses it: 3 s windows with half overlap of nine people; every window of a fall is an outlier."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_occ import features
from stream_occ.datasets import open_dataset
from stream_occ.errors import DataError
from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.samples import FloatArray
from stream_occ.training.config import TrainingConfig
from stream_occ.windowing import cut_windows

PEOPLE = frozenset({"2", "3", "4", "5", "7", "8", "9", "10", "11"})  # those of the set's first version with activities
WINDOW_S = 3.0
HOP_S = 1.5

__all__ = ["mobifall_windows"]


def mobifall_windows(
    path: Path, *, progress: Callable[[str, int, int], None] = lambda stage, done, total: None
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """khan31r features (n, 31) at the rate that training uses by default, and y (n,) True for windows of falls.

    The paper's own list of 31 features is not known; people without activities are dropped, as there.
    """
    feature_set, rate_hz = features.load("khan31r"), TrainingConfig().rate_hz
    sos = None if feature_set.lowpass_hz is None else butter1_lowpass_sos(feature_set.lowpass_hz, rate_hz)
    rows, is_fall, subjects = [], [], []
    with open_dataset("mobifall", path) as dataset:
        for done, recording in enumerate(dataset.iter_recordings(), start=1):
            progress("Reading MobiFall", done, dataset.n_files)
            if recording.subject not in PEOPLE:
                continue
            batch = cut_windows(recording.block, rate_hz=rate_hz, window_s=WINDOW_S, hop_s=HOP_S, sos=sos)
            if len(batch):
                X = feature_set.extract(batch)
                rows.append(X[np.isfinite(X).all(axis=1)])
                is_fall += [recording.is_fall] * len(rows[-1])
                subjects += [recording.subject] * len(rows[-1])
    y, subject = np.array(is_fall, dtype=bool), np.array(subjects)
    kept = np.isin(subject, subject[~y])
    if not kept.any():
        raise DataError(str(path), "hold activities of subjects 2 to 11", "none", "Give MobiFall as it is distributed")
    return np.concatenate(rows)[kept], y[kept]
