"""What users met with alarms, by the numbers of docs/reliability.md."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

from stream_occ.alert_table import TABLE
from tests.unit.event_player import Player
from tests.unit.service_bench import CHECKED, Bench
from tests.unit.toy_model import toy_model

ALERT, EVENT = "stream_occ/w1/alert", "stream_occ/w1/event"
STATES = ("normal", "suspected", "checking", "pending", "alarm", "acknowledged")
WINDOWS, ACTS = ("burst", "flagged", "normal", "untrusted", "due"), ("ack", "cancel", "false_alarm", "fall")


def fallen(**sections: object) -> Bench:
    """Pending."""
    bench = Bench(events=CHECKED, **sections)
    bench.fall()
    assert bench.state()["state"] == "pending"
    return bench


def last(bench: Bench) -> dict[str, object]:
    content: dict[str, object] = bench.link.of(EVENT)[-1]
    return content


def test_ask_45_bursts_of_one_fall_are_one_alert() -> None:
    """Five bursts within a minute, then five more while it is open: one alert_id."""
    player = Player().walk(5)
    for _ in range(5):
        player.hit().lie(2)
    player.lie(40)
    for _ in range(5):
        player.hit().lie(5)
    assert len({alert.alert_id for alert in player.alerts}) == 1
    assert player.state.state == "alarm"


def test_ask_45_a_stumble_soon_after_another_opens_no_second_alert() -> None:
    """Within refractory_s = 60 s of its end the same alert is opened again; after it there is another."""
    player = Player().walk(5).hit().walk(40).hit().walk(200).hit().walk(5)
    ids = list(dict.fromkeys(alert.alert_id for alert in player.alerts))
    assert len(ids) == 2
    assert sum("reopened" in alert.reasons for alert in player.alerts) == 1


def test_ask_45_a_device_that_raises_more_than_its_budget_says_so_and_hides_nothing() -> None:
    """Budget 1 a day: with a mean of 1 five or more have a chance of .0037, four of .019."""
    model = replace(toy_model(), metadata={"calibration": {"asked_per_day": 1.0}})
    bench = Bench(model, events={"k": 1, "n": 1, "check": False, "countdown_s": 0.0, "refractory_s": 1.0})
    found = []
    for first in range(0, 5000, 1000):  # every 20 s
        bench.send(100, first=first)
        bench.send(5, first=first + 100, knock=True)
        bench.send(40, first=first + 105)
        bench.run(15.0)
        bench.command("cancel")
        bench.run(5.0)
        alarms = [event for event in bench.events() if event[0] == "alarm"]
        found.append((len(alarms), "rate_limited" in bench.state()["faults"]))
    assert found == [(1, False), (2, False), (3, False), (4, False), (5, True)]


def test_ask_46_every_state_has_an_answer_to_every_signal() -> None:
    """Six states by nine signals; what each does is written down in test_event_table.py."""
    assert set(TABLE) == set(itertools.product(STATES, (*WINDOWS, *ACTS)))


@pytest.mark.parametrize("seed", range(20))
def test_ask_46_no_order_of_acts_and_windows_ends_an_alarm_unasked(seed: int) -> None:
    """500 random steps, mutes among them: numbers go up by one, and only a person's act follows an alarm."""
    rng, player = np.random.default_rng(seed), Player()
    steps = (
        lambda: player.walk(float(rng.integers(1, 60))),
        lambda: player.hit(int(rng.integers(1, 4))),
        lambda: player.lie(float(rng.integers(1, 60))),
        lambda: player.blind(float(rng.integers(1, 30))),
        lambda: player.wait(float(rng.integers(1, 200))),
        lambda: player.act("mute", minutes=5.0),
        lambda: player.act("unmute"),
        lambda: player.act("ack"),
    )
    for _ in range(500):
        steps[int(rng.integers(len(steps)))]()
    by_id: dict[str, list[tuple[int, str]]] = {}
    for alert in player.alerts:
        by_id.setdefault(alert.alert_id, []).append((alert.seq, alert.state))
    followers = set()
    for changes in by_id.values():
        assert [seq for seq, _ in changes] == list(range(len(changes)))
        followers |= {after for (_, before), (_, after) in itertools.pairwise(changes) if before == "alarm"}
    assert followers == {"alarm", "acknowledged"}


def test_ask_46_a_mute_takes_no_alarm_away() -> None:
    """The countdown of 20 s ends in the alarm, marked as muted."""
    bench = fallen()
    bench.command("mute", b'{"minutes": 60, "by": "anna"}')
    bench.wait(40.0)
    assert bench.state()["state"] == "alarm"
    assert bench.state()["muted_until"] is not None
    assert last(bench)["event_type"] == "alarm"


def test_ask_47_the_wearer_cancels_and_all_are_told() -> None:
    """Cancelled in the countdown: no alarm ever, the retained alert is emptied, the event names who did it."""
    bench = fallen()
    bench.command("cancel", b'{"by": "the wearer"}')
    bench.wait(120.0)
    assert "alarm" not in {state for state, _ in bench.events()}
    assert (last(bench)["event_type"], last(bench)["by"]) == ("cancelled", "the wearer")
    assert bench.link.retained[ALERT] == b""


def test_ask_47_an_alarm_gets_louder_until_a_person_takes_it() -> None:
    """Levels 1, 2, 3 with each repeat of 60 s and no further; acknowledged it is quiet; cancel is the all clear."""
    bench = fallen()
    bench.wait(300.0)
    levels = [event["evidence"]["level"] for event in bench.link.of(EVENT) if event["event_type"] == "alarm"]
    steps = list(itertools.pairwise(levels))
    assert levels[-1] == max(levels) == 3
    assert all(after - before == (0 if before == 3 else 1) for before, after in steps)
    bench.command("ack", b'{"by": "anna"}')
    bench.run()
    n_told = len(bench.events())
    bench.wait(300.0)
    assert len(bench.events()) == n_told
    bench.command("cancel", b'{"by": "anna"}')
    bench.run()
    assert (last(bench)["event_type"], last(bench)["reasons"]) == ("resolved", ["all_clear"])


def test_ask_47_a_false_alarm_is_called_one() -> None:
    """By feedback, also after the alert was cancelled."""
    bench = fallen()
    bench.command("cancel")
    bench.run()
    bench.command("feedback", b'{"verdict": "false_alarm", "by": "anna"}')
    bench.run()
    assert (last(bench)["event_type"], last(bench)["reasons"]) == ("false_alarm", ["feedback_false_alarm"])


def test_ask_48_an_alert_says_why_and_who_has_it_to_whoever_comes_later() -> None:
    """The retained alert holds reasons, evidence and the name of who acknowledged; a fault's name is its cause."""
    bench = fallen()
    told = {event["event_type"]: event["reasons"] for event in bench.link.of(EVENT)}
    assert told["suspected"] == ["k_of_n"]
    assert {"still", "posture"} & set(told["pending"])
    bench.command("ack", b'{"by": "anna"}')
    bench.run()
    kept = json.loads(bench.link.retained[ALERT])
    assert (kept["state"], kept["by"], kept["reasons"]) == ("acknowledged", "anna", ["ack"])
    assert kept["evidence"]["peak_score"] == 20.0
    assert bench.deliver("wearables/w1/imu", b"{")
    bench.run()
    assert "invalid_json" in bench.state()["faults"]
