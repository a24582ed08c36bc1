"""What is fast stays fast: ratios to plain code in paired runs, with bounds that a busy machine keeps too.

CPU time of one thread; medians of rounds in which both take turns, so that whatever slows one slows the other, which
holds less where one waits for memory and the other does not: `scripts/test` runs these alone, after all others. The
bounds are half of what was measured, or less: docs/performance.md has the figures, `stream-occ bench` makes them anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.signal import sosfilt
from scipy.spatial import cKDTree

from stream_occ import engines
from stream_occ.artifacts import load_model
from stream_occ.bench.devices import RATE_HZ, walking
from stream_occ.bench.ocnn import fitted, ours, peers
from stream_occ.bench.parts import decoding, features
from stream_occ.bench.rows import Rows, synthetic_rows
from stream_occ.bench.serving import make_model
from stream_occ.bench.timing import in_turns
from stream_occ.bench.training import by_ckdtree, by_us
from stream_occ.features import khan31r
from stream_occ.samples import NS_PER_S, FloatArray
from stream_occ.scoring import Model
from tests.unit.service_bench import JSON, T0_NS, Bench

N_ROWS, N_MEMBERS = 6_000, 9
BATCH, N_TUNED = 256, 3_000
ROUNDS, FEW_ROUNDS, CALLS = 5, 3, 4
N_DEVICES, N_PLAIN, N_SAMPLES, N_MODEL_ROWS = 32, 4, 25, 2_000  # by plain code a message takes as long among few
WINDOW, WARM_UP, SERVICE_ROUNDS = 250, 12, 5  # the first windows are full after ten messages
N_WINDOWS, N_NAIVE = 64, 8  # a naive window takes as long among few
TRIES, PAUSE_S = 10, 1.0

pytestmark = pytest.mark.ratio

Ways = Mapping[str, Callable[[Any], Any]]


@pytest.fixture(scope="module")
def rows() -> Rows:
    """Few enough for seconds; with more, the distance to the loop grows."""
    return synthetic_rows(N_ROWS)


@pytest.fixture(scope="module")
def ways(rows: Rows) -> Ways:
    """Both engines' whole vote, and the loop over members with scipy's cKDTree."""
    detector = fitted(rows, N_MEMBERS)
    return {**ours(detector), "loop": peers(detector)["ckdtree"]}


@pytest.fixture(params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    """Features and decoding by one engine, as `detect` has them."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    engines.select(request.param)
    engines.warm()
    yield request.param
    engines.select("auto")


def best_of(measure: Callable[[], float], bound: float) -> float:
    """The first ratio that reaches the bound, else the best of some, a second apart: neighbours of a machine pass."""
    best = measure()
    for _ in range(TRIES - 1):
        if best >= bound:
            break
        time.sleep(PAUSE_S)
        best = max(best, measure())
    return best


@pytest.mark.parametrize(
    ("name", "kind", "bound"),  # measured 20, 210; 2.7, 4.6
    [("compiled", "normal", 5.0), ("compiled", "fall", 30.0), ("numpy", "normal", 1.0), ("numpy", "fall", 1.5)],
)
def test_a_window_is_decided_faster_than_by_a_tree_a_member(
    name: str, kind: str, bound: float, rows: Rows, ways: Ways
) -> None:
    """One window, nine members, by each engine, beside the loop that one writes with scipy."""
    if name == "compiled":
        pytest.importorskip("numba")
    Z = getattr(rows, kind)
    tasks = {each: (lambda number, each=each: ways[each](Z[number % len(Z)][None])) for each in (name, "loop")}
    ratio = best_of(lambda: in_turns(tasks, ROUNDS, reference=name, calls=CALLS)["loop"]["ratio"], bound)
    assert ratio >= bound


@pytest.mark.parametrize(
    ("name", "kind", "bound"),  # measured 7.4, 105; 2.8, 6.5
    [("compiled", "normal", 3.0), ("compiled", "fall", 15.0), ("numpy", "normal", 1.2), ("numpy", "fall", 3.0)],
)
def test_a_batch_is_decided_faster_than_by_a_tree_a_member(
    name: str, kind: str, bound: float, rows: Rows, ways: Ways
) -> None:
    """256 windows of as many devices at once, beside the trees, which take them at once too."""
    if name == "compiled":
        pytest.importorskip("numba")
    Z = getattr(rows, kind)[:BATCH]
    tasks = {each: (lambda _, each=each: ways[each](Z)) for each in (name, "loop")}
    ratio = best_of(lambda: in_turns(tasks, ROUNDS, reference=name, calls=0)["loop"]["ratio"], bound)
    assert ratio >= bound


@pytest.mark.parametrize(("name", "bound"), [("compiled", 1.5), ("numpy", 1.2)])  # measured 3.5, 3.0
def test_a_member_is_tuned_faster_than_with_a_tree_a_fold(name: str, bound: float, rows: Rows) -> None:
    """J, K and theta by both cross-validations."""
    if name == "compiled":
        pytest.importorskip("numba")
    X = rows.train[:N_TUNED]
    tasks = {
        name: lambda number: by_us(name, X, np.random.default_rng(number)),
        "ckdtree": lambda number: by_ckdtree(X, np.random.default_rng(number)),
    }
    ratio = best_of(lambda: in_turns(tasks, FEW_ROUNDS, reference=name, calls=0)["ckdtree"]["ratio"], bound)
    assert ratio >= bound


@pytest.mark.usefixtures("engine")
def test_features_in_a_batch_are_faster_than_one_by_one() -> None:
    """By numpy and compiled, beside the same 31 with numpy and scipy (measured 98 to 130 times)."""
    X = features.signals(N_WINDOWS)
    tasks = {
        "ours": lambda _: khan31r.FEATURE_SET.extract(features.batch_of(X)),
        "naive": lambda _: [features.per_feature(window) for window in X[:N_NAIVE]],
    }
    share = N_WINDOWS / N_NAIVE
    ratio = best_of(lambda: share * in_turns(tasks, ROUNDS, reference="ours")["naive"]["ratio"], 20.0)
    assert ratio >= 20.0


@pytest.mark.parametrize("n_samples", [50, 1])
def test_a_json_message_is_decoded_as_fast_as_by_json_and_numpy(n_samples: int, engine: str) -> None:
    """With all checks: 50 samples are faster (measured 5 times; by numpy 1.5), one is slower (.9; .41)."""
    payload, decoders = decoding.message(n_samples), decoding.decoders()
    tasks = {name: (lambda _, name=name: decoders[name](payload)) for name in ("ours", "json, numpy")}
    bound = {("numpy", 50): 0.8, ("compiled", 50): 1.5, ("numpy", 1): 0.2, ("compiled", 1): 0.5}[engine, n_samples]
    ratio = best_of(lambda: in_turns(tasks, ROUNDS, reference="ours", calls=50)["json, numpy"]["ratio"], bound)
    assert ratio >= bound


def test_a_message_costs_the_service_less_than_plain_code(engine: str, tmp_path: Path) -> None:
    """From its bytes to its window's decision, 25 samples of one of 32 devices: json, scipy, cKDTree (4.8; 6.5)."""
    make_model(tmp_path / "model.occ", N_MODEL_ROWS)
    model = load_model(tmp_path / "model.occ")
    bound = {"numpy": 1.5, "compiled": 2.0}[engine]
    ratio = best_of(lambda: service_ratio(model), bound)
    assert ratio >= bound


def service_ratio(model: Model) -> float:
    """CPU time of plain code over that of the service, for a message; streams begin anew."""
    bench, n_turns = Bench(model), WARM_UP + 2 * (SERVICE_ROUNDS + 1)
    messages = [[payload_of(device, turn) for device in range(N_DEVICES)] for turn in range(n_turns)]
    turns = iter(messages)
    plain, tree = [np.zeros((6, 0))] * N_PLAIN, cKDTree(np.random.default_rng(0).normal(size=(N_MODEL_ROWS, 31)))
    assert model.sos is not None
    sos = model.sos.copy()  # scipy takes none that is read-only

    def serve(_: int) -> None:
        for device, payload in enumerate(next(turns)):
            assert bench.deliver(f"wearables/w{device}/imu", payload)
        bench.run(N_SAMPLES / RATE_HZ)

    def write(number: int) -> None:
        for device, payload in enumerate(messages[number][:N_PLAIN]):
            plain[device] = plainly(payload, plain[device], sos, tree)

    for _ in range(WARM_UP):
        serve(0)
        write(0)
    found = in_turns({"ours": serve, "plain": write}, SERVICE_ROUNDS, reference="ours", calls=0)
    assert bench.service.n_windows
    return found["plain"]["ratio"] * N_DEVICES / N_PLAIN


def payload_of(device: int, turn: int) -> bytes:
    """What a device sends in its turn."""
    k = np.arange(turn * N_SAMPLES, (turn + 1) * N_SAMPLES)
    t_ns = T0_NS + np.rint(k * NS_PER_S / RATE_HZ).astype(np.int64)
    return JSON.encode(walking(f"w{device}", k, t_ns, np.random.default_rng([device, turn])))


def plainly(payload: bytes, kept: FloatArray, sos: FloatArray, tree: cKDTree) -> FloatArray:
    """Samples on a grid, filtered, a window's features one by one and its nearest rows; returns the window."""
    message = json.loads(payload)
    t_ns = np.array(message["t_ns"], dtype=np.int64)
    samples = np.concatenate([np.array(message["acc"]), np.array(message["gyr"])], axis=1).T
    grid = t_ns[0] + np.rint(np.arange(N_SAMPLES) * NS_PER_S / RATE_HZ).astype(np.int64)
    filtered = sosfilt(sos, np.stack([np.interp(grid, t_ns, axis) for axis in samples]))
    kept = np.concatenate([kept, filtered], axis=1)[:, -WINDOW:]
    if kept.shape[1] == WINDOW:
        tree.query(features.per_feature(kept), 10)
    return kept
