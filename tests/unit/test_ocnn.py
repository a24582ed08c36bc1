"""OCNN: ratios by hand and by the loop twin, the relations between its variants, and what it refuses."""

import re
import warnings
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.detectors import OCNN, TuningWarning, fit_scaler
from tests.reference import ocnn_loop

# ---------------------------------------------------------------- nn_ratio


def test_ratio_by_hand() -> None:
    """Rows 0, 1, 3, 7 and z = 4: nearest is 3 at 1, whose own nearest is 1 at 2; further numbers likewise."""
    X = np.array([[0.0], [1.0], [3.0], [7.0]])
    z = [[4.0]]
    assert OCNN().fit(X).nn_ratio(z).tolist() == [0.5]
    # J = 2: rows 3 (at 1) and 1 (at 3, before 7 at 3 by number): D_J = 2; own nearest: 2 and 1, D_K = 1.5
    assert OCNN(n_neighbors=2).fit(X).nn_ratio(z)[0] == pytest.approx(2 / 1.5, rel=1e-15)
    # K = 2: row 3's two nearest are at 2 and 3: D_K = 2.5
    assert OCNN(k_neighbors=2).fit(X).nn_ratio(z)[0] == pytest.approx(1 / 2.5, rel=1e-15)
    # own nearest distances are 1, 1, 2, 4, median 1.5: denominator 2 + 2 * 1.5
    assert OCNN(floor=2.0).fit(X).nn_ratio(z)[0] == pytest.approx(1 / 5, rel=1e-15)


def test_zero_over_zero_is_accepted_and_x_over_zero_is_infinite() -> None:
    """Among duplicates: a further duplicate has ratio 0, any other row near them +inf, published as 1e300."""
    X = np.array([[0.0], [0.0], [10.0]])
    detector = OCNN().fit(X)
    assert detector.nn_ratio([[0.0], [0.1]]).tolist() == [0.0, np.inf]
    assert detector.predict([[0.0], [0.1]]).tolist() == [1, -1]
    assert detector.score_samples([[0.1]]).tolist() == [-1e300]


def test_floor_uses_positive_distances_where_most_are_zero() -> None:
    """Own distances 0, 0, 0, 0, 6, 4, 4: median 0, so of the positive ones: 4."""
    X = np.array([[0.0], [0.0], [1.0], [1.0], [7.0], [20.0], [24.0]])
    own = sorted(ocnn_loop.own_distance(X.tolist(), i, 1) for i in range(7))
    assert own == [0.0, 0.0, 0.0, 0.0, 4.0, 4.0, 6.0]
    assert OCNN(floor=1.0).fit(X).nn_ratio([[0.25]])[0] == pytest.approx(0.25 / 4.0, rel=1e-15)


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    n_rows=st.integers(8, 40),
    j=st.integers(1, 5),
    k=st.integers(1, 5),
    floor=st.sampled_from([0.0, 0.5, 10.0]),
    lattice=st.booleans(),
)
def test_ratio_equals_the_loop_twin(seed: int, n_rows: int, j: int, k: int, floor: float, lattice: bool) -> None:
    """To 1e-9 on continuous rows and on a lattice full of duplicates and ties."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 3, size=(n_rows, 3)).astype(float) if lattice else rng.normal(size=(n_rows, 3))
    X[:, 1] = X[0, 1]  # a constant column
    X[0, 0] += 1.0
    Z = np.concatenate([X[:3], rng.integers(-1, 4, size=(4, 3)).astype(float)])
    ratios = OCNN(j, k, floor=floor).fit(X).nn_ratio(Z)
    expected = [ocnn_loop.nn_ratio(z, X.tolist(), j, k, floor) for z in Z.tolist()]
    np.testing.assert_allclose(ratios, expected, rtol=1e-9)


def test_tie_at_theta_is_an_outlier() -> None:
    """A row exactly at theta is rejected and the next float below is not: offset_ = -nextafter(theta, -inf)."""
    X = np.arange(10.0)[:, None]
    detector = OCNN(theta=0.5).fit(X)
    assert detector.nn_ratio([[4.5]]).tolist() == [0.5]
    assert detector.predict([[4.5]]).tolist() == [-1]
    assert OCNN(theta=np.nextafter(0.5, 1)).fit(X).predict([[4.5]]).tolist() == [1]
    assert detector.offset_ == -np.nextafter(0.5, 0.0)


def test_row_that_defines_theta_is_rejected_whatever_the_rounding() -> None:
    """theta = a row's own ratio rejects it, always; the product form D_J < theta D_K would accept some by rounding."""
    rng = np.random.default_rng(20)
    X, Z = rng.normal(size=(25, 2)), rng.normal(size=(150, 2))
    ratios = OCNN().fit(X).nn_ratio(Z)
    rejected = [OCNN(theta=ratio).fit(X).predict(z[None])[0] == -1 for z, ratio in zip(Z, ratios, strict=True)]
    assert all(rejected)
    near = [ocnn_loop.neighbors(z, X.tolist(), 1)[0] for z in Z.tolist()]
    d_k = np.array([ocnn_loop.own_distance(X.tolist(), row, 1) for _, row in near])
    d_j = np.array([distance for distance, _ in near])
    assert (d_j < d_j / d_k * d_k).any()


def test_sign_table() -> None:
    """score_samples and decision_function are high for normal rows, score_one and the scorer for abnormal ones."""
    X = np.random.default_rng(0).normal(size=(100, 2))
    detector = OCNN(3, 3).fit(X)
    normal, abnormal = np.zeros((1, 2)), np.full((1, 2), 9.0)
    assert detector.score_samples(normal) > detector.score_samples(abnormal)
    assert detector.decision_function(normal) >= 0 > detector.decision_function(abnormal)
    assert detector.score_one(normal[0]) <= detector.score_threshold_ < detector.score_one(abnormal[0])
    np.testing.assert_array_equal(detector.score_samples(abnormal), -detector.nn_ratio(abnormal))
    np.testing.assert_array_equal(
        detector.decision_function(abnormal), detector.score_samples(abnormal) - detector.offset_
    )


def test_score_one_reads_mappings() -> None:
    """A mapping in its own order, or by the names seen in fit; a missing name is told."""
    pandas = pytest.importorskip("pandas")
    X = np.random.default_rng(1).normal(size=(30, 2))
    detector = OCNN().fit(X)
    assert detector.score_one({"b": 1.0, "a": 2.0}) == detector.score_one([1.0, 2.0])
    named = OCNN().fit(pandas.DataFrame(X, columns=["a", "b"]))
    assert named.score_one({"b": 1.0, "a": 2.0}) == detector.score_one([2.0, 1.0])
    with pytest.raises(ValueError, match="missing b"):
        named.score_one({"a": 2.0})


# ---------------------------------------------------------------- relations between the variants (paper, section 3.2)


@pytest.fixture(scope="module")
def blob() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    X = rng.normal(size=(300, 4)) * [1.0, 2.0, 0.5, 1.0]
    return X, rng.normal(size=(200, 4)) * [2.0, 3.0, 1.0, 2.0]


def accepted(detector: OCNN, data: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    mask: np.ndarray = detector.fit(data[0]).predict(data[1]) == 1
    return mask


def test_larger_theta_accepts_a_superset(blob: Any) -> None:
    """theta below 1 rejects more, above 1 accepts more, of the same rows."""
    masks = [accepted(OCNN(theta=theta), blob) for theta in (0.5, 0.8, 1.0, 1.3, 3.0)]
    for smaller, larger in pairwise(masks):
        assert (larger | ~smaller).all()
        assert larger.sum() > smaller.sum()


def test_larger_k_accepts_a_superset(blob: Any) -> None:
    """Own mean distances grow with K and neighbours stay the same: 1KNN accepts all that 11NN does."""
    masks = [accepted(OCNN(3, k), blob) for k in (1, 2, 5, 10)]
    for smaller, larger in pairwise(masks):
        assert (larger | ~smaller).all()
        assert larger.sum() > smaller.sum()


def test_large_j_at_theta_one_rejects_nearly_all(blob: Any) -> None:
    """J far above K acts as a theta below 1: it rejects more. (Section 3.2 of the paper says accepts; it is wrong.)"""
    shares = [accepted(OCNN(j, 1), blob).mean() for j in (1, 3, 10, 40)]
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.02 < shares[0]


def test_jknn_with_grid_one_is_11nn(blob: Any) -> None:
    """Algorithm 3 over J, K in 1..1 leaves 11NN, and scaling theta is scaling the ratio."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tuned = OCNN("cv", "cv", max_neighbors=1, random_state=0).fit(blob[0])
    np.testing.assert_array_equal(tuned.nn_ratio(blob[1]), OCNN().fit(blob[0]).nn_ratio(blob[1]))
    ratio = OCNN().fit(blob[0]).nn_ratio(blob[1])
    np.testing.assert_array_equal(accepted(OCNN(theta=2.0), blob), ratio / 2.0 < 1.0)


def test_floor_lowers_the_ratio_and_a_large_one_orders_as_the_distance(blob: Any) -> None:
    """From the paper's ratio at 0 to the mean distance to J neighbours at a large floor."""
    X, Z = blob
    ratios = [OCNN(3, 3, floor=floor).fit(X).nn_ratio(Z) for floor in (0.0, 0.5, 2.0)]
    assert (ratios[0] > ratios[1]).all()
    assert (ratios[1] > ratios[2]).all()
    distance = np.sort(np.linalg.norm(Z[:, None] - X[None], axis=2), axis=1)[:, :3].mean(axis=1)
    far = OCNN(3, 3, floor=1e9).fit(X).nn_ratio(Z)
    np.testing.assert_allclose(far / far[0], distance / distance[0], rtol=1e-6)


@pytest.mark.parametrize("scale", [0.25, 4.0, 1024.0])
def test_common_scale_changes_no_bit(blob: Any, scale: float) -> None:
    """A ratio of distances has no unit: scaling by a power of two is exact."""
    X, Z = blob
    np.testing.assert_array_equal(OCNN(2, 3).fit(scale * X).nn_ratio(scale * Z), OCNN(2, 3).fit(X).nn_ratio(Z))


def test_order_of_rows_shift_and_rotation_change_nothing(blob: Any) -> None:
    """Distances alone matter; rounding of the moved rows is the tolerance."""
    X, Z = blob
    expected = OCNN(2, 3).fit(X).nn_ratio(Z)
    rng = np.random.default_rng(3)
    np.testing.assert_allclose(OCNN(2, 3).fit(rng.permutation(X)).nn_ratio(Z), expected, rtol=1e-12)
    np.testing.assert_allclose(OCNN(2, 3).fit(X + 5.0).nn_ratio(Z + 5.0), expected, rtol=1e-9)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    np.testing.assert_allclose(OCNN(2, 3).fit(X @ turn).nn_ratio(Z @ turn), expected, rtol=1e-9)


def test_memory_layout_dtype_and_read_only_arrays_change_nothing(blob: Any) -> None:
    """Fortran order, read-only and float32 inputs give what the same numbers in plain float64 give."""
    X, Z = (array.astype(np.float32) for array in blob)
    expected = OCNN(2, 2).fit(X.astype(np.float64)).nn_ratio(Z.astype(np.float64))
    frozen = np.asfortranarray(X.astype(np.float64))
    frozen.setflags(write=False)
    np.testing.assert_array_equal(OCNN(2, 2).fit(X).nn_ratio(Z), expected)
    np.testing.assert_array_equal(OCNN(2, 2).fit(frozen).nn_ratio(np.asfortranarray(Z, dtype=float)), expected)
    assert OCNN(2, 2).fit(X).nn_ratio(Z[:1]).tolist() == expected[:1].tolist()


def test_fit_keeps_its_own_copy_of_the_rows(blob: Any) -> None:
    """Overwriting the array after fit changes no score."""
    X, Z = blob[0].copy(), blob[1]
    detector = OCNN().fit(X)
    expected = detector.nn_ratio(Z)
    X[:] = 0.0
    np.testing.assert_array_equal(detector.nn_ratio(Z), expected)


def test_repeated_rows_are_kept_once() -> None:
    """Rows given three times: by default each is its own neighbour at 0, dropped the ratios are those of one copy."""
    X = np.random.default_rng(22).normal(size=(40, 3))
    Z = np.random.default_rng(23).normal(size=(20, 3))
    repeated = np.concatenate([X, X, X])
    assert np.isinf(OCNN().fit(repeated).nn_ratio(Z)).all()
    for parameters in ({}, {"n_neighbors": 3, "k_neighbors": 2, "floor": 1.0}, {"theta": "empirical"}):
        once = OCNN(**parameters, random_state=0).fit(X)
        dropped = OCNN(**parameters, random_state=0, drop_duplicates=True).fit(repeated)
        np.testing.assert_array_equal(dropped.nn_ratio(Z), once.nn_ratio(Z))
        assert dropped.theta_ == once.theta_
    assert dropped.noise_ is not None
    assert dropped.noise_.shape == (120,)
    assert not dropped.noise_[40:].any()
    with pytest.raises(ValueError, match="at least 41 distinct rows"):
        OCNN(k_neighbors=40, drop_duplicates=True).fit(repeated)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        ({"n_neighbors": 0}, "n_neighbors must be an int >= 1"),
        ({"k_neighbors": 1.5}, "k_neighbors must be an int >= 1"),
        ({"n_neighbors": True}, "n_neighbors must be an int >= 1"),
        ({"k_neighbors": "best"}, 'k_neighbors must be an int >= 1 or "cv"'),
        ({"theta": 0.0}, "theta must be a finite number > 0"),
        ({"theta": np.nan}, "theta must be a finite number > 0"),
        ({"theta": "best"}, "theta must be"),
        ({"floor": -1.0}, "floor must be"),
        ({"floor": np.inf}, "floor must be"),
        ({"omega": -0.1}, "omega must be"),
        ({"max_neighbors": 0}, "max_neighbors must be"),
        ({"n_inner_folds": 1}, "n_inner_folds must be"),
        ({"noise_side": "lower"}, 'noise_side must be "both" or "upper"'),
        ({"random_state": "abc", "theta": "empirical"}, "random_state must be a whole number"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], said: str) -> None:
    """fit names the parameter, what it must be and what came."""
    with pytest.raises(ValueError, match=re.escape(said)):
        OCNN(**parameters).fit(np.random.default_rng(0).normal(size=(30, 2)))


@pytest.mark.parametrize(
    ("parameters", "X", "said"),
    [
        ({}, np.ones((20, 3)), "at least two distinct rows"),
        ({"k_neighbors": 5}, np.arange(5.0)[:, None], "at least 6 rows"),
        ({"n_neighbors": 7}, np.arange(6.0)[:, None], "at least 7 rows"),
        ({"theta": "empirical"}, np.arange(7.0)[:, None], "X has too few rows: 7 rows"),
        ({"theta": "empirical", "n_inner_folds": 5}, np.arange(8.0)[:, None], "and 5 targets"),
        ({"k_neighbors": 3, "drop_duplicates": True}, np.arange(9.0)[:, None] // 3, "at least 4 distinct rows"),
        ({"n_neighbors": "cv", "k_neighbors": 9}, np.arange(18.0)[:, None], "at least 10 are needed"),
        # ten folds need ten noise rows: of 20 rows 18 train in a fold, but 10 in the end, and K = 12 needs 13
        (
            {"theta": "empirical", "k_neighbors": 12, "n_inner_folds": 10, "train_on_noise": True, "drop_noise": True},
            np.arange(20.0)[:, None],
            "leave 10 to train on",
        ),
        ({}, np.array([[1e200], [0.0]]), "within +-1e100"),
        ({}, np.array([[np.nan], [0.0]]), "NaN"),
        ({}, np.zeros((1, 2)), "minimum of 2"),
    ],
)
def test_degenerate_rows_are_refused(parameters: dict[str, Any], X: np.ndarray, said: str) -> None:
    """Identical rows, too few rows, absurd or missing values each have their own message."""
    with pytest.raises(ValueError, match=re.escape(said)):
        OCNN(**parameters).fit(X)


# ---------------------------------------------------------------- a table of the paper


def yeast6(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels (True = outlier) of the KEEL table, constant columns dropped."""
    [path] = folder.joinpath("tables").rglob("yeast6.dat")
    lines = [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("@")]
    cells = [line.replace(" ", "").split(",") for line in lines]
    X = np.array([row[:-1] for row in cells], dtype=float)
    return X[:, np.ptp(X, axis=0) > 0.0], np.array([row[-1] == "positive" for row in cells])


@pytest.mark.slow
def test_yeast6_accept_rates_are_near_the_known_ones(shared_data: Path) -> None:
    """Held-out accept rates of targets: J1NN at J = 1, 3, 5, 10 and the tuned rules, near two independent programs.

    J = 1, 3, 5, 10 at K = 1: .46 .18 .02 .00; 11NN(theta) TPR .862, TNR .162; JKNN .825, .229 (the paper prints
    .823, .200 and .806, .228). Folds differ, so the tolerance is wide.
    """
    X, y = yeast6(shared_data)
    assert (len(y), int(y.sum())) == (1484, 35)
    detectors = [OCNN(j) for j in (1, 3, 5, 10)]
    detectors += [OCNN(theta="empirical", random_state=0), OCNN("cv", "cv", random_state=0)]
    fold = np.random.default_rng(0).permutation(np.arange(len(X)) % 5)
    rates = []
    for number in range(5):
        scaler = fit_scaler(X[(fold != number) & ~y], "min-max")
        train = scaler.transform(X[(fold != number) & ~y])
        normal, outlier = scaler.transform(X[(fold == number) & ~y]), scaler.transform(X[(fold == number) & y])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", TuningWarning)
            fitted = [detector.fit(train) for detector in detectors]
        rates.append([((d.predict(normal) == 1).mean(), (d.predict(outlier) == -1).mean()) for d in fitted])
    tpr, tnr = np.mean(rates, axis=0).T
    np.testing.assert_allclose(tpr[:4], [0.46, 0.18, 0.02, 0.0], atol=0.06)
    np.testing.assert_allclose(tpr[4:], [0.862, 0.825], atol=0.08)
    np.testing.assert_allclose(tnr[4:], [0.162, 0.229], atol=0.12)
