"""Sinks behind a service that is driven by hand: real threads, a real state file, real receivers."""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from stream_occ import alert_sinks
from stream_occ.alert_sinks import AlertSinks
from stream_occ.keeping import Keeper
from stream_occ.sinks import Later, Notice, SinkSettings
from stream_occ.sinks.file import Settings as FileSettings
from stream_occ.sinks.webhook import Settings as WebhookSettings
from stream_occ.store import Store
from tests.sink_peers import until, web_server
from tests.unit.service_bench import CHECKED, Bench


class Services:
    """Services with sinks over one state file, one after another."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._keeper: Keeper | None = None
        self._sinks: list[AlertSinks] = []

    def start(self, settings: dict[str, SinkSettings], at_s: float = 0.0, **options: Any) -> Bench:
        self.kill()
        self._keeper = Keeper(Store(self.path), model_id="toy", is_wanted=True)
        sinks = AlertSinks(settings, **{"settle_s": 0.0, **options})
        self._sinks.append(sinks)
        bench = Bench(keeper=self._keeper, sinks=sinks, at_s=at_s, events=CHECKED)
        sinks.start()
        return bench

    def kill(self) -> None:
        """The last one ends with no last word."""
        for sinks in self._sinks:
            sinks.stop(0.0)
        if self._keeper is not None:
            self._keeper.close()

    def rows(self, sink: str) -> list[tuple[int, str | None]]:
        """(seq, receipt) of the sink's changes."""
        with closing(sqlite3.connect(self.path)) as db:
            return db.execute("SELECT seq, receipt FROM sinks WHERE sink = ? ORDER BY id", (sink,)).fetchall()


@pytest.fixture
def services(tmp_path: Path) -> Iterator[Services]:
    made = Services(tmp_path / "state.db")
    yield made
    made.kill()


class Taken:
    """A sink of the test's own, in place of whatever is configured."""

    def __init__(self, send: Callable[[Notice], None]) -> None:
        self.send = send


def webhook(url: str, **keys: Any) -> WebhookSettings:
    return WebhookSettings.model_validate_json(json.dumps({"kind": "webhook", "url": url, **keys}), strict=True)


def a_file(path: Path, **keys: Any) -> FileSettings:
    return FileSettings.model_validate_json(json.dumps({"kind": "file", "path": str(path), **keys}), strict=True)


def seqs(path: Path) -> list[int]:
    return [json.loads(line)["seq"] for line in path.read_text().splitlines()] if path.exists() else []


def test_each_change_reaches_each_sink_and_its_receipt_is_written(services: Services, tmp_path: Path) -> None:
    """What MQTT is told they are told, and the state file says who has what."""
    with web_server() as peer:
        bench = services.start({"ward": webhook(peer.url), "book": a_file(tmp_path / "book.jsonl")})
        bench.fall()
        n = len(bench.events())
        assert n == 3
        until(lambda: not any(sink.waiting for sink in bench.service._sinks.statuses()), "all changes")
        bench.run(0.25)
    for told in ([json.loads(post.body)["seq"] for post in peer.posts], seqs(tmp_path / "book.jsonl")):
        assert sorted(told) == list(range(n))
    for sink in ("ward", "book"):
        assert sorted(services.rows(sink)) == [(seq, "delivered") for seq in range(n)]


def test_sink_that_hangs_holds_up_nobody(services: Services, tmp_path: Path) -> None:
    """Neither a slice, nor MQTT, nor another sink; a slice is milliseconds, a try of the webhook a minute."""
    with web_server() as peer:
        peer.answers += [None] * 10
        bench = services.start({"ward": webhook(peer.url, timeout_s=60), "book": a_file(tmp_path / "book.jsonl")})
        started_s = time.monotonic()
        bench.fall()
        for _ in range(10):
            bench.run(0.25)
        assert time.monotonic() - started_s < 5.0
        assert len(bench.events()) == 3
        until(lambda: len(peer.posts) == 1, "the webhook tries its first")
        until(lambda: [sink.waiting for sink in bench.service._sinks.statuses()] == [3, 0], "one waits, one has all")
        bench.run(0.25)
        assert {receipt for _, receipt in services.rows("ward")} == {None}


def test_kill_loses_nothing_and_what_has_a_receipt_is_not_told_again(services: Services) -> None:
    """The receiver is away for the later changes; the next service tells those alone, with the same alert_id."""
    with web_server() as peer:
        port = peer.port
        bench = services.start({"ward": webhook(peer.url)})
        bench.send(100)
        bench.send(25, first=100, knock=True)
        bench.run(3.0)
        n_before = len(bench.events())
        assert n_before > 0
        until(lambda: bench.service._sinks.statuses()[0].receipts["delivered"] == n_before, "the first changes")
        bench.run(0.25)
    bench.send(175, first=125, lying=True)
    bench.run(3.0)
    assert len(bench.events()) > n_before
    until(lambda: bench.service._sinks.statuses()[0].state == "failing", "nobody is there")
    services.kill()
    with web_server(port) as again:
        services.start({"ward": webhook(again.url)}, at_s=7.0)
        until(lambda: len(again.posts) == len(bench.events()) - n_before, "what was missing")
    ids = [post.headers["webhook-id"] for post in [*peer.posts, *again.posts]]
    assert len({post_id.rpartition(".")[0] for post_id in ids}) == 1
    assert sorted(int(post_id.rpartition(".")[2]) for post_id in ids) == list(range(len(bench.events())))


def test_change_is_on_the_disk_before_a_sink_sees_it(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or a kill could have the next service tell another story."""
    found: list[bool] = []

    def look(notice: Notice) -> None:
        found.append((notice.alert.seq, None) in services.rows("ward"))

    monkeypatch.setattr(alert_sinks, "open_sink", lambda *_: Taken(look))
    bench = services.start({"ward": webhook("http://127.0.0.1/")})
    bench.fall()
    until(lambda: len(found) == 3, "three changes")
    assert found == [True] * 3


def test_end_sends_what_is_due_and_writes_its_receipts(services: Services, tmp_path: Path) -> None:
    """An orderly end leaves nothing to be told twice."""
    bench = services.start({"book": a_file(tmp_path / "book.jsonl")})
    bench.fall()
    bench.service.close()
    bench.service._sinks.stop(5.0)
    bench.service.settle()
    assert sorted(services.rows("book")) == [(seq, "delivered") for seq in range(3)]


def test_receipts_of_a_backlog_are_written_together(services: Services, tmp_path: Path) -> None:
    """Once a second, not with each slice; the end does not wait for it."""
    now_s = [100.0]
    bench = services.start({"book": a_file(tmp_path / "book.jsonl")}, settle_s=1.0, monotonic_s=lambda: now_s[0])
    bench.fall()
    until(lambda: bench.service._sinks.statuses()[0].waiting == 0, "the file has all")
    bench.run(0.25)
    assert {receipt for _, receipt in services.rows("book")} == {None}
    now_s[0] += 1.0
    bench.run(0.25)
    assert {receipt for _, receipt in services.rows("book")} == {"delivered"}


def test_end_waits_for_no_sink_that_hangs(services: Services) -> None:
    """As long as it is told, and no longer."""
    with web_server() as peer:
        peer.answers.append(None)
        bench = services.start({"ward": webhook(peer.url, timeout_s=60)})
        bench.fall()
        until(lambda: len(peer.posts) == 1, "the first try")
        started_s = time.monotonic()
        bench.service._sinks.stop(0.2)
        assert time.monotonic() - started_s < 2.0


def test_sink_that_is_configured_no_more_keeps_what_waits(services: Services, caplog: pytest.LogCaptureFixture) -> None:
    """It is said at the start, and told once the sink is there again."""
    bench = services.start({"ward": webhook("http://127.0.0.1:9/")})
    bench.fall()
    services.start({}, at_s=7.0).run(0.25)
    assert "3 changes wait for sink ward, which is not configured any more" in caplog.messages
    with web_server() as peer:
        services.start({"ward": webhook(peer.url)}, at_s=8.0)
        until(lambda: len(peer.posts) == 3, "all that waited")


@pytest.mark.parametrize("content", [None, "", "{}", "[]", b"\xff", 7, "another"])
def test_damaged_row_costs_itself_alone(services: Services, content: object, caplog: pytest.LogCaptureFixture) -> None:
    """It is logged and counted; the others are told."""
    bench = services.start({"ward": webhook("http://127.0.0.1:9/")})
    bench.fall()
    services.kill()
    with closing(sqlite3.connect(services.path)) as db, db:
        if content == "another":
            [(content,)] = db.execute("SELECT content FROM sinks WHERE seq = 2").fetchall()
        db.execute("UPDATE sinks SET content = ? WHERE seq = 1", (content,))
    with web_server() as peer:
        services.start({"ward": webhook(peer.url)}, at_s=7.0)
        until(lambda: len(peer.posts) == 2, "the other two")
    assert sorted(json.loads(post.body)["seq"] for post in peer.posts) == [0, 2]
    assert sum("cannot be told to sink 'ward'" in message for message in caplog.messages) == 1


def test_sink_with_states_is_told_of_those_alone(services: Services, tmp_path: Path) -> None:
    """No row waits for what it does not want."""
    bench = services.start({"book": a_file(tmp_path / "book.jsonl", states=["pending"])})
    bench.fall()
    until(lambda: len(seqs(tmp_path / "book.jsonl")) == 1, "the pending one")
    assert [state for state, _ in bench.events()] == ["suspected", "checking", "pending"]
    assert [seq for seq, _ in services.rows("book")] == [2]


def test_error_of_ours_in_a_sink_ends_no_thread(
    services: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged, and the change is tried again with the others."""
    seen: list[int] = []

    def stumble(notice: Notice) -> None:
        seen.append(notice.alert.seq)
        if len(seen) == 1:
            raise ZeroDivisionError

    monkeypatch.setattr(alert_sinks, "open_sink", lambda *_: Taken(stumble))
    bench = services.start({"ward": webhook("http://127.0.0.1/")})
    bench.fall()
    until(lambda: set(seen) == {0, 1, 2} and len(seen) == 4, "all three, one twice")
    assert "sink ward: an error of ours" in caplog.messages


def test_sink_is_told_without_a_disk_too(services: Services, tmp_path: Path) -> None:
    """A store that fails keeps nothing, and silence would be worse."""
    sinks = AlertSinks({"book": a_file(tmp_path / "book.jsonl")})
    bench = Bench(sinks=sinks, events=CHECKED)
    sinks.start()
    bench.fall()
    until(lambda: len(seqs(tmp_path / "book.jsonl")) == 3, "all three")
    sinks.stop(1.0)


def test_many_failures_take_no_memory_and_no_log(
    services: Services, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Beyond the bound the oldest of the least goes, and has a receipt; the log has a line a change of state."""
    is_there = threading.Event()

    def away(_notice: Notice) -> None:
        if not is_there.is_set():
            raise Later("connection refused")

    monkeypatch.setattr(alert_sinks, "open_sink", lambda *_: Taken(away))
    bench = services.start({"ward": webhook("http://127.0.0.1/")}, max_changes=2)
    bench.fall()
    until(lambda: bench.service._sinks.statuses()[0].failed > 1, "two tries")
    bench.run(0.25)
    assert bench.service._sinks.statuses()[0].waiting == 2
    assert (0, "dropped") in services.rows("ward")
    is_there.set()
    until(lambda: bench.service._sinks.statuses()[0].waiting == 0, "the rest")
    lines = [record.getMessage() for record in caplog.records if record.name == "stream_occ.sinks"]
    assert [line[:27] for line in lines if "drop" not in line] == [
        "sink ward takes no alerts: ",
        "sink ward takes alerts agai",
    ]
    assert sum(record.levelno >= logging.ERROR for record in caplog.records) == 1
