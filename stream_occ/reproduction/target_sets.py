"""The one-class problems of the second paper's experiments: tables on disk, and scikit-learn's own data sets."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from stream_occ.reproduction.tables import PAPER1_FILES, check_names, find_tables
from stream_occ.samples import FloatArray

TABLES = {name: PAPER1_FILES[name] for name in PAPER1_FILES if name not in ("mf", "dlr", "cov", "ld", "mi")}
"""Ten of the first paper's tables: those that are public as feature vectors."""

BUNDLED = {"iris": 3, "wine": 3, "breast_cancer": 2, "digits": 10}
"""scikit-learn's own and their classes: each class in turn is the target, all others are its outliers."""

__all__ = ["BUNDLED", "TABLES", "TargetSet", "bundled_sets", "find_sets"]


@dataclass(frozen=True, slots=True, eq=False)
class TargetSet:
    """One problem: rows X (n, d) of data set `dataset`, is_outlier (n,) for all that is not of class `target`."""

    dataset: str
    target: str
    X: FloatArray
    is_outlier: NDArray[np.bool_]


def find_sets(
    data: str | os.PathLike[str] | None, names: Sequence[str] | None = None
) -> tuple[list[TargetSet], list[str]]:
    """The problems of the tables below `data` (none: None) and of scikit-learn, and the names of tables not found.

    `names` keeps these data sets alone. Raises DataError for an unknown name, a missing path and a damaged table.
    """
    wanted = check_names(None if names is None else tuple(names), {**TABLES, **BUNDLED})
    tables = {name: TABLES[name] for name in wanted if name in TABLES}
    found = find_tables(data, tables) if data is not None and tables else {}
    problems = [TargetSet(name, "normal", table.X, table.y) for name, table in found.items()]
    problems += [item for name in wanted if name in BUNDLED for item in bundled_sets(name)]
    return problems, [name for name in tables if name not in found]


def bundled_sets(name: str) -> Iterator[TargetSet]:
    """Each class of one of scikit-learn's data sets in turn as the target."""
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    X = np.ascontiguousarray(bunch.data, dtype=np.float64)
    for number, target in enumerate(bunch.target_names):
        yield TargetSet(name, str(target), X, bunch.target != number)
