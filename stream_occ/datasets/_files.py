"""A data set's files, wherever they lie: a folder, a zip archive or one file, read in place and within bounds."""

from __future__ import annotations

import io
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
    nested: the files of archives in the archive too, as some sets are published, below the inner archive's name; what
    of these is not read has its reason in `unread`.
    """

    def __init__(self, path: str | os.PathLike[str], *, allow_file: bool = False, nested: bool = False) -> None:
        self.path = Path(path)
        self.unsafe_names: tuple[str, ...] = ()
        self.unread: dict[str, str] = {}
        self._zips: list[zipfile.ZipFile] = []
        if _kind(self.path) == stat.S_IFDIR:
            self._real = dict(sorted(_walk(self.path)))
            self.names = tuple(self._real)
        elif _is_zip(self.path):
            self._open_zip(nested=nested)
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

    def _open_zip(self, *, nested: bool) -> None:
        try:
            self._zips.append(zipfile.ZipFile(self.path))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
            raise DataError(str(self.path), "be a readable zip archive", str(error), "Download it again") from error
        self._members = self._members_of(self._zips[0])
        if nested:
            self._open_inner()
        self.names = tuple(sorted(name for name in self._members if not _is_hidden(name)))

    def _members_of(
        self, archive: zipfile.ZipFile, prefix: str = ""
    ) -> dict[str, tuple[zipfile.ZipFile, zipfile.ZipInfo]]:
        members = {info.filename: info for info in archive.infolist() if not info.is_dir()}
        total = sum(info.file_size for info in members.values())
        if total > MAX_TOTAL_BYTES:
            raise DataError(
                str(self.path), f"unpack to at most {MAX_TOTAL_BYTES} bytes", f"{total}", "Make sure it is the data set"
            )
        unsafe = sorted(name for name in members if _is_unsafe(name))
        self.unsafe_names += tuple(prefix + name for name in unsafe)
        return {prefix + name: (archive, info) for name, info in members.items() if not _is_unsafe(name)}

    def _open_inner(self) -> None:
        """Inner archives are held in memory, one level deep and together no more than one file may be."""
        inner = [name for name in self._members if name.lower().endswith(".zip") and not _is_hidden(name)]
        left = MAX_FILE_BYTES
        # the smallest first: numbers before the videos that some sets come with
        for size, name in sorted((self._members[name][1].file_size, name) for name in inner):
            if size > left:
                self.unread[name] = f"archives inside the archive are read up to {MAX_FILE_BYTES} bytes, unpack it"
                continue
            try:
                archive = zipfile.ZipFile(io.BytesIO(self.read(name)))
            except (UnreadableFileError, zipfile.BadZipFile, ValueError, NotImplementedError) as error:
                self.unread[name] = f"an archive that cannot be read: {error}"
                continue
            left -= size
            self._zips.append(archive)
            del self._members[name]
            self._members |= self._members_of(archive, f"{name}/")

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
        where = f"{self.path.name}:{name}" if self._zips else str(self._real[name])
        size = self._members[name][1].file_size if self._zips else self._real[name].stat().st_size
        if whole and size > n_bytes:
            remedy = "Split the recording into several files"
            raise UnreadableFileError(where, f"be at most {n_bytes} bytes", f"{size}", remedy)
        try:
            if self._zips:
                archive, info = self._members[name]
                with archive.open(info) as stream:
                    return stream.read(n_bytes)
            with self._real[name].open("rb") as stream:
                return stream.read(n_bytes)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, NotImplementedError) as error:
            got = f"{type(error).__name__}: {error}"
            raise UnreadableFileError(where, "be readable", got, "Restore the file") from error

    def close(self) -> None:
        """Lets go of the archive."""
        for archive in self._zips:
            archive.close()


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
