"""Messages of a device that sends each sensor apart: SenML packs of one sensor."""

from __future__ import annotations

import json
from typing import Literal

import numpy as np

from stream_occ.samples import NS_PER_S


def half(kind: Literal["acc", "gyr"], n: int, *, t0_ns: int, first: int = 0) -> bytes:
    """n samples at 50 Hz from sample `first` on: gravity and a sway, or a slow turn."""
    records = []
    for k in range(first, first + n):
        t_ns = t0_ns + k * NS_PER_S // 50
        row = (0.3 * np.sin(k), 0.1, 9.8) if kind == "acc" else (0.1 * np.cos(k), 0.0, 0.01 * np.sin(k))
        records += [
            f'{{"n":"{kind}_{axis}","u":"{"m/s2" if kind == "acc" else "rad/s"}",'
            f'"t":{t_ns // NS_PER_S}.{t_ns % NS_PER_S:09d},"v":{json.dumps(float(value))}}}'
            for axis, value in zip("xyz", row, strict=True)
        ]
    return f"[{','.join(records)}]".encode()
