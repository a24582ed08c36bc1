"""Threads of the running detector: one that is dead or stuck ends the service instead of silence."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import pytest

from stream_occ.errors import ServiceError
from stream_occ.running import MAX_FAILED_SLICES, Watchdog, Worker
from tests.unit.service_bench import Bench


@dataclass
class FakeThread:
    """A link or a worker as the watchdog sees it."""

    alive: bool = True
    silent_s: float = 0.0
    is_connected: bool = True
    fatal: ServiceError | None = None

    @property
    def is_alive(self) -> Any:
        return self.alive


class FakeWorker(FakeThread):
    @property
    def is_alive(self) -> Any:
        return lambda: self.alive


@pytest.mark.parametrize(
    ("link", "worker", "message"),
    [
        (FakeThread(), FakeWorker(), None),
        (FakeThread(is_connected=False, silent_s=1e6), FakeWorker(), None),
        (FakeThread(alive=False), FakeWorker(), "network thread at work; got a dead one"),
        (FakeThread(silent_s=91), FakeWorker(), "network thread at work; got a connection without a word"),
        (FakeThread(), FakeWorker(alive=False), "worker thread at work; got a dead one"),
        (FakeThread(), FakeWorker(silent_s=61), "worker thread at work; got a stuck one"),
        (FakeThread(fatal=ServiceError("a", "b", "taken over", "d")), FakeWorker(), "taken over"),
    ],
)
def test_dead_and_stuck_threads_end_the_service(link: Any, worker: Any, message: str | None) -> None:
    """A broker that is away is no reason to end; whatever keeps the service from its work is."""
    watchdog = Watchdog([link], worker, keepalive_s=30)
    if message is None:
        watchdog.check()
    else:
        with pytest.raises(ServiceError, match=message):
            watchdog.check()


def test_short_keepalive_does_not_end_a_service_that_stalled_for_seconds() -> None:
    """A minute is borne, not three keep-alives of 5 s: the client itself gives the link up before."""
    watchdog = Watchdog([FakeThread(silent_s=59)], FakeWorker(), keepalive_s=5)  # type: ignore[list-item,arg-type]
    watchdog.check()
    with pytest.raises(ServiceError, match="a connection without a word"):
        Watchdog([FakeThread(silent_s=61)], FakeWorker(), keepalive_s=5).check()  # type: ignore[list-item,arg-type]


def test_service_whose_slices_all_fail_does_not_look_alive() -> None:
    """The worker's thread ends after five failures in a row, which ends the service with an error."""
    bench = Bench()

    def fail() -> None:
        raise RuntimeError("broken")

    bench.service.run_slice = fail  # type: ignore[method-assign]
    worker = Worker(bench.service, 0.001, tick_s=0.001)
    worker.start()
    worker.join(10.0)
    assert not worker.is_alive()


def test_mistake_in_what_is_watched_costs_no_slice() -> None:
    """Metrics end with one line in the log; the worker goes on."""

    class Broken:
        n_asked = 0

        def note(self, *_: object, **__: object) -> None:
            self.n_asked += 1
            raise RuntimeError("broken")

    broken: Any = Broken()
    worker = Worker(Bench().service, 0.001, broken, tick_s=0.001)
    worker.start()
    deadline_s = time.monotonic() + 10
    while worker.n_slices < 2 * MAX_FAILED_SLICES and time.monotonic() < deadline_s:
        time.sleep(0.005)
    worker.finish()
    assert worker.n_slices >= 2 * MAX_FAILED_SLICES
    assert broken.n_asked == 1


class Slices:
    """Notes how many messages each slice of a service finds."""

    def __init__(self, bench: Bench) -> None:
        self.bench, self.found = bench, list[int]()
        self._run = bench.service.run_slice
        bench.service.run_slice = self  # type: ignore[method-assign]

    def __call__(self) -> None:
        self.found.append(len(self.bench.inbox))
        self._run()

    def wait_for(self, n: int) -> None:
        deadline_s = time.monotonic() + 10
        while len(self.found) < n and time.monotonic() < deadline_s:
            time.sleep(0.002)
        assert len(self.found) >= n, self.found

    def end(self, worker: Worker) -> None:
        worker._is_stopping.set()
        self.bench.send(5, device="last")  # or it would wait for its tick
        worker.finish()


def test_message_that_comes_alone_is_taken_at_once() -> None:
    """Not at the next tick, which is a minute away."""
    bench = Bench()
    slices = Slices(bench)
    worker = Worker(bench.service, 0.0, tick_s=60.0)
    worker.start()
    slices.wait_for(1)
    bench.send(5)
    slices.wait_for(2)
    slices.end(worker)
    assert slices.found[:2] == [0, 1]


def test_messages_that_come_soon_after_a_slice_are_one_batch() -> None:
    """The next slice begins slice_s after the last one began, with all that came meanwhile."""
    bench = Bench()
    slices = Slices(bench)
    worker = Worker(bench.service, 1.0, tick_s=60.0)
    worker.start()
    slices.wait_for(1)
    for first in range(0, 25, 5):
        bench.send(5, first=first)
    slices.wait_for(2)
    slices.end(worker)
    assert slices.found[:2] == [0, 5]


def test_without_messages_a_slice_is_run_every_tick() -> None:
    """Deadlines act, and silence is told, though nothing comes."""
    slices = Slices(Bench())
    worker = Worker(slices.bench.service, 0.0, tick_s=0.01)
    worker.start()
    slices.wait_for(5)
    worker.finish()
