"""What browsers are answered: one page, a stream of changes to it, the history, and people's acts.

Whoever sends an act proves that the page sent it: a header that no form or foreign page can send, JSON, the browser's
own word that it is of the same origin (Sec-Fetch-Site, else Origin against Host), and a SameSite=Strict cookie. Without
a log-in the Host must be this machine's, or another site could have its name lead here.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import Any, TypeVar, get_args
from urllib.parse import urlsplit

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stream_occ import __version__
from stream_occ.alert_types import CommandKind
from stream_occ.dashboard.access import Access, Person, is_name
from stream_occ.dashboard.feed import Feed
from stream_occ.dashboard.history import MAX_PAGE, NS_PER_DAY, NS_PER_MS, Filter
from stream_occ.topics import is_device_id

log = logging.getLogger("stream_occ.dashboard")
T = TypeVar("T", bound=BaseModel)

COOKIE = "stream_occ_session"
PROOF = "x-stream-occ"  # a header of ours: a foreign page cannot send it without being asked whether it may
MAX_BODY = 4096
MAX_STREAMS = 200
PAUSE_S = 0.05  # between two answers of a stream, in a flood of alerts
TICK_S = 1.0  # wearers and scores are told so often at most; alerts at once
BEAT_S = 5.0  # the page takes a longer silence for a lost connection
ACT_TIMEOUT_S = 5.0
LOOPBACK_HOSTS = frozenset({"localhost", "127.0.0.1", "[::1]", "::1"})
PAGE_FILES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
SECURITY_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        b" form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_CODES = {"taken": 200, "unheard": 200, "refused": 502, "not_sent": 503}


class Act(BaseModel):
    """Body of POST /api/act."""

    model_config = ConfigDict(extra="forbid", strict=True)

    device: str
    kind: str
    alert_id: str | None = Field(default=None, max_length=64)
    minutes: float | None = None
    verdict: str | None = None
    by: str = ""


class LogIn(BaseModel):
    """Body of POST /api/login."""

    model_config = ConfigDict(extra="forbid", strict=True)

    name: str
    password: str


@dataclass(slots=True)
class Web:
    """The answers, on one event loop. is_secure: the cookie goes over TLS alone. Ends its streams when told to."""

    feed: Feed
    access: Access
    is_secure: bool = False
    is_stopping: bool = False
    n_streams: int = 0
    _urgent: asyncio.Event = field(default_factory=asyncio.Event)
    _logging_in: asyncio.Lock = field(default_factory=asyncio.Lock)

    def app(self) -> ASGIApp:
        """The application."""
        routes = [
            *(Route(path, _page_file(name, kind)) for path, (name, kind) in PAGE_FILES.items()),
            Route("/api/me", self._me),
            Route("/api/login", self._log_in, methods=["POST"]),
            Route("/api/logout", self._log_out, methods=["POST"]),
            Route("/api/act", self._act, methods=["POST"]),
            Route("/api/stream", self._for_people(self._stream)),
            Route("/api/alerts", self._for_people(self._alerts)),
            Route("/api/alerts/{alert_id:str}", self._for_people(self._alert)),
            Route("/api/trends", self._for_people(self._trends)),
        ]
        return _Guard(Starlette(routes=routes), is_open=self.access.is_open)

    def wake(self) -> None:
        """Has every stream look for changes now; on the event loop."""
        before, self._urgent = self._urgent, asyncio.Event()
        before.set()

    # ---- who it is

    def _person(self, request: Request) -> Person | None:
        proxy = self.access.proxy
        headers = [] if proxy is None else request.headers.getlist(proxy.header)
        return self.access.person(_address(request), headers, request.cookies.get(COOKIE), time.monotonic())

    def _for_people(self, answer: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
        async def answered(request: Request) -> Response:
            return _problem(401, "log in first") if self._person(request) is None else await answer(request)

        return answered

    async def _me(self, request: Request) -> Response:
        person = self._person(request)
        return JSONResponse(
            {
                "name": None if person is None else person.name,
                "may_act": person is not None and person.may_act,
                "is_known": person is not None,
                "has_login": self.access.people is not None,
                "is_open": self.access.is_open,
                "version": __version__,
            }
        )

    async def _log_in(self, request: Request) -> Response:
        given = await _body(request, LogIn)
        if isinstance(given, Response):
            return given
        address = _address(request)
        async with self._logging_in:  # one hash at a time: it takes 32 MiB and a tenth of a second
            now_s = time.monotonic()
            if not self.access.may_try(address, now_s):
                return _problem(429, "too many wrong passwords: wait a minute")
            token = await asyncio.to_thread(self.access.log_in, given.name, given.password, address, now_s)
        if token is None:
            log.warning("log-in refused from %s", address)
            return _problem(401, "name or password is wrong")
        response = JSONResponse({})
        response.set_cookie(COOKIE, token, httponly=True, samesite="strict", secure=self.is_secure)
        return response

    async def _log_out(self, request: Request) -> Response:
        if not _is_from_page(request):
            return _problem(403, "not sent by the page")
        self.access.log_out(request.cookies.get(COOKIE))
        response = JSONResponse({})
        response.delete_cookie(COOKIE, httponly=True, samesite="strict", secure=self.is_secure)
        return response

    # ---- what they do

    async def _act(self, request: Request) -> Response:
        person = self._person(request)
        if person is None:
            return _problem(401, "log in first")
        act = await _body(request, Act)
        if isinstance(act, Response):
            return act
        if not person.may_act:
            return _problem(403, "you may look, and not act")
        by = person.name or act.by.strip()
        if not is_name(by):
            return _problem(400, "say who you are: a name of 1 to 100 characters in one line, without a colon")
        if not is_device_id(act.device) or act.kind not in get_args(CommandKind):
            return _problem(400, "no such wearer or act")
        kind: CommandKind = next(each for each in get_args(CommandKind) if each == act.kind)
        send = partial(self.feed.act, by=by, alert_id=act.alert_id, minutes=act.minutes, verdict=act.verdict)
        try:
            sent = await asyncio.to_thread(send, act.device, kind)
        except ValueError:
            return _problem(400, "minutes belong to mute, a verdict to feedback")
        try:
            outcome = await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(sent)), ACT_TIMEOUT_S)
        except TimeoutError:
            return JSONResponse({"outcome": "waiting"}, 202)
        return JSONResponse({"outcome": outcome}, _CODES.get(outcome, 200))

    # ---- what they see

    async def _stream(self, request: Request) -> Response:
        if self.n_streams >= MAX_STREAMS:
            return _problem(503, "too many pages are open")
        return StreamingResponse(self._changes(request), media_type="text/event-stream")

    async def _changes(self, request: Request) -> AsyncIterator[bytes]:
        """Changes for one reader: all there is at first, then what changed; who reads slowly is waited for."""
        self.n_streams += 1
        cursor, told_s = 0, 0.0
        try:
            while not self.is_stopping and self._person(request) is not None:
                urgent, now_s = self._urgent, time.monotonic()
                changed = self.feed.since(cursor)
                if changed is not None or now_s - told_s >= BEAT_S:
                    cursor, told_s = (changed or {}).get("cursor", cursor), now_s
                    now_ms = time.time_ns() // NS_PER_MS
                    yield _event({**(changed or {}), "now_ms": now_ms, "health": self.feed.health()})
                await asyncio.sleep(PAUSE_S)
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(urgent.wait(), TICK_S - PAUSE_S)
        finally:
            self.n_streams -= 1

    async def _alerts(self, request: Request) -> Response:
        asked = request.query_params
        try:
            wanted = Filter(
                device_id=asked.get("device") or None,
                state=asked.get("state") or None,
                from_ns=_ns(asked.get("from_ms")),
                to_ns=_ns(asked.get("to_ms")),
                before=int(asked["before"]) if asked.get("before") else None,
                limit=max(1, min(int(asked.get("limit") or 50), MAX_PAGE)),
            )
            found = await asyncio.to_thread(self.feed.history.alerts, wanted)
        except (ValueError, OverflowError):
            return _problem(400, "from_ms, to_ms, before and limit are whole numbers")
        return JSONResponse({"alerts": found, "more": len(found) == wanted.limit})

    async def _alert(self, request: Request) -> Response:
        found = await asyncio.to_thread(self.feed.history.alert, request.path_params["alert_id"])
        if found is None:
            return _problem(404, "no such alert in the history")
        found["waveforms"] = [_signals(each) for each in found["waveforms"]]
        return JSONResponse(found)

    async def _trends(self, request: Request) -> Response:
        days = request.query_params.get("days", "30")
        if not days.isascii() or not days.isdigit() or len(days) > 3 or not 1 <= int(days) <= 366:
            return _problem(400, "days is a whole number from 1 to 366")
        return JSONResponse(await asyncio.to_thread(self.feed.history.trends, time.time_ns() - int(days) * NS_PER_DAY))


class _Guard:
    """Headers of security on every answer; without a log-in hosts of this machine: no foreign name leads there."""

    def __init__(self, app: ASGIApp, *, is_open: bool) -> None:
        self._app = app
        self._is_open = is_open

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *SECURITY_HEADERS]
            await send(message)

        if scope["type"] != "http":
            await self._app(scope, receive, send)
        elif self._is_open and _host_name(Request(scope).headers.get("host", "")) not in LOOPBACK_HOSTS:
            await _problem(421, "another host than this machine's")(scope, receive, guarded)
        else:
            await self._app(scope, receive, guarded)


def _page_file(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    content = (files("stream_occ.dashboard") / "page" / name).read_bytes()

    async def answer(_: Request) -> Response:
        return Response(content, media_type=kind)

    return answer


def _is_from_page(request: Request) -> bool:
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if request.headers.get(PROOF) != "1":
        return False
    if site is not None:
        return site == "same-origin"
    return origin is not None and urlsplit(origin).netloc == request.headers.get("host")


async def _body(request: Request, kind: type[T]) -> T | Response:
    if not _is_from_page(request) or request.headers.get("content-type") != "application/json":
        return _problem(403, "not sent by the page")
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > MAX_BODY:
            return _problem(413, "too long")
    try:
        return kind.model_validate_json(data)
    except ValidationError:
        return _problem(400, "not what is documented")


def _address(request: Request) -> str:
    return "" if request.client is None else request.client.host


def _host_name(host: str) -> str:
    return host if host in LOOPBACK_HOSTS else host.rpartition(":")[0]


def _problem(code: int, text: str) -> Response:
    return JSONResponse({"problem": text}, code)


def _event(content: Mapping[str, Any]) -> bytes:
    return b"data: " + json.dumps(content, separators=(",", ":"), allow_nan=False).encode() + b"\n\n"


def _ns(text: str | None) -> int | None:
    return None if not text else min(max(int(text), 0), 2**43) * NS_PER_MS


def _signals(waveform: dict[str, Any]) -> dict[str, Any]:
    """The rows of a waveform message as numbers; none where it holds other than it says."""
    try:
        rows = np.frombuffer(base64.b64decode(waveform["data"], validate=True), dtype="<f4").reshape(-1, 6)
    except ValueError:
        rows = np.empty((0, 6), np.float32)
    rows = rows[np.isfinite(rows).all(axis=1)]
    kept = {name: waveform[name] for name in ("seq", "t0", "rate_hz", "columns")}
    return {**kept, "rows": [[round(float(value), 3) for value in row] for row in rows]}
