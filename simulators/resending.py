"""Devices that number their messages, keep them until the service says that it has them, and send again till then.

What docs/topics.md asks of such a device. `Memory` is one device's, without clock or link; `CompactRing` of
configs/devices/mpu6050_compact is the same in C++, and a test holds them together.
"""

from __future__ import annotations

import json
import time
from collections import deque
from dataclasses import dataclass, field, replace
from types import TracebackType

import numpy as np

from simulators.publisher import MAX_IN_FLIGHT, POLL_S, TOPIC, Publisher
from stream_occ.codecs import Codec
from stream_occ.errors import PayloadError, UsageError
from stream_occ.mqtt import MqttLink, MqttOptions, Subscription
from stream_occ.samples import DeviceProfile, SampleBlock
from stream_occ.topics import Topics

WINDOW = 200  # messages sent from the first on that is kept
# Until a device sends again, s: at first, and at most, since the service waits 15 s for what is missing.
SILENCE_S, MAX_SILENCE_S = 3.0, 12.0
ASKED_S = 1.0  # so long after it last did; the service says the same number again where it waits for the next one
MAX_KEPT = 2400  # messages of a device: ten minutes of four a second


@dataclass(slots=True)
class Memory:
    """Messages 0, 1, 2, ... of one device, from the first that it was not told of on; the oldest go beyond max_kept.

    told: the service has this one and all before it; n_added: messages so far; n_again: how many were sent once more.
    """

    max_kept: int = MAX_KEPT
    told: int = -1
    n_added: int = 0
    n_again: int = 0
    n_dropped: int = 0
    _kept: deque[bytes] = field(default_factory=deque)
    _next: int = 0
    _n_tried: int = 0
    _connection: int | None = None
    _since_s: float = 0.0
    _silence_s: float = SILENCE_S

    def __len__(self) -> int:
        return len(self._kept)

    def add(self, payload: bytes) -> None:
        """Keeps the next message."""
        if len(self._kept) == self.max_kept:
            self._kept.popleft()
            self.n_dropped += 1
        self._kept.append(payload)
        self.n_added += 1

    def hear(self, seq: int, now_s: float) -> bool:
        """Forgets what the service has; False where that is nothing new: told the same again it sends again."""
        if seq == self.told and now_s - self._since_s >= ASKED_S:
            self._next, self._since_s = 0, now_s
        if not self.told < seq < self.n_added:
            return False
        self.told, self._since_s, self._silence_s = seq, now_s, SILENCE_S
        while len(self._kept) > self.n_added - 1 - seq:
            self._kept.popleft()
        return True

    def due(self, now_s: float, connection: int) -> bytes | None:
        """The message to be sent now, which counts as sent; None: none is.

        On another connection, and after a silence, which doubles each time, all that was not told of is due again.
        """
        if connection != self._connection:
            self._connection, self._next, self._since_s, self._silence_s = connection, 0, now_s, SILENCE_S
        first = self.n_added - len(self._kept)
        is_waiting = self._next > first
        if is_waiting and now_s - self._since_s >= self._silence_s:
            self._next, self._since_s = 0, now_s
            self._silence_s = min(2 * self._silence_s, MAX_SILENCE_S)
        elif not is_waiting:
            self._since_s = now_s
        self._next = max(self._next, first)
        if self._next == self.n_added or self._next == first + WINDOW:
            return None
        payload = self._kept[self._next - first]
        self.n_again += self._next < self._n_tried
        self._next += 1
        self._n_tried = max(self._n_tried, self._next)
        return payload


class ResendingPublisher(Publisher):
    """As `Publisher`, but the n-th payload of a device carries (boot, n) and is kept until the service says it has it.

    What is due goes out with each payload and with `pump`, which a replay's clock calls while it waits. A broker that
    is away is waited for; a device whose memory is full waits too, for at most timeout_s without a word, then that is a
    ServiceError. Leaving waits until all is told of, or as long; `n_kept` says what is not.
    """

    def __init__(
        self, options: MqttOptions, topics: Topics, topic: str = TOPIC, *, boot: int, timeout_s: float = 30.0
    ) -> None:
        self._heard: deque[tuple[str, bytes]] = deque()
        link = MqttLink(
            replace(options, session_expiry_s=0),  # what is kept here outlives the session
            on_message=lambda message: self._heard.append((message.topic, message.payload)),
            subscriptions=[Subscription(topics.received_up_to("+"), 0)],
        )
        super().__init__(options, topic, timeout_s=timeout_s, link=link)
        self._topics = topics
        self._boot = boot
        self._memories: dict[str, Memory] = {}
        self._device_of: dict[str, str] = {}
        self._heard_s = time.monotonic()

    @property
    def n_kept(self) -> int:
        """Messages that nobody said to have."""
        return sum(len(memory) for memory in self._memories.values())

    @property
    def n_again(self) -> int:
        """How often a message was sent once more."""
        return sum(memory.n_again for memory in self._memories.values())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._heard_s = time.monotonic()
        while kind is None and self.n_kept and time.monotonic() - self._heard_s < self._timeout_s:
            self.pump()
            time.sleep(POLL_S)
        self._link.stop()

    def __call__(self, device_id: str, payload: bytes) -> None:
        """Keeps one message, and sends what is due."""
        if device_id not in self._memories:
            self._memories[device_id] = Memory()
            self._device_of[self._topics.received_up_to(device_id)] = device_id
        memory, self._heard_s = self._memories[device_id], time.monotonic()
        while len(memory) == memory.max_kept:
            if time.monotonic() - self._heard_s > self._timeout_s:
                raise self._lost("let the service say what it has")
            self.pump()
            time.sleep(POLL_S)
        memory.add(payload)
        self.pump()

    def pump(self) -> None:
        """Takes in what was said, then hands over what is due; does not wait."""
        while self._heard:
            self._hear(*self._heard.popleft())
        if not self._link.is_connected:
            return
        now_s, connection = time.monotonic(), self._link.n_connects
        for device_id, memory in self._memories.items():
            while self._link.n_pending < MAX_IN_FLIGHT and (payload := memory.due(now_s, connection)) is not None:
                self._link.publish(self._topic.format(device=device_id), payload, qos=1, is_retained=False)

    def _hear(self, topic: str, payload: bytes) -> None:
        device_id = self._device_of.get(topic)
        if device_id is None:
            return
        try:
            content = json.loads(payload)
            boot, seq = content["boot"], int(content["seq"])
        except (ValueError, TypeError, KeyError):
            return  # not the service's
        now_s = time.monotonic()
        if boot == self._boot and self._memories[device_id].hear(seq, now_s):
            self._heard_s = now_s


def check_can_number(codec: Codec, name: str) -> None:
    """Raises UsageError for a codec whose messages have no place for a number."""
    acc = np.array([[0.0, 0.0, 9.8]])
    block = SampleBlock("w1", np.array([10**18]), acc, np.zeros((1, 3)), number=(1, 2))
    try:
        read = codec.decode(codec.encode(block), device_id="w1", profile=DeviceProfile("m/s2", "rad/s"))
    except PayloadError:
        read = []
    if [getattr(one, "number", None) for one in read] != [(1, 2)]:
        raise UsageError("--resend", "go with a codec that numbers", name, "Replay as json, msgpack, cbor or compact")
