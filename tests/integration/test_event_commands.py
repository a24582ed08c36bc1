"""People's acts and restarts over a real mosquitto: acknowledge, cancel, mute, feedback, kill -9 in mid-countdown."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.samples import SampleBlock
from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload, tumbling, walking

pytestmark = pytest.mark.broker

EVENTS = {"k": 2, "n": 3, "countdown_s": 2.0, "silence_s": 2.0, "refractory_s": 5.0, "repeat_s": 5.0}
ALERT, EVENT, STATE = "stream_occ/w1/alert", "stream_occ/w1/event", "stream_occ/w1/state"


def lying(n: int, *, t0_ns: int, first: int) -> SampleBlock:
    """n samples at 50 Hz of somebody on the floor, device on its side, as still as a person is."""
    rng = np.random.default_rng([1, first])
    t_ns = t0_ns + (first + np.arange(n)) * 20_000_000
    acc = np.array([9.81, 0.0, 0.0]) + 0.02 * rng.normal(size=(n, 3))
    return SampleBlock("w1", t_ns, acc, 0.01 * rng.normal(size=(n, 3)))


def send_fall(watcher: Watcher, *, ends_with_lying: bool = True) -> int:
    """4 s of walking, 2 s of tumbling and, unless the device dies, 4 s on the floor, all up to now; first stamp, ns."""
    n = 500 if ends_with_lying else 300
    t0_ns = time.time_ns() - n * 20_000_000
    for first in range(0, 200, 50):
        watcher.send("wearables/w1/imu", payload(walking("w1", 50, t0_ns=t0_ns, first=first)))
    watcher.send("wearables/w1/imu", payload(tumbling("w1", 100, t0_ns=t0_ns, first=200)))
    if ends_with_lying:
        watcher.send("wearables/w1/imu", payload(lying(200, t0_ns=t0_ns, first=300)))
    return t0_ns


def send_to(watcher: Watcher, kind: str, **content: object) -> None:
    watcher.send(f"stream_occ/w1/set/{kind}", json.dumps(content).encode() if content else b"PRESS")


def events(watcher: Watcher) -> list[dict[str, Any]]:
    """Told changes in their order, doubles left out as a receiver would."""
    told = [json.loads(text) for topic, text, _ in watcher.log if topic == EVENT]
    return list({(event["alert_id"], event["seq"]): event for event in told}.values())


def types(watcher: Watcher) -> list[str]:
    return [event["event_type"] for event in events(watcher)]


def wait_for(watcher: Watcher, kind: str, timeout_s: float = 20.0) -> dict[str, Any]:
    """The first told change of this kind."""
    return wait_until(  # type: ignore[no-any-return]
        lambda: next((event for event in events(watcher) if event["event_type"] == kind), None), kind, timeout_s
    )


def refused(watcher: Watcher) -> dict[str, int]:
    content: dict[str, int] = watcher.json("stream_occ/bridge/edge/counters").get("refused", {})
    return content


def test_alarm_is_acknowledged_seen_by_all_and_ended_by_the_all_clear(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """fall -> pending -> alarm -> ack by a named person -> all clear; the retained alert follows and is emptied."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file, events=EVENTS) as detector:
        send_fall(watcher)
        pending = wait_for(watcher, "pending")
        alarm = wait_for(watcher, "alarm")
        assert alarm["t_ns"] == pending["evidence"]["t_deadline_ns"]
        send_to(watcher, "ack", by="anna", alert_id=alarm["alert_id"])
        wait_until(lambda: watcher.json(ALERT).get("state") == "acknowledged", "acknowledged")
        with Watcher(broker.port) as late:
            wait_until(lambda: late.json(ALERT).get("by") == "anna", "who took it, for who comes later")
        send_to(watcher, "cancel", by="bert")
        wait_until(lambda: watcher.last.get(ALERT) == b"", "the alert to be emptied")
        resolved = wait_for(watcher, "resolved")
        assert (resolved["by"], resolved["reasons"]) == ("bert", ["all_clear"])
        assert types(watcher) == ["suspected", "checking", "pending", "alarm", "acknowledged", "resolved"]
        assert [event["seq"] for event in events(watcher)] == [0, 1, 2, 3, 4, 5]
        assert len({event["alert_id"] for event in events(watcher)}) == 1
        assert detector.stop() == 0
        assert "Traceback" not in detector.log.read_text()


def test_pressed_button_cancels_within_the_countdown(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """PRESS means the open alert; no alarm follows; feedback is told of the closed alert."""
    with (
        Watcher(broker.port) as watcher,
        Detector(tmp_path, broker.port, model_file, events={**EVENTS, "countdown_s": 600.0}),
    ):
        send_fall(watcher)
        pending = wait_for(watcher, "pending")
        send_to(watcher, "cancel")
        wait_for(watcher, "cancelled")
        wait_until(lambda: watcher.last.get(ALERT) == b"", "the alert to be emptied")
        send_to(watcher, "feedback", verdict="false_alarm", by="anna", alert_id=pending["alert_id"])
        told = wait_for(watcher, "false_alarm")
        assert (told["alert_id"], told["by"]) == (pending["alert_id"], "anna")
        assert "alarm" not in types(watcher)


@pytest.mark.slow
def test_device_that_dies_in_the_fall_is_an_alarm(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """Nothing comes after the impact: pending for want of data, then alarm, told again until a person acts."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file, events=EVENTS):
        send_fall(watcher, ends_with_lying=False)
        assert wait_for(watcher, "pending")["reasons"] == ["no_data"]
        wait_for(watcher, "alarm")
        wait_until(lambda: types(watcher).count("alarm") == 2, "the alarm again")
        wait_until(lambda: watcher.json(ALERT)["evidence"]["level"] == 2, "the second level in the retained alert")


def test_retained_unknown_and_broken_commands_are_refused(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """What a broker kept from last week does not end tonight's alert; each refusal has its counter."""
    with Watcher(broker.port) as watcher:
        watcher.send("stream_occ/w1/set/cancel", b"PRESS", retain=True)
        long = {**EVENTS, "countdown_s": 600.0}
        inputs = [{"pattern": "wearables/{device}/imu"}, {"pattern": "+/{device}/#"}]  # overlaps with our own topics
        with Detector(tmp_path, broker.port, model_file, events=long, inputs=inputs) as detector:
            send_fall(watcher)
            wait_for(watcher, "pending")
            watcher.send("stream_occ/w1/set/cancel", b"{")
            watcher.send("stream_occ/w1/set/cancel", b'{"t": "2020-01-01T00:00:00Z"}')
            watcher.send("stream_occ/w1/set/explode", b"PRESS")
            watcher.send("stream_occ/w9/set/cancel", b"PRESS")
            watcher.send("stream_occ/w1/set/cancel", b'{"alert_id": "other"}')
            names = (
                "retained",
                "command_invalid",
                "command_expired",
                "command_unknown",
                "unknown_device",
                "other_alert",
            )
            wait_until(lambda: all(refused(watcher).get(name) for name in names), "all refused")
            assert watcher.json(STATE)["state"] == "pending"
            assert types(watcher)[-1] == "pending"
            assert detector.stop() == 0


def test_mute_is_shown_and_marks_alerts(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """Nothing is left out while muted."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file, events=EVENTS):
        watcher.send("wearables/w1/imu", payload(walking("w1", 100, t0_ns=time.time_ns() - 60 * 10**9)))
        wait_until(lambda: watcher.json(STATE).get("state") == "normal", "state normal")
        send_to(watcher, "mute", minutes=30, by="anna")
        wait_until(lambda: watcher.json(STATE).get("muted_until"), "muted")
        send_fall(watcher)
        assert wait_for(watcher, "alarm")["evidence"]["muted"] == 1
        send_to(watcher, "unmute")
        wait_until(lambda: watcher.json(STATE)["muted_until"] is None, "unmuted")


@pytest.mark.slow
@pytest.mark.parametrize("away_s", [0.0, 6.0])
def test_kill_in_mid_countdown_costs_no_alarm(broker: Broker, model_file: Path, tmp_path: Path, away_s: float) -> None:
    """kill -9 while pending: after the restart the alarm comes, soon where it is overdue, with the same id and the next
    number; nothing is told twice, and people can end it."""
    detector = Detector(tmp_path, broker.port, model_file, events={**EVENTS, "countdown_s": 5.0, "repeat_s": 60.0})
    with Watcher(broker.port) as watcher, detector:
        send_fall(watcher)
        pending = wait_for(watcher, "pending")
        assert detector.process is not None
        detector.process.kill()
        detector.process.wait()
        assert detector.process.stdout is not None
        detector.process.stdout.close()
        time.sleep(away_s)
        assert types(watcher) == ["suspected", "checking", "pending"]
        detector.start()
        alarm = wait_for(watcher, "alarm", 40.0)
        assert (alarm["alert_id"], alarm["seq"]) == (pending["alert_id"], pending["seq"] + 1)
        assert alarm["t_ns"] == pending["evidence"]["t_deadline_ns"]
        wait_until(lambda: watcher.json(ALERT).get("state") == "alarm", "the retained alarm")
        send_to(watcher, "ack", by="anna")
        wait_for(watcher, "acknowledged")
        send_to(watcher, "cancel")
        wait_for(watcher, "resolved")
        told = events(watcher)  # the broker's answer to the last may have come to a dead process: told again
        names = ["suspected", "checking", "pending", "alarm", "acknowledged", "resolved"]
        assert [(event["event_type"], event["seq"]) for event in told] == list(zip(names, range(6), strict=True))
        assert detector.stop() == 0


def test_damaged_state_file_ends_the_start_with_one_line_and_exit_code_2(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """The file is not touched."""
    (tmp_path / "state.db").write_bytes(b"somebody's letters" * 1000)
    detector = Detector(tmp_path, broker.port, model_file)
    detector.start(is_ready=False)
    assert detector.process is not None
    assert detector.process.wait(20) == 2
    assert detector.process.stdout is not None
    detector.process.stdout.close()
    lines = detector.log.read_text().splitlines()
    assert "state.db: must be an undamaged state file; got one that is not a database." in lines[-1]
    assert not any("Traceback" in line or "ERROR" in line for line in lines)
    assert (tmp_path / "state.db").read_bytes() == b"somebody's letters" * 1000
