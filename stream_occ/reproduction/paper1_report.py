"""Rows, tests and tables of paper 1 from the results of its folds, each beside the printed figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from stream_occ.reproduction.printed import PRINTED, RULES, VARIANTS
from stream_occ.reproduction.report import Report, Section, friedman_entry, friedman_lines, table_lines

if TYPE_CHECKING:
    from stream_occ.reproduction.paper1 import Cell, FoldResult

MEASURES = ("gmean", "tpr", "tnr")
HALF_A_DIGIT = 0.0005  # the paper prints three decimals
TESTS = (*((f"variants of {rule}", rule) for rule in RULES), ("rules in RP", None))  # Tables V to VIII

Row = dict[str, Any]
Results = Mapping["Cell", Mapping[int, Sequence["FoldResult"]]]

__all__ = ["build"]


def build(
    found: Results,
    *,
    names: Sequence[str],
    n_outliers: Mapping[str, int],
    absent: Mapping[str, str],
    settings: Mapping[str, Any],
    notes: Sequence[str],
) -> Report:
    """The report. Means over seeds first (seed null), a row for each set without figures, then the seeds one by one.

    gmean_sd is the deviation over the five folds, as printed (its mean over seeds where seed is null); gmean_seed_sd
    that of a seed's gmean over seeds. agrees: the printed gmean lies where one more seed would with 95 % chance.
    """
    ordered = sorted(found, key=lambda cell: (names.index(cell.dataset), cell.leak))
    by_seed = {cell: [_seed_row(cell, seed, folds) for seed, folds in found[cell].items()] for cell in ordered}
    means = [_mean_row(rows) for rows in by_seed.values()]
    rows: list[Row] = []
    for name in names:
        rows += [row for row in means if row["dataset"] == name] or [_absent_row(name, absent[name])]
    rows += [row for own in by_seed.values() for row in own]
    for row in rows:
        row["n_outliers"] = n_outliers.get(row["dataset"])
    tests = _tests(means, [name for name in names if name in n_outliers])
    sections = [Section("How many printed figures come back", _agreement_lines(means))] if means else []
    sections += [
        Section(
            f"{rule}: {measure}, ours (deviation over seeds) / printed", _lines(rule, measure, means, names, absent)
        )
        for rule in RULES
        for measure in MEASURES
    ]
    if tests:
        sections.append(Section("Mean ranks of gmean, and pairs that differ", friedman_lines(tests)))
    return Report(1, settings, rows, tests, sections, notes)


def _seed_row(cell: Cell, seed: int, folds: Sequence[FoldResult]) -> Row:
    gmeans = [fold.gmean for fold in folds]
    return {
        "dataset": cell.dataset,
        "rule": cell.rule,
        "variant": cell.variant,
        "leak": cell.leak,
        "seed": seed,
        "gmean": float(np.mean(gmeans)),
        "tpr": float(np.mean([fold.tpr for fold in folds])),
        "tnr": float(np.mean([fold.tnr for fold in folds])),
        "gmean_sd": float(np.std(gmeans, ddof=1)),
        "printed": _printed(cell.dataset, cell.rule, cell.variant),
        "status": "ok",
    }


def _mean_row(rows: Sequence[Row]) -> Row:
    mean: Row = dict(rows[0]) | {"seed": None}
    for key in (*MEASURES, "gmean_sd"):
        mean[key] = float(np.mean([row[key] for row in rows]))
    several = len(rows) > 1
    for key in MEASURES:
        mean[f"{key}_seed_sd"] = float(np.std([row[key] for row in rows], ddof=1)) if several else None
    mean["agrees"] = None
    if several and mean["printed"] is not None:
        n = len(rows)
        reach = float(stats.t.ppf(0.975, n - 1)) * mean["gmean_seed_sd"] * math.sqrt(1.0 + 1.0 / n)
        mean["agrees"] = abs(mean["gmean"] - mean["printed"]["gmean"]) <= reach + HALF_A_DIGIT
    return mean


def _absent_row(name: str, status: str) -> Row:
    empty = dict.fromkeys(("rule", "variant", "leak", "seed", *MEASURES, "gmean_sd", "printed"))
    return {"dataset": name, **empty, "status": status}


def _printed(dataset: str, rule: str, variant: str) -> Row:
    entry = PRINTED[dataset, rule, variant]
    return {"gmean": entry.gmean, "tpr": entry.tpr, "tnr": entry.tnr, "gmean_sd": entry.gmean_sd}


def _tests(means: Sequence[Row], names: Sequence[str]) -> list[Row]:
    """Friedman's tests as Tables V to VIII: ours, ours with the leaking RP where it was asked for, and the print's."""
    if len(names) < 2:
        return []
    gmean = {(row["dataset"], row["rule"], row["variant"], row["leak"]): row["gmean"] for row in means}
    sources = {"ours": names, "printed": list(dict.fromkeys(dataset for dataset, _, _ in PRINTED))}
    if any(row["leak"] for row in means):
        sources = {"ours": names, "ours, with the leak": names, "printed": sources["printed"]}

    def score(source: str, dataset: str, rule: str, variant: str) -> float:
        if source == "printed":
            return PRINTED[dataset, rule, variant].gmean
        value: float = gmean[dataset, rule, variant, source != "ours" and variant == "RP"]
        return value

    found = []
    for title, chosen in TESTS:
        columns = [(chosen, variant) for variant in VARIANTS] if chosen else [(rule, "RP") for rule in RULES]
        methods = [variant if chosen else rule for rule, variant in columns]
        for source, datasets in sources.items():
            scores = [[score(source, name, rule, variant) for rule, variant in columns] for name in datasets]
            found.append(friedman_entry(f"{title}: {source}", methods, scores, source=source))
    return found


def _columns(means: Sequence[Row]) -> list[tuple[str, bool]]:
    leak = [("RP", True)] if any(row["leak"] for row in means) else []
    return [*((variant, False) for variant in VARIANTS), *leak]


def _title(variant: str, leak: bool) -> str:
    return f"{variant} with the leak" if leak else variant


def _lines(rule: str, measure: str, means: Sequence[Row], names: Sequence[str], absent: Mapping[str, str]) -> list[str]:
    columns = _columns(means)
    by_cell = {(row["dataset"], row["variant"], row["leak"]): row for row in means if row["rule"] == rule}
    rows = []
    for name in names:
        if name in absent:
            rows.append([name, "", absent[name], *[""] * (len(columns) - 1)])
            continue
        own = [by_cell[name, variant, leak] for variant, leak in columns]
        rows.append([name, str(own[0]["n_outliers"]), *(_cell(row, measure) for row in own)])
    return table_lines(["set", "outliers", *(_title(*column) for column in columns)], rows)


def _cell(row: Row, measure: str) -> str:
    spread = row[f"{measure}_seed_sd"]
    deviation = "" if spread is None else f" ({spread:.3f})"
    return f"{row[measure]:.3f}{deviation} / {row['printed'][measure]:.3f}"


def _agreement_lines(means: Sequence[Row]) -> list[str]:
    """A line a variant: over rules and sets, how many agree, and how far ours lie from the print on average."""
    rows = []
    for variant, leak in _columns(means):
        own = [row for row in means if (row["variant"], row["leak"]) == (variant, leak)]
        apart = {key: [row[key] - row["printed"][key] for row in own] for key in MEASURES}
        agree = "-" if any(row["agrees"] is None for row in own) else str(sum(row["agrees"] for row in own))
        differences = [f"{np.mean(np.abs(apart[key])):.3f} ({np.mean(apart[key]):+.3f})" for key in MEASURES]
        rows.append([_title(variant, leak), str(len(own)), agree, *differences])
    header = ["variant", "figures", "gmean agrees"]
    return table_lines([*header, *(f"{key}: mean distance (ours - printed)" for key in MEASURES)], rows)
