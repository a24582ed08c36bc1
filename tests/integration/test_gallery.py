"""The programs of docs/gallery run, and their pictures say what the page says."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from simulators.synthetic import Wearer
from tests.integration.detector import REPO

GALLERY = REPO / "docs" / "gallery"
LABELS = {
    "one_fall": ("score", "threshold", "normal", "suspected", "pending", "alarm", "seconds"),
    "what_made_it": ("flagged: window ending at", "not flagged: window ending at", "robust z against"),
    "detectors_side_by_side": ("fused: the default", "11NN-RP: ", "KOC: ", "threshold", "the fall"),
    "alarm_budget": ("false alarms", "of 12 falls", "that call somebody", "of the model: ", "no alarm here: "),
}
SENSORS = [f"{kind}_{axis}_{unit}" for kind, unit in (("acc", "ms2"), ("gyr", "rads")) for axis in "xyz"]
SIMULATED = "simulated wearers: this says nothing of people"


def words_of(path: Path) -> str:
    root = ElementTree.parse(path).getroot()
    assert root.tag.rpartition("}")[2] == "svg"
    return "\n".join(root.itertext())


def write_people(folder: Path) -> None:
    """Three people who walk, sit and fall, a file each, in the columns of docs/datasets.md."""
    folder.mkdir()
    for k in range(3):
        wearer, lines = Wearer(f"p{k}", k), ["subject,activity,is_fall,t_ns," + ",".join(SENSORS)]
        for activity, seconds in (("walking", 30.0), ("sitting", 30.0), ("fall_forward", 20.0)):
            block = wearer.recording(activity, [(activity, seconds)]).block
            named = f"p{k},{activity},{int(activity.startswith('fall'))}"
            for t_ns, acc, gyr in zip(block.t_ns, block.acc_ms2, block.gyr_rads, strict=True):
                lines.append(f"{named},{t_ns}," + ",".join(f"{value:.4f}" for value in (*acc, *gyr)))
        (folder / f"p{k}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(GALLERY))
    for name in ("common", *LABELS):
        monkeypatch.delitem(sys.modules, name, raising=False)


@pytest.mark.slow
@pytest.mark.usefixtures("programs")
@pytest.mark.parametrize("name", LABELS)
def test_a_program_draws_what_its_page_shows(tmp_path: Path, name: str) -> None:
    """Its labels are in the committed picture too, which is below 60 KB, and both say that wearers are simulated."""
    drawn, committed = tmp_path / "drawn.svg", GALLERY / f"{name}.svg"
    importlib.import_module(name).main(["--out", str(drawn)])
    for path in (drawn, committed):
        words = words_of(path)
        assert [label for label in (*LABELS[name], SIMULATED) if label not in words] == [], path.name
        assert path.stat().st_size < 60_000


def test_every_program_has_its_picture_and_its_place_on_the_page() -> None:
    """None is longer than 60 lines, and the page shows each with the command that runs it."""
    page = (REPO / "docs" / "gallery.md").read_text(encoding="utf-8")
    assert {path.stem for path in GALLERY.glob("*.py")} == {"common", *LABELS}
    for name in LABELS:
        assert len((GALLERY / f"{name}.py").read_text(encoding="utf-8").splitlines()) <= 60
        assert f"python docs/gallery/{name}.py" in page
        assert f"](gallery/{name}.svg)" in page


@pytest.mark.slow
def test_a_data_set_takes_the_place_of_simulated_wearers(tmp_path: Path) -> None:
    """Recordings in files of one's own; the picture names the set, and a folder without --dataset is refused."""
    write_people(tmp_path / "data")
    command = [sys.executable, str(GALLERY / "what_made_it.py"), "--out", str(tmp_path / "own.svg"), "--data", "data"]
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    refused = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert refused.returncode == 2
    assert "--dataset and --data go together" in refused.stderr
    subprocess.run([*command, "--dataset", "csv"], cwd=tmp_path, env=env, check=True)
    words = words_of(tmp_path / "own.svg")
    assert "csv, people held out" in words
    assert SIMULATED not in words
