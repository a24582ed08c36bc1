"""An accelerometer of small range: each axis is clipped. Value: its full scale, m/s2."""

from __future__ import annotations

from dataclasses import replace

from simulators.faults import Disturb
from stream_occ.samples import SampleBlock

DEFAULT = 15
BOUNDS = (0.1, 1000)


def start(value: float) -> Disturb:
    """From the device's first sample on."""

    def disturb(block: SampleBlock) -> SampleBlock:
        return replace(block, acc_ms2=block.acc_ms2.clip(-value, value))

    return disturb
