"""A wearer's own rows among the training rows of a frozen neighbours' scorer, and how that scores the rest of them.

What looks like a fall stays out: rows above the general model's threshold, and rows that overlap one of them in time.
The scales and the fusion's weights stay those of the general model, so that scores stay comparable.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stream_occ.engines import nearest
from stream_occ.projection import project
from stream_occ.samples import NS_PER_S, BoolArray, FloatArray, IntArray
from stream_occ.scoring import Scorer, evidence_fusion, load_scorer, ocnn_ensemble
from stream_occ.training.data import TrainingData

MAX_ROWS = 10_000  # of the wearer: 83 minutes, a window every half second
PART_S = 60.0

__all__ = ["MAX_ROWS", "beside", "blend", "k_neighbors_of", "n_rows_of", "own_scores", "parts", "thinned"]


def k_neighbors_of(scorer: Scorer, tuning: Any) -> int | None:
    """K of the members' own distances, by the trainer's summary; None for a scorer that no rows can be added to."""
    found = tuning.get("k_neighbors") if isinstance(tuning, dict) else None
    if _prefix(scorer) is None or not isinstance(found, dict) or len(found) != 1:
        return None
    (k,) = found
    return int(k) if str(k).isdecimal() and int(k) >= 1 else None


def n_rows_of(scorer: Scorer) -> int:
    """Training rows that the scorer keeps."""
    return len(scorer.arrays()[f"{_prefix(scorer) or ''}X"])


def _prefix(scorer: Scorer) -> str | None:
    """What stands before the names of the neighbours' arrays; None where there are none."""
    if isinstance(scorer, ocnn_ensemble.FrozenScorer):
        return ""
    if isinstance(scorer, evidence_fusion.FrozenScorer) and isinstance(scorer.novelty, ocnn_ensemble.FrozenScorer):
        return f"{evidence_fusion.NOVELTY}."
    return None


def blend(scorer: Scorer, rows: FloatArray, k_neighbors: int) -> Scorer:
    """The scorer with scaled rows (n, d) beside its own: at most as many, and MAX_ROWS, evenly taken.

    In each member a new row's own distance is to its K nearest of all rows; the rows that were there keep theirs, and
    theta and floor stay. Raises ValueError where `k_neighbors_of` is None.
    """
    prefix = _prefix(scorer)
    if prefix is None:
        raise ValueError(f"scorer must keep its training rows; one of kind {scorer.KIND} does not")
    rows = rows[thinned(len(rows), n_rows_of(scorer))]
    arrays = scorer.arrays()
    X, maps, own = (arrays[f"{prefix}{name}"] for name in ("X", "maps", "own_distance"))
    if not len(rows):
        return scorer
    everything = np.concatenate([X, rows])
    distances = np.empty((len(maps), len(rows)))
    for member, matrix in enumerate(maps):
        kept = np.concatenate([own[member] >= 0.0, np.ones(len(rows), dtype=np.bool_)])
        mapped = project(everything[kept], matrix)
        numbers = np.arange(len(mapped) - len(rows), len(mapped))
        distances[member] = nearest(mapped[numbers], mapped, k_neighbors, skip=numbers)[0].mean(axis=1)
    new = {"X": everything, "own_distance": np.concatenate([own, distances], axis=1)}
    arrays |= {f"{prefix}{name}": array for name, array in new.items()}
    return load_scorer(scorer.KIND, arrays, scorer.params())


def thinned(n: int, n_general: int) -> IntArray:
    """Rows of n that are kept beside n_general: all, or as many as are allowed, evenly taken."""
    most = min(n_general, MAX_ROWS)
    return np.arange(n) if n <= most else np.linspace(0, n - 1, most).round().astype(np.int64)


def beside(marked: BoolArray, recording: IntArray, t_end_ns: IntArray, window_s: float) -> BoolArray:
    """Rows (n,) whose window overlaps that of a marked row of the same recording, the marked ones among them."""
    near, window_ns = marked.copy(), round(window_s * NS_PER_S)
    for number in np.unique(recording[marked]).tolist():
        rows = np.flatnonzero(recording == number)
        ends, t_ns = np.sort(t_end_ns[rows[marked[rows]]]), t_end_ns[rows]
        after = np.searchsorted(ends, t_ns)
        nearest_ns = np.minimum(
            np.abs(t_ns - ends[np.maximum(after - 1, 0)]), np.abs(t_ns - ends[np.minimum(after, ends.size - 1)])
        )
        near[rows] |= nearest_ns < window_ns
    return near


def parts(activities: list[str], recording: IntArray, t_end_ns: IntArray, n_parts: int = 2) -> IntArray:
    """Part (n,), from 0 on, of each row: recordings of an activity in turn, and minutes of a recording in turn."""
    activity = np.unique(np.array(activities), return_inverse=True)[1]
    order = np.lexsort((t_end_ns, recording, activity))
    of_recording = recording[order]
    starts = np.flatnonzero(np.diff(of_recording, prepend=-1))
    since_ns = t_end_ns[order] - np.repeat(t_end_ns[order][starts], np.diff(np.append(starts, len(order))))
    minute = since_ns // round(PART_S * NS_PER_S)
    is_new = (np.diff(of_recording, prepend=-1) != 0) | (np.diff(minute, prepend=-1) != 0)
    part = np.empty(len(order), dtype=np.int64)
    part[order] = (np.cumsum(is_new) - 1) % n_parts
    return part


def own_scores(
    scorer: Scorer,
    scaled: FloatArray,
    data: TrainingData,
    rows: IntArray,
    *,
    admitted: BoolArray,
    k_neighbors: int,
    window_s: float,
    n_parts: int = 2,
) -> FloatArray:
    """Scores (n,) of one person's `rows` of the data, each half (part) by the scorer blended with all the others.

    scaled (n, d) are the rows as the scorer takes them; of the other parts those count that are admitted (n,) and
    overlap no row of this part.
    """
    recording, t_end_ns = data.recording[rows], data.shown.t_end_ns[rows]
    part = parts([data.recordings[i].activity for i in recording.tolist()], recording, t_end_ns, n_parts)
    scores = np.empty(len(rows))
    for number in range(n_parts):
        out = part == number
        known = admitted & ~beside(out, recording, t_end_ns, window_s)
        scores[out] = blend(scorer, scaled[known], k_neighbors).score(scaled[out])
    return scores
