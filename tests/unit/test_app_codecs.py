"""Formats of apps and sensors: small messages with values computed by hand, and the real ones they are made after."""

from __future__ import annotations

import gzip
import json
import math
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from stream_occ.codecs.senml import _records, resolved
from stream_occ.config import load_config
from stream_occ.config.inputs import ProfileConfig
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.joining import JoinSettings, JoinState, join
from stream_occ.samples import DeviceProfile, SampleBlock, SensorBlock
from stream_occ.topics import Topics
from tests.app_payloads import (
    APPLE_WATCH,
    MESSAGES,
    PHYPHOX,
    SENML,
    T_NS,
    WRIST,
    reading,
    senml,
    sensor_logger,
)
from tests.unit.codec_bench import (
    ANDROID,
    IOS,
    G,
    block_of,
    blocks_of,
    dumps,
    joined,
    refusal,
    tracks_of,
)

WITH_G = DeviceProfile(gravity="included")
REPO = Path(__file__).resolve().parents[2]


# ---- Sensor Logger


def test_ask_25_gravity_sent_apart_is_added_and_ios_turned_round() -> None:
    """(0.5, 1, 0) + (0, 0, 9.75), each sign turned for iOS but the gyroscope's; stamps in ns to the digit."""
    message = sensor_logger(
        reading("gyroscope", 5, 1, 2, 3), reading("accelerometer", 5, 0.5, 1, 0), reading("gravity", 5, 0, 0, 9.75)
    )
    block = block_of("sensor-logger", message, ANDROID)
    assert block.acc_ms2.tolist() == [[0.5, 1, 9.75]]
    assert block.t_ns.tolist() == [T_NS + 5_000_000]
    turned = block_of("sensor-logger", message, IOS)
    assert turned.acc_ms2.tolist() == [[-0.5, -1, -9.75]]
    assert turned.gyr_rads.tolist() == block.gyr_rads.tolist() == [[1, 2, 3]]


def test_ask_20_sensors_on_stamps_of_their_own_are_joined() -> None:
    """Gravity halfway between 9 and 10, gyroscope a quarter of the way from 0 to 2."""
    message = sensor_logger(
        reading("gravity", 0, 0, 0, 9),
        reading("accelerometer", 10, 1, 0, 0),
        reading("gyroscope", 5, 0, 0, 0),
        reading("gravity", 20, 0, 0, 10),
        reading("gyroscope", 25, 2, 0, 0),
    )
    block, lost = joined(blocks_of("sensor-logger", message, ANDROID))
    assert block.acc_ms2.tolist() == [[1, 0, 9.5]]
    assert block.gyr_rads.tolist() == [[0.5, 0, 0]]
    assert not lost


def test_ask_24_units_and_signs_that_depend_on_the_phone_are_asked_for() -> None:
    """Sign of iOS and Android, unit of uncalibrated and watch accelerations; totalacceleration is Android's alone."""
    linear = sensor_logger(reading("accelerometer", 0, 0, 0, 0), reading("gravity", 0, 0, 0, 9))
    assert refusal("sensor-logger", linear)[0] == "sign_unknown"
    assert "acc_sign" in refusal("sensor-logger", linear)[1]
    raw = sensor_logger(reading("accelerometerUncalibrated", 0, 0, 0, 1), reading("gyroscope", 0, 1, 2, 3))
    assert refusal("sensor-logger", raw, ANDROID)[0] == "units_unknown"
    in_g = DeviceProfile(acc_unit="g", acc_sign=-1)
    assert block_of("sensor-logger", raw, in_g).acc_ms2.tolist() == [[0, 0, -G]]
    total = sensor_logger(
        reading("totalacceleration", 0, 0, 0, 9.5), reading("gyroscope", 0, 1, 2, 3), reading("gravity", 0, 0, 0, 9)
    )
    assert block_of("sensor-logger", total).acc_ms2.tolist() == [[0, 0, 9.5]]
    assert refusal("sensor-logger", total, DeviceProfile(acc_unit="g"))[0] == "unit_conflict"


def test_a_watch_sends_whole_samples_and_no_phone_beside_it() -> None:
    """`wrist motion` holds all sensors in one reading: (0.5 + 0, 0, -1) g turned round."""
    block = block_of("sensor-logger", sensor_logger(WRIST), DeviceProfile(acc_unit="g", acc_sign=-1))
    assert block.acc_ms2.tolist() == [[-0.5 * G, 0, G]]
    both = sensor_logger(WRIST, reading("gyroscope", 0, 0, 0, 0))
    assert refusal("sensor-logger", both, IOS)[0] == "bad_field"


def test_messages_of_two_phones_are_never_mixed() -> None:
    """One topic is one person."""
    one = json.loads(sensor_logger(reading("gyroscope", 0, 0, 0, 0)))
    assert refusal("sensor-logger", dumps([one, one | {"deviceId": "q"}]))[0] == "device_mismatch"
    assert len(tracks_of("sensor-logger", dumps([one, one]))["gyr"]) == 2


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"[1]", "invalid_json"),
        (b'{"payload": 1}', "bad_field"),
        (b'{"payload": [{"name": 3}]}', "bad_field"),
        (sensor_logger(), "no_samples"),
        (sensor_logger({"name": "battery", "time": 0, "values": {}}), "no_samples"),
        (sensor_logger({"name": "gyroscope", "values": {"x": 1, "y": 1, "z": 1}}), "stamp_invalid"),
        (sensor_logger({"name": "gyroscope", "time": 1.7e18, "values": {"x": 1, "y": 1, "z": 1}}), "stamp_invalid"),
        (sensor_logger({"name": "gyroscope", "time": 1, "values": {"x": 1, "y": 1}}), "wrong_shape"),
        (sensor_logger({"name": "gyroscope", "time": 1, "values": {"x": 1, "y": 1, "z": "1"}}), "not_a_number"),
    ],
)
def test_what_is_no_message_of_sensor_logger_is_refused(message: bytes, reason: str) -> None:
    """Each by its name."""
    assert refusal("sensor-logger", message, ANDROID)[0] == reason


def test_real_push_message_of_an_iphone(shared_data: Path) -> None:
    """Of interleaved readings one instant has all three sensors: the sum is by hand, and its length 9.72 m/s2."""
    message = (shared_data / "payloads/sensor_logger/http_mqtt_push_message.json").read_bytes()
    block, lost = joined(blocks_of("sensor-logger", message, IOS))
    assert block.t_ns.tolist() == [1_716_760_513_715_797_500]
    np.testing.assert_allclose(block.acc_ms2, [[0.4355951376, 5.2099324501, 8.1925091682]], atol=1e-9)
    assert block.gyr_rads.tolist() == [[0.008767612278461456, -0.018378376960754395, -0.018734093755483627]]
    assert not lost


def test_real_export_of_an_iphone(shared_data: Path) -> None:
    """Numbers are texts; the first record is 91 h old, the others are 100 ms apart."""
    message = (shared_data / "payloads/sensor_logger/export_2022-06-14_03-15-05.json").read_bytes()
    block = block_of("sensor-logger", message, IOS)
    assert len(block) == 80
    assert block.t_ns[:2].tolist() == [1_654_847_621_756_825_900, 1_655_176_505_558_479_600]
    assert 5 < float(np.median(np.linalg.norm(block.acc_ms2, axis=1))) < 15


# ---- Apple Watch


def test_watch_table_adds_gravity_and_asks_for_unit_and_sign() -> None:
    """(0.5, 0.25, -1.5) g turned round."""
    assert refusal("apple-watch", APPLE_WATCH)[0] == "sign_unknown"
    assert refusal("apple-watch", APPLE_WATCH, IOS)[0] == "units_unknown"
    block = block_of("apple-watch", APPLE_WATCH, DeviceProfile(acc_unit="g", acc_sign=-1))
    np.testing.assert_allclose(block.acc_ms2, [[-0.5 * G, -0.25 * G, 1.5 * G]], rtol=1e-15)
    assert block.gyr_rads.tolist() == [[0.25, 0.5, -1]]
    assert block.t_ns.tolist() == [T_NS]
    assert (
        refusal("apple-watch", APPLE_WATCH.replace(b"gravity", b"g"), DeviceProfile("g", acc_sign=-1))[0]
        == "gravity_excluded"
    )


def test_real_watch_export(shared_data: Path) -> None:
    """1,702 lines with a hole of 12.4 s; the first line by hand: (-0.0482 - 0.1877, ..) g turned round."""
    message = (shared_data / "payloads/apple_watch/ucancme_WristMotion.csv").read_bytes()
    block = block_of("apple-watch", message, DeviceProfile(acc_unit="g", acc_sign=-1))
    assert len(block) == 1702
    assert np.diff(block.t_ns).max() == 12_367_257_200
    np.testing.assert_allclose(block.acc_ms2[0], [2.3133972, 4.2669157, 8.4208556], atol=1e-7)


# ---- phyphox


def test_phyphox_stamps_run_from_the_last_start() -> None:
    """1.25 s of the experiment, 0.75 s after START at 0.25 s: second 1.0; both sensors share their stamps."""
    block = block_of("phyphox", dumps(PHYPHOX), WITH_G)
    assert (block.t_ns - T_NS).tolist() == [1_000_000_000, 1_010_000_000]
    assert block.acc_ms2.tolist() == [[0.5, 1, 9.75], [1.5, 2, 9.5]]
    assert block.gyr_rads.tolist() == [[0.25, 0, -1], [0.5, 0, 1]]
    again = {"event": "START", "experimentTime": 1.255, "systemTime": 1_700_000_100}
    message = PHYPHOX | {"time": {"events": [again, *PHYPHOX["time"]["events"]]}}
    assert (block_of("phyphox", dumps(message), WITH_G).t_ns - T_NS).tolist() == [1_000_000_000, 100_005_000_000]


def test_phyphox_without_time_is_on_the_experiments_clock() -> None:
    """As the remote interface gives it, wrapped in buffers: for profiles with stamps of arrival."""
    message = {"buffer": {k: {"size": 0, "buffer": v} for k, v in PHYPHOX.items() if k != "time"}, "status": {}}
    assert block_of("phyphox", dumps(message), WITH_G).t_ns.tolist() == [1_250_000_000, 1_260_000_000]


def test_phyphox_sensors_apart_and_gravity_beside() -> None:
    """A batch in which only the gyroscope has news; linear acceleration with and without gravity."""
    news = PHYPHOX | {key: [] for key in ("acc_time", "accX", "accY", "accZ")}
    assert list(tracks_of("phyphox", dumps(news))) == ["gyr"]
    linear = {key.replace("acc", "lin"): value for key, value in PHYPHOX.items()}
    assert refusal("phyphox", dumps(linear))[0] == "gravity_excluded"
    gravity = {"gravX": [0, 0], "gravY": [0, 0], "gravZ": [0.25, 0.5], "grav_time": [1.25, 1.26]}
    assert block_of("phyphox", dumps(linear | gravity)).acc_ms2.tolist() == [[0.5, 1, 10], [1.5, 2, 10]]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"accX": [1]}, "wrong_shape"),
        ({"accX": [1, None]}, "not_finite"),
        ({"acc_x": [1, 2]}, "duplicate_key"),
        ({"acc_time": [1, "2"]}, "stamp_invalid"),
        ({"time": {"events": 3}}, "bad_field"),
        ({"time": {"events": [{"event": "START"}]}}, "stamp_invalid"),
        ({"buffer": 3}, "bad_field"),
        ({"buffer": {}}, "missing_acc"),
    ],
)
def test_what_is_no_message_of_phyphox_is_refused(change: dict[str, Any], reason: str) -> None:
    """Each by its name."""
    assert refusal("phyphox", dumps(PHYPHOX | change), WITH_G)[0] == reason
    missing = {key: value for key, value in PHYPHOX.items() if key != "acc_time"}
    assert refusal("phyphox", dumps(missing))[0] == "stamp_missing"


@pytest.mark.parametrize("mark", [",", ";", "\t"])
def test_phyphox_tables_with_every_separator(mark: str) -> None:
    """Relative seconds, exact; the unit of the header tells the sensor."""
    lines = '"Time (s)";"X (m/s^2)";"Y (m/s^2)";"Z (m/s^2)"\n1.565725000E-2;-7.5E-1;4E0;9.5E0\n'
    table = lines.replace(";", mark)
    track = tracks_of("phyphox", table.encode(), WITH_G)["acc"]
    assert track.t_ns.tolist() == [15_657_250]
    assert track.values.tolist() == [[-0.75, 4, 9.5]]
    turning = table.replace("m/s^2", "rad/s").encode()
    assert tracks_of("phyphox", turning)["gyr"].values.tolist() == [[-0.75, 4, 9.5]]


def test_real_phyphox_exports(shared_data: Path) -> None:
    """Accelerometer and gyroscope of one walk join; linear acceleration alone and decimal commas are refused."""
    folder = shared_data / "payloads/phyphox"
    parts = []
    for name in ("nina1_Accelerometer_semicolon.csv.gz", "nina1_Gyroscope_semicolon.csv.gz"):
        with gzip.open(folder / name) as file:
            parts += blocks_of("phyphox", b"".join(file.readlines()[:2001]), WITH_G)
    state, before, _ = join(JoinState(), parts, JoinSettings())
    assert before == []  # the gyroscope sample that the first one needs might still come
    _, [block], lost = join(state, [SensorBlock("w1", "gyr", np.array([10**11]), np.zeros((1, 3)))], JoinSettings())
    assert block.t_ns[0] == 25_690_250  # the first accelerometer sample with a gyroscope sample before it
    # Between gyroscope samples at 21.92625 and 31.95925 ms: by hand 0.37516 of the way from -1.252694 to -0.989242.
    assert math.isclose(block.gyr_rads[0, 0], -1.252694011 + 0.3751619655 * (1.252694011 - 0.9892418385), abs_tol=1e-9)
    assert len(block) >= 1990
    assert lost == {"gyro_missing": 1}
    assert 9 < float(np.median(np.linalg.norm(block.acc_ms2, axis=1))) < 12
    for name in ("accidentPro_walk.csv", "accidentPro_stair.csv"):
        assert refusal("phyphox", (folder / name).read_bytes())[0] == "gravity_excluded"
    with gzip.open(folder / "constantin1_Accelerometer.csv.gz") as file:
        reason, remedy = refusal("phyphox", b"".join(file.readlines()[:50]))
    assert reason == "invalid_csv"
    assert "spreadsheet" in remedy


def test_phyphox_says_acc_with_and_without_gravity_so_the_profile_must_say_which() -> None:
    """Refused with the line to configure, whatever the values are; `excluded` is refused as any such profile."""
    still = PHYPHOX | {"accX": [0.01, 0], "accY": [0, 0.01], "accZ": [0, -0.01]}
    for message in (PHYPHOX, still):
        reason, remedy = refusal("phyphox", dumps(message))
        assert reason == "gravity_unknown"
        assert "Set gravity: included in the profile" in remedy
        assert len(block_of("phyphox", dumps(message), WITH_G)) == 2
        assert refusal("phyphox", dumps(message), DeviceProfile(gravity="excluded"))[0] == "gravity_excluded"


def test_phyphox_names_that_leave_no_doubt_need_no_word_of_the_profile() -> None:
    """Buffers named by the sensor, linear acceleration beside the total one, and titles of columns."""
    named = {key.replace("acc", "accelerometer"): value for key, value in PHYPHOX.items()}
    assert block_of("phyphox", dumps(named)).acc_ms2.tolist() == [[0.5, 1, 9.75], [1.5, 2, 9.5]]
    linear = {key.replace("acc", "lin"): value for key, value in PHYPHOX.items() if key.startswith("acc")}
    gravity = {key.replace("acc", "grav"): value for key, value in PHYPHOX.items() if key.startswith("acc")}
    for beside in (linear, linear | gravity):
        assert block_of("phyphox", dumps(PHYPHOX | beside)).acc_ms2.tolist() == [[0.5, 1, 9.75], [1.5, 2, 9.5]]
    table = "Time (s),{0}x (m/s^2),{0}y (m/s^2),{0}z (m/s^2)\n0.5,1,2,9.5\n"
    assert tracks_of("phyphox", table.format("Acceleration ").encode())["acc"].values.tolist() == [[1, 2, 9.5]]
    assert refusal("phyphox", table.format("").encode())[0] == "gravity_unknown"
    assert refusal("phyphox", table.format("Beschleunigung ").encode())[0] == "gravity_unknown"
    assert refusal("phyphox", table.format("Linear Acceleration ").encode(), WITH_G)[0] == "gravity_excluded"


# ---- SenML


def test_senml_pack_in_json() -> None:
    """Base time and name; later records repeat axes at t seconds after it, read exactly."""
    later = [{"n": record["n"], "u": record["u"], "t": 0.020000001, "v": 2} for record in SENML]
    block = block_of("senml", senml(*SENML, *later))
    assert (block.t_ns - T_NS).tolist() == [0, 20_000_001]
    assert block.acc_ms2.tolist() == [[1, -0.5, 9.8], [2, 2, 2]]
    assert block.gyr_rads.tolist() == [[0.25, 0, -0.125], [2, 2, 2]]


@pytest.mark.parametrize("stem", ["linear_acc", "user-acceleration", "imu/Linear/Accel", "lin.acc"])
def test_senml_acceleration_without_gravity_is_not_taken_for_the_whole(stem: str) -> None:
    """Refused where it is all there is, passed over where the total one stands beside it."""
    linear = [{**record, "n": f"{stem}_{record['n'][-1]}"} for record in SENML if "acc" in record["n"]]
    assert refusal("senml", senml(*linear, *SENML[3:]))[0] == "gravity_excluded"
    block = block_of("senml", senml(*SENML, *linear[1:]))
    assert block.acc_ms2.tolist() == [[1, -0.5, 9.8]]


@pytest.mark.parametrize(
    "names", ["accel/x", "Accelerometer:X", "imu.acc.x", "acceleration-x", "accx", "urn:dev:os:1:acc_x"]
)
def test_senml_names_of_axes(names: str) -> None:
    """As devices write them, with the gyroscope likewise."""
    stem = names.rstrip("xX")
    wanted = {f"acc_{axis}": stem + axis for axis in "xyz"}
    block = block_of("senml", senml(*(record | {"n": wanted.get(record["n"], record["n"])} for record in SENML)))
    assert block.acc_ms2.tolist() == [[1, -0.5, 9.8]]


def test_senml_pack_in_cbor_without_and_with_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """The labels of table 6 of the RFC, a time as a decimal fraction; one line where cbor2 is missing."""
    cbor2 = pytest.importorskip("cbor2")
    labels = {"bn": -2, "bt": -3, "n": 0, "u": 1, "v": 2, "t": 6}
    records = [{labels[key]: value for key, value in record.items()} for record in SENML]
    records[0][-3] = Decimal("1700000000.000000001")
    message = cbor2.dumps(records)
    block = block_of("senml", message)
    assert block.t_ns.tolist() == [T_NS + 1]
    assert block.acc_ms2.tolist() == [[1, -0.5, 9.8]]
    assert refusal("senml", cbor2.dumps([{99: 1}]))[0] == "bad_field"
    assert refusal("senml", cbor2.dumps([{"v": math.nan, "n": "acc_x"}]))[0] == "not_finite"
    assert refusal("senml", message[:-1])[0] == "invalid_binary"
    monkeypatch.setitem(__import__("sys").modules, "stream_occ.codecs._cbor", None)
    assert refusal("senml", message) == ("library_missing", "Install stream_occ[codecs]")


@pytest.mark.parametrize(
    ("pack", "reason"),
    [
        (senml({"n": "acc_x", "v": 1}), "stamp_invalid"),
        (senml(*({**r, "bt": 5} if "bt" in r else r for r in SENML)), "stamp_invalid"),
        (senml(*SENML[:2]), "wrong_shape"),
        (senml(*SENML[:3], {**SENML[0], "bn": "other:"}), "duplicate_key"),
        (senml(*SENML[:3], {**SENML[0], "u": "g"}), "wrong_shape"),
        (senml(*SENML[:2], {**SENML[2], "u": "g"}), "unit_conflict"),
        (senml(*({**r, "u": "g"} for r in SENML[:3])), "units_unknown"),
        (senml(*({**r, "u": "km"} for r in SENML[:3])), "unit_unsupported"),
        (senml(*SENML[:2], {"n": "acc_z", "u": "m/s2", "vs": "9"}), "not_a_number"),
        (senml({"bver": 11}, *SENML), "bad_field"),
        (senml({"new_": 1}, *SENML), "bad_field"),
        (senml({**SENML[0], "bt": 1e300}, *SENML[1:]), "stamp_invalid"),
        (senml({"bn": "x" * 300}, *SENML), "bad_field"),
        (senml({"bv": "1"}, *SENML), "not_a_number"),
        (b"{}", "invalid_json"),
        (b"[1]", "invalid_json"),
        (b"[]", "no_samples"),
    ],
)
def test_what_is_no_motion_in_senml_is_refused(pack: bytes, reason: str) -> None:
    """Relative times, half a sensor, two devices, units that are none, versions to come: each by its name."""
    assert refusal("senml", pack)[0] == reason


def test_senml_in_g_is_for_a_profile_that_says_so() -> None:
    """g is the gram in SenML."""
    pack = senml(*({**record, "u": "g"} for record in SENML[:3]), *SENML[3:])
    assert block_of("senml", pack, DeviceProfile(acc_unit="g")).acc_ms2[0, 0] == G


@pytest.mark.parametrize("name", ["ex3", "ex4", "ex5", "ex6", "ex10", "ex11", "ex12", "ex3.gen.cbor", "ex5.gen.cbor"])
def test_examples_of_the_rfc_resolve_as_it_says(shared_data: Path, name: str) -> None:
    """Names, times, units and values of RFC 8428, each pack beside its resolved form; none is of a motion sensor."""
    folder = shared_data / "payloads/senml"
    pack = folder / (name if "." in name else f"{name}.json")
    expected = (folder / f"{name.partition('.')[0]}.gen.resolved.json").read_text()
    assert list(resolved(_records(pack.read_bytes(), "w1"), "w1")) == json.loads(expected, parse_float=Decimal)
    assert refusal("senml", pack.read_bytes())[0] == "no_samples"


# ---- all of them


@pytest.mark.parametrize("codec", sorted(MESSAGES))
def test_axes_are_turned_in_every_format(codec: str) -> None:
    """axes (y, -x, z) on top of what the format itself does."""
    told: dict[str, Any] = {"nominal_rate_hz": 100, "acc_sign": 1, "gravity": "included"}
    if codec in ("movesense", "apple-watch", "witmotion"):
        told |= {"acc_unit": "m/s2"}
    if codec in ("movesense", "witmotion"):
        told |= {"gyr_unit": "rad/s"}
    plain = block_of(codec, MESSAGES[codec], DeviceProfile(**told))
    turned = block_of(codec, MESSAGES[codec], DeviceProfile(**told, axes=("y", "-x", "z")))
    for mine, theirs in ((plain.acc_ms2, turned.acc_ms2), (plain.gyr_rads, turned.gyr_rads)):
        np.testing.assert_array_equal(theirs, np.stack([mine[:, 1], -mine[:, 0], mine[:, 2]], axis=1))


def told_of_files() -> list[tuple[list[str], str, str, str]]:
    """(files, codec, profile, what comes of it) of each row of docs/codecs.md about real messages."""
    text = (REPO / "docs" / "codecs.md").read_text().partition("## Messages of real devices")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| `")
    ]
    return [(re.findall(r"`([^`]+)`", files), *map(str, rest)) for files, *rest in rows]


def test_documentation_tells_what_comes_of_each_real_file(shared_data: Path) -> None:
    """Every file is in one row; what is decoded is, with that profile, and what is refused is for that reason."""
    folder = shared_data / "payloads"
    rows, told = told_of_files(), Counter[str]()
    assert len(rows) > 12
    for patterns, codec, profile, outcome in rows:
        paths = [path for pattern in patterns for path in folder.glob(pattern)]
        assert len(paths) >= len(patterns)
        told.update({str(path.relative_to(folder)) for path in paths})
        if not profile.startswith("`{") or codec == "`esp32`":  # shapes, which test_device_codecs has; texts
            continue
        for path in paths:
            content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
            content = b"".join(content.splitlines(keepends=True)[:2001]) if "2,000 lines" in outcome else content
            said = ProfileConfig.model_validate(yaml.safe_load(profile.strip("`"))).to_profile()
            refused = re.search(r"refused, `(\w+)`", outcome)
            if refused is None:
                assert outcome.startswith("decoded")
                assert sum(map(len, blocks_of(codec.strip("`"), content, said))) > 0
            else:
                assert refusal(codec.strip("`"), content, said)[0] == refused[1]
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert told.keys() == files
    assert {name for name, n in told.items() if n > 1} == {"esp32/payloads.md"}


def examples() -> list[tuple[str, str]]:
    """(language, text) of every example in docs/codecs.md."""
    return re.findall(r"```(\w+)\n(.*?)```", (REPO / "docs" / "codecs.md").read_text(), re.DOTALL)


def test_examples_of_the_documentation_work(tmp_path: Path) -> None:
    """Every configuration loads, each codec has one, and what it configures takes a message of its device."""
    shown = Counter[str]()
    for language, text in examples():
        if language == "json":
            assert len(block_of("senml", text.encode())) == 1
            continue
        file = tmp_path / "ward.yaml"
        file.write_text(text)
        for entry in load_config(file, {}).inputs:
            shown[entry.codec] += 1
            is_watch = entry.codec == "sensor-logger" and entry.pattern.startswith("watches/")
            message = sensor_logger(WRIST) if is_watch else MESSAGES[entry.codec]
            assert blocks_of(entry.codec, message, entry.device_profile)
    assert set(shown) == set(MESSAGES)


def test_a_phone_on_the_wire_is_one_stream(tmp_path: Path) -> None:
    """Ten seconds in messages of 200 ms, 100 Hz of acceleration, 40 Hz of rotation, 60 Hz of gravity, all ramps.

    Ramps are what linear interpolation gives back: x is the second of each sample, whichever sensor measured it.
    """
    file = tmp_path / "ward.yaml"
    file.write_text("inputs: [{pattern: 'p/{device}', codec: sensor_logger, profile: {acc_sign: 1}}]")
    desk = Intake(load_config(file, {}), Topics("stream_occ", "edge"))
    rates_hz = {"accelerometer": 100, "gyroscope": 40, "gravity": 60}
    out: list[SampleBlock] = []
    for start_ms in range(0, 10_000, 200):
        readings = [
            reading(name, 1000 * k / rate_hz, k / rate_hz, 0, 0)
            for name, rate_hz in rates_hz.items()
            for k in range(10 * rate_hz)
            if start_ms <= 1000 * k / rate_hz < start_ms + 200
        ]
        payload = sensor_logger(*readings)
        message = Received.of("p/w1", payload, is_retained=False, arrived_s=0.0, max_bytes=100_000)
        out += desk.accept(message, now_ns=T_NS, now_s=start_ms / 1000)
    t_ns = np.concatenate([block.t_ns for block in out])
    assert ((t_ns - T_NS) // 10_000_000).tolist() == list(range(998))  # the last gyroscope sample is at 9.975 s
    x_s = (t_ns - T_NS) / 1e9
    np.testing.assert_allclose(np.concatenate([block.gyr_rads for block in out])[:, 0], x_s, atol=1e-8)
    np.testing.assert_allclose(np.concatenate([block.acc_ms2 for block in out])[:, 0], 2 * x_s, atol=1e-8)
    assert desk.refused == {}
    assert desk.devices["w1"].fault_seen_s == {}
