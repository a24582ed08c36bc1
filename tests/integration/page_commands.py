"""The commands of a page of docs/, in their order, and a terminal that runs them in a folder of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.integration.detector import REPO, wait_until


class PageCommands:
    """Lines of the blocks marked `sh`; each is taken once, and none is left at the end."""

    def __init__(self, name: str) -> None:
        self.text = (REPO / "docs" / name).read_text(encoding="utf-8")
        blocks = "\n".join(re.findall(r"```sh\n(.*?)```", self.text, re.DOTALL)).replace("\\\n", " ")
        self.left = [line.strip() for line in blocks.splitlines() if line.strip() and not line.startswith("#")]

    def take(self, begin: str) -> str:
        """The next command, which begins so."""
        assert self.left, f"no command is left; looked for {begin}"
        assert self.left[0].startswith(begin), self.left[0]
        return self.left.pop(0)

    def files(self) -> dict[str, list[str]]:
        """File name -> texts of the blocks whose first line is a comment with that name."""
        found: dict[str, list[str]] = {}
        for text in re.findall(r"```\w+\n(.*?)```", self.text, re.DOTALL):
            if match := re.match(r"# (\S+\.\w+)\n", text):
                found.setdefault(match[1], []).append(text)
        return found


class Terminal:
    """bash in `folder`, which is its home; what it starts is ended with it."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        own = {"HOME": str(folder), "XDG_STATE_HOME": str(folder / "state"), "OPENBLAS_NUM_THREADS": "1"}
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}{os.pathsep}/usr/sbin"
        self.environment = {**os.environ, **own, "PATH": path, **environment}

    def run(self, command: str, *, code: int = 0, timeout_s: float = 120) -> str:
        """What it prints; it must end with `code`."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    @contextmanager
    def running(self, command: str, *, says: str = "ready:") -> Iterator[Path]:
        """The file of what it prints, from when it has said so until Ctrl-C, at which it ends in order."""
        output = self.folder / f"{re.sub(r'[^a-z]+', '-', command)[:60]}.log"
        with output.open("w") as file:
            process = subprocess.Popen(
                ["bash", "-c", f"exec {command}"],
                cwd=self.folder,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                preexec_fn=_heed_ctrl_c,
            )
        try:
            wait_until(lambda: says in output.read_text() or process.poll() is not None, f"{says} of {command}", 60)
            assert process.poll() is None, output.read_text()
            yield output
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130), output.read_text()
        finally:
            process.kill()
            process.wait(10)


def _heed_ctrl_c() -> None:
    """What runs in the background of a script has been told to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
