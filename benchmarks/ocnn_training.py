"""Training time and memory of an ensemble, beside scipy and naive code: python benchmarks/ocnn_training.py

Prints JSON. `ensemble`: seconds of wall clock and of CPU, and peak memory of the process, for all members with
theta="empirical" on synthetic rows of intrinsic dimension 8 (`--features FILE`: rows of an .npz or .npy instead).
`self_join`: one member's neighbours beside scipy.spatial.cKDTree on the same rows. `sweep`: Algorithm 4's threshold by
sorting beside the printed comparison of all pairs. Peers run in the same process, in turns; ratios are peer / ours in
CPU time of one thread, which on a shared machine leaves out the wait for a core.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import cKDTree
from threadpoolctl import threadpool_limits

from stream_occ.detectors import OCNN, RandomProjectionEnsemble, fit_scaler
from stream_occ.detectors._tuning import choose_theta
from stream_occ.neighbors import nearest
from stream_occ.projection import draw_projection, project
from stream_occ.samples import FloatArray

INTRINSIC_DIMENSIONS = 8
N_FEATURES = 31


def synthetic_rows(n_rows: int, seed: int) -> FloatArray:
    """Rows on a curved surface of 8 dimensions in 31, walked along so that adjacent rows are near, as windows are."""
    rng = np.random.default_rng(seed)
    steps = rng.normal(size=(n_rows, INTRINSIC_DIMENSIONS))
    latent = np.empty_like(steps)
    latent[0] = steps[0]
    for i in range(1, n_rows):  # mean-reverting walk of unit variance, correlation .9 from row to row
        latent[i] = 0.9 * latent[i - 1] + np.sqrt(1.0 - 0.81) * steps[i]
    mixing = np.random.default_rng(0).normal(size=(INTRINSIC_DIMENSIONS, N_FEATURES))
    rows: FloatArray = np.tanh(latent @ mixing / 2.0) + 0.02 * rng.normal(size=(n_rows, N_FEATURES))
    return rows


def load_rows(path: Path | None, n_rows: int) -> FloatArray:
    """Scaled training rows: from a file (array `X`, rows with `fall` true left out), else synthetic."""
    if path is None:
        X = synthetic_rows(n_rows, seed=1)
    else:
        loaded: Any = np.load(path)
        X = (
            loaded
            if isinstance(loaded, np.ndarray)
            else loaded["X"][~loaded["fall"] if "fall" in loaded else slice(None)]
        )
        X = X[:n_rows]
    return fit_scaler(X, "min-max").transform(X)


def cpu_seconds(task: Callable[[], object], rounds: int) -> float:
    """Median CPU time of a call, seconds."""
    taken = []
    for _ in range(rounds):
        start = time.process_time()
        task()
        taken.append(time.process_time() - start)
    return statistics.median(taken)


def quadratic_theta(ratio: FloatArray, is_noise: NDArray[np.bool_]) -> float:
    """Algorithm 4 as printed, a comparison of every ratio with every candidate, one candidate at a time."""
    best, theta = -1.0, 1.0
    for candidate in np.sort(ratio):
        accepted = ratio < candidate
        gmean = np.sqrt(np.mean(accepted[~is_noise]) * np.mean(~accepted[is_noise]))
        if gmean > best:
            best, theta = gmean, float(candidate)
    return theta


def measure_ensemble(X: FloatArray, detector: RandomProjectionEnsemble) -> dict[str, Any]:
    """Seconds and memory of one fit."""
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        detector.fit(X)
    return {
        "rule": repr(detector.estimator),
        "n_members": detector.n_estimators,
        "wall_s": round(time.perf_counter() - wall, 2),
        "cpu_s": round(time.process_time() - cpu, 2),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "theta_min_max": [round(float(theta), 3) for theta in (detector.thetas_.min(), detector.thetas_.max())],
    }


def measure_self_join(X: FloatArray, k: int) -> dict[str, Any]:
    """One member's k nearest of every row, ours and scipy's tree, on rows projected once."""
    rows = project(X, draw_projection(X.shape[1], np.random.default_rng(2)))
    own = np.arange(len(rows))
    distances, _ = nearest(rows, rows, k, skip=own)
    expected, _ = cKDTree(rows).query(rows, k + 1)
    ours = cpu_seconds(lambda: nearest(rows, rows, k, skip=own), 3)
    peer = cpu_seconds(lambda: cKDTree(rows).query(rows, k + 1), 1)
    return {
        "k": k,
        "ours_s": round(ours, 3),
        "ckdtree_s": round(peer, 3),
        "ratio": round(peer / ours, 1),
        "largest_relative_difference": float(np.max(np.abs(distances - expected[:, 1:]) / distances.clip(1e-300))),
    }


def measure_sweep(n_rows: int) -> dict[str, Any]:
    """Algorithm 4's threshold, by sorting and as printed."""
    rng = np.random.default_rng(3)
    is_noise = rng.random(n_rows) < 0.05
    ratio = np.exp(0.3 * rng.normal(size=n_rows) + 0.4 * is_noise)
    ours = cpu_seconds(lambda: choose_theta(ratio, is_noise), 9)
    peer = cpu_seconds(lambda: quadratic_theta(ratio, is_noise), 1)
    same = choose_theta(ratio, is_noise) == quadratic_theta(ratio, is_noise)
    return {
        "ours_ms": round(1e3 * ours, 2),
        "pairs_ms": round(1e3 * peer, 1),
        "ratio": round(peer / ours),
        "same": same,
    }


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=18_000)
    parser.add_argument("--members", type=int, default=25)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--features", type=Path, help=".npz with X (and fall), or .npy, instead of synthetic rows")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    X = load_rows(arguments.features, arguments.rows)
    rules = [OCNN(theta="empirical"), OCNN("cv", "cv", "empirical"), OCNN(5, 5, floor=10.0)]
    ensembles = [
        RandomProjectionEnsemble(rule, arguments.members, random_state=0, n_jobs=arguments.jobs) for rule in rules
    ]
    result = {
        "n_rows": len(X),
        "n_features": X.shape[1],
        "rows": "synthetic" if arguments.features is None else arguments.features.name,
        "n_jobs": arguments.jobs,
        "n_cores": os.cpu_count(),
        "load_average_1min": round(os.getloadavg()[0], 1),
        "ensemble": [measure_ensemble(X, detector) for detector in ensembles],
    }
    with threadpool_limits(limits=1):
        result["self_join"] = [measure_self_join(X, k) for k in (1, 10)]
    result["sweep"] = measure_sweep(len(X))
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
