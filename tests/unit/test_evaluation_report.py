"""Whole runs on made-up people: figures, keys, constant detectors, missing falls, any number of jobs."""

import json
from dataclasses import replace

import numpy as np
import pytest

from stream_occ.errors import DataError
from stream_occ.evaluation import Protocol, evaluate
from stream_occ.evaluation.methods import (
    BASELINES,
    IsolationForest,
    Mahalanobis,
    MeanDistance,
    PeakAcceleration,
    z_scaler,
)
from stream_occ.evaluation.protocol import stack
from stream_occ.evaluation.tables import summary_line
from tests.unit.evaluation_people import Constant, Distance, NotFinite, crowd, trial

FIGURES = {
    "trial_auc",
    "trial_sensitivity_at_1pct",
    "trial_sensitivity_at_5pct",
    "trial_gmean",
    "window_auc",
    "window_gmean",
    "fall_sensitivity",
    "false_alarms_per_hour",
    "median_delay_s",
}
BREAKDOWN = ("by_activity", "by_fall_type", "trade_off", "delays_s")
FEW_TREES = IsolationForest(n_estimators=10)
QUICK = Protocol(n_resamples=200)


def run(trials, *methods, protocol=QUICK, n_jobs=1):
    return evaluate("made-up", trials, methods, protocol, n_jobs=n_jobs)


def test_report_has_exactly_the_documented_keys():
    """Top level, methods and figures; every figure has value, low and high in order; no NaN anywhere."""
    report = run(crowd(), Distance(), Constant()).to_json()
    json.dumps(report, allow_nan=False)
    assert list(report) == [
        "dataset", "development", "n_recordings", "n_falls", "n_people", "n_unscored", "adl_hours", "seed", "results",
    ]  # fmt: skip
    assert set(report["results"]) == {"distance", "constant"}
    for result in report["results"].values():
        assert set(result) == FIGURES | {"n_false_alarms", *BREAKDOWN}
        for name in FIGURES:
            figure = result[name]
            assert set(figure) == {"value", "low", "high"}
            assert figure["value"] is None or figure["low"] <= figure["value"] <= figure["high"]


@pytest.mark.parametrize(
    ("dataset", "train_dataset", "said"),
    [
        ("made-up", None, "made-up: "),
        ("mobifall", None, "mobifall, development: "),
        ("made-up", "weda-fall", "made-up (trained on weda-fall, development): "),
    ],
)
def test_report_and_summary_say_development(dataset, train_dataset, said):
    """Of a set that the defaults were chosen with, tested or trained on, and of no other."""
    found = replace(run(crowd(n_both=0, n_normal_only=6, n_falls_only=0), Constant()), dataset=dataset)
    found = replace(found, train_dataset=train_dataset)
    assert summary_line(found).startswith(said)
    assert found.to_json()["development"] is ("development" in said)


def test_report_counts_recordings_people_falls_and_hours():
    """6 people with both, 2 with normals, 3 with falls; eight normal minutes and three falls each; one unscored."""
    trials = [*crowd(), trial("b0", "short", np.empty((0, 2)), is_fall=True)]
    report = run(trials, Constant())
    assert (report.n_recordings, report.n_falls, report.n_people, report.n_unscored) == (92, 28, 11, 1)
    assert report.adl_hours == pytest.approx(64 / 60)


def test_distant_falls_are_found_and_near_ones_are_not():
    """Falls 6 standard deviations off are ranked first; falls that are no different score like normals."""
    far = run(crowd(separation=6.0), Distance()).results["distance"].figures
    assert far["trial_auc"].value > 0.99
    assert far["window_auc"].value > 0.99
    assert far["fall_sensitivity"].value > 0.9
    near = [run(crowd(separation=0.0, n_both=12, seed=seed), Distance()) for seed in range(3)]
    # a set's AUC has standard error .05 here, the mean of three .03
    assert np.mean([own.results["distance"].figures["trial_auc"].value for own in near]) == pytest.approx(0.5, abs=0.09)


def test_a_constant_detector_gains_nothing():
    """AUC one half, no sensitivity, gmean 0, no fall flagged."""
    figures = run(crowd(), Constant()).results["constant"].figures
    assert figures["trial_auc"].value == figures["window_auc"].value == 0.5
    for name in ("trial_sensitivity_at_1pct", "trial_sensitivity_at_5pct", "trial_gmean", "window_gmean"):
        assert figures[name].value == 0.0
    assert figures["fall_sensitivity"].value == 0.0
    assert figures["median_delay_s"].value is None


def test_no_alarm_at_all_has_the_exact_interval_of_a_count():
    """Two-sided Poisson at 0: up to ln 40 over the hours; a bootstrap would say 0 to 0."""
    report = run(crowd(), Constant())
    result = report.results["constant"]
    assert result.n_false_alarms == 0
    figure = result.figures["false_alarms_per_hour"]
    assert (figure.value, figure.low) == (0.0, 0.0)
    assert figure.high == pytest.approx(np.log(40) / report.adl_hours)


def test_gmean_thresholds_reject_about_the_share_asked_for():
    """With many exchangeable people the share of normal trials rejected by held-out thresholds is the one asked for.

    960 trials at share .2: standard error .013 if trials were independent; thresholds of five folds add about as much.
    """
    trials = crowd(n_both=0, n_normal_only=120, n_falls_only=1, n_windows=4)
    from stream_occ.evaluation.metrics import share_flagged
    from stream_occ.evaluation.protocol import assign_groups, kinds_of_people, pool_trials
    from stream_occ.evaluation.report import score_folds

    kinds = kinds_of_people(trials)
    folds = score_folds(trials, [Distance()], assign_groups(kinds), seed=0, n_jobs=1)["distance"]
    items = pool_trials(trials, folds, {person: i for i, person in enumerate(kinds)}, 0.2)
    ones = np.ones((1, len(kinds)), dtype=np.int64)
    assert share_flagged(items, ones, of_falls=False)[0] == pytest.approx(0.2, abs=0.04)


def test_without_falls_figures_that_need_them_are_null_and_alarms_are_counted():
    """A data set of normal activity alone still tells how often the alarm would ring."""
    report = run(crowd(n_both=0, n_normal_only=6, n_falls_only=0), Distance())
    figures = report.results["distance"].figures
    assert report.n_falls == 0
    for name in FIGURES - {"false_alarms_per_hour"}:
        assert figures[name].value is None
    assert figures["false_alarms_per_hour"].value == pytest.approx(
        report.results["distance"].n_false_alarms / report.adl_hours
    )


@pytest.mark.slow
def test_any_number_of_jobs_gives_the_same_report():
    """One process or two: equal to the last bit."""
    trials = crowd(n_both=5, n_normal_only=0, n_falls_only=1)
    methods = (Distance(), BASELINES["knn5"], FEW_TREES)
    reports = [run(trials, *methods, n_jobs=n_jobs).to_json() for n_jobs in (1, 2)]
    assert reports[0] == reports[1]


@pytest.mark.slow
def test_an_error_in_another_process_keeps_its_line():
    """DataError of a worker process arrives as what it was, not as a broken pool."""
    with pytest.raises(DataError, match=r"^method not_finite: must give one finite score a window"):
        run(crowd(n_both=5, n_normal_only=0, n_falls_only=0), NotFinite(), n_jobs=2)


def test_order_of_the_methods_changes_no_figure():
    """A method's figures do not depend on what else is asked for."""
    trials = crowd(n_both=5, n_normal_only=0, n_falls_only=1)
    alone = run(trials, Distance()).results["distance"]
    beside = run(trials, Constant(), Distance()).results["distance"]
    assert alone.to_json() == beside.to_json()


def test_all_baselines_find_distant_falls():
    """Each of the four ranks made-up falls well, which a constant score does not."""
    report = run(crowd(n_falls_only=0), *(BASELINES | {"isolation_forest": FEW_TREES}).values())
    assert set(report.results) == {"peak_acc", "knn5", "mahalanobis", "isolation_forest"}
    for result in report.results.values():
        assert result.figures["trial_auc"].value > 0.9


def test_five_nn_distance_is_the_mean_of_the_five_nearest():
    """On a line of points spaced by 1 the five nearest of the point 0.1 lie .1, .9, 1.1, 1.9 and 2.1 away."""
    line = stack([trial("a", "1", [[i, 0] for i in range(-10, 11)])], [0])
    asked = stack([trial("b", "2", [[0.1, 0]])], [0])
    spread = np.std(np.arange(-10, 11), ddof=1)
    found = MeanDistance().fit(line, seed=0)(asked)
    np.testing.assert_allclose(found, (0.1 + 0.9 + 1.1 + 1.9 + 2.1) / 5 / spread, rtol=1e-6)


def test_mahalanobis_is_free_of_units_and_survives_constant_columns():
    """A column in other units changes nothing; a constant column adds only its deviation."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2)) @ np.array([[1.0, 0.8], [0.0, 0.6]])
    asked = rng.normal(size=(5, 2))
    found = [
        Mahalanobis().fit(stack([trial("a", "1", X * unit)], [0]), seed=0)(stack([trial("b", "2", asked * unit)], [0]))
        for unit in (np.array([1.0, 1.0]), np.array([1000.0, 0.001]))
    ]
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)
    flat = Mahalanobis().fit(stack([trial("a", "1", X * [1, 0])], [0]), seed=0)(stack([trial("b", "2", asked)], [0]))
    assert np.isfinite(flat).all()


def test_peak_acceleration_is_the_recorded_peak():
    """Nothing is fitted; the score is the measure."""
    windows = stack([trial("a", "1", [[3, -7], [1, 2]])], [0])
    np.testing.assert_array_equal(PeakAcceleration().fit(windows, seed=0)(windows), [7, 2])


def test_z_scaler_centres_a_constant_column_without_dividing_by_zero():
    """Mean 0, deviation 1 with ddof 1; the constant column becomes 0."""
    scale = z_scaler(np.array([[1.0, 5.0], [3.0, 5.0]]))
    np.testing.assert_allclose(scale(np.array([[2.0, 5.0], [4.0, 6.0]])), [[0, 0], [np.sqrt(2), 1]])
