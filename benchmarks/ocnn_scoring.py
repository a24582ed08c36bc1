"""Time to score a window with a 25-member ensemble, beside cKDTree and scikit-learn: python benchmarks/ocnn_scoring.py

Prints JSON: CPU milliseconds a window of one thread, alone and in batches, for normal windows and for windows far off,
ours (exact, bit-identical in any batch) beside a loop over members with scipy's cKDTree and with scikit-learn's brute
force; decisions of all are compared. `load_at_100_devices` is the share of one core that 100 devices with two windows
a second need in batches of 200.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from ocnn_training import load_rows, synthetic_rows
from scipy.spatial import cKDTree
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from stream_occ.detectors import OCNN, RandomProjectionEnsemble, fit_scaler
from stream_occ.projection import project
from stream_occ.samples import FloatArray

WINDOWS_PER_S = 2.0
N_DEVICES = 100
PEER_BATCH = 40  # trees take as long a window in any batch; brute force gains little beyond
Query = Callable[[FloatArray, int], tuple[FloatArray, Any]]


def cpu_ms(task: Callable[[FloatArray], object], Z: FloatArray, batch: int, rounds: int) -> float:
    """Median CPU milliseconds a window, over rounds that move through Z."""
    taken = []
    for number in range(rounds):
        first = number * batch % max(1, len(Z) - batch + 1)
        part = Z[first : first + batch]
        start = time.process_time_ns()
        task(part)
        taken.append((time.process_time_ns() - start) / 1e6 / batch)
    return statistics.median(taken)


def member_loop(detector: RandomProjectionEnsemble, queries: list[Query]) -> Callable[[FloatArray], FloatArray]:
    """Votes against, member by member, with one search structure a member."""
    own = detector.to_scorer().arrays()["own_distance"]
    j = int(detector.n_neighbors_[0])

    def votes(Z: FloatArray) -> FloatArray:
        rejecting = np.zeros(len(Z))
        for member, query in enumerate(queries):
            distance, row = query(Z @ detector.maps_[member].T, j)
            distance, row = np.reshape(distance, (len(Z), j)), np.reshape(row, (len(Z), j))
            ratio = distance.mean(axis=1) / np.maximum(own[member][row].mean(axis=1), 1e-300)
            rejecting += ratio >= detector.thetas_[member]
        return rejecting / len(queries)

    return votes


def compare(
    kinds: dict[str, FloatArray],
    score: Callable[[FloatArray], FloatArray],
    peers: dict[str, Callable[[FloatArray], FloatArray]],
) -> list[dict[str, Any]]:
    """Times of ours and the peers in turns, and the share of equal votes."""
    timed: list[dict[str, Any]] = []
    for kind, Z in kinds.items():
        expected = score(Z)
        for batch, rounds in ((1, 21), (20, 5), (200, 3)):
            row: dict[str, Any] = {"windows": kind, "batch": batch}
            row["ours_ms"] = round(cpu_ms(score, Z, batch, rounds), 3)
            for name, task in peers.items():
                row[f"{name}_ms"] = round(cpu_ms(task, Z, min(batch, PEER_BATCH), 1 + rounds // 4), 3)
                row[f"{name}_ratio"] = round(row[f"{name}_ms"] / row["ours_ms"], 1)
            timed.append(row)
        for name, task in peers.items():
            timed.append(
                {"windows": kind, f"votes_equal_{name}": float(np.mean(task(Z[:PEER_BATCH]) == expected[:PEER_BATCH]))}
            )
    return timed


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=18_000)
    parser.add_argument("--members", type=int, default=25)
    parser.add_argument("--neighbors", type=int, default=1)
    parser.add_argument("--features", type=Path, help=".npz with X (and fall), or .npy, instead of synthetic rows")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    X = load_rows(arguments.features, arguments.rows)
    held_out = X[len(X) // 2 : len(X) // 2 + 400]
    X = np.concatenate([X[: len(X) // 2], X[len(X) // 2 + 400 :]])
    if arguments.features is None:
        held_out = fit_scaler(synthetic_rows(arguments.rows, 1), "min-max").transform(synthetic_rows(400, 5))
    kinds = {"normal": held_out, "far": held_out.mean(axis=0) + 4.0 * (held_out - held_out.mean(axis=0))}
    rule = OCNN(arguments.neighbors, arguments.neighbors, theta=1.3)
    detector = RandomProjectionEnsemble(rule, arguments.members, random_state=0, n_jobs=-1).fit(X)
    scorer = detector.to_scorer()
    projected = [project(X, matrix) for matrix in detector.maps_]
    trees = [cKDTree(rows) for rows in projected]
    brute = [NearestNeighbors(algorithm="brute").fit(rows) for rows in projected]
    peers = {
        "ckdtree": member_loop(detector, [lambda Z, j, t=tree: t.query(Z, j) for tree in trees]),
        "sklearn_brute": member_loop(detector, [lambda Z, j, m=model: m.kneighbors(Z, j) for model in brute]),
    }
    with threadpool_limits(limits=1):  # OpenMP's waiting threads would count as the peers' CPU time
        timed = compare(kinds, scorer.score, peers)
    batched = next(row["ours_ms"] for row in timed if row.get("batch") == 200)
    result = {
        "n_rows": len(X),
        "rows": "synthetic" if arguments.features is None else arguments.features.name,
        "n_members": arguments.members,
        "n_neighbors": arguments.neighbors,
        "load_average_1min": round(os.getloadavg()[0], 1),
        "timed": timed,
        "load_at_100_devices": round(N_DEVICES * WINDOWS_PER_S * batched / 1e3, 3),
        "arrays_mb": round(sum(array.nbytes for array in scorer.arrays().values()) / 1e6, 1),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
