"""Alarm budget: the lowest threshold whose alarms fit so many a day, and what the hours behind it can support.

Alarms are episodes of the event engine that the service runs, not windows. A day is 24 watched hours like those
recorded. The hours must be of people who are not the training people, and of no use in choosing features or model:
others do not count.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stream_occ.errors import DataError
from stream_occ.events import Command, EventPolicy, EventState, Observation, command, finish, push
from stream_occ.motion import direction_of
from stream_occ.samples import NS_PER_S, Alert, Decision, FloatArray, IntArray, Label
from stream_occ.watching import Shown

# Where the wearers of the recordings never lie still, checks alone would keep the alarms within any budget.
MAX_FLAGGED_SHARE = 0.05
CONFIDENCE = 0.95
LEAST_PER_DAY = 1e-6  # one in 2700 years
S_PER_HOUR = 3600.0
HOURS_PER_DAY = 24.0
# Data sets that helped to choose this package's features and defaults, and how much of each was at hand then.
DEVELOPMENT_SETS = {
    "mobifall": "its recordings",
    "weda-fall": "its recordings",
    "sp-sw-har": "its recordings",
    "sisfall": "a sample of its recordings",
    "umafall": "a sample of its recordings",
    "fallalld": "a sample of its recordings",
    "smartfallmm": "a sample of its recordings",
}
A_DAY = "24 worn hours like those recorded, and people differ: other people and other days may alarm more"
WHAT_COUNTS = "hours that were also used to train, or to choose features or model, do not count"
YEAR_2000_NS = 946_684_800 * NS_PER_S  # UTC: an earlier stamp is a device's own clock, and tells nothing of other files


@dataclass(frozen=True, slots=True, eq=False)
class Watched:
    """One recording as the engine sees it: scores (n,) of its n windows, what else they show, and hours watched."""

    person: str
    scores: FloatArray
    shown: Shown
    hours: float


def raised_ns(one: Watched, threshold: float, policy: EventPolicy) -> list[int]:
    """Instants at which the engine enters `pending`, from rest at the start; a check at the end counts as it stands.

    Somebody ends each alarm when its countdown is over, so that what comes after may alarm anew. Windows between
    which the engine is at rest are passed over: days hold few others. One that is closing counts where it is flagged.
    """
    instants: list[int] = []
    state, i = EventState(), 0
    is_still = one.shown.motion.is_still(policy.motion_limits)
    flagged = np.flatnonzero(one.scores > threshold)
    while i < one.scores.size:
        if not state.recent and state.state == "normal":
            later = int(np.searchsorted(flagged, i))
            if later == flagged.size:
                break
            i = int(flagged[later])
        elif one.shown.is_closing[i] and one.scores[i] <= threshold:
            i += 1
            continue
        state, told = push(state, _observation(one, i, threshold, is_still=bool(is_still[i])), policy)
        state = _taken_back(state, told, policy)
        instants += _pending(told)
        i += 1
    return instants + list(_pending(finish(state, policy)[1]))


def _observation(one: Watched, i: int, threshold: float, *, is_still: bool) -> Observation:
    score, t_ns, motion = float(one.scores[i]), int(one.shown.t_end_ns[i]), one.shown.motion
    label: Label = "outlier" if score > threshold else "normal"
    is_verdict = label == "outlier" or not one.shown.is_faulty[i]
    return Observation(
        decision=Decision(one.person, t_ns, score, threshold, label, "") if is_verdict else None,
        device_id=one.person,
        t_end_ns=t_ns,
        is_still=is_still,
        gravity_before=direction_of(motion.gravity_before[i]),
        gravity_after=direction_of(motion.gravity_after[i]),
    )


def _pending(told: Sequence[Alert]) -> Iterator[int]:
    return (alert.t_ns for alert in told if alert.state == "pending" and "again" not in alert.reasons)


def _taken_back(state: EventState, told: Sequence[Alert], policy: EventPolicy) -> EventState:
    alarms = [alert for alert in told if alert.state == "alarm"]
    return command(state, Command("cancel", "", alarms[-1].t_ns), policy)[0] if alarms else state


def watched_hours(t_end_ns: IntArray, window_s: float) -> float:
    """Hours that windows cover, each moment once: a hole in the stream is no evidence."""
    if not t_end_ns.size:
        return 0.0
    steps_s = np.diff(np.unique(t_end_ns)) / NS_PER_S
    return float((window_s + np.minimum(steps_s, window_s).sum()) / S_PER_HOUR)


class HoursOfPeople:
    """Hours that recordings add to those of their person so far: what two of them cover at one time counts once.

    Only stamps after the year 2000 tell that two recordings are of one time; others are taken to be apart.
    """

    def __init__(self) -> None:
        self._ends: dict[str, IntArray] = {}

    def add(self, person: str, t_end_ns: IntArray, window_s: float) -> float:
        """Hours that the windows of one more recording add."""
        if not t_end_ns.size or t_end_ns.min() < YEAR_2000_NS:
            return watched_hours(t_end_ns, window_s)
        before = self._ends.get(person, np.empty(0, dtype=np.int64))
        self._ends[person] = np.union1d(before, t_end_ns)
        return watched_hours(self._ends[person], window_s) - watched_hours(before, window_s)


def alarms_within(per_day: float, hours: float) -> int:
    """The most alarms in these hours that are no more than `per_day`."""
    return int(np.floor(per_day * hours / HOURS_PER_DAY + 1e-9))


def lowest_threshold(watched: Sequence[Watched], policy: EventPolicy, n_allowed: int) -> float:
    """Lowest score such that it, and every higher one, as the threshold raises at most n_allowed alarms.

    From the top down, since long alarms merge and a count may fall again where nearly everything is flagged; down to
    where MAX_FLAGGED_SHARE of the windows are flagged. Raises DataError where there is no window.
    """
    scores = np.concatenate([np.empty(0), *(one.scores for one in watched)])
    if not scores.size:
        raise DataError("recordings", "give windows to set a threshold on", "none", "Give longer recordings")
    levels, level_of = np.unique(scores, return_inverse=True)
    owner = np.repeat(np.arange(len(watched)), [one.scores.size for one in watched])
    order = np.argsort(level_of, kind="stable")
    starts = np.searchsorted(level_of[order], np.arange(levels.size + 1))
    counts = np.zeros(len(watched), dtype=np.int64)
    for j in range(levels.size - 2, -1, -1):
        newly = order[starts[j + 1] : starts[j + 2]]  # a lower threshold flags these, and changes their recordings
        if order.size - starts[j + 1] > MAX_FLAGGED_SHARE * order.size:
            return float(levels[j + 1])
        for i in np.unique(owner[newly]).tolist():
            counts[i] = len(raised_ns(watched[i], float(levels[j]), policy))
        if counts.sum() > n_allowed:
            return float(levels[j + 1])
    return float(levels[0])


@dataclass(frozen=True, slots=True)
class Claim:
    """What `hours` with `n_alarms` say of a budget of `asked_per_day`; bounds hold with 95 % confidence.

    expected_per_day: of others like these at most, n_alarms + 1 over the hours: the threshold was lowered to just
    before one alarm more, or less far where MAX_FLAGGED_SHARE ended the search. low, high: exact two-sided interval of
    the rate a day (Garwood); upper: one-sided bound.
    hours_needed: in all, with these alarms and no more, None where no hours are enough (a budget of 0).
    n_alarms_supporting: the most alarms with which these hours would support the budget, None where even none is too
    many. people_share_upper: bound on the share of people who have an alarm in recordings like their own.
    development: data sets among the recordings that helped to choose features or defaults. With one nothing is
    supported, and hours_needed and hours_more are those of others without an alarm.
    """

    asked_per_day: float
    hours: float
    n_alarms: int
    rate_per_day: float
    expected_per_day: float
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
    development: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The fields as plain JSON."""
        return {**asdict(self), "development": list(self.development)}


def claim(
    watched: Sequence[Watched],
    threshold: float,
    policy: EventPolicy,
    per_day: float,
    *,
    datasets: Collection[str] = (),
) -> Claim:
    """What the recordings, which are of these data sets, support at a threshold."""
    development = tuple(sorted(set(datasets).intersection(DEVELOPMENT_SETS)))
    counts = [(one.person, len(raised_ns(one, threshold, policy))) for one in watched]
    hours = sum(one.hours for one in watched)
    n_alarms, days = sum(n for _, n in counts), hours / HOURS_PER_DAY
    low, high = count_interval(n_alarms)
    n_people, n_with = len({person for person, _ in counts}), len({person for person, n in counts if n})
    counting_h, n_counting = (0.0, 0) if development else (hours, n_alarms)
    needed = HOURS_PER_DAY * upper_count(n_counting) / per_day if per_day > LEAST_PER_DAY else None
    return Claim(
        asked_per_day=per_day,
        hours=hours,
        n_alarms=n_alarms,
        rate_per_day=n_alarms / days,
        expected_per_day=(n_alarms + 1) / days,
        low=low / days,
        high=high / days,
        upper=upper_count(n_alarms) / days,
        supported=needed is not None and needed <= counting_h,
        hours_needed=needed,
        hours_more=None if needed is None else max(0.0, needed - counting_h),
        n_alarms_supporting=alarms_supporting(per_day, counting_h),
        n_people=n_people,
        n_people_with_alarms=n_with,
        people_share_upper=people_share_upper(n_with, n_people),
        development=development,
    )


def why_not_counted(development: Collection[str]) -> str:
    """Why hours of these data sets support nothing, in words."""
    named = [
        f"{name} is a development set: {DEVELOPMENT_SETS.get(name, 'its recordings')} helped to choose this package's "
        "features and defaults, so they count for nothing here"
        for name in development
    ]
    return "; ".join(named)


def claim_in_words(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What a claim says, line by line, from its plain JSON; nothing where `found` holds none, as a file may."""
    try:
        rate = (
            f"{found['rate_per_day']:.3g} a day, exact Poisson 95 % interval {found['low']:.3g} to {found['high']:.3g}"
        )
        expected, more = f"expect up to {found['expected_per_day']:.3g}", found["hours_more"]
        development = [str(name) for name in found.get("development", ())]
        supported = "supported" if found["supported"] is True and not development else "not supported"
        if supported != "supported" and more is not None:
            hours = "of others without an alarm" if development else "more without another alarm"
            supported += f", it takes {more:.1f} h {hours}"
        return [
            ("alarms", f"{found['n_alarms']} in {found['hours']:.2f} h of held-out recordings"),
            ("rate", f"{rate}; of others like these {expected}, with 95 % confidence at most {found['upper']:.3g}"),
            ("budget", f"{found['asked_per_day']:g} a day: {supported}"),
            *([("evidence", why_not_counted(development))] if development else []),
            (
                "people",
                f"{found['n_people_with_alarms']} of {found['n_people']} had an alarm; with 95 % confidence at most "
                f"{100 * found['people_share_upper']:.0f} % of people would in recordings like theirs",
            ),
            ("a day", A_DAY),
            ("what counts", WHAT_COUNTS),
        ]
    except (KeyError, TypeError, ValueError):
        return []


def upper_count(n_alarms: int) -> float:
    """One-sided 95 % bound on the mean of a Poisson count: 3.00, 4.74, 6.30, 7.75 for 0, 1, 2, 3."""
    return _chi2(CONFIDENCE, 2 * (n_alarms + 1)) / 2


def count_interval(n_alarms: int) -> tuple[float, float]:
    """Exact two-sided 95 % interval of a Poisson mean (Garwood, Biometrika 28, 1936)."""
    tail = (1 - CONFIDENCE) / 2
    low = _chi2(tail, 2 * n_alarms) / 2 if n_alarms else 0.0
    return low, _chi2(1 - tail, 2 * (n_alarms + 1)) / 2


def people_share_upper(n_with: int, n_people: int) -> float:
    """One-sided exact 95 % bound on a share of people; 1 - .05^(1/n) where none of n had an alarm."""
    from scipy import stats

    return 1.0 if n_with >= n_people else float(stats.beta.ppf(CONFIDENCE, n_with + 1, n_people - n_with))


def alarms_supporting(per_day: float, hours: float) -> int | None:
    """The most alarms with which the one-sided bound stays within `per_day`; None where even no alarm is too many."""
    n = alarms_within(per_day, hours)
    while n >= 0 and upper_count(n) > per_day * hours / HOURS_PER_DAY:
        n -= 1
    return n if n >= 0 else None


def _chi2(share: float, degrees: int) -> float:
    from scipy import stats

    return float(stats.chi2.ppf(share, degrees))
