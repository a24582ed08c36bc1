"""`detect` with its HTTP view, against a real mosquitto: ready or not and why, and the metrics."""

from __future__ import annotations

import json
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.integration.broker import Broker, free_port
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload, walking

pytestmark = pytest.mark.broker

OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # whatever proxy the environment names


def get(port: int, path: str) -> tuple[int, str]:
    """Code and body."""
    try:
        with OPENER.open(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def is_ready(port: int, expected: bool, **checks: bool) -> bool:
    """True where /ready has this code and these checks."""
    code, body = get(port, "/ready")
    told = json.loads(body)
    return code == (200 if expected else 503) and told["ready"] is expected and told.items() >= checks.items()


def value(port: int, sample: str) -> float:
    """The value of a sample of /metrics, by its name and labels as written."""
    lines = [line.rpartition(" ") for line in get(port, "/metrics")[1].splitlines()]
    [found] = [float(number) for name, _, number in lines if name == sample]
    return found


def test_ready_follows_broker_and_scores_and_metrics_count_without_names(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """Walking is scored; then only nonsense comes, then it walks again; then the broker goes and comes back."""
    port = free_port()
    detector = Detector(
        tmp_path,
        broker.port,
        model_file,
        http={"enabled": True, "port": port},
        output={"offline_after_s": 1.0},
        log={"format": "json"},
    )
    with detector:
        assert get(port, "/health") == (200, '{"live": true}\n')
        wait_until(lambda: is_ready(port, True, connected=True, subscribed=True, scoring=True), "ready")
        with Watcher(broker.port) as watcher:
            t0_ns = time.time_ns()
            for second in range(6):
                watcher.send("wearables/anna/imu", payload(walking("anna", 50, t0_ns=t0_ns, first=50 * second)))
            wait_until(lambda: value(port, "stream_occ_messages_total") == 6, "all messages counted")
            wait_until(lambda: value(port, 'stream_occ_devices{state="normal"}') == 1, "a normal device")
            assert value(port, "stream_occ_windows_total") > 0
            assert value(port, "stream_occ_ready") == 1

            def nonsense() -> bool:
                watcher.send("wearables/anna/imu", b"nonsense")
                time.sleep(0.1)
                return is_ready(port, False, connected=True, scoring=False)

            wait_until(nonsense, "not ready: data arrive and nothing is scored")
            assert get(port, "/health")[0] == 200
            assert value(port, 'stream_occ_messages_refused_total{reason="invalid_json"}') > 1
            for second in range(6, 12):
                watcher.send("wearables/anna/imu", payload(walking("anna", 50, t0_ns=t0_ns, first=50 * second)))
            wait_until(lambda: is_ready(port, True), "ready again")
        assert "anna" not in get(port, "/metrics")[1]
        broker.stop()
        wait_until(lambda: is_ready(port, False, connected=False, subscribed=False), "not ready without a broker")
        assert get(port, "/health")[0] == 200
        broker.run()
        wait_until(lambda: is_ready(port, True), "ready after the broker came back")
        wait_until(lambda: value(port, "stream_occ_connects_total") == 2, "the second connection counted")
        assert detector.stop() == 0
    with pytest.raises(urllib.error.URLError):
        get(port, "/health")
    lines = [json.loads(line) for line in detector.log.read_text().splitlines()]
    assert {"t", "level", "logger", "message"} <= lines[0].keys()
    assert any("connected to" in line["message"] for line in lines)
