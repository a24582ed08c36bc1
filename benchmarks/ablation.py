"""What each choice of the default detector is worth: python benchmarks/ablation.py mobifall mobifall.zip

Development figures behind docs/results.md: windows, features, scalers, novelty detectors, and forms, weights and scales
of the fusion, each with people held out by the very protocol of `stream-occ evaluate`, and within the training people
once more (inner_*). Detectors, scalers, windows and features are the package's own; only what puts novelty and evidence
together is written anew, to be changed. Constants of `fall31` are varied in a copy of its source. `--only novelty` runs
one of the tables; all of them take about two hours a set.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from constants import CONSTANTS, varied
from first_study import Run, figures

from stream_occ import motion
from stream_occ.datasets import open_dataset
from stream_occ.detectors import OCNN, EvidenceFusion, MultiLayerKRR, RandomProjectionEnsemble, fusion
from stream_occ.detectors._base import as_generator
from stream_occ.detectors.calibration import group_folds
from stream_occ.detectors.fusion import nearest_neighbours
from stream_occ.detectors.scaling import fit_scaler
from stream_occ.evaluation import Trial, Windows
from stream_occ.evaluation.extraction import FrontEnd, extract_trials
from stream_occ.evaluation.protocol import ScoreWindows
from stream_occ.features.fall31 import FAMILIES, NAMES
from stream_occ.samples import BoolArray, FloatArray, IntArray, Recording
from stream_occ.scoring.evidence_fusion import LEAST_EVIDENCE
from stream_occ.windowing import WindowBatch

EVIDENCE = ("log_max_dynamic_acc", "log_peak_over_mad")
WINDOWS_S = (3.0, 4.0, 4.5, 5.0, 6.0)
WINDOW_S, HOP_S = 5.0, 0.5
MOVING = ("log_mean_jerk", "log_mean_gyr", "log_median_dynamic_acc", "log_max_acc")
AFTERMATH = ("log_max_dynamic_acc", "tilt_first_last")
NOVELTY_WEIGHT = 2.0  # of the table `evidence` alone: about what the default's fit finds
EXTRA = [
    NAMES.index(name) for name in (*EVIDENCE, "tilt_first_last", "max_tilt_2s", "spectral_entropy", "log_std_acc_last")
]
APART = ((1, 1, 1), (2, 1, 1), (1, 2, 1), (1, 1, 2), (0.5, 1, 1), (1, 0.5, 1), (1, 1, 0.5))  # hard, alone, aftermath
MOTIONLESS = (  # m/s2, rad/s: first the default
    (motion.MOTIONLESS_ACC_MS2, motion.MOTIONLESS_GYR_RADS),
    *((acc_ms2, motion.MOTIONLESS_GYR_RADS) for acc_ms2 in (0.02, 0.05, 0.2, 0.5)),
    *((motion.MOTIONLESS_ACC_MS2, gyr_rads) for gyr_rads in (0.005, 0.01, 0.05, 0.1)),
    (2 * motion.MOTIONLESS_ACC_MS2, 2 * motion.MOTIONLESS_GYR_RADS),
    (5 * motion.MOTIONLESS_ACC_MS2, 5 * motion.MOTIONLESS_GYR_RADS),
)
HOPS_S = (0.5, 1.0, 0.25)
FIGURES = ("trial_auc", "trial_sensitivity_at_1pct", "trial_gmean", "inner_auc", "inner_sensitivity_at_1pct")

Score = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Form:
    """Scores (n,) of z (n, 1 + e): weight times novelty, and evidence. Without a weight novelty counts as much as all
    evidence."""

    evidence: Score
    weight: float | None = None

    def fit(self, z: FloatArray, quantiles: tuple[float, float]) -> Score:
        """The score, its weight from z of normal rows."""
        weight = self.weight
        if weight is None:
            center, upper = np.quantile(self.evidence(z), quantiles)
            weight = max(1.0, float(upper - center))
        return lambda z: weight * z[:, 0] + self.evidence(z)


def _above(z: FloatArray, least: float = LEAST_EVIDENCE) -> FloatArray:
    return np.maximum(z, least)


def _together(*columns: FloatArray) -> FloatArray:
    """Evidence of columns that must come together."""
    return _above(np.minimum.reduce(columns))


def _parts(z: FloatArray) -> FloatArray:
    """Hardness, loneliness and aftermath (n, 3)."""
    return np.column_stack([z[:, [ACC, ALONE]], np.minimum(z[:, ACC], z[:, TILT])])


def _evidence(z: FloatArray, weights: Sequence[float] = (1.0, 1.0, 1.0), least: float = LEAST_EVIDENCE) -> FloatArray:
    """The default's, or with other weights, or from another least on."""
    total: FloatArray = _above(_parts(z), least) @ np.array(weights)
    return total


def _impact(z: FloatArray) -> FloatArray:
    """The default's without its aftermath."""
    return _evidence(z, (1, 1, 0))


def _logs(least: float) -> Form:
    """Sum of logs of the four parts, each taken from 0 on and raised by `least`."""

    def score(z: FloatArray) -> FloatArray:
        total: FloatArray = np.log(_above(np.column_stack([z[:, 0], _parts(z)]), 0.0) + least).sum(axis=1)
        return total

    return Form(score, 0.0)


ACC, ALONE, TILT, TILT_2S, ENTROPY, MOVES_LAST = range(1, 7)  # columns of z behind novelty, in the order of EXTRA
FORMS: Mapping[str, Form] = {
    "novelty + hardness + loneliness + aftermath (default)": Form(_evidence),
    "novelty weighs 1": Form(_evidence, 1.0),
    "novelty weighs 1.5": Form(_evidence, 1.5),
    "novelty weighs 2 (default before)": Form(_evidence, 2.0),
    "novelty weighs 3": Form(_evidence, 3.0),
    "novelty alone": Form(lambda z: 0.0 * z[:, 0], 1.0),
    "evidence alone": Form(_evidence, 0.0),
    "without log_max_dynamic_acc alone": Form(lambda z: _evidence(z, (0, 1, 1))),
    "without log_peak_over_mad": Form(lambda z: _evidence(z, (1, 0, 1))),
    "without aftermath": Form(_impact),
    "aftermath: tilt_first_last alone": Form(lambda z: _impact(z) + _above(z[:, TILT])),
    "aftermath: impact and max_tilt_2s": Form(lambda z: _impact(z) + _together(z[:, ACC], z[:, TILT_2S])),
    "aftermath: impact and little of log_std_acc_last": Form(
        lambda z: _impact(z) + _together(z[:, ACC], -z[:, MOVES_LAST])
    ),
    "aftermath: little of log_std_acc_last alone": Form(lambda z: _impact(z) + _above(-z[:, MOVES_LAST])),
    "aftermath: tilt_first_last and log_peak_over_mad": Form(lambda z: _impact(z) + _together(z[:, ALONE], z[:, TILT])),
    "aftermath: tilt_first_last and novelty": Form(lambda z: _impact(z) + _together(z[:, 0], z[:, TILT])),
    "spectral_entropy for the aftermath": Form(lambda z: _impact(z) + _above(z[:, ENTROPY])),
    "spectral_entropy, novelty weighs 1": Form(lambda z: _impact(z) + _above(z[:, ENTROPY]), 1.0),
    "with spectral_entropy": Form(lambda z: _evidence(z) + _above(z[:, ENTROPY])),
    "with spectral_entropy, novelty weighs 2": Form(lambda z: _evidence(z) + _above(z[:, ENTROPY]), 2.0),
    "with impact and spectral_entropy": Form(lambda z: _evidence(z) + _together(z[:, ACC], z[:, ENTROPY])),
    "evidence from -1 on": Form(lambda z: _evidence(z, least=-1.0)),
    "evidence from 0 on": Form(lambda z: _evidence(z, least=0.0)),
    "evidence two-sided": Form(lambda z: _evidence(z, least=-np.inf)),
    "sum of log(max(z, 0) + .2)": _logs(0.2),
    "sum of log(max(z, 0) + 1)": _logs(1.0),
    "smallest of the four": Form(lambda z: np.minimum.reduce(z[:, [0, ACC, ALONE, TILT]], axis=1), 0.0),
}


@dataclass(frozen=True)
class Fitted:
    """One fit: held-out novelty and evidence (n, 1 + e) of its training rows, all columns of them, and of new rows."""

    held_out: FloatArray
    rows: FloatArray
    raw: Callable[[FloatArray], FloatArray]


@dataclass(frozen=True)
class Variant:
    """What EvidenceFusion does with a novelty detector on some columns under a scaler, put together by `form`.

    Its arithmetic is repeated here (the row of the default shows that it is the same), so that variants which differ
    in form, quantiles or what counts as moving share their fits, by the seed of the fit, in `fits`. moving: the column
    by which a row moves, from this part of the way between its two `ranges` on. rest_share: resting
    rows count so often that they make up this share where scales are set, as in a day of living. columns_of: of all
    features, what may be evidence.
    """

    key: str
    novelty: Callable[[], Any] = nearest_neighbours
    columns: tuple[str, ...] = NAMES
    scaling: str = "z-score"
    stride: int = 1
    n_folds: int = EvidenceFusion().n_folds
    quantiles: tuple[float, float] = (fusion.CENTER_QUANTILE, fusion.UPPER_QUANTILE)
    ranges: tuple[float, float] | None = fusion.RANGE_QUANTILES
    moving: str = "log_std_acc"
    moving_from: float = 0.5
    rest_share: float | None = None
    form: Form = Form(_evidence)
    columns_of: Callable[[FloatArray], FloatArray] = lambda X: X[:, EXTRA]
    fits: dict[int, Fitted] = field(default_factory=dict)

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """Fits on normal windows, or takes the fit of a variant that shares it."""
        if seed not in self.fits:
            self.fits[seed] = self._fitted(normal, seed)
        fitted = self.fits[seed]
        counted = self._counted(fitted.rows[:, NAMES.index(self.moving)])
        center, upper = np.quantile(fitted.held_out[counted], self.quantiles, axis=0)
        score = self.form.fit((fitted.held_out[counted] - center) / (upper - center), self.quantiles)
        return lambda windows: score((fitted.raw(windows.X) - center) / (upper - center))

    def _counted(self, column: FloatArray) -> IntArray:
        """Numbers of the rows that the scales are of, a row as often as it counts."""
        counted = np.arange(len(column))
        if self.rest_share is not None:
            is_rest = ~fusion.moves(column)
            n_rest = round((~is_rest).sum() * self.rest_share / (1 - self.rest_share))
            counted = np.concatenate([counted[~is_rest], np.resize(counted[is_rest], n_rest)])
        if self.ranges is None:
            return counted
        low, high = np.quantile(column[counted], self.ranges)
        moving: IntArray = counted[column[counted] > low + self.moving_from * (high - low)]
        return moving

    def _fitted(self, normal: Windows, seed: int) -> Fitted:
        """Evidence comes from all columns, unscaled, novelty from the chosen ones, scaled."""
        used = [NAMES.index(name) for name in self.columns]
        chosen = np.arange(0, len(normal), self.stride)
        rows, people = normal.X[chosen], [normal.subject[i] for i in chosen]
        scaler = fit_scaler(rows[:, used], self.scaling)
        scaled, fold = scaler.transform(rows[:, used]), group_folds(people, min(self.n_folds, len(set(people))), 0)
        generators = iter(as_generator(seed).spawn(int(fold.max()) + 2))
        novelty = np.empty(len(rows))
        for number in range(int(fold.max()) + 1):
            out = fold == number
            novelty[out] = self._scorer(scaled[~out], next(generators)).score(scaled[out])
        scorer = self._scorer(scaled, next(generators))
        memory: dict[int, FloatArray] = {}  # a fit is asked for the same windows by each variant that shares it

        def raw(X: FloatArray) -> FloatArray:
            key = hash(X.tobytes())
            if key not in memory and len(X):
                memory[key] = np.column_stack([scorer.score(scaler.transform(X[:, used])), self.columns_of(X)])
            return memory.get(key, np.empty((0, 1 + self.columns_of(X).shape[1])))

        return Fitted(np.column_stack([novelty, self.columns_of(rows)]), rows, raw)

    def _scorer(self, rows: FloatArray, rng: np.random.Generator) -> Any:
        made = self.novelty()
        own = {"random_state": rng, "n_jobs": 1}
        taken = made.get_params(deep=False)
        return made.set_params(**{key: value for key, value in own.items() if key in taken}).fit(rows).to_scorer()


def _without(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name not in names)


def _ensemble(n: int, k: int = 3, floor: float = fusion.PLAIN_DISTANCE) -> RandomProjectionEnsemble:
    return RandomProjectionEnsemble(OCNN(k, k, floor=floor), combine="mean", n_estimators=n)


def tables() -> dict[str, list[Variant]]:
    """The variants of each table, on windows of 5 s."""
    base = Variant("distance to 3 neighbours in one space (default)")
    pairs = ((0.5, 0.95), (0.25, 0.95), (0.5, 0.98), (0.8, 0.98), (0.1, 0.9))
    groups = {family.compute.__name__: family.names for family in FAMILIES}
    groups["first and last quarter"] = tuple(name for name in NAMES if name.endswith(("_first", "_last")))
    return {
        "forms": [replace(base, key=key, form=form) for key, form in FORMS.items()],
        "novelty": [  # the cheap ones first: on 2 cores the last take most of the time
            base,
            replace(base, key="one space, every 4th window", stride=4, fits={}),
            Variant("one space, floor 10", lambda: _floored(10.0)),
            Variant("one space, floor 1", lambda: _floored(1.0)),
            *(Variant(f"{n} projections", partial(_ensemble, n)) for n in (3, 5, 9, 25)),
            Variant("25 projections, five neighbours, floor 10", lambda: _ensemble(25, 5, 10.0)),
            Variant("one layer of KRR (AEKOC form), every 4th window", lambda: _layers(1), stride=4),
            Variant("two layers of KRR, every 4th window", lambda: _layers(2), stride=4),
        ],
        "neighbours": [
            Variant(f"{k}", partial(_neighbours, k)) if k != 3 else replace(base, key="3 (default)")
            for k in (3, 1, 5, 10, 20, 50)
        ],
        "weights": [
            Variant(
                f"{k}, {'fitted' if weight is None else format(weight, 'g')}",
                partial(_neighbours, k),
                form=Form(_evidence, weight),
                fits=fits,
            )
            for k, fits in ((3, base.fits), (5, {}), (1, {}))
            for weight in (None, 1.0, 1.5, 2.0, 3.0)
        ],
        "apart": [
            replace(base, key=", ".join(f"{weight:g}" for weight in weights), form=Form(_apart(weights)))
            for weights in APART
        ],
        "moving": [
            base,
            *(replace(base, key=f"{part:g} of the way", moving_from=part) for part in (0.25, 0.4, 0.6, 0.75)),
            *(replace(base, key=name, moving=name) for name in MOVING),
        ],
        "ranges": [
            replace(base, key=f"{low:g} to {high:g}, {share or 'as recorded'}", ranges=(low, high), rest_share=share)
            for share in (None, 0.9, 0.98, 0.995)
            for low, high in ((0.0, 1.0), (0.001, 0.999), (0.01, 0.99), (0.05, 0.95), (0.1, 0.9))
        ],
        "folds": [replace(base, key=f"{n}", n_folds=n, fits=base.fits if n == base.n_folds else {}) for n in (2, 3, 5)],
        "scalers": [replace(base, key=kind, scaling=kind, fits={}) for kind in ("z-score", "min-max", "robust")],
        "quantiles": [
            replace(base, key=f"{low:g} to {high:g}{of}", quantiles=(low, high), ranges=ranges)
            for low, high in pairs
            for ranges, of in ((base.ranges, " of moving windows"), (None, " of all windows"))
        ],
        "features": [
            replace(base, key=f"without {name}", columns=_without(names), fits={}) for name, names in groups.items()
        ],
    }


def _apart(weights: Sequence[float]) -> Score:
    return lambda z: _evidence(z, weights)


def _floored(floor: float) -> Any:
    return nearest_neighbours().set_params(estimator__floor=floor)


def _neighbours(k: int) -> Any:
    return nearest_neighbours().set_params(estimator__n_neighbors=k, estimator__k_neighbors=k)


def _layers(n: int) -> MultiLayerKRR:
    return MultiLayerKRR(n, evidence="layers")


def measured(trials: list[Trial], variants: list[Variant], seed: int) -> Iterator[str]:
    """A row of the table for each variant."""
    for variant in variants:
        run = Run.of(trials, variant, seed)
        found = (*figures(run.pooled()), *run.inner())
        yield " | ".join([f"| {variant.key}", *(f"{value:.4f}" for value in found)]) + " |"


def evidences(trials: list[Trial], seed: int) -> Iterator[str]:
    """A row for each choice of evidence, by inner AUC: a third beside EVIDENCE, alone or together with one of the two;
    one or two columns alone.

    Columns count in both directions, `-` where little of it is evidence. Novelty is fitted once.
    """
    parts: list[FloatArray] = []  # z of each job, novelty first

    def kept(z: FloatArray) -> FloatArray:
        parts.append(z)
        return z[:, 0]

    run = Run.of(trials, Variant("", form=Form(kept, 0.0), columns_of=lambda X: np.column_stack([X, -X])), seed)
    names = (*NAMES, *(f"-{name}" for name in NAMES))
    others = [name for name in names if name not in EVIDENCE]
    choices: list[tuple[tuple[str, ...], ...]] = [((name,),) for name in names]
    choices += [((one,), (other,)) for one, other in combinations(names, 2)]
    choices += [(*((own,) for own in EVIDENCE), (name,)) for name in others]
    choices += [(*((own,) for own in EVIDENCE), (own, name)) for name in others for own in EVIDENCE]
    rows = []
    for chosen in choices:
        columns = [[1 + names.index(name) for name in evidence] for evidence in chosen]
        scores = []
        for z, (job, own) in zip(parts, run.scores, strict=True):
            score = NOVELTY_WEIGHT * np.concatenate(own) + sum(_together(*z.T[group]) for group in columns)
            scores.append((job, np.split(score, np.cumsum([len(one) for one in own])[:-1])))
        rows.append((*replace(run, scores=scores).inner(), " + ".join(map(" and ".join, chosen))))
    default = " + ".join((*EVIDENCE, " and ".join(AFTERMATH)))
    for rank, (auc, at_1pct, chosen) in enumerate(sorted(rows, reverse=True), 1):
        yield f"| {rank} of {len(rows)} | {chosen}{' (default)' * (chosen == default)} | {auc:.4f} | {at_1pct:.4f} |"


def motionless(recordings: Sequence[Recording], limits: Sequence[tuple[float, float]]) -> Iterator[str]:
    """A row for each pair of limits (m/s2, rad/s), all else equal: motionless windows of normal recordings.

    Their share; in the activity with most of them; the longest stretch of them, in seconds.
    """
    front_end = FrontEnd("fall31", 50.0, WINDOW_S, HOP_S)
    found: dict[str, list[list[BoolArray]]] = {}  # by activity, recording and pair
    for recording in recordings:
        if not recording.is_fall and (batches := front_end.cut(recording)):
            found.setdefault(recording.activity, []).append([_is_motionless(batches, *pair) for pair in limits])
    for i, (acc_ms2, gyr_rads) in enumerate(limits):
        of = {activity: [own[i] for own in parts] for activity, parts in found.items()}
        share = {activity: np.concatenate(parts).mean() for activity, parts in of.items()}
        most = max(share, key=lambda activity: share[activity])
        windows = np.concatenate([own for parts in of.values() for own in parts])
        longest = max(_longest_run(own) for parts in of.values() for own in parts)
        yield (
            f"| {acc_ms2:g}, {gyr_rads:g} | {windows.mean():.4f} | {share[most]:.4f} ({most or 'all'}) "
            f"| {longest and WINDOW_S + (longest - 1) * HOP_S:g} |"
        )


def _is_motionless(batches: Sequence[WindowBatch], acc_ms2: float, gyr_rads: float) -> BoolArray:
    motion.MOTIONLESS_ACC_MS2, motion.MOTIONLESS_GYR_RADS = acc_ms2, gyr_rads
    return np.concatenate([motion.motion(batch).is_motionless for batch in batches])


def _longest_run(found: BoolArray) -> int:
    """Most True in a row."""
    gaps = np.flatnonzero(~np.concatenate([[False], found, [False]]))
    return int(np.diff(gaps).max() - 1)


TABLES = ("windows", "same-recordings", "hops", *CONSTANTS, *tables(), "evidence", "motionless")


def main() -> None:
    """Prints Markdown tables, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=TABLES, help="one table alone")
    parser.add_argument("--seed", type=int, default=0, help="of the groups of people and the fits (default 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes that extract features (default 1)")
    options = parser.parse_args()

    with open_dataset(options.dataset, options.data) as opened:
        recordings = list(opened.iter_recordings())

    def trials_of(window_s: float = WINDOW_S, hop_s: float = HOP_S, feature_set: str = "fall31") -> list[Trial]:
        n_jobs = options.jobs if feature_set == "fall31" else 1  # a varied one is in this process alone
        return extract_trials(recordings, FrontEnd(feature_set, 50.0, window_s, hop_s), n_jobs=n_jobs)

    def show(title: str, rows: Iterator[str]) -> None:
        print(f"\n| {title} | {' | '.join(FIGURES)} |\n|{'---|' * (1 + len(FIGURES))}", flush=True)
        for row in rows:
            print(row, flush=True)

    def row_of(key: str, trials: list[Trial]) -> Iterator[str]:
        return measured(trials, [Variant(key)], options.seed)

    if options.only in (None, "windows"):
        for window_s in WINDOWS_S:
            variants = [Variant(f"{window_s:g} s")]
            show("window", measured(trials_of(window_s), variants, options.seed))
    if options.only in (None, "same-recordings"):
        cut = {window_s: trials_of(window_s) for window_s in WINDOWS_S}
        for lengths in (WINDOWS_S, (4.5, 5.0)):
            scored = [i for i in range(len(recordings)) if all(cut[length][i].is_on_hop.any() for length in lengths)]
            made = ((f"{length:g} s", [cut[length][i] for i in scored]) for length in lengths)
            show(f"window, {len(scored)} recordings", chain.from_iterable(row_of(*each) for each in made))
    if options.only in (None, "motionless"):
        print("\n| limits | windows | most in one activity | longest, s |\n|---|---|---|---|", flush=True)
        for row in motionless(recordings, MOTIONLESS):
            print(row, flush=True)

    if options.only in (None, "hops"):
        show("hop", chain.from_iterable(row_of(f"{hop_s:g} s", trials_of(hop_s=hop_s)) for hop_s in HOPS_S))
    for title, changes in CONSTANTS.items():
        if options.only in (None, title):
            made = ((key, trials_of(feature_set=varied(parts, factor))) for key, parts, factor in changes)
            show(title, chain.from_iterable(row_of(*each) for each in made))
    trials = trials_of() if options.only in (None, "evidence", *tables()) else []
    if options.only in (None, "evidence"):
        print("\n| rank | evidence | inner_auc | inner_sensitivity_at_1pct |\n|---|---|---|---|", flush=True)
        for row in evidences(trials, options.seed):
            print(row, flush=True)
    for title, variants in tables().items():
        if options.only in (None, title):
            show(title, measured(trials, variants, options.seed))


if __name__ == "__main__":
    main()
