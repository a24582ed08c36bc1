"""The detector's worker: it takes what came, steps the pipeline, and publishes.

`Service` has no thread, socket or clock of its own: tests drive it by hand, stream_occ.running gives it all three.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set

from stream_occ.alert_sinks import AlertSinks
from stream_occ.alert_types import Command
from stream_occ.commands import CommandDesk
from stream_occ.config import Config
from stream_occ.deliveries import NUMBERED_SAVE_S, Deliveries
from stream_occ.drifting import DriftDesk
from stream_occ.home_assistant import HomeAssistant
from stream_occ.inbox import MAX_UNACKNOWLEDGED, Inbox, Link, Received
from stream_occ.intake import Intake
from stream_occ.joining import JoinState
from stream_occ.keeping import Keeper
from stream_occ.messages import CountersMessage, instant
from stream_occ.outbox import Outbox
from stream_occ.pace import Clock, SetClock, SliceBound
from stream_occ.pipeline import DeviceState, PipelineState
from stream_occ.reporting import Reporter, log_alert
from stream_occ.samples import NS_PER_S, OPEN_ALERT_STATES, Alert, Decision, SampleBlock, joined
from stream_occ.scoring import Model
from stream_occ.seen import Seen
from stream_occ.shield import Shield
from stream_occ.told_rows import Told
from stream_occ.wiring import pipeline_of, signals_of, topics_of

log = logging.getLogger("stream_occ.service")

TICK_S = 0.25  # so often what changes by the clock alone is looked at
FORGET_INTERVAL_S = 60.0
LAST_SLICES_S = 0.5  # at the end: what waits longer comes again to the next start, as far as brokers keep it


class Service:
    """One slice after another: `run_slice` is all that the worker does."""

    def __init__(
        self,
        config: Config,
        model: Model,
        link: Link,
        inbox: Inbox,
        *,
        keeper: Keeper | None = None,
        sinks: AlertSinks | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Takes up what the keeper has; raises DataError where that is damaged."""
        self.topics = topics_of(config)
        self.intake = Intake(config, self.topics)
        self.n_windows = 0
        self.dropped: Mapping[str, int] = {}
        self.n_connects: Callable[[], int] = lambda: 0
        self.connects_refused: Mapping[str, int] = {}
        self._clock = clock or Clock()
        self._inbox = inbox
        self._reporter = Reporter(link, config, self.topics, model)
        if model.blindness:
            log.warning("model %s %s; every device has the fault blind_model", model.model_id, model.blindness)
        self._pipeline = pipeline_of(config, model)
        self._drift = DriftDesk(config)
        self.home_assistant = HomeAssistant(link, config, self.topics)
        self._keeper = keeper or Keeper(None, model_id=model.model_id)
        self._shield = Shield(self.intake)
        self._outbox = Outbox(link, self.topics, receivers=config.receivers, max_changes=config.state.outbox_changes)
        self._outbox.restore(self._keeper.outbox())
        self._sinks = sinks or AlertSinks()
        self._sinks.restore(self._keeper.sink_rows())
        self._seen = Seen(self._keeper.seen())
        self._deliveries = Deliveries(
            *(link, self.intake, self.topics, self._seen, self._shield),
            max_unacknowledged=min(config.limits.queue_messages, MAX_UNACKNOWLEDGED),
        )
        key, seen = config.resolved_command_key, self._seen if self._keeper.is_keeping else None
        self._desk = CommandDesk(
            self.topics, self.intake, max_age_s=config.limits.max_command_age_s, key=key, seen=seen
        )
        self._outbox_full = (0, -math.inf)  # how many changes were dropped, and when it was last seen
        self._signals = signals_of(config, model)
        self._state = self._restored()
        self._interval_s = config.output.state_interval_s
        self._fault_hold_s = config.output.fault_hold_s
        self._set_clock = SetClock(self._clock)
        self._started = instant(self._clock.wall_ns())
        self._counters_due_s = 0.0
        self._tick_due_s = 0.0
        self._forget_due_s = 0.0
        self._is_renewal_wanted = threading.Event()
        self._acted: set[str] = set()
        self._held: dict[str, JoinState] = {}
        self._bound = SliceBound()
        self._n_bytes = 0  # of this slice

    def renew(self) -> None:
        """Has all retained topics published again in the next slice; called, by any thread, on every connection."""
        self._is_renewal_wanted.set()

    @property
    def is_behind(self) -> bool:
        """True while more waits than one slice takes."""
        return self._inbox.n_bytes > self._bound.n_bytes

    def wait(self, timeout_s: float) -> None:
        """Returns when there is something to take, after timeout_s at the latest."""
        self._inbox.wait(timeout_s)

    def run_slice(self) -> None:
        """Takes what waits, up to a bound, steps all devices as one batch, keeps and publishes what changed."""
        now_ns, now_s = self._clock.wall_ns(), self._clock.monotonic_s()
        if (by_ns := self._set_clock.by_ns(now_ns)) != 0:
            log.warning("the wall clock was set by %+.1f s", by_ns / NS_PER_S)
            self._state = self._state.clock_set(by_ns)
        decisions: list[Decision] = []
        told: list[Alert] = []
        self._outbox.take_outcomes(now_s)
        for work in self._work(now_ns, now_s):
            if isinstance(work, tuple):
                alerts = self._act(*work)
            else:
                made, alerts = self._step(work, now_ns, now_s)
                decisions += made
            told += alerts
            for alert in alerts:  # before another device, later in this slice, may get the place
                self.intake.devices[alert.device_id].told_s = now_s
        if self._n_bytes:
            self._bound.took(self._n_bytes, self._clock.monotonic_s() - now_s)
        self.n_windows += len(decisions)
        self._note(told, now_ns, now_s)
        self._keep(now_ns, now_s)
        self._outbox.send(now_s, self._shield)
        self._sinks.release()
        for alert in told:  # kept before it is told, and told before anything that may fail: it is not said again
            with self._shield(alert.device_id, now_s):
                self._reporter.alert(alert, self.intake.devices[alert.device_id])
                log_alert(log, alert)
        for decision in decisions:
            with self._shield(decision.device_id, now_s):
                self._reporter.decision(decision)
                record, state = self.intake.devices[decision.device_id], self._state.devices[decision.device_id]
                self._drift.push(decision, record, has_faults=bool(state.faults))
        self._report(now_s, now_ns, {alert.device_id for alert in told})

    def close(self) -> None:
        """The last slices, for a short time, and word that nobody watches any more."""
        deadline_s = self._clock.monotonic_s() + LAST_SLICES_S
        self.run_slice()
        while len(self._inbox) and self._clock.monotonic_s() < deadline_s:
            self.run_slice()
        if left := self._inbox.drain():
            n = sum(message.token is not None for message in left)
            log.warning("%d messages wait at the end: %d come again, %d are lost", len(left), n, len(left) - n)
        self._keep(self._clock.wall_ns(), self._clock.monotonic_s(), is_last=True)
        for device_id, record in self.intake.devices.items():
            with self._shield(device_id, self._clock.monotonic_s()):
                self._reporter.goodbye(device_id, record)
        self._reporter.counters(self.counters())

    def settle(self) -> None:
        """Has written down what sinks took until they were stopped, after `close`."""
        now_ns, now_s = self._clock.wall_ns(), self._clock.monotonic_s()
        self._keeper.note([], receipts=self._sinks.settled(is_last=True))
        self._keep(now_ns, now_s, is_last=True)

    def counters(self) -> CountersMessage:
        """What happened to messages so far."""
        refused = self.intake.refused + self._inbox.refused
        lost = {
            "outbox_full": self._outbox.n_dropped,
            "event_set_aside": self._outbox.n_set_aside,
            "change_not_kept": self._keeper.n_lost_changes,
            "kept_damaged": self._keeper.n_damaged,
        }
        dropped = Counter(dict(self.dropped)) + Counter(lost) + self._deliveries.dropped  # the network thread counts
        return CountersMessage(
            started=self._started,
            devices=len(self.intake.devices),
            messages=self.intake.n_messages + self._inbox.refused.total(),
            windows=self.n_windows,
            refused=dict(sorted(refused.items())),
            dropped=dict(sorted(dropped.items())),
            queue=len(self._inbox),
            connects=self.n_connects(),
            connects_refused=dict(sorted(dict(self.connects_refused).items())),
        )

    def _work(self, now_ns: int, now_s: float) -> Iterator[Sequence[SampleBlock] | tuple[str, Command]]:
        """What waits, in order: samples up to a command, the command, and so on; samples, if only none, come last.

        An act is meant for what was known when it was sent: later samples must not come before it.
        """
        blocks: list[SampleBlock] = []
        messages = self._inbox.drain(self._bound.n_bytes)
        self._n_bytes = sum(message.n_held for message in messages)
        for message in self._deliveries.fresh(messages, now_s):
            taken = None
            with self._shield("", now_s):
                if message.lost is not None:
                    blocks += self.intake.overflowed(message.lost, now_s)
                elif not self.topics.is_command(message.topic):
                    blocks += self._accept(message, now_ns, now_s)
                elif self.topics.is_receipt(message.topic):
                    self._receive(message)
                else:
                    taken = self._desk.take(message, now_ns)
            if taken is not None:
                self._drop_forgotten()
                if blocks:
                    yield self._known(blocks)
                    blocks = []
                yield taken
        if now_s >= self._forget_due_s:
            self._forget_due_s = now_s + FORGET_INTERVAL_S
            self.intake.forget_idle(now_s)
        self._drop_forgotten()
        yield self._known(blocks)

    def _accept(self, message: Received, now_ns: int, now_s: float) -> list[SampleBlock]:
        """The message's samples, and a note that its device's state holds them."""
        blocks = self.intake.accept(message, now_ns=now_ns, now_s=now_s)
        names = {block.device_id for block in blocks} | self.intake.held.keys()
        self._held |= self.intake.held
        self.intake.held.clear()
        if names:
            self._deliveries.took(message, names, is_refused=self.intake.is_refused)
            if message.token is not None or any(block.number for block in blocks):
                self._keeper.touch(names, now_s)
        return blocks

    def _known(self, blocks: Sequence[SampleBlock]) -> list[SampleBlock]:
        """One block a device, of those that are still known."""
        known = joined([block for block in blocks if block.device_id in self.intake.devices])
        if self._signals is not None:
            self._signals.push([block for block in known if len(block)])
        return known

    def _act(self, device_id: str, command: Command) -> list[Alert]:
        """What a person's act changes; where it fails, that act alone is lost."""
        topic = self.topics.command(device_id, command.kind)
        try:
            self._state, alerts, refusal = self._pipeline.command(self._state, device_id, command)
        except Exception:
            log.exception("%s of %s failed", command.kind, device_id, extra={"device": device_id})
            self.intake.refuse_command("internal_error", topic, device_id)
            return []
        if refusal is not None:
            self.intake.refuse_command(refusal, topic, device_id)
            return []
        self._desk.say(device_id, command.kind, self._clock.monotonic_s())
        self._acted.add(device_id)
        return alerts

    def _receive(self, message: Received) -> None:
        """A receiver's word that it has a change."""
        taken = self._desk.take_receipt(message)
        reason = None if taken is None else self._outbox.receive(*taken)
        if taken is not None and reason is not None:
            self.intake.refuse_command(reason, message.topic, taken[0])

    def _note(self, told: Sequence[Alert], now_ns: int, now_s: float) -> None:
        """What belongs to told changes: the open alert of each device, and its signals."""
        changes: list[Told] = []
        for alert in told:
            record = self.intake.devices[alert.device_id]
            waits = self._reporter.is_event(alert, record.open_alert)
            if waits:
                self._outbox.add(alert)
            record.open_alert = alert if alert.state in OPEN_ALERT_STATES else None
            if alert.seq == 0:
                record.waveform = None
            waveform = None
            is_burst = alert.evidence.get("t_last_flagged_ns") == alert.t_ns
            is_wanted = is_burst or (alert.state == "pending" and record.waveform is None)
            if self._signals is not None and is_wanted:
                with self._shield(alert.device_id, now_s):
                    waveform = self._signals.cut(alert.device_id, alert.t_ns)
                if waveform is not None:
                    record.waveform = (alert.seq, waveform)
            changes.append(Told(alert, now_ns, waveform, waits, self._sinks.hold(alert) if waits else ()))
        self._keeper.note(changes, self._acted, self._outbox.settled(), self._sinks.settled())
        if self._signals is not None:
            self._signals.trim()

    def _keep(self, now_ns: int, now_s: float, *, is_last: bool = False) -> None:
        """Has changes and what is due written down, then the messages behind it acknowledged."""
        self._state = self._state.holding({n: join for n, join in self._held.items() if n in self.intake.devices})
        self._held.clear()
        numbers, is_whole = self._deliveries.numbers(now_s), self._deliveries.are_pressing
        within_s = NUMBERED_SAVE_S if numbers else math.inf
        if is_last or is_whole or self._deliveries.are_many or self._keeper.is_due(now_s, within_s=within_s):
            known = {
                name: (state, record.open_alert)
                for name, record in self.intake.devices.items()
                if (state := self._state.devices.get(name)) is not None
            }
            if self._keeper.save(
                known, now_s=now_s, now_ns=now_ns, is_whole=is_whole, is_last=is_last, seen=self._seen, numbers=numbers
            ):
                unsaved = self._keeper.unsaved
                self._deliveries.acknowledge(unsaved)
                self._deliveries.tell({name: n for name, n in numbers.items() if name not in unsaved}, now_s)
        elif not self._keeper.is_keeping:
            self._deliveries.acknowledge()
        if self._keeper.is_failing:
            self._deliveries.make_room(now_s)
        self._reporter.set_fault("state_not_kept", is_set=self._keeper.is_failing)
        if self._outbox.n_dropped > self._outbox_full[0]:
            self._outbox_full = self._outbox.n_dropped, now_s
        self._reporter.set_fault("event_dropped", is_set=now_s - self._outbox_full[1] < self._fault_hold_s)

    def _restored(self) -> PipelineState:
        """The state that was kept; the model's own parts only where it was the same model."""
        devices: dict[str, DeviceState] = {}
        now_s = self._clock.monotonic_s()
        numbers, restored = self._keeper.numbers(), self._keeper.restored()
        self.home_assistant.was_told(restored)
        for device_id, saved in sorted(restored.items(), key=lambda item: item[1].open_alert is None):
            record = self.intake.restore(device_id, saved.open_alert, now_s, numbers.get(device_id))
            if record is None:
                continue
            devices[device_id] = saved.resumed(self._pipeline.model.model_id)
            record.join = devices[device_id].join
            record.waveform = None if saved.open_alert is None else self._keeper.waveform(saved.open_alert.alert_id)
            self._reporter.restore(device_id, record, devices[device_id])
        if devices:
            n_open = sum(record.open_alert is not None for record in self.intake.devices.values())
            log.info("%d devices known from before, %d with an open alert", len(devices), n_open)
        newest_ns = max((saved.saved_ns for saved in restored.values() if saved.state is not None), default=0)
        behind_ns = max(0, newest_ns - self._clock.wall_ns())  # no clock was kept over a power cut, say
        return PipelineState(devices).clock_set(-behind_ns) if behind_ns else PipelineState(devices)

    def _step(self, blocks: Sequence[SampleBlock], now_ns: int, now_s: float) -> tuple[list[Decision], list[Alert]]:
        """One step over all devices; where it fails, one for each alone, so that one costs the others nothing."""
        try:
            self._state, decisions, alerts = self._pipeline.step(self._state, blocks, now_ns, is_behind=self.is_behind)
            return decisions, alerts
        except Exception:
            log.exception("step failed; trying each device alone")
        decisions, alerts = [], []
        for block in blocks:
            try:
                self._state, made, changes = self._pipeline.step(self._state, [block], now_ns, is_behind=self.is_behind)
            except Exception:
                told = {"device": block.device_id}
                log.exception("step failed for device %s: %d samples are lost", block.device_id, len(block), extra=told)
                self.intake.refuse_device(block.device_id, "internal_error", now_s)
                self._state = self._state.after_loss(block.device_id)
                continue
            decisions += made
            alerts += changes
        return decisions, alerts

    def _drop_forgotten(self) -> None:
        if self.intake.forgotten:
            gone = [name for name in self.intake.forgotten if name not in self.intake.devices]
            for device_id in gone:
                self._state = self._state.without(device_id)
                self._keeper.forget(device_id)
                if self._signals is not None:
                    self._signals.forget(device_id)
                self._reporter.forget(device_id)
            self.intake.forgotten.clear()

    def _report(self, now_s: float, now_ns: int, told: Set[str]) -> None:
        """States of devices that something came of, or was told of; of all at each tick."""
        if self._is_renewal_wanted.is_set():
            self._is_renewal_wanted.clear()
            self._counters_due_s = self._tick_due_s = 0.0
            self.home_assistant.renew()
            for device_id, record in self.intake.devices.items():
                with self._shield(device_id, now_s):
                    self._reporter.again(record)
        changed, self._acted = told | self._acted, set()
        is_tick = now_s >= self._tick_due_s
        if is_tick:
            self._tick_due_s = now_s + TICK_S
            with self._shield("", now_s):
                self.home_assistant.tell(self._state.devices.keys(), now_s)
        for device_id, record in self.intake.devices.items():
            if is_tick or record.heard_s == now_s or record.unsent or device_id in changed:
                state = self._state.devices.get(device_id)
                with self._shield(device_id, now_s):
                    self._reporter.device(device_id, record, state, now_s=now_s, now_ns=now_ns)
        if now_s >= self._counters_due_s:
            self._counters_due_s = now_s + self._interval_s
            self._reporter.counters(self.counters())
