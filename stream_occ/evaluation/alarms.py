"""Figures of the whole pipeline: window scores through the event engine that the service runs, one recording at a time.

Each recording starts from a fresh engine and ends as it ends: no sample is invented, and a check that is under way is
decided on what was seen. A fall is flagged, and a false alarm raised, when the engine enters `pending`. The threshold
is the lowest one with which that happens at most so many times an hour on normal recordings of people held out in
training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from stream_occ.alarm_budget import HOURS_PER_DAY, S_PER_HOUR, Watched, alarms_within, lowest_threshold, raised_ns
from stream_occ.evaluation.protocol import Fold, Trial
from stream_occ.events import EventPolicy
from stream_occ.samples import NS_PER_S, FloatArray

__all__ = ["S_PER_HOUR", "Outcome", "outcome", "outcomes", "threshold_within_budget", "watched"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the pipeline made of one recording. delay_s: from the end of the fall to the flag, None if not flagged."""

    n_false_alarms: int
    is_flagged: bool
    delay_s: float | None


def watched(trial: Trial, scores: FloatArray) -> Watched:
    """A recording as the engine sees it, watched from its first to its last sample."""
    return Watched(trial.subject, scores, trial.shown, trial.duration_s / S_PER_HOUR)


def threshold_within_budget(
    held_out: Sequence[tuple[Trial, FloatArray]], policy: EventPolicy, max_per_hour: float
) -> float:
    """Lowest threshold such that it, and every higher one, raises at most max_per_hour alarms an hour of `held_out`.

    0 where no recording is long enough to hold a window.
    """
    seen = [watched(trial, scores) for trial, scores in held_out]
    if not any(one.scores.size for one in seen):
        return 0.0
    hours = sum(one.hours for one in seen)
    return lowest_threshold(seen, policy, alarms_within(HOURS_PER_DAY * max_per_hour, hours))


def outcome(trial: Trial, scores: FloatArray, threshold: float, policy: EventPolicy) -> Outcome:
    """Alarms of one recording: false in a normal one and before a fall; the first one since its start flags a fall."""
    instants = raised_ns(watched(trial, scores), threshold, policy)
    if trial.fall_ns is None:
        return Outcome(len(instants), False, None)
    start_ns, end_ns = trial.fall_ns
    after = [t_ns for t_ns in instants if t_ns >= start_ns]
    delay_s = (after[0] - end_ns) / NS_PER_S if after else None
    return Outcome(len(instants) - len(after), bool(after), delay_s)


def outcomes(
    trials: Sequence[Trial], found: Sequence[Fold], policy: EventPolicy, max_per_hour: float
) -> Mapping[int, Outcome]:
    """Outcome of every recording, at the threshold of its own fold."""
    result: dict[int, Outcome] = {}
    for fold in found:
        held_out = [(trials[i], scores) for i, scores in fold.held_out.items()]
        threshold = threshold_within_budget(held_out, policy, max_per_hour)
        result |= {i: outcome(trials[i], scores, threshold, policy) for i, scores in fold.tested.items()}
    return dict(sorted(result.items()))
