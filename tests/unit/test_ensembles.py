"""Ensembles: votes by the loop twin, no label in any map, one map for all rows, one result for any thread count."""

import json
import re
import warnings
from collections import Counter
from typing import Any

import numpy as np
import pytest

from stream_occ.detectors import OCNN, RandomProjectionEnsemble, RandomSubspaceEnsemble, TuningWarning
from stream_occ.projection import project
from stream_occ.scoring.ocnn_ensemble import LOG_LIMIT
from tests.reference import ocnn_loop

KINDS = [RandomProjectionEnsemble, RandomSubspaceEnsemble]


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 5)) * [1.0, 0.3, 2.0, 1.0, 1.0]
    X[60] = X[3]
    return X, np.concatenate([rng.normal(size=(30, 5)) * 2.5, X[:2]])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_estimators", [4, 5])
def test_votes_equal_the_loop_twin(rows: Any, kind: Any, n_estimators: int) -> None:
    """Algorithm 5: the accepting share and the majority of loop-written members, an even tie being an outlier."""
    X, Z = rows
    detector = kind(OCNN(2, 3, theta=1.1), n_estimators, random_state=0).fit(X)
    matrices, thetas = detector.maps_.tolist(), [1.1] * n_estimators
    votes = [ocnn_loop.accepting_votes(z, X.tolist(), matrices, thetas, 2, 3) for z in Z.tolist()]
    assert detector.score_samples(Z).tolist() == [vote / n_estimators for vote in votes]
    assert detector.predict(Z).tolist() == [1 if 2 * vote > n_estimators else -1 for vote in votes]
    assert detector.to_scorer().score(Z).tolist() == [(n_estimators - vote) / n_estimators for vote in votes]
    assert set(detector.predict(Z).tolist()) == {-1, 1}
    if n_estimators == 4:
        assert 2 in votes


@pytest.mark.parametrize("kind", KINDS)
def test_mean_is_the_clipped_mean_of_logs(rows: Any, kind: Any) -> None:
    """Each member's log(ratio / theta) is clipped, so a duplicate counts -log(1e12) a member and no more."""
    X, Z = rows
    detector = kind(OCNN(theta=1.3), 3, "mean", random_state=0).fit(X)
    ratios = detector.nn_ratio(Z)
    with np.errstate(divide="ignore"):
        logs = np.clip(np.log(ratios / 1.3), -LOG_LIMIT, LOG_LIMIT)
    np.testing.assert_allclose(detector.score_samples(Z), -logs.mean(axis=1), rtol=1e-12)
    np.testing.assert_array_equal(detector.predict(Z), np.where(logs.mean(axis=1) < 0.0, 1, -1))
    np.testing.assert_allclose(detector.score_samples(X[:1]), [LOG_LIMIT], rtol=1e-12)


def test_mean_of_zero_is_an_outlier() -> None:
    """A log ratio of exactly 0 (nn_ratio = theta) is rejected, as theta itself is in a single detector."""
    X = np.arange(10.0)[:, None]
    detector = RandomProjectionEnsemble(OCNN(theta=0.5), 3, "mean", random_state=0).fit(X)
    assert detector.to_scorer().score(np.array([[4.5]])).tolist() == [0.0]
    assert detector.predict([[4.5]]).tolist() == [-1]


@pytest.mark.parametrize("kind", KINDS)
def test_labels_change_nothing(rows: Any, kind: Any) -> None:
    """No label enters a map: any y, permuted or absent, gives the same bits (the paper's program leaked it)."""
    X, Z = rows
    y = np.arange(len(X)) % 2
    made = [kind(OCNN(theta="empirical"), 5, random_state=0) for _ in range(3)]
    scores = [made[0].fit(X).nn_ratio(Z), made[1].fit(X, y).nn_ratio(Z), made[2].fit(X, y[::-1]).nn_ratio(Z)]
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])
    assert made[1].maps_.shape[2] == X.shape[1]


@pytest.mark.parametrize("kind", KINDS)
def test_training_and_scored_rows_share_the_maps(rows: Any, kind: Any) -> None:
    """Member l is exactly a single OCNN fitted on rows mapped by maps_[l] and asked of rows mapped by it."""
    X, Z = rows
    detector = kind(OCNN(2, 2, floor=0.5), 4, random_state=3).fit(X)
    for member, matrix in enumerate(detector.maps_):
        single = OCNN(2, 2, floor=0.5).fit(project(X, matrix))
        np.testing.assert_array_equal(single.nn_ratio(project(Z, matrix)), detector.nn_ratio(Z)[:, member])


@pytest.mark.parametrize("kind", KINDS)
def test_result_is_the_same_for_any_number_of_threads(rows: Any, kind: Any) -> None:
    """Members draw from their own spawned generators; progress is told in order."""
    X, Z = rows
    results, told = [], []
    for n_jobs in (None, 1, 3):
        detector = kind(OCNN("cv", 2, "empirical", max_neighbors=3), 6, random_state=1, n_jobs=n_jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TuningWarning)
            detector.fit(X, progress=lambda done, total: told.append((done, total)))
        results.append((detector.nn_ratio(Z), detector.thetas_, detector.n_neighbors_))
    for ratio, thetas, neighbors in results[1:]:
        np.testing.assert_array_equal(ratio, results[0][0])
        np.testing.assert_array_equal(thetas, results[0][1])
        np.testing.assert_array_equal(neighbors, results[0][2])
    assert told == [(done, 6) for done in range(1, 7)] * 3
    assert len(set(results[0][1].tolist())) > 1


@pytest.mark.parametrize("kind", KINDS)
def test_seed_decides_the_maps(rows: Any, kind: Any) -> None:
    """Same seed, same maps; another seed, others; the first members do not depend on how many follow."""
    X, _ = rows
    maps = [kind(n_estimators=n, random_state=seed).fit(X).maps_ for n, seed in ((4, 0), (4, 0), (6, 0), (4, 1))]
    np.testing.assert_array_equal(maps[0], maps[1])
    np.testing.assert_array_equal(maps[0], maps[2][:4])
    assert (maps[0] != maps[3]).any()


def test_full_subspace_is_the_single_detector(rows: Any) -> None:
    """All features in every member: the vote is unanimous and equals OCNN's decision."""
    X, Z = rows
    ensemble = RandomSubspaceEnsemble(n_estimators=3, max_features=1.0, random_state=0).fit(X)
    np.testing.assert_array_equal(ensemble.predict(Z), OCNN().fit(X).predict(Z))
    assert set(ensemble.score_samples(Z).tolist()) == {0.0, 1.0}


def test_noise_is_found_in_each_members_own_space() -> None:
    """Algorithm 5 runs Algorithm 2 on each member's rows: with drop_noise the members leave different rows out."""
    X = np.random.default_rng(7).normal(size=(200, 5))
    detector = RandomSubspaceEnsemble(OCNN(drop_noise=True), 3, random_state=0, max_features=0.4).fit(X)
    for matrix, noise in zip(detector.maps_, detector.noise_, strict=True):
        assert noise.tolist() == ocnn_loop.noise(ocnn_loop.mapped(X.tolist(), matrix.tolist()), 5)
    np.testing.assert_array_equal(detector.to_scorer().arrays()["own_distance"] < 0.0, detector.noise_)
    assert len({row.tobytes() for row in detector.noise_}) == 3


def test_repeats_are_dropped_in_each_members_own_space() -> None:
    """Rows that differ in a feature a member does not see are one row to it."""
    X = np.column_stack([np.repeat(np.arange(10.0), 3), np.tile(np.arange(3.0), 10)])
    detector = RandomSubspaceEnsemble(OCNN(drop_duplicates=True), 6, random_state=0).fit(X)
    kept = (detector.to_scorer().arrays()["own_distance"] >= 0.0).sum(axis=1)
    features = detector.maps_[:, 0].argmax(axis=1)
    assert kept.tolist() == [[10, 3][feature] for feature in features]
    assert set(features.tolist()) == {0, 1}


def test_tuning_summary_shows_the_spread_over_members(rows: Any) -> None:
    """Least, median and greatest theta, members for each J and K, spread of the noise counts; plain JSON."""
    detector = RandomProjectionEnsemble(OCNN("cv", 3, "empirical", max_neighbors=4), 5, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)
        summary = json.loads(json.dumps(detector.fit(rows[0]).tuning_summary()))
    thetas = sorted(detector.thetas_.tolist())
    assert thetas[0] < thetas[2] < thetas[4]
    assert summary["theta"] == {"min": thetas[0], "median": thetas[2], "max": thetas[4]}
    assert summary["k_neighbors"] == {"3": 5}
    assert {int(j): n for j, n in summary["n_neighbors"].items()} == Counter(detector.n_neighbors_.tolist())
    counts = sorted(int(noise.sum()) for noise in detector.noise_)
    assert summary["n_noise"] == {"min": counts[0], "median": counts[2], "max": counts[4]}
    assert RandomProjectionEnsemble(n_estimators=2).fit(rows[0]).tuning_summary()["n_noise"] is None


def test_maps_that_make_all_rows_equal_are_drawn_again() -> None:
    """Rows that vary in one feature of six: no member is left with a constant space."""
    X = np.zeros((30, 6))
    X[:, 2] = np.arange(30.0)
    for kind in KINDS:
        detector = kind(n_estimators=15, random_state=0).fit(X)
        assert (np.ptp(np.stack([project(X, matrix) for matrix in detector.maps_]), axis=1).max(axis=1) > 0.0).all()


def test_warnings_of_members_are_told_once_with_their_number() -> None:
    """25 members on a small grid: one warning, with how many."""
    X = np.random.default_rng(8).normal(size=(80, 3))
    with pytest.warns(TuningWarning, match=r"\(\d+ of 6 members\)") as caught:
        RandomProjectionEnsemble(OCNN("cv", "cv", max_neighbors=2), 6, random_state=0).fit(X)
    assert len(caught) == 1


@pytest.mark.parametrize(
    ("detector", "said"),
    [
        (RandomProjectionEnsemble(n_estimators=0), "n_estimators must be an int >= 1"),
        (RandomProjectionEnsemble(combine="median"), "combine must be one of vote, mean"),
        (RandomProjectionEnsemble(estimator="OCNN"), "estimator must be an OCNN"),
        (RandomProjectionEnsemble(OCNN(theta=-1.0)), "theta must be"),
        (RandomSubspaceEnsemble(max_features=0.0), "max_features must be a share"),
        (RandomSubspaceEnsemble(max_features=5), "max_features must be a share"),
    ],
)
def test_bad_parameters_are_named(detector: Any, said: str) -> None:
    """fit names the parameter, what it must be and what came."""
    with pytest.raises(ValueError, match=re.escape(said)):
        detector.fit(np.random.default_rng(0).normal(size=(30, 2)))
