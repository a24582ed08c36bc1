"""What the worker notes of itself after each slice, for those who watch it: counts, and whether data are scored.

No device has a name here: counts are by state, fault and reason.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate

from stream_occ.inbox import Inbox
from stream_occ.intake import Intake
from stream_occ.messages import CountersMessage

BOUNDS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, math.inf)


@dataclass(frozen=True, slots=True)
class Distribution:
    """How many durations were at most as long as each of BOUNDS_S, and the sum of all."""

    at_most: tuple[int, ...]
    sum_s: float


class Histogram:
    """Durations, counted between the bounds of BOUNDS_S; a duration at a bound is below it."""

    def __init__(self) -> None:
        self._counts = [0] * len(BOUNDS_S)
        self._sum_s = 0.0

    def push(self, duration_s: float) -> Distribution:
        """The distribution with one more."""
        self._counts[bisect_left(BOUNDS_S, duration_s)] += 1
        self._sum_s += duration_s
        return self.distribution

    @property
    def distribution(self) -> Distribution:
        """As it is now."""
        return Distribution(tuple(accumulate(self._counts)), self._sum_s)


class ScoringWatch:
    """False where messages have come for longer than horizon_s and no window of any device got its score meanwhile.

    Silence is no fault: messages that stopped for horizon_s begin anew.
    """

    def __init__(self, horizon_s: float) -> None:
        self._horizon_s = horizon_s
        self._n = (0, 0)
        self._heard_s = self._since_s = -math.inf

    def push(self, now_s: float, n_messages: int, n_windows: int) -> bool:
        """Whether data are scored; n_messages, n_windows: how many there have been so far."""
        if now_s - self._heard_s > self._horizon_s or n_windows != self._n[1]:
            self._since_s = now_s
        if n_messages != self._n[0]:
            self._heard_s = now_s
        self._n = (n_messages, n_windows)
        return self._heard_s - self._since_s <= self._horizon_s


@dataclass(frozen=True, slots=True)
class Vitals:
    """A slice's end: counters since the start; devices by state and by fault (one may have several), open alerts by
    state; durations of slices, and from a message's arrival to the end of its slice (of each slice the oldest one)."""

    noted_s: float
    counters: CountersMessage
    devices: Mapping[str, int]
    faults: Mapping[str, int]
    open_alerts: Mapping[str, int]
    slices: Distribution
    latencies: Distribution
    is_scoring: bool


class Monitor:
    """Notes after each slice, in the worker's thread; `last` is replaced as a whole, and read by any thread."""

    def __init__(self, inbox: Inbox, horizon_s: float) -> None:
        self.last: Vitals | None = None
        self._inbox = inbox
        self._watch = ScoringWatch(horizon_s)
        self._slices, self._latencies = Histogram(), Histogram()

    def note(self, counters: CountersMessage, intake: Intake, *, started_s: float, now_s: float) -> None:
        """A slice that ran from started_s to now_s."""
        known, arrived_s = intake.devices.values(), self._inbox.drained_s
        self.last = Vitals(
            noted_s=now_s,
            counters=counters,
            devices=Counter(str(record.shown[0]) for record in known if record.shown is not None),
            faults=Counter(fault for record in known for fault in record.faults),
            open_alerts=Counter(record.open_alert.state for record in known if record.open_alert is not None),
            slices=self._slices.push(now_s - started_s),
            latencies=self._latencies.distribution if arrived_s is None else self._latencies.push(now_s - arrived_s),
            is_scoring=self._watch.push(now_s, intake.n_data, counters.windows),
        )
