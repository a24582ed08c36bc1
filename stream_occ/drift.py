"""Has one device's score stream changed for good? ADWIN's test on half hours of ranked scores, in numpy alone.

Scores of overlapping windows are dependent: river's ADWIN on every score reports hundreds of changes a day where there
is none (benchmarks/drift.py). So one score in 5 s is looked at, as its rank among the first hours' scores, and a block
is the mean of half an hour of them. A block's time is that of scored windows: what is not worn or has gaps takes no
part. river's own detector would do, but brings scikit-learn and scipy into a small service.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from stream_occ.samples import NS_PER_S, Decision, FloatArray

__all__ = ["Drift", "DriftPolicy", "DriftWatch", "find_change"]

REFERENCE_BLOCKS = 8  # blocks whose scores are what later ones are ranked among


@dataclass(frozen=True, slots=True)
class DriftPolicy:
    """How scores are watched.

    spacing_s > 0: one score is looked at in this time; block_s >= spacing_s: scored time of one block, s. max_blocks:
    blocks remembered; min_blocks: blocks that must lie on each side of a change. delta in [1e-12, 1): ADWIN's
    confidence; it would bound the share of false reports if blocks were independent.
    """

    spacing_s: float = 5.0
    block_s: float = 1800.0
    max_blocks: int = 336
    min_blocks: int = 5
    delta: float = 0.002

    @property
    def scores_per_block(self) -> int:
        """Scores that make a block."""
        return max(1, round(self.block_s / self.spacing_s))


@dataclass(frozen=True, slots=True)
class Drift:
    """A change that was found: mean rank (0 to 1, among the first hours' scores) before and after it, and its age."""

    direction: Literal["up", "down"]
    before: float
    after: float
    n_blocks_since: int


class DriftWatch:
    """Watches one device; memory is bounded by the policy. `is_adrift` holds from a change until one the other way."""

    def __init__(self, policy: DriftPolicy | None = None) -> None:
        self.policy = policy or DriftPolicy()
        self.is_adrift = False
        self._direction: Literal["up", "down"] | None = None
        self._scores: list[float] = []
        self._reference: FloatArray | None = None
        self._blocks: deque[float] = deque(maxlen=self.policy.max_blocks)
        self._t_last_ns: int | None = None

    def push(self, decision: Decision) -> Drift | None:
        """Takes one more scored window; the change that its block brings to light, if any."""
        step_ns = None if self._t_last_ns is None else decision.t_end_ns - self._t_last_ns
        if step_ns is not None and 0 <= step_ns < self.policy.spacing_s * NS_PER_S:
            return None
        self._t_last_ns = decision.t_end_ns
        self._scores.append(decision.score)
        n_needed = self.policy.scores_per_block * (REFERENCE_BLOCKS if self._reference is None else 1)
        if len(self._scores) < n_needed:
            return None
        if self._reference is None:
            self._reference = np.sort(self._scores)
        self._blocks.extend(
            self._mean_rank(part) for part in np.reshape(self._scores, (-1, self.policy.scores_per_block))
        )
        self._scores.clear()
        return self._look()

    def _mean_rank(self, scores: ArrayLike) -> float:
        """Mean over scores of the share of reference scores below each, equal ones counted half."""
        assert self._reference is not None
        below, up_to = (np.searchsorted(self._reference, scores, side) for side in ("left", "right"))
        return float(np.mean(below + up_to)) / (2.0 * len(self._reference))

    def _look(self) -> Drift | None:
        blocks = np.array(self._blocks)
        excess, cut = find_change(blocks, delta=self.policy.delta, min_size=self.policy.min_blocks)
        if excess <= 1.0:
            return None
        before, after = float(blocks[:cut].mean()), float(blocks[cut:].mean())
        self._blocks = deque(blocks[cut:].tolist(), maxlen=self.policy.max_blocks)
        direction: Literal["up", "down"] = "up" if after > before else "down"
        if not self.is_adrift:
            self.is_adrift, self._direction = True, direction
        elif direction != self._direction:
            self.is_adrift, self._direction = False, None
        return Drift(direction, before, after, len(blocks) - cut)


def find_change(values: FloatArray, *, delta: float, min_size: int) -> tuple[float, int]:
    """(excess, cut): the cut into values[:cut] and values[cut:] whose means differ most, in multiples of ADWIN's bound.

    Above 1 is a change. The bound for n values in [0, 1] of variance s2, n0 and n1 on the two sides:
    sqrt(2 s2 d / m) + 2 d / (3 m), d = ln(2 ln(n) / delta), 1 / m = 1 / (n0 - min_size + 1) + 1 / (n1 - min_size + 1)
    (Bifet & Gavalda 2007, theorem 3.2 with the variance; the shortened sides are river's). Every cut is tried, where
    ADWIN's exponential histogram tries some. (0, n) where a side would be shorter than min_size >= 1.

    >>> excess, cut = find_change(np.repeat([0.2, 0.8], 60), delta=0.002, min_size=5)
    >>> round(excess, 2), cut
    (1.38, 60)
    """
    n = len(values)
    if n < max(2 * min_size, 3):
        return 0.0, n
    n0 = np.arange(min_size, n - min_size + 1)
    sums = np.cumsum(values)
    difference = np.abs(sums[n0 - 1] / n0 - (sums[-1] - sums[n0 - 1]) / (n - n0))
    m_inverse = 1.0 / (n0 - min_size + 1) + 1.0 / (n - n0 - min_size + 1)
    d = np.log(2.0 * np.log(n) / delta)
    excess = difference / (np.sqrt(2.0 * values.var() * d * m_inverse) + 2.0 / 3.0 * d * m_inverse)
    best = int(np.argmax(excess))
    return float(excess[best]), int(n0[best])
