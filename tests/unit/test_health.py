"""Answers over HTTP, from probes that a test holds; a client that hangs, or many, cost nobody else their answer."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.client import HTTPConnection
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from stream_occ import health
from stream_occ.errors import ServiceError
from stream_occ.health import HealthServer, Probes
from stream_occ.vitals import Monitor, Vitals
from tests.integration.broker import free_port
from tests.unit.service_bench import Bench


@dataclass
class Watched:
    """What a service would say of itself."""

    port: int
    failure: str | None = None
    checks: dict[str, bool] = field(default_factory=lambda: {"connected": True, "scoring": True})
    vitals: Vitals | None = None

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
    probes = Probes(lambda: content.failure, lambda: content.checks, lambda: content.vitals, "toy-1")
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


def test_ready_is_all_checks_together(watched: Watched) -> None:
    """Each is named, so that it can be seen which one fails."""
    code, _, body = watched.get("/ready?verbose")
    assert (code, json.loads(body)) == (200, {"ready": True, "connected": True, "scoring": True})
    watched.checks["scoring"] = False
    code, _, body = watched.get("/ready")
    assert (code, json.loads(body)) == (503, {"ready": False, "connected": True, "scoring": False})


def test_metrics_are_what_was_noted_without_names_of_devices(watched: Watched) -> None:
    """A device in alarm and a refused message; states without a device are there, with 0."""
    assert watched.values()["stream_occ_ready"] == 1  # before the first slice too
    bench = Bench()
    monitor = Monitor(bench.inbox, 10.0)
    bench.send(40, device="grandma")
    bench.send(20, device="grandma", first=40, knock=True)
    assert bench.deliver("wearables/grandma/imu", b"nonsense")
    bench.run(0.25)
    devices = bench.service.intake.devices.values()
    monitor.note(bench.service.counters(), devices, started_s=0.0, now_s=bench.now_s)
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
    assert "grandma" not in watched.get("/metrics")[2]


def test_other_paths_and_methods_are_refused(watched: Watched) -> None:
    """There is nothing to write here; HEAD is GET without the content."""
    assert watched.get("/")[0] == 404
    assert watched.get("/health/../etc")[0] == 404
    assert watched.get("/health", "POST")[0] == 501
    assert watched.get("/ready", "HEAD")[::2] == (200, "")


def test_clients_that_hang_are_bounded_and_cut_off(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that sends a byte now and then is closed after a while; until then seven others have their place."""
    monkeypatch.setattr(health, "ANSWER_WITHIN_S", 0.6)
    started_s = time.monotonic()
    idle = [socket.create_connection(("127.0.0.1", watched.port), timeout=5) for _ in range(health.MAX_CONNECTIONS - 1)]
    assert watched.get("/health")[0] == 200
    idle += [socket.create_connection(("127.0.0.1", watched.port), timeout=5) for _ in range(5)]
    n_threads = sum("process_request_thread" in thread.name for thread in threading.enumerate())
    assert n_threads <= health.MAX_CONNECTIONS
    for connection in idle:
        with connection:
            assert ended(connection)
    assert time.monotonic() - started_s < health.READ_TIMEOUT_S  # by the deadline, not by the wait for a byte
    assert watched.get("/health")[0] == 200


def ended(connection: socket.socket) -> bool:
    """True where the other side closed it without a word."""
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:
        return True


def test_port_that_is_taken_is_one_line(watched: Watched) -> None:
    """The service does not start without the view that its configuration asks for."""
    probes: Any = Probes(lambda: None, dict, lambda: None, "toy-1")
    with pytest.raises(ServiceError, match=rf"^http 127.0.0.1:{watched.port}: must be an address to listen on; got .*"):
        HealthServer("127.0.0.1", watched.port, probes)
