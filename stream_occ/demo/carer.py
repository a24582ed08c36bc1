"""A simulated carer: alarms are latched until a person acts, so in a demo somebody has to, over the real topics."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from stream_occ.topics import Topics

NAME = "simulated carer"
ALL_CLEAR_S = 25.0  # data time after the acknowledgement: the wearer is up again, and what that looked like is past

Publish = Callable[[str, bytes], object]


class Carer:
    """Takes every alarm and gives the all clear a while later; `hear` and `act` may be called by different threads."""

    def __init__(self, publish: Publish, topics: Topics, *, speed: float) -> None:
        self.n_acknowledged = 0
        self.n_cleared = 0
        self._publish = publish
        self._topics = topics
        self._wait_s = ALL_CLEAR_S / speed
        self._plans: dict[tuple[str, str], tuple[float, str]] = {}  # device and alert -> when to do what
        self._lock = threading.Lock()

    def hear(self, device_id: str, event: Mapping[str, Any], now_s: float) -> None:
        """Plans what a change of an alert asks for; now_s is wall-clock time."""
        key, state = (device_id, event["alert_id"]), event["event_type"]
        with self._lock:
            if state == "alarm":
                self._plans[key] = (now_s, "ack")
            elif state == "acknowledged":
                self._plans.setdefault(key, (now_s + self._wait_s, "cancel"))
            else:
                self._plans.pop(key, None)

    def act(self, now_s: float) -> None:
        """Publishes what is due by now_s."""
        with self._lock:
            due = {key: kind for key, (due_s, kind) in self._plans.items() if due_s <= now_s}
            for key in due:
                del self._plans[key]
        for (device_id, alert_id), kind in due.items():
            command = {"alert_id": alert_id, "by": NAME, "t": datetime.now(UTC).isoformat()}
            self._publish(self._topics.command(device_id, kind), json.dumps(command).encode())
            self.n_acknowledged += kind == "ack"
            self.n_cleared += kind == "cancel"
