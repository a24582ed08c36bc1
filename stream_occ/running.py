"""The running detector: the service wired to a broker, to the system's clocks and to a thread, all of them watched."""

from __future__ import annotations

import ctypes
import gc
import logging
import mmap
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from stream_occ.alert_sinks import AlertSinks
from stream_occ.config import Config
from stream_occ.errors import ServiceError
from stream_occ.inbox import MAX_UNACKNOWLEDGED, Inbox, Received
from stream_occ.keeping import Keeper, open_keeper
from stream_occ.messages import CountersMessage
from stream_occ.mqtt import Birth, MqttLink, MqttOptions, Subscription
from stream_occ.notify import Notifier
from stream_occ.scoring import Model
from stream_occ.service import TICK_S, Service
from stream_occ.sharding import Shard
from stream_occ.vitals import Monitor
from stream_occ.wiring import link_options, topics_of

if TYPE_CHECKING:
    from stream_occ.health import HealthServer

log = logging.getLogger("stream_occ.running")

WATCH_INTERVAL_S = 0.2
TRIM_INTERVAL_S = 60.0
STOP_LINK_S = 1.0  # a broker that does not answer at the end is not waited for longer
STOP_WORKER_S = 2.0
STOP_SINKS_S = 1.0  # what a sink does not take until then it is sent after the next start
MAX_FAILED_SLICES = 5
WORKER_SILENCE_S = 60.0  # a slice takes well below a second; a worker that does not end one is stuck
LINK_SILENCE_KEEPALIVES = 3.0  # the client itself gives up after two


def run(
    config: Config, model: Model, *, client_id: str, stop: threading.Event, on_ready: Callable[[str], None]
) -> CountersMessage:
    """Runs until `stop` is set; on_ready is called once, with one line, when the broker has taken our subscriptions.

    Raises ServiceError where a thread died or another process keeps taking our session over, DataError for a state file
    that is damaged or not ours.
    """
    keeper = open_keeper(config, model.model_id)
    try:
        return _run(config, model, keeper, client_id=client_id, stop=stop, on_ready=on_ready)
    finally:
        keeper.close()


def _run(
    config: Config,
    model: Model,
    keeper: Keeper,
    *,
    client_id: str,
    stop: threading.Event,
    on_ready: Callable[[str], None],
) -> CountersMessage:
    inbox = Inbox(config.limits.queue_messages, config.limits.queue_bytes)
    is_ready = threading.Event()

    def subscribed() -> None:
        service.renew()
        is_ready.set()

    def deliver(message: Received) -> None:
        door.deliver(message)

    links = _links(config, keeper, client_id=client_id, on_message=deliver, on_ready=subscribed)
    link = links[0]
    sinks = AlertSinks(config.sinks, max_changes=config.state.outbox_changes)
    service = Service(config, model, link, inbox, keeper=keeper, sinks=sinks)
    service.dropped = link.dropped
    service.n_connects = lambda: link.n_connects
    service.connects_refused = link.refusals
    status_topic = config.home_assistant.status_topic if config.home_assistant.enabled else None
    door = _Door(config.own_shard, status_topic, service, link, inbox, stop)
    monitor = Monitor(inbox, _scored_within_s(config, model)) if config.http.enabled else None
    worker = Worker(service, config.output.slice_s, monitor)
    watchdog = Watchdog(links, worker, config.mqtt.keepalive_s)
    server = None if monitor is None else _health_server(config, model, keeper, watchdog, monitor, sinks, stop)
    _give_back()
    for each in links:
        each.start()
    worker.start()
    sinks.start()
    if server is not None:
        server.start()
    notifier = Notifier()
    notifier.ready()

    def announce() -> None:
        line = _ready_line(config, model)
        notifier.status(line)
        on_ready(line)

    try:
        _watch(stop, is_ready, announce, watchdog, notifier)
    finally:
        notifier.stopping()
        try:
            if worker.finish():
                sinks.stop(STOP_SINKS_S)
                service.settle()
        finally:
            for each in reversed(links):
                each.stop(STOP_LINK_S)
            if server is not None:
                server.stop()
    return service.counters()


def _links(
    config: Config,
    keeper: Keeper,
    *,
    client_id: str,
    on_message: Callable[[Received], None],
    on_ready: Callable[[], None],
) -> list[MqttLink]:
    """The link that messages go over and, where ours is the only instance, one for the second status topic."""
    topics, home_assistant = topics_of(config), config.home_assistant
    options = link_options(config, client_id)
    is_durable = keeper.is_keeping and config.mqtt.protocol == "5" and config.mqtt.session_expiry_s > 0
    n_unacknowledged = min(config.limits.queue_messages, MAX_UNACKNOWLEDGED) if is_durable else 0
    link = MqttLink(
        replace(options, unacknowledged_messages=n_unacknowledged),
        on_message=on_message,
        subscriptions=[
            *(Subscription(entry.topic_filter, entry.qos) for entry in config.inputs),
            Subscription(topics.commands_filter, keeps_retain=True),
            *([Subscription(home_assistant.status_topic, qos=0)] if home_assistant.enabled else []),
        ],
        birth=Birth(topics.bridge_status),
        on_ready=on_ready,
    )
    if not config.mqtt.is_only_instance or config.own_shard.of > 1:
        return [link]
    return [link, MqttLink(_status_options(options), birth=Birth(topics.status))]  # a connection has one last will


@dataclass(frozen=True, slots=True)
class _Door:
    """Where the network thread's messages come in: ours go to the inbox, what nobody will take is acknowledged."""

    shard: Shard
    status_topic: str | None  # Home Assistant's, where it is told anything
    service: Service
    link: MqttLink
    inbox: Inbox
    stop: threading.Event

    def deliver(self, message: Received) -> None:
        """Quick: it is called in the network thread."""
        if self.stop.is_set():  # what comes after the end, unacknowledged, comes again
            return
        if message.topic == self.status_topic:
            self.service.home_assistant.hear(message)
            self._acknowledge(message)  # an input's pattern covers it too
            return
        is_ours = self.shard.of == 1 or not self.service.intake.is_elsewhere(message.topic, self.shard)
        if is_ours and self.inbox.put(message):
            return
        self._acknowledge(message)  # another process has it; or, delivered again, it would be late: counted, lost
        n = self.inbox.refused.total()
        if is_ours and n & (n - 1) == 0:
            log.warning("refused before the queue so far: %s", dict(self.inbox.refused))

    def _acknowledge(self, message: Received) -> None:
        if message.token is not None:
            self.link.acknowledge([message.token])


def _give_back() -> None:
    """Memory that the start took and nothing needs any more."""
    gc.collect()
    _trim()
    _unmap_code("llvmlite")  # 50 MB: the compiled engine is made, and its compiler will not run again
    gc.freeze()  # or each full collection would go through all that was imported, and hold a slice up for 40 ms


def _trim() -> None:
    """Gives back what the C library holds free in pieces: 2 MB after the start, up to 10 MB after a burst, in 1 ms."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)


def _unmap_code(library: str) -> None:
    """Makes a library's code no part of our memory until it runs again: its pages, never written to, are the file's."""
    try:
        mappings = Path("/proc/self/maps").read_text().splitlines()
    except OSError:  # not Linux
        return
    for span, flags in (line.split()[:2] for line in mappings if library in line):
        if flags == "r-xp":
            start, stop = (int(address, 16) for address in span.split("-"))
            ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(stop - start), mmap.MADV_DONTNEED)


def _scored_within_s(config: Config, model: Model) -> float:
    """So long messages may come without a score: none comes before a window is full."""
    return max(config.output.offline_after_s, model.window_s + 2 * model.hop_s) + config.stream.reorder_s


def _health_server(
    config: Config,
    model: Model,
    keeper: Keeper,
    watchdog: Watchdog,
    monitor: Monitor,
    sinks: AlertSinks,
    stop: threading.Event,
) -> HealthServer:
    from stream_occ.health import HealthServer, Probes  # here: half a MB that most do not need

    link = watchdog.links[0]

    def failure() -> str | None:
        try:
            watchdog.check()
        except ServiceError as error:
            return str(error)
        return None

    def checks() -> dict[str, bool]:
        last = monitor.last
        is_working = last is not None and time.monotonic() - last.noted_s <= WORKER_SILENCE_S
        return {
            "working": is_working and not stop.is_set(),
            "connected": link.is_connected,
            "subscribed": link.is_connected and link.is_subscribed,
            "scoring": last is None or last.is_scoring,
            "keeping": not keeper.is_failing,
        }

    probes = Probes(
        failure=failure,
        checks=checks,
        trouble=lambda: link.trouble,
        vitals=lambda: monitor.last,
        model_id=model.model_id,
        sinks=sinks.statuses,
    )
    return HealthServer(config.http.host, config.http.port + config.own_shard.number - 1, probes)


def _status_options(options: MqttOptions) -> MqttOptions:
    return replace(options, client_id=f"{options.client_id}-status", session_expiry_s=0)


def _ready_line(config: Config, model: Model) -> str:
    patterns = ", ".join(entry.pattern for entry in config.inputs)
    return f"ready: {patterns} on {config.mqtt.host}:{config.mqtt.port}, model {model.model_id}"


def _watch(
    stop: threading.Event,
    is_ready: threading.Event,
    announce: Callable[[], None],
    watchdog: Watchdog,
    notifier: Notifier,
) -> None:
    """Waits for `stop`, announces once when ready, lets both watchdogs look, ours and systemd's; gives memory back."""
    is_announced, trim_due_s = False, time.monotonic() + TRIM_INTERVAL_S
    while not stop.wait(WATCH_INTERVAL_S if is_announced else 0.02):
        if is_ready.is_set() and not is_announced:
            is_announced = True
            announce()
        watchdog.check()
        notifier.beat(watchdog.worker.n_slices)
        if time.monotonic() >= trim_due_s:
            trim_due_s = time.monotonic() + TRIM_INTERVAL_S
            _trim()


@dataclass(frozen=True, slots=True)
class Watchdog:
    """Makes a dead or stuck thread, or a lost session, the end of the service instead of silence."""

    links: Sequence[MqttLink]
    worker: Worker
    keepalive_s: float

    def check(self) -> None:
        """Raises ServiceError where the service cannot do its work any more."""
        for link in self.links:
            if link.fatal is not None:
                raise link.fatal
            # A short keep-alive must not make the end of a busy machine's stall: it lasts seconds, for all threads.
            borne_s = max(LINK_SILENCE_KEEPALIVES * self.keepalive_s, WORKER_SILENCE_S)
            is_mute = link.is_connected and link.silent_s > borne_s
            if not link.is_alive or is_mute:
                raise self._error(
                    "network thread", "a dead one" if not link.is_alive else "a connection without a word"
                )
        if not self.worker.is_alive() or self.worker.silent_s > WORKER_SILENCE_S:
            raise self._error("worker thread", "a dead one" if not self.worker.is_alive() else "a stuck one")

    @staticmethod
    def _error(which: str, got: str) -> ServiceError:
        return ServiceError("service", f"have its {which} at work", got, "Restart it and report the log")


class Worker(threading.Thread):
    """Runs a slice when a message has come, and every tick_s without; the next one not before slice_s are over.

    So a message that comes alone is decided at once, and of many those that came within slice_s, or while the last
    slice took longer, are one batch. An error in a slice is logged, but after MAX_FAILED_SLICES in a row the thread
    ends. A service whose slices all fail must not look alive: the dead thread ends it with an error.
    """

    def __init__(
        self, service: Service, slice_s: float, monitor: Monitor | None = None, *, tick_s: float = TICK_S
    ) -> None:
        super().__init__(name="worker", daemon=True)
        self._service = service
        self._slice_s = slice_s
        self._tick_s = tick_s
        self._monitor = monitor
        self._is_stopping = threading.Event()
        self._beat_s = time.monotonic()
        self.n_slices = 0  # ended without an error

    @property
    def silent_s(self) -> float:
        """Seconds since a slice last began."""
        return time.monotonic() - self._beat_s

    def run(self) -> None:
        """Slices until asked to finish."""
        n_failed = 0
        while not self._is_stopping.is_set() and n_failed < MAX_FAILED_SLICES:
            started_s = self._beat_s = time.monotonic()
            try:
                self._service.run_slice()
                n_failed = 0
                self.n_slices += 1
                self._note(started_s)
            except Exception:
                n_failed += 1
                log.exception("slice failed, %d in a row", n_failed)
            self._service.wait(self._tick_s)
            if not self._service.is_behind:
                self._is_stopping.wait(max(0.0, started_s + self._slice_s - time.monotonic()))

    def _note(self, started_s: float) -> None:
        """A mistake here costs the view of the service from outside, never a slice."""
        if self._monitor is None:
            return
        try:
            service = self._service
            self._monitor.note(service.counters(), service.intake, started_s=started_s, now_s=time.monotonic())
        except Exception:
            log.exception("metrics end here, and /ready with them")
            self._monitor = None

    def finish(self, timeout_s: float = STOP_WORKER_S) -> bool:
        """Ends the thread after its slice, then runs the last one here; False where it did not end in time."""
        self._is_stopping.set()
        self.join(timeout_s)
        if self.is_alive():
            log.error("the worker did not end within %g s: what it holds is not saved", timeout_s)
            return False
        self._service.close()
        return True
