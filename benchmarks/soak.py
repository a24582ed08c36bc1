"""Does the service grow? Many devices with every fault that the simulators know, faster than life.

    python benchmarks/soak.py --minutes 240 --devices 100 --speed 4 --out soak

A real mosquitto, the real `detect`, and synthetic wearers who fall now and then; the devices have the faults of
simulators/faults in turn, then some none, and one device sends nonsense; somebody clears each alert within two minutes.
--minutes are of the devices' time. Once a second the service's memory, threads, open files and its /metrics are noted:
soak.json, with what the states named for each fault, and soak.svg to look at.

A process keeps the memory that a queue of waiting messages once took. So memory is fitted by a + b t + c q, q the
largest queue so far: b is growth, c what waiting costs. Exit code 1 where memory grows beyond its noise (b is
--growth-mb at least, with 97.5 % confidence, from the end of the warm-up to the end of the run), threads or files
become more, or the service ends or does not keep up.
"""

from __future__ import annotations

import argparse
import itertools
import json
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Any, NamedTuple

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

import numpy as np  # noqa: E402
import psutil  # noqa: E402
from scipy import stats  # noqa: E402

from simulators.faults import fault_names, load_fault  # noqa: E402
from simulators.publisher import Publisher  # noqa: E402
from simulators.replay import schedule  # noqa: E402
from simulators.synthetic import Wearer, draw_script  # noqa: E402
from stream_occ.codecs import load_codec  # noqa: E402
from stream_occ.mqtt import MqttOptions  # noqa: E402
from stream_occ.samples import NS_PER_S, FloatArray, Recording  # noqa: E402
from tests.integration.broker import Broker, free_port  # noqa: E402
from tests.integration.detector import Detector, Watcher  # noqa: E402

RATE_HZ = 50.0
BATCH_S = 0.5  # of a message
MAX_LIVES = 10  # different ones; making them costs more than sending them
LIFE_S = 240.0
STAND_S = 8.0
JUNK_EVERY = 200  # messages
CLEAR_EVERY = 240  # messages: with two a second, each device's alert every 120 s of its time
N_BLOCKS = 12  # neighbouring seconds are alike: the line goes through means of so many stretches
STOP_S = 60.0  # for what still waits at the end
NAME = "stream_occ_"


# ---- the wearers


def fault_of(number: int) -> str:
    """Of a device, by its number; "none" of some."""
    return [*fault_names(), "none", "none"][number % (len(fault_names()) + 2)]


def live_within_s(minutes: float) -> float:
    """Stamps are as old as the run is long in the devices' time, at its start: only what is older by far is history."""
    return 60.0 * minutes + 600.0


def lives(n: int, seed: int, *, duration_s: float, n_falls: int) -> list[list[Recording]]:
    """What n synthetic wearers live through; they end as they began: played again and again it has no seam."""
    made = []
    for k in range(n):
        script = draw_script(np.random.default_rng((seed, k)), duration_s, n_falls=n_falls)
        wearer = Wearer(f"w{k}", np.random.default_rng((seed, k, 1)), rate_hz=RATE_HZ)
        made.append(list(wearer.iter_recordings([*script, ("standing", STAND_S)])))
    return made


def make_model(path: Path, n_lives: int, duration_s: float) -> None:
    """The default detector on normal lives; it flags one window in a thousand of others."""
    from stream_occ.artifacts import save_model
    from stream_occ.detectors import preset, preset_scaling
    from stream_occ.detectors.calibration import quantile_threshold
    from stream_occ.detectors.scaling import fit_scaler
    from stream_occ.features import design_lowpass, load
    from stream_occ.scoring import Model
    from stream_occ.training.config import TrainingConfig
    from stream_occ.windowing import cut_windows

    default = TrainingConfig()
    features, name = load(default.feature_set), default.detector.name
    sos = design_lowpass(features, RATE_HZ)
    cut = {"rate_hz": RATE_HZ, "window_s": default.window_s, "hop_s": default.hop_s}

    def rows(seed: int) -> FloatArray:
        made = lives(n_lives, seed, duration_s=duration_s, n_falls=0)
        blocks = [recording.block for life in made for recording in life]
        return np.concatenate([features.extract(cut_windows(block, sos=sos, **cut)) for block in blocks])

    X, held_out = rows(1), rows(2)
    scaler = fit_scaler(X, preset_scaling(name))
    detector = preset(name, random_state=0, feature_names=features.NAMES).fit(scaler.transform(X))
    scorer = detector.to_scorer()
    threshold = quantile_threshold(scorer.score(scaler.transform(held_out)), 0.001)
    save_model(
        Model("", features, sos=sos, scaler=scaler, scorer=scorer, threshold=threshold, **cut), path, self_test_X=X[:8]
    )


def play(port: int, n_devices: int, minutes: float, speed: float) -> None:
    """All devices in one process; says at the end by how much the latest message was late."""
    data_s = 60.0 * minutes
    made = lives(min(MAX_LIVES, n_devices), 3, duration_s=min(LIFE_S, data_s), n_falls=1)
    streams, disturb = {}, {}
    for i in range(n_devices):
        life, fault = made[i % len(made)], fault_of(i)
        fault += f":{live_within_s(minutes) + 600.0}" * (fault == "backlog")  # history until the end
        at = i % len(life)
        streams[f"d{i}"] = life[at:] + life[:at]
        disturb[f"d{i}"] = (lambda block: block) if fault == "none" else load_fault(fault)()
    codec, behind_s = load_codec("msgpack"), 0.0
    print("ready", flush=True)
    start_ns, started_s = time.time_ns() - round(data_s * NS_PER_S), time.monotonic()
    due_in_order = schedule(streams, start_ns=start_ns, batch_s=BATCH_S, pause_s=1 / RATE_HZ, is_looped=True)
    devices, carer = (MqttOptions("127.0.0.1", port, f"soak-{who}") for who in ("devices", "carer"))
    with Publisher(devices) as publish, Publisher(carer, "stream_occ/{device}/set/cancel") as cancel:
        for n, due in enumerate(itertools.takewhile(lambda due: due.due_s < data_s, due_in_order)):
            ahead_s = due.due_s / speed - (time.monotonic() - started_s)
            if ahead_s > 0:
                time.sleep(ahead_s)
            behind_s = max(behind_s, -ahead_s)
            block = disturb[due.device_id](due.block)
            if len(block):
                publish(due.device_id, codec.encode(block))
            if n % CLEAR_EVERY == 0:
                cancel(f"d{n // CLEAR_EVERY % n_devices}", b"")
            if n % JUNK_EVERY == 0:
                publish("junk", bytes(n % 251 for _ in range(40)))
    print(json.dumps({"behind_s": round(behind_s, 2)}))


# ---- what is noted each second


class Sample(NamedTuple):
    """The service at one instant; counters since its start. latency_s: mean and 99 % (bound of its class)."""

    t_s: float
    rss_mb: float
    threads: int
    files: int
    cpu_s: float
    messages: float
    windows: float
    refused: float
    dropped: float
    queue: float
    alerts: float
    latency_mean_s: float
    latency_p99_s: float


class Watch:
    """Looks at the process and at its /metrics."""

    def __init__(self, process: psutil.Process, port: int) -> None:
        self.refused: dict[str, float] = {}
        self._process, self._url = process, f"http://127.0.0.1:{port}/metrics"
        self._started_s = time.monotonic()
        self._before: dict[str, float] = {}

    def look(self) -> Sample:
        """One sample; the process first, since each answer of /metrics takes a thread and a socket for a while."""
        with self._process.oneshot():
            memory, cpu = self._process.memory_info().rss, self._process.cpu_times()
            threads = self._process.num_threads()
        files, t_s = self._process.num_fds(), time.monotonic() - self._started_s
        with urllib.request.urlopen(self._url, timeout=10) as answer:
            values = metrics(answer.read().decode())
        self.refused = {key: n for key, n in values.items() if key.startswith("messages_refused_total{")}
        mean_s, p99_s = self._latency(values)
        total = {name: sum(n for key, n in values.items() if key.startswith(f"{name}{{"))
                 for name in ("messages_refused_total", "messages_dropped_total", "open_alerts")}  # fmt: skip
        return Sample(
            round(t_s, 3), memory / 2**20, threads, files, cpu.user + cpu.system,
            values.get("messages_total", 0.0), values.get("windows_total", 0.0), total["messages_refused_total"],
            total["messages_dropped_total"], values.get("queue_messages", 0.0), total["open_alerts"], mean_s, p99_s,
        )  # fmt: skip

    def _latency(self, values: Mapping[str, float]) -> tuple[float, float]:
        """Of the messages since the last look."""
        now = {key: n for key, n in values.items() if key.startswith("latency_seconds")}
        new = {key: n - self._before.get(key, 0.0) for key, n in now.items()}
        self._before = now
        n = new.get("latency_seconds_count", 0.0)
        if n <= 0:
            return float("nan"), float("nan")
        bounds = {float(key.split('"')[1]): count for key, count in new.items() if "_bucket{" in key}
        return new["latency_seconds_sum"] / n, min(bound for bound, count in bounds.items() if count >= 0.99 * n)


def metrics(page: str) -> dict[str, float]:
    """Our own metrics, by name and labels.

    >>> metrics('# HELP x\\nstream_occ_queue_messages 3.0\\nprocess_open_fds 7.0\\n')
    {'queue_messages': 3.0}
    """
    found = re.findall(rf"^{NAME}(\S+?(?:\{{.*\}})?) (\S+)$", page, re.MULTILINE)
    return {key: float(value) for key, value in found}


# ---- what comes of it


class Line(NamedTuple):
    """Growth of memory with its 95 % interval, MB an hour, and the hours that it was seen over.

    queued_kb: what each message of the largest queue so far adds; 0 where none was larger than one of the warm-up.
    """

    slope: float
    low: float
    high: float
    hours: float
    intercept: float
    queued_kb: float = 0.0
    queued_low: float = 0.0
    queued_high: float = 0.0


def memory_line(t_s: FloatArray, rss_mb: FloatArray, largest_queue: FloatArray) -> Line:
    """Least squares through the means of N_BLOCKS stretches of time (fewer in a short run); intervals by Student's t.

    largest_queue: so far, at each instant. Where it rises as time does, the two cannot be told apart and both intervals
    are wide.
    """
    n_blocks = min(N_BLOCKS, len(t_s))
    parts = np.array_split(np.arange(len(t_s)), n_blocks)
    x, y, queue = (np.array([values[part].mean() for part in parts]) for values in (t_s / 3600, rss_mb, largest_queue))
    columns = [np.ones(n_blocks), x] + [queue] * bool(np.ptp(queue) > 0)
    design = np.column_stack(columns)
    found, *_ = np.linalg.lstsq(design, y, rcond=None)
    n_free = n_blocks - len(columns)
    _, triangle = np.linalg.qr(design)
    spread = np.linalg.norm(np.linalg.solve(triangle, np.eye(len(columns))), axis=1)
    reach = stats.t.ppf(0.975, n_free) * np.sqrt(((y - design @ found) ** 2).sum() / n_free) * spread
    ends = [(float(f), float(f - r), float(f + r)) for f, r in zip(found, reach, strict=True)]
    waiting = [1024 * end for end in ends[2]] if len(columns) == 3 else []
    return Line(*ends[1], float(t_s[-1] - t_s[0]) / 3600, ends[0][0], *waiting)


def findings(samples: Sequence[Sample], growth_mb: float, warm_up_s: float = 0.0) -> tuple[Line, list[str]]:
    """The line through memory after the warm-up, and what is wrong there; samples: of the whole run."""
    largest_queue = np.maximum.accumulate([s.queue for s in samples])
    seen = [n for n, s in enumerate(samples) if s.t_s >= warm_up_s]
    samples = [samples[n] for n in seen]
    t_s, rss_mb = np.array([s.t_s for s in samples]), np.array([s.rss_mb for s in samples])
    line = memory_line(t_s, rss_mb, largest_queue[seen])
    wrong = []
    if line.low * line.hours > growth_mb:
        wrong.append(f"memory grows by {line.slope:.2f} MB an hour (95 % interval {line.low:.2f} to {line.high:.2f})")
    quarter = max(1, len(samples) // 4)
    for name in ("threads", "files"):
        first, last = (np.median([getattr(s, name) for s in part]) for part in (samples[:quarter], samples[-quarter:]))
        if last > first:
            wrong.append(f"{name} become more: {first:g} in the first quarter, {last:g} in the last")
    return line, wrong


def draw(samples: Sequence[Sample], line: Line, warm_up_s: float, path: Path) -> None:
    """Memory with its line, latency, what was counted each second, threads and files; over the time of the run."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    column = {name: np.array([getattr(s, name) for s in samples], dtype=float) for name in Sample._fields}
    t_s, steps = column["t_s"], np.maximum(np.diff(column["t_s"], prepend=0.0), 1e-3)
    figure = Figure(figsize=(9.0, 10.0), layout="constrained")
    memory, latency, counts, handles = figure.subplots(4, sharex=True)
    memory.plot(t_s, column["rss_mb"], linewidth=0.8)
    is_fitted = t_s >= warm_up_s
    label = f"{line.slope:+.2f} MB an hour ({line.low:+.2f} to {line.high:+.2f})"
    label += (
        f", {line.queued_kb:+.2f} kB a message of the largest queue ({line.queued_low:+.2f} to {line.queued_high:+.2f})"
    )
    fitted = line.intercept + line.slope * t_s / 3600 + line.queued_kb / 1024 * np.maximum.accumulate(column["queue"])
    memory.plot(t_s[is_fitted], fitted[is_fitted], color="tab:red", label=label)
    memory.set(ylabel="memory, MB")
    latency.plot(t_s, 1000 * column["latency_mean_s"], linewidth=0.8, label="mean")
    latency.plot(t_s, 1000 * column["latency_p99_s"], linewidth=0.8, label="99 % (bound of its class)")
    latency.set(ylabel="arrival to end of its batch, ms", yscale="log")
    for name in ("messages", "windows", "refused", "dropped"):
        counts.plot(t_s, np.diff(column[name], prepend=0.0) / steps, linewidth=0.8, label=f"{name} a second")
    counts.plot(t_s, 100 * np.diff(column["cpu_s"], prepend=column["cpu_s"][0]) / steps, linewidth=0.8, label="CPU, %")
    for name in ("threads", "files", "queue", "alerts"):
        handles.plot(t_s, column[name], linewidth=0.8, label=name)
    handles.set(xlabel="s", yscale="symlog")
    for axes in (memory, latency, counts, handles):
        axes.axvline(warm_up_s, color="grey", linewidth=0.5)
        axes.legend(fontsize=8)
    with mpl.rc_context({"svg.hashsalt": "stream-occ"}):
        figure.savefig(path, metadata={"Date": None})


# ---- one run


def run(folder: Path, arguments: argparse.Namespace) -> tuple[list[Sample], dict[str, Any]]:
    """The samples, and what was said at the end."""
    model, port = folder / "soak.occ", free_port()
    n_lives, duration_s = (2, 60.0) if arguments.minutes < 5 else (MAX_LIVES, 600.0)
    make_model(model, n_lives, duration_s)
    sections: dict[str, Any] = {
        "inputs": [{"pattern": "wearables/{device}/imu", "codec": "msgpack", "profile": {"nominal_rate_hz": RATE_HZ}}],
        "events": {"live_within_s": live_within_s(arguments.minutes)},
        "drift": {"block_s": 60.0},  # fills up in minutes, not in the hours that would look like a leak
        "limits": {"max_devices": arguments.devices + 10},
        "http": {"enabled": True, "port": port},
        "output": {"slice_s": 0.02, "state_interval_s": 10.0},
        "log": {"level": "warning"},
    }
    samples: list[Sample] = []
    named: dict[str, set[str]] = defaultdict(set)
    with (
        Broker.start(folder) as broker,
        Detector(folder, broker.port, model, **sections) as detector,
        Watcher(broker.port, "stream_occ/+/state") as states,
    ):
        given = [str(broker.port), str(arguments.devices), str(arguments.minutes), str(arguments.speed)]
        player = subprocess.Popen([sys.executable, __file__, "--play", *given], stdout=subprocess.PIPE, text=True)
        try:
            assert player.stdout is not None
            player.stdout.readline()  # its wearers are made
            watch = Watch(psutil.Process(detector.pid), port)
            assert detector.process is not None
            n_unanswered = 0
            while player.poll() is None and detector.process.poll() is None:
                try:
                    samples.append(watch.look())
                except (OSError, HTTPException, psutil.NoSuchProcess):  # what there is is still drawn
                    n_unanswered += 1
                told, states.log = states.log, []
                for topic, payload, _ in told:
                    device = topic.split("/")[1]
                    fault = device if device == "junk" else fault_of(int(device.removeprefix("d")))
                    named[fault] |= set(json.loads(payload or b"{}").get("faults", ()))
                time.sleep(1.0 - time.monotonic() % 1.0)
            said = {} if player.poll() is None else json.loads(player.stdout.read() or "{}")
        finally:
            player.kill()
            player.wait(10)
        refused: dict[str, float] = defaultdict(float)
        for key, n in watch.refused.items():
            refused[key.split('"')[1]] += n
        said |= {"refused_by_reason": dict(refused), "unanswered": n_unanswered}
        said["named"] = {fault: sorted(names) for fault, names in sorted(named.items())}
        try:
            return samples, said | {"exit_code": detector.stop(STOP_S)}
        except subprocess.TimeoutExpired:
            return samples, said | {"exit_code": None}


def main() -> int:
    """Writes soak.json and soak.svg, and says what is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=240.0, help="of the devices' time")
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--speed", type=float, default=4.0, help="times real time")
    parser.add_argument("--warm-up", type=float, default=0.4, help="share of the run")
    parser.add_argument("--growth-mb", type=float, default=4.0, help="less is noise: tables are made anew in MBs")
    parser.add_argument("--out", type=Path, default=Path("soak"))
    parser.add_argument("--play", nargs=4, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.play is not None:
        port, n_devices, *times = arguments.play
        play(int(port), int(n_devices), *map(float, times))
        return 0
    arguments.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        samples, said = run(Path(name), arguments)
    warm_up_s = arguments.warm_up * samples[-1].t_s
    line, wrong = findings(samples, arguments.growth_mb, warm_up_s)
    if said["refused_by_reason"].get("queue_full", 0) > 0:
        wrong.append("the service did not keep up: messages were refused. Lower --speed")
    if said["exit_code"] != 0 or "behind_s" not in said:
        wrong.append(f"detect or the devices ended early or not at all: exit code {said['exit_code']} of detect")
    last = samples[-1]
    told = {
        "devices": arguments.devices,
        "device_minutes": arguments.minutes,
        "speed": arguments.speed,
        "wall_s": last.t_s,
        "faults": fault_names(),
        "memory_line": line._asdict(),  # MB an hour; kB a message of the largest queue so far
        "memory_mb": [round(f([s.rss_mb for s in samples if s.t_s >= warm_up_s]), 1) for f in (min, max)],
        "cpu_share_of_one_core": round(last.cpu_s / last.t_s, 3),
        "queue_max": max(s.queue for s in samples),  # what waited takes memory that the process may keep
        "threads": sorted({s.threads for s in samples if s.t_s >= warm_up_s}),
        "files": sorted({s.files for s in samples if s.t_s >= warm_up_s}),
        "messages": last.messages,
        "windows": last.windows,
        **said,
        "wrong": wrong,
    }
    rows = [sample._asdict() for sample in samples]
    (arguments.out / "soak.json").write_text(json.dumps({**told, "samples": rows}, indent=1) + "\n")
    draw(samples, line, warm_up_s, arguments.out / "soak.svg")
    print(json.dumps(told, indent=2))
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
