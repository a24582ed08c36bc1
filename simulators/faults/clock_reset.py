"""A clock that a restart of the device sets back to where it began. Value: after how many seconds of its time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb, since_first
from stream_occ.samples import NS_PER_S, SampleBlock

DEFAULT = 8
BOUNDS = (0, 1e6)


def start(value: float) -> Disturb:
    """Once: from then on stamps count from the first sample's again."""
    elapsed_ns = since_first()
    back_ns: list[int] = []

    def disturb(block: SampleBlock) -> SampleBlock:
        elapsed = elapsed_ns(block)
        is_after = elapsed >= value * NS_PER_S
        if is_after.any() and not back_ns:
            back_ns.append(int(elapsed[is_after.argmax()]))
        return replace(block, t_ns=block.t_ns - np.where(is_after, sum(back_ns), 0))

    return disturb
