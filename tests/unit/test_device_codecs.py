"""Codecs of devices and gateways: hand-made messages with values computed by hand."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import cbor2
import msgpack
import numpy as np
import pytest

from stream_occ.codecs import load_codec
from stream_occ.codecs._common import to_block
from stream_occ.config import Config
from stream_occ.errors import PayloadError
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.messages import Topics
from stream_occ.samples import DeviceProfile, SampleBlock

DECLARED = DeviceProfile()
DOCUMENT: dict[str, Any] = {
    "t_ns": [1_700_000_000_000_000_001, 1_700_000_000_020_000_001],
    "acc": [[0.0, 0.0, 1.0], [0, 0.5, -1]],
    "gyr": [[180.0, 0, 0], [0, 90, 0]],
    "units": {"acc": "g", "gyr": "deg/s"},
    "boot": 7,
    "seq": 3,
}
PACKERS = {"msgpack": msgpack.packb, "cbor": cbor2.dumps}


def decode(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> SampleBlock:
    [block] = load_codec(codec).decode(payload, device_id="w1", profile=profile)
    return block


def reason_of(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> str:
    with pytest.raises(PayloadError) as caught:
        load_codec(codec).decode(payload, device_id="w1", profile=profile)
    return caught.value.reason


def message_of(codec: str, payload: bytes, profile: DeviceProfile = DECLARED) -> str:
    with pytest.raises(PayloadError) as caught:
        load_codec(codec).decode(payload, device_id="w1", profile=profile)
    return str(caught.value)


# ---- what codecs share


def test_raw_counts_are_scaled_by_the_profile() -> None:
    """16384 counts are 1 g, 131 are 1 deg/s; of two units one is counts, and axes are turned after."""
    profile = DeviceProfile("g", "deg/s", acc_counts_per_unit=16384, gyr_counts_per_unit=131, axes=("y", "-x", "z"))
    acc, gyr = np.array([[8192.0, 0.0, 16384.0]]), np.array([[0.0, 131.0 * 180, 0.0]])
    block = to_block("w1", profile, np.array([1]), acc, gyr, (None, None))
    np.testing.assert_allclose(block.acc_ms2, [[0.0, -4.903325, 9.80665]])
    np.testing.assert_allclose(block.gyr_rads, [[np.pi, 0.0, 0.0]])


def test_a_message_in_units_is_no_message_of_counts() -> None:
    """Counts of g are in the profile and g in the message: one of them is wrong."""
    profile = DeviceProfile("g", "deg/s", acc_counts_per_unit=16384)
    assert reason_of("msgpack", msgpack.packb(DOCUMENT), profile) == "unit_conflict"


def test_stamps_at_arrival_move_a_message_as_a_whole() -> None:
    """Two samples 20 ms apart by an uptime clock, taken off the queue after 0.25 s: the last is when they came."""
    profile = {"stamps": "arrival", "acc_unit": "g", "gyr_unit": "deg/s"}
    settings = Config.model_validate({"inputs": ({"pattern": "a/{device}", "profile": profile},)})
    intake = Intake(settings, Topics("stream_occ", "edge"))
    payload = b'{"t_ms": [100, 120], "acc": [[0, 0, 1], [0, 0, 1]], "gyr": [[0, 0, 0], [0, 0, 0]]}'
    message = Received.of("a/w1", payload, is_retained=False, arrived_s=10.0, max_bytes=1000)
    [block] = intake.accept(message, now_ns=1_700_000_000_500_000_000, now_s=10.25)
    assert block.t_ns.tolist() == [1_700_000_000_230_000_000, 1_700_000_000_250_000_000]


# ---- msgpack and cbor


@pytest.mark.parametrize("codec", PACKERS)
def test_document_in_binary_is_read_as_in_json(codec: str) -> None:
    """Stamps to the ns, g and deg/s to SI, boot and seq beside the samples."""
    block = decode(codec, PACKERS[codec](DOCUMENT))
    assert block.t_ns.tolist() == DOCUMENT["t_ns"]
    np.testing.assert_allclose(block.acc_ms2, [[0, 0, 9.80665], [0, 4.903325, -9.80665]])
    np.testing.assert_allclose(block.gyr_rads, [[np.pi, 0, 0], [0, np.pi / 2, 0]])
    assert block.number == (7, 3)


def test_bytes_written_by_hand_are_read() -> None:
    """{"t_ns": 5, "acc": [0, 0, 1], "gyr": [0, 0, 0]} in MessagePack and in CBOR, byte by byte."""
    by_hand = {
        "msgpack": b"\x83\xa4t_ns\x05\xa3acc\x93\x00\x00\x01\xa3gyr\x93\x00\x00\x00",
        "cbor": b"\xa3\x64t_ns\x05\x63acc\x83\x00\x00\x01\x63gyr\x83\x00\x00\x00",
    }
    for codec, payload in by_hand.items():
        block = decode(codec, payload, DeviceProfile("m/s2", "rad/s"))
        assert (block.t_ns.tolist(), block.acc_ms2.tolist()) == ([5], [[0.0, 0.0, 1.0]])


def test_cbor_decimals_are_exact_stamps_in_seconds() -> None:
    """A decimal fraction (tag 4) of seconds keeps every nanosecond; a float would not, and is refused."""
    one = {"acc": [0, 0, 1], "gyr": [0, 0, 0], "units": DOCUMENT["units"]}
    block = decode("cbor", cbor2.dumps({"t_s": Decimal("1700000000.123456789"), **one}))
    assert block.t_ns.tolist() == [1_700_000_000_123_456_789]
    assert reason_of("cbor", cbor2.dumps({"t_s": 1700000000.5, **one})) == "stamp_invalid"


@pytest.mark.parametrize("codec", PACKERS)
def test_what_is_no_document_is_refused(codec: str) -> None:
    """A list, keys that are no text, a cut message, bytes after it: invalid_binary; a missing gyroscope by its name."""
    pack = PACKERS[codec]
    good = pack(DOCUMENT)
    for payload in (pack([1, 2]), pack({1: 2}), good[:-1], good + b"\x00", b"\x9f"):
        assert reason_of(codec, payload) == "invalid_binary"
    assert reason_of(codec, pack({key: DOCUMENT[key] for key in ("t_ns", "acc")})) == "missing_gyro"


@pytest.mark.parametrize(
    "payload",
    [
        b"\xd8\x23\x64(a+)",  # a regular expression
        b"\xc2\x59\xff\xff" + b"\xff" * 0xFFFF,  # an integer of half a million bits
        b"\xd8\x1c\x81\xd8\x1d\x00",  # a list that holds itself
        b"\xc0\x74" + b"2013-03-21T20:04:00Z",  # a date
        b"\xd9\x01\x00\xd8\x19\x00",  # texts by reference
        b"\x81" * 100_000,  # deep
        b"\x9b\x00\x00\xff\xff\xff\xff\xff\xff",  # a list said to have 2^48 members
    ],
)
def test_cbor_that_would_build_more_than_numbers_is_refused(payload: bytes) -> None:
    """None of the tags that build other things than exact decimals is ever followed."""
    assert reason_of("cbor", payload) == "invalid_binary"
    assert reason_of("cbor", b"\xa1\x64t_ns" + payload) == "invalid_binary"
