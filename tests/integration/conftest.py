"""Fixtures of tests with a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.broker import MOSQUITTO, Broker
from tests.integration.credentials import write_passwords
from tests.service_model import make_model


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A mosquitto on a free loopback port; the test is skipped where mosquitto is not installed."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    folder = tmp_path / "broker"
    folder.mkdir()
    with Broker.start(folder) as running:
        yield running


@pytest.fixture
def password_broker(tmp_path: Path) -> Iterator[Broker]:
    """A mosquitto that lets nobody in but `ward`, with the password hunter2."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    folder = tmp_path / "broker"
    folder.mkdir()
    write_passwords(folder / "passwords", {"ward": "hunter2"})
    with Broker.start(folder, extra=f"allow_anonymous false\npassword_file {folder}/passwords") as running:
        yield running


@pytest.fixture(scope="session")
def model_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small real model file."""
    return make_model(tmp_path_factory.mktemp("model"))
