"""Samples sent twice, as over two routes. Value: every how many-th, 1 for all."""

from __future__ import annotations

import numpy as np

from simulators.faults import Disturb, taken
from stream_occ.samples import SampleBlock

DEFAULT = 2


def start(value: float) -> Disturb:
    """Each so many-th sample comes twice in a row."""
    every = max(1, round(value))
    n_before = 0

    def disturb(block: SampleBlock) -> SampleBlock:
        nonlocal n_before
        number = n_before + np.arange(len(block))
        n_before += len(block)
        return taken(block, np.repeat(np.arange(len(block)), np.where(number % every == 0, 2, 1)))

    return disturb
