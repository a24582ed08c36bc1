"""The service against a real mosquitto: alerts, retained flags, reconnection, the end, and hostile messages."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import jsonschema
import psutil
import pytest

from stream_occ.messages import MESSAGES
from tests.integration.broker import Broker
from tests.integration.detector import REPO, Detector, Watcher, wait_until
from tests.service_model import payload, tumbling, walking

pytestmark = pytest.mark.broker

TOPIC = "wearables/w1/imu"
STATE = "stream_occ/w1/state"


def now_ns() -> int:
    return time.time_ns()


def send_walk(watcher: Watcher, n_seconds: int, *, t0_ns: int, first: int = 0, device: str = "w1") -> None:
    """n seconds of walking, one message a second."""
    for second in range(n_seconds):
        block = walking(device, 50, t0_ns=t0_ns, first=first + 50 * second)
        watcher.send(f"wearables/{device}/imu", payload(block))


def test_walking_is_normal_and_tumbling_raises_one_alert_that_is_retained_until_a_person_ends_it(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """State, availability, score, event and alert topics follow a device from its first message to the all clear."""
    events = {"k": 2, "n": 3, "check": False, "countdown_s": 0.0, "refractory_s": 60.0}
    output = {"publish_score": True, "publish_waveform": True}
    detector = Detector(tmp_path, broker.port, model_file, events=events, output=output)
    with Watcher(broker.port) as watcher, detector:
        t0 = now_ns()
        send_walk(watcher, 5, t0_ns=t0)
        wait_until(lambda: watcher.json(STATE).get("state") == "normal", "state normal")
        assert watcher.last["stream_occ/w1/availability"] == b"online"
        assert 49 < watcher.json(STATE)["rate_hz"] < 51
        assert "stream_occ/w1/alert" not in watcher.last
        watcher.send(TOPIC, payload(tumbling("w1", 100, t0_ns=t0, first=250)))
        wait_until(lambda: watcher.json("stream_occ/w1/alert").get("state") == "alarm", "an alarm")
        alert, event = watcher.json("stream_occ/w1/alert"), watcher.json("stream_occ/w1/event")
        assert alert["alert_id"] == event["alert_id"]
        wait_until(lambda: watcher.json(STATE)["state"] == "alarm", "state alarm")
        assert watcher.json("stream_occ/w1/waveform")["alert_id"] == alert["alert_id"]
        with Watcher(broker.port) as late:  # somebody who comes later
            wait_until(lambda: late.last.get("stream_occ/w1/alert"), "the retained alert")
            wait_until(lambda: late.json(STATE).get("state") == "alarm", "the retained state")
            assert late.last["stream_occ/status"] == b"online"
            assert late.last["stream_occ/bridge/edge/status"] == b"online"
            assert not any(topic.endswith(("/event", "/score", "/waveform")) for topic, *_ in late.log)
            assert all(is_retained for _topic, _payload, is_retained in late.log[:4])
        send_walk(watcher, 9, t0_ns=t0, first=350)
        watcher.send("stream_occ/w1/set/cancel", b"PRESS")
        wait_until(lambda: watcher.last["stream_occ/w1/alert"] == b"", "the alert to be emptied")
        wait_until(lambda: watcher.json("stream_occ/w1/event")["event_type"] == "resolved", "the all clear")
        changes = [json.loads(text) for topic, text, _ in watcher.log if topic == "stream_occ/w1/event"]
        assert [change["event_type"] for change in changes] == ["suspected", "pending", "alarm", "resolved"]
        assert [change["seq"] for change in changes] == [0, 1, 2, 3]
        scores = [json.loads(text) for topic, text, _ in watcher.log if topic == "stream_occ/w1/score"]
        assert {score["label"] for score in scores} == {"normal", "outlier"}
        for topic, text, _ in watcher.log:
            kind = topic.rpartition("/")[2]
            if kind in MESSAGES and text:
                schema = json.loads((REPO / "docs" / "schemas" / f"{kind}.json").read_text())
                jsonschema.validate(json.loads(text), schema)


def test_end_by_sigterm_says_offline_everywhere_and_exits_with_0(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """Bridge, single-instance status and each device go offline, retained; counters go to --json."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file) as detector:
        send_walk(watcher, 2, t0_ns=now_ns())
        wait_until(lambda: watcher.last.get("stream_occ/w1/availability") == b"online", "w1 online")
        assert detector.stop() == 0
        for topic in ("stream_occ/status", "stream_occ/bridge/edge/status", "stream_occ/w1/availability"):
            wait_until(lambda topic=topic: watcher.last.get(topic) == b"offline", f"{topic} offline")
        assert json.loads(detector.summary.read_text())["messages"] == 2
        assert "Traceback" not in detector.log.read_text()


def test_killed_service_is_offline_by_its_last_will(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """After kill -9 the broker says offline on both status topics."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file) as detector:
        wait_until(lambda: watcher.last.get("stream_occ/status") == b"online", "online")
        assert detector.process is not None
        detector.process.kill()
        for topic in ("stream_occ/status", "stream_occ/bridge/edge/status"):
            wait_until(lambda topic=topic: watcher.last.get(topic) == b"offline", f"{topic} offline")


def test_service_starts_before_the_broker_and_survives_its_restart(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """It waits for a broker that is down, and after a kill -9 of it subscribes and publishes retained topics anew."""
    broker.stop()
    detector = Detector(tmp_path, broker.port, model_file)
    detector.start(is_ready=False)
    try:
        time.sleep(1.0)
        broker.run()
        detector.wait_ready()
        t0 = now_ns()
        with Watcher(broker.port) as watcher:
            send_walk(watcher, 3, t0_ns=t0)
            wait_until(lambda: watcher.json(STATE).get("state") == "normal", "state normal")
        broker.stop(kill=True)
        broker.run()
        with Watcher(broker.port) as watcher:
            wait_until(lambda: watcher.last.get("stream_occ/status") == b"online", "online again")
            wait_until(lambda: watcher.json(STATE).get("state") == "normal", "state again, without new data")
            n_before = watcher.json(STATE)["counters"]["samples"]
            send_walk(watcher, 2, t0_ns=t0, first=150)
            wait_until(lambda: watcher.json(STATE)["counters"]["samples"] == n_before + 100, "new samples")
        assert detector.stop() == 0
    finally:
        detector.__exit__()


def test_end_while_the_broker_is_away_is_in_order_too(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """SIGTERM before a broker was ever there: exit code 0, soon."""
    broker.stop()
    detector = Detector(tmp_path, broker.port, model_file)
    detector.start(is_ready=False)
    try:
        wait_until(lambda: "ConnectionRefusedError" in detector.log.read_text(), "a first attempt")
        assert detector.stop(8.0) == 0
    finally:
        detector.__exit__()


HOSTILE: dict[str, Callable[[], bytes]] = {
    "empty": lambda: b"",
    "payload_too_large": lambda: b"[" + b"0," * 5_000_000 + b"0]",
    "too_deep": lambda: b"[" * 200_000,
    "not_finite": lambda: b'{"t_ns": %d, "acc": [1, NaN, 2], "gyr": [0, 0, 0]}' % now_ns(),
    "not_a_number": lambda: b'{"t_ns": %d, "acc": ["1", 2, 3], "gyr": [0, 0, 0]}' % now_ns(),
    "wrong_shape": lambda: b'{"t_ns": %d, "acc": [1, 2], "gyr": [0, 0, 0]}' % now_ns(),
    "missing_gyro": lambda: b'{"t_ns": %d, "acc": [1, 2, 3]}' % now_ns(),
    "invalid_json": lambda: b"hello",
    "invalid_utf8": lambda: b"\xff\xfe\x00",
    "units_unknown": lambda: b'{"t_ns": %d, "acc": [1, 2, 3], "gyr": [0, 0, 0]}' % now_ns(),
    "value_out_of_range": lambda: (
        b'{"t_ns": %d, "acc": [9e99, 2, 3], "gyr": [0, 0, 0], "units": {"acc": "g", "gyr": "rad/s"}}' % now_ns()
    ),
}


def test_hostile_messages_cost_themselves_alone(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """Each is counted under its own reason in the device's state, and scoring of that and other devices goes on."""
    stamps = {"1970": 1_000_000_000, "2100": 4_102_444_800 * 10**9}
    with (
        Watcher(broker.port) as watcher,
        Detector(tmp_path, broker.port, model_file, limits={"max_devices": 3}) as detector,
    ):
        t0 = now_ns()
        send_walk(watcher, 3, t0_ns=t0)
        for make in HOSTILE.values():
            watcher.send(TOPIC, make())
        for stamp in stamps.values():
            watcher.send(TOPIC, payload(walking("w1", 5, t0_ns=stamp)))
        for device in ("w2", "w3", "w4"):
            send_walk(watcher, 1, t0_ns=t0, device=device)
        for bad in ("a b", "x" * 65, "bridge", "w1;drop", "ü"):
            watcher.send(f"wearables/{bad}/imu", payload(walking("w1", 5, t0_ns=t0)))
        send_walk(watcher, 3, t0_ns=t0, first=150)
        wanted = dict.fromkeys(HOSTILE, 1) | {"stamp_out_of_range": 2}
        wait_until(lambda: watcher.json(STATE).get("counters", {}).get("samples") == 300, "all good samples")
        counters = watcher.json(STATE)["counters"]
        assert {reason: counters.get(reason) for reason in wanted} == wanted
        assert set(wanted) <= set(watcher.json(STATE)["faults"])
        assert watcher.json(STATE)["state"] == "normal"
        wait_until(
            lambda: watcher.json("stream_occ/bridge/edge/counters").get("refused", {}).get("bad_device_id") == 5, "ids"
        )
        assert watcher.json("stream_occ/bridge/edge/counters")["refused"]["device_limit"] == 1
        assert watcher.json("stream_occ/bridge/edge/counters")["devices"] == 3
        assert "stream_occ/w4/state" not in watcher.last
        assert detector.stop() == 0
        assert "Traceback" not in detector.log.read_text()


def test_own_topics_and_retained_messages_are_not_taken_for_data(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """With an input that matches everything the service does not hear itself; what a broker kept is not fresh data."""
    t0 = now_ns()
    with Watcher(broker.port) as watcher:
        watcher.send("any/w1/x", payload(walking("w1", 50, t0_ns=t0)), retain=True)
        inputs = [{"pattern": "+/{device}/#", "codec": "json"}]
        with Detector(tmp_path, broker.port, model_file, inputs=inputs):
            counters = "stream_occ/bridge/edge/counters"
            wait_until(lambda: watcher.json(counters).get("refused", {}).get("retained") == 1, "retained refused")
            wait_until(lambda: watcher.json(counters)["refused"].get("own_topic", 0) > 2, "own topics refused")
            watcher.send("any/w1/x", payload(walking("w1", 100, t0_ns=t0)))
            wait_until(lambda: watcher.json(STATE).get("counters", {}).get("samples") == 100, "fresh data accepted")
            assert watcher.json(counters)["devices"] == 1


@pytest.mark.slow
def test_a_flood_of_hostile_messages_does_not_grow_the_process(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """After a first flood, 20,000 more hostile messages from 20,000 device ids add less than 10 MB."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file) as detector:
        process = psutil.Process(detector.pid)

        def flood(start: int) -> int:
            for i in range(start, start + 20_000):
                watcher.client.publish(f"wearables/d{i}/imu", b'{"t_ns": [1' + b"," * (i % 50), qos=0)
            messages = "stream_occ/bridge/edge/counters"
            wait_until(lambda: watcher.json(messages).get("messages", 0) >= start + 20_000, "all heard", 60)
            return int(process.memory_info().rss)

        first = flood(0)
        second = flood(20_000)
        assert second - first < 10 * 2**20
        assert watcher.json("stream_occ/bridge/edge/counters")["devices"] == 200
