"""The first event engine: when an alert is raised, grown, resolved, re-opened."""

import pytest

from stream_occ.events import EventPolicy, EventState, push
from stream_occ.samples import Decision

S = 1_000_000_000
POLICY = EventPolicy(k=2, n=3, clear_after_s=10.0, refractory_s=30.0)


def play(flags, policy=POLICY, start_s=0.0, state=None, hop_s=1.0):
    """Alerts (second, state, seq, alert) that a row of windows makes, and the last state.

    0 is a normal window, 1 one flagged with score 2.0, anything else one flagged with that score.
    """
    state, made = state or EventState(), []
    for i, flag in enumerate(flags):
        t_ns = int((start_s + i * hop_s) * S)
        score = {0: 0.5, 1: 2.0}.get(flag, flag)
        decision = Decision("dev", t_ns, score, 1.0, "outlier" if flag else "normal", "m")
        state, alert = push(state, decision, policy)
        if alert is not None:
            made.append((t_ns / S, alert.state, alert.seq, alert))
    return made, state


def test_k_of_n_flagged_windows_raise_one_alarm():
    """Two flags within three windows raise; further flags grow the same alert."""
    made, state = play([0, 1, 0, 1, 1, 1])
    assert [(t, s, n) for t, s, n, _ in made] == [(3.0, "alarm", 0)]
    assert state.alert.n_flagged == 4


@pytest.mark.parametrize("flags", [[1, 0, 0, 1, 0, 0, 1], [0] * 20])
def test_fewer_than_k_of_n_raise_nothing(flags):
    """Flags further apart than n windows never add up."""
    assert play(flags)[0] == []


def test_alarm_resolves_after_quiet_and_not_before():
    """Ten seconds after the last flagged window, and only by a normal window that comes then."""
    made, _ = play([1, 1] + [0] * 12)
    assert [(t, s, n) for t, s, n, _ in made] == [(1.0, "alarm", 0), (11.0, "resolved", 1)]


def test_silent_device_leaves_its_alert_open():
    """Without samples nothing clears: the state after the alarm is still alarm."""
    _, state = play([1, 1])
    assert state.state == "alarm"


def test_burst_soon_after_resolution_reopens_the_same_alert():
    """Within refractory_s of the last flag it is the same fall: same id, next seq, and it is published."""
    made, state = play([1, 1] + [0] * 12)
    again, _ = play([1, 1], start_s=25.0, state=state)
    assert [(s, n) for _, s, n, _ in again] == [("alarm", 2)]
    assert again[0][3].alert_id == made[0][3].alert_id
    assert again[0][3].reasons == ("k_of_n", "reopened")


def test_reopened_alert_counts_every_flagged_window_of_the_new_burst():
    """Two flags before the resolution and two that re-open it are four, and the highest of all four is the peak."""
    _, state = play([3.0, 1] + [0] * 12)
    again, _ = play([5.0, 4.0], start_s=25.0, state=state)
    evidence = again[0][3].evidence
    assert (evidence["n_flagged_windows"], evidence["peak_score"]) == (4, 5.0)
    assert (evidence["t_first_flagged_ns"], evidence["t_last_flagged_ns"]) == (0, 26 * S)


def test_window_that_grew_the_alert_is_not_counted_again_when_it_reopens():
    """A single flag before the resolution, in the same three windows as the one that re-opens: 2 + 1 + 1 are four."""
    policy = EventPolicy(k=2, n=3, clear_after_s=4.0, refractory_s=30.0)
    made, _ = play([1, 1, 0, 0, 0, 1, 0, 1], policy=policy)
    assert [(t, s, a.evidence["n_flagged_windows"]) for t, s, _, a in made] == [
        (1.0, "alarm", 2),
        (6.0, "resolved", 3),
        (7.0, "alarm", 4),
    ]


def test_peak_is_the_highest_score_of_the_burst_that_raised():
    """The first of the two flagged windows scored higher than the one that completed k of n."""
    alert = play([7.0, 0, 3.0])[0][0][3]
    assert (alert.evidence["peak_score"], alert.score) == (7.0, 3.0)


def test_burst_long_after_resolution_is_a_new_alert():
    """Beyond refractory_s the id is new and seq starts at 0."""
    made, state = play([1, 1] + [0] * 12)
    again, _ = play([1, 1], start_s=60.0, state=state)
    assert [(s, n) for _, s, n, _ in again] == [("alarm", 0)]
    assert again[0][3].alert_id != made[0][3].alert_id


def test_flag_from_before_a_long_silence_does_not_count():
    """Taking the device off yesterday and putting it on today is no burst."""
    _, state = play([1])
    made, _ = play([1], start_s=86_400.0, state=state)
    assert made == []


def test_flags_across_a_short_gap_still_add_up():
    """A dropout between two flagged windows does not make the engine look away."""
    _, state = play([1])
    made, _ = play([1], start_s=5.0, state=state)
    assert [s for _, s, _, _ in made] == ["alarm"]


def test_alert_id_is_the_same_for_the_same_data():
    """Replaying a recording gives the same ids: receivers can drop doubles."""
    assert play([1, 1])[0][0][3] == play([1, 1])[0][0][3]


def test_alert_carries_its_evidence():
    """Flagged windows, peak, threshold and instants are in the alert."""
    alert = play([0, 1, 1])[0][0][3]
    assert alert.evidence == {
        "n_flagged_windows": 2,
        "peak_score": 2.0,
        "threshold": 1.0,
        "t_first_flagged_ns": 1 * S,
        "t_last_flagged_ns": 2 * S,
    }
    assert (alert.severity, alert.score, alert.model_id) == ("critical", 2.0, "m")


def test_clock_set_back_does_not_keep_an_alert_open_for_good():
    """Quiet is counted anew on the new clock instead of waiting for the old one to be caught up."""
    _, state = play([1, 1], start_s=100_000.0)
    made, _ = play([0] * 15, start_s=0.0, state=state)
    assert [(t, s) for t, s, _, _ in made] == [(10.0, "resolved")]


def test_second_fall_in_an_open_alert_is_told() -> None:
    """A burst refractory_s after the last change is a change of the same alert, with its seq: never silence."""
    made, _ = play([1, 1] + [0] * 5 + [1, 1] + [0] * 5, policy=EventPolicy(2, 3, clear_after_s=60.0, refractory_s=5.0))
    assert [(t, s, n) for t, s, n, _ in made] == [(1.0, "alarm", 0), (8.0, "alarm", 1)]
    assert made[1][3].alert_id == made[0][3].alert_id
    assert made[1][3].reasons == ("k_of_n", "again")


def test_long_burst_is_told_once_in_refractory_s() -> None:
    """Ten flagged seconds with refractory_s 4 make three messages, not nine."""
    made, _ = play([1] * 10, policy=EventPolicy(2, 3, clear_after_s=60.0, refractory_s=4.0))
    assert [(t, n) for t, _, n, _ in made] == [(1.0, 0), (5.0, 1), (9.0, 2)]


def test_silence_is_no_quiet() -> None:
    """One normal window after an hour without samples does not resolve: a normal window vouches for 5 s at most."""
    _, state = play([1, 1])
    made, state = play([0], start_s=3000.0, state=state)
    assert (made, state.state) == ([], "alarm")
    made, _ = play([0] * 8, start_s=3001.0, state=state)
    assert [(t, s) for t, s, _, _ in made] == [(3005.0, "resolved")]


def test_burst_is_seen_at_any_hop_and_without_refractory_time() -> None:
    """Windows 2.5 s apart and refractory_s 0 raise as any other."""
    made, _ = play([1, 1], policy=EventPolicy(2, 3, clear_after_s=60.0, refractory_s=0.0), hop_s=2.5)
    assert [s for _, s, _, _ in made] == ["alarm"]


def test_single_flags_of_everyday_do_not_keep_an_alert_open() -> None:
    """One flagged window in five, never k of n: the alert clears, a little later than without them."""
    made, _ = play([1, 1] + [0, 0, 0, 0, 1] * 4)
    assert [(t, s) for t, s, _, _ in made] == [(1.0, "alarm"), (13.0, "resolved")]
