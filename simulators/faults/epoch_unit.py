"""Stamps in another unit of time than is declared. Value: by what they are too small, 1000 for us sent as ns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import SampleBlock

DEFAULT = 1000
BOUNDS = (1, 1e9)


def start(value: float) -> Disturb:
    """From the device's first sample on."""

    def disturb(block: SampleBlock) -> SampleBlock:
        return replace(block, t_ns=np.floor_divide(block.t_ns, round(value)))

    return disturb
