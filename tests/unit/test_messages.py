"""Topics, device ids, instants and the published messages' schemas."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import ValidationError

from stream_occ.codecs import REASONS
from stream_occ.commands import CommandDesk
from stream_occ.config import load_config
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.messages import (
    COMMAND_REASONS,
    COMMANDS,
    MESSAGES,
    SERVICE_REASONS,
    alert_message,
    event_message,
    instant,
    score_message,
)
from stream_occ.samples import Alert, Decision
from stream_occ.topics import Topics, is_device_id

REPO = Path(__file__).resolve().parents[2]


def test_schemas_in_docs_are_those_of_the_models() -> None:
    """scripts/make_schemas.py --check has nothing to say."""
    done = subprocess.run(
        [sys.executable, str(REPO / "scripts" / "make_schemas.py"), "--check"],
        cwd=REPO,
        env={"PYTHONPATH": str(REPO)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, ""), done.stdout + done.stderr
    assert {path.stem for path in (REPO / "docs" / "schemas").glob("*.json")} == {
        *MESSAGES,
        "command",
        "received",
        "signed",
    }


@pytest.mark.parametrize("good", ["w", "W1", "ward-3.watch_7", "0", "x" * 64, "-", "_"])
def test_device_ids_that_are_taken(good: str) -> None:
    """1 to 64 letters, digits, dots, underscores and dashes."""
    assert is_device_id(good)


@pytest.mark.parametrize(
    "bad", ["", "x" * 65, "a/b", "a b", "ü", "a\n", "a+", "#", "bridge", "status", "..", ".", "a\x00", "٣"]
)
def test_device_ids_that_are_refused(bad: str) -> None:
    """Wildcards, separators, control and foreign characters, and levels of our own topics."""
    assert not is_device_id(bad)


def test_topics_are_those_of_the_contract() -> None:
    """The topics of the documentation, by prefix and instance."""
    topics = Topics("occ", "ward3")
    assert topics.bridge_status == "occ/bridge/ward3/status"
    assert topics.status == "occ/status"
    assert [topics.availability("w"), topics.state("w"), topics.event("w"), topics.alert("w"), topics.score("w")] == [
        "occ/w/availability",
        "occ/w/state",
        "occ/w/event",
        "occ/w/alert",
        "occ/w/score",
    ]
    assert topics.waveform("w") == "occ/w/waveform"
    assert topics.commands_filter == "occ/+/set/#"
    assert topics.is_own("occ/w/state")
    assert topics.is_own("occ")
    assert not topics.is_own("occupancy/w/imu")


def test_instants_are_iso_8601_utc_and_rounded_down() -> None:
    """1.999999999 s after the epoch is 1.999 s, never 2."""
    assert instant(1_999_999_999) == "1970-01-01T00:00:01.999Z"
    assert instant(4_102_444_800 * 10**9) == "2100-01-01T00:00:00.000Z"


ALERT = Alert(
    *("id-1", "w1", 2, 1_700_000_000_000_000_000, "alarm", "critical", ("k_of_n",), 4.5, "m1"),
    {"n": 2, "peak": 4.5},
    "anna",
)


def test_alert_and_event_say_the_same_change() -> None:
    """Both carry id, number, instant, reasons and evidence; the event says what happened, the alert how it stands."""
    event, alert = event_message(ALERT), alert_message(ALERT)
    assert json.loads(event.to_payload()) == {
        "event_type": "alarm",
        "alert_id": "id-1",
        "seq": 2,
        "t": "2023-11-14T22:13:20.000Z",
        "t_ns": 1_700_000_000_000_000_000,
        "severity": "critical",
        "reasons": ["k_of_n"],
        "by": "anna",
        "score": 4.5,
        "model": "m1",
        "evidence": {"n": 2, "peak": 4.5},
        "contributions": [],
    }
    assert (alert.state, alert.device, alert.alert_id, alert.seq, alert.by) == ("alarm", "w1", "id-1", 2, "anna")
    assert event_message(replace(ALERT, by="")).by is None
    assert event_message(replace(ALERT, contributions=(("fall", 0.7),))).contributions == (("fall", 0.7),)


def test_margin_is_score_minus_threshold() -> None:
    """Above 0 is an outlier."""
    message = score_message(Decision("w1", 10**18, 4.0, 3.0, "outlier", "m1", (("fall", 0.7),)))
    assert (message.margin, message.label, message.contributions) == (1.0, "outlier", (("fall", 0.7),))


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_nothing_that_is_not_finite_can_be_published(value: float) -> None:
    """NaN and infinity are no JSON, and a reader must never see them."""
    decision = Decision("w1", 0, 0.5, 1.0, "normal", "m")
    assert score_message(decision).score == 0.5
    with pytest.raises(ValidationError):
        score_message(replace(decision, score=value))


def test_every_reason_of_refusal_is_documented() -> None:
    """docs/topics.md lists each code of codecs and service, and no reason has two meanings."""
    text = (REPO / "docs" / "topics.md").read_text()
    assert not set(REASONS) & set(SERVICE_REASONS) | set(COMMAND_REASONS) & {*REASONS, *SERVICE_REASONS}
    missing = [reason for reason in (*REASONS, *SERVICE_REASONS, *COMMAND_REASONS) if f"`{reason}`" not in text]
    assert missing == []


KEY = b"a key for the examples"
STUB = """mosquitto_pub() { if [ "$3" = -s ]; then cat; else printf %s "$4"; fi > "$OUT/${2//\\//@}"; }"""


def copied(folder: Path) -> dict[str, bytes]:
    """Topic -> payload of every mosquitto_pub in docs/topics.md, run by a shell."""
    text = (REPO / "docs" / "topics.md").read_text()
    commands = [block for block in re.findall(r"```sh\n(.*?)```", text, re.DOTALL) if "mosquitto_pub" in block]
    (folder / "command.key").write_bytes(KEY)
    out = folder / "out"
    out.mkdir()
    script = "\n".join([STUB, *commands])
    subprocess.run(["bash", "-c", script], cwd=folder, env={**os.environ, "OUT": str(out)}, check=True)
    return {file.name.replace("@", "/"): file.read_bytes() for file in sorted(out.iterdir())}


def test_messages_of_the_documentation_can_be_copied(tmp_path: Path) -> None:
    """What docs/topics.md publishes is taken by configs/edge.yaml, the CSV by the same with codec csv."""
    taken = {}
    for topic, payload in copied(tmp_path).items():
        if "/set/" in topic:
            continue
        config = load_config(REPO / "configs" / "edge.yaml", {})
        if topic == "wearables/w4/imu":
            entry = config.inputs[0].model_copy(update={"codec": "csv"})
            config = config.model_copy(update={"inputs": (entry,)})
        intake = Intake(config, Topics("stream_occ", "edge"))
        message = Received.of(topic, payload, is_retained=False, arrived_s=0.0, max_bytes=10_000)
        blocks = intake.accept(message, now_ns=time.time_ns(), now_s=0.0)
        assert intake.refused == {}
        taken[topic] = sum(len(block) for block in blocks)
    assert taken == {"wearables/w1/imu": 1, "wearables/w2/imu": 2, "wearables/w3/imu": 2, "wearables/w4/imu": 1}


def test_commands_of_the_documentation_can_be_copied(tmp_path: Path) -> None:
    """Each is taken for a device that is known."""
    topics = Topics("stream_occ", "edge")
    intake = Intake(load_config(REPO / "configs" / "edge.yaml", {}), topics)
    intake.restore("w1", None, 0.0)
    desk = CommandDesk(topics, intake, max_age_s=300.0)
    taken = {}
    for topic, payload in copied(tmp_path).items():
        if topic.startswith("stream_occ/w1/set/"):
            message = Received.of(topic, payload, is_retained=False, arrived_s=0.0, max_bytes=10_000)
            if topics.is_receipt(topic):
                assert desk.take_receipt(message) is not None, intake.refused
                continue
            work = desk.take(message, time.time_ns())
            assert work is not None, intake.refused
            taken[topic.rpartition("/")[2]] = work[1]
    assert set(taken) == set(COMMANDS)
    assert (taken["ack"].by, taken["ack"].alert_id) == ("", None)
    assert (taken["cancel"].by, taken["cancel"].alert_id) == ("anna", "0d6c6e0e-8d6c-5d0e-9b50-0a5b0a5a7c11")
    assert taken["mute"].minutes == 30
    assert taken["feedback"].verdict == "false_alarm"


def test_signed_command_of_the_documentation_can_be_copied(tmp_path: Path) -> None:
    """A shell and openssl make what a desk with the key takes."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl not found on PATH")
    topics = Topics("stream_occ", "edge")
    intake = Intake(load_config(REPO / "configs" / "edge.yaml", {}), topics)
    intake.restore("w2", None, 0.0)
    topic = "stream_occ/w2/set/ack"
    message = Received.of(topic, copied(tmp_path)[topic], is_retained=False, arrived_s=0.0, max_bytes=10_000)
    work = CommandDesk(topics, intake, max_age_s=300.0, key=KEY).take(message, time.time_ns())
    assert work is not None, intake.refused
    assert (work[0], work[1].kind, work[1].by) == ("w2", "ack", "anna")
