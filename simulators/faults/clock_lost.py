"""A clock that begins at 2000-01-01 after a restart. Value: after how many seconds of the device's time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from simulators.faults import Disturb, since_first
from stream_occ.samples import NS_PER_S, SampleBlock

DEFAULT = 8
BOUNDS = (0, 1e6)
Y2K_NS = 946_684_800 * NS_PER_S


def start(value: float) -> Disturb:
    """Once: nobody sets it any more."""
    elapsed_ns = since_first()

    def disturb(block: SampleBlock) -> SampleBlock:
        elapsed = elapsed_ns(block)
        restart_ns = round(value * NS_PER_S)
        return replace(block, t_ns=np.where(elapsed >= restart_ns, Y2K_NS + elapsed - restart_ns, block.t_ns))

    return disturb
