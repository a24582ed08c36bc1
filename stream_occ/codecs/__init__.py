"""Payload codecs, one file each, found by name: `load_codec("json").decode(payload, device_id=..., profile=...)`.

A codec is a module with a function `decode` and, where a simulator can send it, `encode`; whatever it refuses is a
PayloadError whose `reason` is one of `REASONS`. Sensors on stamps of their own come as blocks of one sensor each, which
`stream_occ.joining` puts together.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Protocol, cast

from stream_occ.codecs._common import (
    MAX_ABS_ACC_MS2,
    MAX_ABS_GYR_RADS,
    MAX_DEPTH,
    MAX_PAYLOAD_BYTES,
    MAX_SAMPLES,
    MAX_STAMP_NS,
    REASONS,
    check_axes,
)
from stream_occ.errors import ConfigError
from stream_occ.plugins import load_plugin, plugin_names
from stream_occ.samples import DeviceProfile, SampleBlock, SensorBlock

__all__ = [
    "MAX_ABS_ACC_MS2",
    "MAX_ABS_GYR_RADS",
    "MAX_DEPTH",
    "MAX_PAYLOAD_BYTES",
    "MAX_SAMPLES",
    "MAX_STAMP_NS",
    "REASONS",
    "Codec",
    "check_axes",
    "codec_names",
    "load_codec",
    "sendable_codecs",
]


class Codec(Protocol):
    """Turns the bytes of one message into sample blocks and back."""

    def decode(self, payload: bytes, *, device_id: str, profile: DeviceProfile) -> Sequence[SampleBlock | SensorBlock]:
        """Blocks in SI units and right-handed axes; raises PayloadError and nothing else, whatever the bytes are."""

    def encode(self, block: SampleBlock) -> bytes:
        """One message, in SI units, that `decode` turns into the same block bit for bit."""


def codec_names() -> tuple[str, ...]:
    """Names of all codecs, sorted: the files of this folder and what other packages offer."""
    return plugin_names(__name__)


def sendable_codecs() -> list[str]:
    """Names of the codecs that have `encode`, but for those whose extra is not installed."""
    found = []
    for name in codec_names():
        with contextlib.suppress(ModuleNotFoundError):
            found += [name] if hasattr(load_codec(name), "encode") else []
    return found


def load_codec(name: str) -> Codec:
    """The codec called `name`; raises ConfigError for an unknown one.

    >>> load_codec("json").__name__
    'stream_occ.codecs.json'
    """
    return cast(Codec, load_plugin(__name__, name, kind="codec", error=ConfigError))
