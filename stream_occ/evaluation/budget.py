"""The evidence behind an alarm budget: normal recordings, scored as the service does, of people not trained on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stream_occ.alarm_budget import HoursOfPeople, Watched
from stream_occ.errors import DataError
from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.samples import NS_PER_S
from stream_occ.scoring import Model
from stream_occ.training.checks import check_samples
from stream_occ.training.data import RecordingSource, digest_samples, hash_recording

OWN_SETS = frozenset({"csv", "recording"})  # one person's data may come as either


@dataclass(slots=True)
class Evidence:
    """Normal recordings that a threshold is set on, and what was left out; data_sha256 and digests as of `train`.

    n_refused_rows, remarks: what the loader did not use, and whole files that it passed over. began: name and first
    stamp of each recording in `watched`.
    """

    watched: list[Watched] = field(default_factory=list)
    began: list[tuple[str, int]] = field(default_factory=list)
    datasets: set[str] = field(default_factory=set)
    placements: set[str] = field(default_factory=set)
    data_sha256: str = ""
    digests: set[str] = field(default_factory=set)
    n_falls: int = 0
    n_filtered: int = 0
    n_copies: int = 0
    n_too_short: int = 0
    n_refused_rows: int = 0
    remarks: list[str] = field(default_factory=list)

    @property
    def hours(self) -> float:
        """Hours of all recordings together."""
        return sum(one.hours for one in self.watched)

    @property
    def n_people(self) -> int:
        """People with at least one window."""
        return len({one.person for one in self.watched})

    @property
    def motionless_share(self) -> float:
        """Share of windows in which nothing moves, to the sensor's noise."""
        return float(np.concatenate([one.shown.motion.is_motionless for one in self.watched]).mean())

    def highest(self) -> tuple[str, float]:
        """The recording whose window scores highest, and the second in it at which that window ends."""
        one, (name, t0_ns) = max(zip(self.watched, self.began, strict=True), key=lambda pair: pair[0].scores.max())
        return name, (int(one.shown.t_end_ns[one.scores.argmax()]) - t0_ns) / NS_PER_S


def may_overlap(metadata: Mapping[str, Any], evidence: Evidence) -> bool:
    """Whether these may be training people: a model file names its data sets, not its people.

    Raises DataError for the very recordings that the model was trained on.
    """
    digests = metadata.get("recording_digests")
    n_trained_on = len(evidence.digests.intersection(digests)) if isinstance(digests, list) else 0
    if n_trained_on or metadata.get("data_sha256") == evidence.data_sha256:
        n_all = len(evidence.watched)
        raise DataError(
            "recordings",
            "be of people who are not the training people",
            f"{n_trained_on or n_all} of {n_all} that the model was trained on",
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
    """Normal recordings, cut and scored as the service does; falls are left out unseen, copies are counted once,
    and so are hours of one person that several recordings cover.

    people: these alone, where any is named. Raises DataError for a name that is not in the data, for a recording in
    other units or of too low a rate, or where no window is left.
    """
    front_end = FrontEnd(model.feature_set.name, model.rate_hz, model.window_s, model.hop_s)
    evidence, hours, hasher = Evidence(), HoursOfPeople(), hashlib.sha256()
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
        digest = digest_samples(recording.block)
        if digest in evidence.digests:
            evidence.n_copies += 1
            continue
        evidence.digests.add(digest)
        check_samples(recording, front_end.cut(recording), model.feature_set)
        trial = extract_trial(recording, front_end)
        scores = model.score_features(trial.X)
        kept = ~np.isnan(scores)  # as the pipeline: no verdict
        if not kept.any():
            evidence.n_too_short += 1
            continue
        seen = trial.shown.take(kept)
        if seen.motion.is_stuck.all():
            raise DataError(recording.name, "vary", "the same values throughout", "Check the sensor: it is stuck")
        person = recording.subject
        added = hours.add(person, seen.t_end_ns[~seen.is_closing], model.window_s)
        evidence.watched.append(Watched(person, scores[kept], seen, added))
        evidence.began.append((recording.name, int(recording.block.t_ns.min())))
        evidence.datasets.add(recording.dataset)
        evidence.placements.add(recording.placement)
        hash_recording(hasher, recording)
    evidence.n_refused_rows = sum(source.report.by_reason().values())
    evidence.remarks = list(source.report.notes)
    _check_found(evidence, names, {*people, *exclude_people})
    evidence.data_sha256 = hasher.hexdigest()
    return evidence


def _check_found(evidence: Evidence, names: set[str], asked: set[str]) -> None:
    unknown = sorted(asked - names)
    if unknown:
        known = ", ".join(sorted(names)[:40]) or "nobody's"
        got = ", ".join(map(repr, unknown))
        raise DataError("people", "be in the data", got, f"It holds normal recordings of {known}")
    if not sum(one.hours for one in evidence.watched):
        left_out = (
            f"{evidence.n_falls} fall recordings, {evidence.n_filtered} by filters, {evidence.n_too_short} too short"
        )
        left_out += "".join(f"; {remark}" for remark in evidence.remarks[:1])
        raise DataError("recordings", "hold normal activity", f"none (left out: {left_out})", "Record some")
