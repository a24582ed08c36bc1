"""What it costs to divide devices between processes: processor seconds a window by their number.

    python benchmarks/shards.py --devices 200 --shards 1 2 4 --seconds 15

Devices at 50 Hz through a real mosquitto, states saved; each process hears all messages and drops those of others'
devices by their topic. `detect --shard` by number, nothing pinned to a core.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from stream_occ.bench.devices import Player, phases_of
from stream_occ.bench.report import machine
from stream_occ.bench.serving import MOBIFALL_WINDOWS, WARM_UP_S, broker, cpu_of_s, end, make_model

SAMPLES = 25


def main() -> None:
    """One run by number of processes, as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=200)
    parser.add_argument("--shards", type=int, nargs="+", default=[1, 2, 4], help="numbers of processes")
    parser.add_argument("--seconds", type=float, default=15.0)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        make_model(Path(name) / "bench.occ", MOBIFALL_WINDOWS)
        runs = [measured(Path(name), of, options.devices, options.seconds) for of in options.shards]
    first = runs[0]["cpu_ms_a_window"]
    for run in runs:
        run["ratio"] = round(run["cpu_ms_a_window"] / first, 2)
    print(json.dumps({"machine": machine(), "devices": options.devices, "runs": runs}, indent=1))


def measured(folder: Path, of: int, n_devices: int, seconds: float) -> dict[str, Any]:
    """One run with `of` processes: what all of them used between warm-up and end, by windows that were due."""
    state = folder / f"{of}"
    state.mkdir()
    with broker(folder) as port, ExitStack() as stack:
        (state / "edge.yaml").write_text(
            f"mqtt: {{port: {port}, client_id: bench, instance: of}}\nstate: {{path: {state / 'state.db'}}}\n"
            f"model: {folder / 'bench.occ'}\ninputs: [{{pattern: 'wearables/{{device}}/imu'}}]\n"
            f"log: {{level: warning}}\nlimits: {{max_devices: {n_devices}}}\n"
        )
        services = [started(state, number, of) for number in range(1, of + 1)]
        for service in services:
            stack.callback(end, service)
            assert service.stdout is not None
            assert service.stdout.readline().startswith("ready:")
        player = Player(port, phases_of(n_devices), seconds + WARM_UP_S + 1.0, SAMPLES)
        thread = threading.Thread(target=player.play)
        thread.start()
        time.sleep(WARM_UP_S)
        before = [cpu_of_s(service.pid) for service in services]
        time.sleep(seconds)
        used = [cpu_of_s(service.pid) - at for service, at in zip(services, before, strict=True)]
        thread.join()
    counted = [json.loads((state / f"counters-{number}.json").read_text()) for number in range(1, of + 1)]
    return {
        "processes": of,
        "cpu_ms_a_window": round(1000 * sum(used) / (2 * seconds * n_devices), 3),
        "windows": [counters["windows"] for counters in counted],
        "messages": [counters["messages"] for counters in counted],
        "refused": [counters["refused"] for counters in counted],
    }


def started(folder: Path, number: int, of: int) -> subprocess.Popen[str]:
    """One of the processes."""
    command = [sys.executable, "-m", "stream_occ", "detect", "-c", str(folder / "edge.yaml")]
    command += ["--shard", f"{number}of{of}", "--json", str(folder / f"counters-{number}.json")]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


if __name__ == "__main__":
    main()
