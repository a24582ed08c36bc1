"""Whatever windows, ticks and people come, in whatever order: what the event engine promises holds."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.checkpoint import dump_state, load_state
from stream_occ.events import Command, EventPolicy, EventState, Observation, command, push, tick
from stream_occ.pipeline import DeviceState, PipelineState
from stream_occ.samples import NS_PER_S, OPEN_ALERT_STATES, Decision

S = NS_PER_S
UP, LYING = (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)
CLOSED = {"resolved", "cancelled", "false_alarm", "expired"}
PERSONS = {"ack", "cancel", "all_clear", "feedback_false_alarm"}

policies = st.builds(
    EventPolicy,
    k=st.integers(1, 2),
    n=st.integers(2, 4),
    check=st.booleans(),
    still_s=st.sampled_from([1.0, 2.0]),
    silence_s=st.sampled_from([3.0, 10.0]),
    check_s=st.sampled_from([2.0, 5.0]),
    max_check_s=st.sampled_from([5.0, 12.0]),
    countdown_s=st.sampled_from([0.0, 4.0]),
    repeat_s=st.sampled_from([5.0, 20.0]),
    clear_after_s=st.sampled_from([2.0, 8.0]),
    refractory_s=st.sampled_from([0.0, 4.0, 20.0]),
    merge_s=st.sampled_from([0.0, 2.0]),
    learning_s=st.sampled_from([0.0, 0.0, 15.0]),
    not_worn_s=st.sampled_from([0.0, 4.0]),
    not_worn_guard_s=st.sampled_from([0.0, 6.0]),
)
windows = st.tuples(
    st.just("window"),
    st.sampled_from([500, 500, 500, 1000, 2500, 9000]),  # ms since the last one
    st.sampled_from(["normal", "normal", "flagged", "flagged", "untrusted"]),
    st.booleans(),  # still
    st.booleans(),  # motionless
    st.sampled_from([UP, LYING, None]),
    st.sampled_from([True, True, True, True, False]),  # live
)
set_backs = st.tuples(st.just("set_back"), st.sampled_from([100, 3000, 60_000]))
ticks = st.tuples(st.just("tick"), st.sampled_from([0, 100, 4000, 20_000, 300_000]))
acts = st.tuples(
    st.just("act"),
    st.sampled_from(["ack", "cancel", "mute", "unmute", "feedback"]),
    st.sampled_from([None, "fall", "false_alarm"]),
    st.sampled_from([-5000, 0, 3000]),
)


class Run:
    """An engine that is fed steps; `log` holds every told change with the step that made it and the state before."""

    def __init__(self, policy):
        self.policy, self.state, self.t_ns = policy, EventState(), 0
        self.log, self.n_backward = [], 0

    def step(self, step):
        before = self.state
        kind, told = step[0], ()
        if kind == "window":
            self.t_ns += step[1] * 1_000_000
            told = self.push(*step[2:])
        elif kind == "set_back":
            self.t_ns -= step[1] * 1_000_000
        elif kind == "tick":
            self.state, told = tick(self.state, self.t_ns + step[1] * 1_000_000, self.policy)
        else:
            act = Command(step[1], "nurse", self.t_ns + step[3] * 1_000_000, verdict=step[2])
            self.state, told, refusal = command(self.state, act, self.policy)
            assert refusal is None or (told == () and self.state == before)
        self.log += [(alert, step, before) for alert in told]
        return told

    def push(self, kind, is_still, is_motionless, gravity, is_live):
        decision = None
        if kind != "untrusted":
            label = "outlier" if kind == "flagged" else "normal"
            decision = Decision("dev", self.t_ns, 2.0 if kind == "flagged" else 0.5, 1.0, label, "m")
        seen = Observation(decision, "dev", self.t_ns, is_still, is_motionless, UP, gravity, is_live)
        self.state, told = push(self.state, seen, self.policy)
        return told


any_steps = st.lists(st.one_of(windows, windows, windows, ticks, acts, set_backs), min_size=20, max_size=60)


@given(policies, any_steps)
@settings(max_examples=120)
def test_changes_of_an_alert_are_numbered_and_one_alert_is_open(policy, steps):
    """seq counts from 0 by 1 for each alert_id; while one is open no other begins; the state is the last told one."""
    run, last_seq, opened = Run(policy), {}, None
    for step in steps:
        for alert in run.step(step):
            assert alert.seq == last_seq.get(alert.alert_id, -1) + 1
            last_seq[alert.alert_id] = alert.seq
            assert opened in (None, alert.alert_id)
            opened = alert.alert_id if alert.state in OPEN_ALERT_STATES else None
        assert (run.state.state == "normal") == (opened is None)
        if opened is not None:
            assert (run.state.alert.alert_id, run.state.alert.state) == (opened, run.log[-1][0].state)


@given(policies, any_steps)
@settings(max_examples=120)
def test_only_a_person_ends_an_alarm(policy, steps):
    """What follows `alarm` is `alarm` or a person's act; `acknowledged` ends by one or by quiet, or alarms again."""
    run = Run(policy)
    for step in steps:
        run.step(step)
    previous = {}
    for alert, step, _ in run.log:
        before = previous.get(alert.alert_id)
        if before == "alarm" and alert.state != "alarm":
            assert step[0] == "act"
            assert alert.by == "nurse"
            assert alert.reasons[0] in PERSONS
        if before == "acknowledged" and alert.state in CLOSED:
            assert step[0] == "act" or alert.reasons[0] == "quiet"
        if before == "pending" and alert.state == "expired":
            assert "learning" in alert.reasons
        previous[alert.alert_id] = alert.state


@given(policies, any_steps)
@settings(max_examples=120)
def test_only_a_trusted_window_in_motion_ends_a_check_by_itself(policy, steps):
    """No tick, no silence and no untrusted or still window leads from suspected or checking back to normal."""
    run = Run(policy)
    for step in steps:
        run.step(step)
    for alert, step, before in run.log:
        if alert.state == "expired" and "moving" in alert.reasons:
            assert step[0] == "window"
            assert step[2] != "untrusted"
            assert not step[3]
            assert step[5] == UP
        if before.state in ("suspected", "checking") and alert.seq == before.alert.seq + 1 and step[0] == "tick":
            assert (alert.state, alert.reasons[0]) in {("pending", "no_data"), ("pending", "unscorable")}


@given(policies.filter(lambda policy: policy.learning_s == 0), st.lists(windows, max_size=40), st.integers(4, 12))
@settings(max_examples=80)
def test_burst_of_which_nothing_more_can_be_seen_becomes_an_alarm(policy, steps, n_after):
    """From suspected or checking, untrusted windows for silence_s + countdown_s: pending, then alarm, unasked."""
    run = Run(policy)
    for step in steps:
        run.step(step)
    if run.state.state not in ("suspected", "checking"):
        run.step(("window", 30_000, "flagged", False, False, UP, True))
        run.step(("window", 500, "flagged", False, False, UP, True))
    if run.state.state not in ("suspected", "checking"):
        return
    run.log.clear()
    for _ in range(n_after):
        run.step(("window", 9000, "untrusted", False, False, None, True))
    assert [alert.state for alert, _, _ in run.log if alert.state in ("pending", "alarm")][:2] == ["pending", "alarm"]


@given(
    policies,
    st.lists(st.one_of(windows, windows, acts, set_backs), min_size=20, max_size=50),
    st.lists(st.integers(0, 60_000)),
)
@settings(max_examples=120)
def test_ticks_that_do_not_overtake_the_next_window_change_nothing(policy, steps, extra_ms):
    """With ticks up to TICK_GRACE_S after the next window's end, and with none: equal changes, equal state."""
    plain, ticked = Run(policy), Run(policy)
    for i, step in enumerate(steps):
        following = next((later for later in steps[i:] if later[0] != "act"), None)
        if step[0] == "window" and extra_ms:
            ahead_ms = min(extra_ms[i % len(extra_ms)], following[1] + 4999)
            ticked.step(("tick", ahead_ms))
        plain.step(step)
        ticked.step(step)
    assert [alert for alert, _, _ in plain.log] == [alert for alert, _, _ in ticked.log]
    assert plain.state == ticked.state


@given(policies, any_steps, st.lists(st.one_of(windows, ticks), min_size=5, max_size=40))
@settings(max_examples=120)
def test_what_came_too_late_never_sounds(policy, steps, later):
    """With no alert, or one that a person has taken: windows that are not live lead to no countdown and no alarm."""
    run = Run(policy)
    for step in steps:
        run.step(step)
    if run.state.state not in ("normal", "acknowledged"):
        run.step(("act", "feedback", "false_alarm", 0))
    run.log.clear()
    for step in later:
        run.step((*step[:-1], False) if step[0] == "window" else step)
    assert not [alert for alert, _, _ in run.log if alert.state in ("pending", "alarm")]


@given(policies, any_steps)
@settings(max_examples=120)
def test_not_worn_is_outside_of_alerts_and_ends_with_motion(policy, steps):
    """Never in an alert, after a flagged window, after one that moves, or within the guard of the last flagged one."""
    run = Run(policy)
    for step in steps:
        before = run.state.is_not_worn
        run.step(step)
        state = run.state
        if not state.is_not_worn:
            continue
        assert state.state == "normal"
        if step[0] == "window":
            assert step[2] != "flagged"
            assert step[2] == "untrusted" or step[4]
        if not before and state.alert is not None:
            assert state.t_ns - state.alert.t_last_flagged_ns >= policy.not_worn_guard_s * S


@given(policies, any_steps, st.integers(0, 60))
@settings(max_examples=80)
def test_engine_survives_a_restart_at_any_instant(policy, steps, at):
    """Dumped and loaded between any two steps: the same changes, the same state."""
    whole, parted = Run(policy), Run(policy)
    for i, step in enumerate(steps):
        if i == at:
            kept = dump_state(PipelineState({"dev": DeviceState(events=parted.state)}))
            parted.state = load_state(kept).devices["dev"].events
            assert parted.state == whole.state
        whole.step(step)
        parted.step(step)
    assert [alert for alert, _, _ in whole.log] == [alert for alert, _, _ in parted.log]
    assert whole.state == parted.state


@given(policies, any_steps)
@settings(max_examples=120)
def test_told_times_go_forward_unless_the_clock_was_set_back(policy, steps):
    """Within an alert each change is stamped no earlier than the one before."""
    run, last, n_set_back = Run(policy), {}, 0
    for step in steps:
        told = run.step(step)
        if run.state.n_set_back != n_set_back:
            n_set_back, last = run.state.n_set_back, {}
        for alert in told:
            assert alert.t_ns >= last.get(alert.alert_id, alert.t_ns)
            last[alert.alert_id] = alert.t_ns


@given(policies.filter(lambda policy: policy.learning_s == 0), any_steps)
@settings(max_examples=120)
def test_no_countdown_is_lengthened(policy, steps):
    """Counted in the device's time that passes: from pending to the alarm it is countdown_s, not more."""
    run = Run(policy)
    for step in steps:
        before = run.state
        run.step(step)
        alert = run.state.alert
        if alert is not None and alert.state == "pending" and before.state == "pending":
            assert before.alert.due_ns is not None
            if run.state.n_set_back == before.n_set_back:
                assert alert.due_ns == before.alert.due_ns
            else:
                assert alert.due_ns - run.state.t_ns <= policy.countdown_s * S


@given(policies, st.lists(st.one_of(windows, acts), min_size=15, max_size=60))
@settings(max_examples=80)
def test_mute_changes_nothing_but_the_mark(policy, steps):
    """A muted device tells the same changes, with the same severities."""
    muted, heard = Run(policy), Run(policy)
    muted.step(("act", "mute", None, 0))
    for step in steps:
        if step[0] == "act" and step[1] in ("mute", "unmute"):
            continue
        muted.step(step)
        heard.step(step)
    assert [unmarked(alert) for alert, _, _ in muted.log] == [unmarked(alert) for alert, _, _ in heard.log]
    assert all(alert.evidence["muted"] == 1 for alert, _, _ in muted.log)


def unmarked(alert):
    return replace(alert, evidence={name: value for name, value in alert.evidence.items() if name != "muted"})
