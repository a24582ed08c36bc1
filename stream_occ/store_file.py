"""The state file as a file: whose it is, whether it is in use, and how a damaged one is told."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import IO

from stream_occ.errors import DataError, ServiceError
from stream_occ.regular import open_regular

HEADER_BYTES = 100  # of an SQLite file
APPLICATION_ID = 0x0CC57A7E  # marks the file as ours, at offset 68 of an SQLite file
REMEDY = "Set state.path to another file, or move this one away: open alerts in it are then forgotten"


def check_kind(path: Path) -> None:
    """Raises DataError where the file, or the lock beside it, is there and none that can be opened without waiting."""
    for each in (path, _lock_of(path)):
        if each.exists() and not (each.is_file() or each.is_dir()):
            raise DataError(str(each), "be a file", "a pipe, socket or device", REMEDY)


def check_header(path: Path) -> None:
    """Raises DataError where the file is not empty and does not bear our mark; SQLite, if asked, might write to it."""
    with open_regular(path) as file:
        header = file.read(HEADER_BYTES)
    if header and not header.startswith(b"SQLite format 3\0"):
        raise damaged(path, "one that is not a database")
    if header and int.from_bytes(header[68:72], "big") != APPLICATION_ID:
        raise DataError(str(path), "be a state file of stream-occ", "another program's database", REMEDY)


def damaged(path: Path, got: str) -> DataError:
    """The error that says so."""
    return DataError(str(path), "be an undamaged state file", got, REMEDY)


def locked(path: Path, *, holder: str = "a running detector", key: str = "state.path") -> IO[str]:
    """A lock beside the file, held while it is open: SQLite's own locks would let two services write in turn."""
    lock = _lock_of(path).open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        lock.close()
        remedy = f"Stop it, or give this one its own {key}"
        raise ServiceError(str(path), "be held by one process", holder, remedy) from error
    return lock


def identities(path: Path) -> list[tuple[int, int] | None]:
    """What the names of the file, of its log and of its lock lead to: device and inode, None where to nothing."""
    return [_identity(each) for each in (path, path.with_name(path.name + "-wal"), _lock_of(path))]


def copy_to(path: Path, db: sqlite3.Connection) -> None:
    """Makes the file, with all that is in db, or leaves no trace of it."""
    spare = path.with_name(path.name + ".new")
    spare.unlink(missing_ok=True)
    try:
        os.close(os.open(spare, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(spare)) as copy:
            db.backup(copy)
        spare.rename(path)
    finally:
        spare.unlink(missing_ok=True)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _lock_of(path: Path) -> Path:
    return path.with_name(path.name + ".lock")
