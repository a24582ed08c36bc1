"""What is lost and doubled while broker, detector and receiver are killed (SIGKILL) at random instants.

    python benchmarks/faults.py --kills 100 --json faults.json
    python benchmarks/faults.py --kills 100 --broker-keeps nothing

A sender plays devices that number their messages and send again what they are not told of; each device falls once. A
receiver keeps each event in a file of its own, then says that it has it. Afterwards the files are compared: what was
sent with what the detector took, and what it told with what the receiver has. Exit code 1 where they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from paho.mqtt import client as paho  # noqa: E402
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion  # noqa: E402
from paho.mqtt.packettypes import PacketTypes  # noqa: E402
from paho.mqtt.properties import Properties  # noqa: E402

from stream_occ.store import Store  # noqa: E402
from tests.integration.broker import Broker  # noqa: E402
from tests.integration.detector import Detector, Watcher  # noqa: E402
from tests.service_model import make_model, payload, tumbling, walking  # noqa: E402

N_SAMPLES = 10  # of a message: five messages a second
PERIOD_S = N_SAMPLES / 50
WINDOW_SAMPLES, HOP_SAMPLES = 50, 25
FALL_MESSAGES = 10
WINDOW_MESSAGES = 200  # sent beyond what the device was told of
RESEND_S = 3.0
NOT_FROM_FILE = ("#", "listener", "allow_anonymous", "persistence_location")
SHIPPED = (REPO / "configs" / "mosquitto.conf").read_text().splitlines()
KEEPS = {"nothing": "", "everything": "".join(f"{x}\n" for x in SHIPPED if x and not x.startswith(NOT_FROM_FILE))}
EVENTS = {"k": 2, "n": 3, "check": False, "countdown_s": 2.0, "repeat_s": 5.0, "refractory_s": 3600.0}
DRAIN_S = 90.0


# ---- the sender: devices with a memory


@dataclass
class Device:
    """One that numbers, keeps and sends again."""

    name: str
    fall_at: int
    told: int = -1
    next_seq: int = 0
    progress_s: float = 0.0
    n_sent: int = 0


def run_sender(port: int, folder: Path, n_devices: int, fall_spacing: float) -> None:
    """Sends in real time until the file `stop` is there and all is told of; writes what it sent into sender.json."""
    devices = {f"d{i}": Device(f"d{i}", 15 + round(i * fall_spacing)) for i in range(n_devices)}
    client = _client("sender", port)

    def told(_c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        device, content = devices[message.topic.split("/")[1]], json.loads(message.payload)
        if content["seq"] > device.told:
            device.told, device.progress_s = content["seq"], time.monotonic()

    client.on_message = told
    client.on_connect = lambda c, *_: c.subscribe("stream_occ/+/received_up_to", 0)
    client.loop_start()
    t0_ns, t0_s = time.time_ns(), time.monotonic()
    n_due, is_over = 0, False
    while not is_over or any(device.told < n_due - 1 for device in devices.values()):
        if not is_over:
            n_due = int((time.monotonic() - t0_s) / PERIOD_S)
            is_over = (folder / "stop").exists()
        for device in devices.values() if client.is_connected() else ():
            now_s = time.monotonic()
            if device.told < device.next_seq - 1 and now_s - device.progress_s > RESEND_S:
                device.next_seq, device.progress_s = device.told + 1, now_s
            device.next_seq = max(device.next_seq, device.told + 1)
            while device.next_seq < min(n_due, device.told + 1 + WINDOW_MESSAGES):
                seq = device.next_seq
                kind = tumbling if device.fall_at <= seq < device.fall_at + FALL_MESSAGES else walking
                block = kind(device.name, N_SAMPLES, t0_ns=t0_ns, first=N_SAMPLES * seq)
                message = payload(replace(block, number=("b", seq)))
                client.publish(f"wearables/{device.name}/imu", message, qos=1)
                device.next_seq, device.n_sent = seq + 1, device.n_sent + 1
        time.sleep(0.02)
    client.loop_stop()
    sent = {"messages_each": n_due, "sent_in_all": sum(device.n_sent for device in devices.values())}
    (folder / "sender.part").write_text(json.dumps(sent))
    (folder / "sender.part").rename(folder / "sender.json")


# ---- the receiver: keeps, then says so


def run_receiver(port: int, folder: Path, name: str) -> None:
    """Keeps each event once, then says that it has it; ends when it is killed."""
    db = sqlite3.connect(folder / f"{name}.db", check_same_thread=False, isolation_level=None)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("CREATE TABLE IF NOT EXISTS got (alert_id, seq, state, n, PRIMARY KEY (alert_id, seq))")
    client = _client(name, port, manual_ack=True)

    def heard(c: paho.Client, _u: Any, message: paho.MQTTMessage) -> None:
        event = json.loads(message.payload)
        key = event["alert_id"], event["seq"]
        db.execute(
            "INSERT INTO got VALUES (?, ?, ?, 1) ON CONFLICT DO UPDATE SET n = n + 1", (*key, event["event_type"])
        )
        c.ack(message.mid, message.qos)
        receipt = json.dumps({"alert_id": key[0], "seq": key[1], "receiver": name})
        c.publish(f"stream_occ/{message.topic.split('/')[1]}/set/received", receipt, qos=1)

    client.on_message = heard
    client.on_connect = lambda c, *_: c.subscribe("stream_occ/+/event", 1)
    client.loop_forever(retry_first_connection=True)


def _client(name: str, port: int, **options: Any) -> paho.Client:
    client = paho.Client(CallbackAPIVersion.VERSION2, name, protocol=MQTTProtocolVersion.MQTTv5, **options)
    client.reconnect_delay_set(1, 1)
    client.max_inflight_messages_set(1000)
    properties = Properties(PacketTypes.CONNECT)
    properties.SessionExpiryInterval = 3600
    client.connect_async("127.0.0.1", port, clean_start=False, properties=properties)
    return client


# ---- the harness


@dataclass
class Stage:
    """All processes over one folder."""

    folder: Path
    broker: Broker
    detector: Detector
    port: int
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    kills: Counter[str] = field(default_factory=Counter)

    def start_child(self, role: str, *more: str) -> None:
        """The sender or the receiver."""
        command = [sys.executable, __file__, "--role", role, "--port", str(self.port), "--folder", str(self.folder)]
        self.children[role] = subprocess.Popen([*command, *more], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.kills[name] += 1
        if name == "broker":
            self.broker.stop(kill=True)
        elif name == "detector":
            process = self.detector.process
            assert process is not None
            assert process.stdout is not None
            process.kill()
            process.wait()
            process.stdout.close()
        else:
            self.children[name].kill()
            self.children[name].wait()

    def start(self, name: str) -> None:
        """The same again."""
        if name == "broker":
            self.broker.run()
        elif name == "detector":
            self.detector.start(is_ready=False)
        else:
            self.start_child(name)

    def close(self) -> None:
        """Ends whatever still runs."""
        for child in self.children.values():
            child.kill()
            child.wait()


def run(folder: Path, *, n_kills: int, seed: int, n_devices: int, broker_keeps: str) -> dict[str, Any]:
    """One run; the figures, of which `lost_*` and `doubled_*` should be 0."""
    rng = random.Random(seed)
    waits_s = [rng.uniform(0.5, 3.0) for _ in range(n_kills)]
    model = make_model(folder)
    (folder / "broker").mkdir()
    extra = KEEPS[broker_keeps] + (f"persistence_location {folder / 'broker'}/\n" if KEEPS[broker_keeps] else "")
    broker = Broker.start(folder / "broker", extra=extra)
    inputs = [{"pattern": "wearables/{device}/imu", "resends": True}]
    with Detector(
        folder, broker.port, model, events=EVENTS, inputs=inputs, receivers=["receiver"], log={"level": "warning"}
    ) as detector:
        stage = Stage(folder, broker, detector, broker.port)
        try:
            stage.start_child("receiver")
            spacing = sum(waits_s) * 1.2 / PERIOD_S / n_devices
            stage.start_child("sender", "--devices", str(n_devices), "--fall-spacing", str(spacing))
            for wait_s in waits_s:
                time.sleep(wait_s)
                one = rng.choice(["broker", "detector", "receiver"])
                names = ["broker", "detector", "receiver"] if rng.random() < 0.15 else [one]
                for name in names:
                    stage.kill(name)
                time.sleep(rng.uniform(0.1, 1.0))
                for name in names:
                    stage.start(name)
            return _settle(stage, n_devices, round(15 + n_devices * spacing))
        finally:
            stage.close()
            broker.stop()


def _settle(stage: Stage, n_devices: int, last_fall: int) -> dict[str, Any]:
    """Nothing is killed any more: every alert is acknowledged by a person, all comes to rest, and is compared."""
    folder = stage.folder
    started_s = time.monotonic()
    while True:  # until the last device has fallen and everyone has an open alert
        with Watcher(stage.port, "stream_occ/+/alert") as watcher:
            time.sleep(1.0)
            is_open = [json.loads(text or b"{}").get("state") == "alarm" for text in watcher.last.values()]
            if sum(is_open) == n_devices or time.monotonic() - started_s > DRAIN_S + last_fall * PERIOD_S:
                for i in range(n_devices):
                    watcher.send(f"stream_occ/d{i}/set/ack", b'{"by": "harness"}')
                break
    (folder / "stop").touch()
    deadline_s = time.monotonic() + DRAIN_S
    while time.monotonic() < deadline_s and not ((folder / "sender.json").exists() and _n_waiting(folder) == 0):
        time.sleep(0.2)
    assert stage.detector.stop() == 0, stage.detector.log.read_text()[-2000:]
    return _compared(stage, n_devices)


def _n_waiting(folder: Path) -> int:
    with sqlite3.connect(f"file:{folder / 'state.db'}?mode=ro", uri=True) as db:
        n: int = db.execute("SELECT count(*) FROM outbox").fetchone()[0]
    db.close()
    return n


def _compared(stage: Stage, n_devices: int) -> dict[str, Any]:
    folder = stage.folder
    sent = json.loads((folder / "sender.json").read_text())
    n_samples = sent["messages_each"] * N_SAMPLES
    n_windows = max(0, (n_samples - WINDOW_SAMPLES) // HOP_SAMPLES + 1)
    store = Store(folder / "state.db")
    states = {name: saved.state for name, saved in store.devices().items()}
    told = {(alert.alert_id, alert.seq): alert for i in range(n_devices) for alert in store.history(f"d{i}")}
    store.close()
    with sqlite3.connect(folder / "receiver.db") as db:
        got = {(alert_id, seq): n for alert_id, seq, n in db.execute("SELECT alert_id, seq, n FROM got")}
    db.close()
    counters = [state.resampler.counters for state in states.values() if state is not None]
    alerts = Counter(device_id for _, device_id in {(alert.alert_id, alert.device_id) for alert in told.values()})
    return {
        "kills": dict(stage.kills),
        "devices": n_devices,
        "samples_sent": n_samples * n_devices,
        "messages_sent_again": sent["sent_in_all"] - sent["messages_each"] * n_devices,
        "lost_samples": n_samples * n_devices - sum(c.n_samples - c.late - c.duplicate for c in counters),
        "doubled_samples": sum(c.late + c.duplicate for c in counters),
        "holes": sum(c.gap + c.interpolated + c.clock_reset for c in counters),
        "windows": sum(state.n_windows for state in states.values() if state is not None),
        "lost_windows": n_windows * n_devices - sum(s.n_windows for s in states.values() if s is not None),
        "falls": n_devices,
        "lost_alerts": n_devices - len(alerts),
        "doubled_alerts": sum(alerts.values()) - len(alerts),
        "events_told": len(told),
        "lost_events": len(told.keys() - got.keys()),
        "invented_events": len(got.keys() - told.keys()),
        "events_delivered_again": sum(got.values()) - len(got),
    }


def failures(figures: dict[str, Any]) -> list[str]:
    """What should be 0 and is not."""
    return [
        name
        for name, value in figures.items()
        if name.startswith(("lost_", "doubled_", "invented_", "holes")) and value != 0
    ]


def main() -> int:
    """Prints the figures, and writes them to --json."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--devices", type=int, default=20)
    parser.add_argument("--broker-keeps", choices=sorted(KEEPS), default="everything")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--role", choices=["sender", "receiver"], help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--fall-spacing", type=float, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.role == "sender":
        run_sender(arguments.port, arguments.folder, arguments.devices, arguments.fall_spacing)
        return 0
    if arguments.role == "receiver":
        run_receiver(arguments.port, arguments.folder, "receiver")
        return 0
    with tempfile.TemporaryDirectory() as name:
        figures = run(
            Path(name),
            n_kills=arguments.kills,
            seed=arguments.seed,
            n_devices=arguments.devices,
            broker_keeps=arguments.broker_keeps,
        )
    print(json.dumps(figures, indent=2))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return 1 if failures(figures) else 0


if __name__ == "__main__":
    sys.exit(main())
