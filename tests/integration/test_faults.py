"""Troubles at random instants: nothing missing, nothing double, each noticed and named (benchmarks/faults.py)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.faults import failures, run
from tests.integration.broker import MOSQUITTO

pytestmark = pytest.mark.broker


@pytest.mark.parametrize(
    ("troubles", "seed", "broker_keeps"),
    [
        ({"kill": 6}, 1, "everything"),
        ({"disk-full": 1}, 2, "everything"),
        pytest.param({"kill": 6}, 6, "nothing", marks=pytest.mark.slow),
        pytest.param({"half-open": 1}, 2, "everything", marks=pytest.mark.slow),
        pytest.param({"slow-broker": 1}, 1, "everything", marks=pytest.mark.slow),
        pytest.param({"full-broker": 1}, 1, "everything", marks=pytest.mark.slow),
        pytest.param({"clock-jump": 1}, 1, "everything", marks=pytest.mark.slow),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_troubles_lose_and_double_nothing(
    tmp_path: Path, troubles: dict[str, int], seed: int, broker_keeps: str
) -> None:
    """Samples, windows, alerts and events: what was sent is taken, what was told is at the receiver, each once."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    figures = run(tmp_path, troubles, seed=seed, n_devices=4, broker_keeps=broker_keeps)
    assert sum(figures["kills"].values()) >= troubles.get("kill", 0)
    assert figures["events_told"] >= 4 * 4
    assert failures(figures) == []
