"""CSV messages: one line a sample, columns t_ns, acc_x, acc_y, acc_z, gyr_x, gyr_y, gyr_z.

A first line `# acc=m/s2 gyr=rad/s` may declare the units; a header line may name the columns in another order and
the stamp's unit (t_ns, t_us, t_ms, t_s). Without a header the order above holds.
"""

from __future__ import annotations

import re
from typing import NoReturn

import numpy as np

from stream_occ.codecs._common import (
    STAMP_SCALES,
    check_count,
    check_size,
    column_names,
    decode_text,
    refuse,
    to_block,
    whole_ns,
)
from stream_occ.codecs._table import NOT_FINITE, stamp_cell, value_cell
from stream_occ.samples import DeviceProfile, SampleBlock

_DEFAULT = tuple(column_names("ns"))
_VALUES = _DEFAULT[1:]
_UNIT = re.compile(r"(acc|gyr)=([!-~]+)")


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    check_size(payload, device_id)
    lines = [line for line in decode_text(payload, device_id).splitlines() if line.strip()]
    units: dict[str, str] = {}
    if lines and lines[0].startswith("#"):
        units = _units(lines.pop(0), device_id)
    columns = _DEFAULT
    if lines and lines[0].lstrip()[:1].isalpha() and not NOT_FINITE.match(lines[0].split(",")[0].strip()):
        columns = _header(lines.pop(0), device_id)
    check_count(len(lines), device_id)
    rows = [[cell.strip() for cell in line.split(",")] for line in lines]
    for row in rows:
        if len(row) != len(columns):
            _refuse_width(row, columns, device_id)
    stamp_at = next(i for i, name in enumerate(columns) if name.startswith("t_"))
    t_ns = whole_ns([stamp_cell(row[stamp_at]) for row in rows], columns[stamp_at][2:], device_id)
    order = [columns.index(name) for name in _VALUES]
    values = np.array([[value_cell(row[i], device_id) for i in order] for row in rows])
    acc, gyr = np.ascontiguousarray(values[:, :3]), np.ascontiguousarray(values[:, 3:])
    return [to_block(device_id, profile, t_ns, acc, gyr, (units.get("acc"), units.get("gyr")))]


def encode(block: SampleBlock) -> bytes:
    """A message with units and header; floats are written so that they are read back bit for bit."""
    lines = ["# acc=m/s2 gyr=rad/s", ",".join(_DEFAULT)]
    for t_ns, acc, gyr in zip(block.t_ns.tolist(), block.acc_ms2.tolist(), block.gyr_rads.tolist(), strict=True):
        lines.append(",".join([str(t_ns), *map(repr, acc), *map(repr, gyr)]))
    return "\n".join(lines).encode()


def _units(line: str, device_id: str) -> dict[str, str]:
    """Units of a line `# acc=m/s2 gyr=rad/s`, each at most once."""
    units: dict[str, str] = {}
    for word in line[1:].split():
        match = _UNIT.fullmatch(word)
        if match is None:
            refuse(device_id, "invalid_csv", "declare units as # acc=m/s2 gyr=rad/s", line, "Correct the first line")
        if match[1] in units:
            refuse(device_id, "duplicate_key", f"declare {match[1]} once", line, "Correct the first line")
        units[match[1]] = match[2]
    return units


def _header(line: str, device_id: str) -> tuple[str, ...]:
    """Column names of a header, checked: one stamp, three axes of each sensor, nothing twice."""
    names = tuple(name.strip() for name in line.split(","))
    if len(set(names)) != len(names):
        refuse(device_id, "duplicate_key", "have every column once", line, "Correct the header")
    stamps = [name for name in names if name.startswith("t_") and name[2:] in STAMP_SCALES]
    if len(stamps) != 1:
        refuse(device_id, "stamp_missing", "have one column of t_ns, t_us, t_ms, t_s", line, "Add it to the header")
    for sensor, reason in (("acc", "missing_acc"), ("gyr", "missing_gyro")):
        if not all(f"{sensor}_{axis}" in names for axis in "xyz"):
            refuse(device_id, reason, f"have columns {sensor}_x, {sensor}_y, {sensor}_z", line, "Send both sensors")
    return names


def _refuse_width(row: list[str], columns: tuple[str, ...], device_id: str) -> NoReturn:
    if columns is _DEFAULT and len(row) == 4:
        refuse(device_id, "missing_gyro", "have seven columns", "four: no gyroscope", "Switch the gyroscope on")
    refuse(device_id, "wrong_shape", f"have {len(columns)} columns a line", f"{len(row)}", "Correct the sender")
