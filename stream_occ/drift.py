"""Has one device's score stream changed for good? A rank test for one change over half hours, fit for dependent scores.

Scores of overlapping windows are dependent, and so are those of a morning: a test that takes them for independent
reports a change whenever somebody sits down (river's ADWIN on every score: hundreds a day, see docs/online.md). So one
score in 5 s is looked at, a block is the median of half an hour of them, and the blocks' own dependence widens the
bound. A block's time is that of scored windows: what is not worn or has gaps takes no part.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

import numpy as np

from stream_occ.samples import NS_PER_S, Decision, FloatArray

__all__ = ["Drift", "DriftPolicy", "DriftWatch", "rank_change"]

LARGEST_CORRELATION = 0.95  # of neighbouring blocks: beyond it a week of blocks tells nothing


@dataclass(frozen=True, slots=True)
class DriftPolicy:
    """How scores are watched.

    spacing_s > 0: one score is looked at in this time; block_s >= spacing_s: scored time of one block, s. max_blocks:
    blocks remembered; min_blocks: blocks that must lie on each side of a change: with less than a day on each, every
    night is one. limit: of the test statistic, in standard deviations; the largest of many is taken, so 3 is not rare.
    """

    spacing_s: float = 5.0
    block_s: float = 1800.0
    max_blocks: int = 336
    min_blocks: int = 48
    limit: float = 4.5

    @property
    def scores_per_block(self) -> int:
        """Scores that make a block."""
        return max(1, round(self.block_s / self.spacing_s))


@dataclass(frozen=True, slots=True)
class Drift:
    """A change that was found: the median of block medians before and after it, and how long ago it was, in blocks."""

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
        self._blocks: deque[float] = deque(maxlen=self.policy.max_blocks)
        self._t_last_ns: int | None = None

    def push(self, decision: Decision) -> Drift | None:
        """Takes one more scored window; the change that its block brings to light, if any."""
        step_ns = None if self._t_last_ns is None else decision.t_end_ns - self._t_last_ns
        if step_ns is not None and 0 <= step_ns < self.policy.spacing_s * NS_PER_S:
            return None
        self._t_last_ns = decision.t_end_ns
        self._scores.append(decision.score)
        if len(self._scores) < self.policy.scores_per_block:
            return None
        self._blocks.append(float(np.median(self._scores)))
        self._scores.clear()
        return self._look()

    def _look(self) -> Drift | None:
        blocks = np.array(self._blocks)
        statistic, cut = rank_change(blocks, self.policy.min_blocks)
        if abs(statistic) <= self.policy.limit:
            return None
        before, after = float(np.median(blocks[:cut])), float(np.median(blocks[cut:]))
        self._blocks = deque(blocks[cut:].tolist(), maxlen=self.policy.max_blocks)
        direction: Literal["up", "down"] = "up" if statistic > 0 else "down"
        if not self.is_adrift:
            self.is_adrift, self._direction = True, direction
        elif direction != self._direction:
            self.is_adrift, self._direction = False, None
        return Drift(direction, before, after, len(blocks) - cut)


def rank_change(values: FloatArray, min_size: int) -> tuple[float, int]:
    """(z, cut): the cut into values[:cut] and values[cut:] at which ranks differ most; z > 0 where they rise.

    z is the rank-sum statistic over its standard deviation for independent values, sqrt(n0 n1 (n + 1) / 12), divided by
    sqrt((1 + r) / (1 - r)), r the correlation of neighbours about the means of both sides, in [0, .95]: what a
    first-order autoregression does to the variance of a mean. The scan over cuts is Pettitt's (1979) with each cut on
    its own scale. Equal values share their mean rank. z = 0 where a side would be shorter than min_size.

    >>> z, cut = rank_change(np.array([1.0, 3.0, 2.0, 1.5, 9.0, 7.0, 8.0, 7.5]), 2)
    >>> round(z, 2), cut
    (2.31, 4)
    """
    n = len(values)
    if n < 2 * min_size:
        return 0.0, n
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2.0)[place]
    n_before = np.arange(min_size, n - min_size + 1)
    sums = np.cumsum(ranks)[n_before - 1]
    z = (n_before * (n + 1) / 2.0 - sums) / np.sqrt(n_before * (n - n_before) * (n + 1) / 12.0)
    best = int(np.argmax(np.abs(z)))
    cut = int(n_before[best])
    rest = ranks.copy()
    rest[:cut] -= ranks[:cut].mean()
    rest[cut:] -= ranks[cut:].mean()
    power = float(rest @ rest)
    r = min(max(float(rest[1:] @ rest[:-1]) / power, 0.0), LARGEST_CORRELATION) if power > 0.0 else 0.0
    return float(z[best]) / float(np.sqrt((1.0 + r) / (1.0 - r))), cut
