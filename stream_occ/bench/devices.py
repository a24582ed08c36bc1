"""Devices at 50 Hz as a broker sees them: messages made beforehand, sent in real time over one plain socket.

The sender must cost little, or it would be what is measured: packets of MQTT 3.1.1 are put together here, and what is
due is written at once.
"""

from __future__ import annotations

import socket
import threading
import time
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_occ.codecs import load_codec
from stream_occ.samples import NS_PER_S, FloatArray, IntArray, SampleBlock

RATE_HZ = 50.0
N_BODIES = 64  # different pieces of walking that devices take turns with
LEAD_S = 0.5  # until the first message
RECEIVE_BYTES = 65_536
CONNECT, PUBLISH_QOS1 = 0x10, 0x32
_CLEAN_SESSION, _KEEPALIVE_S = 0x02, 600

Noted = tuple[str, int, float]  # device, a stamp, when on the monotonic clock

__all__ = ["RATE_HZ", "Noted", "Player", "phases_of", "waits_ms", "walking"]


def walking(device: str, k: IntArray, t_ns: IntArray, rng: np.random.Generator) -> SampleBlock:
    """Samples k of a person who walks."""
    phase = 2 * np.pi * 1.8 * k / RATE_HZ
    acc = np.stack([0.8 * np.sin(phase), 0.6 * np.cos(phase), 9.81 + 2.0 * np.sin(2 * phase)], axis=1)
    gyr = np.stack([0.5 * np.sin(phase), 0.3 * np.cos(phase), 0.2 * np.sin(2 * phase)], axis=1)
    noise = rng.normal(size=(2, len(k), 3))
    return SampleBlock(device, t_ns, acc + 0.3 * noise[0], gyr + 0.1 * noise[1])


@dataclass(frozen=True)
class Player:
    """Sends n_samples a message for so many seconds at QoS 1; phases (n,): at which share of a period each device does.

    is_numbered: messages have numbers, which are to be told.
    """

    port: int
    phases: FloatArray
    seconds: float
    n_samples: int
    is_numbered: bool = False

    def play(self) -> list[Noted]:
        """Sends all; returns the last stamp of each message, and when it was handed to the socket."""
        period_s = self.n_samples / RATE_HZ
        turns = sorted(
            (period_s * (turn + phase), device, turn)
            for turn in range(int(self.seconds / period_s))
            for device, phase in enumerate(self.phases.tolist())
        )
        bodies = self._bodies()
        offsets = np.rint((np.arange(self.n_samples) - self.n_samples + 1) * NS_PER_S / RATE_HZ).astype(np.int64)
        sent: list[Noted] = []
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.sendall(_connect_packet())
            threading.Thread(target=_drain, args=(connection,), daemon=True).start()
            started_s, started_ns = time.monotonic() + LEAD_S, time.time_ns() + round(LEAD_S * NS_PER_S)
            waiting, at = bytearray(), 0
            while at < len(turns):
                now_s = time.monotonic() - started_s
                if turns[at][0] > now_s:
                    time.sleep(turns[at][0] - now_s)
                    now_s = time.monotonic() - started_s
                first = at
                while at < len(turns) and turns[at][0] <= now_s:
                    due_s, device, turn = turns[at]
                    last_ns = started_ns + round(due_s * NS_PER_S)
                    stamps = (last_ns + offsets).tolist()
                    body = bodies[(device + turn) % len(bodies)]
                    number = f'"boot":"b","seq":{turn},' if self.is_numbered else ""
                    payload = f'{{{number}"t_ns":{stamps},{body}'.encode()
                    waiting += _publish_packet(f"wearables/d{device}/imu", payload, at % 65_535 + 1)
                    sent.append((f"d{device}", last_ns, 0.0))
                    at += 1
                handed_s = time.monotonic()
                sent[first:] = [(name, stamp, handed_s) for name, stamp, _ in sent[first:]]
                connection.sendall(waiting)
                waiting.clear()
            time.sleep(LEAD_S)  # the last acknowledgements
        return sent

    def _bodies(self) -> list[str]:
        """What follows the stamps in a JSON batch."""
        encode, rng = load_codec("json").encode, np.random.default_rng(1)
        stamps = np.zeros(self.n_samples, dtype=np.int64)
        pieces = (np.arange(turn * self.n_samples, (turn + 1) * self.n_samples) for turn in range(N_BODIES))
        texts = (encode(replace(walking("", k, stamps, rng), number=None)).decode() for k in pieces)
        return [text.partition("],")[2] for text in texts]


def _connect_packet() -> bytes:
    """A clean session without will or credentials."""
    name = b"devices"
    variable = b"\x00\x04MQTT\x04" + bytes([_CLEAN_SESSION]) + _KEEPALIVE_S.to_bytes(2, "big")
    return _packet(CONNECT, variable + len(name).to_bytes(2, "big") + name)


def _publish_packet(topic: str, payload: bytes, packet_id: int) -> bytes:
    name = topic.encode()
    return _packet(PUBLISH_QOS1, len(name).to_bytes(2, "big") + name + packet_id.to_bytes(2, "big") + payload)


def _packet(kind: int, content: bytes) -> bytes:
    """Kind, length in groups of 7 bits, content."""
    length, left = bytearray(), len(content)
    while True:
        left, group = divmod(left, 128)
        length.append(group | (0x80 if left else 0))
        if not left:
            return bytes([kind]) + bytes(length) + content


def _drain(connection: socket.socket) -> None:
    """Reads acknowledgements away: nothing is sent again."""
    while True:
        try:
            if not connection.recv(RECEIVE_BYTES):
                return
        except OSError:
            return


def phases_of(n_devices: int, *, is_random: bool = True) -> FloatArray:
    """At which share of a period each device sends; else all in the same instant."""
    return np.random.default_rng(2).random(n_devices) if is_random else np.zeros(n_devices)


def waits_ms(sources: Sequence[Noted], windows: Sequence[Noted], since_s: float) -> FloatArray:
    """From each window's last sample, in the message that is the first to reach its end, to its instant."""
    stamps: dict[str, tuple[list[int], list[float]]] = {}
    for device, stamp, at_s in sources:
        own = stamps.setdefault(device, ([], []))
        own[0].append(stamp)
        own[1].append(at_s)
    found = []
    for device, t_end_ns, at_s in windows:
        ends, times = stamps.get(device, ([], []))
        i = bisect_left(ends, t_end_ns)
        if i < len(ends) and times[i] >= since_s:
            found.append(1000 * (at_s - times[i]))
    return np.array(found)
