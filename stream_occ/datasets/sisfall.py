"""SisFall: 38 people with one device at the waist: two accelerometers and a gyroscope, raw counts at 200 Hz.

`<D01-D19|F01-F15>_<SA|SE><NN>_R<NN>.txt`: nine whole numbers a line, no stamps, ';' at the end. F are falls; SA are
young adults, SE people above 60. The variant picks the accelerometer.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import natural_key
from stream_occ.datasets._steady import read_steady
from stream_occ.samples import DEG_TO_RAD, STANDARD_GRAVITY_MS2, Recording, SampleBlock

VARIANTS = ("adxl345", "mma8451q")
LAYOUT = "SA01/D01_SA01_R01.txt"
ALLOW_FILE = False

RATE_HZ = 200
GYR_RADS = 4000 / 2**16 * DEG_TO_RAD  # ITG3200: +-2000 deg/s in 16 bits
# +-16 g in 13 bits, +-8 g in 14 bits; the first column of each
ACC = {"adxl345": (0, 32 / 2**13 * STANDARD_GRAVITY_MS2), "mma8451q": (6, 16 / 2**14 * STANDARD_GRAVITY_MS2)}
LARGEST_COUNTS = np.repeat([2.0**12, 2.0**15, 2.0**13], 3)
FULL_SCALE = {"adxl345": 16 * STANDARD_GRAVITY_MS2, "mma8451q": 8 * STANDARD_GRAVITY_MS2}

_NAME = re.compile(r"(D(?:0[1-9]|1\d)|F(?:0[1-9]|1[0-5]))_(S[AE]\d\d)_(R\d\d)\.txt", re.IGNORECASE)
_COLUMNS = [f"{sensor}_{axis}" for sensor in ("adxl", "gyr", "mma") for axis in "xyz"]


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Trials by person, activity and number, all from the file's name."""
    trials: dict[tuple[str, str, str], Trial] = {}
    for name in tree.names:
        match = _NAME.fullmatch(PurePosixPath(name).name)
        if not match:
            continue
        activity, subject, number = match.group(1).upper(), match.group(2).upper(), match.group(3).upper()
        trial = Trial(subject, activity, number, {str(variant): name})
        first = trials.setdefault((subject, activity, number), trial)
        if first is not trial:
            report.note(name, f"a second file of the same trial, passed over; {first.label} is used")
    return [trials[key] for key in sorted(trials, key=lambda key: tuple(map(natural_key, key)))]


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """One recording from the file's first row on; all nine counts of a row must be possible for it to be used."""
    ((variant, name),) = trial.files.items()
    t_ns, counts = read_steady(tree, name, _COLUMNS, rate_hz=RATE_HZ, bounds=LARGEST_COUNTS, report=report)
    if not len(t_ns):
        return
    first, acc_ms2 = ACC[variant]
    block = SampleBlock(
        f"sisfall-{trial.subject}", t_ns, counts[:, first : first + 3] * acc_ms2, counts[:, 3:6] * GYR_RADS
    )
    is_fall = trial.activity.startswith("F")
    full_scale = FULL_SCALE[variant], 2000 * DEG_TO_RAD
    yield Recording("sisfall", trial.subject, trial.activity, trial.trial, is_fall, None, "waist", block, full_scale)
