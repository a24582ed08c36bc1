"""Tables III to VIII of Khan & Ahmad (arXiv 1604.01686): three rules, alone and in ensembles, on up to 15 data sets.

Five outer folds deal out targets and outliers separately; a fold's targets and outliers are tested by a detector fitted
on the targets of the other four. Outliers are never trained on. Features are scaled to [0, 1] on the training targets,
later rows are not clipped. Each seed deals out new folds, unless they are cut in the order of the file as the print's
were, and draws new maps; the maps of a fold are the same for the three rules. docs/reproduction.md says what came out.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from joblib import Parallel, delayed

from stream_occ.detectors.ensembles import RandomProjectionEnsemble, RandomSubspaceEnsemble
from stream_occ.detectors.ocnn import OCNN, TuningWarning
from stream_occ.detectors.scaling import fit_scaler
from stream_occ.errors import DataError, UsageError, nearest
from stream_occ.reproduction import paper1_report
from stream_occ.reproduction.leak import with_label
from stream_occ.reproduction.printed import RULES, VARIANTS
from stream_occ.reproduction.report import Report
from stream_occ.reproduction.sensor_windows import SENSOR_SETS, sensor_windows
from stream_occ.reproduction.tables import PAPER1_FILES, check_names, find_tables, refused_rows, too_few
from stream_occ.samples import BoolArray, FloatArray, IntArray

N_FOLDS = 5
N_INNER_FOLDS = 2
N_ESTIMATORS = 25
MAX_NEIGHBORS = 10
MAX_NEIGHBORS_SENSORS = 5  # the paper's grid on its three sensor sets
FOLDS = ("shuffled", "file")
PRINTED_WINDOWS = {"mf": "5430 and 488", "dlr": "26576 and 84", "cov": "12392 and 908"}

ProgressReport = Callable[[str, int, int], None]
Detector = OCNN | RandomProjectionEnsemble | RandomSubspaceEnsemble

__all__ = ["Cell", "DataSet", "FoldResult", "Task", "accepted_rows", "outer_folds", "run", "run_task"]


@dataclass(frozen=True, slots=True, eq=False)
class DataSet:
    """One table: features X (n, d), y (n,) True for outliers."""

    name: str
    X: FloatArray
    y: BoolArray

    @property
    def max_neighbors(self) -> int:
        """Largest J and K of Algorithm 3's grid."""
        return MAX_NEIGHBORS_SENSORS if self.name in SENSOR_SETS else MAX_NEIGHBORS


@dataclass(frozen=True, slots=True)
class Cell:
    """A column of the paper's tables for one rule; leak: with the label among the projected features."""

    dataset: str
    rule: str
    variant: str
    leak: bool


@dataclass(frozen=True, slots=True)
class FoldResult:
    """Shares of one tested fold: targets accepted, outliers rejected."""

    tpr: float
    tnr: float

    @property
    def gmean(self) -> float:
        """Geometric mean of both."""
        return math.sqrt(self.tpr * self.tnr)


@dataclass(frozen=True, slots=True)
class Task:
    """One fold of one seed, in one variant: three fits, one a rule. folds: one of FOLDS."""

    dataset: str
    variant: str
    leak: bool
    seed: int
    fold: int
    folds: str = "shuffled"


def run(
    data: Path,
    *,
    n_seeds: int,
    datasets: tuple[str, ...] | None = None,
    folds: str = "shuffled",
    leak: bool = False,
    recordings: Mapping[str, Path] | None = None,
    n_jobs: int = -1,
    progress: ProgressReport = lambda stage, done, total: None,
) -> Report:
    """All rows of the sets found below `data`; DataError where none is found or one cannot be read.

    recordings: sensor sets (mf, dlr, cov) to be cut from recordings, and where they lie.
    folds: `shuffled`, dealt out anew by each seed; or `file`, cut in the order of the file.
    """
    if folds not in FOLDS:
        remedy = nearest(folds, FOLDS, "Leave it out for shuffled")
        raise UsageError("--folds", f"be {' or '.join(FOLDS)}", repr(folds), remedy)
    names = check_names(datasets, PAPER1_FILES)
    tables = find_tables(data, {name: PAPER1_FILES[name] for name in names})
    sets = {name: DataSet(name, table.X, table.y) for name, table in tables.items()}
    notes = refused_rows(tables)
    for name, path in (recordings or {}).items():
        if name in names:
            X, y = sensor_windows(name, path, progress=progress)
            sets[name] = DataSet(name, X, y)
            counts = f"{int((~y).sum())} windows of activities and {int(y.sum())} of falls"
            notes.append(f"{name}: {counts}; printed {PRINTED_WINDOWS[name]}")
    if not sets:
        raise DataError(str(data), f"hold a table of {', '.join(names)}", "none", "See docs/reproduction.md for names")
    absent = {name: "data absent" for name in names if name not in sets}
    absent |= {name: fault for name, item in sets.items() if (fault := too_few(item.y)) is not None}
    usable = {name: sets[name] for name in names if name in sets and name not in absent}
    found = run_sets(usable, seeds=range(n_seeds), folds=folds, leak=leak, n_jobs=n_jobs, progress=progress)
    settings = {
        "n_seeds": n_seeds,
        "folds": folds,
        "leak": leak,
        "n_folds": N_FOLDS,
        "n_inner_folds": N_INNER_FOLDS,
        "n_estimators": N_ESTIMATORS,
    }
    n_outliers = {name: int(item.y.sum()) for name, item in usable.items()}
    return paper1_report.build(found, names=names, n_outliers=n_outliers, absent=absent, settings=settings, notes=notes)


def run_sets(
    sets: dict[str, DataSet],
    *,
    seeds: Sequence[int],
    leak: bool,
    n_jobs: int,
    progress: ProgressReport,
    folds: str = "shuffled",
) -> dict[Cell, dict[int, list[FoldResult]]]:
    """Results by cell and seed, one a fold; the order of work changes no figure."""
    columns = [(variant, False) for variant in VARIANTS] + ([("RP", True)] if leak else [])
    tasks = [
        Task(name, variant, leaks, seed, fold, folds)
        for name in sorted(sets, key=lambda name: -len(sets[name].y))  # the longest first: no core waits at the end
        for seed in seeds
        for fold in range(N_FOLDS)
        for variant, leaks in columns
    ]
    found: dict[Cell, dict[int, list[FoldResult]]] = {}
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    results = parallel(delayed(run_task)(sets[task.dataset], task) for task in tasks)
    for done, (task, by_rule) in enumerate(zip(tasks, results, strict=True), start=1):
        for rule, result in zip(RULES, by_rule, strict=True):
            cell = Cell(task.dataset, rule, task.variant, task.leak)
            found.setdefault(cell, {}).setdefault(task.seed, []).append(result)
        progress("Fitting and testing folds", done, len(tasks))
    return found


def run_task(dataset: DataSet, task: Task) -> list[FoldResult]:
    """Shares of the tested fold, one a rule."""
    tested = outer_folds(dataset.y, seed=task.seed, folds=task.folds) == task.fold
    results = []
    for rule in RULES:
        accepted = accepted_rows(dataset, task, rule, tested)
        outlier = dataset.y[tested]
        results.append(FoldResult(float(accepted[~outlier].mean()), float((~accepted[outlier]).mean())))
    return results


def accepted_rows(dataset: DataSet, task: Task, rule: str, tested: BoolArray) -> BoolArray:
    """Which tested rows the detector accepts, having learnt from the targets that are not tested."""
    trains = ~tested & ~dataset.y
    scaler = fit_scaler(dataset.X[trains], "min-max")
    train, test = scaler.transform(dataset.X[trains]), scaler.transform(dataset.X[tested])
    if task.leak:
        train, test = with_label(train, dataset.y[trains]), with_label(test, dataset.y[tested])
    detector = build_detector(rule, task, dataset.max_neighbors)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)  # the paper's grid ends at its edge in most fits
        decided: BoolArray = detector.fit(train).predict(test) == 1
    return decided


def build_detector(rule: str, task: Task, max_neighbors: int) -> Detector:
    """The rule alone or in an ensemble by majority vote; the seed and the fold fix its maps and inner folds."""
    rng = np.random.default_rng([task.seed, 1, task.fold])
    single = OCNN(
        n_neighbors="cv" if rule == "JKNN" else 1,
        k_neighbors="cv" if rule == "JKNN" else 1,
        theta="empirical" if rule == "11NN(theta)" else 1.0,
        max_neighbors=max_neighbors,
        n_inner_folds=N_INNER_FOLDS,
        random_state=rng,
    )
    if task.variant == "single":
        return single
    if task.variant == "RP":
        return RandomProjectionEnsemble(single, N_ESTIMATORS, random_state=rng)
    share = {"RS(50)": 0.5, "RS(75)": 0.75}[task.variant]
    return RandomSubspaceEnsemble(single, N_ESTIMATORS, random_state=rng, max_features=share)


def outer_folds(y: BoolArray, *, seed: int, folds: str = "shuffled") -> IntArray:
    """Fold (n,) of each row, a fifth of the targets and a fifth of the outliers each.

    `shuffled` deals both out by the seed; `file` cuts each in its order into five runs, the first ones a row longer
    where they cannot be equal.
    """
    rng = np.random.default_rng([seed, 0])
    fold = np.empty(len(y), dtype=np.int64)
    for rows in (np.flatnonzero(~y), np.flatnonzero(y)):
        if folds == "file":
            for number, run_of_rows in enumerate(np.array_split(rows, N_FOLDS)):
                fold[run_of_rows] = number
        else:
            fold[rng.permutation(rows)] = np.arange(len(rows)) % N_FOLDS
    return fold
