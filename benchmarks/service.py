"""How much of a core the service needs, and how soon it decides: devices at 50 Hz through mosquitto.

    python benchmarks/service.py --devices 100 --seconds 60 --json service.json

`detect` runs in a process bound to one core; this process plays the devices and listens to the scores on the others.
Latency runs from the moment before the message that completes a window is handed to the sender's client until the score
has come back, so the broker (twice), the service's slice (--slice-s) and the sender's own delays are in it. With small
--batch the sender, one Python process, is the first to fall behind: look at the CPU share then, not at the latency.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from stream_occ.artifacts import save_model
from stream_occ.codecs import load_codec
from stream_occ.features import design_lowpass, load
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.scoring import Model, Scaler
from stream_occ.scoring.ocnn_ensemble import FrozenScorer
from stream_occ.windowing import cut_windows

RATE_HZ = 50.0
WARM_UP_S = 8.0


def walking(device: str, k: np.ndarray, t_ns: np.ndarray, rng: np.random.Generator) -> SampleBlock:
    """Samples k of a person who walks."""
    phase = 2 * np.pi * 1.8 * k / RATE_HZ
    acc = np.stack([0.8 * np.sin(phase), 0.6 * np.cos(phase), 9.81 + 2.0 * np.sin(2 * phase)], axis=1)
    gyr = np.stack([0.5 * np.sin(phase), 0.3 * np.cos(phase), 0.2 * np.sin(2 * phase)], axis=1)
    noise = rng.normal(size=(2, len(k), 3))
    return SampleBlock(device, t_ns, acc + 0.3 * noise[0], gyr + 0.1 * noise[1])


def make_model(path: Path, *, n_rows: int, n_members: int) -> None:
    """An ensemble of n_members random projections to 25 dimensions over n_rows training windows (5 s, hop 0.5 s)."""
    rng = np.random.default_rng(0)
    features = load("khan31r")
    sos = design_lowpass(features, RATE_HZ)
    k = np.arange(20_000)
    stream = walking("train", k, np.rint(k * NS_PER_S / RATE_HZ).astype(np.int64), rng)
    X = features.extract(cut_windows(stream, rate_hz=RATE_HZ, window_s=5.0, hop_s=0.5, sos=sos))
    low, high = X.min(axis=0), X.max(axis=0)
    scaler = Scaler("min-max", low, np.where(high > low, high - low, 1.0))
    rows = scaler.transform(X)
    rows = rows[rng.integers(0, len(rows), n_rows)] + 0.05 * rng.normal(size=(n_rows, rows.shape[1]))
    maps = rng.normal(size=(n_members, 25, rows.shape[1])) / 5.0
    own = np.full((n_members, n_rows), 0.3) * rng.uniform(0.8, 1.2, size=(n_members, n_rows))
    scorer = FrozenScorer(
        rows,
        maps=maps,
        own_distance=own,
        n_neighbors=np.full(n_members, 2),
        theta=np.full(n_members, 1.4),
        floor=np.full(n_members, 0.1),
        combine="mean",
    )
    model = Model(
        "", features, RATE_HZ, 5.0, 0.5, sos, scaler, scorer, 100.0, {"seed": 0}
    )  # no alerts: they are rare in life
    save_model(model, path, self_test_X=X[:8])


class Scores:
    """Notes when the score of each window came."""

    def __init__(self, port: int) -> None:
        self.arrived: list[tuple[str, int, float]] = []
        self.counters: dict[str, Any] = {}
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda c, *_: c.subscribe(
            [("stream_occ/+/score", 0), ("stream_occ/bridge/+/counters", 0)]
        )
        self.client.on_message = self._note
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _note(self, _client: Any, _user: Any, message: paho.MQTTMessage) -> None:
        if message.topic.endswith("/counters"):
            self.counters = json.loads(message.payload)
        else:
            self.arrived.append((message.topic.split("/")[1], json.loads(message.payload)["t_ns"], time.monotonic()))


def play(port: int, n_devices: int, seconds: float, batch: int) -> dict[str, list[tuple[int, float]]]:
    """Sends each device's samples in real time, `batch` a message; returns (last stamp, when sent) by device."""
    codec = load_codec("json")
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    rng = np.random.default_rng(1)
    sent: dict[str, list[tuple[int, float]]] = defaultdict(list)
    period_s = batch / RATE_HZ
    started_s, started_ns = time.monotonic(), time.time_ns()
    turns = [
        (round_ * period_s + period_s * d / n_devices, d, round_)
        for round_ in range(int(seconds / period_s))
        for d in range(n_devices)
    ]
    for due_s, d, round_ in turns:
        wait_s = started_s + due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        k = np.arange(round_ * batch, (round_ + 1) * batch)
        t_ns = (
            started_ns
            + round(period_s * d / n_devices * 1e9)
            + np.rint((k - batch) * NS_PER_S / RATE_HZ).astype(np.int64)
        )
        payload = codec.encode(walking(f"d{d}", k, t_ns, rng))
        sent[f"d{d}"].append((int(t_ns[-1]), time.monotonic()))
        client.publish(f"wearables/d{d}/imu", payload, qos=1)
    client.loop_stop()
    return sent


def latencies_s(scores: Scores, sent: dict[str, list[tuple[int, float]]]) -> np.ndarray:
    """From sending the message that completes a window to its score."""
    found = []
    for device, t_end_ns, arrived_s in scores.arrived:
        stamps = [stamp for stamp, _ in sent[device]]
        i = int(np.searchsorted(stamps, t_end_ns))
        if i < len(stamps):
            found.append(arrived_s - sent[device][i][1])
    return np.array(found)


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def main() -> int:
    """Prints the figures, and writes them to --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--batch", type=int, default=25, help="samples a message")
    parser.add_argument("--rows", type=int, default=2000, help="training windows in the model")
    parser.add_argument("--members", type=int, default=25)
    parser.add_argument("--slice-s", type=float, default=0.25)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    mosquitto = shutil.which("mosquitto", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if mosquitto is None:
        print("mosquitto not found on PATH")
        return 1
    with tempfile.TemporaryDirectory() as name:
        figures = run(Path(name), mosquitto, arguments)
    print(json.dumps(figures, indent=2))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 0


def run(folder: Path, mosquitto: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run."""
    port, model = free_port(), folder / "bench.occ"
    make_model(model, n_rows=arguments.rows, n_members=arguments.members)
    as_root = "user root\n" if os.geteuid() == 0 else ""
    (folder / "mosquitto.conf").write_text(f"listener {port} 127.0.0.1\nallow_anonymous true\n{as_root}log_dest none\n")
    (folder / "edge.yaml").write_text(
        f"mqtt: {{port: {port}, client_id: bench}}\nstate: {{path: state.db}}\n"
        f"inputs: [{{pattern: 'wearables/{{device}}/imu'}}]\n"
        f"model: bench.occ\nlog: {{level: warning}}\n"
        f"output: {{publish_score: true, slice_s: {arguments.slice_s}, state_interval_s: 10.0}}\n"
        f"limits: {{max_devices: {arguments.devices + 10}}}\n"
    )
    broker = subprocess.Popen([mosquitto, "-c", str(folder / "mosquitto.conf")])
    time.sleep(0.5)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "stream_occ", "detect", "-c", str(folder / "edge.yaml")]
    service = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    try:
        assert service.stdout is not None
        assert service.stdout.readline().startswith("ready:")
        cores = sorted(os.sched_getaffinity(0))
        process = psutil.Process(service.pid)
        process.cpu_affinity([cores[0]])
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[1:])
        scores = Scores(port)
        result: dict[str, Any] = {}
        player = threading.Thread(
            target=lambda: result.update(play(port, arguments.devices, arguments.seconds + WARM_UP_S, arguments.batch))
        )
        player.start()
        time.sleep(WARM_UP_S)
        before, before_s = process.cpu_times(), time.monotonic()
        time.sleep(arguments.seconds - 1.0)
        after, after_s = process.cpu_times(), time.monotonic()
        rss_mb = process.memory_info().rss / 2**20
        player.join()
        time.sleep(1.0)
        scores.client.loop_stop()
        latency_ms = 1000 * latencies_s(scores, result)
        cpu_s = after.user + after.system - before.user - before.system
        return {
            "devices": arguments.devices,
            "rate_hz": RATE_HZ,
            "samples_a_message": arguments.batch,
            "model_rows": arguments.rows,
            "model_members": arguments.members,
            "slice_s": arguments.slice_s,
            "seconds": arguments.seconds,
            "cpu_share_of_one_core": round(cpu_s / (after_s - before_s), 4),
            "rss_mb": round(rss_mb, 1),
            "n_windows": len(latency_ms),
            "windows_a_second_expected": arguments.devices / 0.5,
            "latency_ms_p50": round(float(np.percentile(latency_ms, 50)), 1),
            "latency_ms_p99": round(float(np.percentile(latency_ms, 99)), 1),
            "latency_ms_max": round(float(latency_ms.max()), 1),
            "refused": scores.counters.get("refused", {}),
            "dropped": scores.counters.get("dropped", {}),
            "cpu_model": next(
                (
                    line.split(":")[1].strip()
                    for line in Path("/proc/cpuinfo").read_text().splitlines()
                    if "model name" in line
                ),
                "unknown",
            ),
        }
    finally:
        for child in (service, broker):
            child.terminate()
            try:
                child.wait(30)
            except subprocess.TimeoutExpired:
                child.kill()


if __name__ == "__main__":
    sys.exit(main())
