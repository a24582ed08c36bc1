"""Whatever the bytes are, a codec gives blocks or a PayloadError and nothing else."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.codecs import MAX_ABS_ACC_MS2, MAX_ABS_GYR_RADS, REASONS, codec_names, load_codec
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, SampleBlock

ENCODING = tuple(name for name in codec_names() if hasattr(load_codec(name), "encode"))
PROFILES = [
    DeviceProfile(),
    DeviceProfile(acc_unit="g", gyr_unit="deg/s", axes=("-z", "x", "y")),
    DeviceProfile("g", "deg/s", acc_counts_per_unit=16384, gyr_counts_per_unit=131, stamps="arrival"),
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
    blocks: list[SampleBlock] = []
    try:
        blocks = load_codec(name).decode(payload, device_id="w1", profile=profile)
    except PayloadError as error:
        refusal = error
    assert (refusal is None) != (not blocks)
    if refusal is not None:
        assert refusal.reason in REASONS
        assert "\n" not in str(refusal)
        assert len(str(refusal)) < 600
    for block in blocks:
        assert block.device_id == "w1"
        assert block.t_ns.dtype == np.int64
        assert block.t_ns.shape == (len(block),)
        assert block.acc_ms2.shape == block.gyr_rads.shape == (len(block), 3)
        assert len(block) > 0
        assert np.abs(block.acc_ms2).max() <= MAX_ABS_ACC_MS2
        assert np.abs(block.gyr_rads).max() <= MAX_ABS_GYR_RADS


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
    [back] = codec.decode(codec.encode(block), device_id="w1", profile=DeviceProfile())
    assert back.t_ns.tobytes() == block.t_ns.tobytes()
    assert back.acc_ms2.tobytes() == block.acc_ms2.tobytes()
    assert back.gyr_rads.tobytes() == block.gyr_rads.tobytes()
