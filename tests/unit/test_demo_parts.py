"""Parts of the demo: who is simulated, how alerts are held against falls, what is shown."""

import io

import numpy as np
import pytest

from stream_occ.demo.ledger import Ledger, Line
from stream_occ.demo.screen import BAR_WIDTH, Screen, bar, summary_lines
from stream_occ.demo.wearers import LAST_FALL_S, RATE_HZ, Plan

S = 1_000_000_000


def a_ledger() -> Ledger:
    """Two wearers; a falls at 100 to 102 s, b does not."""
    ledger = Ledger({"a": Line(), "b": Line()})
    ledger.begin_activity("b", "walking", 0)
    ledger.begin_activity("a", "sitting", 0)
    ledger.begin_activity("a", "fall_forward", 95 * S, (100 * S, 102 * S))
    return ledger


@pytest.mark.parametrize(("t_s", "delay_s"), [(100, -2.0), (103.5, 1.5), (162, 60.0)])
def test_alert_within_a_minute_of_a_fall_flags_it(t_s: float, delay_s: float) -> None:
    """From lost balance to 60 s after the end of the impact; the delay counts from that end."""
    ledger = a_ledger()
    assert ledger.add_event("a", round(t_s * S), "alarm", "id1")
    outcome = ledger.settle()
    assert (outcome.n_flagged, outcome.false_alarms, outcome.median_delay_s) == (1, (), delay_s)


@pytest.mark.parametrize(("device", "t_s", "activity"), [("a", 99.9, "fall_forward"), ("a", 162.1, "fall_forward")])
def test_alert_outside_that_time_is_false(device: str, t_s: float, activity: str) -> None:
    """Too early is as false as too late, and the fall stays missed."""
    ledger = a_ledger()
    ledger.add_event(device, round(t_s * S), "alarm", "id1")
    outcome = ledger.settle()
    assert outcome.n_flagged == 0
    assert outcome.median_delay_s is None
    assert outcome.false_alarms == ((device, round(t_s * S), activity),)


def test_second_alert_after_a_flagged_fall_is_told_apart() -> None:
    """Getting up half a minute later is neither another flagged fall nor a false alarm, and is in the summary."""
    ledger = a_ledger()
    for name, t_s in (("id1", 103), ("id2", 140)):
        ledger.add_event("a", t_s * S, "alarm", name)
        ledger.add_event("a", t_s * S + S, "resolved", name)
    outcome = ledger.settle()
    assert (outcome.n_flagged, outcome.false_alarms, outcome.n_further) == (1, (), 1)
    assert "  further alerts   1   (within a minute after a flagged fall)" in summary_lines(outcome, 0.1, 5.0)


def test_alert_of_another_wearer_is_false() -> None:
    """A fall is flagged by alerts of its own wearer alone."""
    ledger = a_ledger()
    ledger.add_event("b", 103 * S, "alarm", "id1")
    outcome = ledger.settle()
    assert outcome.n_flagged == 0
    assert outcome.false_alarms == (("b", 103 * S, "walking"),)


def test_changes_of_one_alert_count_once() -> None:
    """pending then alarm is one alert; after it is closed, the next raised one counts again."""
    ledger = a_ledger()
    assert [
        ledger.add_event("a", 103 * S, "pending", "id1"),
        ledger.add_event("a", 104 * S, "alarm", "id1"),
        ledger.add_event("a", 130 * S, "resolved", "id1"),
        ledger.add_event("a", 140 * S, "suspected", "id2"),
        ledger.add_event("a", 141 * S, "alarm", "id2"),
    ] == [True, False, False, False, True]
    outcome = ledger.settle()
    assert (outcome.n_flagged, outcome.median_delay_s) == (1, 1.0)
    assert outcome.false_alarms == ()


def test_same_seed_gives_the_same_lives() -> None:
    """Samples are equal bit for bit, and another seed gives others."""
    plan = Plan(seed=5, n_wearers=2, speed=5.0, minutes=0.3)
    lives = [list(Plan(seed, 2, 5.0, 0.3).replayed_lives()["wearer-2"]()) for seed in (5, 5, 6)]
    bytes_of = [b"".join(recording.block.acc_ms2.tobytes() for recording in life) for life in lives]
    assert bytes_of[0] == bytes_of[1] != bytes_of[2]
    n_samples = sum(len(recording.block) for recording in lives[0])
    assert n_samples / RATE_HZ >= plan.data_s


@pytest.mark.parametrize(("minutes", "speed"), [(0.3, 7.0), (1.0, 7.0), (3.0, 7.0)])
def test_every_fall_has_time_to_be_flagged(minutes: float, speed: float) -> None:
    """As many falls as planned, each over well before the end of the life, no two within a minute."""
    plan = Plan(seed=1, n_wearers=2, speed=speed, minutes=minutes)
    for life in plan.replayed_lives().values():
        recordings = list(life())
        falls = [recording.fall_interval_ns for recording in recordings if recording.fall_interval_ns is not None]
        assert len(falls) == plan.n_falls >= 1
        end_ns = max(int(recording.block.t_ns[-1]) for recording in recordings)
        assert end_ns - falls[-1][1] > (LAST_FALL_S - 35) * S
        assert all(np.diff([start for start, _ in falls]) > 60 * S)


def test_training_sees_no_fall_and_no_replayed_sample() -> None:
    """What is trained on, what sets the threshold and what is replayed are three different lives."""
    plan = Plan(seed=0, n_wearers=1, speed=5.0, minutes=0.3)
    [training], [held_out] = list(plan.training_lives()), list(plan.held_out_lives())
    assert not training.is_fall
    assert not held_out.is_fall
    replayed = np.concatenate([recording.block.acc_ms2 for recording in plan.replayed_lives()["wearer-1"]()])
    first = {life[200:300].tobytes() for life in (training.block.acc_ms2, held_out.block.acc_ms2, replayed)}
    assert len(first) == 3


@pytest.mark.parametrize(("minutes", "prepare_s", "held_out_s"), [(0.3, 9.9, 450.0), (1.0, 20.0, 900.0), (3, 20, 900)])
def test_short_demo_prepares_for_half_its_time_on_half_the_data(
    minutes: float, prepare_s: float, held_out_s: float
) -> None:
    """18 s hold 9.9 s of training and 8.1 s of streaming at speed 7; from 0.75 minutes on nothing is thinned."""
    plan = Plan(seed=0, n_wearers=1, speed=7.0, minutes=minutes)
    assert plan.data_s == pytest.approx(7 * (60 * minutes - prepare_s))
    [day] = plan.held_out_lives()
    assert held_out_s <= len(day.block) / RATE_HZ <= held_out_s + 120  # the last activity is not cut short
    assert plan.thinning == 900 / held_out_s


def test_bar_is_half_full_at_the_threshold() -> None:
    """The mark in the middle is the threshold, whatever its value; the margin stands beside it."""
    shown = bar(Line(score=2.5, threshold=2.5)).plain
    assert shown.count("█") == BAR_WIDTH // 2
    assert shown.endswith("+0.00")
    assert bar(Line(score=99.0, threshold=2.5)).plain.count("█") == BAR_WIDTH
    assert bar(Line(score=-99.0, threshold=2.5)).plain.count("█") == 0
    assert "waiting" in bar(Line()).plain


def test_summary_says_synthetic_and_flagged_and_never_detected() -> None:
    """The last line is the disclaimer; misses and false alarms are named."""
    ledger = a_ledger()
    ledger.add_event("b", 103 * S, "alarm", "id1")
    lines = summary_lines(ledger.settle(), 1.0, 60.0)
    text = "\n".join(lines)
    assert "falls missed     1   (a fall_forward)" in text
    assert "false alarms     1   (b while walking)" in text
    assert lines[-1].startswith("Synthetic wearers:")
    assert "detected" not in text.lower()


def test_screen_without_a_terminal_writes_plain_lines() -> None:
    """No control characters, a progress line every ten seconds, one line an alert."""
    stream = io.StringIO()
    screen, ledger = Screen(stream), a_ledger()
    with screen.progress() as report, screen.live():
        report("Reading", 1, 2)
        report("Reading", 2, 2)
        for elapsed_s in (0.0, 1.0, 11.0):
            screen.show(ledger, elapsed_s, 60.0)
        screen.alert("a", "fall_forward", is_falling=True)
    lines = stream.getvalue().splitlines()
    assert "\x1b" not in stream.getvalue()
    assert lines[0] == "  Reading: done"
    assert [line[:14] for line in lines[1:3]] == ["      0 of 60 ", "     11 of 60 "]
    assert lines[3] == "  alert: a (fall_forward, a simulated fall)"
