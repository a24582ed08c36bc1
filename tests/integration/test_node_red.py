"""configs/node-red-flow.json in a real Node-RED, with a real mosquitto and `detect`."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stream_occ.messages import AlertMessage, CommandMessage, EventMessage, ReceiptMessage
from tests.integration.broker import MOSQUITTO, Broker
from tests.integration.credentials import write_passwords
from tests.integration.detector import REPO, Detector, Watcher, wait_until
from tests.integration.node_red import NodeRed
from tests.integration.test_home_assistant_broker import ALERTS, walk
from tests.service_model import payload, tumbling

pytestmark = [pytest.mark.broker, pytest.mark.slow]

RECEIVED, EVENT, ALERT = "stream_occ/w1/set/received", "stream_occ/w1/event", "stream_occ/w1/alert"
PASSWORD = "hunter2"


def shipped_broker(folder: Path) -> Broker:
    """mosquitto with the shipped access list; who has no name may do all, as what plays the others in these tests."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    at = folder / "broker"
    at.mkdir()
    write_passwords(at / "passwords", {"nodered": PASSWORD, "family": PASSWORD})
    shipped = (REPO / "configs" / "mosquitto.acl").read_text()
    (at / "acl").write_text(f"topic readwrite #\n{shipped}")
    return Broker.start(at, extra=f"password_file {at}/passwords\nacl_file {at}/acl")


def n_waiting(state: Path) -> int:
    """Changes of which the service does not know yet that every receiver has them."""
    with contextlib.closing(sqlite3.connect(f"file:{state}?mode=ro", uri=True)) as file:
        return int(file.execute("SELECT count(*) FROM outbox").fetchone()[0])


def test_an_alarm_is_told_once_had_by_its_receiver_and_answered_by_the_buttons(
    tmp_path: Path, model_file: Path
) -> None:
    """With what the shipped access list grants `nodered` and no more; each press is a whole command, and is obeyed."""
    events = ALERTS | {"countdown_s": 1.0}
    with (
        shipped_broker(tmp_path) as broker,
        NodeRed(tmp_path / "red", broker.port, user="nodered", password=PASSWORD) as red,
        Watcher(broker.port) as watcher,
        Detector(tmp_path, broker.port, model_file, events=events, receivers=["nodered"]),
    ):
        t0_ns = walk(watcher)
        watcher.send("wearables/w1/imu", payload(tumbling("w1", 100, t0_ns=t0_ns, first=150)))
        wait_until(lambda: watcher.json(ALERT).get("state") == "alarm", "an alarm")
        alert_id = watcher.json(ALERT)["alert_id"]
        for button, kind, state in (
            ("Acknowledge", "ack", "acknowledged"),
            ("Cancel or all clear", "cancel", "resolved"),
            ("False alarm", "feedback", "false_alarm"),
        ):
            red.press(button)
            wait_until(lambda state=state: watcher.json(EVENT).get("event_type") == state, state)  # type: ignore[misc]
            assert watcher.json(EVENT)["by"] == "Node-RED"
            [sent] = watcher.contents(f"stream_occ/w1/set/{kind}")
            command = CommandMessage.model_validate(sent)
            command.check_kind(kind)  # type: ignore[arg-type]
            assert command.alert_id == alert_id
            assert command.t is not None
            assert abs(datetime.now(UTC) - command.t) < timedelta(minutes=1)
            wait_until(
                lambda state=state: [x for x in red.told("") if f"w1: {state} by Node-RED" in x], f"{state} told"
            )  # type: ignore[misc]
        wait_until(lambda: n_waiting(tmp_path / "state.db") == 0, "all changes to be had")
        changes = {(event["alert_id"], event["seq"]) for event in watcher.contents(EVENT)}
        had = {ReceiptMessage.model_validate(each) for each in watcher.contents(RECEIVED)}
        assert had == {ReceiptMessage(alert_id=one, seq=seq, receiver="nodered") for one, seq in changes}
        assert len(red.told("NEW ALERT: w1: pending")) == len(red.told("NEW ALERT")) == 1
        assert [line.split(" (")[0] for line in red.told("CLOSED")] == [
            "CLOSED: w1: resolved by Node-RED",
            "CLOSED: w1: false_alarm by Node-RED",
        ]
        assert red.told("NOT UNDERSTOOD") == []
        assert "[error]" not in red.log.read_text()


def change(seq: int, state: str) -> dict[str, object]:
    """What event and alert of one change have in common."""
    alike = {"alert_id": "a1", "seq": seq, "t": "2026-03-01T12:00:09.000Z", "t_ns": 1772366409000000000, "by": None}
    told = {"severity": "warning", "reasons": ("still",), "score": 0.4, "model": "m", "evidence": {}}
    return {**alike, **told, "contributions": (), "state": state}


def event(seq: int, state: str) -> bytes:
    values = change(seq, state)
    return EventMessage(event_type=values.pop("state"), **values).to_payload()  # type: ignore[arg-type]


def alert(seq: int, state: str) -> bytes:
    return AlertMessage(device="w1", **change(seq, state)).to_payload()  # type: ignore[arg-type]


def test_what_comes_twice_late_broken_or_after_a_lost_connection_is_told_once_and_had_each_time(
    broker: Broker, tmp_path: Path
) -> None:
    """A broker that forgets all comes back: the alert is had again, not told again, and the buttons still mean it."""
    with NodeRed(tmp_path / "red", broker.port) as red, Watcher(broker.port) as watcher:
        for content in (b"no JSON", b"", b"\xff\xfe", b"[1]", b'{"alert_id": "a1"}'):
            watcher.send(ALERT, content)
        wait_until(lambda: len(red.told("NOT UNDERSTOOD, on stream_occ/w1/alert")) == 4, "what is broken to be told")
        watcher.send(ALERT, alert(2, "pending"), retain=True)
        watcher.send(EVENT, event(2, "pending"))
        watcher.send(EVENT, event(2, "pending"))
        watcher.send(EVENT, json.dumps({**json.loads(event(3, "alarm")), "of a newer service": 1}).encode())
        watcher.send(EVENT, event(1, "checking"))
        wait_until(lambda: len(watcher.contents(RECEIVED)) == 5, "five receipts")
        red.press("Acknowledge")
        wait_until(lambda: len(watcher.contents("stream_occ/w1/set/ack")) == 1, "the command")
        broker.stop(kill=True)
        wait_until(lambda: red.told("NOT CONNECTED"), "the loss to be told")
        broker.run()
        wait_until(lambda: len(red.told("CONNECTED")) == 2, "a new connection", timeout_s=40)
        red.press("Cancel or all clear")
        wait_until(lambda: red.told("NOT SENT: cancel: no such alert"), "nothing to be open as far as is known")
        with Watcher(broker.port) as service:
            service.send(ALERT, alert(3, "alarm"), retain=True)
            wait_until(lambda: service.contents(RECEIVED), "one more receipt")
            red.press("Cancel or all clear")
            [sent] = wait_until(lambda: service.contents("stream_occ/w1/set/cancel"), "the command")
            assert CommandMessage.model_validate(sent).alert_id == "a1"
            service.send(EVENT, event(4, "resolved"))
            service.send(ALERT, b"", retain=True)
            wait_until(lambda: red.told("CLOSED"), "the end")
            wait_until(lambda: [each["seq"] for each in service.contents(RECEIVED)] == [3, 4], "both to be had")
        receipts = [ReceiptMessage.model_validate(each) for each in watcher.contents(RECEIVED)]
        assert [receipt.seq for receipt in receipts[:5]] == [2, 2, 2, 3, 1]
        told = [line.split(",")[0] for kind in ("NEW", "UPDATE", "CLOSED") for line in red.told(kind)]
        assert told == ["NEW ALERT: w1: pending (still)", "UPDATE: w1: alarm (still)", "CLOSED: w1: resolved (still)"]
        assert "[error]" not in red.log.read_text()


def test_what_is_kept_in_files_outlives_a_restart_of_node_red(broker: Broker, tmp_path: Path) -> None:
    """An open alert is had again and not told again; one that closed meanwhile is not in the buttons' way."""
    kept = {"default": {"module": "localfilesystem"}}
    red = NodeRed(tmp_path / "red", broker.port, contextStorage=kept)
    with Watcher(broker.port) as watcher:
        other = json.loads(alert(2, "pending")) | {"alert_id": "a2", "device": "w2"}
        with red:
            watcher.send(ALERT, alert(2, "pending"), retain=True)
            watcher.send("stream_occ/w2/alert", json.dumps(other).encode(), retain=True)
            wait_until(lambda: len(red.told("NEW ALERT")) == 2, "both to be told")
        watcher.send("stream_occ/w2/alert", b"", retain=True)
        with red:
            wait_until(lambda: len(watcher.contents(RECEIVED)) == 2, "the open one to be had again")
            red.press("Acknowledge")
            wait_until(lambda: watcher.contents("stream_occ/w1/set/ack"), "the command")
            assert red.told("NEW ALERT") == []


def test_a_person_learns_what_the_broker_refuses(tmp_path: Path) -> None:
    """As somebody who may see and not act: the command's refusal is told, and the alert all the same."""
    with (
        shipped_broker(tmp_path) as broker,
        Watcher(broker.port) as watcher,
        NodeRed(tmp_path / "red", broker.port, user="family", password=PASSWORD) as red,
    ):
        watcher.send(ALERT, alert(2, "pending"))
        wait_until(lambda: red.told("NEW ALERT: w1"), "the alert")
        wait_until(lambda: red.told("ErrorWithReasonCode: Publish error: Not authorized"), "the refused receipt")
        assert watcher.contents(RECEIVED) == []
