"""What the service publishes: one pydantic model a message, and the topics they go to; documented in docs/topics.md.

Every number is finite (`allow_inf_nan=False`); instants are ISO 8601 in UTC with a Z. The JSON Schemas in docs/schemas
are made of these models by scripts/make_schemas.py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from stream_occ.samples import Alert, AlertState, Decision

ONLINE, OFFLINE = b"online", b"offline"

_DEVICE_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")
RESERVED_DEVICE_IDS = frozenset({"bridge", "status", ".", ".."})  # levels of our own topics

SERVICE_REASONS: dict[str, str] = {
    "bad_device_id": "a device id that is not 1 to 64 of A-Z a-z 0-9 . _ -, or a reserved one",
    "device_limit": "limits.max_devices devices are known already",
    "device_not_listed": "limits.allowed_devices is given and does not list the device",
    "stamp_out_of_range": "a stamp too far from the wall clock (stream.max_past_s, stream.max_future_s)",
    "queue_full": "the worker is behind; limits.queue_messages or queue_bytes are used up",
    "no_input": "a topic that no input's pattern matches",
    "own_topic": "a topic that this service itself publishes to",
    "retained": "a retained message, which says nothing of now",
    "internal_error": "an error of ours; the log has it",
}
"""Why the service itself refuses a message; the codecs' reasons are in stream_occ.codecs.REASONS."""

Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Instant = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]


class Message(BaseModel):
    """A published JSON message."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    def to_payload(self) -> bytes:
        """The message as UTF-8 JSON."""
        return self.model_dump_json(exclude_none=False).encode()


class StateMessage(Message):
    """<prefix>/<device>/state, retained: how the device is and what was last seen of it."""

    state: Literal["waiting", "normal"] | AlertState = Field(
        description="waiting: no trusted window was scored of late"
    )
    score: Finite | None = Field(description="score of the last window, high = abnormal; null before the first")
    threshold: Finite = Field(description="a window whose score is above it is an outlier")
    rate_hz: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(description="measured sampling rate, Hz")
    last_seen: Instant | None = Field(description="when the last accepted message came, UTC by the service's clock")
    faults: tuple[str, ...] = Field(description="what is wrong now: reasons of refusal, gaps, offline, ...; sorted")
    counters: dict[str, Count] = Field(description="since the device became known: refused messages and odd samples")
    model: str = Field(description="model_id of the model in use")


class EventMessage(Message):
    """<prefix>/<device>/event, QoS 1, not retained: one change of an alert's state."""

    event_type: AlertState
    alert_id: str
    seq: Count = Field(description="number of the change, from 0, of this alert")
    t: Instant = Field(description="end of the window that made the change, on the device's clock")
    t_ns: int
    severity: Literal["info", "warning", "critical"]
    reasons: tuple[str, ...]
    score: Finite
    model: str
    evidence: dict[str, int | Finite]


class AlertMessage(Message):
    """<prefix>/<device>/alert, QoS 1, retained while the alert is open and emptied when it is closed."""

    alert_id: str
    device: str
    state: AlertState
    severity: Literal["info", "warning", "critical"]
    seq: Count
    t: Instant = Field(description="end of the window that made the last change, on the device's clock")
    t_ns: int
    reasons: tuple[str, ...]
    score: Finite
    model: str
    evidence: dict[str, int | Finite]


class ScoreMessage(Message):
    """<prefix>/<device>/score, QoS 0: what the detector says of one window."""

    t: Instant = Field(description="stamp of the window's last sample")
    t_ns: int
    score: Finite
    threshold: Finite
    margin: Finite = Field(description="score - threshold: above 0 is an outlier")
    label: Literal["normal", "outlier"]
    model: str


class CountersMessage(Message):
    """<prefix>/bridge/<instance>/counters, retained: what happened to messages since the service started."""

    started: Instant
    devices: Count
    messages: Count = Field(description="messages received, refused ones included")
    windows: Count
    refused: dict[str, Count] = Field(description="by reason, of known and unknown devices together")
    dropped: dict[str, Count] = Field(description="outgoing messages that could not be published, by reason")
    queue: Count = Field(description="messages that wait for the worker")
    connects: Count = Field(description="connections to the broker made so far")


MESSAGES: dict[str, type[Message]] = {
    "state": StateMessage,
    "event": EventMessage,
    "alert": AlertMessage,
    "score": ScoreMessage,
    "counters": CountersMessage,
}
"""Published JSON messages by their topic's last level; status and availability are the plain texts online, offline."""


@dataclass(frozen=True, slots=True)
class Topics:
    """Builds the topics of one instance.

    >>> Topics("stream_occ", "edge").alert("w1")
    'stream_occ/w1/alert'
    """

    prefix: str = "stream_occ"
    instance: str = "edge"

    @property
    def bridge_status(self) -> str:
        """online or offline, retained, last will."""
        return f"{self.prefix}/bridge/{self.instance}/status"

    @property
    def status(self) -> str:
        """The same where there is one instance only."""
        return f"{self.prefix}/status"

    @property
    def counters(self) -> str:
        """What happened to messages, of unknown devices too."""
        return f"{self.prefix}/bridge/{self.instance}/counters"

    def availability(self, device_id: str) -> str:
        """online or offline, by data."""
        return f"{self.prefix}/{device_id}/availability"

    def state(self, device_id: str) -> str:
        """The device's state."""
        return f"{self.prefix}/{device_id}/state"

    def event(self, device_id: str) -> str:
        """Changes of alerts."""
        return f"{self.prefix}/{device_id}/event"

    def alert(self, device_id: str) -> str:
        """The open alert."""
        return f"{self.prefix}/{device_id}/alert"

    def score(self, device_id: str) -> str:
        """One message a window."""
        return f"{self.prefix}/{device_id}/score"

    def is_own(self, topic: str) -> bool:
        """True for every topic under our prefix: what we publish is never taken for a device's message."""
        return topic == self.prefix or topic.startswith(f"{self.prefix}/")


def is_device_id(text: str) -> bool:
    """True for 1 to 64 of A-Z a-z 0-9 . _ - that are no level of our own topics.

    >>> is_device_id("ward-3.watch_7"), is_device_id("a/b"), is_device_id("bridge"), is_device_id("")
    (True, False, False, False)
    """
    return _DEVICE_ID.fullmatch(text) is not None and text not in RESERVED_DEVICE_IDS


def instant(t_ns: int) -> str:
    """ISO 8601 in UTC with milliseconds, rounded down.

    >>> instant(1_700_000_000_123_999_999)
    '2023-11-14T22:13:20.123Z'
    """
    ms = t_ns // 1_000_000
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ms % 1000:03d}Z"


def event_message(alert: Alert) -> EventMessage:
    """The event that announces a change of an alert."""
    return EventMessage(
        event_type=alert.state,
        alert_id=alert.alert_id,
        seq=alert.seq,
        t=instant(alert.t_ns),
        t_ns=alert.t_ns,
        severity=alert.severity,
        reasons=alert.reasons,
        score=alert.score,
        model=alert.model_id,
        evidence=alert.evidence,
    )


def alert_message(alert: Alert) -> AlertMessage:
    """The retained description of an open alert."""
    return AlertMessage(
        alert_id=alert.alert_id,
        device=alert.device_id,
        state=alert.state,
        severity=alert.severity,
        seq=alert.seq,
        t=instant(alert.t_ns),
        t_ns=alert.t_ns,
        reasons=alert.reasons,
        score=alert.score,
        model=alert.model_id,
        evidence=alert.evidence,
    )


def score_message(decision: Decision) -> ScoreMessage:
    """What the detector says of one window."""
    return ScoreMessage(
        t=instant(decision.t_end_ns),
        t_ns=decision.t_end_ns,
        score=decision.score,
        threshold=decision.threshold,
        margin=decision.margin,
        label=decision.label,
        model=decision.model_id,
    )
