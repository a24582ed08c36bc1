"""What every codec keeps: whatever file is added to stream_occ/codecs is tested here by itself."""

from __future__ import annotations

import numpy as np
import pytest

from stream_occ.codecs import MAX_PAYLOAD_BYTES, REASONS, codec_names, load_codec
from stream_occ.errors import ConfigError, PayloadError
from stream_occ.samples import DeviceProfile, SampleBlock

ENCODING = tuple(name for name in codec_names() if hasattr(load_codec(name), "encode"))
AWKWARD = [0.1, 1 / 3, -0.0, 5e-324, 9.806650000000001, -157.0]


def a_block(n: int = 6) -> SampleBlock:
    t_ns = 1_700_000_000_123_456_789 + np.arange(n, dtype=np.int64) * 19_999_999
    acc = np.array(AWKWARD * 3, dtype=np.float64)[: 3 * n].reshape(n, 3)
    return SampleBlock("w1", t_ns, acc, acc[::-1].copy() / 7)


@pytest.mark.parametrize("name", ENCODING)
def test_decode_gives_back_what_encode_took_bit_for_bit(name: str) -> None:
    """Stamps and floats, negative zero and the smallest float among them, survive; the profile need not name units."""
    codec, block = load_codec(name), a_block()
    [back] = codec.decode(codec.encode(block), device_id="w1", profile=DeviceProfile())
    assert back.device_id == "w1"
    for mine, theirs in ((block.t_ns, back.t_ns), (block.acc_ms2, back.acc_ms2), (block.gyr_rads, back.gyr_rads)):
        assert theirs.dtype == mine.dtype
        assert theirs.tobytes() == mine.tobytes()


@pytest.mark.parametrize("name", codec_names())
@pytest.mark.parametrize(
    ("payload", "reasons"),
    [
        (b"", {"empty"}),
        (b" " * (MAX_PAYLOAD_BYTES + 1), {"payload_too_large"}),
        (b"\xff\xfe", {"invalid_utf8", "invalid_binary"}),
    ],
)
def test_what_is_no_message_is_refused_by_reason(name: str, payload: bytes, reasons: set[str]) -> None:
    """Empty, huge and damaged payloads have the same reasons in every codec of texts, and in every binary one."""
    with pytest.raises(PayloadError) as caught:
        load_codec(name).decode(payload, device_id="w1", profile=DeviceProfile())
    assert caught.value.reason in reasons
    assert reasons <= set(REASONS)


@pytest.mark.parametrize("name", ENCODING)
def test_profile_without_gravity_is_refused(name: str) -> None:
    """Without gravity nothing tells lying from standing."""
    codec = load_codec(name)
    with pytest.raises(PayloadError, match="total acceleration") as caught:
        codec.decode(codec.encode(a_block()), device_id="w1", profile=DeviceProfile(gravity="excluded"))
    assert caught.value.reason == "gravity_excluded"


@pytest.mark.parametrize("name", ENCODING)
def test_axes_of_the_profile_are_applied_to_both_sensors(name: str) -> None:
    """axes (y, -x, z): our x is the device's y, our y is the device's x turned round."""
    codec, block = load_codec(name), a_block()
    profile = DeviceProfile(axes=("y", "-x", "z"))
    [back] = codec.decode(codec.encode(block), device_id="w1", profile=profile)
    for mine, theirs in ((block.acc_ms2, back.acc_ms2), (block.gyr_rads, back.gyr_rads)):
        np.testing.assert_array_equal(theirs, np.stack([mine[:, 1], -mine[:, 0], mine[:, 2]], axis=1))


@pytest.mark.parametrize("name", ENCODING)
def test_units_of_message_and_profile_must_agree(name: str) -> None:
    """The encoded message says m/s2; a profile that says g is a conflict, never a silent choice."""
    codec = load_codec(name)
    with pytest.raises(PayloadError) as caught:
        codec.decode(codec.encode(a_block()), device_id="w1", profile=DeviceProfile(acc_unit="g"))
    assert caught.value.reason == "unit_conflict"


def test_unknown_codec_names_those_there_are() -> None:
    """A wrong name is a ConfigError with the list."""
    with pytest.raises(ConfigError, match=r"be one of .*csv, .*json"):
        load_codec("jsn")
    with pytest.raises(ConfigError):
        load_codec("_common")
