"""Holes: of every ten seconds of the device's time some are not sent. Value: how many seconds, below 10."""

from __future__ import annotations

from simulators.faults import Disturb, taken
from stream_occ.samples import NS_PER_S, SampleBlock

DEFAULT = 2
EVERY_S = 10


def start(value: float) -> Disturb:
    """The last seconds of each ten are missing."""
    first_ns: list[int] = []

    def disturb(block: SampleBlock) -> SampleBlock:
        first_ns.extend(block.t_ns[:1].tolist() if not first_ns else [])
        if not first_ns:
            return block
        return taken(block, (block.t_ns - first_ns[0]) % (EVERY_S * NS_PER_S) < (EVERY_S - value) * NS_PER_S)

    return disturb
