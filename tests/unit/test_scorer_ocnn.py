"""The frozen nearest-neighbour scorer: exact, batch-independent, and strict about what it is built from."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.detectors import OCNN, RandomProjectionEnsemble, RandomSubspaceEnsemble
from stream_occ.errors import ModelError
from stream_occ.projection import draw_projection, draw_subspace, project
from stream_occ.scoring import load_scorer
from stream_occ.scoring.ocnn_ensemble import FrozenScorer
from tests.reference import ocnn_loop


def activity_like(n_rows: int, seed: int, n_features: int = 6) -> np.ndarray:
    """Rows of low intrinsic dimension, with exact duplicates and a constant column."""
    rng = np.random.default_rng(seed)
    X = np.tanh(rng.normal(size=(n_rows, 2)) @ np.random.default_rng(1).normal(size=(2, n_features)))
    X += 0.02 * rng.normal(size=X.shape)
    X[:, 3] = 0.25
    X[n_rows // 2] = X[0]
    return X


def queries(X: np.ndarray, seed: int) -> np.ndarray:
    """Near rows, far ones up to 1e12, and duplicates of training rows."""
    rng = np.random.default_rng(seed)
    near = activity_like(40, seed)
    far = rng.normal(size=(12, X.shape[1])) * np.logspace(0, 12, 12)[:, None]
    return np.concatenate([near, far, X[:5]])


@pytest.mark.parametrize("combine", ["vote", "mean"])
@pytest.mark.parametrize("kind", [RandomProjectionEnsemble, RandomSubspaceEnsemble])
def test_score_is_the_same_bits_in_any_batch(kind: Any, combine: str) -> None:
    """One by one, in sevens, all 300 at once, in another order, among far rows: the same 64 bits."""
    X = activity_like(2500, 1)
    detector = kind(OCNN(3, 2, floor=0.5), n_estimators=5, combine=combine, random_state=0).fit(X)
    scorer = detector.to_scorer()
    Z = np.concatenate([activity_like(270, 2), queries(X, 3)[:30]])
    together = scorer.score(Z)
    assert [scorer.score(z[None])[0] for z in Z] == together.tolist()
    assert np.concatenate([scorer.score(Z[i : i + 7]) for i in range(0, len(Z), 7)]).tolist() == together.tolist()
    order = np.random.default_rng(4).permutation(len(Z))
    assert scorer.score(Z[order]).tolist() == together[order].tolist()
    crowd = np.concatenate([Z, 1e12 * np.ones((50, 6))])
    assert scorer.score(crowd)[: len(Z)].tolist() == together.tolist()
    assert len(set(together.tolist())) > 3


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6), cuts=st.lists(st.integers(1, 56), max_size=4))
def test_score_is_the_same_bits_in_any_cutting(seed: int, cuts: list[int]) -> None:
    """Whatever the batches are cut at, the scores are the same bits."""
    X = activity_like(300, seed)
    scorer = RandomProjectionEnsemble(n_estimators=3, combine="mean", random_state=seed).fit(X).to_scorer()
    Z = queries(X, seed + 1)
    parts = [part for part in np.split(Z, sorted(set(cuts))) if len(part)]
    assert np.concatenate([scorer.score(part) for part in parts]).tolist() == scorer.score(Z).tolist()


@pytest.mark.parametrize(("j", "k", "floor"), [(1, 1, 0.0), (3, 2, 0.0), (4, 4, 2.0)])
def test_ratios_equal_the_loop_twin_in_every_member(j: int, k: int, floor: float) -> None:
    """nn_ratio in each projection is the loop's, for near, far and duplicated rows, on several hundred rows."""
    X = activity_like(320, 5)
    rng = np.random.default_rng(6)
    maps = [draw_projection(6, rng), draw_projection(6, rng)]
    detector = RandomProjectionEnsemble(OCNN(j, k, floor=floor), n_estimators=2, random_state=0).fit(X)
    maps = list(detector.maps_)
    Z = queries(X, 7)[::4]
    ratios = detector.nn_ratio(Z)
    for member, matrix in enumerate(maps):
        rows, mapped = ocnn_loop.mapped(X.tolist(), matrix.tolist()), ocnn_loop.mapped(Z.tolist(), matrix.tolist())
        own = [ocnn_loop.own_distance(rows, number, k) for number in range(len(rows))]
        extra = floor * ocnn_loop.median(own)
        for number, z in enumerate(mapped):
            near = ocnn_loop.neighbors(z, rows, j)
            d_j = math.fsum(d for d, _ in near) / j
            d_k = math.fsum(own[i] for _, i in near) / j + extra
            if d_j < 1e-12:
                assert ratios[number, member] < 1e-9
            elif np.abs(z).max() < 1e4:  # farther out the loop's own rounding decides who is nearest
                assert ratios[number, member] == pytest.approx(d_j / d_k, rel=1e-9)
            else:
                assert ratios[number, member] > 1e3


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e5, 1e12])
@pytest.mark.parametrize("shape", ["activity", "collinear", "offset"])
def test_ratios_equal_a_float64_table(shape: str, scale: float) -> None:
    """The scorer picks the very rows that a full table of fixed-order float64 distances picks, ties by number.

    Collinear rows make most maps nearly singular, offset rows cancel, far rows leave few bits to tell rows apart.
    """
    rng = np.random.default_rng(9)
    X = activity_like(900, 8)
    if shape == "collinear":
        X = rng.normal(size=(900, 1)) * np.arange(1.0, 7.0) + 1e-7 * X
    elif shape == "offset":
        X += 1e5
    detector = RandomProjectionEnsemble(OCNN(2, 1), n_estimators=4, random_state=1).fit(X)
    Z = X[:10] + scale * rng.normal(size=(10, 6))
    for member, matrix in enumerate(detector.maps_):
        mapped, rows = project(Z, matrix), project(X, matrix)
        table = np.add.reduce((mapped[:, None] - rows[None]) ** 2, axis=-1)
        between = np.sqrt(np.add.reduce((rows[:, None] - rows[None]) ** 2, axis=-1))
        np.fill_diagonal(between, np.inf)
        nearest = np.argsort(table, axis=1, kind="stable")[:, :2]
        distance = np.sqrt(np.take_along_axis(table, nearest, axis=1))
        own = between.min(axis=1)[nearest]
        expected = ((distance[:, 0] + distance[:, 1]) / 2) / ((own[:, 0] + own[:, 1]) / 2)
        np.testing.assert_array_equal(detector.nn_ratio(Z)[:, member], expected)


def test_threshold_splits_as_predict_does() -> None:
    """score > score_threshold_ exactly where predict says -1, for every rule, ties of votes included."""
    X = activity_like(400, 10)
    Z = queries(X, 11)
    detectors: list[Any] = [OCNN(theta=0.8).fit(X)]
    detectors += [
        RandomProjectionEnsemble(n_estimators=n_estimators, combine=combine, random_state=0).fit(X)
        for n_estimators in (1, 4, 5)
        for combine in ("vote", "mean")
    ]
    for detector in detectors:
        scores = detector.to_scorer().score(Z)
        predicted = detector.predict(Z)
        assert ((scores > detector.score_threshold_) == (predicted == -1)).all()
        assert set(predicted.tolist()) == {-1, 1}


def test_extreme_rows_are_finite_and_nan_is_refused() -> None:
    """1e308 gives a finite score that rejects; NaN and infinity are refused."""
    X = activity_like(50, 12)
    for combine in ("vote", "mean"):
        detector = RandomProjectionEnsemble(n_estimators=3, combine=combine, random_state=0).fit(X)
        scores = detector.to_scorer().score(np.array([[1e308] * 6, [-1e308] * 6]))
        assert np.isfinite(scores).all()
        assert (scores > detector.score_threshold_).all()
        for bad in (np.nan, np.inf):
            with pytest.raises(ValueError, match="finite"):
                detector.to_scorer().score(np.full((1, 6), bad))


def test_no_rows_give_no_scores() -> None:
    """An empty batch is no error."""
    scorer = OCNN().fit(activity_like(20, 13)).to_scorer()
    assert scorer.score(np.empty((0, 6))).shape == (0,)


def stored(combine: str = "mean") -> tuple[FrozenScorer, dict[str, Any], dict[str, Any]]:
    detector = RandomSubspaceEnsemble(OCNN(2, 3, floor=1.0, drop_noise=True), 3, combine, random_state=0)
    scorer = detector.fit(activity_like(80, 14)).to_scorer()
    return scorer, dict(scorer.arrays()), scorer.params()


def test_arrays_and_params_give_the_same_scorer_back() -> None:
    """Read-only arrays, as memory-mapped ones are, score the same bits; names are found by KIND."""
    scorer, arrays, params = stored()
    for array in arrays.values():
        array.setflags(write=False)
    again = load_scorer(FrozenScorer.KIND, arrays, params)
    Z = activity_like(30, 15)
    assert again.score(Z).tolist() == scorer.score(Z).tolist()
    assert again.n_features == 6


def test_rows_dropped_as_noise_are_never_neighbors() -> None:
    """With drop_noise a noise row itself lies at a distance above 0 from what is kept."""
    rng = np.random.default_rng(16)
    X = np.concatenate([rng.normal(size=(200, 2)), [[50.0, 50.0]]])
    detector = OCNN(drop_noise=True).fit(X)
    assert detector.noise_ is not None
    assert detector.noise_[200]
    assert detector.nn_ratio(X[200:])[0] > 10.0
    assert OCNN().fit(X).nn_ratio(X[200:])[0] == 0.0


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("X", lambda a: a[:, :5].copy(), "maps: must have shape"),
        ("X", lambda a: a.astype(np.float32), "X: must be non-empty float64"),
        ("X", lambda a: a * np.nan, "X: must be finite"),
        ("maps", lambda a: a[0], "maps: must be non-empty float64 with 3 dimensions"),
        ("own_distance", lambda a: a[:, :-1].copy(), "own_distance: must have shape"),
        ("own_distance", lambda a: a * 0.0 - 1.0, "n_neighbors: must be in 1..0"),
        ("n_neighbors", lambda a: a * 0, "n_neighbors: must be in 1.."),
        ("n_neighbors", lambda a: a + 10**6, "n_neighbors: must be in 1.."),
        ("theta", lambda a: a[:2].copy(), "theta: must have shape"),
        ("theta", lambda a: -a, "theta and floor: must be above 0"),
        ("floor", lambda a: a - 1e9, "theta and floor: must be above 0"),
    ],
)
def test_damaged_arrays_are_refused_by_name(name: str, change: Any, said: str) -> None:
    """Each array that does not fit gives one line that names it."""
    _, arrays, params = stored()
    arrays[name] = change(arrays[name])
    with pytest.raises(ModelError, match=said.replace(".", r"\.")):
        FrozenScorer.from_arrays(arrays, params)


def test_missing_arrays_and_unknown_rules_are_refused() -> None:
    """An absent array, an unknown rule, and several members under the rule for one are each refused."""
    _, arrays, params = stored()
    with pytest.raises(ModelError, match="combine"):
        FrozenScorer.from_arrays(arrays, {"combine": "sum"})
    with pytest.raises(ModelError, match="hold one member"):
        FrozenScorer.from_arrays(arrays, {"combine": "single"})
    del arrays["theta"]
    with pytest.raises(ModelError, match="arrays: must be X, floor"):
        FrozenScorer.from_arrays(arrays, params)


def test_projection_rows_are_sparse_unit_and_never_zero() -> None:
    """Entries of a row are 0 or +-c, its length is 1, a third of entries are kept; zero rows are drawn again."""
    rng = np.random.default_rng(17)
    maps = np.stack([draw_projection(8, rng) for _ in range(400)])
    assert np.abs((maps**2).sum(axis=2) - 1.0).max() < 1e-12
    for row in maps[:20].reshape(-1, 8):
        assert len({round(abs(value), 12) for value in row if value != 0.0}) == 1
    share = np.mean(maps != 0.0)  # 1/3 given that a row is not all zero: 1/3 / (1 - (2/3)^8) = .347
    assert share == pytest.approx(1 / 3 / (1 - (2 / 3) ** 8), abs=0.01)
    assert np.mean(maps > 0.0) == pytest.approx(share / 2, abs=0.01)


@pytest.mark.parametrize(
    ("n_features", "share", "n_kept"),
    [(31, 0.5, 16), (31, 0.75, 23), (8, 0.5, 4), (9, 0.5, 5), (2, 0.1, 1), (5, 1.0, 5)],
)
def test_subspace_rounds_half_up_and_repeats_nothing(n_features: int, share: float, n_kept: int) -> None:
    """max(1, round half up) distinct features, each passed on unchanged."""
    selection = draw_subspace(n_features, share, np.random.default_rng(18))
    assert selection.shape == (n_kept, n_features)
    assert selection.sum(axis=0).max() == 1.0
    X = np.random.default_rng(19).normal(size=(4, n_features))
    np.testing.assert_array_equal(project(X, selection), X[:, selection.argmax(axis=1)])
