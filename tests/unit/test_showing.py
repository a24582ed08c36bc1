"""`stream-occ show`: an alert from its message or from the state file, with signals from where they lie."""

from __future__ import annotations

import json
import sqlite3
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from stream_occ.cli import run
from stream_occ.messages import alert_message, event_message, waveform_message
from stream_occ.pipeline import DeviceState
from stream_occ.samples import NS_PER_S, Alert
from stream_occ.store import Store
from stream_occ.told_rows import Told
from stream_occ.waveform import Waveform

T_NS = 1_700_000_000 * NS_PER_S
ALERT = Alert(
    *("id-1", "w1", 2, T_NS, "pending", "warning", ("still",), 4.5, "m1"),
    {"threshold": 2.5, "peak_score": 7.5, "t_last_flagged_ns": T_NS - 2 * NS_PER_S},
    "",
    (("log_max_acc", 7.25), ("min_acc", -3.0)),
)


def signals(level: float = 1.0) -> Waveform:
    return Waveform(T_NS - 5 * NS_PER_S, 50.0, np.full((100, 6), level, dtype=np.float32))


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """alert.json, event.json, waveform.json, and a state file with two alerts of which the first has signals."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STATE_DIRECTORY", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    (tmp_path / "alert.json").write_bytes(alert_message(ALERT).to_payload())
    (tmp_path / "event.json").write_bytes(event_message(ALERT).to_payload())
    (tmp_path / "waveform.json").write_bytes(waveform_message("id-1", 2, signals()).to_payload())
    store = Store(tmp_path / "state.db")
    told = [Told(ALERT, 10, signals()), Told(replace(ALERT, alert_id="id-2", state="alarm", device_id="w2"), 11)]
    store.save({"w1": (DeviceState(), None)}, told, model_id="m1", now_ns=12)
    store.close()
    return tmp_path


def words(path: Path) -> str:
    """All comments of an SVG: matplotlib writes each text there."""
    tree = ElementTree.parse(path, ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True)))
    return " ".join(node.text or "" for node in tree.iter() if node.tag is ElementTree.Comment)


@pytest.mark.parametrize(
    ("args", "n_samples", "name"),
    [
        (["alert.json"], 0, "w1"),
        (["event.json"], 0, ""),
        (["alert.json", "--waveform", "waveform.json"], 100, "w1"),
        (["alert.json", "--state", "state.db"], 100, "w1"),
        (["--state", "state.db", "--alert-id", "id-1"], 100, "w1"),
        (["--state", "state.db"], 0, "w2"),
    ],
)
def test_alert_is_drawn_from_wherever_it_lies(
    work: Path, args: list[str], n_samples: int, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The picture names device, highest score, features, and signals where at hand; it says where they are not."""
    assert run(["show", *args, "--out", "a.svg", "--json", "j.json"]) == 0
    out, found, drawn = capsys.readouterr().out, json.loads((work / "j.json").read_text()), words(work / "a.svg")
    assert (found["device"], found["n_samples"], found["out"]) == (name, n_samples, "a.svg")
    assert "log_max_acc" in drawn
    assert (f"{name or 'id-1'}: " in drawn, "highest score 7.5" in drawn) == (True, True)
    assert ("acceleration, m/s2" in drawn) == ("rotation, rad/s" in drawn) == (n_samples > 0)
    assert ("seconds from 2023-11-14T22:13:15.000Z" in drawn) == (n_samples > 0)
    assert ("without signals" in out) == (n_samples == 0)
    assert "log_max_acc +7.2, min_acc -3.0" in out
    assert "Highest score 7.5, threshold 2.5" in out


def test_signals_are_found_where_services_keep_them(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A message alone is drawn with its signals; what is no state file, and one of other alerts, is passed over."""
    folder = work / "home" / "stream_occ"
    folder.mkdir(parents=True)
    (folder / "a.db").write_text("no database")
    Store(folder / "b.db").close()
    assert run(["show", "alert.json"]) == 0
    assert "without signals" in capsys.readouterr().out
    (work / "state.db").rename(folder / "stream_occ-edge.db")
    assert run(["show", "alert.json", "--json", "j.json"]) == 0
    assert f"Drawn to id-1.svg, signals from {folder / 'stream_occ-edge.db'}." in capsys.readouterr().out
    assert json.loads((work / "j.json").read_text())["n_samples"] == 100
    assert "acceleration, m/s2" in words(work / "id-1.svg")
    assert run(["show", "alert.json", "--state", str(folder / "b.db")]) == 0
    assert "without signals" in capsys.readouterr().out


def test_picture_is_named_after_the_alert(work: Path) -> None:
    """Without --out beside where one stands; a PNG where asked for."""
    assert run(["show", "alert.json"]) == 0
    assert (work / "id-1.svg").exists()
    assert run(["show", "alert.json", "--out", "a.png"]) == 0
    assert (work / "a.png").read_bytes().startswith(b"\x89PNG")


def test_device_name_is_no_formula_and_no_path(work: Path) -> None:
    """A hostile message draws what it says, into this folder."""
    odd = alert_message(replace(ALERT, alert_id="../../x", device_id="$\\frac$", contributions=(("$a_", 1.0),)))
    (work / "odd.json").write_bytes(odd.to_payload())
    assert run(["show", "odd.json"]) == 0
    assert (work / "x.svg").exists()


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "ALERT.json, --state: must name an alert; got neither"),
        (["alert.json", "--alert-id", "x"], "--alert-id: must come without ALERT.json"),
        (["alert.json", "--out", "a.txt"], "--out: must end in .svg, .png, .pdf; got a.txt"),
        (["missing.json"], "missing.json: must be a file that can be read; got No such file"),
        (["waveform.json"], "waveform.json: "),
        (["list.json"], "list.json: must be a JSON object; got list"),
        (["bad.json"], "bad.json: must be JSON"),
        (["alert.json", "--waveform", "other.json"], "other.json: must be of alert id-1; got one of alert id-9"),
        (["--state", "state.db", "--alert-id", "x"], "state.db: must hold alert x; got none such"),
        (["--state", "none.db"], "none.db: must be a state file of stream-occ; got no file"),
        (["--state", "alert.json"], "alert.json: must be a state file of stream-occ; got file is not a database"),
    ],
)
def test_what_cannot_be_shown_is_one_line(
    work: Path, args: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2; nothing is made."""
    (work / "list.json").write_text("[]")
    (work / "bad.json").write_text("{")
    (work / "other.json").write_bytes(waveform_message("id-9", 2, signals()).to_payload())
    before = sorted(work.iterdir())
    assert run(["show", *args]) == 2
    printed = capsys.readouterr()
    assert told in printed.err
    assert printed.err.count("\n") == 1
    assert [path for path in sorted(work.iterdir()) if path.suffix in (".svg", ".png", ".pdf")] == []
    assert set(before) <= set(work.iterdir())


@pytest.mark.parametrize(
    ("alert_id", "name"),
    [("..", "alert.svg"), ("", "alert.svg"), ("a\x00b/c\x1b[2Jd", "c__2Jd.svg"), ("\ud800", "_.svg")],
)
def test_hostile_texts_are_drawn_as_marks_into_the_file_that_is_told(
    work: Path, alert_id: str, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """No escape sequence reaches the terminal, no warning of a missing letter, no picture under another name."""
    message = json.loads(alert_message(ALERT).to_payload())
    message |= {
        "alert_id": alert_id,
        "device": "\ud800\x1b[2J",
        "by": "\x9b31m",
        "contributions": [["\u65e5\x00", 1e308]],
    }
    (work / "odd.json").write_text(json.dumps(message))
    assert run(["show", "odd.json"]) == 0
    printed = capsys.readouterr()
    assert (printed.err, f"Drawn to {name}" in printed.out, (work / name).is_file()) == ("", True, True)
    assert printed.out.replace("\n", "").isprintable()


@pytest.mark.parametrize("damage", [{"evidence": {"threshold": 10**400}}, {"t_ns": 2**63}])
def test_number_of_more_than_64_bits_is_one_line(
    work: Path, damage: dict[str, object], capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, as for what is no JSON."""
    (work / "odd.json").write_text(json.dumps(json.loads(alert_message(ALERT).to_payload()) | damage))
    assert run(["show", "odd.json"]) == 2
    assert "odd.json: must be JSON; got a number of more than 64 bits" in capsys.readouterr().err


def test_damaged_row_of_a_state_file_is_one_line(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Content that is no alert, and signals that are no rows of six."""
    with sqlite3.connect(work / "state.db") as db:
        db.execute("UPDATE alerts SET content = '[]' WHERE alert_id = 'id-2'")
        db.execute("UPDATE waveforms SET signals = x'00000000'")
    db.close()
    for args in (["--state", "state.db"], ["--state", "state.db", "--alert-id", "id-1"]):
        assert run(["show", *args]) == 2
        assert capsys.readouterr().err.startswith("stream-occ: state.db: must be a state file of stream-occ; got ")
