"""Laplacians of paper 2: symmetric, positive semidefinite, blind to constants, equal to plain loops, and solvable."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from stream_occ.detectors._graphs import GRAPHS, BlockLaplacian, MatrixLaplacian, laplacian
from stream_occ.kernels import KernelPoints, rms_bandwidth
from tests.reference import krr_loop


def rows_of(n_rows: int, seed: int, *, duplicates: bool = False) -> np.ndarray:
    """Normal rows, some of them twice where asked."""
    X = np.random.default_rng(seed).normal(size=(n_rows, 3))
    if duplicates:
        X[n_rows // 2 :] = X[: n_rows - n_rows // 2]
    return X


def build(graph: str | None, X: np.ndarray, n_neighbors: int | None = 4) -> BlockLaplacian | MatrixLaplacian:
    """The Laplacian under the rms bandwidth, three clusters."""
    kernel = KernelPoints(X, rms_bandwidth(X))
    built = laplacian(graph, kernel, X, kernel.matrix(X), n_neighbors=n_neighbors, n_clusters=3, seed=0)
    assert isinstance(built, BlockLaplacian | MatrixLaplacian)
    return built


@settings(max_examples=40, deadline=None)
@given(
    graph=st.sampled_from([*GRAPHS, None]),
    n_rows=st.integers(2, 30),
    seed=st.integers(0, 10**6),
    duplicates=st.booleans(),
    full=st.booleans(),
)
def test_laplacian_is_psd_and_blind_to_constants(
    graph: str | None, n_rows: int, seed: int, duplicates: bool, full: bool
) -> None:
    """L = L', L >= 0, L1 = 0, for any rows that differ."""
    X = rows_of(n_rows, seed, duplicates=duplicates and n_rows > 3)
    L = build(graph, X, None if full and graph == "le" else 4).quadratic(np.eye(n_rows))
    assert np.abs(L - L.T).max() < 1e-12
    assert np.abs(L.sum(axis=1)).max() < 1e-10
    assert np.linalg.eigvalsh(L).min() > -1e-10
    assert (np.abs(L).max() > 0.0) == (graph is not None) or n_rows < 4


@pytest.mark.parametrize("n_neighbors", [None, 4])
def test_heat_graph_equals_the_loop(n_neighbors: int | None) -> None:
    """D - V between all rows, and between neighbours in either direction."""
    X = rows_of(25, 1)
    K = krr_loop.kernel(X, X, krr_loop.bandwidth(X, "rms"))
    L = build("le", X, n_neighbors).quadratic(np.eye(25))
    np.testing.assert_allclose(L, krr_loop.heat(K, n_neighbors), rtol=0, atol=1e-12)


def test_heat_graph_links_in_either_direction() -> None:
    """On a line 0, 1, 3 with one neighbour, 3 is linked to 1 though 1's nearest is 0; 0 and 3 are not linked."""
    L = build("le", np.array([[0.0], [1.0], [3.0]]), 1).quadratic(np.eye(3))
    assert L[1, 2] < 0.0
    assert L[0, 1] < L[1, 2]
    assert L[0, 2] == 0.0


def test_locally_linear_graph_equals_the_loop_and_its_rows_sum_to_one() -> None:
    """(I - A)'(I - A); with one neighbour each by hand."""
    X = rows_of(25, 2)
    K = krr_loop.kernel(X, X, krr_loop.bandwidth(X, "rms"))
    L = build("lle", X).quadratic(np.eye(25))
    np.testing.assert_allclose(L, krr_loop.locally_linear(K, 4), rtol=0, atol=1e-9)
    # By hand, one neighbour each on the line 0, 1, 3: each row is rebuilt by it alone, with weight 1.
    rest = np.array([[1.0, -1.0, 0.0], [-1.0, 1.0, 0.0], [0.0, -1.0, 1.0]])
    L = build("lle", np.array([[0.0], [1.0], [3.0]]), 1).quadratic(np.eye(3))
    np.testing.assert_allclose(L, rest.T @ rest, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("graph", "by_size"), [("cda", False), ("sv", True)])
def test_cluster_graphs_by_hand(graph: str, by_size: bool) -> None:
    """Three groups far apart, of 2, 3 and 4 rows: blocks I - 11'/n, for sv each over its n."""
    labels = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2])
    X = 100.0 * labels[:, None] + np.arange(9.0)[:, None]
    L = build(graph, X).quadratic(np.eye(9))
    np.testing.assert_allclose(L, krr_loop.scatter(labels, by_size), rtol=0, atol=1e-12)
    assert L[0, 0] == pytest.approx(0.25 if by_size else 0.5)
    assert L[8, 7] == pytest.approx(-1 / 16 if by_size else -0.25)


def test_one_class_graphs_by_hand() -> None:
    """lda on 4 rows: 3/4 on the diagonal, -1/4 off it; cv a quarter of that; no graph: zeros."""
    X = rows_of(4, 3)
    lda = np.eye(4) - 0.25
    np.testing.assert_allclose(build("lda", X).quadratic(np.eye(4)), lda, rtol=0, atol=1e-15)
    np.testing.assert_allclose(build("cv", X).quadratic(np.eye(4)), lda / 4, rtol=0, atol=1e-15)
    assert not build(None, X).quadratic(np.eye(4)).any()


@pytest.mark.parametrize("chunk", [512, 5])
@pytest.mark.parametrize("graph", [*GRAPHS, None])
def test_root_is_that_of_the_ridge(graph: str | None, chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """RR' = I + scale L, R^-1 R = I, R'KR, and the diagonal of I - A^-1 + ridge F'F, F = G^-1 R^-1, in any chunks."""
    monkeypatch.setattr("stream_occ.detectors._graphs._CHUNK", chunk)
    X = rows_of(18, 4)
    built = build(graph, X)
    A = np.eye(18) + 0.7 * built.quadratic(np.eye(18))
    root = built.root(0.7)
    R = root.times(np.eye(18))
    np.testing.assert_allclose(R @ R.T, A, rtol=0, atol=1e-12)
    np.testing.assert_allclose(root.solve(R), np.eye(18), rtol=0, atol=1e-12)
    K = KernelPoints(X, rms_bandwidth(X)).matrix(X)
    np.testing.assert_allclose(np.tril(root.congruence(K)), np.tril(R.T @ K @ R), rtol=0, atol=1e-12)
    G = np.linalg.cholesky(R.T @ K @ R + 0.5 * np.eye(18))
    F = np.linalg.solve(G, np.linalg.solve(R, np.eye(18)))
    expected = 1.0 - np.diag(np.linalg.solve(A, np.eye(18))) + 0.5 * np.diag(F.T @ F)
    np.testing.assert_allclose(root.slack(G, 0.5), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("graph", ["le", "lda", "cda", "cv", "sv"])
def test_quadratic_is_the_sum_over_differences(graph: str) -> None:
    """V'LV is 1/2 sum_ij v_ij (V_i - V_j)(V_i - V_j)', v_ij = -L_ij read off the loop's Laplacian."""
    X = rows_of(20, 5)
    K = krr_loop.kernel(X, X, krr_loop.bandwidth(X, "rms"))
    labels = cluster_of(X)
    weights = {
        "le": lambda i, j: -krr_loop.heat(K, 4)[i, j],
        "lda": lambda i, j: 1 / 20,
        "cv": lambda i, j: 1 / 400,
        "cda": lambda i, j: (labels[i] == labels[j]) / np.sum(labels == labels[i]),
        "sv": lambda i, j: (labels[i] == labels[j]) / np.sum(labels == labels[i]) ** 2,
    }[graph]
    V = np.random.default_rng(6).normal(size=(20, 5))
    expected = np.zeros((5, 5))
    for i in range(20):
        for j in range(20):
            if i != j:
                expected += 0.5 * weights(i, j) * np.outer(V[i] - V[j], V[i] - V[j])
    np.testing.assert_allclose(build(graph, X).quadratic(V), expected, rtol=0, atol=1e-11)


def cluster_of(X: np.ndarray) -> np.ndarray:
    """scikit-learn's own three clusters, as the package asks for them."""
    return KMeans(n_clusters=3, n_init=3, random_state=0).fit_predict(X)


def test_heat_width_scales_sigma_squared() -> None:
    """Between two rows and a third: log v_ij at width 2 is half of that at width 1."""
    X = rows_of(6, 8)
    kernel = KernelPoints(X, rms_bandwidth(X))
    K = kernel.matrix(X)
    one, two = (
        laplacian("le", kernel, X, K, n_neighbors=None, heat_width=width, n_clusters=1, seed=0).quadratic(np.eye(6))
        for width in (1.0, 2.0)
    )
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(np.log(-two[off]), np.log(-one[off]) / 2, rtol=1e-9)


def test_clusters_are_never_empty_nor_more_than_distinct_rows() -> None:
    """Two distinct rows among six, three clusters asked for: two blocks."""
    X = np.array([[0.0], [0.0], [0.0], [1.0], [1.0], [1.0]])
    L = build("cda", X).quadratic(np.eye(6))
    np.testing.assert_allclose(L, krr_loop.scatter(np.array([0, 0, 0, 1, 1, 1]), False), rtol=0, atol=1e-12)
