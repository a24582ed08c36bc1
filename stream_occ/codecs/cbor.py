"""CBOR messages: the document of codec json as a map with text keys; see docs/device-codecs.md. Extra `codecs`."""

from __future__ import annotations

import cbor2

from stream_occ.codecs._cbor import parse_cbor
from stream_occ.codecs._common import check_size
from stream_occ.codecs._document import block_of_document, check_object, document_of
from stream_occ.samples import DeviceProfile, SampleBlock


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    check_size(payload, device_id)
    message = parse_cbor(payload, device_id)
    return [block_of_document(check_object(message, device_id, "CBOR map"), device_id, profile)]


def encode(block: SampleBlock) -> bytes:
    """A batch message in SI units with integer nanoseconds and 64-bit floats."""
    return cbor2.dumps(document_of(block))
