"""What the one test command says at its end; its checks are stubs here but for pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
NEEDS_DATA, NEEDS_NONE = "tests/unit/test_dataset_mobifall.py", "tests/unit/test_notify.py"


def said(folder: Path, data: Path, *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines of scripts/test in a made-up environment that it takes for its own."""
    commands = folder / "bin"
    commands.mkdir()
    for name in ("ruff", "mypy", "lint-imports", "node-red"):
        (commands / name).write_text("#!/bin/sh\n")
    (commands / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    for path in commands.iterdir():
        path.chmod(0o755)
    python = subprocess.run([sys.executable, "-V"], capture_output=True, text=True, check=True).stdout.strip()
    installed = b"".join((REPO / name).read_bytes() for name in ("pyproject.toml", "service.lock"))
    checksum = subprocess.run(["cksum"], input=installed, capture_output=True, check=True).stdout.decode().strip()
    (folder / ".stream_occ_installed").write_text(f"{python} {REPO} {checksum}\n")
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "STREAM_OCC"))},
        "PYTHON": sys.executable,
        "STREAM_OCC_TEST_VENV": str(folder),
        "STREAM_OCC_DATA": str(data),
        "STREAM_OCC_TEST_JOBS": "0",
    }
    command = ["bash", str(REPO / "scripts" / "test"), "--", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    return done.returncode, done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize(("tests", "is_told"), [(NEEDS_DATA, True), (NEEDS_NONE, False)])
def test_last_lines_say_what_was_not_shown_for_want_of_data(tmp_path: Path, tests: str, is_told: bool) -> None:
    """A stranger has no recordings: the run passes, and says how many tests it skipped; else nothing is said."""
    code, lines = said(tmp_path, tmp_path / "nowhere", tests, "-p", "no:cacheprovider")
    assert code == 0, lines
    if not is_told:
        assert lines[-1].startswith("all checks passed")
        return
    assert lines[-3].startswith("all checks passed")
    n = int(lines[-2].removeprefix("NOT SHOWN: ").split()[0])
    assert n >= 1
    assert lines[-2].endswith(f"{n} tests were SKIPPED for want of recorded data: the figures of real recordings")
    assert "STREAM_OCC_DATA" in lines[-1]
