"""`stream-occ dashboard` in a process of its own, and a headless Chromium that looks at it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.integration.detector import REPO

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
FLAGS = ("--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
         "--disable-sync", "--no-first-run", "--disable-dev-shm-usage")  # fmt: skip


class Dashboard:
    """The running command; use as a context manager."""

    def __init__(self, folder: Path, port: int, *options: str, **sections: Any) -> None:
        config = folder / "dashboard.yaml"
        link = {"port": port, "reconnect_max_s": 0.5, "reconnect_min_s": 0.1}
        content = {"inputs": [{"pattern": "wearables/{device}/imu"}], "output": {"state_interval_s": 0.5}, "mqtt": link}
        config.write_text(yaml.safe_dump({**content, **sections}))
        self.history = folder / "dashboard.history"
        self.url = ""
        self._command = [sys.executable, "-m", "stream_occ", "dashboard", "-c", str(config), "--port", "0"]
        self._command += ["--history", str(self.history), *options]
        self._log = folder / "dashboard.log"
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Dashboard:
        with self._log.open("a") as log:
            self._process = subprocess.Popen(self._command, cwd=REPO, stdout=subprocess.PIPE, stderr=log, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line.startswith("ready: "), f"{line!r}; {self._log.read_text()[-2000:]}"
        self.url = line.split()[1]
        return self

    def stop(self) -> int:
        """Exit code after SIGTERM."""
        assert self._process is not None
        assert self._process.stdout is not None
        self._process.terminate()
        code = self._process.wait(15)
        self._process.stdout.close()
        return code

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def __exit__(self, *_: object) -> None:
        if self._process is not None and self._process.poll() is None:
            assert self.stop() == 0, self._log.read_text()[-2000:]


@contextmanager
def chromium() -> Iterator[Any]:
    """A headless Chromium; skips the test where there is none, but in CI, where it must be there."""
    if CHROMIUM is None:
        assert "CI" not in os.environ, "chromium is missing: apt-get install chromium"
        pytest.skip("chromium not found on PATH: install it to run this test")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()
