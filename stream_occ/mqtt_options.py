"""What a link to a broker is told: where it is, what to subscribe to, how to say that we are there."""

from __future__ import annotations

import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stream_occ.errors import ConfigError

log = logging.getLogger("stream_occ.mqtt")


@dataclass(frozen=True, slots=True)
class MqttOptions:
    """How to reach the broker, and bounds. session_expiry_s 0 makes the broker forget us when the link ends.

    unacknowledged_messages: 0, or how many a broker of MQTT 5 may have sent without an acknowledgement, which then is
    by hand.
    """

    host: str
    port: int
    client_id: str
    protocol: Literal["5", "3.1.1"] = "5"
    use_tls: bool = False
    ca_file: Path | None = None
    cert_file: Path | None = None
    key_file: Path | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    keepalive_s: int = 30
    session_expiry_s: int = 0
    connect_timeout_s: float = 10.0
    reconnect_min_s: float = 0.5
    reconnect_max_s: float = 30.0
    outgoing_messages: int = 10_000
    max_payload_bytes: int = 1024 * 1024
    unacknowledged_messages: int = 0


@dataclass(frozen=True, slots=True)
class Subscription:
    """A topic filter and the QoS to ask for.

    keeps_retain: a message that was sent to be retained says so also to us who heard it at once; only by MQTT 5.
    """

    topic_filter: str
    qos: int = 1
    keeps_retain: bool = False


@dataclass(frozen=True, slots=True)
class Birth:
    """Retained QoS 1 texts on one topic: `online` on every connection, `offline` as last will and at the end."""

    topic: str
    online: bytes = b"online"
    offline: bytes = b"offline"


def set_access(client: Any, options: MqttOptions) -> None:
    """Has the MQTT client use what the options say of name and TLS, and send each packet at once.

    Raises ConfigError as `_set_tls` does.
    """
    client.connect_timeout = options.connect_timeout_s
    client.on_socket_open = guarded(_send_at_once)
    if options.username is not None:
        client.username_pw_set(options.username, options.password)
    if options.use_tls:
        _set_tls(client, options)


def _send_at_once(_: Any, __: Any, sock: Any) -> None:
    """No packet waits for the acknowledgement of the one before."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def _set_tls(client: Any, options: MqttOptions) -> None:
    """TLS 1.2 or newer, the broker's certificate and name checked, always.

    Raises ConfigError for files that are no certificates, or a key that only a pass phrase opens.
    """
    files = [None if path is None else str(path) for path in (options.ca_file, options.cert_file, options.key_file)]
    try:
        context = ssl.create_default_context(cafile=files[0])
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if files[1] is not None:
            context.load_cert_chain(files[1], files[2], password=_no_pass_phrase)
        client.tls_set_context(context)
    except (OSError, ValueError) as error:
        shown = ", ".join(file for file in files if file is not None)
        raise ConfigError(
            "mqtt.tls",
            "name certificates in PEM format and their key",
            f"{shown} ({named(error)})",
            "Correct the files",
        ) from error
    client.on_log = guarded(_tell_alert)


def _no_pass_phrase() -> str:
    raise ValueError("the key has a pass phrase, and nobody is there to type it")  # OpenSSL would ask the terminal


_ALERTS = {
    "CERTIFICATE_REQUIRED": "it wants a certificate of ours. Set mqtt.tls.cert_file and key_file",
    "HANDSHAKE_FAILURE": "no common ground, or it wants a certificate of ours. Set mqtt.tls.cert_file and key_file",
    "UNKNOWN_CA": "it does not know who signed our certificate. Check mqtt.tls.cert_file",
    "CERTIFICATE_EXPIRED": "our certificate has expired. Renew mqtt.tls.cert_file",
}


def _tell_alert(_: Any, __: Any, ___: int, text: str) -> None:
    """With TLS 1.3 a broker that refuses us says so after the handshake, and the client library to its log alone."""
    told = next((told for name, told in _ALERTS.items() if f"ALERT_{name}" in text), None)
    if told is not None:
        log.warning("TLS refused by the broker: %s", told)


def named(error: Exception) -> str:
    """The error in one line, with its class; what TLS says, with what to look at."""
    if isinstance(error, ssl.SSLCertVerificationError):
        remedy = "mqtt.host" if "mismatch" in error.verify_message else "mqtt.tls.ca_file"
        return f"its certificate is refused: {error.verify_message.rstrip('.')}. Check {remedy}"
    if isinstance(error, ssl.SSLError):
        told = next((told for name, told in _ALERTS.items() if name in (error.reason or "")), None)
        if told is not None:
            return f"TLS: {told}"
    return " ".join(f"{type(error).__name__}: {error}".split())


def guarded(callback: Callable[..., None]) -> Callable[..., None]:
    """The callback, whose exceptions are logged and go no further."""

    def guarded(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception:
            log.exception("error in %s", callback.__name__)

    return guarded


def confirm_at_once(sock: Any) -> None:
    """Has what came confirmed by the kernel now, not in 40 ms: until then a broker may hold its next packets back."""
    if hasattr(socket, "TCP_QUICKACK"):  # Linux; holds for what came so far
        with contextlib.suppress(OSError):  # closed meanwhile
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
