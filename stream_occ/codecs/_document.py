"""The document that the codecs json, msgpack and cbor share, once its bytes are a dict; see docs/topics.md.

Stamps are t_ns, t_us (integers), t_ms or t_s (integers or Decimals), one a sample or with rate_hz as t0_.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_occ.codecs._common import (
    STAMP_SCALES,
    check_count,
    number_rows,
    refuse,
    regular_stamps,
    to_block,
    whole_ns,
)
from stream_occ.numbering import MAX_BOOT_CHARACTERS, is_boot, is_seq
from stream_occ.samples import DeviceProfile, IntArray, SampleBlock

_STAMP_KEYS = tuple((f"{stem}_{unit}", unit) for stem in ("t", "t0") for unit in STAMP_SCALES)
_UNITS = {"acc": "m/s2", "gyr": "rad/s"}


def block_of_document(
    message: dict[str, Any],
    device_id: str,
    profile: DeviceProfile,
    exact_stamps: Callable[[str], Any] | None = None,
) -> SampleBlock:
    """The block of a document; raises PayloadError. exact_stamps(key): stamps that are floats, as Decimals."""
    _check_optional(message, device_id)
    if "acc" not in message and "gyr" not in message:
        got = ", ".join(map(repr, list(message)[:8])) or "no key"
        refuse(device_id, "no_samples", "have acc and gyr", got, "Send other things to another topic")
    key, unit = _stamp_key(message, device_id)
    stamps = message[key]
    if exact_stamps is not None and unit in ("ms", "s") and _holds_float(stamps):
        stamps = exact_stamps(key)
    if key.startswith("t0"):
        n = _n_rows(message, device_id)
        t_ns = regular_stamps(int(whole_ns([stamps], unit, device_id)[0]), message.get("rate_hz"), n, device_id)
    elif isinstance(stamps, list):
        check_count(len(stamps), device_id)
        t_ns = whole_ns(stamps, unit, device_id)
    else:
        t_ns = whole_ns([stamps], unit, device_id)
    return _block(message, device_id, profile, t_ns, is_single=not key.startswith("t0") and type(stamps) is not list)


def check_object(message: object, device_id: str, what: str) -> dict[str, Any]:
    """The message, where it is one map with text keys."""
    if not isinstance(message, dict) or not all(type(key) is str for key in message):
        got = "a map with other keys" if isinstance(message, dict) else f"a {type(message).__name__}"
        refuse(device_id, "invalid_binary", f"be one {what} with text keys", got, "Send a documented message")
    return message


def document_of(block: SampleBlock) -> dict[str, Any]:
    """A batch in SI units with integer nanoseconds, numbered where the block is."""
    message: dict[str, Any] = {
        "t_ns": block.t_ns.tolist(),
        "acc": block.acc_ms2.tolist(),
        "gyr": block.gyr_rads.tolist(),
        "units": _UNITS,
    }
    if block.number is not None:
        message["boot"], message["seq"] = block.number
    return message


def _check_optional(message: dict[str, Any], device_id: str) -> None:
    """Refuses another device's message and numbering that is no numbering."""
    if (device := message.get("device")) is not None and device != device_id:
        refuse(device_id, "device_mismatch", "name the device of its topic", device, "Correct the topic or the field")
    seq = message.get("seq")
    if seq is not None and not is_seq(seq):
        refuse(device_id, "bad_field", "have a whole number from 0 to 2^63 - 1 in seq", seq, "Number messages from 0")
    boot = message.get("boot")
    if boot is not None and not is_boot(boot):
        expected = f"have an integer of 64 bits or a text of at most {MAX_BOOT_CHARACTERS} characters in boot"
        refuse(device_id, "bad_field", expected, boot, "Send one short identifier a boot")


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
    units_told = declared.get("acc"), declared.get("gyr")
    return to_block(device_id, profile, t_ns, acc_rows, gyr_rows, units_told, _number(message))


def _number(message: dict[str, Any]) -> tuple[int | str, int] | None:
    """(boot, seq), where the message has both."""
    boot, seq = message.get("boot"), message.get("seq")
    return None if boot is None or seq is None else (boot, seq)
