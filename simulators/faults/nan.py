"""Samples that are no numbers. Value: every how many-th."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import SampleBlock

DEFAULT = 100


def start(value: float) -> Disturb:
    """Each so many-th acceleration is NaN on x."""
    every = max(1, round(value))
    n_before = 0

    def disturb(block: SampleBlock) -> SampleBlock:
        nonlocal n_before
        number = n_before + np.arange(len(block))
        n_before += len(block)
        acc_ms2 = block.acc_ms2.copy()
        acc_ms2[(number + 1) % every == 0, 0] = np.nan
        return replace(block, acc_ms2=acc_ms2)

    return disturb
