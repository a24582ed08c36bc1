"""The life cycle of an alert as a table: what each state makes of each signal. Every cell is decided, `_nothing` too.

normal -> suspected -> checking -> pending -> alarm -> acknowledged -> resolved; expired, cancelled, false_alarm.

- After a burst nothing but a trusted window in which the wearer moves, upright as before, leads back to normal: what
  cannot be seen is told as pending.
- An alarm is latched: only a person ends it, or takes it, and then it ends by quiet.
- No signal lengthens a countdown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args
from uuid import UUID, uuid5

from stream_occ.alert_types import (
    EventPolicy,
    EventState,
    Observation,
    OpenAlert,
    State,
    ns,
)
from stream_occ.motion import angle_deg
from stream_occ.samples import Alert, AlertState

_ALERT_NAMESPACE = UUID("6f0c64a5-5a0e-4a57-9d2b-3f0a1c8f5e10")

MAX_CONFIRMED = 16  # more say nothing new, and each is told, kept and sent until all receivers have it
Signal = Literal["burst", "flagged", "normal", "untrusted", "due", "ack", "cancel", "false_alarm", "fall"]


@dataclass(slots=True)
class Turn:
    """One signal at work: when it acts, what made it, and the changes told so far."""

    policy: EventPolicy
    t_ns: int
    seen: Observation | None = None
    by: str = ""
    told: list[Alert] = field(default_factory=list)


Action = Callable[[EventState, Turn], EventState | None]
"""The state after a signal; None where the signal has no sense in the state, which a person is told."""


# ---------------------------------------------------------------- nothing, growth


def _nothing(state: EventState, turn: Turn) -> EventState:
    return state


def _refuse(state: EventState, turn: Turn) -> None:
    return None


def _grow(state: EventState, turn: Turn) -> EventState:
    """One more flagged window of the alert."""
    return replace(state, alert=_grown(_alert_of(state), [(turn.t_ns, _score_of(turn))]))


def _linger(state: EventState, turn: Turn) -> EventState:
    """A flagged window after a close: still the closed alert's where it overlaps it."""
    return _grow(state, turn) if _overlaps(state.alert, turn) else state


# ---------------------------------------------------------------- normal -> suspected -> checking -> pending | expired


def _raise(state: EventState, turn: Turn) -> EventState:
    """normal, a burst: the closed alert's own windows, or it again, or a new one."""
    assert turn.seen is not None
    earlier, overlaps = state.alert, _overlaps(state.alert, turn)
    is_again = (
        earlier is not None
        and not earlier.is_persons
        and turn.t_ns - earlier.t_state_ns <= ns(turn.policy.refractory_s)
        and (turn.seen.is_live or not overlaps)
    )
    if overlaps and not is_again:
        return _grow(state, turn)
    alert = _reopened(state, turn) if is_again else _new(state, turn)
    reasons = ("k_of_n", "reopened") if is_again else ("k_of_n",)
    state = replace(state, alert=alert)
    if not turn.seen.is_live:
        state = tell(state, turn, "suspected", *reasons, "historical")
        return tell(state, turn, "expired", "historical")
    state = tell(state, turn, "suspected", *reasons)
    return state if turn.policy.check else tell(state, turn, "pending", "k_of_n")


def _begin(then: Action) -> Action:
    """suspected, a window: what follows the burst is looked at from this one on."""
    return lambda state, turn: then(tell(state, turn, "checking", "k_of_n"), turn)


def _check(state: EventState, turn: Turn) -> EventState:
    """checking, a trusted window: still or fallen over is pending; moving at the end, upright as before, is expired."""
    alert, policy = _alert_of(state), turn.policy
    is_turned = alert.posture_deg is None or alert.posture_deg >= policy.posture_deg
    if alert.still_since_ns is not None:
        if alert.posture_deg is not None and is_turned:
            return tell(state, turn, "pending", "posture")
        if turn.t_ns - alert.still_since_ns >= ns(policy.still_s):
            return tell(state, turn, "pending", "still")
        return state
    if turn.t_ns < alert.check_end_ns:
        return state
    return tell(state, turn, "pending", "not_recovered") if is_turned else tell(state, turn, "expired", "moving")


def _check_flagged(state: EventState, turn: Turn) -> EventState:
    return _check(_grow(state, turn), turn)


def _check_burst(state: EventState, turn: Turn) -> EventState:
    """checking, another burst: the check begins anew, up to max_check_s in all."""
    alert, policy = _alert_of(state), turn.policy
    end_ns = min(turn.t_ns + ns(policy.check_s), alert.t_event_ns + ns(policy.max_check_s))
    return _check_flagged(replace(state, alert=replace(alert, check_end_ns=end_ns)), turn)


def _silent(state: EventState, turn: Turn) -> EventState:
    """suspected or checking, nothing trusted for silence_s: never back to normal from here."""
    assert state.t_ns is not None
    is_seen = state.t_ns > _alert_of(state).trusted_ns
    return tell(state, turn, "pending", "unscorable" if is_seen else "no_data")


# ---------------------------------------------------------------- pending -> alarm, again and again


def _run_out(state: EventState, turn: Turn) -> EventState:
    """pending, the countdown is over: alarm, or the end of it while the device's everyday is still being learned."""
    if state.learning_until_ns is not None and turn.t_ns < state.learning_until_ns:
        return tell(state, turn, "expired", "countdown")
    return tell(state, turn, "alarm", "countdown", level=1)


def _repeat(state: EventState, turn: Turn) -> EventState:
    """alarm that no person has taken: told again, more urgently."""
    alert, policy = _alert_of(state), turn.policy
    state = tell(state, turn, "alarm", "repeat", level=min(alert.level + 1, policy.max_level))
    return replace(state, alert=replace(_alert_of(state), due_ns=turn.t_ns + ns(policy.repeat_s)))


def _again(state: EventState, turn: Turn) -> EventState:
    """pending or alarm, another burst: perhaps another fall, told where the last change is not fresh."""
    alert = _alert_of(state)
    is_fresh = turn.t_ns - alert.t_told_ns < ns(turn.policy.refractory_s)
    state = _grow(state, turn)
    return state if is_fresh else tell(state, turn, alert.state, "k_of_n", "again", *_lateness(turn))


def _again_taken(state: EventState, turn: Turn) -> EventState:
    """acknowledged, another burst: an alarm again, where it is live and a person has not only just taken the last one;
    else told."""
    assert turn.seen is not None
    alert, policy = _alert_of(state), turn.policy
    is_apart = turn.t_ns - alert.t_last_flagged_ns >= ns(policy.merge_s)
    state = _grow(state, turn)
    state = replace(state, alert=replace(_alert_of(state), quiet_ns=0, has_moved=False))
    if turn.seen.is_live and turn.t_ns - alert.t_state_ns > ns(policy.refractory_s):
        return tell(state, turn, "alarm", "k_of_n", "again", level=1)
    return tell(state, turn, "acknowledged", "k_of_n", "again", *_lateness(turn)) if is_apart else state


def _lateness(turn: Turn) -> tuple[str, ...]:
    """The reason that a burst which came too late to act on has beside its own."""
    assert turn.seen is not None
    return () if turn.seen.is_live else ("historical",)


def _rest(state: EventState, turn: Turn) -> EventState:
    """acknowledged, a normal window: resolved once there was quiet in which the wearer moved."""
    alert = _alert_of(state)
    is_over = alert.has_moved and alert.quiet_ns >= ns(turn.policy.clear_after_s)
    return tell(state, turn, "resolved", "quiet") if is_over else state


# ---------------------------------------------------------------- a person's acts


def _acknowledge(state: EventState, turn: Turn) -> EventState:
    return tell(state, turn, "acknowledged", "ack", quiet_ns=0, has_moved=False)


def _cancel(state: EventState, turn: Turn) -> EventState:
    """suspected, checking, pending: the wearer is well."""
    return tell(state, turn, "cancelled", "cancel", is_persons=True)


def _all_clear(state: EventState, turn: Turn) -> EventState:
    """alarm, acknowledged: what there was is over."""
    return tell(state, turn, "resolved", "all_clear", is_persons=True)


def _deny(state: EventState, turn: Turn) -> EventState | None:
    """Any alert, a closed one too: it was no fall."""
    if _alert_of(state).state == "false_alarm":
        return None
    return tell(state, turn, "false_alarm", "feedback_false_alarm", is_persons=True)


def _confirm(state: EventState, turn: Turn) -> EventState | None:
    """Any alert: it was a fall, which changes nothing but is told; once a person, by so many at most."""
    alert = _alert_of(state)
    if turn.by in alert.confirmed_by or len(alert.confirmed_by) >= MAX_CONFIRMED:
        return None
    return tell(state, turn, alert.state, "feedback_fall", confirmed_by=(*alert.confirmed_by, turn.by))


_SIGNALS: tuple[Signal, ...] = get_args(Signal)
_ROWS: Mapping[State, tuple[Action, ...]] = {
    "normal": (_raise, _linger, _nothing, _nothing, _nothing, _refuse, _refuse, _deny, _confirm),
    "suspected": (
        *(_begin(_check_burst), _begin(_check_flagged), _begin(_check), _begin(_nothing), _silent),
        *(_refuse, _cancel, _deny, _confirm),
    ),
    "checking": (_check_burst, _check_flagged, _check, _nothing, _silent, _refuse, _cancel, _deny, _confirm),
    "pending": (_again, _grow, _nothing, _nothing, _run_out, _acknowledge, _cancel, _deny, _confirm),
    "alarm": (_again, _grow, _nothing, _nothing, _repeat, _acknowledge, _all_clear, _deny, _confirm),
    "acknowledged": (_again_taken, _grow, _rest, _nothing, _nothing, _refuse, _all_clear, _deny, _confirm),
}
TABLE: Mapping[tuple[State, Signal], Action] = {
    (state, signal): action for state, row in _ROWS.items() for signal, action in zip(_SIGNALS, row, strict=True)
}


# ---------------------------------------------------------------- the alert


def tell(state: EventState, turn: Turn, becomes: AlertState, *reasons: str, **changes: Any) -> EventState:
    """The state after the next change of its alert, which is added to what is told.

    The stamp is never before the last told one. The deadline is that of the new state; where the state stays, it stays.
    """
    alert = _alert_of(state)
    t_ns = max(turn.t_ns, alert.t_told_ns)
    if becomes != alert.state or alert.seq < 0:
        changes.setdefault("due_ns", _due_ns(becomes, alert, t_ns, turn.policy))
        changes.setdefault("level", 0)
        changes["t_state_ns"] = t_ns
    if turn.by:
        changes["by"] = turn.by
    alert = replace(alert, state=becomes, seq=alert.seq + 1, t_told_ns=t_ns, **changes)
    state = replace(state, alert=alert)
    if state.learning_until_ns is not None and t_ns < state.learning_until_ns:
        reasons = (*reasons, "learning")
    turn.told.append(_told(state, alert, reasons))
    return state


def _due_ns(state: AlertState, alert: OpenAlert, t_ns: int, policy: EventPolicy) -> int | None:
    if state in ("suspected", "checking"):
        return alert.trusted_ns + ns(policy.silence_s)
    if state == "pending":
        return t_ns + ns(policy.countdown_s)
    return t_ns + ns(policy.repeat_s) if state == "alarm" else None


def _told(state: EventState, alert: OpenAlert, reasons: tuple[str, ...]) -> Alert:
    evidence: dict[str, float | int] = {
        "n_flagged_windows": alert.n_flagged,
        "peak_score": alert.peak_score,
        "threshold": alert.threshold,
        "t_first_flagged_ns": alert.t_first_ns,
        "t_last_flagged_ns": alert.t_last_flagged_ns,
        "level": alert.level,
        "muted": int(state.is_muted(alert.t_told_ns)),
    }
    if alert.posture_deg is not None:
        evidence["posture_deg"] = round(alert.posture_deg, 1)
    if alert.still_since_ns is not None:
        evidence["still_s"] = round((alert.trusted_ns - alert.still_since_ns) / 1e9, 3)
    if alert.state == "pending" and alert.due_ns is not None:
        evidence["t_deadline_ns"] = alert.due_ns
    return Alert(
        alert_id=alert.alert_id,
        device_id=alert.device_id,
        seq=alert.seq,
        t_ns=alert.t_told_ns,
        state=alert.state,
        severity=_SEVERITY.get(alert.state, "warning" if "historical" in reasons else "info"),
        reasons=reasons,
        score=alert.score,
        model_id=alert.model_id,
        evidence=evidence,
        by=alert.by,
        contributions=alert.contributions,
    )


_SEVERITY: Mapping[AlertState, Literal["info", "warning", "critical"]] = {
    "checking": "warning",
    "pending": "warning",
    "alarm": "critical",
    "acknowledged": "warning",
}


def _new(state: EventState, turn: Turn) -> OpenAlert:
    """The alert of the burst that ends with this window, with an id that the same data make again."""
    assert turn.seen is not None
    assert turn.seen.decision is not None
    decision = turn.seen.decision
    flagged = [(t_ns, score, gravity) for t_ns, score, gravity in state.recent if score is not None]
    t_first_ns, first_score, gravity = flagged[0]
    name = f"{decision.device_id}/{decision.t_end_ns}" + (f"/{state.n_set_back}" if state.n_set_back else "")
    alert = OpenAlert(
        alert_id=str(uuid5(_ALERT_NAMESPACE, name)),
        device_id=decision.device_id,
        model_id=decision.model_id,
        threshold=decision.threshold,
        score=decision.score,
        peak_score=first_score,
        n_flagged=0,
        t_first_ns=t_first_ns,
        t_last_flagged_ns=t_first_ns,
        t_event_ns=turn.t_ns,
        t_told_ns=turn.t_ns,
        t_state_ns=turn.t_ns,
        trusted_ns=turn.t_ns,
        check_end_ns=turn.t_ns + ns(turn.policy.check_s),
        gravity=gravity,
        posture_deg=angle_deg(gravity, turn.seen.gravity_after),
        contributions=decision.contributions,
    )
    return _grown(alert, [(t_ns, score) for t_ns, score, _ in flagged])


def _reopened(state: EventState, turn: Turn) -> OpenAlert:
    """The closed alert with what the burst adds to it: posture is told against the time before this burst."""
    new, earlier = _new(state, turn), _alert_of(state)
    flagged = [(t, score) for t, score, _ in state.recent if score is not None and t > earlier.t_last_flagged_ns]
    kept = replace(
        new,
        alert_id=earlier.alert_id,
        seq=earlier.seq,
        by=earlier.by,
        state=earlier.state,
        t_first_ns=earlier.t_first_ns,
        t_told_ns=earlier.t_told_ns,
        n_flagged=earlier.n_flagged,
        peak_score=earlier.peak_score,
        confirmed_by=earlier.confirmed_by,
    )
    return _grown(kept, flagged)


def _grown(alert: OpenAlert, flagged: list[tuple[int, float]]) -> OpenAlert:
    """The alert with these flagged windows added, the last one last."""
    return replace(
        alert,
        t_last_flagged_ns=flagged[-1][0],
        n_flagged=alert.n_flagged + len(flagged),
        peak_score=max(alert.peak_score, *(score for _, score in flagged)),
    )


def _overlaps(alert: OpenAlert | None, turn: Turn) -> bool:
    """True where a window shares samples with the closed alert and with its last flagged window."""
    return alert is not None and turn.t_ns - min(alert.t_state_ns, alert.t_last_flagged_ns) < ns(turn.policy.merge_s)


def _alert_of(state: EventState) -> OpenAlert:
    assert state.alert is not None
    return state.alert


def _score_of(turn: Turn) -> float:
    assert turn.seen is not None
    assert turn.seen.decision is not None
    return turn.seen.decision.score
