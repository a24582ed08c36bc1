"""Faults of sensors, clocks and links, put into what a simulated device sends: one file a fault, found by its name.

A fault's module has `DEFAULT`, its strength where none is given; `BOUNDS`, the least and the greatest; `IS_WHOLE`, true
where no other than whole numbers are; and `start(value)`, which gives a function of one device's messages, called with
each in turn: what it returns is sent in its place, and nothing where that is empty.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stream_occ.errors import UsageError
from stream_occ.plugins import load_plugin, plugin_names
from stream_occ.samples import IntArray, SampleBlock

Disturb = Callable[[SampleBlock], SampleBlock]

FAMILY = "simulators.faults"


def fault_names() -> tuple[str, ...]:
    """All faults, sorted.

    >>> "stuck" in fault_names()
    True
    """
    return plugin_names(FAMILY)


def load_fault(text: str) -> Callable[[], Disturb]:
    """What starts the fault NAME or NAME:VALUE for one device; raises UsageError for a name or value that is none."""
    name, colon, given = text.partition(":")
    module: Any = load_plugin(FAMILY, name, kind="--fault", error=UsageError)
    low, high = module.BOUNDS
    is_whole = getattr(module, "IS_WHOLE", False)
    try:
        value = float(given) if colon else float(module.DEFAULT)
    except ValueError:
        value = math.nan
    if not low <= value <= high or (is_whole and not value.is_integer()):  # NaN is within nothing
        expected = f"have a {'whole ' * is_whole}number from {low:g} to {high:g} behind the colon"
        raise UsageError(f"--fault {name}", expected, repr(given)[:40], f"Write {name} alone for {module.DEFAULT:g}")
    start: Callable[[float], Disturb] = module.start
    return lambda: start(value)


def taken(block: SampleBlock, rows: np.ndarray[Any, Any]) -> SampleBlock:
    """Some samples of a block, by mask or by number."""
    return SampleBlock(block.device_id, block.t_ns[rows], block.acc_ms2[rows], block.gyr_rads[rows])


def numbering() -> Callable[[SampleBlock], IntArray]:
    """Gives the numbers, from 0, of a device's samples, block after block."""
    n_before = 0

    def numbers(block: SampleBlock) -> IntArray:
        nonlocal n_before
        n_before += len(block)
        return np.arange(n_before - len(block), n_before)

    return numbers


def since_first() -> Callable[[SampleBlock], IntArray]:
    """Gives the time of a device's samples since its first one, ns, block after block."""
    first_ns: list[int] = []

    def elapsed_ns(block: SampleBlock) -> IntArray:
        if not first_ns:
            first_ns.extend(block.t_ns[:1].tolist())
        return block.t_ns - first_ns[0] if first_ns else block.t_ns

    return elapsed_ns


def joined(blocks: Sequence[SampleBlock]) -> SampleBlock:
    """Blocks of one device as one; at least one is given."""
    return SampleBlock(
        blocks[0].device_id,
        np.concatenate([block.t_ns for block in blocks]),
        np.concatenate([block.acc_ms2 for block in blocks]),
        np.concatenate([block.gyr_rads for block in blocks]),
    )
