"""Fixtures shared by all tests."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast examples come says what else the machine does, and nothing of the code.
settings.register_profile("any_machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any_machine")

REPO = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of real recordings: STREAM_OCC_DATA, else ../shared/data; the test is skipped where it is absent."""
    folder = Path(os.environ.get("STREAM_OCC_DATA", REPO.parent / "shared" / "data"))
    if not folder.is_dir():
        pytest.skip(f"recorded data not found at {folder}: set STREAM_OCC_DATA to run this test")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """In CI, where all that is needed is installed, a test of what users met that is skipped has failed."""
    report = yield
    if report.skipped and "CI" in os.environ and item.name.startswith("test_ask_"):
        report.outcome, report.longrepr = "failed", f"skipped in CI: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Notes in $STREAM_OCC_SKIPPED how many tests were skipped for want of recorded data, for scripts/test."""
    skipped = [str(report.longrepr) for report in terminalreporter.stats.get("skipped", [])]
    if "STREAM_OCC_SKIPPED" in os.environ:
        n = sum("recorded" in reason for reason in skipped)
        Path(os.environ["STREAM_OCC_SKIPPED"]).write_text(f"{n}\n")
