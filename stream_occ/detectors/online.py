"""Detectors that learn on a stream in bounded memory, after river's interface; needs the extra `online`.

`learn_one(x)` and `score_one(x)` take one row as a mapping of feature names to numbers; a score is high = abnormal, and
0 until there is enough to compare with. A name that x lacks counts as 0. Scale first, by a frozen scaler: one that
moves would change what earlier rows, landmarks and thresholds mean. All are guarded: none learns from rows that score
high, nor while an alert is open or the device is muted.

This is the one module that imports river; the rest of the package does without.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from river import base
from scipy.linalg import cho_factor, cho_solve

from stream_occ.detectors._base import check_parameter, is_count, is_number
from stream_occ.detectors._columns import Columns, Row, check_finite
from stream_occ.detectors._tuning import floor_reference
from stream_occ.kernels import KernelPoints, rms_bandwidth
from stream_occ.neighbors import pair_distances_squared
from stream_occ.samples import FloatArray, IntArray
from stream_occ.scoring.ocnn_ensemble import LARGEST_RATIO, ratio_of

__all__ = ["GuardedLearner", "OnlineKernelRidge", "SlidingOCNN"]

_Refusal = Literal["alert", "muted", "score"]

_SMALLEST_EIGENVALUE = 1e-10  # of the landmarks' kernel, as a share of the largest: below it is rounding


class GuardedLearner(base.AnomalyDetector):
    """What learns only from rows that look normal, and from none while an alert is open or muted: base of those here.

    A row is refused where its score, when it comes, is above `limit`. The others wait until `hold_back` more came:
    windows overlap, and compared with its own neighbour any would look normal. While `is_alert_open` or `is_muted`,
    which the caller sets, a new row and all that wait are refused: what led to an alert is not learned either, and who
    mutes a device says that what comes is not to be trusted.

    The limit is the threshold given, or: the first `n_trusted` rows that score above 0 are trusted, and should hold all
    of everyday life; the limit is the q-quantile of the later half of their scores. After each n_trusted rows more that
    were learned it is their median plus the trusted ones' distance from median to quantile, if that is more: so it
    follows a slow lasting change. A running quantile would not do: of all scores, a long burst would lift it; of those
    learned, cut off at the limit itself, it would sink to nothing. `n_refused` counts; when its share rises a person
    should look.

    What this cannot keep out: abnormality that grows slowly enough for each row to score as normal.

    Parameters
    ----------
    quantile : q in [.5, 1).
    n_trusted : rows, at least 1; 3600 is half an hour at a hop of 0.5 s.
    hold_back : rows, at least 0; more than a window's length over the hop.
    threshold : fixed score above which rows are refused, from the start; infinity refuses none; None: by quantile.
    """

    def __init__(self, quantile: float, n_trusted: int, hold_back: int, threshold: float | None) -> None:
        check_parameter("quantile", quantile, "in [0.5, 1)", is_number(quantile) and 0.5 <= quantile < 1)
        check_parameter("n_trusted", n_trusted, "an int >= 1", is_count(n_trusted, 1))
        check_parameter("hold_back", hold_back, "an int >= 0", is_count(hold_back, 0))
        is_known = threshold is None or threshold == math.inf or is_number(threshold)
        check_parameter("threshold", threshold, "a number, infinity or None", is_known)
        self.quantile = quantile
        self.n_trusted = n_trusted
        self.hold_back = hold_back
        self.threshold = threshold
        self.is_alert_open = False
        self.is_muted = False
        self.n_learned = 0
        self.n_refused: dict[_Refusal, int] = {"alert": 0, "muted": 0, "score": 0}
        self.limit = threshold
        self._least_limit, self._reach = -math.inf, 0.0  # quantile of the trusted, and how far above their median
        self._recent: list[float] = []
        self._waiting: deque[tuple[Row, float]] = deque()

    def refusal(self, x: Row) -> _Refusal | None:
        """Why x would not be learned now, or None."""
        return self._refusal(self.score_one(x))

    def learn_one(self, x: Row) -> None:
        """Has x wait to be learned, or counts why not; and learns the row that has waited long enough."""
        check_finite(x)
        score = self.score_one(x) if self.limit != math.inf else 0.0
        reason = self._refusal(score)
        if reason is not None:
            self.n_refused[reason] += 1
            if reason != "score":
                self.n_refused[reason] += len(self._waiting)
                self._waiting.clear()
            return
        self._waiting.append((dict(x), score))
        if len(self._waiting) > self.hold_back:
            oldest, its_score = self._waiting.popleft()
            self.n_learned += 1
            self._learn(oldest)
            self._move_limit(its_score)

    def _learn(self, x: Row) -> None:
        """Takes x in, finite and let through, the n_learned-th."""
        raise NotImplementedError

    def _refusal(self, score: float) -> _Refusal | None:
        if self.is_alert_open or self.is_muted:
            return "alert" if self.is_alert_open else "muted"
        return "score" if self.limit is not None and score > self.limit else None

    def _move_limit(self, score: float) -> None:
        """Counts the score of a row that was learned."""
        if self.threshold is not None or score == 0.0:  # 0: the detector itself had not begun
            return
        self._recent.append(score)
        if len(self._recent) < self.n_trusted:
            return
        if self.limit is None:
            self._recent = self._recent[len(self._recent) // 2 :]
            self._least_limit = float(np.quantile(self._recent, self.quantile))
            self._reach = self._least_limit - float(np.median(self._recent))
        self.limit = max(self._least_limit, float(np.median(self._recent)) + self._reach)
        self._recent = []


class SlidingOCNN(GuardedLearner):
    """One-class nearest neighbours over a sliding window or a reservoir of rows, equal to a batch OCNN on those rows.

    Score: nn_ratio = D_J / (D_K + floor * m) as in `OCNN`, infinity standing as 1e300; equal distances go to the row
    that came first. Each row's K nearest others are kept up as rows come and go: a new row is compared with all, and
    only rows that lose a neighbour are searched again, about K of them for one that goes. Memory: window_size rows
    and their K neighbours. 0 until max(J, K + 1) rows are there.

    Parameters
    ----------
    window_size : rows kept, at least max(J, K + 1).
    n_neighbors, k_neighbors : J and K, ints >= 1.
    floor : >= 0, as in `OCNN`; 0 is the paper's ratio, which needs 0/0 = 0 where rows are doubled.
    sampling : "window" keeps the last rows; "reservoir" a uniform sample of all rows so far (Vitter's algorithm R): an
        hour in a chair pushes nothing else out.
    seed : of the reservoir; None draws afresh.
    quantile, n_trusted, hold_back, threshold : of the guard, as in `GuardedLearner`.

    Examples
    --------
    >>> detector = SlidingOCNN(window_size=8, n_neighbors=1, k_neighbors=1, floor=0.0, hold_back=0)
    >>> for value in range(10):
    ...     detector.learn_one({"a": float(value)})
    >>> detector.score_one({"a": 4.5}), detector.score_one({"a": 12.0})
    (0.5, 3.0)
    """

    def __init__(
        self,
        window_size: int = 1000,
        n_neighbors: int = 5,
        k_neighbors: int = 5,
        floor: float = 10.0,
        sampling: Literal["window", "reservoir"] = "window",
        seed: int | None = None,
        *,
        quantile: float = 0.99,
        n_trusted: int = 3600,
        hold_back: int = 20,
        threshold: float | None = None,
    ) -> None:
        super().__init__(quantile, n_trusted, hold_back, threshold)
        check_parameter("n_neighbors", n_neighbors, "an int >= 1", is_count(n_neighbors, 1))
        check_parameter("k_neighbors", k_neighbors, "an int >= 1", is_count(k_neighbors, 1))
        least = max(n_neighbors, k_neighbors + 1)
        check_parameter("window_size", window_size, f"an int >= {least}", is_count(window_size, least))
        check_parameter("floor", floor, "a finite number >= 0", is_number(floor) and floor >= 0)
        check_parameter("sampling", sampling, '"window" or "reservoir"', sampling in ("window", "reservoir"))
        self.window_size = window_size
        self.n_neighbors = n_neighbors
        self.k_neighbors = k_neighbors
        self.floor = floor
        self.sampling = sampling
        self.seed = seed
        self._columns = Columns()
        self._rng = np.random.default_rng(seed)
        self._n_rows = 0
        self._X = np.empty((window_size, 0))
        self._number = np.zeros(window_size, dtype=np.int64)  # when the row in a slot came
        self._near = np.full((window_size, k_neighbors), -1)  # slots of each row's K nearest others, nearest first
        self._near_squared = np.full((window_size, k_neighbors), np.inf)
        self._floor_term: float | None = None

    def _learn(self, x: Row) -> None:
        """Takes x in; the row that has to go, goes."""
        self._columns.learn(x)
        row = self._columns.row(x)
        missing = len(row) - self._X.shape[1]
        if missing:
            self._X = np.pad(self._X, ((0, 0), (0, missing)))
        slot = self._slot()
        if slot is not None:
            self._put(slot, row)
            self._floor_term = None

    def score_one(self, x: Row) -> float:
        """nn_ratio of x, high = abnormal."""
        j, n_rows = self.n_neighbors, self._n_rows
        if n_rows < max(j, self.k_neighbors + 1):
            return 0.0
        squared = self._squared_to(self._columns.row(x))
        nearest = np.flatnonzero(squared <= np.partition(squared, j - 1)[j - 1])
        nearest = nearest[np.lexsort((self._number[nearest], squared[nearest]))[:j]]
        if self._floor_term is None:
            self._floor_term = floor_reference(self._own_distance(slice(n_rows)), self.floor)
        distance = np.sqrt(squared[nearest]).mean()
        reference = self._own_distance(nearest).mean() + self._floor_term
        return min(float(ratio_of(distance, reference)), LARGEST_RATIO)

    def rows(self) -> FloatArray:
        """The rows kept (n, d), in the order in which they came; columns as in `feature_names`."""
        return self._X[: self._n_rows][np.argsort(self._number[: self._n_rows])]

    @property
    def feature_names(self) -> tuple[Any, ...]:
        """Names of the columns."""
        return self._columns.names

    def _slot(self) -> int | None:
        """Where the newest row goes; None where the reservoir passes it over."""
        if self._n_rows < self.window_size:
            return self._n_rows
        if self.sampling == "window":
            return (self.n_learned - 1) % self.window_size
        drawn = int(self._rng.integers(self.n_learned))
        return drawn if drawn < self.window_size else None

    def _put(self, slot: int, row: FloatArray) -> None:
        """Writes the row and brings everyone's K nearest up to date."""
        is_new = slot == self._n_rows
        self._n_rows += is_new
        n_rows, k = self._n_rows, self.k_neighbors
        self._X[slot], self._number[slot] = row, self.n_learned
        bereft = [] if is_new else np.flatnonzero((self._near[:n_rows] == slot).any(axis=1)).tolist()
        squared = self._squared_to(row)
        closer = np.flatnonzero(squared < self._near_squared[:n_rows, -1])
        closer = closer[closer != slot]
        slots = np.column_stack((self._near[closer], np.full(len(closer), slot)))
        values = np.column_stack((self._near_squared[closer], squared[closer]))
        order = np.argsort(values, axis=1, kind="stable")[:, :k]
        self._near[closer] = np.take_along_axis(slots, order, axis=1)
        self._near_squared[closer] = np.take_along_axis(values, order, axis=1)
        self._search(slot, squared)
        for other in bereft:
            self._search(other, self._squared_to(self._X[other]))

    def _search(self, slot: int, squared: FloatArray) -> None:
        """The K nearest others of the row in `slot` from its squared distances to all."""
        squared = squared.copy()
        squared[slot] = np.inf
        n_found = min(self.k_neighbors, self._n_rows - 1)
        found = np.argpartition(squared, n_found)[:n_found] if n_found else np.empty(0, dtype=np.int64)
        found = found[np.argsort(squared[found])]
        self._near[slot, :n_found], self._near_squared[slot, :n_found] = found, squared[found]

    def _squared_to(self, row: FloatArray) -> FloatArray:
        rows = self._X[: self._n_rows]
        return pair_distances_squared(rows, np.broadcast_to(row, rows.shape))

    def _own_distance(self, slots: IntArray | slice) -> FloatArray:
        """Mean distance of the rows in `slots` to their K nearest others."""
        own: FloatArray = np.sqrt(self._near_squared[slots]).mean(axis=1)
        return own


class OnlineKernelRidge(GuardedLearner):
    """Kernel ridge regression of every row to 1, on Nystrom features of fixed landmarks, by recursive least squares.

    Score |O(x) - 1| with O(x) = psi(x)'b: the output layer of Gautam et al. (arXiv 1904.06491, equation 25, without a
    graph) in its primal form, psi(x) = E^-1/2 V' k(x) from the landmarks' kernel V E V' (eigenvalues below 1e-10 of
    the largest left out), k by `rms_bandwidth` of the landmarks. With weights g^age, g the forgetting factor, b solves
    (sum g^age psi psi' + I / C) b = sum g^age psi. Both sums are kept up row by row; the system is solved, by Cholesky,
    when a score is asked for after a row was learned. No error builds up, and the ridge does not fade with the rows.

    Parameters
    ----------
    n_landmarks : drawn from the first `warm_up` rows without replacement.
    C : > 0; 1 / C is the ridge.
    forgetting_factor : g in (0, 1]; 1 forgets nothing, else the memory is about 1 / (1 - g) rows.
    warm_up : rows kept until landmarks are drawn; scores are 0 until then. These rows are then learned.
    landmarks : rows to use instead; n_landmarks, warm_up and seed are then without effect.
    seed : of the drawing; None draws afresh.
    quantile, n_trusted, hold_back, threshold : of the guard, as in `GuardedLearner`.
    """

    def __init__(
        self,
        n_landmarks: int = 100,
        C: float = 1.0,
        forgetting_factor: float = 1.0,
        warm_up: int = 500,
        landmarks: Sequence[Row] | None = None,
        seed: int | None = None,
        *,
        quantile: float = 0.99,
        n_trusted: int = 3600,
        hold_back: int = 20,
        threshold: float | None = None,
    ) -> None:
        super().__init__(quantile, n_trusted, hold_back, threshold)
        check_parameter("n_landmarks", n_landmarks, "an int >= 2", is_count(n_landmarks, 2))
        check_parameter("C", C, "a finite number > 0", is_number(C) and C > 0)
        is_factor = is_number(forgetting_factor) and 0 < forgetting_factor <= 1
        check_parameter("forgetting_factor", forgetting_factor, "in (0, 1]", is_factor)
        check_parameter("warm_up", warm_up, f"an int >= {n_landmarks}", is_count(warm_up, n_landmarks))
        check_parameter("landmarks", landmarks, "None or at least 2 rows", landmarks is None or len(landmarks) > 1)
        self.n_landmarks = n_landmarks
        self.C = C
        self.forgetting_factor = forgetting_factor
        self.warm_up = warm_up
        self.landmarks = landmarks
        self.seed = seed
        self._columns = Columns()
        self._first: list[Row] = []
        self._kernel: KernelPoints | None = None
        self._root = self._gram = np.empty((0, 0))
        self._moment = np.empty(0)
        self._solution: FloatArray | None = None  # b, None where rows were learned since
        if landmarks is not None:
            self._begin(landmarks)

    def _learn(self, x: Row) -> None:
        """Takes x into the regression; until there are landmarks, x is kept. Later new names are not looked at."""
        if self._kernel is not None:
            self._update(self._features(x))
            return
        self._columns.learn(x)
        self._first.append(x)
        if len(self._first) >= self.warm_up:
            drawn = np.random.default_rng(self.seed).choice(self.warm_up, self.n_landmarks, replace=False)
            first = self._first
            if self._begin([first[i] for i in np.sort(drawn)]):
                self._first = []
                for row in first:
                    self._update(self._features(row))
            else:  # all alike: nothing to compare with yet
                del self._first[0]

    def score_one(self, x: Row) -> float:
        """|O(x) - 1|, high = abnormal."""
        return abs(self.output_one(x) - 1.0) if self._kernel is not None else 0.0

    def output_one(self, x: Row) -> float:
        """O(x): near 1 where rows were learned, 0 far from them."""
        if self._kernel is None:
            return 1.0
        if self._solution is None:
            factor = cho_factor(self._gram + np.eye(len(self._gram)) / self.C, lower=True, check_finite=False)
            self._solution = cho_solve(factor, self._moment, check_finite=False)
        return float(self._features(x) @ self._solution)

    def _begin(self, landmarks: Sequence[Row]) -> bool:
        """Fixes the features; False where the landmarks are all alike."""
        for x in landmarks:
            self._columns.learn(x)
        points = np.array([self._columns.row(x) for x in landmarks])
        bandwidth = rms_bandwidth(points)
        if not bandwidth > 0.0:
            return False
        self._kernel = KernelPoints(points, bandwidth)
        values, vectors = np.linalg.eigh(self._kernel.matrix(self._kernel.points))
        kept = values > _SMALLEST_EIGENVALUE * values[-1]
        self._root = vectors[:, kept] / np.sqrt(values[kept])
        n_features = int(kept.sum())
        self._gram, self._moment = np.zeros((n_features, n_features)), np.zeros(n_features)
        return True

    def _features(self, x: Row) -> FloatArray:
        assert self._kernel is not None
        features: FloatArray = self._kernel.row(self._columns.row(x)) @ self._root
        return features

    def _update(self, psi: FloatArray) -> None:
        self._gram *= self.forgetting_factor
        self._gram += np.outer(psi, psi)
        self._moment = self.forgetting_factor * self._moment + psi
        self._solution = None
