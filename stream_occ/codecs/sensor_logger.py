"""Messages of the phone app Sensor Logger, as it pushes them over MQTT and HTTP, and its JSON export.

::

    {"messageId": 7, "sessionId": "...", "deviceId": "...", "payload": [{"name": "accelerometer", "time": ns since 1970,
        "values": {"x": 0.1, "y": 0.2, "z": 0.3}}, {"name": "gravity", ...}, {"name": "gyroscope", ...}]}

`accelerometer` leaves gravity out, m/s2: gravity must come beside it and is added. `totalacceleration` (Android alone)
holds both. Of `accelerometeruncalibrated` and of the watch's `wrist motion` the unit depends on phone and settings, so
the profile must say it. iOS turns all but the gyroscope round, so the profile must say acc_sign. Other readings are
left out. As https://github.com/tszheichoi/awesome-sensor-logger describes it (UNITS, CROSSPLATFORM, PUSHING).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from stream_occ.codecs._common import check_count, refuse, to_sensor_block, whole_ns
from stream_occ.codecs._json_text import json_text, parse_json
from stream_occ.codecs._sensors import check_sign, exact_rows, whole_or_apart
from stream_occ.codecs._table import stamp_cell, value_cell
from stream_occ.samples import DeviceProfile, SampleBlock, Sensor, SensorBlock

_XYZ = ("x", "y", "z")
# Name of the readings, what they become, keys of x, y, z, and the unit, where the app has one everywhere.
_PHONE: tuple[tuple[str, Sensor, tuple[str, ...], str | None], ...] = (
    ("totalacceleration", "acc", _XYZ, "m/s2"),
    ("accelerometer", "linear", _XYZ, "m/s2"),
    ("gravity", "gravity", _XYZ, "m/s2"),
    ("accelerometeruncalibrated", "acc", _XYZ, None),
    ("gyroscope", "gyr", _XYZ, "rad/s"),
    ("gyroscopeuncalibrated", "gyr", _XYZ, "rad/s"),
)
_WATCH: tuple[tuple[str, Sensor, tuple[str, ...], str | None], ...] = (
    ("wristmotion", "linear", ("accelerationX", "accelerationY", "accelerationZ"), None),
    ("wristmotion", "gravity", ("gravityX", "gravityY", "gravityZ"), None),
    ("wristmotion", "gyr", ("rotationRateX", "rotationRateY", "rotationRateZ"), "rad/s"),
)
_REMEDY = "Choose the codec of the device"
_KNOWN = frozenset(name for name, *_ in (*_PHONE, *_WATCH))


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock | SensorBlock]:
    """Blocks of what the phone, or the watch, moved; raises PayloadError and nothing else."""
    document = parse_json(json_text(payload, device_id), device_id, float)
    readings: dict[str, list[dict[str, Any]]] = {}
    for name, reading in _readings(document, device_id):
        if name in _KNOWN:
            readings.setdefault(name, []).append(reading)
    blocks = []
    for name, sensor, keys, unit in _chosen(set(readings), device_id):
        rows = readings[name]
        check_count(len(rows), device_id)
        if sensor != "gyr" and name != "totalacceleration":
            check_sign(profile, device_id)
        t_ns = whole_ns([_stamp(row) for row in rows], "ns", device_id)
        values = exact_rows([_row(row, keys, device_id) for row in rows], name, device_id)
        blocks.append(to_sensor_block(device_id, profile, sensor, t_ns, values, unit))
    return whole_or_apart(blocks, device_id)


def encode(block: SampleBlock) -> bytes:
    """A message as an Android phone pushes it, with `totalacceleration`; floats come back bit for bit."""
    payload = []
    for name, rows in (("totalacceleration", block.acc_ms2), ("gyroscope", block.gyr_rads)):
        for t_ns, row in zip(block.t_ns.tolist(), rows.tolist(), strict=True):
            payload.append({"name": name, "time": t_ns, "values": dict(zip(_XYZ, row, strict=True))})
    message = {"messageId": 0, "sessionId": "replay", "deviceId": block.device_id, "payload": payload}
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()


def _readings(document: Any, device_id: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Name and reading of all messages of the document, or of an export; refuses what is neither."""
    messages = document if isinstance(document, list) else [document]
    if not all(isinstance(message, dict) for message in messages):
        refuse(device_id, "invalid_json", "be messages of Sensor Logger", document, _REMEDY)
    senders = {str(message["deviceId"])[:80] for message in messages if "deviceId" in message}
    if len(senders) > 1:
        refuse(device_id, "device_mismatch", "be of one phone", ", ".join(sorted(senders)), "Give each its own topic")
    for message in messages:
        is_export = "sensor" in message
        for reading in [message] if is_export else _payload(message, device_id):
            name = reading.get("sensor" if is_export else "name")
            if not isinstance(name, str):
                refuse(device_id, "bad_field", "name the sensor of each reading", name, _REMEDY)
            yield name.lower().replace(" ", ""), reading


def _payload(message: dict[str, Any], device_id: str) -> list[dict[str, Any]]:
    payload = message.get("payload")
    if not isinstance(payload, list) or not all(isinstance(reading, dict) for reading in payload):
        refuse(device_id, "bad_field", "have readings in payload", payload, _REMEDY)
    return payload


def _chosen(names: set[str], device_id: str) -> list[tuple[str, Sensor, tuple[str, ...], str | None]]:
    """The sources to read: of the watch or of the phone, and of the phone's one of each kind."""
    if not names:
        remedy = "Switch Accelerometer, Gravity and Gyroscope on in the app"
        refuse(device_id, "no_samples", "have readings of motion sensors", "none", remedy)
    if "wristmotion" in names:
        if len(names) > 1:
            others = ", ".join(sorted(names))
            refuse(device_id, "bad_field", "be of one body", others, "Switch the phone's or the watch's sensors off")
        return list(_WATCH)
    if "totalacceleration" in names:
        names = names - {"accelerometer", "gravity", "accelerometeruncalibrated"}
    elif names & {"accelerometer", "gravity"}:
        names = names - {"accelerometeruncalibrated"}
    if "gyroscope" in names:
        names = names - {"gyroscopeuncalibrated"}
    return [source for source in _PHONE if source[0] in names]


def _stamp(reading: dict[str, Any]) -> Any:
    """ns since 1970; a text in the export."""
    stamp = reading.get("time")
    return stamp_cell(stamp) if isinstance(stamp, str) and "sensor" in reading else stamp


def _row(reading: dict[str, Any], keys: tuple[str, ...], device_id: str) -> list[Any]:
    """x, y, z; texts in the export, where they lie beside the name."""
    is_export = "sensor" in reading
    values = reading if is_export else reading.get("values")
    if not isinstance(values, dict) or any(key not in values for key in keys):
        refuse(
            device_id,
            "wrong_shape",
            f"have {', '.join(keys)} in each reading",
            values,
            _REMEDY,
        )
    row = [values[key] for key in keys]
    return [value_cell(cell, device_id) if is_export and isinstance(cell, str) else cell for cell in row]
