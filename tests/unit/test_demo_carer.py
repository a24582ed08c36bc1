"""The demo's carer: acknowledges at once, gives the all clear later, and does nothing else."""

from __future__ import annotations

import json

from stream_occ.demo.carer import ALL_CLEAR_S, Carer
from stream_occ.messages import CommandMessage
from stream_occ.topics import Topics


def event(state: str, alert_id: str = "id-1") -> dict[str, str]:
    return {"event_type": state, "alert_id": alert_id}


def test_alarm_is_taken_at_once_and_cleared_later() -> None:
    """The wait is in the wearers' own time; both are valid commands for this very alert."""
    sent: list[tuple[str, bytes]] = []
    carer = Carer(lambda topic, payload: sent.append((topic, payload)), Topics(), speed=10.0)
    for state in ("suspected", "checking", "pending"):
        carer.hear("w1", event(state), 0.0)
        carer.act(1000.0)
    assert sent == []
    carer.hear("w1", event("alarm"), 5.0)
    carer.act(5.0)
    carer.hear("w1", event("acknowledged"), 5.1)
    carer.act(5.1 + ALL_CLEAR_S / 10 - 0.01)
    assert [topic for topic, _ in sent] == ["stream_occ/w1/set/ack"]
    carer.act(5.1 + ALL_CLEAR_S / 10 + 0.01)
    assert [topic for topic, _ in sent] == ["stream_occ/w1/set/ack", "stream_occ/w1/set/cancel"]
    for _, payload in sent:
        command = CommandMessage.model_validate_json(payload)
        assert (command.alert_id, command.by) == ("id-1", "simulated carer")
    assert (carer.n_acknowledged, carer.n_cleared) == (1, 1)


def test_alarm_again_is_taken_again_and_puts_the_all_clear_off() -> None:
    """Another burst while somebody takes care."""
    sent: list[str] = []
    carer = Carer(lambda topic, payload: sent.append(json.loads(payload)["alert_id"] + topic[-3:]), Topics(), speed=1.0)
    for now_s, state in ((0.0, "alarm"), (1.0, "acknowledged"), (20.0, "alarm"), (21.0, "acknowledged")):
        carer.hear("w1", event(state), now_s)
        carer.act(now_s)
    carer.act(40.0)
    assert sent == ["id-1ack", "id-1ack"]
    carer.act(21.0 + ALL_CLEAR_S)
    assert sent == ["id-1ack", "id-1ack", "id-1cel"]


def test_alert_that_ended_otherwise_needs_nothing() -> None:
    """Resolved by quiet before the all clear was due."""
    sent: list[str] = []
    carer = Carer(lambda topic, _: sent.append(topic), Topics(), speed=1.0)
    carer.hear("w1", event("acknowledged"), 0.0)
    carer.hear("w1", event("resolved"), 1.0)
    carer.act(1000.0)
    assert sent == []
