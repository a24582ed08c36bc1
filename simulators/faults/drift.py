"""A clock that runs away. Value: by how many millionths too fast, below 0 too slow."""

from __future__ import annotations

from simulators.faults import Disturb
from simulators.faults.rate import start as start_rate

DEFAULT = 5000
BOUNDS = (-500_000, 1e6)


def start(value: float) -> Disturb:
    """Right at the device's first sample."""
    return start_rate(1 + value / 1e6)
