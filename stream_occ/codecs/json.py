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
from decimal import Decimal
from typing import Any

from stream_occ.codecs._common import MAX_PAYLOAD_BYTES
from stream_occ.codecs._document import block_of_document, document_of
from stream_occ.codecs._json_text import json_text, parse_object
from stream_occ.codecs._quick_json import quick_block, quick_object
from stream_occ.engines import warmed
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, SampleBlock


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    block = _quickly(payload, device_id, profile)
    return [_carefully(payload, device_id, profile) if block is None else block]


def _quickly(payload: bytes, device_id: str, profile: DeviceProfile) -> SampleBlock | None:
    """The block of a message with nothing to refuse and no decimals for stamps; None for others, read once more."""
    kernels = warmed("_json")
    try:
        block = None if kernels is None else quick_block(kernels, payload, device_id, profile)
        if block is None and len(payload) <= MAX_PAYLOAD_BYTES and (message := quick_object(payload)) is not None:
            block = block_of_document(message, device_id, profile)
        return block
    except PayloadError:
        return None


def _carefully(payload: bytes, device_id: str, profile: DeviceProfile) -> SampleBlock:
    """The block of a message, or the PayloadError that says what is wrong with it."""
    text = json_text(payload, device_id)
    message = parse_object(text, device_id, float)

    def exact_stamps(key: str) -> Any:
        """Decimals are slow, so only the messages whose stamps need them are read again."""
        return parse_object(text, device_id, Decimal)[key]

    return block_of_document(message, device_id, profile, exact_stamps)


def encode(block: SampleBlock) -> bytes:
    """A batch message in SI units with integer nanoseconds; floats are written so that they come back bit for bit."""
    return json.dumps(document_of(block), allow_nan=False, separators=(",", ":")).encode()
