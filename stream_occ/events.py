"""Alerts of one device from its windows, from time that passes, and from what people do: pure, the clock passed in.

`push` takes one window, `tick` the device's time, `command` a person's act, `finish` the end of a recording; each gives
the next state and the changes of the alert to tell. What a state makes of a signal stands in `alert_table`.

Time is that of the samples. A deadline acts at its own stamp: before the first window that ends later, or by a tick
TICK_GRACE_S after it, so that samples on their way come first and any batching tells the same.
"""

from __future__ import annotations

from dataclasses import replace

from stream_occ.alert_table import TABLE, Signal, Turn, tell
from stream_occ.alert_types import Command, EventPolicy, EventState, Observation, OpenAlert, Recent, Refusal, ns
from stream_occ.motion import TAIL_S, Direction, angle_deg
from stream_occ.samples import NS_PER_S, Alert, Decision

__all__ = [
    "QUIET_STEP_NS",
    "TICK_GRACE_S",
    "Command",
    "EventPolicy",
    "EventState",
    "Observation",
    "OpenAlert",
    "Refusal",
    "command",
    "finish",
    "is_near_impact",
    "push",
    "tick",
]

QUIET_STEP_NS = 5 * NS_PER_S  # the most that one window vouches for: a hole is neither quiet nor stillness
TICK_GRACE_S = 5.0  # longer than samples are on their way over a link that works
FLAG_MEMORY_NS = 3600 * NS_PER_S  # a flag from longer ago is another day's
MAX_MUTE_MINUTES = 1440.0  # a mute that nobody takes back is over after a day
DEFAULT_MUTE_MINUTES = 60.0
MAX_REPEATS = 10  # of the deadlines that passed while nobody ran the engine: a day of them would be 1440 repeats


def push(state: EventState, seen: Observation, policy: EventPolicy) -> tuple[EventState, tuple[Alert, ...]]:
    """The state after one more window of the device, and the changes of its alert."""
    t_ns, decision = seen.t_end_ns, seen.decision
    if (  # everyday life, in a microsecond: nothing flagged lately, nothing open, nothing to find out
        decision is not None
        and decision.label == "normal"
        and not (state.recent or seen.is_motionless or state.idle_since_ns is not None)
        and (state.alert is None or not state.alert.is_open)
        and state.t_ns is not None
        and state.t_ns < t_ns
    ):
        learning_ns, n_set_back = state.learning_until_ns, state.n_set_back
        return EventState(t_ns, (), state.alert, state.muted_until_ns, None, False, learning_ns, n_set_back), ()
    turn = Turn(policy, t_ns, seen)
    state = _act_on_deadlines(_on_clock(state, seen, policy), t_ns - 1, turn)
    state = _remember(state, seen, policy)
    state = TABLE[state.state, _signal(state, seen, policy)](state, turn) or state
    return _act_on_deadlines(state, t_ns, turn), tuple(turn.told)


def tick(state: EventState, device_now_ns: int, policy: EventPolicy) -> tuple[EventState, tuple[Alert, ...]]:
    """The state once the device's clock shows device_now_ns, whether or not it sends: deadlines well past act."""
    turn = Turn(policy, device_now_ns)
    return _act_on_deadlines(state, device_now_ns - ns(TICK_GRACE_S), turn), tuple(turn.told)


def command(
    state: EventState, act: Command, policy: EventPolicy
) -> tuple[EventState, tuple[Alert, ...], Refusal | None]:
    """The state after a person's act at act.t_ns of the device's clock, or the reason why it is refused.

    `mute` and `unmute` concern the device and tell nothing. `feedback` is taken for the last alert too once it is
    closed; `ack` and `cancel` only while it is open.
    """
    if act.kind == "mute":
        minutes = DEFAULT_MUTE_MINUTES if act.minutes is None else min(act.minutes, MAX_MUTE_MINUTES)
        return replace(state, muted_until_ns=act.t_ns + ns(60 * minutes)), (), None
    if act.kind == "unmute":
        return replace(state, muted_until_ns=None), (), None
    alert = state.alert
    if alert is None or not (alert.is_open or act.kind == "feedback"):
        return state, (), "no_open_alert"
    if act.alert_id not in (None, alert.alert_id):
        return state, (), "other_alert"
    signal: Signal | None = act.verdict if act.kind == "feedback" else act.kind
    if signal is None:
        return state, (), "no_verdict"
    turn = Turn(policy, act.t_ns, by=act.by)
    after = TABLE[state.state, signal](state, turn)
    return (state, (), "not_in_this_state") if after is None else (after, tuple(turn.told), None)


def finish(state: EventState, policy: EventPolicy) -> tuple[EventState, tuple[Alert, ...]]:
    """The state where a recording ends: a check is decided on what was seen, a countdown is left running."""
    alert = state.alert
    if alert is None or alert.state not in ("suspected", "checking") or state.t_ns is None:
        return state, ()
    turn = Turn(policy, state.t_ns)
    is_turned = alert.posture_deg is None or alert.posture_deg >= policy.posture_deg
    if alert.still_since_ns is not None:
        state = tell(state, turn, "pending", "still")
    elif alert.trusted_ns < turn.t_ns:
        state = tell(state, turn, "pending", "unscorable")
    elif is_turned:
        state = tell(state, turn, "pending", "not_recovered")
    else:
        state = tell(state, turn, "expired", "moving")
    return state, tuple(turn.told)


def _act_on_deadlines(state: EventState, until_ns: int, turn: Turn) -> EventState:
    """All deadlines up to until_ns act in order, each at its own stamp; of many repeats the last ones."""
    seen, t_ns = turn.seen, turn.t_ns
    turn.seen = None
    while state.alert is not None and state.alert.due_ns is not None and state.alert.due_ns <= until_ns:
        due_ns = state.alert.due_ns
        if state.alert.state == "alarm":
            repeat_ns = ns(turn.policy.repeat_s)
            due_ns += max(0, (until_ns - due_ns) // repeat_ns - MAX_REPEATS + 1) * repeat_ns
        turn.t_ns = due_ns
        state = TABLE[state.state, "due"](state, turn) or state
    turn.seen, turn.t_ns = seen, t_ns
    return state


def _signal(state: EventState, seen: Observation, policy: EventPolicy) -> Signal:
    if seen.decision is None:
        return "untrusted"
    if seen.decision.label == "normal":
        return "normal"
    return "burst" if sum(score is not None for _, score, _ in state.recent) >= policy.k else "flagged"


def _remember(state: EventState, seen: Observation, policy: EventPolicy) -> EventState:
    """Adds the window to the last n, to what is known of the open alert, and to what tells that nobody wears it."""
    alert, learning_ns = state.alert, state.learning_until_ns
    if alert is not None and alert.is_open:
        alert = _seen_in(alert, seen, 0 if state.t_ns is None else seen.t_end_ns - state.t_ns, policy)
    if learning_ns is None and policy.learning_s > 0:
        learning_ns = seen.t_end_ns + ns(policy.learning_s)
    recent, idle_ns, is_not_worn = state.recent, state.idle_since_ns, state.is_not_worn
    if seen.decision is not None:
        recent = _with_window(recent, seen.decision, seen.gravity_before, policy)
        idle_ns, is_not_worn = _worn(state, seen, policy)
    n_set_back = state.n_set_back
    return EventState(seen.t_end_ns, recent, alert, state.muted_until_ns, idle_ns, is_not_worn, learning_ns, n_set_back)


def _with_window(recent: Recent, decision: Decision, gravity: Direction | None, policy: EventPolicy) -> Recent:
    """The last n windows with this one: they begin with a flagged one, for those before it count for nothing."""
    t_ns, is_flagged = decision.t_end_ns, decision.label == "outlier"
    recent = (*recent, (t_ns, decision.score, gravity) if is_flagged else (t_ns, None, None))[-policy.n :]
    while recent and (recent[0][1] is None or recent[0][0] < t_ns - FLAG_MEMORY_NS):
        recent = recent[1:]
    return recent


def _seen_in(alert: OpenAlert, seen: Observation, step_ns: int, policy: EventPolicy) -> OpenAlert:
    """An open alert after a window: what is known of stillness, posture and quiet, and until when silence is borne."""
    decision = seen.decision
    if decision is None:
        return replace(alert, still_since_ns=None)
    still_ns = None
    if seen.is_still:
        is_row = alert.still_since_ns is not None and 0 <= step_ns <= QUIET_STEP_NS
        still_ns = alert.still_since_ns if is_row else max(seen.t_end_ns - ns(TAIL_S), alert.t_event_ns)
    is_normal = decision.label == "normal"
    return replace(
        alert,
        model_id=decision.model_id,
        threshold=decision.threshold,
        score=decision.score,
        trusted_ns=seen.t_end_ns,
        due_ns=seen.t_end_ns + ns(policy.silence_s) if alert.state in ("suspected", "checking") else alert.due_ns,
        still_since_ns=still_ns,
        posture_deg=angle_deg(alert.gravity, seen.gravity_after),
        quiet_ns=alert.quiet_ns + (min(max(step_ns, 0), QUIET_STEP_NS) if is_normal else 0),
        has_moved=alert.has_moved or (is_normal and not seen.is_still),
    )


def _worn(state: EventState, seen: Observation, policy: EventPolicy) -> tuple[int | None, bool]:
    """Since when nothing moves, and whether nobody wears it: not_worn_s without motion, outside of alerts and well
    after the last one; any motion and any flagged window ends it."""
    alert, decision = state.alert, seen.decision
    is_flagged = decision is not None and decision.label == "outlier"
    if is_flagged or not seen.is_motionless or policy.not_worn_s <= 0 or (alert is not None and alert.is_open):
        return None, False
    idle_ns = seen.t_end_ns if state.idle_since_ns is None else state.idle_since_ns
    is_guarded = is_near_impact(alert, seen.t_end_ns, policy.not_worn_guard_s)
    is_long = seen.t_end_ns - idle_ns >= ns(policy.not_worn_s)
    return idle_ns, state.is_not_worn or (is_long and not is_guarded)


def is_near_impact(alert: OpenAlert | None, t_ns: int, guard_s: float) -> bool:
    """True in an open alert, and for guard_s after its last flagged window: what lies still may be somebody."""
    return alert is not None and (alert.is_open or t_ns - alert.t_last_flagged_ns < ns(guard_s))


def _on_clock(state: EventState, seen: Observation, policy: EventPolicy) -> EventState:
    """The state with its stamps moved back where a window ends before the last one: the clock was set.

    What was seen until then was seen before this window began.
    """
    if state.t_ns is None or state.t_ns < seen.t_end_ns:
        return state
    start_ns = seen.t_end_ns - 1 if seen.t_start_ns is None else min(seen.t_start_ns, seen.t_end_ns - 1)
    by_ns = state.t_ns - start_ns
    return replace(
        state,
        t_ns=start_ns,
        recent=tuple((t_ns - by_ns, score, gravity) for t_ns, score, gravity in state.recent),
        alert=None if state.alert is None else _moved(state.alert, by_ns, start_ns, policy),
        muted_until_ns=_less(state.muted_until_ns, by_ns),
        idle_since_ns=_less(state.idle_since_ns, by_ns),
        learning_until_ns=_less(state.learning_until_ns, by_ns),
        n_set_back=state.n_set_back + 1,
    )


def _moved(alert: OpenAlert, by_ns: int, t_ns: int, policy: EventPolicy) -> OpenAlert:
    """The alert on a clock set back by so much; no deadline is further ahead than one that began now."""
    longest_s = {"pending": policy.countdown_s, "alarm": policy.repeat_s}.get(alert.state, policy.silence_s)
    due_ns = _less(alert.due_ns, by_ns)
    return replace(
        alert,
        t_first_ns=alert.t_first_ns - by_ns,
        t_last_flagged_ns=alert.t_last_flagged_ns - by_ns,
        t_event_ns=alert.t_event_ns - by_ns,
        t_told_ns=min(alert.t_told_ns - by_ns, t_ns),
        t_state_ns=min(alert.t_state_ns - by_ns, t_ns),
        trusted_ns=alert.trusted_ns - by_ns,
        check_end_ns=alert.check_end_ns - by_ns,
        still_since_ns=_less(alert.still_since_ns, by_ns),
        due_ns=None if due_ns is None else min(due_ns, t_ns + ns(longest_s)),
    )


def _less(t_ns: int | None, by_ns: int) -> int | None:
    return None if t_ns is None else t_ns - by_ns
