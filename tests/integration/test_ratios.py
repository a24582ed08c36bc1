"""What is fast stays fast: ratios to plain code in paired runs, with bounds that a busy machine keeps too.

CPU time of one thread; medians of rounds in which both take turns, so that whatever slows one slows the other, which
holds less where one waits for memory and the other does not: `scripts/test` runs these alone, after all others. The
bounds are half of what was measured, or less: docs/performance.md has the figures, `stream-occ bench` makes them anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from stream_occ import engines
from stream_occ.bench.ocnn import fitted, ours, peers
from stream_occ.bench.parts import decoding, features
from stream_occ.bench.rows import Rows, synthetic_rows
from stream_occ.bench.timing import in_turns
from stream_occ.features import khan31r

N_ROWS, N_MEMBERS = 6_000, 9
ROUNDS, CALLS = 5, 4
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


def test_a_json_message_is_decoded_faster_than_by_json_and_numpy(engine: str) -> None:
    """50 samples, with all checks; by numpy about as fast (measured 1.5 times), compiled faster (5 times)."""
    payload, decoders = decoding.message(50), decoding.decoders()
    tasks = {name: (lambda _, name=name: decoders[name](payload)) for name in ("ours", "json, numpy")}
    bound = {"numpy": 0.8, "compiled": 1.5}[engine]
    ratio = best_of(lambda: in_turns(tasks, ROUNDS, reference="ours", calls=50)["json, numpy"]["ratio"], bound)
    assert ratio >= bound
