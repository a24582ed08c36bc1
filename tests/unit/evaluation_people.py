"""Made-up people for the tests of evaluation: trials of two-column windows, no samples, and methods that watch."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from stream_occ.evaluation.protocol import ScoreWindows, Trial, Windows
from stream_occ.motion import Motion
from stream_occ.watching import Shown

HOP_NS = 500_000_000


def moving(n):
    """Motion of n windows in which the wearer moves, of unknown posture: a check that ends in them is pending."""
    nan = np.full((n, 3), np.nan)
    one, none = np.ones(n), np.zeros(n, dtype=bool)
    return Motion(one, one, nan, nan, none, none)


def lying(n, first=0):
    """Upright and moving, from window `first` on still and lying."""
    after = np.arange(n) >= first
    up, down = np.array([0.0, 0.0, 1.0]), np.array([1.0, 0.0, 0.0])
    end = np.where(after[:, None], down, up)
    still = np.where(after, 0.0, 1.0)
    none = np.zeros(n, dtype=bool)
    return Motion(still, still, np.tile(up, (n, 1)), end, none, none)


def trial(subject, name, X, *, is_fall=False, overlaps=None, fall_ns=None, duration_s=60.0, motion=None):
    """A trial whose windows end at 5.0, 5.5, ... s."""
    X = np.asarray(X, dtype=float).reshape(-1, 2)
    none = np.zeros(X.shape[0], dtype=bool)
    t_end_ns = 5_000_000_000 + HOP_NS * np.arange(X.shape[0], dtype=np.int64)
    if is_fall and fall_ns is None:
        fall_ns = (5_000_000_000, 5_000_000_000)
    overlaps = np.full(X.shape[0], is_fall) if overlaps is None else np.asarray(overlaps, dtype=bool)
    return Trial(
        name,
        subject,
        is_fall,
        duration_s,
        fall_ns,
        X,
        np.abs(X).max(axis=1, initial=0.0),
        overlaps,
        Shown(t_end_ns, moving(X.shape[0]) if motion is None else motion, none, none),
    )


def crowd(*, n_both=6, n_normal_only=2, n_falls_only=3, separation=6.0, seed=0, n_windows=8):
    """People with eight normal trials each, and three falls each that lie `separation` away in their middle window."""
    rng = np.random.default_rng(seed)
    people = [(f"b{i}", True, True) for i in range(n_both)]
    people += [(f"n{i}", False, True) for i in range(n_normal_only)]
    people += [(f"f{i}", True, False) for i in range(n_falls_only)]
    trials = []
    for person, falls, normals in people:
        if normals:
            trials += [trial(person, f"{person}/adl/{j}", rng.normal(size=(n_windows, 2))) for j in range(8)]
        for j in range(3 if falls else 0):
            X = rng.normal(size=(n_windows, 2))
            X[n_windows // 2 :] += separation
            overlaps = np.arange(n_windows) >= n_windows // 2
            trials.append(trial(person, f"{person}/fall/{j}", X, is_fall=True, overlaps=overlaps))
    return trials


@dataclass
class Distance:
    """Distance from the training mean; keeps what it was fitted on in `seen` (for runs in one process)."""

    key: str = "distance"
    seen: list[Windows] = field(default_factory=list)
    seeds: list[int] = field(default_factory=list)

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        self.seen.append(normal)
        self.seeds.append(seed)
        mean = normal.X.mean(axis=0)
        return lambda windows: np.sqrt(((windows.X - mean) ** 2).sum(axis=1))


@dataclass
class Constant:
    """Says the same of everything."""

    key: str = "constant"

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        return lambda windows: np.full(len(windows), 7.0)


@dataclass
class NotFinite:
    """Breaks the promise of finite scores."""

    key: str = "not_finite"

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        return lambda windows: np.full(len(windows), np.inf)
