"""A device that lies on a table: gravity and a sensor's noise. Value: standard deviation of the noise, m/s2."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import STANDARD_GRAVITY_MS2, SampleBlock

DEFAULT = 0.03
BOUNDS = (0, 1000)


def start(value: float) -> Disturb:
    """From the device's first sample on; the same noise each time."""
    rng = np.random.default_rng(0)

    def disturb(block: SampleBlock) -> SampleBlock:
        noise = rng.normal(0.0, value, (len(block), 6))
        acc_ms2 = noise[:, :3] + np.array([0.0, 0.0, STANDARD_GRAVITY_MS2])
        return replace(block, acc_ms2=acc_ms2, gyr_rads=noise[:, 3:] / 10)

    return disturb
