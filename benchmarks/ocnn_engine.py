"""Time to decide a window with 25 members, our engines beside peers: python benchmarks/ocnn_engine.py

Prints JSON: CPU milliseconds a window of one thread, and the median over paired runs of each way's time over that of
the compiled engine, for normal, borderline and fall windows, one at a time and 256 at once; `by_rows`: over numbers of
training windows; `scoring`: the engines where every member's ratio is wanted. `--data mobifall.zip` takes recorded
windows, `--rows 100000 --intrinsic 10` other synthetic ones, `--theta empirical` Algorithm 4's threshold for deciding.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from stream_occ.bench.ocnn import by_rows, deciding, scoring
from stream_occ.bench.rows import recorded_rows, synthetic_rows


def main() -> None:
    """Parses arguments, measures, prints JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=26_660)
    parser.add_argument("--members", type=int, default=25)
    parser.add_argument("--intrinsic", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--theta", type=lambda text: text if text == "empirical" else float(text), default=1.4)
    parser.add_argument("--dataset", default="mobifall")
    parser.add_argument("--data", type=Path, help="archive or folder of the data set, instead of synthetic windows")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    synthetic = partial(synthetic_rows, intrinsic=arguments.intrinsic)
    if arguments.data is None:
        rows = synthetic(arguments.rows)
    else:
        rows = recorded_rows(arguments.dataset, arguments.data, arguments.rows)
    options = {"n_members": arguments.members, "rounds": arguments.rounds}
    result = (
        {"scoring": scoring(rows, **options)}
        | deciding(rows, **options, theta=arguments.theta)
        | {"n_cores": os.cpu_count(), "load_1min": round(os.getloadavg()[0], 1)}
    )
    if arguments.data is None:
        sizes = [size for size in (1_000, 5_000, 26_660, 100_000) if size <= arguments.rows]
        result["by_rows"] = by_rows(synthetic, sizes, **options)
    text = json.dumps(result, indent=2)
    print(text)
    if arguments.json is not None:
        arguments.json.write_text(text + "\n")


if __name__ == "__main__":
    main()
