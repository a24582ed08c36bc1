"""The running detector: a worker that takes what came in a time slice, steps the pipeline once, and publishes.

`Service` is the worker's content without threads, sockets and clocks of its own: tests drive it by hand. `run` wires
it to a broker, to the system's clocks and to a thread, watches both threads, and ends in order when asked to.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_occ.config import Config
from stream_occ.drift import DriftPolicy, DriftWatch
from stream_occ.errors import ServiceError
from stream_occ.events import EventPolicy
from stream_occ.inbox import Inbox, Link, Received
from stream_occ.intake import Intake
from stream_occ.messages import CountersMessage, Topics, instant
from stream_occ.mqtt import Birth, MqttLink, MqttOptions, Subscription
from stream_occ.pipeline import Pipeline
from stream_occ.reporting import Reporter
from stream_occ.resampling import StreamSettings
from stream_occ.samples import Alert, Decision, SampleBlock
from stream_occ.scoring import Model
from stream_occ.wiring import link_options

log = logging.getLogger("stream_occ.service")

FORGET_INTERVAL_S = 60.0
WATCH_INTERVAL_S = 0.2
MAX_FAILED_SLICES = 5
WORKER_SILENCE_S = 60.0  # a slice takes well below a second; a worker that does not end one is stuck
# Messages of one slice: sparse samples become 25 times as many on the grid, and a slice of a whole queue of them takes
# minutes and gigabytes. More waits for the next slice, which then begins at once.
SLICE_BYTES = 1024 * 1024
LAST_SLICES_S = 10.0  # at the end: longer, and whoever asked us to end would kill us
LINK_SILENCE_KEEPALIVES = 3.0  # the client itself gives up after two


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall clock for stamps (UTC, ns) and monotonic clock for intervals (s)."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_s: Callable[[], float] = time.monotonic


class Service:
    """One slice after another: `run_slice` is all that the worker does."""

    def __init__(self, config: Config, model: Model, link: Link, inbox: Inbox, *, clock: Clock | None = None) -> None:
        self.topics = Topics(config.mqtt.prefix, config.mqtt.instance)
        self.intake = Intake(config, self.topics)
        self.n_windows = 0
        self.dropped: Mapping[str, int] = {}
        self.n_connects: Callable[[], int] = lambda: 0
        self._clock = clock or Clock()
        self._inbox = inbox
        self._reporter = Reporter(link, config, self.topics, model)
        if model.blindness:
            log.warning("model %s %s; every device has the fault blind_model", model.model_id, model.blindness)
        policy = EventPolicy(**config.events.model_dump())
        settings = StreamSettings(gap_s=config.stream.gap_s, reorder_s=config.stream.reorder_s)
        self._pipeline = Pipeline(model, settings, policy)
        self._drift_policy = (
            DriftPolicy(**config.drift.model_dump(exclude={"enabled"})) if config.drift.enabled else None
        )
        self._state = self._pipeline.initial()
        self._interval_s = config.output.state_interval_s
        self._started = instant(self._clock.wall_ns())
        self._counters_due_s = 0.0
        self._forget_due_s = 0.0
        self._is_renewal_wanted = threading.Event()

    def renew(self) -> None:
        """Has all retained topics published again in the next slice; called, by any thread, on every connection."""
        self._is_renewal_wanted.set()

    @property
    def is_behind(self) -> bool:
        """True while more waits than one slice takes."""
        return self._inbox.n_bytes > SLICE_BYTES

    def run_slice(self) -> None:
        """Takes what waits, up to a bound, steps all devices as one batch, publishes what changed."""
        now_ns, now_s = self._clock.wall_ns(), self._clock.monotonic_s()
        blocks: list[SampleBlock] = []
        for message in self._inbox.drain(SLICE_BYTES):
            blocks += self.intake.accept(message, now_ns=now_ns, now_s=now_s)
        if now_s >= self._forget_due_s:
            self._forget_due_s = now_s + FORGET_INTERVAL_S
            self.intake.forget_idle(now_s)
        self._drop_forgotten()
        known = [block for block in blocks if block.device_id in self.intake.devices]
        decisions, alerts = self._step(_joined(known), now_ns, now_s)
        self.n_windows += len(decisions)
        for alert in alerts:  # before anything else that may fail: the pipeline will not say them again
            self._reporter.alert(alert, self.intake.devices[alert.device_id])
            log.info("alert %s of %s: %s (%s)", alert.alert_id, alert.device_id, alert.state, ", ".join(alert.reasons))
        self._reporter.decisions(decisions)
        self._watch_drift(decisions)
        self._report(now_s)

    def close(self) -> None:
        """The last slices, and word that nobody watches any more."""
        deadline_s = self._clock.monotonic_s() + LAST_SLICES_S
        self.run_slice()
        while len(self._inbox) and self._clock.monotonic_s() < deadline_s:
            self.run_slice()
        if len(self._inbox):
            log.warning("%d messages still wait at the end and are lost", len(self._inbox))
        for device_id, record in self.intake.devices.items():
            self._reporter.goodbye(device_id, record)
        self._reporter.counters(self.counters())

    def counters(self) -> CountersMessage:
        """What happened to messages so far."""
        refused = self.intake.refused + Counter({"queue_full": self._inbox.n_refused})
        return CountersMessage(
            started=self._started,
            devices=len(self.intake.devices),
            messages=self.intake.n_messages + self._inbox.n_refused,
            windows=self.n_windows,
            refused=dict(sorted(refused.items())),
            dropped=dict(sorted(dict(self.dropped).items())),  # a copy: the network thread counts
            queue=len(self._inbox),
            connects=self.n_connects(),
        )

    def _step(self, blocks: Sequence[SampleBlock], now_ns: int, now_s: float) -> tuple[list[Decision], list[Alert]]:
        """One step over all devices; where it fails, one for each alone, so that one costs the others nothing."""
        try:
            self._state, decisions, alerts = self._pipeline.step(self._state, blocks, now_ns)
            return decisions, alerts
        except Exception:
            log.exception("step failed; trying each device alone")
        decisions, alerts = [], []
        for block in blocks:
            try:
                self._state, made, changes = self._pipeline.step(self._state, [block], now_ns)
            except Exception:
                log.exception("step failed for device %s: %d samples are lost", block.device_id, len(block))
                self.intake.refuse_device(block.device_id, "internal_error", now_s)
                continue
            decisions += made
            alerts += changes
        return decisions, alerts

    def _watch_drift(self, decisions: Sequence[Decision]) -> None:
        """Scores of trusted windows outside of alerts, each device's to its own watch."""
        if self._drift_policy is None:
            return
        for decision in decisions:
            record = self.intake.devices[decision.device_id]
            if record.open_alert is not None or self._state.devices[decision.device_id].faults:
                continue
            if record.drift is None:
                record.drift = DriftWatch(self._drift_policy)
            drift = record.drift.push(decision)
            if drift is not None:
                log.warning(
                    "scores of %s have gone %s for good, %d blocks of %g s ago: mean rank %.2f before, %.2f since",
                    *(decision.device_id, drift.direction, drift.n_blocks_since, self._drift_policy.block_s),
                    *(drift.before, drift.after),
                )

    def _drop_forgotten(self) -> None:
        if self.intake.forgotten:
            gone = [name for name in self.intake.forgotten if name not in self.intake.devices]
            for device_id in gone:
                self._state = self._state.without(device_id)
                self._reporter.forget(device_id)
            self.intake.forgotten.clear()

    def _report(self, now_s: float) -> None:
        if self._is_renewal_wanted.is_set():
            self._is_renewal_wanted.clear()
            self._counters_due_s = 0.0
            for record in self.intake.devices.values():
                self._reporter.again(record)
        for device_id, record in self.intake.devices.items():
            self._reporter.device(device_id, record, self._state.devices.get(device_id), now_s)
        if now_s >= self._counters_due_s:
            self._counters_due_s = now_s + self._interval_s
            self._reporter.counters(self.counters())


def _joined(blocks: Sequence[SampleBlock]) -> list[SampleBlock]:
    """One block a device, in order of arrival: the same samples, and far less work where messages are small."""
    by_device: dict[str, list[SampleBlock]] = {}
    for block in blocks:
        by_device.setdefault(block.device_id, []).append(block)
    return [
        own[0]
        if len(own) == 1
        else SampleBlock(
            device_id,
            np.concatenate([block.t_ns for block in own]),
            np.concatenate([block.acc_ms2 for block in own]),
            np.concatenate([block.gyr_rads for block in own]),
        )
        for device_id, own in by_device.items()
    ]


def run(
    config: Config, model: Model, *, client_id: str, stop: threading.Event, on_ready: Callable[[str], None]
) -> CountersMessage:
    """Runs until `stop` is set; on_ready is called once, with one line, when the broker has taken our subscriptions.

    Raises ServiceError where a thread died or another process keeps taking our session over.
    """
    inbox = Inbox(config.limits.queue_messages, config.limits.queue_bytes)
    topics = Topics(config.mqtt.prefix, config.mqtt.instance)
    is_ready = threading.Event()

    def subscribed() -> None:
        service.renew()
        is_ready.set()

    def deliver(message: Received) -> None:
        if not inbox.put(message) and inbox.n_refused & (inbox.n_refused - 1) == 0:
            log.warning("inbox is full: the worker is behind; %d messages refused so far", inbox.n_refused)

    options = link_options(config, client_id)
    link = MqttLink(
        options,
        on_message=deliver,
        subscriptions=[Subscription(entry.topic_filter, entry.qos) for entry in config.inputs],
        birth=Birth(topics.bridge_status),
        on_ready=subscribed,
    )
    service = Service(config, model, link, inbox)
    service.dropped = link.dropped
    service.n_connects = lambda: link.n_connects
    links = [link]
    if config.mqtt.is_only_instance:  # a connection has one last will: the second status topic needs its own
        links.append(MqttLink(_status_options(options), birth=Birth(topics.status)))
    worker = _Worker(service, config.output.slice_s)
    for each in links:
        each.start()
    worker.start()
    try:
        line = _ready_line(config, model)
        _watch(stop, is_ready, lambda: on_ready(line), _Watchdog(links, worker, config.mqtt.keepalive_s))
    finally:
        try:
            worker.finish()
        finally:
            for each in reversed(links):
                each.stop()
    return service.counters()


def _status_options(options: MqttOptions) -> MqttOptions:
    return replace(options, client_id=f"{options.client_id}-status", session_expiry_s=0)


def _ready_line(config: Config, model: Model) -> str:
    patterns = ", ".join(entry.pattern for entry in config.inputs)
    return f"ready: {patterns} on {config.mqtt.host}:{config.mqtt.port}, model {model.model_id}"


def _watch(stop: threading.Event, is_ready: threading.Event, announce: Callable[[], None], watchdog: _Watchdog) -> None:
    """Waits for `stop`, announces once when ready, and lets the watchdog look."""
    is_announced = False
    while not stop.wait(WATCH_INTERVAL_S if is_announced else 0.02):
        if is_ready.is_set() and not is_announced:
            is_announced = True
            announce()
        watchdog.check()


@dataclass(frozen=True, slots=True)
class _Watchdog:
    """Makes a dead or stuck thread, or a lost session, the end of the service instead of silence."""

    links: Sequence[MqttLink]
    worker: _Worker
    keepalive_s: float

    def check(self) -> None:
        """Raises ServiceError where the service cannot do its work any more."""
        for link in self.links:
            if link.fatal is not None:
                raise link.fatal
            is_mute = link.is_connected and link.silent_s > LINK_SILENCE_KEEPALIVES * self.keepalive_s
            if not link.is_alive or is_mute:
                raise self._error(
                    "network thread", "a dead one" if not link.is_alive else "a connection without a word"
                )
        if not self.worker.is_alive() or self.worker.silent_s > WORKER_SILENCE_S:
            raise self._error("worker thread", "a dead one" if not self.worker.is_alive() else "a stuck one")

    @staticmethod
    def _error(which: str, got: str) -> ServiceError:
        return ServiceError("service", f"have its {which} at work", got, "Restart it and report the log")


class _Worker(threading.Thread):
    """Runs a slice every slice_s; an error in one is logged, but after MAX_FAILED_SLICES in a row the thread ends.

    A service whose slices all fail must not look alive: the dead thread ends it with an error.
    """

    def __init__(self, service: Service, slice_s: float) -> None:
        super().__init__(name="worker", daemon=True)
        self._service = service
        self._slice_s = slice_s
        self._is_stopping = threading.Event()
        self._beat_s = time.monotonic()

    @property
    def silent_s(self) -> float:
        """Seconds since a slice last began."""
        return time.monotonic() - self._beat_s

    def run(self) -> None:
        n_failed = 0
        while not self._is_stopping.is_set() and n_failed < MAX_FAILED_SLICES:
            started_s = self._beat_s = time.monotonic()
            try:
                self._service.run_slice()
                n_failed = 0
            except Exception:
                n_failed += 1
                log.exception("slice failed, %d in a row", n_failed)
            if not self._service.is_behind:
                self._is_stopping.wait(max(0.0, self._slice_s - (time.monotonic() - started_s)))

    def finish(self, timeout_s: float = 10.0) -> None:
        """Ends the thread after its slice, then runs the last one here."""
        self._is_stopping.set()
        self.join(timeout_s)
        if self.is_alive():
            log.error("the worker did not end within %g s: what it holds is lost", timeout_s)
        else:
            self._service.close()
