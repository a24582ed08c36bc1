"""White noise on all signals. Value: its standard deviation on each axis, m/s2; a tenth of it, rad/s, of rotation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import SampleBlock

DEFAULT = 2
BOUNDS = (0, 1000)


def start(value: float) -> Disturb:
    """The same noise each time."""
    rng = np.random.default_rng(0)

    def disturb(block: SampleBlock) -> SampleBlock:
        noise = rng.normal(0.0, value, (len(block), 6))
        return replace(block, acc_ms2=block.acc_ms2 + noise[:, :3], gyr_rads=block.gyr_rads + noise[:, 3:] / 10)

    return disturb
