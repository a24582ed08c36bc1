"""Alarm budget: the lowest threshold whose alarms fit so many a day, and what the hours behind it can support.

Alarms are merged episodes of the event engine, not windows. A day is 24 watched hours like those recorded. The hours
must be of people who are not the training people, and of no use in choosing features or model: others do not count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from stream_occ.errors import DataError
from stream_occ.evaluation.alarms import S_PER_HOUR, raised_ns
from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.events import QUIET_STEP_NS, EventPolicy
from stream_occ.samples import NS_PER_S, FloatArray, IntArray
from stream_occ.scoring import Model
from stream_occ.training.data import RecordingSource, hash_recording

CONFIDENCE = 0.95
HOURS_PER_DAY = 24.0
OWN_SETS = frozenset({"csv", "recording"})  # one person's data may come as either


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """Window scores (n,) of one normal recording, ends of the windows t_end_ns (n,), hours that they cover."""

    person: str
    scores: FloatArray
    t_end_ns: IntArray
    hours: float


@dataclass(slots=True)
class Evidence:
    """Normal recordings that a threshold is set on, and what was left out; data_sha256 as `train` computes it."""

    watched: list[Watched] = field(default_factory=list)
    datasets: set[str] = field(default_factory=set)
    placements: set[str] = field(default_factory=set)
    data_sha256: str = ""
    n_falls: int = 0
    n_filtered: int = 0
    n_copies: int = 0
    n_too_short: int = 0

    @property
    def hours(self) -> float:
        """Hours of all recordings together."""
        return sum(one.hours for one in self.watched)

    @property
    def n_people(self) -> int:
        """People with at least one window."""
        return len({one.person for one in self.watched})


@dataclass(frozen=True, slots=True)
class Claim:
    """What `hours` with `n_alarms` say of a budget of `asked_per_day`; bounds hold with 95 % confidence.

    low, high: exact two-sided interval of the rate a day (Garwood); upper: one-sided bound. hours_needed: in all, with
    these alarms and no more, None where no hours are enough (a budget of 0). n_alarms_supporting: the most alarms with
    which these hours would support the budget, None where even none is too many. people_share_upper: bound on the
    share of people who have an alarm in recordings like their own.
    """

    asked_per_day: float
    hours: float
    n_alarms: int
    rate_per_day: float
    low: float
    high: float
    upper: float
    supported: bool
    hours_needed: float | None
    hours_more: float | None
    n_alarms_supporting: int | None
    n_people: int
    n_people_with_alarms: int
    people_share_upper: float

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON."""
        return asdict(self)


def upper_count(n_alarms: int) -> float:
    """One-sided 95 % bound on the mean of a Poisson count: 3.00, 4.74, 6.30, 7.75 for 0, 1, 2, 3."""
    return float(stats.chi2.ppf(CONFIDENCE, 2 * (n_alarms + 1)) / 2)


def count_interval(n_alarms: int) -> tuple[float, float]:
    """Exact two-sided 95 % interval of a Poisson mean (Garwood, Biometrika 28, 1936)."""
    tail = (1 - CONFIDENCE) / 2
    low = float(stats.chi2.ppf(tail, 2 * n_alarms) / 2) if n_alarms else 0.0
    return low, float(stats.chi2.ppf(1 - tail, 2 * (n_alarms + 1)) / 2)


def people_share_upper(n_with: int, n_people: int) -> float:
    """One-sided exact 95 % bound on a share of people; 1 - .05^(1/n) where none of n had an alarm."""
    return 1.0 if n_with >= n_people else float(stats.beta.ppf(CONFIDENCE, n_with + 1, n_people - n_with))


def alarms_within(per_day: float, hours: float) -> int:
    """The most alarms in these hours that are no more than `per_day`."""
    return int(np.floor(per_day * hours / HOURS_PER_DAY + 1e-9))


def alarms_supporting(per_day: float, hours: float) -> int | None:
    """The most alarms with which the one-sided bound stays within `per_day`; None where even no alarm is too many."""
    n = alarms_within(per_day, hours)
    while n >= 0 and upper_count(n) > per_day * hours / HOURS_PER_DAY:
        n -= 1
    return n if n >= 0 else None


def watched_hours(t_end_ns: IntArray, window_s: float) -> float:
    """Hours that windows cover, each moment once: a hole in the stream is no evidence."""
    if not t_end_ns.size:
        return 0.0
    steps_s = np.diff(np.unique(t_end_ns)) / NS_PER_S
    return float((window_s + np.minimum(steps_s, window_s).sum()) / S_PER_HOUR)


def count_alarms(one: Watched, threshold: float, policy: EventPolicy) -> int:
    """Alarms that the engine raises in a recording.

    As `raised_ns` over all of it, but only from each flagged window to where the engine is at rest again: days hold
    few of them.
    """
    flagged = np.flatnonzero(one.scores > threshold)
    if flagged.size < policy.k:
        return 0
    steps_ns = np.clip(np.diff(one.t_end_ns, prepend=one.t_end_ns[:1]), 0, QUIET_STEP_NS)
    quiet_ns = np.cumsum(np.where(one.scores > threshold, 0, steps_ns))
    is_rest = (np.diff(quiet_ns[flagged]) >= policy.clear_after_s * NS_PER_S) & (np.diff(flagged) > policy.n)
    n_alarms = 0
    for stretch in np.split(flagged, np.flatnonzero(is_rest) + 1):
        if stretch.size >= policy.k:
            rows = slice(stretch[0], stretch[-1] + 1)
            n_alarms += len(raised_ns(one.scores[rows], one.t_end_ns[rows], threshold, policy))
    return n_alarms


def lowest_threshold(watched: Sequence[Watched], policy: EventPolicy, n_allowed: int) -> float:
    """Lowest score such that it, and every higher one, as the threshold raises at most n_allowed alarms.

    From the top down, since long alarms merge and a count may fall again where nearly everything is flagged. Raises
    DataError where no threshold raises more: then these recordings cannot tell a useful one.
    """
    levels, level_of = np.unique(np.concatenate([one.scores for one in watched]), return_inverse=True)
    owner = np.repeat(np.arange(len(watched)), [one.scores.size for one in watched])
    order = np.argsort(level_of, kind="stable")
    starts = np.searchsorted(level_of[order], np.arange(levels.size + 1))
    counts = np.zeros(len(watched), dtype=np.int64)
    for j in range(levels.size - 2, -1, -1):
        newly = order[starts[j + 1] : starts[j + 2]]  # a lower threshold flags these, and changes their recordings
        for i in np.unique(owner[newly]).tolist():
            counts[i] = count_alarms(watched[i], float(levels[j]), policy)
        if counts.sum() > n_allowed:
            return float(levels[j + 1])
    raise DataError(
        "recordings",
        f"raise more than {n_allowed} alarms at some threshold",
        f"{int(counts.sum())} with nearly every window flagged",
        "Lower --max-false-alarms-per-day, or record for longer",
    )


def claim(evidence: Evidence, threshold: float, policy: EventPolicy, per_day: float) -> Claim:
    """What the recordings support at a threshold."""
    counts = [(one.person, count_alarms(one, threshold, policy)) for one in evidence.watched]
    n_alarms, days = sum(n for _, n in counts), evidence.hours / HOURS_PER_DAY
    low, high = count_interval(n_alarms)
    n_with = len({person for person, n in counts if n})
    needed = None if per_day == 0 else HOURS_PER_DAY * upper_count(n_alarms) / per_day
    return Claim(
        asked_per_day=per_day,
        hours=evidence.hours,
        n_alarms=n_alarms,
        rate_per_day=n_alarms / days,
        low=low / days,
        high=high / days,
        upper=upper_count(n_alarms) / days,
        supported=needed is not None and needed <= evidence.hours,
        hours_needed=needed,
        hours_more=None if needed is None else max(0.0, needed - evidence.hours),
        n_alarms_supporting=alarms_supporting(per_day, evidence.hours),
        n_people=evidence.n_people,
        n_people_with_alarms=n_with,
        people_share_upper=people_share_upper(n_with, evidence.n_people),
    )


def may_overlap(metadata: Mapping[str, Any], evidence: Evidence) -> bool:
    """Whether these may be training people: a model file names its data sets, not its people.

    Raises DataError for the very recordings that the model was trained on.
    """
    if metadata.get("data_sha256") == evidence.data_sha256:
        raise DataError(
            "recordings",
            "be of people who are not the training people",
            "the very recordings that the model was trained on",
            "Record others, or train again with --exclude-people and name those people here with --people",
        )
    training = metadata.get("training")
    known = training.get("datasets") if isinstance(training, dict) else None
    if not isinstance(known, list) or not known:
        return True
    trained = {str(name) for name in known}
    is_own = bool(trained & OWN_SETS) and bool(evidence.datasets & OWN_SETS)
    return is_own or bool(trained & evidence.datasets)


def read_evidence(
    source: RecordingSource,
    model: Model,
    *,
    people: Collection[str] = (),
    exclude_people: Collection[str] = (),
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> Evidence:
    """Normal recordings, cut and scored as the service does; falls are left out unseen, copies are counted once.

    people: these alone, where any is named. Raises DataError for a name that is not in the data, or where no window is
    left.
    """
    front_end = FrontEnd(model.feature_set.name, model.rate_hz, model.window_s, model.hop_s)
    evidence, hasher = Evidence(), hashlib.sha256()
    seen: set[bytes] = set()
    names: set[str] = set()
    for n_read, recording in enumerate(source.iter_recordings(), start=1):
        progress("Scoring recordings", n_read, source.n_files)
        if recording.is_fall:
            evidence.n_falls += 1
            continue
        names.add(recording.subject)
        if (people and recording.subject not in people) or recording.subject in exclude_people:
            evidence.n_filtered += 1
            continue
        block = recording.block
        samples = (block.t_ns, block.acc_ms2, block.gyr_rads)
        digest = hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in samples)).digest()
        if digest in seen:
            evidence.n_copies += 1
            continue
        seen.add(digest)
        trial = extract_trial(recording, front_end)
        scores = model.score_features(trial.X)
        kept = ~np.isnan(scores)  # as the pipeline: no verdict
        if not kept.any():
            evidence.n_too_short += 1
            continue
        t_end_ns = trial.t_end_ns[kept]
        hours = watched_hours(t_end_ns, model.window_s)
        evidence.watched.append(Watched(recording.subject, scores[kept], t_end_ns, hours))
        evidence.datasets.add(recording.dataset)
        evidence.placements.add(recording.placement)
        hash_recording(hasher, recording)
    _check_found(evidence, names, {*people, *exclude_people})
    evidence.data_sha256 = hasher.hexdigest()
    return evidence


def _check_found(evidence: Evidence, names: set[str], asked: set[str]) -> None:
    unknown = sorted(asked - names)
    if unknown:
        known = ", ".join(sorted(names)[:40]) or "nobody's"
        got = ", ".join(map(repr, unknown))
        raise DataError("people", "be in the data", got, f"It holds normal recordings of {known}")
    if not evidence.watched:
        left_out = (
            f"{evidence.n_falls} fall recordings, {evidence.n_filtered} by filters, {evidence.n_too_short} too short"
        )
        raise DataError("recordings", "hold normal activity", f"none (left out: {left_out})", "Record some")
