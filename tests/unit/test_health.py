"""Answers over HTTP, from probes that a test holds; a client that hangs, or many, cost nobody else their answer."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stream_occ import health
from stream_occ.errors import ServiceError
from stream_occ.health import HealthServer, Probes
from stream_occ.sink_queue import SinkStatus
from stream_occ.vitals import Monitor, Vitals
from tests.integration.broker import free_port
from tests.unit.service_bench import Bench

REPO = Path(__file__).resolve().parents[2]


@dataclass
class Watched:
    """What a service would say of itself."""

    port: int
    failure: str | None = None
    checks: dict[str, bool] = field(default_factory=lambda: {"connected": True, "scoring": True})
    trouble: str | None = None
    vitals: Vitals | None = None
    sinks: list[SinkStatus] = field(default_factory=list)

    def get(self, path: str, method: str = "GET") -> tuple[int, str, str]:
        """Code, content type and body."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=10)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.headers.get("Content-Type", ""), answer.read().decode()
        finally:
            connection.close()

    def values(self) -> dict[str, float]:
        """Samples of /metrics, by name and labels as written."""
        code, kind, body = self.get("/metrics")
        assert code == 200
        assert kind.startswith("text/plain; version=")
        return {
            ",".join([sample.name, *(f"{k}={v}" for k, v in sorted(sample.labels.items()))]): sample.value
            for family in text_string_to_metric_families(body)
            for sample in family.samples
        }


@pytest.fixture
def watched() -> Iterator[Watched]:
    """A server on a free port."""
    content = Watched(free_port())
    probes = Probes(
        lambda: content.failure,
        lambda: content.checks,
        lambda: content.trouble,
        lambda: content.vitals,
        "toy-1",
        lambda: content.sinks,
    )
    server = HealthServer("127.0.0.1", content.port, probes)
    server.start()
    yield content
    server.stop()


def test_health_is_the_codes_200_and_503_with_the_reason(watched: Watched) -> None:
    """Who restarts a service looks at the code, who reads the log at the reason."""
    assert watched.get("/health") == (200, "application/json", '{"live": true}\n')
    watched.failure = "service: must have its worker thread at work; got a dead one."
    code, _, body = watched.get("/health")
    assert (code, json.loads(body)) == (503, {"live": False, "reason": watched.failure})


def test_health_names_what_was_lost_on_the_way_out(watched: Watched) -> None:
    """A service that lives and cannot tell or keep something says so there, too."""
    bench = Bench()
    bench.service.dropped = {"event_set_aside": 1}
    monitor = Monitor(bench.inbox, 10.0)
    monitor.note(bench.service.counters(), bench.service.intake, started_s=0.0, now_s=1.0)
    watched.vitals = monitor.last
    assert watched.get("/health") == (200, "application/json", '{"live": true, "dropped": {"event_set_aside": 1}}\n')


def test_answer_that_takes_long_on_a_busy_machine_is_not_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """A request that has come is answered, however long that takes: the bound is for those that do not come."""
    monkeypatch.setattr(health, "REQUEST_WITHIN_S", 0.3)
    content = Watched(free_port())

    def slow() -> dict[str, bool]:
        time.sleep(1.0)
        return content.checks

    server = HealthServer("127.0.0.1", content.port, Probes(lambda: None, slow, lambda: None, lambda: None, "toy-1"))
    server.start()
    assert content.get("/ready")[0] == 200
    server.stop()


def test_ready_is_all_checks_together(watched: Watched) -> None:
    """Each is named, so that it can be seen which one fails."""
    code, _, body = watched.get("/ready?verbose")
    assert (code, json.loads(body)) == (200, {"ready": True, "connected": True, "scoring": True})
    watched.checks["scoring"] = False
    code, _, body = watched.get("/ready")
    assert (code, json.loads(body)) == (503, {"ready": False, "connected": True, "scoring": False})


def test_ready_says_why_there_is_no_connection(watched: Watched) -> None:
    """In a text beside the checks, which is no check."""
    watched.checks["connected"], watched.trouble = False, "the broker refused us: Not authorized"
    code, _, body = watched.get("/ready")
    told = {"ready": False, "connected": False, "scoring": True, "reason": "the broker refused us: Not authorized"}
    assert (code, json.loads(body)) == (503, told)


def test_metrics_are_what_was_noted_without_names_of_devices(watched: Watched) -> None:
    """A device in alarm and a refused message; states without a device are there, with 0."""
    assert watched.values()["stream_occ_ready"] == 1  # before the first slice too
    bench = Bench()
    monitor = Monitor(bench.inbox, 10.0)
    bench.send(40, device="grandma")
    bench.send(20, device="grandma", first=40, knock=True)
    assert bench.deliver("wearables/grandma/imu", b"nonsense")
    bench.run(0.25)
    monitor.note(bench.service.counters(), bench.service.intake, started_s=0.0, now_s=bench.now_s)
    watched.vitals, watched.checks["scoring"] = monitor.last, False
    values = watched.values()
    expected = {
        "stream_occ_info,model=toy-1,version=" + health.__version__: 1,
        "stream_occ_ready": 0,
        "stream_occ_check,check=connected": 1,
        "stream_occ_check,check=scoring": 0,
        "stream_occ_messages_total": 3,
        "stream_occ_messages_refused_total,reason=invalid_json": 1,
        "stream_occ_windows_total": bench.service.n_windows,
        "stream_occ_queue_messages": 0,
        "stream_occ_devices,state=alarm": 1,
        "stream_occ_devices,state=normal": 0,
        "stream_occ_devices,state=waiting": 0,
        "stream_occ_devices_with_fault,fault=invalid_json": 1,
        "stream_occ_open_alerts,state=alarm": 1,
        "stream_occ_open_alerts,state=pending": 0,
        "stream_occ_slice_seconds_count": 1,
        "stream_occ_slice_seconds_bucket,le=0.1": 0,
        "stream_occ_slice_seconds_bucket,le=0.25": 1,
        "stream_occ_latency_seconds_sum": 0.25,
    }
    assert {name: values[name] for name in expected} == expected
    assert values["process_resident_memory_bytes"] > 1e6
    body = watched.get("/metrics")[2]
    assert "grandma" not in body
    names = re.findall(r"^# TYPE stream_occ_(\S+)", body, re.MULTILINE)
    text = (REPO / "docs" / "operations.md").read_text()
    assert [name for name in names if f"`{name}" not in text] == []


def test_other_paths_and_methods_are_refused(watched: Watched) -> None:
    """There is nothing to write here; HEAD is GET without the content."""
    assert watched.get("/")[0] == 404
    assert watched.get("/health/../etc")[0] == 404
    assert watched.get("/health", "POST")[0] == 501
    assert watched.get("/ready", "HEAD")[::2] == (200, "")


def test_clients_that_hang_are_bounded_and_cut_off(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends a byte now and then is closed after a while; until then seven others have their place."""
    monkeypatch.setattr(health, "REQUEST_WITHIN_S", 1.0)
    monkeypatch.setattr(health._Handler, "timeout", 60.0)  # so that it is the deadline that cuts them off
    started_s = time.monotonic()
    idle = [
        socket.create_connection(("127.0.0.1", watched.port), timeout=30) for _ in range(health.MAX_CONNECTIONS - 1)
    ]
    assert watched.get("/health")[0] == 200
    wait_for_answering(health.MAX_CONNECTIONS - 1)
    idle += [socket.create_connection(("127.0.0.1", watched.port), timeout=30) for _ in range(5)]
    assert n_answering() <= health.MAX_CONNECTIONS
    for connection in idle:
        with connection:
            assert ended(connection)
    assert time.monotonic() - started_s < 30.0
    wait_for_answering(0)
    assert watched.get("/health")[0] == 200


def n_answering() -> int:
    """Threads that hold a connection."""
    return sum("process_request_thread" in thread.name for thread in threading.enumerate())


def wait_for_answering(n: int) -> None:
    """Until no more than n connections are held."""
    deadline_s = time.monotonic() + 10
    while n_answering() > n and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert n_answering() <= n


def ended(connection: socket.socket) -> bool:
    """True where the other side closed it without a word."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


@pytest.mark.parametrize(
    "request_", [b"\x16\x03\x01\x02\x00", b"GET /health\r\n\r\n", b"GET " + b"a" * 70_000 + b"\r\n\r\n"]
)
def test_what_is_no_http_costs_one_connection(watched: Watched, request_: bytes) -> None:
    """TLS to the plain port, an old version, an endless line: closed, with or without an answer, and nothing else."""
    with socket.create_connection(("127.0.0.1", watched.port), timeout=10) as connection:
        connection.sendall(request_)
        connection.shutdown(socket.SHUT_WR)
        while not ended(connection):
            pass
    assert watched.get("/health")[0] == 200


def test_address_of_ip_version_6_is_listened_to() -> None:
    """::1 is loopback as well."""
    if not socket.has_ipv6:
        pytest.skip("no IPv6 in this Python")
    port = free_port()
    try:
        server = HealthServer("::1", port, Probes(lambda: None, dict, lambda: None, lambda: None, "toy-1"))
    except ServiceError as error:
        pytest.skip(f"no IPv6 loopback here: {error}")
    server.start()
    connection = HTTPConnection("::1", port, timeout=10)
    connection.request("GET", "/health")
    assert connection.getresponse().status == 200
    connection.close()
    server.stop()


def test_port_that_is_taken_is_one_line(watched: Watched) -> None:
    """The service does not start without the view that its configuration asks for."""
    probes: Any = Probes(lambda: None, dict, lambda: None, lambda: None, "toy-1")
    with pytest.raises(ServiceError, match=rf"^http 127.0.0.1:{watched.port}: must be an address to listen on; got .*"):
        HealthServer("127.0.0.1", watched.port, probes)


def test_sinks_are_shown_and_counted(watched: Watched) -> None:
    """By their names in the configuration: how they are, what waits, what they have, refused or lost."""
    assert "stream_occ_sink_waiting,sink=ward" not in watched.values()
    receipts = {"delivered": 7, "refused": 1, "dropped": 0}
    watched.sinks = [
        SinkStatus("book", "file", "ok", "", 0, 0, dict.fromkeys(receipts, 0)),
        SinkStatus("ward", "webhook", "failing", "HTTP status 503", 2, 5, receipts),
    ]
    code, _, body = watched.get("/health")
    assert (code, json.loads(body)["sinks"]) == (
        200,
        {
            "book": {"state": "ok"},
            "ward": {
                "state": "failing",
                "reason": "HTTP status 503",
                "waiting": 2,
                "failed": 5,
                "delivered": 7,
                "refused": 1,
            },
        },
    )
    values = watched.values()
    assert values["stream_occ_sink_ok,sink=book"] == 1
    assert values["stream_occ_sink_ok,sink=ward"] == 0
    assert values["stream_occ_sink_waiting,sink=ward"] == 2
    assert values["stream_occ_sink_failures_total,sink=ward"] == 5
    assert values["stream_occ_sink_notices_total,receipt=refused,sink=ward"] == 1
