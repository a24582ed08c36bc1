"""Near misses of the binary codecs and of sketches' JSON: blocks or a PayloadError and nothing else."""

from __future__ import annotations

import json
import zlib
from typing import Any

import cbor2
import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.codecs import load_codec
from stream_occ.samples import SampleBlock
from tests.property.test_codecs_fuzz import KEYS, PROFILES, check, near_values

SKETCH_KEYS = ["accX", "accY", "accZ", "Ax", "Ay", "Az", "gycX", "gycY", "gycZ", "acc_x_mps2", "gyr_x_deg", "timestamp"]
numbers = st.integers(-(2**70), 2**70) | st.floats() | st.sampled_from([1570338716, 1570338716.748, 10**12, "1", None])
records = st.fixed_dictionaries({}, optional=dict.fromkeys(SKETCH_KEYS, numbers))
named = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["acceleration", "angular_velocity", 3]),
        "value": records | st.just({"x": 1, "y": 2, "z": 3}),
    },
    optional={"unit": st.sampled_from(["m/s^2", "rad/s", "x", 1]), "timestamp": numbers},
)
sketches = records | st.fixed_dictionaries(
    {"data": st.lists(records, max_size=3) | st.lists(named, max_size=3) | numbers}
)


@settings(max_examples=400, deadline=None)
@given(message=sketches, profile=st.sampled_from(PROFILES))
def test_any_sketch_gives_blocks_or_a_payload_error(message: Any, profile: Any) -> None:
    """Keys of all shapes mixed, numbers of every size, named sensors twice or not at all."""
    check("esp32", json.dumps(message).encode(), profile)


@pytest.mark.parametrize(("name", "pack"), [("msgpack", msgpack.packb), ("cbor", cbor2.dumps)])
@settings(max_examples=300, deadline=None)
@given(message=st.dictionaries(st.sampled_from(KEYS), near_values, max_size=6), profile=st.sampled_from(PROFILES))
def test_any_packed_document_gives_blocks_or_a_payload_error(name: str, pack: Any, message: Any, profile: Any) -> None:
    """The document of codec json with anything in any place, integers beyond 64 bits where the format has them."""
    try:
        payload = pack(message)
    except OverflowError:  # MessagePack has no such integer
        return
    check(name, payload, profile)


@settings(max_examples=400, deadline=None)
@given(at=st.integers(2, 33), byte=st.integers(0, 255), size=st.integers(0, 80), profile=st.sampled_from(PROFILES))
def test_compact_header_changed_under_a_right_check_sum(at: int, byte: int, size: int, profile: Any) -> None:
    """One byte of the header is another, the message shorter or longer, and the CRC fits all the same."""
    values = np.arange(6.0).reshape(2, 3)
    body = bytearray(
        load_codec("compact").encode(SampleBlock("w1", np.array([10**18, 10**18 + 1]), values, values))[:-4]
    )
    body[at] = byte
    damaged = bytes(body[: len(body) - size]) if size <= 40 else bytes(body) + b"\0" * (size - 40)
    check("compact", damaged + zlib.crc32(damaged).to_bytes(4, "little"), profile)


def field(number: int, wire: int, content: bytes) -> bytes:
    return bytes([number << 3 | wire]) + (bytes([len(content)]) + content if wire == 2 else content)


names = st.sampled_from(
    [*[f"{sensor}/{axis}" for sensor in ("acc", "gyr") for axis in "xyz"], "linear/acc/x", "\x1b[2Jaccx"]
)
metric_fields = st.one_of(
    names.map(lambda name: field(1, 2, name.encode())),
    st.tuples(st.sampled_from([2, 3, 4, 7, 10, 11]), st.integers(0, 127)).map(lambda f: field(f[0], 0, bytes([f[1]]))),
    st.binary(min_size=4, max_size=4).map(lambda content: field(12, 5, content)),
    st.binary(min_size=8, max_size=8).map(lambda content: field(13, 1, content)),
    st.binary(max_size=6),
)
metrics = st.lists(metric_fields, max_size=5).map(lambda parts: field(2, 2, b"".join(parts)[:127]))
full = st.tuples(st.integers(0, 127), st.binary(min_size=24, max_size=24)).map(
    lambda drawn: (
        b"".join(
            field(2, 2, field(1, 2, f"{name}/{axis}".encode()) + field(12, 5, drawn[1][4 * i : 4 * i + 4]))
            for i, (name, axis) in enumerate((name, axis) for name in ("acc", "gyr") for axis in "xyz")
        )
        + field(1, 0, bytes([drawn[0]]))
    )
)


@settings(max_examples=500, deadline=None)
@given(parts=st.lists(metrics | full | st.binary(max_size=3), max_size=8), profile=st.sampled_from(PROFILES))
def test_any_sparkplug_fields_give_blocks_or_a_payload_error(parts: list[bytes], profile: Any) -> None:
    """Metrics of fields in any order and number, whole samples among them, and bytes that are no field."""
    check("sparkplug-b", b"".join(parts), profile)
