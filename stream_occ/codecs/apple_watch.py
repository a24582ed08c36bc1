"""`WristMotion.csv`, which the app Sensor Logger exports of an Apple Watch: one line a sample, gravity in own columns.

Columns time (ns since 1970), accelerationX.., gravityX.. and rotationRateX.. (rad/s) in any order; others are left out.
The acceleration is in g or, with standardised units, in m/s2, and its sign depends on the same setting: the file says
neither, so the profile must. What the app pushes live is for the codec `sensor_logger`.
"""

from __future__ import annotations

from stream_occ.codecs._common import refuse, to_sensor_block, whole_ns
from stream_occ.codecs._sensors import check_sign, whole_or_apart
from stream_occ.codecs._table import column_names, stamp_cell, table_lines, table_rows, three_columns
from stream_occ.samples import DeviceProfile, SampleBlock, Sensor, SensorBlock

_COLUMNS: tuple[tuple[Sensor, str, str, str | None], ...] = (
    ("linear", "acceleration", "missing_acc", None),
    ("gravity", "gravity", "gravity_excluded", None),
    ("gyr", "rotationRate", "missing_gyro", "rad/s"),
)


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock | SensorBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not this table."""
    lines = table_lines(payload, device_id)
    names = column_names(lines[0], ",", device_id)
    if "time" not in names:
        refuse(device_id, "stamp_missing", "have a column time", lines[0], "Send WristMotion.csv with its header")
    rows = table_rows(lines[1:], ",", len(names), device_id)
    check_sign(profile, device_id)
    t_ns = whole_ns([stamp_cell(row[names.index("time")]) for row in rows], "ns", device_id)
    blocks = []
    for sensor, stem, reason, unit in _COLUMNS:
        wanted = [stem + axis for axis in "XYZ"]
        if not set(wanted) <= set(names):
            refuse(device_id, reason, f"have columns {', '.join(wanted)}", lines[0], "Send WristMotion.csv as exported")
        values = three_columns(rows, [names.index(name) for name in wanted], device_id)
        blocks.append(to_sensor_block(device_id, profile, sensor, t_ns, values, unit))
    return whole_or_apart(blocks, device_id)
