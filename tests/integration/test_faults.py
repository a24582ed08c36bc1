"""Broker, detector and receiver killed at random instants: nothing missing, nothing double (benchmarks/faults.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults import failures, run
from tests.integration.broker import MOSQUITTO

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    ("seed", "broker_keeps"), [(1, "everything"), pytest.param(6, "nothing", marks=pytest.mark.slow)]
)
def test_kills_lose_and_double_nothing(tmp_path: Path, seed: int, broker_keeps: str) -> None:
    """Samples, windows, alerts and events: what was sent is taken, what was told is at the receiver, each once."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    figures = run(tmp_path, n_kills=6, seed=seed, n_devices=4, broker_keeps=broker_keeps)
    assert sum(figures["kills"].values()) >= 6
    assert figures["events_told"] >= 4 * 4
    assert failures(figures) == []
