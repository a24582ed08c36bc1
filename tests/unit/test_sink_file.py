"""The file: whole lines on the disk, begun anew by size or day, shared, and mended after a kill or a full disk."""

from __future__ import annotations

import csv
import errno
import fcntl
import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from stream_occ.sinks import Later
from stream_occ.sinks.file import Settings, Sink
from tests.sink_peers import T_NS, a_notice

NOW_S = T_NS / 1e9  # 2026-03-01T12:00:09Z


def a_sink(path: Path, now_s: float = NOW_S, **keys: Any) -> Sink:
    content = {"kind": "file", "path": str(path), **keys}
    return Sink(Settings.model_validate_json(json.dumps(content), strict=True), wall_s=lambda: now_s)


def test_line_is_the_alert_message_for_its_user_alone(tmp_path: Path) -> None:
    """One JSON object a line, mode 0600, the folder made."""
    path = tmp_path / "alerts" / "ward.jsonl"
    sink = a_sink(path)
    for seq in range(3):
        sink.send(a_notice(seq))
    contents = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(content["alert_id"], content["seq"], content["device"]) for content in contents] == [
        ("a1", seq, "w1") for seq in range(3)
    ]
    assert path.stat().st_mode & 0o777 == 0o600


def test_csv_has_a_header_once_and_no_formula(tmp_path: Path) -> None:
    """What a person wrote must not be run by a spreadsheet."""
    path = tmp_path / "alerts.csv"
    sink = a_sink(path, format="csv")
    sink.send(a_notice(0, "alarm", reasons=("still", "countdown")))
    sink.send(a_notice(1, "acknowledged", by='=HYPERLINK("http://evil", "x")'))
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert rows[0] == {
        "t": "2026-03-01T12:00:09Z",
        "device": "w1",
        "alert_id": "a1",
        "seq": "0",
        "state": "alarm",
        "severity": "critical",
        "reasons": "still countdown",
        "by": "",
        "score": "7.5",
        "model": "m1",
    }
    assert rows[1]["by"] == '\'=HYPERLINK("http://evil", "x")'


def test_line_is_on_the_disk_before_it_is_a_receipt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """fsync of the file, and of the folder where the file is new."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda handle: synced.append(os.fstat(handle).st_ino))
    path = tmp_path / "alerts.jsonl"
    a_sink(path).send(a_notice())
    assert synced == [path.stat().st_ino, tmp_path.stat().st_ino]
    a_sink(path).send(a_notice(1))
    assert synced[2:] == [path.stat().st_ino]


def test_torn_line_of_a_kill_is_taken_off(tmp_path: Path) -> None:
    """It has no receipt, so it comes again as a whole."""
    path = tmp_path / "alerts.jsonl"
    a_sink(path).send(a_notice(0))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"alert_id": "a1", "se')
    a_sink(path).send(a_notice(1))
    assert path.read_bytes().startswith(whole)
    assert [json.loads(line)["seq"] for line in path.read_text().splitlines()] == [0, 1]


def test_full_disk_leaves_no_half_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written of it is taken back, and it is tried again later."""
    path = tmp_path / "alerts.jsonl"
    sink = a_sink(path)
    sink.send(a_notice(0))
    whole, write = path.read_bytes(), os.write
    monkeypatch.setattr(os, "write", lambda handle, content: write(handle, content[:10]))
    with pytest.raises(Later, match=os.strerror(errno.ENOSPC)):
        sink.send(a_notice(1))
    assert path.read_bytes() == whole


@pytest.mark.parametrize("name", ["alerts.jsonl", "alerts[1].jsonl"])
def test_full_file_gets_the_time_in_its_name_and_the_oldest_goes(tmp_path: Path, name: str) -> None:
    """Two full ones are kept beside the one that is written; those of one second have numbers."""
    path, n = tmp_path / name, 60
    sink = a_sink(path, max_bytes=10_000, keep_files=2)
    for seq in range(n):
        sink.send(a_notice(seq, reasons=("still",) * 60))
    files = sorted(tmp_path.iterdir())
    assert files[0].name == name
    assert len(files) == 3
    assert all(file.name.startswith(f"{name}.20260301T120009Z") for file in files[1:])
    assert all(file.stat().st_size <= 10_000 for file in files)
    seqs = [json.loads(line)["seq"] for file in [*files[1:], files[0]] for line in file.read_text().splitlines()]
    assert seqs == list(range(n - len(seqs), n))


def test_file_of_yesterday_is_begun_anew(tmp_path: Path) -> None:
    """By the day in UTC; one of today goes on."""
    path = tmp_path / "alerts.jsonl"
    a_sink(path, rotate="day").send(a_notice(0))
    os.utime(path, (NOW_S, NOW_S))
    a_sink(path, rotate="day", now_s=NOW_S + 3600).send(a_notice(1))
    os.utime(path, (NOW_S, NOW_S))
    a_sink(path, rotate="day", now_s=NOW_S + 43_200).send(a_notice(2))
    old, new = tmp_path / "alerts.jsonl.20260302T000009Z-000", path
    assert [json.loads(line)["seq"] for line in old.read_text().splitlines()] == [0, 1]
    assert [json.loads(line)["seq"] for line in new.read_text().splitlines()] == [2]


def test_never_rotated_file_goes_on(tmp_path: Path) -> None:
    """Whatever its size and age."""
    path = tmp_path / "alerts.jsonl"
    sink = a_sink(path, rotate="never", max_bytes=10_000, now_s=time.time() + 1e6)
    for seq in range(20):
        sink.send(a_notice(seq, reasons=("still",) * 60))
    assert path.stat().st_size > 10_000
    assert [file.name for file in tmp_path.iterdir()] == ["alerts.jsonl"]


def test_file_that_another_process_writes_is_waited_for(tmp_path: Path) -> None:
    """Not in the system call: the thread stays free."""
    path = tmp_path / "alerts.jsonl"
    path.touch()
    with path.open("ab") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(Later, match=os.strerror(errno.EAGAIN)):
            a_sink(path).send(a_notice())
    a_sink(path).send(a_notice())


@pytest.mark.parametrize("kind", ["pipe", "folder", "no folder"])
def test_what_is_no_file_is_said_at_once(tmp_path: Path, kind: str) -> None:
    """A pipe without a reader would be waited for for ever."""
    path = tmp_path / "alerts"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    else:
        (tmp_path / "alerts").touch()
        path = tmp_path / "alerts" / "ward.jsonl"
    with pytest.raises(Later):
        a_sink(path).send(a_notice())
