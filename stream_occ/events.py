"""Alerts from decisions: k of the last n windows flagged raise one; it clears after quiet; near bursts are one alert.

This is the first engine. The full life cycle (suspected, checking, pending, acknowledged, cancelled, ...) is a longer
table in the same place: a row says what a state makes of a signal.

Time is that of the samples. Without samples nothing clears: a device that falls silent leaves its alert open. A burst
inside an open alert may be another fall, so it is told anew, at most every `refractory_s`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal
from uuid import UUID, uuid5

from stream_occ.samples import NS_PER_S, Alert, AlertState, Decision

_ALERT_NAMESPACE = UUID("6f0c64a5-5a0e-4a57-9d2b-3f0a1c8f5e10")
QUIET_STEP_NS = 5 * NS_PER_S  # the most that one normal window adds to the quiet: a hole in the stream is no quiet
FLAG_MEMORY_NS = 3600 * NS_PER_S  # a flag from before a longer silence is another day's


@dataclass(frozen=True, slots=True)
class EventPolicy:
    """When alerts begin and end.

    k, n: an alert is raised when k of the last n windows are flagged, 1 <= k <= n.
    clear_after_s > 0: it is resolved after so much time in normal windows without another burst between, s.
    refractory_s >= 0: a burst in an open alert is told (seq + 1) when the last change lies this far back; a burst
    within this time of the resolution re-opens the alert in place of a new one, s.
    """

    k: int = 2
    n: int = 3
    clear_after_s: float = 300.0
    refractory_s: float = 60.0


State = Literal["normal", "alarm"]
Signal = Literal["burst", "flagged", "normal", "quiet"]


@dataclass(frozen=True, slots=True)
class OpenAlert:
    """The latest alert of a device: open, or resolved and still able to be re-opened. t_told_ns: its last change."""

    alert_id: str
    seq: int
    t_first_ns: int
    t_last_flagged_ns: int
    t_told_ns: int
    n_flagged: int
    peak_score: float


@dataclass(frozen=True, slots=True)
class EventState:
    """Where one device's alerts stand.

    recent: (end of window ns, its score where flagged, else None) of the last n decisions; quiet_ns: time in normal
    windows since the last burst.
    """

    state: State = "normal"
    recent: tuple[tuple[int, float | None], ...] = ()
    quiet_ns: int = 0
    alert: OpenAlert | None = None


def push(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert | None]:
    """The state after one more decision of the device, and the change of an alert that it makes, if any."""
    state = _remember(state, decision, policy)
    row = _TABLE.get((state.state, _signal(state, decision, policy)))
    return (state, None) if row is None else row(state, decision, policy)


def _remember(state: EventState, decision: Decision, policy: EventPolicy) -> EventState:
    """Adds the decision to the last n and to the quiet, which a burst ends.

    A flag alone adds nothing and ends nothing: at a threshold that rejects one window in a hundred there is one a
    minute in normal life, and no alert would ever clear.
    """
    is_flagged = decision.label == "outlier"
    recent = state.recent
    step_ns = decision.t_end_ns - recent[-1][0] if recent else 0
    if abs(step_ns) > FLAG_MEMORY_NS:
        recent = ()
    recent = (*recent, (decision.t_end_ns, decision.score if is_flagged else None))[-policy.n :]
    is_burst = is_flagged and len(_flagged(recent)) >= policy.k
    quiet_ns = state.quiet_ns + (0 if is_flagged else min(max(step_ns, 0), QUIET_STEP_NS))
    alert = state.alert
    if alert is not None and decision.t_end_ns < alert.t_told_ns:  # the clock was set back
        alert = replace(alert, t_told_ns=decision.t_end_ns)
    return replace(state, recent=recent, quiet_ns=0 if is_burst else quiet_ns, alert=alert)


def _signal(state: EventState, decision: Decision, policy: EventPolicy) -> Signal:
    if decision.label == "outlier":
        return "burst" if len(_flagged(state.recent)) >= policy.k else "flagged"
    return "quiet" if state.quiet_ns >= policy.clear_after_s * NS_PER_S else "normal"


def _flagged(recent: tuple[tuple[int, float | None], ...]) -> list[tuple[int, float]]:
    """End, ns, and score of the flagged ones."""
    return [(t_ns, score) for t_ns, score in recent if score is not None]


def _raise(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert]:
    """normal -> alarm: the earlier alert again where the burst follows its resolution closely, else a new one."""
    earlier, flagged = state.alert, _flagged(state.recent)
    if earlier is not None and decision.t_end_ns - earlier.t_told_ns <= policy.refractory_s * NS_PER_S:
        before = [t_ns for t_ns, _ in flagged[:-1]]  # up to its last flagged window the alert has counted them
        n_counted = before.index(earlier.t_last_flagged_ns) + 1 if earlier.t_last_flagged_ns in before else 0
        return _tell(
            replace(state, alert=_grown(earlier, flagged[n_counted:])), decision, "alarm", ("k_of_n", "reopened")
        )
    alert_id = str(uuid5(_ALERT_NAMESPACE, f"{decision.device_id}/{decision.t_end_ns}"))
    t_first_ns, score = flagged[0]
    alert = _grown(OpenAlert(alert_id, -1, t_first_ns, t_first_ns, decision.t_end_ns, 0, score), flagged)
    return _tell(replace(state, alert=alert), decision, "alarm", ("k_of_n",))


def _grow(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert | None]:
    """alarm, one more flagged window."""
    assert state.alert is not None
    return replace(state, alert=_grown(state.alert, [(decision.t_end_ns, decision.score)])), None


def _again(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert | None]:
    """alarm, another burst: told where the last change is not fresh."""
    state, _ = _grow(state, decision, policy)
    assert state.alert is not None
    if decision.t_end_ns - state.alert.t_told_ns < policy.refractory_s * NS_PER_S:
        return state, None
    return _tell(state, decision, "alarm", ("k_of_n", "again"))


def _resolve(state: EventState, decision: Decision, policy: EventPolicy) -> tuple[EventState, Alert]:
    """alarm -> normal after quiet."""
    return _tell(state, decision, "resolved", ("quiet",))


_Action = Callable[[EventState, Decision, EventPolicy], tuple[EventState, Alert | None]]
_TABLE: dict[tuple[State, Signal], _Action] = {
    ("normal", "burst"): _raise,
    ("alarm", "flagged"): _grow,
    ("alarm", "burst"): _again,
    ("alarm", "quiet"): _resolve,
}


def _grown(alert: OpenAlert, flagged: list[tuple[int, float]]) -> OpenAlert:
    """The alert with these flagged windows added, the last one last."""
    return replace(
        alert,
        t_last_flagged_ns=flagged[-1][0],
        n_flagged=alert.n_flagged + len(flagged),
        peak_score=max(alert.peak_score, *(score for _, score in flagged)),
    )


def _tell(
    state: EventState, decision: Decision, becomes: AlertState, reasons: tuple[str, ...]
) -> tuple[EventState, Alert]:
    """The next change of the state's alert, and the state that remembers it."""
    assert state.alert is not None
    alert = replace(state.alert, seq=state.alert.seq + 1, t_told_ns=decision.t_end_ns)
    state = replace(state, state="alarm" if becomes == "alarm" else "normal", alert=alert)
    return state, _alert(alert, decision, becomes, reasons)


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
