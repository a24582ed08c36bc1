"""Time to train a member with both cross-validations, beside cKDTree and naive code: python benchmarks/ocnn_training.py

Prints JSON: CPU milliseconds of one thread and the median over paired runs of each way's time over that of the compiled
engine. `tuning`: a member with J, K and theta by Algorithms 3 and 4; `self_join`: the 10 nearest other rows of each
row; `sweep`: Algorithm 4 by sorting and as printed; `ensemble`: wall clock, CPU and peak memory of 25 members.
`--data mobifall.zip` takes recorded windows.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import time
import warnings
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from stream_occ.bench.rows import Rows, recorded_rows, synthetic_rows
from stream_occ.bench.training import self_join, sweep, tuning
from stream_occ.detectors import OCNN, RandomProjectionEnsemble


def ensemble(rows: Rows, n_members: int, n_jobs: int) -> dict[str, Any]:
    """Seconds and memory of one fit with both cross-validations, with the engine that is there."""
    detector = RandomProjectionEnsemble(OCNN("cv", "cv", "empirical"), n_members, random_state=0, n_jobs=n_jobs)
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        detector.fit(rows.train)
    return {
        "n_members": n_members,
        "n_jobs": n_jobs,
        "wall_s": round(time.perf_counter() - wall, 1),
        "cpu_s": round(time.process_time() - cpu, 1),
        "peak_rss_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=26_660)
    parser.add_argument("--members", type=int, default=25)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dataset", default="mobifall")
    parser.add_argument("--data", type=Path, help="archive or folder of the data set, instead of synthetic windows")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.data is None:
        rows = synthetic_rows(arguments.rows)
    else:
        rows = recorded_rows(arguments.dataset, arguments.data, arguments.rows)
    result = {
        "rows": rows.name,
        "n_cores": os.cpu_count(),
        "load_1min": round(os.getloadavg()[0], 1),
        "ensemble": ensemble(rows, arguments.members, arguments.jobs),
        "tuning": tuning(rows, rounds=arguments.rounds),
        "self_join": self_join(rows, rounds=arguments.rounds),
        "sweep": sweep(len(rows.train), rounds=arguments.rounds),
    }
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
