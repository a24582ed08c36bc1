"""What somebody at a terminal sees: from the messages of the service, and from whatever else is on its topics."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from stream_occ.board import MAX_WEARERS, Board, age
from stream_occ.cli.watch import screen_of
from stream_occ.messages import alert_message
from tests.sink_peers import T_NS, an_alert
from tests.unit.dashboard_messages import state
from tests.unit.service_bench import CHECKED, Bench


def a_board() -> Board:
    return Board("stream_occ")


def drawn(board: Board, *, is_connected: bool = True, height: int | None = None) -> str:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(screen_of(board, is_connected=is_connected, height=height))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


def test_wearer_of_a_service_is_seen_falling() -> None:
    """Its retained topics, as they are: the alert goes before the state, with its countdown."""
    bench, board = Bench(events=CHECKED), a_board()
    bench.fall()
    for topic, payload in bench.link.retained.items():
        board.take(topic, payload)
    [wearer] = board.ordered()
    assert (wearer.device, wearer.shown) == ("w1", "pending")
    assert wearer.deadline_ns is not None
    assert "! pending, alarm in" in drawn(board)


def test_alarm_is_first_and_normal_last() -> None:
    """Then pending, acknowledged, what is looked at, and what has a fault or is away."""
    board = a_board()
    for i, name in enumerate(("normal", "waiting", "acknowledged", "pending", "alarm")):
        board.take(f"stream_occ/w{i}/state", state(name if name in ("normal", "waiting") else "normal"))
        if name not in ("normal", "waiting"):
            message = alert_message(an_alert(0, name, evidence={"t_deadline_ns": T_NS}))  # type: ignore[arg-type]
            board.take(f"stream_occ/w{i}/alert", message.to_payload())
    board.take("stream_occ/w5/state", state(faults=["gap"]))
    board.take("stream_occ/w6/state", state())
    board.take("stream_occ/w6/availability", b"offline")
    assert [wearer.shown for wearer in board.ordered()] == [
        *("alarm", "pending", "acknowledged"),
        *("waiting", "normal", "offline", "normal"),
    ]


def test_change_is_a_line_and_the_same_again_is_none() -> None:
    """For logs and screen readers."""
    board = a_board()
    assert board.take("stream_occ/w1/state", state()) == "w1: normal (was waiting)"
    assert board.take("stream_occ/w1/state", state(score=2.0)) is None
    line = board.take("stream_occ/w1/alert", alert_message(an_alert(0, "alarm")).to_payload())
    assert line == "w1: alarm (was normal)"
    assert board.take("stream_occ/w1/alert", b"") == "w1: normal (was alarm)"
    assert board.take("stream_occ/w1/availability", b"offline") == "w1: offline (was normal)"


def test_service_that_is_away_is_loud() -> None:
    """As is a broker: what is shown may be old then."""
    board = a_board()
    assert "SERVICE OFFLINE (none was ever there)" in drawn(board)
    board.take("stream_occ/bridge/edge/status", b"online")
    assert "0 wearers, 0 open alerts" in drawn(board)
    assert board.take("stream_occ/bridge/edge/status", b"offline") == "service edge: OFFLINE: nobody watches"
    assert "SERVICE OFFLINE (edge): nobody watches" in drawn(board)
    assert "NO CONNECTION" in drawn(board, is_connected=False)


def test_screen_that_is_too_small_shows_the_most_urgent() -> None:
    """And says how many it leaves out."""
    board = a_board()
    for i in range(50):
        board.take(f"stream_occ/w{i:02d}/state", state())
    board.take("stream_occ/w49/alert", alert_message(an_alert(0, "alarm")).to_payload())
    text = drawn(board, height=20)
    assert "!!alarm" in text
    assert "and 38 more, none more urgent" in text


@given(
    st.sampled_from(["state", "alert", "availability"]), st.binary(max_size=60) | st.text(max_size=30).map(str.encode)
)
def test_whatever_is_on_a_topic_breaks_nothing(kind: str, payload: bytes) -> None:
    """It is counted, and can be drawn."""
    board = a_board()
    board.take(f"stream_occ/w1/{kind}", payload)
    drawn(board)


@pytest.mark.parametrize("payload", [b"[" * 50_000, state(rate_hz=float("nan"))])
def test_what_python_reads_and_json_does_not_have_is_unreadable(payload: bytes) -> None:
    """Neither too deep a message nor a number that is none ends the view, or gets into --json."""
    board = a_board()
    board.take("stream_occ/w1/state", payload)
    assert board.n_unreadable == 1
    json.dumps(board.to_json(), allow_nan=False)


@pytest.mark.parametrize("value", [None, 1, [], {}, True, "x" * 1000, "\x1b[2J", 1e400])
def test_keys_of_other_types_are_unreadable_and_texts_are_short(value: Any) -> None:
    """No text steers the terminal."""
    board = a_board()
    for key in ("state", "score", "threshold", "rate_hz", "last_seen", "faults"):
        board.take("stream_occ/w1/state", json.dumps({**json.loads(state()), key: value}).encode())
        text = drawn(board)
        assert "\x1b" not in text
        assert "x" * 100 not in text


def test_wearers_are_bounded() -> None:
    """Whoever may write makes no memory grow."""
    board = a_board()
    for i in range(MAX_WEARERS + 5):
        board.take(f"stream_occ/d{i}/availability", b"online")
    assert (len(board.wearers), board.n_more) == (MAX_WEARERS, 5)


def test_age_is_in_words() -> None:
    """Nothing where nothing is known."""
    at = "2026-03-01T12:00:09.000Z"
    ages = [age(at, T_NS + seconds * 10**9) for seconds in (-5, 0, 119, 600, 7200)]
    assert ages == ["0 s ago", "0 s ago", "119 s ago", "10 min ago", "2 h ago"]
    assert age(None, T_NS) == age("yesterday", T_NS) == ""
