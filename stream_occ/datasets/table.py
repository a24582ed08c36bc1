"""Tables of feature vectors with labels: KEEL .dat and CSV, as paper 1's Tables I and II use them.

A KEEL file has '@' lines (`@attribute name real [low, high]`, `@data`), then comma-separated rows whose last field is
`positive` (outlier) or `negative`. A CSV file has the label last too, with or without a line of names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import Column, decode_text, parse_rows, stack
from stream_occ.errors import DataError
from stream_occ.samples import BoolArray, FloatArray, Recording

VARIANTS: tuple[str, ...] = ()
LAYOUT = "one KEEL .dat or .csv file"
ALLOW_FILE = True

OUTLIER_LABELS = frozenset({"positive", "outlier", "anomaly", "o", "1"})
NORMAL_LABELS = frozenset({"negative", "normal", "inlier", "n", "0"})

_ATTRIBUTE = re.compile(r"@attribute\s+('[^']*'|\S+?)\s*(real|integer|numeric|\{.*)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Feature vectors X (n, d) in the order of the file, y (n,) True for outliers, and what was left out.

    `dropped` names the constant columns, which carry nothing and would divide by zero when scaled; `n_duplicates`
    counts rows that repeat an earlier one in all features and label (they are kept).
    """

    X: FloatArray
    y: BoolArray
    feature_names: tuple[str, ...]
    name: str
    dropped: tuple[str, ...]
    n_duplicates: int
    report: LoadReport


def read_table(path: str | os.PathLike[str]) -> Table:
    """The table in a file, or in a folder or zip archive that holds exactly one; DataError for anything else."""
    tree = FileTree(path, allow_file=True)
    try:
        names = [name for name in tree.names if PurePosixPath(name).suffix.lower() in (".dat", ".csv")]
        if len(names) != 1:
            got = ", ".join(names[:5]) or "none"
            raise DataError(str(path), "be or hold one table (.dat or .csv)", got, "Give the file itself")
        return parse_table(names[0], tree.read(names[0]))
    finally:
        tree.close()


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Raises DataError: a table has no samples, so it is no data set of recordings."""
    raise DataError(
        str(tree.path),
        "be a data set of recordings here",
        "tables of feature vectors",
        "Read them with stream_occ.datasets.load_table",
    )


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterable[Recording]:
    """Nothing: `find` refuses first."""
    return ()


def parse_table(file: str, data: bytes) -> Table:
    """The table in the bytes of a file, KEEL where its name ends in .dat, else CSV; DataError where it holds none."""
    name = PurePosixPath(file).stem
    report = LoadReport(name)
    lines = [line for line in decode_text(data, file, report).splitlines() if line.strip()]
    names, rows = _keel_header(lines, file) if file.lower().endswith(".dat") else _csv_header(lines, file)
    if not names:
        raise DataError(
            file, "have features before the label", "none", "Separate columns by commas, as docs/datasets.md"
        )
    columns = [*(Column(f"x{i}", float) for i in range(len(names))), Column("label", _parse_label)]
    table = parse_rows(rows, columns, file=file, report=report)
    X = stack(table, [column.name for column in columns[:-1]])
    finite = np.isfinite(X).all(axis=1)
    report.refuse(file, "not finite", int((~finite).sum()))
    X, y = X[finite], table["label"][finite].astype(bool)
    if not len(X):
        raise DataError(
            file, "hold rows of numbers with a label last", f"{len(rows)} rows, none usable", "Check the file"
        )
    varies = (X[0] != X).any(axis=0)
    n_duplicates = len(X) - len(np.unique(np.column_stack([X, y]), axis=0))
    kept = tuple(name for name, keep in zip(names, varies, strict=True) if keep)
    dropped = tuple(name for name, keep in zip(names, varies, strict=True) if not keep)
    if dropped:
        report.note(file, f"constant columns left out: {', '.join(dropped)}")
    return Table(np.ascontiguousarray(X[:, varies]), y, kept, name, dropped, n_duplicates, report)


def _keel_header(lines: Sequence[str], file: str) -> tuple[list[str], list[str]]:
    """Names of the features and the lines after `@data`."""
    start = next((i for i, line in enumerate(lines) if line.strip().lower() == "@data"), None)
    if start is None:
        raise DataError(file, "have an @data line", "none", "Give a KEEL .dat file")
    attributes = [match for line in lines[:start] if (match := _ATTRIBUTE.match(line.strip()))]
    nominal = [match[1] for match in attributes[:-1] if match[2].startswith("{")]
    if nominal:
        raise DataError(file, "have numbers in all features", f"categories in {nominal[0]}", "Encode or remove them")
    return [match[1].strip("'") for match in attributes[:-1]], list(lines[start + 1 :])


def _csv_header(lines: Sequence[str], file: str) -> tuple[list[str], list[str]]:
    """Names of the features, x1, x2, ... where the first line is data already, and the lines of data."""
    if not lines:
        raise DataError(file, "hold rows of numbers with a label last", "an empty file", "Check the file")
    fields = [field.strip().strip('"') for field in lines[0].split(",")]
    try:
        [float(field) for field in fields[:-1]]
    except ValueError:
        return fields[:-1], list(lines[1:])
    return [f"x{i + 1}" for i in range(len(fields) - 1)], list(lines)


def _parse_label(text: str) -> bool:
    label = text.lower()
    if label in OUTLIER_LABELS:
        return True
    if label in NORMAL_LABELS:
        return False
    raise ValueError(text)
