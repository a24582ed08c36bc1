"""Exact kernel ridge network beside its landmark form, training and scoring: python benchmarks/krr.py

Prints JSON. LMKOC-LLE of three layers on synthetic rows of intrinsic dimension 8 in 31, z-scored; `exact` spans all
rows, `landmarks` 500 of them. Both run in this process, scoring in turns, with one BLAS thread; ratios are exact /
landmarks in CPU time, which on a shared machine leaves out the wait for a core, and for training in wall clock as well.
Training takes all cores; where others use them too, BLAS threads wait for each other spinning: `taskset -c 0` then.
`equal_decisions`: share of fresh rows that both accept or both reject. `evidence`: the two ways of scoring.
`float32`: the same scorers with that precision, beside those with float64; `different_decisions` and `within_band`
count fresh rows.
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

import numpy as np
from threadpoolctl import threadpool_limits

from stream_occ.detectors import MultiLayerKRR
from stream_occ.samples import FloatArray

INTRINSIC_DIMENSIONS = 8
N_FEATURES = 31


def synthetic_rows(n_rows: int, seed: int) -> FloatArray:
    """Rows near a curved surface of 8 dimensions in 31."""
    rng = np.random.default_rng(seed)
    mixing = np.random.default_rng(0).normal(size=(INTRINSIC_DIMENSIONS, N_FEATURES))
    rows: FloatArray = np.tanh(rng.normal(size=(n_rows, INTRINSIC_DIMENSIONS)) @ mixing / 2.0)
    rows += 0.02 * rng.normal(size=rows.shape)
    return rows


def timed(task: Callable[[], Any]) -> tuple[Any, float, float]:
    """What the task gives, wall-clock seconds, and CPU seconds of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = task()
    return result, time.perf_counter() - wall, time.process_time() - cpu


def scoring_seconds(scorers: dict[str, Any], X: FloatArray, rounds: int) -> dict[str, float]:
    """Median CPU seconds of scoring X, the scorers in turns."""
    taken: dict[str, list[float]] = {name: [] for name in scorers}
    for _ in range(rounds):
        for name, scorer in scorers.items():
            taken[name].append(timed(lambda scorer=scorer: scorer.score(X))[2])
    return {name: statistics.median(values) for name, values in taken.items()}


def measure(evidence: str, X: FloatArray, fresh: FloatArray, n_landmarks: int) -> dict[str, Any]:
    """One way of scoring: training and scoring of both forms, and how far they agree."""
    made = {
        "exact": MultiLayerKRR(3, "lle", evidence=evidence, n_jobs=-1),  # type: ignore[arg-type]
        "landmarks": MultiLayerKRR(3, "lle", evidence=evidence, n_landmarks=n_landmarks, n_jobs=-1),  # type: ignore[arg-type]
    }
    training = {name: timed(lambda detector=detector: detector.fit(X))[1:] for name, detector in made.items()}
    scorers = {name: detector.to_scorer() for name, detector in made.items()}
    for name, detector in made.items():
        detector._take_single(X)
        scorers[f"{name}, float32"] = detector.to_scorer()
    with threadpool_limits(limits=1):
        batch = scoring_seconds(scorers, fresh[:256], 5)
        window = {name: seconds / 50 for name, seconds in scoring_seconds_of_one(scorers, fresh).items()}
    scores = {name: scorer.score(fresh) for name, scorer in scorers.items()}
    bars = {name: made[name.partition(",")[0]].score_threshold_ for name in scorers}
    decisions = {name: found > bars[name] for name, found in scores.items()}
    outputs = {name: scorer.outputs(fresh)[:, 0] for name, scorer in scorers.items()}
    return {
        "evidence": evidence,
        "training_wall_s": {name: round(wall, 2) for name, (wall, _) in training.items()},
        "training_cpu_s": {name: round(cpu, 2) for name, (_, cpu) in training.items()},
        "training_ratio_wall": round(training["exact"][0] / training["landmarks"][0], 1),
        "training_ratio_cpu": round(training["exact"][1] / training["landmarks"][1], 1),
        "batch_us_a_row": {name: round(1e6 * seconds / 256, 1) for name, seconds in batch.items()},
        "batch_ratio": round(batch["exact"] / batch["landmarks"], 1),
        "one_window_us": {name: round(1e6 * seconds, 1) for name, seconds in window.items()},
        "one_window_ratio": round(window["exact"] / window["landmarks"], 1),
        "equal_decisions": round(float(np.mean(decisions["exact"] == decisions["landmarks"])), 4),
        "accepted": {name: round(float(np.mean(~decided)), 4) for name, decided in decisions.items()},
        "float32": {
            name: {
                "batch_ratio": round(batch[name] / batch[f"{name}, float32"], 2),
                "one_window_ratio": round(window[name] / window[f"{name}, float32"], 2),
                "band": scorers[f"{name}, float32"].band,
                "largest_difference": float(
                    np.max(np.abs(scores[f"{name}, float32"] - scores[name]) / (1 + np.abs(scores[name])))
                ),
                "different_decisions": int(np.sum(decisions[f"{name}, float32"] != decisions[name])),
                "within_band": int(
                    np.sum(
                        np.abs(scores[name] - bars[name])
                        <= scorers[f"{name}, float32"].band * (1 + np.abs(scores[name]))
                    )
                ),
            }
            for name in made
        },
        "largest_output_difference": float(np.abs(outputs["exact"] - outputs["landmarks"]).max()),
    }


def scoring_seconds_of_one(scorers: dict[str, Any], fresh: FloatArray) -> dict[str, float]:
    """Median CPU seconds of fifty windows scored one by one, the scorers in turns."""
    taken: dict[str, list[float]] = {name: [] for name in scorers}
    for _ in range(7):
        for name, scorer in scorers.items():
            taken[name].append(timed(lambda scorer=scorer: [scorer.score(x[None]) for x in fresh[:50]])[2])
    return {name: statistics.median(values) for name, values in taken.items()}


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--fresh", type=int, default=2000)
    parser.add_argument("--evidence", nargs="+", choices=("output", "layers"), default=("output", "layers"))
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    X, fresh = synthetic_rows(arguments.rows, 1), synthetic_rows(arguments.fresh, 2)
    center, scale = X.mean(axis=0), X.std(axis=0, ddof=1)
    X, fresh = (X - center) / scale, (fresh - center) / scale
    result = {
        "n_rows": arguments.rows,
        "n_features": N_FEATURES,
        "n_landmarks": arguments.landmarks,
        "n_fresh": arguments.fresh,
        "n_cores": os.cpu_count(),
        "load_average_1min": round(os.getloadavg()[0], 1),
        "measured": [measure(evidence, X, fresh, arguments.landmarks) for evidence in arguments.evidence],
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
