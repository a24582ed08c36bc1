"""A small file system for the detector's state that can be full: a tmpfs, or, without root, a limit on file sizes."""

from __future__ import annotations

import resource
import sqlite3
import subprocess
import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

SIZE = "24m"


@dataclass
class Disk:
    """`fill` until no byte more can be written, `free` to have room again."""

    folder: Path
    is_mounted: bool = False
    is_full: bool = False

    @classmethod
    def make(cls, folder: Path) -> Disk:
        """Mounts a tmpfs on a new folder where that is permitted."""
        folder.mkdir()
        command = ["mount", "-t", "tmpfs", "-o", f"size={SIZE}", "tmpfs", str(folder)]
        try:
            is_mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
        except FileNotFoundError:
            is_mounted = False
        return cls(folder, is_mounted)

    @property
    def state(self) -> Path:
        """The detector's state file."""
        return self.folder / "state.db"

    def fill(self, pid: int) -> None:
        """No byte more; pid: the detector's."""
        self.is_full = True
        if self.is_mounted:
            self._shrink_log()
            with (self.folder / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while True:
                    ballast.write(b"\0" * 512)
        self.limit(pid)

    def free(self, pid: int) -> None:
        """Room again."""
        self.is_full = False
        (self.folder / "ballast").unlink(missing_ok=True)
        self.limit(pid)

    def limit(self, pid: int) -> None:
        """Without a mount: has the detector's writes to files fail, or succeed again; for each new process anew."""
        if not self.is_mounted:
            _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (0 if self.is_full else hard, hard))

    def close(self) -> None:
        """Gives the file system back."""
        if self.is_mounted:
            subprocess.run(["umount", "--lazy", str(self.folder)], check=False)

    def _shrink_log(self) -> None:
        """The write-ahead log to nothing: SQLite writes on within the size that it has, however full the disk is."""
        for _ in range(50):
            with suppress(sqlite3.OperationalError), closing(sqlite3.connect(self.state, timeout=1.0)) as db:
                if db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0] == 0:
                    return
            time.sleep(0.02)
