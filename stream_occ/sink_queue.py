"""What waits for one sink: the urgent first, sent again after growing waits, dropped and counted where too much waits.

The worker adds, the sink's thread takes: nothing here waits for a receiver. A failure sets back the notice that failed;
from the second in a row on, the whole sink rests, so that a receiver that is away costs one try now and then, and one
notice that it cannot take costs the others nothing. Waits have jitter: many services must not come back at once.
"""

from __future__ import annotations

import logging
import math
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from stream_occ.outbox import rank_of
from stream_occ.samples import Alert, AlertState
from stream_occ.told_rows import Key

log = logging.getLogger("stream_occ.sinks")

FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 60.0
LONGEST_ASKED_S = 600.0  # whatever Retry-After says: somebody may lie on the floor
MAX_BROKEN = 5  # errors of our own in a row with one notice: it is set aside then
STUCK_S = 60.0  # so much longer than its own limit may a try take, then the sink is told as stuck

Receipt = Literal["delivered", "refused", "dropped"]
"""How a notice ended for a sink; dropped: the queue was full, or it cannot be made a message."""


@dataclass(frozen=True, slots=True)
class SinkStatus:
    """A sink as those see it who watch the service; counts are since the start."""

    name: str
    kind: str
    state: Literal["ok", "failing", "stuck"]
    reason: str
    waiting: int
    failed: int
    receipts: dict[str, int]


@dataclass(slots=True)
class _Entry:
    alert: Alert
    rank: int
    due_s: float = -math.inf
    n_failed: int = 0
    n_broken: int = 0


class SinkQueue:
    """One sink's notices; all methods may be called by any thread."""

    def __init__(
        self,
        name: str,
        kind: str,
        *,
        states: tuple[AlertState, ...],
        max_changes: int,
        timeout_s: float,
        draw: Callable[[], float] = random.random,
    ) -> None:
        """states: which changes it wants, all where empty; draw: between 0 and 1, for jitter."""
        self.name = name
        self._kind = kind
        self._states = frozenset(states)
        self._max_changes = max_changes
        self._stuck_s = timeout_s + STUCK_S
        self._draw = draw
        self._lock = threading.Condition()
        self._entries: tuple[dict[Key, _Entry], ...] = ({}, {}, {})  # by rank, each the oldest first
        self._settled: dict[Key, Receipt] = {}
        self._receipts: dict[str, int] = {"delivered": 0, "refused": 0, "dropped": 0}
        self._n_failed = 0
        self._n_in_a_row = 0
        self._rests_until_s = -math.inf
        self._reason = ""
        self._under_way: tuple[Key, float] | None = None
        self._is_stuck = False
        self._is_over = False

    def wants(self, alert: Alert) -> bool:
        """True for a change that this sink is told of."""
        return not self._states or alert.state in self._states

    def add(self, alert: Alert) -> None:
        """A change to be told; where too many wait, the oldest of those that say least is dropped."""
        key, entry = (alert.alert_id, alert.seq), _Entry(alert, rank_of(alert))
        with self._lock:
            self._entries[entry.rank].setdefault(key, entry)
            while sum(map(len, self._entries)) > self._max_changes:
                self._drop_least()
            self._lock.notify()

    def take(self, now_s: float) -> Alert | None:
        """The next one that is due: the most urgent, of equals the oldest; None where none is."""
        with self._lock:
            if now_s < self._rests_until_s:
                return None
            due = (item for by_key in reversed(self._entries) for item in by_key.items() if item[1].due_s <= now_s)
            found = next(due, None)
            if found is None:
                return None
            self._under_way = found[0], now_s
            return found[1].alert

    def wait(self, now_s: float, limit_s: float) -> None:
        """Returns when something is due, or was added, or limit_s are over."""
        with self._lock:
            dues = [entry.due_s for by_key in self._entries for entry in by_key.values()]
            due_s = max(self._rests_until_s, min(dues, default=math.inf))
            if due_s > now_s and not self._is_over:
                self._lock.wait(min(limit_s, due_s - now_s))

    def delivered(self, key: Key) -> None:
        """The receiver has it."""
        with self._lock:
            self._end(key, "delivered")
            self._well()

    def refused(self, key: Key, reason: str) -> None:
        """The receiver will never take it: it is not sent again."""
        with self._lock:
            self._end(key, "refused")
            n = self._receipts["refused"]
            if n & (n - 1) == 0:  # 1, 2, 4, 8, ...: seen at once, and no flood
                told = {"alert_id": key[0], "reason": "sink_refused"}
                line = "sink %s refused change %d of alert %s (%d so far): %s"
                log.error(line, self.name, key[1], key[0], n, reason, extra=told)
            self._reason, self._n_in_a_row, self._rests_until_s = f"refused: {reason}", 0, -math.inf

    def failed(self, key: Key, now_s: float, reason: str, after_s: float = 0.0, *, is_ours: bool = False) -> None:
        """Not taken now; after_s: the receiver's wish; is_ours: the error is in what we made of it."""
        with self._lock:
            self._under_way, self._n_failed = None, self._n_failed + 1
            entry = next((by_key[key] for by_key in self._entries if key in by_key), None)
            if entry is not None:
                entry.n_failed += 1
                entry.n_broken = entry.n_broken + 1 if is_ours else 0
                entry.due_s = now_s + self._wait_s(entry.n_failed)
                if entry.n_broken >= MAX_BROKEN:
                    self._end(key, "dropped")
            self._n_in_a_row += 1
            rest_s = self._wait_s(self._n_in_a_row - 1) if self._n_in_a_row > 1 else 0.0
            self._rests_until_s = now_s + max(rest_s, min(after_s, LONGEST_ASKED_S))
            if not self._reason:
                n = sum(map(len, self._entries))
                log.warning("sink %s takes no alerts: %s; %d wait, and are tried again", self.name, reason, n)
            self._reason = reason

    def look(self, now_s: float) -> None:
        """Says once where a try takes far too long."""
        with self._lock:
            is_stuck = self._under_way is not None and now_s - self._under_way[1] > self._stuck_s
            if is_stuck and not self._is_stuck:
                log.error("sink %s does not answer at all, and holds its thread; restart to try again", self.name)
            self._is_stuck = is_stuck

    def settled(self) -> dict[Key, Receipt]:
        """What ended since the last call, and how."""
        with self._lock:
            settled, self._settled = self._settled, {}
            return settled

    def status(self) -> SinkStatus:
        """As it is now."""
        with self._lock:
            state: Literal["ok", "failing", "stuck"] = "failing" if self._reason else "ok"
            return SinkStatus(
                name=self.name,
                kind=self._kind,
                state="stuck" if self._is_stuck else state,
                reason=self._reason,
                waiting=sum(map(len, self._entries)),
                failed=self._n_failed,
                receipts=dict(self._receipts),
            )

    def end(self) -> None:
        """Nobody waits any more."""
        with self._lock:
            self._is_over = True
            self._lock.notify_all()

    def _well(self) -> None:
        """It answers."""
        if self._reason:
            n = sum(map(len, self._entries))
            log.warning("sink %s takes alerts again; %d wait", self.name, n)
        self._reason, self._n_in_a_row, self._rests_until_s = "", 0, -math.inf

    def _wait_s(self, n: int) -> float:
        longest_s = min(FIRST_WAIT_S * 2.0 ** min(n - 1, 30), LONGEST_WAIT_S)
        return longest_s * (0.5 + 0.5 * self._draw())

    def _drop_least(self) -> None:
        for by_key in self._entries:
            for key in by_key:
                if self._under_way is None or key != self._under_way[0]:
                    self._end(key, "dropped")
                    n = self._receipts["dropped"]
                    if n & (n - 1) == 0:
                        told = {"alert_id": key[0], "reason": "sink_full"}
                        line = "too much waits for sink %s: change %d of alert %s is dropped (%d so far)"
                        log.error(line, self.name, key[1], key[0], n, extra=told)
                    return

    def _end(self, key: Key, how: Receipt) -> None:
        if self._under_way is not None and self._under_way[0] == key:
            self._under_way = None
        for by_key in self._entries:
            by_key.pop(key, None)
        self._settled[key] = how
        self._receipts[how] += 1
