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

from simulators.replay import replay, schedule
from simulators.resending import ResendingPublisher
from simulators.sources import synthetic_streams
from simulators.synthetic import Wearer
from stream_occ.artifacts import load_model
from stream_occ.codecs import load_codec
from stream_occ.errors import ServiceError
from stream_occ.events import EventPolicy
from stream_occ.mqtt import MqttOptions
from stream_occ.pipeline import DeviceState, Pipeline, PipelineState
from stream_occ.resampling import StreamSettings
from stream_occ.samples import NS_PER_S
from stream_occ.store import Store
from stream_occ.topics import Topics
from tests.integration.broker import Broker
from tests.integration.detector import REPO, Detector, Watcher, wait_until

pytestmark = pytest.mark.broker

EVENTS = {"k": 2, "n": 3, "check": False, "countdown_s": 600.0}
LIFE: dict[str, Any] = {"duration_s": 60.0, "n_falls": 1, "seed": 3}
INPUT = {"pattern": "wearables/{device}/imu", "codec": "compact", "resends": True}
COMMAND = ("--synthetic", "2", "--device", "w", "--minutes", "1", "--fall-count", "1", "--seed", "3", "--speed", "15")


def resending(port: int) -> ResendingPublisher:
    return ResendingPublisher(MqttOptions("127.0.0.1", port, "resend-test"), Topics(), boot=7, timeout_s=0.5)


def test_without_a_service_all_is_kept_and_told(broker: Broker) -> None:
    """The broker takes everything, and that is not enough: after timeout_s without a word it ends with all kept."""
    life = {"w": [Wearer("w", 1).recording("walking", [("walking", 10.0)])]}
    with resending(broker.port) as publish:
        report = replay(life, publish, load_codec("compact"), speed=float("inf"), boot=7)
    assert publish.n_kept == report.n_messages == 40


def test_full_memory_without_a_service_is_an_error(broker: Broker) -> None:
    """2,400 messages are kept; the next one has no place."""
    life = {"w": [Wearer("w", 1).recording("walking", [("walking", 60.0)])]}
    n_sent = 0

    def counted(device_id: str, payload: bytes) -> None:
        nonlocal n_sent
        publish(device_id, payload)
        n_sent += 1

    with (
        pytest.raises(ServiceError, match=r"let the service say what it has within 0.5 s"),
        resending(broker.port) as publish,
    ):
        replay(life, counted, load_codec("compact"), speed=float("inf"), boot=7, batch_s=0.02)
    assert n_sent == 2400


def test_words_of_others_are_not_taken_for_the_services(broker: Broker) -> None:
    """Another boot, what is no number, and no JSON: nothing is forgotten; the right one is heard."""
    with resending(broker.port) as publish, Watcher(broker.port, "wearables/#") as other:
        for _ in range(3):
            publish("w", b"x")
        for text in (b'{"boot":8,"seq":2}', b'{"boot":7,"seq":"x"}', b"[]", b"\xff", b'{"boot":7,"seq":99}'):
            other.send("stream_occ/w/received_up_to", text)
        other.send("stream_occ/w/received_up_to", b'{"boot":7,"seq":1}')
        wait_until(lambda: publish.pump() or publish.n_kept == 1, "number 2 alone is kept")
        other.send("stream_occ/w/received_up_to", b'{"boot":7,"seq":2}')
    assert publish.n_kept == 0


def undisturbed(model_file: Path, t0_ns: int) -> tuple[dict[str, DeviceState], dict[tuple[str, int], float]]:
    """States and scores of the same lives in one process, message by message, with nothing in between."""
    pipeline = Pipeline(load_model(model_file), StreamSettings(), EventPolicy(**EVENTS))  # type: ignore[arg-type]
    state, scores = PipelineState(), {}
    lives = synthetic_streams(2, "w", **LIFE)
    for due in schedule(lives, start_ns=t0_ns, pause_s=1 / 50):
        state, decisions, _ = pipeline.step(state, [due.block], t0_ns + round(due.due_s * NS_PER_S))
        scores.update({(d.device_id, d.t_end_ns): d.score for d in decisions})
    return dict(state.devices), scores


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
        subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as player,
    ):
        wait_until(lambda: len(watcher.log) > 40, "the replay has begun")
        for what in ("broker", "service", "both"):
            if what != "service":
                broker.stop(kill=True)
            if what != "broker":
                detector.kill()
                detector.start(is_ready=False)
            time.sleep(0.5)
            if what != "service":
                broker.run()
            time.sleep(2.0)
        out, err = player.communicate(timeout=60)
        assert player.returncode == 0, err
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
        n_closing = found.n_windows - expected.n_windows  # 5 s of silence: a slow machine is looked at once more
        assert 0 <= n_closing <= 3
        assert found.n_unscorable == expected.n_unscorable
        assert found.last == expected.last
        np.testing.assert_array_equal(found.cutter.signals, expected.cutter.signals)
    assert (
        len({(name, score["t_ns"]) for name, score in heard}) > len(scores) / 2
    )  # while the broker is away all is lost
    odd = {(name, score["t_ns"]): score["label"] for name, score in heard if (name, score["t_ns"]) not in scores}
    assert len(odd) <= 6
    assert set(odd.values()) <= {"outlier"}  # windows that end in such a silence
    for name, score in heard:
        assert score["score"] == scores.get((name, score["t_ns"]), score["score"])
