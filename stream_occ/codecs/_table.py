"""Tables in text, which apps export and loggers send: cells, stamps, and columns found by name."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

import numpy as np

from stream_occ.codecs._common import check_count, check_size, decode_text, refuse
from stream_occ.samples import FloatArray

_INTEGER = re.compile(r"[+-]?[0-9]{1,30}")
# Digits belong to one part of it alone: where two could share them, a long run takes time that grows with its square.
NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,4})?")
NOT_FINITE = re.compile(r"[+-]?(?:nan|inf|infinity)|null", re.IGNORECASE)


def stamp_cell(cell: str) -> Any:
    """An int or a Decimal; whatever is neither is left as text, which `whole_ns` refuses by name."""
    if _INTEGER.fullmatch(cell):
        return int(cell)
    if NUMBER.fullmatch(cell):
        try:
            return Decimal(cell)
        except InvalidOperation:
            return cell
    return cell


def value_cell(cell: str, device_id: str) -> float:
    """A finite number; refuses anything else by name."""
    if not NUMBER.fullmatch(cell):
        if not cell or NOT_FINITE.fullmatch(cell):
            refuse(device_id, "not_finite", "have finite numbers", cell or "an empty cell", "Leave broken samples out")
        refuse(device_id, "not_a_number", "have numbers in every cell", cell, "Send plain decimal numbers")
    return float(cell)


def table_lines(payload: bytes, device_id: str) -> list[str]:
    """The lines of the payload that are not blank, a byte-order mark left out."""
    check_size(payload, device_id)
    text = decode_text(payload, device_id).removeprefix("\ufeff")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines:
        refuse(
            device_id, "invalid_csv", "begin with names of columns", "blank lines", "Send the app's CSV with its header"
        )
    return lines


def cells(line: str, delimiter: str) -> list[str]:
    """Cells of a line without quotes; one empty cell at the end, after a last delimiter, is none."""
    found = [cell.strip().strip('"').strip() for cell in line.split(delimiter)]
    return found[:-1] if len(found) > 1 and not found[-1] else found


def column_names(line: str, delimiter: str, device_id: str) -> list[str]:
    """Cells of a header, each once."""
    names = cells(line, delimiter)
    if len(set(names)) != len(names):
        refuse(device_id, "duplicate_key", "have every column once", line, "Correct the header")
    return names


def table_rows(lines: Sequence[str], delimiter: str, n_columns: int, device_id: str) -> list[list[str]]:
    """Rows of a table, each as wide as its header."""
    check_count(len(lines), device_id)
    rows = [cells(line, delimiter) for line in lines]
    odd = next((row for row in rows if len(row) != n_columns), None)
    if odd is not None:
        refuse(device_id, "wrong_shape", f"have {n_columns} columns a line", f"{len(odd)}", "Send whole lines")
    return rows


def three_columns(rows: Sequence[Sequence[str]], columns: Sequence[int], device_id: str) -> FloatArray:
    """Values of three columns, float64 (n, 3)."""
    return np.array([[value_cell(row[i], device_id) for i in columns] for row in rows])
