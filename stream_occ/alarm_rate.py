"""Whether a device raises more alarms than its budget: that is told, and no alarm is held back for it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from stream_occ.samples import NS_PER_S

if TYPE_CHECKING:
    from collections.abc import Sequence

    from stream_occ.samples import Alert
    from stream_occ.scoring import Model

DAY_NS = 86_400 * NS_PER_S
CHANCE = 0.01  # of so many alarms in a day or more, were the budget what a device raises on average
MOST_KEPT = 1000


def budget_of(model: Model) -> float | None:
    """Alarms a day that the model's threshold was set for; None where that was by another rule."""
    calibration = model.metadata.get("calibration")
    asked = calibration.get("asked_per_day") if isinstance(calibration, dict) else None
    return float(asked) if isinstance(asked, int | float) and not isinstance(asked, bool) and asked > 0 else None


def too_many(per_day: float) -> int:
    """The fewest alarms in a day that a budget explains with a chance below CHANCE (Poisson).

    >>> [too_many(per_day) for per_day in (0.1, 1.0, 10.0)]
    [2, 5, 19]
    """
    n, term = 0, math.exp(-per_day)
    at_least = 1.0  # the chance of n or more
    while at_least >= CHANCE and n < MOST_KEPT:
        at_least -= term
        n += 1
        term *= per_day / n
    return n


def raised_lately(raised_ns: Sequence[int], now_ns: int) -> int:
    """How many of the instants lie in the day up to now_ns."""
    return sum(now_ns - DAY_NS < t_ns <= now_ns for t_ns in raised_ns)


def with_raised(raised_ns: tuple[int, ...], alerts: Sequence[Alert]) -> tuple[int, ...]:
    """The instants of a device's latest day at which an alert became pending, with those of these changes."""
    new = tuple(alert.t_ns for alert in alerts if alert.state == "pending" and "again" not in alert.reasons)
    if not new:
        return raised_ns
    kept = tuple(t_ns for t_ns in raised_ns if new[-1] - DAY_NS < t_ns <= new[-1])
    return (*kept, *new)[-MOST_KEPT:]
