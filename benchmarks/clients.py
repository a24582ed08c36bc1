"""What a message costs in the MQTT client alone: ours on paho-mqtt beside gmqtt and aiomqtt, each in its own process.

    pip install gmqtt aiomqtt
    python benchmarks/clients.py --devices 1000 --seconds 10

Devices at 50 Hz, 25 samples a message, QoS 1, through a real mosquitto, to a consumer that does nothing with a message
but hand it to another thread's queue. Ours and gmqtt acknowledge after a wait, as the service does after its commit;
aiomqtt cannot, and acknowledges at once.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from stream_occ.bench.devices import Player, phases_of
from stream_occ.bench.report import machine
from stream_occ.bench.serving import broker, cpu_of_s, end
from stream_occ.inbox import Inbox
from stream_occ.mqtt import MqttLink, MqttOptions, Subscription

FILTER = "wearables/+/imu"
COMMIT_S = 0.1  # between acknowledgements
WARM_UP_S = 2.0
SAMPLES = 25


def main() -> None:
    """One run a client, as JSON; with --consume, one of the consumers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=1_000)
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--consume", nargs=2, metavar=("CLIENT", "PORT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.consume:
        CONSUMERS[options.consume[0]](int(options.consume[1]))
        return
    names = [name for name in CONSUMERS if name == "ours" or find_spec(name)]
    runs = {name: measured(name, options.devices, options.seconds) for name in names}
    print(json.dumps({"machine": machine(), "devices": options.devices, "runs": runs}, indent=1))


def measured(name: str, n_devices: int, seconds: float) -> dict[str, Any]:
    """Processor microseconds a message of the consumer's whole process."""
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder)) as port:
        command = [sys.executable, __file__, "--consume", name, str(port)]
        consumer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "ready\n"
            player = Player(port, phases_of(n_devices), WARM_UP_S + seconds + 1.0, SAMPLES)
            thread = threading.Thread(target=player.play)
            thread.start()
            time.sleep(WARM_UP_S)
            before_s = cpu_of_s(consumer.pid)
            time.sleep(seconds)
            used_s = cpu_of_s(consumer.pid) - before_s
            thread.join()
            time.sleep(1.0)
            n_received = int(consumer.communicate("\n", 10)[0])
        finally:
            end(consumer)
    n_due = n_devices * (WARM_UP_S + seconds + 1.0) * 50 / SAMPLES
    a_message_us = 1e6 * used_s / (seconds * n_devices * 50 / SAMPLES)
    return {"us_a_message": round(a_message_us, 1), "received": n_received, "sent": int(n_due)}


def consume_ours(port: int) -> None:
    """The service's own link, acknowledged by hand, without its worker."""
    inbox, n_received = Inbox(60_000, 2**30), 0
    options = MqttOptions(host="127.0.0.1", port=port, client_id="bench", unacknowledged_messages=60_000)
    link = MqttLink(options, on_message=inbox.put, subscriptions=[Subscription(FILTER, 1)], on_ready=_say_ready)
    link.start()
    for _ in until_told():
        messages = inbox.drain()
        n_received += len(messages)
        link.acknowledge([message.token for message in messages if message.token])
    link.stop()
    print(n_received + len(inbox.drain()))


def consume_gmqtt(port: int) -> None:
    """A coroutine a message that ends, and so acknowledges, when the batch is committed."""
    from gmqtt import Client

    taken: list[bytes] = []
    committed = asyncio.Event()

    async def keep(_client: Any, _topic: str, payload: bytes, _qos: int, _properties: Any) -> int:
        taken.append(payload)
        await committed.wait()
        return 0

    async def serve() -> None:
        nonlocal committed
        client = Client("bench", clean_session=True, optimistic_acknowledgement=False, receive_maximum=60_000)
        client.on_message = keep
        client.on_subscribe = lambda *_: _say_ready()
        await client.connect("127.0.0.1", port)
        client.subscribe(FILTER, qos=1)
        for _ in until_told(0.0):
            await asyncio.sleep(COMMIT_S)
            done, committed = committed, asyncio.Event()
            done.set()
        await client.disconnect()

    asyncio.run(serve())
    print(len(taken))


def consume_aiomqtt(port: int) -> None:
    """Its iterator of messages, which are acknowledged as they come."""
    import aiomqtt

    n_received = 0

    async def listen() -> None:
        nonlocal n_received
        async with aiomqtt.Client("127.0.0.1", port) as client:
            await client.subscribe(FILTER, 1)
            _say_ready()
            async for message in client.messages:
                n_received += bool(message.payload)

    async def serve() -> None:
        task = asyncio.create_task(listen())
        for _ in until_told(0.0):
            await asyncio.sleep(COMMIT_S)
        task.cancel()

    asyncio.run(serve())
    print(n_received)


CONSUMERS: dict[str, Callable[[int], None]] = {
    "ours": consume_ours,
    "gmqtt": consume_gmqtt,
    "aiomqtt": consume_aiomqtt,
}


def until_told(wait_s: float = COMMIT_S) -> Iterator[None]:
    """Turns of wait_s until a line comes on standard input."""
    is_told = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), is_told.set()), daemon=True).start()
    while not is_told.wait(wait_s):
        yield


def _say_ready() -> None:
    print("ready", flush=True)


if __name__ == "__main__":
    main()
