"""`stream-occ detect` in a process of its own, and a client that watches what it publishes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

REPO = Path(__file__).resolve().parents[2]


def wait_until(condition: Callable[[], Any], what: str, timeout_s: float = 20.0) -> Any:
    """The first truthy result of `condition`; fails with `what` after timeout_s."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError(f"not within {timeout_s} s: {what}")


class Watcher:
    """Notes every message under `filters`: .last[topic] payload, .log [(topic, payload, retained)]."""

    def __init__(self, port: int, *filters: str) -> None:
        self.last: dict[str, bytes] = {}
        self.log: list[tuple[str, bytes, bool]] = []
        self._ready = threading.Event()
        self._filters = filters or ("stream_occ/#",)
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda c, *_: c.subscribe([(f, 1) for f in self._filters])
        self.client.on_subscribe = lambda *_: self._ready.set()
        self.client.on_message = self._note
        self.client.reconnect_delay_set(1, 1)
        self.client.max_inflight_messages_set(1000)
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        assert self._ready.wait(30)

    def _note(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        self.last[message.topic] = message.payload
        self.log.append((message.topic, message.payload, message.retain))

    def json(self, topic: str) -> dict[str, Any]:
        """The last JSON on a topic; {} where there is none."""
        content: dict[str, Any] = json.loads(self.last.get(topic) or b"{}")
        return content

    def contents(self, topic: str) -> list[dict[str, Any]]:
        """All JSON that came on a topic."""
        return [json.loads(payload) for name, payload, _ in self.log if name == topic and payload]

    def send(self, topic: str, payload: bytes, *, retain: bool = False) -> None:
        """Publishes with QoS 1 and waits until the broker has it."""
        self.client.publish(topic, payload, qos=1, retain=retain).wait_for_publish(10)

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()
        self.client.on_connect = self.client.on_subscribe = self.client.on_message = None  # or the two hold each other

    def __enter__(self) -> Watcher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Detector:
    """The running command; use as a context manager."""

    def __init__(self, folder: Path, port: int, model: Path, **sections: Any) -> None:
        self.config = folder / "edge.yaml"
        sections.setdefault("inputs", [{"pattern": "wearables/{device}/imu", "codec": "json"}])
        mqtt = {"port": port, "client_id": "detect-under-test", "reconnect_max_s": 0.5, "reconnect_min_s": 0.1}
        state = {"path": str(folder / "state.db")}
        output = {"slice_s": 0.05, "state_interval_s": 0.5, "offline_after_s": 5.0}
        self.config.write_text(
            yaml.safe_dump(
                {
                    **sections,
                    "mqtt": mqtt | sections.get("mqtt", {}),
                    "output": output | sections.get("output", {}),
                    "state": state | sections.get("state", {}),
                    "model": str(model),
                }
            )
        )
        self.program = [sys.executable, "-m", "stream_occ"]
        self.options: list[str] = []
        self.log = folder / "detect.log"
        self.summary = folder / "summary.json"
        self.process: subprocess.Popen[str] | None = None

    def start(self, *, is_ready: bool = True) -> None:
        """Starts the process and, unless told otherwise, waits for its `ready:` line."""
        command = [*self.program, "detect", "-c", str(self.config), "--json", str(self.summary), *self.options]
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
        with self.log.open("a") as log:
            self.process = subprocess.Popen(
                command, cwd=REPO, stdout=subprocess.PIPE, stderr=log, text=True, env=environment
            )
        if is_ready:
            self.wait_ready()

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        assert self.process.stdout is not None
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def wait_ready(self) -> str:
        """The `ready:` line."""
        assert self.process is not None
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith("ready:"), f"{line!r}; {self.log.read_text()[-2000:]}"
        return line

    def stop(self, timeout_s: float = 15.0) -> int:
        """Exit code after SIGTERM."""
        assert self.process is not None
        self.process.terminate()
        code = self.process.wait(timeout_s)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def __enter__(self) -> Detector:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(10)
        if self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
