"""CBOR of untrusted devices: one item, not deep, every key once, no tag that could make more than a number of it."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NoReturn

import cbor2

from stream_occ.codecs._common import MAX_DEPTH, refuse

# Of the tags, decimal fractions alone (RFC 8949, 3.4.4), for exact stamps in seconds: others would build texts into
# regular expressions, addresses, mails, cycles, or integers without end.
_REFUSED_TAGS = (0, 1, 2, 3, 5, 25, 28, 29, 30, 35, 36, 37, 52, 54, 100, 256, 258, 260, 261, 1004, 43000, 55799)


class _Tagged(ValueError):
    """A tag that no documented message has."""


def _refuse_tag(*_: object) -> NoReturn:
    raise _Tagged("a tag that no message needs")


_DECODERS: dict[int, Callable[..., Any]] = dict.fromkeys(_REFUSED_TAGS, _refuse_tag)


def parse_cbor(payload: bytes, device_id: str, *, has_text_keys: bool = True) -> Any:
    """The one item that the payload is; without has_text_keys the caller checks the keys of maps."""
    stream = io.BytesIO(payload)
    try:
        item = cbor2.CBORDecoder(
            stream,
            semantic_decoders=_DECODERS,
            tag_hook=_refuse_tag,
            max_depth=MAX_DEPTH,
            allow_duplicate_keys=False,
            strict_hashable_types=has_text_keys,
        ).decode()
    except (cbor2.CBORDecodeError, ValueError, TypeError, ArithmeticError, RecursionError, EOFError) as error:
        refuse(device_id, "invalid_binary", "be CBOR", str(error)[:60], "Choose the codec of the device")
    if stream.tell() != len(payload):
        got = f"{len(payload) - stream.tell()} bytes after it"
        refuse(device_id, "invalid_binary", "be one CBOR item", got, "Send one a message")
    return item
