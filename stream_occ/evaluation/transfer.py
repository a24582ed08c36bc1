"""Trained on one data set, tested on another: who is fitted on, what sets thresholds, and what must match.

The model is fitted on the normal recordings of everybody in the training set. Its thresholds and its scale come from
the training set alone: its people are dealt into five groups, and each group's normal recordings are scored by a fit
without that group. Everything of the other set is tested.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from stream_occ.errors import DataError
from stream_occ.evaluation.budget import OWN_SETS
from stream_occ.evaluation.protocol import N_GROUPS, Fold, Job, Trial
from stream_occ.samples import FloatArray


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """The data set that is trained on, beside the one that is tested."""

    dataset: str
    trials: Sequence[Trial]


def known_placements(trials: Iterable[Trial]) -> set[str]:
    """Places on the body that the recordings name."""
    return {trial.placement for trial in trials} - {"unknown"}


def check_placements(trained: Collection[str], tested: Collection[str], *, any_placement: bool = False) -> list[str]:
    """Notes on the placements of both sets; DataError where known ones differ, unless any will do."""
    if not trained or not tested:
        names = " and ".join(name for name, known in (("training", trained), ("tested", tested)) if not known)
        return [f"the {names} data do not say where the sensor was worn: whether the placements match is not known"]
    if set(trained) == set(tested):
        return []
    worn = f"{_names(trained)} in training and {_names(tested)} in the test"
    if not any_placement:
        raise DataError(
            "evaluate: placements",
            "be the same in both data sets",
            worn,
            "Pick a matching --variant or --train-variant, or say --any-placement",
        )
    return [f"WORN ELSEWHERE: {worn}. A model knows one place on the body: these figures say little of the model"]


def check_people(dataset: str, trials: Sequence[Trial], trained: TrainingSet) -> None:
    """DataError where one person may be in both sets; sets of different names are of different people."""
    if dataset != trained.dataset and not {dataset, trained.dataset} <= OWN_SETS:
        return
    both = sorted({trial.subject for trial in trials} & {trial.subject for trial in trained.trials})
    if both:
        raise DataError(
            "evaluate: people",
            "be tested by a model that never saw them",
            f"{', '.join(map(repr, both[:5]))}{', ...' if len(both) > 5 else ''} in both data sets",
            "Leave --train-dataset out to hold people out, or rename those who differ",
        )


def plan_transfer(
    trials: Sequence[Trial], n_tested: int, group_of: Mapping[str, int], *, n_groups: int = N_GROUPS
) -> list[Job]:
    """One fit on all that scores the first n_tested recordings, and one a group that scores the group.

    trials: the tested recordings, then normal ones of the training set, whose people group_of deals out.
    """
    normal = range(n_tested, len(trials))
    group = {i: group_of[trials[i].subject] for i in normal}
    jobs = [Job((), tuple(i for i in normal if trials[i].is_on_hop.any()), tuple(range(n_tested)))]
    for g in range(n_groups):
        trained = tuple(i for i in normal if group[i] != g and trials[i].is_on_hop.any())
        if not trained:
            raise DataError(
                "evaluate: normal recordings",
                "give windows to train on in every group of people",
                "none outside one group",
                "Shorten the window or give longer recordings",
            )
        jobs.append(Job((g,), trained, tuple(i for i in normal if group[i] == g)))
    return jobs


def transfer_fold(scores: Sequence[tuple[Job, Sequence[FloatArray]]]) -> Fold:
    """The one fold of such a run: all tested recordings, and all people of the training set held out in turn."""
    tested: dict[int, FloatArray] = {}
    held_out: dict[int, FloatArray] = {}
    for job, found in scores:
        (held_out if job.left_out else tested).update(zip(job.scored, found, strict=True))
    return Fold(0, tested, held_out)


def _names(placements: Collection[str]) -> str:
    return ", ".join(sorted(placements))
