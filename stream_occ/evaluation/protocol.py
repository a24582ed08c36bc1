"""Groups of people, nested fits, thresholds and pooling: who is trained on, who is tested, and on what scale.

Five groups of people. The model that scores group g is fitted on the normal recordings of the other four. Its
thresholds and its scale come from people held out among those four: for each of them, h, a model is fitted without
{g, h} and scores the normal recordings of h. That model serves g's held-out h as well as h's held-out g, so that ten
such fits are enough for all five folds. Falls enter no fit, no threshold and no scale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

import numpy as np

from stream_occ.detectors.calibration import quantile_threshold
from stream_occ.errors import DataError
from stream_occ.evaluation.metrics import Scored
from stream_occ.samples import BoolArray, FloatArray, IntArray
from stream_occ.watching import Shown

N_GROUPS = 5
LOWER_ANCHOR = 0.50
UPPER_ANCHOR = 0.95


@dataclass(frozen=True, slots=True, eq=False)
class Trial:
    """What evaluation keeps of one recording: a row a window, nothing of the samples.

    X (n, d) unscaled features; peak_acc_ms2 (n,) largest |a| among the recorded samples of each window;
    overlaps_fall (n,); shown: what else the engine sees of the n windows; fall_ns (start, end) of the fall (annotated,
    else twice the instant of the largest |a|), None for a normal recording; duration_s from first to last sample.
    n = 0: the recording is too short, `unscored`.
    Windows that end a segment off the hop, or are all of it, are the pipeline's alone: none is trained on, and none
    counts as an item unless its recording has no others.
    activity as the data set codes it: kind of activity or of fall. is_slow: sampled too slowly for the feature set, and
    unscored for it.
    """

    name: str
    subject: str
    is_fall: bool
    duration_s: float
    fall_ns: tuple[int, int] | None
    X: FloatArray
    peak_acc_ms2: FloatArray
    overlaps_fall: BoolArray
    shown: Shown
    activity: str = ""
    placement: str = "unknown"
    is_slow: bool = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    @property
    def is_on_hop(self) -> BoolArray:
        """Windows (n,) on the hop, all of them whole: to be trained on."""
        return ~self.shown.is_closing

    @property
    def is_item(self) -> BoolArray:
        """Windows (n,) on the hop; where there is none, all."""
        return self.is_on_hop if self.is_on_hop.any() else self.shown.is_closing


@dataclass(frozen=True, slots=True, eq=False)
class Windows:
    """Windows of many recordings, stacked: what a method is fitted on and asked to score.

    subject (n,) names, recording (n,) indices of the recordings that the rows come from.
    """

    X: FloatArray
    peak_acc_ms2: FloatArray
    subject: tuple[str, ...]
    recording: IntArray

    def __len__(self) -> int:
        return int(self.X.shape[0])


ScoreWindows = Callable[[Windows], FloatArray]


class Method(Protocol):
    """A way to score windows, fitted on normal windows alone."""

    @property
    def key(self) -> str:
        """Name in the report."""

    def fit(self, normal: Windows, *, seed: int) -> ScoreWindows:
        """A function that gives a finite score for each window, high = abnormal."""


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """One fit: trained on the normal recordings of all groups but `left_out`, scoring the recordings in `scored`."""

    left_out: tuple[int, ...]
    trained: tuple[int, ...]
    scored: tuple[int, ...]

    def run(self, method: Method, trials: Sequence[Trial], seed: int) -> list[FloatArray]:
        """Window scores of each scored recording; the seed depends on the groups left out alone."""
        job_seed = int(np.random.SeedSequence([seed, *self.left_out]).generate_state(1)[0] >> 1)
        score = method.fit(stack(trials, self.trained, on_hop=True), seed=job_seed)
        windows = stack(trials, self.scored)
        flat = np.asarray(score(windows), dtype=np.float64)
        if flat.shape != (len(windows),) or not np.isfinite(flat).all():
            raise DataError(
                f"method {method.key}",
                "give one finite score a window",
                f"{int((~np.isfinite(flat)).sum())} of {flat.size} not finite",
                "Take the method out of --methods and report this",
            )
        ends = np.cumsum([len(trials[i]) for i in self.scored])[:-1]
        return list(np.split(flat, ends))


@dataclass(frozen=True, slots=True, eq=False)
class Fold:
    """Scores around one tested group: recordings of the group, and normal recordings of the people held out in turn.

    tested, held_out: window scores by index of the recording.
    """

    group: int
    tested: Mapping[int, FloatArray]
    held_out: Mapping[int, FloatArray]


def assign_groups(kinds: Mapping[str, tuple[bool, bool]], *, seed: int = 0, n_groups: int = N_GROUPS) -> dict[str, int]:
    """Group of each person; kinds[person] = (has falls, has normal recordings).

    People of one kind are shuffled and dealt out in turn, going on where the kind before stopped, so that no group has
    more than one person more than another, of those with normal recordings and of all. DataError where fewer people
    than groups have normal recordings: somebody would be tested by a model of too few people.
    """
    n_normal = sum(has_normal for _, has_normal in kinds.values())
    if n_normal < n_groups:
        raise DataError(
            "evaluate: people",
            f"include at least {n_groups} with normal recordings",
            f"{n_normal} of {len(kinds)}",
            "Give a data set of more people",
        )
    rng = np.random.default_rng([seed, 1])
    dealt: list[str] = []
    for kind in ((True, True), (False, True), (True, False), (False, False)):
        people = sorted(person for person, own in kinds.items() if own == kind)
        dealt += [people[i] for i in rng.permutation(len(people))]
    return {person: i % n_groups for i, person in enumerate(dealt)}


def kinds_of_people(trials: Sequence[Trial]) -> dict[str, tuple[bool, bool]]:
    """(has falls, has normal recordings) of each person, in order of their names."""
    falls = {trial.subject for trial in trials if trial.is_fall}
    normals = {trial.subject for trial in trials if not trial.is_fall}
    return {person: (person in falls, person in normals) for person in sorted(falls | normals)}


def plan(trials: Sequence[Trial], group_of: Mapping[str, int], *, n_groups: int = N_GROUPS) -> list[Job]:
    """All fits: one a group that scores the group, one a pair of groups that scores the normal recordings of both."""
    group = [group_of[trial.subject] for trial in trials]
    normal = [i for i, trial in enumerate(trials) if not trial.is_fall]
    jobs = []
    for left_out in [*combinations(range(n_groups), 1), *combinations(range(n_groups), 2)]:
        trained = tuple(i for i in normal if group[i] not in left_out and trials[i].is_on_hop.any())
        candidates = range(len(trials)) if len(left_out) == 1 else normal
        scored = tuple(i for i in candidates if group[i] in left_out)
        if not trained:
            raise DataError(
                "evaluate: normal recordings",
                "give windows to train on in every fold",
                "none in one fold",
                "Shorten the window or give longer recordings",
            )
        jobs.append(Job(left_out, trained, scored))
    return jobs


def folds(
    trials: Sequence[Trial],
    group_of: Mapping[str, int],
    scores: Sequence[tuple[Job, Sequence[FloatArray]]],
    *,
    n_groups: int = N_GROUPS,
) -> list[Fold]:
    """Fold g takes group g from the fit without g, and each other group h from the fit without g and h."""
    by_job = {job.left_out: dict(zip(job.scored, found, strict=True)) for job, found in scores}
    result = []
    for g in range(n_groups):
        held_out: dict[int, FloatArray] = {}
        for h in range(n_groups):
            if h != g:
                of_both = by_job[(min(g, h), max(g, h))]
                held_out |= {i: own for i, own in of_both.items() if group_of[trials[i].subject] == h}
        result.append(Fold(g, by_job[(g,)], held_out))
    return result


def stack(trials: Sequence[Trial], chosen: Sequence[int], *, on_hop: bool = False) -> Windows:
    """Windows of the chosen recordings, in their order; on_hop: whole ones alone."""
    n_features = trials[0].X.shape[1]
    rows = [trials[i].is_on_hop if on_hop else slice(None) for i in chosen]
    X = [trials[i].X[own] for i, own in zip(chosen, rows, strict=True)]
    sizes = [len(own) for own in X]
    return Windows(
        X=np.concatenate([np.empty((0, n_features)), *X]),
        peak_acc_ms2=np.concatenate(
            [np.empty(0), *(trials[i].peak_acc_ms2[own] for i, own in zip(chosen, rows, strict=True))]
        ),
        subject=tuple(trials[i].subject for i, size in zip(chosen, sizes, strict=True) for _ in range(size)),
        recording=np.repeat(np.asarray(chosen, dtype=np.int64), sizes),
    )


def anchors(held_out: FloatArray) -> tuple[float, float]:
    """(centre, scale) of a fold: the median of the held-out scores, and from there to their 95 % quantile.

    (score - centre) / scale is strictly increasing within a fold, so it changes no ranking there; between folds it
    sets 0 and 1 to the same two quantiles of people whom the model had not seen. Where both quantiles are equal, as
    with votes that all accept, the mean absolute distance from the median serves, and 1 for constant scores.
    """
    centre, upper = np.quantile(held_out, [LOWER_ANCHOR, UPPER_ANCHOR])
    smallest = 1e-9 * max(1.0, abs(float(centre)))
    for scale in (float(upper - centre), float(np.abs(held_out - centre).mean())):
        if scale > smallest:
            return float(centre), scale
    return float(centre), 1.0


def trial_anchors(trials: Sequence[Trial], fold: Fold) -> tuple[float, float]:
    """The anchors that recordings of the fold are pooled on: those of the largest scores of held-out recordings."""
    return anchors(_trial_scores(_items(trials, fold.held_out)))


def pool_trials(trials: Sequence[Trial], found: Sequence[Fold], person_of: Mapping[str, int], share: float) -> Scored:
    """One item a recording: its largest window score on its fold's scale; -inf where unscored."""
    parts = []
    for fold in found:
        held_out, tested = _trial_scores(_items(trials, fold.held_out)), _items(trials, fold.tested)
        raw = {i: np.array([scores.max() if scores.size else -np.inf]) for i, scores in tested.items()}
        parts.append(_pooled(fold, raw, held_out, share))
    falls = {i: np.array([trial.is_fall]) for i, trial in enumerate(trials)}
    return _scored(trials, parts, falls, person_of)


def pool_windows(trials: Sequence[Trial], found: Sequence[Fold], person_of: Mapping[str, int], share: float) -> Scored:
    """One item a window on its fold's scale; windows that overlap the fall are falls, all others normal."""
    parts = []
    for fold in found:
        held_out = np.concatenate([np.empty(0), *_items(trials, fold.held_out).values()])
        parts.append(_pooled(fold, _items(trials, fold.tested), held_out, share))
    falls = {i: trial.overlaps_fall[trial.is_item] for i, trial in enumerate(trials)}
    return _scored(trials, parts, falls, person_of)


def _items(trials: Sequence[Trial], scores: Mapping[int, FloatArray]) -> dict[int, FloatArray]:
    """Scores of the windows that are items, by index of the recording."""
    return {i: own[trials[i].is_item] for i, own in scores.items()}


def _trial_scores(scores: Mapping[int, FloatArray]) -> FloatArray:
    """The largest window score of each recording that has windows."""
    return np.array([own.max() for own in scores.values() if own.size])


_Part = dict[int, tuple[FloatArray, BoolArray]]


def _pooled(fold: Fold, raw: Mapping[int, FloatArray], held_out: FloatArray, share: float) -> _Part:
    """Calibrated scores and flags of the tested recordings of one fold."""
    if held_out.size == 0:
        raise DataError(
            "evaluate: normal recordings",
            "give windows of held-out people in every fold",
            f"none around group {fold.group + 1}",
            "Shorten the window or give longer recordings",
        )
    threshold = quantile_threshold(held_out, share)
    centre, scale = anchors(held_out)
    return {i: ((scores - centre) / scale, scores > threshold) for i, scores in raw.items()}


def _scored(
    trials: Sequence[Trial], parts: Sequence[_Part], falls: Mapping[int, BoolArray], person_of: Mapping[str, int]
) -> Scored:
    """Items of all folds, in the order of the recordings."""
    items = [(i, score, flagged) for part in parts for i, (score, flagged) in part.items()]
    items.sort(key=lambda item: item[0])
    sizes = [score.size for _, score, _ in items]
    people = np.array([person_of[trials[i].subject] for i, _, _ in items], dtype=np.int64)
    return Scored(
        score=np.concatenate([score for _, score, _ in items]),
        person=np.repeat(people, sizes),
        is_fall=np.concatenate([falls[i] for i, _, _ in items]),
        flagged=np.concatenate([flagged for _, _, flagged in items]),
        n_people=len(person_of),
    )
