"""Windows to measure with: synthetic ones of few intrinsic dimensions, or those of recorded people."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from stream_occ.samples import FloatArray

N_FEATURES = 31
N_TESTED = 512

__all__ = ["Rows", "recorded_rows", "synthetic_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Scaled feature rows: training windows, other normal windows and falls."""

    name: str
    train: FloatArray
    normal: FloatArray
    fall: FloatArray


def synthetic_rows(n_rows: int, *, intrinsic: int = 8, seed: int = 0) -> Rows:
    """Rows on a curved surface of `intrinsic` dimensions in 31, with noise; falls are moved off it by 1 a feature."""
    rng = np.random.default_rng(seed)
    latent = rng.normal(size=(n_rows + 2 * N_TESTED, intrinsic))
    X = np.tanh(latent @ rng.normal(size=(intrinsic, N_FEATURES)) / 2.0)
    X = 0.5 + 0.5 * (X + 0.02 * rng.normal(size=X.shape))
    fall = X[n_rows + N_TESTED :] + rng.normal(size=(N_TESTED, N_FEATURES))
    return Rows(f"synthetic, {intrinsic} dimensions", X[:n_rows].copy(), X[n_rows : n_rows + N_TESTED].copy(), fall)


def recorded_rows(dataset: str, path: Path, n_rows: int) -> Rows:
    """Windows of a data set, every quarter of a second; a fifth of the people are not trained on."""
    from stream_occ import datasets
    from stream_occ.detectors import fit_scaler
    from stream_occ.evaluation.extraction import FrontEnd, extract_trials

    trials = extract_trials(
        datasets.open_dataset(dataset, path).iter_recordings(), FrontEnd("fall31", window_s=4.5, hop_s=0.25)
    )
    people = sorted({trial.subject for trial in trials})
    tested = set(people[::5])
    train = np.concatenate([trial.X for trial in trials if not trial.is_fall and trial.subject not in tested])
    normal = np.concatenate([trial.X for trial in trials if not trial.is_fall and trial.subject in tested])
    fall = np.concatenate([trial.X[trial.overlaps_fall] for trial in trials if trial.is_fall])
    rng = np.random.default_rng(0)
    some = (rng.permutation(train)[:n_rows], rng.permutation(normal)[:N_TESTED], rng.permutation(fall)[:N_TESTED])
    scaler = fit_scaler(some[0], "min-max")
    return Rows(dataset, *(scaler.transform(X) for X in some))
