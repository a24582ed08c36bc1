"""One run: every method through the folds, its figures, and the report that the command writes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from stream_occ.alarm_budget import DEVELOPMENT_SETS, count_interval
from stream_occ.evaluation import metrics
from stream_occ.evaluation.alarms import S_PER_HOUR, Outcome, outcomes
from stream_occ.evaluation.breakdown import Breakdown, break_down
from stream_occ.evaluation.metrics import Figure, figure_of, resample_people
from stream_occ.evaluation.protocol import (
    Fold,
    Job,
    Method,
    Trial,
    assign_groups,
    folds,
    kinds_of_people,
    plan,
    pool_trials,
    pool_windows,
)
from stream_occ.evaluation.transfer import TrainingSet, check_people, plan_transfer, transfer_fold
from stream_occ.events import EventPolicy
from stream_occ.samples import FloatArray, IntArray
from stream_occ.training.data import ProgressReport

_Result = TypeVar("_Result")


@dataclass(frozen=True, slots=True)
class Protocol:
    """What a run is asked for. reject_share of training people's normals; alarms an hour; seed of groups and fits."""

    reject_share: float = 0.05
    max_false_alarms_per_hour: float = 1.0
    seed: int = 0
    policy: EventPolicy = field(default_factory=EventPolicy)
    n_resamples: int = metrics.N_RESAMPLES


@dataclass(frozen=True, slots=True)
class MethodResult:
    """All figures of one method, and what is behind those of the pipeline."""

    figures: Mapping[str, Figure]
    n_false_alarms: int
    breakdown: Breakdown

    def to_json(self) -> dict[str, Any]:
        """Figures by name, the number of false alarms behind their rate, and the breakdown."""
        figures = {name: figure.to_json() for name, figure in self.figures.items()}
        return figures | {"n_false_alarms": self.n_false_alarms} | self.breakdown.to_json()


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The report of a run. n_unscored: recordings too short for one window; adl_hours: length of the normal ones.

    All counts are those of the tested data set; train_dataset names the other one, where there is one.
    """

    dataset: str
    n_recordings: int
    n_falls: int
    n_people: int
    n_unscored: int
    adl_hours: float
    seed: int
    results: Mapping[str, MethodResult]
    train_dataset: str | None = None

    @property
    def development_sets(self) -> list[str]:
        """Which of its data sets helped to choose this package's features and defaults."""
        return sorted({self.dataset, str(self.train_dataset)} & DEVELOPMENT_SETS.keys())

    def to_json(self) -> dict[str, Any]:
        """The JSON report; holds no NaN: a figure that the data do not give is null."""
        return {
            "dataset": self.dataset,
            **({} if self.train_dataset is None else {"train_dataset": self.train_dataset}),
            "development": bool(self.development_sets),
            "n_recordings": self.n_recordings,
            "n_falls": self.n_falls,
            "n_people": self.n_people,
            "n_unscored": self.n_unscored,
            "adl_hours": self.adl_hours,
            "seed": self.seed,
            "results": {key: result.to_json() for key, result in self.results.items()},
        }


def evaluate(
    dataset: str,
    trials: Sequence[Trial],
    methods: Sequence[Method],
    protocol: Protocol = Protocol(),
    *,
    trained: TrainingSet | None = None,
    n_jobs: int = 1,
    progress: ProgressReport = lambda stage, done, total: None,
) -> Evaluation:
    """Runs every method through the five folds, or from another data set, all on the same windows and features."""
    from joblib import Parallel, delayed

    kinds = kinds_of_people(trials)
    run: dict[str, Any] = {"seed": protocol.seed, "n_jobs": n_jobs, "progress": progress}
    if trained is None:
        used = list(trials)
        found = score_folds(used, methods, assign_groups(kinds, seed=protocol.seed), **run)
    else:
        check_people(dataset, trials, trained)
        used = [*trials, *(trial for trial in trained.trials if not trial.is_fall)]
        found = score_transfer(used, len(trials), methods, **run)
    weights = resample_people(
        [str(kind) for kind in kinds.values()], n_resamples=protocol.n_resamples, seed=protocol.seed
    )
    parallel = Parallel(n_jobs=n_jobs, return_as="generator")
    measured = parallel(
        delayed(_on_one_thread)(measure, used, found[own.key], protocol, list(kinds), weights) for own in methods
    )
    results = {}
    progress("Measuring", 0, len(methods))
    for method, result in zip(methods, measured, strict=True):
        results[method.key] = result
        progress("Measuring", len(results), len(methods))
    return Evaluation(
        dataset=dataset,
        n_recordings=len(trials),
        n_falls=sum(trial.is_fall for trial in trials),
        n_people=len(kinds),
        n_unscored=sum(len(trial) == 0 for trial in trials),
        adl_hours=sum(trial.duration_s for trial in trials if not trial.is_fall) / S_PER_HOUR,
        seed=protocol.seed,
        results=results,
        train_dataset=None if trained is None else trained.dataset,
    )


def score_folds(
    trials: Sequence[Trial],
    methods: Sequence[Method],
    group_of: Mapping[str, int],
    *,
    seed: int,
    n_jobs: int,
    progress: ProgressReport = lambda stage, done, total: None,
) -> dict[str, list[Fold]]:
    """Folds of every method."""
    scores = _run_jobs(trials, methods, plan(trials, group_of), seed, n_jobs, progress)
    return {key: folds(trials, group_of, own) for key, own in scores.items()}


def score_transfer(
    trials: Sequence[Trial],
    n_tested: int,
    methods: Sequence[Method],
    *,
    seed: int,
    n_jobs: int,
    progress: ProgressReport = lambda stage, done, total: None,
) -> dict[str, list[Fold]]:
    """The one fold of every method: n_tested recordings, then normal ones of the data set that is trained on."""
    group_of = assign_groups(kinds_of_people(trials[n_tested:]), seed=seed)
    scores = _run_jobs(trials, methods, plan_transfer(trials, n_tested, group_of), seed, n_jobs, progress)
    return {key: [transfer_fold(own)] for key, own in scores.items()}


def _run_jobs(
    trials: Sequence[Trial],
    methods: Sequence[Method],
    jobs: Sequence[Job],
    seed: int,
    n_jobs: int,
    progress: ProgressReport,
) -> dict[str, list[tuple[Job, list[FloatArray]]]]:
    """Scores of every method and job. Each fit runs on one BLAS thread, so that n_jobs changes no bit of a score."""
    from joblib import Parallel, delayed

    tasks = [(method, job) for method in methods for job in jobs]
    parallel = Parallel(n_jobs=n_jobs, return_as="generator", pre_dispatch="2*n_jobs")
    running = parallel(delayed(_on_one_thread)(job.run, method, trials, seed) for method, job in tasks)
    scores: dict[str, list[tuple[Job, list[FloatArray]]]] = {method.key: [] for method in methods}
    progress("Fitting and scoring", 0, len(tasks))
    for n, ((method, job), found) in enumerate(zip(tasks, running, strict=True), start=1):
        scores[method.key].append((job, found))
        progress("Fitting and scoring", n, len(tasks))
    return scores


def _on_one_thread(function: Callable[..., _Result], *arguments: Any) -> _Result:
    """What the function returns, with one BLAS thread: more of them would change last bits from machine to machine."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(1):
        return function(*arguments)


def measure(
    trials: Sequence[Trial], found: Sequence[Fold], protocol: Protocol, people: Sequence[str], weights: IntArray
) -> MethodResult:
    """All figures of one method from its folds."""
    person_of = {person: i for i, person in enumerate(people)}
    by_trial = pool_trials(trials, found, person_of, protocol.reject_share)
    by_window = pool_windows(trials, found, person_of, protocol.reject_share)
    values = {
        "trial_auc": metrics.auc(by_trial, weights),
        "trial_sensitivity_at_1pct": metrics.sensitivity_at_share(by_trial, weights, 0.01),
        "trial_sensitivity_at_5pct": metrics.sensitivity_at_share(by_trial, weights, 0.05),
        "trial_gmean": metrics.gmean(by_trial, weights),
        "window_auc": metrics.auc(by_window, weights),
        "window_gmean": metrics.gmean(by_window, weights),
    }
    decided = outcomes(trials, found, protocol.policy, protocol.max_false_alarms_per_hour)
    of_pipeline, n_false_alarms, hours = _pipeline_values(trials, decided, person_of, weights)
    figures = {name: figure_of(own) for name, own in (values | of_pipeline).items()}
    if n_false_alarms == 0 and hours > 0:
        figures["false_alarms_per_hour"] = Figure(0.0, 0.0, count_interval(0)[1] / hours)  # no bootstrap can tell it
    return MethodResult(figures, n_false_alarms, break_down(trials, found, by_trial, decided, protocol.policy))


def _pipeline_values(
    trials: Sequence[Trial], decided: Mapping[int, Outcome], person_of: Mapping[str, int], weights: IntArray
) -> tuple[dict[str, FloatArray], int, float]:
    """Values of the pipeline figures for each row of weights, false alarms, and hours of normal activity."""
    tallies = np.zeros((4, len(person_of)))  # falls, falls flagged, false alarms, hours of normal activity
    delays, delayed_person = [], []
    for i, own in decided.items():
        person, trial = person_of[trials[i].subject], trials[i]
        hours = 0.0 if trial.is_fall else trial.duration_s / S_PER_HOUR
        tallies[:, person] += (trial.is_fall, own.is_flagged, own.n_false_alarms, hours)
        if own.delay_s is not None:
            delays.append(own.delay_s)
            delayed_person.append(person)
    values = {
        "fall_sensitivity": metrics.rate_per(tallies[1], tallies[0], weights),
        "false_alarms_per_hour": metrics.rate_per(tallies[2], tallies[3], weights),
        "median_delay_s": metrics.median_of(np.array(delays), np.array(delayed_person, dtype=np.int64), weights),
    }
    return values, int(tallies[2].sum()), float(tallies[3].sum())
