"""JSON of untrusted devices: text, not deep, one object, every key once, no NaN, no half characters."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import numpy as np

from stream_occ.codecs._common import MAX_DEPTH, check_size, decode_text, refuse
from stream_occ.errors import PayloadError

# A text that never ends matches too, up to the end: else the search would begin anew at each quote in it, which takes
# time that grows with the square of the payload.
_STRINGS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?\Z)', re.DOTALL)

_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def json_text(payload: bytes, device_id: str) -> str:
    """The payload as text that `parse_object` may be given: not huge, UTF-8 and not nested deep."""
    check_size(payload, device_id)
    text = decode_text(payload, device_id)
    _check_depth(payload, device_id)
    return text


def parse_object(text: str, device_id: str, parse_float: type[float] | type[Decimal]) -> dict[str, Any]:
    """The one JSON object of the text, with every key once."""
    message = parse_json(text, device_id, parse_float)
    if not isinstance(message, dict):
        refuse(
            device_id, "invalid_json", "be one JSON object", f"a {type(message).__name__}", "Send a documented message"
        )
    return message


def parse_json(text: str, device_id: str, parse_float: type[float] | type[Decimal]) -> Any:
    """What the text holds, with every key of an object once."""

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(items)
        if len(found) != len(items):
            refuse(device_id, "duplicate_key", "have every key once", "one comes twice", "Correct the sender")
        return found

    def constant(name: str) -> Any:
        refuse(device_id, "not_finite", "have finite numbers", name, "Leave broken samples out")

    try:
        found = json.loads(text, parse_float=parse_float, parse_constant=constant, object_pairs_hook=pairs)
    except PayloadError:
        raise
    except (ValueError, RecursionError, ArithmeticError) as error:
        refuse(device_id, "invalid_json", "be JSON", str(error)[:60], "Choose the codec of the device")
    if _SURROGATE.search(text):
        _check_characters(found, device_id)
    return found


def _check_characters(found: Any, device_id: str) -> None:
    """Refuses texts with half a character in them, as `\\ud800` alone is: nothing could publish or log them."""
    try:
        json.dumps(found, ensure_ascii=False, default=str).encode()
    except (UnicodeEncodeError, ValueError):  # the latter: an integer of thousands of digits beside
        refuse(device_id, "bad_field", "have whole characters in texts", "half a surrogate pair", "Send UTF-8")


def _check_depth(payload: bytes, device_id: str) -> None:
    """Refuses deep nesting before the parser recurses into it; brackets inside texts do not count."""
    codes = np.frombuffer(_STRINGS.sub(b"", payload), dtype=np.uint8) & 0xDF  # [ and { differ in one bit, ] and } too
    depth = np.cumsum((codes == 0x5B).astype(np.int32) - (codes == 0x5D).astype(np.int32))
    if depth.size and depth.max() > MAX_DEPTH:
        refuse(
            device_id, "too_deep", f"nest at most {MAX_DEPTH} brackets", f"{depth.max()}", "Send a documented message"
        )
