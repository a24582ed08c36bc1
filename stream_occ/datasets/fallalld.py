"""FallAllD: 15 people with three devices, at neck, wrist and waist; raw counts at 238 Hz, one file a sensor.

`S<NN>_D<1 neck|2 wrist|3 waist>_A<NNN>_T<NN>_<A|G>.dat`: three whole numbers a line, no stamps. A101 to A135 are
falls. The variant picks the place.
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
from stream_occ.datasets._steady import read_steady
from stream_occ.samples import DEG_TO_RAD, STANDARD_GRAVITY_MS2, Placement, Recording

VARIANTS: tuple[Placement, ...] = ("waist", "wrist", "neck")
LAYOUT = "S01_D3_A001_T01_A.dat and S01_D3_A001_T01_G.dat"
ALLOW_FILE = False

RATE_HZ = 238
ACC_MS2 = 0.000244 * STANDARD_GRAVITY_MS2
GYR_RADS = 0.07 * DEG_TO_RAD
LARGEST_COUNTS = np.full(3, 2.0**15)
FULL_SCALE = (8 * STANDARD_GRAVITY_MS2, 2000 * DEG_TO_RAD)  # of the LSM9DS1 with these counts, 0.244 mg and 70 mdeg/s
PLACES: dict[str, Placement] = {"1": "neck", "2": "wrist", "3": "waist"}
FALLS = range(101, 136)
ACTIVITIES = range(1, 100)

_NAME = re.compile(r"(S\d+)_D([123])_A(\d{3})_(T\d+)_([AG])\.dat", re.IGNORECASE)


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Trials of the variant's device that have both sensors, by person, activity and number."""
    found: list[tuple[Trial, str, str]] = []
    for name in tree.names:
        if name.lower().endswith(".pkl"):
            report.note(name, "made of the set's files, and a pickle can run code: give those files, passed over")
        match = _NAME.fullmatch(PurePosixPath(name).name)
        if not match or PLACES[match.group(2)] != variant:
            continue
        subject, code, number, sensor = match.group(1).upper(), match.group(3), match.group(4).upper(), match.group(5)
        if int(code) not in FALLS and int(code) not in ACTIVITIES:
            report.note(name, f"activity code A{code} is not one of FallAllD's, passed over")
            continue
        found.append((Trial(subject, f"A{code}", number), "acc" if sensor.upper() == "A" else "gyr", name))
    return pair_files(found, report)


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """One recording: row i of both files is one instant."""
    sensors = []
    for role, scale in (("acc", ACC_MS2), ("gyr", GYR_RADS)):
        name = trial.files[role]
        t_ns, counts = read_steady(tree, name, "xyz", rate_hz=RATE_HZ, bounds=LARGEST_COUNTS, report=report)
        sensors.append((t_ns, counts * scale))
    block = merge_sensors(trial, *sensors, device_id=f"fallalld-{trial.subject}", report=report)
    if len(block):
        match = _NAME.fullmatch(PurePosixPath(trial.files["acc"]).name)
        assert match is not None  # `find` took the file by this name
        place = PLACES[match.group(2)]
        is_fall = int(trial.activity[1:]) in FALLS
        names = "fallalld", trial.subject, trial.activity, trial.trial
        yield Recording(*names, is_fall, None, place, block, FULL_SCALE)
