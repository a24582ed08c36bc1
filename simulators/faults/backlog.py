"""Samples that come late, as after hours without a link. Value: by how many seconds."""

from __future__ import annotations

from dataclasses import replace

from simulators.faults import Disturb
from stream_occ.samples import NS_PER_S, SampleBlock

DEFAULT = 7200
BOUNDS = (0, 1e9)


def start(value: float) -> Disturb:
    """Stamps lie so far back from the first sample on."""

    def disturb(block: SampleBlock) -> SampleBlock:
        return replace(block, t_ns=block.t_ns - round(value * NS_PER_S))

    return disturb
