"""An HTTP server: one POST a change, its AlertMessage as JSON, signed as Standard Webhooks 1.0 says.

Headers: `webhook-id`, <alert_id>.<seq>, the same each time that a change is told; `webhook-timestamp`, seconds since
1970; with a key `webhook-signature`, `v1,` and the base64 of the HMAC-SHA256 of id, timestamp and body joined by dots.

2xx has it. 408, 425, 429, 5xx, and no answer within timeout_s: again later, not before Retry-After. All else, also a
redirection, which is not followed, refuses it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import socket
import time
from collections.abc import Callable
from contextlib import closing, suppress
from email.utils import parsedate_to_datetime
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from pathlib import Path
from typing import Literal
from urllib.parse import SplitResult, unquote, urlsplit

from pydantic import SecretStr, field_validator

from stream_occ.sinks._base import Later, Notice, Refused, SinkSettings, is_loopback, said, tls_context, within

MIN_KEY_CHARACTERS = 16
LATER = frozenset({408, 425, 429})  # and 5xx


class Settings(SinkSettings):
    """url may hold a token, so it is a secret; key: `whsec_` and base64, or any text of 16 characters or more."""

    kind: Literal["webhook"]
    url: SecretStr
    url_file: Path | None = None
    key: SecretStr | None = None
    key_file: Path | None = None
    ca_file: Path | None = None

    @field_validator("url")
    @classmethod
    def _http(cls, url: SecretStr) -> SecretStr:
        _split(url.get_secret_value())
        return url

    @field_validator("key")
    @classmethod
    def _strong(cls, key: SecretStr | None) -> SecretStr | None:
        if key is not None:
            signing_key(key.get_secret_value())
        return key

    @property
    def warning(self) -> str | None:
        """Where others on the way can read who fell."""
        url = _split(self.url.get_secret_value())
        if url.scheme == "https" or is_loopback(url.hostname or ""):
            return None
        return f"alerts go to {url.hostname} for everybody on the way to read: use https"


class Sink:
    """A connection a notice: alerts are rare, and an old connection may be dead."""

    def __init__(self, settings: Settings, *, wall_s: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._url = _split(settings.url.get_secret_value())
        self._target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        key = settings.key
        self._key = None if key is None else signing_key(key.get_secret_value())
        self._context = tls_context(settings.ca_file) if self._url.scheme == "https" else None
        self._wall_s = wall_s

    def send(self, notice: Notice) -> None:
        """One request."""
        connection = self._connection()
        try:
            connection.connect()  # each address of a host has timeout_s: one that is dead must not use up the rest
            with within(self._settings.timeout_s, lambda: _cut(connection)):
                connection.request("POST", self._target, notice.body, self._headers(notice))
                with closing(connection.getresponse()) as answer:
                    status, wish = answer.status, answer.headers.get("Retry-After")
        except OSError as error:
            raise Later(said(error)) from error
        except HTTPException as error:  # its words are the answer's, which may repeat the address
            raise Later(type(error).__name__) from None
        finally:
            connection.close()
        if status in LATER or status >= 500:
            raise Later(f"HTTP status {status}", _retry_after_s(wish, self._wall_s()))
        if not 200 <= status < 300:
            raise Refused(f"HTTP status {status}")

    def _connection(self) -> HTTPConnection:
        host, port, timeout_s = self._url.hostname or "", self._url.port, self._settings.timeout_s
        if self._context is None:
            return HTTPConnection(host, port, timeout=timeout_s)
        return HTTPSConnection(host, port, timeout=timeout_s, context=self._context)

    def _headers(self, notice: Notice) -> dict[str, str]:
        stamp = str(int(self._wall_s()))
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "stream-occ",
            "webhook-id": notice.id,
            "webhook-timestamp": stamp,
        }
        if self._key is not None:
            headers["webhook-signature"] = signature(self._key, notice.id, stamp, notice.body)
        if self._url.username is not None:
            login = unquote(f"{self._url.username}:{self._url.password or ''}").encode()
            headers["Authorization"] = f"Basic {base64.b64encode(login).decode()}"
        return headers


def signature(key: bytes, notice_id: str, stamp: str, body: bytes) -> str:
    """The value of webhook-signature.

    >>> key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    >>> signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    mac = hmac.new(key, f"{notice_id}.{stamp}.".encode() + body, hashlib.sha256)
    return f"v1,{base64.b64encode(mac.digest()).decode()}"


def signing_key(text: str) -> bytes:
    """The key's bytes: what `whsec_` is followed by, from base64, or the text itself; ValueError where it is short."""
    try:
        key = base64.b64decode(text[6:], validate=True) if text.startswith("whsec_") else text.encode()
    except binascii.Error:
        raise ValueError("be base64 after whsec_|Make one with: echo whsec_$(openssl rand -base64 32)") from None
    if len(key) < MIN_KEY_CHARACTERS:
        raise ValueError("be at least 16 characters long|Make one with: echo whsec_$(openssl rand -base64 32)")
    return key


def _split(text: str) -> SplitResult:
    """The parts of an address; ValueError for what is none of http."""
    problem = ValueError("be an address such as https://ward.example/alerts|Correct it")
    try:
        url = urlsplit(text)
        is_known = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
        (url.hostname or "").encode("idna")  # no name has an empty part, or one of more than 63 letters
    except ValueError:
        raise problem from None
    if not is_known or not text.isascii() or not text.isprintable() or " " in text:
        raise problem
    return url


def _retry_after_s(value: str | None, now_s: float) -> float:
    """Seconds, or until a date; 0 for what is neither."""
    if value is None:
        return 0.0
    if value.strip().isdecimal() and value.isascii():
        return float(value)
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - now_s)
    except (ValueError, OverflowError):
        return 0.0


def _cut(connection: HTTPConnection) -> None:
    with suppress(OSError, AttributeError):  # not connected yet, or closed meanwhile
        connection.sock.shutdown(socket.SHUT_RDWR)
