"""Figures of the whole pipeline: window scores through the event engine that the service runs, one recording at a time.

Each recording starts from a fresh engine and ends as it ends: no sample is invented. The threshold is the lowest one
with which the engine raises at most so many alarms an hour on normal recordings of people held out in training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_occ.evaluation.protocol import Fold, Trial
from stream_occ.events import Command, EventPolicy, EventState, Observation, command, push
from stream_occ.samples import NS_PER_S, OPEN_ALERT_STATES, Decision, FloatArray, IntArray, Label

RAISED = ("alarm",)
S_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the pipeline made of one recording. delay_s: from the end of the fall to the flag, None if not flagged."""

    n_false_alarms: int
    is_flagged: bool
    delay_s: float | None


def raised_ns(scores: FloatArray, t_end_ns: IntArray, threshold: float, policy: EventPolicy) -> list[int]:
    """Instants at which the engine goes from rest to `alarm`, without checks and countdown, each taken at once."""
    policy = replace(policy, check=False, countdown_s=0.0, merge_s=0.0)
    state, instants, is_raised = EventState(), [], False
    for score, t_ns in zip(scores.tolist(), t_end_ns.tolist(), strict=True):
        label: Label = "outlier" if score > threshold else "normal"
        decision = Decision("evaluation", t_ns, score, threshold, label, "evaluation")
        state, alerts = push(state, Observation.of(decision), policy)
        for alert in alerts:
            if alert.state == "alarm" and not is_raised:
                instants.append(alert.t_ns)
            is_raised = alert.state in RAISED or (is_raised and alert.state in OPEN_ALERT_STATES)
        if state.state == "alarm":
            state, _, _ = command(state, Command("ack", "evaluation", t_ns), policy)
    return instants


def burst_levels(scores: FloatArray, policy: EventPolicy) -> FloatArray:
    """For each window the level below which a threshold must lie for the window to complete k flagged of the last n."""
    levels = np.full(scores.shape, -np.inf)
    for i in range(scores.size):
        last = np.sort(scores[max(0, i + 1 - policy.n) : i + 1])[::-1]
        if last.size >= policy.k:
            levels[i] = min(float(scores[i]), float(last[policy.k - 1]))
    return levels


def threshold_within_budget(
    held_out: Sequence[tuple[Trial, FloatArray]], policy: EventPolicy, max_per_hour: float
) -> float:
    """Lowest threshold such that it, and every higher one, raises at most max_per_hour alarms an hour of `held_out`.

    Candidates are the levels at which some window completes a burst: between two of them nothing changes.
    """
    hours = sum(trial.duration_s for trial, _ in held_out) / S_PER_HOUR
    allowed = int(np.floor(max_per_hour * hours + 1e-9))
    levels = [burst_levels(scores, policy) for _, scores in held_out]
    highest = np.array([own.max(initial=-np.inf) for own in levels])
    candidates = np.unique(np.concatenate([np.empty(0), *levels]))[::-1]
    candidates = candidates[np.isfinite(candidates)]
    if not candidates.size:
        return max((float(scores.max()) for _, scores in held_out if scores.size), default=0.0)
    chosen = float(candidates[0])
    for candidate in candidates:
        n_alarms = sum(
            len(raised_ns(held_out[i][1], held_out[i][0].t_end_ns, float(candidate), policy))
            for i in np.flatnonzero(highest > candidate).tolist()
        )
        if n_alarms > allowed:
            break
        chosen = float(candidate)
    return chosen


def outcome(trial: Trial, scores: FloatArray, threshold: float, policy: EventPolicy) -> Outcome:
    """Alarms of one recording: false in a normal one and before a fall; the first one since its start flags a fall."""
    instants = raised_ns(scores, trial.t_end_ns, threshold, policy)
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
