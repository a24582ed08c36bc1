"""Samples at a uniform rate: each on the straight line between the two samples around it, none beyond the last one."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_occ.engines import warmed
from stream_occ.samples import NS_PER_S, BoolArray, FloatArray, IntArray

HOLE_STEPS = 2  # a hole is an interval of more than two grid steps: at least one grid point has no sample near it

__all__ = ["GridChunk", "grid_chunk", "grid_offset_ns"]


@dataclass(frozen=True, slots=True, eq=False)
class GridChunk:
    """Consecutive grid samples, float64 (n, 6): acc x, y, z, gyr x, y, z; `first`: its place in the segment.

    n_came: int64 (n,), samples of the segment after its first one, up to each.
    bridges: bool (n,), which of them fill a hole, with no sample near; None: none does. saturated: bool (n,), which of
    them are made of a saturated sample, or have one since the grid sample before; lossy: the same of samples right
    after a loss, and so all that bridge it; None: none.
    """

    anchor_t_ns: int
    first: int
    values: FloatArray
    n_came: IntArray
    bridges: BoolArray | None = None
    saturated: BoolArray | None = None
    lossy: BoolArray | None = None

    @property
    def starts_segment(self) -> bool:
        """True where a new segment begins: filters restart, no window reaches back."""
        return self.first == 0


def grid_offset_ns(k: IntArray | int, rate_hz: float) -> IntArray:
    """Offset of grid sample k from its segment's first stamp, ns: round(k 1e9 / rate_hz)."""
    offset: IntArray = np.rint(np.asarray(k, dtype=np.float64) * (NS_PER_S / rate_hz)).astype(np.int64)
    return offset


def grid_chunk(
    t_ns: IntArray,
    v: FloatArray,
    anchor: int,
    n_grid: int,
    n_before: int,
    rate_hz: float,
    marked_t_ns: tuple[IntArray, IntArray],
) -> GridChunk | None:
    """Grid samples n_grid, n_grid + 1, ... of the segment up to the last stamp; None where there is none. n_before:
    samples of the segment before the first of t_ns; marked_t_ns: those that are saturated, and that end a loss."""
    step_ns = NS_PER_S / rate_hz
    last_k = int((int(t_ns[-1]) - anchor) / step_ns) + 1  # one too many at most
    kernels = None if marked_t_ns[0].size or marked_t_ns[1].size else warmed("_stream")
    if kernels is not None:
        made = kernels.grid(t_ns, v, anchor, n_grid, last_k, n_before, step_ns, HOLE_STEPS * step_ns)
        values, n_came, is_bridge, n_bridged = made
        return GridChunk(anchor, n_grid, values, n_came, is_bridge if n_bridged else None) if len(values) else None
    k = np.arange(n_grid, last_k + 1, dtype=np.int64)
    offset = grid_offset_ns(k, rate_hz)
    offset = offset[offset <= int(t_ns[-1]) - anchor]
    if offset.size == 0:
        return None
    rel = t_ns - anchor
    left = rel.searchsorted(offset, side="right") - 1
    right = np.minimum(left + 1, t_ns.size - 1)  # the last sample itself is met with weight 0
    from_t, from_v = rel[left], v[left]
    width = np.maximum(rel[right] - from_t, 1)
    weight = (offset - from_t) / width
    bridges = (width > HOLE_STEPS * step_ns) & (weight > 0)
    grid: FloatArray = from_v + (v[right] - from_v) * weight[:, None]
    touched: list[BoolArray | None] = [None, None]
    for i, marked in enumerate(marked_t_ns):
        if marked.size:  # those between a grid sample and the one before it, and the two that it is made of
            before = np.minimum(grid_offset_ns(np.maximum(k[: offset.size] - 1, 0), rate_hz) + 1, from_t)
            until, at = np.where(weight > 0, rel[right], from_t), marked - anchor
            touched[i] = np.searchsorted(at, until, side="right") > np.searchsorted(at, before, side="left")
    return GridChunk(anchor, n_grid, grid, left + n_before, bridges if bridges.any() else None, *touched)
