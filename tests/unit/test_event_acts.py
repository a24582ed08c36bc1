"""What people's acts, history, mutes and learning make of alerts, as stories."""

from dataclasses import replace

import pytest

from stream_occ.samples import NS_PER_S
from tests.unit.event_player import POLICY, Player, brought_to

S = NS_PER_S

# ---------------------------------------------------------------- people


def test_wearer_cancels_the_countdown():
    """No alarm; who did it is told."""
    player = Player().walk(5).hit().lie(5)
    assert player.act("cancel", by="anna", after_s=1) is None
    assert player.told[-1] == (11.5, "cancelled", "cancel")
    assert (player.alerts[-1].by, player.alerts[-1].severity) == ("anna", "info")
    assert player.lie(60).told[-1] == (11.5, "cancelled", "cancel")


def test_acknowledged_alarm_is_not_repeated_and_resolves_after_quiet():
    """300 s of normal windows in which the wearer moves."""
    player = Player().walk(5).hit().lie(30.5)
    assert player.act("ack") is None
    player.walk(299)
    assert player.state.state == "acknowledged"
    assert player.walk(2).told[-2:] == [(36.0, "acknowledged", "ack"), (336.0, "resolved", "quiet")]


def test_acknowledged_alert_of_a_wearer_who_does_not_move_stays_open():
    """Lying still for an hour is no recovery; one step at the end is."""
    player = Player().walk(5).hit().lie(30.5)
    player.act("ack")
    assert player.lie(3600).state.state == "acknowledged"
    assert player.walk(0.5).state.state == "normal"


def test_silence_is_no_quiet():
    """A window vouches for 5 s at most: 100 windows a minute apart are 500 s, not 6000."""
    player = Player().walk(5).hit().lie(30.5)
    player.act("ack")
    player.hop_s = 60.0
    player.walk(59 * 60)
    assert player.state.state == "acknowledged"
    player.walk(60)
    assert player.state.state == "normal"


def test_alarm_never_ends_by_itself():
    """A day of normal life later it is still an alarm, told each minute, no more urgent than level 3."""
    player = Player().walk(5).hit().lie(31)
    player.hop_s = 5.0
    player.walk(86_400)
    alarms = [alert for alert in player.alerts if alert.state == "alarm"]
    assert player.state.state == "alarm"
    assert [alert.t_ns // S for alert in alarms] == [36 + 60 * i for i in range(1441)]
    assert [alert.evidence["level"] for alert in alarms[:5]] == [1, 2, 3, 3, 3]
    assert {alert.reasons for alert in alarms[1:]} == {("repeat",)}


def test_repeats_that_nobody_was_there_to_tell_are_not_all_made_up_for():
    """Ten hours later the last ten of 600 are told."""
    player = Player().walk(5).hit().lie(31).wait(36_000)
    repeats = [told for told in player.told if told[2] == "repeat"]
    assert len(repeats) == 10
    assert repeats[-1][0] == 36 + 60 * 600 - 60


def test_all_clear_resolves_an_alarm():
    """Cancel of an alarm is the word of a person that it is over."""
    player = Player().walk(5).hit().lie(31)
    assert player.act("cancel") is None
    assert player.told[-1] == (36.5, "resolved", "all_clear")


@pytest.mark.parametrize("name", ["suspected", "checking", "pending", "alarm", "acknowledged"])
def test_false_alarm_closes_any_open_alert(name):
    """By the word of a person."""
    player = brought_to(name)
    assert player.act("feedback", verdict="false_alarm") is None
    assert player.told[-1][1:] == ("false_alarm", "feedback_false_alarm")
    assert player.state.state == "normal"


def test_feedback_is_taken_for_the_last_alert_after_it_closed():
    """A fall is told with the same state, a false alarm changes it, once."""
    player = Player().walk(5).hit().walk(40)
    alert_id = player.alerts[0].alert_id
    assert player.act("feedback", verdict="fall", alert_id=alert_id) is None
    assert player.act("feedback", verdict="false_alarm", alert_id=alert_id) is None
    assert player.act("feedback", verdict="false_alarm", alert_id=alert_id) == "not_in_this_state"
    assert [(alert.state, alert.seq) for alert in player.alerts[-2:]] == [("expired", 3), ("false_alarm", 4)]


def test_a_person_confirms_a_fall_once_and_sixteen_confirm_it_at_most():
    """Each is told, kept and sent until all have it; the word that it was none is still taken, once."""
    player = brought_to("alarm")
    n = len(player.alerts)
    said = [player.act("feedback", by=f"n{k % 20}", verdict="fall") for k in range(200)]
    assert said == [None] * 16 + ["not_in_this_state"] * 184
    assert [(alert.state, alert.by) for alert in player.alerts[n:]] == [("alarm", f"n{k}") for k in range(16)]
    assert player.act("feedback", by="n0", verdict="false_alarm") is None
    assert player.act("feedback", by="new", verdict="fall") == "not_in_this_state"


@pytest.mark.parametrize(
    ("name", "kind", "alert_id", "refusal"),
    [
        ("normal", "ack", None, "no_open_alert"),
        ("normal", "cancel", "x", "no_open_alert"),
        ("alarm", "ack", "x", "other_alert"),
        ("checking", "ack", None, "not_in_this_state"),
        ("acknowledged", "ack", None, "not_in_this_state"),
        ("alarm", "feedback", None, "no_verdict"),
    ],
)
def test_act_that_has_no_sense_is_refused_with_its_reason(name, kind, alert_id, refusal):
    """And changes nothing."""
    player = brought_to(name)
    before = player.state, list(player.alerts)
    assert player.act(kind, alert_id=alert_id) == refusal
    assert (player.state, player.alerts) == before


def test_act_on_a_device_without_any_alert_is_refused():
    """Feedback too."""
    assert Player().walk(5).act("feedback", verdict="fall") == "no_open_alert"


def test_act_is_stamped_no_earlier_than_the_last_change():
    """The alarm stands at 36.0 s; an acknowledgement that says 20 s is told at 36.0 s."""
    player = Player().walk(5).hit().lie(31)
    player.act("ack", after_s=-16.5)
    assert player.told[-1] == (36.0, "acknowledged", "ack")


# ---------------------------------------------------------------- history, mute, learning, not worn


def test_burst_that_comes_too_late_is_told_as_history():
    """Suspected and expired at once, as a warning; the windows that overlap it and its check tell nothing more."""
    player = Player().walk(5, is_live=False).hit(10, is_live=False).lie(60, is_live=False)
    assert player.told == [(5.5, "suspected", "k_of_n", "historical"), (5.5, "expired", "historical")]
    assert {alert.severity for alert in player.alerts} == {"warning"}


def test_live_windows_of_a_historical_burst_open_it_again():
    """A fall at the border is not lost to it."""
    player = Player().walk(5, is_live=False).hit(2, is_live=False).hit().lie(1)
    assert player.told[2:] == [
        (6.5, "suspected", "k_of_n", "reopened"),
        (7.0, "checking", "k_of_n"),
        (7.0, "pending", "posture"),
    ]


def test_event_that_was_live_when_it_began_stays_live():
    """Its later windows come late over a bad link: pending and alarm all the same."""
    assert Player().walk(5).hit().lie(31, is_live=False).told[-1] == (36.0, "alarm", "countdown")


def test_muted_alert_goes_its_way_marked():
    """Ten minutes of quiet: the fall is told with muted 1 and the severity that it has; after them with 0."""
    player = Player().walk(5)
    assert player.act("mute", minutes=1) is None
    player.hit().lie(100)
    assert [told[1] for told in player.told] == ["suspected", "checking", "pending", "alarm", "alarm"]
    assert [alert.evidence["muted"] for alert in player.alerts] == [1, 1, 1, 1, 0]
    assert player.alerts[3].severity == "critical"


def test_mute_is_an_hour_at_most_a_day_and_can_be_taken_back():
    """Of the device's clock."""
    player = Player().walk(5)
    player.act("mute")
    assert (player.state.is_muted(3604 * S), player.state.is_muted(3605 * S)) == (True, False)
    player.act("mute", minutes=1e9)
    assert (player.state.is_muted(86_404 * S), player.state.is_muted(86_405 * S)) == (True, False)
    assert player.act("unmute") is None
    assert not player.state.is_muted(5 * S)


def test_while_learning_alerts_are_told_marked_and_not_escalated():
    """learning_s 100: the first fall ends at its deadline, the second, whose deadline is later, is an alarm."""
    player = Player(replace(POLICY, learning_s=100.0)).walk(5).hit().lie(31).walk(50).hit().lie(31)
    assert player.told[:4] == [
        (5.5, "suspected", "k_of_n", "learning"),
        (6.0, "checking", "k_of_n", "learning"),
        (6.0, "pending", "posture", "learning"),
        (36.0, "expired", "countdown", "learning"),
    ]
    assert player.told[-1] == (117.5, "alarm", "countdown")


def test_device_without_any_motion_is_not_worn_until_it_moves():
    """600 s in which nothing exceeds the sensor's noise."""
    player = Player().walk(5)._repeat(600, 0.5, is_still=True, is_motionless=True)
    assert not player.state.is_not_worn
    player.sit(0.5, is_motionless=True)
    assert player.state.is_not_worn
    assert not player.walk(0.5).state.is_not_worn


def test_burst_while_not_worn_raises():
    """Nothing depends on it."""
    player = Player().sit(700, is_motionless=True).hit()
    assert (player.told[-1][1], player.state.is_not_worn) == ("suspected", False)


def test_wearer_who_cannot_move_is_not_taken_for_a_device_without_one():
    """Not in an open alert, and not within not_worn_guard_s = 900 s of its last flagged window."""
    player = Player().walk(5).hit().lie(31)
    assert not player.lie(3600, is_motionless=True).state.is_not_worn
    player = Player().walk(5).hit().walk(40).sit(850, is_motionless=True)
    assert not player.state.is_not_worn
    assert player.sit(20, is_motionless=True).state.is_not_worn
