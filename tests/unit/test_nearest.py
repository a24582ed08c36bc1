"""A slip in any name is answered by the name that was meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from stream_occ.cli import run

INPUT = "inputs: [{pattern: 'w/{device}', codec: json}]\n"


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("trian", "Did you mean 'train'?"),
        ("config chek", "Did you mean 'check'"),
        ("train --out m.occ --datset x", "--dataset"),
        ("train --out m.occ --dataset mobifal --data .", "Did you mean mobifall?"),
        ("train --out m.occ --dataset csv --data . --detector fusd", "Did you mean fused?"),
        ("train --out m.occ --dataset csv --data . --feature-set fal31", "Did you mean fall31?"),
        ("train --out m.occ --dataset csv --data . --scaler robst", "Did you mean robust?"),
        ("train --out m.occ --dataset csv --data . --threshold budgt", "Did you mean budget?"),
        ("train --out m.occ --dataset csv --data . --detector 11NN --param thta=1", "Did you mean theta?"),
        ("train --out m.occ --dataset weda-fall --data . --variant 25hz", "Did you mean 25Hz?"),
        ("evaluate --dataset csv --data . --methods default,knn", "Did you mean knn5?"),
        ("reproduce paper1 --data . --datasets glas2", "Did you mean glass2?"),
        ("reproduce paper1 --data . --folds shufled", "Did you mean shuffled?"),
        ("reproduce paper2 --grid smal", "Did you mean small?"),
        ("bench ocn", "Did you mean ocnn?"),
        ("completion bsh", "Did you mean bash?"),
        ("demo --broker mosquito", "Did you mean mosquitto?"),
        ("replay --synthetic 1 --codec jsn", "Did you mean json?"),
        ("replay --synthetic 1 --fault stuk:3", "Did you mean stuck?"),
        ("record --out r --topic a/{device} --placement wist", "Did you mean wrist?"),
        ("record --out r --topic a/{device} --profile declard", "The nearest is declared."),
    ],
)
def test_slip_on_the_command_line(
    words: str, meant: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Exit code 2, and one line with what was meant."""
    monkeypatch.chdir(tmp_path)
    assert run(words.split()) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert meant in line


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("mqt: {port: 1}\n", "The nearest key is mqtt."),
        ("mqtt: {hots: a}\n", "The nearest key is mqtt.host."),
        ("log: {level: inf}\n", "Did you mean info?"),
        ("sinks: {a: {kind: webhok}}\n", "Did you mean webhook?"),
    ],
)
def test_slip_in_a_configuration(text: str, meant: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Keys, values and kinds of sinks."""
    (tmp_path / "edge.yaml").write_text(INPUT + text)
    assert run(["config", "check", str(tmp_path / "edge.yaml")]) == 2
    assert meant in capsys.readouterr().err


def test_slip_in_a_training_configuration(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Keys of sections, as in the service's own."""
    (tmp_path / "train.yaml").write_text("detector: {nam: fused}\n")
    words = ["train", "--out", str(tmp_path / "m.occ"), "--dataset", "csv", "--data", str(tmp_path)]
    assert run([*words, "--config", str(tmp_path / "train.yaml")]) == 2
    assert "The nearest key is detector.name." in capsys.readouterr().err


def test_what_is_like_nothing_gets_no_guess(capsys: pytest.CaptureFixture[str]) -> None:
    """A wrong guess would lead astray: the names are listed."""
    assert run(["bench", "zzzzzz"]) == 2
    assert "must be one of decoding, features" in (told := capsys.readouterr().err)
    assert "Did you mean" not in told


def test_slip_in_an_activity(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """What the recordings hold is known once they are read."""
    head = "t_s,acc_x_ms2,acc_y_ms2,acc_z_ms2,gyr_x_rads,gyr_y_rads,gyr_z_rads,subject,activity"
    rows = [f"{i / 50:.2f},0,0,9.81,0,0,0,anna,walking" for i in range(100)]
    (tmp_path / "a.csv").write_text("\n".join([head, *rows]) + "\n")
    data = ["--dataset", "csv", "--data", str(tmp_path)]
    assert run(["replay", *data, "--activities", "walkng"]) == 2
    assert "Did you mean walking?" in capsys.readouterr().err
    assert run(["train", *data, "--out", str(tmp_path / "m.occ"), "--activities", "walkng"]) == 2
    assert "Did you mean walking? It holds normal recordings of walking." in capsys.readouterr().err
