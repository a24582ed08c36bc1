"""A person's act that comes over the broker: from a message on <prefix>/<device>/set/<kind> to a Command, or a reason.

::

    ack, cancel    empty or PRESS: the open alert; {"alert_id": "0d6c...", "by": "anna", "t": "2026-03-01T12:00:09Z"}
    mute, unmute   {"by": "anna", "minutes": 30}; unmute without minutes
    feedback       {"verdict": "false_alarm", "alert_id": "0d6c...", "by": "anna"}

A program's receipt, set/received {"alert_id": ..., "seq": 3, "receiver": "ward"}, is no act: see stream_occ.outbox.

Retained commands are refused, since a broker repeats them at every start, and so are those whose `t` is too far from
the wall clock. `t` does nothing else: a command acts when it comes. Every refusal is counted with its reason.
"""

from __future__ import annotations

import logging
from typing import cast

from pydantic import ValidationError

from stream_occ.alert_types import Command, CommandKind
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.messages import COMMANDS, CommandMessage, ReceiptMessage, Topics, is_device_id
from stream_occ.samples import NS_PER_S

log = logging.getLogger("stream_occ.commands")

MAX_COMMAND_BYTES = 4096
PRESSED = frozenset({b"", b"PRESS"})  # what a button of a home automation sends


class CommandDesk:
    """Takes commands one by one; refusals are counted where those of samples are, under reasons of their own."""

    def __init__(self, topics: Topics, intake: Intake, *, max_age_s: float) -> None:
        self._topics = topics
        self._intake = intake
        self._max_age_ns = round(max_age_s * NS_PER_S)

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
            reason, detail, command = self._parse(cast(CommandKind, kind), message.payload, now_ns)
        if command is None:
            self._intake.refuse_command(reason, message.topic, device_id, detail)
            return None
        return device_id, command

    def take_receipt(self, message: Received) -> tuple[str, ReceiptMessage] | None:
        """The device and the receipt; None where it is refused. The device may be forgotten by now."""
        self._intake.n_messages += 1
        device_id, _ = self._topics.command_of(message.topic)
        reason, detail, receipt = "command_invalid", "", None
        if message.is_retained:
            reason = "retained"
        elif message.n_bytes > MAX_COMMAND_BYTES:
            reason = "payload_too_large"
        else:
            try:
                receipt = ReceiptMessage.model_validate_json(message.payload)
            except ValidationError as error:
                first = error.errors(include_url=False, include_input=False)[0]
                detail = f"{'.'.join(map(str, first['loc']))!r:.80}: {first['msg']:.80}"
        if receipt is None:
            self._intake.refuse_command(reason, message.topic, device_id, detail)
            return None
        return device_id, receipt

    def _parse(self, kind: CommandKind, payload: bytes, now_ns: int) -> tuple[str, str, Command | None]:
        """Reason and detail of a refusal, or the command."""
        try:
            text = "{}" if payload.strip() in PRESSED else payload.decode()
            message = CommandMessage.model_validate_json(text)
            message.check_kind(kind)
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            return "command_invalid", f"{'.'.join(map(str, first['loc']))!r:.80}: {first['msg']:.80}", None
        except ValueError as error:  # not UTF-8, or a key that does not belong to this kind
            return "command_invalid", f"{error!s:.80}", None
        t_ns = message.t_ns
        if t_ns is not None and abs(now_ns - t_ns) > self._max_age_ns:
            return "command_expired", f"t is {(t_ns - now_ns) / NS_PER_S:+.0f} s off the wall clock", None
        command = Command(
            kind=kind,
            alert_id=message.alert_id,
            by=message.by or "",
            t_ns=now_ns,
            minutes=message.minutes,
            verdict=message.verdict,
        )
        return "", "", command
