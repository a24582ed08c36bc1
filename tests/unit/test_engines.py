"""Engines: the same bits from numpy and from compiled code as from a loop, and one line where numba is missing."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ import engines
from stream_occ.detectors import OCNN, RandomProjectionEnsemble
from stream_occ.engines import Members, open_members, open_rows
from stream_occ.errors import ConfigError
from stream_occ.projection import draw_projection
from tests.reference import engine_loop

BOTH = ["numpy", pytest.param("compiled", marks=pytest.mark.skipif(not engines.has_numba(), reason="numba is missing"))]


@pytest.fixture(autouse=True)
def _no_engine_stays(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv(engines.VARIABLE, raising=False)
    yield
    engines.select("auto")


def make_rows(n_rows: int, n_features: int, rng: np.random.Generator, kind: str) -> np.ndarray:
    """Rows of one kind of trouble."""
    X = rng.normal(size=(n_rows, n_features))
    if kind == "lattice":
        X = np.round(X)  # many distances are exactly equal
    elif kind == "constant":
        X[:, :: max(1, n_features // 2)] = 0.25
    elif kind == "repeated":
        X = X[rng.integers(0, max(1, n_rows // 3), size=n_rows)]
    elif kind == "offset":
        X = 1e6 + 1e-3 * X
    elif kind == "outlier":
        X[n_rows // 2] = 1e9
    elif kind == "collinear":
        X = X[:, :1] * np.arange(1.0, n_features + 1.0)
    return X


KINDS = ("plain", "lattice", "constant", "repeated", "offset", "outlier", "collinear")


def make_members(X: np.ndarray, rng: np.random.Generator, *, n_members: int, theta: float, floor: float) -> Members:
    """Members with projections, J of 1 to 4, own distances that are partly 0, and rows left out."""
    n_rows, n_features = X.shape
    maps = np.stack([draw_projection(n_features, rng) for _ in range(n_members)])
    spread = float(np.median(np.abs(X - np.median(X, axis=0)))) + 1e-12
    own = spread * np.round(rng.random((n_members, n_rows)) * 4.0, 1)
    if n_rows > 8:
        own[:, rng.integers(0, n_rows, size=3)] = -1.0
    kept = (own >= 0.0).sum(axis=1).min()
    n_neighbors = rng.integers(1, min(4, kept) + 1, size=n_members)
    return Members(X, maps, own, n_neighbors, np.full(n_members, theta), np.full(n_members, floor * spread))


def make_queries(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Near, as near as training rows, in between, and far out."""
    spread = np.median(np.abs(X - np.median(X, axis=0)), axis=0) + 1e-12
    near = X[rng.integers(0, len(X), size=4)] + 0.1 * spread * rng.normal(size=(4, X.shape[1]))
    far = [X.mean(axis=0) + scale * spread * rng.normal(size=X.shape[1]) for scale in (3.0, 1e2, 1e4, 1e8, 1e15)]
    return np.concatenate([near, X[:3], far])


def loop_ratios(members: Members, Z: np.ndarray) -> np.ndarray:
    """nn_ratio (n, L) by the loop."""
    found = np.empty((len(Z), len(members.maps)))
    for member, matrix in enumerate(members.maps.tolist()):
        rows = [engine_loop.mapped(row, matrix) for row in members.X.tolist()]
        for i, z in enumerate(Z.tolist()):
            own, floor = members.own_distance[member].tolist(), float(members.floor[member])
            found[i, member] = engine_loop.ratio(
                engine_loop.mapped(z, matrix), rows, own, int(members.n_neighbors[member]), floor
            )
    return found


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("kind", KINDS)
def test_ratios_and_votes_are_the_loops_to_the_bit(kind: str, engine: str) -> None:
    """Every ratio has the bits of brute force, and no vote or decision is another, for rows of all kinds of trouble."""
    engines.select(engine)
    for seed, (n_rows, n_features) in enumerate([(1, 1), (2, 3), (5, 31), (17, 7), (40, 8), (100, 16), (150, 31)]):
        rng = np.random.default_rng([seed, KINDS.index(kind)])
        X = make_rows(n_rows, n_features, rng, kind)
        members = make_members(X, rng, n_members=3, theta=0.9, floor=float(seed % 2))
        Z = make_queries(X, rng)
        expected = loop_ratios(members, Z)
        search = open_members(members)
        np.testing.assert_array_equal(search.ratios(Z)[0], expected)
        rejecting = (expected >= members.theta).sum(axis=1)
        np.testing.assert_array_equal(search.n_rejecting(Z), rejecting)
        for bar in range(4):
            np.testing.assert_array_equal(search.more_reject(Z, bar), rejecting > bar)


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("n_features", range(1, 41))
def test_every_width_is_summed_in_the_same_order(n_features: int, engine: str) -> None:
    """Over 1 to 40 columns, and fewer mapped ones, neither engine's sum differs from the loop's in one bit."""
    engines.select(engine)
    rng = np.random.default_rng(n_features)
    X = rng.normal(size=(30, n_features)) * np.logspace(-3, 3, n_features)
    members = make_members(X, rng, n_members=2, theta=1.0, floor=0.0)
    kept = rng.integers(1, n_features + 1)
    members = Members(
        X,
        members.maps[:, :kept].copy(),
        *(getattr(members, name) for name in ("own_distance", "n_neighbors", "theta", "floor")),
    )
    Z = make_queries(X, rng)[:6]
    np.testing.assert_array_equal(open_members(members).ratios(Z)[0], loop_ratios(members, Z))


@pytest.mark.parametrize("engine", BOTH)
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    n_rows=st.integers(1, 400),
    n_features=st.integers(1, 40),
    kind=st.sampled_from(KINDS),
    scale=st.sampled_from([1e-170, 1e-30, 1.0, 1e20, 1e90]),
)
def test_nearest_rows_are_those_of_a_sorted_table(
    engine: str, seed: int, n_rows: int, n_features: int, kind: str, scale: float
) -> None:
    """Rows, distances and the order of ties are those of all distances, sorted, at any scale that float64 has."""
    engines.select(engine)
    rng = np.random.default_rng(seed)
    X = make_rows(n_rows, n_features, rng, kind) * scale
    Q = make_queries(X / scale, rng) * scale
    k = int(rng.integers(1, min(n_rows, 12) + 1))
    table = np.add.reduce((Q[:, None] - X[None]) ** 2, axis=2)
    expected = np.argsort(table, axis=1, kind="stable")[:, :k]
    distances, rows = open_rows(X).of(Q, k)
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(distances, np.sqrt(np.take_along_axis(table, expected, axis=1)))


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize("n_rows", [2, 15, 16, 17, 255, 256, 257, 300, 1000])
def test_a_row_is_not_its_own_neighbor(n_rows: int, engine: str) -> None:
    """Joined with themselves, rows are left out by number and found by their twins."""
    engines.select(engine)
    rng = np.random.default_rng(n_rows)
    X = np.round(rng.normal(size=(n_rows, 3)), 1)
    table = np.add.reduce((X[:, None] - X[None]) ** 2, axis=2)
    np.fill_diagonal(table, np.inf)
    k = min(6, n_rows - 1)
    distances, rows = engines.nearest(X, X, k, skip=np.arange(n_rows))
    expected = np.argsort(table, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_array_equal(distances, np.sqrt(np.take_along_axis(table, expected, axis=1)))


@pytest.mark.skipif(not engines.has_numba(), reason="numba is missing")
def test_engines_agree_on_thousands_of_rows() -> None:
    """Near and far windows, votes and means, alone and together: no bit of a score differs, nor one in training."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=(6000, 6)) @ rng.normal(size=(6, 31))
    X = np.tanh(latent / 2.0) + 0.02 * rng.normal(size=latent.shape)
    X, Z = X[:5000], np.concatenate([X[5000:5200], X[5200:5300] + rng.normal(size=(100, 31)), 1e7 * X[5300:5310]])
    scores = {}
    for engine in engines.ENGINES[1:]:
        engines.select(engine)
        for combine in ("vote", "mean"):
            fitted = RandomProjectionEnsemble(OCNN(2, 3, theta="empirical"), 3, combine=combine, random_state=1).fit(X)
            together = fitted.score_samples(Z)
            assert [fitted.score_samples(z[None])[0] for z in Z[::15]] == together[::15].tolist()
            scores[engine, combine] = (
                together,
                fitted.predict(Z),
                fitted.thetas_,
                fitted.scorer_.arrays()["own_distance"],
            )
    for combine in ("vote", "mean"):
        for ours, theirs in zip(scores["compiled", combine], scores["numpy", combine], strict=True):
            np.testing.assert_array_equal(ours, theirs)


@pytest.mark.skipif(not engines.has_numba(), reason="numba is missing")
def test_auto_compiles_where_it_gains_and_more_columns_than_128_are_left_to_numpy() -> None:
    """A small model is not worth numba's memory; numpy sums more than 128 terms in another order."""
    small, large = np.zeros((100, 2)), np.random.default_rng(1).normal(size=(engines.LEAST_MEASURED, 2))
    assert type(open_rows(small)).__name__ == "NearestRows"
    assert type(open_rows(large)).__name__ == "CompiledRows"
    engines.select("compiled")
    assert type(open_rows(small)).__name__ == "CompiledRows"
    assert type(open_rows(np.zeros((100, 129)))).__name__ == "NearestRows"


@pytest.mark.parametrize("name", ["numba", "", "Compiled"])
def test_an_unknown_engine_is_refused(name: str) -> None:
    """One line says which there are."""
    with pytest.raises(ConfigError, match="engine: must be one of auto, numpy, compiled"):
        engines.select(name)


def test_the_variable_chooses_where_nobody_else_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """It holds for `auto` alone, and a value that names no engine is refused."""
    X = np.zeros((engines.LEAST_MEASURED, 2))
    monkeypatch.setenv(engines.VARIABLE, "numpy")
    assert type(open_rows(X)).__name__ == "NearestRows"
    monkeypatch.setenv(engines.VARIABLE, "fast")
    with pytest.raises(ConfigError, match="STREAM_OCC_ENGINE: must be one of"):
        open_rows(X)
    engines.select("numpy")
    assert type(open_rows(X)).__name__ == "NearestRows"


@pytest.mark.parametrize("engine", BOTH)
@pytest.mark.parametrize(("k", "skip"), [(0, None), (4, None), (3, np.arange(3))])
def test_impossible_k_is_refused(k: int, skip: np.ndarray | None, engine: str) -> None:
    """k must leave enough rows."""
    engines.select(engine)
    with pytest.raises(ValueError, match=r"k must be in 1\.\."):
        engines.nearest(np.zeros((3, 1)), np.zeros((3, 1)), k, skip=skip)


@pytest.mark.skipif(not engines.has_numba(), reason="numba is missing")
def test_nothing_is_compiled_after_the_import() -> None:
    """Whatever arrays come, read-only, of other types or not in order: no function gets a second signature."""
    from stream_occ.engines import _kernels, compiled

    X = np.random.default_rng(0).normal(size=(100, 6))
    X.flags.writeable = False
    rows = compiled.CompiledRows(X)
    expected = rows.of(np.ascontiguousarray(X[:5]), 2)[1]
    for Q in (X[:5], X[:5].astype(np.float32), np.asfortranarray(X[:5]), np.repeat(X[:5], 2, axis=0)[::2]):
        assert rows.of(Q, 2, skip=np.full(5, -1, dtype=np.int32))[1].tolist() == expected.tolist()
    for function in (_kernels.nearest, _kernels.ratios, _kernels.votes):
        assert len(function.signatures) == 1


WITHOUT_NUMBA = """
import sys, warnings
warnings.simplefilter("error")
sys.modules.update(numba=None, llvmlite=None)  # as where they are not installed
import numpy as np
from stream_occ import engines
X = np.random.default_rng(0).normal(size=(12_000, 4))
{code}
"""


def run_without_numba(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT_NUMBA.format(code=code)], capture_output=True, text=True, check=False
    )


def test_without_numba_all_works_and_nothing_is_said() -> None:
    """`auto` searches by numpy then, silently."""
    done = run_without_numba("print(type(engines.open_rows(X)).__name__, engines.nearest(X[:1], X, 1)[1])")
    assert (done.returncode, done.stdout, done.stderr) == (0, "NearestRows [[0]]\n", "")


def test_without_numba_compiled_is_refused_in_one_line() -> None:
    """What is asked for and missing is told, with what to run."""
    done = run_without_numba("engines.select('compiled')")
    last = done.stderr.strip().splitlines()[-1]
    assert done.returncode != 0
    assert last.endswith(
        "engine: must have numba for compiled; got none installed. Run pip install 'stream_occ[fast]'."
    )


def test_numba_is_not_imported_where_numpy_is_meant() -> None:
    """A large model under `numpy` costs none of numba's memory."""
    code = (
        "import sys, numpy as np; from stream_occ import engines; engines.select('numpy');"
        "X = np.random.default_rng(0).normal(size=(12_000, 4)); engines.nearest(X[:1], X, 1);"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
