"""JSON messages: one sample, a batch with a stamp for each sample, or a regular batch; documented in docs/topics.md.

::

    {"t_ns": 1700000000000000000, "acc": [x, y, z], "gyr": [x, y, z], "units": {"acc": "m/s2", "gyr": "rad/s"}}
    {"t_ns": [t, ...], "acc": [[x, y, z], ...], "gyr": [[x, y, z], ...]}
    {"t0_ns": t, "rate_hz": 50, "acc": [[x, y, z], ...], "gyr": [[x, y, z], ...]}

Stamps are t_ns, t_us (integers), t_ms or t_s (integers or decimals, read exactly). Optional: device, seq, boot.
Keys that are not listed are ignored: devices add a battery level or a firmware name.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import numpy as np

from stream_occ.codecs._common import (
    MAX_DEPTH,
    STAMP_SCALES,
    check_count,
    check_size,
    decode_text,
    number_rows,
    refuse,
    regular_stamps,
    to_block,
    whole_ns,
)
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, IntArray, SampleBlock

# A text that never ends matches too, up to the end: else the search would begin anew at each quote in it, which takes
# time that grows with the square of the payload.
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)
_STAMP_KEYS = tuple((f"{stem}_{unit}", unit) for stem in ("t", "t0") for unit in STAMP_SCALES)
_UNITS = {"acc": "m/s2", "gyr": "rad/s"}


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    check_size(payload, device_id)
    text = decode_text(payload, device_id)
    _check_depth(payload, device_id)
    message = _parse(text, device_id, float)
    _check_optional(message, device_id)
    key, unit = _stamp_key(message, device_id)
    stamps = message[key]
    if unit in ("ms", "s") and _holds_float(stamps):
        # Decimals are slow, so only the messages whose stamps need them are read again.
        stamps = _parse(text, device_id, Decimal)[key]
    if key.startswith("t0"):
        n = _n_rows(message, device_id)
        t_ns = regular_stamps(int(whole_ns([stamps], unit, device_id)[0]), message.get("rate_hz"), n, device_id)
    elif isinstance(stamps, list):
        check_count(len(stamps), device_id)
        t_ns = whole_ns(stamps, unit, device_id)
    else:
        t_ns = whole_ns([stamps], unit, device_id)
    return [_block(message, device_id, profile, t_ns, is_single=not key.startswith("t0") and type(stamps) is not list)]


def encode(block: SampleBlock) -> bytes:
    """A batch message in SI units with integer nanoseconds; floats are written so that they come back bit for bit."""
    message = {
        "t_ns": block.t_ns.tolist(),
        "acc": block.acc_ms2.tolist(),
        "gyr": block.gyr_rads.tolist(),
        "units": _UNITS,
    }
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()


def _check_depth(payload: bytes, device_id: str) -> None:
    """Refuses deep nesting before the parser recurses into it; brackets inside texts do not count."""
    codes = np.frombuffer(_STRINGS.sub(b"", payload), dtype=np.uint8) & 0xDF  # [ and { differ in one bit, ] and } too
    depth = np.cumsum((codes == 0x5B).astype(np.int32) - (codes == 0x5D).astype(np.int32))
    if depth.size and depth.max() > MAX_DEPTH:
        refuse(
            device_id, "too_deep", f"nest at most {MAX_DEPTH} brackets", f"{depth.max()}", "Send a documented message"
        )


def _parse(text: str, device_id: str, parse_float: type[float] | type[Decimal]) -> dict[str, Any]:
    """The one JSON object of the text, with every key once."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            refuse(device_id, "duplicate_key", "have every key once", "one comes twice", "Correct the sender")
        return found

    def constant(name: str) -> Any:
        refuse(device_id, "not_finite", "have finite numbers", name, "Leave broken samples out")

    try:
        message = json.loads(text, parse_float=parse_float, parse_constant=constant, object_pairs_hook=pairs)
    except PayloadError:
        raise
    except (ValueError, RecursionError, ArithmeticError) as error:
        refuse(device_id, "invalid_json", "be JSON", str(error)[:60], "Choose the codec of the device")
    if not isinstance(message, dict):
        refuse(
            device_id, "invalid_json", "be one JSON object", f"a {type(message).__name__}", "Send a documented message"
        )
    return message


def _check_optional(message: dict[str, Any], device_id: str) -> None:
    """Refuses another device's message and numbering that is no numbering."""
    if (device := message.get("device")) is not None and device != device_id:
        refuse(device_id, "device_mismatch", "name the device of its topic", device, "Correct the topic or the field")
    seq = message.get("seq")
    if seq is not None and (type(seq) is not int or seq < 0):
        refuse(device_id, "bad_field", "have a whole number from 0 in seq", seq, "Number the messages from 0")
    boot = message.get("boot")
    if boot is not None and type(boot) not in (int, str):
        refuse(device_id, "bad_field", "have an integer or a text in boot", boot, "Send one identifier a boot")


def _stamp_key(message: dict[str, Any], device_id: str) -> tuple[str, str]:
    """The one stamp key of the message and its unit."""
    found = [(key, unit) for key, unit in _STAMP_KEYS if key in message]
    if len(found) != 1:
        refuse(
            device_id,
            "stamp_missing",
            "have exactly one of t_ns, t_us, t_ms, t_s, t0_ns, t0_us, t0_ms, t0_s",
            " and ".join(key for key, _ in found) or "none",
            "Send t_ns",
        )
    return found[0]


def _holds_float(stamps: object) -> bool:
    return type(stamps) is float or (isinstance(stamps, list) and float in set(map(type, stamps)))


def _n_rows(message: dict[str, Any], device_id: str) -> int:
    """Samples of a regular batch: as many as acc has rows."""
    rows = message.get("acc")
    if rows is None:
        refuse(device_id, "missing_acc", "have acc", "no acc", "Send acc as [[x, y, z], ...]")
    if not isinstance(rows, list):
        refuse(device_id, "wrong_shape", "have rows of three numbers in acc", rows, "Send acc as [[x, y, z], ...]")
    check_count(len(rows), device_id)
    return len(rows)


def _block(
    message: dict[str, Any], device_id: str, profile: DeviceProfile, t_ns: IntArray, *, is_single: bool
) -> SampleBlock:
    """The block of a message whose stamps are known."""
    acc, gyr, units = message.get("acc"), message.get("gyr"), message.get("units")
    if acc is None:
        refuse(device_id, "missing_acc", "have acc", "no acc", "Send acc in every message")
    if gyr is None:
        refuse(device_id, "missing_gyro", "have gyr beside acc", "no gyr", "Switch the gyroscope on; both are needed")
    if units is not None and not isinstance(units, dict):
        refuse(device_id, "bad_field", "have an object in units", units, 'Send {"acc": "m/s2", "gyr": "rad/s"}')
    declared = units or {}
    if is_single:
        acc, gyr = [acc], [gyr]
    n = len(t_ns)
    acc_rows, gyr_rows = number_rows(acc, "acc", n, device_id), number_rows(gyr, "gyr", n, device_id)
    return to_block(device_id, profile, t_ns, acc_rows, gyr_rows, (declared.get("acc"), declared.get("gyr")))
