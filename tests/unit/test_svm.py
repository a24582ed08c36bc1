"""SVDD and the one-class SVM: their dual against other solvers, the radius, ties, and what they refuse."""

import math
import warnings
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import OneClassSVM

from stream_occ.detectors import SVDD, KernelOCSVM, preset, svm
from tests.reference import kernel_baselines_loop as twin


def table(n_rows: int, n_features: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    bent = np.tanh(rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_features)))
    return bent + 0.1 * rng.normal(size=(n_rows, n_features))


def all_alpha(detector: Any, n_rows: int) -> np.ndarray:
    alpha = np.zeros(n_rows)
    alpha[detector.support_] = detector.alpha_
    return alpha


def test_two_rows_by_hand() -> None:
    """Rows 0 and 1, A2 = 1/2: weights 1/2 each, sum at a row (1 + exp(-2)) / 2 = |a|^2 = rho, R^2 = 1 - |a|^2."""
    half = 0.5 * (1.0 + math.exp(-2.0))
    X = [[0.0], [1.0]]
    ball = SVDD().fit(X)
    assert ball.bandwidth_ == 0.5
    assert ball.alpha_.tolist() == [0.5, 0.5]
    assert ball.score_threshold_ == pytest.approx(1.0 - half, rel=1e-14)
    assert ball.score_one([0.5]) == pytest.approx(1.0 - 2.0 * math.exp(-0.5) + half, rel=1e-14)
    assert KernelOCSVM().fit(X).score_one([0.5]) == pytest.approx(half - math.exp(-0.5), rel=1e-14)
    assert ball.predict(X).tolist() == [1, 1]  # on the boundary


@pytest.mark.parametrize(("nu", "bandwidth"), list(product([0.05, 0.2, 0.5], ["rms", "mean", 0.5])))
def test_ball_equals_a_general_solver(nu: float, bandwidth: Any) -> None:
    """SLSQP on SVDD's own dual, max sum alpha K_ii - alpha' K alpha, 12 rows: weights, radius and scores agree."""
    X = table(12, 2, 0)
    rows = X.tolist()
    widths = {"rms": twin.rms_bandwidth, "mean": twin.mean_bandwidth}
    width = widths[bandwidth](rows) if isinstance(bandwidth, str) else bandwidth
    K = np.array([[twin.kernel(a, b, width) for b in rows] for a in rows])
    upper = 1.0 / (nu * 12)
    solved = minimize(
        lambda alpha: alpha @ K @ alpha - np.diag(K) @ alpha,
        np.full(12, 1 / 12),
        jac=lambda alpha: 2.0 * K @ alpha - np.diag(K),
        bounds=[(0.0, min(upper, 1.0))] * 12,
        constraints={"type": "eq", "fun": lambda alpha: alpha.sum() - 1.0, "jac": lambda alpha: np.ones(12)},
        method="SLSQP",
        options={"ftol": 1e-15, "maxiter": 500},
    )
    detector = SVDD(nu, bandwidth).fit(X)
    assert detector.bandwidth_ == pytest.approx(width, rel=1e-8)  # 0 distances of 1e-8 in the mean
    np.testing.assert_allclose(all_alpha(detector, 12), solved.x, atol=1e-5)  # SLSQP's own accuracy
    free = (solved.x > 1e-4) & (solved.x < upper - 1e-4)
    assert free.any()
    Z = [*rows[:3], [0.3, -0.2], [40.0, 0.0]]
    expected = [twin.ball_score(z, rows, solved.x.tolist(), width) for z in Z]
    np.testing.assert_allclose(-detector.score_samples(Z), expected, atol=1e-5)
    radius = twin.ball_score(rows[int(np.flatnonzero(free)[0])], rows, solved.x.tolist(), width)
    assert detector.score_threshold_ == pytest.approx(radius, abs=1e-5)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("nu", [0.05, 0.3, 0.9])
def test_dual_is_solved_and_the_share_is_kept(nu: float, seed: int) -> None:
    """KKT conditions of the loop twin to 1e-10; weights add up to 1; floor(nu N) rows are rejected at most."""
    X = np.concatenate([table(40, 3, seed), table(6, 3, seed)])  # 6 rows of another table, so some far
    detector = SVDD(nu).fit(X)
    alpha, upper = all_alpha(detector, 46), 1.0 / (nu * 46)
    assert alpha.sum() == pytest.approx(1.0, abs=1e-11)
    assert alpha.min() >= 0.0
    assert alpha.max() <= upper
    assert twin.kkt_gap(X.tolist(), alpha.tolist(), upper, detector.bandwidth_) < 1e-10
    assert (detector.predict(X) == -1).sum() <= math.floor(nu * 46)
    on_boundary = (alpha > 0.0) & (alpha < upper)
    assert on_boundary.any()
    scores = -detector.score_samples(X)
    np.testing.assert_allclose(scores[on_boundary], detector.score_threshold_, atol=1e-10)
    assert (detector.predict(X[alpha < upper]) == 1).all()


@pytest.mark.parametrize(("n_rows", "nu"), [(60, 0.1), (200, 0.05), (200, 0.5), (601, 0.05)])
def test_decisions_and_weights_are_those_of_libsvm(n_rows: int, nu: float) -> None:
    """OneClassSVM at gamma = 1 / A2: weights over nu N to LIBSVM's float32, and the same decision off the boundary."""
    X = table(n_rows, 4, 1)
    detector = KernelOCSVM(nu).fit(X)
    other = OneClassSVM(gamma=1.0 / detector.bandwidth_, nu=nu, tol=1e-10).fit(X)
    weights = np.zeros(n_rows)
    weights[other.support_] = other.dual_coef_[0] / (nu * n_rows)
    np.testing.assert_allclose(all_alpha(detector, n_rows), weights, atol=1e-5 / (nu * n_rows))
    Z = np.concatenate([X, 1.3 * table(400, 4, 2), [[50.0] * 4]])
    theirs = other.decision_function(Z) / (nu * n_rows)
    np.testing.assert_allclose(detector.decision_function(Z), theirs, atol=1e-6)
    clear = np.abs(theirs) > 2e-6
    assert clear.sum() > 300
    np.testing.assert_array_equal(detector.predict(Z)[clear], other.predict(Z)[clear])
    assert set(detector.predict(Z).tolist()) == {-1, 1}


@pytest.mark.parametrize(("nu", "bandwidth"), list(product([0.05, 0.5, 1.0], ["rms", "mean", 1e-3, 1e6])))
def test_ball_and_hyperplane_decide_alike(nu: float, bandwidth: Any) -> None:
    """With K_ii = 1 the two duals are one: the same weights, scores tied by score_ball = const + 2 score_plane."""
    X, Z = table(50, 3, 3), 1.5 * table(300, 3, 4)
    ball, plane = SVDD(nu, bandwidth).fit(X), KernelOCSVM(nu, bandwidth).fit(X)
    assert ball.alpha_.tolist() == plane.alpha_.tolist()
    np.testing.assert_allclose(ball.decision_function(Z), 2.0 * plane.decision_function(Z), atol=1e-14)
    clear = np.abs(plane.decision_function(Z)) > 1e-14
    np.testing.assert_array_equal(ball.predict(Z)[clear], plane.predict(Z)[clear])
    np.testing.assert_array_equal(ball.predict(X), plane.predict(X))


def test_radius_without_a_free_support_vector_is_the_middle() -> None:
    """Rows -2, -1, 1, 2, A2 = 10, nu = 1/2: the outer two carry 1/2 each, the bound, so any R^2 between their score and
    the inner rows' solves it; with u = exp(-1/10) the sums are (1 + u^16) / 2 outside and (u + u^9) / 2 inside.
    """
    u = math.exp(-0.1)
    outer, inner = 0.5 * (1.0 + u**16), 0.5 * (u + u**9)
    assert outer < inner
    X = [[-2.0], [-1.0], [1.0], [2.0]]
    ball, plane = SVDD(0.5, 10.0).fit(X), KernelOCSVM(0.5, 10.0).fit(X)
    assert ball.support_.tolist() == [0, 3]
    assert ball.alpha_.tolist() == [0.5, 0.5]
    assert ball.score_threshold_ == pytest.approx(1.0 + outer - (outer + inner), rel=1e-14)
    assert plane.score_one([2.0]) == pytest.approx(0.5 * (inner - outer), rel=1e-12)
    assert ball.predict(X).tolist() == plane.predict(X).tolist() == [-1, 1, 1, -1]


def test_all_rows_at_the_bound_accept_the_innermost() -> None:
    """nu = 1: weights 1/N, a kernel density, whose threshold is the best training row's."""
    X = table(30, 2, 5)
    detector = SVDD(1.0).fit(X)
    assert detector.alpha_ == pytest.approx(np.full(30, 1 / 30), rel=1e-12)
    scores = -detector.score_samples(X)
    assert detector.score_threshold_ == scores.min()
    assert (detector.predict(X) == 1).sum() == 1


@pytest.mark.parametrize("make", [SVDD, KernelOCSVM])
def test_duplicates_constant_columns_and_far_rows(make: Any) -> None:
    """Doubled rows and a constant column leave decisions as they were; far rows are outliers; no warning leaks."""
    X, Z = table(40, 3, 6), table(60, 3, 7)
    single, double = make(0.1).fit(X), make(0.1).fit(np.repeat(X, 2, axis=0))
    np.testing.assert_allclose(single.decision_function(Z), double.decision_function(Z), atol=1e-9)
    with_constant = make(0.1).fit(np.column_stack([X, np.full(40, 5.0)]))
    changed = with_constant.decision_function(np.column_stack([Z, np.full(60, 5.0)]))
    np.testing.assert_allclose(single.decision_function(Z), changed, atol=1e-9)
    assert set(single.predict(Z).tolist()) == {-1, 1}
    far = np.array([[1e4, 0.0, 0.0], [0.0, -1e12, 0.0], [1e300] * 3])
    for bandwidth in ("rms", "mean", 1e-6, 1e3):
        assert (make(0.05, bandwidth).fit(X).predict(far) == -1).all()


@pytest.mark.parametrize("make", [SVDD, KernelOCSVM])
def test_order_layout_and_type_of_the_input(make: Any) -> None:
    """Shuffled rows give the same ball; float32, Fortran order and read-only arrays the same bits."""
    X = table(60, 3, 8).astype(np.float32)
    plain = make().fit(X.astype(np.float64))
    read_only = X.astype(np.float64)
    read_only.setflags(write=False)
    for other in (X, np.asfortranarray(X), read_only):
        assert make().fit(other).score_samples(other).tolist() == plain.score_samples(X).tolist()
    shuffled = make().fit(X[::-1])
    np.testing.assert_allclose(shuffled.decision_function(X), plain.decision_function(X), atol=1e-9)


def test_scorer_keeps_support_vectors_alone() -> None:
    """The stored points are the rows with weight, copied: writing into X changes no score."""
    X = table(80, 3, 9)
    detector = SVDD().fit(X)
    points = detector.to_scorer().arrays()["points"]
    assert points.tolist() == X[detector.support_].tolist()
    assert 2 <= len(points) < 40
    rows = X[:5].copy()
    before = detector.score_samples(rows).tolist()
    X[:] = 0.0
    assert detector.score_samples(rows).tolist() == before


def test_full_cache_changes_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    """With room for two kernel rows the weights are the same."""
    X = table(80, 3, 13)
    roomy = SVDD(0.3).fit(X)
    monkeypatch.setattr(svm, "_CACHED_NUMBERS", 1)
    assert SVDD(0.3).fit(X).alpha_.tolist() == roomy.alpha_.tolist()


def test_solver_that_runs_out_of_steps_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unsolved dual is a ConvergenceWarning, never silence."""
    monkeypatch.setattr(svm, "_STEPS_A_ROW", 0)
    with pytest.warns(ConvergenceWarning, match="not solved after 0 steps a row"):
        SVDD().fit(table(20, 2, 10))


@pytest.mark.parametrize("bandwidth", ["rms", 1e-4, 1e-100, 1e12, 1e60])
def test_no_warning_whatever_the_bandwidth(bandwidth: Any) -> None:
    """From kernels that are 0 off the diagonal to ones that are 1 everywhere the solver ends, silently."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for nu in (1e-6, 0.05, 0.37, 1.0):
            detector = SVDD(nu, bandwidth).fit(table(100, 3, 11))
            assert np.isfinite(detector.score_samples(table(5, 3, 12))).all()


@pytest.mark.parametrize("make", [SVDD, KernelOCSVM])
@pytest.mark.parametrize(
    ("given", "X", "said"),
    [
        ({"nu": 0.0}, np.eye(3), "nu must be a number in \\(0, 1\\]; got 0.0"),
        ({"nu": 1.5}, np.eye(3), "nu must be"),
        ({"nu": True}, np.eye(3), "nu must be"),
        ({"bandwidth": -1.0}, np.eye(3), "bandwidth must be"),
        ({"bandwidth": "scale"}, np.eye(3), 'bandwidth must be "rms", "mean".*got \'scale\''),
        ({}, np.ones((1, 2)), "minimum of 2 is required"),
        ({}, np.ones((4, 2)), "at least two distinct rows; got 4 identical ones, of bandwidth 0"),
        ({}, np.array([[0.0], [np.inf]]), "infinity"),
    ],
)
def test_bad_parameters_and_rows_are_named(make: Any, given: dict[str, Any], X: np.ndarray, said: str) -> None:
    """One line that says what must hold and what came."""
    with pytest.raises(ValueError, match=said):
        make(**given).fit(X)


def test_presets_are_the_papers() -> None:
    """5 % rejected, one kernel width for both, z-scored features, thresholds of their own."""
    for name, kind in (("SVDD", SVDD), ("OCSVM", KernelOCSVM)):
        made = preset(name)
        assert type(made) is kind
        assert (made.nu, made.bandwidth) == (0.05, "rms")
        assert made.decides_by_itself
    assert svm.SCALING == "z-score"
