"""A mail server: one mail a change, plain text in plain words.

All changes of an alert are one thread, and a change that is sent twice has one Message-ID. A server that has it for one
recipient and not yet for another is asked again for the other alone.
"""

from __future__ import annotations

import re
import smtplib
import socket
from contextlib import closing, suppress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import formatdate
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from stream_occ.samples import AlertState
from stream_occ.sinks import _wording
from stream_occ.sinks._base import (
    FOR_PEOPLE,
    Later,
    Notice,
    Refused,
    SinkSettings,
    is_loopback,
    said,
    text_of,
    tls_context,
    within,
)

PORTS = {"starttls": 587, "tls": 465, "none": 25}
DOMAIN = "alerts.stream-occ.invalid"  # of Message-IDs: unique by alert_id, and no host
MAX_HALF_SENT = 100  # notices of which it is known who has them already
TAKEN = 250
PHASES = 5  # TLS, login, sender and recipients, text, farewell: each within timeout_s, and all together

Address = Annotated[str, Field(max_length=254, pattern=r"^[!-;=?A-~]+@[0-9A-Za-z.\[\]:-]+$")]


class Settings(SinkSettings):
    """security: starttls, tls (from the first byte on), or none; port null: 587, 465 or 25 by it."""

    kind: Literal["email"]
    host: str = Field(min_length=1, max_length=253)
    port: int | None = Field(default=None, ge=1, le=65535)
    security: Literal["starttls", "tls", "none"] = "starttls"
    ca_file: Path | None = None
    username: str | None = None
    password: SecretStr | None = None
    password_file: Path | None = None
    sender: Address
    recipients: tuple[Address, ...]
    states: tuple[AlertState, ...] = FOR_PEOPLE

    @field_validator("recipients")
    @classmethod
    def _some(cls, recipients: tuple[str, ...]) -> tuple[str, ...]:
        if not 1 <= len(set(recipients)) <= 50 or len(set(recipients)) < len(recipients):
            raise ValueError("have 1 to 50 different addresses|Say who is told")
        return recipients

    @model_validator(mode="after")
    def _login(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("have username and password together|Give both, or neither")
        if self.username is not None and self.security == "none" and not is_loopback(self.host):
            raise ValueError("have security: starttls or tls beside a password|Nobody on the way should read it")
        return self

    @property
    def warning(self) -> str | None:
        """Where others on the way can read who fell."""
        if self.security != "none" or is_loopback(self.host):
            return None
        return f"alerts go to {self.host} for everybody on the way to read: set security to starttls or tls"


class Sink:
    """A connection a mail."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._context = None if settings.security == "none" else tls_context(settings.ca_file)
        self._half_sent: dict[str, dict[str, int]] = {}  # last words on a notice, while some are put off

    def send(self, notice: Notice) -> None:
        """To those who have it not yet."""
        ended = self._half_sent.get(notice.id, {})
        missing = [address for address in self._settings.recipients if address not in ended]
        try:
            with self._connected() as smtp, within(PHASES * self._settings.timeout_s, lambda: _cut(smtp)):
                self._log_in(smtp)
                not_taken = _deliver(smtp, self._settings.sender, missing, self._mail(notice))
        except (OSError, smtplib.SMTPException) as error:
            raise Later(_said(error)) from error
        later = {address: code for address, code in not_taken.items() if code < 500}
        ended = ended | {address: not_taken.get(address, TAKEN) for address in missing if address not in later}
        if later:
            self._half_sent[notice.id] = ended
            while len(self._half_sent) > MAX_HALF_SENT:
                del self._half_sent[next(iter(self._half_sent))]
            raise Later(f"SMTP {next(iter(later.values()))} for {len(later)} of {len(missing)} recipients")
        self._half_sent.pop(notice.id, None)
        refused = [code for code in ended.values() if code != TAKEN]
        if refused:
            raise Refused(f"SMTP {refused[0]} for {len(refused)} of {len(ended)} recipients")

    def _connected(self) -> closing[smtplib.SMTP]:
        settings, limit_s = self._settings, self._settings.timeout_s
        port = settings.port or PORTS[settings.security]
        if settings.security == "tls":
            return closing(smtplib.SMTP_SSL(settings.host, port, timeout=limit_s, context=self._context))
        return closing(smtplib.SMTP(settings.host, port, timeout=limit_s))

    def _log_in(self, smtp: smtplib.SMTP) -> None:
        settings, password = self._settings, text_of(self._settings.password)
        if settings.security == "starttls":
            smtp.starttls(context=self._context)
        if settings.username is not None and password is not None:
            smtp.login(settings.username, password)

    def _mail(self, notice: Notice) -> bytes:
        alert = notice.alert
        mail = EmailMessage()
        mail["Subject"] = _wording.headline(alert)
        mail["From"] = self._settings.sender
        mail["To"] = ", ".join(self._settings.recipients)
        mail["Date"] = formatdate(localtime=True)
        mail["Message-ID"] = f"<{notice.id}@{DOMAIN}>"
        if alert.seq:
            mail["In-Reply-To"] = mail["References"] = f"<{alert.alert_id}.0@{DOMAIN}>"
        if alert.state == "alarm":
            mail["Importance"] = "high"
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Stream-Occ-Alert"] = notice.id
        mail.set_content(_wording.text(alert), cte="quoted-printable")
        return mail.as_bytes(policy=SMTP)


def _deliver(smtp: smtplib.SMTP, sender: str, recipients: list[str], mail: bytes) -> dict[str, int]:
    """The server's code for each recipient whom it does not take; SMTPException where it takes nothing at all."""
    try:
        not_taken = {address: code for address, (code, _) in smtp.sendmail(sender, recipients, mail).items()}
    except smtplib.SMTPRecipientsRefused as error:
        not_taken = {address: code for address, (code, _) in error.recipients.items()}
    except smtplib.SMTPDataError as error:
        not_taken = dict.fromkeys(recipients, error.smtp_code)
    with suppress(OSError, smtplib.SMTPException):  # it has the mail; how it says farewell changes nothing
        smtp.quit()
    return not_taken


def _said(error: Exception) -> str:
    """A server's answer may repeat a password that was sent: only its code is told."""
    if isinstance(error, smtplib.SMTPResponseException):
        return f"SMTP {error.smtp_code} ({type(error).__name__})"
    return re.sub(r"\s+", " ", said(error))


def _cut(smtp: smtplib.SMTP) -> None:
    with suppress(OSError, AttributeError):  # not connected yet, or closed meanwhile
        sock: socket.socket = smtp.sock  # type: ignore[assignment]
        sock.shutdown(socket.SHUT_RDWR)
