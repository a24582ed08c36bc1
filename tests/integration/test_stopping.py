"""An end with a full queue and a slow scorer, against a real mosquitto: soon, and what was not decided comes again."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from stream_occ.artifacts import load_model
from stream_occ.config import Config
from stream_occ.messages import CountersMessage
from stream_occ.pipeline import Pipeline
from stream_occ.running import run
from stream_occ.samples import NS_PER_S, SampleBlock
from tests.integration.broker import Broker
from tests.integration.detector import Watcher, wait_until
from tests.service_model import payload, walking

pytestmark = [pytest.mark.broker, pytest.mark.slow]

N_MESSAGES, N_SAMPLES = 1500, 12
S_PER_SAMPLE = 0.002  # 36 s for all


class Running:
    """The service in a thread of its own."""

    def __init__(self, config: Config, model: Path) -> None:
        self.stop, self.told = threading.Event(), list[CountersMessage]()
        ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(config, model, ready))
        self._thread.start()
        assert ready.wait(20)

    def _run(self, config: Config, model: Path, ready: threading.Event) -> None:
        said = lambda _: ready.set()  # noqa: E731
        self.told.append(run(config, load_model(model), client_id="stopped", stop=self.stop, on_ready=said))

    def end(self) -> float:
        """How long it takes, s."""
        started_s = time.monotonic()
        self.stop.set()
        self._thread.join(60)
        assert self.told
        return time.monotonic() - started_s


@pytest.mark.parametrize("is_durable", [True, False])
def test_end_with_a_full_queue_and_a_slow_scorer_takes_less_than_5_s(
    broker: Broker, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_durable: bool
) -> None:
    """36 s of work wait. Where the broker keeps the session the next start takes the rest: none lost, none doubled."""
    step, is_slow = Pipeline.step, True

    def slow_step(self: Pipeline, state: object, blocks: list[SampleBlock], *rest: object, **named: object) -> object:
        time.sleep(is_slow * S_PER_SAMPLE * sum(len(block) for block in blocks))
        return step(self, state, blocks, *rest, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Pipeline, "step", slow_step)
    data = {
        "mqtt": {"port": broker.port},
        "inputs": [{"pattern": "wearables/{device}/imu"}],
        "state": {"enabled": is_durable, "path": str(tmp_path / "state.db")},
    }
    config = Config.model_validate_json(json.dumps(data), strict=True)
    with Watcher(broker.port) as watcher:
        running = Running(config, model_file)
        whole = walking("w1", N_MESSAGES * N_SAMPLES, t0_ns=time.time_ns() - N_MESSAGES * N_SAMPLES * NS_PER_S // 50)
        for i in range(N_MESSAGES):
            rows = slice(N_SAMPLES * i, N_SAMPLES * (i + 1))
            part = SampleBlock("w1", whole.t_ns[rows], whole.acc_ms2[rows], whole.gyr_rads[rows])
            sent = watcher.client.publish("wearables/w1/imu", payload(part), qos=1)
        sent.wait_for_publish(30)
        time.sleep(1.0)
        assert running.end() < 5.0
        assert running.told[0].windows < N_MESSAGES * N_SAMPLES // 100
        assert watcher.last["stream_occ/bridge/edge/status"] == b"offline"
        if not is_durable:
            return
        is_slow = False
        running = Running(config, model_file)

        def n_samples() -> int:
            counters = watcher.json("stream_occ/w1/state").get("counters", {})
            return int(np.sum([counters.get("samples", 0)]))

        wait_until(lambda: n_samples() >= N_MESSAGES * N_SAMPLES, "the rest", timeout_s=40)
        running.end()
        assert n_samples() == N_MESSAGES * N_SAMPLES
        counters = watcher.json("stream_occ/w1/state")["counters"]
        assert not {"gap", "duplicate", "late"} & set(counters)
