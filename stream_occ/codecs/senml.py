"""SenML packs (RFC 8428) in JSON or CBOR: a list of records, each one axis of one sensor at one instant.

::

    [{"bn": "urn:dev:mac:0024befffe804ff1:", "bt": 1700000000.02, "n": "acc_x", "u": "m/s2", "v": 0.1},
     {"n": "acc_y", "u": "m/s2", "v": 0.2}, ..., {"n": "gyr_z", "u": "rad/s", "v": 0.0}]

The RFC names no axes. Here a name ends in acc or gyr (also accel, acceleration, accelerometer, gyro, gyroscope), then
x, y or z, with or without one of / . _ : - between. Base fields are resolved as the RFC says; times are read exactly
and must be absolute, since a time below 2^28 s is one before or after arrival. `u` may be left out where the profile
says the unit; g is the gram here, so a pack in g is for a profile with acc_unit: g.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from stream_occ.codecs._common import (
    MAX_SAMPLES,
    check_count,
    check_size,
    refuse,
    refuse_without_gravity,
    to_sensor_block,
    whole_ns,
)
from stream_occ.codecs._json_text import json_text, parse_json
from stream_occ.codecs._sensors import exact_rows, whole_or_apart
from stream_occ.samples import NS_PER_S, DeviceProfile, SampleBlock, Sensor, SensorBlock

RELATIVE_BELOW_S = 2**28  # RFC 8428, 4.5.3
MIN_STAMP_NS = RELATIVE_BELOW_S * NS_PER_S  # a pack cannot say an earlier instant: before July 1978
_VERSION = 10
_MAX_RECORDS = 6 * MAX_SAMPLES
_MAX_TEXT, _MAX_DIGITS = 256, 800  # 5e-324 in full has 751 digits
_AXIS = re.compile(
    r"(?:.*[^a-z])?(acc(?:el(?:eration|erometer)?)?|gyr(?:o(?:scope)?)?)[/._:-]?([xyz])", re.IGNORECASE | re.DOTALL
)
_NOT_TOTAL = re.compile(r"(?:.*[^a-z])?(?:lin(?:ear)?|user)[^a-z]?", re.IGNORECASE | re.DOTALL)  # before acc: without g
_LABELS = {-1: "bver", -2: "bn", -3: "bt", -4: "bu", -5: "bv", -6: "bs", 0: "n", 1: "u", 2: "v", 3: "vs", 4: "vb"} | {
    5: "s",
    6: "t",
    7: "ut",
    8: "vd",
}  # RFC 8428, table 6


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock | SensorBlock]:
    """Blocks of the pack; raises PayloadError, and nothing else, for whatever is none or has no axis in it."""
    check_size(payload, device_id)
    axes: dict[tuple[Sensor, str], tuple[str, list[Any], list[Any]]] = {}
    units: dict[Sensor, set[str | None]] = {}
    linear = ""
    for record in resolved(_records(payload, device_id), device_id):
        match = _AXIS.fullmatch(record["n"])
        if match is None:
            continue
        if _NOT_TOTAL.fullmatch(record["n"], 0, match.start(1)):
            linear = record["n"]
            continue
        if record["t"] < RELATIVE_BELOW_S:
            refuse(device_id, "stamp_invalid", "have absolute times", str(record["t"])[:40], "Send bt, in s since 1970")
        sensor: Sensor = "gyr" if match[1][0] in "gG" else "acc"
        name, stamps, values = axes.setdefault((sensor, match[2].lower()), (record["n"], [], []))
        if name != record["n"]:
            got = f"{name} and {record['n']}"
            refuse(device_id, "duplicate_key", "be of one device, with each axis once", got, "Send one device a topic")
        stamps.append(record["t"])
        values.append(record.get("v", record.get("vs")))
        units.setdefault(sensor, set()).add(record.get("u"))
    if linear and "acc" not in units:
        refuse_without_gravity(device_id, linear)
    if not axes:
        refuse(device_id, "no_samples", "have records named acc_x to gyr_z", "none", "Name them so")
    blocks = []
    for sensor, told in units.items():
        columns = [axes.get((sensor, axis), ("", [], [])) for axis in "xyz"]
        stamps = columns[0][1]
        if any(column[1] != stamps for column in columns):
            refuse(device_id, "wrong_shape", f"have x, y and z of {sensor} at each instant", "others", "Send all three")
        check_count(len(stamps), device_id)
        rows = list(zip(*(column[2] for column in columns), strict=True))
        unit = _unit(sensor, told, profile, device_id)
        t_ns, matrix = whole_ns(stamps, "s", device_id), exact_rows(rows, sensor, device_id)
        blocks.append(to_sensor_block(device_id, profile, sensor, t_ns, matrix, unit))
    return whole_or_apart(blocks, device_id)


def encode(block: SampleBlock) -> bytes:
    """A pack in JSON with every digit of stamps and floats; none must be before 1978."""
    base_ns = int(block.t_ns[0])
    records = [f'{{"bn":{json.dumps(block.device_id + ":")},"bt":{_seconds(base_ns)},"bver":{_VERSION}}}']
    for t_ns, acc, gyr in zip(block.t_ns.tolist(), block.acc_ms2.tolist(), block.gyr_rads.tolist(), strict=True):
        for sensor, unit, row in (("acc", "m/s2", acc), ("gyr", "rad/s", gyr)):
            for axis, value in zip("xyz", row, strict=True):
                time = f',"t":{_seconds(t_ns - base_ns)}' if t_ns != base_ns else ""
                records.append(f'{{"n":"{sensor}_{axis}","u":"{unit}"{time},"v":{value!r}}}')
    return f"[{','.join(records)}]".encode()


def resolved(records: list[dict[str, Any]], device_id: str) -> Iterator[dict[str, Any]]:
    """Records that stand alone: full name, time with its base, value with its base (RFC 8428, 4.6).

    A record without a value of its own sort (a text, a sum) keeps what it has.
    """
    base: dict[str, Any] = {}
    for record in records:
        if record.get("bver", _VERSION) not in range(1, _VERSION + 1) or any(key.endswith("_") for key in record):
            refuse(device_id, "bad_field", f"be of version {_VERSION} or less", record, "Send no fields ending in _")
        base |= {key: _bounded(key, record[key], device_id) for key in ("bn", "bt", "bu", "bv") if key in record}
        if not record.keys() & {"v", "vs", "vb", "vd", "s"}:
            continue
        own = {key: _bounded(key, record[key], device_id) for key in ("n", "t", "u", "v") if key in record}
        name = base.get("bn", "") + own.get("n", "")
        time = _sum(base.get("bt", 0), own.get("t", 0))
        out = {"n": name, "t": time} | {key: record[key] for key in ("vs", "vb", "vd") if key in record}
        if "v" in own:
            out["v"] = _sum(base.get("bv", 0), own["v"])
        unit = own.get("u", base.get("bu"))
        yield out if unit is None else out | {"u": unit}


def _seconds(t_ns: int) -> str:
    sign, t_ns = ("-", -t_ns) if t_ns < 0 else ("", t_ns)
    return f"{sign}{t_ns // NS_PER_S}.{t_ns % NS_PER_S:09d}"


def _records(payload: bytes, device_id: str) -> list[dict[str, Any]]:
    """Records of a pack in JSON, or in CBOR, which begins with an array."""
    if payload[0] >> 5 == 4:
        records = _labelled(_parse_cbor(payload, device_id), device_id)
    else:
        records = parse_json(json_text(payload, device_id), device_id, Decimal)
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        refuse(device_id, "invalid_json", "be a list of records", f"a {type(records).__name__}", "Send a SenML pack")
    if len(records) > _MAX_RECORDS:
        refuse(device_id, "too_many_samples", f"hold at most {_MAX_RECORDS} records", f"{len(records)}", "Send fewer")
    return records


def _parse_cbor(payload: bytes, device_id: str) -> Any:
    try:
        from stream_occ.codecs._cbor import parse_cbor
    except ModuleNotFoundError:
        refuse(device_id, "library_missing", "be JSON without cbor2", "CBOR", "Install stream_occ[codecs]")
    return parse_cbor(payload, device_id, has_text_keys=False)


def _labelled(records: Any, device_id: str) -> Any:
    """CBOR records with the keys of JSON."""
    if not isinstance(records, list) or not all(isinstance(record, dict) for record in records):
        return records
    out = []
    for record in records:
        named = {}
        for key, value in record.items():
            label = _LABELS.get(key) if type(key) is int else key
            if not isinstance(label, str) or label in named:
                refuse(device_id, "bad_field", "have labels of RFC 8428", key, "Send a SenML pack")
            named[label] = value
        out.append(named)
    return out


def _bounded(key: str, value: Any, device_id: str) -> Any:
    """A field as it is: a short text, or a finite number of which sums cost nothing."""
    if key in ("n", "bn", "u", "bu"):
        if not isinstance(value, str) or len(value) > _MAX_TEXT:
            refuse(device_id, "bad_field", f"have a text of at most {_MAX_TEXT} in {key}", value, "Correct the sender")
        return value
    is_time = key in ("t", "bt")
    if type(value) not in (int, float, Decimal):
        reason = "stamp_invalid" if is_time else "not_finite" if value is None else "not_a_number"
        refuse(device_id, reason, f"have a number in {key}", value, "Send plain numbers")
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not number.is_finite():
        refuse(device_id, "not_finite", f"have a finite number in {key}", str(value), "Leave broken records out")
    digits = number.as_tuple()
    if len(digits.digits) > _MAX_DIGITS or abs(int(digits.exponent)) > _MAX_DIGITS:
        reason = "stamp_invalid" if is_time else "value_out_of_range"
        refuse(device_id, reason, f"have at most {_MAX_DIGITS} digits in {key}", "more", "Check the sender")
    return number


def _sum(base: int | Decimal, value: int | Decimal) -> int | Decimal:
    """Sum, exact where it has at most 28 digits; a negative zero stays one."""
    return value if base == 0 else base + value


def _unit(sensor: Sensor, told: set[str | None], profile: DeviceProfile, device_id: str) -> str | None:
    """The one unit of a sensor's records; g, the gram of SenML, is standard gravity where the profile says so alone."""
    if len(told) > 1:
        got = " and ".join(sorted(str(unit)[:20] for unit in told))
        refuse(device_id, "unit_conflict", f"have one unit for {sensor}", got, "Send one unit")
    unit = next(iter(told))
    if sensor == "acc" and unit == "g" and profile.acc_unit is None:
        remedy = "Set acc_unit: g in the profile, or send m/s2"
        refuse(device_id, "units_unknown", "say that g is no gram", "u: g, the gram of SenML", remedy)
    return unit
