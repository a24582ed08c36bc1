"""Kernel PCA: two printed forms of the error, what its scores add up to, its threshold, and what it refuses."""

import math
from typing import Any

import numpy as np
import pytest

from stream_occ.detectors import KernelPCANovelty, preset
from stream_occ.detectors.kernel_pca import SCALING
from tests.reference import kernel_baselines_loop as twin


def table(n_rows: int, n_features: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    bent = np.tanh(rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_features)))
    return bent + 0.1 * rng.normal(size=(n_rows, n_features))


def queries(X: np.ndarray, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.concatenate([X[:4], X[:4] + 0.3 * rng.normal(size=(4, X.shape[1])), [np.full(X.shape[1], 30.0)]])


def test_two_rows_by_hand() -> None:
    """Rows 0 and 1, A2 = 1/2 of all four squared distances: k = exp(-2), one component keeps all: E = 0 in-sample.

    For x = 1/2 both kernels are exp(-1/2), so the projection on the one direction is 0 and
    E = 1 - 2 exp(-1/2) + (1 + exp(-2)) / 2.
    """
    detector = KernelPCANovelty().fit([[0.0], [1.0]])
    assert detector.bandwidth_ == 0.5
    assert detector.n_components_ == 1
    np.testing.assert_allclose(detector.eigenvalues_, [1.0 - math.exp(-2.0), 0.0], atol=1e-15)
    errors = -detector.score_samples([[0.0], [1.0], [0.5]])
    expected = 1.0 - 2.0 * math.exp(-0.5) + 0.5 * (1.0 + math.exp(-2.0))
    np.testing.assert_allclose(errors, [0.0, 0.0, expected], atol=1e-15)


@pytest.mark.parametrize(("bandwidth", "share"), [("rms", 0.85), ("rms", 0.9), ("mean", 0.95), (3.0, 0.95)])
def test_errors_equal_both_printed_forms(bandwidth: Any, share: float) -> None:
    """Hoffmann's recerr and the centred-kernel form give the detector's error to 1e-9, for rows in, near and far."""
    X = table(30, 4, 0)
    detector = KernelPCANovelty(variance=share, bandwidth=bandwidth).fit(X)
    rows = X.tolist()
    widths = {"rms": twin.rms_bandwidth, "mean": twin.mean_bandwidth}
    width = widths[bandwidth](rows) if isinstance(bandwidth, str) else bandwidth
    q = twin.n_components(twin.centered_eigen(rows, width)[0], share)
    assert detector.n_components_ == q
    Z = queries(X, 1)
    errors = -detector.score_samples(Z)
    np.testing.assert_allclose(errors, [twin.recerr(z, rows, width, q) for z in Z.tolist()], rtol=0, atol=1e-9)
    np.testing.assert_allclose(errors, [twin.centered_form(z, rows, width, q) for z in Z.tolist()], rtol=0, atol=1e-9)


@pytest.mark.parametrize("n_components", [1, 3, 10])
def test_training_errors_add_up_to_the_eigenvalues_left_out(n_components: int) -> None:
    """sum_i E(x_i) = trace of the centred kernel minus the q leading eigenvalues."""
    X = table(60, 3, 2)
    detector = KernelPCANovelty(n_components).fit(X)
    values = twin.centered_eigen(X.tolist(), twin.rms_bandwidth(X.tolist()))[0]
    assert -detector.score_samples(X).sum() == pytest.approx(math.fsum(values[n_components:]), abs=1e-10)


@pytest.mark.parametrize(
    ("n_rows", "eta", "n_rejected"), [(40, 0.05, 2), (39, 0.05, 1), (19, 0.05, 0), (100, 0.29, 29)]
)
def test_at_most_the_share_of_training_rows_is_rejected(n_rows: int, eta: float, n_rejected: int) -> None:
    """floor(eta N) rows lie above the threshold, which is the next row's error."""
    X = table(n_rows, 3, 3)
    detector = KernelPCANovelty(eta=eta).fit(X)
    assert (detector.predict(X) == -1).sum() == n_rejected
    assert -np.sort(detector.score_samples(X))[n_rejected] == detector.score_threshold_


@pytest.mark.parametrize("seed", range(8))
def test_threshold_below_one_and_far_rows_above_it(seed: int) -> None:
    """With variance >= 1 - eta, the proof in the docstring holds on tables with far training rows too."""
    rng = np.random.default_rng(seed)
    X = np.concatenate([table(40, 3, seed), 20.0 * rng.normal(size=(rng.integers(0, 4), 3))])
    detector = KernelPCANovelty(bandwidth=rng.choice([0.5, 5.0, 50.0])).fit(X)
    assert detector.score_threshold_ < 1.0
    far = np.array([[1e4, 0.0, 0.0], [0.0, -1e9, 0.0], [1e300, 1e300, 1e300]])
    assert (-detector.score_samples(far) >= 1.0).all()
    assert (detector.predict(far) == -1).all()


def test_full_variance_keeps_the_span() -> None:
    """variance = 1 rebuilds every training row, duplicates and a constant column included."""
    X = np.repeat(table(12, 2, 4), 2, axis=0)
    X = np.column_stack([X, np.full(len(X), 7.0)])
    detector = KernelPCANovelty(variance=1.0).fit(X)
    assert detector.n_components_ == 11  # 12 distinct rows, centred
    assert np.abs(detector.score_samples(X)).max() < 1e-9


def test_landmarks_span_the_directions_and_all_rows_set_the_threshold() -> None:
    """Errors are Hoffmann's for the drawn rows; the bandwidth and the share rejected are those of all 60 rows."""
    X = table(60, 3, 8)
    detector = KernelPCANovelty(n_landmarks=20, random_state=1).fit(X)
    drawn = np.sort(np.random.default_rng(1).choice(60, 20, replace=False))
    rows, width = X[drawn].tolist(), twin.rms_bandwidth(X.tolist())
    assert detector.bandwidth_ == pytest.approx(width, rel=1e-12)
    q = twin.n_components(twin.centered_eigen(rows, width)[0], 0.95)
    errors = [twin.recerr(x, rows, width, q) for x in X.tolist()]
    np.testing.assert_allclose(-detector.score_samples(X), errors, rtol=0, atol=1e-9)
    assert detector.score_threshold_ == pytest.approx(sorted(errors)[-4], abs=1e-9)  # 3 of 60 are above it
    assert (detector.predict(X) == -1).sum() == 3
    assert detector.to_scorer().arrays()["points"].shape == (20, 3)


def test_seed_decides_the_landmarks() -> None:
    """The same seed gives the same bits, another seed other ones; with as many landmarks as rows the fit is exact."""
    X = table(50, 3, 9)
    scores = [
        KernelPCANovelty(n_landmarks=10, random_state=seed).fit(X).score_samples(X).tolist() for seed in (3, 3, 4)
    ]
    assert scores[0] == scores[1] != scores[2]
    exact = KernelPCANovelty().fit(X).score_samples(X).tolist()
    assert KernelPCANovelty(n_landmarks=50, random_state=3).fit(X).score_samples(X).tolist() == exact


def test_more_rows_than_an_exact_fit_takes() -> None:
    """15,001 rows, of which an exact fit is refused, are fitted on landmarks; a row far from all is an outlier."""
    X = np.random.default_rng(0).normal(size=(15_001, 2))
    detector = KernelPCANovelty(n_landmarks=50, random_state=0).fit(X)
    assert (detector.predict(X) == -1).sum() == 750  # floor(0.05 * 15,001)
    assert detector.predict([[0.0, 0.0], [1e6, 0.0]]).tolist() == [1, -1]


def test_layout_and_type_of_the_input_change_nothing() -> None:
    """float32, Fortran order and read-only arrays score as the same numbers in a plain array; the input is kept."""
    X = table(30, 3, 5).astype(np.float32)
    plain = KernelPCANovelty().fit(X.astype(np.float64))
    read_only = X.astype(np.float64)
    read_only.setflags(write=False)
    for other in (X, np.asfortranarray(X), read_only):
        again = KernelPCANovelty().fit(other)
        assert again.score_samples(other).tolist() == plain.score_samples(X).tolist()
        assert again.score_threshold_ == plain.score_threshold_


def test_scorer_keeps_its_own_rows() -> None:
    """Writing into X after fit changes no score."""
    X = table(20, 3, 6)
    detector = KernelPCANovelty().fit(X)
    before = detector.score_samples(X[:5].copy()).tolist()
    rows = X[:5].copy()
    X[:] = 0.0
    assert detector.score_samples(rows).tolist() == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"n_components": 0}, "n_components must be an int >= 1 or None; got 0"),
        ({"n_components": 30}, "n_components must be at most 9, what X spans; got 30"),
        ({"variance": 0.0}, "variance must be a number in \\(0, 1\\]; got 0.0"),
        ({"variance": True}, "variance must be"),
        ({"eta": 1.0}, "eta must be a number in \\[0, 1\\); got 1.0"),
        ({"bandwidth": "median"}, 'bandwidth must be "rms", "mean" or a finite number >= 1e-100; got \'median\''),
        ({"bandwidth": 0.0}, "bandwidth must be"),
        ({"n_landmarks": 1}, "n_landmarks must be None or an int >= 2; got 1"),
        ({"n_landmarks": 2.5}, "n_landmarks must be None or an int >= 2; got 2.5"),
        ({"bandwidth": np.inf}, "bandwidth must be"),
        ({"bandwidth": 1e40}, "bandwidth must be small enough to tell rows apart; got 1e\\+40"),
    ],
)
def test_bad_parameters_are_named(given: dict[str, Any], said: str) -> None:
    """Each parameter that is off gives one line with its name and what came."""
    with pytest.raises(ValueError, match=said):
        KernelPCANovelty(**given).fit(table(10, 2, 7))


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (np.ones((1, 2)), "minimum of 2 is required"),
        (np.ones((5, 2)), "at least two distinct rows; got 5 identical ones, of bandwidth 0"),
        (np.array([[0.0], [1e101]]), "must lie within"),
        (np.array([[0.0], [1e-60]]), "must have a bandwidth >= 1e-100; got 5e-121"),
        (np.array([[0.0], [np.nan]]), "NaN"),
        (np.arange(15_001.0)[:, None], "at most 15000 rows; got 15001. Set n_landmarks, e.g. 1000"),
    ],
)
def test_unusable_rows_are_refused(X: np.ndarray, said: str) -> None:
    """One row, identical rows, and rows whose squares leave floating point each have their message."""
    with pytest.raises(ValueError, match=said):
        KernelPCANovelty().fit(X)


def test_preset_is_the_papers() -> None:
    """95 % of the variance, 5 % rejected, z-scored features, a threshold of its own."""
    made = preset("KPCA")
    assert (made.n_components, made.variance, made.eta, made.bandwidth) == (None, 0.95, 0.05, "rms")
    assert made.decides_by_itself
    assert SCALING == "z-score"
