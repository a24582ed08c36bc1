"""What browsers are answered, without browser and broker: who is let in, which acts are taken, what a stream tells."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from stream_occ.config import Config
from stream_occ.dashboard import web as web_module
from stream_occ.dashboard.access import Access, Person, Proxy, hash_password
from stream_occ.dashboard.feed import Feed
from stream_occ.dashboard.history import History
from stream_occ.dashboard.web import COOKIE, Web
from stream_occ.inbox import Outcome, Received, Token
from tests.unit.dashboard_messages import event, state

PASSWORD = "correct horse"
HASH = hash_password(PASSWORD)
PEOPLE = {"anna": (Person("anna", "act"), HASH), "bob": (Person("bob", "view"), HASH)}
PAGE = {"sec-fetch-site": "same-origin", "x-stream-occ": "1", "content-type": "application/json"}


class FakeLink:
    """Notes what is published; the broker's answer comes at once."""

    def __init__(self) -> None:
        self.is_connected = True
        self.has_room = True
        self.outcome: Outcome = "taken"
        self.sent: list[tuple[str, dict[str, Any]]] = []

    def publish(self, topic: str, payload: bytes, *, qos: int, is_retained: bool,
                on_done: Callable[[Outcome], None] | None = None) -> bool:  # fmt: skip
        assert (qos, is_retained) == (1, False)
        self.sent.append((topic, json.loads(payload)))
        if on_done is not None:
            on_done(self.outcome)
        return True

    def acknowledge(self, tokens: Sequence[Token]) -> None:
        raise NotImplementedError


@dataclass
class Answer:
    code: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Site:
    """The application, asked without a socket."""

    def __init__(self, folder: Path, access: Access, **sections: Any) -> None:
        config = Config.model_validate_json(json.dumps({"inputs": [{"pattern": "wearables/{device}/imu"}], **sections}))
        self.link = FakeLink()
        self.feed = Feed(config, History(folder / "h.history"), receiver="ward" if config.receivers else None)
        self.feed.link = self.link
        self.web = Web(self.feed, access)
        self.app = self.web.app()

    def hear(self, topic: str, payload: bytes) -> None:
        self.feed.take(Received(f"stream_occ/{topic}", payload, False, 0.0, len(payload)))

    def ask(
        self, path: str, *, method: str = "GET", body: bytes = b"", address: str = "127.0.0.1", **headers: str
    ) -> Answer:
        return asyncio.run(self._ask(path, method, body, address, headers))

    def post(self, path: str, content: Any, *, address: str = "127.0.0.1", **headers: str) -> Answer:
        sent = {name: value for name, value in {**PAGE, **headers}.items() if value}
        return self.ask(path, method="POST", body=json.dumps(content).encode(), address=address, **sent)

    def log_in(self, name: str) -> str:
        answer = self.post("/api/login", {"name": name, "password": PASSWORD})
        assert answer.code == 200
        return answer.headers["set-cookie"].partition(";")[0]

    async def _ask(self, path: str, method: str, body: bytes, address: str, headers: dict[str, str]) -> Answer:
        path, _, query = path.partition("?")
        given = {"host": "127.0.0.1:8484", **headers}
        scope = {
            "type": "http", "http_version": "1.1", "method": method, "path": path, "raw_path": path.encode(),
            "query_string": query.encode(), "headers": [(k.encode(), v.encode()) for k, v in given.items()],
            "client": (address, 1), "server": ("127.0.0.1", 8484), "scheme": "http", "root_path": "",
        }  # fmt: skip
        told: list[dict[str, Any]] = []
        requests = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if requests:
                return requests.pop()
            await asyncio.sleep(60)
            raise AssertionError

        async def send(message: Any) -> None:
            told.append(message)

        await self.app(scope, receive, send)
        names = [(k.decode(), v.decode()) for k, v in told[0]["headers"]]
        return Answer(told[0]["status"], dict(names), b"".join(each.get("body", b"") for each in told[1:]))


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Site]]:
    """Makes the site; its file is closed at the end."""
    made: list[Site] = []

    def make(access: Access | None = None, **sections: Any) -> Site:
        made.append(Site(tmp_path, access or Access(), **sections))
        return made[-1]

    yield make
    for site in made:
        site.feed.history.close()


ACK = {"device": "w1", "kind": "ack", "alert_id": "a1", "by": "anna"}


def test_an_act_is_published_as_a_command_with_who_did_it_and_kept(make: Callable[..., Site]) -> None:
    """On the topic of its device; every reader is told; the history has it with the broker's answer."""
    site = make()
    site.hear("w1/event", event("alarm", 3))
    cursor = (site.feed.since(0) or {})["cursor"]
    answer = site.post("/api/act", ACK)
    assert (answer.code, answer.json) == (200, {"outcome": "taken"})
    [(topic, command)] = site.link.sent
    assert topic == "stream_occ/w1/set/ack"
    assert (command["alert_id"], command["by"]) == ("a1", "anna")
    assert command["t"].endswith("Z")
    told = site.feed.since(cursor)
    assert told is not None
    assert [(each["kind"], each["act"], each["by"]) for each in told["notices"]] == [("act", "ack", "anna")]
    kept = site.ask("/api/alerts/a1").json
    assert [(each["kind"], each["by"], each["outcome"]) for each in kept["acts"]] == [("ack", "anna", "taken")]


@pytest.mark.parametrize(
    ("content", "topic", "keys"),
    [
        ({"kind": "cancel", "alert_id": "a1"}, "cancel", {"alert_id": "a1"}),
        ({"kind": "mute", "minutes": 60}, "mute", {"minutes": 60.0}),
        ({"kind": "unmute"}, "unmute", {}),
        ({"kind": "feedback", "verdict": "false_alarm"}, "feedback", {"verdict": "false_alarm"}),
    ],
)  # fmt: skip
def test_each_button_has_its_command(make: Callable[..., Site], content: Any, topic: str, keys: Any) -> None:
    """As docs/topics.md has them."""
    site = make()
    assert site.post("/api/act", {"device": "w1", "by": "anna", **content}).code == 200
    [(sent_to, command)] = site.link.sent
    del command["t"]
    assert (sent_to, command) == (f"stream_occ/w1/set/{topic}", {"by": "anna", **keys})


def test_commands_are_signed_where_a_key_is_configured(
    make: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the envelope that the service asks for."""
    from stream_occ.commands import signature

    monkeypatch.setattr(Config, "resolved_command_key", property(lambda _: b"k" * 16))
    site = make()
    assert site.post("/api/act", ACK).code == 200
    [(topic, envelope)] = site.link.sent
    assert envelope["hmac_sha256"] == signature(b"k" * 16, topic, envelope["signed"].encode()).hex()
    assert json.loads(envelope["signed"])["by"] == "anna"


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"device": "a/b"}, 400), ({"device": "bridge"}, 400), ({"kind": "received"}, 400), ({"kind": "feedback"}, 400),
        ({"minutes": 5}, 400), ({"by": ""}, 400), ({"by": "a\nb"}, 400), ({"by": 7}, 400), ({"more": 1}, 400),
        ({"verdict": "x" * 5000}, 413),
    ],
)  # fmt: skip
def test_what_is_no_command_is_not_sent(make: Callable[..., Site], change: Any, code: int) -> None:
    """Nor kept."""
    site = make()
    assert site.post("/api/act", {**ACK, **change}).code == code
    assert site.link.sent == []


@pytest.mark.parametrize(
    "headers",
    [
        {"x-stream-occ": ""},
        {"content-type": "text/plain"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "", "origin": "http://evil.example"},
        {"sec-fetch-site": ""},
    ],
)
def test_an_act_that_another_page_sends_is_refused(make: Callable[..., Site], headers: dict[str, str]) -> None:
    """No header of ours, a form's kind of content, another origin, or none told."""
    site = make()
    assert site.post("/api/act", ACK, **headers).code == 403
    assert site.link.sent == []


def test_an_older_browser_is_believed_by_its_origin(make: Callable[..., Site]) -> None:
    """Sec-Fetch-Site came with 2020 to 2023."""
    site = make()
    assert site.post("/api/act", ACK, **{"sec-fetch-site": "", "origin": "http://127.0.0.1:8484"}).code == 200


def test_a_foreign_name_that_leads_to_this_machine_is_refused_without_log_in(make: Callable[..., Site]) -> None:
    """DNS rebinding: the browser would take evil.example for the page's own origin."""
    site = make()
    assert site.ask("/", host="evil.example:8484").code == 421
    assert site.ask("/", host="localhost:8484").code == 200
    assert site.ask("/", host="[::1]:8484").code == 200


def test_without_a_session_there_is_nothing_to_see_or_do(make: Callable[..., Site]) -> None:
    """But the page itself, which asks for the password."""
    site = make(Access(PEOPLE))
    for path in ("/api/stream", "/api/alerts", "/api/alerts/a1", "/api/trends"):
        assert site.ask(path).code == 401
    assert site.post("/api/act", ACK).code == 401
    assert site.ask("/").code == 200
    assert site.ask("/api/me").json["is_known"] is False
    assert site.post("/api/login", {"name": "anna", "password": "wrong horse"}).code == 401
    assert (
        site.post("/api/login", {"name": "anna", "password": PASSWORD}, **{"sec-fetch-site": "cross-site"}).code == 403
    )


def test_who_is_logged_in_acts_under_their_own_name(make: Callable[..., Site]) -> None:
    """Whatever the page says; and no more after the log-out."""
    site = make(Access(PEOPLE))
    answer = site.post("/api/login", {"name": "anna", "password": PASSWORD})
    assert "HttpOnly" in answer.headers["set-cookie"]
    assert "SameSite=strict" in answer.headers["set-cookie"]
    cookie = answer.headers["set-cookie"].partition(";")[0]
    assert cookie.startswith(COOKIE)
    assert site.ask("/api/me", cookie=cookie).json["name"] == "anna"
    assert site.post("/api/act", {**ACK, "by": "bob"}, cookie=cookie).code == 200
    assert site.link.sent[0][1]["by"] == "anna"
    assert site.post("/api/logout", {}, cookie=cookie).code == 200
    assert site.post("/api/act", ACK, cookie=cookie).code == 401


def test_who_may_look_may_not_act(make: Callable[..., Site]) -> None:
    """By the role in the file; a proxy's unknown name too."""
    site = make(Access(PEOPLE, Proxy.of("X-Remote-User", "10.0.0.1")))
    assert site.post("/api/act", ACK, cookie=site.log_in("bob")).code == 403
    assert site.post("/api/act", ACK, address="10.0.0.1", **{"x-remote-user": "carla"}).code == 403
    assert site.post("/api/act", ACK, address="10.0.0.1", **{"x-remote-user": "anna"}).code == 200
    assert site.post("/api/act", ACK, address="10.0.0.2", **{"x-remote-user": "anna"}).code == 401
    assert len(site.link.sent) == 1


def test_wrong_passwords_are_slowed_down(make: Callable[..., Site]) -> None:
    """The eleventh within a minute is not tried."""
    site = make(Access(PEOPLE))
    codes = [site.post("/api/login", {"name": "anna", "password": "wrong"}).code for _ in range(11)]
    assert codes == [401] * 10 + [429]


def test_no_broker_means_not_sent_and_a_refusal_is_told(make: Callable[..., Site]) -> None:
    """An act must not wait for a broker and come when nobody expects it."""
    site = make()
    site.link.outcome = "refused"
    assert (site.post("/api/act", ACK).code, site.post("/api/act", ACK).json) == (502, {"outcome": "refused"})
    site.link.is_connected = False
    assert (site.post("/api/act", ACK).code, len(site.link.sent)) == (503, 2)


def test_every_answer_forbids_scripts_and_frames_from_elsewhere(make: Callable[..., Site]) -> None:
    """The page's own files alone; and those name no other place."""
    site = make()
    for path in ("/", "/page.js", "/page.css", "/icon.svg", "/api/me", "/nowhere"):
        answer = site.ask(path)
        assert "default-src 'none'; script-src 'self'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        text = answer.body.decode().replace("http://www.w3.org/2000/svg", "")
        assert re.search(r"//\w", text) is None
        assert "innerHTML" not in text
        assert "eval(" not in text


def test_history_is_asked_with_filters(make: Callable[..., Site]) -> None:
    """And odd ones are refused, not answered with everything."""
    site = make()
    for n in range(3):
        site.hear(f"w{n}/event", event("resolved", 4, alert_id=f"a{n}"))
    assert [each["device"] for each in site.ask("/api/alerts?device=w1").json["alerts"]] == ["w1"]
    assert site.ask("/api/alerts?limit=2").json["more"] is True
    assert site.ask("/api/alerts?from_ms=99999999999999999999999").json["alerts"] == []
    assert site.ask("/api/alerts?before=x").code == 400
    assert site.ask("/api/alerts/none").code == 404
    assert [each["n"] for each in site.ask("/api/trends?days=7").json["alerts"]] == [3]
    assert site.ask("/api/trends?days=-1").code == 400
    assert site.ask("/api/trends?days=00007999999999999999999").code == 400


def test_a_waveform_is_told_as_numbers(make: Callable[..., Site]) -> None:
    """Rows of six; what is no such thing gives none."""
    import base64

    import numpy as np

    site = make()
    site.hear("w1/event", event("pending", 2))
    rows = np.array([[0.0, 0.1, 9.8, 0, 0, 0], [1.0, 0.1, np.nan, 0, 0, 0], [2.0, 0.1, 9.7, 0, 0, 0]], "<f4")
    message = {"alert_id": "a1", "seq": 2, "t0": "2026-03-01T12:00:00.000Z", "t0_ns": 0, "rate_hz": 50.0,
               "columns": ["acc_x"], "dtype": "<f4", "data": base64.b64encode(rows.tobytes()).decode()}  # fmt: skip
    site.hear("w1/waveform", json.dumps(message).encode())
    [found] = site.ask("/api/alerts/a1").json["waveforms"]
    assert found["rows"] == [[0.0, 0.1, 9.8, 0.0, 0.0, 0.0], [2.0, 0.1, 9.7, 0.0, 0.0, 0.0]]
    site.hear("w1/waveform", json.dumps({**message, "data": "AAAA"}).encode())
    assert site.ask("/api/alerts/a1").json["waveforms"][0]["rows"] == []


def test_a_receiver_says_what_it_has_once_it_is_kept(make: Callable[..., Site]) -> None:
    """Each time it is told, and not where the disk failed."""
    site = make(receivers=["ward"])
    site.hear("w1/event", event("alarm", 3))
    receipt = ("stream_occ/w1/set/received", {"alert_id": "a1", "seq": 3, "receiver": "ward"})
    assert site.link.sent == [receipt]
    site.feed.history._db.close()
    site.hear("w1/event", event("alarm", 4))
    assert site.link.sent == [receipt]
    assert site.feed.health()["failures"] == {"history": 1}
    told = site.feed.since(0)
    assert told is not None
    assert [each["seq"] for each in told["alerts"]] == [4]  # shown all the same


def test_a_stream_tells_all_there_is_then_changes_alerts_at_once(
    make: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An alert does not wait for the second's end, and a stream ends with its session."""
    monkeypatch.setattr(web_module, "TICK_S", 1000.0)
    site = make(Access(PEOPLE))
    cookie = site.log_in("bob")
    site.hear("w1/state", state())

    async def watch() -> list[dict[str, Any]]:
        from starlette.requests import Request

        headers = [(b"cookie", cookie.encode())]
        request = Request({"type": "http", "headers": headers, "client": ("127.0.0.1", 1), "method": "GET"})
        stream = site.web._changes(request)
        told = [await anext(stream)]
        waiting = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        site.hear("w1/event", event("alarm", 3))
        site.web.wake()
        told.append(await asyncio.wait_for(waiting, 60))
        site.web.access.log_out(cookie.partition("=")[2])
        ending = asyncio.ensure_future(anext(stream))
        await asyncio.sleep(0.1)
        site.web.wake()
        with pytest.raises(StopAsyncIteration):
            await asyncio.wait_for(ending, 60)
        return [json.loads(each.removeprefix(b"data: ")) for each in told]

    first, second = asyncio.run(watch())
    assert first["whole"]
    assert [each["id"] for each in first["wearers"]] == ["w1"]
    assert [each["state"] for each in second["alerts"]] == ["alarm"]
    assert second["wearers"] == []
    assert site.web.n_streams == 0
