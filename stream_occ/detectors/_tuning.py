"""Algorithms 2, 3 and 4 of Khan & Ahmad on one space: noise by distance, J and K, theta; and the fit of one member.

All of it uses normal rows alone: the rows that Algorithm 2 calls noise stand in for outliers.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from stream_occ.engines import nearest, ratio_of
from stream_occ.neighbors import pair_distances_squared
from stream_occ.samples import BoolArray, FloatArray, IntArray

Note = Literal["edge", "neighbors", "theta"]
NoiseSide = Literal["both", "upper"]

__all__ = [
    "Fold",
    "MemberFit",
    "MemberSettings",
    "NoiseSide",
    "choose_neighbors",
    "choose_theta",
    "fit_member",
    "floor_reference",
    "inner_folds",
    "noise_mask",
    "running_means",
]


@dataclass(frozen=True, slots=True)
class MemberSettings:
    """Checked parameters of one OCNN; None for a number of neighbours or theta means: tune it."""

    n_neighbors: int | None
    k_neighbors: int | None
    theta: float | None
    floor: float
    max_neighbors: int
    omega: float
    n_inner_folds: int
    drop_noise: bool
    train_on_noise: bool
    noise_side: NoiseSide
    drop_duplicates: bool

    @property
    def needs_noise(self) -> bool:
        """Whether Algorithm 2 has to run."""
        return self.drop_noise or self.needs_folds

    @property
    def needs_folds(self) -> bool:
        """Whether Algorithm 3 or 4 has to run."""
        return self.n_neighbors is None or self.k_neighbors is None or self.theta is None


@dataclass(frozen=True, slots=True, eq=False)
class MemberFit:
    """What fitting one member found. own_distance (N,) is negative for rows left out as noise or as repeated."""

    n_neighbors: int
    k_neighbors: int
    theta: float
    own_distance: FloatArray
    floor: float
    noise: BoolArray | None
    notes: tuple[Note, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Distances of one inner fold: what Algorithms 3 and 4 need of it.

    distance, row (n, J): the J nearest training rows of each tested row. own (m, K): running means of the training
    rows' own distances. is_noise (n,): which tested rows stand in for outliers.
    """

    distance: FloatArray
    row: IntArray
    own: FloatArray
    is_noise: BoolArray

    def ratio(self, n_neighbors: int, k_neighbors: int, floor: float) -> FloatArray:
        """nn_ratio (n,) of the tested rows for one J, K."""
        own = self.own[:, k_neighbors - 1]
        reference = running_means(own[self.row[:, :n_neighbors]])[:, -1]
        return ratio_of(running_means(self.distance[:, :n_neighbors])[:, -1], reference + floor_reference(own, floor))


def running_means(values: FloatArray) -> FloatArray:
    """Means (n, k) of the first 1, 2, ..., k columns."""
    means: FloatArray = np.cumsum(values, axis=1) / np.arange(1, values.shape[1] + 1)
    return means


def floor_reference(own: FloatArray, floor: float) -> float:
    """floor * m: m the median of the rows' own mean distances, of the positive ones where most are 0."""
    if floor == 0.0:
        return 0.0
    median = float(np.median(own))
    if median == 0.0 and own.any():
        median = float(np.median(own[own > 0.0]))
    return floor * median


def noise_mask(X: FloatArray, *, omega: float, n_needed: int, side: NoiseSide = "both") -> BoolArray:
    """Algorithm 2: rows whose distance to the mean row lies outside [Q1 - w IQR, Q3 + w IQR] (equation 9).

    Two-sided as printed; side "upper" leaves rows near the mean alone. w starts at omega (a whisker multiplier) and
    falls by 0.1 while >= 0, until n_needed rows are outside; where even 0 gives too few (ties), the n_needed rows
    farthest from the mean, ties by lower number. Quartiles are interpolated linearly.
    """
    distance = np.sqrt(pair_distances_squared(X, np.broadcast_to(X.mean(axis=0), X.shape)))
    low, high = np.quantile(distance, (0.25, 0.75))
    tenths = 10.0 * omega
    for step in range(math.floor(tenths) + 1):
        whisker = (tenths - step) / 10.0 * (high - low)
        mask: BoolArray = distance > high + whisker
        if side == "both":
            mask |= distance < low - whisker
        if np.count_nonzero(mask) >= n_needed:
            return mask
    mask = np.zeros(len(X), dtype=bool)
    mask[np.argsort(-distance, kind="stable")[:n_needed]] = True
    return mask


def inner_folds(noise: BoolArray, n_folds: int, rng: np.random.Generator) -> IntArray:
    """Fold number (N,) of each row: targets and noise are shuffled and dealt out separately, so each fold has both."""
    fold = np.empty(len(noise), dtype=np.int64)
    for rows in (np.flatnonzero(~noise), np.flatnonzero(noise)):
        fold[rng.permutation(rows)] = np.arange(len(rows)) % n_folds
    return fold


@dataclass(frozen=True, slots=True, eq=False)
class Neighborhood:
    """Each row's nearest other rows, computed once: distance and row (N, k'). Subsets' neighbours are read from it."""

    X: FloatArray
    distance: FloatArray
    row: IntArray

    @classmethod
    def of(cls, X: FloatArray, k: int) -> Neighborhood:
        """The k nearest other rows of each row of X, or all where there are fewer."""
        return cls(X, *nearest(X, X, min(k, len(X) - 1), skip=np.arange(len(X))))

    def within(self, queries: IntArray, kept: BoolArray, k: int) -> tuple[FloatArray, IntArray]:
        """The k nearest kept rows of each query row other than itself: exactly what a search among them would give.

        Distances (n, k) and row numbers in X. A query whose list holds fewer than k kept rows is searched anew.
        """
        is_kept = kept[self.row[queries]]
        taken = is_kept & (np.cumsum(is_kept, axis=1) <= k)
        full = np.count_nonzero(taken, axis=1) == k
        distance, row = np.empty((len(queries), k)), np.empty((len(queries), k), dtype=np.int64)
        distance[full] = self.distance[queries[full]][taken[full]].reshape(-1, k)
        row[full] = self.row[queries[full]][taken[full]].reshape(-1, k)
        short = queries[~full]
        if short.size:
            own_place = np.where(kept[short], np.cumsum(kept)[short] - 1, -1)
            distance[~full], place = nearest(self.X[short], self.X[kept], k, skip=own_place)
            row[~full] = np.flatnonzero(kept)[place]
        return distance, row


def measure_folds(
    near: Neighborhood, noise: BoolArray, fold: IntArray, *, n_neighbors: int, k_neighbors: int, train_on_noise: bool
) -> list[Fold]:
    """Neighbours of each fold's rows among the other folds' targets (and noise), up to the largest J and K."""
    measured = []
    for number in range(int(fold.max()) + 1):
        tested = fold == number
        trains = ~tested if train_on_noise else ~tested & ~noise
        n_train = int(np.count_nonzero(trains))
        distance, row = near.within(np.flatnonzero(tested), trains, min(n_neighbors, n_train - 1))
        own, _ = near.within(np.flatnonzero(trains), trains, min(k_neighbors, n_train - 1))
        place = np.cumsum(trains) - 1
        measured.append(Fold(distance, place[row], running_means(own), noise[tested]))
    return measured


def choose_neighbors(folds: list[Fold], *, j_grid: IntArray, k_grid: IntArray, floor: float) -> tuple[int, int] | None:
    """Algorithm 3: the (J, K) with the best mean over folds of gmean at theta = 1; ties to smallest J, then K.

    None where every gmean is 0.
    """
    total = np.zeros((len(j_grid), len(k_grid)))
    for fold in folds:
        n_targets, n_noise = np.count_nonzero(~fold.is_noise), np.count_nonzero(fold.is_noise)
        distance = running_means(fold.distance)[:, j_grid - 1]
        for column, k in enumerate(k_grid):
            own = fold.own[:, k - 1]
            reference = running_means(own[fold.row])[:, j_grid - 1] + floor_reference(own, floor)
            accepted = ratio_of(distance, reference) < 1.0
            tpr = np.count_nonzero(accepted[~fold.is_noise], axis=0) / n_targets
            tnr = np.count_nonzero(~accepted[fold.is_noise], axis=0) / n_noise
            total[:, column] += np.sqrt(tpr * tnr)
    if not total.any():
        return None
    best = int(np.argmax(np.round(total / len(folds), 12)))  # equal means may differ by rounding
    return int(j_grid[best // len(k_grid)]), int(k_grid[best % len(k_grid)])


def choose_theta(ratio: FloatArray, is_noise: BoolArray) -> float | None:
    """Algorithm 4: the pooled ratio that, used as theta, gives the best gmean; None where every gmean is 0.

    Candidates are the distinct finite positive ratios; accept means ratio < theta, so the candidate's own row is
    rejected. Ties go to the smallest. gmean is compared as accepted targets * rejected noise: integers, no rounding.
    """
    candidates = np.unique(ratio[np.isfinite(ratio) & (ratio > 0.0)])
    if candidates.size == 0:
        return None
    accepted_targets = np.searchsorted(np.sort(ratio[~is_noise]), candidates, side="left")
    accepted_noise = np.searchsorted(np.sort(ratio[is_noise]), candidates, side="left")
    product = accepted_targets.astype(np.int64) * (np.count_nonzero(is_noise) - accepted_noise)
    best = int(np.argmax(product))
    return float(candidates[best]) if product[best] > 0 else None


def fit_member(X: FloatArray, settings: MemberSettings, rng: np.random.Generator) -> MemberFit:
    """Fits one OCNN on rows X: noise, folds, J and K, theta, then the rows' own distances on the final training set.

    The final training set is all of X, without the noise rows where settings.drop_noise; where
    settings.drop_duplicates, X stands for the first of each of its rows. Raises ValueError where X has too few rows.
    """
    if not settings.drop_duplicates:
        return _fit_rows(X, settings, rng)
    first = np.sort(np.unique(X, axis=0, return_index=True)[1])
    found = _fit_rows(X[first], settings, rng)
    own_distance = np.full(len(X), -1.0)
    own_distance[first] = found.own_distance
    if found.noise is None:
        return replace(found, own_distance=own_distance)
    noise = np.zeros(len(X), dtype=bool)
    noise[first] = found.noise
    return replace(found, own_distance=own_distance, noise=noise)


def _fit_rows(X: FloatArray, settings: MemberSettings, rng: np.random.Generator) -> MemberFit:
    noise: BoolArray | None = None
    _check_enough(X, settings)
    if settings.needs_noise:
        n_needed = max(settings.n_inner_folds, 5)
        noise = noise_mask(X, omega=settings.omega, n_needed=n_needed, side=settings.noise_side)
        _check_enough_beside_noise(noise, settings)
    j_max, k_max = settings.n_neighbors or settings.max_neighbors, settings.k_neighbors or settings.max_neighbors
    near = Neighborhood.of(X, _list_length(max(j_max, k_max), settings) if settings.needs_noise else k_max)
    j, k, theta, notes = settings.n_neighbors, settings.k_neighbors, settings.theta, list[Note]()
    if settings.needs_folds and noise is not None:
        j, k, theta, notes = _tune(near, noise, settings, rng)
    assert j is not None
    assert k is not None
    assert theta is not None
    kept = ~noise if settings.drop_noise and noise is not None else np.ones(len(X), dtype=bool)
    distance, _ = near.within(np.flatnonzero(kept), kept, k)
    own = running_means(distance)[:, -1]
    own_distance = np.full(len(X), -1.0)
    own_distance[kept] = own
    return MemberFit(j, k, theta, own_distance, floor_reference(own, settings.floor), noise, tuple(notes))


def _tune(
    near: Neighborhood, noise: BoolArray, settings: MemberSettings, rng: np.random.Generator
) -> tuple[int, int, float, list[Note]]:
    """J and K, then theta with these, where they are not given, on the same inner folds; and what is to be told."""
    notes: list[Note] = []
    j, k, theta = settings.n_neighbors, settings.k_neighbors, settings.theta
    n_final = int(np.count_nonzero(~noise)) if settings.drop_noise else len(noise)
    largest = min(settings.max_neighbors, n_final - 1)
    folds = measure_folds(
        near,
        noise,
        inner_folds(noise, settings.n_inner_folds, rng),
        n_neighbors=j or largest,
        k_neighbors=k or largest,
        train_on_noise=settings.train_on_noise,
    )
    if j is None or k is None:
        j_grid = _grid(j, min(item.distance.shape[1] for item in folds))
        k_grid = _grid(k, min(item.own.shape[1] for item in folds))
        best = choose_neighbors(folds, j_grid=j_grid, k_grid=k_grid, floor=settings.floor)
        j, k = best or (int(j_grid[0]), int(k_grid[0]))
        if best is None:
            notes.append("neighbors")
        elif (len(j_grid) > 1 and j == j_grid[-1]) or (len(k_grid) > 1 and k == k_grid[-1]):
            notes.append("edge")
    if theta is None:
        pooled = np.concatenate([item.ratio(j, k, settings.floor) for item in folds])
        theta = choose_theta(pooled, np.concatenate([item.is_noise for item in folds]))
        if theta is None:
            theta = 1.0
            notes.append("theta")
    return j, k, theta, notes


def _list_length(k: int, settings: MemberSettings) -> int:
    """How many neighbours to list so that nearly every row finds k among the share of rows that trains in a fold.

    The mean number found is k + 2 sqrt k + 3: with half the rows training, about 1 % of lists of 10 run out and are
    searched anew. Longer lists cost more than those searches.
    """
    n_folds = settings.n_inner_folds if settings.needs_folds else 1
    share = (n_folds - 1) / n_folds if n_folds > 1 else 1.0
    return math.ceil((k + 2.0 * math.sqrt(k) + 3.0) / share)


def _grid(fixed: int | None, largest: int) -> IntArray:
    """The given number alone, or 1..largest."""
    return np.arange(1, largest + 1) if fixed is None else np.array([fixed])


def _check_enough(X: FloatArray, settings: MemberSettings) -> None:
    """Raises ValueError unless the rows are enough for the fixed J and K."""
    j, k = settings.n_neighbors or "cv", settings.k_neighbors or "cv"
    needed = max(settings.n_neighbors or 1, (settings.k_neighbors or 1) + 1)
    if len(X) < needed:
        raise ValueError(
            f"X must have at least {needed} {'distinct ' if settings.drop_duplicates else ''}rows for n_neighbors={j} "
            f"and k_neighbors={k}; got n_samples = {len(X)}. Give more rows or fewer neighbours"
        )


def _check_enough_beside_noise(noise: BoolArray, settings: MemberSettings) -> None:
    """Raises ValueError unless every inner training set and the final one can give the fixed numbers of neighbours."""
    n_rows, n_targets = len(noise), int(np.count_nonzero(~noise))
    n_folds = settings.n_inner_folds if settings.needs_folds else 1
    n_train = n_targets if n_folds == 1 else n_targets - math.ceil(n_targets / n_folds)
    if settings.train_on_noise and n_folds > 1:
        n_with_noise = n_train + (n_rows - n_targets) - math.ceil((n_rows - n_targets) / n_folds)
        n_train = min(n_with_noise, n_targets) if settings.drop_noise else n_with_noise
    needed = max(settings.n_neighbors or 1, settings.k_neighbors or 1) + 1
    if n_train < needed or n_targets < n_folds:
        raise ValueError(
            f"X has too few rows: {n_rows} rows, {n_targets} not noise, leave {n_train} to train on in an inner "
            f"fold; at least {needed} are needed, and {n_folds} targets. Give more rows, fewer folds or neighbours"
        )
