"""Window scores through the event engine: thresholds within an alarm budget, flags, delays, false alarms."""

import numpy as np
import pytest

from stream_occ.alarm_budget import raised_ns
from stream_occ.evaluation.alarms import outcome, outcomes, threshold_within_budget, watched
from stream_occ.evaluation.protocol import Fold
from stream_occ.events import EventPolicy
from tests.unit.evaluation_people import lying, trial

AT_ONCE = EventPolicy(check=False)  # every burst is pending
S = 1_000_000_000


def scores_of(*values):
    return np.array(values, dtype=float)


def of_length(n, **kwargs):
    return trial("p", "t", np.zeros((n, 2)), **kwargs)


def test_threshold_uses_up_the_budget_and_no_more():
    """Three trials of an hour, 40 windows each, one of them at 3, 6 and 8: in three hours none above 8, one above 6."""
    held_out = [(of_length(40, duration_s=3600.0), scores_of(level, *[0] * 39)) for level in (3, 6, 8)]
    for per_hour, expected in {0.0: 8.0, 1 / 3: 6.0, 2 / 3: 3.0}.items():
        threshold = threshold_within_budget(held_out, AT_ONCE, per_hour)
        assert threshold == expected
        assert sum(len(raised_ns(watched(t, s), threshold, AT_ONCE)) for t, s in held_out) == round(per_hour * 3)


def test_threshold_without_any_window_is_finite():
    """Recordings too short for a window give no candidate; nothing is invented and nothing breaks."""
    assert np.isfinite(threshold_within_budget([(of_length(0), scores_of())], AT_ONCE, 1.0))


def test_a_fall_is_flagged_when_the_check_ends_and_the_delay_runs_to_there():
    """Fall to 5.5 s, impact in the window up to 5.5 s, still and lying in the one up to 7.0 s: pending, 1.5 s after."""
    t = of_length(8, is_fall=True, fall_ns=(5_200_000_000, 5_500_000_000), motion=lying(8, first=4))
    result = outcome(t, scores_of(0, 9, 9, 0, 0, 0, 0, 0), 5.0, EventPolicy())
    assert (result.is_flagged, result.delay_s, result.n_false_alarms) == (True, 1.5, 0)


def test_who_moves_on_upright_raises_nothing():
    """The same impact, and upright in motion to the end of the recording: the check ends as expired."""
    t = of_length(8, motion=lying(8, first=99))
    assert outcome(t, scores_of(0, 9, 9, 0, 0, 0, 0, 0), 5.0, EventPolicy()).n_false_alarms == 0


def test_a_recording_that_ends_in_a_check_is_decided_on_what_was_seen():
    """Impact in the last window but one, then on the ground: flagged at its end; normal recordings by the same rule."""
    for is_fall in (True, False):
        fall_ns = (7 * S, 7 * S) if is_fall else None
        t = of_length(6, is_fall=is_fall, fall_ns=fall_ns, motion=lying(6, first=5))
        result = outcome(t, scores_of(0, 0, 0, 0, 9, 0), 5.0, EventPolicy())
        assert (result.is_flagged, result.n_false_alarms) == (is_fall, 0 if is_fall else 1)


def test_an_alarm_before_the_fall_is_false_and_flags_nothing():
    """The alarm at 5.0 s precedes the fall at 6.2 s; no second one follows, so the fall is missed."""
    t = of_length(6, is_fall=True, fall_ns=(6_200_000_000, 7 * S))
    result = outcome(t, scores_of(9, 9, 9, 9, 9, 9), 5.0, AT_ONCE)
    assert (result.is_flagged, result.delay_s, result.n_false_alarms) == (False, None, 1)


@pytest.mark.parametrize("is_fall", [True, False])
def test_an_unscored_recording_flags_nothing(is_fall):
    """A fall too short for a window is missed; a normal recording raises nothing."""
    result = outcome(of_length(0, is_fall=is_fall), scores_of(), 5.0, EventPolicy())
    assert (result.is_flagged, result.n_false_alarms) == (False, 0)


def test_each_fold_uses_its_own_threshold():
    """The same scores raise an alarm in the fold whose held-out people scored low, and none in the other."""
    trials = [of_length(3), of_length(3), of_length(3), of_length(3)]
    burst = scores_of(5, 5, 5)
    found = [Fold(0, {0: burst}, {2: scores_of(9, 9, 9)}), Fold(1, {1: burst}, {3: scores_of(1, 1, 1)})]
    decided = outcomes(trials, found, AT_ONCE, 0.0)
    assert [decided[i].n_false_alarms for i in (0, 1)] == [0, 1]
