"""Wearers and their alerts as retained topics tell of them, for somebody who watches at a terminal."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from stream_occ.config import Config
from stream_occ.errors import ServiceError, visible
from stream_occ.inbox import Inbox
from stream_occ.mqtt import MqttLink, Subscription
from stream_occ.samples import NS_PER_S
from stream_occ.wiring import link_options

MAX_WEARERS = 10_000
MAX_TEXT = 60  # characters of what others wrote
SLICE_S = 0.25
# The most urgent first; what is not here is between the alerts and `normal`.
URGENCY = ("alarm", "pending", "acknowledged", "checking", "suspected")


@dataclass(slots=True)
class Watched:
    """One wearer; None: not heard yet. state: the open alert's, else the device's own, else offline."""

    device: str
    state: str = "waiting"
    margin: float | None = None
    rate_hz: float | None = None
    last_seen: str | None = None
    faults: tuple[str, ...] = ()
    is_online: bool = True
    alert_id: str | None = None
    alert_state: str | None = None
    by: str | None = None
    deadline_ns: int | None = None

    @property
    def shown(self) -> str:
        """What matters most of it."""
        return self.alert_state or (self.state if self.is_online else "offline")

    @property
    def rank(self) -> int:
        """0 is the most urgent."""
        if self.shown in URGENCY:
            return URGENCY.index(self.shown)
        return len(URGENCY) + (self.shown == "normal" and not self.faults)


@dataclass(slots=True)
class Board:
    """All wearers by id; `take` says in a line what changed. n_more: wearers beyond MAX_WEARERS."""

    prefix: str
    wearers: dict[str, Watched] = field(default_factory=dict)
    services: dict[str, bool] = field(default_factory=dict)
    n_more: int = 0
    n_unreadable: int = 0

    @property
    def filters(self) -> list[str]:
        """The topics that it is made of."""
        kinds = ("state", "alert", "availability")
        return [*(f"{self.prefix}/+/{kind}" for kind in kinds), f"{self.prefix}/bridge/+/status"]

    def take(self, topic: str, payload: bytes) -> str | None:
        """Notes a message; a line where a wearer's or a service's state is another now."""
        levels = topic.split("/")
        if levels[1:2] == ["bridge"] and len(levels) == 4:
            return self._service(visible(levels[2]), payload)
        if len(levels) != 3:
            return None
        name, kind = visible(levels[1])[:MAX_TEXT], levels[2]
        if name not in self.wearers and (not payload or len(self.wearers) >= MAX_WEARERS):
            self.n_more += bool(payload)
            return None
        wearer = self.wearers.setdefault(name, Watched(name))
        before = wearer.shown
        try:
            _NOTE[kind](wearer, payload)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            self.n_unreadable += 1
        if wearer.shown == before:
            return None
        why = f", {', '.join(wearer.faults)}" if wearer.faults else ""
        return f"{name}: {wearer.shown} (was {before}){why}"

    def ordered(self) -> list[Watched]:
        """The most urgent first, then by name."""
        return sorted(self.wearers.values(), key=lambda wearer: (wearer.rank, wearer.device))

    def to_json(self) -> dict[str, Any]:
        """All that is known, as data."""
        wearers = [{"shown": each.shown, **asdict(each)} for each in self.ordered()]
        return {"services": self.services, "wearers": wearers, "more": self.n_more, "unreadable": self.n_unreadable}

    def _service(self, name: str, payload: bytes) -> str | None:
        is_online = payload == b"online"
        if (payload or name in self.services) and len(self.services) < MAX_WEARERS:
            before, self.services[name] = self.services.get(name), is_online
            if before is not None and before != is_online:
                return f"service {name}: {'online' if is_online else 'OFFLINE: nobody watches'}"
        return None


def _note_state(wearer: Watched, payload: bytes) -> None:
    if not payload:
        wearer.state = "forgotten"
        return
    content = json.loads(payload)
    wearer.state, wearer.rate_hz = _text(content["state"]), _number(content["rate_hz"])
    score, threshold = _number(content["score"]), _number(content["threshold"])
    wearer.margin = None if score is None or threshold is None else score - threshold
    wearer.last_seen = None if content["last_seen"] is None else _text(content["last_seen"])
    wearer.faults = tuple(_text(fault) for fault in content["faults"][:20])


def _note_alert(wearer: Watched, payload: bytes) -> None:
    if not payload:
        wearer.alert_id = wearer.alert_state = wearer.by = wearer.deadline_ns = None
        return
    content = json.loads(payload)
    wearer.alert_id, wearer.alert_state = _text(content["alert_id"]), _text(content["state"])
    wearer.by = None if content["by"] is None else _text(content["by"])
    due_ns = content["evidence"].get("t_deadline_ns")
    wearer.deadline_ns = int(due_ns) if wearer.alert_state == "pending" and due_ns is not None else None


def _note_availability(wearer: Watched, payload: bytes) -> None:
    wearer.is_online = payload == b"online"


_NOTE: dict[str, Callable[[Watched, bytes], None]] = {
    "state": _note_state,
    "alert": _note_alert,
    "availability": _note_availability,
}


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return visible(value)[:MAX_TEXT]


def _number(value: object) -> float | None:
    if value is None:
        return None
    if isinstance(value, str | bool) or not math.isfinite(value):  # type: ignore[arg-type]
        raise TypeError("no number")
    return float(value)  # type: ignore[arg-type]


def age(last_seen: str | None, now_ns: int) -> str:
    """How long ago an instant was, in words.

    >>> age("2023-11-14T22:13:20.000Z", 1_700_000_090 * 1_000_000_000)
    '90 s ago'
    """
    try:
        then_s = datetime.fromisoformat(last_seen or "").timestamp()
    except ValueError:
        return ""
    seconds = max(0.0, now_ns / NS_PER_S - then_s)
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    return f"{seconds / 60:.0f} min ago" if seconds < 7200 else f"{seconds / 3600:.0f} h ago"


def follow(
    config: Config,
    *,
    client_id: str,
    stop: threading.Event,
    seconds: float | None,
    on_change: Callable[[Board, Iterable[str], bool], None],
) -> Board:
    """Listens until `stop` or `seconds`; on_change(board, lines, is_connected) is called four times a second.

    Raises ServiceError where the broker has not taken the subscriptions within mqtt.connect_timeout_s.
    """
    board = Board(config.mqtt.prefix)
    inbox = Inbox(config.limits.queue_messages, config.limits.queue_bytes)
    is_ready = threading.Event()
    link = MqttLink(
        link_options(config, client_id),
        on_message=inbox.put,
        subscriptions=[Subscription(each) for each in board.filters],
        on_ready=is_ready.set,
    )
    link.start()
    began_s, ready_s = time.monotonic(), None
    try:
        while not stop.wait(SLICE_S):
            now_s = time.monotonic()
            if ready_s is None and is_ready.is_set():
                ready_s = now_s
            if link.fatal is not None:
                raise link.fatal
            if ready_s is None and now_s - began_s >= config.mqtt.connect_timeout_s:
                where, expected = f"broker {config.mqtt.host}:{config.mqtt.port}", "take the subscriptions in time"
                raise ServiceError(where, expected, link.trouble or "nothing", "Check --host, --port, user and TLS")
            lines = [board.take(message.topic, message.payload) for message in inbox.drain() if message.lost is None]
            if ready_s is not None:
                on_change(board, [line for line in lines if line], link.is_connected)
                if seconds is not None and now_s - ready_s >= seconds:
                    break
    finally:
        link.stop()
    return board
