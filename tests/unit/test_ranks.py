"""Ranks over data sets: Khan & Ahmad's Tables V-VIII from their printed gmeans, loop twins, closed forms, ties."""

import csv
import math

import numpy as np
import pytest
from scipy import stats

from stream_occ.reproduction import ranks
from stream_occ.reproduction.printed import PRINTED, RULES, VARIANTS
from tests.reference import ranks_loop

DATASETS = tuple(dict.fromkeys(dataset for dataset, _, _ in PRINTED))

# Adjusted p-values as printed (arXiv 1604.01686v5, Tables V-VIII), pairs in the order (0,1), (0,2), ... of the methods.
TABLES = {
    "11NN": [0.867, 0.867, 0.032, 0.867, 0.011, 0.003],
    "11NN(theta)": [0.609, 0.609, 0.000, 0.609, 0.000, 0.001],
    "JKNN": [1.000, 1.000, 0.000, 1.000, 0.000, 0.000],
}
TABLE_VIII = [0.000, 0.002, 0.045]


def printed_scores(columns):
    return [[PRINTED[dataset, rule, variant].gmean for rule, variant in columns] for dataset in DATASETS]


def test_printed_figures_are_those_read_from_the_paper(shared_data):
    """All 540 values (15 sets, 3 rules, 4 variants; gmean and its deviation, TPR, TNR) beside another transcription."""
    path = shared_data / "tables" / "paper1_printed.csv"
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 540
    for row in rows:
        found = PRINTED[row["dataset"], row["rule"], row["variant"]]
        assert getattr(found, row["measure"]) == float(row["mean"]), row
        if row["measure"] == "gmean":
            assert found.gmean_sd == float(row["sd"]), row


@pytest.mark.parametrize("rule", RULES)
def test_tables_v_to_vii_come_back_from_the_printed_gmeans(rule):
    """Variants of one rule over 15 data sets: six p-values equal the printed ones to 3 decimals."""
    mean = ranks.mean_ranks(printed_scores([(rule, variant) for variant in VARIANTS]))
    assert [round(p, 3) for p in ranks.bergmann_hommel(mean, 15).values()] == TABLES[rule]


def test_table_viii_comes_back_from_the_printed_gmeans():
    """The three rules' projection ensembles: mean ranks 3, 1.133, 1.867 and the three printed p-values."""
    mean = ranks.mean_ranks(printed_scores([(rule, "RP") for rule in RULES]))
    assert mean == pytest.approx([3.0, 17 / 15, 28 / 15])
    assert [round(p, 3) for p in ranks.bergmann_hommel(mean, 15).values()] == TABLE_VIII


def test_no_printed_gmean_is_above_that_of_its_mean_rates():
    """Mean of sqrt(TPR TNR) <= sqrt(mean TPR * mean TNR) (Cauchy-Schwarz) holds in all 180 entries, to rounding."""
    assert len(PRINTED) == 15 * 3 * 4
    for entry in PRINTED.values():
        assert entry.gmean <= math.sqrt(entry.tpr * entry.tnr) + 0.002


@pytest.mark.parametrize("seed", range(5))
def test_ranks_and_statistic_equal_the_loop_twin_and_scipy(seed):
    """Scores of one decimal, so that ties abound."""
    scores = np.random.default_rng(seed).integers(0, 6, size=(12, 4)) / 10
    found = ranks.friedman(scores)
    assert found.mean_ranks == pytest.approx(ranks_loop.mean_ranks(scores.tolist()))
    assert found.statistic == pytest.approx(ranks_loop.friedman_statistic(scores.tolist()))
    statistic, p_value = stats.friedmanchisquare(*scores.T)
    assert (found.statistic, found.p_value) == (pytest.approx(statistic), pytest.approx(p_value))


@pytest.mark.parametrize(("seed", "k"), [(0, 2), (1, 3), (2, 4), (3, 4), (4, 5), (5, 5)])
def test_bergmann_hommel_equals_the_loop_twin(seed, k):
    """Partitions give the same sets of pairs as looking at every set of pairs."""
    mean = ranks.mean_ranks(np.random.default_rng(seed).normal(size=(9, k)) + 0.4 * np.arange(k))
    expected = ranks_loop.bergmann_hommel(mean.tolist(), 9)
    assert ranks.bergmann_hommel(mean, 9) == {pair: pytest.approx(p) for pair, p in expected.items()}


def test_p_values_lie_between_the_raw_and_bonferronis():
    """Bergmann-Hommel never falls below the raw p-value, nor above ten times it for ten pairs."""
    mean = ranks.mean_ranks(np.random.default_rng(1).normal(size=(20, 5)) + 0.3 * np.arange(5))
    for (i, j), p in ranks.bergmann_hommel(mean, 20).items():
        raw = ranks_loop.p_value(mean[i], mean[j], 5, 20)
        assert raw <= p <= min(1.0, 10 * raw) + 1e-15


def test_ten_methods_are_too_many_for_bergmann_and_hommel():
    """Every partition is looked at, so that ten are refused."""
    with pytest.raises(ValueError, match="at most 9 methods; got 10"):
        ranks.bergmann_hommel(np.arange(1.0, 11.0), 5)


def test_holm_against_the_best_by_hand():
    """Ranks 1, 2, 3 over six sets: z = 1 and 2 over sqrt(12/36), p = .0833 and .000532, the smaller doubled."""
    adjusted = ranks.holm_against_best([2.0, 1.0, 3.0], 6)
    assert adjusted == pytest.approx({(1, 2): 2 * 5.320055e-4, (1, 0): 0.0832645}, rel=1e-5)


def test_holm_is_monotone_and_capped():
    """A larger p-value is never adjusted below a smaller one, and none exceeds 1."""
    adjusted = ranks.holm_against_best([1.0, 1.01, 1.02, 3.9], 4)
    assert adjusted[0, 3] <= adjusted[0, 2] == adjusted[0, 1] == 1.0


def test_nothing_but_ties_is_no_difference():
    """Statistic 0 and p 1, all ranks in the middle, where scipy divides by zero."""
    found = ranks.friedman(np.full((4, 3), 0.7))
    assert (found.statistic, found.p_value, found.mean_ranks.tolist()) == (0.0, 1.0, [2.0, 2.0, 2.0])
    assert set(ranks.bergmann_hommel(found.mean_ranks, 4).values()) == {1.0}


def test_scores_equal_but_for_rounding_are_tied():
    """0.1 + 0.2 and 0.3 share a rank."""
    assert ranks.mean_ranks([[0.1 + 0.2, 0.3]]).tolist() == [1.5, 1.5]


def test_nemenyi_difference_of_published_tables():
    """q(0.05) = 2.343 and 2.728 for 3 and 5 methods, 2.052 for 3 at 0.10 (Demsar 2006, Table 5a)."""
    for k, alpha, q in [(3, 0.05, 2.343), (5, 0.05, 2.728), (3, 0.10, 2.052)]:
        expected = q * math.sqrt(k * (k + 1) / (6 * 14))
        assert ranks.nemenyi_difference(k, 14, alpha=alpha) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize("scores", [[0.5, 0.6], [[0.5]], [[0.5, float("nan")]], np.empty((0, 3))])
def test_scores_that_cannot_be_ranked_are_refused(scores):
    """One method, no data set or a score that is no number."""
    with pytest.raises(ValueError, match="scores must be finite with shape"):
        ranks.mean_ranks(scores)
