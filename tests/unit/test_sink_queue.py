"""What waits for a sink: order, waits, bounds and receipts, on a clock that the test moves."""

from __future__ import annotations

import logging
import tracemalloc

import pytest

from stream_occ.samples import Alert
from stream_occ.sink_queue import LONGEST_ASKED_S, LONGEST_WAIT_S, MAX_BROKEN, STUCK_S, SinkQueue
from tests.sink_peers import an_alert


def a_queue(*, draw: float = 1.0, max_changes: int = 100, states: tuple[str, ...] = ()) -> SinkQueue:
    return SinkQueue(
        "ward",
        "webhook",
        states=states,  # type: ignore[arg-type]
        max_changes=max_changes,
        timeout_s=10.0,
        draw=lambda: draw,
    )


def key_of(alert: Alert | None) -> tuple[str, int]:
    assert alert is not None
    return alert.alert_id, alert.seq


def test_urgent_goes_first_and_equals_in_their_order() -> None:
    """A pending alert or an alarm overtakes a backlog of others; comments come last."""
    queue = a_queue()
    queue.add(an_alert(5, "acknowledged", reasons=("feedback_fall",)))
    queue.add(an_alert(0, "suspected"))
    queue.add(an_alert(1, "checking"))
    queue.add(an_alert(2, "pending"))
    queue.add(an_alert(3, "alarm"))
    taken = []
    while (alert := queue.take(0.0)) is not None:
        taken.append(alert.seq)
        queue.delivered(key_of(alert))
    assert taken == [2, 3, 0, 1, 5]
    assert set(queue.settled().values()) == {"delivered"}
    assert queue.settled() == {}


def test_second_failure_in_a_row_rests_the_sink_and_waits_double_up_to_a_minute() -> None:
    """The first failure sets back its notice alone: the next is tried at once; then 1, 2, 4, ... 60 s of rest."""
    queue, now_s = a_queue(), 0.0
    for seq in range(20):
        queue.add(an_alert(seq))
    queue.failed(key_of(queue.take(now_s)), now_s, "away")
    assert key_of(queue.take(now_s)) == ("a1", 1)
    queue.failed(("a1", 1), now_s, "away")
    rests = []
    for _ in range(9):
        assert queue.take(now_s) is None
        began_s = now_s
        while queue.take(now_s) is None:
            now_s += 0.5
        rests.append(now_s - began_s)
        queue.failed(key_of(queue.take(now_s)), now_s, "away")
    assert rests == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert LONGEST_WAIT_S == 60.0


def test_jitter_takes_up_to_half_off_a_wait() -> None:
    """With the least draw the first wait of 1 s is half a second."""
    queue = a_queue(draw=0.0)
    queue.add(an_alert())
    queue.failed(key_of(queue.take(0.0)), 0.0, "away")
    assert queue.take(0.49) is None
    assert queue.take(0.51) is not None


def test_one_notice_that_fails_for_ever_costs_the_others_nothing() -> None:
    """All others are delivered while it is tried again now and then."""
    queue, now_s, delivered = a_queue(max_changes=1000), 0.0, 0
    queue.add(an_alert(0, alert_id="poison"))
    for seq in range(200):
        queue.add(an_alert(seq))
    for _ in range(220):
        if (alert := queue.take(now_s)) is None:
            break
        if alert.alert_id == "poison":
            queue.failed(key_of(alert), now_s, "HTTP status 500")
        else:
            queue.delivered(key_of(alert))
            delivered += 1
        now_s += 0.1
    assert delivered == 200
    assert queue.status().waiting == 1


def test_wish_of_the_receiver_is_honoured_up_to_ten_minutes() -> None:
    """Retry-After rests the whole sink, but nobody lies on the floor for a day because a server says so."""
    queue = a_queue()
    queue.add(an_alert(0))
    queue.add(an_alert(1))
    queue.failed(key_of(queue.take(0.0)), 0.0, "HTTP status 429", 20.0)
    assert queue.take(19.9) is None
    queue.failed(key_of(queue.take(20.0)), 20.0, "HTTP status 503", 86_400.0)
    assert queue.take(20.0 + LONGEST_ASKED_S - 1) is None
    assert queue.take(20.0 + LONGEST_ASKED_S) is not None


def test_full_queue_drops_what_says_least_and_never_what_is_being_sent(caplog: pytest.LogCaptureFixture) -> None:
    """Comments first, then plain changes, of equals the oldest; each is a receipt, told at 1, 2, 4, ..."""
    queue = a_queue(max_changes=3)
    queue.add(an_alert(0, "resolved"))
    assert key_of(queue.take(0.0)) == ("a1", 0)
    for seq, state in ((1, "resolved"), (2, "alarm"), (3, "pending"), (4, "alarm")):
        queue.add(an_alert(seq, state))  # type: ignore[arg-type]
    assert queue.settled() == {("a1", 1): "dropped", ("a1", 2): "dropped"}
    queue.delivered(("a1", 0))
    assert queue.status().receipts == {"delivered": 1, "refused": 0, "dropped": 2}
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]


def test_refusal_ends_a_notice_and_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """It is counted, noted as the receipt, and not sent again."""
    queue = a_queue()
    queue.add(an_alert())
    queue.refused(key_of(queue.take(0.0)), "HTTP status 410")
    assert queue.take(1e9) is None
    assert queue.settled() == {("a1", 0): "refused"}
    assert caplog.messages == ["sink ward refused change 0 of alert a1 (1 so far): HTTP status 410"]
    assert (queue.status().state, queue.status().reason) == ("failing", "refused: HTTP status 410")
    queue.add(an_alert(1))
    queue.delivered(key_of(queue.take(0.0)))
    assert queue.status().state == "ok"


def test_one_line_when_it_fails_and_one_when_it_takes_alerts_again(caplog: pytest.LogCaptureFixture) -> None:
    """However often it fails in between."""
    queue, now_s = a_queue(), 0.0
    queue.add(an_alert())
    for _ in range(5):
        queue.failed(key_of(queue.take(now_s)), now_s, "connection refused")
        now_s += 100.0
    assert queue.status().state == "failing"
    assert queue.status().reason == "connection refused"
    queue.delivered(key_of(queue.take(now_s)))
    assert queue.status().state == "ok"
    assert queue.status().failed == 5
    assert caplog.messages == [
        "sink ward takes no alerts: connection refused; 1 wait, and are tried again",
        "sink ward takes alerts again; 0 wait",
    ]


def test_try_that_never_ends_is_stuck_and_said_once(caplog: pytest.LogCaptureFixture) -> None:
    """A minute beyond its own limit."""
    queue = a_queue()
    queue.add(an_alert())
    assert queue.take(0.0) is not None
    for now_s in (0.0, 10.0 + STUCK_S, 10.1 + STUCK_S, 1000.0):
        queue.look(now_s)
    assert queue.status().state == "stuck"
    assert [record.levelno for record in caplog.records] == [logging.ERROR]


def test_error_of_ours_is_set_aside_after_some_tries() -> None:
    """What cannot be made a message then is never one."""
    queue, now_s = a_queue(), 0.0
    queue.add(an_alert())
    for _ in range(MAX_BROKEN):
        queue.failed(key_of(queue.take(now_s)), now_s, "TypeError", is_ours=True)
        now_s += 100.0
    assert queue.settled() == {("a1", 0): "dropped"}
    assert queue.take(now_s) is None


def test_sink_is_told_of_its_states_alone() -> None:
    """Empty means all."""
    queue = a_queue(states=("alarm",))
    assert queue.wants(an_alert(0, "alarm"))
    assert not queue.wants(an_alert(0, "pending"))
    assert a_queue().wants(an_alert(0, "suspected"))


def test_sink_that_is_away_for_long_takes_bounded_memory() -> None:
    """Twenty times as many changes as may wait: what is kept is what waits, a few kB each, and receipts when asked."""
    queue = a_queue(max_changes=100)
    tracemalloc.start()
    try:
        for seq in range(2000):
            queue.add(an_alert(seq, alert_id=f"a{seq}", evidence={"peak_score": float(seq)}))
            if seq % 100 == 0:
                queue.settled()
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert queue.status().waiting == 100
    assert held < 100 * 4096
