"""A clock that is wrong. Value: by how many seconds it is ahead, below 0 behind."""

from __future__ import annotations

from dataclasses import replace

from simulators.faults import Disturb
from stream_occ.samples import NS_PER_S, SampleBlock

DEFAULT = 60
BOUNDS = (-1e9, 1e9)


def start(value: float) -> Disturb:
    """From the device's first sample on."""

    def disturb(block: SampleBlock) -> SampleBlock:
        return replace(block, t_ns=block.t_ns + round(value * NS_PER_S))

    return disturb
