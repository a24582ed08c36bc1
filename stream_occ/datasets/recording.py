"""What `stream-occ record` writes: one append-only text file per device, which a crash can cost its last line alone.

The first line is a JSON header; each other line is `t_ns,ax,ay,az,gx,gy,gz` (m/s2 with gravity, rad/s), with floats in
the shortest form that reads back bit for bit. A last line without its end was cut off and is not used.
"""

from __future__ import annotations

import io
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import cast, get_args

import numpy as np

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.datasets._rows import Column, decode_text, keep_possible, natural_key, parse_rows, stack
from stream_occ.errors import DataError
from stream_occ.samples import Placement, Recording, SampleBlock

VARIANTS: tuple[str, ...] = ()
LAYOUT = "files written by `stream-occ record`"
ALLOW_FILE = True

FORMAT = "stream-occ-recording"
VERSION = 1
COLUMNS = ("t_ns", "ax", "ay", "az", "gx", "gy", "gz")
UNITS = {"t": "ns", "acc": "m/s2, gravity included", "gyr": "rad/s"}
MAX_HEADER_BYTES = 4096
CUT_OFF = "cut off while written"

_MAGIC = f'{{"format": "{FORMAT}"'.encode()
_COLUMNS = (Column("t_ns", int), *(Column(name, float) for name in COLUMNS[1:]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordingHeader:
    """The first line of a recording file; full_scale as in `Recording`, in the line where something is known of it."""

    device_id: str
    subject: str
    activity: str
    is_fall: bool
    placement: Placement
    full_scale: tuple[float, float] = (np.inf, np.inf)

    def to_line(self) -> str:
        """The header as one line of JSON, without its end."""
        fields = {
            "format": FORMAT,
            "version": VERSION,
            "device_id": self.device_id,
            "subject": self.subject,
            "activity": self.activity,
            "is_fall": self.is_fall,
            "placement": self.placement,
            "units": UNITS,
            "columns": COLUMNS,
        }
        if self.full_scale != (np.inf, np.inf):
            fields["full_scale"] = [value if np.isfinite(value) else None for value in self.full_scale]
        return json.dumps(fields)


class RecordingWriter:
    """Appends the blocks of one device to a file; every block is with the operating system when `append` returns.

    A file that exists is continued if its header is the same; DataError otherwise. A line cut off by a crash is
    closed with a mark that has it refused, never read as a shorter number.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        device_id: str,
        *,
        subject: str | None = None,
        activity: str = "unknown",
        is_fall: bool = False,
        placement: Placement = "unknown",
        full_scale: tuple[float, float] = (np.inf, np.inf),
    ) -> None:
        self.path = Path(path)
        self.n_samples = 0
        self.header = RecordingHeader(
            device_id=device_id,
            subject=device_id if subject is None else subject,
            activity=activity,
            is_fall=is_fall,
            placement=placement,
            full_scale=full_scale,
        )
        line = self.header.to_line().encode() + b"\n"
        if len(line) > MAX_HEADER_BYTES:
            raise DataError(
                str(path), f"have a header of at most {MAX_HEADER_BYTES} bytes", f"{len(line)}", "Shorten it"
            )
        try:
            self._stream: io.BufferedWriter | None = self.path.open("ab")
        except OSError as error:
            raise DataError(str(path), "be a file that can be written", str(error.strerror), "Check --out") from error
        try:
            self._resume(line)
        except BaseException:
            self.close()
            raise

    def append(self, block: SampleBlock) -> None:
        """Writes the block's samples, in the order in which they came."""
        if self._stream is None:
            raise ValueError(f"{self.path} is closed")
        if block.device_id != self.header.device_id:
            raise ValueError(f"{self.path} holds {self.header.device_id!r}, not {block.device_id!r}")
        rows = zip(block.t_ns.tolist(), block.acc_ms2.tolist(), block.gyr_rads.tolist(), strict=True)
        lines = [f"{t},{a[0]!r},{a[1]!r},{a[2]!r},{g[0]!r},{g[1]!r},{g[2]!r}\n" for t, a, g in rows]
        self._stream.write("".join(lines).encode())
        self._stream.flush()
        self.n_samples += len(block)

    def close(self) -> None:
        """Brings the file to the disk and lets go of it; may be called twice."""
        if self._stream is None:
            return
        stream, self._stream = self._stream, None
        with stream:
            stream.flush()
            os.fsync(stream.fileno())

    def __enter__(self) -> RecordingWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _resume(self, line: bytes) -> None:
        """Writes the header of a new file, or checks that of an old one and closes a line that was cut off."""
        assert self._stream is not None
        with self.path.open("rb") as old:
            first = old.readline(MAX_HEADER_BYTES)
            if not first or (line.startswith(first) and not first.endswith(b"\n")):  # new, or cut off within its header
                self._stream.write(line[len(first) :])
                self._stream.flush()
                return
            if first != line:
                got = "another device, activity or format"
                raise DataError(str(self.path), "be this device's recording", got, "Give another file name")
            old.seek(-1, os.SEEK_END)
            if old.read(1) != b"\n":
                self._stream.write(b",cut off\n")
                self._stream.flush()


def find(tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
    """Files that begin as a recording does, whatever they are called, sorted naturally."""
    names = [name for name in tree.names if tree.head(name, len(_MAGIC)) == _MAGIC]
    trials = [Trial("", "", PurePosixPath(name).stem, {"all": name}) for name in names]
    return sorted(trials, key=lambda trial: natural_key(trial.files["all"]))


def load(tree: FileTree, trial: Trial, report: LoadReport) -> Iterator[Recording]:
    """The recording of one file; a header that is damaged or of a future version is a DataError."""
    name = trial.files["all"]
    lines = decode_text(tree.read(name), name, report).split("\n")
    header = _parse_header(lines[0], name)
    if lines[-1]:
        report.refuse(name, CUT_OFF)
    n_cut = sum(line.endswith(",cut off") for line in lines[1:-1])
    report.refuse(name, CUT_OFF, n_cut)
    rows = [line for line in lines[1:-1] if not line.endswith(",cut off")] if n_cut else lines[1:-1]
    table = parse_rows(rows, _COLUMNS, file=name, report=report)
    t_ns = table["t_ns"].astype(np.int64)
    # what the service took in is written as it came: finite is all that is asked of it here
    anything = np.full(6, np.inf)
    t_ns, values = keep_possible(
        t_ns, np.ones(len(t_ns), bool), stack(table, COLUMNS[1:]), anything, file=name, report=report
    )
    if not len(t_ns):
        return
    block = SampleBlock(header.device_id, t_ns, values[:, :3], values[:, 3:])
    names = "recording", header.subject, header.activity, trial.trial
    yield Recording(*names, header.is_fall, None, header.placement, block, header.full_scale)


def _parse_header(line: str, file: str) -> RecordingHeader:
    try:
        fields = json.loads(line)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict) or fields.get("format") != FORMAT:
        raise DataError(f"{file}: first line", "be the header of a recording", "damaged JSON", "Restore the line")
    if fields.get("version") != VERSION:
        got = f"version {fields.get('version')!r}"
        raise DataError(f"{file}: first line", f"be of version {VERSION}", got, "Use the release that wrote it")
    texts = [fields.get(key) for key in ("device_id", "subject", "activity")]
    placement, is_fall = fields.get("placement"), fields.get("is_fall")
    if not all(isinstance(text, str) for text in texts) or not isinstance(is_fall, bool):
        got = "a key that is missing or of another kind"
        raise DataError(f"{file}: first line", "hold device_id, subject, activity and is_fall", got, "Restore the line")
    if placement not in get_args(Placement) or fields.get("units") != UNITS or fields.get("columns") != list(COLUMNS):
        got = "others"
        raise DataError(
            f"{file}: first line", "hold the placement, units and columns of its version", got, "Restore it"
        )
    device_id, subject, activity = cast(list[str], texts)
    return RecordingHeader(
        device_id=device_id,
        subject=subject,
        activity=activity,
        is_fall=is_fall,
        placement=cast(Placement, placement),
        full_scale=_full_scale(fields.get("full_scale", [None, None]), file),
    )


def _full_scale(pair: object, file: str) -> tuple[float, float]:
    """Of (acc, gyr), null where nobody knows."""
    if (
        isinstance(pair, list)
        and len(pair) == 2
        and all(v is None or (type(v) in (int, float) and v > 0) for v in pair)
    ):
        acc, gyr = (np.inf if value is None else float(value) for value in pair)
        return acc, gyr
    expected = "hold two positive numbers or null as full_scale"
    raise DataError(f"{file}: first line", expected, "something else", "Restore the line")
