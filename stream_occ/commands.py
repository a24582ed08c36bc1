"""A person's act that comes over the broker: from a message on <prefix>/<device>/set/<kind> to a Command, or a reason.

::

    ack, cancel    empty or PRESS: the open alert; {"alert_id": "0d6c...", "by": "anna", "t": "2026-03-01T12:00:09Z"}
    mute, unmute   {"by": "anna", "minutes": 30}; unmute without minutes
    feedback       {"verdict": "false_alarm", "alert_id": "0d6c...", "by": "anna"}

Where a key is configured, each of them must be signed, as `sign_command` does: {"signed": "{\\"by\\": ...}",
"hmac_sha256": "..."}, the signature being of the topic, a line feed and the text as it is, so that it holds for one
device and one command. The text must hold `t`, and the same signed command is taken once. Without a key the text is
taken as if it had come alone.

A program's receipt, set/received {"alert_id": ..., "seq": 3, "receiver": "ward"}, is no act: see stream_occ.outbox.

Retained commands are refused, since a broker repeats them at every start, and so are those whose `t` is too far from
the wall clock. `t` does nothing else: a command acts when it comes. Every refusal is counted with its reason.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
from typing import Annotated, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from stream_occ.alert_types import Command, CommandKind
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.messages import COMMANDS, CommandMessage, ReceiptMessage
from stream_occ.samples import NS_PER_S
from stream_occ.seen import DIGEST_BYTES, Seen
from stream_occ.topics import Topics, is_device_id

log = logging.getLogger("stream_occ.commands")

MAX_COMMAND_BYTES = 4096
LINE_S = 10.0  # between two lines of one kind of act of a device: each act, and whose it is, is in its event
PRESSED = frozenset({b"", b"PRESS"})  # what a button of a home automation sends


class SignedMessage(BaseModel):
    """What carries a signed command or receipt: its text as it is, and the signature of topic, line feed and text."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    signed: Annotated[str, Field(max_length=4096, description="the JSON of the command or receipt, as a text")]
    hmac_sha256: Annotated[
        str, Field(pattern=r"^[0-9a-f]{64}$", description="HMAC-SHA256 of topic, line feed and `signed`, hexadecimal")
    ]


def signature(key: bytes, topic: str, text: bytes) -> bytes:
    """HMAC-SHA256 of topic, line feed and text; no topic holds a line feed that we take commands from."""
    return hmac.new(key, topic.encode() + b"\n" + text, hashlib.sha256).digest()


def sign_command(key: bytes, topic: str, text: str) -> bytes:
    """The payload that carries `text`, a command's JSON with its `t`, to `topic` signed.

    >>> sign_command(b"k" * 16, "stream_occ/w1/set/ack", '{"t": 1772366409}')[:60]
    b'{"signed": "{\\\\"t\\\\": 1772366409}", "hmac_sha256": "2f35a2ada0'
    """
    return json.dumps({"signed": text, "hmac_sha256": signature(key, topic, text.encode()).hex()}).encode()


class CommandDesk:
    """Takes commands one by one; refusals are counted where those of samples are, under reasons of their own.

    key: every command and receipt must be signed with it; None: none need be. seen: outlives the process, and knows
    signed commands that were taken.
    """

    def __init__(
        self, topics: Topics, intake: Intake, *, max_age_s: float, key: bytes | None = None, seen: Seen | None = None
    ) -> None:
        self._topics = topics
        self._intake = intake
        self._max_age_ns = round(max_age_s * NS_PER_S)
        self._key = key
        self._seen = seen
        self._said_s: dict[tuple[str, str], float] = {}  # acts of which a line was written of late
        self._taken: dict[bytes, int] = {}  # signatures and their `t`, in ns, of all that could be taken again

    def take(self, message: Received, now_ns: int) -> tuple[str, Command] | None:
        """The device and the command; None where it is refused."""
        self._intake.n_messages += 1
        device_id, kind = self._topics.command_of(message.topic)
        reason, detail, command = "", "", None
        if kind not in COMMANDS or not is_device_id(device_id):
            reason = "command_unknown"
        elif message.is_retained:
            reason = "retained"
        elif device_id not in self._intake.devices:
            reason = "unknown_device"
        elif message.n_bytes > MAX_COMMAND_BYTES:
            reason = "payload_too_large"
        else:
            reason, text, mac = self._opened(message)
            if not reason:
                reason, detail, command = self._parse(cast(CommandKind, kind), text, mac, now_ns)
        if command is None:
            self._intake.refuse_command(reason, message.topic, device_id, detail)
            return None
        return device_id, command

    def take_receipt(self, message: Received) -> tuple[str, ReceiptMessage] | None:
        """The device and the receipt; None where it is refused. The device may be forgotten by now.

        One that is sent again, by whomever, says what is known already.
        """
        self._intake.n_messages += 1
        device_id, _ = self._topics.command_of(message.topic)
        reason, detail, receipt = "", "", None
        if not is_device_id(device_id):
            reason = "command_unknown"
        elif message.is_retained:
            reason = "retained"
        elif message.n_bytes > MAX_COMMAND_BYTES:
            reason = "payload_too_large"
        else:
            reason, text, _ = self._opened(message)
            try:
                receipt = None if reason else ReceiptMessage.model_validate_json(text)
            except ValidationError as error:
                reason, detail = "command_invalid", _first_problem(error)
        if receipt is None:
            self._intake.refuse_command(reason, message.topic, device_id, detail)
            return None
        return device_id, receipt

    def say(self, device_id: str, kind: str, now_s: float) -> None:
        """Logs an act: of each kind and device a line in LINE_S, and what comes more often at debug."""
        self._said_s = {act: said_s for act, said_s in self._said_s.items() if now_s - said_s < LINE_S}
        level = logging.DEBUG if (device_id, kind) in self._said_s else logging.INFO
        self._said_s.setdefault((device_id, kind), now_s)
        log.log(level, "%s of %s", kind, device_id, extra={"device": device_id})

    def _opened(self, message: Received) -> tuple[str, bytes, bytes]:
        """Reason of a refusal, what was sent or signed, and its signature, empty where none is asked for."""
        try:
            envelope = SignedMessage.model_validate_json(message.payload)
        except ValidationError:
            return "" if self._key is None else "command_unsigned", message.payload, b""
        text = envelope.signed.encode(errors="replace")  # half characters, which no command has
        if self._key is None:
            return "", text, b""
        mac = signature(self._key, message.topic, text)
        is_genuine = hmac.compare_digest(mac, bytes.fromhex(envelope.hmac_sha256))
        return "" if is_genuine else "command_forged", text, mac

    def _parse(self, kind: CommandKind, payload: bytes, mac: bytes, now_ns: int) -> tuple[str, str, Command | None]:
        """Reason and detail of a refusal, or the command."""
        try:
            text = "{}" if payload.strip() in PRESSED else payload.decode()
            message = CommandMessage.model_validate_json(text)
            message.check_kind(kind)
        except ValidationError as error:
            return "command_invalid", _first_problem(error), None
        except ValueError as error:  # not UTF-8, or a key that does not belong to this kind
            return "command_invalid", f"{error!s:.80}", None
        t_ns = message.t_ns
        if mac and t_ns is None:
            return "command_invalid", "t: a signed command needs it", None
        if t_ns is not None and abs(now_ns - t_ns) > self._max_age_ns:
            return "command_expired", f"t is {(t_ns - now_ns) / NS_PER_S:+.0f} s off the wall clock", None
        if mac and t_ns is not None and not self._is_first(mac, t_ns, now_ns):
            return "command_repeated", "", None
        command = Command(
            kind=kind,
            alert_id=message.alert_id,
            by=message.by or "",
            t_ns=now_ns,
            minutes=message.minutes,
            verdict=message.verdict,
        )
        return "", "", command

    def _is_first(self, mac: bytes, t_ns: int, now_ns: int) -> bool:
        """Notes a signature; False where it was noted before, by this process or, of late, by the one before it."""
        self._taken = {known: t for known, t in self._taken.items() if t >= now_ns - self._max_age_ns}
        if mac in self._taken or (self._seen is not None and mac[:DIGEST_BYTES] in self._seen):
            return False
        self._taken[mac] = t_ns
        if self._seen is not None:
            self._seen.add(mac[:DIGEST_BYTES])
        return True


def _first_problem(error: ValidationError) -> str:
    """Where and what, without what came."""
    first = error.errors(include_url=False, include_input=False)[0]
    if first["type"] == "extra_forbidden":
        return "a key that is not documented"
    return f"{'.'.join(map(str, first['loc']))!r:.80}: {first['msg']:.80}"
