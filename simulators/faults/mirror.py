"""A device with left-handed axes: one axis of both sensors has the wrong sign. Value: which one, 0 to 2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import SampleBlock

DEFAULT = 0
BOUNDS = (0, 2)
IS_WHOLE = True


def start(value: float) -> Disturb:
    """From the device's first sample on."""
    signs = np.where(np.arange(3) == int(value), -1.0, 1.0)

    def disturb(block: SampleBlock) -> SampleBlock:
        return replace(block, acc_ms2=block.acc_ms2 * signs, gyr_rads=block.gyr_rads * signs)

    return disturb
