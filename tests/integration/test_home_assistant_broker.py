"""Discovery for Home Assistant with a real mosquitto and `detect`: announced, announced anew, gone; buttons act."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.home_assistant_peer import Entity, Peer, render
from tests.integration.broker import Broker
from tests.integration.detector import REPO, Detector, Watcher, wait_until
from tests.service_model import payload, tumbling, walking

pytestmark = pytest.mark.broker

ON = {"enabled": True}
W1 = "homeassistant/device/stream_occ_w1/config"
ALERTS = {"k": 2, "n": 3, "check": False, "countdown_s": 0.0}


def watching(broker: Broker) -> Watcher:
    """What Home Assistant subscribes to."""
    return Watcher(broker.port, "homeassistant/device/#", "stream_occ/#")


def peer_of(watcher: Watcher) -> Peer:
    """Home Assistant, having heard what the watcher has."""
    peer = Peer()
    for topic, content, is_retained in list(watcher.log):
        peer.hear(topic, content, is_retained=is_retained)
    return peer


def entity(watcher: Watcher, key: str, topic: str = W1) -> Entity | None:
    return peer_of(watcher).devices.get(topic, {}).get(key)


def shows(watcher: Watcher, key: str, *states: str | None) -> bool:
    found = entity(watcher, key)
    return found is not None and found.state in states


def n_announced(watcher: Watcher, topic: str = W1) -> int:
    return sum(name == topic and bool(content) for name, content, _ in watcher.log)


def walk(watcher: Watcher, device: str = "w1", n_seconds: int = 3) -> int:
    """Sends a walk that ends now; its first stamp."""
    t0_ns = time.time_ns() - n_seconds * 10**9
    for second in range(n_seconds):
        block = walking(device, 50, t0_ns=t0_ns, first=50 * second)
        watcher.send(f"wearables/{device}/imu", payload(block))
    return t0_ns


def fall(watcher: Watcher) -> dict[str, Any]:
    """A walk and hard knocks; the alarm that comes of it."""
    t0_ns = walk(watcher)
    wait_until(lambda: shows(watcher, "fall", "off"), "the entity")
    watcher.send("wearables/w1/imu", payload(tumbling("w1", 100, t0_ns=t0_ns, first=150)))
    alert: dict[str, Any] = wait_until(lambda: watcher.json("stream_occ/w1/alert"), "an alarm")
    return alert


def test_ask_11_devices_are_announced_anew_after_each_restart(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """Of Home Assistant, which finds all retained and says `online`; of a broker that forgot all; of the service."""
    detector = Detector(tmp_path, broker.port, model_file, home_assistant=ON, output={"offline_after_s": 60.0})
    with watching(broker) as watcher, detector:
        walk(watcher)
        wait_until(lambda: shows(watcher, "fall", "off"), "the first announcement")
        assert n_announced(watcher) == 1
        with watching(broker) as restarted:
            wait_until(lambda: shows(restarted, "fall", "off") and shows(restarted, "state", "normal"), "all retained")
            restarted.send("homeassistant/status", b"online")
            wait_until(lambda: n_announced(restarted) == 2, "an answer to `online`")
        broker.stop(kill=True)
        broker.run()
        with watching(broker) as again:
            wait_until(lambda: shows(again, "fall", "off"), "the broker's new copy")
            again.send("homeassistant/status", b"online", retain=True)
            wait_until(lambda: n_announced(again) == 2, "an answer to a retained one that is heard live")
            assert detector.stop() == 0
            wait_until(lambda: shows(again, "fall", "unavailable"), "the service's goodbye")
            detector.start()
            wait_until(lambda: shows(again, "problem", "on"), "the service's return")  # no data yet
            started = len(again.log)
            wait_until(lambda: len(again.log) > started + 10, "some seconds")
            assert n_announced(again) == 3  # once for the connection, not again for what was retained


def test_buttons_act_and_the_entities_follow(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """An alarm turns the entity on; Acknowledge acknowledges it, All clear turns it off; every change is an event."""
    detector = Detector(tmp_path, broker.port, model_file, home_assistant=ON, events=ALERTS)
    with watching(broker) as watcher, detector:
        alert = fall(watcher)
        wait_until(lambda: shows(watcher, "fall", "on"), "the entity to be on")
        for kind, state in (("ack", "acknowledged"), ("cancel", "resolved")):
            button = entity(watcher, kind)
            assert button is not None
            watcher.send(*button.press())
            wait_until(
                lambda state=state: watcher.json("stream_occ/w1/event")["event_type"] == state,  # type: ignore[misc]
                state,
            )
            assert watcher.json("stream_occ/w1/event")["by"] == "Home Assistant"
            assert watcher.json("stream_occ/w1/event")["alert_id"] == alert["alert_id"]
        wait_until(lambda: shows(watcher, "fall", "off", None), "the entity to be off")
        told = entity(watcher, "alert")
        assert told is not None
        assert [event["event_type"] for event in told.fired][-3:] == ["alarm", "acknowledged", "resolved"]


def test_a_forgotten_device_leaves_nothing_behind(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """Its place is given to another: its discovery message is emptied, and who comes later finds the other alone."""
    limits = {"max_devices": 1, "idle_device_after_s": 0.5}
    with watching(broker) as watcher, Detector(tmp_path, broker.port, model_file, home_assistant=ON, limits=limits):
        walk(watcher)
        wait_until(lambda: shows(watcher, "state", "normal"), "the first device")
        time.sleep(0.6)
        walk(watcher, "w2")
        wait_until(lambda: watcher.last.get(W1) == b"", "the emptied message")
        wait_until(lambda: "homeassistant/device/stream_occ_w2/config" in watcher.last, "the other one")
        with watching(broker) as late:
            wait_until(lambda: late.json("stream_occ/w2/state"), "all that is retained")
            assert set(peer_of(late).devices) == {"homeassistant/device/stream_occ_w2/config"}


def test_shipped_automations_call_and_acknowledge_the_alert_they_name(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """configs/home-assistant.yaml, its templates run on a real event: its answer is a command that is obeyed."""
    package = yaml.safe_load((REPO / "configs" / "home-assistant.yaml").read_text())
    call, answer, _ = package["automation"]
    assert call["triggers"][0]["topic"] == "stream_occ/+/event"
    with watching(broker) as watcher, Detector(tmp_path, broker.port, model_file, home_assistant=ON, events=ALERTS):
        alert = fall(watcher)
        wait_until(lambda: watcher.json("stream_occ/w1/event").get("event_type") == "alarm", "its event")
        events = watcher.contents("stream_occ/w1/event")
        fired = [{"topic": "stream_occ/w1/event", "payload_json": event} for event in events]
        called = [trigger for trigger in fired if render(call["conditions"], trigger=trigger) == "True"]
        assert [trigger["payload_json"]["event_type"] for trigger in called] == ["alarm"]
        message = call["actions"][0]["data"]
        assert render(message["title"], trigger=called[0]) == "Fall alert: w1"
        assert alert["t"] in render(message["message"], trigger=called[0])
        pressed = render(message["data"]["actions"][0]["action"], trigger=called[0])
        trigger = {"event": {"data": {"action": pressed}}}
        assert render(answer["conditions"], trigger=trigger) == "True"
        assert render(answer["conditions"], trigger={"event": {"data": {"action": "OTHER"}}}) == "False"
        publish = answer["actions"][0]["data"]
        watcher.send(render(publish["topic"], trigger=trigger), render(publish["payload"], trigger=trigger).encode())
        wait_until(lambda: watcher.json("stream_occ/w1/alert").get("state") == "acknowledged", "the acknowledgement")
        assert watcher.json("stream_occ/w1/alert")["by"] == "telephone"


def test_shipped_automation_says_what_is_wrong_or_that_nobody_is_watching(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """The third of configs/home-assistant.yaml: a device that falls silent and a service that is gone set it off."""
    package = yaml.safe_load((REPO / "configs" / "home-assistant.yaml").read_text())
    [trigger] = package["automation"][2]["triggers"]
    [action] = package["automation"][2]["actions"]
    entity_id = trigger["entity_id"]
    with watching(broker) as watcher:

        def message() -> str:
            """What the telephone shows, as Home Assistant would fill it in: unavailable entities have no attributes."""
            problem = entity(watcher, "problem")
            assert problem is not None
            attributes = {} if problem.state == "unavailable" else problem.attributes
            known = {"state_attr": lambda of, key: attributes.get(key) if of == entity_id else None}
            variables = {"trigger": {**trigger, "to_state": {"name": "w1 Problem", "state": problem.state}}, **known}
            assert render(action["data"]["title"], **variables) == "w1 Problem"
            return render(action["data"]["message"], **variables)

        detector = Detector(tmp_path, broker.port, model_file, home_assistant=ON, output={"offline_after_s": 1.0})
        with detector:
            walk(watcher)
            wait_until(lambda: shows(watcher, "problem", "off"), "a wearer that is watched")
            problem = entity(watcher, "problem")
            assert problem is not None
            device = json.loads(watcher.last[W1])["device"]["name"]
            name = f"{device}_{problem.config['name']}".lower()  # as Home Assistant makes it of the two
            assert entity_id == f"{problem.config['platform']}.{name}"
            assert problem.state not in trigger["to"]
            wait_until(lambda: shows(watcher, "problem", "on"), "a device that is silent")
            assert entity(watcher, "problem").state in trigger["to"]  # type: ignore[union-attr]
            assert "no_data" in message().split(", ")
            assert detector.stop() == 0
        wait_until(lambda: shows(watcher, "problem", "unavailable"), "a service that is gone")
        assert "unavailable" in trigger["to"]
        assert message() == "the service is not there"
    hours, minutes, seconds = (int(part) for part in trigger["for"].split(":"))
    assert 3600 * hours + 60 * minutes + seconds == 600


def test_the_documented_command_takes_away_what_a_switched_off_service_left(broker: Broker, tmp_path: Path) -> None:
    """docs/home-assistant.md: ours are emptied, other programs' messages stay."""
    if shutil.which("mosquitto_sub") is None:
        pytest.skip("mosquitto-clients not found on PATH")
    text = (REPO / "docs" / "home-assistant.md").read_text()
    [command] = [block for block in text.split("```sh\n")[1:] if block.startswith("mosquitto_sub -W")]
    script = command.split("```")[0]
    for name in ("mosquitto_sub", "mosquitto_pub"):
        script = script.replace(name, f"{name} -p {broker.port}")
    other = "homeassistant/device/0x00158d0001/config"
    with Watcher(broker.port, "homeassistant/#") as watcher:
        for topic in (W1, "homeassistant/device/stream_occ_w2/config", other):
            watcher.send(topic, json.dumps({"device": {}}).encode(), retain=True)
        subprocess.run(["sh", "-c", script], check=True, timeout=60)
        wait_until(lambda: watcher.last[W1] == b"", "the emptied message")
    with Watcher(broker.port, "homeassistant/#") as late:
        wait_until(lambda: late.last, "what is left")
        assert set(late.last) == {other}
