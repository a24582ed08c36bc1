"""Normal windows scored by detectors that never saw their person, and the threshold that they give."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_occ.alarm_budget import Claim, HoursOfPeople, Watched, alarms_within, claim, lowest_threshold
from stream_occ.errors import DataError
from stream_occ.events import EventPolicy
from stream_occ.samples import BoolArray, FloatArray, IntArray
from stream_occ.training import fitting
from stream_occ.training.config import TrainingConfig
from stream_occ.training.data import ProgressReport, TrainingData

PART_S = 60.0  # of one person's day, held out in turn


CLEARLY_LOWER = 0.05  # share of the way from the median score to the threshold


@dataclass(frozen=True, slots=True, eq=False)
class Evidence:
    """Scores (n,) of normal windows by detectors that never saw their person (recording, part): `unit` says which.

    `rejected` (n,) is by the threshold of the rule: the model's own, or for `detector` that of the fold's detector.
    claim: what the hours say of the alarms at the model's threshold, with rule `budget`.
    """

    unit: str
    n_folds: int
    scores: FloatArray
    rejected: BoolArray
    activities: tuple[str, ...]
    claim: Claim | None = None


def hold_out(
    data: TrainingData, config: TrainingConfig, progress: ProgressReport, notes: list[str]
) -> tuple[Evidence, float | None]:
    """Scores of held-out windows, and the threshold by them (None for rule `detector`)."""
    from stream_occ.detectors.calibration import quantile_threshold

    is_item = ~data.shown.is_closing
    unit, fold, guard = _folds(data.items(), config)
    fold = _of_all(fold, data, is_item)
    if unit != "people":
        notes.append(
            "one person: the threshold comes from other minutes of the same recordings, and says nothing of other "
            "people and other days. Record several people, or hours of this one"
        )
    n_folds = int(fold.max()) + 1
    scores, own_threshold = np.empty(len(data.X)), np.empty(len(data.X))
    for number in range(n_folds):
        out = fold == number
        stage = f"Holding out {unit}, {number + 1} of {n_folds}"
        rows = ~out & ~_near(out, guard) & is_item
        scaler, detector = fitting.fit(data.X[rows], config, stage, progress, notes, fitting.people_of(data, rows))
        scores[out] = detector.to_scorer().score(scaler.transform(data.X[out]))
        own_threshold[out] = detector.score_threshold_
    own, activities = scores[is_item], tuple(data.items().activities())
    if config.threshold.rule == "detector":
        return Evidence(unit, n_folds, own, own > own_threshold[is_item], activities), None
    claimed = None
    if config.threshold.rule == "budget":
        threshold, claimed = _within_budget(data, config, scores, notes)
    else:
        threshold = quantile_threshold(own, config.threshold.reject_share)
    return Evidence(unit, n_folds, own, own > threshold, activities, claimed), threshold


def _within_budget(
    data: TrainingData, config: TrainingConfig, scores: FloatArray, notes: list[str]
) -> tuple[float, Claim]:
    """The lowest threshold whose alarms on held-out windows, as the service would raise them, fit the budget.

    A note says where one person decides it.
    """
    per_day = config.threshold.max_false_alarms_per_day
    policy = EventPolicy().for_windows(config.window_s, config.hop_s)
    watched = watched_recordings(data, scores, config.window_s)
    n_allowed = alarms_within(per_day, sum(one.hours for one in watched))
    threshold = lowest_threshold(watched, policy, n_allowed)
    notes += _decided_by_one(data, watched, threshold, policy, per_day)
    datasets = {recording.name.partition("/")[0] for recording in data.recordings}
    return threshold, claim(watched, threshold, policy, per_day, datasets=datasets)


def _decided_by_one(
    data: TrainingData, watched: list[Watched], threshold: float, policy: EventPolicy, per_day: float
) -> list[str]:
    """A note where the threshold lies at one person's window, and clearly lower without that person."""
    numbers = np.unique(data.recording).tolist()
    deciding = [number for number, one in zip(numbers, watched, strict=True) if threshold in one.scores]
    others = [one for one in watched if one.person != data.recordings[deciding[0]].person]
    if len(deciding) > 1 or not others:
        return []
    without = lowest_threshold(others, policy, alarms_within(per_day, sum(one.hours for one in others)))
    median = float(np.median(np.concatenate([one.scores for one in watched])))
    if threshold - without < CLEARLY_LOWER * (threshold - median):
        return []
    return [
        f"one moment of {data.recordings[deciding[0]].name} decides the threshold of {threshold:.4g}; without that "
        f"person it would be {without:.4g}, and fewer falls would be missed. See whether it is normal activity, worn "
        "as usual"
    ]


def watched_recordings(data: TrainingData, scores: FloatArray, window_s: float) -> list[Watched]:
    """The recordings as the engine sees them, each with its own of the scores (n,)."""
    watched, hours = [], HoursOfPeople()
    for number in np.unique(data.recording).tolist():
        rows = np.flatnonzero(data.recording == number)
        person, shown = data.recordings[number].person, data.shown.take(rows)
        added = hours.add(person, shown.t_end_ns[~shown.is_closing], window_s)
        watched.append(Watched(person, scores[rows], shown, added))
    return watched


def _folds(data: TrainingData, config: TrainingConfig) -> tuple[str, IntArray, int]:
    """What is held out, the fold (n,) of each row, and how many rows beside a fold overlap it.

    People where there are two or more. Of one person every n-th minute: held out in longer parts, an activity that was
    done once would be strange to the fold that has it, and its scores would lift the threshold above falls.
    """
    from stream_occ.detectors.calibration import group_folds

    recordings = data.recording.tolist()
    names = [data.recordings[i].person for i in recordings]
    n_people, n_folds, n = len(set(names)), config.threshold.n_folds, len(data.X)
    if n_people >= 2:
        return "people", group_folds(names, min(n_folds, n_people), config.seed), 0
    hop_s = config.train_hop_s or config.hop_s
    guard = int(np.ceil(config.window_s / hop_s))
    if n < 2 * n_folds * guard:
        raise DataError(
            "training data",
            f"hold {2 * n_folds * guard} windows where there is one person alone",
            f"{n}",
            "Record for longer, or record another person",
        )
    part = max(guard, min(round(PART_S / hop_s), n // (2 * n_folds)))
    return "minutes of the same person", np.arange(n) // part % n_folds, guard


def _of_all(fold: IntArray, data: TrainingData, is_item: BoolArray) -> IntArray:
    """The fold (n,) of each row: a window off the hop is held out with those of its person, of one person with the one
    before it. Who has none on the hop is in no detector, and may be anywhere."""
    before = np.maximum(np.cumsum(is_item) - 1, 0)
    people = np.array([recording.person for recording in data.recordings])[data.recording]
    if len(set(people[is_item].tolist())) < 2:
        own: IntArray = fold[before]
        return own
    of_person = dict(zip(people[is_item].tolist(), fold.tolist(), strict=True))
    return np.array([of_person.get(person, 0) for person in people.tolist()], dtype=np.int64)


def _near(out: BoolArray, guard: int) -> BoolArray:
    """Rows less than `guard` rows from a held-out one."""
    near = np.zeros_like(out)
    for shift in range(1, guard):
        near[shift:] |= out[:-shift]
        near[:-shift] |= out[shift:]
    return near
