"""Holes: of every ten seconds of the device's time some are not sent. Value: how many seconds, below 10."""

from __future__ import annotations

from simulators.faults import Disturb, since_first, taken
from stream_occ.samples import NS_PER_S, SampleBlock

DEFAULT = 2
BOUNDS = (0, 9.9)
EVERY_S = 10


def start(value: float) -> Disturb:
    """The last seconds of each ten are missing."""
    elapsed_ns = since_first()

    def disturb(block: SampleBlock) -> SampleBlock:
        return taken(block, elapsed_ns(block) % (EVERY_S * NS_PER_S) < (EVERY_S - value) * NS_PER_S)

    return disturb
