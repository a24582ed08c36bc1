"""The default beside the first study that issue 4 quotes: python benchmarks/first_study.py mobifall mobifall.zip

The study: mean distance to 5 neighbours on 22 log-scaled, z-scored features of windows of 5 s, people held out by 5
folds, a recording scored by its largest window. Its code is not at hand: this is what its text says, with the hop,
floors of logarithms, resampling and pooling of the package, and no filter, for its bands end at 25 Hz. The text counts
22 features and lists 23; as log peak |a| is "added" on the wrist, the log of the largest |a| may be the one too many:
there is a row for either reading. Fewer folds where there are fewer people.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from stream_occ.datasets import open_dataset
from stream_occ.evaluation import Method, Trial, metrics
from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.evaluation.methods import BASELINES
from stream_occ.evaluation.presets import methods_of
from stream_occ.evaluation.protocol import N_GROUPS, Job, assign_groups, folds, kinds_of_people, plan, pool_trials
from stream_occ.features import fall31
from stream_occ.samples import FloatArray, Recording
from stream_occ.training.config import load_training_config

FRONT_END = FrontEnd("khan31r-nofilter", 50.0, 5.0, 0.5)
GRAVITY_MS2 = 9.80665
BANDS_HZ = (0.3, 1.5, 3.5, 8.0, 25.0)
REJECT_SHARE = 0.05
KNN = BASELINES["knn5"]
STUDIES = {"22 features (no max)": slice(1, 23), "23 features": slice(0, 23), "log peak added": slice(0, 24)}


def study_features(acc_gyr: FloatArray, rate_hz: float) -> FloatArray:
    """The first study's features (n, 23) of windows (n, 6, m)."""
    signals = fall31.prepare(acc_gyr, rate_hz)
    a, w, q = signals.a, signals.w, signals.quarter
    jerk = np.sqrt((np.diff(signals.acc, axis=-1) ** 2).sum(axis=1)) * rate_hz
    path = np.cumsum(a - GRAVITY_MS2, axis=-1) / rate_hz
    bands, entropy = _spectrum(a - a.mean(axis=-1, keepdims=True), rate_hz)
    logs = [
        (a.max(axis=-1), 0.1),
        (a.std(axis=-1), 0.05),
        *((size, 0.02) for size in (w.max(axis=-1), w.mean(axis=-1), w.std(axis=-1))),
        *((size, 1.0) for size in (jerk.max(axis=-1), jerk.mean(axis=-1))),
        *((part.std(axis=-1), 0.05) for part in (a[:, :q], a[:, -q:])),
        *((part.mean(axis=-1), 0.02) for part in (w[:, :q], w[:, -q:])),
        *((band, 4e-4) for band in bands),
        (_kurtosis(a), 1.0),
        ((a.max(axis=-1) - signals.median_a) / (np.median(signals.deviation, axis=-1) + 0.1), 0.1),
    ]
    tilt = fall31.tilt(signals)[:, 0]
    lowest = path.min(axis=-1)
    plain = [a.min(axis=-1), tilt, lowest, path.max(axis=-1) - lowest, entropy, fall31.periodicity(signals)[:, 0]]
    return np.stack([*(np.log(np.maximum(size, 0.0) + floor) for size, floor in logs), *plain], axis=1)


def _spectrum(centred: FloatArray, rate_hz: float) -> tuple[list[FloatArray], FloatArray]:
    """Mean squares in the bands under a Hann window, and the spectral entropy from the first to the last of them."""
    m = centred.shape[-1]
    power = np.abs(np.fft.rfft(centred * np.hanning(m), axis=-1)) ** 2 * (2.0 / (0.375 * m**2))
    edges = np.searchsorted(np.fft.rfftfreq(m, 1 / rate_hz), BANDS_HZ)
    bands = [power[:, low:high].sum(axis=-1) for low, high in pairwise(edges)]
    whole = power[:, edges[0] : edges[-1]] + 1e-12
    share = whole / whole.sum(axis=-1, keepdims=True)
    return bands, -(share * np.log(share)).sum(axis=-1) / np.log(share.shape[-1])


def _kurtosis(a: FloatArray) -> FloatArray:
    z = (a - a.mean(axis=-1, keepdims=True)) / np.maximum(a.std(axis=-1, keepdims=True), 0.05)
    kurtosis: FloatArray = (z**4).mean(axis=-1)
    return kurtosis


def study_trial(recording: Recording) -> Trial:
    """A recording as the package cuts it, with the study's features and the log of the peak |a| in the last column."""
    trial, batches = extract_trial(recording, FRONT_END), FRONT_END.cut(recording)
    X = np.empty((0, 24))
    if len(trial):
        rows = np.concatenate([study_features(batch.signals, batch.rate_hz) for batch in batches])
        X = np.column_stack([rows, np.log(trial.peak_acc_ms2 + 0.1)])
    return replace(trial, X=X)


@dataclass(frozen=True)
class Run:
    """Every fit of the protocol of `stream-occ evaluate`, and its scores of all recordings of the groups left out."""

    trials: list[Trial]
    group_of: dict[str, int]
    scores: list[tuple[Job, list[FloatArray]]]

    @classmethod
    def of(cls, trials: list[Trial], method: Method, seed: int = 0) -> Run:
        """Five groups of people; a person a group where there are fewer."""
        kinds = kinds_of_people(trials)
        n_groups = min(N_GROUPS, sum(has_normal for _, has_normal in kinds.values()))
        group_of = assign_groups(kinds, seed=seed, n_groups=n_groups)
        group = [group_of[trial.subject] for trial in trials]
        jobs = [
            replace(job, scored=tuple(i for i in range(len(trials)) if group[i] in job.left_out))
            for job in plan(trials, group_of, n_groups=n_groups)
        ]
        return cls(trials, group_of, [(job, job.run(method, trials, seed)) for job in jobs])

    def pooled(self) -> metrics.Scored:
        """Recordings by their largest window, thresholds and scales from normal recordings of training people alone."""
        normal = [self._normal(job, own) if len(job.left_out) > 1 else (job, own) for job, own in self.scores]
        found = folds(self.trials, self.group_of, normal, n_groups=max(self.group_of.values()) + 1)
        people = {person: i for i, person in enumerate(kinds_of_people(self.trials))}
        return pool_trials(self.trials, found, people, REJECT_SHARE)

    def _normal(self, job: Job, own: list[FloatArray]) -> tuple[Job, list[FloatArray]]:
        kept = [k for k, i in enumerate(job.scored) if not self.trials[i].is_fall]
        return replace(job, scored=tuple(job.scored[k] for k in kept)), [own[k] for k in kept]

    def inner(self) -> tuple[float, float]:
        """Trial AUC and falls at 1 % within each group h by the fit without it and g, averaged over all g and h.

        A choice made by them for the people of g has seen nothing of these people.
        """
        found = []
        for job, own in self.scores:
            for group in job.left_out if len(job.left_out) > 1 else ():
                kept = [k for k, i in enumerate(job.scored) if self.group_of[self.trials[i].subject] == group]
                top = np.array([own[k].max(initial=-np.inf) for k in kept])
                falls = np.array([self.trials[job.scored[k]].is_fall for k in kept])
                person = np.zeros(len(kept), dtype=np.int64)
                found.append(figures(metrics.Scored(top, person, falls, np.zeros(len(kept), dtype=bool), 1))[:2])
        auc, at_1pct = np.nanmean(found, axis=0)
        return float(auc), float(at_1pct)


def figures(items: metrics.Scored) -> tuple[float, float, float]:
    """Trial AUC, falls at 1 % false trials, gmean at the folds' own thresholds."""
    once = np.ones((1, items.n_people), dtype=np.int64)
    found = (metrics.auc(items, once), metrics.sensitivity_at_share(items, once, 0.01), metrics.gmean(items, once))
    return float(found[0][0]), float(found[1][0]), float(found[2][0])


def row(name: str, trials: list[Trial], method: Method, seed: int) -> str:
    """A row of the table: the figures, the normal recordings above the threshold, gmean at the best one."""
    items = Run.of(trials, method, seed).pooled()
    false_share = float(items.flagged[~items.is_fall].mean())
    return f"| {name} | {' | '.join(f'{value:.4f}' for value in (*figures(items), false_share, best_gmean(items)))} |"


def best_gmean(items: metrics.Scored) -> float:
    """The largest gmean of any one threshold, which is chosen on the tested recordings."""
    falls, normals = np.sort(items.score[items.is_fall]), np.sort(items.score[~items.is_fall])
    cuts = np.unique(items.score)
    flagged = 1 - np.searchsorted(falls, cuts, "right") / falls.size
    accepted = np.searchsorted(normals, cuts, "right") / normals.size
    return float(np.sqrt(flagged * accepted).max())


def rows(dataset: str, data: Path, variant: str | None, seed: int) -> Iterator[str]:
    """A row of the table for each method."""
    [default], front_end = methods_of(["default"], load_training_config(None))

    def trials_of(extract: Callable[[Recording], Trial]) -> list[Trial]:
        with open_dataset(dataset, data, variant=variant) as opened:
            return [extract(recording) for recording in opened.iter_recordings()]

    study = trials_of(study_trial)
    for name, columns in STUDIES.items():
        yield row(f"first study, {name}", [replace(trial, X=trial.X[:, columns]) for trial in study], KNN, seed)
    ours = trials_of(lambda recording: extract_trial(recording, front_end))
    yield row("peak_acc", ours, BASELINES["peak_acc"], seed)
    yield row("knn5 on the default's features", ours, KNN, seed)
    yield row("default", ours, default, seed)


def main() -> None:
    """Prints a Markdown table, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("data", type=Path)
    parser.add_argument("--variant", help="of a data set with several placements")
    parser.add_argument("--seed", type=int, default=0, help="of the groups of people (default 0)")
    options = parser.parse_args()
    print("| method | AUC | falls at 1 % | gmean | false trials | best gmean |\n|---|---|---|---|---|---|", flush=True)
    for line in rows(options.dataset, options.data, options.variant, options.seed):
        print(line, flush=True)


if __name__ == "__main__":
    main()
