"""The frozen kernel expansion: its formula by hand, bit-identity in any batch, extremes, and damaged model files."""

import math
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from stream_occ.detectors import SVDD, KernelOCSVM, KernelPCANovelty
from stream_occ.errors import ModelError
from stream_occ.scoring import load_scorer
from stream_occ.scoring.kernel_expansion import FrozenScorer

DETECTORS = [KernelPCANovelty(), KernelPCANovelty(2), SVDD(0.1), KernelOCSVM(0.3)]


def table(n_rows: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return np.tanh(rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, 5))) + 0.1 * rng.normal(size=(n_rows, 5))


def test_formula_by_hand() -> None:
    """Points 0 and 1, A2 = 2, x = 2: k = (exp(-2), exp(-1/2)); 3 + (1, -2) . k, and minus two squares."""
    points, linear = np.array([[0.0], [1.0]]), np.array([1.0, -2.0])
    k0, k1 = math.exp(-2.0), math.exp(-0.5)
    plain = FrozenScorer(points, bandwidth=2.0, constant=3.0, linear=linear)
    assert plain.score(np.array([[2.0]]))[0] == pytest.approx(3.0 + k0 - 2.0 * k1, rel=1e-15)
    full = FrozenScorer(
        points,
        bandwidth=2.0,
        constant=3.0,
        linear=linear,
        components=np.array([[1.0, 1.0], [0.0, 4.0]]),
        offset=np.array([-1.0, 2.0]),
    )
    squares = (k0 + k1 - 1.0) ** 2 + (4.0 * k1 + 2.0) ** 2
    assert full.score(np.array([[2.0]]))[0] == pytest.approx(3.0 + k0 - 2.0 * k1 - squares, rel=1e-15)


@pytest.mark.parametrize("detector", DETECTORS, ids=repr)
def test_score_has_the_same_bits_in_any_batch(detector: Any) -> None:
    """All rows at once, one at a time, reversed and in odd slices; from stored, read-only arrays as well."""
    scorer = detector.fit(table(150, 0)).to_scorer()
    Z = np.concatenate([table(60, 1), 10.0 * table(7, 2)])
    together = scorer.score(Z).tolist()
    assert [scorer.score(z[None])[0] for z in Z] == together
    assert scorer.score(Z[::-1]).tolist()[::-1] == together
    assert np.concatenate([scorer.score(Z[:13]), scorer.score(np.asfortranarray(Z[13:]))]).tolist() == together
    arrays = scorer.arrays()
    for array in arrays.values():
        array.setflags(write=False)
    again = load_scorer(FrozenScorer.KIND, arrays, scorer.params())
    assert again.score(Z).tolist() == together
    assert again.n_features == 5
    assert scorer.score(np.empty((0, 5))).shape == (0,)


@pytest.mark.parametrize("detector", DETECTORS, ids=repr)
def test_threshold_splits_as_predict_does(detector: Any) -> None:
    """score > score_threshold_ exactly where predict says -1, training rows on the boundary included."""
    X = table(150, 3)
    detector.fit(X)
    Z = np.concatenate([X, table(200, 4), 3.0 * table(100, 5)])
    scores, predicted = detector.to_scorer().score(Z), detector.predict(Z)
    np.testing.assert_array_equal(scores > detector.score_threshold_, predicted == -1)
    np.testing.assert_array_equal(detector.decision_function(Z), detector.score_samples(Z) - detector.offset_)
    assert set(predicted.tolist()) == {-1, 1}


@pytest.mark.parametrize("detector", DETECTORS, ids=repr)
def test_extreme_rows_are_finite_and_nan_is_refused(detector: Any) -> None:
    """1e308 gives a finite score that rejects; NaN and infinity, or another width, are refused."""
    detector.fit(table(80, 6))
    scorer = detector.to_scorer()
    scores = scorer.score(np.array([[1e308] * 5, [-1e308] * 5, [1e100, 0.0, 0.0, 0.0, 0.0]]))
    assert np.isfinite(scores).all()
    assert (scores > detector.score_threshold_).all()
    for bad in (np.nan, np.inf, -np.inf):
        with pytest.raises(ValueError, match="finite"):
            scorer.score(np.array([[0.0, 0.0, bad, 0.0, 0.0]]))
    with pytest.raises(ValueError, match=r"shape \(n, 5\); got \(2, 4\)"):
        scorer.score(np.zeros((2, 4)))


def test_largest_stored_numbers_still_score_finite() -> None:
    """What from_arrays lets through cannot overflow: all arrays at their limit, the least bandwidth."""
    big = np.full((3, 3), 1e100)
    arrays = {"points": -big, "linear": big[0], "components": big, "offset": big[0]}
    scorer = FrozenScorer.from_arrays(arrays, {"bandwidth": 1e-100, "constant": 1e100})
    assert np.isfinite(scorer.score(np.concatenate([-big, big, 0.0 * big]))).all()


def stored() -> tuple[dict[str, Any], dict[str, Any]]:
    scorer = KernelPCANovelty(3).fit(table(40, 7)).to_scorer()
    return dict(scorer.arrays()), scorer.params()


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("points", lambda a: a[:39].copy(), "linear: must have shape (39,); got (40,)"),
        ("points", lambda a: a.astype(np.float32), "points: must be non-empty float64 with 2 dimensions"),
        ("points", lambda a: a * np.nan, "points: must be finite and within"),
        ("points", lambda a: a * 1e120, "points: must be finite and within"),
        ("points", lambda a: a[:, :0].copy(), "points: must be non-empty"),
        ("linear", lambda a: a[None], "linear: must be non-empty float64 with 1 dimensions"),
        ("linear", lambda a: a * np.inf, "linear: must be finite and within"),
        ("components", lambda a: a[:2].copy(), "components: must have shape (3, 40); got (2, 40)"),
        ("components", lambda a: a[:, 1:].copy(), "components: must have shape (3, 40); got (3, 39)"),
        ("offset", lambda a: a[:1].copy(), "components: must have shape (1, 40)"),
        ("offset", lambda a: a.astype(np.int64), "offset: must be non-empty float64"),
    ],
)
def test_damaged_arrays_are_refused_by_name(name: str, change: Any, said: str) -> None:
    """Each array that does not fit gives one line that names it."""
    arrays, params = stored()
    arrays[name] = change(arrays[name])
    with pytest.raises(ModelError) as caught:
        FrozenScorer.from_arrays(arrays, params)
    assert said in str(caught.value)


@pytest.mark.parametrize("missing", [("points",), ("linear",), ("components",), ("offset",), ("points", "linear")])
def test_missing_arrays_are_refused(missing: tuple[str, ...]) -> None:
    """Components without offset, or either of the main arrays absent, is one line that lists what must be there."""
    arrays, params = stored()
    for name in missing:
        del arrays[name]
    with pytest.raises(ModelError, match="arrays: must be"):
        FrozenScorer.from_arrays(arrays, params)


@pytest.mark.parametrize("name", ["bandwidth", "constant"])
@pytest.mark.parametrize("value", [None, "1", True, math.nan, math.inf, 1e101])
def test_damaged_params_are_refused_by_name(name: str, value: Any) -> None:
    """A number that is absent, no number or beyond what stays finite is named."""
    arrays, params = stored()
    params[name] = value
    with pytest.raises(ModelError, match=f"params: {name}: must be a number within"):
        FrozenScorer.from_arrays(arrays, params)


@pytest.mark.parametrize("value", [0.0, -1.0, 1e-101])
def test_bandwidth_must_be_positive(value: float) -> None:
    """A bandwidth that would divide by zero or overflow is refused."""
    arrays, params = stored()
    with pytest.raises(ModelError, match="bandwidth: must be at least 1e-100"):
        FrozenScorer.from_arrays(arrays, {**params, "bandwidth": value})


def test_scorer_needs_numpy_alone() -> None:
    """What the running service imports brings in no scikit-learn, scipy or joblib."""
    heavy = "{'sklearn', 'scipy', 'joblib', 'river'}"
    code = f"import sys, stream_occ.scoring.kernel_expansion; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
