"""UMAFall: 19 people with SensorTags at waist, wrist, chest and ankle (20 Hz) and a phone; one file holds all sensors.

`UMAFall_Subject_<NN>_<ADL|Fall>_<activity>_<trial>_<date>_<time>.csv`: '%' header, then
`ms;number;x;y;z;type;sensor`, type 0 accelerometer (g), 1 gyroscope (deg/s), 2 magnetometer. Which sensor is where
stands in the header alone. The variant picks the place; the phone has no gyroscope and is no variant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import cast

import numpy as np

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._pairs import merge_sensors
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import Column, decode_text, keep_possible, natural_key, parse_rows, stack, stamps_ns
from stream_occ.samples import DEG_TO_RAD, STANDARD_GRAVITY_MS2, FloatArray, IntArray, Placement, Recording

VARIANTS: tuple[Placement, ...] = ("waist", "wrist", "chest", "ankle")
LAYOUT = "UMAFall_Subject_01_ADL_Walking_1_2017-04-14_23-25-52.csv"
ALLOW_FILE = False

NS_PER_MS = 1_000_000
# type, unit, widest range of the MPU-9250
SENSORS = {"accelerometer": (0, STANDARD_GRAVITY_MS2, 16.0), "gyroscope": (1, DEG_TO_RAD, 2000.0)}
MAX_LOST_SHARE = 0.1

_NAME = re.compile(r"UMAFall_Subject_(\d+)_(ADL|Fall)_(.+?)_(\d+_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d)\.csv", re.IGNORECASE)
_POSITION = re.compile(r"%\s*(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\s*;\s*(\d+)\s*;\s*(\w+)\s*;", re.IGNORECASE)
_NAMES = ("t", "number", "x", "y", "z", "type", "id")
_COLUMNS = [Column(name, float if name in "xyz" else int) for name in _NAMES]
# a spreadsheet took points for marks of thousands: 1.01259815 became 101.259.815, 13.4375 became 134.375
_RESAVED = re.compile(r";-?\d{1,3}(?:\.\d{3}){2,}(?=;)")
_REGROUPED = re.compile(r";-?[1-9]\d{0,2}(?:\.\d{3})+(?=;)")


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Trials by person, activity and number with date: numbers alone come several times.

    The set is published twice in one place; of a trial in both, the file of the corrected version is read.
    """
    trials: dict[tuple[str, str, str], Trial] = {}
    n_corrected = 0
    for name in sorted(tree.names, key=lambda name: (not _is_corrected(name), name)):
        base = PurePosixPath(name).name
        match = _NAME.fullmatch(base)
        if not match:
            if base.lower().startswith("umafall") and base.lower().endswith(".csv"):
                report.note(name, "name says no person, kind, activity, trial and date, passed over")
            continue
        kind = "Fall" if match.group(2).lower() == "fall" else "ADL"
        trial = Trial(match.group(1), f"{kind}_{match.group(3)}", match.group(4), {str(variant): name})
        first = trials.setdefault((trial.subject, trial.activity, trial.trial), trial)
        if first is trial:
            continue
        if _is_corrected(first.label) and not _is_corrected(name):
            n_corrected += 1
        else:
            report.note(name, f"a second file of the same trial, passed over; {first.label} is used")
    if n_corrected:
        report.note(f"{n_corrected} files", "passed over; those of the corrected version are used")
    return [trials[key] for key in sorted(trials, key=lambda key: tuple(map(natural_key, key)))]


def _is_corrected(name: str) -> bool:
    return "corrected" in name.lower()


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """One recording at the accelerometer's stamps; none where more than a tenth of a sensor's rows is lost.

    What a spreadsheet spoils is not spoilt by chance: values below 1 survive it and larger ones do not. A fall of
    which only the small values are left would pass for rest.
    """
    ((place, name),) = trial.files.items()
    lines = [line.strip().rstrip("; \t") for line in decode_text(tree.read(name), name, report).splitlines()]
    positions = {where.lower(): id_ for id_, where in (m.groups() for m in map(_POSITION.match, lines) if m)}
    if place not in positions:
        report.note(name, f"no sensor at the {place} in its header, passed over")
        return
    rows = [line for line in lines if line and not line.startswith("%")]
    whole = [row for row in rows if row.count(";") == len(_COLUMNS) - 1]
    report.refuse(name, "wrong number of fields", len(rows) - len(whole))
    is_resaved = any(map(_RESAVED.search, whole))
    sensors, lost = [], []
    for sensor, (kind, unit, largest) in SENSORS.items():
        own = [row for row in whole if row.endswith(f";{kind};{positions[place]}")]
        good = [row for row in own if not (is_resaved and _REGROUPED.search(row))]
        report.refuse(name, "number regrouped by a spreadsheet", len(own) - len(good))
        t_ns, values = _read(good, largest, name, report)
        sensors.append((t_ns, values * unit))
        if not own:
            lost.append(f"no row of the {place}'s {sensor}")
        elif len(own) - len(t_ns) > MAX_LOST_SHARE * len(own):
            lost.append(f"{len(own) - len(t_ns)} of {len(own)} rows of the {place}'s {sensor} lost")
    if lost:
        report.refuse(name, "left over where more is lost", sum(len(t_ns) for t_ns, _ in sensors))
        report.note(name, f"{' and '.join(lost)}, passed over")
        return
    files = {"acc": name, "gyr": name}
    pair = Trial(trial.subject, trial.activity, trial.trial, files)
    block = merge_sensors(pair, *sensors, device_id=f"umafall-{trial.subject}", report=report)
    if len(block):
        is_fall = trial.activity.startswith("Fall_")
        where = cast(Placement, place)
        yield Recording("umafall", trial.subject, trial.activity, trial.trial, is_fall, None, where, block)


def _read(rows: Sequence[str], largest: float, name: str, report: LoadReport) -> tuple[IntArray, FloatArray]:
    table = parse_rows(rows, _COLUMNS, file=name, report=report, delimiter=";")
    t_ns, good = stamps_ns(table["t"], NS_PER_MS)
    return keep_possible(t_ns, good, stack(table, "xyz"), np.full(3, largest), file=name, report=report)
