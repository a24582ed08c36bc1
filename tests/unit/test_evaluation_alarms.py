"""Window scores through the event engine: thresholds within an alarm budget, flags, delays, false alarms."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.evaluation.alarms import burst_levels, outcome, outcomes, raised_ns, threshold_within_budget
from stream_occ.evaluation.protocol import Fold
from stream_occ.events import EventPolicy
from tests.unit.evaluation_people import trial

POLICY = EventPolicy(k=2, n=3, clear_after_s=10.0, refractory_s=5.0)
S = 1_000_000_000


def scores_of(*values):
    return np.array(values, dtype=float)


def of_length(n, **kwargs):
    return trial("p", "t", np.zeros((n, 2)), **kwargs)


def test_two_flagged_of_three_windows_raise_one_alarm():
    """The second flagged window raises; further ones belong to the same alarm."""
    t = of_length(6)
    assert raised_ns(scores_of(0, 9, 0, 9, 9, 9), t.t_end_ns, 5.0, POLICY) == [int(t.t_end_ns[3])]
    assert raised_ns(scores_of(0, 9, 0, 0, 9, 0), t.t_end_ns, 5.0, POLICY) == []


def test_a_score_at_the_threshold_is_not_flagged():
    """Outlier means above."""
    assert raised_ns(scores_of(5, 5, 5), of_length(3).t_end_ns, 5.0, POLICY) == []


def test_a_second_burst_after_quiet_is_a_second_alarm():
    """25 quiet windows of 0.5 s clear the first alarm."""
    scores = scores_of(9, 9, *[0] * 25, 9, 9)
    assert len(raised_ns(scores, of_length(29).t_end_ns, 5.0, POLICY)) == 2


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(-1, 5))
def test_an_alarm_is_raised_exactly_where_a_burst_level_exceeds_the_threshold(values, threshold):
    """The first alarm comes at the first window whose level lies above the threshold."""
    scores, t = np.array(values, dtype=float), of_length(len(values))
    above = np.flatnonzero(burst_levels(scores, POLICY) > threshold)
    raised = raised_ns(scores, t.t_end_ns, float(threshold), POLICY)
    assert raised[:1] == t.t_end_ns[above[:1]].tolist()


def test_threshold_uses_up_the_budget_and_no_more():
    """Three trials of an hour, bursts at levels 3, 6 and 8: one alarm in three hours is kept below 8, two below 6."""
    held_out = [(of_length(3, duration_s=3600.0), scores_of(0, level, level + 1)) for level in (3, 6, 8)]
    allowed = {0.0: 8.0, 1 / 3: 6.0, 2 / 3: 3.0}
    for per_hour, expected in allowed.items():
        threshold = threshold_within_budget(held_out, POLICY, per_hour)
        assert threshold == expected
        n = sum(len(raised_ns(s, t.t_end_ns, threshold, POLICY)) for t, s in held_out)
        assert n == round(per_hour * 3)


def test_threshold_without_any_window_is_finite():
    """Recordings too short for a window give no candidate; nothing is invented and nothing breaks."""
    assert np.isfinite(threshold_within_budget([(of_length(0), scores_of())], POLICY, 1.0))


def test_delay_runs_from_the_end_of_the_annotated_fall():
    """Fall from 5.2 to 6.0 s, second flagged window ends at 7.0 s: flagged after 1 s."""
    t = of_length(6, is_fall=True, fall_ns=(5_200_000_000, 6 * S))
    result = outcome(t, scores_of(0, 0, 0, 9, 9, 9), 5.0, POLICY)
    assert (result.is_flagged, result.delay_s, result.n_false_alarms) == (True, 1.0, 0)


def test_an_alarm_before_the_fall_is_false_and_flags_nothing():
    """The alarm at 5.5 s precedes the fall at 6.2 s; no second one follows, so the fall is missed."""
    t = of_length(6, is_fall=True, fall_ns=(6_200_000_000, 7 * S))
    result = outcome(t, scores_of(9, 9, 9, 9, 9, 9), 5.0, POLICY)
    assert (result.is_flagged, result.delay_s, result.n_false_alarms) == (False, None, 1)


def test_an_unscored_recording_flags_nothing():
    """A fall too short for a window is missed; a normal recording raises nothing."""
    for is_fall in (True, False):
        result = outcome(of_length(0, is_fall=is_fall), scores_of(), 5.0, POLICY)
        assert (result.is_flagged, result.n_false_alarms) == (False, 0)


def test_each_fold_uses_its_own_threshold():
    """The same scores raise an alarm in the fold whose held-out people scored low, and none in the other."""
    trials = [of_length(3), of_length(3), of_length(3), of_length(3)]
    burst = scores_of(5, 5, 5)
    found = [Fold(0, {0: burst}, {2: scores_of(9, 9, 9)}), Fold(1, {1: burst}, {3: scores_of(1, 1, 1)})]
    decided = outcomes(trials, found, POLICY, 0.0)
    assert [decided[i].n_false_alarms for i in (0, 1)] == [0, 1]


@pytest.mark.parametrize("k", [1, 2, 3])
def test_burst_level_is_the_kth_largest_of_the_last_n_but_never_above_the_window_itself(k):
    """By hand for the scores 4, 1, 3 with n = 3."""
    expected = {1: [4, 1, 3], 2: [-np.inf, 1, 3], 3: [-np.inf, -np.inf, 1]}
    policy = EventPolicy(k=k, n=3)
    np.testing.assert_array_equal(burst_levels(scores_of(4, 1, 3), policy), expected[k])
