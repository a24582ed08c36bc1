"""Accelerations in another unit than is declared. Value: what 1 m/s2 is in it, 0.102 for g, 9.81 for g declared g."""

from __future__ import annotations

from dataclasses import replace

from simulators.faults import Disturb
from stream_occ.samples import STANDARD_GRAVITY_MS2, SampleBlock

DEFAULT = 1 / STANDARD_GRAVITY_MS2
BOUNDS = (0.001, 1000)


def start(value: float) -> Disturb:
    """From the device's first sample on."""

    def disturb(block: SampleBlock) -> SampleBlock:
        return replace(block, acc_ms2=block.acc_ms2 * value)

    return disturb
