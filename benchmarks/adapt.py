"""What a personal model is worth: python benchmarks/adapt.py weda-fall weda-fall.zip --json adapt.json

Each person in turn is the wearer. The general model (default detector) and its threshold come from other people's
normal recordings; it is blended with half of the wearer's own and tested on the other half, and the other way round.
Falls are scored by the model blended with both halves. Two budgets: alarms an hour, counted on people held out.

Thresholds: `kept` is the general model's, as `stream-occ train --adapt` has it; `vouched` as with `--vouched`: what
looks like a fall is blended too, and nobody is refused. `likewise` is what the same count gives where the people held
out are adapted to in the same way; `likewise, not adapted` shows what that threshold is worth without any adaptation.
`--general NAME PATH` trains the general model on another data set. `--parts 3`: normal recordings are cut into thirds,
each scored by the model blended with the other two, and falls by the one blended with all.

Intervals: 2,000 resamplings of people, the same for before and after (none where nothing was counted; poisson_95 is the
exact one, as if alarms came independently). p: exact sign test over people.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from stream_occ.alarm_budget import MAX_FLAGGED_SHARE, alarms_within, count_interval, lowest_threshold, raised_ns
from stream_occ.cli._common import write_json
from stream_occ.datasets import open_dataset
from stream_occ.detectors.calibration import group_folds
from stream_occ.evaluation.alarms import outcome
from stream_occ.evaluation.extraction import FrontEnd, extract_trials
from stream_occ.evaluation.protocol import Trial
from stream_occ.events import EventPolicy
from stream_occ.samples import FloatArray, IntArray
from stream_occ.scoring import Scaler, Scorer
from stream_occ.training import TrainingConfig, fitting
from stream_occ.training.blending import beside, blend, own_scores
from stream_occ.training.data import Tally, TrainingData, UsedRecording
from stream_occ.training.holding_out import watched_recordings
from stream_occ.watching import joined

BUDGETS_PER_HOUR = (1.0, 1 / 24)
N_GROUPS, N_FOLDS, N_RESAMPLES = 5, 3, 2000
K_NEIGHBORS = 5
CONFIG = TrainingConfig().resolved()
POLICY = EventPolicy()
# What is counted of each wearer: false alarms and falls flagged, by model and threshold
COUNTS = ("general", "adapted, kept", "vouched, kept", "adapted, likewise", "likewise, not adapted")


def data_of(trials: Sequence[Trial]) -> TrainingData:
    """Normal recordings as the trainer has them."""
    used = tuple(
        UsedRecording(f"set/{t.name}", t.subject, t.activity, t.placement, t.duration_s, 0.0, len(t)) for t in trials
    )
    return TrainingData(
        X=np.concatenate([t.X for t in trials]),
        shown=joined([t.shown for t in trials]),
        recording=np.repeat(np.arange(len(trials)), [len(t) for t in trials]),
        recordings=used,
        tally=Tally(),
        data_sha256="",
        digests=(),
    )


def fit(data: TrainingData, rows: IntArray) -> tuple[Scaler, Scorer]:
    """The default detector on these rows."""
    chosen = np.isin(np.arange(len(data.X)), rows) & ~data.shown.is_closing
    people = fitting.people_of(data, chosen)
    scaler, detector = fitting.fit(data.X[chosen], CONFIG, "", lambda stage, done, total: None, [], people)
    return scaler, detector.to_scorer()


class General:
    """A general model of some people, and its thresholds by people held out among them, for each budget."""

    def __init__(self, data: TrainingData, n_parts: int) -> None:
        self.n_parts = n_parts
        people = np.array([data.recordings[i].subject for i in data.recording.tolist()])
        fold = group_folds(people, N_FOLDS, CONFIG.seed)
        scores, fitted = np.empty(len(people)), []
        for number in range(N_FOLDS):
            out = fold == number
            fitted.append(fit(data, np.flatnonzero(~out)))
            scores[out] = fitted[-1][1].score(fitted[-1][0].transform(data.X[out]))
        self.kept = [threshold_of(data, scores, budget) for budget in BUDGETS_PER_HOUR]
        self.likewise = []
        for budget, kept in zip(BUDGETS_PER_HOUR, self.kept, strict=True):
            adapted = np.empty(len(people))
            for person in np.unique(people):
                rows = np.flatnonzero(people == person)
                scaler, scorer = fitted[fold[rows[0]]]
                adapted[rows] = crossed(data, rows, scaler, scorer, kept, n_parts)[0]
            self.likewise.append(threshold_of(data, adapted, budget))
        self.scaler, self.scorer = fit(data, np.arange(len(people)))


def threshold_of(data: TrainingData, scores: FloatArray, per_hour: float) -> float:
    """The lowest threshold whose alarms on these recordings fit the budget."""
    watched = watched_recordings(data, scores, CONFIG.window_s)
    return lowest_threshold(watched, POLICY, alarms_within(24 * per_hour, sum(one.hours for one in watched)))


def crossed(
    data: TrainingData, rows: IntArray, scaler: Scaler, scorer: Scorer, threshold: float, n_parts: int
) -> tuple[FloatArray, Scorer]:
    """Scores of a person's rows, each part by what knows all the others; and the scorer that knows all.

    Rows above the threshold, and beside such rows, are not blended.
    """
    scaled = scaler.transform(data.X[rows])
    fall_like = scorer.score(scaled) > threshold
    near = beside(fall_like, data.recording[rows], data.shown.t_end_ns[rows], CONFIG.window_s)
    admitted = ~data.shown.is_closing[rows] & ~near
    known: dict[str, Any] = {
        "admitted": admitted,
        "k_neighbors": K_NEIGHBORS,
        "window_s": CONFIG.window_s,
        "n_parts": n_parts,
    }
    scores = own_scores(scorer, scaled, data, rows, **known)
    return scores, blend(scorer, scaled[admitted], K_NEIGHBORS)


def tried(general: General, wearer: Sequence[Trial]) -> list[dict[str, Any]]:
    """What the models raise for one wearer, by budget."""
    data, falls = data_of([t for t in wearer if not t.is_fall and len(t)]), [t for t in wearer if t.is_fall]
    scaled = general.scaler.transform(data.X)
    before, rows = general.scorer.score(scaled), np.arange(len(scaled))
    found = []
    for kept, likewise in zip(general.kept, general.likewise, strict=True):
        after, full = crossed(data, rows, general.scaler, general.scorer, kept, general.n_parts)
        is_refused = bool((before > kept).mean() > MAX_FLAGGED_SHARE)
        if is_refused:  # as the command does: the wearer keeps the general model
            after, full = before, general.scorer
        trusting, of_all = crossed(data, rows, general.scaler, general.scorer, np.inf, general.n_parts)
        ways = (
            (before, general.scorer, kept),
            (after, full, kept),
            (trusting, of_all, kept),
            (after, full, likewise),
            (before, general.scorer, likewise),
        )
        own: dict[str, Any] = {"person": wearer[0].subject, "n_falls": len(falls)}
        own["hours"] = sum(one.hours for one in watched_recordings(data, before, CONFIG.window_s))
        own |= {"n_windows": len(before), "n_fall_like": int((before > kept).sum()), "is_refused": is_refused}
        own |= {"threshold": {"kept": kept, "likewise": likewise}}
        own["false_alarms"] = {
            name: alarms(data, scores, threshold) for name, (scores, _, threshold) in zip(COUNTS, ways, strict=True)
        }
        own["falls_flagged"] = {
            name: sum(is_flagged(t, general.scaler, scorer, threshold) for t in falls)
            for name, (_, scorer, threshold) in zip(COUNTS, ways, strict=True)
        }
        own["trial_auc"] = [trial_auc(data, scores, general.scaler, scorer, falls) for scores, scorer, _ in ways[:2]]
        found.append(own)
    return found


def alarms(data: TrainingData, scores: FloatArray, threshold: float) -> int:
    """Alarms on normal recordings."""
    watched = watched_recordings(data, scores, CONFIG.window_s)
    return sum(len(raised_ns(one, threshold, POLICY)) for one in watched)


def is_flagged(trial: Trial, scaler: Scaler, scorer: Scorer, threshold: float) -> bool:
    """Whether the pipeline flags a fall recording."""
    return bool(len(trial)) and outcome(trial, scorer.score(scaler.transform(trial.X)), threshold, POLICY).is_flagged


def trial_auc(
    data: TrainingData, scores: FloatArray, scaler: Scaler, scorer: Scorer, falls: Sequence[Trial]
) -> float | None:
    """Share of pairs of a fall and a normal recording of the wearer in which the fall's largest score is larger."""
    if not falls:
        return None
    recording, scores = data.recording[~data.shown.is_closing], scores[~data.shown.is_closing]
    normal = np.array([scores[recording == i].max() for i in np.unique(recording)])
    largest = [scorer.score(scaler.transform(t.X[t.is_item])).max() if len(t) else -np.inf for t in falls]
    return float(np.mean([(own > normal).mean() + (own == normal).mean() / 2 for own in largest]))


def summary(people: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Totals with intervals over people, and the paired differences from the general model."""
    drawn = np.random.default_rng(0).multinomial(len(people), [1 / len(people)] * len(people), N_RESAMPLES)
    weights = np.vstack([np.ones(len(people), dtype=np.int64), drawn])
    hours, n_falls = (np.array([own[key] for own in people]) for key in ("hours", "n_falls"))
    result: dict[str, Any] = {"n_people": len(people), "hours": float(hours.sum()), "n_falls": int(n_falls.sum())}
    result |= {"n_fall_like": sum(own["n_fall_like"] for own in people)}
    result |= {"n_refused": sum(own["is_refused"] for own in people)}
    for what, total in (("false_alarms", hours), ("falls_flagged", n_falls)):
        counts = {name: np.array([own[what][name] for own in people]) for name in COUNTS}
        result[what] = {name: told(own, total, counts[COUNTS[0]], weights) for name, own in counts.items()}
    for own in result["false_alarms"].values():
        own["poisson_95"] = [bound / float(hours.sum()) for bound in count_interval(own["n"])]
    with_falls = np.array([own["trial_auc"] for own in people if own["n_falls"]], dtype=np.float64)
    if len(with_falls):
        drawn_people = weights[:, n_falls > 0]
        drawn_people = drawn_people[drawn_people.sum(axis=1) > 0]
        more = with_falls[:, 1] - with_falls[:, 0]
        means = drawn_people @ np.column_stack([with_falls, more]) / drawn_people.sum(axis=1)[:, None]
        names = ("general", "adapted", "difference")
        result["mean_trial_auc"] = {name: interval(column) for name, column in zip(names, means.T, strict=True)}
        result["mean_trial_auc"] |= signs(more)
    return result


def told(counts: FloatArray, total: FloatArray, general: FloatArray, weights: IntArray) -> dict[str, Any]:
    """A count, its rate, and by how much that differs from the general model's."""
    base = weights @ total
    ratios, n = np.column_stack([weights @ counts, weights @ (counts - general)]), int(counts.sum())
    ratios = ratios[base > 0] / base[base > 0][:, None]
    if not len(ratios):
        return {"n": n}
    rates = {"rate": interval(ratios[:, 0]), "difference": interval(ratios[:, 1])}
    return {"n": n, **rates, **signs(counts - general)}


def signs(differences: FloatArray) -> dict[str, Any]:
    """How many people have more and fewer, and the exact two-sided p of that many among those who changed."""
    from scipy.stats import binomtest

    n_more, n_fewer = int((differences > 0).sum()), int((differences < 0).sum())
    p = float(binomtest(n_more, n_more + n_fewer).pvalue) if n_more + n_fewer else 1.0
    return {"n_people_more": n_more, "n_people_fewer": n_fewer, "p": p}


def interval(values: FloatArray) -> list[float]:
    """The value, and the 2.5 % and 97.5 % quantiles of its resamplings."""
    return [float(values[0]), *np.quantile(values[1:], [0.025, 0.975]).tolist()]


def load(name: str, path: str, variant: str | None) -> list[Trial]:
    """All recordings, cut as the default model cuts them."""
    front_end = FrontEnd(CONFIG.feature_set, CONFIG.rate_hz, CONFIG.window_s, CONFIG.hop_s)
    with open_dataset(name, Path(path), variant=variant) as opened:
        return extract_trials(opened.iter_recordings(), front_end, n_jobs=2)


def main() -> None:
    """Reads, tries every wearer, prints and writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset")
    parser.add_argument("path")
    parser.add_argument("--variant")
    parser.add_argument("--general", nargs=2, metavar=("NAME", "PATH"))
    parser.add_argument("--parts", type=int, default=2, help="into which a wearer's recordings are cut (default 2)")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trials = load(arguments.dataset, arguments.path, arguments.variant)
    others = load(arguments.general[0], arguments.general[1], None) if arguments.general else None
    people = sorted({t.subject for t in trials if not t.is_fall and len(t)})
    group = np.random.default_rng(0).permutation(len(people)) % N_GROUPS
    found: list[list[dict[str, Any]]] = []
    for number in range(N_GROUPS if others is None else 1):
        wearers = [p for p, g in zip(people, group, strict=True) if others is not None or g == number]
        known = others or [t for t in trials if t.subject not in wearers]
        general = General(data_of([t for t in known if not t.is_fall and len(t)]), arguments.parts)
        found += [tried(general, [t for t in trials if t.subject == person]) for person in wearers]
        print(f"group {number + 1}: {len(wearers)} wearers, thresholds {general.kept}, {general.likewise}", flush=True)
    report: dict[str, Any] = {"dataset": arguments.dataset, "general": (arguments.general or [None])[0], "budgets": []}
    for per_hour, own in zip(BUDGETS_PER_HOUR, zip(*found, strict=True), strict=True):
        report["budgets"].append({"per_hour": per_hour, "all": summary(own), "people": own})
        show(per_hour, report["budgets"][-1]["all"])
    if arguments.json is not None:
        write_json(arguments.json, report)


def show(per_hour: float, of_all: dict[str, Any]) -> None:
    """One budget's lines."""
    print(f"\nbudget {per_hour:.3g} an hour: " + ", ".join(f"{k} {v:.4g}" for k, v in list(of_all.items())[:5]))
    for what in ("false_alarms", "falls_flagged", "mean_trial_auc"):
        for name, own in of_all.get(what, {}).items():
            print(f"{what:15} {name:22} {own}")


if __name__ == "__main__":
    main()
