"""`stream-occ train --adapt` from the command line: files, words and exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_occ.artifacts import load_model, verify_model
from stream_occ.cli import run
from tests.integration.test_train_command import write_csv


@pytest.fixture(scope="module")
def general(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of five people, by the default detector, beside their recordings in `others`."""
    folder = tmp_path_factory.mktemp("general") / "others"
    folder.mkdir()
    for subject in ("anna", "bert", "cleo", "emil", "fay"):
        for activity in ("walk", "stroll"):
            write_csv(folder, subject, activity)
    out = folder.parent / "general.occ"
    made = ["train", "--dataset", "csv", "--data", str(folder), "--window-s", "4.5", "--out", str(out)]
    assert run(made) == 0  # at 5 s more than a twentieth of the wearer's windows are strange to it
    return out


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A minute and a half of one wearer, and a fall."""
    folder = tmp_path / "own"
    folder.mkdir()
    for activity in ("walk", "stroll", "amble"):
        write_csv(folder, "dora", activity)
    write_csv(folder, "dora", "trip", is_fall=True)
    return folder


def test_adapted_model_is_written_verified_and_explained(
    general: Path, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Words, JSON, report, `inspect` and the file agree; the fall is left out and the threshold is the general one."""
    out, summary_path = tmp_path / "dora.occ", tmp_path / "dora.json"
    capsys.readouterr()
    arguments = ["train", "--adapt", str(general), "--dataset", "csv", "--data", str(own), "--out", str(out)]
    assert run([*arguments, "--json", str(summary_path)]) == 0
    printed = capsys.readouterr().out
    before, (after, self_test) = load_model(general), verify_model(out)
    assert f"Model {before.model_id} adapted: " in printed
    assert "Left out 1 fall recording" in printed
    assert "the general model's claim stands in the file" in printed
    assert "Budget: " not in printed
    summary = json.loads(summary_path.read_text())
    effect = summary["adaptation"]
    assert summary["model_id"] == after.model_id
    assert after.metadata["adaptation"] == effect
    assert after.threshold == before.threshold
    assert self_test.is_bit_equal
    rows = [model.scorer.arrays()["novelty.X"] for model in (before, after)]
    assert [len(X) for X in rows] == [effect["n_rows_general"], effect["n_rows_general"] + effect["n_rows_wearer"]]
    assert effect["n_windows"] == 156
    assert effect["n_rows_wearer"] == 156 - effect["n_left_out"]
    assert "Adapted to one wearer" in (tmp_path / "dora.html").read_text()
    assert run(["inspect", str(out)]) == 0
    assert f"adaptation adapted_from {before.model_id}" in " ".join(capsys.readouterr().out.split())


def test_adapted_model_is_not_calibrated_on_what_it_knows(
    general: Path, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wearer's recordings count as training recordings afterwards."""
    out = tmp_path / "dora.occ"
    data = ["--dataset", "csv", "--data", str(own)]
    assert run(["train", "--adapt", str(general), *data, "--out", str(out)]) == 0
    assert run(["calibrate", "--model", str(out), *data, "--max-false-alarms-per-day", "1"]) == 2
    assert "3 of 3 that the model was trained on" in capsys.readouterr().err


def test_adapted_model_is_calibrated_on_other_days_of_its_wearer(
    general: Path, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """To leave the wearer out of training is no advice here."""
    out, later = tmp_path / "dora.occ", tmp_path / "later"
    later.mkdir()
    write_csv(later, "dora", "march")
    assert run(["train", "--adapt", str(general), "--dataset", "csv", "--data", str(own), "--out", str(out)]) == 0
    capsys.readouterr()
    data = ["--dataset", "csv", "--data", str(later), "--max-false-alarms-per-day", "1"]
    for model, is_adapted in ((out, True), (general, False)):
        assert run(["calibrate", "--model", str(model), *data]) == 0
        printed = capsys.readouterr().out
        assert ("is calibrated on the same wearer, by other days than those it was adapted on" in printed) is is_adapted
        assert ("Leave them out there (train --exclude-people)" in printed) is not is_adapted


def test_what_the_general_model_has_decided_is_refused(
    general: Path, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the flag, exit code 2 and no file."""
    out = tmp_path / "dora.occ"
    decided = {
        "--detector": "working",
        "--param": "n_estimators=3",
        "--feature-set": "khan31r",
        "--window-s": "5",
        "--reject-share": "0.05",
        "--max-false-alarms-per-day": "2",
        "--threshold": "quantile",
        "--seed": "1",
        "--config": str(tmp_path / "train.yaml"),
    }
    arguments = ["train", "--adapt", str(general), "--dataset", "csv", "--data", str(own), "--out", str(out)]
    for flag, value in decided.items():
        capsys.readouterr()
        assert run([*arguments, flag, value]) == 2
        error = capsys.readouterr().err
        assert f"{flag}: must be left out beside --adapt" in error
        assert error.count("\n") == 1
    assert not out.exists()


def test_vouched_comes_with_adapt(own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone it would seem to promise something of training."""
    data = ["--dataset", "csv", "--data", str(own), "--out", str(tmp_path / "x.occ")]
    assert run(["train", "--vouched", *data]) == 2
    assert "--vouched: must come with --adapt" in capsys.readouterr().err


def test_model_without_rows_is_refused(
    general: Path, own: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Kernel ridge regression keeps no rows that others could stand beside: train anew is the advice."""
    kernel = tmp_path / "kernel.occ"
    folder = str(general.parent / "others")
    trained = ["train", "--dataset", "csv", "--data", folder, "--detector", "KOC", "--out", str(kernel)]
    assert run(trained) == 0
    capsys.readouterr()
    assert (
        run(["train", "--adapt", str(kernel), "--dataset", "csv", "--data", str(own), "--out", str(tmp_path / "x.occ")])
        == 2
    )
    error = capsys.readouterr().err
    assert "--adapt: must name a model that keeps its training rows" in error
    assert "Train a new model on the recordings of others and the wearer's together" in error
