"""Whether a device's windows may be believed: what each shows of its sensor, and the faults that then hold."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stream_occ.motion import Motion
from stream_occ.quality import (
    CLEAN,
    HELD_BITS,
    QualityState,
    Signs,
    is_moving,
    is_noisy,
    is_turned_unseen,
    rest_fault,
    watch,
)
from stream_occ.windowing import WindowBatch

REST_WINDOWS_FOR_FAULT = 3  # windows at rest that must agree before a fault is named or taken back


@dataclass(frozen=True, slots=True)
class RestState:
    """Fault that |a| at rest points to; `candidate` has been seen in `n_agreeing` windows at rest in a row."""

    fault: str | None = None
    candidate: str | None = None
    n_agreeing: int = 0


@dataclass(frozen=True, slots=True)
class SensorState:
    """What a device's windows so far tell of its sensor."""

    rest: RestState = field(default_factory=RestState)
    quality: QualityState = field(default_factory=QualityState)

    @property
    def faults(self) -> tuple[str, ...]:
        """Named faults that hold now."""
        return self.quality.faults if self.rest.fault is None else (self.rest.fault, *self.quality.faults)


def signs_of(batch: WindowBatch, found: Motion) -> list[Signs]:
    """What each window shows of its sensor: of nearly all, nothing."""
    signs = [CLEAN] * len(batch)
    held = np.zeros(len(batch), dtype=np.int64) if batch.held is None else batch.held & HELD_BITS
    turned = is_turned_unseen(found.gravity_before, found.gravity_after, batch.signals, rate_hz=batch.rate_hz)
    noisy = is_noisy(batch.signals)
    saturated = batch.saturated
    rows = np.flatnonzero((held != 0) | found.is_stuck | turned | noisy | saturated)
    moving = is_moving(batch.signals[rows], rate_hz=batch.rate_hz).tolist()
    for i, moves in zip(rows.tolist(), moving, strict=True):
        marks = (bool(mark[i]) for mark in (found.is_stuck, turned, noisy, saturated))
        signs[i] = Signs(int(held[i]), moves, *marks)
    return signs


def watch_sensor(state: SensorState, signs: Signs, rest_ms2: float, *, n_overlapping: int) -> SensorState:
    """The state after one more window, whose faults are those that touch this window; rest_ms2: its |a| at rest."""
    quality, rest = watch(state.quality, signs, n_overlapping=n_overlapping), state.rest
    if not quality.faults:  # what is stuck has no gravity to be measured
        rest = _watch_rest(rest, rest_ms2)
    return state if quality is state.quality and rest is state.rest else SensorState(rest, quality)


def _watch_rest(state: RestState, magnitude_ms2: float) -> RestState:
    """Names a fault, or takes it back, once enough windows at rest in a row say the same."""
    if np.isnan(magnitude_ms2):
        return state
    fault = rest_fault(magnitude_ms2)
    if fault == state.candidate and state.n_agreeing == REST_WINDOWS_FOR_FAULT:
        return state
    n_agreeing = state.n_agreeing + 1 if fault == state.candidate else 1
    settled = fault if n_agreeing >= REST_WINDOWS_FOR_FAULT else state.fault
    return RestState(settled, fault, n_agreeing)
