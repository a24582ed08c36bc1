"""What the second paper's comparison found, as tables: means, ranks, and which methods fall behind the best."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from stream_occ.reproduction.ranks import friedman, nemenyi_difference
from stream_occ.reproduction.report import Section, mean_sd, table_lines

MEASURES = ("gmean", "fowlkes_mallows")

Row = dict[str, Any]

__all__ = ["MEASURES", "compared", "holm_against_best", "remarks", "sections"]


def holm_against_best(mean_ranks: Mapping[str, float], n_sets: int) -> dict[str, float]:
    """Holm-adjusted p-value of each other method against the one of best mean rank over n_sets data sets.

    z = (R_i - R_best) / sqrt(k (k + 1) / (6 N)), two-sided normal, k - 1 comparisons (Demsar, JMLR 7, 2006).
    """
    best = min(mean_ranks, key=lambda name: mean_ranks[name])
    k = len(mean_ranks)
    error = np.sqrt(k * (k + 1) / (6.0 * n_sets))
    others = sorted((name for name in mean_ranks if name != best), key=lambda name: -mean_ranks[name])
    adjusted, largest = {}, 0.0
    for step, name in enumerate(others):
        p = 2.0 * float(stats.norm.sf((mean_ranks[name] - mean_ranks[best]) / error))
        largest = max(largest, (k - 1 - step) * p)
        adjusted[name] = min(1.0, largest)
    return adjusted


def _table(rows: Sequence[Row], methods: Sequence[str], figure: str) -> dict[tuple[str, str], list[float]]:
    """Per problem, each method's mean of a figure over seeds."""
    cells: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        cells[row["dataset"], row["target"]][row["method"]].append(row[figure])
    return {name: [float(np.mean(found[method])) for method in methods] for name, found in cells.items()}


def compared(rows: Sequence[Row], methods: Sequence[str], measure: str, selection: str) -> Row:
    """Friedman's test of the methods over problems (means over seeds), and Holm's p-values against the best."""
    scores = list(_table(rows, methods, measure).values())
    test = friedman(scores)
    ranks = dict(zip(methods, test.mean_ranks.tolist(), strict=True))
    best = min(ranks, key=lambda name: ranks[name])
    return {
        "name": f"{measure}, selection by {selection}",
        "measure": measure,
        "selection": selection,
        "n_datasets": len(scores),
        "methods": list(methods),
        "statistic": test.statistic,
        "p_value": test.p_value,
        "mean_ranks": ranks,
        "adjustment": "holm against the best",
        "pairs": [{"a": best, "b": name, "p": p} for name, p in holm_against_best(ranks, len(scores)).items()],
        "nemenyi_difference": nemenyi_difference(len(methods), len(scores)),
    }


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
