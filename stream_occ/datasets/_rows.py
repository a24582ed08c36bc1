"""Text to numbers: numpy's C parser for clean files, a careful line-by-line parser for the others."""

from __future__ import annotations

import csv
import re
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from stream_occ.datasets._report import LoadReport
from stream_occ.samples import BoolArray, FloatArray, IntArray

MAX_ACC_MS2 = 2000.0  # 200 g is the widest range of any body-worn accelerometer
MAX_GYR_RADS = 175.0  # 10,000 deg/s, more than twice the widest range in use
MAX_STAMP_NS = 2**62  # the year 2116; leaves room for sums of stamps in int64

_DTYPES: dict[Callable[[str], object], str] = {int: "i8", float: "f8"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a file: its name, and what turns its text into a value (int, float, str or a function)."""

    name: str
    kind: Callable[[str], object]


def decode_text(data: bytes, file: str, report: LoadReport) -> str:
    """The text of a file, without a byte order mark; bytes that are not UTF-8 become a mark that no number holds."""
    text = data.decode("utf-8-sig", errors="replace")
    if "\0" in text:
        report.note(file, "holds NUL bytes")
        text = text.replace("\0", "�")
    return text


def parse_rows(
    lines: Sequence[str], columns: Sequence[Column], *, file: str, report: LoadReport, delimiter: str = ","
) -> dict[str, NDArray[np.generic]]:
    """Arrays by column name; rows that do not hold exactly these columns are refused and counted, never repaired."""
    dtype = np.dtype([(column.name, _DTYPES.get(column.kind, "O")) for column in columns])
    used = [line for line in lines if line.strip()]
    table = _parse_fast(used, columns, dtype, delimiter) if used else None
    if table is None:  # somewhere a row is off: find out which
        table = np.array(_parse_slowly(used, columns, file, report, delimiter), dtype=dtype)
    return {column.name: table[column.name] for column in columns}


def _parse_fast(
    lines: Sequence[str], columns: Sequence[Column], dtype: np.dtype[np.void], delimiter: str
) -> NDArray[np.void] | None:
    """The table of a file in which every row is as it should be, else None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # numpy would take the integer 1e3 by way of a float
            table = np.loadtxt(lines, dtype=dtype, delimiter=delimiter, comments=None, ndmin=1)
        for column in columns:
            if column.kind not in _DTYPES:
                table[column.name] = _parse_texts(table[column.name], column)
    except (ValueError, OverflowError, DeprecationWarning):
        return None
    return table


def _parse_texts(texts: NDArray[np.void], column: Column) -> NDArray[np.object_]:
    """Values of a column of text; it holds few different ones, and each of them is looked at once."""
    different, which = np.unique(texts.astype(str), return_inverse=True)
    if any('"' in text for text in different):
        raise ValueError("quoted: for the careful parser")
    values = np.empty(len(different), dtype=object)
    values[:] = [column.kind(text.strip()) for text in different.tolist()]
    return values[which]


def _parse_slowly(
    lines: Sequence[str], columns: Sequence[Column], file: str, report: LoadReport, delimiter: str
) -> list[tuple[object, ...]]:
    rows: list[tuple[object, ...]] = []
    for line in lines:
        fields = [field.strip() for field in _split(line, delimiter)]
        if len(fields) != len(columns):
            report.refuse(file, "wrong number of fields")
            continue
        row: list[object] = []
        for column, field in zip(columns, fields, strict=True):
            try:
                row.append(_parse_field(column, field))
            except (ValueError, OverflowError):
                report.refuse(file, "not a number" if column.kind in _DTYPES else f"unknown {column.name}")
                break
        else:
            rows.append(tuple(row))
    return rows


def _parse_field(column: Column, field: str) -> object:
    if column.kind in _DTYPES and ("_" in field or not field.isascii()):
        raise ValueError(field)  # Python reads 1_000 and other scripts' digits; numpy's parser and other tools do not
    value = column.kind(field)
    if column.kind is int:
        np.int64(cast(int, value))  # raises OverflowError beyond 64 bits
    return value


def _split(line: str, delimiter: str) -> list[str]:
    return next(csv.reader([line], delimiter=delimiter)) if '"' in line else line.split(delimiter)


def stack(table: dict[str, NDArray[np.generic]], names: Sequence[str]) -> FloatArray:
    """Columns side by side as float64 (n, len(names))."""
    return np.column_stack([table[name].astype(np.float64) for name in names])


def stamps_ns(values: NDArray[np.generic], unit_ns: int) -> tuple[IntArray, BoolArray]:
    """Stamps in ns and which of them are possible; whole-number units stay exact, seconds are rounded to the ns."""
    if values.dtype.kind == "i":
        whole = values.astype(np.int64)
        good = (whole <= MAX_STAMP_NS // unit_ns) & (whole >= -(MAX_STAMP_NS // unit_ns))
        return np.where(good, whole, 0) * unit_ns, good
    real = values.astype(np.float64)
    good = np.isfinite(real) & (np.abs(real) <= MAX_STAMP_NS / unit_ns)
    real = np.where(good, real, 0.0)
    # whole part apart: an epoch second times 1e9 in one float product would lose a further 128 ns
    whole = np.floor(real)
    return whole.astype(np.int64) * unit_ns + np.rint((real - whole) * unit_ns).astype(np.int64), good


def keep_possible(
    t_ns: IntArray,
    good_stamp: BoolArray,
    values: FloatArray,
    bounds: FloatArray,
    *,
    file: str,
    report: LoadReport,
) -> tuple[IntArray, FloatArray]:
    """Rows with a possible stamp and finite values within `bounds` (one per column); the others are counted."""
    finite = np.isfinite(values).all(axis=1)
    small = (np.abs(np.where(np.isfinite(values), values, 0.0)) <= bounds).all(axis=1)
    report.refuse(file, "impossible stamp", int((~good_stamp).sum()))
    report.refuse(file, "not finite", int((good_stamp & ~finite).sum()))
    report.refuse(file, "impossible value", int((good_stamp & finite & ~small).sum()))
    keep = good_stamp & finite & small
    return t_ns[keep], values[keep]


def natural_key(text: str) -> tuple[tuple[int, int, str], ...]:
    """Orders names as people count: sub2 before sub10.

    >>> sorted(["sub10", "sub2", "sub2b"], key=natural_key)
    ['sub2', 'sub2b', 'sub10']
    """
    parts = re.findall(r"[0-9]+|[^0-9]+", text)
    return tuple((0, int(part), part) if part[0] in "0123456789" else (1, 0, part) for part in parts)
