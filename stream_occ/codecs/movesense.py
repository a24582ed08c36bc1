"""JSON of Movesense sensors: notifications that a gateway passes on, and what the logger writes.

::

    {"Uri": ".../Meas/IMU6/104", "Body": {"Timestamp": ms, "ArrayAcc": [{"x":, "y":, "z":}, ...], "ArrayGyro": [...]}}

Objects with Timestamp and ArrayAcc or ArrayGyro are batches, wherever in the message they lie. Timestamp is of the
first sample; the others follow at the rate of Uri, else the profile's nominal_rate_hz, and before the next batch. It
counts from when the sensor was switched on: with `TimeDetailed` (relativeTime in ms, utcTime in us) stamps are UTC,
without it they are for profiles with `stamps: arrival`. The message names no units (the sensor sends m/s2 and deg/s,
some gateways mg), so the profile must.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from stream_occ.codecs._common import MAX_STAMP_NS, check_count, number_rows, refuse, to_sensor_block, whole_ns
from stream_occ.codecs._json_text import json_text, parse_object
from stream_occ.codecs._sensors import spread, whole_or_apart
from stream_occ.samples import DeviceProfile, SampleBlock, Sensor, SensorBlock

_ARRAYS: dict[str, Sensor] = {"ArrayAcc": "acc", "ArrayGyro": "gyr"}
_RATE = re.compile(r"Meas/[A-Za-z0-9]+/([0-9]{1,5})")


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock | SensorBlock]:
    """Blocks of all batches of the message; raises PayloadError and nothing else."""
    message = parse_object(json_text(payload, device_id), device_id, float)
    objects = list(_objects(message))
    batches = [found for found in objects if any(key in found for key in _ARRAYS)]
    if not batches:
        refuse(device_id, "no_samples", "hold ArrayAcc and ArrayGyro", ", ".join(message), "Subscribe to Meas/IMU6")
    offset_ns, rate_hz = _offset_ns(objects, device_id), _rate_hz(objects, profile)
    blocks = []
    for key, sensor in _ARRAYS.items():
        own = [batch for batch in batches if key in batch]
        counts = [_count(batch[key], key, device_id) for batch in own]
        if own:
            check_count(sum(counts), device_id)
            starts = whole_ns([batch.get("Timestamp") for batch in own], "ms", device_id)
            rows = [_row(row, key, device_id) for batch in own for row in batch[key]]
            t_ns = spread(starts, counts, rate_hz, device_id) + offset_ns
            if t_ns.min() < 0 or t_ns.max() >= MAX_STAMP_NS:
                refuse(device_id, "stamp_invalid", "have stamps from 0 to 2^62 ns", "others", "Check TimeDetailed")
            values = number_rows(rows, key, len(rows), device_id)
            blocks.append(to_sensor_block(device_id, profile, sensor, t_ns, values, None))
    return whole_or_apart(blocks, device_id)


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of the message, the outer ones first; its depth is bounded."""
    if isinstance(value, dict):
        yield value
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        if isinstance(inner, dict | list):
            yield from _objects(inner)


def _rate_hz(objects: list[dict[str, Any]], profile: DeviceProfile) -> float | None:
    """Rate of the path that was subscribed to, else the profile's."""
    paths = [found["Uri"] for found in objects if isinstance(found.get("Uri"), str)]
    rates = {match[1] for path in paths if (match := _RATE.search(path)) and int(match[1]) > 0}
    return float(rates.pop()) if len(rates) == 1 else profile.nominal_rate_hz


def _offset_ns(objects: list[dict[str, Any]], device_id: str) -> int:
    """UTC less the sensor's own time, 0 where the message does not tell."""
    told = next((found["TimeDetailed"] for found in objects if "TimeDetailed" in found), None)
    if told is None:
        return 0
    if not isinstance(told, dict):
        refuse(device_id, "bad_field", "have an object in TimeDetailed", told, "Pass it on as the sensor sends it")
    own_ns = whole_ns([told.get("relativeTime")], "ms", device_id)[0]
    return int(whole_ns([told.get("utcTime")], "us", device_id)[0] - own_ns)


def _count(rows: Any, key: str, device_id: str) -> int:
    if not isinstance(rows, list) or not rows:
        refuse(device_id, "wrong_shape", f"have samples in each {key}", rows, "Pass it on as the sensor sends it")
    return len(rows)


def _row(row: Any, key: str, device_id: str) -> list[Any]:
    if not isinstance(row, dict) or any(axis not in row for axis in "xyz"):
        refuse(device_id, "wrong_shape", f"have x, y, z in {key}", row, "Pass it on as the sensor sends it")
    return [row["x"], row["y"], row["z"]]
