"""Whatever the bytes are, a codec gives blocks or a PayloadError and nothing else."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import cbor2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.codecs import MAX_ABS_ACC_MS2, MAX_ABS_GYR_RADS, REASONS, codec_names, load_codec
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, SampleBlock, SensorBlock
from tests.app_payloads import MESSAGES

ENCODING = tuple(name for name in codec_names() if hasattr(load_codec(name), "encode"))
PROFILES = [
    DeviceProfile(),
    DeviceProfile(acc_unit="g", gyr_unit="deg/s", axes=("-z", "x", "y")),
    DeviceProfile("g", "deg/s", acc_counts_per_unit=16384, gyr_counts_per_unit=131, stamps="arrival"),
    DeviceProfile("m/s2", "rad/s", acc_sign=-1, nominal_rate_hz=104),
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)
KEYS = ["t_ns", "t_us", "t_ms", "t_s", "t0_ns", "t0_s", "rate_hz", "acc", "gyr", "units", "device", "seq", "boot"]
triples = st.lists(st.floats(-200, 200) | st.integers(-5, 5), min_size=3, max_size=3)
near_values = json_values | triples | st.lists(triples, max_size=3) | st.integers(0, 2**64) | st.lists(st.integers())
near_messages = st.dictionaries(st.sampled_from(KEYS), near_values, max_size=6).map(
    lambda message: json.dumps(message).encode()
)
csv_cells = st.sampled_from(["1", "-2.5", "nan", "1e5", "", "t_ns", "acc_x", "gyr_z", "#", "1_0", "\u0661"]) | st.text(
    max_size=4
)
near_csv = st.lists(st.lists(csv_cells, max_size=8).map(",".join), max_size=4).map(
    lambda rows: "\n".join(rows).encode()
)


def check(name: str, payload: bytes, profile: DeviceProfile) -> None:
    refusal: PayloadError | None = None
    blocks: list[SampleBlock | SensorBlock] = []
    try:
        blocks = load_codec(name).decode(payload, device_id="w1", profile=profile)
    except PayloadError as error:
        refusal = error
    assert (refusal is None) != (not blocks)
    if refusal is not None:
        assert refusal.reason in REASONS
        assert "\n" not in str(refusal)
        assert len(str(refusal)) < 600
    check_blocks(blocks)


def check_blocks(blocks: Sequence[SampleBlock | SensorBlock]) -> None:
    """What every block of w1 keeps, whatever it was made of."""
    for block in blocks:
        assert block.device_id == "w1"
        assert block.t_ns.dtype == np.int64
        assert block.t_ns.shape == (len(block),)
        assert len(block) > 0
        assert block.t_ns.min() >= 0
        if isinstance(block, SensorBlock):
            values = {block.sensor: block.values}
        else:
            values = {"acc": block.acc_ms2, "gyr": block.gyr_rads}
        for sensor, rows in values.items():
            assert rows.shape == (len(block), 3)
            assert np.abs(rows).max() <= (MAX_ABS_GYR_RADS if sensor == "gyr" else MAX_ABS_ACC_MS2)


@pytest.mark.parametrize("name", codec_names())
@settings(max_examples=300, deadline=None)
@given(
    payload=st.binary(max_size=200) | st.text(max_size=100).map(str.encode) | near_messages | near_csv, data=st.data()
)
def test_any_bytes_give_blocks_or_a_payload_error(name: str, payload: bytes, data: Any) -> None:
    """Random bytes, random texts and near misses of both formats."""
    check(name, payload, data.draw(st.sampled_from(PROFILES)))


@pytest.mark.parametrize("name", ENCODING)
@settings(max_examples=200, deadline=None)
@given(cut=st.integers(0, 400), at=st.integers(0, 400), byte=st.integers(0, 255))
def test_a_damaged_message_gives_blocks_or_a_payload_error(name: str, cut: int, at: int, byte: int) -> None:
    """A good message, cut off anywhere and with one byte changed."""
    acc = np.arange(6.0).reshape(2, 3)
    good = load_codec(name).encode(SampleBlock("w1", np.array([10**18, 10**18 + 1]), acc, acc))
    damaged = bytearray(good[: max(1, cut)])
    damaged[at % len(damaged)] = byte
    check(name, bytes(damaged), PROFILES[0])


def put(value: Any, into: Any, data: Any) -> Any:
    """A copy of a document with one of its values, at any depth, replaced by `value`."""
    keys = list(into) if isinstance(into, dict) else list(range(len(into))) if isinstance(into, list) else []
    if not keys or data.draw(st.integers(0, 5)) == 0:
        return value
    key = data.draw(st.sampled_from(keys))
    copy = dict(into) if isinstance(into, dict) else list(into)
    copy[key] = put(value, into[key], data)
    return copy


@pytest.mark.parametrize("name", sorted(MESSAGES))
@settings(max_examples=300, deadline=None)
@given(data=st.data(), value=near_values | st.integers(0, 2**63) | st.floats(width=32))
def test_a_message_of_an_app_with_odd_values_gives_blocks_or_a_payload_error(name: str, data: Any, value: Any) -> None:
    """JSON with one to three values replaced, of any kind and anywhere; a table with cells replaced and cut off."""
    message: Any = MESSAGES[name].decode()
    if message[0] in "[{":
        document = json.loads(message)
        for _ in range(data.draw(st.integers(1, 3))):
            document = put(value, document, data)
        message = json.dumps(document)
    else:
        cell = data.draw(st.sampled_from(message.replace("\n", ",").split(",")))
        message = message.replace(cell, data.draw(csv_cells), data.draw(st.sampled_from([-1, 1])))
        message = message[: data.draw(st.integers(1, 2 * len(message)))]
    check(name, message.encode(), data.draw(st.sampled_from(PROFILES)))


@pytest.mark.parametrize("is_labelled", [True, False])
@settings(max_examples=200, deadline=None)
@given(data=st.data(), value=near_values | st.decimals() | st.binary(max_size=5))
def test_a_senml_pack_in_cbor_gives_blocks_or_a_payload_error(is_labelled: bool, data: Any, value: Any) -> None:
    """Numbers and texts for labels, values of every kind that CBOR has, one byte changed."""
    labels = {"bn": -2, "bt": -3, "n": 0, "u": 1, "v": 2, "t": 6}
    records = json.loads(MESSAGES["senml"])
    if is_labelled:
        records = [{labels[key]: field for key, field in record.items()} for record in records]
    payload = bytearray(cbor2.dumps(put(value, records, data)))
    if data.draw(st.booleans()):
        payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    check("senml", bytes(payload), data.draw(st.sampled_from(PROFILES)))


finite = st.floats(-1e4, 1e4)
small = st.floats(-1e3, 1e3)


@st.composite
def blocks(draw: st.DrawFn) -> SampleBlock:
    n = draw(st.integers(1, 5))
    t_ns = draw(st.lists(st.integers(0, 2**62 - 1), min_size=n, max_size=n))
    acc = draw(st.lists(finite, min_size=3 * n, max_size=3 * n))
    gyr = draw(st.lists(small, min_size=3 * n, max_size=3 * n))
    return SampleBlock("w1", np.array(t_ns, dtype=np.int64), np.array(acc).reshape(n, 3), np.array(gyr).reshape(n, 3))


@pytest.mark.parametrize("name", ENCODING)
@settings(max_examples=150, deadline=None)
@given(block=blocks())
def test_decode_undoes_encode(name: str, block: SampleBlock) -> None:
    """Bit for bit, for every block within the bounds."""
    codec = load_codec(name)
    earliest_ns = getattr(codec, "MIN_STAMP_NS", 0)  # a format may have no earlier stamps
    block = replace(block, t_ns=np.maximum(block.t_ns, earliest_ns))
    [back] = codec.decode(codec.encode(block), device_id="w1", profile=DeviceProfile())
    assert back.t_ns.tobytes() == block.t_ns.tobytes()
    assert back.acc_ms2.tobytes() == block.acc_ms2.tobytes()
    assert back.gyr_rads.tobytes() == block.gyr_rads.tobytes()
