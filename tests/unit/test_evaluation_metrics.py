"""Figures against loop twins and by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.evaluation import metrics
from stream_occ.evaluation.metrics import Scored, figure_of, resample_people
from tests.reference import metrics_loop


def scored(rng, *, n=60, n_people=5, levels=6, share_unscored=0.1):
    """Items with many ties, some of them unscored."""
    score = rng.integers(0, levels, n).astype(float)
    score[rng.random(n) < share_unscored] = -np.inf
    return Scored(
        score=score,
        person=rng.integers(0, n_people, n),
        is_fall=rng.random(n) < 0.4,
        flagged=np.isfinite(score) & (rng.random(n) < 0.5),
        n_people=n_people,
    )


def by_hand(scores, falls):
    """Items of one person, none flagged."""
    n = len(scores)
    flags = np.zeros(n, dtype=bool)
    return Scored(np.array(scores, dtype=float), np.zeros(n, dtype=int), np.array(falls, dtype=bool), flags, 1)


ONES = np.ones((1, 1), dtype=np.int64)


@given(st.integers(0, 2**32 - 1))
def test_figures_equal_loops_over_items_for_any_weights(seed):
    """AUC with ties, sensitivity and gmean equal pair-by-pair counts, also where people count several times or not."""
    rng = np.random.default_rng(seed)
    items = scored(rng, n=int(rng.integers(2, 60)))
    weights = rng.integers(0, 3, (3, items.n_people))
    fast = [
        metrics.auc(items, weights),
        metrics.sensitivity_at_share(items, weights, 0.05),
        metrics.sensitivity_at_share(items, weights, 0.29),
        metrics.gmean(items, weights),
    ]
    for b, weight in enumerate(weights):
        expanded = metrics_loop.expand(items.score, items.person, items.is_fall, items.flagged, weight)
        n_normal = sum(not fall for _, fall, _ in expanded)
        slow = [
            metrics_loop.auc(expanded),
            metrics_loop.sensitivity_at_share(expanded, n_normal * 5 // 100),
            metrics_loop.sensitivity_at_share(expanded, n_normal * 29 // 100),
            metrics_loop.gmean(expanded),
        ]
        # sums of at most 60 halves are exact; only the last division and root round
        np.testing.assert_allclose([values[b] for values in fast], slow, rtol=1e-14)


def test_auc_by_hand_counts_ties_half():
    """Falls 3, 1 against normals 2, 1: three pairs won or tied for 2.5 of 4."""
    items = by_hand([3, 1, 2, 1], [True, True, False, False])
    assert metrics.auc(items, ONES)[0] == 2.5 / 4


def test_unscored_fall_is_missed_and_unscored_normal_is_accepted():
    """An unscored fall loses against every scored normal and an unscored normal against every scored fall."""
    missed = by_hand([-np.inf, 5.0], [True, False])
    assert metrics.auc(missed, ONES)[0] == 0.0
    assert metrics.sensitivity_at_share(missed, ONES, 1.0)[0] == 0.0
    accepted = by_hand([5.0, -np.inf], [True, False])
    assert metrics.auc(accepted, ONES)[0] == 1.0
    assert metrics.sensitivity_at_share(accepted, ONES, 0.0)[0] == 1.0


def test_sensitivity_allows_floor_of_share_times_n_false_trials():
    """With 20 normals 5 % is one false trial: a fall above all but one normal is caught at 5 %, not at 1 %."""
    items = by_hand([18.5, *range(20)], [True, *[False] * 20])
    assert metrics.sensitivity_at_share(items, ONES, 0.05)[0] == 1.0
    assert metrics.sensitivity_at_share(items, ONES, 0.01)[0] == 0.0


def test_sensitivity_share_is_not_lost_to_rounding():
    """0.29 of 100 normals are 29 false trials, though 0.29 * 100 is a little less in floating point."""
    items = by_hand([70.5, *range(100)], [True, *[False] * 100])
    assert metrics.sensitivity_at_share(items, ONES, 0.29)[0] == 1.0
    assert metrics.sensitivity_at_share(items, ONES, 0.28)[0] == 0.0


def test_fall_tied_with_the_threshold_is_missed():
    """A fall that scores like the first normal too many cannot be flagged without that normal."""
    items = by_hand([4.0, 4.0, 1.0], [True, False, False])
    assert metrics.sensitivity_at_share(items, ONES, 0.0)[0] == 0.0


def test_constant_scores_give_auc_one_half_and_no_sensitivity():
    """A detector that says the same of everything ranks nothing and catches nothing."""
    items = by_hand([1.0] * 10, [True] * 4 + [False] * 6)
    assert metrics.auc(items, ONES)[0] == 0.5
    assert metrics.sensitivity_at_share(items, ONES, 0.05)[0] == 0.0
    assert metrics.gmean(items, ONES)[0] == 0.0


@pytest.mark.parametrize("fall", [True, False])
def test_figures_of_one_kind_alone_are_undefined(fall):
    """Without falls, or without normals, there is nothing to compare: all figures are None."""
    items = by_hand([1.0, 2.0], [fall, fall])
    for values in (
        metrics.auc(items, ONES),
        metrics.sensitivity_at_share(items, ONES, 0.05),
        metrics.gmean(items, ONES),
    ):
        assert figure_of(values) == metrics.Figure(None, None, None)


@given(st.integers(0, 2**32 - 1))
def test_median_equals_numpy_median_of_repeated_items(seed):
    """Weights repeat a person's values."""
    rng = np.random.default_rng(seed)
    values, person = rng.normal(size=12), rng.integers(0, 4, 12)
    weights = rng.integers(0, 3, (2, 4))
    found = metrics.median_of(values, person, weights)
    for b in range(2):
        repeated = np.repeat(values, weights[b][person])
        expected = np.median(repeated) if repeated.size else np.nan
        np.testing.assert_array_equal(found[b], expected)


def test_resampling_keeps_the_number_of_people_of_each_kind():
    """First row ones; each other row draws as many people of a kind as there are."""
    weights = resample_people(["a", "b", "a", "b", "b"], n_resamples=50, seed=1)
    np.testing.assert_array_equal(weights[0], 1)
    np.testing.assert_array_equal(weights[:, [0, 2]].sum(axis=1), 2)
    np.testing.assert_array_equal(weights[:, [1, 3, 4]].sum(axis=1), 3)
    assert len(np.unique(weights[1:], axis=0)) > 10


def test_nobody_to_draw_from_is_no_interval():
    """One person, or one of each kind: every resample would be the people themselves, and look certain."""
    for strata in (["a"], ["a", "b"]):
        weights = resample_people(strata, n_resamples=50)
        np.testing.assert_array_equal(weights, np.ones((1, len(strata))))
        assert figure_of(np.array([0.5] * len(weights))) == metrics.Figure(0.5, None, None)


def test_resampling_depends_on_the_seed_alone():
    """Equal seeds give equal resamples."""
    np.testing.assert_array_equal(resample_people(["a"] * 4, seed=3), resample_people(["a"] * 4, seed=3))


def test_interval_is_the_middle_95_percent_of_the_resamples():
    """Of the values 0 to 1000 the 2.5 % and 97.5 % quantiles are 25 and 975."""
    figure = figure_of(np.array([400.0, *range(1001)]))
    assert figure.value == 400.0
    assert (figure.low, figure.high) == pytest.approx((25.0, 975.0))  # 97.5 = 100 - 2.5 rounds


@pytest.mark.slow
def test_bootstrap_interval_covers_the_truth_about_as_often_as_it_claims():
    """With 30 people of differing ability the interval of the share flagged holds its mean in 88-99 of 100 studies.

    Percentile intervals of 30 people are a little short (about 93 %); the bounds are three standard errors of 200
    studies around 88-98 %. An interval over items, which ignores that a person's items hang together, covers .6.
    """
    rng = np.random.default_rng(0)
    n_people, n_each, n_studies = 30, 20, 200
    covered = 0
    for study in range(n_studies):
        ability = rng.beta(2, 1, n_people)  # mean 2/3
        flagged = rng.random((n_people, n_each)) < ability[:, None]
        person = np.repeat(np.arange(n_people), n_each)
        items = Scored(np.zeros(person.size), person, np.ones(person.size, dtype=bool), flagged.ravel(), n_people)
        weights = resample_people(["x"] * n_people, n_resamples=400, seed=study)
        figure = figure_of(metrics.share_flagged(items, weights, of_falls=True))
        covered += figure.low <= 2 / 3 <= figure.high
    assert 0.88 * n_studies <= covered <= 0.99 * n_studies
