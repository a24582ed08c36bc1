"""Rotation in another unit than is declared. Value: what 1 rad/s is in it, 57.3 for degrees/s."""

from __future__ import annotations

import math
from dataclasses import replace

from simulators.faults import Disturb
from stream_occ.samples import SampleBlock

DEFAULT = 180 / math.pi
BOUNDS = (0.001, 100_000)


def start(value: float) -> Disturb:
    """From the device's first sample on."""

    def disturb(block: SampleBlock) -> SampleBlock:
        return replace(block, gyr_rads=block.gyr_rads * value)

    return disturb
