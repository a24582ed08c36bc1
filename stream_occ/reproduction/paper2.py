"""The second paper's comparison (Gautam et al., arXiv 1904.06491) on data that anyone has, with both of its measures.

Its tables' figures could not be read, so none stands beside ours, and its data sets are not these: what is tried is the
method, not the print. Each problem's targets, and its outliers, are dealt out to five folds; a detector is chosen,
scaled (z-score) and trained on the targets of four, and tested on the targets and outliers of the fifth. A row's
figures count the rows of all five folds together, since a fold of some sets has a single outlier.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
from joblib import Parallel, delayed
from threadpoolctl import threadpool_limits

from stream_occ.detectors._tuning import inner_folds
from stream_occ.detectors.scaling import fit_scaler
from stream_occ.detectors.selection import SelectedDetector, SelectionWarning, candidates_of, gmean
from stream_occ.errors import DataError, UsageError, nearest
from stream_occ.reproduction.outlier_aided import fowlkes_mallows, select_with_outliers_for_reproduction_only
from stream_occ.reproduction.paper2_grid import ETA, GRIDS, METHODS, grid_of
from stream_occ.reproduction.paper2_report import MEASURES, compared, remarks, sections
from stream_occ.reproduction.plot import check_plot, critical_difference_plot
from stream_occ.reproduction.report import Report
from stream_occ.reproduction.target_sets import TargetSet, find_sets
from stream_occ.samples import FloatArray

N_OUTER_FOLDS = 5
N_INNER_FOLDS = 5
SELECTIONS = ("consistency", "iqr-proxy", "outliers")
_KEY = ("grid", "dataset", "target", "method", "selection", "seed", "data")
_FIGURES = ("gmean", "gmean_sd", "fowlkes_mallows", "tpr", "tnr", "failed_share")

Row = dict[str, Any]
Rule = Literal["consistency", "iqr-proxy"]
Selection = Literal[Rule, "outliers"]
Key = tuple[Any, ...]

__all__ = ["SELECTIONS", "Cell", "run", "run_cell"]


@dataclass(frozen=True, slots=True, eq=False)
class Cell:
    """One method on one problem with one seed."""

    problem: TargetSet
    method: str
    selection: Selection
    grid: str
    seed: int

    def head(self) -> Row:
        """What names the cell in a row."""
        is_outlier = self.problem.is_outlier
        return {
            "dataset": self.problem.dataset,
            "target": self.problem.target,
            "method": self.method,
            "variant": self.method.partition("(")[0],
            "rule": self.method.partition("(")[2].removesuffix(")") or "own",
            "leak": False,
            "printed": None,
            "selection": self.selection,
            "grid": self.grid,
            "seed": self.seed,
            "data": self.problem.digest(),
            "n_targets": int(np.count_nonzero(~is_outlier)),
            "n_outliers": int(np.count_nonzero(is_outlier)),
        }

    def cost(self) -> float:
        """Rough work: the longest come first, so that no core is left with one at the end."""
        n_candidates = np.prod([len(values) for values in grid_of(self.method, self.grid).values()], initial=1.0)
        return float(np.count_nonzero(~self.problem.is_outlier) ** 2 * n_candidates)


def run(
    data: str | os.PathLike[str] | None,
    *,
    n_seeds: int = 1,
    datasets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    selection: str = "consistency",
    grid: str = "small",
    resume: Path | None = None,
    plot: Path | None = None,
    n_jobs: int = -1,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Report:
    """All methods on all problems, seeds 0 to n_seeds - 1: a Report with one row a problem, method and seed.

    resume: a JSON-lines file that each finished row is added to; rows found in it are not computed again. plot: a .svg
    or .png for the critical-difference diagram of gmean. Raises UsageError for an unknown name or an unusable file,
    DataError for a damaged table.
    """
    _check_choice("--selection", selection, SELECTIONS)
    _check_choice("--grid", grid, tuple(GRIDS))
    for name in methods or ():
        _check_choice("--methods", name, tuple(METHODS))
    if plot is not None:
        check_plot(plot)  # told before the work
    if methods is not None and not methods:
        raise UsageError("--methods", "name at least one method", "none", "Leave it out for all")
    problems, notes = find_sets(data, datasets)
    if not problems:
        raise DataError("--data", "hold a table that can be dealt out to folds", "; ".join(notes), "Give other tables")
    chosen = [name for name in METHODS if methods is None or name in methods]
    each = product(problems, chosen, range(n_seeds))
    cells = [Cell(problem, name, cast(Selection, selection), grid, seed) for problem, name, seed in each]
    wanted = {_key(cell.head()): cell for cell in cells}
    rows = {key: row for key, row in _finished(resume).items() if key in wanted}
    open_cells = sorted((cell for key, cell in wanted.items() if key not in rows), key=Cell.cost, reverse=True)
    done = len(rows)
    progress("Problems, methods and seeds", done, len(wanted))
    for row in _compute(open_cells, n_jobs):
        rows[_key(row)] = row
        _append(resume, row)
        done += 1
        progress("Problems, methods and seeds", done, len(wanted))
    ordered = [rows[key] for key in wanted]
    settings = {"selection": selection, "grid": grid, "n_seeds": n_seeds, "eta": ETA, "n_folds": N_OUTER_FOLDS}
    entries = [compared(ordered, chosen, measure, selection) for measure in MEASURES if len(chosen) > 1]
    if plot is not None and entries:
        title = f"Mean ranks by gmean, {entries[0]['n_datasets']} problems, selection by {selection}"
        critical_difference_plot(entries[0]["mean_ranks"], entries[0]["nemenyi_difference"], plot, title=title)
    return Report(2, settings, ordered, entries, sections(ordered, chosen, entries), [*notes, *remarks(ordered)])


def run_cell(cell: Cell) -> Row:
    """One method on one problem: figures over the tested rows of five folds, and what was chosen in each."""
    problem, method, grid, seed = cell.problem, cell.method, cell.grid, cell.seed
    is_outlier = problem.is_outlier
    fold = inner_folds(is_outlier, N_OUTER_FOLDS, np.random.default_rng([seed, 1]))
    rejected = np.zeros(len(is_outlier), dtype=bool)
    choices, n_failed = [], 0
    with threadpool_limits(limits=1):
        for number in range(N_OUTER_FOLDS):
            out = fold == number
            scaler = fit_scaler(problem.X[~out & ~is_outlier], "z-score")
            X, outliers = (scaler.transform(problem.X[~out & rows]) for rows in (~is_outlier, is_outlier))
            if cell.selection == "outliers":
                detector, choice = _chosen_with_outliers(method, grid, X, outliers, seed)
            else:
                detector, choice, passed = _chosen_without_outliers(method, grid, X, seed, cell.selection)
                n_failed += not passed
            rejected[out] = detector.predict(scaler.transform(problem.X[out])) == -1
            choices.append(choice)
    mixed = [k for k in range(N_OUTER_FOLDS) if len(set(is_outlier[fold == k].tolist())) == 2]
    return {
        **cell.head(),
        "gmean": gmean(rejected, is_outlier),
        "gmean_sd": float(np.std([gmean(rejected[fold == k], is_outlier[fold == k]) for k in mixed])),
        "fowlkes_mallows": fowlkes_mallows(rejected, is_outlier),
        "tpr": float(np.mean(~rejected[~is_outlier])),
        "tnr": float(np.mean(rejected[is_outlier])),
        "failed_share": n_failed / N_OUTER_FOLDS,
        "chosen": choices,
    }


def _chosen_without_outliers(method: str, grid: str, X: FloatArray, seed: int, rule: Rule) -> tuple[Any, Row, bool]:
    """The detector, its parameters, and whether any candidate passed the rule."""
    estimator, axes = METHODS[method][0](), grid_of(method, grid)
    detector = SelectedDetector(estimator, axes, rule, eta=ETA, n_folds=N_INNER_FOLDS, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", SelectionWarning)
        detector.fit(X)
    return detector, detector.params_, not any(item.category is SelectionWarning for item in caught)


def _chosen_with_outliers(method: str, grid: str, X: FloatArray, outliers: FloatArray, seed: int) -> tuple[Any, Row]:
    """The detector that does best on outliers of the other folds, never on the tested ones, and its parameters."""
    combinations, candidates = candidates_of(METHODS[method][0](), grid_of(method, grid), eta=ETA, seed=seed)
    index = 0
    if len(candidates) > 1:
        rng = np.random.default_rng([seed, 2])
        index = select_with_outliers_for_reproduction_only(candidates, X, outliers, n_folds=N_INNER_FOLDS, rng=rng)
    return candidates[index].fit(X), combinations[index]


def _compute(cells: Sequence[Cell], n_jobs: int) -> Iterator[Row]:
    """Rows as they are finished, in any order."""
    jobs = Parallel(n_jobs=n_jobs, return_as="generator_unordered")
    yield from jobs(delayed(run_cell)(cell) for cell in cells)


def _key(row: Mapping[str, Any]) -> Key:
    return tuple(row[name] for name in _KEY)


def _finished(path: Path | None) -> dict[Key, Row]:
    """Rows of an earlier run by key; a last line cut off by an interruption is dropped from the file.

    Raises UsageError for a file that holds anything else, and leaves it as it is.
    """
    if path is None or not path.exists():
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]
        if text and not whole:
            raise ValueError("no whole row")
        found = {_key(row): row for row in map(_row, whole.splitlines())}
    except (OSError, ValueError, KeyError, TypeError) as error:
        expected = "be a file of rows that this command wrote"
        got = f"{path} ({type(error).__name__})"
        raise UsageError("--resume", expected, got, "Give another path") from error
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return found


def _row(line: str) -> Row:
    """A row of the file; ValueError, KeyError or TypeError where it is none of ours."""
    row: Row = json.loads(line)
    if not all(0.0 <= float(row[name]) <= 1.0 for name in _FIGURES) or row["n_targets"] + row["n_outliers"] < 1:
        raise ValueError("figures out of range")
    return row


def _append(path: Path | None, row: Row) -> None:
    if path is None:
        return
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
    except OSError as error:
        got = f"{path} ({error.strerror})"
        raise UsageError("--resume", "name a file that can be written", got, "Give another path") from error


def _check_choice(option: str, value: str, known: Sequence[str]) -> None:
    if value not in known:
        remedy = nearest(value, known, "Give one of these")
        raise UsageError(option, f"be among {', '.join(known)}", repr(value), remedy)
