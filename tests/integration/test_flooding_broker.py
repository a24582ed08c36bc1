"""Made-up devices by the thousand over a real broker: the process keeps its size, and who is real is scored."""

from __future__ import annotations

import time
from pathlib import Path

import psutil
import pytest

from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload, walking

pytestmark = [pytest.mark.broker, pytest.mark.slow]

N_IDS = 20_000
MAX_DEVICES = 50
GROWTH_BYTES = 30 * 1024 * 1024  # 20,000 states of 22 kB would be 440 MB


def test_flood_of_made_up_devices_leaves_memory_and_real_devices_alone(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """Each id sends a message as good as any other; their retained topics do not pile up at the broker either."""
    with (
        Detector(tmp_path, broker.port, model_file, limits={"max_devices": MAX_DEVICES}) as detector,
        Watcher(broker.port, "stream_occ/+/state", "stream_occ/bridge/#") as watcher,
    ):
        counters, process = "stream_occ/bridge/edge/counters", psutil.Process(detector.pid)
        t0_ns, sizes = time.time_ns() - 10**9, []
        for i in range(N_IDS):
            if i % 200 == 0:
                block = walking("real", 50, t0_ns=t0_ns, first=i // 4)
                watcher.send("wearables/real/imu", payload(block))
            watcher.client.publish(f"wearables/made-up-{i}/imu", payload(walking("x", 1, t0_ns=t0_ns + i)), qos=0)
            if i % 1000 == 999:
                wait_until(lambda i=i: watcher.json(counters).get("messages", 0) >= i, "what was sent", 60)  # type: ignore[misc]
                sizes.append(process.memory_info().rss)
        told = wait_until(lambda: watcher.json(counters).get("messages", 0) >= N_IDS and watcher.json(counters), "all")
        assert told["devices"] <= MAX_DEVICES
        assert set(told["refused"]) == {"device_limit"}
        assert told["refused"]["device_limit"] >= N_IDS - 10 * MAX_DEVICES
        assert sizes[-1] - sizes[2] < GROWTH_BYTES, sizes
        assert watcher.json("stream_occ/real/state")["counters"]["windows"] > 150
        with Watcher(broker.port, "stream_occ/+/state") as late:
            wait_until(lambda: "stream_occ/real/state" in late.last, "retained states")
            time.sleep(0.5)
            assert len(late.last) <= 2 * MAX_DEVICES
        assert detector.stop() == 0


def test_flood_of_long_topics_leaves_memory_alone(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """4,000 topics of 60,000 bytes, 240 MB in all, behind messages that take seconds to decide."""
    with (
        Detector(tmp_path, broker.port, model_file) as detector,
        Watcher(broker.port, "stream_occ/bridge/#") as watcher,
    ):
        process, sizes = psutil.Process(detector.pid), []
        heavy = payload(walking("x", 6000, t0_ns=time.time_ns() - 10**12))
        for i in range(40):
            watcher.client.publish(f"wearables/heavy-{i}/imu", heavy, qos=1)
        for i in range(4000):
            watcher.client.publish(f"wearables/{i}{'x' * 60_000}/imu", b"", qos=1)

        def are_counted() -> bool:
            sizes.append(process.memory_info().rss)
            return bool(watcher.json("stream_occ/bridge/edge/counters").get("messages", 0) >= 4040)

        wait_until(are_counted, "all of them counted", 60)
        assert watcher.json("stream_occ/bridge/edge/counters")["refused"] == {"topic_too_long": 4000}
        assert max(sizes) < 4 * GROWTH_BYTES + sizes[0], sizes
        assert detector.stop() == 0
