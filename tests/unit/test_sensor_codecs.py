"""Formats of sensors: small messages with values computed by hand, and the real ones they are made after."""

from __future__ import annotations

import gzip
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.samples import DeviceProfile
from tests.app_payloads import (
    MOVESENSE,
    SHIMMER,
    T_NS,
    WITMOTION,
)
from tests.unit.codec_bench import (
    MS2_DEG,
    G,
    block_of,
    dumps,
    refusal,
    tracks_of,
)

# ---- Movesense


def test_ask_17_a_batch_with_one_stamp_is_spread_by_its_rate() -> None:
    """52 Hz: the second sample 19,230,769 ns after the first; units are the profile's."""
    assert refusal("movesense", dumps(MOVESENSE))[0] == "units_unknown"
    block = block_of("movesense", dumps(MOVESENSE), MS2_DEG)
    assert block.t_ns.tolist() == [2_000_000_000, 2_019_230_769]
    assert block.acc_ms2.tolist() == [[0, 1, 9.5], [1, 2, 9.75]]
    np.testing.assert_allclose(block.gyr_rads, [[math.pi / 2, 0, 0], [0, -math.pi, 0]])


def test_movesense_without_a_rate_is_asked_for_it() -> None:
    """Two samples with one stamp, and nothing says how far apart; one sample needs no rate."""
    assert refusal("movesense", dumps(MOVESENSE["Body"]), MS2_DEG)[0] == "rate_invalid"
    assert "nominal_rate_hz" in refusal("movesense", dumps(MOVESENSE["Body"]), MS2_DEG)[1]
    at_100 = DeviceProfile("m/s2", "deg/s", nominal_rate_hz=100)
    assert block_of("movesense", dumps(MOVESENSE["Body"]), at_100).t_ns.tolist() == [2_000_000_000, 2_010_000_000]
    single = {"Timestamp": 7, "ArrayAcc": [{"x": 1, "y": 2, "z": 3}]}
    assert tracks_of("movesense", dumps(single), MS2_DEG)["acc"].t_ns.tolist() == [7_000_000]


def test_movesense_batches_never_overlap_and_take_the_time_of_day() -> None:
    """At a declared 10 Hz two samples before the next batch 60 ms later are 30 ms apart; TimeDetailed makes it UTC."""
    body = MOVESENSE["Body"]
    message = {
        "Samples": [
            {"TimeDetailed": {"relativeTime": 1000, "utcTime": 1_700_000_000_000_000}},
            {"MeasIMU6": body},
            {"MeasIMU6": body | {"Timestamp": 2060}},
        ]
    }
    block = block_of("movesense", dumps(message), DeviceProfile("m/s2", "deg/s", nominal_rate_hz=10))
    assert ((block.t_ns - T_NS) // 1_000_000).tolist() == [1000, 1030, 1060, 1160]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({}, "no_samples"),
        ({"ArrayAcc": [], "Timestamp": 1}, "wrong_shape"),
        ({"ArrayAcc": [[1, 2, 3]], "Timestamp": 1}, "wrong_shape"),
        ({"ArrayAcc": [{"x": 1, "y": 2, "z": "3"}], "Timestamp": 1}, "not_a_number"),
        ({"ArrayAcc": [{"x": 1, "y": 2, "z": 3}]}, "stamp_invalid"),
        ({"ArrayAcc": [{"x": 1, "y": 2, "z": 3}], "Timestamp": 1, "TimeDetailed": 3}, "bad_field"),
    ],
)
def test_what_is_no_message_of_movesense_is_refused(message: dict[str, Any], reason: str) -> None:
    """Each by its name."""
    assert refusal("movesense", dumps(message), MS2_DEG)[0] == reason


def test_real_movesense_logs(shared_data: Path) -> None:
    """1,250 batches of 8: in order and evenly spread; the data logger's accelerometer on UTC."""
    folder = shared_data / "payloads/movesense"
    at_104 = DeviceProfile("m/s2", "deg/s", nominal_rate_hz=104)
    block = block_of("movesense", (folder / "MovesenseLog_2_625.json").read_bytes(), at_104)
    assert len(block) == 10_000
    assert block.t_ns[[0, 8]].tolist() == [158_319_000_000, 158_394_000_000]
    assert np.diff(block.t_ns).min() >= 9_250_000  # 74 ms / 8
    assert math.isclose(block.gyr_rads[0, 0], math.radians(-1.4700000286102295))
    assert 9 < float(np.median(np.linalg.norm(block.acc_ms2, axis=1))) < 10.5
    track = tracks_of("movesense", (folder / "datalogger_session_0.json").read_bytes(), at_104)["acc"]
    assert track.t_ns[0] == 1_712_240_400_001_000_000
    assert track.values.tolist() == [[-1.09, 4.44, 8.68], [-1.06, 4.42, 8.72]]


# ---- Shimmer


def test_shimmer_table_takes_the_wide_range_accelerometer() -> None:
    """Stamps to the digit that is there: 1.7000000000195312E12 ms; gyroscope in deg/s; without it the other one."""
    block = block_of("shimmer", SHIMMER)
    assert (block.t_ns - T_NS).tolist() == [0, 19_531_200]
    assert block.acc_ms2.tolist() == [[0.5, -1.5, 9.75], [0.25, -1, 9.5]]
    np.testing.assert_allclose(block.gyr_rads, [[math.pi, 0, -math.pi / 2], [0, math.pi / 2, 0]])
    narrow = SHIMMER.replace(b"Accel_WR", b"Accel_XX")
    assert block_of("shimmer", narrow).acc_ms2.tolist() == [[1, 2, 3], [1, 2, 3]]
    tabs = SHIMMER.replace(b",", b"\t")
    assert block_of("shimmer", tabs).t_ns.tolist() == block.t_ns.tolist()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b"sep=", b"", "invalid_csv"),
        (b"Timestamp_Unix", b"Timestamp_FormattedUnix", "stamp_missing"),
        (b"Accel", b"A", "missing_acc"),
        (b"Gyro_X_CAL", b"Gyro_X_UNCAL", "missing_gyro"),
        (b"deg/s", b"no_units", "unit_unsupported"),
        (b"9.5,0.0", b"9.5", "wrong_shape"),
        (b"ms,", b"", "wrong_shape"),
        (b"9.75", b"NaN", "not_finite"),
    ],
)
def test_what_is_no_calibrated_shimmer_table_is_refused(old: bytes, new: bytes, reason: str) -> None:
    """Uncalibrated counts, times as text, damage: each by its name."""
    assert refusal("shimmer", SHIMMER.replace(old, new))[0] == reason


def test_real_shimmer_table_without_accelerometer_is_refused_by_name(shared_data: Path) -> None:
    """A pulse sensor's export: format read, no motion in it."""
    reason, remedy = refusal("shimmer", (shared_data / "payloads/shimmer/pair_consensys.csv").read_bytes())
    assert reason == "missing_acc"
    assert "calibrated" in remedy


# ---- WitMotion


def test_witmotion_bursts_are_spread_back_from_their_arrival() -> None:
    """At 100 Hz: 2 before 0.000, 2 in the 12 ms after it, one at 0.100; units are the profile's."""
    assert refusal("witmotion", WITMOTION)[0] == "rate_invalid"
    assert refusal("witmotion", WITMOTION, DeviceProfile(nominal_rate_hz=100))[0] == "units_unknown"
    block = block_of("witmotion", WITMOTION, DeviceProfile("g", "deg/s", nominal_rate_hz=100))
    assert ((block.t_ns - T_NS) // 1_000_000).tolist() == [-10, 0, 6, 12, 100]
    assert block.acc_ms2[:, 0].tolist() == [0, G, 2 * G, 3 * G, 4 * G]
    np.testing.assert_allclose(block.gyr_rads[:, 0], np.arange(5) * math.pi / 2)
    assert refusal("witmotion", WITMOTION.replace(b"wz", b"w_z"))[0] == "missing_gyro"


def test_real_witmotion_log(shared_data: Path) -> None:
    """85 % of its stamps are doubles; at 200 Hz every sample gets its own, in order."""
    with gzip.open(shared_data / "payloads/witmotion/imu_realtime_peak_head.csv.gz") as file:
        message = file.read()
    block = block_of("witmotion", message, DeviceProfile("g", "deg/s", nominal_rate_hz=200))
    assert len(block) == 3999
    assert np.diff(block.t_ns).min() > 0
    assert block.t_ns[7] == 1_783_054_623_465_647_500  # eight came at once: the last of them then
    assert math.isclose(block.acc_ms2[0, 2], 1.0458984375 * G)
