"""A clock that runs too fast or too slow by much: the rate is another than declared. Value: true rate by told rate."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import SampleBlock

DEFAULT = 1.5


def start(value: float) -> Disturb:
    """Stretches time from the device's first sample on."""
    first_ns: list[int] = []

    def disturb(block: SampleBlock) -> SampleBlock:
        first_ns.extend(block.t_ns[:1].tolist() if not first_ns else [])
        if not first_ns:
            return block
        offset = np.rint((block.t_ns - first_ns[0]) * value).astype(np.int64)
        return replace(block, t_ns=first_ns[0] + offset)

    return disturb
