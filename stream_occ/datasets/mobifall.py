"""MobiFall v2.0: a phone in the trouser pocket; accelerometer and gyroscope in separate files at different rates.

`<CODE>_<acc|gyro>_<subject>_<trial>.txt`: '#' header, `@DATA`, then `timestamp_ns, x, y, z`. Stamps are uptime.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np

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
from stream_occ.samples import FloatArray, IntArray, Recording

VARIANTS: tuple[str, ...] = ()
LAYOUT = "sub2/FALLS/FOL/FOL_acc_2_1.txt and FOL_gyro_2_1.txt"
ALLOW_FILE = False

FALL_CODES = frozenset({"FOL", "FKL", "BSC", "SDL"})
ACTIVITY_CODES = frozenset({"STD", "WAL", "JOG", "JUM", "STU", "STN", "SCH", "CSI", "CSO"})
GYR_SETTLING_NS = 150_000_000  # measured: spikes for 50 ms, then a bias of about 1 rad/s until 110 to 130 ms

_NAME = re.compile(r"([A-Z]{3})_(acc|gyro)_(\d+)_(\d+)\.txt", re.IGNORECASE)
_COLUMNS = (Column("t", int), Column("x", float), Column("y", float), Column("z", float))


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Trials by subject number, activity and trial number; the activity is the file name's, whatever the folder's."""
    found: list[tuple[Trial, str, str]] = []
    for name in tree.names:
        match = _NAME.fullmatch(PurePosixPath(name).name)
        if not match:
            continue
        code, sensor, subject, trial = match.group(1).upper(), match.group(2).lower(), match.group(3), match.group(4)
        if code not in FALL_CODES | ACTIVITY_CODES:
            report.note(name, f"activity code {code} is not one of MobiFall's, passed over")
            continue
        found.append((Trial(str(int(subject)), code, str(int(trial))), "acc" if sensor == "acc" else "gyr", name))
    return pair_files(found, report)


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """One recording at the accelerometer's stamps, with the gyroscope interpolated onto them."""
    t_acc, acc = _read(tree, trial.files["acc"], MAX_ACC_MS2, report)
    t_gyr, gyr = _read(tree, trial.files["gyr"], MAX_GYR_RADS, report)
    if len(t_gyr):
        settled = t_gyr >= t_gyr.min() + GYR_SETTLING_NS
        report.refuse(trial.files["gyr"], "gyroscope settling", int((~settled).sum()))
        t_gyr, gyr = t_gyr[settled], gyr[settled]
    device_id = f"mobifall-{trial.subject}"
    block = merge_sensors(trial, (t_acc, acc), (t_gyr, gyr), device_id=device_id, report=report)
    if len(block):
        is_fall = trial.activity in FALL_CODES
        yield Recording("mobifall", trial.subject, trial.activity, trial.trial, is_fall, None, "thigh", block)


def _read(tree: FileTree, name: str, limit: float, report: LoadReport) -> tuple[IntArray, FloatArray]:
    """Stamps (n,) in ns and values (n, 3) of one sensor's file."""
    lines = decode_text(tree.read(name), name, report).splitlines()
    start = next((i for i, line in enumerate(lines) if line.strip().upper() == "@DATA"), None)
    if start is None:
        report.note(name, "no @DATA line, passed over")
        return np.empty(0, np.int64), np.empty((0, 3))
    table = parse_rows(lines[start + 1 :], _COLUMNS, file=name, report=report)
    t_ns, good = stamps_ns(table["t"], 1)
    return keep_possible(t_ns, good, stack(table, "xyz"), np.full(3, limit), file=name, report=report)
