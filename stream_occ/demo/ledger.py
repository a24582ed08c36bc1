"""Alerts held against the falls that were simulated: which were flagged, how soon, and which alerts were false."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

import numpy as np

from stream_occ.samples import NS_PER_S

FLAG_WITHIN_S = 60.0  # data time after a fall's end in which an alert of that wearer belongs to it
RAISED = frozenset({"pending", "alarm"})
CLOSED = frozenset({"resolved", "cancelled", "false_alarm", "expired"})


@dataclass(slots=True)
class Fall:
    """A simulated fall, from lost balance to the end of the impact, ns; delay_s is None until it is flagged."""

    device_id: str
    kind: str
    t_start_ns: int
    t_end_ns: int
    delay_s: float | None = None

    def owns(self, t_ns: int) -> bool:
        """True for an alert of that instant."""
        return self.t_start_ns <= t_ns <= self.t_end_ns + round(FLAG_WITHIN_S * NS_PER_S)


@dataclass(slots=True)
class Line:
    """What is known of one wearer now."""

    activity: str = ""
    is_falling: bool = False
    score: float | None = None
    threshold: float | None = None
    state: str = "waiting"
    t_scored_ns: int = 0
    n_windows: int = 0
    n_alerts: int = 0
    open_alert: str | None = None


@dataclass(slots=True)
class Ledger:
    """Filled by the player (what is true) and by the broker's messages (what the service says), from two threads."""

    lines: dict[str, Line]
    falls: list[Fall] = field(default_factory=list)
    alerts: list[tuple[str, int]] = field(default_factory=list)
    spans: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def begin_activity(
        self, device_id: str, activity: str, t_ns: int, interval_ns: tuple[int, int] | None = None
    ) -> None:
        """A wearer starts something at t_ns; interval_ns is given for a fall."""
        with self._lock:
            self.spans.setdefault(device_id, []).append((t_ns, activity))
            line = self.lines[device_id]
            line.activity, line.is_falling = activity, interval_ns is not None
            if interval_ns is not None:
                self.falls.append(Fall(device_id, activity, *interval_ns))

    def add_score(self, device_id: str, t_ns: int, score: float, threshold: float) -> None:
        """The service scored a window."""
        with self._lock:
            line = self.lines[device_id]
            line.score, line.threshold, line.t_scored_ns = score, threshold, t_ns
            line.n_windows += 1
            if line.state == "waiting":
                line.state = "normal"

    def add_event(self, device_id: str, t_ns: int, state: str, alert_id: str) -> bool:
        """The service changed an alert; True where this raised one."""
        with self._lock:
            line = self.lines[device_id]
            line.state = "normal" if state in CLOSED else state
            if state in CLOSED:
                line.open_alert = None
            if state not in RAISED or line.open_alert == alert_id:
                return False
            line.open_alert = alert_id
            line.n_alerts += 1
            self.alerts.append((device_id, t_ns))
            return True

    def settle(self) -> Outcome:
        """Each alert goes to the fall of that wearer in whose time it lies, each fall to its first alert."""
        with self._lock:
            falls = sorted(self.falls, key=lambda fall: (fall.t_start_ns, fall.device_id))
            false: list[tuple[str, int, str]] = []
            n_further = 0
            for fall in falls:
                fall.delay_s = None
            for device_id, t_ns in sorted(self.alerts, key=lambda alert: alert[1]):
                owners = [fall for fall in falls if fall.device_id == device_id and fall.owns(t_ns)]
                if not owners:
                    false.append((device_id, t_ns, self._activity_at(device_id, t_ns)))
                elif owners[-1].delay_s is None:
                    owners[-1].delay_s = (t_ns - owners[-1].t_end_ns) / NS_PER_S
                else:
                    n_further += 1
            return Outcome(tuple(falls), tuple(false), n_further, sum(line.n_windows for line in self.lines.values()))

    def _activity_at(self, device_id: str, t_ns: int) -> str:
        begun = [activity for start_ns, activity in self.spans.get(device_id, []) if start_ns <= t_ns]
        return begun[-1] if begun else ""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Falls with their delays, false alerts (device, ns, activity at the time), windows scored.

    n_further: alerts in the minute after a fall that was flagged already, such as when the wearer gets up.
    """

    falls: tuple[Fall, ...]
    false_alarms: tuple[tuple[str, int, str], ...]
    n_further: int
    n_windows: int

    @property
    def n_flagged(self) -> int:
        """Falls for which an alert came."""
        return sum(fall.delay_s is not None for fall in self.falls)

    @property
    def median_delay_s(self) -> float | None:
        """From the end of a fall's impact to its alert, data time; None where none was flagged."""
        delays = [fall.delay_s for fall in self.falls if fall.delay_s is not None]
        return float(np.median(delays)) if delays else None
