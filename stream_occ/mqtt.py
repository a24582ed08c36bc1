"""The link to the broker: the only module that imports the MQTT client.

The client's own threads are not used: an exception in a callback ends them without a word, and writes of two threads
can mix. One thread of ours owns the socket through the client's interface for foreign event loops; other threads only
append to its queue and wake it. It starts with the broker down, waits longer after each failure (with jitter), and
subscribes anew on every connection. `is_alive` and `silent_s` are there to be watched.

Messages in are acknowledged when `on_message` has returned or, where the owner acknowledges by hand, when it says so:
what the broker has no acknowledgement for it delivers again, so a process that is killed loses nothing. A message's id
means another message on the next connection: acknowledgements from before it are dropped.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import select
import ssl
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTErrorCode, MQTTProtocolVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from stream_occ.errors import ServiceError
from stream_occ.inbox import Outcome, Received, Token
from stream_occ.mqtt_options import Birth, MqttOptions, Subscription, confirm_at_once, guarded, named, set_access
from stream_occ.mqtt_outgoing import Outgoing

__all__ = ["Birth", "MqttLink", "MqttOptions", "Subscription"]

log = logging.getLogger("stream_occ.mqtt")

SELECT_TIMEOUT_S = 1.0
MAX_PACKET_BYTES = 16 * 1024 * 1024  # told to an MQTT 5 broker, which keeps larger ones away
SESSION_TAKEN_OVER = 0x8E
NO_MATCHING_SUBSCRIBERS = 0x10
TAKEOVERS_UNTIL_FATAL = 3
TAKEOVER_WINDOW_S = 60.0
STABLE_S = 10.0  # a connection that lasts less is no reason to connect faster after the next loss
SHORT_CONNECTIONS_UNTIL_HINT = 3
MAX_READS = 100  # packets read in one round, before writing has its turn
MAX_ACKS = 20  # of one round: a save lets go of thousands, and what comes meanwhile must not wait for them


class MqttLink:
    """A connection that keeps itself up; `on_message` is called in the network thread and must be quick."""

    def __init__(
        self,
        options: MqttOptions,
        *,
        on_message: Callable[[Received], object] | None = None,
        subscriptions: Sequence[Subscription] = (),
        birth: Birth | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self.n_connects = 0
        self.refusals: Counter[str] = Counter()  # of our connections, by the broker's reason
        self.trouble: str | None = None  # why we are not connected, or not subscribed
        self._is_refused = False  # by the broker, in this connection
        self.is_subscribed = False  # this connection has all its subscriptions
        self.fatal: ServiceError | None = None
        self._options = options
        self._deliver = on_message
        self._subscriptions = tuple(subscriptions)
        self._birth = birth
        self._on_ready = on_ready
        self._outgoing = Outgoing()
        self.dropped = self._outgoing.dropped
        self._acks: deque[Token] = deque()
        self._n_received = 0
        self._accepted = threading.Event()
        self._stopping = threading.Event()
        self._last_read_s = time.monotonic()
        self._connecting_since_s = 0.0
        self._takeovers: deque[float] = deque(maxlen=TAKEOVERS_UNTIL_FATAL)
        self._n_short = 0  # accepted connections in a row that did not last
        self._subscribe_mid: int | None = None
        self._wake_read, self._wake_write = os.pipe()
        os.set_blocking(self._wake_read, False)
        os.set_blocking(self._wake_write, False)
        self._client = self._make_client()
        self._thread = threading.Thread(target=self._run, name=f"mqtt-{options.client_id}", daemon=True)

    # ---- for other threads

    def start(self) -> None:
        """Starts the network thread; returns at once, whether the broker is there or not."""
        self._thread.start()

    @property
    def is_connected(self) -> bool:
        """True while the broker has accepted us (a CONNACK without error, and no loss since)."""
        return self._accepted.is_set()

    @property
    def is_alive(self) -> bool:
        """True while the network thread runs."""
        return self._thread.is_alive()

    @property
    def silent_s(self) -> float:
        """Seconds since bytes last came from the broker."""
        return time.monotonic() - self._last_read_s

    @property
    def has_room(self) -> bool:
        """True while `publish` can take a message of QoS 1."""
        return len(self._outgoing) < self._options.outgoing_messages

    @property
    def n_pending(self) -> int:
        """Messages handed over that are neither sent (QoS 0) nor acknowledged."""
        return len(self._outgoing)

    def publish(
        self,
        topic: str,
        payload: bytes,
        *,
        qos: int,
        is_retained: bool,
        on_done: Callable[[Outcome], None] | None = None,
    ) -> bool:
        """Hands a message over; QoS 0 is dropped while there is no broker, QoS 1 waits; drops are counted by reason."""
        if not self.has_room:
            return self._outgoing.drop("outgoing_queue_full", topic)
        if qos == 0 and not self.is_connected:
            return self._outgoing.drop("offline", topic)
        info = self._client.publish(topic, payload, qos=qos, retain=is_retained)
        if info.rc == MQTTErrorCode.MQTT_ERR_NO_CONN and qos == 0:
            return self._outgoing.drop("offline", topic)
        if info.rc not in (MQTTErrorCode.MQTT_ERR_SUCCESS, MQTTErrorCode.MQTT_ERR_NO_CONN):
            return self._outgoing.drop("outgoing_queue_full", topic)
        # The client calls on_publish with a lock of its own held, so ours must not be held around its publish().
        self._outgoing.add(info.mid, topic, qos, on_done)
        self._wake()
        return True

    def acknowledge(self, tokens: Sequence[Token]) -> None:
        """Has messages acknowledged, in this order; nothing where their connection is gone."""
        self._acks.extend(tokens)
        self._wake()

    def flush(self, timeout_s: float) -> bool:
        """Waits until nothing is pending; False where time ran out or the broker is away."""
        deadline = time.monotonic() + timeout_s
        while self._outgoing and self.is_connected and time.monotonic() < deadline:
            time.sleep(0.005)
        return not self._outgoing

    def stop(self, timeout_s: float = 2.0) -> None:
        """Publishes `offline`, waits for what is pending, disconnects in order and ends the thread."""
        if self._birth is not None and self.is_connected:
            self.publish(self._birth.topic, self._birth.offline, qos=1, is_retained=True)
        if not self.flush(timeout_s):
            log.warning("%d messages could not be delivered before the end and are lost", self.n_pending)
        self._stopping.set()
        self._wake()
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        if not self._thread.is_alive():
            for descriptor in (self._wake_read, self._wake_write):
                os.close(descriptor)

    # ---- the network thread

    def _run(self) -> None:
        delay_s = self._options.reconnect_min_s
        while not self._stopping.is_set():
            try:
                self._connect()
                while self._client.socket() is not None and not self._stopping.is_set():
                    self._serve()
                    if self.is_connected and time.monotonic() - self._connecting_since_s > STABLE_S:
                        delay_s = self._options.reconnect_min_s
            except Exception as error:  # whatever it is, the thread must live: without it nothing is heard any more
                self.trouble = named(error)
                log.warning("broker %s:%d: %s", self._options.host, self._options.port, self.trouble)
            if not self._stopping.is_set():
                self._accepted.clear()
                self._stopping.wait(delay_s * random.uniform(0.5, 1.0))
                delay_s = min(2 * delay_s, self._options.reconnect_max_s)
        self._close()

    def _connect(self) -> None:
        options = self._options
        arguments: dict[str, Any] = {}
        if options.protocol == "5":
            properties = Properties(PacketTypes.CONNECT)  # type: ignore[no-untyped-call]
            properties.SessionExpiryInterval = options.session_expiry_s
            properties.MaximumPacketSize = MAX_PACKET_BYTES
            if options.unacknowledged_messages:
                properties.ReceiveMaximum = options.unacknowledged_messages
            arguments = {"clean_start": False, "properties": properties}
        self._connecting_since_s, self._is_refused = time.monotonic(), False
        self._client.connect(options.host, options.port, keepalive=options.keepalive_s, **arguments)

    def _serve(self) -> None:
        """One round of reading, writing and housekeeping."""
        sock = self._client.socket()
        if sock is None:
            return
        has_pending = isinstance(sock, ssl.SSLSocket) and sock.pending() > 0
        writers = [sock] if self._client.want_write() else []
        timeout_s = 0.0 if has_pending or self._acks else SELECT_TIMEOUT_S
        readers: list[Any] = [sock, self._wake_read]
        readable, writable, _ = select.select(readers, writers, [], timeout_s)
        if self._wake_read in readable:
            _drain_pipe(self._wake_read)
        if sock in readable or has_pending:
            self._last_read_s = time.monotonic()
            self._read()
            confirm_at_once(sock)
        self._send_acks(MAX_ACKS)
        if writable or self._client.want_write():
            self._client.loop_write()
        self._client.loop_misc()
        waited_s = time.monotonic() - self._connecting_since_s
        is_waiting = self._client.socket() is not None and not self.is_connected
        if is_waiting and waited_s > self._options.connect_timeout_s:
            raise TimeoutError(f"no CONNACK within {self._options.connect_timeout_s:g} s")

    def _read(self) -> None:
        """Reads while messages come, up to a bound: the client takes one packet at a time."""
        for _ in range(MAX_READS):
            n_before = self._n_received
            self._client.loop_read()
            if self._n_received == n_before:
                return

    def _send_acks(self, at_most: int) -> None:
        for _ in range(min(len(self._acks), at_most)):
            token = self._acks.popleft()
            if token.connection == self.n_connects and self.is_connected:
                self._client.ack(token.mid, token.qos)

    def _close(self) -> None:
        try:
            self._send_acks(len(self._acks))
            if self._client.socket() is not None:
                self._client.disconnect()
                self._client.loop_write()
        except Exception as error:
            log.debug("disconnect: %s", named(error))
        self._accepted.clear()

    # ---- callbacks, all in the network thread

    def _make_client(self) -> paho.Client:
        options = self._options
        is_v5 = options.protocol == "5"
        client = paho.Client(
            CallbackAPIVersion.VERSION2,
            client_id=options.client_id,
            clean_session=None if is_v5 else options.session_expiry_s == 0,
            protocol=MQTTProtocolVersion.MQTTv5 if is_v5 else MQTTProtocolVersion.MQTTv311,
            manual_ack=options.unacknowledged_messages > 0,
        )
        client.suppress_exceptions = True
        client.max_queued_messages_set(options.outgoing_messages)
        set_access(client, options)
        if self._birth is not None:
            client.will_set(self._birth.topic, self._birth.offline, qos=1, retain=True)
        client.on_connect = guarded(self._on_connect)
        client.on_disconnect = guarded(self._on_disconnect)
        client.on_message = guarded(self._on_message)
        client.on_publish = guarded(self._on_publish)
        client.on_subscribe = guarded(self._on_subscribe)
        client.on_socket_register_write = lambda *_: None  # its presence keeps publish() from writing in our caller
        return client

    def _on_connect(self, client: paho.Client, _: Any, __: Any, reason: ReasonCode, ___: Any) -> None:
        if reason.is_failure:
            self.trouble, self._is_refused = f"the broker refused us: {reason}", True
            self.refusals[str(reason)] += 1
            log.warning("broker %s:%d refused us: %s", self._options.host, self._options.port, reason)
            return
        self._outgoing.forget_unsent()
        self.n_connects += 1
        self.is_subscribed, self.trouble = False, None
        self._accepted.set()
        log.info("connected to %s:%d as %s", self._options.host, self._options.port, self._options.client_id)
        if self._birth is not None:
            self.publish(self._birth.topic, self._birth.online, qos=1, is_retained=True)
        if self._subscriptions:  # always: a broker may have lost the session, whatever it says
            is_v5 = self._options.protocol == "5"
            wanted: list[Any] = [
                (entry.topic_filter, SubscribeOptions(entry.qos, False, entry.keeps_retain) if is_v5 else entry.qos)
                for entry in self._subscriptions
            ]
            _, self._subscribe_mid = client.subscribe(wanted)
        elif self._on_ready is not None:
            self._on_ready()

    def _on_subscribe(self, _: Any, __: Any, mid: int, reasons: Sequence[ReasonCode], ___: Any) -> None:
        for entry, reason in zip(self._subscriptions, reasons, strict=False):
            if reason.is_failure:
                self.trouble = f"the broker refused the subscription to {entry.topic_filter}: {reason}"
                log.error("broker refused the subscription to %s: %s", entry.topic_filter, reason)
        if mid == self._subscribe_mid:
            self.is_subscribed = not any(reason.is_failure for reason in reasons)
            if self._on_ready is not None:
                self._on_ready()

    def _on_disconnect(self, _: Any, __: Any, ___: Any, reason: ReasonCode, ____: Any) -> None:
        was_accepted = self._accepted.is_set()
        self._accepted.clear()
        if self._stopping.is_set():
            return
        if was_accepted:
            self.trouble = f"connection lost: {reason}"
        elif not self._is_refused:
            self.trouble = f"what answers there speaks no MQTT, or hung up: {reason}"
        log.warning("connection to %s:%d lost: %s", self._options.host, self._options.port, reason)
        now_s = time.monotonic()
        is_short = was_accepted and now_s - self._connecting_since_s < STABLE_S
        self._n_short = self._n_short + 1 if is_short else 0
        if self._n_short == SHORT_CONNECTIONS_UNTIL_HINT:  # brokers before MQTT 5, and mosquitto 2.0, give no reason
            log.error(
                "accepted and dropped again and again: does another client use the id %r? Or does the broker "
                "take user names for ids? Then set mqtt.is_only_instance: false",
                self._options.client_id,
            )
        if reason.value == SESSION_TAKEN_OVER:
            self._takeovers.append(now_s)
            if len(self._takeovers) == TAKEOVERS_UNTIL_FATAL and now_s - self._takeovers[0] < TAKEOVER_WINDOW_S:
                self.fatal = ServiceError(
                    f"client id {self._options.client_id}",
                    "belong to one process alone",
                    "another client that keeps taking over our session",
                    "Stop the other process, or give each its own mqtt.client_id and mqtt.instance",
                )

    def _on_message(self, _: Any, __: Any, message: paho.MQTTMessage) -> None:
        try:
            topic = message.topic
        except UnicodeDecodeError:
            topic = ""
        self._n_received += 1
        is_by_hand = self._options.unacknowledged_messages > 0 and message.qos > 0
        if self._deliver is not None:
            received = Received.of(
                topic,
                bytes(message.payload),
                is_retained=bool(message.retain),
                arrived_s=time.monotonic(),
                max_bytes=self._options.max_payload_bytes,
                token=Token(self.n_connects, message.mid, message.qos) if is_by_hand else None,
                is_again=bool(message.dup),
            )
            self._deliver(received)

    def _on_publish(self, _: Any, __: Any, mid: int, reason: ReasonCode, ___: Any) -> None:
        is_unheard = reason.value == NO_MATCHING_SUBSCRIBERS
        self._outgoing.ended(mid, "refused" if reason.is_failure else "unheard" if is_unheard else "taken")

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # enough wake-ups are waiting already
            os.write(self._wake_write, b"\0")


def _drain_pipe(descriptor: int) -> None:
    with contextlib.suppress(BlockingIOError):
        while os.read(descriptor, 4096):
            pass
