"""A signal keeps the value that it had first. Value: which one, 0 to 2 acc x, y, z, 3 to 5 gyr x, y, z; 6: all six."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import FloatArray, SampleBlock

DEFAULT = 0
BOUNDS = (0, 6)
IS_WHOLE = True


def start(value: float) -> Disturb:
    """Sticks from the device's first sample on."""
    columns = slice(0, 6) if value >= 6 else slice(int(value), int(value) + 1)
    first: list[FloatArray] = []

    def disturb(block: SampleBlock) -> SampleBlock:
        values = np.hstack([block.acc_ms2, block.gyr_rads])
        if not first:
            first.append(values[0].copy())
        values[:, columns] = first[0][columns]
        return replace(block, acc_ms2=values[:, :3], gyr_rads=values[:, 3:])

    return disturb
