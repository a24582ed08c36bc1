"""Training a member with both cross-validations: our engines beside scipy's cKDTree, and Algorithm 4 as printed."""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_occ import engines
from stream_occ.bench.rows import Rows
from stream_occ.bench.timing import in_turns
from stream_occ.detectors import OCNN
from stream_occ.detectors._tuning import (
    Fold,
    choose_neighbors,
    choose_theta,
    fit_member,
    inner_folds,
    noise_mask,
    running_means,
)
from stream_occ.projection import draw_projection, project
from stream_occ.samples import BoolArray, FloatArray

SETTINGS = OCNN("cv", "cv", "empirical").settings()
FOUND = ("J", "K", "theta")

__all__ = ["self_join", "sweep", "tuning"]


def by_ckdtree(X: FloatArray, rng: np.random.Generator) -> tuple[int, int, float]:
    """J, K and theta by Algorithms 2, 3 and 4 and the rows' own distances, a cKDTree for each fold and one for all."""
    from scipy.spatial import cKDTree

    most = SETTINGS.max_neighbors
    noise = noise_mask(X, omega=SETTINGS.omega, n_needed=max(SETTINGS.n_inner_folds, 5))
    fold = inner_folds(noise, SETTINGS.n_inner_folds, rng)
    folds = []
    for number in range(SETTINGS.n_inner_folds):
        tested, trains = fold == number, (fold != number) & ~noise
        tree = cKDTree(X[trains])
        distance, row = tree.query(X[tested], most)
        own, _ = tree.query(X[trains], most + 1)  # the first is the row itself
        folds.append(Fold(distance, row, running_means(own[:, 1:]), noise[tested]))
    grid = np.arange(1, most + 1)
    j, k = choose_neighbors(folds, j_grid=grid, k_grid=grid, floor=0.0) or (1, 1)
    pooled = np.concatenate([each.ratio(j, k, 0.0) for each in folds])
    theta = choose_theta(pooled, np.concatenate([each.is_noise for each in folds])) or 1.0
    cKDTree(X).query(X, k + 1)
    return j, k, theta


def by_us(engine: str, X: FloatArray, rng: np.random.Generator) -> tuple[int, int, float]:
    """The same by an engine."""
    engines.select(engine)
    found = fit_member(X, SETTINGS, rng)
    engines.select("auto")
    return found.n_neighbors, found.k_neighbors, found.theta


def tuning(rows: Rows, *, rounds: int = 3) -> dict[str, Any]:
    """Milliseconds of one thread for a member with both cross-validations, each round in another projection."""
    names = _engines()
    mapped = [_mapped(rows.train, seed) for seed in range(rounds)]

    def member(name: str, number: int) -> tuple[int, int, float]:
        X, rng = mapped[number % rounds], np.random.default_rng(number)
        return by_ckdtree(X, rng) if name == "ckdtree" else by_us(name, X, rng)

    tasks = {name: (lambda number, name=name: member(name, number)) for name in (*names, "ckdtree")}
    timed = in_turns(tasks, rounds, reference=names[-1], calls=0)
    found = {name: dict(zip(FOUND, member(name, 0), strict=True)) for name in tasks}
    return {"n_rows": len(rows.train), "reference": names[-1], "ways": timed, "found": found}


def self_join(rows: Rows, *, k: int = 10, rounds: int = 3) -> dict[str, Any]:
    """Milliseconds of one thread for the k nearest other rows of each row, in a projection."""
    from scipy.spatial import cKDTree

    X, names = _mapped(rows.train, 0), _engines()

    def join(name: str) -> FloatArray:
        if name == "ckdtree":
            nearest: FloatArray = cKDTree(X).query(X, k + 1)[0][:, 1:]
            return nearest
        engines.select(name)
        found = engines.nearest(X, X, k, skip=np.arange(len(X)))[0]
        engines.select("auto")
        return found

    tasks = {name: (lambda number, name=name: join(name)) for name in (*names, "ckdtree")}
    timed = in_turns(tasks, rounds, reference=names[-1], calls=0)
    apart = np.abs(join(names[-1]) - join("ckdtree")).max()
    return {"k": k, "reference": names[-1], "ways": timed, "largest_difference": float(apart)}


def sweep(n_rows: int, *, rounds: int = 3) -> dict[str, Any]:
    """Milliseconds of one thread for Algorithm 4's threshold, by sorting and as printed."""
    rng = np.random.default_rng(3)
    is_noise = rng.random(n_rows) < 0.05
    ratio = np.exp(0.3 * rng.normal(size=n_rows) + 0.4 * is_noise)
    tasks = {"ours": lambda _: choose_theta(ratio, is_noise), "all_pairs": lambda _: _all_pairs(ratio, is_noise)}
    timed = in_turns(tasks, rounds, reference="ours", calls=0)
    is_same = choose_theta(ratio, is_noise) == _all_pairs(ratio, is_noise)
    return {"n_rows": n_rows, "ways": timed, "same": is_same}


def _all_pairs(ratio: FloatArray, is_noise: BoolArray) -> float:
    """Algorithm 4 as printed: every ratio is compared with every candidate."""
    best, theta = -1.0, 1.0
    for candidate in np.sort(ratio):
        accepted = ratio < candidate
        gmean = np.sqrt(np.mean(accepted[~is_noise]) * np.mean(~accepted[is_noise]))
        if gmean > best:
            best, theta = float(gmean), float(candidate)
    return theta


def _mapped(X: FloatArray, seed: int) -> FloatArray:
    return project(X, draw_projection(X.shape[1], np.random.default_rng(seed)))


def _engines() -> tuple[str, ...]:
    return ("numpy", "compiled") if engines.has_numba() else ("numpy",)
