"""What each choice of the default detector is worth: python benchmarks/ablation.py mobifall mobifall.zip

Development figures behind docs/results.md: windows, features, scalers, novelty detectors, and forms and weights of the
fusion, each with people held out by the very protocol of `stream-occ evaluate`. Everything but the forms that were not
taken is the package's own code. `--only novelty` runs one of the tables; all of them take about an hour a set.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from stream_occ.datasets import open_dataset
from stream_occ.detectors import OCNN, EvidenceFusion, MultiLayerKRR, RandomProjectionEnsemble, fusion
from stream_occ.detectors.fusion import nearest_neighbours
from stream_occ.detectors.scaling import fit_scaler
from stream_occ.detectors.selection import group_arguments
from stream_occ.evaluation import Protocol, Trial, Windows, evaluate
from stream_occ.evaluation.extraction import FrontEnd, extract_trials
from stream_occ.evaluation.protocol import ScoreWindows
from stream_occ.features.fall31 import FAMILIES, NAMES
from stream_occ.samples import FloatArray
from stream_occ.scoring.evidence_fusion import LEAST_EVIDENCE

EVIDENCE = ("log_max_dynamic_acc", "log_peak_over_mad")
WINDOWS_S = (3.0, 4.0, 4.5, 5.0, 6.0)
WINDOW_S = 4.5
FIGURES = ("trial_auc", "trial_sensitivity_at_1pct", "trial_gmean")

Form = Callable[[FloatArray], FloatArray]

# Scores (n,) of z (n, 1 + e) in the order of novelty, EVIDENCE, max_tilt_2s, log_range_acc_1s
FORMS: Mapping[str, Form] = {
    "novelty + evidence from -2 on (default)": lambda z: z[:, 0] + _above(z[:, 1:3], LEAST_EVIDENCE).sum(axis=1),
    "novelty alone": lambda z: z[:, 0],
    "evidence alone": lambda z: _above(z[:, 1:3], LEAST_EVIDENCE).sum(axis=1),
    "without log_max_dynamic_acc": lambda z: z[:, 0] + _above(z[:, 2], LEAST_EVIDENCE),
    "without log_peak_over_mad": lambda z: z[:, 0] + _above(z[:, 1], LEAST_EVIDENCE),
    "evidence from -1 on": lambda z: z[:, 0] + _above(z[:, 1:3], -1.0).sum(axis=1),
    "evidence from 0 on": lambda z: z[:, 0] + _above(z[:, 1:3], 0.0).sum(axis=1),
    "evidence two-sided": lambda z: z[:, :3].sum(axis=1),
    "novelty weighs 2": lambda z: 2 * z[:, 0] + _above(z[:, 1:3], LEAST_EVIDENCE).sum(axis=1),
    "novelty weighs 1/2": lambda z: z[:, 0] / 2 + _above(z[:, 1:3], LEAST_EVIDENCE).sum(axis=1),
    "with max_tilt_2s": lambda z: z[:, 0] + _above(z[:, 1:4], LEAST_EVIDENCE).sum(axis=1),
    "with log_range_acc_1s": lambda z: z[:, 0] + _above(z[:, [1, 2, 4]], LEAST_EVIDENCE).sum(axis=1),
    "sum of log(max(z, 0) + .2)": lambda z: np.log(_above(z[:, :3], 0.0) + 0.2).sum(axis=1),
    "sum of log(max(z, 0) + 1)": lambda z: np.log(_above(z[:, :3], 0.0) + 1.0).sum(axis=1),
    "smallest of the three": lambda z: z[:, :3].min(axis=1),
}


def _above(z: FloatArray, least: float) -> FloatArray:
    return np.maximum(z, least)


@dataclass(frozen=True)
class Variant:
    """EvidenceFusion of a novelty detector on some columns under a scaler, its parts put together by `form`.

    Variants that differ in their form alone share their fits, by the seed of the fit, in `fits`.
    """

    key: str
    novelty: Callable[[], Any] = nearest_neighbours
    columns: tuple[str, ...] = NAMES
    scaling: str = "z-score"
    stride: int = 1
    quantiles: tuple[float, float] = (fusion.CENTER_QUANTILE, fusion.UPPER_QUANTILE)
    moving: str | None = "log_std_acc"
    form: Form = FORMS["novelty + evidence from -2 on (default)"]
    fits: dict[int, Callable[[FloatArray], FloatArray]] = field(default_factory=dict)

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """Fits on normal windows, or takes the fit of a variant that shares it."""
        if seed not in self.fits:
            self.fits[seed] = self._parts(normal, seed)
        parts = self.fits[seed]
        return lambda windows: self.form(parts(windows.X))

    def _parts(self, normal: Windows, seed: int) -> Callable[[FloatArray], FloatArray]:
        """z (n, 1 + e) of unscaled rows; evidence comes from all columns, novelty from the chosen ones."""
        used = [NAMES.index(name) for name in self.columns]
        rows = np.arange(0, len(normal), self.stride)
        scaler = fit_scaler(normal.X[rows][:, used], self.scaling)
        moving = self.columns.index(self.moving) if self.moving in self.columns else None
        detector = EvidenceFusion(self.novelty(), moving=moving, random_state=seed, n_jobs=1)
        people = [normal.subject[i] for i in rows]
        fusion.CENTER_QUANTILE, fusion.UPPER_QUANTILE = self.quantiles
        detector.fit(scaler.transform(normal.X[rows][:, used]), **group_arguments(detector, people))
        scorer = detector.to_scorer()
        extra = [NAMES.index(name) for name in (*EVIDENCE, "max_tilt_2s", "log_range_acc_1s")]
        moves = slice(None) if self.moving is None else fusion.moves(normal.X[rows, NAMES.index(self.moving)])
        center, upper = np.quantile(normal.X[rows][moves][:, extra], self.quantiles, axis=0)

        memory: dict[int, FloatArray] = {}  # a fit is asked for the same windows by each form

        def parts(X: FloatArray) -> FloatArray:
            key = hash(X.tobytes())
            if key not in memory and len(X):
                novelty = scorer.explain(scaler.transform(X[:, used]))
                memory[key] = np.column_stack([novelty, (X[:, extra] - center) / (upper - center)])
            return memory.get(key, np.empty((0, 1 + len(extra))))

        return parts


def _without(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in NAMES if name not in names)


def _ensemble(n: int) -> RandomProjectionEnsemble:
    return RandomProjectionEnsemble(OCNN(5, 5, floor=10.0), combine="mean", n_estimators=n)


def tables() -> dict[str, list[Variant]]:
    """The variants of each table, on windows of 4.5 s."""
    base = Variant("distance to 5 neighbours in one space (default)")
    pairs = ((0.5, 0.95), (0.25, 0.95), (0.5, 0.98), (0.8, 0.98), (0.1, 0.9))
    groups = {family.compute.__name__: family.names for family in FAMILIES}
    groups["first and last quarter"] = tuple(name for name in NAMES if name.endswith(("_first", "_last")))
    return {
        "forms": [replace(base, key=key, form=form) for key, form in FORMS.items()],
        "novelty": [
            Variant("25 projections, floor 10 (preset working)", lambda: _ensemble(25)),
            Variant("9 projections", lambda: _ensemble(9)),
            base,
            Variant("one space, floor 10", lambda: _floored(10.0)),
            Variant("one space, floor 1", lambda: _floored(1.0)),
            Variant("one layer of KRR (AEKOC form), every 4th window", lambda: _layers(1), stride=4),
            Variant("two layers of KRR, every 4th window", lambda: _layers(2), stride=4),
            replace(base, key="one space, every 4th window", stride=4, fits={}),
        ],
        "scalers": [replace(base, key=kind, scaling=kind, fits={}) for kind in ("z-score", "min-max", "robust")],
        "quantiles": [
            replace(base, key=f"{low:g} to {high:g}{of}", quantiles=(low, high), moving=moving, fits={})
            for low, high in pairs
            for moving, of in (("log_std_acc", " of moving windows"), (None, " of all windows"))
        ],
        "features": [
            replace(base, key=f"without {name}", columns=_without(names), fits={}) for name, names in groups.items()
        ],
    }


def _floored(floor: float) -> Any:
    return nearest_neighbours().set_params(estimator__floor=floor)


def _layers(n: int) -> MultiLayerKRR:
    return MultiLayerKRR(n, evidence="layers")


def measured(dataset: str, trials: list[Trial], variants: list[Variant]) -> Iterator[str]:
    """A row of the table for each variant; novelty alone beside it where the form is the default."""
    for variant in variants:
        found = evaluate(dataset, trials, [variant], Protocol(n_resamples=1)).results[variant.key].figures
        yield " | ".join([f"| {variant.key}", *(f"{found[key].value:.4f}" for key in FIGURES)]) + " |"


def main() -> None:
    """Prints Markdown tables, row by row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", choices=["windows", *tables()], help="one table alone")
    parser.add_argument("--jobs", type=int, default=1, help="processes that extract features (default 1)")
    options = parser.parse_args()

    def trials_of(window_s: float) -> list[Trial]:
        front_end = FrontEnd("fall31", 50.0, window_s, 0.5)
        with open_dataset(options.dataset, options.data) as opened:
            return extract_trials(opened.iter_recordings(), front_end, n_jobs=options.jobs)

    def show(title: str, rows: Iterator[str]) -> None:
        print(f"\n| {title} | {' | '.join(FIGURES)} |\n|---|---|---|---|", flush=True)
        for row in rows:
            print(row, flush=True)

    if options.only in (None, "windows"):
        for window_s in WINDOWS_S:
            variants = [Variant(f"{window_s:g} s")]
            show("window", measured(options.dataset, trials_of(window_s), variants))
    trials = trials_of(WINDOW_S) if options.only != "windows" else []
    for title, variants in tables().items():
        if options.only in (None, title):
            show(title, measured(options.dataset, trials, variants))


if __name__ == "__main__":
    main()
