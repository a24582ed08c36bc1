"""A file: one line a change, JSON or CSV, on the disk when `send` returns; begun anew by size or by day.

A full file gets the time in its name (`alerts.jsonl` becomes `alerts.jsonl.20260301T120000Z-000`), and of those the
oldest go beyond keep_files. It is opened, locked and closed for each line: several processes may share it, and whoever
moves it away takes nothing with it. A line that a kill or a full disk cut short is taken off before the next.
"""

from __future__ import annotations

import csv
import errno
import fcntl
import glob
import io
import os
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import Field, field_validator

from stream_occ.samples import NS_PER_S
from stream_occ.sinks._base import Later, Notice, SinkSettings, said

COLUMNS = ("t", "device", "alert_id", "seq", "state", "severity", "reasons", "by", "score", "model")
DAY_S = 86_400
TAIL_BYTES = 1 << 20  # far more than a line


class Settings(SinkSettings):
    """rotate: at max_bytes, by the day in UTC, or never; keep_files: how many full ones are kept."""

    kind: Literal["file"]
    path: Path
    format: Literal["jsonl", "csv"] = "jsonl"
    rotate: Literal["size", "day", "never"] = "size"
    max_bytes: int = Field(default=10_000_000, ge=10_000, le=2**40)
    keep_files: int = Field(default=100, ge=1, le=100_000)

    @field_validator("path")
    @classmethod
    def _named(cls, path: Path) -> Path:
        if not path.name:
            raise ValueError("name a file|Write for example alerts.jsonl")
        return path


class Sink:
    """Lines at the end of the file."""

    def __init__(self, settings: Settings, *, wall_s: Callable[[], float] = time.time) -> None:
        self._settings = settings
        self._wall_s = wall_s

    def send(self, notice: Notice) -> None:
        """One line, and on the disk."""
        try:
            self._rotate(len(notice.body))
            with _opened(self._settings.path) as (handle, size):
                header = _line(COLUMNS) if self._settings.format == "csv" and size == 0 else b""
                _append(handle, size, header + self._lines(notice))
            if size == 0:
                _sync_folder(self._settings.path.parent)
        except OSError as error:
            raise Later(error.strerror or said(error)) from error

    def _lines(self, notice: Notice) -> bytes:
        if self._settings.format == "jsonl":
            return notice.body + b"\n"
        a = notice.alert
        t = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(a.t_ns // NS_PER_S))
        reasons = " ".join(a.reasons)
        return _line((t, a.device_id, a.alert_id, a.seq, a.state, a.severity, reasons, a.by, a.score, a.model_id))

    def _rotate(self, n_more: int) -> None:
        """Gives a full file another name."""
        path, how, now_s = self._settings.path, self._settings.rotate, self._wall_s()
        try:
            found = path.stat()
        except FileNotFoundError:
            return
        is_over = how == "size" and found.st_size + n_more > self._settings.max_bytes
        is_past = how == "day" and int(found.st_mtime // DAY_S) < int(now_s // DAY_S)
        if found.st_size == 0 or not (is_over or is_past) or not stat.S_ISREG(found.st_mode):
            return
        stamp, name = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s)), glob.escape(path.name)
        with _opened(path):  # none writes meanwhile
            if path.stat().st_ino != found.st_ino:  # another process was faster
                return
            numbers = [int(file.name.rpartition("-")[2]) for file in path.parent.glob(f"{name}.{stamp}-[0-9]*")]
            path.rename(path.with_name(f"{path.name}.{stamp}-{max(numbers, default=-1) + 1:03d}"))
        for old in sorted(path.parent.glob(f"{name}.[0-9]*Z-[0-9]*"))[: -self._settings.keep_files]:
            old.unlink()
        _sync_folder(path.parent)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[int, int]]:
    """The file, locked, and its size without what is no whole line; OSError where another has it, or it is no file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC, 0o600)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(errno.EINVAL, "a pipe, socket or device")
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.stat(path).st_ino != found.st_ino:
            raise OSError(errno.EAGAIN, "it was moved away just now")
        size = os.fstat(handle).st_size
        tail = os.pread(handle, TAIL_BYTES, max(0, size - TAIL_BYTES))
        if not tail.endswith(b"\n") and size:
            size -= len(tail) - (tail.rfind(b"\n") + 1)
            os.ftruncate(handle, size)
        yield handle, size
    finally:
        os.close(handle)


def _append(handle: int, size: int, content: bytes) -> None:
    """All of it, or nothing."""
    try:
        n = os.write(handle, content)
        if n < len(content):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.fsync(handle)
    except OSError:
        os.ftruncate(handle, size)
        raise


def _line(cells: tuple[object, ...]) -> bytes:
    """A row of CSV; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    out = io.StringIO()
    safe = [f"'{c}" if isinstance(c, str) and c[:1] in ("=", "+", "-", "@") and len(c) > 1 else c for c in cells]
    csv.writer(out, lineterminator="\n").writerow(safe)
    return out.getvalue().encode()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
