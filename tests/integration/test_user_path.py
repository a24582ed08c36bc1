"""The user's path on real recordings by the commands of the README: record, train, detect, replay falls, alerts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from stream_occ.datasets import open_dataset
from tests.integration.broker import Broker
from tests.integration.detector import REPO, Detector, Watcher, wait_until

pytestmark = [pytest.mark.slow, pytest.mark.broker]

PERSON = "2"
NORMAL = "JOG,JUM,STU,STN,SCH,CSI,CSO"


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "stream_occ", *arguments]


def run(*arguments: str) -> str:
    """Standard output of a command that must end with 0."""
    done = subprocess.run(command(*arguments), cwd=REPO, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def replay(shared_data: Path, port: int, *arguments: str) -> dict[str, Any]:
    """Ground truth of a replay of one MobiFall person as device `anna`."""
    source = ["--dataset", "mobifall", "--data", str(shared_data / "mobifall.zip"), "--people", PERSON]
    truth: dict[str, Any] = json.loads(
        run("replay", *source, "--device", "anna", "--port", str(port), "--json", "-", *arguments)
    )
    return truth


def record_normal_activity(broker: Broker, shared_data: Path, folder: Path) -> None:
    """`record` while the person's normal recordings are replayed."""
    arguments = ["--port", str(broker.port), "--topic", "wearables/{device}/imu", "--placement", "thigh"]
    arguments += ["--subject", "anna", "--out", str(folder)]
    with subprocess.Popen(command("record", *arguments), cwd=REPO, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready:")
        replay(shared_data, broker.port, "--activities", NORMAL, "--no-falls", "--speed", "100")
        process.terminate()
        assert process.wait(20) == 0


def test_recorded_trained_and_detected_falls_raise_alerts(broker: Broker, shared_data: Path, tmp_path: Path) -> None:
    """A model of what `record` heard raises an alert on the person's replayed falls; it is kept for latecomers."""
    recordings, model = tmp_path / "recordings", tmp_path / "model.occ"
    record_normal_activity(broker, shared_data, recordings)
    with open_dataset("mobifall", shared_data / "mobifall.zip") as dataset:
        sent = [r for r in dataset.iter_recordings() if r.subject == PERSON and not r.is_fall]
    n_sent = sum(len(r.block) for r in sent if r.activity in NORMAL.split(","))
    heard = list(open_dataset("recording", recordings).iter_recordings())
    assert sum(len(r.block) for r in heard) == n_sent

    run(
        "train", "--dataset", "recording", "--data", str(recordings), "--out", str(model), "--json", str(tmp_path / "t")
    )
    assert json.loads((tmp_path / "t").read_text())["n_windows"] > 300
    run("inspect", str(model), "--verify")

    events = {"k": 2, "n": 3, "clear_after_s": 3600.0, "refractory_s": 5.0}
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model, events=events) as detector:
        replay(shared_data, broker.port, "--falls", "--speed", "20")
        topic = "stream_occ/anna/event"
        wait_until(lambda: watcher.json(topic).get("event_type") == "alarm", "an alarm")
        wait_until(lambda: watcher.json("stream_occ/anna/state").get("state") == "alarm", "its state")
        with Watcher(broker.port, "stream_occ/anna/alert") as late:
            alert = wait_until(lambda: late.json("stream_occ/anna/alert"), "the open alert, retained")
        assert alert["alert_id"] == watcher.json(topic)["alert_id"]
        assert not [entry for entry in watcher.log if entry[0] == topic and entry[2]]  # events are not retained
        assert detector.stop() == 0
    wait_until(lambda: watcher.last["stream_occ/status"] == b"offline", "offline")
