"""Anyone's recordings as CSV with a unit in every column's name; docs/datasets.md documents the columns.

Needed: one of t_ns, t_us, t_ms, t_s; acc_{x,y,z}_{ms2|g|mg}; gyr_{x,y,z}_{rads|dps|mdps}. Optional: subject, activity,
trial, is_fall, placement, fall_start_s, fall_end_s. A new recording starts where an optional column changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast, get_args

import numpy as np
from numpy.typing import NDArray

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import (
    MAX_ACC_MS2,
    MAX_GYR_RADS,
    MAX_STAMP_NS,
    Column,
    decode_text,
    keep_possible,
    natural_key,
    parse_rows,
    stack,
    stamps_ns,
)
from stream_occ.errors import DataError
from stream_occ.samples import ACC_UNITS, GYR_UNITS, NS_PER_S, Placement, Recording, SampleBlock

VARIANTS: tuple[str, ...] = ()
LAYOUT = "*.csv with columns such as t_ms, acc_x_g, ..., gyr_x_dps, ..."
ALLOW_FILE = True

STAMP_UNITS = {"t_ns": 1, "t_us": 1_000, "t_ms": 1_000_000, "t_s": NS_PER_S}
ACC_SUFFIXES = {"ms2": ACC_UNITS["m/s2"], "g": ACC_UNITS["g"], "mg": ACC_UNITS["mg"]}
GYR_SUFFIXES = {"rads": GYR_UNITS["rad/s"], "dps": GYR_UNITS["deg/s"], "mdps": GYR_UNITS["mdeg/s"]}
ID_COLUMNS = ("subject", "activity", "trial", "is_fall", "placement", "fall_start_s", "fall_end_s")
PLACEMENTS = get_args(Placement)

_SENSOR_COLUMN = re.compile(r"(acc|gyr)_([xyz])(?:_(\w+))?")
_TRUTH = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False, "": False}


@dataclass(frozen=True, slots=True)
class _Header:
    columns: tuple[str, ...]
    t_column: str
    acc: tuple[str, str, str]
    gyr: tuple[str, str, str]
    acc_factor: float
    gyr_factor: float

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(name for name in self.columns if name in ID_COLUMNS)


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """CSV files with a header of ours, sorted naturally; folders name subject and activity where no column does."""
    trials = []
    for name in tree.names:
        path = PurePosixPath(name)
        if path.suffix.lower() != ".csv" and len(tree.names) > 1:
            continue
        if not _looks_like_ours(tree.head(name)):
            report.note(name, "unreadable or no column of a recording in its first line, passed over")
            continue
        folders = path.parts[:-1]
        subject = folders[-2] if len(folders) >= 2 else folders[-1] if folders else "unknown"
        activity = folders[-1] if len(folders) >= 2 else "unknown"
        trials.append(Trial(subject, activity, path.stem, {"all": name}))
    return sorted(trials, key=lambda trial: natural_key(trial.files["all"]))


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """The recordings of one file, in the order of its rows."""
    name = trial.files["all"]
    lines = decode_text(tree.read(name), name, report).splitlines()
    at = next(i for i, line in enumerate(lines) if _is_content(line))
    header = _parse_header(lines[at], name)
    # a float holds whole microseconds exactly until the year 2255; nanoseconds of an epoch it does not
    kinds: dict[str, Callable[[str], object]] = {header.t_column: int if header.t_column == "t_ns" else float}
    kinds.update(dict.fromkeys(header.acc + header.gyr, float))
    columns = [Column(column, kinds.get(column, _PARSERS.get(column, str))) for column in header.columns]
    rows = [line for line in lines[at + 1 :] if not line.lstrip().startswith("#")]
    table = parse_rows(rows, columns, file=name, report=report)
    starts = _starts(table, header.ids)
    if "is_fall" not in header.ids and "fall" in name.lower():
        report.note(name, "has no is_fall column: taken as normal activity although its name says fall")
    for start, end in zip(starts, [*starts[1:], len(table[header.t_column])], strict=False):
        part = {column: values[start:end] for column, values in table.items()}
        recording = _build(trial, header, part, report)
        if recording is not None:
            yield recording


def _build(
    trial: Trial, header: _Header, table: dict[str, NDArray[np.generic]], report: LoadReport
) -> Recording | None:
    name = trial.files["all"]
    t_ns, good = stamps_ns(table[header.t_column], STAMP_UNITS[header.t_column])
    factors = np.repeat([header.acc_factor, header.gyr_factor], 3)
    values = stack(table, header.acc + header.gyr) * factors
    bounds = np.repeat([MAX_ACC_MS2, MAX_GYR_RADS], 3)
    t_ns, values = keep_possible(t_ns, good, values, bounds, file=name, report=report)
    if not len(t_ns):
        return None
    ids = {column: table[column][0] for column in header.ids}
    subject = str(ids.get("subject") or trial.subject)
    activity = str(ids.get("activity") or trial.activity)
    start_s, end_s = cast(float | None, ids.get("fall_start_s")), cast(float | None, ids.get("fall_end_s"))
    interval = None
    if start_s is not None and end_s is not None:
        interval = (int(t_ns[0]) + round(start_s * NS_PER_S), int(t_ns[0]) + round(end_s * NS_PER_S))
    is_fall = bool(ids.get("is_fall", interval is not None))
    if interval is not None and (not is_fall or interval[1] <= interval[0]):
        report.note(name, f"fall interval of {subject}/{activity} ends before it starts or is_fall is 0: left out")
        interval = None
    return Recording(
        dataset="csv",
        subject=subject,
        activity=activity,
        trial=str(ids.get("trial") or trial.trial),
        is_fall=is_fall,
        fall_interval_ns=interval,
        placement=cast(Placement, ids.get("placement") or "unknown"),
        block=SampleBlock(f"csv-{subject}", t_ns, values[:, :3], values[:, 3:]),
    )


def _starts(table: dict[str, NDArray[np.generic]], ids: Sequence[str]) -> list[int]:
    """Rows at which a recording starts: the first one, and each where an id column changes."""
    n_rows = len(next(iter(table.values())))
    if not n_rows:
        return []
    changed = np.zeros(n_rows, bool)
    changed[0] = True
    for column in ids:
        changed[1:] |= np.asarray(table[column][1:] != table[column][:-1], bool)
    return [int(i) for i in np.flatnonzero(changed)]


def _is_content(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _names(line: str) -> tuple[str, ...]:
    return tuple(field.strip().strip('"').lower() for field in line.split(","))


def _looks_like_ours(head: bytes) -> bool:
    text = head.decode("utf-8-sig", errors="replace")
    first = next((line for line in text.splitlines() if _is_content(line)), "")
    return any(_SENSOR_COLUMN.fullmatch(field) or field in STAMP_UNITS for field in _names(first))


def _parse_header(line: str, file: str) -> _Header:
    names = _names(line)
    if len(set(names)) < len(names):
        raise DataError(f"{file}: header", "name each column once", line, "Rename the column that comes twice")
    if "" in names:
        raise DataError(f"{file}: header", "name every column", line, "Name the one that has no name, or take it out")
    stamps = [field for field in names if field in STAMP_UNITS]
    if len(stamps) != 1:
        got = ", ".join(stamps) or "no such column"
        raise DataError(f"{file}: header", "have one of t_ns, t_us, t_ms, t_s", got, "Name the stamps' unit")
    acc, acc_factor = _sensor_columns(names, "acc", ACC_SUFFIXES, file)
    gyr, gyr_factor = _sensor_columns(names, "gyr", GYR_SUFFIXES, file)
    return _Header(names, stamps[0], acc, gyr, acc_factor, gyr_factor)


def _sensor_columns(
    names: Sequence[str], sensor: str, suffixes: dict[str, float], file: str
) -> tuple[tuple[str, str, str], float]:
    matches = (_SENSOR_COLUMN.fullmatch(field) for field in names)
    found = {match.group(2): match for match in matches if match and match.group(1) == sensor}
    wanted = " or ".join(f"{sensor}_x_{suffix}" for suffix in suffixes)
    if set(found) != set("xyz"):
        missing = "no column of axis " + ", ".join(sorted(set("xyz") - set(found)))
        raise DataError(f"{file}: header", f"have {sensor}_x, _y and _z with their unit ({wanted})", missing, "Add it")
    units = {match.group(3) for match in found.values()}
    if len(units) != 1 or None in units or not units <= set(suffixes):
        got = ", ".join(match.group(0) for match in found.values())
        raise DataError(f"{file}: header", f"name one known unit for its columns ({wanted})", got, "Name the unit")
    return (found["x"][0], found["y"][0], found["z"][0]), suffixes[str(units.pop())]


def _parse_truth(text: str) -> bool:
    if text.lower() not in _TRUTH:
        raise ValueError(text)
    return _TRUTH[text.lower()]


def _parse_placement(text: str) -> str:
    if text and text not in PLACEMENTS:
        raise ValueError(text)
    return text


def _parse_optional_s(text: str) -> float | None:
    if not text:
        return None
    value = float(text)
    if not abs(value) < MAX_STAMP_NS / NS_PER_S:
        raise ValueError(text)
    return value


_PARSERS: dict[str, Callable[[str], object]] = {
    "is_fall": _parse_truth,
    "placement": _parse_placement,
    "fall_start_s": _parse_optional_s,
    "fall_end_s": _parse_optional_s,
}
