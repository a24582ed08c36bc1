"""WEDA-FALL: a watch at the wrist; accelerometer and gyroscope in separate CSV files, stamped on arrival.

`<50Hz|25Hz>/<F01..F08|D01..D11>/U<subject>_R<trial>_<accel|gyro>.csv` in seconds, and `fall_timestamps.csv`. The
stamps of a file come in bursts and some groups of rows are swapped: rows are sorted by stamp and the instants of
sampling are recovered (`_clock.sampling_instants`), at whatever rate the trial was really sampled.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np

from stream_occ.datasets._clock import sampling_instants
from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._pairs import merge_sensors, pair_files
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import (
    MAX_ACC_MS2,
    MAX_GYR_RADS,
    Column,
    decode_text,
    keep_possible,
    parse_rows,
    stack,
    stamps_ns,
)
from stream_occ.samples import NS_PER_S, FloatArray, IntArray, Recording

VARIANTS = ("50Hz", "25Hz")
LAYOUT = "50Hz/F01/U01_R01_accel.csv and U01_R01_gyro.csv"
ALLOW_FILE = False

FALL_TIMES = "fall_timestamps.csv"

_NAME = re.compile(r"(U\d+)_(R\d+)_(accel|gyro)\.csv", re.IGNORECASE)
_ACTIVITY = re.compile(r"[FD]\d\d")
_COLUMNS = (Column("t", float), Column("x", float), Column("y", float), Column("z", float))


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Trials of the variant's folder, by person, activity and trial; here the folder alone names the activity."""
    found: list[tuple[Trial, str, str]] = []
    falls: str | None = None
    for name in tree.names:
        path = PurePosixPath(name)
        if path.name == FALL_TIMES:
            falls = falls or name
        match = _NAME.fullmatch(path.name)
        if not match or len(path.parts) < 2 or not _ACTIVITY.fullmatch(path.parts[-2]):
            continue
        rate = path.parts[-3] if len(path.parts) > 2 else tree.path.name
        if rate != variant:
            continue
        subject, number, sensor = match.group(1).upper(), match.group(2).upper(), match.group(3).lower()
        found.append((Trial(subject, path.parts[-2], number), "acc" if sensor == "accel" else "gyr", name))
    trials = pair_files(found, report)
    if falls is None and any(trial.activity.startswith("F") for trial in trials):
        report.note(FALL_TIMES, "not found: no fall has an annotated interval")
    return [_with_fall_times(trial, falls) for trial in trials]


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """One recording at the accelerometer's recovered instants, with the gyroscope interpolated onto them."""
    acc = _read(tree, trial.files["acc"], MAX_ACC_MS2, report)
    gyr = _read(tree, trial.files["gyr"], MAX_GYR_RADS, report)
    block = merge_sensors(trial, acc, gyr, device_id=f"weda-fall-{trial.subject}", report=report)
    if not len(block):
        return
    is_fall = trial.activity.startswith("F")
    interval = _fall_interval(tree, trial, report) if is_fall else None
    yield Recording("weda-fall", trial.subject, trial.activity, trial.trial, is_fall, interval, "wrist", block)


def _with_fall_times(trial: Trial, falls: str | None) -> Trial:
    files = trial.files if falls is None else {**trial.files, "falls": falls}
    return Trial(trial.subject, trial.activity, trial.trial, files)


def _read(tree: FileTree, name: str, limit: float, report: LoadReport) -> tuple[IntArray, FloatArray]:
    """Instants of sampling (n,) in ns from the file's first sample on, and values (n, 3)."""
    lines = decode_text(tree.read(name), name, report).splitlines()
    table = parse_rows(lines[1:], _COLUMNS, file=name, report=report)
    t_ns, good = stamps_ns(table["t"], NS_PER_S)
    t_ns, values = keep_possible(t_ns, good, stack(table, "xyz"), np.full(3, limit), file=name, report=report)
    if not len(t_ns):
        return t_ns, values
    order = np.argsort(t_ns, kind="stable")
    # a file's clock starts at its first sample; in one file that row was swapped and the clock counts from a later one
    arrival_ns = t_ns[order] - t_ns[order[0]]
    return sampling_instants(arrival_ns), values[order]


def _fall_interval(tree: FileTree, trial: Trial, report: LoadReport) -> tuple[int, int] | None:
    name = trial.files.get("falls")
    if name is None:
        return None
    key = f"{trial.activity}/{trial.subject}_{trial.trial}"
    for line in decode_text(tree.read(name), name, report).splitlines():
        fields = [field.strip() for field in line.split(",")]
        if fields[0] != key:
            continue
        try:
            start_s, end_s = (float(field) for field in fields[1:])
        except ValueError:
            break
        if math.isfinite(start_s) and math.isfinite(end_s) and start_s < end_s:
            return round(start_s * NS_PER_S), round(end_s * NS_PER_S)
        break
    report.note(name, f"no usable interval for {key}")
    return None
