"""What opening a model file costs: mapping alone, and the full verification. One JSON object on stdout.

python benchmarks/model_file.py MODEL.occ [--repeats 50]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable

from stream_occ.artifacts import container, load_model
from stream_occ.artifacts.files import map_file


def map_alone(path: str) -> None:
    """Opens, checks the header and makes all array views."""
    buffer = map_file(path)
    n_header = container.header_length(bytes(buffer[:8]), len(buffer))
    header = container.parse_header(bytes(buffer[8 : 8 + n_header]), len(buffer))
    for entry in header.entries:
        container.view(buffer, entry)


def median_ms(function: Callable[[], object], n: int) -> float:
    """Median wall time of n calls, ms, after one call that is not counted."""
    function()
    times = []
    for _ in range(n):
        started = time.perf_counter()
        function()
        times.append(time.perf_counter() - started)
    return round(1000 * statistics.median(times), 3)


def main() -> None:
    """Measures the file named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--repeats", type=int, default=50)
    arguments = parser.parse_args()
    path = arguments.model
    result = {
        "n_bytes": os.path.getsize(path),
        "map_ms": median_ms(lambda: map_alone(path), arguments.repeats),
        "load_and_verify_ms": median_ms(lambda: load_model(path), max(3, arguments.repeats // 10)),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
