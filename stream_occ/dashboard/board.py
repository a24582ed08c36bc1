"""What the page shows now, made of MQTT messages one by one: wearers, services, open alerts. No clock, no I/O.

Every change has a number, and a reader is a number too: `since` tells what changed after it. So there is no queue that
could be full: who reads slowly is told less often of wearers and scores, and still of every alert and act.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import Any

from pydantic import ValidationError

from stream_occ.messages import (
    OFFLINE,
    ONLINE,
    AlertMessage,
    CountersMessage,
    EventMessage,
    ScoreMessage,
    StateMessage,
    WaveformMessage,
    of_any_version,
)
from stream_occ.samples import NS_PER_S, OPEN_ALERT_STATES
from stream_occ.topics import is_device_id

NS_PER_MS = 1_000_000
N_SCORES = 60  # of a sparkline
MAX_WEARERS = 10_000
MAX_SERVICES = 1000
MAX_SEQ = 2**53 - 1  # the largest whole number of a page's language, and below SQLite's
MAX_NOTICES = 2000  # who has read less is told everything anew
MAX_CLOSED = 10_000  # alerts whose late or repeated changes are known not to open them again
MAX_BYTES = 64 * 1024  # of any message but a waveform: ours are a few kB
SETTLED_NS = 5 * NS_PER_S  # a state this much after an alert's last change is no older than it
_SHARED = ("alert_id", "seq", "t", "t_ns", "severity", "reasons", "by", "score", "model", "evidence", "contributions")
_State, _Event, _Alert = of_any_version(StateMessage), of_any_version(EventMessage), of_any_version(AlertMessage)
_Score, _Counters = of_any_version(ScoreMessage), of_any_version(CountersMessage)


@dataclass(slots=True)
class Wearer:
    """A device and what was last heard of it. heard_ns: when, by our clock; 0: never live."""

    device_id: str
    version: int = 0
    heard_ns: int = 0
    is_online: bool | None = None
    state: StateMessage | None = None
    scores: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=N_SCORES))
    has_own_scores: bool = False  # the score topic is heard: those of the state are the same again

    def view(self, cursor: int) -> dict[str, Any]:
        """As the page has it; `new`: the scores after `cursor`."""
        told: dict[str, Any] = {
            "id": self.device_id,
            "online": self.is_online,
            "heard_ms": self.heard_ns // NS_PER_MS,
            "new": [score for version, score in self.scores if version > cursor],
        }
        if (state := self.state) is not None:
            told |= {
                "state": state.state,
                "score": state.score,
                "threshold": state.threshold,
                "rate_hz": state.rate_hz,
                "last_seen": state.last_seen,
                "faults": state.faults,
                "muted_until": state.muted_until,
                "not_worn": state.not_worn,
                "learning": state.learning,
                "model": state.model,
            }
        return told


@dataclass(slots=True)
class Service:
    """One detector, by its instance."""

    instance: str
    version: int = 0
    is_online: bool | None = None
    counters: CountersMessage | None = None
    heard_ns: int = 0
    messages_per_s: float | None = None  # between its last two counters

    def view(self) -> dict[str, Any]:
        """As the page has it."""
        counters = None if self.counters is None else self.counters.model_dump(mode="json")
        return {
            "instance": self.instance,
            "online": self.is_online,
            "counters": counters,
            "heard_ms": self.heard_ns // NS_PER_MS,
            "messages_per_s": self.messages_per_s,
        }


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """An alert that is open, as it was last told; all instants by our clock."""

    message: AlertMessage
    since_ns: int
    heard_ns: int
    deadline_ns: int | None

    def view(self) -> dict[str, Any]:
        """As the page has it."""
        deadline_ms = None if self.deadline_ns is None else self.deadline_ns // NS_PER_MS
        return {
            **self.message.model_dump(mode="json"),
            "since_ms": self.since_ns // NS_PER_MS,
            "deadline_ms": deadline_ms,
        }


@dataclass(frozen=True, slots=True)
class Heard:
    """What of a message is to be kept: a change of an alert, signals, seconds for which a device was worn."""

    change: AlertMessage | None = None
    waveform: tuple[str, WaveformMessage] | None = None
    worn: tuple[str, float] | None = None


NOTHING = Heard()


class Board:
    """Takes messages, tells what there is and what changed. Not for several threads at once."""

    def __init__(self, prefix: str, *, state_interval_s: float = 10.0) -> None:
        self.version = 0
        self.refused: Counter[str] = Counter()  # messages that could not be used, by reason
        self.wearers: dict[str, Wearer] = {}
        self.services: dict[str, Service] = {}
        self.open: dict[str, OpenAlert] = {}
        self._prefix = f"{prefix}/"
        self._max_pause_ns = round(3 * state_interval_s * NS_PER_S)
        self._alerts_version = 0
        self._closed: OrderedDict[str, int] = OrderedDict()  # alert_id -> highest seq
        self._notices: deque[tuple[int, dict[str, Any]]] = deque()
        self._forgotten_version = 0  # of the newest notice that is no more kept

    # ---- what comes in

    def take(self, topic: str, payload: bytes, *, is_retained: bool, now_ns: int, n_bytes: int | None = None) -> Heard:
        """Takes a message in; what is damaged is counted and changes nothing.

        n_bytes: the size as sent, where the payload was thrown away for it.
        """
        levels = topic.removeprefix(self._prefix).split("/")
        if not topic.startswith(self._prefix) or len(levels) > 3:
            return NOTHING
        kind = levels[-1]
        n_bytes = len(payload) if n_bytes is None else n_bytes
        if n_bytes > len(payload) or (n_bytes > MAX_BYTES and kind != "waveform"):
            return self._refuse("payload_too_large")
        if not is_device_id(levels[-2] if len(levels) > 1 else ""):
            return NOTHING if topic == f"{self._prefix}status" else self._refuse("bad_device_id")
        try:
            if len(levels) == 3:
                return self._take_service(levels[1], kind, payload, now_ns) if levels[0] == "bridge" else NOTHING
            return self._take_device(levels[0], kind, payload, is_retained, now_ns)
        except ValidationError:
            return self._refuse("invalid")

    def _take_service(self, instance: str, kind: str, payload: bytes, now_ns: int) -> Heard:
        if kind not in ("status", "counters"):
            return NOTHING
        if instance not in self.services and len(self.services) >= MAX_SERVICES:
            return self._refuse("too_many_services")
        counters = None
        if kind == "counters" and payload:
            counters = _Counters.model_validate_json(payload)
        elif kind == "status" and payload not in (ONLINE, OFFLINE, b""):
            return self._refuse("invalid")
        service = self.services.setdefault(instance, Service(instance))
        service.version = self._next()
        if kind == "status":
            service.is_online = payload == ONLINE if payload else None
        elif counters is not None:
            before, elapsed_ns = service.counters, now_ns - service.heard_ns
            is_same_run = before is not None and before.started == counters.started and service.heard_ns > 0
            if before is not None and is_same_run and elapsed_ns > NS_PER_S // 2:
                service.messages_per_s = (counters.messages - before.messages) * NS_PER_S / elapsed_ns
            service.counters, service.heard_ns = counters, now_ns
        return NOTHING

    def _take_device(self, device_id: str, kind: str, payload: bytes, is_retained: bool, now_ns: int) -> Heard:
        if kind == "alert":
            if not payload:
                self._close_all(device_id)
                return NOTHING
            alert = _Alert.model_validate_json(payload)
            return self._change(alert, now_ns) if alert.device == device_id else self._refuse("device_mismatch")
        if kind == "event":
            if is_retained:
                return self._refuse("retained")
            event = _Event.model_validate_json(payload)
            shared = {name: getattr(event, name) for name in _SHARED}
            return self._change(_Alert(device=device_id, state=event.event_type, **shared), now_ns)
        if kind == "waveform":
            return NOTHING if is_retained else Heard(waveform=(device_id, WaveformMessage.model_validate_json(payload)))
        if kind not in ("state", "availability", "score"):
            return NOTHING  # commands, acknowledgements, what later versions may have
        if not payload:
            return self._forget(device_id, kind)
        state = _State.model_validate_json(payload) if kind == "state" else None
        score = _Score.model_validate_json(payload) if kind == "score" else None
        if kind == "availability" and payload not in (ONLINE, OFFLINE):
            return self._refuse("invalid")
        if device_id not in self.wearers and len(self.wearers) >= MAX_WEARERS:
            return self._refuse("too_many_wearers")
        wearer = self.wearers.setdefault(device_id, Wearer(device_id))
        wearer.version = self._next()
        if state is not None:
            return self._take_state(wearer, state, is_retained, now_ns)
        if score is not None:
            wearer.has_own_scores = True
            wearer.scores.append((self.version, score.score))
        else:
            wearer.is_online = payload == ONLINE
        return NOTHING

    def _take_state(self, wearer: Wearer, state: StateMessage, is_retained: bool, now_ns: int) -> Heard:
        before, elapsed_ns = wearer.state, now_ns - wearer.heard_ns
        wearer.state = state
        if state.score is not None and not wearer.has_own_scores:
            wearer.scores.append((self.version, state.score))
        if state.state not in OPEN_ALERT_STATES:  # its end was not heard: the broker may have lost it
            for alert_id in [a for a, each in self.open.items() if each.message.device == wearer.device_id]:
                if now_ns - self.open[alert_id].heard_ns > SETTLED_NS:
                    self._close(alert_id)
        if is_retained:
            return NOTHING
        was_heard, wearer.heard_ns = wearer.heard_ns > 0, now_ns
        is_worn = before is not None and not before.not_worn and wearer.is_online is True
        if was_heard and is_worn and 0 < elapsed_ns <= self._max_pause_ns:
            return Heard(worn=(wearer.device_id, elapsed_ns / NS_PER_S))
        return NOTHING

    def _change(self, alert: AlertMessage, now_ns: int) -> Heard:
        """A change of an alert, told for the first time or again; the highest seq is the present."""
        if alert.seq > MAX_SEQ:
            return self._refuse("invalid")
        known = self.open.get(alert.alert_id)
        known_seq = self._closed.get(alert.alert_id, -1) if known is None else known.message.seq
        if alert.seq <= known_seq:
            return Heard(change=alert)  # late or told again: the history knows whether it has it
        if alert.state not in OPEN_ALERT_STATES:
            self._note_closed(alert.alert_id, alert.seq)
            self.open.pop(alert.alert_id, None)
        else:
            self._closed.pop(alert.alert_id, None)
            since_ns = now_ns if known is None else known.since_ns
            self.open[alert.alert_id] = OpenAlert(alert, since_ns, now_ns, self._deadline_ns(alert, now_ns))
        self._alerts_version = self._next()
        by = alert.by if {"ack", "cancel", "all_clear", "feedback_false_alarm"} & set(alert.reasons) else None
        self.notice({"kind": "change", "alert_id": alert.alert_id, "device": alert.device, "seq": alert.seq,
                     "state": alert.state, "by": by})  # fmt: skip
        return Heard(change=alert)

    def _deadline_ns(self, alert: AlertMessage, now_ns: int) -> int | None:
        """When the countdown ends, by our clock: never later than told, however far the device's clock is ahead."""
        told_ns = alert.evidence.get("t_deadline_ns")
        if told_ns is None or alert.state != "pending":
            return None
        wearer = self.wearers.get(alert.device)
        ahead_s = None if wearer is None or wearer.state is None else wearer.state.clock_offset_s
        return min(int(told_ns) - round((ahead_s or 0.0) * NS_PER_S), now_ns + int(told_ns) - alert.t_ns)

    def _close_all(self, device_id: str) -> None:
        """The retained alert was emptied. What is only suspected was never in it, and is left alone."""
        for alert_id, each in list(self.open.items()):
            if each.message.device == device_id and each.message.state not in ("suspected", "checking"):
                self._close(alert_id)

    def _close(self, alert_id: str) -> None:
        closed = self.open.pop(alert_id).message
        self._note_closed(alert_id, closed.seq)
        self._alerts_version = self._next()
        self.notice({"kind": "closed", "alert_id": alert_id, "device": closed.device})

    def _note_closed(self, alert_id: str, seq: int) -> None:
        self._closed[alert_id] = seq
        self._closed.move_to_end(alert_id)
        if len(self._closed) > MAX_CLOSED:
            self._closed.popitem(last=False)

    def _forget(self, device_id: str, kind: str) -> Heard:
        """The service has forgotten the device: it emptied what was retained."""
        has_alert = any(each.message.device == device_id for each in self.open.values())
        if kind == "state" and not has_alert and self.wearers.pop(device_id, None) is not None:
            self.notice({"kind": "gone", "device": device_id})
        return NOTHING

    def notice(self, content: dict[str, Any]) -> None:
        """Something that each reader is told, once."""
        self._notices.append((self._next(), content))
        if len(self._notices) > MAX_NOTICES:
            self._forgotten_version, _ = self._notices.popleft()

    def _next(self) -> int:
        self.version += 1
        return self.version

    def _refuse(self, reason: str) -> Heard:
        self.refused[reason] += 1
        return NOTHING

    # ---- what goes out

    @property
    def urgent_version(self) -> int:
        """Of the last change that must not wait: of alerts, or a notice."""
        newest = self._notices[-1][0] if self._notices else 0
        return max(self._alerts_version, newest)

    def since(self, cursor: int) -> dict[str, Any] | None:
        """What changed after `cursor` (0: everything there is, `whole`), with the next cursor; None: nothing did."""
        if cursor == self.version and cursor > 0:
            return None
        is_whole = cursor == 0 or cursor < self._forgotten_version
        after = 0 if is_whole else cursor
        told: dict[str, Any] = {
            "cursor": self.version,
            "whole": is_whole,
            "wearers": [each.view(after) for each in self.wearers.values() if each.version > after or is_whole],
            "services": [each.view() for each in self.services.values() if each.version > after or is_whole],
            "notices": [] if is_whole else [content for version, content in self._notices if version > after],
        }
        if is_whole or self._alerts_version > after:
            told["alerts"] = [each.view() for each in self.open.values()]
        return told
