"""Child processes that end when their parent does, even when the parent is killed with no chance to tidy up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

# The shell starts the command, a watcher reads the pipe from the parent, and the end of that pipe - closed by `stop` or
# by the kernel when the parent dies - sends SIGTERM. The command's own exit code is passed on. (prctl's death signal
# would need code between fork and exec, which is unsafe in a parent that has threads.)
# fd 3 because a shell gives background commands /dev/null for their standard input.
SUPERVISOR = 'exec 3<&0; "$@" </dev/null 3<&- & p=$!; { cat <&3 >/dev/null; kill -TERM $p; } 2>/dev/null & wait $p'


class Child:
    """A command in a session of its own, its output in a file; stopped with SIGTERM, then with SIGKILL."""

    def __init__(self, argv: Sequence[str], *, log_file: Path, env: Mapping[str, str] | None = None) -> None:
        self.argv = list(argv)
        self.log_file = log_file
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", SUPERVISOR, "supervisor", *argv],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=None if env is None else dict(env),
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """The command's exit code, or None while it runs; 128 + n where signal n ended it."""
        return self._process.poll()

    def stop(self, *, timeout_s: float = 10.0) -> int:
        """End the command and return its exit code; safe to call twice."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return self._kill()
        finally:
            self._sweep()

    def _kill(self) -> int:
        self._sweep()
        return self._process.wait()

    def _sweep(self) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def log_tail(self, n_lines: int = 5) -> str:
        """The last lines that the command printed."""
        lines = self.log_file.read_text(encoding="utf-8", errors="replace").splitlines()
        return "\n".join(lines[-n_lines:])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def free_port() -> int:
    """A TCP port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


def accepts_connections(port: int, *, timeout_s: float = 0.2) -> bool:
    """Whether something on the loopback interface accepts TCP connections at `port`."""
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=timeout_s):
            return True
    except OSError:
        return False
