"""How soon the running service decides: the benchmark in a short form, with bounds that a busy machine keeps too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.detector import REPO

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def test_a_window_is_decided_when_its_last_sample_has_come(tmp_path: Path) -> None:
    """Half of all within 60 ms: slices of a quarter of a second, as there were, would make it 150."""
    out = tmp_path / "service.json"
    command = [sys.executable, "benchmarks/service.py", "--devices", "5", "--seconds", "6", "--rows", "500"]
    subprocess.run([*command, "--json", str(out)], cwd=REPO, check=True, capture_output=True, timeout=120)
    figures = json.loads(out.read_text())
    assert figures["n_windows"] >= 40  # of 60: a busy machine may be late
    assert figures["arrival_to_decision_ms"]["p50"] < 60
    assert figures["sent_to_score_ms"]["p50"] < 100
    assert (figures["refused"], figures["dropped"]) == ({}, {})
