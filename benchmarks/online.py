"""Our stream detectors beside river's on one stream of recordings: python benchmarks/online.py --json online.json

MobiFall (`--data`, default STREAM_OCC_DATA or ../shared/data: mobifall.zip): normal recordings person by person, both
in an order drawn by the seed, and the falls spread evenly between them. The first `--warm-up` people are learned alone
and fix the min-max scaling that all detectors share; after that a recording is scored as a whole, and then, where it is
normal, learned (windows overlap by nine tenths, so a window that follows its own neighbour would say nothing). Falls
are never learned. A recording's score is its largest; the AUC is that of fall recordings against normal ones, its mean
and range over seeds. Microseconds of CPU time a window are for scoring and for learning, one thread.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from river import anomaly
from sklearn.metrics import roc_auc_score

from stream_occ.datasets import open_dataset
from stream_occ.detectors import OCNN, fit_scaler
from stream_occ.detectors.online import OnlineKernelRidge, SlidingOCNN
from stream_occ.evaluation.extraction import FrontEnd, extract_trials
from stream_occ.evaluation.protocol import Trial

N_FEATURES = 31
UNGUARDED: dict[str, Any] = {"hold_back": 0, "threshold": float("inf")}


class Frozen:
    """OCNN fitted once, on the people of the warm-up: what learning on has to beat."""

    def __init__(self) -> None:
        self._rows: list[list[float]] = []
        self._fitted: Any = None

    def learn_one(self, x: dict[str, float]) -> None:
        """Keeps rows until the first is scored."""
        if self._fitted is None:
            self._rows.append(list(x.values()))

    def score_one(self, x: dict[str, float]) -> float:
        """Score of the batch detector."""
        if self._fitted is None:
            self._fitted = OCNN(5, 5, floor=10.0).fit(self._rows)
        return float(self._fitted.score_one(list(x.values())))


def detectors(seed: int, n_trusted: int) -> dict[str, Callable[[], Any]]:
    """Makers by name; river's with its defaults."""
    return {
        "OCNN, warm-up people alone": Frozen,
        "SlidingOCNN, window": lambda: SlidingOCNN(1000, n_trusted=n_trusted),
        "SlidingOCNN, window, unguarded": lambda: SlidingOCNN(1000, **UNGUARDED),
        "SlidingOCNN, reservoir": lambda: SlidingOCNN(1000, sampling="reservoir", seed=seed, n_trusted=n_trusted),
        "SlidingOCNN, reservoir, unguarded": lambda: SlidingOCNN(1000, sampling="reservoir", seed=seed, **UNGUARDED),
        "OnlineKernelRidge": lambda: OnlineKernelRidge(seed=seed, n_trusted=n_trusted),
        "OnlineKernelRidge, unguarded": lambda: OnlineKernelRidge(seed=seed, **UNGUARDED),
        "river HalfSpaceTrees": lambda: anomaly.HalfSpaceTrees(seed=seed),
        "river LocalOutlierFactor": anomaly.LocalOutlierFactor,
        "river OneClassSVM": anomaly.OneClassSVM,
    }


def load_trials(data: Path, every: int) -> list[Trial]:
    """MobiFall's recordings with at least one window, one window in `every` of each."""
    dataset = open_dataset("mobifall", data)
    trials = extract_trials(dataset.iter_recordings(), FrontEnd())
    return [replace(trial, X=trial.X[::every]) for trial in trials if len(trial.X)]


def ordered(trials: list[Trial], n_warm_up: int, rng: np.random.Generator) -> tuple[list[Trial], list[Trial]]:
    """Recordings to warm up with, and the stream after them."""
    normal = [trial for trial in trials if not trial.is_fall]
    people = rng.permutation(sorted({trial.subject for trial in normal})).tolist()
    by_person = [[trial for trial in normal if trial.subject == person] for person in people]
    shuffled = [[own[i] for i in rng.permutation(len(own))] for own in by_person]
    warm_up = [trial for own in shuffled[:n_warm_up] for trial in own]
    stream = [trial for own in shuffled[n_warm_up:] for trial in own]
    falls = [trial for trial in trials if trial.is_fall]
    places = [*range(len(stream)), *(rng.permutation(len(falls)) * len(stream) / len(falls))]
    merged = [*stream, *falls]
    return warm_up, [merged[i] for i in np.argsort(places, kind="stable")]


def run(detector: Any, warm_up: list[Any], stream: list[Any]) -> dict[str, float]:
    """AUC of recordings, and times, of (rows, is_fall) pairs."""
    for rows, _ in warm_up:
        for x in rows:
            detector.learn_one(x)
    scores, scoring_s, learning_s, n_given, n_scored = [], 0.0, 0.0, 0, 0
    refused = getattr(detector, "n_refused", {"score": 0})
    n_refused_before = refused["score"]
    detector.score_one(warm_up[0][0][0])
    for rows, is_fall in stream:
        start = time.process_time()
        scores.append(max(detector.score_one(x) for x in rows))
        scoring_s += time.process_time() - start
        n_scored += len(rows)
        if not is_fall:
            start = time.process_time()
            for x in rows:
                detector.learn_one(x)
            learning_s += time.process_time() - start
            n_given += len(rows)
    return {
        "trial_auc": float(roc_auc_score([is_fall for _, is_fall in stream], scores)),
        "score_us": scoring_s / n_scored * 1e6,
        "learn_us": learning_s / n_given * 1e6,
        "refused_share": (refused["score"] - n_refused_before) / n_given,
    }


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = Path(os.environ.get("STREAM_OCC_DATA", "../shared/data")) / "mobifall.zip"
    parser.add_argument("--data", type=Path, default=default)
    parser.add_argument("--warm-up", type=int, default=2, help="people learned before anything is scored")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--every", type=int, default=1, help="take one window in so many (LocalOutlierFactor is slow)")
    parser.add_argument("--only", help="detectors whose name holds this text")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trials = load_trials(arguments.data, arguments.every)
    results: dict[str, list[dict[str, float]]] = {}
    for seed in range(arguments.seeds):
        warm_up, stream = ordered(trials, arguments.warm_up, np.random.default_rng(seed))
        n_trusted = sum(len(trial.X) for trial in warm_up) // 2  # the guard's quantile is settled before the stream
        scaler = fit_scaler(np.concatenate([trial.X for trial in warm_up]), "min-max")
        names = [f"f{i:02d}" for i in range(N_FEATURES)]
        parts = [
            [
                ([dict(zip(names, row, strict=True)) for row in scaler.transform(trial.X).tolist()], trial.is_fall)
                for trial in part
            ]
            for part in (warm_up, stream)
        ]
        for name, make in detectors(seed, n_trusted).items():
            if arguments.only is None or arguments.only in name:
                results.setdefault(name, []).append(run(make(), *parts))
                print(f"seed {seed}: {name}", file=sys.stderr)
    result = {
        "n_recordings": len(trials),
        "n_falls": sum(trial.is_fall for trial in trials),
        "n_windows": sum(len(trial.X) for trial in trials),
        "every": arguments.every,
        "warm_up_people": arguments.warm_up,
        "seeds": arguments.seeds,
        "load_average_1min": round(os.getloadavg()[0], 1),
        "detectors": {
            name: {
                "trial_auc": round(float(np.mean([run["trial_auc"] for run in runs])), 3),
                "trial_auc_range": [round(f(run["trial_auc"] for run in runs), 3) for f in (min, max)],
                "score_us": round(float(np.median([run["score_us"] for run in runs])), 1),
                "learn_us": round(float(np.median([run["learn_us"] for run in runs])), 1),
                "refused_share": round(float(np.mean([run["refused_share"] for run in runs])), 4),
            }
            for name, runs in results.items()
        },
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
