"""JSON as sketches for ESP32 and MPU-6050 publish it; the shapes are in docs/device-codecs.md.

Keys of one sample in many spellings, no stamp or one in whole seconds, raw counts: what the message leaves open is for
the profile to say (acc_unit, acc_counts_per_unit, stamps: arrival, ...), and refused where it does not.
"""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from stream_occ.codecs._common import check_count, number_rows, refuse, refuse_value, to_block, whole_ns
from stream_occ.codecs._json_text import json_text, parse_object
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, FloatArray, SampleBlock

# Stems of the keys before X, Y, Z (in the same case) and the unit where the key itself says it.
_STEMS: dict[str, tuple[str, ...]] = {
    "acc": ("acc", "accel", "Ac", "A", "a", "acc_", "accel_"),
    "gyr": ("gyc", "gyr", "gyro", "Gy", "G", "g", "gyr_", "gyro_"),
}
_SUFFIXES: dict[str, dict[str, str | None]] = {
    "acc": {"": None, "_mps2": "m/s2", "_g": "g", "_mg": "mg"},
    "gyr": {"": None, "_deg": "deg/s", "_dps": "deg/s", "_rads": "rad/s"},
}
_SPELLINGS = {
    sensor: {
        tuple(f"{stem}{axis}{suffix}" for axis in axes): unit
        for stem in stems
        for suffix, unit in _SUFFIXES[sensor].items()
        for axes in ("XYZ", "xyz")
    }
    for sensor, stems in _STEMS.items()
}
_Triple = tuple[list[Any], Any]
"""x, y, z of a sensor, and its unit where the message says it."""
_PARTIAL = frozenset({"missing_acc", "missing_gyro", "wrong_shape", "not_a_number", "not_finite"})
_NAMED = {"acceleration": "acc", "angular_velocity": "gyr"}
_UNITS = {"m/s^2": "m/s2", "m/s²": "m/s2", "°/s": "deg/s"}
# An instant of the years 2001 to 2286 is told from its size: these ranges lie a factor of 100 apart.
_EPOCH = (("s", 10**9), ("ms", 10**12), ("us", 10**15), ("ns", 10**18))
_ARRIVAL = "Set stamps: arrival in the profile, or send milliseconds since 1970"
_COUNTS_ABOVE = 400.0  # whole numbers with a larger norm are neither g nor m/s2 of any wearable sensor


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    message = parse_object(json_text(payload, device_id), device_id, Decimal)
    records = _records(message, device_id)
    check_count(len(records), device_id)
    whole, n_partial = _whole(records, device_id)
    acc, acc_unit = _rows("acc", [acc for acc, _, _ in whole], device_id)
    gyr, gyr_unit = _rows("gyr", [gyr for _, gyr, _ in whole], device_id)
    stamps = [stamp for _, _, stamp in whole]
    if profile.stamps == "arrival" and len(whole) == 1:
        t_ns = np.zeros(1, dtype=np.int64)
    else:
        t_ns = np.array([_stamp_ns(stamp, device_id) for stamp in stamps], dtype=np.int64)
    if acc_unit is None:
        _check_counts(acc, profile, device_id)
    return [replace(to_block(device_id, profile, t_ns, acc, gyr, (acc_unit, gyr_unit)), n_partial=n_partial)]


def _records(message: dict[str, Any], device_id: str) -> list[dict[str, Any]]:
    """One dict a sample: the message itself, the members of `data`, or one made of the named sensors in `data`."""
    data = message.get("data")
    if data is None:
        return [message]
    if not isinstance(data, list) or not all(isinstance(entry, dict) for entry in data):
        refuse(device_id, "wrong_shape", "have a list of objects in data", data, "Send a documented message")
    if not any("name" in entry for entry in data):
        return data
    record: dict[str, Any] = {}
    for entry in data:
        sensor, value = _NAMED.get(str(entry.get("name"))), entry.get("value")
        if sensor is None:
            continue
        if sensor in record:
            refuse(device_id, "duplicate_key", f"have {entry['name']} once", "two", "Send one sample a message")
        if not isinstance(value, dict):
            refuse(device_id, "wrong_shape", "have an object x, y, z in value", value, "Send a documented message")
        unit = entry.get("unit")
        record[sensor] = ([value.get(axis) for axis in "xyz"], _UNITS.get(unit, unit) if type(unit) is str else unit)
        if "timestamp" in entry:  # of two sensors, the later one
            record["timestamp"] = entry["timestamp"]
    return [record]


def _whole(records: list[dict[str, Any]], device_id: str) -> tuple[list[tuple[_Triple, _Triple, Any]], int]:
    """acc, gyr and stamp of the records that have all six numbers, and how many have not; refuses where none has."""
    whole: list[tuple[_Triple, _Triple, Any]] = []
    first: PayloadError | None = None
    for record in records:
        try:
            acc, gyr = _triple("acc", record, device_id), _triple("gyr", record, device_id)
        except PayloadError as error:
            if error.reason not in _PARTIAL:
                raise
            first = first or error
        else:
            whole.append((acc, gyr, record.get("timestamp")))
    if first is not None and not whole:
        raise first
    return whole, len(records) - len(whole)


def _rows(sensor: str, found: list[_Triple], device_id: str) -> tuple[FloatArray, Any]:
    """Values (n, 3) as they came, and the unit that the message says, or None."""
    units = {str(unit) for _, unit in found}
    if len(units) > 1:
        got = " and ".join(sorted(units))
        refuse(device_id, "unit_conflict", f"have one unit of {sensor}", got, "Correct the sender")
    rows = [[float(value) if type(value) is Decimal else value for value in row] for row, _ in found]
    return number_rows(rows, sensor, len(rows), device_id), found[0][1]


def _triple(sensor: str, record: dict[str, Any], device_id: str) -> _Triple:
    values, unit = record[sensor] if isinstance(record.get(sensor), tuple) else _spelled(sensor, record, device_id)
    odd = [value for value in values if type(value) not in (int, Decimal)]
    if odd:
        refuse_value(odd[0], sensor, device_id)
    return values, unit


def _spelled(sensor: str, record: dict[str, Any], device_id: str) -> _Triple:
    """Values of a sensor under whatever keys, and the unit that these say."""
    found = [(keys, unit) for keys, unit in _SPELLINGS[sensor].items() if any(key in record for key in keys)]
    if len(found) > 1:
        got = " and ".join(keys[0] for keys, _ in found)
        refuse(device_id, "duplicate_key", f"have {sensor} in one spelling", got, "Send one of them")
    if not found:
        example = "accX, accY, accZ" if sensor == "acc" else "gyrX, gyrY, gyrZ"
        got = ", ".join(map(repr, list(record)[:8])) or "no key"
        refuse(
            device_id, f"missing_{'gyro' if sensor == 'gyr' else 'acc'}", f"have {example}", got, "Send both sensors"
        )
    keys, unit = found[0]
    if not all(key in record for key in keys):
        refuse(device_id, "wrong_shape", f"have {', '.join(keys)}", "one or two of them", "Send all three axes")
    return [record[key] for key in keys], unit


def _stamp_ns(stamp: object, device_id: str) -> int:
    """A stamp since 1970 in ns; refuses none, texts, uptimes and whole seconds."""
    if stamp is None:
        refuse(device_id, "stamp_missing", "have a timestamp", "none", _ARRIVAL)
    is_number = (type(stamp) is Decimal and stamp.is_finite()) or type(stamp) is int
    unit = next((unit for unit, low in _EPOCH if is_number and low <= stamp < 10 * low), None)  # type: ignore[operator]
    if unit is None:
        got = str(stamp) if isinstance(stamp, Decimal) else stamp
        refuse(device_id, "stamp_invalid", "have an instant since 1970 as timestamp", got, _ARRIVAL)
    if unit == "s" and type(stamp) is int:
        refuse(device_id, "stamp_invalid", "be finer than a second", str(stamp), _ARRIVAL)
    return int(whole_ns([stamp], unit, device_id)[0])


def _check_counts(acc: FloatArray, profile: DeviceProfile, device_id: str) -> None:
    """Refuses what can only be raw counts where the profile does not say of what."""
    if profile.acc_counts_per_unit is not None or profile.acc_unit == "mg":
        return
    with np.errstate(over="ignore"):  # infinite is large enough
        largest = math.sqrt(float((acc * acc).sum(axis=1).max()))
    if largest > _COUNTS_ABOVE and (acc == np.rint(acc)).all():
        remedy = (
            "Set acc_unit: g and acc_counts_per_unit (MPU-6050 at 2 g: 16384), and the same for gyr, in the profile"
        )
        refuse(device_id, "units_unknown", "say what a raw count is", f"|a| of {largest:g} counts", remedy)
