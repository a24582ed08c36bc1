"""Axes of both sensors change place every few seconds: x is -y, y is x, then back. Value: seconds between changes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb, since_first
from stream_occ.samples import NS_PER_S, FloatArray, SampleBlock

DEFAULT = 10
BOUNDS = (0.01, 1e6)


def start(value: float) -> Disturb:
    """First changed after `value` seconds of the device's time."""
    elapsed_ns = since_first()

    def disturb(block: SampleBlock) -> SampleBlock:
        is_changed = (elapsed_ns(block) // round(value * NS_PER_S) % 2 == 1)[:, None]
        return replace(
            block,
            acc_ms2=np.where(is_changed, _turned(block.acc_ms2), block.acc_ms2),
            gyr_rads=np.where(is_changed, _turned(block.gyr_rads), block.gyr_rads),
        )

    return disturb


def _turned(values: FloatArray) -> FloatArray:
    x, y, z = values.T
    return np.stack([-y, x, z], axis=1)
