"""The board, the history and the link to the broker as one: messages in, people's acts out.

Messages are taken in the network thread, one by one: there is no queue of ours on the way, a broker that is faster than
we are waits. A change of an alert is on the disk before the broker is told that we have it.
"""

from __future__ import annotations

import json
import logging
import sqlite3
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any

from stream_occ.alert_types import CommandKind
from stream_occ.commands import sign_command
from stream_occ.config import Config
from stream_occ.dashboard.board import Board
from stream_occ.dashboard.history import History
from stream_occ.inbox import Link, Received
from stream_occ.messages import CommandMessage
from stream_occ.mqtt_options import Subscription
from stream_occ.samples import NS_PER_S
from stream_occ.wiring import topics_of

log = logging.getLogger("stream_occ.dashboard")

HOUR_NS = 3600 * NS_PER_S


class Feed:
    """What the page reads and what its buttons do; for any thread.

    link: set before messages come. receiver: as listed in `receivers`: the services are told of each change that is
    kept. on_urgent: called, by any thread, when something came that readers are to be told at once.
    """

    def __init__(self, config: Config, history: History, *, receiver: str | None = None) -> None:
        self.history = history
        self.link: Link | None = None
        self.on_urgent: Callable[[], None] = lambda: None
        self.failures: Counter[str] = Counter()  # of ours
        self.topics = topics_of(config)
        self._key = config.resolved_command_key
        self._receiver = receiver
        self._stale_s = 3 * config.output.state_interval_s + 5
        self._lock = threading.Lock()
        self._board = Board(config.mqtt.prefix, state_interval_s=config.output.state_interval_s)
        self._worn: defaultdict[tuple[int, str], float] = defaultdict(float)

    @property
    def subscriptions(self) -> list[Subscription]:
        """What is heard: all that services tell people."""
        prefix = self.topics.prefix
        levels = ("availability", "state", "event", "alert", "waveform")
        return [
            *(Subscription(f"{prefix}/bridge/+/{level}", 1) for level in ("status", "counters")),
            *(Subscription(f"{prefix}/+/{level}", 1) for level in levels),
            Subscription(f"{prefix}/+/score", 0),
        ]

    # ---- in

    def take(self, message: Received) -> None:
        """Takes a message in; by the network thread."""
        now_ns = time.time_ns()
        with self._lock:
            before = self._board.urgent_version
            heard = self._board.take(
                message.topic, message.payload, is_retained=message.is_retained, now_ns=now_ns, n_bytes=message.n_bytes
            )
            is_urgent = self._board.urgent_version > before
            if heard.worn is not None:
                device_id, seconds = heard.worn
                self._worn[now_ns // HOUR_NS, device_id] += seconds
        if is_urgent:  # shown first: a disk that fails must not keep an alert from people
            self.on_urgent()
        try:
            if heard.waveform is not None:
                self.history.add_waveform(heard.waveform[1])
            if heard.change is not None:
                self.history.add_change(heard.change, now_ns)
        except sqlite3.Error as error:
            self._failed("history", error)
            return
        if heard.change is not None and self._receiver is not None and self.link is not None:
            receipt = {"alert_id": heard.change.alert_id, "seq": heard.change.seq, "receiver": self._receiver}
            topic = self.topics.command(heard.change.device, "received")
            self.link.publish(topic, self._payload(topic, json.dumps(receipt)), qos=1, is_retained=False)

    def save_worn(self) -> None:
        """Brings the seconds that devices were worn to the disk; now and then, and at the end."""
        with self._lock:
            worn, self._worn = self._worn, defaultdict(float)
        if not worn:
            return
        try:
            self.history.add_worn(worn)
        except sqlite3.Error as error:
            self._failed("history", error)
            with self._lock:
                for key, seconds in worn.items():
                    self._worn[key] += seconds

    def _failed(self, what: str, error: Exception) -> None:
        self.failures[what] += 1
        n = self.failures[what]
        if n & (n - 1) == 0:
            log.error("%s cannot be written: %s (%d so far)", what, error, n)

    # ---- out

    def since(self, cursor: int) -> dict[str, Any] | None:
        """As Board.since."""
        with self._lock:
            return self._board.since(cursor)

    def health(self) -> dict[str, Any]:
        """How the dashboard itself is."""
        link = self.link
        with self._lock:
            refused = dict(self._board.refused)
        return {
            "connected": link is not None and link.is_connected,
            "trouble": getattr(link, "trouble", None),
            "connects": getattr(link, "n_connects", 0),
            "refused": refused,
            "failures": dict(self.failures),
            "stale_s": self._stale_s,
        }

    def act(
        self,
        device_id: str,
        kind: CommandKind,
        *,
        by: str,
        alert_id: str | None = None,
        minutes: float | None = None,
        verdict: str | None = None,
    ) -> Future[str]:
        """Sends a person's act and keeps who did it; the result is what the broker says: taken, unheard or refused.

        Raises ValueError for a command that there is none of (before anything is sent or kept).
        """
        given = {"alert_id": alert_id, "by": by, "minutes": minutes, "verdict": verdict}
        content = {name: value for name, value in given.items() if value is not None}
        command = CommandMessage.model_validate({**content, "t": datetime.now(UTC)})
        command.check_kind(kind)
        text = command.model_dump_json(exclude_none=True)
        topic = self.topics.command(device_id, kind)
        done: Future[str] = Future()
        act: int | None = None
        try:
            act = self.history.add_act(device_id, alert_id, kind, by, text, time.time_ns())
        except sqlite3.Error as error:  # a full disk must not keep anybody from acting
            self._failed("history", error)

        def on_done(outcome: str) -> None:
            if act is not None:
                try:
                    self.history.set_outcome(act, outcome)
                except sqlite3.Error as error:
                    self._failed("history", error)
            done.set_result(outcome)

        link = self.link
        if link is None or not link.is_connected or not link.publish(
            topic, self._payload(topic, text), qos=1, is_retained=False, on_done=on_done
        ):  # fmt: skip
            on_done("not_sent")
            return done
        with self._lock:
            told = {"kind": "act", "device": device_id, "alert_id": alert_id, "act": kind, "verdict": verdict, "by": by}
            self._board.notice(told)
        self.on_urgent()
        return done

    def _payload(self, topic: str, text: str) -> bytes:
        return text.encode() if self._key is None else sign_command(self._key, topic, text)
