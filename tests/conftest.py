"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real recordings: STREAM_OCC_DATA, else ../shared/data; the test is skipped where it is absent."""
    folder = Path(os.environ.get("STREAM_OCC_DATA", REPO.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"recorded data not found at {folder}: set STREAM_OCC_DATA to run this test")
    return folder
