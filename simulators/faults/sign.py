"""The sign of all accelerations changes every few seconds, as from Android to iOS. Value: seconds between changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb, since_first
from stream_occ.samples import NS_PER_S, SampleBlock

DEFAULT = 10
BOUNDS = (0.01, 1e6)


def start(value: float) -> Disturb:
    """First changed after `value` seconds of the device's time; rotation stays as it is."""
    elapsed_ns = since_first()

    def disturb(block: SampleBlock) -> SampleBlock:
        is_changed = (elapsed_ns(block) // round(value * NS_PER_S) % 2 == 1)[:, None]
        return replace(block, acc_ms2=np.where(is_changed, -block.acc_ms2, block.acc_ms2))

    return disturb
