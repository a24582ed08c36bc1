"""What the doctor says of sensors that come apart, of devices that never rest or turn, of samples that overlap."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.codecs import load_codec
from stream_occ.config import adjusted_config, load_config
from stream_occ.doctor import configuration, diagnose, report
from stream_occ.doctor.signals import acc_finding, gyr_finding, still_turning
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.topics import Topics
from tests.unit.test_doctor import DEG, T0_NS, check, heard_of, in_batches, in_units, only, turning

G = 9.80665


def phyphox_parts(block: SampleBlock, size: int = 50) -> tuple[list[bytes], list[bytes]]:
    """The block as messages of one sensor each."""
    whole = [json.loads(payload) for payload in in_batches(block, load_codec("phyphox").encode, size)]
    acc, gyr = (
        [json.dumps({key: value for key, value in one.items() if not key.startswith(left_out)}) for one in whole]
        for left_out in ("gyr", "acc")
    )
    return [one.encode() for one in acc], [one.encode() for one in gyr]


@pytest.mark.parametrize(
    ("topics", "patterns"),
    [
        (["lab/n1/acc", "lab/n1/gyr"], ["lab/{device}/acc", "lab/{device}/gyr"]),
        (["lab/n1/acc", "lab/n1/gyr", "lab/n2/acc", "lab/n2/gyr"], ["lab/{device}/acc", "lab/{device}/gyr"]),
        (["acc/n1", "gyr/n1"], ["acc/{device}", "gyr/{device}"]),
    ],
)
def test_a_topic_for_each_sensor_is_joined(topics: list[str], patterns: list[str], tmp_path: Path) -> None:
    """One input a sensor, the device in the other level, and the service reads with it what came."""
    parts = phyphox_parts(turning())
    messages = [(topic, parts["gyr" in topic]) for topic in topics]
    diagnosis = diagnose(heard_of(*messages, rate_hz=1.0, start_ns=T0_NS + NS_PER_S))
    assert [(entry["pattern"], entry["codec"]) for entry in diagnosis.inputs] == [(p, "phyphox") for p in patterns]
    assert all(finding.device in ("n1", "n2") for finding in diagnosis.findings)
    assert f"joined with {topics[1]}: a sensor each" in report(diagnosis)
    check(tmp_path, diagnosis)
    intake = Intake(load_config(tmp_path / "found.yaml", {}), Topics("stream_occ", "edge"))
    n = 0
    for payloads in zip(*(payloads for _, payloads in messages), strict=True):
        for topic, payload in zip(topics, payloads, strict=True):
            message = Received.of(topic, payload, is_retained=False, arrived_s=0.0, max_bytes=10**6)
            n += sum(map(len, intake.accept(message, now_ns=T0_NS + 20 * NS_PER_S, now_s=0.0)))
    assert not intake.refused
    assert n == 500 * len(topics)


def test_sensors_that_take_turns_on_one_topic_are_joined() -> None:
    """A message of one sensor, then one of the other: one input, no question but which level is the device."""
    acc, gyr = phyphox_parts(turning())
    turns = [payload for pair in zip(acc, gyr, strict=True) for payload in pair]
    finding, entry = only(diagnose(heard_of(("lab/n1", turns), rate_hz=2.0, start_ns=T0_NS + NS_PER_S)))
    assert (entry["codec"], finding.timing.n_samples) == ("phyphox", 1000)
    assert [question.line for question in finding.questions if "pattern" not in question.line] == []


@pytest.mark.parametrize(("scale", "gravity"), [(1.0, "included"), (0.05, "excluded")])
def test_gravity_that_an_app_leaves_open_is_told_by_its_size_and_asked_about(
    scale: float, gravity: str, tmp_path: Path
) -> None:
    """phyphox says accX with and without g: 9.8 at rest is with, and to be checked; 0.5 is no input to read."""
    block = turning()
    whole = SampleBlock("w1", block.t_ns, block.acc_ms2 * scale, block.gyr_rads)
    acc, gyr = phyphox_parts(whole)
    acc = [payload.replace(b"accelerometer", b"acc") for payload in acc]
    diagnosis = diagnose(heard_of(("lab/n1/acc", acc), ("lab/n1/gyr", gyr), rate_hz=1.0, start_ns=T0_NS + NS_PER_S))
    assert [entry["profile"].get("gravity") for entry in diagnosis.inputs] == [gravity, None]
    settings = adjusted_config(None, inputs=[{"pattern": "{device}"}])
    text = configuration(diagnosis, settings, has_file=True)
    assert ("      gravity: included  # ? " in text) == (gravity == "included")
    assert ("  # ? no gravity in it, so this cannot be read" in text) == (gravity == "excluded")
    assert diagnosis.findings[0].gravity.startswith(gravity)
    check(tmp_path, diagnosis)


def test_real_files_that_cannot_be_used_say_why(shared_data: Path) -> None:
    """Linear acceleration alone, decimal commas, a log without a gyroscope: no input, and the reason."""
    files = {
        "a/w1": ("phyphox/accidentPro_walk.csv", "linear acceleration alone"),
        "b/w1": ("phyphox/constantin1_Accelerometer.csv.gz", "decimal commas"),
        "c/w1": ("movesense/datalogger_session_0.json", "acc alone came here"),
    }
    messages = []
    for topic, (name, _) in files.items():
        content = (shared_data / "payloads" / name).read_bytes()
        lines = (gzip.decompress(content) if name.endswith("gz") else content).splitlines(keepends=True)[:400]
        messages.append((topic, [b"".join(lines)]))
    diagnosis = diagnose(heard_of(*messages))
    assert diagnosis.inputs == []
    for finding in diagnosis.findings:
        told = " ".join([*finding.refusals.values(), *(question.text for question in finding.questions)])
        assert files[finding.topic][1] in told


def test_devices_of_one_pattern_at_two_rates_keep_a_rate_where_stamps_hang_on_it() -> None:
    """Movesense batches without a rate, 50 and 100 a second: the codec cannot be without."""
    rows = turning(400)
    slow = [payload.replace(b"IMU6/50", b"IMU6") for payload in movesense(rows.acc_ms2, rows.gyr_rads / DEG)]
    heard = heard_of(("a/w1", slow), rate_hz=5.0)
    fast = heard_of(("a/w2", slow), rate_hz=10.0)
    heard.topics |= fast.topics
    [entry] = diagnose(heard).inputs
    assert entry["profile"]["nominal_rate_hz"] in (50.0, 100.0)


def test_one_sensor_alone_and_parts_of_two_wearers_are_not_joined() -> None:
    """Topics that differ in two levels, or have the same sensor twice: the other half is asked for."""
    acc, gyr = phyphox_parts(turning(200))
    for names in (("lab/n1/acc", "lab/n2/gyr"), ("lab/n1/acc", "lab/n2/acc")):
        messages = [(name, gyr if name.endswith("gyr") else acc) for name in names]
        diagnosis = diagnose(heard_of(*messages, rate_hz=1.0, start_ns=T0_NS + NS_PER_S))
        assert diagnosis.inputs == []
        assert all("are both needed" in finding.questions[-1].text for finding in diagnosis.findings)


def test_a_sensor_that_comes_late_sets_the_skew() -> None:
    """The gyroscope 3 s after the accelerometer: 5 s of the ladder, where 1 and 2 would lose all."""
    acc, gyr = phyphox_parts(turning())
    heard = heard_of(("lab/n1/acc", acc), ("lab/n1/gyr", gyr), rate_hz=1.0, start_ns=T0_NS + NS_PER_S)
    heard.topics["lab/n1/gyr"].kept = [(one, at + 3 * NS_PER_S) for one, at in heard.topics["lab/n1/gyr"].kept]
    diagnosis = diagnose(heard)
    assert diagnosis.stream["max_skew_s"].value == 5.0
    settings = adjusted_config(None, inputs=[{"pattern": "{device}"}])
    assert "stream:\n  max_skew_s: 5  # " in configuration(diagnosis, settings, has_file=True)


@pytest.mark.parametrize(("later_s", "is_told"), [(0.3, True), (0.01, False)])
def test_sensors_without_a_clock_that_arrive_apart_are_told(later_s: float, is_told: bool) -> None:
    """Both on an uptime, the gyroscope's messages 0.3 s later: at arrival it would turn 0.3 s after the fall."""
    block = turning()
    acc, gyr = phyphox_parts(SampleBlock("w1", block.t_ns - T0_NS, block.acc_ms2, block.gyr_rads))
    heard = heard_of(("lab/n1/acc", acc), ("lab/n1/gyr", gyr), rate_hz=1.0)
    own = heard.topics["lab/n1/gyr"]
    own.kept = [(one, at + round(later_s * NS_PER_S)) for one, at in own.kept]
    diagnosis = diagnose(heard)
    assert [entry["profile"]["stamps"] for entry in diagnosis.inputs] == ["arrival", "arrival"]
    told = "stamped at arrival the sensors lie 0.3 s apart"
    assert any(told in question.text for question in diagnosis.questions) is is_told


@pytest.mark.parametrize(
    ("magnitude", "unit", "counts"),
    [(1.503, "g", None), (12.5, "m/s2", None), (1300.0, "mg", None), (19000.0, "g", 16384.0), (0.7, "g", None)],
)
def test_without_rest_the_nearest_unit_is_a_guess(magnitude: float, unit: str, counts: float | None) -> None:
    """By the ratio of |a| to what each unit has at rest; never a scale of its own."""
    acc = np.zeros((500, 3))
    acc[:, 2] = magnitude * (1 + 0.3 * np.where(np.arange(500) % 3 == 0, 0, np.where(np.arange(500) % 3 == 1, 1, -1)))
    found = acc_finding(acc, 50.0)
    assert (found.unit, found.counts_per_unit, found.rest, found.is_near) == (unit, counts, None, False)


def test_at_rest_a_scale_of_its_own_begins_at_100_counts(tmp_path: Path) -> None:
    """256 counts of g, as an ADXL345 has them, are asked about; 1.5 is no count of anything, but nearest to g."""
    for magnitude, profile in ((256.0, {"acc_unit": "g", "acc_counts_per_unit": 256.0}), (1.5, {"acc_unit": "g"})):
        rows = turning(500)
        still = np.tile([0.0, 0.0, magnitude], (500, 1))
        block = SampleBlock("w1", rows.t_ns, still, turning(1000).gyr_rads[500:])
        finding, entry = only(diagnosis := diagnose(heard_of(("a/w1", in_batches(block, in_units(1, 1))))))
        assert {key: value for key, value in entry["profile"].items() if key.startswith("acc")} == profile
        assert finding.gravity == "in doubt"
        assert any(question.line.startswith("acc_") for question in finding.questions)
        check(tmp_path, diagnosis)


def movesense(acc: Any, gyr: Any) -> list[bytes]:
    """Batches of ten at 50 Hz, units nowhere."""
    found = []
    for i in range(0, len(acc), 10):
        body: dict[str, Any] = {"Timestamp": 20 * i}
        for key, values in (("ArrayAcc", acc), ("ArrayGyro", gyr)):
            body[key] = [dict(zip("xyz", row, strict=True)) for row in values[i : i + 10].tolist()]
        found.append(json.dumps({"Body": body, "Uri": "174630000192/Meas/IMU6/50"}).encode())
    return found


def test_what_lies_still_tells_degrees_by_its_offset() -> None:
    """-1.47 on one axis at rest would be 84 degrees a second in rad/s."""
    rows = turning(400)
    noise = rows.gyr_rads[:200]
    offset = np.concatenate([noise, noise]) + np.array([-1.47, 0, 0])
    still = np.concatenate([rows.acc_ms2[:200]] * 2)
    finding, entry = only(diagnose(heard_of(("a/w1", movesense(still, offset)))))
    assert entry["profile"]["gyr_unit"] == "deg/s"
    assert "gyr: not declared; deg/s: no rad/s is so large at rest" in finding.units
    assert gyr_finding(rows.t_ns, still, offset, G).why == "rest"
    assert still_turning(rows.t_ns, still, offset, G) == pytest.approx(1.47, abs=0.01)
    moved = still + 2 * np.sin(np.arange(400))[:, None]
    assert still_turning(rows.t_ns, moved, offset, G) is None


@pytest.mark.parametrize("gyr", [0.02, 0.0])
def test_a_unit_that_nothing_tells_is_asked_for_and_not_printed(gyr: float, tmp_path: Path) -> None:
    """So small an offset may be either unit; zeros are any."""
    rows = turning(400)
    still = np.concatenate([rows.acc_ms2[:200]] * 2)
    block = SampleBlock("w1", rows.t_ns, still, np.full((400, 3), gyr))
    finding, entry = only(diagnosis := diagnose(heard_of(("a/w1", in_batches(block, in_units(1, 1))))))
    assert "gyr_unit" not in entry["profile"]
    assert "gyr_unit: " in [question.line for question in finding.questions]
    settings = adjusted_config(None, inputs=[{"pattern": "{device}"}])
    assert "      # gyr_unit: # ? declare it" in configuration(diagnosis, settings, has_file=True)
    check(tmp_path, diagnosis)


def test_samples_that_overlap_at_arrival_get_a_buffer_for_order(tmp_path: Path) -> None:
    """Batches of ten at 50 Hz, every fifth 90 ms early: its first four lie before the last of the batch before it.

    Stamps end at arrival and are 20 ms apart: of a batch that ends 110 ms after the one before, those at 110 - 180,
    - 160, - 140 and - 120 ms come before it, by 70, 50, 30 and 10 ms. 70 times 1.5 is within 200 ms.
    """
    block = turning()
    uptime = SampleBlock("w1", block.t_ns - T0_NS, block.acc_ms2, block.gyr_rads)
    heard = heard_of(("a/w1", in_batches(uptime, load_codec("json").encode)), start_ns=T0_NS)
    topic = heard.topics["a/w1"]
    topic.kept = [(one, at - 90_000_000 * (i % 5 == 4)) for i, (one, at) in enumerate(topic.kept)]
    diagnosis = diagnose(heard)
    assert diagnosis.findings[0].order == "80 of 1000 came after newer ones, by up to 0.07 s"
    assert diagnosis.stream["reorder_s"].value == 0.2
    assert "order: 80 of 1000" in report(diagnosis)
    check(tmp_path, diagnosis)
    config = load_config(tmp_path / "found.yaml", {})
    for wait_s, n_late in ((config.stream.reorder_s, 0), (0.0, 80)):
        intake, state, settings = (
            Intake(config, Topics("stream_occ", "edge")),
            ResamplerState(),
            StreamSettings(0.5, wait_s),
        )
        for payload, at_ns in topic.kept:
            message = Received.of("a/w1", payload, is_retained=False, arrived_s=0.0, max_bytes=10**6)
            for one in intake.accept(message, now_ns=at_ns, now_s=0.0):
                state, _ = resample(state, one, rate_hz=50.0, settings=settings)
        assert state.counters.late == n_late
