"""What the tests of apps' and sensors' formats share: decoding for one device, refusals, joining."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import pytest

from stream_occ.codecs import load_codec
from stream_occ.errors import PayloadError
from stream_occ.joining import JoinSettings, JoinState, join
from stream_occ.samples import DeviceProfile, SampleBlock, SensorBlock

DECLARED = DeviceProfile()
ANDROID = DeviceProfile(acc_sign=1)
IOS = DeviceProfile(acc_sign=-1)
MS2_DEG = DeviceProfile("m/s2", "deg/s")
G = 9.80665


def blocks_of(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> list[SampleBlock | SensorBlock]:
    return list(load_codec(codec).decode(payload, device_id="w1", profile=profile))


def block_of(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> SampleBlock:
    [block] = blocks_of(codec, payload, profile)
    assert isinstance(block, SampleBlock)
    return block


def tracks_of(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> dict[str, SensorBlock]:
    blocks = blocks_of(codec, payload, profile)
    assert all(isinstance(block, SensorBlock) for block in blocks)
    return {block.sensor: block for block in blocks if isinstance(block, SensorBlock)}


def refusal(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> tuple[str, str]:
    """Reason, and what to do."""
    with pytest.raises(PayloadError) as caught:
        blocks_of(codec, payload, profile)
    return caught.value.reason, caught.value.remedy


def joined(blocks: list[SampleBlock | SensorBlock]) -> tuple[SampleBlock, Counter[str]]:
    _, [block], lost = join(JoinState(), blocks, JoinSettings())
    return block, lost


def dumps(value: Any) -> bytes:
    return json.dumps(value).encode()
