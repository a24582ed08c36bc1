"""Many devices' streams to decisions and alerts: one pure step over a batch of sample blocks.

The service is a thin adapter around `Pipeline.step`; offline evaluation takes the same parts one by one (windows,
features, score, events), and a test holds it to the step's scores and alarms. It has no clock, file, socket, log,
thread or draw: the same samples give the same decisions and alerts, however they are cut into blocks and steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stream_occ.events import EventPolicy, EventState, push
from stream_occ.quality import rest_fault, rest_magnitude_ms2
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import Alert, Decision, FloatArray, Label, SampleBlock
from stream_occ.scoring import Model
from stream_occ.windowing import CutterState, WindowBatch, WindowShape, concatenate, push_chunk

REST_WINDOWS_FOR_FAULT = 3  # windows at rest that must agree before a fault is named or taken back


@dataclass(frozen=True, slots=True)
class RestState:
    """Fault that |a| at rest points to; `candidate` has been seen in `n_agreeing` windows at rest in a row."""

    fault: str | None = None
    candidate: str | None = None
    n_agreeing: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DeviceState:
    """All that is kept of one device. n_unscorable counts windows that got no verdict."""

    resampler: ResamplerState = field(default_factory=ResamplerState)
    cutter: CutterState = field(default_factory=CutterState)
    events: EventState = field(default_factory=EventState)
    rest: RestState = field(default_factory=RestState)
    n_windows: int = 0
    n_unscorable: int = 0
    last: Decision | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """Named faults of the sensor that hold now."""
        return () if self.rest.fault is None else (self.rest.fault,)


@dataclass(frozen=True, slots=True, eq=False)
class PipelineState:
    """The devices' states by device id."""

    devices: Mapping[str, DeviceState] = field(default_factory=dict)

    def without(self, device_id: str) -> PipelineState:
        """The state after forgetting a device."""
        return PipelineState({name: state for name, state in self.devices.items() if name != device_id})


@dataclass(frozen=True, slots=True, eq=False)
class Pipeline:
    """What stays the same from step to step: the model, how streams are cut, when alerts begin and end."""

    model: Model
    settings: StreamSettings = field(default_factory=StreamSettings)
    policy: EventPolicy = field(default_factory=EventPolicy)

    @property
    def shape(self) -> WindowShape:
        """Length and hop of the model's windows in samples."""
        return WindowShape.of(rate_hz=self.model.rate_hz, window_s=self.model.window_s, hop_s=self.model.hop_s)

    def initial(self) -> PipelineState:
        """The state before any sample."""
        return PipelineState()

    def step(
        self, state: PipelineState, blocks: Sequence[SampleBlock], now_ns: int
    ) -> tuple[PipelineState, list[Decision], list[Alert]]:
        """The state after `blocks`, and the decisions and changes of alerts that they bring.

        Blocks of one device must come in the order in which they arrived. Decisions are ordered by device (by first
        block), then by time; the windows of all devices are scored as one batch. `now_ns` (UTC) ends countdowns of
        devices that send no more; this version's event engine has none, and no decision depends on it.
        """
        del now_ns
        devices = dict(state.devices)
        batches: list[WindowBatch] = []
        for block in blocks:
            device, cut = self._push_block(devices.get(block.device_id, DeviceState()), block)
            devices[block.device_id] = device
            batches.extend(cut)
        batch = concatenate(batches, self.shape)
        if len(batch) == 0:
            return PipelineState(devices), [], []
        scores = self._score(batch)
        rest = rest_magnitude_ms2(batch.signals)
        decisions: list[Decision] = []
        alerts: list[Alert] = []
        rows_of: dict[str, list[int]] = {}
        for i, name in enumerate(batch.device_ids):
            rows_of.setdefault(name, []).append(i)
        for name, rows in rows_of.items():
            devices[name], made, changes = self._decide(devices[name], batch, scores, rest, rows)
            decisions += made
            alerts += changes
        return PipelineState(devices), decisions, alerts

    def _push_block(self, device: DeviceState, block: SampleBlock) -> tuple[DeviceState, list[WindowBatch]]:
        resampler, chunks = resample(device.resampler, block, rate_hz=self.model.rate_hz, settings=self.settings)
        cutter, cut = device.cutter, []
        for chunk in chunks:
            cutter, batch = push_chunk(cutter, chunk, device_id=block.device_id, shape=self.shape, sos=self.model.sos)
            cut.append(batch)
        return replace(device, resampler=resampler, cutter=cutter), cut

    def _score(self, batch: WindowBatch) -> FloatArray:
        """Scores (n,), NaN for a window whose features are not finite."""
        with np.errstate(over="ignore", invalid="ignore"):
            X = self.model.feature_set.extract(batch)
        finite = np.isfinite(X).all(axis=1)
        scores = np.full(len(batch), np.nan)
        scores[finite] = self.model.score_features(X[finite])
        return scores

    def _decide(
        self, device: DeviceState, batch: WindowBatch, scores: FloatArray, rest: FloatArray, rows: list[int]
    ) -> tuple[DeviceState, list[Decision], list[Alert]]:
        """One device's windows, in order, through its event engine.

        No verdict where features are not finite, and no normal one while a fault of the sensor holds: such a window
        neither clears an alert nor pushes flagged ones out of the last n. One above the threshold stays flagged.
        """
        model, events, rest_state, last = self.model, device.events, device.rest, device.last
        decisions: list[Decision] = []
        alerts: list[Alert] = []
        for i in rows:
            rest_state = _watch_rest(rest_state, float(rest[i]))
            score = float(scores[i])
            if np.isnan(score) or (rest_state.fault is not None and score <= model.threshold):
                continue
            t_end_ns = int(batch.t_start_ns[i]) + round((batch.n_samples - 1) * 1e9 / batch.rate_hz)
            label: Label = "outlier" if score > model.threshold else "normal"
            last = Decision(batch.device_ids[i], t_end_ns, score, model.threshold, label, model.model_id)
            decisions.append(last)
            events, alert = push(events, last, self.policy)
            if alert is not None:
                alerts.append(alert)
        n_unscorable = device.n_unscorable + len(rows) - len(decisions)
        return (
            replace(
                device,
                events=events,
                rest=rest_state,
                n_windows=device.n_windows + len(rows),
                n_unscorable=n_unscorable,
                last=last,
            ),
            decisions,
            alerts,
        )


def _watch_rest(state: RestState, magnitude_ms2: float) -> RestState:
    """Names a fault, or takes it back, once enough windows at rest in a row say the same."""
    if np.isnan(magnitude_ms2):
        return state
    fault = rest_fault(magnitude_ms2)
    n_agreeing = state.n_agreeing + 1 if fault == state.candidate else 1
    settled = fault if n_agreeing >= REST_WINDOWS_FOR_FAULT else state.fault
    return RestState(settled, fault, min(n_agreeing, REST_WINDOWS_FOR_FAULT))
