"""`/health`, `/ready` and `/metrics` over HTTP, in threads of their own, from what the worker last noted.

It answers few at a time, each for a short time, and takes nothing but a path: whoever asks cannot hold the worker up.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from stream_occ import __version__
from stream_occ.errors import ServiceError
from stream_occ.messages import DEVICE_STATES
from stream_occ.samples import OPEN_ALERT_STATES
from stream_occ.sink_queue import SinkStatus
from stream_occ.vitals import BOUNDS_S, Distribution, Vitals

log = logging.getLogger("stream_occ.health")

MAX_CONNECTIONS = 8  # more are closed at once
READ_TIMEOUT_S = 2.0
REQUEST_WITHIN_S = 5.0  # one that comes byte by byte is cut off then; the answer may take as long as a busy machine
POLL_S = 0.2


@dataclass(frozen=True, slots=True)
class Probes:
    """Where answers come from; called by any thread.

    failure: why the service cannot go on, None while it can; checks: all true is ready; trouble: what the link met;
    sinks: where alerts go beside MQTT.
    """

    failure: Callable[[], str | None]
    checks: Callable[[], Mapping[str, bool]]
    trouble: Callable[[], str | None]
    vitals: Callable[[], Vitals | None]
    model_id: str
    sinks: Callable[[], Sequence[SinkStatus]] = tuple


class HealthServer:
    """Listens from its making on; raises ServiceError where it cannot."""

    def __init__(self, host: str, port: int, probes: Probes) -> None:
        registry = CollectorRegistry()
        registry.register(_Metrics(probes))
        ProcessCollector(registry=registry)
        try:
            self._server = _Server(host, port, probes, registry)
        except OSError as error:
            raise ServiceError(
                f"http {host}:{port}", "be an address to listen on", str(error), "Change http.host or http.port"
            ) from error
        self._thread = threading.Thread(target=self._server.serve_forever, args=(POLL_S,), name="http", daemon=True)

    def start(self) -> None:
        """Answers from now on."""
        self._thread.start()

    def stop(self) -> None:
        """Listens no more; answers that are under way end by themselves."""
        if self._thread.ident is not None:
            self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingTCPServer):
    """A thread a connection, MAX_CONNECTIONS at most. HTTPServer itself would ask DNS for the host's name."""

    allow_reuse_address = True
    daemon_threads = True
    block_on_close = False

    def __init__(self, host: str, port: int, probes: Probes, registry: CollectorRegistry) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.probes = probes
        self.registry = registry
        self._open: dict[Any, float] = {}  # connections, and since when
        super().__init__((host, port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        if len(self._open) >= MAX_CONNECTIONS:
            self.close_request(request)
            return
        self._open[request] = time.monotonic()
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        super().shutdown_request(request)
        self._open.pop(request, None)

    def has_come(self, request: Any) -> None:
        """The request is whole: what takes long from now on is ours."""
        self._open[request] = math.inf

    def service_actions(self) -> None:
        horizon_s = time.monotonic() - REQUEST_WITHIN_S
        for request in [request for request, since_s in list(self._open.items()) if since_s < horizon_s]:
            with contextlib.suppress(OSError):
                request.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("request failed", exc_info=True)


class _Handler(BaseHTTPRequestHandler):
    """One answer a connection."""

    timeout = READ_TIMEOUT_S
    server_version = "stream-occ"
    sys_version = ""
    server: _Server

    def do_GET(self) -> None:
        self.server.has_come(self.connection)
        path, probes = self.path.partition("?")[0], self.server.probes
        if path == "/health":
            failure = probes.failure()
            vitals = probes.vitals()
            told = {
                "reason": failure,
                "dropped": None if vitals is None else dict(vitals.counters.dropped),
                "sinks": {sink.name: _told_of(sink) for sink in probes.sinks()},
            }
            self._answer_json({"live": failure is None, **{name: value for name, value in told.items() if value}})
        elif path == "/ready":
            checks = probes.checks()
            trouble = probes.trouble()
            self._answer_json({"ready": all(checks.values()), **checks, **({"reason": trouble} if trouble else {})})
        elif path == "/metrics":
            self._answer(200, CONTENT_TYPE_LATEST, generate_latest(self.server.registry))
        else:
            self._answer(404, "text/plain; charset=utf-8", b"/health, /ready and /metrics are here\n")

    do_HEAD = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: a look at the service is no change of its state, and whoever looks could write into the log."""

    def _answer_json(self, content: Mapping[str, Any]) -> None:
        """200 where the first value is true, else 503: those who ask look at the code."""
        code = 200 if next(iter(content.values())) else 503
        self._answer(code, "application/json", json.dumps(content).encode() + b"\n")

    def _answer(self, code: int, kind: str, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


class _Metrics(Collector):
    """Turns what was last noted into metric families; without names of devices."""

    def __init__(self, probes: Probes) -> None:
        self._probes = probes

    def collect(self) -> Iterator[Metric]:
        info = GaugeMetricFamily("stream_occ_info", "Version and model.", labels=["version", "model"])
        info.add_metric([__version__, self._probes.model_id], 1)
        yield info
        checks = self._probes.checks()
        yield GaugeMetricFamily("stream_occ_ready", "1 where all checks hold, as /ready.", float(all(checks.values())))
        yield _gauge("check", "1 where a check of /ready holds.", "check", {k: int(v) for k, v in checks.items()})
        vitals = self._probes.vitals()
        if vitals is not None:
            yield from _of_vitals(vitals)
        if sinks := self._probes.sinks():
            yield from _of_sinks(sinks)


def _of_vitals(vitals: Vitals) -> Iterator[Metric]:
    told = vitals.counters
    yield CounterMetricFamily("stream_occ_messages", "Messages received, refused ones included.", told.messages)
    yield _counter("messages_refused", "Messages and commands refused.", "reason", told.refused)
    yield _counter("messages_dropped", "Outgoing messages that could not be published.", "reason", told.dropped)
    yield CounterMetricFamily("stream_occ_windows", "Windows scored.", told.windows)
    yield CounterMetricFamily("stream_occ_connects", "Connections to the broker made.", told.connects)
    yield _counter("connects_refused", "Connections that the broker refused.", "reason", told.connects_refused)
    yield GaugeMetricFamily("stream_occ_queue_messages", "Messages that wait for the worker.", told.queue)
    yield _gauge("devices", "Known devices.", "state", _with_zeros(DEVICE_STATES, vitals.devices))
    yield _gauge("devices_with_fault", "Devices that have a fault.", "fault", vitals.faults)
    yield _gauge("open_alerts", "Open alerts.", "state", _with_zeros(sorted(OPEN_ALERT_STATES), vitals.open_alerts))
    yield _histogram("slice_seconds", "Duration of a slice of work.", vitals.slices)
    yield _histogram(
        "latency_seconds", "From a message's arrival to the end of its slice; the oldest of each.", vitals.latencies
    )


def _told_of(sink: SinkStatus) -> dict[str, Any]:
    """Of a sink, what is not nothing."""
    told: dict[str, Any] = {"reason": sink.reason, "waiting": sink.waiting, "failed": sink.failed, **sink.receipts}
    return {"state": sink.state, **{name: value for name, value in told.items() if value}}


def _of_sinks(sinks: Iterable[SinkStatus]) -> Iterator[Metric]:
    ended = CounterMetricFamily(
        "stream_occ_sink_notices", "Changes of alerts that a sink has, refused, or lost.", labels=["sink", "receipt"]
    )
    failed = CounterMetricFamily("stream_occ_sink_failures", "Tries that failed, to be repeated.", labels=["sink"])
    waiting = GaugeMetricFamily("stream_occ_sink_waiting", "Changes of alerts that wait for a sink.", labels=["sink"])
    well = GaugeMetricFamily("stream_occ_sink_ok", "1 where the last try of a sink did not fail.", labels=["sink"])
    for sink in sinks:
        for receipt, n in sink.receipts.items():
            ended.add_metric([sink.name, receipt], n)
        failed.add_metric([sink.name], sink.failed)
        waiting.add_metric([sink.name], sink.waiting)
        well.add_metric([sink.name], float(sink.state == "ok"))
    yield from (ended, failed, waiting, well)


def _with_zeros(names: Iterable[str], counts: Mapping[str, int]) -> dict[str, int]:
    return dict.fromkeys(names, 0) | dict(counts)


def _counter(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(f"stream_occ_{name}", text, labels=[label])
    for value, n in sorted(counts.items()):
        family.add_metric([value], n)
    return family


def _gauge(name: str, text: str, label: str, counts: Mapping[str, int]) -> Metric:
    family = GaugeMetricFamily(f"stream_occ_{name}", text, labels=[label])
    for value, n in sorted(counts.items()):
        family.add_metric([value], n)
    return family


def _histogram(name: str, text: str, of: Distribution) -> Metric:
    bounds = [*(str(bound) for bound in BOUNDS_S[:-1]), "+Inf"]
    buckets = [(bound, float(n)) for bound, n in zip(bounds, of.at_most, strict=True)]
    return HistogramMetricFamily(f"stream_occ_{name}", text, buckets=buckets, sum_value=of.sum_s)
