"""Scaling by hand-computed numbers; calibration's index rule; held-out scoring that never sees its own group."""

from typing import Any

import numpy as np
import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from stream_occ.detectors import FeatureScaler, fit_scaler, group_folds, quantile_threshold
from stream_occ.errors import UsageError


@pytest.mark.parametrize(
    ("kind", "center", "scale"),
    [
        ("min-max", [1.0, 7.0], [4.0, 1.0]),
        ("z-score", [3.0, 7.0], [2.5**0.5, 1.0]),  # variance of 1..5 with n - 1 is 2.5
        ("robust", [3.0, 7.0], [2.0 / 1.349, 1.0]),  # quartiles of 1..5 are 2 and 4
    ],
)
def test_center_and_scale_by_hand(kind: str, center: list[float], scale: list[float]) -> None:
    """Rows 1..5 beside a constant column: known center and scale, and 1 for the constant."""
    X = np.array([[1.0, 7.0], [2.0, 7.0], [3.0, 7.0], [4.0, 7.0], [5.0, 7.0]])
    scaler = fit_scaler(X, kind)
    np.testing.assert_allclose(scaler.center, center, rtol=1e-15)
    np.testing.assert_allclose(scaler.scale, scale, rtol=1e-15)
    assert scaler.kind == kind
    np.testing.assert_array_equal(FeatureScaler(kind).fit(X).transform(X), scaler.transform(X))


def test_constant_column_that_rounds_badly_has_scale_one() -> None:
    """Ten times 0.1 has a rounded standard deviation above 0; it still counts as constant."""
    X = np.column_stack([np.full(10, 0.1), np.arange(10.0)])
    assert [fit_scaler(X, kind).scale[0] for kind in ("min-max", "z-score", "robust")] == [1.0, 1.0, 1.0]


def test_later_rows_are_not_clipped() -> None:
    """A row beyond the training range maps beyond [0, 1]."""
    scaler = fit_scaler(np.array([[0.0], [10.0]]), "min-max")
    assert scaler.transform(np.array([[-5.0], [25.0]])).tolist() == [[-0.5], [2.5]]


def test_unknown_kind_and_bad_rows_are_refused() -> None:
    """Another kind, one row, and NaN each have their message."""
    with pytest.raises(UsageError, match="min-max, z-score, robust"):
        fit_scaler(np.zeros((3, 1)), "log")
    with pytest.raises(ValueError, match="n >= 2"):
        fit_scaler(np.zeros((1, 1)), "min-max")
    with pytest.raises(ValueError, match="finite"):
        fit_scaler(np.full((3, 1), np.nan), "min-max")


@parametrize_with_checks([FeatureScaler(), FeatureScaler("robust")])  # type: ignore[untyped-decorator]
def test_feature_scaler_keeps_the_scikit_learn_contract(estimator: Any, check: Any) -> None:
    """scikit-learn's own checks pass."""
    check(estimator)


@pytest.mark.parametrize(
    ("share", "n", "n_rejected"),
    [(0.05, 20, 1), (0.05, 19, 0), (0.29, 100, 29), (0.0, 5, 0), (0.1, 39, 3), (0.99, 4, 3)],
)
def test_quantile_rejects_the_floor_of_the_share(share: float, n: int, n_rejected: int) -> None:
    """floor(share * n) scores, by the decimal number as written, lie above the threshold."""
    scores = np.random.default_rng(0).permutation(n).astype(float)
    threshold = quantile_threshold(scores, share)
    assert np.count_nonzero(scores > threshold) == n_rejected
    assert threshold == n - 1 - n_rejected


def test_quantile_with_ties_rejects_fewer() -> None:
    """Where the threshold's score is tied, none of the tied is rejected."""
    assert quantile_threshold(np.array([1.0, 2.0, 2.0, 2.0]), 0.5) == 2.0


@pytest.mark.parametrize(("scores", "share"), [([], 0.1), ([np.nan], 0.1), ([1.0], 1.0), ([1.0], -0.1)])
def test_impossible_quantiles_are_refused(scores: list[float], share: float) -> None:
    """No scores, NaN, or a share outside [0, 1)."""
    with pytest.raises(ValueError, match="must be"):
        quantile_threshold(np.array(scores), share)


def test_folds_keep_groups_whole_and_sizes_even() -> None:
    """No group is split, every fold is used, and sizes differ by at most the largest group."""
    rng = np.random.default_rng(1)
    groups = [f"p{number}" for number in rng.integers(0, 9, size=300)]
    folds = group_folds(groups, 4, seed=3)
    for name in set(groups):
        assert len({fold for fold, group in zip(folds.tolist(), groups, strict=True) if group == name}) == 1
    counts = np.bincount(folds)
    assert len(counts) == 4
    assert np.ptp(counts) <= max(groups.count(name) for name in set(groups))
    np.testing.assert_array_equal(folds, group_folds(groups, 4, seed=3))
    with pytest.raises(ValueError, match=r"2\.\.9"):
        group_folds(groups, 10, seed=0)
