"""Kernel ridge network of three layers, exact and on landmarks, beside a one-class SVM on the same rows."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stream_occ.bench.report import Found, Ratio, Settings, three_digits
from stream_occ.bench.rows import synthetic_rows
from stream_occ.bench.timing import in_turns
from stream_occ.detectors import MultiLayerKRR
from stream_occ.detectors.scaling import fit_scaler

MOST_ROWS = 5_000  # exact: N^2 bytes times 8 a layer
N_LANDMARKS = 500
BATCH = 256
CALLS = 5


def measure(settings: Settings) -> Found:
    """Training once, scoring in turns; equal_decisions: share of other rows that both accept or both reject."""
    from sklearn.svm import OneClassSVM

    rows = synthetic_rows(min(settings.n_rows, MOST_ROWS))
    scaler = fit_scaler(rows.train, "z-score")
    X, Z = scaler.transform(rows.train), scaler.transform(np.concatenate([rows.normal, rows.fall]))
    made = {
        "landmarks": MultiLayerKRR(3, "lle", evidence="layers", n_landmarks=min(N_LANDMARKS, len(X) // 2), n_jobs=1),
        "exact": MultiLayerKRR(3, "lle", evidence="layers", n_jobs=1),
    }
    fit_s = {name: cpu_seconds(partial(detector.fit, X)) for name, detector in made.items()}
    score: dict[str, Callable[[Any], Any]] = {name: detector.to_scorer().score for name, detector in made.items()}
    score["sklearn OneClassSVM"] = OneClassSVM(nu=0.05).fit(X).score_samples
    figures: dict[str, Any] = {"n_rows": len(X), "fit_cpu_s": fit_s}
    ratios = [Ratio("KRR, training", "exact to landmarks", three_digits(fit_s["exact"] / fit_s["landmarks"]))]
    for batch, task in ((1, "KRR, one window"), (BATCH, f"KRR, {BATCH} windows at once")):
        turns = {
            name: (
                lambda number, way=way, batch=batch: way(
                    Z[(first := number * batch % (len(Z) - batch)) : first + batch]
                )
            )
            for name, way in score.items()
        }
        timed = in_turns(turns, settings.rounds, reference="landmarks", calls=CALLS if batch == 1 else 1)
        figures[task] = timed
        ratios += [Ratio(task, f"{name} to landmarks", timed[name]["ratio"]) for name in timed if name != "landmarks"]
    decided = [detector.predict(Z) for detector in made.values()]
    figures["equal_decisions"] = float(np.mean(decided[0] == decided[1]))
    return Found(figures, ratios, [f"exact and on landmarks, {figures['equal_decisions']:.4f} of decisions are equal"])


def cpu_seconds(task: Callable[[], object]) -> float:
    """CPU time of all threads of this process."""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        task()
    return three_digits(time.process_time() - start)
