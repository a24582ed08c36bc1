"""How soon the service decides, and how much of a core it needs: one run of devices through a real mosquitto."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from stream_occ.bench.devices import RATE_HZ, Noted, Player, phases_of, waits_ms, walking
from stream_occ.bench.noting import STAGES
from stream_occ.errors import ServiceError
from stream_occ.samples import NS_PER_S, FloatArray

WARM_UP_S = 8.0  # the first windows are full after 5 s
MOBIFALL_WINDOWS = 15_050  # normal ones of 4.5 s every 0.5 s, a few more than of 5 s
START_S = 120.0
SEARCH_PATH = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))

__all__ = ["MOBIFALL_WINDOWS", "Load", "Run", "broker", "end", "free_port", "make_model", "mosquitto", "run", "spread"]


@dataclass(frozen=True, slots=True)
class Load:
    """Devices, for so many seconds after a warm-up, n_samples a message.

    is_kept: the service saves its states, as it does unless told otherwise. options: more lines of its configuration.
    """

    n_devices: int
    seconds: float
    n_samples: int = 25
    is_random: bool = True
    is_numbered: bool = False
    is_kept: bool = True
    options: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """What was noted between since_s and until_s on the monotonic clock, CPU seconds of the service among it.

    ready_s: from the start of the service until it listened.
    """

    load: Load
    ready_s: float
    sent: list[Noted]
    noted: dict[str, Any]
    counters: dict[str, Any]
    since_s: float
    until_s: float
    cpu_s: float
    rss_mb: float
    seen: Sequence[Noted] = ()

    @property
    def first_decision_s(self) -> float:
        """From the start of the service to its first decision, less the wait for the samples of a window."""
        device, t_end_ns, decided_s = self.noted["decided"][0]
        sent_s = next(at_s for name, stamp, at_s in self.sent if name == device and stamp >= t_end_ns)
        return float(self.ready_s + decided_s - sent_s)

    def figures(self) -> dict[str, Any]:
        """Delays in ms, share of the core and what of it goes where, and what was lost."""
        decided = [(name, stamp, at_s) for name, stamp, at_s in self.noted["decided"]]
        arrived_ms = waits_ms(self.noted["arrived"], decided, self.since_s)
        duration_s = self.until_s - self.since_s
        expected = self.load.n_devices * duration_s / 0.5
        n_windows = sum(self.since_s <= at_s < self.until_s for _, _, at_s in decided)
        saves_s = [save_s for at_s, save_s in self.noted["saves"] if self.since_s <= at_s < self.until_s]
        return {
            "devices": self.load.n_devices,
            "rate_hz": RATE_HZ,
            "samples_a_message": self.load.n_samples,
            "seconds": self.load.seconds,
            "n_windows": len(arrived_ms),
            "share_decided": round(n_windows / expected, 3),
            "arrival_to_decision_ms": spread(arrived_ms),
            "sent_to_decision_ms": spread(waits_ms(self.sent, decided, self.since_s)),
            "cpu_share_of_one_core": round(self.cpu_s / duration_s, 3),
            "cpu_shares": self._shares(duration_s),
            "longest_save_ms": round(1000 * max(saves_s, default=0.0), 1),
            "rss_mb": round(self.rss_mb, 1),
            "messages_sent": len(self.sent),
            "messages_received": self.counters["messages"],
            "refused": self.counters["refused"],
            "dropped": self.counters["dropped"],
        }

    def _shares(self, duration_s: float) -> dict[str, float]:
        """Of one core: stages of the worker's thread, the rest of it, and all other threads (the MQTT client's)."""
        spent = np.array(self.noted["spent"])
        within = spent[(spent[:, 0] >= self.since_s) & (spent[:, 0] <= self.until_s), 1:]
        if len(within) < 2:
            return {}
        worker_s, *stages_s = (within[-1] - within[0]).tolist()
        shares = dict(zip(STAGES, stages_s, strict=True))
        shares["rest of the worker"] = worker_s - sum(stages_s)
        shares["other threads: MQTT client"] = self.cpu_s - worker_s
        return {name: round(max(value, 0.0) / duration_s, 3) for name, value in shares.items()}


def spread(values: FloatArray) -> dict[str, float]:
    """What is told of a set of delays; nothing of none."""
    if not len(values):
        return {}
    p50, p95, p99 = np.percentile(values, [50, 95, 99])
    return {name: round(float(v), 1) for name, v in (("p50", p50), ("p95", p95), ("p99", p99), ("max", values.max()))}


def make_model(path: Path, n_rows: int, *, detector: str | None = None) -> None:
    """A detector by its preset's name, or the default one, on n_rows windows of walking."""
    from stream_occ.artifacts import save_model
    from stream_occ.detectors import preset, preset_scaling
    from stream_occ.detectors.scaling import fit_scaler
    from stream_occ.features import design_lowpass, load
    from stream_occ.scoring import Model
    from stream_occ.training.config import TrainingConfig
    from stream_occ.windowing import cut_windows

    default, rng = TrainingConfig(), np.random.default_rng(0)
    features = load(default.feature_set)
    sos = design_lowpass(features, RATE_HZ)
    k = np.arange(round((n_rows * default.hop_s + default.window_s) * RATE_HZ))
    stream = walking("train", k, np.rint(k * NS_PER_S / RATE_HZ).astype(np.int64), rng)
    windows = cut_windows(stream, rate_hz=RATE_HZ, window_s=default.window_s, hop_s=default.hop_s, sos=sos)
    X = features.extract(windows)[:n_rows]
    name = default.detector.name if detector is None else detector
    scaler = fit_scaler(X, preset_scaling(name))
    fitted = preset(name, random_state=0, feature_names=features.NAMES).fit(scaler.transform(X))
    scorer, threshold = fitted.to_scorer(), 1e3  # no alerts: they are rare in life
    made = Model("", features, RATE_HZ, default.window_s, default.hop_s, sos, scaler, scorer, threshold, {"seed": 0})
    save_model(made, path, self_test_X=X[:8])


def mosquitto() -> str:
    """The broker's program; ServiceError where it is not installed."""
    found = shutil.which("mosquitto", path=SEARCH_PATH)
    if found is None:
        raise ServiceError("mosquitto", "be on PATH", "none", "Install it (apt-get install mosquitto)")
    return found


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    """A mosquitto with its files in the folder; yields its loopback port."""
    port = free_port()
    as_root = "user root\n" if os.geteuid() == 0 else ""
    conf = folder / "mosquitto.conf"
    conf.write_text(
        f"listener {port} 127.0.0.1\nallow_anonymous true\n{as_root}log_dest none\nset_tcp_nodelay true\n"
        "max_queued_messages 0\n"
    )
    process = subprocess.Popen([mosquitto(), "-c", str(conf)], stderr=subprocess.DEVNULL)
    try:
        deadline_s = time.monotonic() + 10.0
        while time.monotonic() < deadline_s:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1.0).close()
                break
            except OSError:
                time.sleep(0.05)
        yield port
    finally:
        end(process)


def run(folder: Path, model: Path, load: Load, *, listen: Any = None) -> Run:
    """Plays the load to a service on the first of our cores; broker and devices are on the others.

    listen(port): a context manager of somebody else at the broker, whose `arrived` becomes `seen`.
    """
    cores = sorted(os.sched_getaffinity(0))
    try:
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[1:])
        state = f"path: {folder / 'state.db'}" if load.is_kept else "enabled: false"
        with broker(folder) as port:
            (folder / "edge.yaml").write_text(
                f"mqtt: {{port: {port}, client_id: bench}}\nstate: {{{state}}}\nmodel: {model}\n"
                "inputs: [{pattern: 'wearables/{device}/imu'}]\nlog: {level: warning}\n"
                f"limits: {{max_devices: {load.n_devices + 10}}}\n{load.options}\n"
            )
            started_s = time.monotonic()
            with _service(folder, cores[0]) as service, listen(port) if listen else nullcontext() as listener:
                return _played(service, folder, port, load, time.monotonic() - started_s, listener)
    finally:
        os.sched_setaffinity(0, cores)
        for left in folder.glob("state.db*"):
            left.unlink()


@contextmanager
def _service(folder: Path, core: int) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "stream_occ.bench.noting", str(folder / "notes.json"), "detect"]
    process = subprocess.Popen(
        [*command, "-c", str(folder / "edge.yaml"), "--json", str(folder / "counters.json")],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    os.sched_setaffinity(process.pid, {core})
    try:
        assert process.stdout is not None
        if not (line := process.stdout.readline()).startswith("ready:"):
            raise ServiceError("detect", "say that it is ready", repr(line)[:60], "Read its lines above")
        yield process
    finally:
        end(process)


def _played(service: subprocess.Popen[str], folder: Path, port: int, load: Load, ready_s: float, listener: Any) -> Run:
    player = Player(
        port,
        phases_of(load.n_devices, is_random=load.is_random),
        load.seconds + WARM_UP_S,
        load.n_samples,
        load.is_numbered,
    )
    sent: list[Noted] = []
    thread = threading.Thread(target=lambda: sent.extend(player.play()))
    thread.start()
    time.sleep(WARM_UP_S)
    cpu_s, since_s = cpu_of_s(service.pid), time.monotonic()
    time.sleep(load.seconds - 1.0)
    cpu_s, until_s = cpu_of_s(service.pid) - cpu_s, time.monotonic()
    rss_mb = _rss_mb(service.pid)
    thread.join()
    time.sleep(1.0)
    end(service)
    noted = json.loads((folder / "notes.json").read_text())
    counters = json.loads((folder / "counters.json").read_text())
    seen = () if listener is None else tuple(listener.arrived)
    return Run(load, ready_s, sent, noted, counters, since_s, until_s, cpu_s, rss_mb, seen)


def cpu_of_s(pid: int) -> float:
    """Processor seconds that a process has used so far, its own and the kernel's for it."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _rss_mb(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def end(child: subprocess.Popen[Any]) -> None:
    """Ends a process in order, or at all."""
    child.terminate()
    try:
        child.wait(30)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    if child.stdout is not None:
        child.stdout.close()
