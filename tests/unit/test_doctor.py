"""What the doctor says of topics whose messages are made here, so that every answer is known."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.cli import run
from stream_occ.codecs import load_codec
from stream_occ.config import MqttConfig, adjusted_config, check_config
from stream_occ.doctor import Diagnosis, Heard, configuration, diagnose, report
from stream_occ.doctor.signals import turn_factor
from stream_occ.inbox import Received
from stream_occ.samples import NS_PER_S, SampleBlock

RATE_HZ = 50.0
T0_NS = 1_700_000_000_000_000_000
DEG = np.pi / 180


def turning(n: int = 1000, *, rate_hz: float = RATE_HZ) -> SampleBlock:
    """At rest for the first half, then turned to and fro about x and y in turn, by up to 57 degrees."""
    t_s = np.arange(n) / rate_hz
    later = np.maximum(t_s - t_s[n // 2], 0)
    angle, speed = np.sin(later * 0.8), 0.8 * np.cos(later * 0.8) * (later > 0)
    zero = np.zeros(n)
    acc = 9.80665 * np.stack([zero, np.sin(angle), np.cos(angle)], axis=1)
    gyr = np.stack([speed, zero, zero], axis=1)
    noise = np.random.default_rng(3).normal(scale=0.01, size=(2, n, 3))
    return SampleBlock("w1", T0_NS + np.rint(t_s * 1e9).astype(np.int64), acc + noise[0], gyr + noise[1])


def heard_of(*topics: tuple[str, list[bytes]], rate_hz: float = 5.0, start_ns: int = T0_NS) -> Heard:
    """Messages of each topic in turn, so many a second; the first one at `start_ns`."""
    heard = Heard("stream_occ")
    for topic, payloads in topics:
        for i, payload in enumerate(payloads):
            now_s = 100.0 + i / rate_hz
            message = Received.of(topic, payload, is_retained=False, arrived_s=now_s, max_bytes=10**6)
            heard.take(message, now_ns=start_ns + round(i / rate_hz * NS_PER_S), now_s=now_s)
    return heard


def in_batches(block: SampleBlock, write: Callable[[SampleBlock], bytes], size: int = 10) -> list[bytes]:
    """The block as messages of `size` samples."""
    cuts = [slice(i, i + size) for i in range(0, len(block), size)]
    return [write(SampleBlock("w1", block.t_ns[c], block.acc_ms2[c], block.gyr_rads[c])) for c in cuts]


def in_units(acc: float, gyr: float, **more: Any) -> Callable[[SampleBlock], bytes]:
    """Writes JSON that does not say its units; acc and gyr: how many of them are one m/s2 and one rad/s."""

    def write(block: SampleBlock) -> bytes:
        rows = {"acc": (block.acc_ms2 * acc).tolist(), "gyr": (block.gyr_rads * gyr).tolist()}
        return json.dumps({"t_ns": block.t_ns.tolist(), **rows, **more}).encode()

    return write


def only(diagnosis: Diagnosis) -> tuple[Any, dict[str, Any]]:
    """The one finding and the one input."""
    [finding], [entry] = diagnosis.findings, diagnosis.inputs
    return finding, entry


def check(folder: Path, diagnosis: Diagnosis) -> None:
    """The configuration is one that `config check` takes."""
    settings = adjusted_config(None, inputs=[{"pattern": "{device}"}], mqtt={"host": "broker.lan", "port": 1884})
    text = configuration(diagnosis, settings, has_file=False)
    (folder / "found.yaml").write_text(text)
    config, problems = check_config(folder / "found.yaml", {})
    assert problems == [], text
    assert config is not None
    assert (config.mqtt.host, config.mqtt.port) == ("broker.lan", 1884)
    assert len(config.inputs) == len(diagnosis.inputs)


@pytest.mark.parametrize(
    ("acc", "gyr", "acc_unit", "gyr_unit"),
    [
        (1.0, 1.0, "m/s2", "rad/s"),
        (1 / 9.80665, 1 / DEG, "g", "deg/s"),
        (1000 / 9.80665, 1000 / DEG, "mg", "mdeg/s"),
        (1.0, 1 / DEG, "m/s2", "deg/s"),
    ],
)
def test_units_are_told_from_rest_and_turning(
    acc: float, gyr: float, acc_unit: str, gyr_unit: str, tmp_path: Path
) -> None:
    """|a| at rest is 9.8, 1 or 1000; gravity turns as the gyroscope says in one unit alone. No question is left."""
    payloads = in_batches(turning(), in_units(acc, gyr))
    diagnosis = diagnose(
        heard_of(("wearables/w1/imu", payloads), ("wearables/w2/imu", payloads), start_ns=T0_NS + 2 * 10**8)
    )
    assert [question.text for question in diagnosis.questions] == []
    [entry] = diagnosis.inputs
    assert (entry["pattern"], entry["codec"]) == ("wearables/{device}/imu", "json")
    assert entry["profile"] == {"acc_unit": acc_unit, "gyr_unit": gyr_unit, "nominal_rate_hz": 50.0}
    finding = diagnosis.findings[0]
    assert (finding.device, finding.gravity, finding.n_read) == ("w1", "included", 100)
    assert finding.timing.rate_hz == pytest.approx(50.0)
    assert finding.timing.skew_s == pytest.approx(0.02, abs=1e-6)
    assert finding.per_s == pytest.approx(5.0)
    check(tmp_path, diagnosis)


def test_raw_counts_are_found_and_their_gyroscope_is_asked_about(tmp_path: Path) -> None:
    """A sketch's counts at 4 g and 500 deg/s, one sample a message, no clock."""
    block = turning()
    acc, gyr = np.rint(block.acc_ms2 / 9.80665 * 8192).astype(int), np.rint(block.gyr_rads / DEG * 65.5).astype(int)
    keys = ("AcX", "AcY", "AcZ", "GyX", "GyY", "GyZ")
    payloads = [json.dumps(dict(zip(keys, row, strict=True))).encode() for row in np.hstack([acc, gyr]).tolist()]
    finding, entry = only(diagnosis := diagnose(heard_of(("sensors/esp7/data", payloads), rate_hz=50.0)))
    assert entry["codec"] == "esp32"
    assert entry["profile"] == {
        "stamps": "arrival",
        "acc_unit": "g",
        "acc_counts_per_unit": 8192.0,
        "gyr_unit": "deg/s",
        "gyr_counts_per_unit": 65.5,
    }
    assert [question.line for question in finding.questions] == [
        "gyr_counts_per_unit: 65.5",
        "pattern: sensors/{device}/data",
    ]
    check(tmp_path, diagnosis)


def test_declared_units_need_no_profile_but_are_checked(tmp_path: Path) -> None:
    """SI by the message's own word; where |a| at rest is 1 m/s2 the word is doubted."""
    good = in_batches(turning(), load_codec("json").encode)
    _, entry = only(diagnosis := diagnose(heard_of(("a/w1", good))))
    assert entry["profile"] == {"nominal_rate_hz": 50.0}
    check(tmp_path, diagnosis)
    wrong = in_batches(turning(), in_units(1 / 9.80665, 1.0, units={"acc": "m/s2", "gyr": "rad/s"}))
    finding, _ = only(diagnose(heard_of(("a/w1", wrong))))
    assert finding.gravity == "in doubt: acc_unit_g_as_ms2"
    assert "correct the sender" in finding.questions[0].text


@pytest.mark.parametrize("codec", ["csv", "msgpack", "cbor", "compact"])
def test_other_codecs_are_found(codec: str) -> None:
    """Messages as that codec's own encode writes them."""
    payloads = in_batches(turning(), load_codec(codec).encode)
    finding, entry = only(diagnose(heard_of(("a/w1", payloads))))
    assert (entry["codec"], finding.also) == (codec, [])


def test_uptime_is_no_time_of_day() -> None:
    """Stamps that count from the device's start: arrival, and a question."""
    block = turning()
    payloads = in_batches(
        SampleBlock("w1", block.t_ns - T0_NS, block.acc_ms2, block.gyr_rads), load_codec("json").encode
    )
    finding, entry = only(diagnose(heard_of(("a/w1", payloads))))
    assert entry["profile"]["stamps"] == "arrival"
    assert finding.stamps.startswith("no time of day")
    assert "stamps: arrival" in [question.line for question in finding.questions]


@pytest.mark.parametrize(("pace", "is_own"), [(1.0, True), (3.0, False)])
def test_samples_that_are_hours_old_at_the_pace_of_life_get_a_clock_of_their_own(
    pace: float, is_own: bool, tmp_path: Path
) -> None:
    """Two hours behind: the line that makes falls raise alarms, and what else it may be; a backlog comes faster."""
    payloads = in_batches(turning(), load_codec("json").encode)
    heard = heard_of(("a/w1", payloads), start_ns=T0_NS + 7200 * 10**9, rate_hz=5.0 * pace)
    finding, entry = only(diagnosis := diagnose(heard))
    assert entry["profile"].get("clock") == ("own" if is_own else None)
    assert ("clock: own" in [question.line for question in finding.questions]) == is_own
    assert any(text in finding.questions[0].text for text in ("A backlog looks alike", "set the clock"))
    assert (
        "clock: own  # ? "
        in configuration(diagnosis, adjusted_config(None, inputs=[{"pattern": "{device}"}]), has_file=True)
    ) == is_own
    check(tmp_path, diagnosis)


def test_clock_that_is_off_is_asked_about_and_coarse_stamps_are_not_used() -> None:
    """A minute slow; and whole seconds at 50 Hz."""
    block = turning()
    late = in_batches(block, load_codec("json").encode)
    finding, _ = only(diagnose(heard_of(("a/w1", late), start_ns=T0_NS + 60 * 10**9)))
    assert "are 60 s off" in finding.questions[0].text
    coarse = SampleBlock("w1", block.t_ns // 10**9 * 10**9, block.acc_ms2, block.gyr_rads)
    finding, entry = only(diagnose(heard_of(("a/w1", in_batches(coarse, load_codec("json").encode)))))
    assert entry["profile"]["stamps"] == "arrival"
    assert "too coarse" in finding.stamps


@pytest.mark.parametrize("encode", [in_units(1.0, 1.0), load_codec("json").encode], ids=["no unit", "its unit"])
def test_sender_without_gravity_is_said_to_be_unreadable(encode: Callable[[SampleBlock], bytes]) -> None:
    """Nothing is left at rest: no setting is offered as a remedy, and the printed input says it above itself."""
    block = turning()
    linear = SampleBlock("w1", block.t_ns, block.acc_ms2 * 0.001, block.gyr_rads)
    finding, _ = only(diagnosis := diagnose(heard_of(("a/w1", in_batches(linear, encode)))))
    assert finding.gravity.startswith("excluded")
    (question,) = [question for question in finding.questions if "no gravity in it" in question.text]
    assert "send total acceleration" in question.text
    assert question.line == ""
    printed = configuration(diagnosis, adjusted_config(None, inputs=[{"pattern": "{device}"}]), has_file=True)
    assert printed.startswith("inputs:\n  # ? no gravity in it, so this cannot be read")
    assert "Set: gravity" not in report(diagnosis)


def test_a_device_that_never_rests_or_never_turns_is_asked_about() -> None:
    """Shaken all the time: the unit is a guess from the average; never turned: nothing tells the gyroscope's."""
    block = turning()
    shaken = block.acc_ms2 + 3 * np.sin(np.arange(len(block)))[:, None]
    finding, entry = only(
        diagnose(
            heard_of(("a/w1", in_batches(SampleBlock("w1", block.t_ns, shaken, block.gyr_rads * 0), in_units(1, 1))))
        )
    )
    assert {question.line for question in finding.questions} >= {"acc_unit: m/s2", "gyr_unit: "}
    assert entry["profile"]["acc_unit"] == "m/s2"
    assert "gyr_unit" not in entry["profile"]


def test_what_no_codec_reads_says_why_and_makes_no_input() -> None:
    """A battery level beside a damaged message of ours; a topic of our own is passed over."""
    heard = heard_of(
        ("home/battery", [b"3.7"] * 5),
        ("a/w1", [b'{"t_ns": 1, "acc": [0, 0, 9.8]}'] * 5),
        ("stream_occ/w1/state", [b"{}"]),
    )
    diagnosis = diagnose(heard)
    assert diagnosis.inputs == []
    assert diagnosis.n_own == 1
    by_topic = {finding.topic: finding for finding in diagnosis.findings}
    assert "gyr" in by_topic["a/w1"].refusals["json"]
    text = report(diagnosis)
    assert "json refuses: message of device: must have gyr beside acc" in text


def test_topics_that_cannot_be_patterns_and_hostile_names_do_no_harm(tmp_path: Path) -> None:
    """Braces, control characters, no valid id, more levels than one: an input where one can be, a question else."""
    payloads = in_batches(turning(200), load_codec("json").encode)
    names = ["a{b}/w1", "x/\x1b[2J/y z", "spaces only/in here", "p/w1/acc/1", "p/w2/gyr/1", "w1"]
    diagnosis = diagnose(heard_of(*[(name, payloads) for name in names]))
    text = report(diagnosis)
    assert "\x1b" not in text
    patterns = [entry["pattern"] for entry in diagnosis.inputs]
    assert "{device}" in patterns
    assert "p/{device}/acc/1" in patterns
    assert all("{b}" not in pattern for pattern in patterns)
    check(tmp_path, diagnosis)


def test_device_that_messages_name_is_the_level_of_the_topic() -> None:
    """`device` in a JSON message says which level it is: no question."""
    payloads = in_batches(turning(), in_units(1.0, 1.0, device="anna", units={"acc": "m/s2", "gyr": "rad/s"}))
    finding, entry = only(diagnose(heard_of(("ward/3/anna/imu7", payloads))))
    assert (entry["pattern"], finding.device, finding.questions) == ("ward/3/{device}/imu7", "anna", [])


def test_turn_factor_is_the_unit_of_the_gyroscope() -> None:
    """1 for rad/s and pi/180 for deg/s, negative for a left-handed device, none for one at rest."""
    block = turning()
    for scale in (1.0, DEG, -1.0):
        factor, correlation = turn_factor(block.t_ns, block.acc_ms2, block.gyr_rads / scale, 9.80665)
        assert factor == pytest.approx(scale, rel=0.02)
        assert abs(correlation) > 0.95
    assert turn_factor(block.t_ns[:400], block.acc_ms2[:400], block.gyr_rads[:400], 9.80665)[0] is None


def test_configuration_of_a_secured_broker_holds_no_password() -> None:
    """User, files and TLS are there, the password itself never."""
    mqtt = MqttConfig.model_validate({"host": "b", "username": "w", "password": "secret", "tls": {"enabled": True}})
    settings = adjusted_config(None, inputs=[{"pattern": "{device}"}]).model_copy(update={"mqtt": mqtt})
    text = configuration(diagnose(Heard("stream_occ")), settings, has_file=False)
    assert "secret" not in text
    assert 'username: "w"' in text
    assert "enabled: true" in text


@pytest.mark.parametrize(
    "arguments", [["--topic", "a/#/b"], ["--topic", "a+"], ["--topic", ""], ["--ca-file", "x.pem"], ["--seconds", "0"]]
)
def test_bad_usage_is_exit_code_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """One line, before anything is connected."""
    assert run(["doctor", *arguments]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_rate_that_a_codec_needs_is_counted() -> None:
    """Movesense batches of ten samples with one stamp, five a second, the rate nowhere: 50 Hz, and a question."""
    rows = turning(400)
    payloads = []
    for i in range(0, 400, 10):
        body = {"Timestamp": 20 * i}
        for key, values in (("ArrayAcc", rows.acc_ms2), ("ArrayGyro", rows.gyr_rads / DEG)):
            body[key] = [dict(zip("xyz", row, strict=True)) for row in values[i : i + 10].tolist()]  # type: ignore[assignment]
        payloads.append(json.dumps({"Body": body, "Uri": "174630000192/Meas/IMU6", "Method": "POST"}).encode())
    finding, entry = only(diagnose(heard_of(("a/w1", payloads), rate_hz=5.0)))
    assert entry["codec"] == "movesense"
    assert entry["profile"]["nominal_rate_hz"] == 50.0
    assert "nominal_rate_hz: 50" in [question.line for question in finding.questions]


@pytest.mark.parametrize(("acc_unit", "gyr_unit"), [(1.0, 1.0), (1 / 9.80665, 180 / np.pi), (16384 / 9.80665, 1.0)])
@pytest.mark.parametrize(("is_cut", "sensor"), [(True, "acc"), (True, "gyr"), (False, "acc")])
def test_sensor_that_stays_at_the_end_of_its_range_is_warned_of(
    tmp_path: Path, acc_unit: float, gyr_unit: float, is_cut: bool, sensor: str
) -> None:
    """Jumps of 30 m/s2, turns of 9 rad/s: a sensor of 2 g ends at 19.61 m/s2, one of 250 degrees/s at 4.363 rad/s;
    whole they are no reason to warn. In g, degrees and raw counts alike."""
    block, k = turning(3000), np.arange(3000)
    acc, gyr = block.acc_ms2.copy(), block.gyr_rads.copy()
    is_jump = (k > 2000) & (k % 100 < 25)
    acc[is_jump, 2] += 30.0 * np.sin(np.pi * (k[is_jump] % 100) / 25)
    gyr[is_jump, 1] += 9.0 * np.sin(np.pi * (k[is_jump] % 100) / 25)
    if is_cut and sensor == "acc":
        acc = np.clip(acc, -2 * 9.80665, 2 * 9.80665)
    if is_cut and sensor == "gyr":
        gyr = np.clip(gyr, -250 * DEG, 250 * DEG)
    sent = SampleBlock("w1", block.t_ns, acc, gyr)
    payloads = in_batches(sent, in_units(acc_unit, gyr_unit))
    finding, entry = only(diagnosis := diagnose(heard_of(("wearables/w1/imu", payloads))))
    told = [question.text for question in finding.questions if "stays at" in question.text]
    key, words = {
        "acc": ("acc_range_ms2: 19.61", "acc stays at 19.6 m/s2"),
        "gyr": ("gyr_range_rads: 4.363", "gyr stays at 4.36 rad/s"),
    }[sensor]
    assert len(told) == is_cut
    assert all(text.startswith(words) and key in text for text in told)
    assert not {"acc_range_ms2", "gyr_range_rads"} & set(entry["profile"])  # said, and for people to set
    check(tmp_path, diagnosis)
    assert (words in report(diagnosis)) == is_cut


def test_topic_with_nothing_but_a_retained_message_is_told_what_to_do() -> None:
    """`detect` takes none for data, so there is nothing to read."""
    heard = heard_of()
    message = Received.of("a/w1", b"{}", is_retained=True, arrived_s=0.0, max_bytes=100)
    heard.take(message, now_ns=T0_NS, now_s=100.0)
    assert "publish without retain" in report(diagnose(heard))
