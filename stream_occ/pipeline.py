"""Many devices' streams to decisions and alerts: one pure step over a batch of sample blocks.

The service is a thin adapter around `Pipeline.step`; offline evaluation takes the same parts one by one (windows,
features, score, events), and a test holds it to the step's scores and alarms. It has no clock, file, socket, log,
thread or draw: the same samples give the same decisions and alerts, however they are cut into blocks and steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

import numpy as np

from stream_occ.alarm_rate import with_raised
from stream_occ.clock import ClockState, push_clock, set_clock
from stream_occ.events import (
    TICK_GRACE_S,
    Command,
    EventPolicy,
    EventState,
    Observation,
    Refusal,
    command,
    push,
    tick,
)
from stream_occ.joining import JoinState
from stream_occ.motion import direction_of, motion
from stream_occ.quality import Signs
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import NS_PER_S, Alert, Contributions, Decision, FloatArray, Label, SampleBlock
from stream_occ.scoring import Model
from stream_occ.sensor import SensorState, looks_of, watch_sensor
from stream_occ.windowing import (
    CutterState,
    WindowBatch,
    WindowShape,
    closing_window,
    concatenate,
    push_chunk,
)

PAUSE_NS = 5 * NS_PER_S  # steps further apart: the service, the machine or its clock made a leap
HOLD_NS = 10 * NS_PER_S  # then samples that waited elsewhere come first, before a deadline acts by the clock
MAX_HOLD_NS = 60 * NS_PER_S  # but a countdown does not wait for ever


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class DeviceState:
    """All that is kept of one device. n_unscorable counts windows that got no verdict, n_bridged those over a hole,
    n_late those that came too late to act on.

    grid_ns: UTC when samples last came that windows are made of. seen_ns: the end of the last window on the device's
    clock, and UTC when its last samples came. join: what a device with a stream for each sensor has sent and is no
    sample yet; whoever joins keeps it here. raised_ns: when alerts of the latest day became pending, on the device's
    clock.
    """

    resampler: ResamplerState = field(default_factory=ResamplerState)
    cutter: CutterState = field(default_factory=CutterState)
    events: EventState = field(default_factory=EventState)
    sensor: SensorState = field(default_factory=SensorState)
    clock: ClockState = field(default_factory=ClockState)
    n_windows: int = 0
    n_unscorable: int = 0
    n_bridged: int = 0
    n_late: int = 0
    last: Decision | None = None
    grid_ns: int | None = None
    seen_ns: tuple[int, int] | None = None
    join: JoinState | None = None
    raised_ns: tuple[int, ...] = ()

    def clock_ns(self, now_ns: int) -> int:
        """What the device's clock shows at now_ns (UTC), by its last window; now_ns itself before there is one."""
        if self.seen_ns is None:
            return now_ns
        t_end_ns, seen_now_ns = self.seen_ns
        return t_end_ns + max(0, now_ns - seen_now_ns)

    def oldest_live_ns(self, now_ns: int, within_s: float) -> int:
        """End of the oldest window that is live at now_ns: within_s behind UTC, or behind what the device's clock shows
        where nobody sets it and that is known."""
        return now_ns - self.clock.behind_ns - round(within_s * NS_PER_S)

    def is_history(self, within_s: float) -> bool:
        """True where the last window was too old to act on when it came."""
        return self.seen_ns is not None and self.seen_ns[0] < self.oldest_live_ns(self.seen_ns[1], within_s)

    @property
    def faults(self) -> tuple[str, ...]:
        """Named faults of the sensor that hold now."""
        return self.sensor.faults

    @property
    def fault_counts(self) -> dict[str, int]:
        """Windows that each fault has touched, and saturated samples."""
        return {**self.sensor.quality.counts, "saturated": self.resampler.counters.saturated}


@dataclass(frozen=True, slots=True, eq=False)
class PipelineState:
    """The devices' states by device id; now_ns: UTC of the last step; held_since_ns: UTC of the first one since which
    samples may be on their way that should have been here."""

    devices: Mapping[str, DeviceState] = field(default_factory=dict)
    now_ns: int | None = None
    held_since_ns: int | None = None

    def without(self, device_id: str) -> PipelineState:
        """The state after forgetting a device."""
        return replace(self, devices={name: state for name, state in self.devices.items() if name != device_id})

    def holding(self, parts: Mapping[str, JoinState]) -> PipelineState:
        """The state that keeps what devices have sent of one sensor and not yet of the other."""
        kept = {name: replace(self.devices.get(name, DeviceState()), join=join) for name, join in parts.items()}
        return replace(self, devices={**self.devices, **kept}) if kept else self

    def after_loss(self, device_id: str) -> PipelineState:
        """The state in which samples of a device are known to be missing after those that it holds."""
        device = self.devices.get(device_id)
        if device is None:
            return self
        lossy = replace(device, resampler=replace(device.resampler, is_after_loss=True))
        return replace(self, devices={**self.devices, device_id: lossy})

    def clock_set(self, by_ns: int) -> PipelineState:
        """The state after our clock, and not time, went forward by so much: all instants of arrival go with it.

        Otherwise every stream would look as late as the clock is wrong, and nobody be called to a fall.
        """
        now_ns = None if self.now_ns is None else self.now_ns + by_ns
        held_ns = None if self.held_since_ns is None else self.held_since_ns + by_ns
        return PipelineState({name: _moved(device, by_ns) for name, device in self.devices.items()}, now_ns, held_ns)

    def at(self, now_ns: int, *, is_behind: bool) -> PipelineState:
        """The state at a step's UTC: where that went back, our clock was set."""
        if self.now_ns is not None and now_ns < self.now_ns:
            return self.clock_set(now_ns - self.now_ns)
        held_ns = self.held_since_ns
        if self.now_ns is None or now_ns - self.now_ns > MAX_HOLD_NS:
            held_ns = now_ns
        elif is_behind or now_ns - self.now_ns > PAUSE_NS:
            held_ns = now_ns if held_ns is None else held_ns
        elif held_ns is not None and now_ns - held_ns >= HOLD_NS:
            held_ns = None
        return replace(self, now_ns=now_ns, held_since_ns=held_ns)

    @property
    def is_held(self) -> bool:
        """True while no deadline acts by the clock."""
        if self.held_since_ns is None or self.now_ns is None:
            return False
        return self.now_ns < self.held_since_ns + MAX_HOLD_NS


@dataclass(frozen=True, slots=True, eq=False)
class _Look:
    """One window apart from its score: what the engine is to see of it, signs of a bad sensor, |a|, and whether
    it ends a segment or has a hole that was bridged."""

    seen: Observation
    signs: Signs
    mean_ms2: float
    rest_ms2: float
    is_closing: bool
    is_bridged: bool


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """What stays the same from step to step: the model, how streams are cut, when alerts begin and end; and `shape`,
    the model's windows in samples."""

    model: Model
    settings: StreamSettings = field(default_factory=StreamSettings)
    policy: EventPolicy = field(default_factory=EventPolicy)
    shape: WindowShape = field(init=False)

    def __post_init__(self) -> None:
        model = self.model
        times = {"rate_hz": model.rate_hz, "window_s": model.window_s, "hop_s": model.hop_s}
        shape = WindowShape.of(**times, min_stream_hz=model.min_stream_hz, min_window_s=model.min_window_s)
        object.__setattr__(self, "policy", self.policy.for_windows(model.window_s, model.hop_s))
        object.__setattr__(self, "shape", shape)

    def initial(self) -> PipelineState:
        """The state before any sample."""
        return PipelineState()

    def step(
        self, state: PipelineState, blocks: Sequence[SampleBlock], now_ns: int, *, is_behind: bool = False
    ) -> tuple[PipelineState, list[Decision], list[Alert]]:
        """The state after `blocks`, and the decisions and changes of alerts that they bring.

        Blocks of one device must come in the order in which they arrived. A device's decisions are ordered by time; the
        windows of all devices are scored as one batch, but for those of streams that ended too early for a whole one.
        `now_ns` (UTC) ends countdowns of devices that send no more, and tells what came too late to be acted on; no
        decision depends on it but where that shows a clock that is wild. Nothing ends by the clock for a while
        after the first step, after a pause, and while is_behind: more samples wait.

        Where a stream breaks off, by a gap or in silence, its last window's length is looked at once more, or all there
        is of a shorter one: a device that dies in the fall sends the impact and no whole hop after it. Such a window
        counts where it is flagged.
        """
        state = state.at(now_ns, is_behind=is_behind)
        devices = dict(state.devices)
        batches: list[WindowBatch] = []
        for block in blocks:
            if not len(block) and block.device_id not in devices:
                continue  # a loss before any sample
            before = devices.get(block.device_id) or DeviceState()
            devices[block.device_id], cut = self._push_block(before, block, now_ns)
            batches.extend(cut)
        if not state.is_held:
            batches += self._close_silent(devices, now_ns)
        decisions: list[Decision] = []
        alerts: list[Alert] = []
        for _, of_one_length in groupby(filter(len, batches), key=lambda batch: batch.n_samples):
            made, told = self._push_windows(devices, concatenate(list(of_one_length), self.shape), now_ns)
            decisions += made
            alerts += told
        for name, device in devices.items():
            if device.events.state != "normal" and not state.is_held:
                events, changes = tick(device.events, device.clock_ns(now_ns), self.policy)
                devices[name] = replace(device, events=events)
                alerts += changes
        for name in {alert.device_id for alert in alerts}:
            own = [alert for alert in alerts if alert.device_id == name]
            devices[name] = replace(devices[name], raised_ns=with_raised(devices[name].raised_ns, own))
        return replace(state, devices=devices), decisions, alerts

    def command(
        self, state: PipelineState, device_id: str, act: Command
    ) -> tuple[PipelineState, list[Alert], Refusal | None]:
        """The state after a person's act at act.t_ns (UTC), the changes of the alert, or why it is refused."""
        device = state.devices.get(device_id, DeviceState())
        act = replace(act, t_ns=device.clock_ns(act.t_ns))
        events, alerts, refusal = command(device.events, act, self.policy)
        if refusal is not None:
            return state, [], refusal
        devices = {**state.devices, device_id: replace(device, events=events)}
        return replace(state, devices=devices), list(alerts), None

    def _push_windows(
        self, devices: dict[str, DeviceState], batch: WindowBatch, now_ns: int
    ) -> tuple[list[Decision], list[Alert]]:
        """All devices' windows, scored as one batch, each device's in order through its own engine."""
        decisions: list[Decision] = []
        alerts: list[Alert] = []
        scores, unlike = self._score(batch)
        counts = ~batch.closes | (scores > self.model.threshold)
        rows_of: dict[str, list[int]] = {name: [] for name in batch.device_ids}
        seen_ns = {name: devices[name].seen_ns for name in batch.device_ids}
        for i, (name, t_end_ns) in enumerate(zip(batch.device_ids, batch.t_end_ns.tolist(), strict=True)):
            if counts[i]:
                rows_of[name].append(i)
            came_ns = devices[name].grid_ns
            if came_ns is not None and (seen_ns[name] is None or not batch.closes[i]):
                seen_ns[name] = t_end_ns, came_ns
        within_s = self.policy.live_within_s
        looks = self._look(batch, {name: devices[name].oldest_live_ns(now_ns, within_s) for name in rows_of})
        for name, rows in rows_of.items():
            scored = [(looks[i], float(scores[i]), unlike[i]) for i in rows]
            devices[name], made, changes = self._decide(devices[name], scored, seen_ns[name])
            decisions += made
            alerts += changes
        return decisions, alerts

    def _push_block(
        self, device: DeviceState, block: SampleBlock, now_ns: int
    ) -> tuple[DeviceState, list[WindowBatch]]:
        resampler, chunks = resample(device.resampler, block, rate_hz=self.model.rate_hz, settings=self.settings)
        cutter, cut, shape = device.cutter, [], self.shape
        for chunk in chunks:
            if chunk.starts_segment:
                cut.append(closing_window(cutter, device_id=block.device_id, shape=shape))
            cutter, batch = push_chunk(cutter, chunk, device_id=block.device_id, shape=shape, sos=self.model.sos)
            cut.append(batch)
        newest_ns, clock, grid_ns = resampler.max_t_ns, device.clock, now_ns if chunks else device.grid_ns
        if newest_ns is not None and len(block):
            clock = push_clock(clock, newest_ns, now_ns, is_own=block.has_own_clock)
        return replace(device, resampler=resampler, cutter=cutter, clock=clock, grid_ns=grid_ns), cut

    def _close_silent(self, devices: dict[str, DeviceState], now_ns: int) -> list[WindowBatch]:
        """The windows that end the streams of devices of which nothing has come for a while."""
        silent_ns, batches = round(TICK_GRACE_S * NS_PER_S), []
        for name, device in devices.items():
            if device.cutter.is_closed or device.grid_ns is None or now_ns - device.grid_ns < silent_ns:
                continue
            batches.append(closing_window(device.cutter, device_id=name, shape=self.shape))
            devices[name] = replace(device, cutter=replace(device.cutter, is_closed=True))
        return batches

    def _score(self, batch: WindowBatch) -> tuple[FloatArray, list[Contributions]]:
        """Scores (n,) and what made them; NaN and nothing for a window whose features are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            X = self.model.feature_set.extract(batch)
        finite = np.isfinite(X).all(axis=1)
        scores = np.full(len(batch), np.nan)
        scores[finite], told = self.model.judge(X[finite])
        unlike: list[Contributions] = [()] * len(batch)
        for i, contributions in zip(np.flatnonzero(finite).tolist(), told, strict=True):
            unlike[i] = contributions
        return scores, unlike

    def _look(self, batch: WindowBatch, oldest_ns: Mapping[str, int]) -> list[_Look]:
        """What each window shows apart from its score, of the wearer and of the sensor; oldest_ns: of what is live."""
        found = motion(batch)
        still = found.is_still(self.policy.motion_limits).tolist()
        motionless, before, after = found.is_motionless.tolist(), found.gravity_before, found.gravity_after
        ends = zip(batch.device_ids, batch.t_start_ns.tolist(), batch.t_end_ns.tolist(), strict=True)
        seen = [
            Observation(
                decision=None,
                device_id=device_id,
                t_end_ns=t_end_ns,
                is_still=still[i],
                is_motionless=motionless[i],
                gravity_before=direction_of(before[i]),
                gravity_after=direction_of(after[i]),
                is_live=t_end_ns >= oldest_ns[device_id],
                t_start_ns=t_start_ns,
            )
            for i, (device_id, t_start_ns, t_end_ns) in enumerate(ends)
        ]
        rows = zip(seen, looks_of(batch, found), batch.closes.tolist(), batch.bridged.tolist(), strict=True)
        return [_Look(one, *look, *marks) for one, look, *marks in rows]

    def _decide(
        self,
        device: DeviceState,
        scored: Sequence[tuple[_Look, float, Contributions]],
        seen_ns: tuple[int, int] | None,
    ) -> tuple[DeviceState, list[Decision], list[Alert]]:
        """One device's windows, each with its score and what made it, in order, through its event engine.

        No verdict where features are not finite, and no normal one where a fault of the sensor holds or shows, or
        nobody wears the device, or its clock is wild: such a window neither clears an alert nor pushes flagged ones
        out of the last n. One above the threshold stays flagged. A verdict says in what its window is odd. One that
        ends a segment tells nothing of the sensor beyond itself.
        """
        model, events, last, sensor = self.model, device.events, device.last, device.sensor
        n_overlapping = -(-self.shape.n_samples // self.shape.n_hop)
        decisions: list[Decision] = []
        alerts: list[Alert] = []
        for look, score, odd in scored:
            seen = look.seen
            after, may_be_normal = watch_sensor(
                sensor, look.signs, look.mean_ms2, look.rest_ms2, n_overlapping=n_overlapping
            )
            may_be_normal = may_be_normal and not (events.is_not_worn or device.clock.is_wild)
            if score > model.threshold or (may_be_normal and not np.isnan(score)):
                label: Label = "outlier" if score > model.threshold else "normal"
                end_ns, is_bridged = seen.t_end_ns, look.is_bridged
                last = Decision(seen.device_id, end_ns, score, model.threshold, label, model.model_id, odd, is_bridged)
                decisions.append(last)
                seen = replace(seen, decision=last)
            sensor = sensor if look.is_closing else after
            events, changes = push(events, seen, self.policy)
            alerts += changes
        device = replace(
            device,
            events=events,
            sensor=sensor,
            n_windows=device.n_windows + len(scored),
            n_unscorable=device.n_unscorable + len(scored) - len(decisions),
            n_bridged=device.n_bridged + sum(look.is_bridged for look, *_ in scored),
            n_late=device.n_late + sum(not look.seen.is_live for look, *_ in scored),
            last=last,
            seen_ns=seen_ns,
        )
        return device, decisions, alerts


def _moved(device: DeviceState, by_ns: int) -> DeviceState:
    seen_ns = None if device.seen_ns is None else (device.seen_ns[0], device.seen_ns[1] + by_ns)
    grid_ns = None if device.grid_ns is None else device.grid_ns + by_ns
    return replace(device, seen_ns=seen_ns, grid_ns=grid_ns, clock=set_clock(device.clock, by_ns))
