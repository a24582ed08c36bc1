"""The two ends of the fault harness, each a process: devices that send and keep, a receiver that keeps and says so.

Run by fault_parts/stage.py.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO))

from paho.mqtt import client as paho  # noqa: E402
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion  # noqa: E402
from paho.mqtt.packettypes import PacketTypes  # noqa: E402
from paho.mqtt.properties import Properties  # noqa: E402

from tests.service_model import payload, tumbling, walking  # noqa: E402

N_SAMPLES = 10  # of a message: five messages a second
PERIOD_S = N_SAMPLES / 50
FIRST_FALL = 15  # messages before the first device falls
FALL_MESSAGES = 10
WINDOW_MESSAGES = 200  # sent beyond what the device was told of
# Told nothing new a device sends again after so long, at first and at most. Without back-off what is sent twice fills
# the broker's queue faster than a busy machine empties it, and the new is never reached.
RESEND_S, MAX_RESEND_S = 3.0, 12.0


@dataclass
class Device:
    """One that numbers, keeps and sends again."""

    name: str
    fall_at: int
    told: int = -1
    next_seq: int = 0
    progress_s: float = 0.0
    resend_s: float = RESEND_S
    n_sent: int = 0


def run_sender(port: int, folder: Path, n_devices: int, fall_spacing: float, *, forgets: bool) -> None:
    """Sends in real time until the file `stop` is there and all is told of; writes what it sent into sender.json.

    forgets: devices that neither number nor keep: what the broker has taken is gone from them.
    """
    devices = {f"d{i}": Device(f"d{i}", FIRST_FALL + round(i * fall_spacing)) for i in range(n_devices)}
    client = _client("sender", port)

    def told(_c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        device, content = devices[message.topic.split("/")[1]], json.loads(message.payload)
        if content["seq"] > device.told:
            device.told, device.progress_s, device.resend_s = content["seq"], time.monotonic(), RESEND_S

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
            if device.told < device.next_seq - 1 and now_s - device.progress_s > device.resend_s:
                device.next_seq, device.progress_s = device.told + 1, now_s
                device.resend_s = min(2 * device.resend_s, MAX_RESEND_S)
            device.next_seq = max(device.next_seq, device.told + 1)
            while device.next_seq < min(n_due, device.told + 1 + WINDOW_MESSAGES):
                seq = device.next_seq
                kind = tumbling if device.fall_at <= seq < device.fall_at + FALL_MESSAGES else walking
                block = kind(device.name, N_SAMPLES, t0_ns=t0_ns, first=N_SAMPLES * seq)
                message = payload(block if forgets else replace(block, number=("b", seq)))
                client.publish(f"wearables/{device.name}/imu", message, qos=1)
                device.next_seq, device.n_sent = seq + 1, device.n_sent + 1
                device.told = seq if forgets else device.told
        time.sleep(0.02)
    client.loop_stop()
    sent = {
        "t0_ns": t0_ns,
        "messages_each": n_due,
        "sent_in_all": sum(device.n_sent for device in devices.values()),
        "fall_at": {device.name: device.fall_at for device in devices.values()},
    }
    (folder / "sender.part").write_text(json.dumps(sent))
    (folder / "sender.part").rename(folder / "sender.json")


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


def main() -> None:
    """One of the two."""
    parser = argparse.ArgumentParser()
    parser.add_argument("role", choices=["sender", "receiver"])
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--devices", type=int, default=0)
    parser.add_argument("--fall-spacing", type=float, default=0.0)
    parser.add_argument("--forgets", action="store_true")
    given = parser.parse_args()
    if given.role == "receiver":
        run_receiver(given.port, given.folder, "receiver")
    else:
        run_sender(given.port, given.folder, given.devices, given.fall_spacing, forgets=given.forgets)


if __name__ == "__main__":
    main()
