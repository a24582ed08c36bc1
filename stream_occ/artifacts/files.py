"""A model's file on the disk: written whole or not at all, and mapped so that what was verified is what is used."""

from __future__ import annotations

import mmap
import os
import secrets
import shutil
import stat
import tempfile
from pathlib import Path
from typing import IO, Any

from stream_occ.errors import ModelError, StreamOccError
from stream_occ.regular import open_regular

RETRAIN = "Train the model again, or copy the file again from where it came"


def write_whole(target: Path, content: bytes) -> None:
    """Writes beside the target, flushes to the disk, and renames over it.

    Raises ModelError for a name that is no file's, StreamOccError where the disk refuses.
    """
    is_other = target.exists() and not target.is_file()
    if is_other or not target.parent.is_dir():
        got = "a folder, device or pipe" if is_other else "a folder that does not exist"
        raise ModelError(str(target), "be a file name in an existing folder", got, "Name another file")
    temporary = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        with temporary.open("xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.replace(target)
        _sync_folder(target.parent)
    except OSError as error:
        raise StreamOccError(str(target), "be writable", str(error), "Check space and permissions") from error
    finally:
        temporary.unlink(missing_ok=True)


def map_file(path: str | Path, *, is_copied: bool = False) -> Any:
    """A regular file's bytes, mapped read-only; raises ModelError for anything that is none or is empty.

    A mapped file that somebody cuts short, as cp does over an old one, is a SIGBUS, and one that somebody changes is
    what nobody verified. is_copied: a nameless copy is mapped, which we alone have.
    """
    where = str(path)
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):
            got = "a folder" if stat.S_ISDIR(status.st_mode) else "something else"
            raise ModelError(where, "be a model file", got, "Name the .occ file that train wrote")
        with open_regular(path) as stream:
            if os.fstat(stream.fileno()).st_size == 0:
                raise ModelError(where, "be a model file", "an empty file", RETRAIN)
            if not is_copied:
                return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
            with _nameless() as copy:
                shutil.copyfileobj(stream, copy)
                copy.flush()
                return mmap.mmap(copy.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise ModelError(where, "be a model file", "no such file", "Train one with stream-occ train") from error
    except (OSError, ValueError) as error:
        raise ModelError(where, "be a readable file", str(error), "Check its name and permissions") from error


def _nameless() -> IO[bytes]:
    """A file in memory where the system has such, else one that is on the disk and in no folder."""
    try:
        return os.fdopen(os.memfd_create("model"), "w+b")
    except (AttributeError, OSError):  # not Linux; a kernel or a container that does not let us
        return tempfile.TemporaryFile()


def _sync_folder(folder: Path) -> None:
    """A rename is on the disk only once its folder is; some file systems cannot do this, and then need not."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError:
        return
    finally:
        os.close(descriptor)
