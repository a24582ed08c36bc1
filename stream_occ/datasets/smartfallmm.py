"""SmartFallMM: a watch and a device at the hip; each sensor in a file and on a clock of its own.

`<young|old>/<accelerometer|gyroscope>/<watch|meta_hip>/S<id>A<activity>T<trial>.csv`, no header; A10 to A14 are falls.
Watch: `time,x,y,z` in m/s2 and rad/s; hip: `epoch_ms,time,elapsed_s,x,y,z`, or `time,x,y,z`, in g and deg/s. The
variant picks the device. Damage is recognised by what stands in a file, never by its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import PurePosixPath

import numpy as np

from stream_occ.datasets._clock import sampling_instants
from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._pairs import merge_sensors, pair_files
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import Column, decode_text, keep_possible, parse_rows, stack, stamps_ns
from stream_occ.samples import DEG_TO_RAD, NS_PER_S, STANDARD_GRAVITY_MS2, FloatArray, IntArray, Placement, Recording

VARIANTS = ("watch", "hip")
LAYOUT = "young/accelerometer/watch/S29A10T01.csv and young/gyroscope/watch/S29A10T01.csv"
ALLOW_FILE = False

FALLS = range(10, 15)
ACTIVITIES = range(1, 10)
MAX_STEP_BACK_NS = NS_PER_S  # messages swapped on their way are sorted; a jump of minutes is another recording
LINE_DELAY_NS = 100_000_000  # nine tenths of a file are closer to their line, or the file has none
GRAVITY_MS2 = (0.6 * STANDARD_GRAVITY_MS2, 1.8 * STANDARD_GRAVITY_MS2)  # median |a|: 0.98 to 1.42 g in true files
COPY_REACH = 8  # rows from a sample to its copy: up to 5 where messages came twice
MAX_COPY_SHARE = 0.2  # of rows that repeat a near one: half where messages came twice, else under .004
HIP_GYR_STAMPED_NS, HIP_GYR_TRUE_NS = 31_000_000, 20_000_000

_ROLES = {"accelerometer": "acc", "gyroscope": "gyr"}
_NAME = re.compile(r"(S\d+)A(\d+)T(\d+)\.csv", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class _Device:
    placement: Placement
    columns: tuple[tuple[str, ...], ...]
    units: dict[str, float]
    largest: dict[str, float]


_STAMPED = ("stamp", "x", "y", "z")
_DEVICES = {
    "watch": _Device("wrist", (_STAMPED,), {"acc": 1.0, "gyr": 1.0}, {"acc": 200.0, "gyr": 40.0}),
    # the epoch is passed over: in some files a spreadsheet rounded it to one value
    "meta_hip": _Device(
        "waist",
        (("epoch_ms", "stamp", "elapsed_s", "x", "y", "z"), _STAMPED),
        {"acc": STANDARD_GRAVITY_MS2, "gyr": DEG_TO_RAD},
        {"acc": 16.0, "gyr": 2000.0},
    ),
}
_FOLDERS = {"watch": "watch", "hip": "meta_hip"}


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Trials of the variant's device that have both sensors, by person, activity and trial."""
    found: list[tuple[Trial, str, str]] = []
    for name in tree.names:
        path = PurePosixPath(name)
        sensor, device = (part.lower() for part in ("", "", *path.parts)[-3:-1])
        if sensor not in _ROLES or device != _FOLDERS[str(variant)]:
            continue
        match = _NAME.fullmatch(path.name)
        if not match:
            report.note(name, "name says no person, activity and trial, passed over")
            continue
        subject, activity, number = match.group(1).upper(), int(match.group(2)), match.group(3)
        if activity not in FALLS and activity not in ACTIVITIES:
            report.note(name, f"activity A{match.group(2)} is not one of SmartFallMM's, passed over")
            continue
        found.append((Trial(subject, f"A{activity:02d}", f"T{number}"), _ROLES[sensor], name))
    return pair_files(found, report)


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """One recording at the accelerometer's instants, with the gyroscope interpolated onto them."""
    device = PurePosixPath(trial.files["acc"]).parts[-2].lower()
    t_acc, acc = _read(tree, trial.files["acc"], device, "acc", report)
    t_gyr, gyr = _read(tree, trial.files["gyr"], device, "gyr", report)
    length = np.linalg.norm(acc, axis=1)
    median = float(np.median(length)) if len(length) else STANDARD_GRAVITY_MS2
    if not GRAVITY_MS2[0] <= median <= GRAVITY_MS2[1]:
        report.refuse(trial.files["acc"], "no acceleration with gravity", len(t_acc))
        text = f"median |a| of {median:.1f} m/s2 is no acceleration with gravity: another sensor's file, passed over"
        report.note(trial.files["acc"], text)
        return
    device_id = f"smartfallmm-{trial.subject}-{device}"
    block = merge_sensors(trial, (t_acc, acc), (t_gyr, gyr), device_id=device_id, report=report)
    is_fall = int(trial.activity[1:]) in FALLS
    if not len(block):
        if len(t_acc) and len(t_gyr):
            report.note(trial.label, "its gyroscope file is of another time, passed over")
        return
    if is_fall and t_acc[np.argmax(length)] not in block.t_ns:
        report.note(trial.label, "the fall's largest |a| lies where there is no gyroscope and is not in what is used")
    placement = _DEVICES[device].placement
    yield Recording("smartfallmm", trial.subject, trial.activity, trial.trial, is_fall, None, placement, block)


def _read(tree: FileTree, name: str, device: str, role: str, report: LoadReport) -> tuple[IntArray, FloatArray]:
    """Instants (n,) in ns and values (n, 3) in SI units of one sensor's file."""
    form = _DEVICES[device]
    lines = decode_text(tree.read(name), name, report).splitlines()
    n_commas = [line.count(",") for line in lines]
    names = max(form.columns, key=lambda names: n_commas.count(len(names) - 1))
    columns = [Column(column, _parse_stamp if column == "stamp" else float) for column in names]
    table = parse_rows(lines, columns, file=name, report=report)
    t_ns, good = stamps_ns(table["stamp"].astype(np.int64), 1000)
    bounds = np.full(3, form.largest[role])
    t_ns, values = keep_possible(t_ns, good, stack(table, "xyz"), bounds, file=name, report=report)
    if not len(t_ns):
        report.note(name, "no usable row, passed over")
        return t_ns, values
    forward = t_ns >= np.maximum.accumulate(t_ns) - MAX_STEP_BACK_NS
    report.refuse(name, "stamp jumps back", int((~forward).sum()))
    order = np.argsort(t_ns[forward], kind="stable")
    t_ns, values = t_ns[forward][order], values[forward][order] * form.units[role]
    t_ns, values = _without_copies(t_ns, values, name, report)
    if device == "watch":
        return _watch_instants(t_ns, name, report), values
    n_true = len(t_ns)
    if role == "gyr":
        t_ns, n_true = _hip_gyr_instants(t_ns, name, report)
    return t_ns, values[:n_true]


def _without_copies(t_ns: IntArray, values: FloatArray, name: str, report: LoadReport) -> tuple[IntArray, FloatArray]:
    """Rows but those that repeat another in stamp and values, or in values alone where the file holds messages twice.

    The copy of a message comes up to COPY_REACH rows after it, a few ms later: with both, each sample would stand still
    until the next. Of equal rows each second one is a copy; a device that lies still for longer than that has none.
    """
    _, first = np.unique(np.column_stack([t_ns - t_ns[0], values]), axis=0, return_index=True)
    report.refuse(name, "row seen before", len(t_ns) - len(first))
    kept = np.sort(first)
    t_ns, values = t_ns[kept], values[kept]
    n_equal = np.zeros(len(t_ns), np.int64)
    for reach in range(1, min(COPY_REACH, len(t_ns) - 1) + 1):
        n_equal[reach:] += (values[reach:] == values[:-reach]).all(axis=1)
    is_copy = n_equal % 2 == 1
    if is_copy.mean() <= MAX_COPY_SHARE:
        return t_ns, values
    report.refuse(name, "copy of a message", int(is_copy.sum()))
    return t_ns[~is_copy], values[~is_copy]


def _parse_stamp(text: str) -> int:
    """Microseconds since 1970 of a date and time; without a zone the clock is the set's own."""
    moment = datetime.fromisoformat(text)
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)


def _watch_instants(arrival_ns: IntArray, name: str, report: LoadReport) -> IntArray:
    """Instants on the line through the stamps of arrival; where the rate changes on the way, the stamps themselves."""
    instants = sampling_instants(arrival_ns)
    if np.quantile(np.abs(arrival_ns - instants), 0.9) <= LINE_DELAY_NS:
        return instants
    report.note(name, "stamps of arrival lie on no line, used as they are")
    return arrival_ns


def _hip_gyr_instants(t_ns: IntArray, name: str, report: LoadReport) -> tuple[IntArray, int]:
    """Instants of a gyroscope whose 20 ms are stamped as 31 ms, up to the first hole, and how many these are.

    How long a hole of such a clock was cannot be told; the rows behind it are refused.
    """
    steps = np.diff(t_ns)
    if not len(steps) or np.median(steps) != HIP_GYR_STAMPED_NS:
        return t_ns, len(t_ns)
    holes = np.flatnonzero(steps > 2 * HIP_GYR_STAMPED_NS)
    n_true = int(holes[0]) + 1 if len(holes) else len(t_ns)
    report.refuse(name, "behind a hole of a wrong clock", len(t_ns) - n_true)
    report.note(name, "samples taken every 20 ms are stamped every 31 ms, clock restored")
    elapsed = t_ns[:n_true] - t_ns[0]
    return t_ns[0] + elapsed * HIP_GYR_TRUE_NS // HIP_GYR_STAMPED_NS, n_true
