"""What a link to a broker is told: where it is, what to subscribe to, how to say that we are there."""

from __future__ import annotations

import logging
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
    """A topic filter and the QoS to ask for."""

    topic_filter: str
    qos: int = 1


@dataclass(frozen=True, slots=True)
class Birth:
    """Retained QoS 1 texts on one topic: `online` on every connection, `offline` as last will and at the end."""

    topic: str
    online: bytes = b"online"
    offline: bytes = b"offline"


def set_tls(client: Any, options: MqttOptions) -> None:
    """Has the MQTT client use TLS; raises ConfigError for files that are no certificates."""
    files = [None if path is None else str(path) for path in (options.ca_file, options.cert_file, options.key_file)]
    try:
        client.tls_set(ca_certs=files[0], certfile=files[1], keyfile=files[2])
    except (OSError, ValueError) as error:
        shown = ", ".join(file for file in files if file is not None)
        raise ConfigError(
            "mqtt.tls",
            "name certificates in PEM format and their key",
            f"{shown} ({named(error)})",
            "Correct the files",
        ) from error


def named(error: Exception) -> str:
    """The error in one line, with its class."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def guarded(callback: Callable[..., None]) -> Callable[..., None]:
    """The callback, whose exceptions are logged and go no further."""

    def guarded(*arguments: Any) -> None:
        try:
            callback(*arguments)
        except Exception:
            log.exception("error in %s", callback.__name__)

    return guarded
