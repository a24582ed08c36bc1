"""Figures of merit over people: AUC, sensitivity at a share of false trials, gmean; each with a bootstrap interval.

Every figure is a function of weights: how often each person counts. Weights of one give the figure itself, resampled
weights its interval, so that both come from the same lines. A score of -inf is a recording that gave no window
(`unscored`): as a fall it is missed by every threshold, as a normal recording it is accepted by every threshold.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from stream_occ.samples import BoolArray, FloatArray, IntArray

N_RESAMPLES = 2000
CONFIDENCE = 0.95


@dataclass(frozen=True, slots=True)
class Figure:
    """A value with the ends of its 95 % interval; None where the data give none (no fall, no normal recording)."""

    value: float | None
    low: float | None
    high: float | None

    def to_json(self) -> dict[str, float | None]:
        """The mapping that the JSON report holds."""
        return {"value": self.value, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True, eq=False)
class Scored:
    """n tested items (trials, or windows) with their truth.

    score (n,) high = abnormal, pooled over folds; person (n,) index of the tested person, 0 to n_people - 1;
    is_fall (n,); flagged (n,) whether the score lies above the threshold of the item's own fold.
    """

    score: FloatArray
    person: IntArray
    is_fall: BoolArray
    flagged: BoolArray
    n_people: int


def resample_people(strata: Sequence[str], *, n_resamples: int = N_RESAMPLES, seed: int = 0) -> IntArray:
    """How often each person counts, (1 + n_resamples, n_people): first row ones, then bootstrap resamples.

    People are drawn with replacement within their stratum (who has falls, who has normal recordings), because a data
    set fixes by design how many people of each kind it has. Where everybody is alone of their kind nothing can be
    drawn otherwise: no resample then, and no interval.
    """
    if len(set(strata)) == len(strata):
        n_resamples = 0
    rng = np.random.default_rng(seed)
    kinds = np.asarray(strata)
    weights = np.ones((1 + n_resamples, kinds.size), dtype=np.int64)
    for kind in sorted(set(strata)):
        members = np.flatnonzero(kinds == kind)
        weights[1:, members] = rng.multinomial(members.size, np.full(members.size, 1.0 / members.size), n_resamples)
    return weights


def figure_of(values: FloatArray) -> Figure:
    """Figure from one value a weight row: the first row is the value, the others' percentiles the interval."""
    if not np.isfinite(values[0]):
        return Figure(None, None, None)
    resampled = values[1:][np.isfinite(values[1:])]
    if resampled.size == 0:
        return Figure(float(values[0]), None, None)
    tail = 50.0 * (1.0 - CONFIDENCE)
    low, high = np.percentile(resampled, [tail, 100.0 - tail])
    return Figure(float(values[0]), float(low), float(high))


def auc(items: Scored, weights: IntArray) -> FloatArray:
    """Chance that a fall scores above a normal item, ties counting half, for each row of weights (B, n_people).

    Pairs are counted once for each couple of people (by searchsorted, exact with ties); a resample then is a quadratic
    form in the weights, which makes thousands of resamples of many windows cheap. NaN where a side is empty.
    """
    above = np.zeros((items.n_people, items.n_people))
    falls = _scores_by_person(items, items.is_fall)
    normals = [np.sort(scores) for scores in _scores_by_person(items, ~items.is_fall)]
    for p, fall in enumerate(falls):
        for q, normal in enumerate(normals):
            if fall.size and normal.size:
                below = np.searchsorted(normal, fall, "left").sum()
                not_above = np.searchsorted(normal, fall, "right").sum()
                above[p, q] = 0.5 * float(below + not_above)
    n_falls = weights @ np.array([scores.size for scores in falls])
    n_normals = weights @ np.array([scores.size for scores in normals])
    won = np.einsum("bp,pq,bq->b", weights, above, weights, optimize=True)
    return _ratio(won, (n_falls * n_normals).astype(np.float64))


def sensitivity_at_share(items: Scored, weights: IntArray, share: float) -> FloatArray:
    """Share of falls above the lowest threshold that at most floor(share * n) of n normal items exceed.

    The threshold is chosen on the tested items themselves, so this compares rankings; it is no promise for a
    deployment. Ties with the threshold are accepted, fall or normal.
    """
    normal = ~items.is_fall
    order = np.argsort(-items.score[normal], kind="stable")
    descending = items.score[normal][order]
    if descending.size == 0 or not items.is_fall.any():
        return np.full(weights.shape[0], np.nan)
    counted = np.cumsum(weights[:, items.person[normal][order]], axis=1)
    total = counted[:, -1]
    allowed = np.floor(share * total + 1e-9)  # 0.29 * 100 is 28.999...: the share means 29
    first_too_many = (counted <= allowed[:, None]).sum(axis=1)
    lowest = np.append(descending, -np.inf)[first_too_many]
    fall_weights = weights[:, items.person[items.is_fall]]
    caught = (fall_weights * (items.score[items.is_fall][None, :] > lowest[:, None])).sum(axis=1)
    sensitivity = _ratio(caught.astype(np.float64), fall_weights.sum(axis=1).astype(np.float64))
    sensitivity[total == 0] = np.nan
    return sensitivity


def gmean(items: Scored, weights: IntArray) -> FloatArray:
    """sqrt(share of falls flagged * share of normal items accepted), at the folds' own thresholds (paper 1's gmean)."""
    rates = [share_flagged(items, weights, of_falls=True), 1.0 - share_flagged(items, weights, of_falls=False)]
    both: FloatArray = np.sqrt(rates[0] * rates[1])
    return both


def share_flagged(items: Scored, weights: IntArray, *, of_falls: bool) -> FloatArray:
    """Share of the falls (or of the normal items) that lie above their fold's threshold."""
    chosen = items.is_fall if of_falls else ~items.is_fall
    n = np.bincount(items.person[chosen], minlength=items.n_people)
    hit = np.bincount(items.person[chosen & items.flagged], minlength=items.n_people)
    return _ratio((weights @ hit).astype(np.float64), (weights @ n).astype(np.float64))


def rate_per(counts: FloatArray, amounts: FloatArray, weights: IntArray) -> FloatArray:
    """Sum of the people's counts over the sum of their amounts (hours, or falls), for each row of weights."""
    return _ratio(weights @ counts, weights @ amounts)


def median_of(values: FloatArray, person: IntArray, weights: IntArray) -> FloatArray:
    """Median of the items' values (n,), each as often as its person counts; NaN where nothing counts."""
    if values.size == 0:
        return np.full(weights.shape[0], np.nan)
    order = np.argsort(values, kind="stable")
    counted = np.cumsum(weights[:, person[order]], axis=1)
    total = counted[:, -1:]
    middle = [
        np.append(values[order], np.nan)[(counted <= position).sum(axis=1)]
        for position in ((total - 1) // 2, total // 2)
    ]
    median: FloatArray = np.where(total[:, 0] > 0, 0.5 * (middle[0] + middle[1]), np.nan)
    return median


def _scores_by_person(items: Scored, chosen: BoolArray) -> list[FloatArray]:
    """Scores of the chosen items, one array a person."""
    order = np.argsort(items.person[chosen], kind="stable")
    counts = np.bincount(items.person[chosen], minlength=items.n_people)
    return list(np.split(items.score[chosen][order], np.cumsum(counts)[:-1]))


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """part / whole, NaN where the whole is 0."""
    ratio: FloatArray = np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)
    return ratio
