"""Alerts from decisions: k of the last n windows flagged raise one; it clears after quiet; near bursts are one alert.

This is the first engine. The full life cycle (suspected, checking, pending, acknowledged, cancelled, ...) is a longer
table in the same place: a row says what a state makes of a signal.

Time is that of the samples. Without samples nothing clears: a device that falls silent leaves its alert open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID, uuid5

from stream_occ.samples import NS_PER_S, Alert, AlertState, Decision

_ALERT_NAMESPACE = UUID("6f0c64a5-5a0e-4a57-9d2b-3f0a1c8f5e10")


@dataclass(frozen=True, slots=True)
class EventPolicy:
    """When alerts begin and end.

    k, n: an alert is raised when k of the last n windows are flagged, 1 <= k <= n.
    clear_after_s > 0: it is resolved when the last flagged window lies this far back and normal ones came since, s.
    refractory_s >= 0: a burst within this time of the last flagged window of a resolved alert re-opens that alert, s.
    """

    k: int = 2
    n: int = 3
    clear_after_s: float = 300.0
    refractory_s: float = 60.0


State = Literal["normal", "alarm"]
Signal = Literal["burst", "flagged", "normal", "quiet"]


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """The latest alert of a device: open, or resolved and still able to be re-opened."""

    alert_id: str
    seq: int
    t_first_ns: int
    t_last_flagged_ns: int
    n_flagged: int
    peak_score: float


@dataclass(frozen=True, slots=True)
class EventState:
    """Where one device's alerts stand. recent: (end of window ns, flagged) of the last n decisions."""

    state: State = "normal"
    recent: tuple[tuple[int, bool], ...] = ()
    alert: OpenAlert | None = None


def push(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert | None]:
    """The state after one more decision of the device, and the change of an alert that it makes, if any."""
    state = _remember(state, decision, policy)
    signal = _signal(state, decision, policy)
    if state.state == "alarm" and signal in ("burst", "flagged") and state.alert is not None:
        state = replace(state, alert=_grown(state.alert, decision))
    row = _TABLE.get((state.state, signal))
    if row is None:
        return state, None
    return row(state, decision, policy)


def _remember(state: EventState, decision: Decision, policy: EventPolicy) -> EventState:
    """Adds the decision to the last n; a flag from before a long silence no longer counts."""
    horizon_ns = decision.t_end_ns - round(max(policy.refractory_s, 1.0) * NS_PER_S)
    kept = tuple(entry for entry in state.recent if entry[0] >= horizon_ns)
    recent = (*kept, (decision.t_end_ns, decision.label == "outlier"))
    alert = state.alert
    if alert is not None and decision.t_end_ns < alert.t_last_flagged_ns:  # the clock was set back: quiet starts anew
        alert = replace(alert, t_last_flagged_ns=decision.t_end_ns)
    return replace(state, recent=recent[-policy.n :], alert=alert)


def _signal(state: EventState, decision: Decision, policy: EventPolicy) -> Signal:
    if decision.label == "outlier":
        return "burst" if sum(flagged for _, flagged in state.recent) >= policy.k else "flagged"
    if state.alert is not None:
        quiet_ns = decision.t_end_ns - state.alert.t_last_flagged_ns
        if quiet_ns >= policy.clear_after_s * NS_PER_S:
            return "quiet"
    return "normal"


def _raise(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert]:
    """normal -> alarm: the earlier alert again where the burst follows it closely, else a new one."""
    earlier = state.alert
    flagged_ns = [t_ns for t_ns, flagged in state.recent if flagged]
    if earlier is not None and 0 <= flagged_ns[0] - earlier.t_last_flagged_ns <= policy.refractory_s * NS_PER_S:
        alert = replace(_grown(earlier, decision), seq=earlier.seq + 1)
        reasons: tuple[str, ...] = ("k_of_n", "reopened")
    else:
        alert_id = str(uuid5(_ALERT_NAMESPACE, f"{decision.device_id}/{decision.t_end_ns}"))
        alert = OpenAlert(alert_id, 0, flagged_ns[0], decision.t_end_ns, len(flagged_ns), decision.score)
        reasons = ("k_of_n",)
    return replace(state, state="alarm", alert=alert), _alert(alert, decision, "alarm", reasons)


def _resolve(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert]:
    """alarm -> normal after quiet."""
    assert state.alert is not None
    alert = replace(state.alert, seq=state.alert.seq + 1)
    return replace(state, state="normal", alert=alert), _alert(alert, decision, "resolved", ("quiet",))


_Action = Callable[[EventState, Decision, EventPolicy], tuple[EventState, Alert]]
_TABLE: dict[tuple[State, Signal], _Action] = {
    ("normal", "burst"): _raise,
    ("alarm", "quiet"): _resolve,
}


def _grown(alert: OpenAlert, decision: Decision) -> OpenAlert:
    return replace(
        alert,
        t_last_flagged_ns=max(alert.t_last_flagged_ns, decision.t_end_ns),
        n_flagged=alert.n_flagged + 1,
        peak_score=max(alert.peak_score, decision.score),
    )


def _alert(alert: OpenAlert, decision: Decision, state: AlertState, reasons: tuple[str, ...]) -> Alert:
    return Alert(
        alert_id=alert.alert_id,
        device_id=decision.device_id,
        seq=alert.seq,
        t_ns=decision.t_end_ns,
        state=state,
        severity="critical" if state == "alarm" else "info",
        reasons=reasons,
        score=decision.score,
        model_id=decision.model_id,
        evidence={
            "n_flagged_windows": alert.n_flagged,
            "peak_score": alert.peak_score,
            "threshold": decision.threshold,
            "t_first_flagged_ns": alert.t_first_ns,
            "t_last_flagged_ns": alert.t_last_flagged_ns,
        },
    )
