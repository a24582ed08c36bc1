"""The worker's clocks, and how much it takes at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from stream_occ.samples import NS_PER_S

CLOCK_SET_NS = 1 * NS_PER_S  # less is a clock that is corrected as it goes
# Messages of one slice: sparse samples become 25 times as many on the grid, and a slice of a whole queue of them takes
# minutes and gigabytes. More waits for the next slice, which then begins at once.
SLICE_BYTES = 1024 * 1024
FIRST_SLICE_BYTES = SLICE_BYTES // 16
SLICE_S = 0.5  # less is taken where deciding took longer: an end, a command or a fall must not wait
LEAST_SLICE_BYTES = 4096  # a flood of samples and acts in turn is a step for each: milliseconds for some tens of bytes


def _sleepless_ns() -> int:
    return time.clock_gettime_ns(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


@dataclass(frozen=True, slots=True)
class Clock:
    """Wall clock for stamps (UTC, ns), monotonic clock for intervals (s), and one that nobody sets and that goes on
    while the machine sleeps (ns): it tells a wall clock that was set from time that passed."""

    wall_ns: Callable[[], int] = time.time_ns
    monotonic_s: Callable[[], float] = time.monotonic
    sleepless_ns: Callable[[], int] = _sleepless_ns


class SetClock:
    """By how much the wall clock was set since it was last looked at: that is no time that passed."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ns = clock.wall_ns() - clock.sleepless_ns()  # of the clock that nobody sets

    def by_ns(self, now_ns: int) -> int:
        """0 where it was left alone, or corrected as it goes. now_ns: the wall clock's time."""
        ahead_ns = now_ns - self._clock.sleepless_ns()
        by_ns, self._ahead_ns = ahead_ns - self._ahead_ns, ahead_ns
        return by_ns if abs(by_ns) >= CLOCK_SET_NS else 0


class SliceBound:
    """How many bytes of messages a slice may take: as many as SLICE_S is enough for, at most twice the last."""

    def __init__(self) -> None:
        self.n_bytes = FIRST_SLICE_BYTES

    def took(self, n_bytes: int, took_s: float) -> None:
        """The last slice took so many, and so long for them."""
        wanted = n_bytes * SLICE_S / max(took_s, 1e-6)
        self.n_bytes = round(min(max(wanted, LEAST_SLICE_BYTES), 2 * self.n_bytes, SLICE_BYTES))
