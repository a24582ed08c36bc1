"""A recording's windows as the event engine is shown them, apart from their scores: for all that is not a stream."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from stream_occ import motion as wearer
from stream_occ.motion import Motion
from stream_occ.samples import BoolArray, IntArray
from stream_occ.sensor import SensorState, looks_of, watch_sensor
from stream_occ.windowing import WindowBatch, WindowShape


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """Ends t_end_ns (n,) and motion of n windows of one recording after another, in their order.

    is_closing (n,): it ends a segment off the hop, and counts where it is flagged alone. is_faulty (n,): a fault of the
    sensor holds or shows, or samples are missing, so that it may be flagged and is never normal.
    """

    t_end_ns: IntArray
    motion: Motion
    is_closing: BoolArray
    is_faulty: BoolArray

    def __len__(self) -> int:
        return int(self.t_end_ns.size)

    def take(self, rows: np.ndarray[Any, Any]) -> Shown:
        """Some of the windows, by mask or by number."""
        return Shown(self.t_end_ns[rows], self.motion.take(rows), self.is_closing[rows], self.is_faulty[rows])


def shown(batches: Iterable[WindowBatch], shape: WindowShape) -> Shown:
    """What the engine is shown of one recording, by the very steps that the service takes with a stream."""
    state, n_overlapping = SensorState(), -(-shape.n_samples // shape.n_hop)
    parts: list[Shown] = []
    for batch in batches:
        found, closes = wearer.motion(batch), batch.closes
        is_faulty = np.zeros(len(batch), dtype=np.bool_)
        for i, (look, is_closing) in enumerate(zip(looks_of(batch, found), closes.tolist(), strict=True)):
            after, may_be_normal = watch_sensor(state, *look, n_overlapping=n_overlapping)
            is_faulty[i] = not may_be_normal
            state = state if is_closing else after
        parts.append(Shown(batch.t_end_ns, found, closes, is_faulty))
    return joined(parts)


def joined(parts: Sequence[Shown]) -> Shown:
    """All windows of the parts, in their order; none where there are none."""
    none = np.empty(0, dtype=np.bool_)
    return Shown(
        np.concatenate([np.empty(0, dtype=np.int64), *(part.t_end_ns for part in parts)]),
        wearer.joined([part.motion for part in parts]),
        np.concatenate([none, *(part.is_closing for part in parts)]),
        np.concatenate([none, *(part.is_faulty for part in parts)]),
    )
