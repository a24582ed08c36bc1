"""Messages that are lost on their way, of a device that numbers what it sends. Value: every how many-th, at least 2."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

import numpy as np

from simulators.faults import Disturb, taken
from stream_occ.samples import SampleBlock

DEFAULT = 10
BOUNDS = (2, 1e6)


def start(value: float) -> Disturb:
    """The numbers count from 0; number value - 1 and each so many later never arrive."""
    every, numbers = round(value), count()

    def disturb(block: SampleBlock) -> SampleBlock:
        if len(block) == 0:
            return block
        seq = next(numbers)
        return taken(block, np.arange(0)) if (seq + 1) % every == 0 else replace(block, number=(1, seq))

    return disturb
