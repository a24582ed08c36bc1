"""The soak run in a short form: too short to tell a leak of memory from a start, long enough for everything else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.detector import REPO

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_ten_devices_with_faults_run_for_twenty_seconds(tmp_path: Path) -> None:
    """Windows are scored, what is broken is refused by its reason, threads and files stay, and a plot is drawn."""
    command = [sys.executable, "benchmarks/soak.py", "--minutes", "1.3", "--devices", "10", "--speed", "4"]
    options = ["--warm-up", "0.5", "--growth-mb", "10", "--out", str(tmp_path)]
    ended = subprocess.run([*command, *options], cwd=REPO, capture_output=True, text=True, timeout=200)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    told = json.loads((tmp_path / "soak.json").read_text())
    assert told["wrong"] == []
    assert len(told["samples"]) >= 15
    assert told["windows"] > 300
    assert {"epoch_unit", "invalid_binary"} <= set(told["refused_by_reason"])
    assert "<svg" in (tmp_path / "soak.svg").read_text()
