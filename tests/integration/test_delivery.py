"""Messages that were on their way when the service was killed are delivered again, and taken once."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest

from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.senml_halves import half
from tests.service_model import payload, tumbling, walking

pytestmark = pytest.mark.broker

EVENTS = {"k": 2, "n": 3, "check": False, "countdown_s": 600.0}
N_MESSAGES, N_SAMPLES = 60, 25


def kill(detector: Detector) -> None:
    assert detector.process is not None
    detector.process.kill()
    detector.process.wait()
    assert detector.process.stdout is not None
    detector.process.stdout.close()


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
                kill(detector)
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
                    kill(detector)
                    detector.start()
        topic = "stream_occ/w1/state"
        wait_until(lambda: watcher.json(topic)["counters"].get("samples") == 10 * N_SAMPLES, "all samples")
        assert set(watcher.json(topic)["counters"]) <= {"samples", "windows"}
        assert detector.stop() == 0
