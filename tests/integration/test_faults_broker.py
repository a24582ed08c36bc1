"""`stream-occ replay --fault` and `stream-occ detect` on a real mosquitto: a broken sensor is named in the state."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.broker import Broker
from tests.integration.detector import REPO, Detector, Watcher, wait_until

pytestmark = pytest.mark.broker


def replayed(port: int, shared_data: Path, *options: str) -> None:
    """Plays a person's walk of five minutes, 100 times as fast."""
    source = ["--dataset", "mobifall", "--data", str(shared_data / "mobifall.zip"), "--people", "2"]
    command = [sys.executable, "-m", "stream_occ", "replay", *source, "--activities", "WAL", "--device", "w1"]
    link = ["--host", "127.0.0.1", "--port", str(port), "--speed", "100"]
    done = subprocess.run([*command, *link, *options], cwd=REPO, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("options", "name", "is_scored"),
    [((), None, True), (("--fault", "stuck:3"), "gyr_stuck", False), (("--fault", "epoch-unit"), "epoch_unit", False)],
)
def test_fault_put_into_a_replay_is_named_by_detect(
    broker: Broker,
    model_file: Path,
    tmp_path: Path,
    shared_data: Path,
    options: tuple[str, ...],
    name: str | None,
    is_scored: bool,
) -> None:
    """And nothing that it touches is ever called normal."""
    topic = "stream_occ/w1/state"
    with Watcher(broker.port, topic) as watcher, Detector(tmp_path, broker.port, model_file):
        replayed(broker.port, shared_data, *options)
        n_seen = "epoch_unit" if name == "epoch_unit" else "samples"
        wait_until(lambda: watcher.json(topic).get("counters", {}).get(n_seen, 0) > 200, "the replay was taken")
        wait_until(lambda: name is None or name in watcher.json(topic)["faults"], f"{name} is named")
        states = [json.loads(payload) for _, payload, _ in watcher.log if payload]
    known = {"acc_stuck", "gyr_stuck", "stuck", "noisy", "axis_change", "saturated", "epoch_unit", "not_finite"}
    assert {fault for state in states for fault in state["faults"]} & known == ({name} if name else set())
    if not is_scored:
        assert "normal" not in {state["state"] for state in states if name in state["faults"]}
