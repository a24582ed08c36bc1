"""Sets that keep accelerometer and gyroscope in two files: pairing the files and merging their rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stream_occ.datasets._clock import interpolate_gyr
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import natural_key
from stream_occ.samples import FloatArray, IntArray, SampleBlock

_SENSOR = {"acc": "accelerometer", "gyr": "gyroscope"}


def pair_files(found: Iterable[tuple[Trial, str, str]], report: LoadReport) -> Sequence[Trial]:
    """Trials that have both files, sorted naturally; a file without its partner, or a second copy of one, is a note."""
    trials: dict[tuple[str, str, str], Trial] = {}
    for trial, role, name in found:
        known = trials.setdefault((trial.subject, trial.activity, trial.trial), trial)
        if role in known.files:
            report.note(name, f"a second file of the same trial, passed over; {known.files[role]} is used")
            continue
        known.files[role] = name
    paired = []
    for trial in trials.values():
        missing = [sensor for role, sensor in _SENSOR.items() if role not in trial.files]
        if missing:
            report.note(trial.label, f"no {missing[0]} file of the same trial, passed over")
            continue
        paired.append(Trial(trial.subject, trial.activity, trial.trial, {role: trial.files[role] for role in _SENSOR}))
    return sorted(paired, key=lambda trial: tuple(map(natural_key, (trial.subject, trial.activity, trial.trial))))


def merge_sensors(
    trial: Trial,
    acc: tuple[IntArray, FloatArray],
    gyr: tuple[IntArray, FloatArray],
    *,
    device_id: str,
    report: LoadReport,
) -> SampleBlock:
    """Block at the accelerometer's stamps; each sensor is (t_ns, values). Rows that get no gyroscope are counted."""
    t_acc, acc_ms2 = acc
    merged = interpolate_gyr(t_acc, *gyr)
    report.refuse(trial.files["acc"], "outside the gyroscope's time", merged.n_outside)
    report.refuse(trial.files["acc"], "inside a hole of the gyroscope", merged.n_in_hole)
    report.refuse(trial.files["gyr"], "gyroscope stamp seen before", merged.n_duplicate_gyr)
    return SampleBlock(device_id, t_acc[merged.keep], acc_ms2[merged.keep], merged.gyr_rads)
