"""Gaussian kernels and bandwidths of paper 2: against loops, near and far from the origin."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.kernels import KernelPoints, mean_bandwidth, rms_bandwidth, squared_distances
from tests.reference import krr_loop


def test_bandwidths_by_hand() -> None:
    """Rows 0, 1, 3 on a line: squared distances 1, 4, 9 twice each over 9 pairs; distances 1, 2, 3 likewise."""
    X = np.array([[0.0], [1.0], [3.0]])
    assert rms_bandwidth(X) == pytest.approx(28 / 9, rel=1e-14)
    assert mean_bandwidth(X) == pytest.approx(2 * (12 / 9) ** 2, rel=1e-14)


@settings(max_examples=25, deadline=None)
@given(n_rows=st.integers(2, 20), offset=st.sampled_from([0.0, 1.0, 1e6]), seed=st.integers(0, 10**6))
def test_bandwidths_and_kernels_equal_loops(n_rows: int, offset: float, seed: int) -> None:
    """Also where all rows lie far from the origin, where |x|^2 + |y|^2 - 2xy would lose all digits."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 3)) + offset
    Z = np.random.default_rng(seed + 1).normal(size=(4, 3)) + offset
    A2 = krr_loop.bandwidth(X, "rms")
    assert rms_bandwidth(X) == pytest.approx(A2, rel=1e-9)
    assert mean_bandwidth(X) == pytest.approx(krr_loop.bandwidth(X, "mean"), rel=1e-8)
    points = KernelPoints(X, A2)
    np.testing.assert_allclose(points.matrix(Z), krr_loop.kernel(Z, X, A2), rtol=0, atol=1e-9)
    np.testing.assert_allclose(np.array([points.row(z) for z in Z]), krr_loop.kernel(Z, X, A2), rtol=0, atol=1e-9)
    own = points.matrix(X)
    assert (np.diag(own) == 1.0).all()


def test_mean_bandwidth_in_chunks_is_the_mean_over_all() -> None:
    """2,500 rows pass the chunk's size; expected from plain differences."""
    X = np.random.default_rng(0).normal(size=(2500, 2))
    total = sum(float(np.sqrt(np.square(X - x).sum(axis=1)).sum()) for x in X)
    assert mean_bandwidth(X) == pytest.approx(2 * (total / 2500**2) ** 2, rel=1e-9)


def test_squared_distances_are_never_negative() -> None:
    """Duplicates far out: 0 on the diagonal of a set with itself, at least 0 elsewhere."""
    X = np.repeat(1e8 + np.random.default_rng(1).normal(size=(10, 3)), 2, axis=0)
    squared = squared_distances(X, X)
    assert squared.min() >= 0.0
    assert (np.diag(squared) == 0.0).all()


def test_row_is_the_same_bits_for_the_same_row() -> None:
    """A row's kernel values do not depend on which rows were asked before; exponents are -log of them."""
    rng = np.random.default_rng(2)
    points = KernelPoints(rng.normal(size=(500, 31)), 60.0)
    Z = rng.normal(size=(20, 31))
    first = [points.row(z).tobytes() for z in Z]
    assert [points.row(z.copy()).tobytes() for z in Z[::-1]][::-1] == first
    np.testing.assert_allclose(np.exp(-points.exponents(Z[0])), points.row(Z[0]), rtol=1e-15)
    assert (points.row(np.full(31, 1e100)) == 0.0).all()
