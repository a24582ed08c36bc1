"""Receivers of alerts on this machine, an HTTP and a mail server, each told how to answer; and alerts to send."""

from __future__ import annotations

import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stream_occ.messages import alert_message
from stream_occ.samples import Alert, AlertState
from stream_occ.sinks import Notice

T_NS = 1_772_366_409_000_000_000  # 2026-03-01T12:00:09Z


def an_alert(seq: int = 0, state: AlertState = "alarm", *, alert_id: str = "a1", **changes: Any) -> Alert:
    """A change of alert a1 of wearer w1."""
    severity = {"alarm": "critical", "pending": "warning"}.get(state, "info")
    facts: dict[str, Any] = {"reasons": ("still",), "score": 7.5, "model_id": "m1", "severity": severity, "t_ns": T_NS}
    return Alert(**{"alert_id": alert_id, "device_id": "w1", "seq": seq, "state": state, **facts, **changes})


def a_notice(seq: int = 0, state: AlertState = "alarm", **changes: Any) -> Notice:
    """The change as it is given to a sink."""
    alert = an_alert(seq, state, **changes)
    return Notice(alert, alert_message(alert).to_payload())


@dataclass
class Post:
    """What came with one request."""

    path: str
    headers: dict[str, str]
    body: bytes


@dataclass
class WebServer:
    """Answers 200, or what `answers` says next: a status and headers; None hangs until the end of the test."""

    answers: list[tuple[int, dict[str, str]] | None] = field(default_factory=list)
    posts: list[Post] = field(default_factory=list)
    port: int = 0
    scheme: str = "http"
    closed: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}/alerts?ward=3"


class _Handler(BaseHTTPRequestHandler):
    peer: WebServer

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        answer = self.peer.answers.pop(0) if self.peer.answers else (200, {})
        self.peer.posts.append(Post(self.path, headers, body))
        if answer is None:
            self.peer.closed.wait(30)
            return
        self.send_response(answer[0])
        for name, value in answer[1].items():
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def web_server(port: int = 0, *, certificate: Path | None = None) -> Iterator[WebServer]:
    """A server on a loopback port; with a certificate (its key beside it, .key) it speaks TLS."""
    peer = WebServer(scheme="http" if certificate is None else "https")
    handler = type("Handler", (_Handler,), {"peer": peer})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that hang up are part of the tests
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    peer.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield peer
    finally:
        peer.closed.set()
        server.shutdown()
        server.server_close()
        thread.join(5)


@dataclass
class MailServer:
    """Keeps mails; `refusals`: replies to a recipient, by address, each used once; data_reply: to the text."""

    mails: list[tuple[list[str], bytes]] = field(default_factory=list)
    refusals: dict[str, list[str]] = field(default_factory=dict)
    data_reply: str | None = None
    port: int = 0

    async def handle_RCPT(self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any) -> str:
        if self.refusals.get(address):
            return self.refusals[address].pop(0)
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:
        if self.data_reply is not None:
            return self.data_reply
        self.mails.append((list(envelope.rcpt_tos), envelope.original_content))
        return "250 OK"


@contextmanager
def mail_server(
    *, certificate: Path | None = None, is_tls_from_start: bool = False, login: tuple[str, str] | None = None
) -> Iterator[MailServer]:
    """A server on a loopback port; with a certificate it asks for STARTTLS, or speaks TLS from the start."""
    from aiosmtpd.controller import Controller
    from aiosmtpd.smtp import SMTP, AuthResult

    peer, context = MailServer(), None
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))

    def allows(_s: Any, _session: Any, _envelope: Any, _mechanism: Any, data: Any) -> Any:
        return AuthResult(success=(data.login.decode(), data.password.decode()) == login, handled=False)

    class Server(Controller):  # type: ignore[misc]
        def factory(self) -> Any:
            starts = context if context is not None and not is_tls_from_start else None
            options = {"authenticator": allows, "auth_required": True} if login else {}
            return SMTP(self.handler, tls_context=starts, require_starttls=starts is not None, **options)

    server = Server(peer, hostname="127.0.0.1", port=_free_port(), ssl_context=context if is_tls_from_start else None)
    server.start()
    peer.port = server.port
    try:
        yield peer
    finally:
        server.stop()


def _free_port() -> int:
    from tests.integration.broker import free_port

    return free_port()


def until(condition: Callable[[], Any], what: str, limit_s: float = 20.0) -> None:
    """Waits for a condition."""
    deadline_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline_s, what
        time.sleep(0.005)
