"""Apprise against a real HTTP server, by its json:// scheme."""

from __future__ import annotations

import json
import logging
import sys
import time
from typing import Any

import pytest

from stream_occ.errors import ConfigError
from stream_occ.sinks import Later, open_sink
from stream_occ.sinks.apprise import Settings, Sink
from tests.sink_peers import a_notice, web_server

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Apprise's own imports


def settings(url: str, **keys: Any) -> Settings:
    return Settings.model_validate_json(json.dumps({"kind": "apprise", "url": url, **keys}), strict=True)


def test_notification_has_headline_words_and_type() -> None:
    """An alarm is a failure, a pending alert a warning, the rest information."""
    with web_server() as peer:
        sink = Sink(settings(f"json://127.0.0.1:{peer.port}/ward"))
        for seq, state in enumerate(("pending", "alarm", "resolved")):
            sink.send(a_notice(seq, state))  # type: ignore[arg-type]
    contents = [json.loads(post.body) for post in peer.posts]
    assert [content["type"] for content in contents] == ["warning", "failure", "info"]
    assert contents[1]["title"] == "w1: ALARM, a fall and nobody has answered"
    assert "Please look after the wearer now." in contents[1]["message"]
    assert "Alert: a1, change 1" in contents[1]["message"]


def test_no_is_later_with_the_reason_and_nothing_in_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """The address, which holds a secret, is in no reason."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", records.append)
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", [handler])
    monkeypatch.setattr(root, "level", logging.DEBUG)
    with web_server() as peer:
        peer.answers.append((500, {}))
        with pytest.raises(Later) as caught:
            Sink(settings(f"json://occ:hunter2@127.0.0.1:{peer.port}/ward")).send(a_notice())
    assert "500" in caught.value.reason
    assert "hunter2" not in caught.value.reason
    assert records == []


def test_redirection_is_not_followed() -> None:
    """Alerts go where the configuration says and nowhere else."""
    with web_server() as peer, web_server() as other:
        peer.answers.append((307, {"Location": other.url}))
        with pytest.raises(Later):
            Sink(settings(f"json://127.0.0.1:{peer.port}/")).send(a_notice())
    assert (len(peer.posts), other.posts) == (1, [])


def test_server_that_hangs_is_given_up_in_time() -> None:
    """Apprise waits as long as timeout_s says."""
    with web_server() as peer:
        peer.answers.append(None)
        started_s = time.monotonic()
        with pytest.raises(Later):
            Sink(settings(f"json://127.0.0.1:{peer.port}/", timeout_s=0.3)).send(a_notice())
        assert time.monotonic() - started_s < 2.0


def test_address_that_apprise_does_not_know_is_refused_without_being_shown() -> None:
    """At the start, not at the first alarm."""
    with pytest.raises(ConfigError) as caught:
        open_sink("ward", settings("nonsense://hunter2@host"))
    assert "hunter2" not in str(caught.value)


def test_missing_apprise_is_said_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service itself does not need it."""
    monkeypatch.setitem(sys.modules, "apprise", None)
    with pytest.raises(ConfigError, match=r"pip install 'stream_occ\[notify\]'"):
        open_sink("ward", settings("json://127.0.0.1/"))
