"""Told changes of alerts that nobody has yet said to have: sent, sent again after growing waits, then let go.

With receivers, a change is let go when each of them has said that it has it (<prefix>/<device>/set/received): that the
broker took a message says nothing of who got it. Without, it is let go when the broker has taken it. Changes are sent
in their order and, until they are let go, any number of times: alert_id and seq tell a receiver what it has already.
A receipt is for its own seq alone; it changes no alert and stops no escalation, which only a person's act does.

Where too many wait, those go first that say least: feedback that changes nothing; then all that is no `pending` or
`alarm`, and not what led to one; of equals the oldest.
"""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from itertools import islice

from stream_occ.inbox import Link, Outcome
from stream_occ.messages import ReceiptMessage, event_message
from stream_occ.samples import Alert
from stream_occ.told_rows import Key, OutboxRow
from stream_occ.topics import Topics

log = logging.getLogger("stream_occ.outbox")

FIRST_WAIT_S = 2.0
LONGEST_WAIT_S = 60.0
MAX_SENDS = 200  # of one slice
MAX_FAILED = 5  # in a row, over half a minute: a change that cannot be made a message then is never one
COMMENT, PLAIN, URGENT = range(3)  # ranks, in the order in which they are dropped


def _no_shield(_device_id: str, _now_s: float) -> AbstractContextManager[None]:
    return nullcontext()


@dataclass(slots=True)
class _Entry:
    alert: Alert
    received: frozenset[str]
    due_s: float = -math.inf
    wait_s: float = FIRST_WAIT_S
    n_failed: int = 0
    is_under_way: bool = False
    rank: int = PLAIN


class Outbox:
    """What waits, the oldest first; `settled` is what has to be written down of it."""

    def __init__(self, link: Link, topics: Topics, *, receivers: Iterable[str], max_changes: int) -> None:
        self.n_dropped = 0
        self.n_set_aside = 0
        self.n_sent_again = 0
        self._link = link
        self._topics = topics
        self._receivers = frozenset(receivers)
        self._max_changes = max_changes
        self._entries: dict[Key, _Entry] = {}
        self._by_rank: tuple[dict[Key, None], ...] = ({}, {}, {})
        self._outcomes: deque[tuple[Key, Outcome]] = deque()  # filled by the network thread
        self._settled: dict[Key, frozenset[str] | None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def restore(self, rows: Iterable[OutboxRow]) -> None:
        """Takes up what waited when the service ended; what all present receivers have by now is let go."""
        for alert, received in rows:
            self._add(alert, received)
            if self._receivers and self._receivers <= received:
                self._let_go((alert.alert_id, alert.seq))

    def add(self, alert: Alert) -> None:
        """A change that has to be told; where too many wait, one that says least is dropped and counted."""
        self._add(alert, frozenset())

    def receive(self, device_id: str, receipt: ReceiptMessage) -> str | None:
        """Notes that a receiver has a change; a reason where the receipt means nothing to us.

        One for a change that does not wait is none: receivers repeat themselves, as they should.
        """
        if receipt.receiver not in self._receivers:
            return "unknown_receiver"
        key = (receipt.alert_id, receipt.seq)
        entry = self._entries.get(key)
        if entry is None:
            return None
        if entry.alert.device_id != device_id:
            return "other_alert"
        entry.received |= {receipt.receiver}
        if self._receivers <= entry.received:
            self._let_go(key)
        else:
            self._settled[key] = entry.received
        return None

    def take_outcomes(self, now_s: float) -> None:
        """What the broker said since the last call: without receivers, what it has is let go."""
        while self._outcomes:
            key, outcome = self._outcomes.popleft()
            entry = self._entries.get(key)
            if entry is None:
                continue
            if outcome != "refused" and not self._receivers:
                self._let_go(key)
                continue
            entry.is_under_way = False
            entry.due_s = now_s + entry.wait_s
            entry.wait_s = min(2 * entry.wait_s, LONGEST_WAIT_S)

    def send(self, now_s: float, shield: Callable[[str, float], AbstractContextManager[None]] = _no_shield) -> None:
        """Hands over what is due; shield: what fails of a device ends there, and of a change after MAX_FAILED tries."""
        due = (item for item in self._entries.items() if not item[1].is_under_way and now_s >= item[1].due_s)
        for key, entry in list(islice(due, MAX_SENDS)):
            if not (self._link.is_connected and self._link.has_room):
                return
            self.n_sent_again += entry.due_s > -math.inf
            entry.due_s = now_s + entry.wait_s
            entry.n_failed += 1
            with shield(entry.alert.device_id, now_s):
                entry.is_under_way = self._link.publish(
                    self._topics.event(entry.alert.device_id),
                    event_message(entry.alert).to_payload(),
                    qos=1,
                    is_retained=False,
                    on_done=partial(self._note, key),
                )
                entry.n_failed = 0
            if entry.n_failed:
                entry.wait_s = min(2 * entry.wait_s, LONGEST_WAIT_S)
            if entry.n_failed == MAX_FAILED:
                self._let_go(key)
                self.n_set_aside += 1
                told = {"device": entry.alert.device_id, "alert_id": key[0], "reason": "event_set_aside"}
                log.error("change %d of alert %s cannot be sent, and is set aside", key[1], key[0], extra=told)

    def settled(self) -> Mapping[Key, frozenset[str] | None]:
        """What changed since the last call: who has a change by now, or None where it waits no more."""
        settled, self._settled = self._settled, {}
        return settled

    def _note(self, key: Key, outcome: Outcome) -> None:
        self._outcomes.append((key, outcome))

    def _add(self, alert: Alert, received: frozenset[str]) -> None:
        key = (alert.alert_id, alert.seq)
        if key not in self._entries:
            self._entries[key] = _Entry(alert, received)
            self._rank(key, rank_of(alert))
        if alert.state == "pending":  # every alarm is one first
            for seq in range(alert.seq):
                self._raise((alert.alert_id, seq))
        while len(self._entries) > self._max_changes:
            key = next(iter(next(filter(None, self._by_rank))))
            self._let_go(key)
            self.n_dropped += 1
            if self.n_dropped & (self.n_dropped - 1) == 0:
                told = {"alert_id": key[0], "reason": "outbox_full"}
                log.error("outbox is full: %s %d was never received (%d so far)", *key, self.n_dropped, extra=told)

    def _raise(self, key: Key) -> None:
        """What led to a pending alert is as urgent."""
        entry = self._entries.get(key)
        if entry is not None and entry.rank == PLAIN:
            del self._by_rank[PLAIN][key]
            self._rank(key, URGENT)

    def _rank(self, key: Key, rank: int) -> None:
        self._entries[key].rank = rank
        self._by_rank[rank][key] = None

    def _let_go(self, key: Key) -> None:
        del self._by_rank[self._entries.pop(key).rank][key]
        self._settled[key] = None


def rank_of(alert: Alert) -> int:
    """How much hangs on a change: of those that wait, the lowest are dropped first."""
    if "feedback_fall" in alert.reasons:
        return COMMENT
    return URGENT if alert.state in ("pending", "alarm") else PLAIN
