"""Kernel ridge regression of paper 2: against its loop twin, its objectives, its identities and its edges."""

from typing import Any

import numpy as np
import pytest
from sklearn.cluster import KMeans

from stream_occ.detectors import OCNN, KernelRidgeAutoEncoder, KernelRidgeOCC, MultiLayerKRR, preset, preset_names
from stream_occ.detectors._base import TuningWarning, on_landmarks
from stream_occ.detectors._graphs import laplacian
from stream_occ.detectors._krr_solver import LayerSettings, fit_layer, reject_index
from stream_occ.kernels import KernelPoints, rms_bandwidth
from tests.reference import krr_loop

GRAPHS = (None, "le", "lle", "lda", "cda", "cv", "sv")


def curved(n_rows: int = 36, seed: int = 0, n_features: int = 4) -> np.ndarray:
    """Rows near a curved surface of 2 dimensions, z-scored."""
    rng = np.random.default_rng(seed)
    X = np.tanh(rng.normal(size=(n_rows, 2)) @ np.random.default_rng(9).normal(size=(2, n_features)))
    X += 0.05 * rng.normal(size=X.shape)
    scaled: np.ndarray = (X - X.mean(axis=0)) / X.std(axis=0, ddof=1)
    return scaled


def cluster_as(random_state: int, n_clusters: int) -> krr_loop.Cluster:
    """k-means with the seed that the estimators hand to it."""
    seed = int(np.random.default_rng(random_state).integers(2**31))
    return lambda X: KMeans(n_clusters=n_clusters, n_init=3, random_state=seed).fit_predict(X)


def system(X: np.ndarray, graph: str | None, n_neighbors: int | None = 5) -> tuple[np.ndarray, np.ndarray]:
    """K and L of the loop twin under the rms bandwidth."""
    K = krr_loop.kernel(X, X, krr_loop.bandwidth(X, "rms"))
    return K, krr_loop.laplacian(graph, X, K, n_neighbors, cluster_as(0, 3))


def layer_of(X: np.ndarray, T: np.ndarray, graph: str | None, C: float, lam: float, **changes: Any) -> Any:
    """One fitted layer, as the estimators with seed 0 fit it."""
    settings = LayerSettings(graph=graph, C=C, lam=lam, bandwidth="rms", n_neighbors=5, heat_width=1.0, n_clusters=3)
    seed = int(np.random.default_rng(0).integers(2**31))
    given = {"landmarks": None, "seed": seed, "leave_one_out": False} | changes
    return fit_layer(X, T, settings, **given)


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("graph", GRAPHS)
def test_network_equals_the_loop_twin(graph: Any, n_layers: int) -> None:
    """Outputs, both thresholds and decisions, all graphs and depths, are those of plain loops and one plain solve."""
    X, Z = curved(), np.concatenate([curved(8, 1), 5.0 * curved(4, 2)])
    settings: dict[str, Any] = {"C": 2.0, "lam": 0.5, "graph_neighbors": 5, "n_clusters": 3}
    twin = krr_loop.Network(X, n_layers, graph, 2.0, 0.5, k=5, cluster=cluster_as(0, 3))
    on_training, on_new = twin.outputs(X)[:, 0], twin.outputs(Z)[:, 0]
    for rule in ("code", "paper"):
        detector = MultiLayerKRR(n_layers, graph, theta1_rule=rule, **settings).fit(X)  # type: ignore[arg-type]
        theta = krr_loop.theta1(np.abs(on_training - 1.0), 1, rule)  # floor(.05 * 36) = 1
        np.testing.assert_allclose(detector.residual(Z), np.abs(on_new - 1.0), rtol=0, atol=1e-9)
        assert detector.theta_ == pytest.approx(theta, abs=1e-9)
        assert detector.predict(Z).tolist() == np.where(np.abs(on_new - 1.0) < theta, 1, -1).tolist()
    detector = MultiLayerKRR(n_layers, graph, threshold="theta2", **settings).fit(X)
    middle = on_training.mean()
    np.testing.assert_allclose(detector.residual(Z), np.abs(on_new - middle), rtol=0, atol=1e-9)
    assert detector.theta_ == pytest.approx(0.05 * middle, abs=1e-9)
    assert detector.predict(Z).tolist() == np.where(np.abs(on_new - middle) < 0.05 * middle, 1, -1).tolist()
    assert len(set(detector.residual(Z).tolist())) > 8


@pytest.mark.parametrize("graph", GRAPHS)
def test_auto_encoder_equals_the_loop_twin(graph: Any) -> None:
    """AEKOC's squared reconstruction error and theta1 are the twin's."""
    X, Z = curved(), 2.0 * curved(8, 1)
    twin = krr_loop.Network(X, 1, graph, 4.0, 2.0, k=5, cluster=cluster_as(0, 3), reconstruct=True)
    detector = KernelRidgeAutoEncoder(graph, 4.0, lam=2.0, graph_neighbors=5, n_clusters=3).fit(X)
    errors = [np.square(rows - twin.outputs(rows)).sum(axis=1) for rows in (X, Z)]
    np.testing.assert_allclose(detector.residual(Z), errors[1], rtol=1e-9)
    assert detector.theta_ == pytest.approx(krr_loop.theta1(errors[0], 1, "code"), rel=1e-9)


def test_full_heat_graph_and_mean_bandwidth_equal_the_loop_twin() -> None:
    """The fully connected graph, the other bandwidth, and C of the last layer alone."""
    X, Z = curved(), curved(8, 1)
    detector = MultiLayerKRR(2, "le", bandwidth="mean", graph_neighbors=None, C=2.0, C_out=2.0).fit(X)
    twin = krr_loop.Network(X, 2, "le", 2.0, 1.0, k=None, cluster=cluster_as(0, 3), rule="mean")
    np.testing.assert_allclose(detector.residual(Z), np.abs(twin.outputs(Z)[:, 0] - 1.0), rtol=0, atol=1e-9)
    sequence = MultiLayerKRR(2, "le", bandwidth=("mean", twin.layers[1][2]), graph_neighbors=None, C=2.0).fit(X)
    np.testing.assert_allclose(sequence.residual(Z), detector.residual(Z), rtol=0, atol=1e-9)
    weaker = MultiLayerKRR(2, "le", bandwidth="mean", graph_neighbors=None, C=2.0, C_out=0.5).fit(X)
    assert np.array_equal(weaker.bandwidths_, detector.bandwidths_)
    assert (weaker.scorer_.outputs(Z) < detector.scorer_.outputs(Z)).all()


@pytest.mark.parametrize("graph", GRAPHS)
def test_one_layer_is_the_single_layer_detector(graph: Any) -> None:
    """MultiLayerKRR(1) and KernelRidgeOCC give the same bits."""
    X, Z = curved(), curved(9, 3)
    many, one = MultiLayerKRR(1, graph).fit(X), KernelRidgeOCC(graph).fit(X)
    assert many.score_samples(Z).tolist() == one.score_samples(Z).tolist()
    assert many.score_threshold_ == one.score_threshold_


def objective(W: np.ndarray, K: np.ndarray, L: np.ndarray, T: np.ndarray, C: float, lam: float) -> float:
    """Equation 9: 1/2 Tr{W'(lam K L K + K)W} + C/2 sum |e_i|^2."""
    errors = T - K @ W
    return float(0.5 * np.trace(W.T @ (lam * K @ L @ K + K) @ W) + 0.5 * C * np.sum(errors**2))


@pytest.mark.parametrize(("C", "lam"), [(0.125, 8.0), (1.0, 1.0), (8.0, 0.125)])
@pytest.mark.parametrize("graph", GRAPHS)
def test_solution_is_the_objective_s_minimum(graph: Any, C: float, lam: float) -> None:
    """Gradient 0 by hand and by differences, and the objective rises off it, for auto-encoder and output targets."""
    X = curved(24)
    K, L = system(X, graph)
    rng = np.random.default_rng(5)
    for T in (X, np.ones((24, 1))):
        W = layer_of(X, T, graph, C, lam).weights
        gradient = (lam * K @ L @ K + K) @ W - C * K @ (T - K @ W)
        assert np.abs(gradient).max() < 1e-9
        least = objective(W, K, L, T, C, lam)
        for _ in range(5):
            step = rng.normal(size=W.shape)
            up, down = (objective(W + sign * 1e-4 * step, K, L, T, C, lam) for sign in (1, -1))
            assert min(up, down) > least
            assert abs(up - down) / 2e-4 < 1e-6


@pytest.mark.parametrize("graph", GRAPHS)
def test_scatter_form_is_the_variance_of_the_outputs(graph: Any) -> None:
    """Tr{W'KLKW}, L = CV, is the outputs' variance (equation 31), and for lda N times it; within clusters likewise."""
    X = curved(20)
    kernel = KernelPoints(X, rms_bandwidth(X))
    K = kernel.matrix(X)
    seed = int(np.random.default_rng(0).integers(2**31))
    L = laplacian(graph, kernel, X, K, n_neighbors=5, n_clusters=3, seed=seed).quadratic(np.eye(20))
    W = np.random.default_rng(1).normal(size=(20, 1))
    outputs = (K @ W)[:, 0]
    value = float(outputs @ L @ outputs)
    labels = cluster_as(0, 3)(X)
    spread = {
        "lda": np.var(outputs) * 20,
        "cv": np.var(outputs),
        "cda": sum(np.var(outputs[labels == k]) * np.sum(labels == k) for k in range(3)),
        "sv": sum(np.var(outputs[labels == k]) for k in range(3)),
    }
    if graph in spread:
        assert value == pytest.approx(spread[graph], rel=1e-9)
    assert value >= 0.0


@pytest.mark.parametrize("graph", GRAPHS)
def test_primal_solution_gives_the_same_outputs(graph: Any) -> None:
    """beta = (Phi Phi' + (I + lam Phi L Phi')/C)^-1 Phi T, with Phi from K = Phi'Phi, predicts as W does."""
    X = curved(24)
    K, L = system(X, graph)
    C, lam = 2.0, 0.5
    values, vectors = np.linalg.eigh(K)
    Phi = (np.sqrt(np.maximum(values, 0.0)) * vectors).T
    beta = np.linalg.solve(Phi @ Phi.T + (np.eye(24) + lam * Phi @ L @ Phi.T) / C, Phi @ X)
    np.testing.assert_allclose(layer_of(X, X, graph, C, lam).outputs, Phi.T @ beta, rtol=0, atol=1e-9)


def test_lda_is_a_rescaled_koc_and_cv_is_lda_over_n() -> None:
    """The output layer under lda is s (K + I/(C + lam))^-1 1, s by its closed form; cv is lda at lam / N."""
    X, Z = curved(30), curved(10, 4)
    C, lam = 2.0, 3.0
    K, _ = system(X, None)
    ones = np.ones(30)
    inner = ones @ np.linalg.solve(K + np.eye(30) / (C + lam), ones)
    s = 1.0 / (1.0 + lam / (C * (C + lam) * 30) * inner)
    lda, koc = KernelRidgeOCC("lda", C, lam=lam).fit(X), KernelRidgeOCC(None, C + lam).fit(X)
    np.testing.assert_allclose(lda.scorer_.outputs(Z), s * koc.scorer_.outputs(Z), rtol=1e-10)
    cv = KernelRidgeOCC("cv", C, lam=lam * 30).fit(X)
    np.testing.assert_allclose(cv.residual(Z), lda.residual(Z), rtol=0, atol=1e-12)
    lda2, koc2 = (KernelRidgeOCC(g, c, lam=lam, threshold="theta2").fit(X) for g, c in (("lda", C), (None, C + lam)))  # type: ignore[arg-type]
    assert lda2.predict(X).tolist() == koc2.predict(X).tolist()
    assert len(set(lda2.predict(X).tolist())) == 2


def test_auto_encoder_with_a_vast_c_gives_distinct_training_rows_back() -> None:
    """C to infinity, no graph: the identity on training rows, not off them."""
    X = curved(15)
    detector = KernelRidgeAutoEncoder(C=1e10, bandwidth=0.5).fit(X)
    assert detector.residual(X).max() < 1e-15
    assert detector.residual(curved(15, 1)).max() > 1e-2


@pytest.mark.parametrize("evidence", ["output", "layers"])
@pytest.mark.parametrize("graph", GRAPHS)
def test_landmarks_are_exact_when_every_row_is_one(graph: Any, evidence: Any) -> None:
    """Nystrom with m = N (or more) scores and decides as the exact fit does, three layers deep, to 1e-9."""
    X, Z = curved(40), np.concatenate([curved(10, 1), 9.0 * curved(3, 2)])
    settings: dict[str, Any] = {"evidence": evidence, "graph_neighbors": 5, "n_clusters": 3}
    exact = MultiLayerKRR(3, graph, **settings).fit(X)
    for m in (40, 400):
        spanned = MultiLayerKRR(3, graph, n_landmarks=m, **settings).fit(X)
        np.testing.assert_allclose(spanned.score_samples(Z), exact.score_samples(Z), rtol=1e-9, atol=0)
        assert spanned.theta_ == pytest.approx(exact.theta_, rel=1e-9)
    fewer = MultiLayerKRR(3, graph, n_landmarks=25, **settings).fit(X)
    assert [len(fewer.scorer_.arrays()[f"points_{h}"]) for h in (1, 2, 3)] == [25, 25, 25]


@pytest.mark.parametrize("graph", GRAPHS)
def test_landmarks_are_exact_where_the_kernel_has_no_full_rank(graph: Any) -> None:
    """m = N = 400 rows near two dimensions, condition of K beyond 1e14, rows far off: still to 1e-9."""
    X, Z = curved(400), np.concatenate([curved(10, 1), 9.0 * curved(3, 2)])
    kernel = KernelPoints(X, rms_bandwidth(X)).matrix(X)
    assert np.linalg.cond(kernel) > 1e14
    exact, spanned = (KernelRidgeAutoEncoder(graph, n_landmarks=m).fit(X) for m in (None, 400))
    np.testing.assert_allclose(spanned.residual(Z), exact.residual(Z), rtol=1e-9, atol=0)


@pytest.mark.parametrize("graph", GRAPHS)
def test_landmarks_equal_the_plain_normal_equations(graph: Any) -> None:
    """12 of 30 rows under a narrow kernel: weights, outputs and leave-one-out residuals of the twin, to 1e-9."""
    X, landmarks = curved(30), np.arange(0, 24, 2)
    settings = LayerSettings(graph=graph, C=2.0, lam=0.5, bandwidth=0.5, n_neighbors=5, heat_width=1.0, n_clusters=3)
    seed = int(np.random.default_rng(0).integers(2**31))
    found = fit_layer(X, X, settings, landmarks=landmarks, seed=seed, leave_one_out=True)
    K = krr_loop.kernel(X, X, 0.5)
    # the heat kernel's width is a mean over K as it was computed: rows by landmarks
    between = K[:, landmarks] if graph == "le" else K
    L = krr_loop.laplacian(graph, X, K, 5, cluster_as(0, 3), spread=2.0 - 2.0 * between.mean())
    W = krr_loop.landmark_weights(K, landmarks, L, X, [2.0] * 30, 0.5)
    np.testing.assert_allclose(found.weights, W, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.outputs, K[:, landmarks] @ W, rtol=1e-9, atol=1e-9)
    for i in range(30):
        W = krr_loop.landmark_weights(K, landmarks, L, X, [2.0 * (j != i) for j in range(30)], 0.5)
        assert found.held_out[i, 0] == pytest.approx(np.linalg.norm(X[i] - K[i, landmarks] @ W), rel=1e-9)


@pytest.mark.parametrize("landmarks", [None, 20])
@pytest.mark.parametrize("graph", GRAPHS)
def test_leave_one_out_values_equal_refits(graph: Any, landmarks: int | None) -> None:
    """Residuals by the hat matrix are those of refits that do not see the row's error; mean kernels leave it out."""
    X = curved(20)
    K, L = system(X, graph)
    found = layer_of(
        X, X, graph, 2.0, 0.5, leave_one_out=True, landmarks=None if landmarks is None else np.arange(20)
    ).held_out
    for i in range(20):
        residual = np.linalg.norm(krr_loop.left_out(K, L, X, 2.0, 0.5, i))
        assert found[i, 0] == pytest.approx(residual, rel=1e-9)
        assert found[i, 1] == pytest.approx(-np.log(np.delete(K[i], i).mean()), rel=1e-9)


@pytest.mark.parametrize(
    ("n_rows", "eta", "code", "paper"),
    [
        (1, 0.05, 0, 0),
        (10, 0.05, 9, 9),
        (20, 0.05, 18, 19),
        (40, 0.05, 37, 38),
        (100, 0.29, 70, 71),
        (3, 0.99, 0, 1),
        (2, 0.05, 1, 1),
    ],
)
def test_theta1_place_is_counted_in_whole_numbers(n_rows: int, eta: float, code: int, paper: int) -> None:
    """By hand: code keeps the (floor(eta N) + 1)-th largest, paper the max(1, floor(eta N))-th; .29 * 100 is 29."""
    assert (reject_index(n_rows, eta, "code"), reject_index(n_rows, eta, "paper")) == (code, paper)


@pytest.mark.parametrize(("rule", "n_accepted"), [("code", 37), ("paper", 39)])
def test_training_acceptance_is_what_the_rule_says(rule: Any, n_accepted: int) -> None:
    """40 rows, eta .05: code rejects the third largest and the two above it, paper only the one above the second."""
    X = curved(40)
    detector = KernelRidgeOCC(theta1_rule=rule).fit(X)
    assert detector.training_acceptance_ == n_accepted / 40
    assert np.mean(detector.predict(X) == 1) == n_accepted / 40
    assert (detector.score_threshold_ < detector.theta_) == (rule == "code")


def test_theta2_is_unfloored_and_tells_how_much_it_rejects() -> None:
    """theta2 = eta mean O lies above 0, and the share of training rows within it is told."""
    X = curved(60)
    detector = KernelRidgeOCC(threshold="theta2", C=0.25).fit(X)
    outputs = detector.scorer_.outputs(X)[:, 0]
    assert detector.theta_ == pytest.approx(0.05 * outputs.mean(), rel=1e-12)
    assert detector.training_acceptance_ == np.mean(np.abs(outputs - outputs.mean()) < 0.05 * outputs.mean())
    assert 0.0 < detector.training_acceptance_ < 0.9


def test_ties_at_theta_follow_the_rule() -> None:
    """The row of the largest residual stands four times among 40: code rejects all four, paper accepts them."""
    X = np.concatenate([curved(36), np.full((4, 4), 4.0)])
    assert KernelRidgeAutoEncoder(C=0.01, theta1_rule="code").fit(X).training_acceptance_ == 36 / 40
    assert KernelRidgeAutoEncoder(C=0.01, theta1_rule="paper").fit(X).training_acceptance_ == 1.0


@pytest.mark.parametrize("n_layers", [1, 2, 3, 4])
def test_layer_evidence_never_accepts_far_rows(n_layers: int) -> None:
    """The paper's output accepts far rows from two layers on; layer evidence scores all above the training rows."""
    hidden = 0
    for seed in range(8):
        for C in (0.125, 1.0, 8.0):
            X = curved(50, seed)
            far = 40.0 * curved(12, seed + 100)
            hidden += int(np.sum(MultiLayerKRR(n_layers, C=C).fit(X).predict(far) == 1))
            working = MultiLayerKRR(n_layers, C=C, evidence="layers").fit(X)
            assert working.scorer_.score(far).min() > working.scorer_.score(X).max()
            assert (working.predict(far) == -1).all()
    assert (hidden > 0) == (n_layers > 1)


def test_layer_evidence_keeps_its_level_on_fresh_rows() -> None:
    """The leave-one-out threshold rejects near 5 % of 600 fresh rows; scales from held-out values."""
    detector = MultiLayerKRR(2, "lle", evidence="layers").fit(curved(300, 0))
    rng = np.random.default_rng(0)
    assert 0.9 <= detector.training_acceptance_ <= 0.95
    rows = np.concatenate([curved(300, seed) for seed in (1, 2)])
    assert 0.01 < np.mean(detector.predict(rows[rng.permutation(600)]) == -1) < 0.12
    assert not detector.decides_by_itself
    assert MultiLayerKRR().decides_by_itself
    assert KernelRidgeOCC().decides_by_itself
    assert KernelRidgeAutoEncoder().decides_by_itself


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("n_landmarks", [None, 12])
def test_awkward_rows_fit(graph: Any, n_landmarks: int | None) -> None:
    """Duplicates, a constant column, and few distinct rows: finite scores, in both evidences."""
    X = np.concatenate([curved(12)[:4]] * 5 + [curved(6, 1)])
    X[:, 2] = 3.0
    for evidence in ("output", "layers"):
        detector = MultiLayerKRR(3, graph, evidence=evidence, n_landmarks=n_landmarks).fit(X)  # type: ignore[arg-type]
        assert np.isfinite(detector.score_samples(X)).all()
        assert np.isfinite(detector.score_samples(1e200 * np.ones((1, 4)))).all()


def test_memory_layout_and_width_change_nothing() -> None:
    """float32, Fortran order, read-only and strided rows: the scores of the plain array, which stays as it was."""
    X = curved(30).astype(np.float32)
    plain = MultiLayerKRR(2, "lle").fit(X.astype(np.float64))
    frozen = X.astype(np.float64)
    frozen.flags.writeable = False
    kept = X.copy()
    for given in (X, np.asfortranarray(X), frozen, np.repeat(X, 2, axis=0)[::2]):
        assert MultiLayerKRR(2, "lle").fit(given).score_samples(X).tolist() == plain.score_samples(X).tolist()
    assert np.array_equal(X, kept)
    first = MultiLayerKRR(2, "cda", n_landmarks=10, random_state=3).fit(X).score_samples(X)
    assert first.tolist() == MultiLayerKRR(2, "cda", n_landmarks=10, random_state=3).fit(X).score_samples(X).tolist()


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"graph": "pca"}, "graph must be None or one of le, lle, lda, cda, cv, sv; got 'pca'"),
        ({"C": 0.0}, "C must be a finite number > 0; got 0.0"),
        ({"C_out": -1}, "C_out must be None or a finite number > 0; got -1"),
        ({"lam": -0.5}, "lam must be a finite number >= 0; got -0.5"),
        ({"eta": 1.0}, r"eta must be a number in \(0, 1\); got 1.0"),
        ({"n_layers": 6}, r"n_layers must be an int in 1..5; got 6"),
        ({"threshold": "theta3"}, "threshold must be one of theta1, theta2"),
        ({"theta1_rule": "print"}, "theta1_rule must be one of code, paper"),
        ({"evidence": "depth"}, "evidence must be output or layers; got 'depth'"),
        ({"evidence": "reconstruction"}, "evidence must be output or layers; got 'reconstruction'"),
        ({"evidence": "layers", "threshold": "theta2"}, "threshold must be theta1 with evidence='layers'"),
        ({"bandwidth": ("rms",)}, "or one of these for each of 2 layers"),
        ({"bandwidth": 0.0}, "bandwidth must be rms, mean, a number >= 1e-24"),
        ({"n_landmarks": 1}, "n_landmarks must be None or an int >= 2; got 1"),
        ({"n_clusters": 0}, "n_clusters must be an int >= 1; got 0"),
        ({"graph": "lle", "graph_neighbors": None}, "graph_neighbors must be an int >= 1, or None for the fully"),
        ({"graph": "le", "graph_neighbors": None, "n_landmarks": 5}, "le graph without landmarks"),
    ],
)
def test_bad_parameter_is_named(changes: dict[str, Any], text: str) -> None:
    """One line: the parameter, what must hold, what came."""
    with pytest.raises(ValueError, match=text):
        MultiLayerKRR(**changes).fit(curved())


def test_unfit_rows_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row, identical rows, vast rows, more than memory holds, and layers that collapse."""
    for rows, n in ((np.ones((1, 3)), 1), (np.full((7, 3), 0.1), 7)):
        with pytest.raises(ValueError, match=f"two distinct rows; got n_samples = {n}"):
            KernelRidgeOCC().fit(rows)
    with pytest.raises(ValueError, match="Scale the features first"):
        KernelRidgeOCC().fit(1e40 * curved())
    monkeypatch.setattr("stream_occ.detectors._kernel_ridge.MAX_EXACT_ROWS", 30)
    with pytest.raises(ValueError, match=r"at most 30 rows for an exact fit; got 36\. Set n_landmarks"):
        KernelRidgeOCC().fit(curved())
    assert KernelRidgeOCC(n_landmarks=10).fit(curved()).training_acceptance_ > 0.9
    with pytest.raises(ValueError, match="every layer's input must hold rows that differ by more than rounding"):
        MultiLayerKRR(2, C=1e-20, n_landmarks=10).fit(curved())


def test_presets_carry_the_paper_s_names() -> None:
    """Single layers with theta1 and theta2, AEKOC, two layers where the contract holds, and the working ones."""
    assert {"KOC", "AEKOC", "LKOC-LE", "LKOC-LLE", "GKOC-LDA", "GKOC-CDA", "GKOC-CV", "GKOC-SV"} <= set(preset_names())
    assert {"MKOC_theta1", "LMKOC-LLE_theta1", "GMKOC-SV_theta2", "MKOC_layers"} <= set(preset_names())
    assert (preset("GKOC-CDA_theta2").graph, preset("GKOC-CDA_theta2").threshold) == ("cda", "theta2")
    assert (preset("LMKOC-LLE_layers").graph, preset("LMKOC-LLE_layers").evidence) == ("lle", "layers")


def test_parameters_stand_in_the_contracted_order() -> None:
    """By position: graph, C, lam, threshold, theta1_rule, eta, bandwidth; layers: n_layers first, n_landmarks last."""
    one = KernelRidgeOCC("lle", 2, 0.5, "theta2", "paper", 0.1, "mean").get_params()
    assert (one["graph"], one["C"], one["lam"]) == ("lle", 2, 0.5)
    assert (one["threshold"], one["theta1_rule"], one["eta"], one["bandwidth"]) == ("theta2", "paper", 0.1, "mean")
    deep = MultiLayerKRR(3, "cda", 2, 0.5, 4, "theta1", "code", 0.1, "rms", "layers", 50).get_params()
    assert (deep["n_layers"], deep["graph"], deep["C"], deep["lam"], deep["C_out"]) == (3, "cda", 2, 0.5, 4)
    assert (deep["evidence"], deep["n_landmarks"], deep["eta"]) == ("layers", 50, 0.1)


def test_fit_says_what_it_settled_on() -> None:
    """theta, the share of training rows accepted, one bandwidth a layer: for the training report."""
    told = MultiLayerKRR(2).fit(curved(40)).tuning_summary()
    assert told["training_acceptance"]["share"] == 37 / 40  # code rejects floor(.05 * 40) + 1 rows
    assert list(told["bandwidth"]) == ["layer 1", "layer 2"]


def test_many_windows_are_fitted_on_landmarks_unless_told() -> None:
    """Above 5,000 rows 1,000 landmarks are set; a number given stands; detectors without any are left alone."""
    assert not on_landmarks(KernelRidgeOCC(), 5000)
    detector, given = KernelRidgeOCC(), KernelRidgeOCC(n_landmarks=7)
    assert on_landmarks(detector, 5001)
    assert detector.n_landmarks == 1000
    assert not on_landmarks(given, 10**6)
    assert given.n_landmarks == 7
    assert not on_landmarks(OCNN(), 10**6)


def test_threshold_that_rejects_all_training_rows_is_told() -> None:
    """One row far away sets the bandwidth; the others tie at theta1, which the strict rule rejects."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[-1] = 1e6
    with pytest.warns(TuningWarning, match="rejects all training rows"):
        detector = MultiLayerKRR(graph="lle").fit(X)
    assert detector.training_acceptance_ == 0.0


def test_kernel_by_number_keeps_its_digits_beside_one_far_row() -> None:
    """Centred on the median, the 59 rows' kernel values do not lose what a row at 1e8 would cost a mean."""
    X = np.random.default_rng(0).normal(size=(60, 3))
    X[-1] = 1e8
    row = KernelPoints(X, 2.0).row(X[0])
    np.testing.assert_allclose(row[:-1], np.exp(-np.square(X[:-1] - X[0]).sum(axis=1) / 2.0), rtol=0, atol=1e-12)
