"""`stream-occ replay --resend` over a broker that keeps nothing: what is killed in between changes no decision."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulators.replay import schedule
from simulators.sources import synthetic_streams
from stream_occ.artifacts import load_model
from stream_occ.events import EventPolicy
from stream_occ.pipeline import DeviceState, Pipeline, PipelineState
from stream_occ.resampling import StreamSettings
from stream_occ.samples import NS_PER_S
from stream_occ.store import Store
from tests.integration.broker import Broker
from tests.integration.detector import REPO, Detector, Watcher, wait_until

pytestmark = pytest.mark.broker

EVENTS = {"k": 2, "n": 3, "check": False, "countdown_s": 600.0}
LIFE: dict[str, Any] = {"duration_s": 60.0, "n_falls": 1, "seed": 3}
INPUT = {"pattern": "wearables/{device}/imu", "codec": "compact", "resends": True}
COMMAND = ("--synthetic", "2", "--device", "w", "--minutes", "1", "--fall-count", "1", "--seed", "3", "--speed", "15")


def undisturbed(model_file: Path, t0_ns: int) -> tuple[dict[str, DeviceState], dict[tuple[str, int], float]]:
    """States and scores of the same lives in one process, message by message, with nothing in between."""
    pipeline = Pipeline(load_model(model_file), StreamSettings(), EventPolicy(**EVENTS))  # type: ignore[arg-type]
    state, scores = PipelineState(), {}
    lives = synthetic_streams(2, "w", **LIFE)
    for due in schedule(lives, start_ns=t0_ns, pause_s=1 / 50):
        state, decisions, _ = pipeline.step(state, [due.block], t0_ns + round(due.due_s * NS_PER_S))
        scores.update({(d.device_id, d.t_end_ns): d.score for d in decisions})
    return dict(state.devices), scores


def kill(detector: Detector) -> None:
    assert detector.process is not None
    assert detector.process.stdout is not None
    detector.process.kill()
    detector.process.wait()
    detector.process.stdout.close()


def test_killed_broker_and_service_change_no_decision(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """Broker, service, then both are killed in mid-replay: each sample is scored once, as if nothing had been."""
    truth = tmp_path / "truth.json"
    link = ["--port", str(broker.port), "--codec", "compact", "--resend", "--json", str(truth)]
    command = [sys.executable, "-m", "stream_occ", "replay", *COMMAND, *link]
    with (
        Watcher(broker.port, "stream_occ/#") as watcher,
        Detector(
            tmp_path, broker.port, model_file, events=EVENTS, inputs=[INPUT], output={"publish_score": True}
        ) as detector,
        subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as replay,
    ):
        wait_until(lambda: len(watcher.log) > 40, "the replay has begun")
        for what in ("broker", "service", "both"):
            if what != "service":
                broker.stop(kill=True)
            if what != "broker":
                kill(detector)
                detector.start(is_ready=False)
            time.sleep(0.5)
            if what != "service":
                broker.run()
            time.sleep(2.0)
        out, err = replay.communicate(timeout=60)
        assert replay.returncode == 0, err
        assert detector.stop() == 0
        told = json.loads(truth.read_text())
        heard = [(topic.split("/")[1], json.loads(text)) for topic, text, _ in watcher.log if topic.endswith("/score")]
    assert told["n_sent_again"] > 0
    assert f"detect has {told['n_messages']} of {told['n_messages']} messages" in out
    states, scores = undisturbed(model_file, min(placed["t_start_ns"] for placed in told["placed"]))
    store = Store(tmp_path / "state.db")
    kept = {name: saved.state for name, saved in store.devices().items()}
    store.close()
    assert kept.keys() == states.keys() == {"w-1", "w-2"}
    assert sum(state.resampler.counters.n_samples for state in states.values()) == told["n_samples"]
    for name, expected in states.items():
        found = kept[name]
        assert found is not None
        assert found.resampler.counters == expected.resampler.counters
        assert (found.n_windows, found.n_unscorable) == (expected.n_windows, expected.n_unscorable)
        assert found.last == expected.last
        np.testing.assert_array_equal(found.cutter.signals, expected.cutter.signals)
    assert (
        len({(name, score["t_ns"]) for name, score in heard}) > len(scores) / 2
    )  # while the broker is away all is lost
    for name, score in heard:
        assert score["score"] == scores[name, score["t_ns"]]
