"""Messages of the phone app phyphox: JSON of its network connection or remote interface, and its CSV export.

::

    {"accX": [...], "accY": [...], "accZ": [...], "acc_time": [...], "gyrX": [...], ..., "gyr_time": [...],
     "time": {"now": s, "events": [{"event": "START", "experimentTime": s, "systemTime": s since 1970}]}}

Keys are those that the experiment gives its buffers: accX, gyrX, and where gravity is sent apart linX and gravX, each
with Y, Z and a time in s since START. Experiments with and without g both say accX, so the profile must say `gravity`,
unless linX stands beside it or the buffers are named by phyphox's sensor, accelerometerX. With `time` (a <send> of that
type) stamps are UTC; without it they are the experiment's own, for profiles with `stamps: arrival`. Always m/s2 and
rad/s. A CSV is of one sensor, which its columns name, but for those of old versions (`X (m/s^2)`).
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any, NoReturn

import numpy as np

from stream_occ.codecs._common import (
    MAX_STAMP_NS,
    check_count,
    refuse,
    refuse_without_gravity,
    to_sensor_block,
    whole_ns,
)
from stream_occ.codecs._json_text import json_text, parse_object
from stream_occ.codecs._sensors import exact_rows, whole_or_apart
from stream_occ.codecs._table import column_names, stamp_cell, table_lines, table_rows, three_columns
from stream_occ.samples import NS_PER_S, DeviceProfile, IntArray, SampleBlock, Sensor, SensorBlock

_KEY = re.compile(
    r"(acc(?:elerometer)?|lin(?:_?acc|ear_acceleration)?|gra(?:v(?:ity)?)?|gyro?(?:scope)?)_?(x|y|z|t|time)",
    re.IGNORECASE,
)
_TOTAL_TITLE = "acceleration"  # of columns x, y, z with gravity
_SENSORS: dict[str, Sensor] = {"ac": "acc", "li": "linear", "gr": "gravity", "gy": "gyr"}
_HEADER = re.compile(r"(.*)\b([xyz]) \((m/s\^2|m/s²|rad/s)\)", re.IGNORECASE)
_NAMES: dict[Sensor, str] = {"acc": "acc", "gyr": "gyr", "linear": "lin", "gravity": "grav"}


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock | SensorBlock]:
    """Blocks of what the phone moved; raises PayloadError and nothing else."""
    if payload.lstrip()[:1] != b"{":
        return _decode_table(payload, device_id, profile)
    message = parse_object(json_text(payload, device_id), device_id, Decimal)
    columns, is_total = _columns(message, device_id)
    if not columns:
        _refuse_columns(", ".join(message), device_id)
    if "acc" in columns and columns.pop("linear", None) is not None:
        is_total = True
        columns.pop("gravity", None)
    if "linear" in columns and "gravity" not in columns:
        refuse_without_gravity(device_id, "linear acceleration alone")
    events = _events(message, device_id)
    blocks = []
    for sensor, own in columns.items():
        missing = [axis for axis in ("x", "y", "z", "t") if axis not in own]
        if missing:
            reason = "stamp_missing" if missing == ["t"] else "wrong_shape"
            expected = f"have {_NAMES[sensor]}X, Y, Z and {_NAMES[sensor]}_time"
            refuse(device_id, reason, expected, f"no {', '.join(missing)}", "Send all four buffers of the sensor")
        if len({len(values) for values in own.values()}) != 1:
            got = ", ".join(f"{len(values)} {axis}" for axis, values in own.items())
            refuse(device_id, "wrong_shape", f"have as many of x, y, z and time of {sensor}", got, "Send whole buffers")
        if own["t"]:
            check_count(len(own["t"]), device_id)
            if sensor == "acc" and not is_total:
                _check_gravity(profile, "accX", device_id)
            t_ns = _since_1970(whole_ns(own["t"], "s", device_id), events, device_id)
            rows = exact_rows(list(zip(own["x"], own["y"], own["z"], strict=True)), sensor, device_id)
            blocks.append(_block(device_id, profile, sensor, t_ns, rows))
    return whole_or_apart(blocks, device_id)


def encode(block: SampleBlock) -> bytes:
    """A message as the network connection sends it, with every digit of stamps and floats."""
    start_ns = int(block.t_ns.min())
    event = f'{{"event":"START","experimentTime":0,"systemTime":{_seconds(start_ns)}}}'
    fields = [f'"time":{{"now":{_seconds(int(block.t_ns.max()))},"events":[{event}]}}']
    stamps = ",".join(_seconds(t_ns) for t_ns in (block.t_ns - start_ns).tolist())
    for name, values in (("accelerometer", block.acc_ms2), ("gyr", block.gyr_rads)):
        fields.append(f'"{name}_time":[{stamps}]')
        fields += [f'"{name}{axis}":{json.dumps(values[:, k].tolist())}' for k, axis in enumerate("XYZ")]
    return f"{{{','.join(fields)}}}".encode()


def _seconds(t_ns: int) -> str:
    return f"{t_ns // NS_PER_S}.{t_ns % NS_PER_S:09d}"


def _block(device_id: str, profile: DeviceProfile, sensor: Sensor, t_ns: IntArray, rows: Any) -> SensorBlock:
    return to_sensor_block(device_id, profile, sensor, t_ns, rows, "rad/s" if sensor == "gyr" else "m/s2")


def _refuse_columns(got: str, device_id: str) -> NoReturn:
    expected = "have accX, accY, accZ, acc_time and gyrX, gyrY, gyrZ, gyr_time"
    refuse(device_id, "missing_acc", expected, got or "none", "Name the buffers so in the experiment's <send>")


def _check_gravity(profile: DeviceProfile, name: str, device_id: str) -> None:
    """Refuses accelerations of which nobody says whether gravity is in them."""
    if profile.gravity is None:
        expected = f"say whether gravity is in {name}: the experiments with and without g call it so"
        remedy = "Set gravity: included in the profile, if |a| at rest is 9.8, or name the buffers accelerometerX"
        refuse(device_id, "gravity_unknown", expected, "neither in message nor profile", remedy)


def _columns(message: dict[str, Any], device_id: str) -> tuple[dict[Sensor, dict[str, list[Any]]], bool]:
    """Values by sensor and axis, t for its time, and whether acc is named as what has gravity in it.

    The remote interface wraps each buffer in an object.
    """
    buffers = message.get("buffer", message)
    if not isinstance(buffers, dict):
        refuse(device_id, "bad_field", "have an object in buffer", buffers, "Choose the codec of the device")
    found: dict[Sensor, dict[str, list[Any]]] = {}
    is_total = False
    for key, value in buffers.items():
        match = _KEY.fullmatch(key)
        if match is None:
            continue
        if isinstance(value, dict):
            value = value.get("buffer")
        is_total |= match[1].lower() == "accelerometer"
        own = found.setdefault(_SENSORS[match[1][:2].lower()], {})
        axis = match[2][0].lower()
        if axis in own:
            refuse(device_id, "duplicate_key", "have each axis of a sensor once", key, "Send one sensor of a kind")
        own[axis] = value if isinstance(value, list) else [value]
    return found, is_total


def _events(message: dict[str, Any], device_id: str) -> list[tuple[int, int]]:
    """(experiment time, UTC - experiment time) of each START in ns, in order; empty where no time was sent."""
    told: Any = next((v["events"] for v in message.values() if isinstance(v, dict) and "events" in v), [])
    if not isinstance(told, list) or not all(isinstance(event, dict) for event in told):
        refuse(device_id, "bad_field", "have a list of objects in events", told, "Send time as phyphox does")
    starts = [event for event in told if event.get("event") == "START"]
    system_ns, own_ns = (
        whole_ns([event.get(key) for event in starts], "s", device_id).tolist()
        for key in ("systemTime", "experimentTime")
    )
    return sorted(zip(own_ns, (a - b for a, b in zip(system_ns, own_ns, strict=True)), strict=True))


def _since_1970(t_ns: IntArray, events: list[tuple[int, int]], device_id: str) -> IntArray:
    """Experiment time on the UTC clock, by the last START before each stamp."""
    if not events:
        return t_ns
    begins, offsets = (np.array(column, dtype=np.int64) for column in zip(*events, strict=True))
    out: IntArray = t_ns + offsets[np.maximum(np.searchsorted(begins, t_ns, side="right") - 1, 0)]
    if out.min() < 0 or out.max() >= MAX_STAMP_NS:
        refuse(device_id, "stamp_invalid", "have stamps from 0 to 2^62 ns", "others", "Check systemTime of START")
    return out


def _decode_table(payload: bytes, device_id: str, profile: DeviceProfile) -> list[SampleBlock | SensorBlock]:
    """One sensor's block of a CSV export, on the experiment's own clock."""
    lines = table_lines(payload, device_id)
    delimiter = next((mark for mark in (";", "\t") if mark in lines[0]), ",")
    names = column_names(lines[0], delimiter, device_id)
    if "Time (s)" not in names:
        refuse(device_id, "stamp_missing", "have a column Time (s)", lines[0], "Send a CSV as phyphox exports it")
    if delimiter == ";" and len(lines) > 1 and "," in lines[1]:
        got = f"decimal commas, {lines[1]}"
        remedy = "Export from phyphox anew: a spreadsheet rewrote it and lost digits"
        refuse(device_id, "invalid_csv", "have decimal points", got, remedy)
    sensor, title, columns = _sensor_columns(names, device_id)
    if sensor == "acc" and title != _TOTAL_TITLE:
        _check_gravity(profile, names[columns[0]], device_id)
    if sensor == "linear":
        refuse_without_gravity(device_id, "linear acceleration alone")
    rows = table_rows(lines[1:], delimiter, len(names), device_id)
    stamp = names.index("Time (s)")
    t_ns = whole_ns([stamp_cell(row[stamp]) for row in rows], "s", device_id)
    return [_block(device_id, profile, sensor, t_ns, three_columns(rows, columns, device_id))]


def _sensor_columns(names: list[str], device_id: str) -> tuple[Sensor, str, list[int]]:
    """Which sensor the table is of, what its columns of x, y, z are called before that, and which they are."""
    found = {i: match for i, name in enumerate(names) if (match := _HEADER.fullmatch(name))}
    if len({(match[1], match[3]) for match in found.values()}) != 1:
        _refuse_columns(", ".join(names), device_id)
    columns = [next((i for i, match in found.items() if match[2].lower() == axis), -1) for axis in "xyz"]
    if -1 in columns:
        _refuse_columns(", ".join(names), device_id)
    title, unit = next((match[1].strip().lower(), match[3].lower()) for match in found.values())
    if unit == "rad/s":
        return "gyr", title, columns
    if "gravity" in title:
        return "gravity", title, columns
    return "linear" if "linear" in title or "without g" in title else "acc", title, columns
