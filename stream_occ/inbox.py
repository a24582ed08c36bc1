"""What stands between the network thread and the worker: messages as they came, and a bounded queue of them."""

from __future__ import annotations

import math
import threading
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol

MAX_LOST_TOPICS = 1000  # told apart in a note of messages for which there was no room
MAX_UNACKNOWLEDGED = 65_535  # a receive maximum has 16 bits
MAX_TOPIC_BYTES = 1024  # MQTT allows 64 times as many, and a queue of such topics would be a gigabyte

Outcome = Literal["taken", "unheard", "refused"]
"""What the broker says of a message of QoS 1: it has it, has it and nobody is subscribed, or does not want it."""


class Token(NamedTuple):
    """With what a message is acknowledged: its id, which a later connection uses anew, and the connection."""

    connection: int
    mid: int
    qos: int


@dataclass(frozen=True, slots=True)
class Received:
    """A message as it came. arrived_s is on the monotonic clock.

    n_bytes is the size as sent: larger than len(payload) where the payload was thrown away for its size. token: where
    the message is to be acknowledged by us; is_again: the broker says that it delivers it again. lost: not a message
    but a note, of how many by topic the queue had no room for at this place; "": of topics beyond MAX_LOST_TOPICS.
    """

    topic: str
    payload: bytes
    is_retained: bool
    arrived_s: float
    n_bytes: int
    token: Token | None = None
    is_again: bool = False
    lost: Mapping[str, int] | None = None

    @property
    def n_held(self) -> int:
        """Bytes of topic and payload as they wait; of a note, of its topics."""
        if self.lost is not None:
            return sum(len(topic.encode()) for topic in self.lost)
        return len(self.topic.encode()) + len(self.payload)

    @classmethod
    def of(
        cls,
        topic: str,
        payload: bytes,
        *,
        is_retained: bool,
        arrived_s: float,
        max_bytes: int,
        token: Token | None = None,
        is_again: bool = False,
    ) -> Received:
        """The message, without its payload where that is larger than max_bytes: the queue must not hold it."""
        n_bytes = len(payload)
        return cls(topic, payload if n_bytes <= max_bytes else b"", is_retained, arrived_s, n_bytes, token, is_again)


class Link(Protocol):
    """What the service needs of a link; tests put a fake in its place."""

    @property
    def is_connected(self) -> bool:
        """True while the broker has accepted us."""

    @property
    def has_room(self) -> bool:
        """True while `publish` can take a message of QoS 1."""

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int,
        is_retained: bool,
        on_done: Callable[[Outcome], None] | None = None,
    ) -> bool:
        """Hands a message over; False where it was dropped (counted). on_done: called, by any thread, when the broker
        has answered."""

    def acknowledge(self, tokens: Sequence[Token]) -> None:
        """Tells the broker, in their order, which messages it need not deliver again."""


class Inbox:
    """Bounded queue between the network thread and the worker: `put` never waits, what does not fit is refused."""

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self.refused: Counter[str] = Counter()  # by reason
        self.drained_s: float | None = None  # when the oldest message of the last `drain` had come
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self._queue: deque[Received] = deque()
        self._n_bytes = 0
        self._lost: dict[str, int] = {}
        self._lock = threading.Condition()  # told of each message

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def n_bytes(self) -> int:
        """Bytes of topics and payloads that wait."""
        return self._n_bytes

    def put(self, message: Received) -> bool:
        """False, and counted, where the queue is full or the topic too long; behind a full queue the next message comes
        after a note of what there was no room for."""
        size = message.n_held
        with self._lock:
            if size - len(message.payload) > MAX_TOPIC_BYTES:
                self.refused["topic_too_long"] += 1
                return False
            if len(self._queue) >= self._max_messages or self._n_bytes + size > self._max_bytes:
                self.refused["queue_full"] += 1
                topic = message.topic if message.topic in self._lost or len(self._lost) < MAX_LOST_TOPICS else ""
                self._lost[topic] = self._lost.get(topic, 0) + 1
                return False
            if self._lost:
                note = Received("", b"", False, message.arrived_s, 0, lost=self._lost)
                self._queue.append(note)
                self._n_bytes += note.n_held
                self._lost = {}
            self._queue.append(message)
            self._n_bytes += size
            self._lock.notify()
            return True

    def wait(self, timeout_s: float) -> None:
        """Returns when a message waits, after timeout_s at the latest."""
        with self._lock:
            self._lock.wait_for(lambda: self._queue, timeout_s)

    def drain(self, max_bytes: float = math.inf) -> list[Received]:
        """What waits, in order of arrival: as many messages as have max_bytes together, but at least one."""
        messages: list[Received] = []
        n_bytes = 0
        with self._lock:
            while self._queue and (not messages or n_bytes + self._queue[0].n_held <= max_bytes):
                messages.append(self._queue.popleft())
                n_bytes += messages[-1].n_held
            self._n_bytes -= n_bytes
        self.drained_s = messages[0].arrived_s if messages else None
        return messages
