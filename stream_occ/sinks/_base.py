"""What kinds of sinks share: their common keys, what they are given, and how they say that it was not taken."""

from __future__ import annotations

import re
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import Field, SecretStr, field_validator

from stream_occ.errors import ConfigError
from stream_occ.samples import Alert, AlertState
from stream_occ.section import Section

FOR_PEOPLE: tuple[AlertState, ...] = ("pending", "alarm", "acknowledged", "resolved", "cancelled", "false_alarm")
"""What people are told by default: not each burst that is looked at and passes."""
MAX_REASON = 200  # characters of what a receiver says, in logs and answers


class SinkSettings(Section):
    """Keys that every sink has. A key `x` that is a secret has a twin `x_file` for a file that holds it alone.

    states: changes that are told; empty: all that are told as events.
    """

    kind: str
    states: tuple[AlertState, ...] = ()
    timeout_s: float = Field(default=10.0, ge=0.1, le=60)

    @field_validator("states")
    @classmethod
    def _once(cls, states: tuple[AlertState, ...]) -> tuple[AlertState, ...]:
        if len(set(states)) != len(states):
            raise ValueError("name each state once|Remove the second one")
        return states

    @property
    def warning(self) -> str | None:
        """What is unsafe about it, in a sentence for the log."""
        return None

    @classmethod
    def secrets(cls) -> tuple[str, ...]:
        """Keys whose values are never shown."""
        return tuple(name for name, info in cls.model_fields.items() if "SecretStr" in str(info.annotation))

    @classmethod
    def files(cls) -> tuple[str, ...]:
        """Keys that are paths."""
        return tuple(name for name, info in cls.model_fields.items() if "Path" in str(info.annotation))


@dataclass(frozen=True, slots=True)
class Notice:
    """One change of an alert; body: its AlertMessage as JSON."""

    alert: Alert
    body: bytes

    @property
    def id(self) -> str:
        """The same each time that the change is told."""
        return f"{self.alert.alert_id}.{self.alert.seq}"


class Sink(Protocol):
    """An open sink; used by one thread."""

    def send(self, notice: Notice) -> None:
        """Returns when the receiver has it; raises Later or Refused."""


class Later(Exception):
    """Not taken now: to be sent again, and not before after_s where the receiver says so."""

    def __init__(self, reason: str, after_s: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason[:MAX_REASON]
        self.after_s = after_s


class Refused(Exception):
    """The receiver will never take it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason[:MAX_REASON]


@contextmanager
def within(limit_s: float, cut: Callable[[], None]) -> Iterator[None]:
    """Has `cut` called where the block takes longer, and then raises TimeoutError, whatever the block made of it.

    A receiver that sends a byte now and then never times out by itself, and half an answer is no receipt.
    """
    is_over = threading.Event()

    def end() -> None:
        is_over.set()
        cut()

    timer = threading.Timer(limit_s, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
    if is_over.is_set():
        raise TimeoutError("timed out")


def tls_context(ca_file: Path | None) -> ssl.SSLContext:
    """TLS 1.2 or newer; chain and name are always checked. ca_file None: the system's authorities.

    Raises ConfigError where it cannot be read.
    """
    try:
        context = ssl.create_default_context(cafile=ca_file)
    except OSError as error:
        raise ConfigError(str(ca_file), "be a PEM file with certificates", said(error), "Correct ca_file") from error
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def is_loopback(host: str) -> bool:
    """True for this machine."""
    return re.fullmatch(r"localhost|127\.[\d.]+|::1", host) is not None


def said(error: Exception) -> str:
    """What failed, in short; an error without words has its name."""
    return str(error) or type(error).__name__


def text_of(secret: SecretStr | None) -> str | None:
    """The secret itself."""
    return None if secret is None else secret.get_secret_value()
