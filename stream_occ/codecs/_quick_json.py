"""JSON messages that are as documented in every way, read faster; None for all others, which `_json_text` reads.

What is read here `_json_text` would read to the same bits, and what it refuses is not read here: it says why.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from pydantic_core import from_json

from stream_occ.codecs._common import (
    MAX_ABS_ACC_MS2,
    MAX_ABS_GYR_RADS,
    MAX_PAYLOAD_BYTES,
    MAX_SAMPLES,
    MAX_STAMP_NS,
    STAMP_SCALES,
    in_our_axes,
    regular_stamps,
    unit_factor,
)
from stream_occ.numbering import is_boot
from stream_occ.samples import DeviceProfile, SampleBlock

_STAMP_KEYS = tuple(f"{stem}_{unit}" for stem in ("t", "t0") for unit in STAMP_SCALES)
_LISTS = frozenset(("acc", "gyr", *_STAMP_KEYS))
_MAX_FORM_BYTES = 256  # of a message without its samples; more of them, and longer ones, are not remembered
_MAX_FORMS = 1024


def quick_object(payload: bytes) -> dict[str, Any] | None:
    """The JSON object of a payload; lists under the keys of samples alone, and objects in no other object."""
    if b"\\" in payload:  # half a character may be behind it
        return None
    try:
        message = from_json(payload, allow_inf_nan=False)
    except ValueError:
        return None
    if type(message) is not dict:
        return None
    n_keys = len(message)
    for key, value in message.items():
        if type(value) is dict:
            n_keys += len(value)
            if not all(map(_is_plain, value.values())):
                return None
        elif not _is_plain(value) and not (type(value) is list and key in _LISTS):
            return None
    # Of two equal keys `from_json` takes the last. Each key has a colon; a text with one more is read elsewhere.
    return message if payload.count(b":") == n_keys else None


def _is_plain(value: object) -> bool:
    kind = type(value)
    return value is None or kind in (str, float, bool) or (kind is int and -(2**63) <= value < 2**63)  # type: ignore[operator]


@dataclass(frozen=True, slots=True)
class _Form:
    """A message apart from its samples, stamps and seq: mostly the same from message to message."""

    device: object
    boot: Any
    has_seq: bool
    acc_unit: object
    gyr_unit: object
    rate_hz: object


@lru_cache(maxsize=_MAX_FORMS)
def _form(rest: bytes, stamp_key: str) -> _Form | None:
    """The form of a message, of which samples, stamps and seq are 0; None where `_json_text` is to look at it."""
    message = quick_object(rest)
    if message is None or [key for key in _STAMP_KEYS if key in message] != [stamp_key]:
        return None
    units, boot = message.get("units"), message.get("boot")
    if not (units is None or type(units) is dict) or not (boot is None or is_boot(boot)):
        return None
    declared, has_seq = units or {}, message.get("seq") is not None
    told = declared.get("acc"), declared.get("gyr"), message.get("rate_hz")
    return _Form(message.get("device"), boot, has_seq, *told)


def quick_block(kernels: Any, payload: bytes, device_id: str, profile: DeviceProfile) -> SampleBlock | None:
    """The block of a message, its numbers read by compiled code, `engines.warmed("_json")`.

    None, or a PayloadError that another one explains better, where `_json_text` is to look at it.
    """
    n_bytes = len(payload)
    if n_bytes > MAX_PAYLOAD_BYTES:
        return None
    n_most = n_bytes // 16 + 1  # a sample has 16 bytes at least
    text = bytearray(payload)
    text.append(0)
    stamps, rows = np.empty(n_most, np.int64), np.empty((2, n_most, 3))
    size, n, key, seq, latest, largest_acc, largest_gyr = kernels.lift(np.frombuffer(text, np.uint8), rows, stamps)
    if not 0 <= size <= _MAX_FORM_BYTES or n > MAX_SAMPLES:
        return None
    stamp_key = _STAMP_KEYS[key]
    form, scale = _form(bytes(text[:size]), stamp_key), STAMP_SCALES[stamp_key.partition("_")[2]]
    if form is None or form.has_seq != (seq >= 0) or (form.device is not None and form.device != device_id):
        return None
    acc_factor = unit_factor("acc", profile, form.acc_unit, device_id)
    gyr_factor = unit_factor("gyr", profile, form.gyr_unit, device_id)
    is_tame = largest_acc * abs(acc_factor) <= MAX_ABS_ACC_MS2 and largest_gyr * gyr_factor <= MAX_ABS_GYR_RADS
    if not is_tame or latest >= MAX_STAMP_NS // scale:
        return None
    rows = rows[:, :n].copy()  # blocks are kept for a while, and n_most is many times n
    t_ns = stamps[:n].copy() if scale == 1 else stamps[:n] * scale
    if stamp_key.startswith("t0"):
        t_ns = regular_stamps(latest * scale, form.rate_hz, n, device_id)
    number = None if form.boot is None or seq < 0 else (form.boot, seq)
    acc = in_our_axes(rows[0], acc_factor, profile.axes)
    gyr = in_our_axes(rows[1], gyr_factor, profile.axes)
    return SampleBlock(device_id, t_ns, acc, gyr, number)
