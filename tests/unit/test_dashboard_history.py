"""The dashboard's file: changes, acts, hours; filters; what is let go of; whose file it is."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_occ.dashboard.history import NS_PER_DAY, Filter, History
from stream_occ.errors import DataError, ServiceError
from stream_occ.messages import AlertMessage, WaveformMessage
from tests.unit.dashboard_messages import T0_NS, at, event


@pytest.fixture
def history(tmp_path: Path) -> Iterator[History]:
    kept = History(tmp_path / "h.history")
    yield kept
    kept.close()


def change(name: str, seq: int, device: str = "w1", alert_id: str = "a1", **keys: object) -> AlertMessage:
    return AlertMessage.model_validate_json(event(name, seq, device=device, alert_id=alert_id, **keys))


def waveform(seq: int, alert_id: str = "a1") -> WaveformMessage:
    return WaveformMessage(alert_id=alert_id, seq=seq, t0="2026-03-01T12:00:00.000Z", t0_ns=T0_NS, rate_hz=50.0,
                           columns=("x",), dtype="<f4", data="")  # fmt: skip


def test_changes_of_an_alert_are_one_row_with_the_state_of_the_highest_seq(history: History) -> None:
    """Told again they change nothing; told out of order the highest seq is the present, and who acted is kept."""
    assert history.add_change(change("pending", 2), at(0))
    assert not history.add_change(change("pending", 2), at(1))
    assert history.add_change(change("false_alarm", 5, by="anna", evidence={"peak_score": 9.0}), at(3))
    assert history.add_change(change("alarm", 3), at(4))
    [row] = history.alerts(Filter())
    assert (row["state"], row["by"], row["peak_score"], row["n_changes"]) == ("false_alarm", "anna", 9.0, 6)
    assert (row["first_ms"], row["last_ms"]) == (at(0) // 1_000_000, at(3) // 1_000_000)
    found = history.alert("a1")
    assert found is not None
    assert [each["seq"] for each in found["changes"]] == [2, 3, 5]
    assert history.alert("another") is None


def test_filters_and_pages(history: History) -> None:
    """By wearer, last state and time, newest first, page after page."""
    for n in range(6):
        state = "resolved" if n % 2 else "false_alarm"
        history.add_change(change(state, 0, device=f"w{n % 3}", alert_id=f"a{n}"), at(n))
    ids = lambda wanted: [each["alert_id"] for each in history.alerts(wanted)]  # noqa: E731
    assert ids(Filter()) == ["a5", "a4", "a3", "a2", "a1", "a0"]
    assert ids(Filter(device_id="w0")) == ["a3", "a0"]
    assert ids(Filter(state="false_alarm", from_ns=at(1), to_ns=at(4))) == ["a2"]
    first = history.alerts(Filter(limit=4))
    assert ids(Filter(before=first[-1]["row"], limit=4)) == ["a1", "a0"]
    assert ids(Filter(device_id="w0' OR 1=1 --")) == []


def test_acts_say_who_and_what_the_broker_said(history: History) -> None:
    """They belong to their alert's page."""
    history.add_change(change("alarm", 3), at(0))
    act = history.add_act("w1", "a1", "ack", "anna", "{}", at(1))
    history.set_outcome(act, "taken")
    found = history.alert("a1")
    assert found is not None
    assert found["acts"] == [{"t_ms": at(1) // 1_000_000, "kind": "ack", "by": "anna", "outcome": "taken"}]


def test_trends_are_counts_and_hours_by_hour(history: History) -> None:
    """Whoever shows them makes days of them, in their own zone."""
    hour = T0_NS // (3600 * 10**9)
    history.add_change(change("false_alarm", 4, alert_id="a1"), at(0))
    history.add_change(change("resolved", 4, alert_id="a2"), at(10))
    history.add_change(change("false_alarm", 4, alert_id="a3"), at(3700))
    history.add_worn({(hour, "w1"): 1800.0, (hour, "w2"): 900.0})
    history.add_worn({(hour, "w1"): 900.0})
    assert history.trends(0) == {
        "alerts": [
            {"hour": hour, "state": "false_alarm", "n": 1},
            {"hour": hour, "state": "resolved", "n": 1},
            {"hour": hour + 1, "state": "false_alarm", "n": 1},
        ],
        "worn": [{"hour": hour, "hours": 1.0}],
    }
    assert history.trends(at(3600))["alerts"] == [{"hour": hour + 1, "state": "false_alarm", "n": 1}]


def test_old_alerts_go_whole_and_open_ones_stay(tmp_path: Path, history: History) -> None:
    """By age and by number of changes, with their signals."""
    for alert_id in ("old", "open"):
        history.add_waveform(waveform(0, alert_id))
    history.add_change(change("resolved", 0, alert_id="old"), at(0))
    history.add_change(change("alarm", 0, alert_id="open"), at(0))
    for n in range(3):
        history.add_change(change("resolved", 0, alert_id=f"new{n}"), at(0) + 2 * NS_PER_DAY)
    limits = {"keep_days": 1.0, "keep_changes": 100, "keep_waveforms": 10}
    history.prune(at(0) + 2 * NS_PER_DAY, **limits)  # type: ignore[arg-type]
    assert [each["alert_id"] for each in history.alerts(Filter())] == ["new2", "new1", "new0", "open"]
    assert history.alert("old") is None
    with sqlite3.connect(tmp_path / "h.history") as db:
        assert db.execute("SELECT alert_id FROM waveforms").fetchall() == [("open",)]
    db.close()
    history.prune(at(0) + 2 * NS_PER_DAY, keep_days=1.0, keep_changes=2, keep_waveforms=10)
    assert [each["alert_id"] for each in history.alerts(Filter())] == ["new2", "open"]


def test_the_latest_signals_are_kept(history: History) -> None:
    """Up to a number."""
    history.add_change(change("alarm", 3), at(0))
    for seq in range(3):
        history.add_waveform(waveform(seq))
    history.prune(at(0), keep_days=1.0, keep_changes=100, keep_waveforms=2)
    found = history.alert("a1")
    assert found is not None
    assert [each["seq"] for each in found["waveforms"]] == [1, 2]


def test_the_client_id_stays_from_start_to_start(tmp_path: Path) -> None:
    """The broker keeps for it what came while the dashboard was away."""
    ids = []
    for _ in range(2):
        history = History(tmp_path / "h.history")
        ids.append(history.client_id)
        history.close()
    assert ids[0] == ids[1]
    assert (tmp_path / "h.history").stat().st_mode & 0o777 == 0o600


def test_one_process_holds_the_file_and_a_foreign_file_is_refused_untouched(tmp_path: Path, history: History) -> None:
    """As with the service's state file."""
    with pytest.raises(ServiceError, match="must be held by one process; got a running dashboard"):
        History(tmp_path / "h.history")
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as db:
        db.execute("CREATE TABLE t (x)")
    db.close()
    before = foreign.read_bytes()
    with pytest.raises(DataError, match="must be a history of the dashboard; got another program's database"):
        History(foreign)
    assert foreign.read_bytes() == before
    (tmp_path / "text").write_text("no database, and longer than the header of one" * 10)
    with pytest.raises(DataError, match="must be a history that can be written"):
        History(tmp_path / "text")
    with pytest.raises(DataError, match="must be a file; got a folder"):
        History(tmp_path)
