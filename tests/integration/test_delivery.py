"""Messages that were on their way when the service was killed are delivered again, and taken once."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from itertools import count
from pathlib import Path

import pytest

from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.senml_halves import half
from tests.service_model import payload, tumbling, walking

pytestmark = pytest.mark.broker

EVENTS = {"k": 2, "n": 3, "check": False, "countdown_s": 600.0}
N_MESSAGES, N_SAMPLES = 60, 25


@pytest.mark.parametrize("seed", [0, 1])
def test_kill_of_the_service_costs_no_sample_and_doubles_none(
    broker: Broker, model_file: Path, tmp_path: Path, seed: int
) -> None:
    """Three devices, two kills at random instants: every sample is taken once, every window scored, one alert each."""
    devices = ("w1", "w2", "w3")
    rng = random.Random(seed)
    kills = sorted(rng.sample(range(5, N_MESSAGES - 5), 2))
    t0_ns = time.time_ns() - N_MESSAGES * N_SAMPLES * 20_000_000
    with (
        Watcher(broker.port) as watcher,
        Detector(tmp_path, broker.port, model_file, events=EVENTS, state={"save_interval_s": 1.0}) as detector,
    ):
        for i in range(N_MESSAGES):
            kind = tumbling if 20 <= i < 26 else walking
            for device in devices:
                block = kind(device, N_SAMPLES, t0_ns=t0_ns, first=N_SAMPLES * i)
                watcher.send(f"wearables/{device}/imu", payload(block))
            time.sleep(0.05)
            if i in kills:
                detector.kill()
                detector.start()
        for device in devices:
            topic = f"stream_occ/{device}/state"
            wait_until(
                lambda topic=topic: watcher.json(topic)["counters"].get("samples") == N_MESSAGES * N_SAMPLES,  # type: ignore[misc]
                f"all samples of {device}: {watcher.json(topic)}",
            )
            counters = watcher.json(topic)["counters"]
            assert not {"late", "duplicate", "clock_reset", "gap", "interpolated"} & set(counters)
            assert counters["windows"] == (N_MESSAGES * N_SAMPLES - 50) // 25 + 1
            told = {(content["alert_id"], content["seq"]) for content in watcher.contents(f"stream_occ/{device}/event")}
            assert len({alert_id for alert_id, _ in told}) == 1
            assert sorted(seq for _, seq in told) == list(range(len(told)))
        assert detector.stop() == 0
        assert "Traceback" not in detector.log.read_text()


def test_event_outlives_a_broker_that_lost_it_while_the_receiver_was_away(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """The broker said that it has the event, nobody was there, and it is killed: it is told to who comes later."""
    t0_ns = time.time_ns() - 12 * N_SAMPLES * 20_000_000
    sections = {"events": EVENTS, "receivers": ["ward"]}
    with Detector(tmp_path, broker.port, model_file, **sections) as detector:
        with Watcher(broker.port, "stream_occ/w1/alert") as watcher:
            for i in range(12):
                block = (tumbling if 6 <= i < 10 else walking)("w1", N_SAMPLES, t0_ns=t0_ns, first=N_SAMPLES * i)
                watcher.send("wearables/w1/imu", payload(block))
            wait_until(lambda: watcher.json("stream_occ/w1/alert").get("state") == "pending", "the alert")
            time.sleep(0.5)  # the broker has answered
        broker.stop(kill=True)
        broker.run()
        with Watcher(broker.port, "stream_occ/w1/event") as ward:

            def heard() -> dict[int, str]:
                return {event["seq"]: event["alert_id"] for event in ward.contents("stream_occ/w1/event")}

            wait_until(lambda: {0, 1} <= heard().keys(), "both events")
            for seq, alert_id in heard().items():
                content = {"alert_id": alert_id, "seq": seq, "receiver": "ward"}
                ward.send("stream_occ/w1/set/received", json.dumps(content).encode())
        assert detector.stop() == 0


def test_kill_between_the_halves_of_a_device_that_sends_its_sensors_apart_costs_nothing(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """The accelerometer's message is saved and acknowledged, the service killed, then the gyroscope's comes."""
    t0_ns = time.time_ns() - 10 * N_SAMPLES * 20_000_000
    entry = {"pattern": "wearables/{device}/imu", "codec": "senml"}
    with (
        Watcher(broker.port) as watcher,
        Detector(tmp_path, broker.port, model_file, inputs=[entry], state={"save_interval_s": 0.5}) as detector,
    ):
        for i in range(10):
            for kind in ("acc", "gyr"):
                watcher.send("wearables/w1/imu", half(kind, N_SAMPLES, t0_ns=t0_ns, first=N_SAMPLES * i))
                if i in (3, 6) and kind == "acc":
                    time.sleep(1.5)
                    detector.kill()
                    detector.start()
        topic = "stream_occ/w1/state"
        wait_until(lambda: watcher.json(topic)["counters"].get("samples") == 10 * N_SAMPLES, "all samples")
        assert set(watcher.json(topic)["counters"]) <= {"samples", "windows"}
        assert detector.stop() == 0


ALIKE = {"AcX": 164, "AcY": 0, "AcZ": 16384, "GyX": 131, "GyY": 0, "GyZ": 0}
STAMPED_HERE = {
    "pattern": "wearables/{device}/imu",
    "codec": "esp32",
    "profile": {
        "stamps": "arrival",
        "acc_unit": "g",
        "gyr_unit": "deg/s",
        "acc_counts_per_unit": 16384,
        "gyr_counts_per_unit": 131,
    },
}
STATE, COUNTERS = "stream_occ/w1/state", "stream_occ/bridge/edge/counters"


def stop_for(detector: Detector) -> None:
    """What comes now the broker sends, and the service does not read."""
    os.kill(detector.pid, signal.SIGSTOP)
    time.sleep(0.2)


def test_press_that_a_killed_service_did_not_read_is_done_though_one_like_it_was_before(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """The first PRESS cancels an alert; a second, for the next one, was sent to the service that was killed."""
    events = {"k": 2, "n": 3, "check": False, "countdown_s": 8.0, "refractory_s": 1.0, "merge_s": 0.0}
    t0_ns, first = time.time_ns() - 20 * 10**9, count(0, 50)
    with (
        Watcher(broker.port) as watcher,
        Detector(tmp_path, broker.port, model_file, events=events) as detector,
    ):
        for i in range(2):
            for kind in (walking,) * 4 + (tumbling,) * 2:
                watcher.send("wearables/w1/imu", payload(kind("w1", 50, t0_ns=t0_ns, first=next(first))))
            wait_until(lambda: watcher.json(STATE).get("state") == "pending", "an alert")
            if i:
                stop_for(detector)
            watcher.send("stream_occ/w1/set/cancel", b"PRESS")
            if i:
                time.sleep(0.5)
                detector.kill()
                detector.start()
            wait_until(lambda i=i: told(watcher).count("cancelled") == i + 1, "the alert to be cancelled", 6.0)  # type: ignore[misc]
        assert "alarm" not in told(watcher)
        assert detector.stop() == 0


def told(watcher: Watcher) -> list[str]:
    return [event["event_type"] for event in watcher.contents("stream_occ/w1/event")]


def test_samples_stamped_here_that_a_killed_service_did_not_read_are_taken(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """A device without a clock lies still: 100 messages are taken, 50 more of the same bytes are on their way."""
    content = json.dumps(ALIKE).encode()
    with (
        Watcher(broker.port) as watcher,
        Detector(tmp_path, broker.port, model_file, inputs=[STAMPED_HERE], state={"save_interval_s": 1.0}) as detector,
    ):
        for _ in range(100):
            watcher.send("wearables/w1/imu", content)
            time.sleep(0.01)
        wait_until(lambda: n_samples(watcher) == 100, "100 samples")
        time.sleep(1.5)
        stop_for(detector)
        for _ in range(50):
            watcher.send("wearables/w1/imu", content)
        time.sleep(0.5)
        detector.kill()
        detector.start()
        wait_until(lambda: n_samples(watcher) == 150, "150 samples")
        assert "delivered_again" not in watcher.json(COUNTERS)["refused"]
        assert detector.stop() == 0


def n_samples(watcher: Watcher) -> int:
    return int(watcher.json(STATE).get("counters", {}).get("samples", 0))


def test_samples_stamped_here_are_taken_once_over_a_kill_of_a_broker_that_keeps_its_sessions(
    tmp_path: Path, model_file: Path
) -> None:
    """Ten of the same bytes are taken, not acknowledged, and sent again with their ids; five new ones are new."""
    keeps = f"persistence true\npersistence_location {tmp_path}/\nautosave_interval 1\n"
    content = json.dumps(ALIKE).encode()
    with (
        Broker.start(tmp_path, extra=keeps) as broker,
        Detector(tmp_path, broker.port, model_file, inputs=[STAMPED_HERE], state={"save_interval_s": 60.0}) as detector,
    ):
        with Watcher(broker.port) as watcher:
            for _ in range(10):
                watcher.send("wearables/w1/imu", content)
            wait_until(lambda: n_samples(watcher) == 10, "10 samples")
        time.sleep(2.5)  # the broker saves what it has under way
        broker.stop(kill=True)
        broker.run()
        with Watcher(broker.port) as watcher:
            wait_until(lambda: watcher.json(COUNTERS).get("refused", {}).get("delivered_again") == 10, "ten known ones")
            for _ in range(5):
                watcher.send("wearables/w1/imu", content)
            wait_until(lambda: n_samples(watcher) == 15, "15 samples")
        assert detector.stop() == 0
