"""Exact neighbours: equal to a sorted full distance table, whatever the product in between rounds to."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.neighbors import CandidateFilter, nearest


def sorted_table(Q: np.ndarray, X: np.ndarray, k: int, *, exclude_self: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Brute force: every distance, sorted by (distance, row number)."""
    rows, distances = [], []
    for number, q in enumerate(Q):
        squared = ((q - X) ** 2).sum(axis=1)
        order = [i for i in np.lexsort((np.arange(len(X)), squared)) if not (exclude_self and i == number)][:k]
        rows.append(order)
        distances.append(np.sqrt(squared[order]))
    return np.array(distances), np.array(rows)


@pytest.mark.parametrize(
    ("n_rows", "n_features", "k"), [(5, 1, 4), (40, 3, 5), (700, 6, 3), (4200, 4, 10), (9000, 3, 2)]
)
def test_neighbors_equal_sorted_table(n_rows: int, n_features: int, k: int) -> None:
    """Distances and row numbers are those of the full table, over the sizes where the grouping changes."""
    rng = np.random.default_rng(n_rows)
    X = rng.normal(size=(n_rows, n_features))
    Q = rng.normal(size=(70, n_features))
    distances, rows = nearest(Q, X, k)
    expected_distances, expected_rows = sorted_table(Q, X, k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_allclose(distances, expected_distances, rtol=1e-14)  # summation order alone differs


def test_self_join_excludes_by_number_and_keeps_duplicates() -> None:
    """A row's twin is its neighbour at distance 0; the row itself is not."""
    X = np.array([[0.0], [5.0], [0.0], [9.0]])
    distances, rows = nearest(X, X, 2, skip=np.arange(4))
    assert rows.tolist() == [[2, 1], [3, 0], [0, 1], [1, 0]]
    assert distances.tolist() == [[0.0, 5.0], [4.0, 5.0], [0.0, 5.0], [4.0, 9.0]]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10**6), n_rows=st.integers(12, 2500), k=st.integers(1, 10), n_values=st.integers(2, 4))
def test_ties_on_a_lattice_go_to_the_lower_row(seed: int, n_rows: int, k: int, n_values: int) -> None:
    """On small integers many distances are exactly equal; the lower row number wins each tie."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, n_values, size=(n_rows, 3)).astype(float)
    distances, rows = nearest(X[:20], X, k)
    expected_distances, expected_rows = sorted_table(X[:20], X, k)
    np.testing.assert_array_equal(rows, expected_rows)
    np.testing.assert_array_equal(distances, expected_distances)


@pytest.mark.parametrize("offset", [0.0, 1e3, 1e6, 1e9])
@pytest.mark.parametrize("spread", [1e-20, 1e-6, 1.0, 1e6])
def test_no_neighbor_is_lost_to_cancellation(offset: float, spread: float) -> None:
    """Rows far from the origin and close together: the filter's float32 keeps every true neighbour."""
    rng = np.random.default_rng(3)
    X = offset + spread * rng.normal(size=(3000, 5))
    Q = offset + spread * rng.normal(size=(40, 5))
    _, rows = nearest(Q, X, 4)
    np.testing.assert_array_equal(rows, sorted_table(Q, X, 4)[1])


@pytest.mark.parametrize("scale", [1e3, 1e6, 1e12, 1e18, 1e100])
def test_far_queries_find_their_neighbors(scale: float) -> None:
    """Queries up to 1e100 out get the neighbours of the full table, ties of rounding included."""
    rng = np.random.default_rng(4)
    X = rng.normal(size=(1500, 4))
    Q = scale * rng.normal(size=(6, 4))
    distances, rows = nearest(Q, X, 3)
    expected_distances, expected_rows = sorted_table(Q, X, 3)
    np.testing.assert_allclose(distances, expected_distances, rtol=1e-14)
    if scale <= 1e12:  # farther out all rows are equally far in float64 and the order of rounding decides
        np.testing.assert_array_equal(rows, expected_rows)


def test_one_outlier_does_not_blunt_the_filter() -> None:
    """One row a million radii out: neighbours of the others stay exact."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(2000, 4))
    X[77] = 1e6
    _, rows = nearest(X, X, 2, skip=np.arange(2000))
    np.testing.assert_array_equal(rows, sorted_table(X, X, 2, exclude_self=True)[1])


def test_filter_discards_nearly_everything() -> None:
    """The filter is worth its name: few more candidates than neighbours survive."""
    rng = np.random.default_rng(6)
    X = rng.normal(size=(6000, 8))
    blocks = CandidateFilter(X).candidates(X[:200], np.array([5]), np.full(200, 1e-14))
    assert sum(len(row) for _, _, row in blocks) < 200 * 5 * 1.05


@pytest.mark.parametrize(("k", "skip"), [(0, None), (4, None), (3, np.arange(3))])
def test_impossible_k_is_refused(k: int, skip: np.ndarray | None) -> None:
    """k must leave enough rows."""
    X = np.zeros((3, 1))
    with pytest.raises(ValueError, match=r"k must be in 1\.\."):
        nearest(X, X, k, skip=skip)
