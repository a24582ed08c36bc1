"""Samples out of order: some come after the one that follows them. Value: every how many, at least 2."""

from __future__ import annotations

import numpy as np

from simulators.faults import Disturb, joined, taken
from stream_occ.samples import SampleBlock

DEFAULT = 20
BOUNDS = (2, 1e6)


def start(value: float) -> Disturb:
    """The value-th sample and each so many later trade places with the next one."""
    every = round(value)
    n_before = 0
    waiting: list[SampleBlock] = []

    def disturb(block: SampleBlock) -> SampleBlock:
        nonlocal n_before
        block = joined([*waiting, block])
        waiting.clear()
        number = n_before + np.arange(len(block))
        if len(block) and (number[-1] + 1) % every == 0:
            waiting.append(taken(block, np.arange(len(block) - 1, len(block))))
            block, number = taken(block, np.arange(len(block) - 1)), number[:-1]
        n_before += len(block)
        is_delayed = (number + 1) % every == 0
        return taken(block, np.argsort(number + np.where(is_delayed, 1.5, 0.0)))

    return disturb
