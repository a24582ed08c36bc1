"""Simulated devices' connection to a broker: one for all of them, QoS 1, a bounded number of messages in flight."""

from __future__ import annotations

import time
from types import TracebackType

from stream_occ.errors import ServiceError, UsageError
from stream_occ.mqtt import MqttLink, MqttOptions
from stream_occ.topics import is_device_id

TOPIC = "wearables/{device}/imu"
MAX_IN_FLIGHT = 200
POLL_S = 0.005


class Publisher:
    """Publishes `publisher(device_id, payload)` on the topic pattern; waits while too much is not yet acknowledged.

    Use as a context manager: entering connects, leaving waits for the last acknowledgements and disconnects. Raises
    ServiceError where the broker cannot be reached within timeout_s, stops acknowledging or is away for that long.
    """

    def __init__(
        self, options: MqttOptions, topic: str = TOPIC, *, timeout_s: float = 10.0, link: MqttLink | None = None
    ) -> None:
        check_topic(topic)
        self._topic = topic
        self._timeout_s = timeout_s
        self._where = f"broker {options.host}:{options.port}"
        self._link = link or MqttLink(options)
        self._connected_s = 0.0

    def __enter__(self) -> Publisher:
        self._link.start()
        try:
            self._wait_until_connected()
        except BaseException:
            self._link.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_flushed = self._link.flush(self._timeout_s)
        self._link.stop()
        if not is_flushed and kind is None:
            raise self._lost("acknowledge what was published")

    def __call__(self, device_id: str, payload: bytes) -> None:
        """Hands one message over."""
        if self._link.is_connected:
            self._connected_s = time.monotonic()
        elif time.monotonic() - self._connected_s > self._timeout_s:
            raise self._lost("be back")
        self._wait_while_full()
        if not self._link.publish(self._topic.format(device=device_id), payload, qos=1, is_retained=False):
            raise self._lost("take a message")

    def pump(self) -> None:
        """Does what is to be done meanwhile: here, nothing."""

    def _wait_until_connected(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        while not self._link.is_connected:
            if time.monotonic() > deadline:
                raise self._lost("accept a connection")
            time.sleep(POLL_S)

    def _wait_while_full(self) -> None:
        deadline = time.monotonic() + self._timeout_s
        fewest = self._link.n_pending
        while self._link.n_pending >= MAX_IN_FLIGHT:
            if self._link.n_pending < fewest:
                fewest, deadline = self._link.n_pending, time.monotonic() + self._timeout_s
            if time.monotonic() > deadline:
                raise self._lost("acknowledge what was published")
            time.sleep(POLL_S)

    def _lost(self, what: str) -> ServiceError:
        return ServiceError(
            self._where, f"{what} within {self._timeout_s:g} s", "nothing", "Check --host, --port and the broker's log"
        )


def check_topic(topic: str) -> None:
    """Raises UsageError unless {device} is one whole level of the topic and it holds no wildcard."""
    if topic.split("/").count("{device}") != 1 or any(sign in topic.replace("{device}", "") for sign in "{}+#"):
        raise UsageError(
            "--topic",
            "hold {device} once, as a level of its own, and no wildcard",
            repr(topic),
            f"Write it like {TOPIC}",
        )


def check_device_id(device_id: str) -> None:
    """Raises UsageError for a name that `detect` would not take for a device's."""
    if not is_device_id(device_id):
        raise UsageError(
            "--device", "be 1 to 64 of A-Z a-z 0-9 . _ - and no reserved word", repr(device_id), "Choose another name"
        )
