"""Recordings to feature rows for the trainer: what is left out is counted, what cannot be trained on is refused."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from stream_occ.errors import DataError
from stream_occ.features import FeatureSet
from stream_occ.quality import rest_fault, rest_magnitude_ms2
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import NS_PER_S, STANDARD_GRAVITY_MS2, FloatArray, IntArray, Recording, SampleBlock
from stream_occ.training.config import TrainingConfig
from stream_occ.windowing import CutterState, WindowBatch, WindowShape, push_chunk

ProgressReport = Callable[[str, int, int], None]

# A 2000 deg/s sensor, the widest in use, gives at most sqrt(3) * 34.9 = 60.5 rad/s.
MAX_GYR_RADS = 61.0
# Over a while the mean of the vector a is gravity's reaction, so the mean of |a| is g or more: 8.5 to 18 m/s2 over all
# activities of MobiFall, WEDA-FALL and sp-sw-har (the median goes down to 3.3: a jumper is in free fall half the time).
MEAN_ACC_FACTOR = 3.0
# Linear interpolation may fill every second grid point, no more, and a nominal rate may be missed by a tenth.
MIN_RATE_SHARE = 0.45
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
    """Feature rows X (n, d), unscaled; `recording` (n,) says which of `recordings` each row is of."""

    X: FloatArray
    recording: IntArray
    recordings: tuple[UsedRecording, ...]
    tally: Tally
    data_sha256: str

    def activities(self) -> list[str]:
        """Activity of each row."""
        return [self.recordings[i].activity for i in self.recording.tolist()]


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
    shape = WindowShape.of(rate_hz=config.rate_hz, window_s=config.window_s, hop_s=config.train_hop_s or config.hop_s)
    tally, hasher = Tally(), hashlib.sha256()
    rows: list[FloatArray] = []
    used: list[UsedRecording] = []
    for source in sources:
        for n_read, recording in enumerate(source.iter_recordings(), start=1):
            progress(f"Reading {source.name}", n_read, source.n_files)
            if not _is_wanted(recording, config, tally):
                continue
            X, found = _extract(recording, shape, feature_set, sos)
            if not len(X):
                tally.n_too_short += 1
                continue
            rows.append(X)
            used.append(found)
            hash_recording(hasher, recording)
        tally.refused_rows.update(source.report.by_reason())
        tally.notes.extend(source.report.notes)
    _check_names(config, tally)
    _check_amount(used, config, tally)
    _check_rates(used)
    _check_placements(used, config)
    X_all = np.concatenate(rows)
    recording_of = np.repeat(np.arange(len(used)), [len(X) for X in rows])
    keep = _thinned(len(X_all), config, tally)
    X_all, recording_of = X_all[keep], recording_of[keep]
    _check_varied(X_all)
    return TrainingData(X_all, recording_of, tuple(used), tally, hasher.hexdigest())


def measured_rate_hz(t_ns: IntArray) -> float:
    """Samples a second between distinct stamps, holes over 0.5 s left out; 0 for fewer than two."""
    steps = np.diff(np.unique(t_ns))
    steps = steps[steps <= StreamSettings().gap_ns]
    return float(steps.size * NS_PER_S / steps.sum()) if steps.size else 0.0


def slowest_rate_hz(model_rate_hz: float, feature_set: FeatureSet) -> float:
    """The slowest measured rate of a stream that a model of so many Hz may be trained on and tested with."""
    return max(MIN_RATE_SHARE * model_rate_hz, feature_set.min_stream_hz)


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


def _extract(
    recording: Recording, shape: WindowShape, feature_set: FeatureSet, sos: FloatArray | None
) -> tuple[FloatArray, UsedRecording]:
    """Feature rows of a recording and what is remembered of it; raises DataError for samples not to be trained on."""
    block = recording.block
    _check_finite(recording)
    rows, rest = [np.empty((0, len(feature_set.NAMES)))], [np.empty(0)]
    for batch in _window_batches(block, shape, sos):
        try:
            rows.append(feature_set.extract(batch))
        except ValueError as error:
            raise DataError(
                recording.name, f"give features of {feature_set.name}", str(error), "Leave the recording out"
            ) from error
        rest.append(rest_magnitude_ms2(batch.signals))
    X, rate_hz = np.concatenate(rows), measured_rate_hz(block.t_ns)
    if len(X):
        _check_units(recording, np.concatenate(rest))
        _check_rate(recording, rate_hz, shape, feature_set)
    span_s = float(block.t_ns.max() - block.t_ns.min()) / NS_PER_S if len(block) else 0.0
    return X, UsedRecording(
        recording.name, recording.subject, recording.activity, recording.placement, span_s, rate_hz, len(X)
    )


def _window_batches(block: SampleBlock, shape: WindowShape, sos: FloatArray | None) -> Iterator[WindowBatch]:
    """As `cut_windows`, a segment at a time and without stacking them: overlapping windows stay views."""
    if not len(block):
        return
    _, chunks = resample(ResamplerState(), block, rate_hz=shape.rate_hz, settings=StreamSettings())
    state = CutterState()
    for chunk in chunks:
        state, batch = push_chunk(state, chunk, device_id=block.device_id, shape=shape, sos=sos)
        if len(batch):
            yield batch


def _check_finite(recording: Recording) -> None:
    block = recording.block
    bad = ~(np.isfinite(block.acc_ms2).all(axis=1) & np.isfinite(block.gyr_rads).all(axis=1))
    if bad.any():
        got = "NaN or infinity alone" if bad.all() else f"{int(bad.sum())} of {len(block)} with NaN or infinity"
        raise DataError(recording.name, "hold finite samples", got, "Leave the recording out")


def _check_units(recording: Recording, rest_ms2: FloatArray) -> None:
    """|a| at rest, or the mean |a| where nothing is at rest, tells the unit; the gyroscope's range tells degrees."""
    block, at_rest = recording.block, rest_ms2[np.isfinite(rest_ms2)]
    remedy = "Declare the unit it was recorded in, or leave the recording out"
    if at_rest.size:
        magnitude = float(np.median(at_rest))
        fault = rest_fault(magnitude)
        if fault is not None and fault != "acc_scale":
            raise DataError(
                recording.name,
                f"have |a| = {STANDARD_GRAVITY_MS2:.2f} m/s2 at rest",
                f"{magnitude:.3g}, which points to {fault}",
                remedy,
            )
    else:
        magnitude = float(np.sqrt((block.acc_ms2**2).sum(axis=1)).mean())
        if not 1 / MEAN_ACC_FACTOR <= magnitude / STANDARD_GRAVITY_MS2 <= MEAN_ACC_FACTOR:
            expected = f"have a mean |a| within a factor of {MEAN_ACC_FACTOR:g} of {STANDARD_GRAVITY_MS2:.2f} m/s2"
            raise DataError(recording.name, expected, f"{magnitude:.3g}, as of another unit", remedy)
    rotation = float(np.quantile(np.sqrt((block.gyr_rads**2).sum(axis=1)), 0.99))
    if rotation > MAX_GYR_RADS:
        expected = f"have a 99 % quantile of |w| of at most {MAX_GYR_RADS:g} rad/s"
        raise DataError(recording.name, expected, f"{rotation:.3g}, as of degrees", remedy)


def _check_rate(recording: Recording, rate_hz: float, shape: WindowShape, feature_set: FeatureSet) -> None:
    lowest = slowest_rate_hz(shape.rate_hz, feature_set)
    if rate_hz < lowest:
        raise DataError(
            recording.name,
            f"be sampled at {lowest:g} Hz or faster for a model of {shape.rate_hz:g} Hz with {feature_set.name}",
            f"{rate_hz:.3g} Hz",
            "Lower --rate-hz, take a feature set for slower streams, or leave the recording out",
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
            raise DataError(
                what, "be in the data", ", ".join(map(repr, unknown)), f"It holds normal recordings of {known}"
            )


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


def hash_recording(hasher: hashlib._Hash, recording: Recording) -> None:
    """Name and samples, little-endian: the same data in the same order give the same hash on every machine."""
    block = recording.block
    hasher.update(f"{recording.name}\n{len(block)}\n".encode())
    hasher.update(np.ascontiguousarray(block.t_ns, dtype="<i8").tobytes())
    hasher.update(np.ascontiguousarray(block.acc_ms2, dtype="<f8").tobytes())
    hasher.update(np.ascontiguousarray(block.gyr_rads, dtype="<f8").tobytes())
