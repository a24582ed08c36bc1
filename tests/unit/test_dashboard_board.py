"""The dashboard's state: what messages make of wearers, services and open alerts, and what a reader is told of it."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stream_occ.dashboard import board as board_module
from stream_occ.dashboard.board import Board, Heard
from tests.unit.dashboard_messages import T0_NS, at, counters, event, state


def take(board: Board, topic: str, payload: bytes, seconds: float = 0.0, *, is_retained: bool = False) -> Heard:
    return board.take(f"stream_occ/{topic}", payload, is_retained=is_retained, now_ns=at(seconds))


def told(board: Board, cursor: int = 0) -> dict[str, Any]:
    found = board.since(cursor)
    assert found is not None
    return json.loads(json.dumps(found, allow_nan=False))  # what a browser reads


def open_states(board: Board) -> list[str]:
    return [each["state"] for each in told(board)["alerts"]]


def test_a_wearer_appears_with_its_state_and_every_score_once() -> None:
    """A reader is told the scores after its cursor, and of no wearer that has not changed."""
    board = Board("stream_occ")
    take(board, "w1/availability", b"online", is_retained=True)
    take(board, "w1/state", state(score=0.5, faults=["gap"]))
    take(board, "w2/state", state(score=None))
    first = told(board)
    w1, w2 = first["wearers"]
    assert (w1["id"], w1["online"], w1["state"], w1["faults"], w1["new"]) == ("w1", True, "normal", ["gap"], [0.5])
    assert (w2["id"], w2["online"], w2["new"]) == ("w2", None, [])
    assert board.since(first["cursor"]) is None
    take(board, "w1/state", state(score=1.5))
    second = told(board, first["cursor"])
    assert [(each["id"], each["new"]) for each in second["wearers"]] == [("w1", [1.5])]
    assert not second["whole"]
    assert "alerts" not in second


def test_scores_of_the_score_topic_take_the_place_of_those_of_the_state() -> None:
    """Else each window's score would be drawn twice."""
    board = Board("stream_occ")
    score = {"t": "2026-03-01T12:00:00.000Z", "t_ns": T0_NS, "score": 2.0, "threshold": 3.0, "margin": -1.0,
             "label": "normal", "bridged": False, "model": "abc", "contributions": []}  # fmt: skip
    take(board, "w1/score", json.dumps(score).encode())
    take(board, "w1/state", state(score=2.0))
    assert told(board)["wearers"][0]["new"] == [2.0]


def test_an_alert_opens_is_acknowledged_and_closes_and_each_change_is_kept() -> None:
    """Event and retained alert are one change; the closing event ends it before the retained alert is emptied."""
    board = Board("stream_occ")
    kept = [take(board, "w1/event", event("pending", 2)), take(board, "w1/alert", event("pending", 2, device="w1"))]
    assert [heard.change and heard.change.seq for heard in kept] == [2, 2]
    assert open_states(board) == ["pending"]
    take(board, "w1/event", event("acknowledged", 3, by="anna", reasons=["ack"]))
    [alert] = told(board)["alerts"]
    assert (alert["state"], alert["by"], alert["device"]) == ("acknowledged", "anna", "w1")
    cursor = board.version
    take(board, "w1/event", event("resolved", 4, by="anna", reasons=["all_clear"]))
    after = told(board, cursor)
    assert after["alerts"] == []
    assert [(n["kind"], n["state"], n["by"]) for n in after["notices"]] == [("change", "resolved", "anna")]
    take(board, "w1/alert", b"")
    assert open_states(board) == []


def test_what_is_told_again_or_late_does_not_open_a_closed_alert() -> None:
    """The highest seq is the present; a higher one opens it again."""
    board = Board("stream_occ")
    take(board, "w1/event", event("alarm", 3))
    take(board, "w1/event", event("resolved", 4))
    take(board, "w1/event", event("alarm", 3))
    take(board, "w1/alert", event("pending", 2, device="w1"), is_retained=True)
    assert open_states(board) == []
    take(board, "w1/event", event("suspected", 5, reasons=["reopened"]))
    assert open_states(board) == ["suspected"]


def test_a_number_that_no_page_can_hold_is_refused_and_hides_no_later_change() -> None:
    """2**53: beyond it a browser takes two numbers for one, and beyond 2**63 the history has no room."""
    board = Board("stream_occ")
    for seq in (2**53, 2**64):
        assert take(board, "w1/event", event("pending", seq)).change is None
    assert open_states(board) == []
    take(board, "w1/event", event("pending", 2))
    assert open_states(board) == ["pending"]


def test_an_emptied_alert_is_closed_and_its_repeats_stay_closed() -> None:
    """Whoever missed the closing event still sees the end; what is only suspected was never retained."""
    board = Board("stream_occ")
    take(board, "w1/alert", event("alarm", 3, device="w1"), is_retained=True)
    take(board, "w1/event", event("suspected", 0, alert_id="a2"))
    take(board, "w1/alert", b"")
    assert open_states(board) == ["suspected"]
    take(board, "w1/event", event("alarm", 3))
    assert open_states(board) == ["suspected"]


def test_a_normal_state_well_after_the_last_change_closes_an_alert_whose_end_was_lost() -> None:
    """A broker that was killed may have lost event and emptying; a state just after a change may be older than it."""
    board = Board("stream_occ")
    take(board, "w1/alert", event("alarm", 3, device="w1"), 0.0)
    take(board, "w1/state", state("normal"), 4.0)
    assert open_states(board) == ["alarm"]
    take(board, "w2/state", state("normal"), 6.0)
    take(board, "w1/state", state("alarm"), 6.0)
    assert open_states(board) == ["alarm"]
    take(board, "w1/state", state("normal"), 7.0)
    assert open_states(board) == []


def test_the_countdown_is_on_our_clock_and_never_longer_than_told() -> None:
    """A device 100 s ahead; one whose clock is not known, ahead or behind."""
    board = Board("stream_occ")
    take(board, "w1/state", state(clock_offset_s=100.0))
    take(board, "w1/event", event("pending", 2, t_ns=at(100)), 0.5)
    take(board, "w2/event", event("pending", 2, t_ns=at(3600), alert_id="a2"), 1.0)
    take(board, "w3/event", event("pending", 2, t_ns=at(-20), alert_id="a3"), 1.0)
    deadlines = {each["device"]: each["deadline_ms"] / 1000 - T0_NS / 1e9 for each in told(board)["alerts"]}
    assert deadlines == {"w1": 30.0, "w2": 31.0, "w3": 10.0}


def test_alerts_and_acts_are_urgent_and_states_are_not() -> None:
    """What must not wait for the next second."""
    board = Board("stream_occ")
    take(board, "w1/state", state())
    assert board.urgent_version == 0
    take(board, "w1/event", event("alarm", 3))
    at_alarm = board.urgent_version
    assert at_alarm > 0
    take(board, "w1/state", state("alarm"))
    assert board.urgent_version == at_alarm
    board.notice({"kind": "act"})
    assert board.urgent_version > at_alarm


def test_a_reader_that_slept_is_told_every_notice_or_all_there_is(monkeypatch: Any) -> None:
    """No queue that could be full: behind the last notices kept comes everything anew."""
    monkeypatch.setattr(board_module, "MAX_NOTICES", 10)
    board = Board("stream_occ")
    take(board, "w1/state", state())
    cursor = board.version
    for n in range(10):
        board.notice({"kind": "act", "n": n})
    assert [each["n"] for each in told(board, cursor)["notices"]] == list(range(10))
    board.notice({"kind": "act", "n": 10})
    late = told(board, cursor)
    assert late["whole"]
    assert [each["id"] for each in late["wearers"]] == ["w1"]
    assert [each["n"] for each in told(board, cursor + 1)["notices"]] == list(range(1, 11))


def test_worn_time_runs_between_live_states_of_an_online_wearer_that_wears_it() -> None:
    """Not over a pause of more than three intervals, not while offline or not worn, not from retained ones."""
    board = Board("stream_occ", state_interval_s=10.0)
    take(board, "w1/availability", b"online", 0.0)
    seconds = [
        take(board, "w1/state", payload, t, is_retained=is_retained).worn
        for t, payload, is_retained in [
            (0, state(), True), (1, state(), False), (11, state(not_worn=True), False), (21, state(), False),
            (31, state(), False), (62, state(), False),
        ]
    ]  # fmt: skip
    assert seconds == [None, None, ("w1", 10.0), None, ("w1", 10.0), None]
    take(board, "w1/availability", b"offline", 63)
    assert take(board, "w1/state", state(), 64).worn is None


def test_services_come_with_status_counters_and_rate() -> None:
    """Messages a second lie between two counters of one run."""
    board = Board("stream_occ")
    take(board, "bridge/edge/status", b"online", is_retained=True)
    take(board, "bridge/edge/counters", counters(100), 0.0)
    take(board, "bridge/edge/counters", counters(150), 10.0)
    [service] = told(board)["services"]
    assert (service["instance"], service["online"], service["messages_per_s"]) == ("edge", True, 5.0)
    take(board, "bridge/edge/status", b"offline")
    assert told(board)["services"][0]["online"] is False


def test_a_forgotten_device_goes_and_every_reader_is_told() -> None:
    """The service empties what it had retained; not while an alert of it is open."""
    board = Board("stream_occ")
    take(board, "w1/state", state())
    take(board, "w2/state", state("alarm"))
    take(board, "w2/event", event("alarm", 3))
    cursor = board.version
    take(board, "w1/state", b"")
    take(board, "w2/state", b"")
    assert told(board, cursor)["notices"] == [{"kind": "gone", "device": "w1"}]
    assert [each["id"] for each in told(board)["wearers"]] == ["w2"]


def test_what_is_damaged_or_foreign_changes_nothing_and_is_counted() -> None:
    """Not JSON, NaN, another device's name, a retained event, an odd device id, too much, another prefix."""
    board = Board("stream_occ")
    take(board, "w1/state", b"{")
    take(board, "w1/state", state(score=0.0).replace(b"0.0", b"NaN"))
    take(board, "w1/alert", event("alarm", 3, device="w2"))
    take(board, "w1/event", event("alarm", 3), is_retained=True)
    take(board, "<b>/state", state())
    take(board, "w1/state", b" " * 70_000)
    take(board, "w1/availability", b"<script>")
    board.take("stream_occ/w1/alert", b"", is_retained=False, now_ns=T0_NS, n_bytes=2_000_000)
    board.take("other/w1/state", state(), is_retained=False, now_ns=T0_NS)
    assert board.refused == {
        "invalid": 3, "device_mismatch": 1, "retained": 1, "bad_device_id": 1, "payload_too_large": 2,
    }  # fmt: skip
    assert (board.wearers, board.open) == ({}, {})


def test_keys_of_a_newer_service_are_passed_over() -> None:
    """A page that shows nothing for a new key would be worse than one that does not show the key."""
    board = Board("stream_occ")
    take(board, "w1/state", state(mood="good"))
    assert told(board)["wearers"][0]["state"] == "normal"


LEVELS = ["w1", "bridge", "edge", "state", "event", "alert", "score", "availability", "status", "counters", "set", ""]


@given(
    st.lists(st.sampled_from(LEVELS), max_size=4), st.one_of(st.binary(max_size=50), st.just(state())), st.booleans()
)
def test_any_bytes_on_any_topic_are_taken_or_refused(levels: list[str], payload: bytes, is_retained: bool) -> None:
    """Nothing is raised, and what a reader is told is JSON."""
    board = Board("stream_occ")
    take(board, "/".join(levels), payload, is_retained=is_retained)
    board.notice({"kind": "act"})
    assert told(board)["whole"]
