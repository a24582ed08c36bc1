"""What the service publishes and which commands it takes: one pydantic model a message.

All of it is documented in docs/topics.md.

Every number is finite (`allow_inf_nan=False`); instants are ISO 8601 in UTC with a Z. The JSON Schemas in docs/schemas
are made of these models by scripts/make_schemas.py.
"""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from stream_occ.alert_types import CommandKind
from stream_occ.joining import LOSSES
from stream_occ.samples import OPEN_ALERT_STATES, Alert, AlertState, Decision
from stream_occ.waveform import COLUMNS, Waveform

ONLINE, OFFLINE = b"online", b"offline"
StateName = Literal["waiting", "normal"] | AlertState
DEVICE_STATES = ("waiting", "normal", *(state for state in get_args(AlertState) if state in OPEN_ALERT_STATES))

SERVICE_REASONS: dict[str, str] = {
    "bad_device_id": "a device id that is not 1 to 64 of A-Z a-z 0-9 . _ -, or a reserved one",
    "device_limit": "limits.max_devices devices are known already",
    "device_not_listed": "limits.allowed_devices is given and does not list the device",
    "stamp_out_of_range": "a stamp too far from the wall clock (stream.max_past_s, stream.max_future_s)",
    "epoch_unit": "stamps 1e3, 1e6 or 1e9 times too small or large: s, ms, us or ns sent as another of them",
    "queue_full": "the worker is behind; limits.queue_messages or queue_bytes are used up",
    "topic_too_long": "a topic of more than 1024 bytes",
    "no_input": "a topic that no input's pattern matches",
    "own_topic": "a topic that this service itself publishes to",
    "retained": "a retained message, which says nothing of now",
    "delivered_again": "a message that the broker delivered a second time; its samples were taken the first time",
    "missing": "messages that a numbering device sent, by its numbers, and that did not come in time",
    "sent_again": "a message that a device with `resends` sent again, and that had been taken",
    "too_early": "a message of a device with `resends` that waits for missing ones to be sent again",
    **LOSSES,
    "internal_error": "an error of ours; the log has it",
}
"""Why the service itself refuses a message; the codecs' reasons are in stream_occ.codecs.REASONS."""

COMMAND_REASONS: dict[str, str] = {
    "command_unknown": "a topic under set/ that is no command of ours, or an invalid device id in it",
    "command_invalid": "neither empty nor PRESS nor a JSON object of the documented keys, or a key that does not fit",
    "command_expired": "its t is further from the wall clock than limits.max_command_age_s",
    "command_unsigned": "a command key is configured, and the command is not signed",
    "command_forged": "its signature is not that of the configured key, this topic and this text",
    "command_repeated": "a signed command that was taken before",
    "unknown_device": "a command for a device that never sent anything",
    "unknown_receiver": "a receipt of a receiver that is not listed in receivers",
    "no_open_alert": "there is no alert that the command could mean",
    "other_alert": "its alert_id is not that of the open alert",
    "not_in_this_state": "the alert is in a state in which the command changes nothing, or the person said so before",
}
"""Why a command is refused, beside `retained` and `payload_too_large`."""

COMMANDS: tuple[str, ...] = get_args(CommandKind)

Finite = Annotated[float, Field(allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0)]
Instant = Annotated[str, Field(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
Contributions = Annotated[
    tuple[tuple[str, Finite], ...],
    Field(description="features that did most for the score, the most first, in robust z from the nearest normal ones"),
]


class Message(BaseModel):
    """A published JSON message."""

    model_config = ConfigDict(extra="forbid", frozen=True, protected_namespaces=())

    def to_payload(self) -> bytes:
        """The message as UTF-8 JSON."""
        return self.model_dump_json(exclude_none=False).encode()


Kind = TypeVar("Kind", bound=Message)


def of_any_version(kind: type[Kind]) -> type[Kind]:
    """The message as a newer service may tell it: keys that are not known here are passed over."""
    return type(kind.__name__, (kind,), {"__module__": __name__, "model_config": ConfigDict(extra="ignore")})


class StateMessage(Message):
    """<prefix>/<device>/state, retained: how the device is and what was last seen of it."""

    state: StateName = Field(description="waiting: no trusted window was scored of late")
    score: Finite | None = Field(description="score of the last window, high = abnormal; null before the first")
    threshold: Finite = Field(description="a window whose score is above it is an outlier")
    rate_hz: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(description="measured sampling rate, Hz")
    jitter_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        default=None, description="standard deviation of the last 64 intervals between stamps, ms"
    )
    clock_offset_s: Finite | None = Field(
        default=None, description="by how much the device's clock is ahead of ours, s, less the link's least delay"
    )
    clock_drift_ppm: Finite | None = Field(default=None, description="by how many millionths it runs fast")
    last_seen: Instant | None = Field(description="when the last accepted message came, UTC by the service's clock")
    faults: tuple[str, ...] = Field(description="what is wrong now: reasons of refusal, gaps, offline, ...; sorted")
    muted_until: Instant | None = Field(description="alerts are marked muted until then, by the device's clock")
    not_worn: bool = Field(description="nothing has moved for long; alerts are raised all the same")
    learning: bool = Field(description="alerts are told and marked, and do not become an alarm by themselves")
    counters: dict[str, Count] = Field(
        description="samples, windows and odd samples since the device became known; refusals since the start"
    )
    model: str = Field(description="model_id of the model in use")


class EventMessage(Message):
    """<prefix>/<device>/event, QoS 1, not retained: one change of an alert's state."""

    event_type: AlertState
    alert_id: str
    seq: Count = Field(description="number of the change, from 0, of this alert")
    t: Instant = Field(description="when the change was made, on the device's clock: end of its window, or a deadline")
    t_ns: int
    severity: Literal["info", "warning", "critical"]
    reasons: tuple[str, ...]
    by: str | None = Field(description="who acted last: the `by` of a command, null where nobody did")
    score: Finite
    model: str
    evidence: dict[str, int | Finite]
    contributions: Contributions


class AlertMessage(Message):
    """<prefix>/<device>/alert, QoS 1, retained while one is pending, alarm or acknowledged; emptied when closed."""

    alert_id: str
    device: str
    state: AlertState
    severity: Literal["info", "warning", "critical"]
    seq: Count
    t: Instant = Field(description="when the last change was made, on the device's clock")
    t_ns: int
    reasons: tuple[str, ...]
    by: str | None = Field(description="who acted last: the `by` of a command, null where nobody did")
    score: Finite
    model: str
    evidence: dict[str, int | Finite]
    contributions: Contributions


class WaveformMessage(Message):
    """<prefix>/<device>/waveform, QoS 1, optional: the signals behind a pending alert."""

    alert_id: str
    seq: Count = Field(description="the change of the alert whose window this is")
    t0: Instant = Field(description="stamp of the first row, on the device's clock")
    t0_ns: int
    rate_hz: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    columns: tuple[str, ...] = Field(description="names and units of a row's numbers")
    dtype: Literal["<f4"] = Field(description="32-bit floats, little-endian")
    data: str = Field(description="the rows one after another, base64")


class ScoreMessage(Message):
    """<prefix>/<device>/score, QoS 0: what the detector says of one window."""

    t: Instant = Field(description="stamp of the window's last sample")
    t_ns: int
    score: Finite
    threshold: Finite
    margin: Finite = Field(description="score - threshold: above 0 is an outlier")
    label: Literal["normal", "outlier"]
    bridged: bool = Field(description="a hole of at most stream.gap_s lies in the window and was interpolated")
    model: str
    contributions: Contributions


class ReceivedUpToMessage(Message):
    """<prefix>/<device>/received_up_to, QoS 0: up to which number a device's messages are kept for good."""

    boot: int | str = Field(description="as in the device's messages")
    seq: Count = Field(description="this one and all before it of the same boot")


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
    connects_refused: dict[str, Count] = Field(description="those that the broker refused, by its reason")


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# No control characters (those from x80 on move a terminal's cursor too), line ends, or changes of writing direction.
_ONE_LINE = r"^[^\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]*$"


class CommandMessage(BaseModel):
    """<prefix>/<device>/set/<ack, cancel, mute, unmute, feedback>: a person's act."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    alert_id: Annotated[str, Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="the alert that is meant; left out: the open one"
    )
    by: Annotated[str, Field(max_length=100, pattern=_ONE_LINE)] | None = Field(
        default=None, description="who acts, as others will read it"
    )
    t: Annotated[AwareDatetime, Field(strict=False)] | None = Field(
        default=None, description="when, with time zone (or seconds since 1970); an old one is refused"
    )
    minutes: Annotated[float, Field(gt=0, le=1440, allow_inf_nan=False)] | None = Field(
        default=None, description="mute: for how long, default 60"
    )
    verdict: Literal["fall", "false_alarm"] | None = Field(default=None, description="feedback: what it was")

    @property
    def t_ns(self) -> int | None:
        """`t` in ns."""
        return None if self.t is None else (self.t - _EPOCH) // timedelta(microseconds=1) * 1000

    def check_kind(self, kind: CommandKind) -> None:
        """Raises ValueError where a key does not belong to the kind, or one that it needs is left out."""
        if self.minutes is not None and kind != "mute":
            raise ValueError("minutes: belongs to mute alone")
        if (self.verdict is not None) != (kind == "feedback"):
            raise ValueError("verdict: belongs to feedback, which needs it")


class ReceiptMessage(BaseModel):
    """<prefix>/<device>/set/received: a receiver has a change of an alert; it is not sent to it again."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    alert_id: Annotated[str, Field(min_length=1, max_length=64)]
    seq: Count = Field(description="of this change alone: earlier ones need receipts of their own")
    receiver: Annotated[str, Field(min_length=1, max_length=64, description="as listed in `receivers`")]


MESSAGES: dict[str, type[Message]] = {
    "state": StateMessage,
    "event": EventMessage,
    "alert": AlertMessage,
    "score": ScoreMessage,
    "waveform": WaveformMessage,
    "counters": CountersMessage,
    "received_up_to": ReceivedUpToMessage,
}
"""Published JSON messages by their topic's last level; status and availability are the plain texts online, offline."""


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
    return EventMessage(event_type=alert.state, **_change(alert))


def alert_message(alert: Alert) -> AlertMessage:
    """The retained description of an open alert."""
    return AlertMessage(device=alert.device_id, state=alert.state, **_change(alert))


def _change(alert: Alert) -> dict[str, Any]:
    """What both say of it."""
    return {
        "alert_id": alert.alert_id,
        "seq": alert.seq,
        "t": instant(alert.t_ns),
        "t_ns": alert.t_ns,
        "severity": alert.severity,
        "reasons": alert.reasons,
        "by": alert.by or None,
        "score": alert.score,
        "model": alert.model_id,
        "evidence": alert.evidence,
        "contributions": alert.contributions,
    }


def waveform_message(alert_id: str, seq: int, waveform: Waveform) -> WaveformMessage:
    """The signals of the window that made a change of an alert."""
    return WaveformMessage(
        alert_id=alert_id,
        seq=seq,
        t0=instant(waveform.t0_ns),
        t0_ns=waveform.t0_ns,
        rate_hz=waveform.rate_hz,
        columns=COLUMNS,
        dtype="<f4",
        data=base64.b64encode(waveform.to_bytes()).decode(),
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
        bridged=decision.is_bridged,
        model=decision.model_id,
        contributions=decision.contributions,
    )
