"""Samples that are no numbers. Value: every how many-th."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb, numbering
from stream_occ.samples import SampleBlock

DEFAULT = 100
BOUNDS = (1, 1e6)


def start(value: float) -> Disturb:
    """Each so many-th acceleration is NaN on x."""
    every, numbers = round(value), numbering()

    def disturb(block: SampleBlock) -> SampleBlock:
        acc_ms2 = block.acc_ms2.copy()
        acc_ms2[(numbers(block) + 1) % every == 0, 0] = np.nan
        return replace(block, acc_ms2=acc_ms2)

    return disturb
