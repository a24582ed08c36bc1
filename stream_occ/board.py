"""Wearers and their alerts as retained topics tell of them, for somebody who watches at a terminal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from stream_occ.config import Config
from stream_occ.errors import visible
from stream_occ.listening import slices
from stream_occ.messages import ONLINE, AlertMessage, StateMessage, of_any_version
from stream_occ.mqtt import Subscription
from stream_occ.samples import NS_PER_S

MAX_WEARERS = 10_000
MAX_TEXT = 60  # characters of what others wrote
MAX_FAULTS = 20
SLICE_S = 0.25
# The most urgent first; what is not here is between the alerts and `normal`.
URGENCY = ("alarm", "pending", "acknowledged", "checking", "suspected")
_STATE, _ALERT = of_any_version(StateMessage), of_any_version(AlertMessage)


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
            if kind in _NOTE:
                _NOTE[kind](wearer, payload)
        except ValidationError:
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
        is_online = payload == ONLINE
        if (payload or name in self.services) and len(self.services) < MAX_WEARERS:
            before, self.services[name] = self.services.get(name), is_online
            if before is not None and before != is_online:
                return f"service {name}: {'online' if is_online else 'OFFLINE: nobody watches'}"
        return None


def _note_state(wearer: Watched, payload: bytes) -> None:
    if not payload:
        wearer.state = "forgotten"
        return
    told = _STATE.model_validate_json(payload)
    wearer.state, wearer.rate_hz, wearer.last_seen = told.state, told.rate_hz, told.last_seen
    wearer.margin = None if told.score is None else told.score - told.threshold
    wearer.faults = tuple(_text(fault) for fault in told.faults[:MAX_FAULTS])


def _note_alert(wearer: Watched, payload: bytes) -> None:
    if not payload:
        wearer.alert_id = wearer.alert_state = wearer.by = wearer.deadline_ns = None
        return
    told = _ALERT.model_validate_json(payload)
    wearer.alert_id, wearer.alert_state = _text(told.alert_id), told.state
    wearer.by = None if told.by is None else _text(told.by)
    due_ns = told.evidence.get("t_deadline_ns")
    wearer.deadline_ns = int(due_ns) if told.state == "pending" and due_ns is not None else None


def _note_availability(wearer: Watched, payload: bytes) -> None:
    wearer.is_online = payload == ONLINE


_NOTE: dict[str, Callable[[Watched, bytes], None]] = {
    "state": _note_state,
    "alert": _note_alert,
    "availability": _note_availability,
}


def _text(value: str) -> str:
    return visible(value)[:MAX_TEXT]


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
    subscriptions = [Subscription(each) for each in board.filters]
    for part in slices(config, subscriptions, client_id=client_id, stop=stop, slice_s=SLICE_S, seconds=seconds):
        lines = [board.take(message.topic, message.payload) for message in part.messages if message.lost is None]
        if part.seconds is not None:
            on_change(board, [line for line in lines if line], part.is_connected)
    return board
