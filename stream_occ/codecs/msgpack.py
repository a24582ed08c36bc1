"""MessagePack messages: the document of codec json as a map with text keys; docs/device-codecs.md. Extra `codecs`."""

from __future__ import annotations

from typing import Any

import msgpack

from stream_occ.codecs._common import check_size, refuse
from stream_occ.codecs._document import block_of_document, check_object, document_of
from stream_occ.samples import DeviceProfile, SampleBlock


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    check_size(payload, device_id)

    def pairs(items: list[tuple[Any, Any]]) -> dict[Any, Any]:
        found = dict(items)
        if len(found) != len(items):
            refuse(device_id, "duplicate_key", "have every key once", "one comes twice", "Correct the sender")
        return found

    try:
        message = msgpack.unpackb(payload, object_pairs_hook=pairs)
    except (ValueError, TypeError, RecursionError, OverflowError) as error:  # all that is no PayloadError
        refuse(device_id, "invalid_binary", "be MessagePack", str(error)[:60], "Choose the codec of the device")
    return [block_of_document(check_object(message, device_id, "MessagePack map"), device_id, profile)]


def encode(block: SampleBlock) -> bytes:
    """A batch message in SI units with integer nanoseconds and 64-bit floats."""
    packed: bytes = msgpack.packb(document_of(block))
    return packed
