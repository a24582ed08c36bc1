"""One method in detail: alarms by activity, falls flagged by type, sensitivity against false alarms.

The trade-off puts one threshold, on the scale common to the folds, through the whole pipeline for every tested
recording. Its thresholds come from the tested recordings, so it compares what methods could trade, and promises
nothing; what thresholds of training people give is the figures' to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from stream_occ.evaluation.alarms import S_PER_HOUR, Outcome, outcome
from stream_occ.evaluation.metrics import Scored
from stream_occ.evaluation.protocol import Fold, Trial, trial_anchors
from stream_occ.events import EventPolicy
from stream_occ.samples import FloatArray

SHARES = (0.0, 0.001, 0.002, 0.003, 0.005, 0.007, 0.01, 0.015, 0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5)
"""Shares of tested normal recordings that score above the thresholds of the trade-off."""


@dataclass(frozen=True, slots=True)
class ActivityRow:
    """Normal recordings of one activity; share of them above the trial threshold (behind `trial_gmean`)."""

    n_recordings: int
    hours: float
    n_false_alarms: int
    false_alarms_per_hour: float | None
    share_above_threshold: float


@dataclass(frozen=True, slots=True)
class FallTypeRow:
    """Falls of one type: flagged by the pipeline, above the trial threshold, alarms before the fall."""

    n: int
    n_flagged: int
    fall_sensitivity: float
    share_above_threshold: float
    n_false_alarms: int


@dataclass(frozen=True, slots=True)
class TradeOffPoint:
    """The pipeline at one threshold on the folds' common scale; None where there are no hours, or no falls."""

    threshold: float
    n_false_alarms: int
    false_alarms_per_hour: float | None
    fall_sensitivity: float | None


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Rows by activity and by type of fall, sorted by name; trade-off from careful to eager; delays ascending, s."""

    by_activity: Mapping[str, ActivityRow]
    by_fall_type: Mapping[str, FallTypeRow]
    trade_off: Sequence[TradeOffPoint]
    delays_s: Sequence[float]

    def to_json(self) -> dict[str, Any]:
        """The four of them as plain JSON."""
        return {
            "by_activity": {name: asdict(row) for name, row in self.by_activity.items()},
            "by_fall_type": {name: asdict(row) for name, row in self.by_fall_type.items()},
            "trade_off": [asdict(point) for point in self.trade_off],
            "delays_s": list(self.delays_s),
        }


def break_down(
    trials: Sequence[Trial],
    found: Sequence[Fold],
    items: Scored,
    decided: Mapping[int, Outcome],
    policy: EventPolicy,
) -> Breakdown:
    """Details of one method. items, decided: pooled scores and outcomes of the tested recordings, in their order."""
    tested = [(trials[i], own, bool(above)) for (i, own), above in zip(decided.items(), items.flagged, strict=True)]
    normals = sorted({trial.activity for trial, _, _ in tested if not trial.is_fall})
    falls = sorted({trial.activity for trial, _, _ in tested if trial.is_fall})
    return Breakdown(
        by_activity={name: _activity_row([row for row in tested if _is(row[0], name, False)]) for name in normals},
        by_fall_type={name: _fall_type_row([row for row in tested if _is(row[0], name, True)]) for name in falls},
        trade_off=trade_off(trials, found, items, policy),
        delays_s=sorted(own.delay_s for own in decided.values() if own.delay_s is not None),
    )


def trade_off(
    trials: Sequence[Trial], found: Sequence[Fold], items: Scored, policy: EventPolicy
) -> list[TradeOffPoint]:
    """The pipeline at the thresholds that SHARES of the tested normal recordings exceed, highest threshold first.

    A recording without a window above the threshold raises nothing and is not run.
    """
    common: dict[int, FloatArray] = {}
    for fold in found:
        centre, scale = trial_anchors(trials, fold)
        common |= {i: (scores - centre) / scale for i, scores in fold.tested.items()}
    hours = sum(trials[i].duration_s for i in common if not trials[i].is_fall) / S_PER_HOUR
    n_falls = sum(trials[i].is_fall for i in common)
    points = []
    for level in _levels(items.score[~items.is_fall]):
        above = [i for i, scores in common.items() if (scores > level).any()]
        decided = [outcome(trials[i], common[i], level, policy) for i in above]
        n_alarms, n_flagged = sum(own.n_false_alarms for own in decided), sum(own.is_flagged for own in decided)
        points.append(
            TradeOffPoint(
                level,
                n_alarms,
                n_alarms / hours if hours > 0 else None,
                n_flagged / n_falls if n_falls else None,
            )
        )
    return points


def _levels(normal: FloatArray) -> list[float]:
    """Scores that floor(share * n) of the n normal recordings exceed, descending; ties may leave fewer above."""
    descending = np.sort(normal)[::-1]
    if not descending.size:
        return []
    ranks = np.unique([int(np.floor(share * descending.size + 1e-9)) for share in SHARES])
    levels = np.unique(descending[ranks])[::-1]
    return [float(level) for level in levels if np.isfinite(level)]


_Row = tuple[Trial, Outcome, bool]


def _is(trial: Trial, activity: str, is_fall: bool) -> bool:
    return trial.activity == activity and trial.is_fall == is_fall


def _activity_row(rows: Sequence[_Row]) -> ActivityRow:
    hours = sum(trial.duration_s for trial, _, _ in rows) / S_PER_HOUR
    n_alarms = sum(own.n_false_alarms for _, own, _ in rows)
    return ActivityRow(len(rows), hours, n_alarms, n_alarms / hours if hours > 0 else None, _share_above(rows))


def _fall_type_row(rows: Sequence[_Row]) -> FallTypeRow:
    n_flagged = sum(own.is_flagged for _, own, _ in rows)
    n_early = sum(own.n_false_alarms for _, own, _ in rows)
    return FallTypeRow(len(rows), n_flagged, n_flagged / len(rows), _share_above(rows), n_early)


def _share_above(rows: Sequence[_Row]) -> float:
    return sum(above for _, _, above in rows) / len(rows)
