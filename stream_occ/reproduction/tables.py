"""The papers' data sets by the names that their tables give them, found by file name at any depth of a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import PurePosixPath

from stream_occ.datasets import FileTree
from stream_occ.datasets.table import Table, parse_table
from stream_occ.errors import DataError, nearest
from stream_occ.samples import BoolArray

# Wine1 to Wine3 are told apart by the steps of their printed TNR: 1/25, 1/60 and 1/10, as 25, 18 and 10 outliers give.
PAPER1_FILES: Mapping[str, tuple[str, ...]] = {
    "glass2": (),
    "glass4": (),
    "glass5": (),
    "wine1": ("winequality-white-3-9_vs_5",),
    "wine2": ("winequality-red-8_vs_6-7",),
    "wine3": ("winequality-red-3_vs_5",),
    "yeast4": (),
    "yeast5": (),
    "yeast6": (),
    "mf": (),
    "dlr": (),
    "cov": (),
    "ld": (),
    "mi": (),
    "bc": ("breast-cancer-unsupervised-ad",),
}
"""Stems of a set's file besides its own name, which any .dat or .csv file may have too."""

MIN_TARGETS = 30  # each inner fold of Algorithm 3 then trains on some rows still
MIN_OUTLIERS = 5  # one a fold

__all__ = ["PAPER1_FILES", "check_names", "find_tables", "refused_rows", "too_few"]


def find_tables(path: str | os.PathLike[str], files: Mapping[str, tuple[str, ...]]) -> dict[str, Table]:
    """Those of the named tables that lie anywhere below `path`, a folder or archive, in the order of `files`.

    Of several files of one set the first in order of their paths is read. Raises DataError for a missing path and for
    a table that cannot be read.
    """
    tree = FileTree(path)
    try:
        by_stem: dict[str, str] = {}
        for file in tree.names:
            path_in_tree = PurePosixPath(file)
            if path_in_tree.suffix.lower() in (".dat", ".csv"):
                by_stem.setdefault(path_in_tree.stem.lower(), file)
        found = {}
        for name, stems in files.items():
            present = [by_stem[stem.lower()] for stem in (*stems, name) if stem.lower() in by_stem]
            if present:
                found[name] = parse_table(present[0], tree.read(present[0]))
        return found
    finally:
        tree.close()


def check_names(names: tuple[str, ...] | None, known: Mapping[str, object]) -> tuple[str, ...]:
    """The sets asked for, all where None; DataError for an unknown one."""
    if names is None:
        return tuple(known)
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        got = repr(unknown[0]) if unknown else "none"
        remedy = nearest("".join(unknown[:1]), known, "Separate names by commas")
        raise DataError("--datasets", f"be among {', '.join(known)}", got, remedy)
    return tuple(dict.fromkeys(names))


def too_few(is_outlier: BoolArray) -> str | None:
    """Why a set of these rows (n,) cannot be dealt out to five folds, or None."""
    n_outliers = int(is_outlier.sum())
    n_targets = len(is_outlier) - n_outliers
    is_enough = n_outliers >= MIN_OUTLIERS and n_targets >= MIN_TARGETS
    return None if is_enough else f"too few rows: {n_targets} targets, {n_outliers} outliers"


def refused_rows(tables: Mapping[str, Table]) -> list[str]:
    """One sentence for each table that lost rows in reading."""
    found = {name: table.report.by_reason() for name, table in tables.items()}
    reasons = {name: ", ".join(f"{n} {why}" for why, n in by.items()) for name, by in found.items() if by}
    return [f"{name}: rows not used: {text}" for name, text in reasons.items()]
