"""All sinks of the service, a thread each: told changes go to them once they are kept, and receipts come back.

What waits is in the state file, by sink (stream_occ.sink_rows), so a kill loses nothing; what was delivered and not yet
noted there is delivered again, and alert_id and seq tell a receiver what it has already.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from stream_occ.messages import alert_message
from stream_occ.samples import Alert
from stream_occ.sink_queue import Receipt, SinkQueue, SinkStatus
from stream_occ.sink_rows import SinkKey, SinkRow
from stream_occ.sinks import Later, Notice, Refused, Sink, SinkSettings, open_sink

log = logging.getLogger("stream_occ.sinks")

WAIT_S = 60.0
SETTLE_S = 1.0  # a backlog that is told must not cost each slice a write to the disk


class AlertSinks:
    """`hold` before a change is kept, `release` after it; then it is the threads' matter."""

    def __init__(
        self,
        settings: Mapping[str, SinkSettings] | None = None,
        *,
        max_changes: int = 10_000,
        settle_s: float = SETTLE_S,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """Opens all; raises ConfigError where one cannot be. max_changes: so many wait for each at most;
        settle_s: between receipts that are written."""
        self._monotonic_s = monotonic_s
        self._settle_s, self._settle_due_s = settle_s, -math.inf
        self._held: list[tuple[SinkQueue, Alert]] = []
        self._queues: dict[str, SinkQueue] = {}
        self._threads: list[_SinkThread] = []
        for name, each in (settings or {}).items():
            if each.warning is not None:
                log.warning("sink %s: %s", name, each.warning)
            queue = SinkQueue(
                name, each.kind, states=each.states, max_changes=max_changes, timeout_s=5 * each.timeout_s
            )
            self._queues[name] = queue
            self._threads.append(_SinkThread(queue, open_sink(name, each), monotonic_s))

    def restore(self, rows: Iterable[SinkRow]) -> None:
        """Takes up what waited when the service ended; what waits for a sink that is not there stays where it is."""
        others: Counter[str] = Counter()
        for name, alert in rows:
            if name in self._queues:
                self._queues[name].add(alert)
            else:
                others[name] += 1
        for name, n in sorted(others.items()):
            log.warning("%d changes wait for sink %s, which is not configured any more", n, name)

    def hold(self, alert: Alert) -> tuple[str, ...]:
        """Names of those that are told of a change, which waits for `release`."""
        wanted = [queue for queue in self._queues.values() if queue.wants(alert)]
        self._held += [(queue, alert) for queue in wanted]
        return tuple(queue.name for queue in wanted)

    def release(self) -> None:
        """What is held was kept."""
        for queue, alert in self._held:
            queue.add(alert)
        self._held.clear()

    def settled(self, *, is_last: bool = False) -> dict[SinkKey, Receipt]:
        """What ended since it was last told, by sink; says of each sink, too, whether it hangs."""
        now_s = self._monotonic_s()
        if now_s < self._settle_due_s and not is_last:
            return {}
        self._settle_due_s = now_s + self._settle_s
        for queue in self._queues.values():
            queue.look(now_s)
        return {(name, *key): how for name, queue in self._queues.items() for key, how in queue.settled().items()}

    def statuses(self) -> Sequence[SinkStatus]:
        """Of all, as configured."""
        return [queue.status() for queue in self._queues.values()]

    def start(self) -> None:
        """From now on notices are sent."""
        for thread in self._threads:
            thread.start()

    def stop(self, limit_s: float) -> None:
        """Sends what is due, for a short time; what waits longer is sent after the next start."""
        ends_s = self._monotonic_s() + limit_s
        for thread in self._threads:
            thread.finish(ends_s)
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, ends_s - self._monotonic_s()))


class _SinkThread(threading.Thread):
    """Takes one notice after another; a sink that hangs holds this thread and nothing else."""

    def __init__(self, queue: SinkQueue, sink: Sink, monotonic_s: Callable[[], float]) -> None:
        super().__init__(name=f"sink-{queue.name}", daemon=True)
        self._queue = queue
        self._sink = sink
        self._monotonic_s = monotonic_s
        self._ends_s = math.inf

    def run(self) -> None:
        """Until asked to finish, and nothing is due."""
        while self._monotonic_s() < self._ends_s:
            alert = self._queue.take(self._monotonic_s())
            if alert is not None:
                self._tell(alert)
            elif self._ends_s < math.inf:
                return
            else:
                self._queue.wait(self._monotonic_s(), WAIT_S)

    def finish(self, ends_s: float) -> None:
        """Ends when nothing is due, at ends_s at the latest."""
        self._ends_s = ends_s
        self._queue.end()

    def _tell(self, alert: Alert) -> None:
        key = (alert.alert_id, alert.seq)
        try:
            self._sink.send(Notice(alert, alert_message(alert).to_payload()))
        except Later as error:
            self._queue.failed(key, self._monotonic_s(), error.reason, error.after_s)
        except Refused as error:
            self._queue.refused(key, error.reason)
        except Exception as error:
            log.exception("sink %s: an error of ours", self._queue.name)
            self._queue.failed(key, self._monotonic_s(), type(error).__name__, is_ours=True)
        else:
            self._queue.delivered(key)
