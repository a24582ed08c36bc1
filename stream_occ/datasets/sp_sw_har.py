"""sp-sw-har: 23 people stand up, walk, turn and sit down with a phone (`sp`) and a watch (`sw`).

`s<NN>_<EE>_<sp|sw>.csv`: `x_acc,y_acc,z_acc,x_gyro,y_gyro,z_gyro,timestamp,label`, m/s2, rad/s, epoch ms of delivery.
One execution lasts about 11 s and one labelled activity in it about 2 s, too short for a window: an execution is one
recording, and its activity is the whole sequence.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

import numpy as np

from stream_occ.datasets._clock import sampling_instants
from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import (
    MAX_ACC_MS2,
    MAX_GYR_RADS,
    Column,
    decode_text,
    keep_possible,
    natural_key,
    parse_rows,
    stack,
    stamps_ns,
)
from stream_occ.samples import Placement, Recording, SampleBlock

VARIANTS = ("both", "sp", "sw")
LAYOUT = "s01/s01_01_sp.csv and s01_01_sw.csv"
ALLOW_FILE = False

ACTIVITY = "stand-walk-turn-sit"
LABELS = ("SEATED", "STANDING_UP", "WALKING", "TURNING", "SITTING_DOWN")
NS_PER_MS = 1_000_000
# the set's own text says phone and watch; the watch is worn at the wrist, where the phone is carried is not in it
PLACEMENTS: dict[str, Placement] = {"sp": "unknown", "sw": "wrist"}

_NAME = re.compile(r"(s\d+)_(\d+)_(sp|sw)\.csv", re.IGNORECASE)
_VALUES = ("x_acc", "y_acc", "z_acc", "x_gyro", "y_gyro", "z_gyro")


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Executions by person, number and device; variant sp or sw takes one device's alone."""
    trials: dict[tuple[str, str], Trial] = {}
    for name in tree.names:
        match = _NAME.fullmatch(PurePosixPath(name).name)
        if not match or variant not in ("both", match.group(3).lower()):
            continue
        trial = Trial(match.group(1).lower(), ACTIVITY, f"{match.group(2)}_{match.group(3).lower()}", {"all": name})
        first = trials.setdefault((trial.subject, trial.trial), trial)
        if first is not trial:
            report.note(name, f"a second file of the same trial, passed over; {first.label} is used")
    return sorted(trials.values(), key=lambda trial: (natural_key(trial.subject), natural_key(trial.trial)))


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """One recording: an execution as one device saw it, at the recovered instants of sampling."""
    name = trial.files["all"]
    lines = decode_text(tree.read(name), name, report).splitlines()
    columns = [*(Column(column, float) for column in _VALUES), Column("timestamp", int), Column("label", _parse_label)]
    table = parse_rows(lines[1:], columns, file=name, report=report)
    t_ns, good = stamps_ns(table["timestamp"], NS_PER_MS)
    bounds = np.repeat([MAX_ACC_MS2, MAX_GYR_RADS], 3)
    t_ns, values = keep_possible(t_ns, good, stack(table, _VALUES), bounds, file=name, report=report)
    if not len(t_ns):
        return
    order = np.argsort(t_ns, kind="stable")
    values = values[order]
    device = trial.trial.rsplit("_", 1)[1]
    device_id = f"sp-sw-har-{trial.subject}-{device}"
    block = SampleBlock(device_id, sampling_instants(t_ns[order]), values[:, :3], values[:, 3:])
    yield Recording("sp-sw-har", trial.subject, ACTIVITY, trial.trial, False, None, PLACEMENTS[device], block)


def _parse_label(text: str) -> str:
    if text not in LABELS:
        raise ValueError(text)
    return text
