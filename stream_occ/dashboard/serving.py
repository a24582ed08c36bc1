"""Runs the dashboard: the link to the broker, the web server, and what is done now and then."""

from __future__ import annotations

import asyncio
import logging
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import uvicorn

from stream_occ.config import Config
from stream_occ.dashboard.access import Access
from stream_occ.dashboard.feed import Feed
from stream_occ.dashboard.history import History
from stream_occ.dashboard.web import LOOPBACK_HOSTS, Web
from stream_occ.errors import ServiceError, UsageError
from stream_occ.mqtt import MqttLink
from stream_occ.wiring import link_options, state_folder

log = logging.getLogger("stream_occ.dashboard")

SAVE_EVERY_S = 30.0
PRUNE_EVERY_S = 3600.0
START_TIMEOUT_S = 10.0
STOP_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class Where:
    """Where the page is served. port 0: a free one. cert_file, key_file: TLS, both or neither."""

    host: str = "127.0.0.1"
    port: int = 8484
    cert_file: Path | None = None
    key_file: Path | None = None

    @property
    def is_loopback(self) -> bool:
        """True where only this machine reaches it."""
        return self.host in LOOPBACK_HOSTS


def history_path(config: Config) -> Path:
    """Where the history is by default: beside the services' state files."""
    return state_folder() / f"{config.mqtt.prefix}-dashboard.history"


def run(
    config: Config,
    access: Access,
    where: Where,
    *,
    history_file: Path,
    receiver: str | None = None,
    stop: threading.Event,
    on_ready: Callable[[str], None] = lambda line: None,
) -> None:
    """Serves the page until `stop` is set; the broker may come later, and go.

    Raises UsageError where the address cannot be listened on or the certificate not be read, DataError for a file that
    is no history, ServiceError where another process takes the session over and where a thread died.
    """
    listener = _listener(where)
    history: History | None = None
    link: MqttLink | None = None
    try:
        history = History(history_file)
        feed = Feed(config, history, receiver=receiver)
        link = MqttLink(link_options(config, history.client_id), on_message=feed.take, subscriptions=feed.subscriptions)
        feed.link = link
        server = _Server(feed, access, where, listener)
        link.start()
        server.start()
        try:
            on_ready(f"ready: {_url(where, listener)}")
            _watch(config, feed, link, server, stop)
        finally:
            server.stop()
    finally:
        listener.close()
        if link is not None:
            link.stop()
            feed.save_worn()
        if history is not None:
            history.close()


def _watch(config: Config, feed: Feed, link: MqttLink, server: _Server, stop: threading.Event) -> None:
    saved_s, pruned_s = time.monotonic(), -PRUNE_EVERY_S
    while not stop.wait(0.2):
        now_s = time.monotonic()
        if link.fatal is not None:
            raise link.fatal
        if not link.is_alive or not server.is_alive:
            raise ServiceError("dashboard", "have its threads alive", "a dead one", "Start it again")
        if now_s - saved_s >= SAVE_EVERY_S:
            saved_s = now_s
            feed.save_worn()
        if now_s - pruned_s >= PRUNE_EVERY_S:
            pruned_s, state = now_s, config.state
            try:
                feed.history.prune(time.time_ns(), keep_days=state.keep_days, keep_changes=state.keep_changes,
                                   keep_waveforms=state.keep_waveforms)  # fmt: skip
            except sqlite3.Error as error:
                log.error("the history cannot be shortened: %s", error)


class _Server:
    """The web server in a thread of its own: signals are the main thread's."""

    def __init__(self, feed: Feed, access: Access, where: Where, listener: socket.socket) -> None:
        self._web = Web(feed, access, is_secure=where.cert_file is not None)
        self._feed = feed
        self._listener = listener
        config = uvicorn.Config(
            self._web.app(), log_config=None, access_log=False, proxy_headers=False, server_header=False,
            lifespan="off", ws="none", loop="asyncio", http="h11", timeout_graceful_shutdown=2,
            limit_concurrency=1000, ssl_certfile=where.cert_file, ssl_keyfile=where.key_file,
        )  # fmt: skip
        try:
            config.load()
        except OSError as error:  # of OpenSSL too
            remedy = "Give the PEM files of one pair"
            raise UsageError("--tls-cert and --tls-key", "be a certificate and its key", str(error), remedy) from error
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="dashboard-http", daemon=True)

    @property
    def is_alive(self) -> bool:
        """True while the thread runs."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Returns when the server answers."""
        self._thread.start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._server.started:
            if not self.is_alive or time.monotonic() > deadline:
                raise ServiceError("dashboard", "start its web server", "none that answers", "See the log")
            time.sleep(0.01)

    def stop(self) -> None:
        """Ends the streams, then the server."""
        self._web.is_stopping = True
        self._feed.on_urgent()
        self._server.should_exit = True
        self._thread.join(STOP_TIMEOUT_S)

    def _run(self) -> None:
        async def serve() -> None:
            loop = asyncio.get_running_loop()
            self._feed.on_urgent = lambda: _call(loop, self._web.wake)
            await self._server.serve(sockets=[self._listener])

        asyncio.run(serve())


def _call(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    if not loop.is_closed():
        try:
            loop.call_soon_threadsafe(function)
        except RuntimeError:  # closed meanwhile
            log.debug("the event loop is gone")


def _listener(where: Where) -> socket.socket:
    family = socket.AF_INET6 if ":" in where.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((where.host, where.port))
    except OSError as error:
        listener.close()
        got = error.strerror or str(error)
        raise UsageError(
            f"{where.host}:{where.port}", "be an address to listen on", got, "Give another --port"
        ) from error
    return listener


def _url(where: Where, listener: socket.socket) -> str:
    host = f"[{where.host}]" if ":" in where.host else where.host
    return f"{'https' if where.cert_file else 'http'}://{host}:{listener.getsockname()[1]}/"
