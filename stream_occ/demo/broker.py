"""An MQTT 5 broker for the demo: on loopback alone, on a free port, in a child process, gone with its parent.

mosquitto where it is on PATH, else rumqttd inside the `iotcore` wheel. Neither keeps anything on disk. Not for
production: rumqttd keeps the newest 10 MB of each filter for a client that lags behind and drops the rest in silence.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from stream_occ.demo.children import Child, accepts_connections, free_port
from stream_occ.errors import ServiceError

BrokerKind = Literal["mosquitto", "iotcore"]

HOST = "127.0.0.1"
MAX_PAYLOAD_BYTES = 4 * 1024 * 1024  # rumqttd's default, 20 kB, cuts the connection of whoever publishes more
START_TIMEOUT_S = 10.0
N_PORT_ATTEMPTS = 3  # a free port may be taken by somebody else before the broker binds it
SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"])  # Debian: /usr/sbin

MOSQUITTO_CONF = """\
listener {port} {host}
allow_anonymous true
persistence false
message_size_limit {max_payload}
max_queued_messages 100000
log_dest stderr
log_type error
log_type warning
"""

RUMQTTD_TOML = """\
id = 0

[router]
id = 0
max_connections = 1000
max_outgoing_packet_count = 200
max_segment_size = 1048576
max_segment_count = 10

[v5.1]
name = "v5"
listen = "{host}:{port}"
next_connection_delay_ms = 1

[v5.1.connections]
connection_timeout_ms = 60000
max_payload_size = {max_payload}
max_inflight_count = 200
dynamic_filters = true
"""

# Drops the working directory from the module path: a folder called iotcore there must not shadow the package.
RUMQTTD_CHILD = (
    "import sys; sys.path[:] = [p for p in sys.path if p not in ('', '.')]; "
    "from iotcore.iotcore import IotCoreBroker; IotCoreBroker(config_path=sys.argv[1]).run_forever()"
)


@dataclass(frozen=True, slots=True)
class EmbeddedBroker:
    """Where the broker listens, and which one it is."""

    kind: BrokerKind
    host: str
    port: int


def choose_kind() -> BrokerKind:
    """mosquitto where it is installed, else iotcore; raises ServiceError where there is neither."""
    if _mosquitto() is not None:
        return "mosquitto"
    if find_spec("iotcore") is not None:
        return "iotcore"
    raise ServiceError(
        "embedded broker",
        "find mosquitto on PATH or the iotcore package",
        "neither",
        "Install stream_occ with its demo extra, or mosquitto (apt-get install mosquitto)",
    )


@contextmanager
def embedded_broker(folder: Path, *, kind: BrokerKind | None = None) -> Iterator[EmbeddedBroker]:
    """A running broker, stopped at the end of the block; its configuration and log go to `folder`."""
    kind = choose_kind() if kind is None else kind
    child, port = _start(kind, folder)
    with child:
        yield EmbeddedBroker(kind, HOST, port)


def _start(kind: BrokerKind, folder: Path) -> tuple[Child, int]:
    for _ in range(N_PORT_ATTEMPTS):
        port = free_port()
        child = Child(_command(kind, folder, port), log_file=folder / f"{kind}.log")
        if _wait_until_listening(child, port):
            return child, port
        child.stop()
    raise ServiceError(
        "embedded broker",
        f"listen within {START_TIMEOUT_S:g} s",
        f"{kind} that did not: {child.log_tail(1) or 'it printed nothing'}",
        f"See {child.log_file}, or try the other broker with --broker",
    )


def _wait_until_listening(child: Child, port: int) -> bool:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline and child.exit_code() is None:
        if accepts_connections(port):
            return True
        time.sleep(0.02)
    return False


def _command(kind: BrokerKind, folder: Path, port: int) -> list[str]:
    settings = {"host": HOST, "port": port, "max_payload": MAX_PAYLOAD_BYTES}
    if kind == "mosquitto":
        conf = folder / "mosquitto.conf"
        conf.write_text(MOSQUITTO_CONF.format(**settings), encoding="utf-8")
        return [_mosquitto() or "mosquitto", "-c", str(conf)]
    conf = folder / "rumqttd.toml"
    conf.write_text(RUMQTTD_TOML.format(**settings), encoding="utf-8")
    return [sys.executable, "-c", RUMQTTD_CHILD, str(conf)]


def _mosquitto() -> str | None:
    return shutil.which("mosquitto", path=SEARCH_PATH)
