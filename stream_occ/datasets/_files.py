"""A data set's files, wherever they lie: a folder, a zip archive or one file, read in place and within bounds."""

from __future__ import annotations

import os
import stat
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from stream_occ.errors import DataError

MAX_FILES = 200_000  # about 20 times the largest set known to the project
MAX_FILE_BYTES = 512 * 1024 * 1024  # one hour of six axes at 1 kHz as text is about 400 MB
MAX_TOTAL_BYTES = 64 * 1024**3


class UnreadableFileError(DataError):
    """One file of a set is damaged, encrypted or absurdly large: the others can still be used."""


class FileTree:
    """The files of `path` by their name relative to it, sorted; nothing is ever extracted to disk.

    `names` leaves out hidden files and what archivers add (`__MACOSX`). Names that point outside an archive are not
    offered; they are in `unsafe_names`. Raises DataError for a missing path, a damaged archive and for absurd sizes.
    """

    def __init__(self, path: str | os.PathLike[str], *, allow_file: bool = False) -> None:
        self.path = Path(path)
        self.unsafe_names: tuple[str, ...] = ()
        self._zip: zipfile.ZipFile | None = None
        if _kind(self.path) == stat.S_IFDIR:
            self._real = dict(sorted(_walk(self.path)))
            self.names = tuple(self._real)
        elif _is_zip(self.path):
            self._open_zip()
        elif allow_file:
            self.names = (self.path.name,)
            self._real = {self.path.name: self.path}
        else:
            raise DataError(
                str(self.path), "be a folder or a zip archive", "another kind of file", "Unpack it and give its folder"
            )
        if len(self.names) > MAX_FILES:
            raise DataError(
                str(self.path),
                f"hold at most {MAX_FILES} files",
                str(len(self.names)),
                "Give a folder nearer to the set",
            )

    def _open_zip(self) -> None:
        try:
            self._zip = zipfile.ZipFile(self.path)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise DataError(str(self.path), "be a readable zip archive", str(error), "Download it again") from error
        members = [info for info in self._zip.infolist() if not info.is_dir()]
        total = sum(info.file_size for info in members)
        if total > MAX_TOTAL_BYTES:
            raise DataError(
                str(self.path), f"unpack to at most {MAX_TOTAL_BYTES} bytes", f"{total}", "Make sure it is the data set"
            )
        self._members = {info.filename: info for info in sorted(members, key=lambda info: info.filename)}
        self.unsafe_names = tuple(name for name in self._members if _is_unsafe(name))
        refused = set(self.unsafe_names)
        self.names = tuple(name for name in self._members if name not in refused and not _is_hidden(name))

    def read(self, name: str) -> bytes:
        """All bytes of a file; UnreadableFileError where it is damaged, encrypted or larger than MAX_FILE_BYTES."""
        return self._read(name, MAX_FILE_BYTES, whole=True)

    def head(self, name: str, n_bytes: int = 4096) -> bytes:
        """The first bytes of a file, whatever its size; none where it is unreadable."""
        try:
            return self._read(name, n_bytes, whole=False)
        except UnreadableFileError:
            return b""

    def _read(self, name: str, n_bytes: int, *, whole: bool) -> bytes:
        where = f"{self.path.name}:{name}" if self._zip else str(self._real[name])
        size = self._members[name].file_size if self._zip else self._real[name].stat().st_size
        if whole and size > n_bytes:
            remedy = "Split the recording into several files"
            raise UnreadableFileError(where, f"be at most {n_bytes} bytes", f"{size}", remedy)
        try:
            if self._zip:
                with self._zip.open(self._members[name]) as stream:
                    return stream.read(n_bytes)
            with self._real[name].open("rb") as stream:
                return stream.read(n_bytes)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            got = f"{type(error).__name__}: {error}"
            raise UnreadableFileError(where, "be readable", got, "Restore the file") from error

    def close(self) -> None:
        """Lets go of the archive."""
        if self._zip:
            self._zip.close()


def _kind(path: Path) -> int:
    """Folder or regular file; DataError for what is neither: a pipe would be waited for, a device read without end."""
    expected = "be a folder or a zip archive"
    try:
        kind = stat.S_IFMT(path.stat().st_mode)
    except FileNotFoundError as error:
        raise DataError(str(path), expected, "no such path", "Check --data") from error
    except (OSError, ValueError) as error:
        raise DataError(str(path), expected, getattr(error, "strerror", None) or str(error), "Check --data") from error
    if kind not in (stat.S_IFDIR, stat.S_IFREG):
        raise DataError(str(path), expected, "a pipe, socket or device", "Save it to a file first")
    return kind


def _is_zip(path: Path) -> bool:
    return path.suffix.lower() == ".zip" or zipfile.is_zipfile(path)


def _is_unsafe(name: str) -> bool:
    parts = PurePosixPath(name.replace("\\", "/")).parts
    return not parts or parts[0] == "/" or ".." in parts or ":" in parts[0] or "\0" in name


def _is_hidden(name: str) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in PurePosixPath(name).parts)


def _walk(folder: Path) -> Iterator[tuple[str, Path]]:
    """Regular files below `folder`; linked folders are followed, each folder once."""
    seen: set[tuple[int, int]] = set()
    for here, folders, files in os.walk(folder, followlinks=True):
        status = os.stat(here)
        if (status.st_dev, status.st_ino) in seen:
            folders.clear()
            continue
        seen.add((status.st_dev, status.st_ino))
        folders[:] = sorted(name for name in folders if not _is_hidden(name))
        for name in files:
            path = Path(here, name)
            if not _is_hidden(name) and path.exists() and stat.S_ISREG(path.stat().st_mode):
                yield path.relative_to(folder).as_posix(), path
