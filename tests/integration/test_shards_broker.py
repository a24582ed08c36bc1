"""Two processes that divide devices between them, with a real mosquitto: one owner each, through a kill."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from stream_occ.sharding import Shard
from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload, tumbling, walking

pytestmark = [pytest.mark.broker, pytest.mark.slow]

DEVICES = [f"w{n}" for n in range(8)]
SHARES = {1: [d for d in DEVICES if Shard(1, 2).owns(d)], 2: [d for d in DEVICES if Shard(2, 2).owns(d)]}


class Shared(Detector):
    """One of two processes with one configuration file."""

    def __init__(self, folder: Path, port: int, model: Path, number: int, **sections: object) -> None:
        super().__init__(folder, port, model, **sections)
        self.options = ["--shard", f"{number}of2"]
        self.summary = folder / f"summary-{number}.json"


def counters(watcher: Watcher, number: int) -> dict[str, object]:
    return watcher.json(f"stream_occ/bridge/edge-{number}of2/counters")


def test_each_device_has_one_owner_and_a_killed_one_comes_back_to_its_own(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """All windows are decided once; a command reaches its owner alone; an open alert outlives its process."""
    events = {"k": 2, "n": 3, "check": False, "countdown_s": 0.0}
    output = {"publish_score": True}
    first, second = (
        Shared(tmp_path, broker.port, model_file, number, events=events, output=output, state={"save_interval_s": 0.2})
        for number in (1, 2)
    )
    assert all(SHARES.values())
    fallen = SHARES[2][0]
    with Watcher(broker.port) as watcher, first, second:
        t0 = time.time_ns()
        for device in DEVICES:
            for second_number in range(5):
                block = walking(device, 50, t0_ns=t0, first=50 * second_number)
                watcher.send(f"wearables/{device}/imu", payload(block))
        watcher.send(f"wearables/{fallen}/imu", payload(tumbling(fallen, 100, t0_ns=t0, first=250)))
        alert = wait_until(lambda: watcher.json(f"stream_occ/{fallen}/alert"), "an alert")
        for number, devices in SHARES.items():
            wait_until(lambda n=number, d=devices: counters(watcher, n).get("devices") == len(d), "its own devices")
            assert counters(watcher, number)["refused"] == {}
        scores = [(topic, json.loads(text)) for topic, text, _ in watcher.log if topic.endswith("/score")]
        windows = [(topic.split("/")[1], score["t_ns"]) for topic, score in scores]
        assert len(windows) == len(set(windows))
        assert {device for device, _ in windows} == set(DEVICES)
        assert "stream_occ/status" not in watcher.last
        assert watcher.last["stream_occ/bridge/edge-2of2/status"] == b"online"

        second.__exit__()  # kill -9
        wait_until(lambda: watcher.last["stream_occ/bridge/edge-2of2/status"] == b"offline", "the will of the second")
        assert watcher.last["stream_occ/bridge/edge-1of2/status"] == b"online"
        watcher.send(f"stream_occ/{fallen}/set/ack", json.dumps({"by": "anna"}).encode())  # waits in its session
        second.start()
        event = f"stream_occ/{fallen}/event"
        wait_until(lambda: watcher.json(event).get("event_type") == "acknowledged", "the act that waited")
        assert watcher.json(event)["alert_id"] == alert["alert_id"]
        wait_until(lambda: counters(watcher, 1).get("messages") == 5 * len(SHARES[1]), "no word of others' devices")
        assert counters(watcher, 1)["refused"] == {}
    assert (tmp_path / "state-1of2.db").exists()
    assert (tmp_path / "state-2of2.db").exists()
    whole = Detector(tmp_path, broker.port, model_file, events=events)
    whole.start(is_ready=False)
    assert whole.process is not None
    assert whole.process.wait(20) == 2
    assert "until no alert is open" in whole.log.read_text()
    whole.__exit__()
