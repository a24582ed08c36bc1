"""Messages on their way out, from the hand-over to the MQTT client until they are sent or the broker has them."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from stream_occ.inbox import Outcome

log = logging.getLogger("stream_occ.mqtt")


class _Pending(NamedTuple):
    topic: str
    qos: int
    on_done: Callable[[Outcome], None] | None


class Outgoing:
    """What is neither sent (QoS 0) nor acknowledged, and counts of what was dropped; for any thread."""

    def __init__(self) -> None:
        self.dropped: Counter[str] = Counter()
        self.n_unheard = 0  # events and alerts that the broker had no subscriber for
        self._pending: dict[int, _Pending] = {}  # by mid: handed over, not yet out or acknowledged
        self._early: dict[int, Outcome] = {}  # by mid: its end came before the client's publish() returned
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._pending)

    def add(self, mid: int, topic: str, qos: int, on_done: Callable[[Outcome], None] | None) -> None:
        """The client took a message, by this number; on_done is called once with what became of it."""
        with self._lock:
            outcome = self._early.pop(mid, None)
            if outcome is None:
                self._pending[mid] = _Pending(topic, qos, on_done)
        if outcome is not None and on_done is not None:
            on_done(outcome)

    def ended(self, mid: int, outcome: Outcome) -> None:
        """A message is sent, or the broker has said what it did with it."""
        with self._lock:
            entry = self._pending.pop(mid, None)
            if entry is None:
                self._early[mid] = outcome
        topic = "" if entry is None else entry.topic
        if entry is not None and entry.on_done is not None:
            entry.on_done(outcome)
        if outcome == "refused":
            self.drop("refused_by_broker", topic)
        elif outcome == "unheard" and topic.endswith("/event"):  # the retained alert waits for whoever comes
            self.n_unheard += 1
            if self.n_unheard & (self.n_unheard - 1) == 0:
                log.warning("nobody is subscribed to %s (%d events unheard so far)", topic, self.n_unheard)

    def forget_unsent(self) -> None:
        """QoS 0 messages of an earlier connection are gone."""
        with self._lock:
            for mid in [mid for mid, entry in self._pending.items() if entry.qos == 0]:
                del self._pending[mid]

    def drop(self, reason: str, topic: str) -> bool:
        """Counts a message that nobody gets; False."""
        self.dropped[reason] += 1
        n = self.dropped[reason]
        if n & (n - 1) == 0:  # 1, 2, 4, 8, ...: seen at once, and no flood
            log.warning("message to %s dropped: %s (%d so far)", topic, reason, n, extra={"reason": reason})
        return False
