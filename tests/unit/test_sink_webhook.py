"""The webhook against a real HTTP server: what it sends, whom it believes, and which answers it takes for what."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import socket
import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stream_occ.errors import ConfigError
from stream_occ.sinks import Later, Refused
from stream_occ.sinks.webhook import Settings, Sink
from tests.integration.credentials import certify
from tests.sink_peers import WebServer, a_notice, web_server

KEY = b"0123456789abcdef0123456789abcdef"
REPO = Path(__file__).resolve().parents[2]


def a_sink(url: str, **keys: Any) -> Sink:
    return Sink(Settings.model_validate_json(json.dumps({"kind": "webhook", "url": url, **keys}), strict=True))


def later(peer: WebServer, status: int, headers: dict[str, str] | None = None) -> Later:
    peer.answers.append((status, headers or {}))
    with pytest.raises(Later) as caught:
        a_sink(peer.url).send(a_notice())
    return caught.value


def test_post_is_the_alert_message_signed_with_its_time() -> None:
    """A receiver that has the key computes the same from id, time and body; the id tells it what it has already."""
    with web_server() as peer:
        sink = a_sink(peer.url, key="whsec_" + base64.b64encode(KEY).decode())
        for _ in range(2):
            sink.send(a_notice(3, by="anna"))
    first, again = peer.posts
    content = json.loads(first.body)
    assert (content["alert_id"], content["seq"], content["device"], content["state"]) == ("a1", 3, "w1", "alarm")
    assert first.path == "/alerts?ward=3"
    assert first.headers["content-type"] == "application/json"
    assert first.headers["webhook-id"] == again.headers["webhook-id"] == "a1.3"
    stamp = first.headers["webhook-timestamp"]
    assert abs(int(stamp) - time.time()) < 60
    mac = hmac.digest(KEY, b"a1.3." + stamp.encode() + b"." + first.body, hashlib.sha256)
    assert first.headers["webhook-signature"] == "v1," + base64.b64encode(mac).decode()


def test_receiver_of_the_documentation_believes_it_and_nobody_else() -> None:
    """The example in docs/sinks.md, as it stands there."""
    [example] = re.findall(r"```python\n(.*?)```", (REPO / "docs" / "sinks.md").read_text(), re.DOTALL)
    scope: dict[str, Any] = {}
    exec(example, scope)
    key = "whsec_" + base64.b64encode(KEY).decode()
    with web_server() as peer:
        a_sink(peer.url, key=key).send(a_notice())
        a_sink(peer.url, key="another key of 16 letters").send(a_notice())
    genuine, forged = peer.posts
    assert scope["is_genuine"](key, genuine.headers, genuine.body)
    assert not scope["is_genuine"](key, genuine.headers, genuine.body + b" ")
    assert not scope["is_genuine"](key, forged.headers, forged.body)
    assert not scope["is_genuine"](key, {**genuine.headers, "webhook-timestamp": "1700000000"}, genuine.body)


def test_without_a_key_nothing_is_signed() -> None:
    """And a name and password in the address go as a header."""
    with web_server() as peer:
        a_sink(peer.url.replace("//", "//ward:pa%40ss@")).send(a_notice())
    assert "webhook-signature" not in peer.posts[0].headers
    assert peer.posts[0].headers["authorization"] == "Basic " + base64.b64encode(b"ward:pa@ss").decode()


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
def test_server_that_cannot_now_is_asked_later(status: int) -> None:
    """No Retry-After: the queue decides when."""
    with web_server() as peer:
        error = later(peer, status)
    assert (error.reason, error.after_s) == (f"HTTP status {status}", 0.0)


def test_retry_after_is_seconds_or_a_date() -> None:
    """What is neither is nothing."""
    with web_server() as peer:
        assert later(peer, 429, {"Retry-After": "7"}).after_s == 7.0
        moment = format_datetime(datetime.now(UTC) + timedelta(seconds=90), usegmt=True)
        assert 85 <= later(peer, 503, {"Retry-After": moment}).after_s <= 90
        for nonsense in ("soon", "-5", "1e9", "Mon, 99 Foo"):
            assert later(peer, 503, {"Retry-After": nonsense}).after_s == 0.0


@pytest.mark.parametrize("status", [301, 302, 304, 307, 400, 401, 403, 404, 410, 422])
def test_server_that_says_no_is_believed(status: int) -> None:
    """A redirection is a no as well: alerts go where the configuration says and nowhere else."""
    with web_server() as peer, web_server() as other:
        peer.answers.append((status, {"Location": other.url}))
        with pytest.raises(Refused, match=f"HTTP status {status}"):
            a_sink(peer.url).send(a_notice())
    assert other.posts == []


@pytest.mark.parametrize("status", [200, 201, 202, 204])
def test_any_success_is_a_receipt(status: int) -> None:
    """Whatever the body says."""
    with web_server() as peer:
        peer.answers.append((status, {}))
        a_sink(peer.url).send(a_notice())


def test_server_that_hangs_is_given_up_in_time() -> None:
    """One that says nothing, and one that says a byte now and then."""
    with web_server() as peer:
        peer.answers.append(None)
        started_s = time.monotonic()
        with pytest.raises(Later):
            a_sink(peer.url, timeout_s=0.3).send(a_notice())
        assert time.monotonic() - started_s < 1.5
    with socket.create_server(("127.0.0.1", 0)) as listener:
        is_over = threading.Event()

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-A: ")
                try:
                    while not is_over.wait(0.05):
                        connection.sendall(b"a")
                except OSError:
                    pass

        thread = threading.Thread(target=trickle, daemon=True)
        thread.start()
        started_s = time.monotonic()
        with pytest.raises(Later):
            a_sink(f"http://127.0.0.1:{listener.getsockname()[1]}/", timeout_s=0.3).send(a_notice())
        assert time.monotonic() - started_s < 1.5
        is_over.set()
        thread.join(5)


def test_server_that_is_away_or_talks_nonsense_is_asked_later() -> None:
    """No connection, and an answer that is not HTTP: what it repeats of the address is in no reason."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        def nonsense() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(connection.recv(65536))

        thread = threading.Thread(target=nonsense, daemon=True)
        thread.start()
        with pytest.raises(Later) as caught:
            a_sink(f"http://127.0.0.1:{port}/token-tulip", timeout_s=1).send(a_notice())
        assert caught.value.reason == "BadStatusLine"
        thread.join(5)
    with pytest.raises(Later, match="refused"):
        a_sink(f"http://127.0.0.1:{port}/", timeout_s=1).send(a_notice())


def test_server_is_believed_by_its_certificate_alone(tmp_path: Path) -> None:
    """The authority in ca_file, and the name in the address; another authority gets no alert."""
    certify(tmp_path, "ca", "ca")
    certify(tmp_path, "ward", "ca", "IP:127.0.0.1")
    with web_server(certificate=tmp_path / "ward.pem") as peer:
        a_sink(peer.url, ca_file=str(tmp_path / "ca.pem")).send(a_notice())
        with pytest.raises(Later, match="certificate verify failed"):
            a_sink(peer.url).send(a_notice())
        with pytest.raises(Later, match="certificate verify failed"):
            a_sink(peer.url.replace("127.0.0.1", "localhost"), ca_file=str(tmp_path / "ca.pem")).send(a_notice())
    assert len(peer.posts) == 1


@pytest.mark.parametrize(
    "keys",
    [
        {"url": "ftp://ward/"},
        {"url": "https:///alerts"},
        {"url": "https://ward:99999/"},
        {"url": "https://ward/a b"},
        {"url": "https://ward/\r\nX: y"},
        {"url": "https://ward/", "key": "short"},
        {"url": "https://ward/", "key": "whsec_%%%%"},
        {"url": "https://ward/", "verify": False},
    ],
)
def test_settings_that_cannot_work_are_refused(keys: dict[str, object]) -> None:
    """Also whatever would switch checking off: there is no such key."""
    with pytest.raises(ValidationError):
        Settings.model_validate_json(json.dumps({"kind": "webhook", **keys}), strict=True)


def test_authority_that_cannot_be_read_is_said_at_the_start(tmp_path: Path) -> None:
    """Not at the first alarm; a file that is missing, or none of certificates."""
    (tmp_path / "empty.pem").touch()
    for name in ("missing.pem", "empty.pem"):
        with pytest.raises(ConfigError, match=f"{name}: must be a PEM file with certificates"):
            a_sink("https://ward.example/", ca_file=str(tmp_path / name))


def test_plain_http_over_a_network_is_warned_of() -> None:
    """Not on this machine, and not with TLS."""
    warnings = [
        Settings.model_validate_json(json.dumps({"kind": "webhook", "url": url}), strict=True).warning
        for url in ("http://ward.example/", "http://127.0.0.1/", "http://[::1]/", "https://ward.example/")
    ]
    assert [warning is not None for warning in warnings] == [True, False, False, False]
