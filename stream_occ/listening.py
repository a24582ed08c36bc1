"""Somebody who listens for a while and publishes nothing: messages slice by slice, from the broker's consent on."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from stream_occ.config import Config
from stream_occ.errors import ServiceError
from stream_occ.inbox import Inbox, Received
from stream_occ.mqtt import MqttLink, Subscription
from stream_occ.wiring import link_options


@dataclass(frozen=True, slots=True)
class Slice:
    """What came since the last one. seconds: since the broker's consent, None before; n_lost: in all, for want of
    room."""

    messages: list[Received]
    seconds: float | None
    is_connected: bool
    n_lost: int


def slices(
    config: Config,
    subscriptions: Sequence[Subscription],
    *,
    client_id: str,
    stop: threading.Event,
    slice_s: float,
    seconds: float | None,
) -> Iterator[Slice]:
    """A slice each slice_s until `stop`, or until so many seconds after consent; the connection ends with it.

    Raises ServiceError where the broker has not taken the subscriptions within mqtt.connect_timeout_s.
    """
    inbox = Inbox(config.limits.queue_messages, config.limits.queue_bytes)
    is_ready = threading.Event()
    link = MqttLink(
        link_options(config, client_id), on_message=inbox.put, subscriptions=subscriptions, on_ready=is_ready.set
    )
    link.start()
    began_s, ready_s = time.monotonic(), None
    try:
        while not stop.wait(slice_s):
            now_s = time.monotonic()
            if ready_s is None and is_ready.is_set():
                ready_s = now_s
            if link.fatal is not None:
                raise link.fatal
            if ready_s is None and now_s - began_s >= config.mqtt.connect_timeout_s:
                raise ServiceError(
                    f"broker {config.mqtt.host}:{config.mqtt.port}",
                    f"take the subscriptions within {config.mqtt.connect_timeout_s:g} s",
                    link.trouble or "nothing",
                    "Check --host, --port, user, TLS and the broker's log",
                )
            since_s = None if ready_s is None else now_s - ready_s
            yield Slice(list(inbox.drain()), since_s, link.is_connected, inbox.refused.total())
            if since_s is not None and seconds is not None and since_s >= seconds:
                break
    finally:
        link.stop()
