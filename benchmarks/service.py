"""How soon the service decides, and how much of a core it needs: devices at 50 Hz through a real mosquitto.

    python benchmarks/service.py --devices 100 --samples 10 --seconds 60 --json service.json

`detect` runs on one core; mosquitto and this process, which plays the devices, on the others. Inside `detect` three
instants are noted of each window: the message with its last sample arrives (the MQTT client's callback), it is decided
(the pipeline's step returns), its score is handed to the client. `sent_to_score_ms` runs from before that message is
handed to the sender's client until the score has come back, so the broker (twice) and this process are in it: what the
callback hides shows there. The model is the default one (fall31, `fused`, 4.5 s every 0.5 s), fitted on as many
synthetic windows as MobiFall has; --model takes any other.
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
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from stream_occ.codecs import load_codec
from stream_occ.samples import NS_PER_S, FloatArray, IntArray, SampleBlock

RATE_HZ = 50.0
WARM_UP_S = 8.0
MOBIFALL_WINDOWS = 15_050  # normal ones, 4.5 s every 0.5 s
Noted = tuple[str, int, float]  # device, a stamp, when on the monotonic clock


def walking(device: str, k: IntArray, t_ns: IntArray, rng: np.random.Generator) -> SampleBlock:
    """Samples k of a person who walks."""
    phase = 2 * np.pi * 1.8 * k / RATE_HZ
    acc = np.stack([0.8 * np.sin(phase), 0.6 * np.cos(phase), 9.81 + 2.0 * np.sin(2 * phase)], axis=1)
    gyr = np.stack([0.5 * np.sin(phase), 0.3 * np.cos(phase), 0.2 * np.sin(2 * phase)], axis=1)
    noise = rng.normal(size=(2, len(k), 3))
    return SampleBlock(device, t_ns, acc + 0.3 * noise[0], gyr + 0.1 * noise[1])


def make_model(path: Path, n_rows: int, detector: str | None = None) -> None:
    """A detector by its preset's name, or the default one, on n_rows windows of walking."""
    from stream_occ.artifacts import save_model
    from stream_occ.detectors import preset, preset_scaling
    from stream_occ.detectors.scaling import fit_scaler
    from stream_occ.features import design_lowpass, load
    from stream_occ.scoring import Model
    from stream_occ.training.config import TrainingConfig
    from stream_occ.windowing import cut_windows

    default, rng = TrainingConfig(), np.random.default_rng(0)
    features = load(default.feature_set)
    sos = design_lowpass(features, RATE_HZ)
    k = np.arange(round((n_rows * default.hop_s + default.window_s) * RATE_HZ))
    stream = walking("train", k, np.rint(k * NS_PER_S / RATE_HZ).astype(np.int64), rng)
    windows = cut_windows(stream, rate_hz=RATE_HZ, window_s=default.window_s, hop_s=default.hop_s, sos=sos)
    X = features.extract(windows)[:n_rows]
    name = default.detector.name if detector is None else detector
    scaler = fit_scaler(X, preset_scaling(name))
    fitted = preset(name, random_state=0, feature_names=features.NAMES).fit(scaler.transform(X))
    scorer, threshold = fitted.to_scorer(), 1e3  # no alerts: they are rare in life
    made = Model("", features, RATE_HZ, default.window_s, default.hop_s, sos, scaler, scorer, threshold, {"seed": 0})
    save_model(made, path, self_test_X=X[:8])


# ---- the service, with a note of each instant


def serve(config: Path, notes: Path) -> None:
    """`stream-occ detect`; what it noted is written when it has ended."""
    from stream_occ.cli.detect import command
    from stream_occ.intake import Intake
    from stream_occ.mqtt import MqttLink
    from stream_occ.pipeline import Pipeline

    arrived: list[Noted] = []
    decided: list[Noted] = []
    handed: list[float] = []
    accept, step, publish = Intake.accept, Pipeline.step, MqttLink.publish

    def accepting(self: Intake, message: Any, **clocks: Any) -> Any:
        blocks = accept(self, message, **clocks)
        arrived.extend((block.device_id, int(block.t_ns[-1]), message.arrived_s) for block in blocks)
        return blocks

    def stepping(*arguments: Any, **options: Any) -> Any:
        result = step(*arguments, **options)
        now_s = time.monotonic()
        decided.extend((decision.device_id, decision.t_end_ns, now_s) for decision in result[1])
        return result

    def publishing(self: MqttLink, topic: str, *arguments: Any, **options: Any) -> bool:
        if topic.endswith("/score"):  # one a decision, in the same order
            handed.append(time.monotonic())
        return publish(self, topic, *arguments, **options)

    Intake.accept, Pipeline.step, MqttLink.publish = accepting, stepping, publishing  # type: ignore[method-assign]
    command(config, None, notes.with_suffix(".counters"))
    notes.write_text(json.dumps({"arrived": arrived, "decided": decided, "handed": handed}))


# ---- the devices, and who listens


class Scores:
    """Notes when the score of each window came back."""

    def __init__(self, port: int) -> None:
        self.arrived: list[Noted] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda c, *_: c.subscribe("stream_occ/+/score", 0)
        self.client.on_message = self._note
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _note(self, _client: Any, _user: Any, message: paho.MQTTMessage) -> None:
        now_s = time.monotonic()
        self.arrived.append((message.topic.split("/")[1], json.loads(message.payload)["t_ns"], now_s))


def play(port: int, phases: FloatArray, seconds: float, n_samples: int, *, is_numbered: bool) -> list[Noted]:
    """Sends each device's samples in real time, n_samples a message; returns the last stamp of each, and when sent.

    phases: at which share of the period each device sends; is_numbered: messages have numbers, which are to be told.
    """
    codec = load_codec("json")
    client = paho.Client(CallbackAPIVersion.VERSION2)
    client.connect("127.0.0.1", port)
    client.loop_start()
    rng = np.random.default_rng(1)
    sent: list[Noted] = []
    period_s = n_samples / RATE_HZ
    started_s, started_ns = time.monotonic(), time.time_ns()
    turns = sorted(
        (period_s * (turn + phase), d, turn)
        for turn in range(int(seconds / period_s))
        for d, phase in enumerate(phases)
    )
    for due_s, d, turn in turns:
        wait_s = started_s + due_s - time.monotonic()
        if wait_s > 0:
            time.sleep(wait_s)
        k = np.arange(turn * n_samples, (turn + 1) * n_samples)
        t_ns = started_ns + np.rint(((k - n_samples) / RATE_HZ + period_s * phases[d]) * NS_PER_S).astype(np.int64)
        block = walking(f"d{d}", k, t_ns, rng)
        payload = codec.encode(replace(block, number=("b", turn)) if is_numbered else block)
        sent.append((f"d{d}", int(t_ns[-1]), time.monotonic()))
        client.publish(f"wearables/d{d}/imu", payload, qos=1)
    client.loop_stop()
    return sent


def waits_ms(sources: Sequence[Noted], windows: Sequence[Noted], since_s: float) -> FloatArray:
    """From each window's last sample, in the message that is the first to reach its end, to its instant."""
    stamps: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for device, stamp, at_s in sources:
        stamps[device].append((stamp, at_s))
    found = []
    for device, t_end_ns, at_s in windows:
        own = stamps[device]
        i = int(np.searchsorted([stamp for stamp, _ in own], t_end_ns))
        if i < len(own) and own[i][1] >= since_s:
            found.append(1000 * (at_s - own[i][1]))
    return np.array(found)


def spread(values: FloatArray) -> dict[str, float]:
    """What is reported of a set of delays."""
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {name: round(float(v), 1) for name, v in (("p50", p50), ("p95", p95), ("p99", p99), ("max", values.max()))}


# ---- one run


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(folder: Path, mosquitto: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """One run's figures."""
    port, cores = free_port(), sorted(os.sched_getaffinity(0))
    if arguments.model is None:
        make_model(folder / "bench.occ", arguments.rows)
    as_root = "user root\n" if os.geteuid() == 0 else ""
    (folder / "mosquitto.conf").write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\n{as_root}log_dest none\nset_tcp_nodelay true\n"
    )
    (folder / "edge.yaml").write_text(
        f"mqtt: {{port: {port}, client_id: bench}}\nstate: {{path: state.db}}\n"
        f"inputs: [{{pattern: 'wearables/{{device}}/imu'}}]\n"
        f"model: {'bench.occ' if arguments.model is None else arguments.model.resolve()}\nlog: {{level: warning}}\n"
        f"output: {{publish_score: true{f', slice_s: {arguments.slice_s}' if arguments.slice_s else ''}}}\n"
        f"limits: {{max_devices: {arguments.devices + 10}}}\n"
    )
    if len(cores) > 1:
        os.sched_setaffinity(0, cores[1:])
    broker = subprocess.Popen([mosquitto, "-c", str(folder / "mosquitto.conf")])
    time.sleep(0.5)
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, __file__, "--serve", str(folder / "edge.yaml")]
    service = subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: os.sched_setaffinity(0, cores[:1]),
    )
    try:
        assert service.stdout is not None
        assert service.stdout.readline().startswith("ready:")
        scores, process = Scores(port), psutil.Process(service.pid)
        rng = np.random.default_rng(2)
        phases = rng.random(arguments.devices) if arguments.phases == "random" else np.zeros(arguments.devices)
        sent: list[Noted] = []
        seconds = arguments.seconds + WARM_UP_S
        player = threading.Thread(
            target=lambda: sent.extend(play(port, phases, seconds, arguments.samples, is_numbered=arguments.numbered))
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
    finally:
        for child in (service, broker):
            _end(child)
    noted = json.loads((folder / "notes.json").read_text())
    counters = json.loads((folder / "notes.counters").read_text())
    handed = [(name, stamp, at_s) for (name, stamp, _), at_s in zip(noted["decided"], noted["handed"], strict=True)]
    decided_ms = waits_ms(noted["arrived"], noted["decided"], before_s)
    return {
        "devices": arguments.devices,
        "rate_hz": RATE_HZ,
        "samples_a_message": arguments.samples,
        "phases": arguments.phases,
        "numbered": arguments.numbered,
        "model": str(arguments.model or f"default, {arguments.rows} synthetic windows"),
        "seconds": arguments.seconds,
        "n_windows": len(decided_ms),
        "arrival_to_decision_ms": spread(decided_ms),
        "arrival_to_handed_over_ms": spread(waits_ms(noted["arrived"], handed, before_s)),
        "sent_to_score_ms": spread(waits_ms(sent, scores.arrived, before_s)),
        "cpu_share_of_one_core": round(
            (after.user + after.system - before.user - before.system) / (after_s - before_s), 3
        ),
        "rss_mb": round(rss_mb, 1),
        "messages_sent": len(sent),
        "messages_received": counters["messages"],
        "refused": counters["refused"],
        "dropped": counters["dropped"],
        "cpu_model": _cpu_model(),
    }


def _end(child: subprocess.Popen[Any]) -> None:
    child.terminate()
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")


def main() -> int:
    """Prints the figures, and writes them to --json; exit code 1 where p99 is not below --p99-ms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--samples", type=int, default=10, help="a message")
    parser.add_argument("--phases", choices=("random", "equal"), default="random", help="equal: all send at once")
    parser.add_argument("--numbered", action="store_true", help="devices number their messages: a save every second")
    parser.add_argument("--rows", type=int, default=MOBIFALL_WINDOWS, help="training windows in the model")
    parser.add_argument("--model", type=Path, help="a model file in place of the default detector")
    parser.add_argument("--slice-s", type=float, help="output.slice_s, where not its default")
    parser.add_argument("--p99-ms", type=float, help="bar for arrival to decision")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve, arguments.serve.with_name("notes.json"))
        return 0
    mosquitto = shutil.which("mosquitto", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if mosquitto is None:
        print("mosquitto not found on PATH")
        return 1
    with tempfile.TemporaryDirectory() as name:
        figures = run(Path(name), mosquitto, arguments)
    print(json.dumps(figures, indent=2))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(arguments.p99_ms is not None and figures["arrival_to_decision_ms"]["p99"] >= arguments.p99_ms)


if __name__ == "__main__":
    sys.exit(main())
