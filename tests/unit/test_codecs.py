"""Messages written by hand, and the blocks or refusals that they must give."""

from __future__ import annotations

import json
import time
from typing import Any

import numpy as np
import pytest

from stream_occ.codecs import MAX_SAMPLES, load_codec
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, SampleBlock

SI = DeviceProfile(acc_unit="m/s2", gyr_unit="rad/s")
G_DEG = DeviceProfile(acc_unit="g", gyr_unit="deg/s")


def decode(payload: bytes | dict[str, Any], profile: DeviceProfile = SI, codec: str = "json") -> SampleBlock:
    raw = json.dumps(payload).encode() if isinstance(payload, dict) else payload
    [block] = load_codec(codec).decode(raw, device_id="w1", profile=profile)
    return block


def reason_of(payload: bytes | dict[str, Any], profile: DeviceProfile = SI, codec: str = "json") -> str:
    with pytest.raises(PayloadError) as caught:
        decode(payload, profile, codec)
    return caught.value.reason


def sample(**changes: Any) -> dict[str, Any]:
    return {"t_ns": 1_700_000_000_000_000_000, "acc": [1, 2.5, 3], "gyr": [0.1, 0, -1], **changes}


def test_one_sample_with_units_of_its_own() -> None:
    """1 g is 9.80665 m/s2 (ISO 80000-3) and 180 deg/s is pi rad/s."""
    message = sample(acc=[1, 0, -2], gyr=[180, 0, 90], units={"acc": "g", "gyr": "deg/s"})
    block = decode(message, DeviceProfile())
    assert block.t_ns.tolist() == [1_700_000_000_000_000_000]
    np.testing.assert_allclose(block.acc_ms2, [[9.80665, 0, -19.6133]], rtol=1e-15)
    np.testing.assert_allclose(block.gyr_rads, [[np.pi, 0, np.pi / 2]], rtol=1e-15)


def test_units_of_the_profile_serve_where_the_message_is_silent() -> None:
    """1000 mg is 1 g; 1000 mdeg/s is 1 deg/s."""
    profile = DeviceProfile(acc_unit="mg", gyr_unit="mdeg/s")
    block = decode(sample(acc=[1000, 0, 0], gyr=[1000, 0, 0]), profile)
    assert block.acc_ms2[0, 0] == pytest.approx(9.80665, rel=1e-15)
    assert block.gyr_rads[0, 0] == pytest.approx(np.pi / 180, rel=1e-15)


def test_regular_batch_spreads_stamps_by_its_rate() -> None:
    """t0 + round(k 1e9 / rate): at 3 Hz 0, 333333333, 666666667 ns."""
    rows = [[0, 0, 9.81]] * 3
    block = decode({"t0_ns": 10, "rate_hz": 3, "acc": rows, "gyr": rows})
    assert block.t_ns.tolist() == [10, 333_333_343, 666_666_677]


@pytest.mark.parametrize(
    ("text", "t_ns"),
    [
        ('"t_s": 1700000000.123456789', 1_700_000_000_123_456_789),
        ('"t_s": 1700000000', 1_700_000_000_000_000_000),
        ('"t_ms": 1700000000123.456789', 1_700_000_000_123_456_789),
        ('"t_us": 1700000000123456', 1_700_000_000_123_456_000),
        ('"t_ns": 1700000000123456789', 1_700_000_000_123_456_789),
        ('"t_s": 1.7e9', 1_700_000_000_000_000_000),
        ('"\\u0074_s": 1700000000.123456789', 1_700_000_000_123_456_789),
    ],
)
def test_stamps_are_read_without_losing_a_nanosecond(text: str, t_ns: int) -> None:
    """A float has 53 bits, a stamp of today in ns needs 61."""
    block = decode(b"{" + text.encode() + b', "acc": [0, 0, 9], "gyr": [0, 0, 0]}')
    assert block.t_ns.tolist() == [t_ns]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (sample(gyr=None), "missing_gyro"),
        (sample(acc=None), "missing_acc"),
        (sample(acc=[1, 2]), "wrong_shape"),
        (sample(acc=[[1, 2, 3]]), "wrong_shape"),
        (sample(acc="1,2,3"), "wrong_shape"),
        (sample(acc=["1", 2, 3]), "not_a_number"),
        (sample(acc=[True, 2, 3]), "not_a_number"),
        (sample(acc=[None, 2, 3]), "not_finite"),
        ({"t_ns": 1000, "battery": 80}, "no_samples"),
        (sample(acc={"x": 1, "y": 2, "z": 3}), "wrong_shape"),
        (sample(acc=[1e9, 2, 3]), "value_out_of_range"),
        (sample(acc=[10**400, 2, 3]), "value_out_of_range"),
        (sample(t_ns="1700000000"), "stamp_invalid"),
        (sample(t_ns=1.7e18), "stamp_invalid"),
        (sample(t_ns=-1), "stamp_invalid"),
        (sample(t_ns=2**63), "stamp_invalid"),
        (sample(t_ns=True), "stamp_invalid"),
        (sample(t_ns=None), "stamp_invalid"),
        (sample(t_ns=[]), "no_samples"),
        (sample(t_s=1), "stamp_missing"),
        ({"acc": [1, 2, 3], "gyr": [1, 2, 3]}, "stamp_missing"),
        (sample(t_ns=[1, 2], acc=[[1, 2, 3]], gyr=[[1, 2, 3]] * 2), "wrong_shape"),
        (sample(t_ns=[1, 2], acc=[[1, 2, 3]] * 2, gyr=[[1, 2, 3], [1, 2]]), "wrong_shape"),
        (sample(t_ns=[1] * (MAX_SAMPLES + 1)), "too_many_samples"),
        ({"t0_ns": 1, "acc": [[1, 2, 3]], "gyr": [[1, 2, 3]]}, "rate_invalid"),
        ({"t0_ns": 1, "rate_hz": 0, "acc": [[1, 2, 3]], "gyr": [[1, 2, 3]]}, "rate_invalid"),
        ({"t0_ns": 1, "rate_hz": 1e-300, "acc": [[1, 2, 3]] * 2, "gyr": [[1, 2, 3]] * 2}, "rate_invalid"),
        ({"t0_ns": 1, "rate_hz": "50", "acc": [[1, 2, 3]] * 2, "gyr": [[1, 2, 3]] * 2}, "rate_invalid"),
        ({"t0_ns": 2**62 - 1, "rate_hz": 1, "acc": [[1, 2, 3]] * 2, "gyr": [[1, 2, 3]] * 2}, "stamp_invalid"),
        ({"t0_ns": 1, "rate_hz": 50, "acc": [], "gyr": []}, "no_samples"),
        ({"t0_ns": 1, "rate_hz": 50, "gyr": []}, "missing_acc"),
        (sample(units={"acc": "lbs"}), "unit_unsupported"),
        (sample(units={"acc": "g"}), "unit_conflict"),
        (sample(units="g"), "bad_field"),
        (sample(device="w2"), "device_mismatch"),
        (sample(seq=-1), "bad_field"),
        (sample(seq=1.5), "bad_field"),
        (sample(seq=2**63), "bad_field"),
        (sample(boot="x" * 65, seq=0), "bad_field"),
        (sample(boot=-(10**300), seq=0), "bad_field"),
        (sample(boot="\ud800", seq=0), "bad_field"),
        (sample(device="\udfff"), "bad_field"),
        (sample(units={"acc": "\ud800", "gyr": "rad/s"}), "bad_field"),
        (sample(**{"\ud83d": 1}), "bad_field"),
        (sample(boot=[]), "bad_field"),
    ],
)
def test_json_refusals_have_their_own_reasons(message: dict[str, Any], reason: str) -> None:
    """What is wrong is said by a short code that is counted."""
    assert reason_of(message) == reason


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"null", "invalid_json"),
        (b"[1, 2]", "invalid_json"),
        (b"{", "invalid_json"),
        (b'{"a": 1} x', "invalid_json"),
        (b'{"a": ' + b"9" * 5000 + b"}", "invalid_json"),
        (b'{"t_ns": 1, "t_ns": 2, "acc": [1, 2, 3], "gyr": [1, 2, 3]}', "duplicate_key"),
        (b'{"t_ns": 1, "acc": [NaN, 2, 3], "gyr": [1, 2, 3]}', "not_finite"),
        (b'{"t_ns": 1, "acc": [1e999, 2, 3], "gyr": [1, 2, 3]}', "not_finite"),
        (b'{"t_ns": 1, "acc": [1, 2, 3], "gyr": [-Infinity, 2, 3]}', "not_finite"),
        (b"[" * 100_000, "too_deep"),
        (b'{"a":' * 100_000, "too_deep"),
        (b'["]",' * 100_000, "too_deep"),
        (b'["\\"]",' * 100_000, "too_deep"),
    ],
)
def test_texts_that_are_no_message_are_refused_before_they_do_harm(payload: bytes, reason: str) -> None:
    """Nesting is bounded before the parser recurses, closing brackets inside texts do not hide it."""
    assert reason_of(payload) == reason


def test_a_text_without_its_end_costs_no_more_than_its_length() -> None:
    """Looking for the end anew from each quote took 49 minutes for 1 MiB, with every other thread waiting."""
    started_s = time.process_time()
    assert reason_of(b'"' + b'\\"' * 100_000) == "invalid_json"
    assert reason_of(b'{"a":"' + b'\\"[' * 100_000) == "invalid_json"
    assert time.process_time() - started_s < 5.0


def test_brackets_inside_texts_are_no_nesting() -> None:
    """A device may call itself what it likes."""
    assert len(decode(sample(boot="[[[[[[[[[[{{{{{{{{{"))) == 1


def test_units_unknown_says_what_to_configure() -> None:
    """The remedy names the profile's key and the message's field."""
    with pytest.raises(PayloadError) as caught:
        decode(sample(), DeviceProfile())
    assert caught.value.reason == "units_unknown"
    assert "Set acc_unit (m/s2, g, mg) in the profile of the input, or send units.acc" in str(caught.value)


def test_optional_and_unknown_fields_are_no_obstacle() -> None:
    """device, seq and boot are checked; a battery level is ignored."""
    assert len(decode(sample(device="w1", seq=7, boot="a1", battery=0.9, nested={"a": [1]}))) == 1


CSV = b"1000,1,2,3,0.1,0.2,0.3\n2000,4,5,6,0.4,0.5,0.6\n"


def test_csv_without_header_has_the_documented_columns() -> None:
    """t_ns, acc x y z, gyr x y z."""
    block = decode(CSV, codec="csv")
    assert block.t_ns.tolist() == [1000, 2000]
    assert block.acc_ms2.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert block.gyr_rads.tolist() == [[0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]


def test_csv_header_orders_columns_and_declares_stamp_and_units() -> None:
    """A header may hold more columns, in any order, with \\r\\n line ends."""
    text = b"# acc=g gyr=deg/s\r\ngyr_x,gyr_y,gyr_z,battery,t_s,acc_z,acc_y,acc_x\r\n0,0,180,55,1.000000001,3,2,1\r\n"
    block = decode(text, DeviceProfile(), "csv")
    assert block.t_ns.tolist() == [1_000_000_001]
    np.testing.assert_allclose(block.acc_ms2, np.array([[1, 2, 3]]) * 9.80665, rtol=1e-15)
    np.testing.assert_allclose(block.gyr_rads, [[0, 0, np.pi]], rtol=1e-15)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\n\n", "no_samples"),
        (b"1000,1,2,3", "missing_gyro"),
        (b"t_ns,acc_x,acc_y,acc_z\n1,1,2,3", "missing_gyro"),
        (b"t_ns,gyr_x,gyr_y,gyr_z\n1,1,2,3", "missing_acc"),
        (b"acc_x,acc_y,acc_z,gyr_x,gyr_y,gyr_z\n1,2,3,4,5,6", "stamp_missing"),
        (b"t_ns,t_ns\n1,2", "duplicate_key"),
        (b"1000,1,2,3,4,5", "wrong_shape"),
        (b"1000,1,2,3,nan,5,6", "not_finite"),
        (b"1000,1,2,3,-Infinity,5,6", "not_finite"),
        (b"1000,1,2,3,1e999,5,6", "not_finite"),
        (b"1000,1,2,3,abc,5,6", "not_a_number"),
        (b"1000,1,2,3,1_0,5,6", "not_a_number"),
        (b"1000,1,2,3,,5,6", "not_finite"),
        (b"1000,1,2,3,null,5,6", "not_finite"),
        (b"1000.5,1,2,3,4,5,6", "stamp_invalid"),
        (b"-1,1,2,3,4,5,6", "stamp_invalid"),
        (b"1000,1,2,3,4,5,1e9", "value_out_of_range"),
        (b"# acc=lbs\n" + CSV, "unit_unsupported"),
        (b"# hello\n" + CSV, "invalid_csv"),
        (b"# acc=g acc=g\n" + CSV, "duplicate_key"),
        (CSV * (MAX_SAMPLES // 2 + 1), "too_many_samples"),
    ],
)
def test_csv_refusals_have_their_own_reasons(payload: bytes, reason: str) -> None:
    """What is wrong is said by a short code that is counted."""
    assert reason_of(payload, codec="csv") == reason


def test_csv_without_units_is_refused() -> None:
    """Units are declared, never guessed."""
    assert reason_of(CSV, DeviceProfile(), "csv") == "units_unknown"
    assert len(decode(CSV, G_DEG, "csv")) == 2
