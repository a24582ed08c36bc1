"""One method in detail: rows by activity and type of fall, and the trade-off, all counted by hand."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.evaluation import Protocol, breakdown, evaluate
from stream_occ.evaluation.alarms import Outcome
from stream_occ.evaluation.breakdown import ActivityRow, FallTypeRow, TradeOffPoint, break_down, trade_off
from stream_occ.evaluation.metrics import Scored
from stream_occ.evaluation.protocol import Fold
from stream_occ.events import EventPolicy
from tests.unit.evaluation_people import Distance, crowd, trial

POLICY = EventPolicy()
HELD_OUT = 4  # recordings behind the tested ones that only set the scale


def named(activity, *, is_fall=False, duration_s=3600.0, n_windows=2):
    own = trial("p", activity, np.zeros((n_windows, 2)), is_fall=is_fall, duration_s=duration_s)
    return replace(own, activity=activity)


def raises_above(own, scores, threshold, policy):
    """In place of the event engine: one alarm where the largest score lies above the threshold, 2 s after a fall."""
    is_raised = bool((scores > threshold).any())
    if own.is_fall:
        return Outcome(0, is_raised, 2.0 if is_raised else None)
    return Outcome(int(is_raised), False, None)


def pooled(trials, scores):
    """Recordings with one fold whose held-out scores 0, 1, 2 and 8 have median 1.5, and their pooled items."""
    held_out = [named("rest") for _ in range(HELD_OUT)]
    n = len(trials)
    fold = Fold(0, dict(enumerate(scores)), {n + i: np.array([s, s]) for i, s in enumerate([0.0, 1.0, 2.0, 8.0])})
    upper = np.quantile([0.0, 1.0, 2.0, 8.0], 0.95)
    largest = np.array([own.max() if own.size else -np.inf for own in scores])
    items = Scored(
        score=(largest - 1.5) / (upper - 1.5),
        person=np.zeros(n, dtype=np.int64),
        is_fall=np.array([own.is_fall for own in trials]),
        flagged=largest > 4.0,
        n_people=1,
    )
    return [*trials, *held_out], [fold], items


def test_rows_by_activity_and_fall_type_are_those_counted_by_hand():
    """Two walks of half an hour with 3 alarms, a jump of an hour with none; of two forward falls one is flagged."""
    trials = [
        named("walk", duration_s=1800.0),
        named("forward", is_fall=True),
        named("jump"),
        named("walk", duration_s=1800.0),
        named("forward", is_fall=True),
        named("back", is_fall=True),
    ]
    scores = [np.array([s, 0.0]) for s in (9, 7, 1, 3, 2, 8)]
    used, found, items = pooled(trials, scores)
    decided = {
        0: Outcome(2, False, None),
        1: Outcome(1, True, 3.5),
        2: Outcome(0, False, None),
        3: Outcome(1, False, None),
        4: Outcome(0, False, None),
        5: Outcome(0, True, 1.25),
    }
    own = break_down(used, found, items, decided, POLICY)
    assert list(own.by_activity) == ["jump", "walk"]
    assert own.by_activity["walk"] == ActivityRow(2, 1.0, 3, 3.0, 0.5)
    assert own.by_activity["jump"] == ActivityRow(1, 1.0, 0, 0.0, 0.0)
    assert own.by_fall_type == {"back": FallTypeRow(1, 1, 1.0, 1.0, 0), "forward": FallTypeRow(2, 1, 0.5, 0.5, 1)}
    assert own.delays_s == [1.25, 3.5]


def test_one_name_for_an_activity_and_a_fall_makes_two_rows():
    """Truth, not the name, says which table a recording is in."""
    trials = [named("SDL"), named("SDL", is_fall=True)]
    used, found, items = pooled(trials, [np.array([1.0, 1.0])] * 2)
    own = break_down(used, found, items, {0: Outcome(0, False, None), 1: Outcome(0, True, 0.0)}, POLICY)
    assert own.by_activity["SDL"].n_recordings == own.by_fall_type["SDL"].n == 1


def test_trade_off_by_hand(monkeypatch):
    """Normals at 1, 3, 5 and 7 in 4 h: thresholds there let 0, 1, 2 through; of falls at 2, 6, 9 one, two, two stay."""
    monkeypatch.setattr(breakdown, "outcome", raises_above)
    monkeypatch.setattr(breakdown, "SHARES", (0.0, 0.25, 0.5))
    trials = [*(named("walk") for _ in range(4)), *(named("fall", is_fall=True) for _ in range(3))]
    scores = [np.array([s, -20.0]) for s in (1.0, 3.0, 5.0, 7.0, 2.0, 6.0, 9.0)]
    points = trade_off(*pooled(trials, scores), POLICY)
    scale = np.quantile([0.0, 1.0, 2.0, 8.0], 0.95) - 1.5
    expected = [(7.0, 0, 0.0, 1 / 3), (5.0, 1, 0.25, 2 / 3), (3.0, 2, 0.5, 2 / 3)]
    assert points == [TradeOffPoint((raw - 1.5) / scale, *rest) for raw, *rest in expected]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 9)), min_size=1, max_size=30))
def test_lower_thresholds_flag_and_alarm_no_less(values):
    """Where a recording raises one alarm at most, both counts grow as the threshold falls."""
    trials = [named("any", is_fall=is_fall) for is_fall, _ in values]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(breakdown, "outcome", raises_above)
        points = trade_off(*pooled(trials, [np.array([float(s), 0.0]) for _, s in values]), POLICY)
    thresholds = [point.threshold for point in points]
    assert thresholds == sorted(set(thresholds), reverse=True)
    for before, after in pairwise(points):
        assert before.n_false_alarms <= after.n_false_alarms
        assert (before.fall_sensitivity or 0.0) <= (after.fall_sensitivity or 0.0)


def test_trade_off_without_normals_is_empty_and_without_falls_has_no_sensitivity(monkeypatch):
    """No threshold can be placed without normal recordings; no share of no falls."""
    monkeypatch.setattr(breakdown, "outcome", raises_above)
    assert trade_off(*pooled([named("fall", is_fall=True)], [np.array([1.0])]), POLICY) == []
    (point,) = trade_off(*pooled([named("walk")], [np.array([1.0])]), POLICY)
    assert (point.n_false_alarms, point.false_alarms_per_hour, point.fall_sensitivity) == (0, 0.0, None)


def test_unscored_recordings_are_in_the_rows_and_set_no_threshold(monkeypatch):
    """A normal recording without windows is accepted at every threshold; a fall without windows is missed."""
    monkeypatch.setattr(breakdown, "outcome", raises_above)
    trials = [named("walk", n_windows=0), named("walk"), named("fall", is_fall=True, n_windows=0)]
    used, found, items = pooled(trials, [np.empty(0), np.array([3.0]), np.empty(0)])
    own = break_down(used, found, items, {i: Outcome(0, False, None) for i in range(3)}, POLICY)
    assert (own.by_activity["walk"].n_recordings, own.by_fall_type["fall"].n_flagged) == (2, 0)
    assert [np.isfinite(point.threshold) for point in own.trade_off] == [True]


def test_rows_of_a_run_add_up_to_its_figures():
    """Alarms, falls flagged and delays of the tables are those of the pipeline figures."""
    trials = [replace(own, activity=f"a{i % 3}") for i, own in enumerate(crowd(separation=3.0))]
    result = evaluate("made-up", trials, [Distance()], Protocol(n_resamples=10)).results["distance"]
    own = json.loads(json.dumps(result.to_json(), allow_nan=False))
    rows = [*own["by_activity"].values(), *own["by_fall_type"].values()]
    assert sum(row["n_false_alarms"] for row in rows) == own["n_false_alarms"]
    falls = own["by_fall_type"].values()
    assert sum(row["n"] for row in falls) == sum(t.is_fall for t in trials)
    n_flagged = sum(row["n_flagged"] for row in falls)
    assert n_flagged / 27 == pytest.approx(own["fall_sensitivity"]["value"])
    assert len(own["delays_s"]) == n_flagged
    assert np.median(own["delays_s"]) == own["median_delay_s"]["value"]
    assert sum(row["hours"] for row in own["by_activity"].values()) == pytest.approx(64 / 60)
