"""The frozen kernel ridge scorer: batch-independent, finite, by hand, and strict about what it is built from."""

import json
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from stream_occ.detectors import KernelRidgeAutoEncoder, KernelRidgeOCC, MultiLayerKRR
from stream_occ.errors import ModelError
from stream_occ.scoring import load_scorer
from stream_occ.scoring.krr_network import LARGEST_BAND, PRECISIONS, FrozenScorer

KINDS = {
    "output": lambda: MultiLayerKRR(3, "lle"),
    "theta2": lambda: MultiLayerKRR(2, threshold="theta2"),
    "single": KernelRidgeOCC,
    "reconstruction": KernelRidgeAutoEncoder,
    "layers": lambda: MultiLayerKRR(3, evidence="layers"),
    "landmarks": lambda: MultiLayerKRR(2, "cda", evidence="layers", n_landmarks=40),
    "float32 output": lambda: MultiLayerKRR(3, "lle", precision="float32"),
    "float32 layers": lambda: MultiLayerKRR(3, evidence="layers", precision="float32"),
}


def rows_of(n_rows: int, seed: int) -> np.ndarray:
    """Rows of low intrinsic dimension."""
    rng = np.random.default_rng(seed)
    return np.tanh(rng.normal(size=(n_rows, 2)) @ np.random.default_rng(1).normal(size=(2, 6)))


@pytest.mark.parametrize("kind", KINDS)
def test_score_is_the_same_bits_in_any_batch_and_finite(kind: str) -> None:
    """One by one, in sevens, reversed, with far rows between, and from the model file's arrays: the same 64 bits."""
    scorer = KINDS[kind]().fit(rows_of(300, 1)).to_scorer()
    far = np.random.default_rng(3).normal(size=(40, 6)) * np.logspace(0, 307, 40)[:, None]
    Z = np.concatenate([rows_of(60, 2), far])
    together = scorer.score(Z)
    assert np.isfinite(together).all()
    assert len(set(together.tolist())) > 30
    assert [scorer.score(z[None])[0] for z in Z] == together.tolist()
    assert np.concatenate([scorer.score(Z[i : i + 7]) for i in range(0, 100, 7)]).tolist() == together.tolist()
    assert scorer.score(np.asfortranarray(Z[::-1])).tolist() == together[::-1].tolist()
    params = json.loads(json.dumps(scorer.params()))
    stored = {name: array.copy() for name, array in scorer.arrays().items()}
    for array in stored.values():
        array.flags.writeable = False
    assert load_scorer("krr_network", stored, params).score(Z).tolist() == together.tolist()


def one_point(evidence: str, **changes: Any) -> FrozenScorer:
    """One layer, the origin in one dimension, A2 = 1, weight 2."""
    return FrozenScorer(
        [np.zeros((1, 1))], [np.full((1, 1), 2.0)], bandwidth=np.array([1.0]), evidence=evidence, **changes
    )


def test_scores_by_hand() -> None:
    """k(2) = e^-4 with weight 2: |2e^-4 - 1|; |2 - 2e^-4|^2; u = 4, scaled by (4 - 1)/2 over (1 - 2e^-4 - 0)/1."""
    x, output = np.array([[2.0]]), 2.0 * np.exp(-4.0)
    assert one_point("output").score(x)[0] == pytest.approx(1.0 - output, rel=1e-14)
    assert one_point("output", center=0.5).score(x)[0] == pytest.approx(0.5 - output, rel=1e-14)
    assert one_point("reconstruction").score(x)[0] == pytest.approx((2.0 - output) ** 2, rel=1e-14)
    layers = one_point("layers", scales=(np.array([[0.0, 1.0]]), np.array([[1.0, 2.0]])))
    np.testing.assert_allclose(layers.evidences(x), [[[1.0 - output, 4.0]]], rtol=1e-14)
    assert layers.score(x)[0] == pytest.approx(1.5, rel=1e-14)
    assert layers.residual(x)[0] == pytest.approx(1.0 - output, rel=1e-14)


def test_two_layers_by_hand() -> None:
    """x = 1 with points 0 and 1, identity-like maps: the second layer sees the first one's output."""
    points = [np.array([[0.0], [1.0]]), np.array([[0.0], [0.5]])]
    weights = [np.array([[0.25], [0.5]]), np.array([[1.0], [1.0]])]
    scorer = FrozenScorer(points, weights, bandwidth=np.array([1.0, 2.0]), evidence="output")
    hidden = 0.25 * np.exp(-1.0) + 0.5
    output = np.exp(-(hidden**2) / 2.0) + np.exp(-((hidden - 0.5) ** 2) / 2.0)
    assert scorer.score(np.array([[1.0]]))[0] == pytest.approx(abs(output - 1.0), rel=1e-13)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_no_numbers_are_refused(bad: float) -> None:
    """NaN and infinity raise; a wrong width too; no rows give no scores."""
    scorer = KernelRidgeOCC().fit(rows_of(30, 1)).to_scorer()
    with pytest.raises(ValueError, match="X must be finite"):
        scorer.score(np.full((1, 6), bad))
    with pytest.raises(ValueError, match=r"X must have shape \(n, 6\)"):
        scorer.score(np.zeros((2, 5)))
    for kind in KINDS.values():
        assert kind().fit(rows_of(60, 1)).to_scorer().score(np.empty((0, 6))).shape == (0,)


@pytest.mark.parametrize(
    ("name", "change", "text"),
    [
        ("points_1", None, "scorer arrays: must be"),
        ("points_1", lambda a: a.astype(np.float32), "points_1: must be non-empty float64 with 2 dimensions"),
        ("weights_2", lambda a: a[:, 0], "weights_2: must be non-empty float64 with 2 dimensions"),
        ("weights_1", lambda a: a[:-1], "weights_1: must have shape"),
        ("weights_1", lambda a: a[:, :-1], "weights_1: must have shape"),
        ("points_2", lambda a: a[:, :-1], "points_2: must have shape"),
        ("weights_2", lambda a: np.column_stack([a, a]), "weights_2: must have shape"),
        ("points_1", lambda a: a[:0], "points_1: must be non-empty"),
        ("points_2", lambda a: np.where(a == a[0, 0], np.nan, a), "points_2: must be finite"),
        ("points_1", lambda a: 1e150 * a, "points_1: must be finite and within"),
        ("weights_1", lambda a: 1e90 * a, "weights_1: must lie within"),
        ("bandwidth", lambda a: 0.0 * a, "bandwidth: must be at least 1e-24"),
        ("bandwidth", lambda a: a[:1], "bandwidth: must have shape"),
        ("center", lambda a: np.ones(2), "center: must have shape"),
        ("median", lambda a: a[:1], "median: must have shape"),
        ("width", lambda a: -a, "width: must be at least 1e-30"),
        ("width", lambda a: np.inf * a, "width: must be finite"),
    ],
)
def test_damaged_arrays_are_refused(name: str, change: Any, text: str) -> None:
    """Each in one line that names the array."""
    scorer = MultiLayerKRR(2, evidence="layers").fit(rows_of(30, 1)).to_scorer()
    arrays = scorer.arrays()
    if change is None:
        del arrays[name]
    else:
        arrays[name] = change(arrays[name])
    with pytest.raises(ModelError, match=text):
        FrozenScorer.from_arrays(arrays, scorer.params())


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ({"evidence": "layers"}, "n_layers: must be a whole number in 1..5 for layers; got None"),
        ({"evidence": "layers", "n_layers": 6}, "n_layers: must be a whole number in 1..5"),
        ({"evidence": "layers", "n_layers": True}, "n_layers: must be a whole number in 1..5"),
        ({"evidence": "reconstruction", "n_layers": 2}, "n_layers: must be a whole number in 1..1"),
        ({"evidence": "depth", "n_layers": 2}, "evidence: must be one of output, reconstruction, layers; got 'depth'"),
        ({"evidence": "output", "n_layers": 2}, "scorer arrays: must be"),
    ],
)
def test_damaged_params_are_refused(params: dict[str, Any], text: str) -> None:
    """Unknown evidence, depths out of bounds, and arrays of another evidence."""
    arrays = MultiLayerKRR(2, evidence="layers").fit(rows_of(30, 1)).to_scorer().arrays()
    with pytest.raises(ModelError, match=text):
        FrozenScorer.from_arrays(arrays, params)


def test_scorer_needs_numpy_alone() -> None:
    """What the running service imports of it brings in no scikit-learn, scipy or joblib."""
    heavy = "{'sklearn', 'scipy', 'joblib', 'river'}"
    code = f"import sys, stream_occ.scoring.krr_network; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


SINGLE = {
    "output": lambda precision: MultiLayerKRR(3, "lle", precision=precision),
    "theta2": lambda precision: MultiLayerKRR(2, threshold="theta2", precision=precision),
    "strong": lambda precision: MultiLayerKRR(5, C=1e3, precision=precision),
    "single": lambda precision: KernelRidgeOCC("cda", precision=precision),
    "reconstruction": lambda precision: KernelRidgeAutoEncoder(precision=precision),
    "layers": lambda precision: MultiLayerKRR(3, evidence="layers", precision=precision),
    "landmarks": lambda precision: MultiLayerKRR(3, "lle", evidence="layers", n_landmarks=12, precision=precision),
}


@pytest.mark.parametrize("kind", SINGLE)
def test_float32_decides_as_float64_outside_its_band(kind: str) -> None:
    """Scores differ by at most band (1 + |score|), near and far: decisions are equal but nearer to a threshold."""
    X = rows_of(400, 1)
    Z = np.concatenate([rows_of(2000, 2), rows_of(500, 3) * np.random.default_rng(4).uniform(1, 1e6, (500, 1))])
    double, single = (SINGLE[kind](precision).fit(X).to_scorer() for precision in ("float64", "float32"))
    expected, found = double.score(Z), single.score(Z)
    assert 0.0 < single.band <= LARGEST_BAND
    assert (found != expected).mean() > 0.5
    assert (np.abs(found - expected) <= single.band * (1 + np.abs(expected))).all()
    for threshold in np.quantile(expected[:2000], [0.05, 0.5, 0.9, 0.99]):
        outside = np.abs(expected - threshold) > single.band * (1 + np.abs(expected))
        assert outside.mean() > 0.9
        assert ((found > threshold) == (expected > threshold))[outside].all()


def test_float32_halves_what_is_made_of_the_arrays() -> None:
    """The stored arrays are those of float64, so that a model can be read in either precision."""
    double, single = (MultiLayerKRR(2, precision=each).fit(rows_of(300, 1)).to_scorer() for each in PRECISIONS)
    assert all(np.array_equal(array, single.arrays()[name]) for name, array in double.arrays().items())
    made = [sum(rows.nbytes for rows in scorer._maps_and_mean) for scorer in (double, single)]
    assert made[0] == 2 * made[1]
    assert "precision" not in double.params()


@pytest.mark.parametrize(
    ("parameters", "offset"),
    [({"C": 1e9}, 0.0), ({"C": 1e6}, 100.0), ({"n_landmarks": 60, "evidence": "layers"}, 0.0), ({}, 1e30)],
)
def test_float32_is_refused_where_it_is_too_coarse(parameters: dict[str, Any], offset: float) -> None:
    """Large weights of both signs cancel, and float32 keeps too few digits of what is left."""
    X = rows_of(400, 1) * (1.0 if offset < 1e9 else offset) + offset
    MultiLayerKRR(2, **parameters).fit(X)
    with pytest.raises(ValueError, match=r"precision must be float64 .*; got float32"):
        MultiLayerKRR(2, **parameters, precision="float32").fit(X)


def test_float32_is_refused_for_numbers_beyond_it() -> None:
    """In a model file, and a precision that nobody knows."""
    arrays = one_point("output").arrays()
    params = {"evidence": "output", "n_layers": 1}
    with pytest.raises(ModelError, match="precision: must be one of float64, float32; got 'float16'"):
        FrozenScorer.from_arrays(arrays, {**params, "precision": "float16"})
    with pytest.raises(ModelError, match=r"band: must be a number in \[0, 0.001\]; got 2.0"):
        FrozenScorer.from_arrays(arrays, {**params, "precision": "float32", "band": 2.0})
    arrays["weights_1"] = np.full((1, 1), 1e40)
    with pytest.raises(ModelError, match="precision: must be float64 for numbers beyond"):
        FrozenScorer.from_arrays(arrays, {**params, "precision": "float32"})
