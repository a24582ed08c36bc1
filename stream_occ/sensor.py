"""Whether a device's windows may be believed: what each shows of its sensor, and the faults that then hold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from stream_occ.attitude import agreement
from stream_occ.motion import Motion
from stream_occ.quality import (
    ACC_BITS,
    CLEAN,
    HELD_BITS,
    HOLD_S,
    STALLED,
    QualityState,
    Signs,
    constant_signals,
    is_moving,
    is_noisy,
    is_spinning,
    motion_fault,
    norm_mean_std,
    rest_fault,
    rest_of,
    watch,
)
from stream_occ.samples import FloatArray
from stream_occ.windowing import WindowBatch

REST_WINDOWS_FOR_FAULT = 3  # windows at rest that must agree before a fault is named or taken back
ODD_WINDOWS_FOR_FAULT = 60  # windows in a row, at rest or not, whose mean |a| no body shows


@dataclass(frozen=True, slots=True)
class RestState:
    """Fault that |a| points to, at rest or not. `candidate` has been seen in `n_agreeing` windows at rest in a row;
    n_odd: windows in a row whose mean |a| no body shows; n_bare: of these, without gravity."""

    fault: str | None = None
    candidate: str | None = None
    n_agreeing: int = 0
    n_odd: int = 0
    n_bare: int = 0


@dataclass(frozen=True, slots=True)
class SensorState:
    """What a device's windows so far tell of its sensor."""

    rest: RestState = field(default_factory=RestState)
    quality: QualityState = field(default_factory=QualityState)

    @property
    def faults(self) -> tuple[str, ...]:
        """Named faults that hold now."""
        return self.quality.faults if self.rest.fault is None else (self.rest.fault, *self.quality.faults)


def looks_of(batch: WindowBatch, found: Motion) -> Iterator[tuple[Signs, float, float]]:
    """What each window shows of its sensor before any filter: signs, of nearly all none; its mean |a|, and the same at
    rest."""
    mean, std = norm_mean_std(batch.unfiltered)
    return zip(_signs_of(batch, found, mean), mean.tolist(), rest_of(mean, std).tolist(), strict=True)


def _signs_of(batch: WindowBatch, found: Motion, mean_ms2: FloatArray) -> list[Signs]:
    signals = batch.unfiltered
    signs = [CLEAN] * len(batch)
    held = np.zeros(len(batch), dtype=np.int64) if batch.held is None else batch.held & HELD_BITS
    noisy, in_part = is_noisy(signals)
    saturated, lossy = batch.saturated, batch.lossy | batch.slow
    axes, spinning = agreement(signals, mean_ms2, rate_hz=batch.rate_hz), is_spinning(signals)
    untold = saturated | spinning  # of its axes
    turned, votes, jump = (  # where samples are missing the gyroscope's turn is not known: it may have been a fall's
        axes.is_turned & ~(untold | batch.lossy),
        np.where(untold | batch.bridged, 0, axes.votes),
        axes.is_jump & ~untold,
    )
    odd = axes.is_odd | in_part | (held & STALLED != 0)
    rows = np.flatnonzero((held != 0) | found.is_stuck | turned | noisy | untold | lossy | jump | odd | (votes != 0))
    moving = is_moving(signals[rows, :, -round(HOLD_S * batch.rate_hz) :]).tolist()
    constant = np.zeros(len(batch), dtype=np.int64)
    constant[held != 0] = constant_signals(signals[held != 0])
    for i, moves in zip(rows.tolist(), moving, strict=True):
        signs[i] = Signs(
            held=int(held[i]),
            is_moving=moves,
            constant=int(constant[i]),
            is_stuck=bool(found.is_stuck[i]),
            is_turned=bool(turned[i]),
            is_noisy=bool(noisy[i]),
            is_saturated=bool(saturated[i]),
            is_lossy=bool(lossy[i]),
            is_spinning=bool(spinning[i]),
            vote=int(votes[i]),
            is_jump=bool(jump[i]),
            is_odd=bool(odd[i]),
            gravity_ms2=float(axes.gravity_ms2[i]),
        )
    return signs


def watch_sensor(
    state: SensorState, signs: Signs, mean_ms2: float, rest_ms2: float, *, n_overlapping: int
) -> tuple[SensorState, bool]:
    """The state after one more window, and whether it may be normal; mean_ms2: its |a|, rest_ms2: the same at rest.

    It may not where a fault holds or shows, where it bridges samples that were sent, or where too few came.
    """
    quality, rest, is_odd = watch(state.quality, signs, n_overlapping=n_overlapping), state.rest, False
    if not quality.faults:  # what is stuck has no gravity to be measured
        is_at_rest = not np.isnan(rest_ms2)
        fault = rest_fault(rest_ms2) if is_at_rest else motion_fault(mean_ms2, signs.gravity_ms2)
        is_odd = fault is not None
        if not _lacks_an_axis(signs):
            rest = _watch_rest(rest, fault) if is_at_rest else _watch_motion(rest, fault)
    if quality is not state.quality or rest is not state.rest:
        state = SensorState(rest, quality)
    return state, not (state.faults or is_odd or signs.is_noisy or signs.is_lossy or signs.is_odd or quality.n_jumped)


def _lacks_an_axis(signs: Signs) -> bool:
    """True where some axes of the accelerometer keep a value while another changes: |a| may be anything, and names
    nothing. A coarse sensor at rest holds all of them."""
    return bool(signs.held & STALLED) and 0 < (signs.held & ACC_BITS).bit_count() < 3


def _watch_rest(state: RestState, fault: str | None) -> RestState:
    """Names a fault, or takes it back, once enough windows at rest in a row say the same."""
    if fault == state.candidate and state.n_agreeing == REST_WINDOWS_FOR_FAULT:
        return state
    n_agreeing = state.n_agreeing + 1 if fault == state.candidate else 1
    settled = fault if n_agreeing >= REST_WINDOWS_FOR_FAULT else state.fault
    return RestState(settled, fault, n_agreeing)


def _watch_motion(state: RestState, fault: str | None) -> RestState:
    """Names what a window shows once enough in a row were odd without a rest, half of them for want of gravity or more
    than half for something else. Windows at rest alone take it back, or give it another name."""
    if fault is None or state.fault is not None:
        return replace(state, n_odd=0, n_bare=0) if state.n_odd else state
    n_odd, n_bare = state.n_odd + 1, state.n_bare + (fault == "gravity_missing")
    if n_odd < ODD_WINDOWS_FOR_FAULT or (fault == "gravity_missing") != (2 * n_bare >= n_odd):
        return replace(state, n_odd=n_odd, n_bare=n_bare)
    return RestState(fault, fault)
