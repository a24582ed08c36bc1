"""`stream-occ doctor` against a real mosquitto: what it says of wearers, and that its configuration reads them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulators.publisher import Publisher
from simulators.replay import replay
from simulators.synthetic import Wearer
from stream_occ.codecs import load_codec
from stream_occ.config import load_config
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.mqtt import MqttOptions
from stream_occ.topics import Topics
from tests.integration.broker import Broker, free_port
from tests.integration.detector import REPO, Watcher

pytestmark = pytest.mark.broker


def start(port: int, *arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "stream_occ", "doctor", "--host", "127.0.0.1", "--port", str(port), *arguments]
    return subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def run(*arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "stream_occ", *arguments],
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def listened(broker: Broker, folder: Path, *arguments: str, send: Any) -> tuple[str, dict[str, Any]]:
    """Output and JSON of a doctor that listens while `send()` runs."""
    found, out = folder / "found.json", folder / "found.yaml"
    with start(broker.port, "--json", str(found), "--out", str(out), *arguments) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready:")
        send()
        text, errors = process.communicate(timeout=60)
    assert (process.returncode, errors) == (0, "")
    content: dict[str, Any] = json.loads(found.read_text())
    assert content["configuration"] == out.read_text()
    assert run("config", "check", str(out)) == f"{out}: no problem\n"
    return text, content


@pytest.mark.parametrize("codec", ["json", pytest.param("compact", marks=pytest.mark.slow)])
def test_replayed_wearers_are_read_by_the_configuration_that_is_printed(
    broker: Broker, tmp_path: Path, codec: str
) -> None:
    """Two synthetic wearers at 50 Hz in SI: every replayed message goes through the intake of that configuration."""
    lives = {name: [Wearer(name, 1).recording("walking", [("walking", 5.0)])] for name in ("w1", "w2")}

    def send() -> None:
        with Publisher(MqttOptions("127.0.0.1", broker.port, "doctor-test")) as publish:
            replay(lives, publish, load_codec(codec))

    with Watcher(broker.port, "wearables/#") as watcher:
        text, content = listened(broker, tmp_path, "--seconds", "7", send=send)
        messages = list(watcher.log)
    [entry] = content["inputs"]
    assert (entry["pattern"], entry["codec"]) == ("wearables/{device}/imu", codec)
    assert entry["profile"] == {"nominal_rate_hz": 50.0}
    assert entry["questions"] == []
    assert "rate: 50.0 Hz" in text
    config = load_config(tmp_path / "found.yaml", {})
    assert config.mqtt.port == broker.port
    intake = Intake(config, Topics("stream_occ", "edge"))
    n_samples = 0
    for topic, payload, _ in messages:
        message = Received.of(topic, payload, is_retained=False, arrived_s=0.0, max_bytes=10**6)
        n_samples += sum(len(block) for block in intake.accept(message, now_ns=time.time_ns(), now_s=0.0))
    assert dict(intake.refused) == {}
    assert n_samples == 500


def test_a_sketchs_raw_counts_are_found_beside_other_topics(broker: Broker, tmp_path: Path) -> None:
    """Counts of g without a clock, a battery beside them, a retained message: one input, its questions told."""
    life = Wearer("w", 3).recording("standing", [("standing", 4.0)]).block
    acc = np.rint(life.acc_ms2 / 9.80665 * 16384).astype(int).tolist()
    gyr = np.rint(life.gyr_rads * 180 / np.pi * 131).astype(int).tolist()
    keys = ("AcX", "AcY", "AcZ", "GyX", "GyY", "GyZ")

    def send() -> None:
        with Watcher(broker.port, "nothing") as watcher:
            watcher.send("home/battery", b"3.7")
            watcher.send("sensors/esp7/old", b"{}", retain=True)
            for a, g in zip(acc, gyr, strict=True):
                watcher.send("sensors/esp7/data", json.dumps(dict(zip(keys, [*a, *g], strict=True))).encode())

    text, content = listened(broker, tmp_path, "--seconds", "4", send=send)
    [entry] = content["inputs"]
    assert (entry["pattern"], entry["codec"]) == ("sensors/{device}/data", "esp32")
    assert entry["profile"]["acc_counts_per_unit"] == 16384.0
    assert entry["profile"]["stamps"] == "arrival"
    assert "  ? " in text
    assert "# ?" in content["configuration"]
    assert {finding["topic"] for finding in content["findings"]} >= {"home/battery", "sensors/esp7/data"}


def test_silence_is_exit_code_1_and_so_is_a_missing_broker(broker: Broker) -> None:
    """Nothing came; nobody listens: a line each."""
    with start(broker.port, "--seconds", "1") as quiet:
        text, errors = quiet.communicate(timeout=60)
    assert (quiet.returncode, errors) == (1, "")
    assert "no message came" in text
    with start(broker.port, "--seconds", "1", "--quiet") as told_to_be:
        assert told_to_be.communicate(timeout=60) == ("", "")
    assert told_to_be.returncode == 1
    command = [sys.executable, "-m", "stream_occ", "doctor", "--port", str(free_port()), "--seconds", "1"]
    environment = {"STREAM_OCC__MQTT__CONNECT_TIMEOUT_S": "1"}
    done = subprocess.run(
        command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment}
    )
    assert done.returncode == 1
    assert "must take the subscriptions within 1 s" in done.stderr
