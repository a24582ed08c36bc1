"""Deciding a window with a nearest-neighbour ensemble: our engines beside trees and brute force of other people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

import numpy as np

from stream_occ import engines
from stream_occ.bench.rows import Rows
from stream_occ.bench.timing import in_turns
from stream_occ.detectors import OCNN, RandomProjectionEnsemble
from stream_occ.samples import BoolArray, FloatArray, IntArray

N_CHECKED = 32  # windows whose decisions are compared
BATCH = 256
CALLS = 5  # windows in a row of one way

Decide = Callable[[FloatArray], BoolArray]
Theta = float | Literal["empirical"]
Query = Callable[[FloatArray, int], tuple[FloatArray, IntArray]]

__all__ = ["by_rows", "deciding", "fitted", "needed", "scoring"]


def fitted(rows: Rows, n_members: int, *, theta: Theta = 1.4) -> RandomProjectionEnsemble:
    """An ensemble with J, K = 2, 10; 1.4 accepts most normal windows of the synthetic rows."""
    return RandomProjectionEnsemble(OCNN(2, 10, theta=theta), n_members, random_state=0).fit(rows.train)


class MemberLoop:
    """Decides member by member with somebody's search among each member's rows."""

    def __init__(self, detector: RandomProjectionEnsemble, make: Callable[[FloatArray], Query]) -> None:
        arrays = detector.to_scorer().arrays()
        self._maps, self._own, self._theta = arrays["maps"], arrays["own_distance"], arrays["theta"]
        self._n_neighbors = arrays["n_neighbors"].tolist()
        self._queries = [make(arrays["X"] @ matrix.T) for matrix in self._maps]

    def decide(self, Z: FloatArray, *, stops: bool = False) -> BoolArray:
        """Whether at least half of the members reject each row; stops: a row asks no more members than that takes."""
        n_members = len(self._maps)
        bar = (n_members - 1) // 2
        n_rejecting, left = np.zeros(len(Z), dtype=np.int64), np.arange(len(Z))
        for member, query in enumerate(self._queries):
            j = self._n_neighbors[member]
            distance, row = query(Z[left] @ self._maps[member].T, j)
            distance, row = distance.reshape(len(left), j), row.reshape(len(left), j)
            reference = self._own[member][row].mean(axis=1)
            n_rejecting[left] += distance.mean(axis=1) >= self._theta[member] * reference
            if stops:
                n_others = n_members - member - 1
                left = left[(n_rejecting[left] <= bar) & (n_rejecting[left] + n_others > bar)]
                if not len(left):
                    break
        return n_rejecting > bar


def tree_loop(detector: RandomProjectionEnsemble) -> MemberLoop:
    """scipy's cKDTree, one a member."""
    from scipy.spatial import cKDTree

    return MemberLoop(detector, lambda X: cKDTree(X).query)


def peers(detector: RandomProjectionEnsemble) -> dict[str, Decide]:
    """scipy's cKDTree, plain and with the same stop at a majority, and scikit-learn's brute force and tree."""
    from sklearn.neighbors import NearestNeighbors

    def neighbors(algorithm: str) -> Callable[[FloatArray], Query]:
        def make(X: FloatArray) -> Query:
            index = NearestNeighbors(algorithm=algorithm).fit(X)
            return lambda Z, k: index.kneighbors(Z, k)

        return make

    trees = tree_loop(detector)
    brute, tree = MemberLoop(detector, neighbors("brute")), MemberLoop(detector, neighbors("kd_tree"))
    return {
        "ckdtree": trees.decide,
        "ckdtree_stops": lambda Z: trees.decide(Z, stops=True),
        "sklearn_brute": brute.decide,
        "sklearn_kd_tree": tree.decide,
    }


def ours(detector: RandomProjectionEnsemble) -> dict[str, Decide]:
    """Both engines: the whole vote, and the compiled one with a stop at a majority."""
    found: dict[str, Decide] = {}
    arrays, bar = detector.to_scorer().arrays(), (detector.n_estimators - 1) // 2
    for name in ("numpy", "compiled") if engines.has_numba() else ("numpy",):
        engines.select(name)
        search = engines.open_members(engines.Members(**arrays))
        found[name] = lambda Z, search=search: search.n_rejecting(Z) > bar  # type: ignore[misc]
        found[f"{name}_stops"] = lambda Z, search=search: search.more_reject(Z, bar)  # type: ignore[misc]
    engines.select("auto")
    return found


def borderline(rows: Rows, decide: Decide) -> FloatArray:
    """Windows between normal ones and falls, each as far towards its fall as the vote turns."""
    n = min(len(rows.normal), len(rows.fall))
    low, high = np.zeros((n, 1)), np.ones((n, 1))
    for _ in range(12):
        middle = (low + high) / 2.0
        is_over = decide(rows.normal[:n] + middle * (rows.fall[:n] - rows.normal[:n]))[:, None]
        low, high = np.where(is_over, low, middle), np.where(is_over, middle, high)
    return rows.normal[:n] + high * (rows.fall[:n] - rows.normal[:n])


def deciding(rows: Rows, *, n_members: int = 25, rounds: int = 15, theta: Theta = 1.4) -> dict[str, Any]:
    """Milliseconds a window of one thread and ratios to the compiled engine; normal, borderline and fall windows."""
    detector = fitted(rows, n_members, theta=theta)
    ways = ours(detector) | peers(detector)
    reference = "compiled" if "compiled" in ways else "numpy"
    kinds = {"normal": rows.normal, "borderline": borderline(rows, ways[reference]), "fall": rows.fall}
    timed: list[dict[str, Any]] = []
    for kind, Z in kinds.items():
        for batch, n_rounds in ((1, rounds), (BATCH, max(3, rounds // 5))):
            few = ways if batch == 1 else {name: way for name, way in ways.items() if name != "sklearn_kd_tree"}

            def at(way: Decide, Z: FloatArray = Z, batch: int = batch) -> Callable[[int], BoolArray]:
                return lambda number: way(Z[(first := number * batch % (len(Z) - batch + 1)) : first + batch])

            calls = CALLS if batch == 1 else 0
            found = in_turns({name: at(way) for name, way in few.items()}, n_rounds, reference=reference, calls=calls)
            for entry in found.values():
                entry["ms"], entry["cold_ms"] = entry["ms"] / batch, entry["cold_ms"] / batch
            timed.append({"windows": kind, "batch": batch, "rounds": n_rounds, "ways": found})
    checked = np.concatenate([Z[:N_CHECKED] for Z in kinds.values()])
    expected = ways["numpy"](checked)
    return {
        "rows": rows.name,
        "n_rows": len(rows.train),
        "n_members": n_members,
        "reference": reference,
        "members": {kind: needed(detector, Z[:N_CHECKED]) for kind, Z in kinds.items()},
        "rejected": {kind: float(np.mean(ways[reference](Z))) for kind, Z in kinds.items()},
        "timed": timed,
        "equal_decisions": {name: float(np.mean(way(checked) == expected)) for name, way in ways.items()},
    }


def needed(detector: RandomProjectionEnsemble, Z: FloatArray) -> dict[str, float]:
    """Of the members' decisions on rows Z: how many accept, reject by a row within reach, and reject without one.

    Without one no neighbour is needed; `engines/compiled.py` says what a row's reach is. beyond_nearest: of those that
    reject by a row within reach, all whose J nearest are not (share of all decisions).
    """
    arrays = detector.to_scorer().arrays()
    counts = dict.fromkeys(("without", "accepted", "rejected", "beyond_nearest"), 0)
    for member, matrix in enumerate(arrays["maps"]):
        X, places = arrays["X"] @ matrix.T, Z @ matrix.T
        own, theta, j = arrays["own_distance"][member], arrays["theta"][member], arrays["n_neighbors"][member]
        squared = np.square(places).sum(axis=1)[:, None] + np.square(X).sum(axis=1) - 2.0 * (places @ X.T)
        distance = np.sqrt(np.maximum(squared, 0.0))
        is_within = distance < theta * own
        nearest = np.argpartition(distance, j - 1, axis=1)[:, :j]
        accepts = np.take_along_axis(distance, nearest, axis=1).mean(axis=1) < theta * own[nearest].mean(axis=1)
        is_near = np.take_along_axis(is_within, nearest, axis=1).any(axis=1)
        counts["without"] += int((~is_within.any(axis=1)).sum())
        counts["accepted"] += int(accepts.sum())
        counts["rejected"] += int((is_within.any(axis=1) & ~accepts).sum())
        counts["beyond_nearest"] += int((is_within.any(axis=1) & ~is_near).sum())
    return {name: round(count / len(Z) / len(arrays["maps"]), 3) for name, count in counts.items()}


def scoring(rows: Rows, *, n_members: int = 25, rounds: int = 15) -> dict[str, Any]:
    """Milliseconds a window of one thread by each engine where ratios are wanted, and no vote can be cut short."""
    arrays = fitted(rows, n_members).to_scorer().arrays()
    searches = {}
    for name in ("numpy", "compiled") if engines.has_numba() else ("numpy",):
        engines.select(name)
        searches[name] = engines.open_members(engines.Members(**arrays))
    engines.select("auto")
    timed: list[dict[str, Any]] = []
    for kind, Z in (("normal", rows.normal), ("fall", rows.fall)):
        for batch, calls in ((1, CALLS), (BATCH, 0)):

            def task(number: int, name: str, Z: FloatArray = Z, batch: int = batch) -> object:
                first = number * batch % (len(Z) - batch + 1)
                return searches[name].ratios(Z[first : first + batch])

            tasks = {name: partial(task, name=name) for name in searches}
            ways = in_turns(tasks, rounds, reference=[*searches][-1], calls=calls)
            timed.append(
                {"windows": kind, "batch": batch, "ms": {name: way["ms"] / batch for name, way in ways.items()}}
            )
    return {"n_rows": len(rows.train), "n_members": n_members, "timed": timed}


def by_rows(
    make: Callable[[int], Rows], sizes: Sequence[int], *, n_members: int = 25, rounds: int = 15
) -> list[dict[str, Any]]:
    """Normal windows and falls, one alone, whole vote, over numbers of training rows: our engines and the cKDTree loop.

    ways: at each size in turns, as `deciding`. growth: of each way, all sizes in turns, the ratio to the smallest.
    """
    tested: dict[str, FloatArray] = {}
    ways: dict[str, dict[str, Decide]] = {}
    for n_rows in sizes:
        rows = make(n_rows)
        detector = fitted(rows, n_members)
        whole = {name: way for name, way in ours(detector).items() if not name.endswith("_stops")}
        ways[str(n_rows)] = whole | {"ckdtree": tree_loop(detector).decide}
        tested |= {f"{kind} {n_rows}": Z for kind, Z in (("normal", rows.normal), ("fall", rows.fall))}
    names = [*ways[str(sizes[0])]]
    found = []
    for kind in ("normal", "fall"):

        def at(size: str, name: str, kind: str = kind) -> Callable[[int], BoolArray]:
            Z, way = tested[f"{kind} {size}"], ways[size][name]
            return lambda number: way(Z[number % len(Z)][None])

        beside = {
            size: in_turns({name: at(size, name) for name in names}, rounds, reference=names[-2], calls=CALLS)
            for size in ways
        }
        growth = {
            name: in_turns({size: at(size, name) for size in ways}, rounds, reference=str(sizes[0]), calls=CALLS)
            for name in names
        }
        found.append({"windows": kind, "reference": names[-2], "ways": beside, "growth": growth})
    return found
