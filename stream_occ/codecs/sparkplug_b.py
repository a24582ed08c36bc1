"""Sparkplug B payloads of NBIRTH, DBIRTH, NDATA and DDATA: metrics named like acc/x and gyr/z; docs/device-codecs.md.

A reader of the few protobuf fields that samples need. A message is understood by itself: metrics that carry an alias
alone need the birth certificate and are refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from stream_occ.codecs._common import MAX_SAMPLES, check_count, check_size, refuse, to_block, whole_ns
from stream_occ.samples import DeviceProfile, SampleBlock

_NAME = re.compile(
    r"(?:.*[^a-z])?(?:(acc|accel|accelerometer|acceleration)|gyr|gyro|gyroscope|angular_?velocity)[^a-z]*([xyz])"
)
_NOT_TOTAL = re.compile("linear|user")  # accelerations without gravity
_SIGNED_BITS = {1: 8, 2: 16, 3: 32, 4: 64}  # Int8 to Int64; they come as unsigned integers
_MAX_METRICS = 8 * MAX_SAMPLES
_REMEDY = "Choose the codec of the device"
Field = tuple[int, int, int, bytes]
"""Number, wire type, value of a varint or fixed field, bytes of a delimited one."""


class _Damaged(Exception):
    """No protobuf."""


@dataclass(slots=True)
class _Metric:
    name: str | None = None
    has_alias: bool = False
    t_ms: int | None = None
    datatype: int = 0
    value: float | None = None


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    check_size(payload, device_id)
    t_ms, metrics = None, []
    try:
        for number, wire, value, content in _fields(payload):
            if number == 1 and wire == 0:
                t_ms = value
            elif number == 2 and wire == 2:
                metrics.append(_metric(content))
                if len(metrics) > _MAX_METRICS:
                    refuse(device_id, "too_many_samples", f"hold at most {_MAX_METRICS} metrics", "more", "Send fewer")
    except _Damaged as error:
        refuse(device_id, "invalid_binary", "be a Sparkplug B payload", str(error), _REMEDY)
    rows = _samples(metrics, t_ms, device_id, profile)
    check_count(len(rows), device_id)
    t_ns = whole_ns(list(rows), "ms", device_id)
    values = np.array(list(rows.values()), dtype=np.float64)
    acc, gyr = np.ascontiguousarray(values[:, :3]), np.ascontiguousarray(values[:, 3:])
    return [to_block(device_id, profile, t_ns, acc, gyr, (None, None))]


def _samples(
    metrics: list[_Metric], t_ms: int | None, device_id: str, profile: DeviceProfile
) -> dict[int, list[float]]:
    """Six values a stamp, in the order in which stamps came."""
    names: dict[int, str] = {}
    rows: dict[int, dict[int, float]] = {}
    for metric in metrics:
        column = _column(metric.name)
        if column is None:
            continue
        if names.setdefault(column, metric.name or "") != metric.name:
            got = f"{names[column]!r} and {metric.name!r}"
            refuse(device_id, "duplicate_key", "have one metric an axis", got, "Publish one sensor a device")
        if metric.value is None:
            got = f"{metric.name!r} of type {metric.datatype}"
            refuse(device_id, "not_a_number", "have numbers in its metrics", got, "Send Float or Double")
        stamp = metric.t_ms if metric.t_ms is not None else t_ms
        if stamp is None and profile.stamps != "arrival":
            refuse(device_id, "stamp_missing", "have a timestamp", "none", "Set stamps: arrival in the profile")
        row = rows.setdefault(stamp or 0, {})
        if column in row:
            got = f"{metric.name!r} twice at {stamp}"
            refuse(device_id, "duplicate_key", "have a metric once a stamp", got, "Give each sample its own timestamp")
        row[column] = metric.value
    for columns, reason, sensor in (({0, 1, 2}, "missing_acc", "acc"), ({3, 4, 5}, "missing_gyro", "gyr")):
        if not columns & names.keys():
            _refuse_missing(metrics, reason, sensor, device_id)
    if any(len(row) != 6 for row in rows.values()):
        got = f"{min(map(len, rows.values()))} at one stamp"
        refuse(device_id, "wrong_shape", "have all six metrics at each stamp", got, "Publish the axes together")
    return {stamp: [row[column] for column in range(6)] for stamp, row in rows.items()}


def _refuse_missing(metrics: list[_Metric], reason: str, sensor: str, device_id: str) -> NoReturn:
    expected = f"have metrics named {sensor}/x, {sensor}/y, {sensor}/z"
    if any(metric.has_alias and metric.name is None for metric in metrics):
        refuse(
            device_id, reason, expected, "aliases alone", "Publish metrics by name: a codec knows no birth certificate"
        )
    got = ", ".join(repr(metric.name) for metric in metrics[:4] if metric.name) or "none"
    refuse(device_id, reason, expected, got, "Name them so, or choose the topic of the sensor")


def _column(name: str | None) -> int | None:
    """0 to 2 for acc x, y, z; 3 to 5 for gyr.

    >>> _column("Device/IMU/Accelerometer/X"), _column("gyroZ"), _column("linear_acceleration/x"), _column("battery")
    (0, 5, None, None)
    """
    text = (name or "")[:200].lower()
    match = _NAME.fullmatch(text)
    if match is None or _NOT_TOTAL.search(text):
        return None
    return (0 if match[1] else 3) + "xyz".index(match[2])


def _metric(content: bytes) -> _Metric:
    metric = _Metric()
    raw: tuple[int, int] | None = None
    is_null = False
    for number, wire, value, inner in _fields(content):
        if number == 1 and wire == 2:
            metric.name = inner.decode("utf-8", errors="replace")
        elif number == 2:
            metric.has_alias = True
        elif number == 3 and wire == 0:
            metric.t_ms = value
        elif number == 4 and wire == 0:
            metric.datatype = value
        elif number == 7 and wire == 0:
            is_null = value != 0
        elif (number, wire) in ((10, 0), (11, 0), (12, 5), (13, 1)):
            raw = number, value
    if raw is not None and not is_null:
        metric.value = _number(*raw, metric.datatype)
    return metric


def _number(field: int, value: int, datatype: int) -> float:
    """int_value, long_value, float_value or double_value as a float."""
    if field == 12:
        return float(struct.unpack("<f", value.to_bytes(4, "little"))[0])
    if field == 13:
        return float(struct.unpack("<d", value.to_bytes(8, "little"))[0])
    bits = _SIGNED_BITS.get(datatype)
    if bits is not None:
        value &= (1 << bits) - 1
        value -= (value >> (bits - 1)) << bits
    return float(value)


def _fields(data: bytes) -> Iterator[Field]:
    """The fields of one protobuf message."""
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
            yield number, wire, value, b""
            continue
        if wire == 2:
            size, at = _varint(data, at)
        else:
            size = {1: 8, 5: 4}.get(wire, -1)
        if size < 0 or number == 0 or at + size > end:
            raise _Damaged(f"a broken field at byte {at}")
        content = data[at : at + size]
        at += size
        yield number, wire, 0 if wire == 2 else int.from_bytes(content, "little"), content if wire == 2 else b""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise _Damaged("a number that does not end")
