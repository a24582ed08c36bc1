"""Told changes until somebody has them: with receivers and without, over kills, in any state of the broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from stream_occ import outbox
from stream_occ.keeping import Keeper
from stream_occ.messages import EventMessage, event_message
from stream_occ.mqtt import MqttLink, MqttOptions
from stream_occ.samples import Alert
from stream_occ.store import Store
from tests.unit.service_bench import CHECKED, Bench
from tests.unit.toy_model import toy_model

WARD = {"events": CHECKED, "receivers": ["ward", "phone"]}
TOLD = [("suspected", 0), ("checking", 1), ("pending", 2)]


def receipt(bench: Bench, seq: int, receiver: str, *, device: str = "w1", **more: object) -> None:
    alert_id = bench.link.of("stream_occ/w1/event")[0]["alert_id"]
    content = {"alert_id": alert_id, "seq": seq, "receiver": receiver, **more}
    bench.command("received", json.dumps(content).encode(), device=device)


def fallen(keeper: Keeper | None = None, **sections: object) -> Bench:
    bench = Bench(keeper=keeper, **{**WARD, **sections})
    bench.fall()
    assert bench.events() == TOLD
    bench.link.sent.clear()
    return bench


def test_change_is_told_again_with_growing_waits_until_each_receiver_has_it() -> None:
    """2, 4, 8, ... 60 s after the broker took it; who has it does not stop those that have not."""
    bench = Bench(**WARD, output={"publish_suspected": False})
    bench.fall()
    times = []
    for _ in range(180):
        n = len(bench.events())
        bench.run(1.0)
        assert all(state != "alarm" or seq >= 3 for state, seq in bench.events())
        if ("pending", 2) in bench.events()[n:]:
            times.append(bench.now_s - 6.0)
    assert times == [3.0, 8.0, 17.0, 34.0, 67.0, 128.0]  # waits of 2, 4, ..., 60 s from the slice that saw the answer
    receipt(bench, 2, "ward")
    bench.run()
    bench.link.sent.clear()
    bench.wait(70.0)
    assert ("pending", 2) in bench.events()
    bench.run()


@pytest.mark.parametrize("who", [("ward", "phone"), ("phone", "ward", "ward")])
def test_change_that_all_have_is_not_told_again(who: tuple[str, ...]) -> None:
    """A receipt that comes twice is no refusal; each change needs its own."""
    bench = Bench(**WARD)
    bench.fall()
    for name in who:
        receipt(bench, 2, name)
    bench.run()
    receipt(bench, 2, "ward")
    bench.run()
    bench.link.sent.clear()
    bench.wait(15.0)
    assert set(bench.events()) == {("suspected", 0), ("checking", 1)}
    assert bench.service.counters().refused == {}


def test_receipt_changes_no_alert_and_stops_no_escalation() -> None:
    """All machines have it: the alarm comes when it would have come, and again after that."""
    bench = Bench(**WARD)
    bench.fall()
    for seq in range(3):
        for name in ("ward", "phone"):
            receipt(bench, seq, name)
    bench.run()
    assert bench.state()["state"] == "pending"
    bench.wait(100.0)
    assert {("alarm", 3), ("alarm", 4)} <= set(bench.events())
    assert bench.state()["state"] == "alarm"


def test_receipts_that_mean_nothing_to_us_are_counted() -> None:
    """Of a stranger, of another device, of a shape that is none, kept by the broker: none of them lets a change go."""
    bench = Bench(**WARD)
    bench.fall()
    receipt(bench, 2, "stranger")
    receipt(bench, 2, "ward", device="w2")
    receipt(bench, 2, "ward", more=1)
    bench.command("received", b"PRESS")
    bench.command("received", b"{}", is_retained=True)
    bench.command("received", b" " * 5000)
    bench.run()
    assert bench.service.counters().refused == {
        "unknown_receiver": 1,
        "other_alert": 1,
        "command_invalid": 2,
        "retained": 1,
        "payload_too_large": 1,
    }
    bench.link.sent.clear()
    bench.wait(5.0)
    assert sorted(bench.events()) == sorted(TOLD)


def test_without_receivers_what_the_broker_has_is_let_go() -> None:
    """Also where nobody is subscribed: then the retained alert is what there is."""
    for outcome in ("taken", "unheard"):
        bench = Bench(events=CHECKED)
        bench.link.outcome = outcome  # type: ignore[assignment]
        bench.fall()
        bench.wait(15.0)
        assert bench.events() == TOLD
        assert bench.link.retained["stream_occ/w1/alert"]


def test_what_the_broker_does_not_want_is_tried_again() -> None:
    """An ACL that is put right later."""
    bench = Bench(events=CHECKED)
    bench.link.outcome = "refused"
    bench.fall()
    bench.wait(4.0)
    assert bench.events() == TOLD * 2
    bench.link.outcome = "taken"
    bench.wait(14.0)
    assert bench.events() == TOLD * 3


def test_retained_alert_that_the_broker_had_no_quota_for_is_told_again() -> None:
    """With every state until it is taken; and once it is closed meanwhile, that there is none."""
    bench = Bench(events=CHECKED)
    bench.link.outcome = "refused"
    bench.fall()
    first = bench.link.retained.pop("stream_occ/w1/alert")
    bench.wait(5.0)
    assert "stream_occ/w1/alert" not in bench.link.retained
    bench.wait(6.0)
    assert bench.link.retained.pop("stream_occ/w1/alert") == first
    bench.command("cancel")
    bench.run()
    del bench.link.retained["stream_occ/w1/alert"]
    bench.link.outcome = "taken"
    bench.wait(11.0)
    assert bench.link.retained.pop("stream_occ/w1/alert") == b""
    bench.wait(30.0)
    assert "stream_occ/w1/alert" not in bench.link.retained


@pytest.mark.parametrize("reason", ["Quota exceeded", "Not authorized", "Packet identifier in use"])
def test_puback_that_is_a_failure_takes_nothing(reason: str) -> None:
    """Its reason code decides: the message is counted, and whoever published it is told that it was refused."""
    link = MqttLink(MqttOptions("127.0.0.1", 1, "c"))
    outcomes: list[str] = []
    assert link.publish("stream_occ/w1/event", b"{}", qos=1, is_retained=False, on_done=outcomes.append)
    mid = next(iter(link._outgoing._pending))
    link._on_publish(None, None, mid, ReasonCode(PacketTypes.PUBACK, reason), None)
    assert outcomes == ["refused"]
    assert dict(link.dropped) == {"refused_by_broker": 1}
    assert link.n_pending == 0
    link.stop()


def test_change_that_can_never_be_sent_is_set_aside_and_nothing_waits_behind_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Five tries within 31 s, counted and logged once; the other changes go out, and it stays in the history."""
    keeper = Keeper(Store(tmp_path / "state.db"), model_id="toy", interval_s=5.0, is_wanted=True)
    tried = []

    def message(alert: Alert) -> EventMessage:
        if alert.seq == 1:
            tried.append(alert)
            raise ValueError("Out of range float values are not JSON compliant")
        return event_message(alert)

    monkeypatch.setattr(outbox, "event_message", message)
    bench = Bench(keeper=keeper, **WARD)
    bench.fall()
    assert bench.events() == [TOLD[0], TOLD[2]]
    bench.wait(31.0)
    assert len(tried) == outbox.MAX_FAILED
    assert bench.service.counters().dropped == {"event_set_aside": 1}
    assert sum(getattr(record, "reason", "") == "event_set_aside" for record in caplog.records) == 1
    bench.wait(300.0)
    assert len(tried) == outbox.MAX_FAILED
    assert [row.alert.seq for row in keeper.outbox() if row.alert.seq < 3] == [0, 2]
    store = keeper._store
    assert store is not None
    assert [alert.seq for alert in store.history("w1")][:3] == [0, 1, 2]
    keeper.close()


def test_change_that_fails_now_and_then_is_not_set_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every other try fails: what went out in between counts."""
    n = 0

    def message(alert: Alert) -> EventMessage:
        nonlocal n
        n += alert.seq == 1
        if alert.seq == 1 and n % 2:
            raise MemoryError
        return event_message(alert)

    monkeypatch.setattr(outbox, "event_message", message)
    bench = Bench(**WARD)
    bench.fall()
    bench.wait(1000.0)
    assert n > 2 * outbox.MAX_FAILED
    assert bench.service.counters().dropped == {}


def test_nothing_is_sent_twice_while_the_broker_has_not_answered() -> None:
    """The link itself sends it again on its next connection."""
    bench = Bench(**WARD)
    publish = bench.link.publish
    bench.link.publish = lambda *a, on_done=None, **k: publish(*a, **k)  # type: ignore[method-assign,assignment]
    bench.fall()
    bench.wait(14.0)
    assert bench.events() == TOLD


def test_more_than_may_wait_drops_the_oldest_and_is_a_fault() -> None:
    """Counted, and named for as long as faults are held."""
    bench = Bench(events={**CHECKED, "repeat_s": 5.0}, receivers=["ward"], state={"outbox_changes": 10})
    bench.fall()
    bench.wait(70.0)
    n = 3 + sum(1 for state, _ in set(bench.events()) if state == "alarm") - 10
    assert n > 0
    assert bench.service.counters().dropped == {"outbox_full": n}
    assert "event_dropped" in bench.state()["faults"]


def test_feedback_of_many_pushes_no_alarm_out_while_the_receiver_is_away() -> None:
    """A fall of w1 that 20,000 call one, a fall of w2 after it: the receiver, back, hears of both from the first on."""
    bench = Bench(events={**CHECKED, "repeat_s": 3600.0}, receivers=["ward"], state={"outbox_changes": 12})
    bench.fall()
    bench.wait(30.0)
    for k in range(200):
        for n in range(100):
            bench.command("feedback", json.dumps({"verdict": "fall", "by": f"n{k}.{n}"}).encode())
        bench.run()
    shift = round(bench.now_s) * 50
    bench.send(100, device="w2", first=shift)
    bench.send(25, device="w2", first=shift + 100, knock=True)
    bench.send(175, device="w2", first=shift + 125, lying=True)
    bench.wait(40.0)
    bench.link.sent.clear()
    bench.wait(61.0)
    for device in ("w1", "w2"):
        assert {("suspected", 0), ("checking", 1), ("pending", 2), ("alarm", 3)} <= set(bench.events(device))
    counters = bench.service.counters()
    assert counters.refused == {"not_in_this_state": 20_000 - 16}
    assert counters.dropped == {"outbox_full": 3 + 1 + 16 + 4 - 12}


def test_what_came_to_nothing_is_dropped_before_what_is_an_alarm() -> None:
    """Alerts that expired, one after another, on both sides of a fall that nobody has heard of."""
    bench = Bench(events={**CHECKED, "repeat_s": 3600.0}, receivers=["ward"], state={"outbox_changes": 10})
    first = 0
    for n in range(8):
        device = "fallen" if n == 3 else f"w{n}"
        bench.send(100, device=device, first=first)
        bench.send(25, device=device, first=first + 100, knock=True)
        bench.send(175 if n == 3 else 700, device=device, first=first + 125, lying=n == 3)
        bench.wait(17.0)
        first += 17 * 50
    bench.wait(30.0)
    bench.link.sent.clear()
    bench.wait(61.0)
    assert {("suspected", 0), ("checking", 1), ("pending", 2), ("alarm", 3)} <= set(bench.events("fallen"))
    assert bench.service.counters().dropped["outbox_full"] == 7 * 3 + 4 - 10


class Starts:
    """Services over one file, each killed by the next."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keeper: Keeper | None = None

    def __call__(self, at_s: float = 0.0, **sections: object) -> Bench:
        self.kill()
        self.keeper = Keeper(Store(self.path), model_id="toy", is_wanted=True)
        return Bench(toy_model(), keeper=self.keeper, at_s=at_s, **{**WARD, **sections})

    def kill(self) -> None:
        if self.keeper is not None:
            self.keeper.close()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    starts = Starts(tmp_path / "state.db")
    yield starts
    starts.kill()


@pytest.mark.parametrize("receivers", [[], ["ward"]])
def test_change_that_was_kept_and_not_sent_is_sent_at_the_next_start(start: Starts, receivers: list[str]) -> None:
    """Killed between commit and send."""
    first = start(receivers=receivers)
    first.service._outbox.send = lambda *_: None  # type: ignore[method-assign]
    first.fall()
    assert first.events() == []
    second = start(7.0, receivers=receivers)
    second.run()
    assert second.events() == TOLD


def test_receipts_outlive_a_kill(start: Starts) -> None:
    """What all have is not told again; what one has waits for the other alone."""
    first = start()
    first.fall()
    for seq, name in ((0, "ward"), (0, "phone"), (1, "ward")):
        receipt(first, seq, name)
    first.run()
    alert_id = first.link.of("stream_occ/w1/event")[0]["alert_id"]
    second = start(7.0)
    second.run()
    assert second.events() == TOLD[1:]
    assert second.link.of("stream_occ/w1/event")[0]["alert_id"] == alert_id
    receipt(second, 1, "phone")
    second.run()
    assert [row.alert.seq for row in Store.outbox(start.keeper._store)] == [2]  # type: ignore[union-attr,arg-type]


def test_receiver_that_is_configured_no_more_is_not_waited_for(start: Starts) -> None:
    """What the remaining one has already is let go at the start."""
    first = start()
    first.fall()
    receipt(first, 1, "ward")
    first.run()
    second = start(7.0, receivers=["ward"])
    second.run()
    assert second.events() == [TOLD[0], TOLD[2]]


def test_change_that_cannot_be_read_costs_itself_alone(start: Starts, caplog: pytest.LogCaptureFixture) -> None:
    """Damage in one row: the others are told, the log says so."""
    first = start()
    first.fall()
    assert start.keeper is not None
    assert start.keeper._store is not None
    start.keeper._store._db.execute("UPDATE outbox SET content = '{}' WHERE seq = 1")
    second = start(7.0)
    second.run()
    assert second.events() == [TOLD[0], TOLD[2]]
    assert "cannot be sent" in caplog.text


def test_file_of_an_earlier_version_gets_its_outbox(start: Starts) -> None:
    """One without the table is opened and added to."""
    store = Store(start.path)
    store._db.execute("DROP TABLE outbox")
    store.close()
    bench = start()
    bench.fall()
    assert bench.events() == TOLD
