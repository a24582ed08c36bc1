"""Accelerations without gravity, as phones' linear acceleration is. Value: time constant of the mean taken off, s."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from simulators.faults import Disturb
from stream_occ.samples import NS_PER_S, FloatArray, SampleBlock

DEFAULT = 1
BOUNDS = (0.01, 1e6)


def start(value: float) -> Disturb:
    """Takes a running mean off, which begins with the first sample."""
    last: list[tuple[int, FloatArray]] = []

    def disturb(block: SampleBlock) -> SampleBlock:
        linear = np.empty_like(block.acc_ms2)
        for i, (t_ns, acc) in enumerate(zip(block.t_ns.tolist(), block.acc_ms2, strict=True)):
            before_ns, mean = last.pop() if last else (t_ns, acc)
            mean = mean + (acc - mean) * (1 - math.exp(-max(0, t_ns - before_ns) / NS_PER_S / value))
            last.append((t_ns, mean))
            linear[i] = acc - mean
        return replace(block, acc_ms2=linear)

    return disturb
