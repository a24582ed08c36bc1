"""All processes of the fault harness over one folder, and the troubles that can be made for them."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.fault_parts.disk import Disk
from benchmarks.fault_parts.proxy import Proxy
from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher

PARTS = Path(__file__).resolve().parent
KEEPALIVE_S = 5
NOTICED_S = 4 * KEEPALIVE_S  # the client gives a link up after two
NAMED_S = 15.0
FILLED_S = 60.0
JUMP_S = 3600
DROPPED = "$SYS/broker/publish/messages/dropped"


@dataclass
class Stage:
    """The processes, what stands between them, and what was done to them; detector is set once it runs.

    has_small_queue: the broker's queue fills while somebody is away for seconds.
    """

    folder: Path
    broker: Broker
    proxy: Proxy
    disk: Disk
    has_small_queue: bool = False
    detector: Detector = field(init=False)
    children: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    kills: Counter[str] = field(default_factory=Counter)

    @property
    def clock(self) -> Path:
        """The file that says how far the detector's clock is off."""
        return self.folder / "clock"

    @property
    def closings(self) -> Path:
        """The file with a line for each window that the detector cut where a stream fell silent."""
        return self.folder / "closings"

    def start_child(self, role: str, *more: str) -> None:
        """The sender or the receiver."""
        where = ["--port", str(self.broker.port), "--folder", str(self.folder)]
        command = [sys.executable, str(PARTS / "ends.py"), role, *where, *more]
        self.children[role] = subprocess.Popen(command, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})

    def kill(self, name: str) -> None:
        """SIGKILL."""
        self.kills[name] += 1
        if name == "broker":
            self.broker.stop(kill=True)
        elif name == "detector":
            process = self.detector.process
            assert process is not None
            assert process.stdout is not None
            process.kill()
            process.wait()
            process.stdout.close()
        else:
            self.children[name].kill()
            self.children[name].wait()

    def start(self, name: str) -> None:
        """The same again."""
        if name == "broker":
            self.broker.run()
        elif name == "detector":
            self.detector.start(is_ready=False)
            self.disk.limit(self.detector.pid)
        else:
            self.start_child(name)

    def watch(self, topic: str) -> Watcher:
        """What the broker is told, past the proxy."""
        return Watcher(self.broker.port, topic)

    def within(self, what: str, is_so: Callable[[], bool], timeout_s: float) -> None:
        """Waits until it is so; where it is not in time, that is counted."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            if is_so():
                return
            time.sleep(0.02)
        self.counts[what] += 1

    def close(self) -> None:
        """Ends whatever still runs."""
        for child in self.children.values():
            child.kill()
            child.wait()
        self.broker.stop()
        self.proxy.close()
        self.disk.close()


def kill(stage: Stage, rng: random.Random) -> None:
    """Broker, detector or receiver, now and then all at once, are gone for up to a second."""
    one = rng.choice(["broker", "detector", "receiver"])
    names = ["broker", "detector", "receiver"] if rng.random() < 0.15 else [one]
    for name in names:
        stage.kill(name)
    time.sleep(rng.uniform(0.1, 1.0))
    for name in names:
        stage.start(name)


def half_open(stage: Stage, rng: random.Random) -> None:
    """The detector's links pass nothing and do not end: for a moment, or until it gives them up."""
    n_links = stage.proxy.n_links
    stage.proxy.freeze()
    if rng.random() < 0.3:
        time.sleep(rng.uniform(0.5, KEEPALIVE_S))
        stage.counts["half_open_moments"] += 1
    else:
        stage.within("unnoticed_half_open", lambda: stage.proxy.n_links > n_links, NOTICED_S)
        time.sleep(rng.uniform(0.0, 2.0))
    stage.proxy.drop() if rng.random() < 0.5 else stage.proxy.thaw()


def slow_broker(stage: Stage, rng: random.Random) -> None:
    """A twentieth to a half of what the devices send comes through for some seconds."""
    stage.proxy.slow(rng.choice([5_000.0, 15_000.0, 50_000.0]))
    time.sleep(rng.uniform(3.0, 8.0))
    stage.proxy.slow(None)


def full_broker(stage: Stage, rng: random.Random) -> None:
    """The detector, and now and then the receiver with it, is away for longer than the broker's queue lasts."""
    names = ["detector", "receiver"] if rng.random() < 0.3 else ["detector"]
    with stage.watch(DROPPED) as watcher:
        n_dropped = _number(watcher.last, stage)
        for name in names:
            stage.kill(name)
        time.sleep(rng.uniform(2.0, 5.0))
        if stage.has_small_queue:
            stage.within("unfilled_brokers", lambda: _number(watcher.last, stage) > n_dropped, FILLED_S)
        for name in names:
            stage.start(name)
        time.sleep(3.0)
        stage.counts["messages_the_broker_dropped"] += _number(watcher.last, stage) - n_dropped


def _number(last: dict[str, bytes], stage: Stage) -> int:
    stage.within("broker_without_counters", lambda: DROPPED in last, 5.0)
    return int(last.get(DROPPED, b"0"))


def disk_full(stage: Stage, rng: random.Random) -> None:
    """No byte more for the state; in every third the detector is killed meanwhile, and starts on the full disk."""
    topic = "stream_occ/d0/state"
    with stage.watch(topic) as watcher, stage.watch("stream_occ/+/event") as events:

        def is_named() -> bool:
            return "state_not_kept" in watcher.json(topic).get("faults", ())

        stage.disk.fill(stage.detector.pid)
        stage.within("unnamed_full_disks", is_named, NAMED_S)
        n_told = len(events.log)
        time.sleep(rng.uniform(1.0, 4.0))
        if rng.random() < 1 / 3:
            stage.kill("detector")
            stage.start("detector")
            time.sleep(rng.uniform(2.0, 4.0))
        stage.counts["events_told_on_a_full_disk"] += len(events.log) - n_told
        stage.disk.free(stage.detector.pid)
        stage.within("full_disks_for_ever", lambda: not is_named(), NAMED_S)


def clock_jump(stage: Stage, rng: random.Random) -> None:
    """The detector's wall clock jumps by an hour and, some seconds later, back."""
    stage.clock.write_text(str(rng.choice([-JUMP_S, JUMP_S])))
    os.kill(stage.detector.pid, signal.SIGUSR1)
    time.sleep(rng.uniform(2.0, 8.0))
    stage.clock.write_text("0")
    os.kill(stage.detector.pid, signal.SIGUSR1)


TROUBLES: dict[str, tuple[Callable[[Stage, random.Random], None], float]] = {
    "kill": (kill, 0.7),
    "half-open": (half_open, 9.0),
    "slow-broker": (slow_broker, 5.5),
    "full-broker": (full_broker, 7.0),
    "disk-full": (disk_full, 6.0),
    "clock-jump": (clock_jump, 5.0),
}
"""What makes the trouble and ends it, and how long that takes (s)."""
