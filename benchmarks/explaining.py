"""What it costs to explain each decision: python benchmarks/explaining.py model.occ

Prints JSON: CPU microseconds a window of one thread, medians over rounds in turns: the score alone (`score`), the score
with what made it (`judge`), and the whole step from samples to decisions with it (`step`), for 1, 4 and 100 windows at
a time. `share` is (judge - score) / step. The samples are noise around rest; the rows are the model's own, moved by a
tenth of their scale.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from stream_occ.artifacts import load_model
from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, FloatArray, SampleBlock
from stream_occ.scoring import Model
from stream_occ.scoring.explanation import known_rows


def near_rows(model: Model, n: int) -> FloatArray:
    """Unscaled feature rows near to the model's."""
    known, rng = known_rows(model.scorer), np.random.default_rng(0)
    assert known is not None, "the model keeps no rows"
    rows = known[rng.integers(len(known), size=n)]
    return model.scaler.center + model.scaler.scale * (rows + 0.1 * rng.normal(size=rows.shape))


def stepping(model: Model, n_devices: int) -> Callable[[], None]:
    """A call pushes one hop of each device through the pipeline: one window each."""
    pipeline, n_hop = Pipeline(model), round(model.hop_s * model.rate_hz)
    state, rng, first = pipeline.initial(), np.random.default_rng(1), 0

    def push() -> None:
        nonlocal state, first
        t_ns = np.rint(np.arange(first, first + n_hop) * NS_PER_S / model.rate_hz).astype(np.int64)
        first += n_hop
        acc, gyr = rng.normal((0.0, 0.0, 9.81), size=(n_hop, 3)), rng.normal(size=(n_hop, 3))
        blocks = [SampleBlock(f"d{i}", t_ns, acc, gyr) for i in range(n_devices)]
        state, _, _ = pipeline.step(state, blocks, int(t_ns[-1]))

    for _ in range(round(model.window_s / model.hop_s) + 1):
        push()
    return push


def cpu_us(task: Callable[[], object], batch: int) -> float:
    """CPU microseconds a window of one call."""
    start = time.process_time_ns()
    task()
    return (time.process_time_ns() - start) / 1e3 / batch


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--rounds", type=int, default=200)
    arguments = parser.parse_args()
    model = load_model(arguments.model)
    X, timed = near_rows(model, 1000), []
    for batch in (1, 4, 100):
        step = stepping(model, batch)
        taken: dict[str, list[float]] = {"score": [], "judge": [], "step": []}
        for number in range(arguments.rounds):
            part = X[number % 9 * 100 :][:batch]
            taken["score"].append(cpu_us(lambda part=part: model.score_features(part), batch))
            taken["judge"].append(cpu_us(lambda part=part: model.judge(part), batch))
            taken["step"].append(cpu_us(step, batch))
        row = {name: statistics.median(values) for name, values in taken.items()}
        row["share"] = (row["judge"] - row["score"]) / row["step"]
        timed.append({"windows": batch, **{name: round(value, 2) for name, value in row.items()}})
    known = known_rows(model.scorer)
    print(json.dumps({"kind": model.scorer.KIND, "rows": known.shape if known is not None else 0, "timed": timed}))


if __name__ == "__main__":
    main()
