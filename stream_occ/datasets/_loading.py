"""What a loader file provides, and the `Dataset` that runs it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from stream_occ.datasets._files import FileTree, UnreadableFileError
from stream_occ.datasets._report import LoadReport
from stream_occ.errors import DataError
from stream_occ.samples import Recording

_PACKED = (".zip", ".7z", ".rar", ".tar", ".gz", ".tgz")


@dataclass(frozen=True, slots=True)
class Trial:
    """Files of one trial, by role ("acc", "gyr", "all"), and what their names say of it."""

    subject: str
    activity: str
    trial: str
    files: dict[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Name of the trial in reports: its first file."""
        return next(iter(self.files.values()), f"{self.subject}/{self.activity}/{self.trial}")


class Loader(Protocol):
    """A module of this package: adding a data set is adding a file with these names."""

    @property
    def VARIANTS(self) -> tuple[str, ...]:
        """Versions of the set that can be asked for, the default first; empty where there is one alone."""

    @property
    def LAYOUT(self) -> str:
        """What its files are called, for the message that none was found."""

    @property
    def ALLOW_FILE(self) -> bool:
        """Whether one file that is no archive is a data set too."""

    def find(self, tree: FileTree, variant: str | None, report: LoadReport) -> Sequence[Trial]:
        """The trials of a tree, in the order in which they are loaded; reads names, not contents."""

    def load(self, tree: FileTree, trial: Trial, report: LoadReport) -> Iterable[Recording]:
        """The recordings of one trial: one, several where a file holds several, none where no row is usable."""


class Dataset:
    """A data set opened: its trials are known, their samples are read as `iter_recordings` comes to them.

    `report` fills as recordings are read and starts over with each pass. `n_files` is the number of trials that will
    be read; `report.n_files_read` says how many have been.
    """

    def __init__(self, name: str, loader: Loader, tree: FileTree, variant: str | None) -> None:
        self.name = name
        self.variant = variant
        self.report = LoadReport(name)
        self._loader = loader
        self._tree = tree
        self._start_report()
        self._trials = loader.find(tree, variant, self.report)
        self._found_notes = list(self.report.notes)
        if not self._trials:
            why = f" ({self.report.notes[0]})" if self.report.notes else ""
            got = f"{len(tree.names)} other files{why}"
            packed = [file for file in tree.names if file.lower().endswith(_PACKED)]
            remedy = f"Unpack {packed[0]}, or give its own path if it is a zip" if packed else "Check --data"
            raise DataError(str(tree.path), f"hold files of {name} ({loader.LAYOUT})", got, remedy)

    @property
    def n_files(self) -> int:
        """Number of trials to read: the total of a progress bar."""
        return len(self._trials)

    def iter_recordings(self) -> Iterator[Recording]:
        """Recordings one by one, in an order that is always the same."""
        self.report.clear()
        self.report.notes.extend(self._found_notes)
        for trial in self._trials:
            n_before = self.report.n_recordings
            n_notes = len(self.report.notes)
            try:
                for recording in self._loader.load(self._tree, trial, self.report):
                    self.report.n_recordings += 1
                    self.report.n_samples += len(recording.block)
                    yield recording
            except UnreadableFileError as error:
                self.report.note(trial.label, f"passed over: {error}")
            finally:
                self.report.n_files_read += 1
            if self.report.n_recordings == n_before and len(self.report.notes) == n_notes:
                self.report.note(trial.label, "no usable row, passed over")

    def close(self) -> None:
        """Lets go of the archive."""
        self._tree.close()

    def __enter__(self) -> Dataset:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_report(self) -> None:
        for name in self._tree.unsafe_names:
            self.report.note(name, "name points outside the archive, passed over")
        for name, why in self._tree.unread.items():
            self.report.note(name, f"{why}, passed over")
