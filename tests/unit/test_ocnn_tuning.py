"""How OCNN tunes itself: Algorithms 2, 3 and 4 by hand and by the loop twin, each with its options and warnings."""

import json
import warnings
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.detectors import OCNN, TuningWarning
from stream_occ.detectors._tuning import Fold, Neighborhood, choose_neighbors, choose_theta, inner_folds, noise_mask
from stream_occ.neighbors import nearest
from tests.reference import ocnn_loop


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(12, 60),
    lattice=st.booleans(),
    needed=st.integers(5, 8),
    tenths=st.integers(0, 30),
    side=st.sampled_from(["both", "upper"]),
)
def test_noise_equals_the_loop_twin(
    seed: int, n_rows: int, lattice: bool, needed: int, tenths: int, side: Literal["both", "upper"]
) -> None:
    """Algorithm 2, any first whisker, one- and two-sided, on continuous rows and on a lattice of exact distances."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n_rows, 2))
    if lattice:
        X = np.concatenate([corner := rng.integers(0, 3, size=(n_rows, 2)) * 1.0, -corner])  # mean exactly 0
    mask = noise_mask(X, omega=tenths / 10, n_needed=needed, side=side)
    assert mask.tolist() == ocnn_loop.noise(X.tolist(), needed, tenths, upper_only=side == "upper")


def test_noise_is_two_sided_and_falls_back_to_the_farthest() -> None:
    """A row at the centre of a ring is noise; identical distances leave only the lowest-numbered rows."""
    angles = 2 * np.pi * np.arange(40) / 40
    ring = np.column_stack([np.cos(angles), np.sin(angles)]) * (1 + 0.01 * np.cos(5 * angles))[:, None]
    centred = np.concatenate([ring, [[0.0, 0.0]]])
    assert np.flatnonzero(noise_mask(centred, omega=1.5, n_needed=1)).tolist() == [40]
    assert not noise_mask(centred, omega=1.5, n_needed=1, side="upper")[40]
    square = np.tile([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], (5, 1))
    assert np.flatnonzero(noise_mask(square, omega=1.5, n_needed=5)).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("length", [1, 4, 12, 99])
def test_subset_neighbors_read_from_the_list_are_those_of_a_search(length: int) -> None:
    """Kept rows' neighbours come out the same bits, whether the list holds enough of them or has to be given up."""
    rng = np.random.default_rng(length)
    X = np.concatenate([rng.integers(0, 3, size=(50, 3)).astype(float), rng.normal(size=(50, 3))])
    kept = rng.random(100) < 0.5
    near = Neighborhood.of(X, length)
    for queries, own in ((np.flatnonzero(kept), np.arange(kept.sum())), (np.flatnonzero(~kept), None)):
        distance, row = near.within(queries, kept, 4)
        expected, place = nearest(X[queries], X[kept], 4, skip=own)
        np.testing.assert_array_equal(distance, expected)
        np.testing.assert_array_equal(row, np.flatnonzero(kept)[place])


def test_folds_deal_out_noise_and_targets_evenly() -> None:
    """Every fold has its share of both, each row is in one fold, and the seed alone decides."""
    noise = np.arange(103) % 10 == 0
    folds = inner_folds(noise, 3, np.random.default_rng(0))
    assert sorted(np.bincount(folds[noise]).tolist()) == [3, 4, 4]
    assert sorted(np.bincount(folds[~noise]).tolist()) == [30, 31, 31]
    np.testing.assert_array_equal(folds, inner_folds(noise, 3, np.random.default_rng(0)))
    assert (folds != inner_folds(noise, 3, np.random.default_rng(1))).any()


@pytest.mark.parametrize(("n_folds", "n_noise"), [(2, 5), (5, 5), (7, 7)])
def test_at_least_five_noise_rows_and_one_in_each_fold(n_folds: int, n_noise: int) -> None:
    """max(G, 5) rows: the ring's distances are equal, so that exactly as many as needed are taken."""
    turn = 2 * np.pi * np.arange(1, 101) / 100
    X = np.column_stack([np.cos(turn), np.sin(turn)]).round(1)
    X = np.concatenate([X, -X])
    X = X[np.abs((X**2).sum(axis=1) - 1.0) < 1e-12]  # (+-.6, +-.8) and the like: mean exactly 0, all at distance 1
    assert len(X) >= 40
    noise = noise_mask(X, omega=1.5, n_needed=max(n_folds, 5))
    assert noise.sum() == n_noise
    assert np.bincount(inner_folds(noise, n_folds, np.random.default_rng(0))[noise], minlength=n_folds).min() >= 1
    detector = OCNN(theta="empirical", n_inner_folds=n_folds, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)
        detector.fit(X)
    assert detector.noise_ is not None
    assert detector.noise_.tolist() == noise.tolist()


OPTIONS: list[dict[str, Any]] = [
    {},
    {"n_inner_folds": 3},
    {"floor": 1.0},
    {"train_on_noise": True},
    {"train_on_noise": True, "floor": 1.0, "n_inner_folds": 3},
    {"noise_side": "upper"},
    {"drop_duplicates": True},
    {"drop_duplicates": True, "drop_noise": True, "train_on_noise": True, "noise_side": "upper"},
]


def rings(rng: np.random.Generator, lattice: bool) -> np.ndarray:
    """40 rows, mean 0: near it, on a ring at 4 and on one at 9, so that each option changes what is tuned."""
    turn = rng.uniform(0.0, 2 * np.pi, size=(20, 1))
    radius = np.repeat([0.1, 4.0, 9.0], [2, 15, 3])[:, None] * rng.uniform(0.9, 1.1, size=(20, 1))
    half = radius * np.hstack([np.cos(turn), np.sin(turn)])
    if lattice:
        half = half.round()
    return np.concatenate([half, -half])


@pytest.mark.parametrize("lattice", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_tuned_neighbors_and_theta_equal_the_loop_twin(options: dict[str, Any], lattice: bool) -> None:
    """Algorithms 2, 3 and 4 agree with their printed loops, on the same folds, with ties and duplicates too.

    So do the ratios, by the final training set: all rows, or those that the options keep.
    """
    seed = len(options)
    rng = np.random.default_rng(seed)
    X = rings(rng, lattice)
    detector = OCNN("cv", "cv", "empirical", max_neighbors=4, random_state=seed, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)
        detector.fit(X)
    n_folds, floor = options.get("n_inner_folds", 2), options.get("floor", 0.0)
    numbers = ocnn_loop.distinct(X.tolist()) if options.get("drop_duplicates") else list(range(40))
    assert (len(numbers) < 40) == (lattice and "drop_duplicates" in options)
    rows = X[numbers].tolist()
    noise = ocnn_loop.noise(rows, 5, upper_only=options.get("noise_side") == "upper")
    assert detector.noise_ is not None
    assert np.flatnonzero(detector.noise_).tolist() == [i for i, out in zip(numbers, noise, strict=True) if out]
    folds = inner_folds(np.array(noise), n_folds, np.random.default_rng(seed)).tolist()
    sets = ocnn_loop.fold_sets(rows, noise, folds, options.get("train_on_noise", False))
    pair = ocnn_loop.best_neighbors(sets, [1, 2, 3, 4], [1, 2, 3, 4], floor) or (1, 1)
    assert (detector.n_neighbors_, detector.k_neighbors_) == pair
    theta = ocnn_loop.best_theta(sets, *pair, floor)
    assert detector.theta_ == pytest.approx(1.0 if theta is None else theta, rel=1e-9)
    final = [row for row, out in zip(rows, noise, strict=True) if not (out and options.get("drop_noise"))]
    Z = np.concatenate([rng.normal(size=(10, 2)) * 3.0, X[:3]])
    expected = [ocnn_loop.nn_ratio(z, final, *pair, floor) for z in Z.tolist()]
    np.testing.assert_allclose(detector.nn_ratio(Z), expected, rtol=1e-9)


def test_noise_that_trains_hides_noise_beside_it() -> None:
    """Ten far rows close together find each other once they train, so that no large theta tells them from targets."""
    rng = np.random.default_rng(21)
    X = np.concatenate([rng.normal(size=(80, 2)), [60.0, 0.0] + 0.01 * rng.normal(size=(10, 2))])
    told = {}
    for train_on_noise in (False, True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TuningWarning)
            told[train_on_noise] = OCNN(
                theta="empirical", train_on_noise=train_on_noise, noise_side="upper", random_state=0
            ).fit(X)
    assert told[False].noise_ is not None
    assert told[False].noise_[80:].all()
    assert told[False].theta_ > 10.0  # the far rows are some 100 spacings off all that trains
    assert told[True].theta_ < 3.0


def one_fold(distance: list[list[float]], is_noise: list[bool]) -> Fold:
    """A fold whose training rows all have own mean distance 1 to any K: the ratio is the mean distance to J rows."""
    n_neighbors = len(distance[0])
    row = np.tile(np.arange(n_neighbors), (len(distance), 1))
    return Fold(np.array(distance), row, np.ones((n_neighbors, 3)), np.array(is_noise))


def test_ties_of_neighbors_go_to_the_smallest_j_then_k() -> None:
    """J = 2 and J = 3 are equally good and K is indifferent: (2, 1); the mean over folds decides, not the best fold."""
    # J = 1 accepts all (gmean 0); at J = 2 and 3 the noise row's mean is 1.25, 1.4 and the target's .5
    fold = one_fold([[0.5, 0.5, 0.5], [0.5, 2.0, 1.7]], [False, True])
    grid = np.array([1, 2, 3])
    assert choose_neighbors([fold], j_grid=grid, k_grid=grid, floor=0.0) == (2, 1)
    # one fold gives J = 1 gmean 1 and J = 2, 3 sqrt(.5), the other 0 and 1: means .5 and .85
    mixed = one_fold([[0.5, 0.5, 0.5], [0.5, 2.0, 2.0], [1.5, 1.5, 1.5]], [False, False, True])
    assert choose_neighbors([mixed], j_grid=grid, k_grid=grid, floor=0.0) == (1, 1)
    assert choose_neighbors([mixed, fold], j_grid=grid, k_grid=grid, floor=0.0) == (2, 1)


def test_all_gmeans_zero_give_the_smallest_neighbors_with_a_warning() -> None:
    """Targets on a lattice and noise on it alike: whatever J and K, nothing is told apart, and the user is told so."""
    grid = np.array([1, 2])
    assert (
        choose_neighbors([one_fold([[0.5, 0.5], [0.5, 0.5]], [False, True])], j_grid=grid, k_grid=grid, floor=0.0)
        is None
    )
    X = np.tile([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], (20, 1))
    with pytest.warns(TuningWarning, match="no J and K accept a target and reject a noise row") as caught:
        detector = OCNN("cv", "cv", max_neighbors=3, random_state=0).fit(X)
    assert len(caught) == 1
    assert (detector.n_neighbors_, detector.k_neighbors_) == (1, 1)


@settings(max_examples=60, deadline=None)
@given(
    ratios=st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, 1.5, 2.0, np.inf]), min_size=2, max_size=25),
    data=st.data(),
)
def test_theta_sweep_equals_the_quadratic_loop(ratios: list[float], data: st.DataObject) -> None:
    """Sorting and counting finds the loop's theta among ties, zeros and infinities."""
    is_noise = np.array(data.draw(st.lists(st.booleans(), min_size=len(ratios), max_size=len(ratios))))
    values = np.array(ratios)
    assert choose_theta(values, is_noise) == ocnn_loop.sweep(values[~is_noise].tolist(), values[is_noise].tolist())


def test_theta_by_hand() -> None:
    """Targets .5, .8, 1.2 and noise 1.0, 2.0: candidate 1.2 wins 2 of 3 and 1 of 2, 1.0 wins 2 of 3 and 2 of 2."""
    ratio = np.array([0.5, 0.8, 1.2, 1.0, 2.0])
    assert choose_theta(ratio, np.array([False, False, False, True, True])) == 1.0
    assert choose_theta(np.array([0.0, np.inf, np.inf]), np.array([False, True, True])) is None


def test_inseparable_noise_gives_theta_one_with_a_warning() -> None:
    """Where no threshold accepts a target and rejects noise, theta is 1 and a warning says so."""
    X = np.tile([[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]], (6, 1))
    with pytest.warns(TuningWarning, match="no threshold accepts"):
        detector = OCNN(theta="empirical", random_state=0).fit(X)
    assert detector.theta_ == 1.0


def test_optimum_on_the_edge_of_the_grid_warns() -> None:
    """Noise far out is rejected at any K, so the largest K tried accepts most targets: the user is told."""
    far = 50.0 * np.array([[1.0, 0.0], [-1.0, 0.1], [0.2, 2.0], [0.0, -3.0], [4.0, 4.0], [-5.0, -5.0]])
    X = np.concatenate([np.random.default_rng(5).normal(size=(300, 2)), far])
    with pytest.warns(TuningWarning, match="raise max_neighbors"):
        detector = OCNN(1, "cv", max_neighbors=2, random_state=0).fit(X)
    assert detector.k_neighbors_ == 2


def test_tuning_summary_says_what_fit_settled_on() -> None:
    """theta, J, K and the number of noise rows as plain JSON; none of the last where nothing was tuned."""
    X = np.random.default_rng(6).normal(size=(200, 3))
    detector = OCNN(2, 3, "empirical", random_state=0).fit(X)
    theta = detector.theta_
    assert detector.noise_ is not None
    n_noise = int(detector.noise_.sum())
    assert json.loads(json.dumps(detector.tuning_summary())) == {
        "theta": {"min": theta, "median": theta, "max": theta},
        "n_neighbors": {"2": 1},
        "k_neighbors": {"3": 1},
        "n_noise": {"min": n_noise, "median": n_noise, "max": n_noise},
    }
    assert OCNN().fit(X).tuning_summary()["n_noise"] is None


def test_seed_decides_everything() -> None:
    """Same seed, same bits; a Generator is drawn from and moves on."""
    X = np.random.default_rng(6).normal(size=(200, 3))
    thetas = [OCNN(theta="empirical", random_state=seed).fit(X).theta_ for seed in (0, 0, 1)]
    assert thetas[0] == thetas[1] != thetas[2]
    generator = np.random.default_rng(0)
    moved = [OCNN(theta="empirical", random_state=generator).fit(X).theta_ for _ in range(2)]
    assert moved[0] == thetas[0]
    assert moved[1] != thetas[0]


def test_neighbors_tuned_with_noise_are_found_without_it() -> None:
    """Where folds train on more rows than the final set keeps, J and K tried are those that the final set can give."""
    options: dict[str, Any] = {"omega": 0.0, "n_inner_folds": 10, "train_on_noise": True, "drop_noise": True}
    X = np.random.default_rng(5).normal(size=(20, 2))  # without that limit K = 16 would be best
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TuningWarning)
        detector = OCNN("cv", "cv", max_neighbors=16, random_state=0, **options).fit(X)
    assert detector.noise_ is not None
    assert max(detector.n_neighbors_, detector.k_neighbors_) < 20 - detector.noise_.sum()
