"""Samples sent twice, as over two routes. Value: every how many-th, 1 for all."""

from __future__ import annotations

import numpy as np

from simulators.faults import Disturb, numbering, taken
from stream_occ.samples import SampleBlock

DEFAULT = 2
BOUNDS = (1, 1e6)


def start(value: float) -> Disturb:
    """Each so many-th sample comes twice in a row."""
    every, numbers = round(value), numbering()

    def disturb(block: SampleBlock) -> SampleBlock:
        return taken(block, np.repeat(np.arange(len(block)), np.where(numbers(block) % every == 0, 2, 1)))

    return disturb
