"""The running command with sinks: killed while a receiver is away, and beside one that hangs."""

from __future__ import annotations

import json
import random
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.broker import Broker, free_port
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload, tumbling, walking
from tests.sink_peers import mail_server, web_server

pytestmark = pytest.mark.broker

EVENTS = {"k": 2, "n": 3, "check": False, "countdown_s": 600.0}
N_SAMPLES = 25
ALL = ["suspected", "pending", "alarm", "acknowledged", "resolved", "cancelled", "false_alarm", "expired"]


def fall(watcher: Watcher, device: str) -> None:
    """Six seconds that end now, with a burst in them: an alert, pending."""
    t0_ns = time.time_ns() - 12 * N_SAMPLES * 20_000_000
    for i in range(12):
        block = (tumbling if 6 <= i < 10 else walking)(device, N_SAMPLES, t0_ns=t0_ns, first=N_SAMPLES * i)
        watcher.send(f"wearables/{device}/imu", payload(block))


def told(watcher: Watcher, device: str) -> set[tuple[str, int]]:
    """What MQTT was told."""
    return {(event["alert_id"], event["seq"]) for event in watcher.contents(f"stream_occ/{device}/event")}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_kills_lose_no_change_for_any_sink(broker: Broker, model_file: Path, tmp_path: Path, seed: int) -> None:
    """Three falls, two kills at random instants, the webhook away at first: each sink has each change at least once."""
    rng, port, book = random.Random(seed), free_port(), tmp_path / "book.jsonl"
    devices = ("w1", "w2", "w3")
    with mail_server() as mail, Watcher(broker.port) as watcher:
        sinks: dict[str, Any] = {
            "ward": {"kind": "webhook", "url": f"http://127.0.0.1:{port}/", "timeout_s": 1.0},
            "book": {"kind": "file", "path": str(book)},
            "mail": {"kind": "email", "host": "127.0.0.1", "port": mail.port, "security": "none", "states": ALL}
            | {"sender": "occ@ward.example", "recipients": ["anna@ward.example"]},
        }
        with Detector(tmp_path, broker.port, model_file, events=EVENTS, sinks=sinks) as detector:
            for device in devices:
                fall(watcher, device)
                time.sleep(rng.uniform(0.0, 0.4))
                if device != "w3":
                    detector.kill()
                    detector.start()
            for device in devices:
                wait_until(lambda device=device: len(told(watcher, device)) >= 2, f"the alert of {device}")  # type: ignore[misc]
            expected = set().union(*(told(watcher, device) for device in devices))
            with web_server(port) as web:

                def posted() -> set[tuple[str, int]]:
                    contents = [json.loads(post.body) for post in web.posts]
                    return {(content["alert_id"], content["seq"]) for content in contents}

                def booked() -> set[tuple[str, int]]:
                    contents = [json.loads(line) for line in book.read_text().splitlines()]
                    return {(content["alert_id"], content["seq"]) for content in contents}

                def mailed() -> set[str]:
                    lines = b"".join(content for _, content in mail.mails).decode().splitlines()
                    return {line.split(": ")[1] for line in lines if line.startswith("X-Stream-Occ-Alert: ")}

                wait_until(lambda: posted() == expected, "the webhook")
                wait_until(lambda: booked() == expected, "the file")
                wait_until(lambda: mailed() == {f"{alert_id}.{seq}" for alert_id, seq in expected}, "the mails")
                assert detector.stop() == 0
        n_before = len(book.read_text().splitlines()), len(mail.mails)
        with web_server(port) as web, Detector(tmp_path, broker.port, model_file, events=EVENTS, sinks=sinks) as again:
            time.sleep(1.0)
            assert again.stop() == 0
            assert web.posts == []  # all had their receipts
        assert (len(book.read_text().splitlines()), len(mail.mails)) == n_before
        assert "Traceback" not in detector.log.read_text()


@pytest.mark.slow
def test_webhook_that_hangs_delays_neither_mqtt_nor_the_end(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """The alert is there at once, /health names the sink, and SIGTERM ends the service in seconds."""
    http_port = free_port()

    def health() -> dict[str, Any]:
        with urllib.request.urlopen(f"http://127.0.0.1:{http_port}/health", timeout=5) as answer:
            content: dict[str, Any] = json.load(answer)
        return content["sinks"]["ward"]  # type: ignore[no-any-return]

    with web_server() as web, Watcher(broker.port) as watcher:
        web.answers += [None] * 10
        sinks = {"ward": {"kind": "webhook", "url": web.url, "timeout_s": 60.0}}
        http = {"enabled": True, "port": http_port}
        with Detector(tmp_path, broker.port, model_file, events=EVENTS, sinks=sinks, http=http) as detector:
            fall(watcher, "w1")
            wait_until(lambda: watcher.json("stream_occ/w1/alert").get("state") == "pending", "the alert", 5.0)
            wait_until(lambda: len(web.posts) == 1, "the webhook's first try", 5.0)
            wait_until(lambda: health() == {"state": "ok", "waiting": len(told(watcher, "w1"))}, "what waits", 5.0)
            started_s = time.monotonic()
            assert detector.stop() == 0
            assert time.monotonic() - started_s < 8.0
