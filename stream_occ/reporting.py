"""What the service tells of its devices: availability, state, events, alerts, scores and its own counters."""

from __future__ import annotations

import logging
from collections.abc import Set
from functools import partial
from typing import Any

from stream_occ.alarm_rate import budget_of, raised_lately, too_many
from stream_occ.config import Config
from stream_occ.device_record import DeviceRecord
from stream_occ.events import is_near_impact
from stream_occ.inbox import Link, Outcome
from stream_occ.messages import (
    OFFLINE,
    ONLINE,
    CountersMessage,
    StateMessage,
    StateName,
    alert_message,
    instant,
    score_message,
    waveform_message,
)
from stream_occ.pipeline import DeviceState
from stream_occ.reach import Reach
from stream_occ.resampling import ResamplerState
from stream_occ.samples import NS_PER_S, Alert, Decision
from stream_occ.scoring import Model
from stream_occ.topics import Topics
from stream_occ.windowing import MOST_OF_HOLES

log = logging.getLogger("stream_occ.reporting")

RATE_TOLERANCE = 0.1  # share by which the measured rate may differ from the profile's before it is a fault
RATE_OFF_S = 5.0  # so long, while samples come: a link that stutters makes a rate of a second
RATE_KNOWN_S = 1.5  # after a gap: what comes in single messages between gaps has any rate for a moment
MAX_UNSENT = 1000  # alerts and waveforms of a device that wait for room in the outgoing queue; then the oldest go
RETAINED = frozenset({"pending", "alarm", "acknowledged"})
UNCONFIRMED = frozenset({"suspected", "checking", "expired"})  # what `publish_suspected: false` leaves out
NO_VERDICT = frozenset(
    {"blind_model", "rate_too_low", "no_data"}
)  # with these a window below the threshold is not normal
DOUBLED_OF, DOUBLED_SHARE = 200, 0.1  # of so many samples so large a share came twice: a link that is set up twice
SILENCE = frozenset({"no_data", "not_scored"})
REFUSED_S = 1.0  # while messages come and none is taken: then nobody knows how the wearer is
EVERYDAY = frozenset({"duplicate", "interpolated", "bridged"})  # odd samples that are counted and are no fault


class Reporter:
    """Publishes; retained topics are published again on every connection, so nothing is queued for them meanwhile."""

    def __init__(self, link: Link, config: Config, topics: Topics, model: Model) -> None:
        self._link = link
        self._output = config.output
        self._topics = topics
        self._model = model
        self._service_faults: frozenset[str] = frozenset({"blind_model"} if model.blindness else ())
        self._reach = Reach.of_model(model.metadata)
        budget = budget_of(model)
        self._too_many_a_day = None if budget is None else too_many(budget)
        self._live_within_s = config.events.live_within_s
        self._guard_s = config.events.not_worn_guard_s
        self._scored_within_s = max(self._output.offline_after_s, model.window_s + 2 * model.hop_s)

    def decision(self, decision: Decision) -> None:
        """A window's score message, where wanted."""
        if self._output.publish_score:
            payload = score_message(decision).to_payload()
            self._link.publish(self._topics.score(decision.device_id), payload, qos=0, is_retained=False)

    def is_event(self, alert: Alert, before: Alert | None) -> bool:
        """True for a change that is told as an event too; before: the open alert as it was."""
        is_unconfirmed = alert.state in UNCONFIRMED and (before is None or before.state not in RETAINED)
        return self._output.publish_suspected or not is_unconfirmed

    def alert(self, alert: Alert, record: DeviceRecord) -> None:
        """A change of an alert: the retained alert, emptied where it is closed; the event is the outbox's matter."""
        if alert.state in RETAINED:
            payload = alert_message(alert).to_payload()
            record.unsent.append((self._topics.alert(alert.device_id), payload, True))
        elif record.is_alert_retained:
            record.unsent.append((self._topics.alert(alert.device_id), b"", True))
        record.is_alert_retained = alert.state in RETAINED
        if alert.state == "pending" and record.waveform is not None and self._output.publish_waveform:
            payload = waveform_message(alert.alert_id, *record.waveform).to_payload()
            record.unsent.append((self._topics.waveform(alert.device_id), payload, False))
        self._send(record)
        if len(record.unsent) > MAX_UNSENT:
            told = {"device": alert.device_id, "reason": "alert_dropped"}
            log.error("no room for alerts of %s: the oldest is dropped", alert.device_id, extra=told)
            record.refused["alert_dropped"] += len(record.unsent) - MAX_UNSENT
            del record.unsent[:-MAX_UNSENT]

    def device(
        self, device_id: str, record: DeviceRecord, state: DeviceState | None, *, now_s: float, now_ns: int
    ) -> None:
        """What could not be handed over before; availability and state, where they changed or are due."""
        self._send(record)
        is_online = record.data_s is not None and now_s - record.data_s <= self._output.offline_after_s
        is_first = record.shown is None
        if is_online != record.is_online or is_first:
            record.is_online = is_online
            self._retained(self._topics.availability(device_id), ONLINE if is_online else OFFLINE)
        was_late = "late_data" in record.faults
        if state is not None and state is not record.looked:
            self._look(record, state, now_s)
        is_scored = self._is_scored(record, state, now_s)
        faults = self._faults(record, state, now_s, now_ns, is_scored)
        name, flags = self._name(record, faults, now_s, is_scored), _flags(state, now_ns)
        if "late_data" in record.faults and not was_late:
            _say_late(device_id, record, state)
        if record.is_alert_refused and now_s >= record.state_due_s:
            record.is_alert_refused = False
            self._alert_as_it_is(device_id, record)
        shown = (name, faults, *flags.values())
        if shown != record.shown or now_s >= record.state_due_s:
            record.shown = shown
            record.state_due_s = now_s + self._output.state_interval_s
            payload = self._state(record, state, name, faults, flags).to_payload()
            self._retained(self._topics.state(device_id), payload)

    def goodbye(self, device_id: str, record: DeviceRecord) -> None:
        """Says that nobody watches the device any more."""
        if record.is_online:
            record.is_online = False
            self._retained(self._topics.availability(device_id), OFFLINE)

    def forget(self, device_id: str) -> None:
        """Takes the retained topics of a forgotten device away."""
        self._retained(self._topics.availability(device_id), b"")
        self._retained(self._topics.state(device_id), b"")

    def restore(self, device_id: str, record: DeviceRecord, state: DeviceState) -> None:
        """Takes up a device known before the start; a retained alert that was closed unheard is emptied now."""
        record.n_decided = state.n_windows - state.n_unscorable
        record.odd_samples = _odd_samples(state)
        record.is_alert_retained = record.open_alert is not None and record.open_alert.state in RETAINED
        if not record.is_alert_retained:
            record.unsent.append((self._topics.alert(device_id), b"", True))

    def set_fault(self, name: str, *, is_set: bool) -> None:
        """A fault of the service itself, which every device has while it holds."""
        self._service_faults = self._service_faults | {name} if is_set else self._service_faults - {name}

    def again(self, record: DeviceRecord) -> None:
        """Has the device's retained topics published again: the broker may have lost them."""
        record.shown = None
        if record.open_alert is not None and record.is_alert_retained:
            payload = alert_message(record.open_alert).to_payload()
            self._link.publish(self._topics.alert(record.open_alert.device_id), payload, qos=1, is_retained=True)

    def counters(self, message: CountersMessage) -> None:
        """The service's own counters."""
        self._retained(self._topics.counters, message.to_payload())

    def _send(self, record: DeviceRecord) -> None:
        """Hands alerts over in their order; what the link has no room for waits for the next slice."""
        while record.unsent and self._link.has_room:
            topic, payload, is_retained = record.unsent.pop(0)
            on_done = partial(_note_refusal, record) if is_retained else None
            self._link.publish(topic, payload, qos=1, is_retained=is_retained, on_done=on_done)

    def _alert_as_it_is(self, device_id: str, record: DeviceRecord) -> None:
        """Once more the retained alert, or that there is none: the broker did not want it, its quota was used up."""
        alert = record.open_alert if record.is_alert_retained else None
        payload = b"" if alert is None else alert_message(alert).to_payload()
        record.unsent.append((self._topics.alert(device_id), payload, True))
        self._send(record)

    def _retained(self, topic: str, payload: bytes) -> None:
        if self._link.is_connected:
            self._link.publish(topic, payload, qos=1, is_retained=True)

    def _look(self, record: DeviceRecord, state: DeviceState, now_s: float) -> None:
        """What a new state alone says, which the clock does not change."""
        for name, n in _odd_samples(state).items():
            if name not in EVERYDAY and n > record.odd_samples.get(name, 0):
                record.fault_seen_s[name] = now_s
            record.odd_samples[name] = n
        _look_at_doubled(record, state, now_s)
        record.rate_hz = state.resampler.measured_rate_hz
        record.is_odd = bool(state.faults) or state.is_history(self._live_within_s)
        record.looked = state

    def _name(self, record: DeviceRecord, faults: Set[str], now_s: float, is_scored: bool) -> StateName:
        if record.open_alert is not None:
            return record.open_alert.state
        is_trusted = not record.is_odd and not faults & NO_VERDICT and not _is_refused(record, now_s)
        return "normal" if is_scored and is_trusted else "waiting"

    def _state(
        self,
        record: DeviceRecord,
        state: DeviceState | None,
        name: StateName,
        faults: Set[str],
        flags: dict[str, Any],
    ) -> StateMessage:
        last = None if state is None else state.last
        return StateMessage(
            state=name,
            score=None if last is None else last.score,
            threshold=self._model.threshold,
            rate_hz=_rounded(record.rate_hz),
            jitter_ms=None if state is None else _rounded(state.resampler.measured_jitter_ms),
            last_seen=None if record.data_ns is None else instant(record.data_ns),
            clock_offset_s=_rounded(None if state is None else state.clock.offset_s),
            clock_drift_ppm=_rounded(None if state is None else state.clock.drift_ppm),
            faults=tuple(sorted(faults)),
            **flags,
            counters=_counters(record, state),
            model=self._model.model_id,
        )

    def _is_scored(self, record: DeviceRecord, state: DeviceState | None, now_s: float) -> bool:
        """True while windows get their verdicts: without one for longer than a window there is no normal either."""
        n_decided = 0 if state is None else state.n_windows - state.n_unscorable
        if n_decided != record.n_decided:
            record.n_decided, record.decided_s = n_decided, now_s
        return record.decided_s is not None and now_s - record.decided_s <= self._scored_within_s

    def _faults(
        self,
        record: DeviceRecord,
        state: DeviceState | None,
        now_s: float,
        now_ns: int,
        is_scored: bool,
    ) -> frozenset[str]:
        if record.fault_seen_s:
            horizon_s = now_s - self._output.fault_hold_s
            record.fault_seen_s = {name: seen_s for name, seen_s in record.fault_seen_s.items() if seen_s > horizon_s}
        faults = set(record.fault_seen_s)
        faults.update(self._service_faults, () if state is None else (*state.faults, *state.clock.faults))
        rate_hz, data_s = record.rate_hz, now_s if record.data_s is None else record.data_s
        if state is None or rate_hz is None:
            record.rate_off_s = None
        elif state.resampler.segment_s >= RATE_KNOWN_S:
            is_off = self._is_rate_off(record.profile.nominal_rate_hz, rate_hz, state.resampler)
            is_off = is_off and data_s - record.lost_s >= RATE_OFF_S  # holes of which the cause is known are no rate
            record.rate_off_s = (data_s if record.rate_off_s is None else record.rate_off_s) if is_off else None
        if record.rate_off_s is not None and data_s - record.rate_off_s >= RATE_OFF_S:
            faults.add("rate_mismatch")
        if rate_hz is not None and rate_hz < self._model.min_stream_hz:
            faults.add("rate_too_low")
        is_known = "range_too_low" in record.faults  # of a device with two inputs one profile may be wide enough
        if is_known or (self._reach is not None and self._reach.beyond(record.profile)):
            faults.add("range_too_low")
        if record.drift is not None and record.drift.is_adrift:
            faults.add("drift")
        if self._is_over_budget(state, now_ns):
            faults.add("rate_limited")
        if state is not None and state.events.is_not_worn:
            faults.add("not_worn")
        if not record.is_online:
            faults.add("no_data")
        elif not is_scored and now_s - record.since_s > self._scored_within_s and "not_worn" not in faults:
            faults.add("not_scored")
        if "stuck" in faults - record.faults and self._is_near_impact(state, now_ns):
            faults.remove("stuck")  # after an impact stillness is a sign of a fall, and no excuse
        if faults != record.faults:
            record.raised.update(faults - record.faults - self._service_faults - SILENCE)
            record.faults = frozenset(faults)
        return record.faults

    def _is_rate_off(self, nominal_hz: float | None, rate_hz: float, stream: ResamplerState) -> bool:
        """True where samples come at another rate than the profile's, or bunched, with holes between: then the stamps
        within each message run too fast."""
        if nominal_hz is not None and abs(rate_hz / nominal_hz - 1) > RATE_TOLERANCE:
            return True
        return rate_hz >= self._model.min_stream_hz and stream.hole_share(self._model.rate_hz) > MOST_OF_HOLES

    def _is_near_impact(self, state: DeviceState | None, now_ns: int) -> bool:
        return state is not None and is_near_impact(state.events.alert, state.clock_ns(now_ns), self._guard_s)

    def _is_over_budget(self, state: DeviceState | None, now_ns: int) -> bool:
        if state is None or self._too_many_a_day is None or len(state.raised_ns) < self._too_many_a_day:
            return False
        return raised_lately(state.raised_ns, state.clock_ns(now_ns)) >= self._too_many_a_day


def _is_refused(record: DeviceRecord, now_s: float) -> bool:
    """True where what came last, for REFUSED_S, was refused."""
    return record.data_s is not None and record.heard_s > record.data_s and now_s - record.data_s > REFUSED_S


def _say_late(device_id: str, record: DeviceRecord, state: DeviceState | None) -> None:
    """A line, at the 1st, 2nd, 4th, ... time: history calls nobody, and why it is late only people can tell."""
    n = record.raised["late_data"]
    if state is None or state.seen_ns is None or record.profile.clock == "own" or n & (n - 1):
        return
    late_s, told = (state.seen_ns[1] - state.seen_ns[0]) / NS_PER_S, {"device": device_id, "reason": "late_data"}
    log.warning(
        "%s: samples are %.0f s old when they come: history, which raises no alarm. If that is no backlog, set the"
        " device's clock, or say clock: own in its profile",
        device_id,
        late_s,
        extra=told,
    )


def _note_refusal(record: DeviceRecord, outcome: Outcome) -> None:
    """In the network thread."""
    if outcome == "refused":
        record.is_alert_refused = True


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _flags(state: DeviceState | None, now_ns: int) -> dict[str, Any]:
    """What holds beside the state: muted, not worn, learning; by the device's clock."""
    if state is None:
        return {"muted_until": None, "not_worn": False, "learning": False}
    events, clock_ns = state.events, state.clock_ns(now_ns)
    muted_ns, learning_ns = events.muted_until_ns, events.learning_until_ns
    return {
        "muted_until": None if muted_ns is None or muted_ns <= clock_ns else instant(muted_ns),
        "not_worn": events.is_not_worn,
        "learning": learning_ns is not None and clock_ns < learning_ns,
    }


def _look_at_doubled(record: DeviceRecord, state: DeviceState, now_s: float) -> None:
    """A fault where of many samples a large share came twice."""
    now = (state.resampler.counters.n_samples, state.resampler.counters.duplicate)
    n_samples, n_doubled = now[0] - record.doubled[0], now[1] - record.doubled[1]
    if n_samples >= DOUBLED_OF or n_samples < 0:
        record.doubled = now
        if n_doubled > DOUBLED_SHARE * n_samples:
            record.fault_seen_s["doubled"] = now_s


def _odd_samples(state: DeviceState) -> dict[str, int]:
    counters = state.resampler.counters
    names = ("late", "duplicate", "clock_reset", "gap", "interpolated")
    odd = {name: getattr(counters, name) for name in names}
    of_windows = {"unscorable": state.n_unscorable, "bridged": state.n_bridged, "late_data": state.n_late}
    return odd | of_windows | state.fault_counts


def _counters(record: DeviceRecord, state: DeviceState | None) -> dict[str, int]:
    """Refused messages by reason, odd samples, how much was taken in, and how often other faults came up; zeros are
    left out."""
    counters = dict(record.raised) | dict(record.refused)
    if state is not None:
        counters |= _odd_samples(state)
        counters |= {"samples": state.resampler.counters.n_samples, "windows": state.n_windows}
    return {name: n for name, n in sorted(counters.items()) if n > 0}


def log_alert(log: logging.Logger, alert: Alert) -> None:
    """A line for a change of an alert."""
    reasons = ", ".join(alert.reasons)
    told = {"device": alert.device_id, "alert_id": alert.alert_id, "reason": reasons, "state": alert.state}
    log.info("alert %s of %s: %s (%s)", alert.alert_id, alert.device_id, alert.state, reasons, extra=told)
