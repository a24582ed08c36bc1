"""What benchmarks/faults.py calls lost and double, and what it adds up over seeds."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import faults


def test_window_that_is_missing_or_double_is_counted_for_its_device() -> None:
    """One device's window too many does not make up for another's that is missing."""
    assert faults.windows(10, {"d0": (10, 10), "d1": (9, 9), "d2": (10, 12)}, {}) == {
        "windows": 31,
        "windows_at_silences": 0,
        "lost_windows": 1,
        "doubled_windows": 2,
    }


def test_window_at_a_silence_explains_one_too_many_and_hides_no_missing_one() -> None:
    """d0 counts one such window, d1 two of which one is known, d2 lacks a window beside it."""
    found = faults.windows(10, {"d0": (10, 11), "d1": (10, 12), "d2": (9, 10)}, {"d0": 3, "d1": 1, "d2": 1})
    assert (found["windows_at_silences"], found["lost_windows"], found["doubled_windows"]) == (2, 1, 1)


def test_windows_at_a_silence_are_those_within_the_device_s_fall(tmp_path: Path) -> None:
    """A fall of 2 s from the 15th message (3 s) on, windows of 1 s: ends from 3 to 6 s, each once."""
    path = tmp_path / "closings"
    path.write_text("".join(f"d0 {round(s * 1e9)}\n" for s in (2.9, 3.1, 3.1, 5.9, 6.1)))
    sent = {"t0_ns": 0, "fall_at": {"d0": 15}}
    assert faults._closings_in_falls(path, sent) == {"d0": 2}
    assert faults._closings_in_falls(tmp_path / "none", sent) == {}


@pytest.mark.parametrize(("text", "seeds"), [("3", [3]), ("1,4,9", [1, 4, 9]), ("1..5", [1, 2, 3, 4, 5])])
def test_seeds_are_one_a_list_or_a_range(text: str, seeds: list[int]) -> None:
    """Both ends included."""
    assert faults._seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "5..1", "1..", "1,"])
def test_seeds_that_name_none_are_refused(text: str) -> None:
    """With what would have been right."""
    with pytest.raises(faults.argparse.ArgumentTypeError, match=r"1\.\.5; got"):
        faults._seeds(text)


def played(monkeypatch: pytest.MonkeyPatch, path: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Exit code and figures of the command, each run in place of which does what its seed says."""

    def run(_folder: Path, troubles: dict[str, int], *, seed: int, **_options: Any) -> dict[str, Any]:
        assert seed != 9, "the devices were not told"
        kills = {"broker": seed, "detector": 1}
        return {"seed": seed, "troubles": dict(troubles), "kills": kills, "windows": 5, "lost_samples": int(seed == 2)}

    monkeypatch.setattr(faults, "run", run)
    monkeypatch.setattr(sys, "argv", ["faults.py", "--kills", "20", "--json", str(path), *options])
    return faults.main(), json.loads(path.read_text())


def test_seeds_are_run_one_after_another_and_added_up(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line for each, and one of totals."""
    code, figures = played(monkeypatch, tmp_path / "f.json", "--seeds", "1,3")
    assert code == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line.get("seed") for line in lines] == [1, 3, None]
    expected = {
        "seeds": [1, 3],
        "troubles": {"kill": 40},
        "kills": {"broker": 4, "detector": 2},
        "windows": 10,
        "lost_samples": 0,
        "wrong": [],
    }
    assert lines[-1] == expected
    assert figures == expected | {"runs": lines[:-1]}


@pytest.mark.parametrize(("seed", "wrong"), [(2, "lost_samples"), (9, "unsettled_runs")])
def test_one_seed_that_fails_fails_the_command_and_the_others_are_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, seed: int, wrong: str
) -> None:
    """Also where that run never came to rest."""
    code, figures = played(monkeypatch, tmp_path / "f.json", "--seeds", f"{seed},1")
    assert (code, figures["wrong"]) == (1, [wrong])
    assert [one["seed"] for one in figures["runs"]] == [seed, 1]
