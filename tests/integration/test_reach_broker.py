"""`stream-occ train`, then `stream-occ detect` on a real mosquitto: a sensor narrower than training's is told."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from stream_occ.cli import run
from stream_occ.datasets.recording import RecordingWriter
from stream_occ.samples import NS_PER_S, SampleBlock
from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload

pytestmark = pytest.mark.broker

NARROW, WIDE = 19.6, 78.4  # m/s2: 2 g and 8 g


def jumping(device_id: str, n: int, *, t0_ns: int, seed: int) -> SampleBlock:
    """Somebody who jumps: a sensor at 50 Hz that swings up to 9.8 + 25 m/s2."""
    rng, t_s = np.random.default_rng(seed), np.arange(n) / 50
    swing = 25 * np.sin(2 * np.pi * 1.5 * t_s)
    acc = np.column_stack([swing / 5, swing / 8, 9.8 + swing]) + rng.normal(0, 0.3, (n, 3))
    gyr = np.column_stack([swing, -swing, swing / 2]) / 20 + rng.normal(0, 0.1, (n, 3))
    return SampleBlock(device_id, t0_ns + np.arange(n) * (NS_PER_S // 50), acc, gyr)


@pytest.fixture
def jumpers(tmp_path: Path) -> Path:
    """A model of three jumpers, trained by the command on recordings of a sensor of 8 g."""
    folder = tmp_path / "jumps"
    folder.mkdir()
    for seed, name in enumerate(("anna", "bert", "cleo")):
        with RecordingWriter(folder / name, name, activity="jump", full_scale=(WIDE, np.inf)) as writer:
            writer.append(jumping(name, 3000, t0_ns=0, seed=seed))
    out = tmp_path / "jumps.occ"
    fast = ["--detector", "11NN", "--scaler", "z-score", "--window-s", "2"]
    assert run(["train", "--dataset", "recording", "--data", str(folder), "--out", str(out), *fast]) == 0
    return out


def test_narrower_sensors_are_told_in_log_and_state_and_cost_no_verdict(
    broker: Broker, jumpers: Path, tmp_path: Path
) -> None:
    """One model, two inputs that send the same: that of 2 g is named and counted, that of 8 g is not; scores agree."""
    inputs = [
        {"pattern": "narrow/{device}", "profile": {"acc_range_ms2": NARROW}},
        {"pattern": "wide/{device}", "profile": {"acc_range_ms2": WIDE}},
    ]
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, jumpers, inputs=inputs) as detector:
        t0_ns = time.time_ns() - 20 * NS_PER_S
        walk = jumping("any", 500, t0_ns=t0_ns, seed=9)
        calm = SampleBlock("any", walk.t_ns, walk.acc_ms2 * [1, 1, 0.1] + [0, 0, 8.8], walk.gyr_rads)  # within 2 g
        for name in ("narrow", "wide"):
            watcher.send(f"{name}/{name}", payload(SampleBlock(name, calm.t_ns, calm.acc_ms2, calm.gyr_rads)))
            topic = f"stream_occ/{name}/state"
            wait_until(lambda t=topic: watcher.json(t).get("counters", {}).get("windows", 0) > 10, f"windows of {name}")
        states = {name: watcher.json(f"stream_occ/{name}/state") for name in ("narrow", "wide")}
        log = detector.log.read_text()
    assert "range_too_low" in states["narrow"]["faults"]
    assert states["narrow"]["counters"]["range_too_low"] == 1
    assert "range_too_low" not in states["wide"]["faults"]
    assert "range_too_low" not in states["wide"]["counters"]
    assert (states["narrow"]["score"], states["narrow"]["state"]) == (states["wide"]["score"], states["wide"]["state"])
    [line] = [line for line in log.splitlines() if "range_too_low" in line]
    assert "inputs narrow/{device}: model" in line
    assert "acc ends at 19.6 m/s2, and normal recordings reach 3" in line  # 34.8 m/s2 and noise
    assert "warning" in line.lower()


def test_model_without_a_range_is_compared_with_nothing(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """As those of older releases: one line of information at the start, and no fault."""
    profile = {"acc_range_ms2": 1.0, "gyr_range_rads": 0.1}
    with (
        Watcher(broker.port) as watcher,
        Detector(
            tmp_path, broker.port, model_file, inputs=[{"pattern": "wearables/{device}/imu", "profile": profile}]
        ) as detector,
    ):
        block = jumping("w1", 200, t0_ns=time.time_ns() - 5 * NS_PER_S, seed=1)
        watcher.send("wearables/w1/imu", payload(block))
        faults = wait_until(lambda: watcher.json("stream_occ/w1/state").get("faults"), "a state")
        lines = [line for line in detector.log.read_text().splitlines() if "no input is compared" in line]
    assert "range_too_low" not in faults
    assert len(lines) == 1
    assert "info" in lines[0].lower()
