"""What a broker's topics carried while the doctor listened: counts of all, messages of some, nothing without bound."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from stream_occ.config import Config
from stream_occ.inbox import Received
from stream_occ.listening import slices
from stream_occ.mqtt import Subscription
from stream_occ.samples import NS_PER_S

MAX_TOPICS = 500
KEPT_MESSAGES = 6000  # of one topic: a minute at 100 a second
KEPT_BYTES = 8 * 1024 * 1024
KEPT_BYTES_IN_ALL = 256 * 1024 * 1024
SLICE_S = 0.1


@dataclass(slots=True)
class Topic:
    """One topic. kept: payload and arrival in ns since 1970, of the first messages; retained ones are counted alone."""

    name: str
    n_messages: int = 0
    n_retained: int = 0
    n_bytes: int = 0
    largest: int = 0
    first_s: float = 0.0
    last_s: float = 0.0
    kept: list[tuple[bytes, int]] = field(default_factory=list)
    kept_bytes: int = 0

    @property
    def per_s(self) -> float:
        """Messages a second between the first and the last."""
        span_s = self.last_s - self.first_s
        return (self.n_messages - 1) / span_s if span_s > 0 else 0.0


@dataclass(slots=True)
class Heard:
    """All topics by name. n_elsewhere: messages of further topics, beyond MAX_TOPICS; n_own: of our own topics."""

    own_prefix: str
    topics: dict[str, Topic] = field(default_factory=dict)
    n_elsewhere: int = 0
    n_own: int = 0
    n_lost: int = 0
    seconds: float = 0.0
    kept_bytes: int = 0

    def take(self, message: Received, *, now_ns: int, now_s: float) -> None:
        """Notes one message."""
        if message.topic.partition("/")[0] == self.own_prefix:
            self.n_own += 1
            return
        topic = self.topics.get(message.topic)
        if topic is None:
            if len(self.topics) >= MAX_TOPICS:
                self.n_elsewhere += 1
                return
            topic = self.topics[message.topic] = Topic(message.topic)
        if message.is_retained:
            topic.n_retained += 1
            return
        if topic.n_messages == 0:
            topic.first_s = message.arrived_s
        topic.last_s = message.arrived_s
        topic.n_messages += 1
        topic.n_bytes += message.n_bytes
        topic.largest = max(topic.largest, message.n_bytes)
        size = len(message.payload)
        has_room = len(topic.kept) < KEPT_MESSAGES and topic.kept_bytes + size <= KEPT_BYTES
        if size == message.n_bytes and has_room and self.kept_bytes + size <= KEPT_BYTES_IN_ALL:
            topic.kept.append((message.payload, now_ns - round((now_s - message.arrived_s) * NS_PER_S)))
            topic.kept_bytes += size
            self.kept_bytes += size


def listen(
    config: Config,
    topic_filter: str,
    seconds: float,
    *,
    client_id: str,
    stop: threading.Event,
    on_ready: Callable[[str], None] = lambda line: None,
    on_progress: Callable[[float], None] = lambda elapsed_s: None,
) -> Heard:
    """Subscribes with QoS 0 and notes what comes, from the broker's consent on, until `seconds` are over.

    Raises ServiceError where the broker has not taken the subscription within mqtt.connect_timeout_s.
    """
    heard, is_told = Heard(config.mqtt.prefix), False
    subscriptions = [Subscription(topic_filter, 0)]
    for part in slices(config, subscriptions, client_id=client_id, stop=stop, slice_s=SLICE_S, seconds=seconds):
        if part.seconds is not None and not is_told:
            is_told = True
            on_ready(f"ready: listening to {topic_filter} for {seconds:g} s")
        for message in part.messages:
            heard.take(message, now_ns=time.time_ns(), now_s=time.monotonic())
        heard.n_lost = part.n_lost
        if part.seconds is not None:
            heard.seconds = part.seconds
            on_progress(heard.seconds)
    return heard
