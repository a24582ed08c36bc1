"""What the second paper's comparison found, as tables: means, ranks, and which methods fall behind the best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np

from stream_occ.reproduction.ranks import holm_against_best, nemenyi_difference
from stream_occ.reproduction.report import Section, friedman_entry, mean_sd, table_lines

MEASURES = ("gmean", "fowlkes_mallows")

Row = dict[str, Any]

__all__ = ["MEASURES", "compared", "remarks", "sections"]


def _table(rows: Sequence[Row], methods: Sequence[str], figure: str) -> dict[tuple[str, str], list[float]]:
    """Per problem, each method's mean of a figure over seeds."""
    cells: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row["dataset"], row["target"]][row["method"]].append(row[figure])
    return {name: [float(np.mean(found[method])) for method in methods] for name, found in cells.items()}


def compared(rows: Sequence[Row], methods: Sequence[str], measure: str, selection: str) -> Row:
    """Friedman's test of the methods over problems (means over seeds), and Holm's p-values against the best."""
    scores = list(_table(rows, methods, measure).values())
    return friedman_entry(
        f"{measure}, selection by {selection}",
        methods,
        scores,
        adjust=holm_against_best,
        measure=measure,
        selection=selection,
        nemenyi_difference=nemenyi_difference(len(methods), len(scores)),
    )


def sections(rows: Sequence[Row], methods: Sequence[str], entries: Sequence[Row]) -> list[Section]:
    """One table of the methods, best mean rank first, and one of each measure by problem."""
    found = [_methods(rows, methods, entries)]
    for measure in MEASURES:
        lines = [
            [f"{dataset}: {target}", *(mean_sd(value, digits=2) for value in values)]
            for (dataset, target), values in _table(rows, methods, measure).items()
        ]
        found.append(Section(f"{measure} by problem", table_lines(["data set: target", *methods], lines)))
    return found


def _methods(rows: Sequence[Row], methods: Sequence[str], entries: Sequence[Row]) -> Section:
    figures = (*MEASURES, "tpr", "tnr", "failed_share")
    means = {name: np.mean(list(_table(rows, methods, name).values()), axis=0).tolist() for name in figures}
    header = ["method", "gmean", "FM", "TPR", "TNR", "none passed"]
    lines = {name: [name, *(mean_sd(means[figure][i]) for figure in figures)] for i, name in enumerate(methods)}
    for entry, title in zip(entries, ("gmean", "FM"), strict=False):
        header += [f"rank, {title}", "p"]
        p_values = {pair["b"]: pair["p"] for pair in entry["pairs"]}
        for name, line in lines.items():
            line += [f"{entry['mean_ranks'][name]:.2f}", mean_sd(p_values.get(name))]
    order = sorted(methods, key=lambda name: entries[0]["mean_ranks"][name] if entries else 0.0)
    heading = "Methods: means over problems, mean ranks, p against the best (Holm)"
    return Section(heading, table_lines(header, [lines[name] for name in order]))


def remarks(rows: Sequence[Row]) -> list[str]:
    """What one must know to read the tables."""
    sizes = {(row["dataset"], row["target"]): (row["n_targets"], row["n_outliers"]) for row in rows}
    accept_all = np.mean([np.sqrt(n / (n + m)) for n, m in sizes.values()])
    return [
        f"accepting everything gives gmean 0 and a mean FM of {accept_all:.3f}",
        "none passed: share of folds in which no candidate passed the rule of selection and the least bad was taken",
        "classes of one data set are not independent problems, as Friedman's test takes them to be",
    ]
