"""CSV that Shimmer's Consensys writes: a line `sep=`, names of columns, their units, then one line a sample.

Calibrated columns alone: <name>_Timestamp_Unix_CAL (ms), <name>_Accel_WR_X_CAL.. or <name>_Accel_LN_X_CAL.., and
<name>_Gyro_X_CAL... Of the two accelerometers the wide-range one is taken where it is there: the other ends at 2 g, and
a fall does not.
"""

from __future__ import annotations

import re
from typing import NoReturn

from stream_occ.codecs._common import refuse, to_block, whole_ns
from stream_occ.codecs._table import cells, column_names, stamp_cell, table_lines, table_rows, three_columns
from stream_occ.samples import DeviceProfile, SampleBlock

_SEPARATOR = re.compile(r'"?sep=(.)"?\s*')
_UNITS = {"m/(s^2)": "m/s2", "m/s^2": "m/s2", "deg/s": "deg/s", "rad/s": "rad/s"}


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not this table."""
    lines = table_lines(payload, device_id)
    separator = _SEPARATOR.fullmatch(lines[0])
    if separator is None or len(lines) < 3:
        refuse(
            device_id, "invalid_csv", "begin with lines sep=, of names and of units", lines[0], "Send it as exported"
        )
    delimiter = separator[1]
    names, units = column_names(lines[1], delimiter, device_id), cells(lines[2], delimiter)
    if len(units) != len(names):
        refuse(device_id, "wrong_shape", f"have {len(names)} units", f"{len(units)}", "Send the lines as exported")
    rows = table_rows(lines[3:], delimiter, len(names), device_id)
    stamp = _stamp_column(names, units, device_id)
    acc = _columns(names, "Accel_WR") or _columns(names, "Accel_LN")
    gyr = _columns(names, "Gyro")
    if acc is None:
        _refuse_missing("acc", names, device_id)
    if gyr is None:
        _refuse_missing("gyro", names, device_id)
    t_ns = whole_ns([stamp_cell(row[stamp]) for row in rows], "ms", device_id)
    declared = _unit(units, acc, device_id), _unit(units, gyr, device_id)
    return [
        to_block(
            device_id,
            profile,
            t_ns,
            three_columns(rows, acc, device_id),
            three_columns(rows, gyr, device_id),
            declared,
        )
    ]


def _stamp_column(names: list[str], units: list[str], device_id: str) -> int:
    found = [i for i, name in enumerate(names) if re.search(r"Timestamp(Sync)?_Unix_CAL$", name)]
    if len(found) != 1 or units[found[0]] != "ms":
        got = ", ".join(name for name in names if "Timestamp" in name) or "none"
        refuse(device_id, "stamp_missing", "have one Timestamp_Unix_CAL in ms", got, "Export Unix time, not as text")
    return found[0]


def _columns(names: list[str], sensor: str) -> list[int] | None:
    """Columns of x, y, z of a calibrated sensor, where all are there once."""
    found = [[i for i, name in enumerate(names) if name.endswith(f"{sensor}_{axis}_CAL")] for axis in "XYZ"]
    return [own[0] for own in found] if all(len(own) == 1 for own in found) else None


def _refuse_missing(sensor: str, names: list[str], device_id: str) -> NoReturn:
    expected = f"have {'Gyro_X_CAL' if sensor == 'gyro' else 'Accel_WR_X_CAL or Accel_LN_X_CAL'}, and y and z, once"
    remedy = "Export calibrated data of accelerometer and gyroscope, one Shimmer a file"
    refuse(device_id, f"missing_{sensor}", expected, ", ".join(names), remedy)


def _unit(units: list[str], columns: list[int], device_id: str) -> str:
    found = {units[i] for i in columns}
    unit = _UNITS.get(found.pop()) if len(found) == 1 else None
    if unit is None:
        got = ", ".join(units[i] for i in columns)
        refuse(device_id, "unit_unsupported", f"have units of {', '.join(_UNITS)}", got, "Export calibrated data")
    return unit
