"""The event engine: falls, recoveries, silences and clocks as stories."""

from dataclasses import replace

import pytest

from stream_occ.events import EventPolicy, EventState, Observation, push
from stream_occ.samples import NS_PER_S
from tests.unit.event_player import LYING, POLICY, Player

S = NS_PER_S

# ---------------------------------------------------------------- falls and recoveries


def test_fall_and_lying_still_is_an_alarm():
    """Turned by 90 degrees and still is pending at the first still window; half a minute later it is an alarm."""
    player = Player().walk(5).hit().lie(40)
    assert player.told == [
        (5.5, "suspected", "k_of_n"),
        (6.0, "checking", "k_of_n"),
        (6.0, "pending", "posture"),
        (36.0, "alarm", "countdown"),
    ]
    assert [alert.severity for alert in player.alerts] == ["info", "warning", "warning", "critical"]
    assert [alert.seq for alert in player.alerts] == [0, 1, 2, 3]
    assert {alert.alert_id for alert in player.alerts} == {player.alerts[0].alert_id}


def test_fall_and_sitting_still_against_a_wall_is_pending_after_still_s():
    """Posture as before: two seconds of stillness, all of them after the burst at 5.5 s."""
    assert Player().walk(5).hit().sit(3).told[-1] == (7.5, "pending", "still")


def test_stillness_is_measured_by_stamps():
    """Windows 2 s apart: the second that ends the first still window counts, 7.0 - 1.0 to 9.0 are 3 s."""
    assert Player(hop_s=2.0).walk(4).hit().sit(8).told[-1] == (10.0, "pending", "still")


def test_moving_in_between_begins_stillness_anew():
    """1.5 s still, half a second of motion, 1.5 s still are no 2 s; nor does stillness bridge a hole of 6 s."""
    player = Player().walk(5).hit().sit(1.5).walk(0.5).sit(1.0)
    assert player.state.state == "checking"
    assert Player().walk(5).hit().sit(1).away(6).sit(0.5).state.state == "checking"


def test_stumble_and_walking_on_expires():
    """30 s of motion, upright: told as over, and nobody was called."""
    player = Player().walk(5).hit().walk(40)
    assert player.told == [
        (5.5, "suspected", "k_of_n"),
        (6.0, "checking", "k_of_n"),
        (35.5, "expired", "moving"),
    ]
    assert player.state.state == "normal"


def test_moving_on_the_floor_is_not_recovered():
    """In motion for 30 s, but turned by 90 degrees: pending."""
    assert Player().walk(5).hit().walk(40, after=LYING).told[-1] == (35.5, "pending", "not_recovered")


def test_unknown_posture_at_the_end_of_the_check_is_not_recovered():
    """What is not known is no reason to go back to normal."""
    assert Player().walk(5).hit(before=None).walk(40).told[-1] == (35.5, "pending", "not_recovered")


def test_still_at_the_end_of_the_check_is_waited_for():
    """Standing still for a moment when the check ends: decided when still_s is over, or by the next step."""
    player = Player().walk(5).hit().walk(29).sit(1.0)
    assert player.state.state == "checking"
    assert player.walk(0.5).told[-1] == (36.0, "expired", "moving")


def test_posture_is_told_against_the_time_before_the_first_flagged_window():
    """A wearer who lay when it began and still lies has not turned: stillness alone decides, after 2 s."""
    player = Player().lie(5).hit(before=LYING, after=LYING).lie(4)
    assert player.told[-1] == (7.5, "pending", "still")
    assert player.alerts[-1].evidence["posture_deg"] == 0.0


def test_burst_in_the_check_begins_it_anew_up_to_max_check_s():
    """A hit each 20 s: the check ends 120 s after 5.5 s and not 30 s after the last one."""
    player = Player().walk(5).hit()
    for _ in range(7):
        player.walk(19.5).hit()
    assert [told for told in player.told if told[1] == "expired"] == [(125.5, "expired", "moving")]
    assert Player().walk(5).hit().walk(19.5).hit().walk(40).told[-1] == (55.5, "expired", "moving")


# ---------------------------------------------------------------- what cannot be seen


def test_device_that_dies_in_the_fall_is_an_alarm():
    """Nothing comes after the burst: pending 10 s later, alarm after the countdown, both at their own stamps."""
    player = Player().walk(5).hit().wait(14.9)
    assert player.state.state == "suspected"
    player.wait(0.1)
    assert player.told[-1] == (15.5, "pending", "no_data")
    assert player.wait(30).told[-1] == (45.5, "alarm", "countdown")


def test_silence_is_the_same_where_a_later_window_ends_it():
    """No tick, a window after a minute: the same changes at the same stamps as with ticks."""
    waited = Player().walk(5).hit().walk(0.5).wait(15).wait(30).wait(14)
    came_back = Player().walk(5).hit().walk(0.5).away(59).walk(0.5)
    assert waited.told == came_back.told
    assert [told[0] for told in waited.told] == [5.5, 6.0, 16.0, 46.0]


def test_dropout_after_the_impact_is_evidence():
    """Windows that cannot be scored for 10 s after the last trusted one: pending, never normal."""
    player = Player().walk(5).hit().walk(3).blind(12)
    assert player.told[-1] == (18.5, "pending", "unscorable")
    assert player.walk(300).state.state == "alarm"


def test_untrusted_still_windows_are_no_stillness():
    """A stuck sensor looks still; it is silence that it is taken for. Nor does one bridge the still ones around it."""
    player = Player().walk(5).hit().blind(5, is_still=True)
    assert player.state.state == "checking"
    assert Player().walk(5).hit().sit(1).blind(0.5, is_still=True).sit(1).state.state == "checking"


def test_hole_longer_than_silence_s_is_evidence_and_one_as_long_is_not():
    """The window that ends a hole of 10.5 s does not make it unseen."""
    assert Player().walk(5).hit().walk(0.5).away(9.5).walk(0.5).state.state == "checking"
    player = Player().walk(5).hit().walk(0.5).away(10).walk(0.5)
    assert player.told[-1] == (16.0, "pending", "no_data")


def test_check_is_never_ended_by_an_untrusted_window():
    """The check is over at 35.5 s while nothing can be seen: what decides is the silence since 33.5 s."""
    player = Player().walk(5).hit().walk(28).blind(9.5)
    assert player.state.state == "checking"
    assert player.blind(1).told[-1] == (43.5, "pending", "unscorable")


# ---------------------------------------------------------------- one alert, or another


def test_overlapping_flagged_windows_make_one_alert():
    """Ten windows that hold the same impact: one suspicion, one pending, ten flagged windows counted."""
    player = Player().walk(5).hit(10, after=LYING, is_still=True)
    assert [told[1] for told in player.told] == ["suspected", "checking", "pending"]
    assert player.state.alert.n_flagged == 10


def test_second_fall_in_an_open_alert_is_told_and_does_not_lengthen_the_countdown():
    """refractory_s 5: told at 15.0 s; the alarm comes 30 s after 6.0 s all the same, and again after the next."""
    player = Player(replace(POLICY, refractory_s=5.0)).walk(5).hit().lie(8.5).hit().lie(25).hit().lie(1)
    assert player.told[2:] == [
        (6.0, "pending", "posture"),
        (14.5, "pending", "k_of_n", "again"),
        (36.0, "alarm", "countdown"),
    ]
    player.lie(10).hit()
    assert player.told[-1] == (51.5, "alarm", "k_of_n", "again")


def test_fall_after_an_acknowledgement_is_an_alarm_again():
    """Later than refractory_s after a person took it: same alert, level 1, repeated again."""
    player = Player().walk(5).hit().lie(31)
    player.act("ack")
    player.walk(61).hit().wait(65)
    assert [alert.reasons for alert in player.alerts[-2:]] == [("k_of_n", "again"), ("repeat",)]
    assert [alert.state for alert in player.alerts[-2:]] == ["alarm", "alarm"]
    assert len({alert.alert_id for alert in player.alerts}) == 1


def test_burst_just_after_an_acknowledgement_is_told_without_an_alarm():
    """Helping somebody up is a burst: told once, for the rest of it is the same; the person is there."""
    player = Player().walk(5).hit().lie(31)
    player.act("ack")
    player.walk(20).hit(6)
    assert player.told[-1] == (57.0, "acknowledged", "k_of_n", "again")
    assert player.state.state == "acknowledged"


def test_burst_that_comes_too_late_after_an_acknowledgement_calls_nobody():
    """A backlog of an hour ago: told as history beside the alert that somebody has in hand, which stays taken."""
    player = Player().walk(5).hit().lie(31)
    player.act("ack")
    player.walk(120)
    player.window(2.0, is_live=False)
    assert player.told[-1][1:] == ("acknowledged", "k_of_n", "again", "historical")
    assert player.alerts[-1].severity == "warning"


def test_policy_for_long_windows_merges_all_that_share_samples():
    """10 s every 0.5 s: 10.5 s; a longer merge_s stays."""
    assert EventPolicy().for_windows(10.0, 0.5).merge_s == 10.5
    assert EventPolicy().for_windows(4.5, 0.5).merge_s == 6.0


def test_windows_that_overlap_a_cancelled_alert_raise_nothing_and_a_later_burst_does():
    """For merge_s = 6 s the impact is still in the windows; a burst after that is another fall with its own id."""
    player = Player().walk(5).hit().lie(1)
    player.act("cancel")
    n_told = len(player.alerts)
    player.hit(11)
    assert len(player.alerts) == n_told
    player.hit()
    assert player.told[n_told:] == [(12.5, "suspected", "k_of_n")]
    assert player.alerts[-1].alert_id != player.alerts[0].alert_id
    assert player.alerts[-1].seq == 0


def test_fall_between_two_overlaps_is_not_swallowed():
    """A cancelled alert whose last flag is 20 s old overlaps nothing: a burst a second after the cancel is new."""
    player = Player().walk(5).hit().lie(20)
    player.act("cancel")
    assert player.walk(1).hit().told[-1] == (27.0, "suspected", "k_of_n")


def test_burst_soon_after_it_expired_opens_the_same_alert_again():
    """Within refractory_s: the next seq, checked as any other; later it is a new one."""
    player = Player().walk(5).hit().walk(40).hit().lie(1)
    assert [alert.seq for alert in player.alerts] == [0, 1, 2, 3, 4, 5]
    assert player.told[3] == (46.0, "suspected", "k_of_n", "reopened")
    assert player.told[5] == (46.5, "pending", "posture")
    assert len({alert.alert_id for alert in player.alerts}) == 1
    later = Player().walk(5).hit().walk(40 + 60).hit()
    assert (later.alerts[-1].seq, later.alerts[-1].reasons) == (0, ("k_of_n",))


def test_reopened_alert_counts_every_flagged_window_once():
    """One before, one that the closed alert did not see (k = 2 of 4), one that re-opens: peak of all three."""
    policy = EventPolicy(k=2, n=4, check_s=2.0)
    player = Player(policy).walk(5).hit(2, score=3.0).walk(2.5).hit(score=5.0).walk(0.5).hit()
    assert [told[1] for told in player.told] == ["suspected", "checking", "expired", "suspected"]
    evidence = player.alerts[-1].evidence
    assert (evidence["n_flagged_windows"], evidence["peak_score"]) == (4, 5.0)


@pytest.mark.parametrize("kind", ["cancel", "feedback"])
def test_what_a_person_closed_is_not_opened_again(kind):
    """A burst ten seconds later is a new alert."""
    player = Player().walk(5).hit().walk(1)
    assert player.act(kind, verdict="false_alarm" if kind == "feedback" else None) is None
    player.walk(10).hit()
    assert (player.alerts[-1].state, player.alerts[-1].seq) == ("suspected", 0)


# ---------------------------------------------------------------- clocks, memory, evidence


def test_clock_set_back_moves_deadlines_with_it():
    """10 s into a countdown the clock goes back by a day: 20 s are left."""
    player = Player(start_s=100_000.0).walk(5).hit().lie(10.5)
    player.t_s = 1000.0
    assert player.lie(19.5).state.state == "pending"
    assert player.lie(1).state.state == "alarm"


def test_clock_set_back_does_not_lengthen_a_mute():
    """Half of an hour is over when the clock goes back by a day, unseen by anything but a normal window."""
    player = Player(start_s=100_000.0).walk(5)
    player.act("mute", minutes=60)
    player.walk(1800)
    player.t_s = 1000.0
    player.walk(0.5)
    assert (player.state.is_muted(2800 * S), player.state.is_muted(2801 * S)) == (True, False)


def test_clock_set_back_again_and_again_does_not_keep_a_countdown_from_ending():
    """A device that starts anew every 5 s, each time at the same stamp: each of its windows is 5 s of time."""
    player = Player().walk(5).hit().lie(0.5)
    for _ in range(7):
        seen = Observation(None, "dev", 5 * S, t_start_ns=0)
        player._take(push(player.state, seen, player.policy))
    assert player.state.state == "alarm"


def test_clock_set_back_gives_another_id_for_the_same_stamp():
    """Two falls at 5.5 s on two clocks are two alerts."""
    player = Player().walk(5).hit()
    player.act("cancel")
    player.t_s = -20.0
    player.walk(25).hit()
    assert len({alert.alert_id for alert in player.alerts}) == 2
    assert player.alerts[-1].t_ns == player.alerts[0].t_ns


def test_k_of_n_flagged_windows_are_a_burst_and_fewer_are_not():
    """2 of 3: flags three windows apart never add up; a hole and untrusted windows between do not part them."""
    policy = EventPolicy(k=2, n=3)
    assert Player(policy).walk(5).hit().walk(1).hit().walk(1).hit().told == []
    assert Player(policy).walk(5).hit().walk(0.5).hit().told == [(6.5, "suspected", "k_of_n")]
    assert Player(policy).walk(5).hit().blind(3).away(5).hit().told == [(14.0, "suspected", "k_of_n")]


def test_flag_from_before_a_long_silence_does_not_count():
    """Taking the device off yesterday and putting it on today is no burst."""
    assert Player(EventPolicy(k=2, n=3)).hit().away(86_400).hit().told == []


def test_without_check_and_countdown_a_burst_is_an_alarm():
    """All three changes at the stamp of the burst."""
    player = Player(EventPolicy(k=1, n=1, check=False, countdown_s=0.0)).walk(5).hit()
    assert player.told == [(5.5, "suspected", "k_of_n"), (5.5, "pending", "k_of_n"), (5.5, "alarm", "countdown")]


def test_alert_carries_its_evidence():
    """Numbers alone: what was flagged, how high, where it stands, what was seen since."""
    player = Player(EventPolicy(k=2, n=3)).walk(5).hit(score=7.0).hit(score=3.0).walk(1).lie(0.5)
    alert = player.alerts[-1]
    assert alert.evidence == {
        "n_flagged_windows": 2,
        "peak_score": 7.0,
        "threshold": 1.0,
        "t_first_flagged_ns": 5_500_000_000,
        "t_last_flagged_ns": 6 * S,
        "level": 0,
        "muted": 0,
        "posture_deg": 90.0,
        "still_s": 1.0,
        "t_deadline_ns": 37_500_000_000,
    }
    assert (alert.score, alert.model_id, alert.by, alert.device_id) == (0.5, "m", "", "dev")


def test_same_data_give_the_same_alerts():
    """Ids included: receivers can drop doubles."""
    assert Player().walk(5).hit().lie(60).alerts == Player().walk(5).hit().lie(60).alerts


# ---------------------------------------------------------------- the end of a recording


@pytest.mark.parametrize(
    ("play", "told"),
    [
        (lambda p: p.walk(1), ("expired", "moving")),
        (lambda p: p.sit(1), ("pending", "still")),
        (lambda p: p.walk(1, after=LYING), ("pending", "not_recovered")),
        (lambda p: p.blind(1), ("pending", "unscorable")),
    ],
)
def test_end_of_a_recording_decides_a_check_on_what_was_seen(play, told):
    """No sample is made up; a check is over where the recording is."""
    player = play(Player().walk(5).hit()).end()
    assert player.told[-1] == (6.5, *told)


def test_end_of_a_recording_leaves_everything_else():
    """A countdown runs on, a normal day ends."""
    assert Player().walk(5).hit().lie(5).end().state.state == "pending"
    assert Player().walk(5).end().told == []
    assert Player().end().state == EventState()
