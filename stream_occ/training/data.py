"""Recordings to feature rows for the trainer: what is left out is counted, what cannot be trained on is refused."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Protocol

import numpy as np

from stream_occ.errors import DataError, nearest
from stream_occ.features import FeatureSet, slowest_stream_hz
from stream_occ.quality import rest_magnitude_ms2
from stream_occ.reach import Reach
from stream_occ.samples import NS_PER_S, FloatArray, IntArray, Recording, SampleBlock
from stream_occ.training.checks import check_finite, check_rate, check_units, measured_rate_hz
from stream_occ.training.config import TrainingConfig
from stream_occ.watching import Shown, joined, shown
from stream_occ.windowing import WindowShape, iter_windows

ProgressReport = Callable[[str, int, int], None]

# MobiFall's own trials run from 54 to 97 Hz. Beyond a factor of 2 the recordings come from other sensors or set-ups.
MAX_RATE_RATIO = 2.0


class LoadCounts(Protocol):
    """What a data set says of the rows that it refused."""

    notes: list[str]

    def by_reason(self) -> dict[str, int]:
        """Rows not used, by reason."""


class RecordingSource(Protocol):
    """What the trainer needs of a data set; `stream_occ.datasets.Dataset` is one."""

    name: str

    @property
    def report(self) -> LoadCounts:
        """What was refused so far."""

    @property
    def n_files(self) -> int:
        """Total of the progress bar; 0 where unknown."""

    def iter_recordings(self) -> Iterator[Recording]:
        """Recordings one by one, always in the same order."""


@dataclass(frozen=True, slots=True)
class UsedRecording:
    """What is remembered of a recording that was trained on."""

    name: str
    subject: str
    activity: str
    placement: str
    duration_s: float
    rate_hz: float
    n_windows: int
    reach: Reach = field(default_factory=Reach)

    @property
    def person(self) -> str:
        """Data set and subject: person 1 of one set is not person 1 of another."""
        return f"{self.name.partition('/')[0]}/{self.subject}"


@dataclass(slots=True)
class Tally:
    """What was left out, and why; `seen_*` are all names met, for the message about an unknown one."""

    n_falls: int = 0
    n_filtered: int = 0
    n_too_short: int = 0
    n_windows_thinned: int = 0
    refused_rows: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)
    seen_people: set[str] = field(default_factory=set)
    seen_activities: set[str] = field(default_factory=set)


@dataclass(frozen=True, slots=True, eq=False)
class TrainingData:
    """Feature rows X (n, d), unscaled, and what else the engine sees of their windows; `recording` (n,) says of which.

    Windows that end a segment off the hop are there for the engine, and not to be trained on: `items` has none.
    digests: of the samples of each recording, so that nobody calibrates on what was trained on.
    """

    X: FloatArray
    shown: Shown
    recording: IntArray
    recordings: tuple[UsedRecording, ...]
    tally: Tally
    data_sha256: str
    digests: tuple[str, ...]

    def activities(self) -> list[str]:
        """Activity of each row."""
        return [self.recordings[i].activity for i in self.recording.tolist()]

    def reach(self) -> Reach:
        """How far the sensors went in all recordings."""
        return reduce(Reach.joined, (recording.reach for recording in self.recordings))

    def items(self) -> TrainingData:
        """The windows on the hop."""
        rows = ~self.shown.is_closing
        return replace(self, X=self.X[rows], shown=self.shown.take(rows), recording=self.recording[rows])


def read_training_data(
    sources: Sequence[RecordingSource],
    config: TrainingConfig,
    *,
    feature_set: FeatureSet,
    sos: FloatArray | None,
    progress: ProgressReport,
) -> TrainingData:
    """Feature rows of all recordings that the configuration asks for, one recording in memory at a time.

    Fall recordings are never looked at beyond their label. Raises DataError, one line that names the recording, where
    units, rates or placements are mixed, or where too little is left.
    """
    times = {"rate_hz": config.rate_hz, "window_s": config.window_s, "hop_s": config.train_hop_s or config.hop_s}
    shape = WindowShape.of(
        **times,
        min_stream_hz=slowest_stream_hz(config.rate_hz, feature_set),
        min_window_s=feature_set.min_window_s,
    )
    tally, hasher = Tally(), hashlib.sha256()
    rows: list[_Rows] = []
    used: list[UsedRecording] = []
    digests: list[str] = []
    for source in sources:
        for n_read, recording in enumerate(source.iter_recordings(), start=1):
            progress(f"Reading {source.name}", n_read, source.n_files)
            if not _is_wanted(recording, config, tally):
                continue
            found = _extract(recording, shape, feature_set, sos)
            if not len(found.X):
                tally.n_too_short += 1
                continue
            rows.append(found)
            used.append(_used(recording, found.n_items))
            digests.append(digest_samples(recording.block))
            hash_recording(hasher, recording)
        tally.refused_rows.update(source.report.by_reason())
        tally.notes.extend(source.report.notes)
    _check_names(config, tally)
    _check_amount(used, config, tally)
    _check_rates(used)
    _check_placements(used, config)
    recording_of = np.repeat(np.arange(len(used)), [len(own.X) for own in rows])
    keep = _thinned(len(recording_of), config, tally)
    X = np.concatenate([own.X for own in rows])[keep]
    _check_varied(X)
    return TrainingData(
        X=X,
        shown=joined([own.shown for own in rows]).take(keep),
        recording=recording_of[keep],
        recordings=tuple(used),
        tally=tally,
        data_sha256=hasher.hexdigest(),
        digests=tuple(digests),
    )


def _is_wanted(recording: Recording, config: TrainingConfig, tally: Tally) -> bool:
    if recording.is_fall:
        tally.n_falls += 1
        return False
    tally.seen_people.add(recording.subject)
    tally.seen_activities.add(recording.activity)
    is_wanted = (
        (not config.people or recording.subject in config.people)
        and recording.subject not in config.exclude_people
        and (not config.activities or recording.activity in config.activities)
        and recording.activity not in config.exclude_activities
    )
    tally.n_filtered += not is_wanted
    return is_wanted


@dataclass(frozen=True, slots=True, eq=False)
class _Rows:
    """What is kept of the windows of one recording."""

    X: FloatArray
    shown: Shown

    @property
    def n_items(self) -> int:
        return int((~self.shown.is_closing).sum())


def _extract(recording: Recording, shape: WindowShape, feature_set: FeatureSet, sos: FloatArray | None) -> _Rows:
    """Feature rows of a recording; raises DataError for samples not to be trained on."""
    check_finite(recording)
    batches = [b for b in iter_windows(recording.block, shape, sos=sos, closing=True) if len(b)]
    try:
        X = np.concatenate([np.empty((0, len(feature_set.NAMES))), *map(feature_set.extract, batches)])
    except ValueError as error:
        raise DataError(
            recording.name, f"give features of {feature_set.name}", str(error), "Leave the recording out"
        ) from error
    if len(X):
        check_units(recording, np.concatenate([rest_magnitude_ms2(batch.signals) for batch in batches]))
        check_rate(recording, shape.rate_hz, feature_set)
    return _Rows(X, shown(batches, shape))


def _used(recording: Recording, n_windows: int) -> UsedRecording:
    block = recording.block
    return UsedRecording(
        name=recording.name,
        subject=recording.subject,
        activity=recording.activity,
        placement=recording.placement,
        duration_s=float(block.t_ns.max() - block.t_ns.min()) / NS_PER_S,
        rate_hz=measured_rate_hz(block.t_ns),
        n_windows=n_windows,
        reach=Reach.of_recording(recording),
    )


def _check_rates(used: Sequence[UsedRecording]) -> None:
    slowest, fastest = min(used, key=lambda r: r.rate_hz), max(used, key=lambda r: r.rate_hz)
    if fastest.rate_hz > MAX_RATE_RATIO * slowest.rate_hz:
        raise DataError(
            "training data",
            f"have sampling rates within a factor of {MAX_RATE_RATIO:g}",
            f"{slowest.rate_hz:.3g} Hz ({slowest.name}) and {fastest.rate_hz:.3g} Hz ({fastest.name})",
            "Train one model for each kind of sensor, or leave one kind out",
        )


def _check_placements(used: Sequence[UsedRecording], config: TrainingConfig) -> None:
    first: dict[str, str] = {}
    for recording in used:
        if recording.placement != "unknown":
            first.setdefault(recording.placement, recording.name)
    if len(first) > 1 and not config.allow_mixed_placement:
        raise DataError(
            "training data",
            "come from one place on the body",
            " and ".join(f"{placement} ({name})" for placement, name in sorted(first.items())),
            "Train one model for each place, or say --allow-mixed-placement",
        )


def _check_names(config: TrainingConfig, tally: Tally) -> None:
    wanted = (
        ("people", config.people + config.exclude_people, tally.seen_people),
        ("activities", config.activities + config.exclude_activities, tally.seen_activities),
    )
    for what, names, seen in wanted:
        unknown = sorted(set(names) - seen)
        if unknown:
            known = ", ".join(sorted(seen)[:40]) or "nobody's"
            near = "" if unknown[0].isdigit() else nearest(unknown[0], seen, "")  # 12 is nobody's slip for 2
            remedy = f"{near} It holds normal recordings of {known}".lstrip()
            raise DataError(what, "be in the data", ", ".join(map(repr, unknown)), remedy)


def _check_amount(used: Sequence[UsedRecording], config: TrainingConfig, tally: Tally) -> None:
    limits = config.limits
    left_out = (
        f"left out: {tally.n_falls} fall recordings, {tally.n_filtered} by filters, {tally.n_too_short} too short"
    )
    remedy = "Record more normal activity"
    if tally.refused_rows:
        left_out += "; rows refused: " + ", ".join(f"{n} {reason}" for reason, n in tally.refused_rows.most_common())
        remedy = "Correct the rows that were refused, or record more normal activity"
    amounts = (
        ("people" if limits.min_people > 1 else "person", len({r.person for r in used}), limits.min_people),
        ("recordings" if limits.min_recordings > 1 else "recording", len(used), limits.min_recordings),
        ("windows", sum(r.n_windows for r in used), limits.min_windows),
    )
    if tally.notes:
        left_out += f"; {tally.notes[0]}"
    for what, n, least in amounts:
        if n < least:
            raise DataError(
                "training data",
                f"hold normal activity: at least {least} {what}",
                f"{n} ({left_out})",
                remedy,
            )


def _check_varied(X: FloatArray) -> None:
    size = np.abs(X).max(axis=0)
    varies = np.ptp(X, axis=0) > 1e-9 * size
    if not varies.any():
        raise DataError(
            "training data", "vary", f"{len(X)} windows that are all the same", "Check the sensor: it is stuck"
        )


def _thinned(n: int, config: TrainingConfig, tally: Tally) -> IntArray:
    """Rows to keep: all, or `max_windows` drawn without replacement, in their order."""
    most = config.limits.max_windows
    if n <= most:
        return np.arange(n)
    tally.n_windows_thinned = n - most
    drawn: IntArray = np.sort(np.random.default_rng([config.seed, 1]).choice(n, most, replace=False))
    return drawn


def digest_samples(block: SampleBlock) -> str:
    """16 hex digits of the SHA-256 of the samples: a copy under another name has the same."""
    parts = (block.t_ns, block.acc_ms2, block.gyr_rads)
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()[:16]


def hash_recording(hasher: hashlib._Hash, recording: Recording) -> None:
    """Name and samples, little-endian: the same data in the same order give the same hash on every machine."""
    block = recording.block
    hasher.update(f"{recording.name}\n{len(block)}\n".encode(errors="surrogateescape"))  # any bytes may name a file
    hasher.update(np.ascontiguousarray(block.t_ns, dtype="<i8").tobytes())
    hasher.update(np.ascontiguousarray(block.acc_ms2, dtype="<f8").tobytes())
    hasher.update(np.ascontiguousarray(block.gyr_rads, dtype="<f8").tobytes())
