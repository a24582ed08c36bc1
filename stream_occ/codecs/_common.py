"""What all codecs share: reasons of refusal, bounds, and the way from raw numbers to a SampleBlock in SI units."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from functools import lru_cache
from itertools import chain
from typing import Any, NoReturn

import numpy as np

from stream_occ.errors import ConfigError, PayloadError
from stream_occ.samples import (
    ACC_UNITS,
    GYR_UNITS,
    NS_PER_S,
    DeviceProfile,
    FloatArray,
    IntArray,
    SampleBlock,
    Sensor,
    SensorBlock,
)

MAX_PAYLOAD_BYTES = 4 * 1024 * 1024  # hard bound; the service's limits.max_payload_bytes lies below it
MAX_SAMPLES = 20_000  # more than six minutes at 50 Hz in one message is a file, not a message
MAX_DEPTH = 8  # a message needs three levels
MAX_STAMP_NS = 2**62  # the year 2116: differences of two stamps can never overflow int64
MIN_RATE_HZ, MAX_RATE_HZ = 0.01, 10_000.0
# Far beyond every wearable sensor (16 g is 157 m/s2, 2000 deg/s is 35 rad/s): what lies outside is damage, and its
# square would overflow further on.
MAX_ABS_ACC_MS2 = 10_000.0
MAX_ABS_GYR_RADS = 1_000.0

_FEW_VALUES = 30  # so many are compared one by one sooner than by four calls of numpy
_NO_SIGN = 2**63 - 1

STAMP_SCALES = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": NS_PER_S}

REASONS: dict[str, str] = {
    "empty": "no bytes at all",
    "payload_too_large": "more bytes than allowed",
    "invalid_utf8": "the bytes are not UTF-8 text",
    "invalid_json": "the text is not JSON, or not one JSON object",
    "invalid_csv": "the text is not the documented CSV",
    "invalid_binary": "the bytes are not the documented binary format",
    "library_missing": "a library that the message needs is not installed",
    "checksum_wrong": "the message was damaged on its way: its check sum does not fit",
    "duplicate_key": "a key or column comes twice",
    "too_deep": "brackets nested deeper than any message needs",
    "too_many_samples": "more samples than one message may hold",
    "no_samples": "a batch without samples, or a message of another kind: nothing of either sensor in it",
    "missing_acc": "no accelerometer values",
    "missing_gyro": "no gyroscope values",
    "wrong_shape": "not three values a sample, or not as many rows as stamps",
    "not_a_number": "a text, a truth value or an object in place of a number",
    "partial_record": "one record of several lacks a value, or has something else in its place; the others are taken",
    "not_finite": "NaN or infinity, or null or an empty cell, which encoders write for them",
    "value_out_of_range": "an acceleration or rotation that no wearable sensor can give",
    "stamp_missing": "no stamp, or more than one kind of stamp",
    "stamp_invalid": "a stamp that is no whole number of nanoseconds or out of the range of a 64-bit clock",
    "rate_invalid": "a regular batch whose rate_hz is missing or not in range",
    "units_unknown": "neither the message nor the profile says the units",
    "unit_unsupported": "a unit that is not known",
    "unit_conflict": "message and profile name different units",
    "gravity_excluded": "the device leaves gravity out of its accelerations",
    "gravity_unknown": "the app calls accelerations the same with and without gravity, and the profile does not say",
    "sign_unknown": "the sign of accelerations depends on the phone, and the profile does not say it",
    "device_mismatch": "the message names another device than its topic",
    "bad_field": "an optional field of the wrong type or out of its bounds, or a text that UTF-8 cannot hold",
}


def refuse(
    device_id: str, reason: str, expected: str, got: object, remedy: str, *, t_ns: int | None = None
) -> NoReturn:
    """Raises the PayloadError of `reason`, with what came cut to a readable length."""
    assert reason in REASONS
    try:
        text = got if isinstance(got, str) else repr(got)
    except ValueError:  # an integer of thousands of digits
        text = f"a huge {type(got).__name__}"
    text = text if len(text) <= 80 else text[:77] + "..."
    raise PayloadError(f"message of {device_id}", expected, text, remedy, reason=reason, t_ns=t_ns)


def check_size(payload: bytes, device_id: str) -> None:
    """Refuses the empty and the huge before anything is parsed."""
    if not payload:
        refuse(device_id, "empty", "hold samples", "an empty message", "Send at least one sample")
    if len(payload) > MAX_PAYLOAD_BYTES:
        refuse(
            device_id,
            "payload_too_large",
            f"have at most {MAX_PAYLOAD_BYTES} bytes",
            f"{len(payload)} bytes",
            "Send smaller batches",
        )


def decode_text(payload: bytes, device_id: str) -> str:
    """The payload as text; refuses what is not UTF-8."""
    try:
        return payload.decode("utf-8")
    except UnicodeDecodeError as error:
        refuse(
            device_id, "invalid_utf8", "be UTF-8 text", f"byte {error.start} is not", "Choose the codec of the device"
        )


def check_count(n: int, device_id: str) -> None:
    """Refuses a batch of no samples or of too many."""
    if n == 0:
        refuse(device_id, "no_samples", "hold at least one sample", "none", "Leave out empty batches")
    if n > MAX_SAMPLES:
        refuse(device_id, "too_many_samples", f"hold at most {MAX_SAMPLES} samples", f"{n}", "Send smaller batches")


def resolve_unit(
    sensor: str,
    declared: object,
    configured: str | None,
    known: dict[str, float],
    device_id: str,
    *,
    counts_per_unit: float | None = None,
) -> float:
    """Factor to SI of the unit that the message declares or the profile configures; refuses none and two.

    counts_per_unit: of the profile; a message that declares a unit holds no counts.
    """
    if declared is None:
        if configured is None:
            names = ", ".join(known)
            refuse(
                device_id,
                "units_unknown",
                f"declare the unit of {sensor} in the message or in its profile",
                "neither",
                f"Set {sensor}_unit ({names}) in the profile of the input, or send units.{sensor}",
            )
        return known[configured] / (counts_per_unit or 1.0)
    if not isinstance(declared, str) or declared not in known:
        expected = f"have units.{sensor} be one of {', '.join(known)}"
        refuse(device_id, "unit_unsupported", expected, declared, "Convert or rename it")
    if configured is not None and (configured != declared or counts_per_unit is not None):
        refuse(
            device_id,
            "unit_conflict",
            f"declare units.{sensor} as its profile does, {'counts of ' if counts_per_unit else ''}{configured}",
            declared,
            f"Correct {sensor}_unit in the profile, or the device",
        )
    return known[declared]


def whole_ns(values: Iterable[Any], unit: str, device_id: str) -> IntArray:
    """Stamps in `unit` as exact int64 nanoseconds; floats are never used, so that no digit is lost.

    ns and us must be integers; ms and s may be decimals (Decimal), exact to the nanosecond.
    """
    scale = STAMP_SCALES[unit]
    are_plain = isinstance(values, list) and set(map(type, values)) == {int}
    if are_plain and min(values) >= 0 and max(values) * scale < MAX_STAMP_NS:
        return np.array(values, dtype=np.int64) * scale
    stamps = []
    for value in values:
        if type(value) is int:
            t_ns = value * scale
        elif isinstance(value, Decimal) and scale >= 1_000_000:
            t_ns = _decimal_ns(value, scale, device_id)
        else:
            refuse(
                device_id,
                "stamp_invalid",
                f"have integers in t_{unit}" if scale < 1_000_000 else f"have numbers in t_{unit}",
                value if not isinstance(value, Decimal) else str(value),
                "Send whole nanoseconds as t_ns",
            )
        if not 0 <= t_ns < MAX_STAMP_NS:
            refuse(
                device_id,
                "stamp_invalid",
                "have stamps from 0 to 2^62 ns",
                str(value)[:40],
                f"Check the clock and that t_{unit} is really in {unit}",
                t_ns=t_ns if MAX_STAMP_NS <= t_ns < MAX_STAMP_NS * NS_PER_S else None,
            )
        stamps.append(t_ns)
    return np.array(stamps, dtype=np.int64)


def _decimal_ns(value: Decimal, scale: int, device_id: str) -> int:
    """value * scale, rounded half to even to whole ns; refuses what has no finite value in range."""
    try:
        if not value.is_finite() or not -20 < value.adjusted() < 20:
            if value == 0:
                return 0
            raise InvalidOperation
        return int((value * scale).to_integral_value())
    except (InvalidOperation, ValueError, OverflowError):
        refuse(device_id, "stamp_invalid", "have stamps from 0 to 2^62 ns", str(value)[:40], "Check the device's clock")


def regular_stamps(t0_ns: int, rate_hz: object, n: int, device_id: str) -> IntArray:
    """t0 + round(k * 1e9 / rate), k = 0..n-1; refuses a rate that is no number in [MIN_RATE_HZ, MAX_RATE_HZ]."""
    if type(rate_hz) not in (int, float) or not MIN_RATE_HZ <= rate_hz <= MAX_RATE_HZ:  # type: ignore[operator]
        refuse(
            device_id,
            "rate_invalid",
            f"have rate_hz in [{MIN_RATE_HZ:g}, {MAX_RATE_HZ:g}] beside t0",
            rate_hz,
            "Send the sampling rate in Hz, or one stamp a sample",
        )
    steps_ns = np.rint(np.arange(n) * (NS_PER_S / float(rate_hz)))  # type: ignore[arg-type]
    if n and t0_ns + float(steps_ns[-1]) >= MAX_STAMP_NS:
        refuse(
            device_id, "stamp_invalid", "have stamps from 0 to 2^62 ns", f"t0 {t0_ns}, {rate_hz} Hz", "Check rate_hz"
        )
    stamps: IntArray = t0_ns + steps_ns.astype(np.int64)
    return stamps


_NUMBER_TYPES = {int, float}


def number_rows(rows: object, sensor: str, n: int, device_id: str) -> FloatArray:
    """Rows of three JSON numbers as float64 (n, 3); refuses texts, truth values, null and wrong shapes by name."""
    if not isinstance(rows, list) or len(rows) != n or set(map(type, rows)) != {list} or set(map(len, rows)) != {3}:
        _refuse_rows(rows, sensor, n, device_id)
    values = [*chain.from_iterable(rows)]
    if not set(map(type, values)) <= _NUMBER_TYPES:
        refuse_value(next(value for value in values if type(value) not in _NUMBER_TYPES), sensor, device_id)
    try:
        return np.array(values, dtype=np.float64).reshape(n, 3)
    except OverflowError:
        refuse(device_id, "value_out_of_range", f"have {sensor} in the range of a sensor", "a huge integer", "Check it")


def refuse_value(value: object, sensor: str, device_id: str) -> NoReturn:
    """Refuses what stands in place of a number; null is what most encoders make of NaN."""
    if value is None:
        refuse(device_id, "not_finite", f"have finite numbers in {sensor}", "null", "Leave broken samples out")
    refuse(device_id, "not_a_number", f"have numbers in {sensor}", value, "Send plain JSON numbers")


def _refuse_rows(rows: object, sensor: str, n: int, device_id: str) -> NoReturn:
    """Says in which way `rows` is no list of n rows of three."""
    expected = f"have {n} rows of three numbers in {sensor}, one a stamp"
    remedy = f"Send {sensor} as [[x, y, z], ...]" if n > 1 else f"Send {sensor} as [x, y, z]"
    if not isinstance(rows, list):
        refuse(device_id, "wrong_shape", expected, f"a {type(rows).__name__}", remedy)
    if len(rows) != n:
        refuse(device_id, "wrong_shape", expected, f"{len(rows)} rows", remedy)
    odd = next(row for row in rows if not isinstance(row, list) or len(row) != 3)
    got = f"a row of {len(odd)}" if isinstance(odd, list) else f"a {type(odd).__name__} for a row"
    refuse(device_id, "wrong_shape", expected, got, remedy)


@lru_cache(maxsize=64)
def check_axes(axes: tuple[str, str, str]) -> tuple[tuple[int, int, int], tuple[float, float, float]]:
    """Columns and signs that turn a device's axes into ours; raises ConfigError unless each axis comes once.

    >>> check_axes(("y", "-x", "z"))
    ((1, 0, 2), (1.0, -1.0, 1.0))
    """
    letters = [axis.removeprefix("-") for axis in axes]
    if sorted(letters) != ["x", "y", "z"]:
        raise ConfigError(
            "profile: axes", "name x, y and z once each, with or without -", repr(axes), "Correct the axes"
        )
    columns = tuple("xyz".index(letter) for letter in letters)
    signs = tuple(-1.0 if axis.startswith("-") else 1.0 for axis in axes)
    return columns, signs  # type: ignore[return-value]


def to_block(
    device_id: str,
    profile: DeviceProfile,
    t_ns: IntArray,
    acc: FloatArray,
    gyr: FloatArray,
    declared_units: tuple[object, object],
    number: tuple[int | str, int] | None = None,
) -> SampleBlock:
    """The block in SI units and our axes; refuses non-finite and impossible values, and a device without gravity."""
    acc_ms2 = _in_si(device_id, profile, "acc", acc, declared_units[0])
    gyr_rads = _in_si(device_id, profile, "gyr", gyr, declared_units[1])
    return SampleBlock(device_id, t_ns, acc_ms2, gyr_rads, number)


def refuse_without_gravity(device_id: str, got: str) -> NoReturn:
    """Refuses accelerations that gravity was taken out of, with no gravity beside them."""
    refuse(
        device_id,
        "gravity_excluded",
        "come with gravity in its accelerations",
        got,
        "Send total acceleration, or gravity as a sensor of its own where the codec knows one",
    )


def to_sensor_block(
    device_id: str, profile: DeviceProfile, sensor: Sensor, t_ns: IntArray, values: FloatArray, declared_unit: object
) -> SensorBlock:
    """One sensor's samples, checked and turned as those of `to_block`; linear and gravity have the unit of acc."""
    return SensorBlock(device_id, sensor, t_ns, _in_si(device_id, profile, sensor, values, declared_unit))


def _in_si(
    device_id: str, profile: DeviceProfile, sensor: Sensor, values: FloatArray, declared_unit: object
) -> FloatArray:
    """One sensor's values, turned and checked."""
    values = in_our_axes(values, unit_factor(sensor, profile, declared_unit, device_id), profile.axes)
    if sensor == "gyr":
        check_values(values, "gyr", MAX_ABS_GYR_RADS, "rad/s", device_id)
    else:
        check_values(values, "acc", MAX_ABS_ACC_MS2, "m/s2", device_id)
    return values


def unit_factor(sensor: Sensor, profile: DeviceProfile, declared_unit: object, device_id: str) -> float:
    """Factor to SI, the sign of accelerations in it, as `resolve_unit`; refuses a device without gravity."""
    if sensor == "gyr":
        counts = profile.gyr_counts_per_unit
        return resolve_unit("gyr", declared_unit, profile.gyr_unit, GYR_UNITS, device_id, counts_per_unit=counts)
    if sensor == "acc" and profile.gravity == "excluded":
        refuse_without_gravity(device_id, "a profile that says gravity: excluded")
    counts = profile.acc_counts_per_unit
    factor = resolve_unit("acc", declared_unit, profile.acc_unit, ACC_UNITS, device_id, counts_per_unit=counts)
    return factor * (profile.acc_sign or 1)


def in_our_axes(values: FloatArray, factor: float, axes: tuple[str, str, str]) -> FloatArray:
    """values[:, columns] * signs * factor; values as they are, to the bit, where there is nothing to do."""
    if axes == ("x", "y", "z") and factor == 1.0:
        return values
    with np.errstate(over="ignore", invalid="ignore"):  # infinity and NaN, also a signalling one, are refused by name
        if axes != ("x", "y", "z"):
            columns, signs = check_axes(axes)
            values = np.ascontiguousarray(values[:, columns]) * np.array(signs)
        return values if factor == 1.0 else values * factor


def check_values(values: FloatArray, sensor: str, bound: float, unit: str, device_id: str) -> None:
    """Refuses NaN, infinity and what exceeds the bound."""
    if values.size <= _FEW_VALUES and all(map(bound.__ge__, map(abs, values.ravel().tolist()))):  # NaN is not below it
        return
    # Without their sign floats are in the order of their bits, NaN behind infinity; and integers warn of nothing.
    largest = (values.view(np.int64) & _NO_SIGN).max().view(np.float64)
    if largest <= bound:
        return
    if not np.isfinite(largest):
        refuse(device_id, "not_finite", f"have finite numbers in {sensor}", str(largest), "Leave broken samples out")
    refuse(
        device_id,
        "value_out_of_range",
        f"have {sensor} within {bound:g} {unit}",
        f"{largest:g} {unit}",
        "Check the units of the device",
    )


def column_names(stamp: str) -> Sequence[str]:
    """CSV columns, in their default order, with a stamp of the given unit."""
    return (f"t_{stamp}", "acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z")
