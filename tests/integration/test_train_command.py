"""`stream-occ train` and `inspect` from the command line: files, words and exit codes."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest

from stream_occ.alarm_budget import DEVELOPMENT_SETS
from stream_occ.artifacts import load_model, save_model, verify_model
from stream_occ.cli import run

FAST = ("--detector", "11NN", "--scaler", "z-score")


def write_csv(folder: Path, subject: str, activity: str, *, is_fall: bool = False, acc_scale: float = 1.0) -> None:
    """Thirty seconds of a swinging sensor at 50 Hz in the documented columns of data set `csv`."""
    rng = np.random.default_rng([ord(c) for c in subject + activity])
    t = np.arange(1500) / 50
    swing = 2 * np.sin(2 * np.pi * 1.5 * t)
    acc = acc_scale * (np.column_stack([swing, swing / 2, 9.80665 + swing]) + rng.normal(0, 0.3, (1500, 3)))
    gyr = np.column_stack([swing, -swing, swing / 5]) + rng.normal(0, 0.1, (1500, 3))
    head = "t_s,acc_x_ms2,acc_y_ms2,acc_z_ms2,gyr_x_rads,gyr_y_rads,gyr_z_rads,subject,activity,is_fall,placement"
    ids = f"{subject},{activity},{int(is_fall)},waist"
    rows = [f"{s:.3f},{','.join(f'{v:.6f}' for v in (*a, *w))},{ids}" for s, a, w in zip(t, acc, gyr, strict=True)]
    (folder / f"{subject}_{activity}.csv").write_text("\n".join([head, *rows]) + "\n")


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    folder = tmp_path / "walks"
    folder.mkdir()
    for subject in ("anna", "bert", "cleo"):
        write_csv(folder, subject, "walk")
    write_csv(folder, "anna", "trip", is_fall=True)
    return folder


def trained(recordings: Path, *more: str) -> Path:
    out = recordings.parent / "model.occ"
    assert run(["train", "--dataset", "csv", "--data", str(recordings), "--out", str(out), *FAST, *more]) == 0
    return out


def test_train_writes_model_report_and_json(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Three files, and words that say how many falls were left out."""
    out = trained(recordings, "--json", str(recordings.parent / "summary.json"))
    printed = capsys.readouterr()
    assert "Trained on 153 windows of normal activity: 3 people, 3 recordings, 1.5 min." in printed.out
    assert "Left out 1 fall recording (falls never train a model)" in printed.out
    assert printed.err == ""
    summary = json.loads((recordings.parent / "summary.json").read_text())
    assert summary["n_falls_left_out"] == 1
    assert summary["model_id"] == load_model(out).model_id
    assert (recordings.parent / "model.html").read_text().startswith("<!DOCTYPE html>")


def test_quiet_training_says_nothing(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The files alone."""
    assert trained(recordings, "--quiet", "--json", str(recordings.parent / "summary.json")).exists()
    assert capsys.readouterr() == ("", "")
    assert json.loads((recordings.parent / "summary.json").read_text())["n_windows"] == 153


def test_inspect_prints_and_verifies(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the file says of itself, then that every bit and score holds."""
    out = trained(recordings)
    capsys.readouterr()
    assert run(["inspect", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "Not verified" in printed
    assert " training hours 0.0249833 " in " ".join(printed.split())  # three times 29.98 s
    assert "fitted n_neighbors 1: 1 fitted theta max: 1.0, median: 1.0, min: 1.0" in " ".join(printed.split())
    digest = load_model(out).metadata["data_sha256"]
    assert digest in printed.replace("\n", "").replace(" ", "")  # folded, never cut
    assert run(["inspect", str(out), "--verify", "--json", "-"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["verified"] == {"n_self_test_rows": 32, "max_relative_difference": 0.0, "is_bit_equal": True}
    assert shown["feature_set"]["name"] == "fall31"
    assert shown["metadata"]["calibration"]["held_out"] == "people"


def test_the_claim_stands_in_words_report_and_inspect(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A minute and a half of three people without an alarm: 71.9 h support 1 a day; single digests are not shown."""
    out, result = trained(recordings, "--max-false-alarms-per-day", "1"), recordings.parent / "model.json"
    printed = capsys.readouterr().out
    assert "Alarms: 0 in 0.03 h of held-out recordings." in printed
    assert "Budget: 1 a day: not supported, it takes 71.9 h more without another alarm." in printed
    page = (recordings.parent / "model.html").read_text()
    assert "<th>Budget</th><td>1 a day: not supported, it takes 71.9 h more without another alarm</td>" in page
    assert "A day: 24 worn hours like those recorded, and people differ" in printed
    assert "What counts: hours that were also used to train, or to choose features or model, do not count." in printed
    assert "<th>A day</th><td>24 worn hours like those recorded, and people differ" in page
    assert "hours that were also used to train, or to choose features or model, do not count</td>" in page
    assert "<th>Rate</th><td>0 a day, exact Poisson 95 % interval 0 to " in page
    assert run(["inspect", str(out), "--json", str(result)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "claim: budget 1 a day: not supported, it takes 71.9 h more without another alarm" in words
    metadata = json.loads(result.read_text())["metadata"]
    assert (metadata["n_recording_digests"], "recording_digests" in metadata) == (3, False)
    assert metadata["calibration"]["asked_per_day"] == 1.0


def test_a_model_of_a_development_set_claims_nothing(
    recordings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of MobiFall: a budget that 90 s would support is not, and stdout, report and `inspect` name the set."""
    monkeypatch.setitem(DEVELOPMENT_SETS, "csv", "its recordings")
    out = trained(recordings, "--max-false-alarms-per-day", "10000")
    printed, page = capsys.readouterr().out, (recordings.parent / "model.html").read_text()
    assert run(["inspect", str(out)]) == 0
    for words in (printed, page, " ".join(capsys.readouterr().out.split())):
        assert "10000 a day: not supported, it takes 0.0 h of others without an alarm" in words
        assert "csv is a development set: its recordings helped to choose this package" in words


def test_inspect_shows_any_files_words_without_obeying_them(
    recordings: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file from elsewhere may hold anything as its training summary, and words that would steer a terminal."""
    trained_model = load_model(trained(recordings))
    out = recordings.parent / "other.occ"
    X = np.zeros((1, len(trained_model.feature_set.NAMES)))
    for training in ("none", [1], {"tuning": [1], "place\x1b[2J": "\x1b[31mred"}):
        odd = {"training": training, "calibration": training, "recording_digests": "none"}
        model = dataclasses.replace(trained_model, metadata=odd)
        save_model(model, out, self_test_X=X, key=b"k" * 32)
        capsys.readouterr()
        assert run(["inspect", str(out), "--verify"]) == 0
        printed = capsys.readouterr().out
        assert "\x1b" not in printed
        assert "Its signature was not checked: give --key-file." in " ".join(printed.split())
    assert r"place\x1b[2J" in printed


def test_damaged_model_is_one_line_and_exit_code_2(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No traceback reaches the user."""
    out = trained(recordings)
    content = bytearray(out.read_bytes())
    content[-2000] ^= 1
    out.write_bytes(content)
    capsys.readouterr()
    assert run(["inspect", str(out), "--verify"]) == 2
    error = capsys.readouterr().err
    assert error == (
        f"stream-occ: {out}: must match its own SHA-256; got another digest: its arrays are damaged. "
        "Train the model again, or copy the file again from where it came.\n"
    )


def test_signed_model_needs_its_key(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Signed in training, checked with the same key file, refused with another."""
    key, other = recordings.parent / "model.key", recordings.parent / "other.key"
    key.write_text("0123456789abcdef0123456789abcdef\n")
    other.write_text("fedcba9876543210fedcba9876543210\n")
    out = trained(recordings, "--key-file", str(key))
    assert run(["inspect", str(out), "--verify", "--key-file", str(key)]) == 0
    assert "Verified: SHA-256, signature" in capsys.readouterr().out
    assert run(["inspect", str(out), "--verify", "--key-file", str(other)]) == 2
    assert "a signature by another key" in capsys.readouterr().err


def test_blind_preset_is_written_with_a_warning(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """theta 1e30 accepts everything: one line on stderr, also beside --json -, and the first of `inspect`."""
    out = trained(recordings, "--param", "theta=1e30", "--json", "-")
    printed = capsys.readouterr()
    blind = "accepts all 200 injected anomalies: for research alone"
    assert printed.err == f"WARNING: blind model: it {blind}\n"
    assert json.loads(printed.out)["blind"] == blind
    assert f"Blind model: it {blind}." in (recordings.parent / "model.html").read_text()
    assert run(["inspect", str(out)]) == 0
    assert " ".join(capsys.readouterr().out.split()).startswith(f"BLIND MODEL it {blind} model ")


def test_blind_model_of_our_own_is_refused(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`working` takes its threshold from us: accepting everything is then a mistake, and no model is written."""
    out = recordings.parent / "no.occ"
    ours = ("--detector", "working", "--param", "estimator__theta=1e6", "--threshold", "detector")
    assert run(["train", "--dataset", "csv", "--data", str(recordings), "--out", str(out), *ours]) == 2
    assert "must reject some injected anomalies" in capsys.readouterr().err
    assert not out.exists()


def test_mixed_units_are_refused_by_name(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One recording in g among recordings in m/s2; no model is written."""
    write_csv(recordings, "dora", "walk", acc_scale=1 / 9.80665)
    out = recordings.parent / "no.occ"
    assert run(["train", "--dataset", "csv", "--data", str(recordings), "--out", str(out), *FAST]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert "csv/dora/walk" in error
    assert "acc_unit_g_as_ms2" in error
    assert not out.exists()


def test_configuration_file_gives_the_data(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--config alone is enough; a flag wins over it."""
    file = recordings.parent / "train.yaml"
    file.write_text("data: [{dataset: csv, path: walks}]\ndetector: {name: 11NN}\nexclude_people: [anna]\n")
    out = recordings.parent / "model.occ"
    assert run(["train", "--config", str(file), "--out", str(out), "--exclude-people", "bert"]) == 0
    assert "2 people, 2 recordings" in capsys.readouterr().out
    assert load_model(out).metadata["config"]["detector"]["name"] == "11NN"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--out", "m.occ"], "--dataset, --data: must be given; got neither"),
        (["--out", "m.occ", "--dataset", "csv"], "must be given in pairs; got 1 and 0"),
        (["--out", "no/m.occ", "--dataset", "csv", "--data", "."], "--out: must be a file name in an existing folder"),
        (["--out", "m.html", "--dataset", "csv", "--data", "."], "--report: must be another file than --out"),
        (["--out", "m.occ", "--dataset", "csv", "--data", ".", "--json", "m.occ"], "--json: must be another file than"),
        (["--out", "a.csv", "--dataset", "csv", "--data", "a.csv"], "--out: must be another file than --data"),
        (["--out", "", "--dataset", "csv", "--data", "."], "--out: must be a file name in an existing folder"),
        (["--out", "x" * 300, "--dataset", "csv", "--data", "."], "(File name too long)"),
        (["--out", "m.occ", "--dataset", "csv", "--data", ".", "--people", ","], "--people: must hold at least one"),
        (["--out", "m.occ", "--dataset", "csv", "--data", ".", "--rate-hz", "20"], "rate_hz: must be above 20"),
        (
            ["--out", "m.occ", "--dataset", "csv", "--data", ".", "--threshold", "x"],
            "--threshold: threshold.rule: must be",
        ),
        (
            ["--out", "m.occ", "--threshold", "quantile", "--max-false-alarms-per-day", "1"],
            "--max-false-alarms-per-day: must come with --threshold budget; got --threshold quantile",
        ),
        (
            ["--out", "m.occ", "--reject-share", "0.1", "--max-false-alarms-per-day", "1"],
            "--max-false-alarms-per-day and --reject-share: must be given one at a time",
        ),
        (["--out", "m.occ", "--dataset", "csv", "--data", ".", "--param", "x"], "--param: must be NAME=VALUE"),
        (["--out", "m.occ", "--config", "gone.yaml"], "gone.yaml: must be a readable file"),
        (["--out", "m.occ", "--dataset", "csvv", "--data", "."], "Did you mean csv"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(
    arguments: list[str],
    words: str,
    recordings: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Told before any training."""
    monkeypatch.chdir(recordings)
    assert run(["train", *arguments]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


@pytest.mark.slow
def test_mobifall_end_to_end(shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two people of the real set, falls left out, model verified bit for bit, loaded and scored."""
    out, result = tmp_path / "m.occ", tmp_path / "m.json"
    flags = ["--people", "2,3", "--param", "n_folds=2", "--train-hop-s", "1", "--json", str(result)]
    archive = str(shared_data / "mobifall.zip")
    assert run(["train", "--dataset", "mobifall", "--data", archive, "--out", str(out), *flags]) == 0
    summary = json.loads(result.read_text())
    assert summary["n_falls_left_out"] == 288  # data/README.md
    assert summary["n_people"] == 2
    assert set(summary["activities"]) == {"STD", "WAL", "JOG", "JUM", "STU", "STN", "SCH", "CSI", "CSO"}
    assert 54 <= summary["rate_hz_measured"]["min"] <= summary["rate_hz_measured"]["max"] <= 97  # data/README.md
    assert summary["threshold"]["rejected_share"] <= 0.01
    model, self_test = verify_model(out)
    assert self_test.is_bit_equal
    assert model.model_id == summary["model_id"]
    assert run(["inspect", str(out), "--verify"]) == 0
    assert "Verified" in capsys.readouterr().out


@pytest.mark.slow
def test_weda_fall_rates_pass(shared_data: Path, tmp_path: Path) -> None:
    """Its activities of 48 to 50 Hz train a model of 50 Hz, although the set also holds trials of 39.8 Hz."""
    out, result = tmp_path / "w.occ", tmp_path / "w.json"
    flags = ["--detector", "11NN", "--train-hop-s", "2.5", "--json", str(result)]
    archive = str(shared_data / "weda-fall.zip")
    assert run(["train", "--dataset", "weda-fall", "--data", archive, "--out", str(out), *flags]) == 0
    summary = json.loads(result.read_text())
    assert (summary["n_people"], summary["n_falls_left_out"]) == (25, 350)  # data/README.md
