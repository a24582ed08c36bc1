"""The one-class problems of the second paper's experiments: tables on disk, and scikit-learn's own data sets."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from stream_occ.errors import DataError
from stream_occ.reproduction.tables import PAPER1_FILES, check_names, find_tables, refused_rows, too_few
from stream_occ.samples import BoolArray, FloatArray

TABLES = {name: PAPER1_FILES[name] for name in PAPER1_FILES if name not in ("mf", "dlr", "cov", "ld", "mi")}
"""Ten of the first paper's tables: those that are public as feature vectors."""

BUNDLED = ("iris", "wine", "breast_cancer", "digits")
"""scikit-learn's own: each class in turn is the target, all others are its outliers."""

__all__ = ["BUNDLED", "TABLES", "TargetSet", "bundled_sets", "find_sets"]


@dataclass(frozen=True, slots=True, eq=False)
class TargetSet:
    """One problem: rows X (n, d) of data set `dataset`, is_outlier (n,) for all that is not of class `target`."""

    dataset: str
    target: str
    X: FloatArray
    is_outlier: BoolArray

    def digest(self) -> str:
        """The first 12 hex digits of the SHA-256 of rows and flags: which data a figure is of."""
        return hashlib.sha256(self.X.tobytes() + self.is_outlier.tobytes()).hexdigest()[:12]


def find_sets(
    data: str | os.PathLike[str] | None, names: Sequence[str] | None = None
) -> tuple[list[TargetSet], list[str]]:
    """The problems of the tables below `data` (none: None) and of scikit-learn; and notes on what is missing of them.

    `names` keeps these data sets alone. Raises DataError for an unknown name, a missing path, a folder with none of
    the tables and a damaged table.
    """
    wanted = check_names(None if names is None else tuple(names), dict.fromkeys((*TABLES, *BUNDLED)))
    tables = {name: TABLES[name] for name in wanted if name in TABLES}
    found = find_tables(data, tables) if data is not None and tables else {}
    if tables and not found and (data is not None or len(tables) == len(wanted)):
        raise DataError("--data", f"hold one of the tables {', '.join(tables)}", "none", "Give their folder")
    problems = [TargetSet(name, "normal", table.X, table.y) for name, table in found.items()]
    problems += [item for name in wanted if name in BUNDLED for item in bundled_sets(name)]
    notes = refused_rows(found)
    missing = [name for name in tables if name not in found]
    if missing:
        notes.append(f"tables not found and left out: {', '.join(missing)}")
    faults = {item.dataset: too_few(item.is_outlier) for item in problems if too_few(item.is_outlier)}
    notes += [f"{name} left out: {fault}" for name, fault in faults.items()]
    return [item for item in problems if item.dataset not in faults], notes


def bundled_sets(name: str) -> Iterator[TargetSet]:
    """Each class of one of scikit-learn's data sets in turn as the target."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    X = np.ascontiguousarray(bunch.data, dtype=np.float64)
    for number, target in enumerate(bunch.target_names):
        yield TargetSet(name, str(target), X, bunch.target != number)
