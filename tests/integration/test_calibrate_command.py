"""`stream-occ calibrate` from recordings to a model with another threshold, on made-up people."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from stream_occ.artifacts import load_model, verify_model
from stream_occ.cli import run
from stream_occ.datasets.recording import RecordingWriter
from stream_occ.samples import NS_PER_S, SampleBlock
from tests.service_model import make_model, tumbling, walking

HEAD = "t_s,acc_x_ms2,acc_y_ms2,acc_z_ms2,gyr_x_rads,gyr_y_rads,gyr_z_rads,subject,activity,is_fall,placement"


def write_csv(folder: Path, subject: str, activity: str, *, n_knocks: int = 0, is_fall: bool = False) -> None:
    """A minute of walking at 50 Hz with so many knocks of 2 s in its middle, far apart for the short clearing time."""
    walk = walking("w", 3000, t0_ns=0, seed=ord(subject[0]))
    acc, gyr = walk.acc_ms2.copy(), walk.gyr_rads.copy()
    for i in range(n_knocks):
        part, at = tumbling("w", 100, t0_ns=0), slice(500 + 1000 * i, 600 + 1000 * i)
        strength = ord(subject[0]) / 100 - 0.3 * i  # no two alike
        acc[at], gyr[at] = strength * part.acc_ms2, strength * part.gyr_rads
    rows = [
        f"{t / 1e9:.3f},{','.join(f'{v:.6f}' for v in values)},{subject},{activity},{int(is_fall)},waist"
        for t, values in zip(walk.t_ns.tolist(), np.hstack([acc, gyr]).tolist(), strict=True)
    ]
    (folder / f"{subject}_{activity}.csv").write_text("\n".join([HEAD, *rows]) + "\n")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Five minutes of three people with three knocks in all, a fall, and a copy of a file; a model of walking."""
    days = tmp_path / "days"
    days.mkdir()
    write_csv(days, "anna", "knocks", n_knocks=2)
    write_csv(days, "bert", "knock", n_knocks=1)
    for subject in ("bert", "cleo"):
        write_csv(days, subject, "walk")
    write_csv(days, "anna", "fall", n_knocks=1, is_fall=True)
    (days / "again.csv").write_bytes((days / "cleo_walk.csv").read_bytes())
    make_model(tmp_path).rename(tmp_path / "model.occ")
    (tmp_path / "policy.yaml").write_text(
        "inputs: [{pattern: '{device}', codec: json, profile: declared}]\n"
        "events: {k: 2, n: 3, check: false, countdown_s: 1.0, refractory_s: 1.0}\n"
    )
    return tmp_path


def calibrate(work: Path, per_day: float, *more: str) -> int:
    model, policy = str(work / "model.occ"), str(work / "policy.yaml")
    data = ["--dataset", "csv", "--data", str(work / "days"), "--max-false-alarms-per-day", str(per_day)]
    return run(["calibrate", "--model", model, "-c", policy, *data, *more])


def test_threshold_goes_into_a_new_model_that_is_otherwise_the_same(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A budget of nothing in four minutes: no alarm left, falls and copies left out, self-test rows kept."""
    out, report = work / "new.occ", work / "report.json"
    assert calibrate(work, 1, "--out", str(out), "--json", str(report)) == 0
    printed, found = capsys.readouterr().out, json.loads(report.read_text())
    assert (found["n_people"], found["n_recordings"], found["n_falls_left_out"], found["n_copies"]) == (3, 4, 1, 1)
    assert (found["n_alarms"], found["n_people_with_alarms"], found["supported"]) == (0, 0, False)
    assert found["hours"] == pytest.approx(4 / 60, rel=0.01)
    assert found["upper"] == pytest.approx(71.894 / found["hours"], rel=1e-4)
    assert found["hours_more"] == pytest.approx(71.894 - found["hours"], rel=1e-4)
    assert found["people_share_upper"] == pytest.approx(1 - 0.05 ** (1 / 3))
    assert "Supported: no, 1 a day asked. It takes 71.9 h with so many alarms: 71.8 h more" in printed
    assert "the threshold must be chosen by people who are not the training people" in printed
    assert "cannot be excluded" in printed
    (new, self_test), old = verify_model(out), load_model(work / "model.occ")
    assert (new.model_id, new.threshold) == (found["model_id"], found["value"])
    assert (self_test.n_rows, self_test.is_bit_equal) == (8, True)
    assert new.threshold > old.threshold == found["value_before"]
    assert new.metadata["calibration"]["rule"] == "alarm_budget"
    assert new.metadata["seed"] == old.metadata["seed"]
    capsys.readouterr()
    assert run(["inspect", str(out), "--verify"]) == 0


def test_a_larger_budget_keeps_so_many_episodes(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two alarms in four minutes are 720 a day and more than one window each; without --out nothing is written."""
    assert calibrate(work, 750, "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["n_alarms"], found["n_alarms_allowed"]) == (2, 2)
    assert found["n_flagged_windows"] > 2
    assert (found["out"], found["model_id"]) == (None, None)
    assert not (work / "new.occ").exists()


def test_strict_sets_what_the_hours_support_or_nothing(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit code 1 and no file where four minutes cannot support the budget; with 1,200 a day no alarm supports it."""
    out = work / "new.occ"
    assert calibrate(work, 1, "--strict", "--out", str(out)) == 1
    assert "Nothing was written: --strict." in capsys.readouterr().out
    assert not out.exists()
    assert calibrate(work, 1200, "--strict", "--out", str(out), "--json", "-") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["supported"], found["n_alarms"], found["n_alarms_supporting"]) == (True, 0, 0)
    assert load_model(out).threshold == found["value"]


def test_own_days_as_record_wrote_them(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--from recording: a wearer with two devices through the same minute is a minute of evidence, not two."""
    days = work / "own"
    days.mkdir()
    for device, seed in (("left", 1), ("right", 2)):
        with RecordingWriter(days / f"{device}.csv", device, subject="anna", activity="day", placement="wrist") as file:
            file.append(walking(device, 3000, t0_ns=1_700_000_000 * NS_PER_S, seed=seed))
    own = ["calibrate", "--model", str(work / "model.occ"), "--from", "recording", "--data", str(days)]
    assert run([*own, "--max-false-alarms-per-day", "2", "--json", str(work / "own.json")]) == 0
    found = json.loads((work / "own.json").read_text())
    assert (found["n_people"], found["n_recordings"]) == (1, 2)
    assert found["hours"] == pytest.approx(1 / 60, rel=0.02)
    assert found["hours_needed"] == pytest.approx(71.894 / 2, rel=1e-4)
    assert (
        "one person: the figures are of this wearer on days like these, and say nothing of others"
        in capsys.readouterr().out
    )


def test_the_training_recordings_are_refused(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The digest that `train` wrote is that of the same recordings here; some of them alone are warned of."""
    (work / "days" / "again.csv").unlink()
    data = ["--dataset", "csv", "--data", str(work / "days")]
    fast = ["--detector", "11NN", "--scaler", "z-score", "--feature-set", "khan31r", "--window-s", "2"]
    assert run(["train", *data, *fast, "--exclude-people", "anna", "--out", str(work / "own.occ")]) == 0
    capsys.readouterr()
    own = ["calibrate", "--model", str(work / "own.occ"), "-c", str(work / "policy.yaml"), *data]
    own += ["--max-false-alarms-per-day", "1", "--json", "-"]
    assert run([*own, "--exclude-people", "anna"]) == 2
    assert "got 3 of 3 that the model was trained on" in capsys.readouterr().err
    assert run([*own, "--people", "anna"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["may_overlap_training"], found["n_people"], found["n_filtered_out"]) == (True, 1, 3)
    assert any(note.startswith("one person") for note in found["notes"])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--max-false-alarms-per-day", "-1"), "--max-false-alarms-per-day: must be 0 to 86400; got -1.0."),
        (
            ("--people", "dora"),
            "people: must be in the data; got 'dora'. It holds normal recordings of anna, bert, cleo.",
        ),
        (("--exclude-people", "anna,bert,cleo"), "recordings: must hold normal activity; got none"),
        (("--people", " , "), "--people: must hold at least one name"),
    ],
)
def test_what_cannot_be_done_is_one_line(
    work: Path, more: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, the flag or the data named."""
    assert calibrate(work, 1, *more) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.err.count("\n") == 1
    assert printed.out == ""


def test_the_model_is_not_written_over(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--out must be another file."""
    assert calibrate(work, 1, "--out", str(work / "model.occ")) == 2
    assert "--out: must be another file than --model" in capsys.readouterr().err


def test_what_lifts_the_threshold_is_named(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fall that nobody labelled: which recording, and where in it, so that it can be left out."""
    assert calibrate(work, 1) == 0
    told = re.search(r"is that of the window that ends ([0-9.]+) s into (\S+)\. If", capsys.readouterr().out)
    assert told is not None
    assert told[2] == "csv/bert/knock/bert_knock"
    assert 10.0 < float(told[1]) < 13.0  # the knock lasts from second 10 to 12, a window a second


def test_hours_of_a_development_set_set_a_threshold_and_support_none(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A budget that a minute of others would support: the set is named, and --strict refuses it."""
    walk, out = walking("w", 3000, t0_ns=0), work / "new.occ"
    for kind, values in (("acc", walk.acc_ms2), ("gyro", walk.gyr_rads)):
        rows = [f"{t}, {x:.6f}, {y:.6f}, {z:.6f}" for t, (x, y, z) in zip(walk.t_ns.tolist(), values, strict=True)]
        (work / f"WAL_{kind}_2_1.txt").write_text("@DATA\n" + "\n".join(rows) + "\n")
    arguments = ["calibrate", "--model", str(work / "model.occ"), "--dataset", "mobifall", "--data", str(work)]
    arguments += ["--max-false-alarms-per-day", "10000", "--out", str(out)]
    assert run(arguments) == 0
    printed = capsys.readouterr().out
    assert "Supported: no, 10000 a day asked. It takes 0.0 h of others without an alarm." in printed
    assert (
        "Evidence: mobifall is a development set: its recordings helped to choose this package's features and "
        "defaults, so they count for nothing here."
    ) in printed
    assert run(["inspect", str(out)]) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "claim: budget 10000 a day: not supported, it takes 0.0 h of others without an alarm" in words
    assert "claim: evidence mobifall is a development set: its recordings helped" in words
    out.unlink()
    assert run([*arguments, "--strict"]) == 1
    assert "Nothing was written: --strict." in capsys.readouterr().out
    assert not out.exists()


@pytest.mark.parametrize("noise", [0.0, 0.01])
def test_device_that_nobody_wears_supports_no_budget_in_silence(
    work: Path, noise: float, capsys: pytest.CaptureFixture[str]
) -> None:
    """A stuck sensor is refused; where nothing moves beyond noise, a note says so."""
    rng, n = np.random.default_rng(0), 3000
    acc = np.tile([0.0, 0.0, 9.81], (n, 1)) + rng.normal(0, noise, (n, 3))
    t_ns = 1_700_000_000 * NS_PER_S + np.arange(n) * NS_PER_S // 50
    (work / "table").mkdir()
    with RecordingWriter(work / "table" / "a.csv", "w1") as writer:
        writer.append(SampleBlock("w1", t_ns, acc, np.zeros((n, 3)) if noise == 0 else rng.normal(0, 0.001, (n, 3))))
    args = ["--from", "recording", "--data", str(work / "table"), "--max-false-alarms-per-day", "1"]
    assert run(["calibrate", "--model", str(work / "model.occ"), *args]) == (2 if noise == 0 else 0)
    told = capsys.readouterr()
    if noise == 0:
        assert told.err.startswith("stream-occ: recording/w1/unknown/a: must vary; got the same values throughout.")
    else:
        assert "nothing at all moves in 100 % of the windows" in told.out


@pytest.mark.parametrize("per_day", ["nan", "inf", "-1", "1e308"])
def test_budget_that_is_no_number_of_alarms_is_one_line(
    work: Path, per_day: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 before any recording is read."""
    args = ["--from", "recording", "--data", "none", "--max-false-alarms-per-day", per_day]
    assert run(["calibrate", "--model", str(work / "model.occ"), *args]) == 2
    assert "--max-false-alarms-per-day: must be 0 to 86400; got " in capsys.readouterr().err


def test_budget_that_no_hours_support_says_so(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However small, a report can be written."""
    assert calibrate(work, 5e-324, "--json", str(work / "r.json")) == 0
    assert json.loads((work / "r.json").read_text())["hours_needed"] is None
    assert "No number of hours supports a budget of 4.94066e-324." in capsys.readouterr().out


def test_files_and_rows_that_could_not_be_read_are_told(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Hours that are missing are not missing in silence."""
    with (work / "days" / "bert_walk.csv").open("a") as file:
        file.write("60.5,nan,0,9.8,0,0,0,bert,walk,0,waist\n" * 3)
    assert calibrate(work, 1) == 0
    assert "Note: the loader refused 3 rows" in capsys.readouterr().out
    monkeypatch.setattr("stream_occ.datasets._files.MAX_FILE_BYTES", 1000)
    assert calibrate(work, 1) == 2
    told = capsys.readouterr().err
    assert "must hold normal activity; got none (left out: " in told
    assert "passed over: " in told
    assert "must be at most 1000 bytes" in told


def test_file_whose_name_is_no_utf_8_is_read(work: Path) -> None:
    """Linux lets any bytes name a file."""
    folder = work / "days\udcff"
    (work / "days").rename(folder)
    (folder / "bert_walk.csv").rename(folder / "bert\udcff.csv")
    args = ["--from", "csv", "--data", str(folder), "--max-false-alarms-per-day", "1", "--json", str(work / "r.json")]
    assert run(["calibrate", "--model", str(work / "model.occ"), *args]) == 0
    assert json.loads((work / "r.json").read_text())["n_recordings"] == 4


def test_quiet_calibration_says_nothing_but_json(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Alone not a byte; with --json - one object."""
    assert calibrate(work, 1, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    assert calibrate(work, 1, "-q", "--json", "-") == 0
    assert json.loads(capsys.readouterr().out)["n_people"] == 3
