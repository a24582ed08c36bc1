"""Names and texts of others, wherever they are put: no topic, path, log line, terminal or page becomes theirs."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ import recording
from stream_occ.artifacts import pack_model
from stream_occ.cli import _service, run
from stream_occ.config import Config
from stream_occ.errors import DataError, visible
from stream_occ.inbox import Received
from stream_occ.topics import Topics, is_device_id
from stream_occ.wiring import warn_of_placements
from tests.fake_model import SELF_TEST_X, make_model
from tests.service_model import walking
from tests.unit.service_bench import JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model

HOSTILE = (
    "a\nWARNING forged: all is well",
    "a\r\nb",
    "\x1b[2J\x1b]0;owned\x07",
    "\x9b31m",
    "a\x00b",
    "a\u2028b",
    "\u202etxt.exe",
    "\u2066\u200f",
    "../../etc/passwd",
    "..",
    ".",
    "~",
    "$(id)",
    "`id`",
    "%s%n{0}",
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; DROP TABLE devices; --",
    "+",
    "#",
    "a/set/ack",
    "$SYS",
    "bridge",
    "status",
    "ａｂｃ",
    "é",
    "w1 ",
    "w" * 65,
    "",
)
NOW = {"now_ns": T0_NS, "now_s": 0.0}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_device_id_is_counted_and_gets_no_topic_and_no_line(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Data and commands alike; what is logged of it is one printable line."""
    bench = Bench(inputs=[{"pattern": "wearables/{device}/imu"}, {"pattern": "deep/{device}/#"}])
    good = JSON.encode(walking("x", 5, t0_ns=T0_NS))
    with caplog.at_level(logging.DEBUG):
        topics = [f"wearables/{name}/imu", f"deep/{name}", f"stream_occ/{name}/set/ack", f"stream_occ/{name}/state"]
        for topic in topics:
            bench.deliver(topic, good)
        bench.deliver(f"stream_occ/w1/set/{name}", b"")
        bench.run(1.0)
    assert bench.service.intake.devices == {} or "/" in name
    assert sum(bench.service.counters().refused.values()) >= len(topics) - ("/" in name)
    told = {topic for topic, *_ in bench.link.sent}
    assert all(re.fullmatch(r"stream_occ/[A-Za-z0-9._-]+(/[a-z]+){1,2}", topic) for topic in told), told
    assert all(message.isprintable() for message in caplog.messages)


@given(st.text(max_size=70) | st.sampled_from(HOSTILE))
def test_what_is_taken_for_a_device_id_is_one_level_of_a_topic_and_one_part_of_a_path(text: str) -> None:
    """For any text; nothing of it means anything to a shell, a page or a query."""
    if is_device_id(text):
        topics = Topics()
        assert topics.state(text).split("/") == ["stream_occ", text, "state"]
        assert topics.command_of(topics.command(text, "ack")) == (text, "ack")
        assert (Path("/recordings") / text).resolve() == Path("/recordings") / text
        assert text.isascii()
        assert text.isprintable()
        assert not set(text) & set("+#/\\$`'\"<>&;|*?~%{}() ")


@pytest.mark.parametrize("name", HOSTILE)
def test_recordings_stay_in_their_folder(name: str, tmp_path: Path) -> None:
    """A topic cannot name a file elsewhere."""
    folder = tmp_path / "recordings"
    config = Config.model_validate({"inputs": ({"pattern": "wearables/{device}/imu"},)})
    recorder = recording.Recorder(config, folder, recording.Labels())
    good = JSON.encode(walking("x", 50, t0_ns=T0_NS))
    for topic in (f"wearables/{name}/imu", "wearables/good/imu"):
        message = Received.of(topic, good, is_retained=False, arrived_s=0.0, max_bytes=100_000)
        recorder.take([message], **NOW)
    recorder.close()
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {folder}
    assert all("good" in path.name for path in folder.iterdir())


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize("kind", ["text", "json"])
def test_log_lines_are_one_line_each(text: str, kind: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """Message and exception; a traceback has its own lines, and nothing in them steers."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    try:
        _service.log_to_stderr("info", kind)
        log = logging.getLogger("stream_occ.test")
        log.warning("device %s", text)
        try:
            raise ValueError(text)
        except ValueError:
            log.exception("failed on %s", text)
    finally:
        root.handlers[:], root.level = before
    lines = capsys.readouterr().err.rstrip("\n").split("\n")
    assert all(line.isprintable() for line in lines)
    if kind == "json":
        assert [json.loads(line)["message"] for line in lines] == [f"device {text}", f"failed on {text}"]
    else:
        assert len([line for line in lines if re.match(r"\d{4}-\d\d-\d\dT", line)]) == 2
        assert not any(line.startswith("WARNING forged") for line in lines)


@pytest.mark.parametrize("text", HOSTILE)
def test_model_from_elsewhere_prints_nothing_but_text(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Its notes are shown with what steers told as codes."""
    training = {text: text, "blind": text, "tuning": {text: {text: 1}}}
    calibration = {"rule": text, text: [text]}
    metadata = {"placement": text, "versions": {text: text}, "training": training, "calibration": calibration}
    path = tmp_path / "m.occ"
    path.write_bytes(pack_model(make_model(metadata={**metadata, "adaptation": {text: text}}), self_test_X=SELF_TEST_X))
    assert run(["inspect", str(path), "--verify"]) == 0
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in (printed.out + printed.err).split("\n"))
    config = Config.model_validate({"inputs": ({"pattern": "a/{device}", "profile": {"placement": "wrist"}},)})
    with caplog.at_level(logging.WARNING):
        warn_of_placements(config, replace(toy_model(), metadata={"placement": text}))
    line = logging.Formatter().formatMessage(caplog.records[0]) if caplog.records else ""
    assert visible(line).isprintable()


@pytest.mark.parametrize("text", [text for text in HOSTILE if text])
def test_configuration_from_elsewhere_prints_nothing_but_text(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Keys, values and names of profiles that YAML can spell."""
    spelt = json.dumps(text)
    path = tmp_path / "c.yaml"
    contents = (
        f"inputs: [{{pattern: 'a/{{device}}'}}]\n{spelt}: 1\n",
        f"inputs: [{{pattern: {spelt}}}]\n",
        f"inputs: [{{pattern: 'a/{{device}}', codec: {spelt}}}]\n",
        f"inputs: [{{pattern: 'a/{{device}}', profile: {spelt}}}]\n",
        f"inputs: [{{pattern: 'a/{{device}}'}}]\nmqtt: {{prefix: {spelt}}}\nlimits: {{allowed_devices: [{spelt}]}}\n",
        f"inputs: [{{pattern: 'a/{{device}}'}}]\nmodel_key_file: {spelt}\n",
    )
    for content in contents:
        path.write_text(content)
        for command in ("check", "show"):
            run(["config", command, str(path)])
            printed = capsys.readouterr()
            assert all(line.isprintable() for line in (printed.out + printed.err).split("\n"))


@pytest.mark.parametrize("text", HOSTILE)
def test_errors_are_one_line(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """File names of others stand in them."""
    assert "\n" not in str(DataError(text, text, text, text))
    assert run([text or "?"]) == 2
    assert run(["inspect", f"/nowhere/{text}".replace("\x00", "")]) == 2
    printed = capsys.readouterr()
    assert all(line.isprintable() for line in printed.err.split("\n"))


@pytest.mark.parametrize("text", HOSTILE)
def test_who_acted_is_told_as_data_or_refused(text: str, caplog: pytest.LogCaptureFixture) -> None:
    """Line ends, cursor moves and marks of direction are refused; what else there is comes back as it was sent."""
    bench = Bench()
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.run(3.0)
    with caplog.at_level(logging.INFO):
        bench.command("ack", json.dumps({"by": text}).encode())
        bench.run(1.0)
    by = bench.link.of("stream_occ/w1/alert")[-1]["by"]
    assert by == (text or None) or bench.service.intake.refused["command_invalid"] == 1
    assert all(message.isprintable() for message in caplog.messages)
