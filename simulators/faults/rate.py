"""A clock that runs too fast or too slow by much: the rate is another than declared. Value: true rate by told rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb, since_first
from stream_occ.samples import SampleBlock

DEFAULT = 1.5
BOUNDS = (0.1, 10)


def start(value: float) -> Disturb:
    """Stretches time from the device's first sample on."""
    elapsed_ns = since_first()

    def disturb(block: SampleBlock) -> SampleBlock:
        elapsed = elapsed_ns(block)
        return replace(block, t_ns=block.t_ns - elapsed + np.rint(elapsed * value).astype(np.int64))

    return disturb
