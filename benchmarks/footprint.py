"""How soon `stream-occ detect` decides after its start, and what memory it keeps: a real mosquitto, one JSON out.

    python benchmarks/footprint.py --json footprint.json

For each model (--model default rp krr, on --rows synthetic windows) `detect` is started --runs times. A device sends
5.5 s of samples in one message as soon as the service says on its status topic that it listens, so that the 5 s which
fill a window are no wait: `start_s` is from the start of the process until that window's score is back at the device.
Then --devices send for --seconds as in life, and the memory of the process is read: resident (RSS), its share of what
others map too (PSS), what it alone holds (USS), and what of it belongs to which file.

`steps` is another run of the same service that notes time and memory on its way, library after library: what each adds.
Pages of a mapped file are memory that the system takes back where it is short: they are in `file_mb`, and in RSS.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

RATE_HZ = 50.0
BACKLOG_S = 5.5  # in one message: a window of 5 s is complete
WAIT_S = 120.0
DETECTORS = {"default": None, "rp": "working", "krr": "LMKOC-LLE_layers"}  # 25 projections; every row a kernel
LIBRARIES = {  # in the order in which `steps` imports them: what an earlier one brought is no cost of a later one
    "typer": ["typer"],
    "json, logging, dataclasses, threading": ["json", "logging", "dataclasses", "threading"],
    "ssl, hashlib": ["hashlib", "ssl"],
    "sqlite3": ["sqlite3"],
    "yaml": ["yaml"],
    "numpy": ["numpy"],
    "pydantic": ["pydantic"],
    "paho-mqtt": ["paho.mqtt.client"],
    "stream_occ": ["stream_occ.cli.detect", "stream_occ.running", "stream_occ.artifacts", "stream_occ.config"],
}
FILES = {  # where a mapping belongs, by its path
    "the model's file": r"\.occ$",
    "openblas": r"openblas|gfortran|quadmath",
    "numpy": r"/numpy/",
    "pydantic": r"/pydantic_core/",
    "openssl": r"lib(ssl|crypto)",
    "sqlite": r"sqlite|\.db",
    "numba, llvm": r"/(numba|llvmlite)/",
    "python": r"/(lib)?python[^/]*$|lib-dynload",
    "C library": r"/lib(c|m|z|stdc\+\+|gcc_s|dl|pthread|expat|ffi|uuid|lzma|bz2)[.-]|/ld-linux|locale|gconv",
}

# ---- the memory of a process


def memory_of(pid: int | str = "self") -> dict[str, float]:
    """MB resident of a process: in all, its share of what others map too, what it alone holds, and by kind."""
    text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    kb = {name: int(value) for name, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.M)}
    mb = {
        "rss_mb": kb["Rss"],
        "pss_mb": kb["Pss"],
        "uss_mb": kb["Private_Clean"] + kb["Private_Dirty"],
        "anonymous_mb": kb["Anonymous"],
        "file_mb": kb["Rss"] - kb["Anonymous"],
    }
    return {name: round(value / 1024, 1) for name, value in mb.items()}


def mappings_of(pid: int | str = "self") -> dict[str, dict[str, float]]:
    """MB resident by what is mapped: files of a library (and of it what was written to), heap, other memory, stacks."""
    found: dict[str, dict[str, float]] = defaultdict(lambda: {"rss_mb": 0.0, "anonymous_mb": 0.0})
    group = ""
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        if head := re.match(r"[0-9a-f]+-[0-9a-f]+ \S+ \S+ \S+ \d+\s*(.*)$", line):
            group = _group(head[1])
        elif number := re.match(r"(Rss|Anonymous):\s+(\d+) kB", line):
            found[group]["rss_mb" if number[1] == "Rss" else "anonymous_mb"] += int(number[2]) / 1024
    order = sorted(found.items(), key=lambda entry: -entry[1]["rss_mb"])
    return {
        name: {kind: round(mb, 1) for kind, mb in sizes.items()} for name, sizes in order if sizes["rss_mb"] >= 0.05
    }


def cpu_of(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _group(path: str) -> str:
    if path in ("", "[heap]", "[stack]") or path.startswith("["):
        return {"": "other memory", "[heap]": "heap"}.get(path, "stack and kernel")
    return next((name for name, pattern in FILES.items() if re.search(pattern, path)), "other files")


# ---- models


def make_models(folder: Path, names: Sequence[str], n_rows: int) -> dict[str, Path]:
    """Model files of these detectors on n_rows windows of somebody who walks."""
    import service

    made = {}
    for name in names:
        path = Path(name)
        if name in DETECTORS:
            path = folder / f"{name}.occ"
            service.make_model(path, n_rows, detector=DETECTORS[name])
        made[name] = path.resolve()
    return made


# ---- the service, which notes its way


def serve(config: Path, notes: Path) -> None:
    """`stream-occ detect`, library after library; notes time and memory after each step."""
    started_s = _process_start_s()
    noted = [{"step": "interpreter", "at_s": time.monotonic() - started_s, **memory_of()}]

    def note(step: str) -> None:
        noted.append({"step": step, "at_s": time.monotonic() - started_s, **memory_of()})

    from importlib import import_module

    for name, modules in LIBRARIES.items():
        for module in modules:
            import_module(module)
        note(name)
    from stream_occ import artifacts
    from stream_occ import config as configuration
    from stream_occ.cli.detect import command
    from stream_occ.pipeline import Pipeline

    load_config, load_model, freeze = configuration.load_config, artifacts.load_model, gc.freeze
    step, decided = Pipeline.step, threading.Event()

    def loading(path: Path) -> Any:
        loaded = load_config(path)
        note("configuration")
        return loaded

    def opening(*arguments: Any, **options: Any) -> Any:
        model = load_model(*arguments, **options)
        note("model: mapped, verified, its own arrays derived")
        return model

    def freezing() -> None:
        note("state file, service; memory given back")
        freeze()

    def stepping(*arguments: Any, **options: Any) -> Any:
        result = step(*arguments, **options)
        if result[1] and not decided.is_set():
            decided.set()
            note("threads, connection, first device, first decision")
        return result

    configuration.load_config, artifacts.load_model, gc.freeze = loading, opening, freezing
    Pipeline.step = stepping  # type: ignore[method-assign]
    command(config)
    note("the device's next windows")
    notes.write_text(json.dumps(noted))


def _process_start_s() -> float:
    """When this process started, on the monotonic clock, to 10 ms."""
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return ticks / os.sysconf("SC_CLK_TCK") - (time.clock_gettime(time.CLOCK_BOOTTIME) - time.monotonic())


# ---- one run


class Listener:
    """The devices' side of the broker: says when the service listens, and when scores come."""

    def __init__(self, port: int) -> None:
        from paho.mqtt import client as paho
        from paho.mqtt.enums import CallbackAPIVersion

        self.online, self.scored, self.n_scores, self.first_score_s = threading.Event(), threading.Event(), 0, 0.0
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda c, *_: c.subscribe(
            [("stream_occ/bridge/+/status", 1), ("stream_occ/+/score", 0)]
        )
        self.client.on_message = self._note
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()

    def _note(self, _client: Any, _user: Any, message: Any) -> None:
        if message.topic.endswith("/status"):
            if message.payload == b"online":
                self.online.set()
            return
        if not self.n_scores:
            self.first_score_s = time.monotonic()
        self.n_scores += 1
        self.scored.set()


def run_once(
    folder: Path,
    port: int,
    model: Path,
    *,
    devices: int,
    seconds: float,
    command: Sequence[str],
    engine: str = "auto",
) -> dict[str, Any]:
    """Starts the service, plays the devices, reads times and memory, and ends it.

    One device sends 5 s of samples at once; after its score all send for so many seconds, as in life.
    """
    import numpy as np
    from service import play, walking

    from stream_occ.codecs import load_codec
    from stream_occ.samples import NS_PER_S

    (folder / "edge.yaml").write_text(
        f"mqtt: {{port: {port}, client_id: footprint}}\nstate: {{path: '{folder}/state.db'}}\nmodel: '{model}'\n"
        "inputs: [{pattern: 'wearables/{device}/imu'}]\nlog: {level: warning}\noutput: {publish_score: true}\n"
        f"engine: {engine}\n"
    )
    rng, k = np.random.default_rng(0), np.arange(round(BACKLOG_S * RATE_HZ))
    listener = Listener(port)
    started_s = time.monotonic()
    process = subprocess.Popen([*command, str(folder / "edge.yaml")], stdout=subprocess.PIPE, text=True, cwd=folder)
    try:
        _wait(listener.online, process)
        online_s = time.monotonic()
        t_ns = time.time_ns() + np.rint((k - len(k)) * NS_PER_S / RATE_HZ).astype(np.int64)
        backlog = load_codec("json").encode(walking("d0", k, t_ns, rng))
        listener.client.publish("wearables/d0/imu", backlog, qos=1)
        _wait(listener.scored, process)
        cpu_s = cpu_of(process.pid)
        if seconds:
            play(port, rng.random(devices), seconds, 10, is_numbered=False)
            time.sleep(1.0)
        return {
            "start_s": listener.first_score_s - started_s,
            "listening_s": online_s - started_s,
            "cpu_s": cpu_s,
            "n_scores": listener.n_scores,
            "memory": memory_of(process.pid),
            "mappings": mappings_of(process.pid),
            "threads": len(list(Path(f"/proc/{process.pid}/task").iterdir())),
        }
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
        listener.client.loop_stop()
        for left in folder.glob("state.db*"):
            left.unlink()


def _wait(event: threading.Event, process: subprocess.Popen[str]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not event.wait(0.01):
        if process.poll() is not None or time.monotonic() > deadline_s:
            raise RuntimeError(f"the service ended with {process.returncode}, or took more than {WAIT_S:g} s")


def measure(models: dict[str, Path], folder: Path, mosquitto: str, arguments: argparse.Namespace) -> Any:
    """All figures: medians of --runs starts, the memory of another run, and the steps of one more."""
    import service

    detect, noting = [sys.executable, "-m", "stream_occ", "detect", "-c"], [sys.executable, __file__, "--serve"]
    found = {}
    for name, model in models.items():
        port = service.free_port()  # a broker of its own: it remembers sessions
        as_root = "user root\n" if os.geteuid() == 0 else ""
        (folder / "mosquitto.conf").write_text(
            f"listener {port} 127.0.0.1\nallow_anonymous true\n{as_root}log_dest none\nset_tcp_nodelay true\n"
        )
        broker = subprocess.Popen([mosquitto, "-c", str(folder / "mosquitto.conf")])
        time.sleep(0.5)
        try:
            start = {"devices": 1, "seconds": 0.0, "engine": arguments.engine}
            starts = [run_once(folder, port, model, command=detect, **start) for _ in range(arguments.runs)]
            whole = {"devices": arguments.devices, "seconds": arguments.seconds, "engine": arguments.engine}
            settled = run_once(folder, port, model, command=detect, **whole)
            run_once(folder, port, model, command=noting, **whole)
        finally:
            service._end(broker)
        found[name] = {
            "model_file_mb": round(model.stat().st_size / 2**20, 1),
            "start_s": round(statistics.median(run["start_s"] for run in starts), 2),
            "start_s_best": round(min(run["start_s"] for run in starts), 2),
            "listening_s": round(statistics.median(run["listening_s"] for run in starts), 2),
            "start_cpu_s": round(statistics.median(run["cpu_s"] for run in starts), 2),
            "memory": settled["memory"],
            "mappings": settled["mappings"],
            "threads": settled["threads"],
            "n_scores": settled["n_scores"],
            "steps": _added(json.loads((folder / "notes.json").read_text())),
        }
    return found


def _added(noted: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What each step took and added."""
    steps, last = [], dict.fromkeys(noted[0], 0.0) | {"step": ""}
    for now in noted:
        added = {name: round(now[name] - last[name], 1) for name in ("rss_mb", "pss_mb", "uss_mb", "file_mb")}
        steps.append({"step": now["step"], "s": round(now["at_s"] - last["at_s"], 3), **added})
        last = now
    return steps


def main() -> int:
    """Prints the figures, and writes them to --json; exit code 1 where one is beyond its bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", nargs="+", default=list(DETECTORS), help="default, rp, krr, or a model file")
    parser.add_argument("--rows", type=int, default=5000, help="training windows in a model")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--devices", type=int, default=1, help="that send when memory is read")
    parser.add_argument("--seconds", type=float, default=30.0, help="for which they do")
    parser.add_argument("--engine", choices=("auto", "numpy", "compiled"), default="auto", help="as in a configuration")
    parser.add_argument("--rss-mb", type=float, help="bar for resident memory")
    parser.add_argument("--start-s", type=float, help="bar for the median start")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve is not None:
        serve(arguments.serve, arguments.serve.with_name("notes.json"))
        return 0
    mosquitto = shutil.which("mosquitto", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if mosquitto is None:
        print("mosquitto not found on PATH")
        return 1
    with tempfile.TemporaryDirectory() as name:
        models = make_models(Path(name), arguments.model, arguments.rows)
        found = measure(models, Path(name), mosquitto, arguments)
    figures = {
        "rows": arguments.rows,
        "devices": arguments.devices,
        "seconds": arguments.seconds,
        "engine": arguments.engine,
        "load_average_1min": round(os.getloadavg()[0], 1),
        "models": found,
    }
    print(json.dumps(figures, indent=2))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    is_large = arguments.rss_mb and any(each["memory"]["rss_mb"] >= arguments.rss_mb for each in found.values())
    is_slow = arguments.start_s and any(each["start_s"] >= arguments.start_s for each in found.values())
    return int(bool(is_large or is_slow))


if __name__ == "__main__":
    sys.exit(main())
