"""What long commands say: bars with the time left on a terminal, nothing with --quiet, JSON alone on its stdout."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from stream_occ.bench import report
from stream_occ.cli import _common, completion, run
from tests.unit.test_cli import as_terminal

LONG = ("bench", "calibrate", "demo", "doctor", "evaluate", "record", "replay", "reproduce", "train", "watch")


@pytest.mark.parametrize("name", LONG)
def test_long_command_can_be_quiet_and_tell_machines(name: str) -> None:
    """Each has both options."""
    assert {"--quiet", "--json"} <= set(completion._words(name))


def test_bars_have_the_time_left_and_quiet_draws_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal: 1 of 2 with two times; with is_quiet not a byte."""
    terminal = as_terminal(monkeypatch)
    with _common.progress(is_quiet=True) as show:
        show("Reading", 1, 2)
    assert terminal.getvalue() == ""
    with _common.progress() as show:
        show("Reading", 1, 2)
    assert "1/2" in terminal.getvalue()
    assert "0:00:00" in terminal.getvalue()
    assert "-:--:--" in terminal.getvalue()  # of one step no speed is known


def test_still_bar_is_drawn_by_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that draws would be measured by what measures time."""
    terminal, n_before = as_terminal(monkeypatch), threading.active_count()
    with _common.progress(is_still=True) as show:
        show("Measuring parts", 1, 3)
        assert threading.active_count() == n_before
        assert "1/3" in terminal.getvalue()


def test_bench_shows_how_many_parts_are_done(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One step a part; what it found goes to stdout as ever, and nowhere with --quiet."""

    def measure(names: tuple[str, ...], _settings: object, told: object) -> dict[str, object]:
        for name in names:
            told(name, "no peer here")  # type: ignore[operator]
        return {"parts": {name: {} for name in names}}

    monkeypatch.setattr(report, "measure", measure)
    terminal = as_terminal(monkeypatch)
    assert run(["bench", "ocnn", "krr"]) == 0
    assert "2/2" in terminal.getvalue()
    assert "ocnn: skipped: no peer here" in capsys.readouterr().out
    before = terminal.getvalue()
    assert run(["bench", "ocnn", "krr", "--quiet"]) == 0
    assert (terminal.getvalue(), capsys.readouterr().out) == (before, "")


def test_reproduce_is_silent_with_quiet_and_shows_bars_without(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A whole command: JSON in its file, nothing on the terminal; then bars there, and tables on stdout."""
    words = ["reproduce", "paper2", "--methods", "KPCA", "--datasets", "iris", "--jobs", "1"]
    terminal = as_terminal(monkeypatch)
    assert run([*words, "--quiet", "--json", str(tmp_path / "out.json")]) == 0
    assert (terminal.getvalue(), capsys.readouterr().out) == ("", "")
    assert json.loads((tmp_path / "out.json").read_text())["rows"]
    assert run([*words, "--json", "-"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"]
    assert "━" in terminal.getvalue()


def test_demo_whose_page_nobody_would_find_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """The address is printed, or there is no page."""
    assert run(["demo", "--dashboard", "--quiet"]) == 2
    assert "--quiet: must be left out beside --dashboard" in capsys.readouterr().err
