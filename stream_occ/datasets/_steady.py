"""Sets without stamps: the place of a row in its file is its time, at the rate that the set states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import Column, decode_text, keep_possible, parse_rows, stack
from stream_occ.samples import NS_PER_S, FloatArray, IntArray


def read_steady(
    tree: FileTree, name: str, names: Sequence[str], *, rate_hz: int, bounds: FloatArray, report: LoadReport
) -> tuple[IntArray, FloatArray]:
    """Stamps (n,) in ns from the file's first row on, and raw counts (n, len(names)) as floats.

    A ';' at the end of a row is no field. A refused row keeps its place: later rows do not move up into its time.
    """
    lines = (line.strip() for line in decode_text(tree.read(name), name, report).splitlines())
    numbered = [f"{i},{line.removesuffix(';')}" for i, line in enumerate(line for line in lines if line)]
    columns = [Column("row", int), *(Column(column, int) for column in names)]
    table = parse_rows(numbered, columns, file=name, report=report)
    row = table["row"].astype(np.int64)
    t_ns = (row * NS_PER_S + rate_hz // 2) // rate_hz  # nearest ns, without a float on the way
    return keep_possible(t_ns, np.ones(len(row), bool), stack(table, names), bounds, file=name, report=report)
