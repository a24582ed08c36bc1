"""configs/node-red-flow.json: that it hangs together, and what the code in it does, run by `node` without Node-RED."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stream_occ.messages import COMMANDS, AlertMessage, CommandMessage, EventMessage, ReceiptMessage
from stream_occ.samples import OPEN_ALERT_STATES
from stream_occ.topics import Topics

REPO = Path(__file__).resolve().parents[2]
FLOW: list[dict[str, Any]] = json.loads((REPO / "configs" / "node-red-flow.json").read_text(encoding="utf-8"))
NODES = {node["id"]: node for node in FLOW}
SETTINGS = {entry["name"]: entry["value"] for entry in NODES["occ_flow"]["env"]}
CORE = {"catch", "comment", "debug", "function", "inject", "link in", "link out", "mqtt in", "mqtt out", "mqtt-broker"}
CORE |= {"status", "switch", "tab"}
ALERT, EVENT = Topics().alert("w1"), Topics().event("w1")
HARNESS = """
const {steps, settings} = JSON.parse(require('fs').readFileSync(0)), kept = {};
const flow = {get: key => kept[key], set: (key, value) => { kept[key] = JSON.parse(JSON.stringify(value)); }};
const env = {get: key => settings[key]};
const run = ([code, msg]) => new Function('msg', 'flow', 'env', code)(msg, flow, env) ?? null;
console.log(JSON.stringify({answers: steps.map(run), kept}));
"""  # what is kept is JSON, as where a person keeps contexts in files
Step = tuple[str, dict[str, Any]]


def of_type(name: str) -> list[dict[str, Any]]:
    return [node for node in FLOW if node["type"] == name]


def play(*steps: Step, **settings: str) -> list[Any]:
    """What the function nodes, by name, answer to messages, one after another."""
    return run(*steps, **settings)["answers"]  # type: ignore[no-any-return]


def run(*steps: Step, **settings: str) -> dict[str, Any]:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node not found on PATH: install nodejs to run this test")
    code = {each["name"]: each["func"] for each in of_type("function")}
    given = {"steps": [(code[name], msg) for name, msg in steps], "settings": SETTINGS | settings}
    done = subprocess.run([node, "-e", HARNESS], input=json.dumps(given), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def change(seq: int, state: str, alert_id: str, **more: Any) -> dict[str, Any]:
    alike = {"alert_id": alert_id, "seq": seq, "t": "2026-03-01T12:00:09.000Z", "t_ns": 1772366409000000000, "by": None}
    told = {"severity": "warning", "reasons": ("still",), "score": 0.4, "model": "m", "evidence": {}}
    return {**alike, **told, "contributions": (), "state": state, **more}


def alert(seq: int, state: str, alert_id: str = "a1", device: str = "w1", **more: Any) -> Step:
    message = AlertMessage(device=device, **change(seq, state, alert_id, **more))
    return heard(Topics().alert(device), message.to_payload().decode())


def event(seq: int, state: str, alert_id: str = "a1", device: str = "w1", **more: Any) -> Step:
    values = change(seq, state, alert_id, **more)
    message = EventMessage(event_type=values.pop("state"), **values)
    return heard(Topics().event(device), message.to_payload().decode())


def heard(topic: str, payload: str) -> Step:
    return "read", {"topic": topic, "payload": payload, "qos": 1, "retain": True}


def asked(**payload: Any) -> Step:
    return "act", {"payload": payload}


def linked(text: str) -> Step:
    return "connection", {"status": {"text": f"node-red:common.status.{text}"}}


def kinds(answers: list[Any]) -> list[str | None]:
    """What of each message a person is told: new, update, closed or nothing."""
    return [answer[0] and answer[0]["kind"] for answer in answers if answer is not None]


def receipt_of(answer: list[Any]) -> tuple[str, str, int]:
    """Who of all has which change, by the receipt."""
    assert answer[1]["topic"] == Topics().command("w1", "received")
    receipt = ReceiptMessage.model_validate_json(answer[1]["payload"])
    return receipt.receiver, receipt.alert_id, receipt.seq


def test_every_wire_and_scope_ends_at_a_node_and_each_node_is_of_the_core() -> None:
    """Nothing has to be installed beside Node-RED, and nothing hangs in the air."""
    assert {node["type"] for node in FLOW} == CORE
    assert len(NODES) == len(FLOW)
    for node in FLOW:
        ends = [end for out in node.get("wires", []) for end in out] + (node.get("scope") or []) + node.get("links", [])
        ends += [node[key] for key in ("broker", "z") if key in node and node["type"] != "mqtt-broker"]
        assert [end for end in ends if end not in NODES] == [], node
        assert len(node.get("wires", [])) == node.get("outputs", len(node.get("wires", [])))
    reached = {end for node in FLOW for out in node.get("wires", []) for end in out}
    starts = {"inject", "mqtt in", "link in", "status", "catch", "comment", "tab", "mqtt-broker"}
    assert {node["id"] for node in FLOW if node["type"] not in starts} == reached


def test_flow_holds_no_secret_and_publishes_nothing_that_a_broker_keeps() -> None:
    """A command or receipt that is retained would come again at every start of the service, and is refused."""
    [broker] = of_type("mqtt-broker")
    assert not {"credentials", "user", "password"} & broker.keys()
    assert not re.search(r'"(credentials|user|password)"', json.dumps(FLOW))
    assert [(node["retain"], node["qos"], node["topic"]) for node in of_type("mqtt out")] == [("false", "1", "")] * 2


def test_topics_are_those_of_the_service_and_of_the_access_list() -> None:
    """It reads alerts and events of every wearer; `nodered` may write each command of the flow, and nothing else."""
    read = {node["topic"] for node in of_type("mqtt in")}
    assert read == {Topics().alert("+"), Topics().event("+")}
    assert {node["qos"] for node in of_type("mqtt in")} == {"1"}
    [act] = [node["func"] for node in of_type("function") if node["name"] == "act"]
    commands = re.findall(r"'(\w+)'", act.split("COMMANDS = [")[1].split("]")[0])
    assert set(commands) < set(COMMANDS)
    lines = (REPO / "configs" / "mosquitto.acl").read_text().split("user nodered\n")[1].split("\n\n")[0].splitlines()
    assert {line.split()[-1] for line in lines if line.startswith("topic read ")} == read
    written = {Topics().command("+", kind) for kind in (*commands, "received")}
    assert {line.split()[-1] for line in lines if line.startswith("topic write ")} == written


def test_states_are_those_of_the_service() -> None:
    """All states that are not open here are early or closed there."""
    states = re.findall(
        r"'(\w+)'", "".join(re.findall(r"const (?:EARLY|CLOSED) = (\[.*?\])", NODES["occ_read"]["func"]))
    )
    every = set(EventMessage.model_json_schema()["properties"]["event_type"]["enum"])
    told_open = set(AlertMessage.model_json_schema()["properties"]["state"]["enum"]) & OPEN_ALERT_STATES
    assert set(states) == every - (told_open - {"suspected", "checking"})


def test_a_new_alert_is_told_from_its_updates_and_its_end() -> None:
    """Watching is no alert; each change that is told is one line, whichever of the two topics brings it first."""
    changes = [event(0, "suspected"), event(1, "checking"), event(2, "pending"), alert(2, "pending"), alert(3, "alarm")]
    end = [event(3, "alarm"), event(4, "acknowledged", by="anna"), event(5, "resolved"), heard(ALERT, "")]
    answers = play(*changes, *end)
    assert kinds(answers) == [None, None, "new", None, "update", None, "update", "closed"]
    assert answers[-1] is None
    assert answers[2][0]["payload"] == "NEW ALERT: w1: pending (still), 2026-03-01T12:00:09.000Z"
    assert answers[6][0]["payload"] == "UPDATE: w1: acknowledged by anna (still), 2026-03-01T12:00:09.000Z"
    assert answers[4][0]["alert"]["state"] == "alarm"
    assert [receipt_of(answer)[2] for answer in answers[:-1]] == [0, 1, 2, 2, 3, 3, 4, 5]


def test_an_alert_that_went_before_it_was_one_is_had_and_not_told() -> None:
    """A burst that came to nothing wakes nobody."""
    answers = play(event(0, "suspected"), event(1, "checking"), event(2, "expired"))
    assert kinds(answers) == [None, None, None]
    assert [receipt_of(answer) for answer in answers] == [("nodered", "a1", seq) for seq in (0, 1, 2)]


def test_what_comes_again_or_late_is_had_again_and_not_told_again() -> None:
    """The service tells a change until it has the receipt, and changes may come out of order."""
    answers = play(event(3, "alarm"), event(3, "alarm"), event(2, "pending"), event(3, "alarm"), asked(command="ack"))
    assert kinds(answers[:4]) == ["new", None, None, None]
    assert [receipt_of(answer)[2] for answer in answers[:4]] == [3, 3, 2, 3]
    assert answers[4][0]["topic"] == Topics().command("w1", "ack")


def test_a_late_word_of_an_older_alert_leaves_the_buttons_with_the_newer_one() -> None:
    """Also where the older one was not known to be closed."""
    older = [alert(2, "pending"), alert(2, "pending", "a2"), event(3, "alarm"), event(4, "resolved")]
    answers = play(*older, asked(command="ack"))
    assert kinds(answers[:4]) == ["new", "new", "update", "closed"]
    assert json.loads(answers[4][0]["payload"])["alert_id"] == "a2"


def test_what_comes_late_opens_no_closed_alert_and_the_retained_alert_is_the_present() -> None:
    """The highest seq holds; which alert of a wearer is open, the retained topic says."""
    late = play(
        event(4, "resolved"), event(2, "pending"), event(5, "resolved"), event(3, "alarm"), asked(command="ack")
    )
    assert kinds(late[:4]) == [None, "new", "closed", None]
    assert late[4][1]["payload"] == "NOT SENT: ack: no such alert"
    present = play(event(2, "pending"), event(2, "pending", "a2"), alert(3, "alarm"), asked(command="ack"))
    assert json.loads(present[3][0]["payload"])["alert_id"] == "a1"


def test_an_emptied_alert_that_no_event_closed_is_told_once() -> None:
    """As where somebody empties it by hand, or the closing event was lost; nothing is left to acknowledge."""
    answers = play(heard(ALERT, ""), alert(2, "pending"), heard(ALERT, ""), heard(ALERT, ""), asked(command="ack"))
    assert kinds(answers[:4]) == ["new", "closed"]
    assert answers[0] is answers[3] is None
    assert answers[4] == [None, {"kind": "asked", "payload": "NOT SENT: ack: no such alert"}]


@pytest.mark.parametrize(
    "payload",
    [
        "no JSON",
        "null",
        "3",
        "[1]",
        "{}",
        '"pending"',
        '{"alert_id": "a1", "seq": 1}',
        '{"alert_id": 7, "seq": 1, "event_type": "alarm"}',
        '{"alert_id": "a1", "seq": -1, "event_type": "alarm"}',
        '{"alert_id": "a1", "seq": 1.5, "event_type": "alarm"}',
        '{"alert_id": "a1", "seq": 1, "event_type": {}}',
    ],
)
def test_what_is_no_message_of_ours_is_told_as_such_and_changes_nothing(payload: str) -> None:
    """It goes out of the third output alone, and an alert after it is new."""
    broken, after = play(heard(EVENT, payload), event(1, "pending"))
    assert broken[:2] == [None, None]
    assert broken[2]["payload"] == f"NOT UNDERSTOOD, on {EVENT}: {payload}"
    assert kinds([after]) == ["new"]


def test_a_newer_services_keys_and_states_are_told_and_had() -> None:
    """An unknown state is told and open rather than passed over; unknown keys go on to what is wired behind."""
    newer = {"alert_id": "a1", "seq": 2, "event_type": "escalated", "schema": 9, "t": "2026-03-01T12:00:09.000Z"}
    told, command = play(heard(EVENT, json.dumps(newer)), asked(command="ack"))
    assert told[0]["payload"] == "NEW ALERT: w1: escalated, 2026-03-01T12:00:09.000Z"
    assert told[0]["alert"]["schema"] == 9
    assert receipt_of(told) == ("nodered", "a1", 2)
    assert command[0]["topic"] == Topics().command("w1", "ack")


def test_a_new_connection_has_open_alerts_again_and_forgets_what_closed_meanwhile() -> None:
    """What is retained is told to the buttons and the service, not to people; its loss is told once."""
    before = [linked("connecting"), linked("connected"), alert(3, "alarm"), alert(2, "pending", "b1", "w2")]
    lost = [linked("disconnected"), linked("connecting"), linked("disconnected"), linked("connected")]
    *answers, again, command = play(*before, *lost, alert(3, "alarm"), asked(command="cancel"))
    links = [answer and answer["payload"] for answer in answers[:2] + answers[4:]]
    told, gone = "CONNECTED to the broker", "NOT CONNECTED to the broker: no alert can come"
    assert play(linked("connecting"), linked("disconnected"))[1]["payload"] == gone
    assert links == [None, told, gone, None, None, told]
    assert kinds([again]) == [None]
    assert receipt_of(again) == ("nodered", "a1", 3)
    assert command[0]["topic"] == Topics().command("w1", "cancel")


def test_each_button_sends_a_whole_command() -> None:
    """Which alert, who and when; what each needs beside is in it, and what it may not have is not."""
    buttons = [json.loads(node["payload"]) for node in of_type("inject")]
    assert [button["command"] for button in buttons] == ["ack", "cancel", "feedback"]
    answers = play(alert(3, "alarm"), *(asked(**button) for button in buttons), BY="Night shift")
    for button, (sent, told) in zip(buttons, answers[1:], strict=True):
        assert sent.keys() == {"topic", "payload"}
        assert sent["topic"] == Topics().command("w1", button["command"])
        command = CommandMessage.model_validate_json(sent["payload"])
        command.check_kind(button["command"])
        assert (command.alert_id, command.by) == ("a1", "Night shift")
        assert command.t is not None
        assert abs(datetime.now(UTC) - command.t) < timedelta(minutes=1)
        assert told["payload"].startswith(f"SENT: {button['command']} for w1")
    assert json.loads(answers[3][0]["payload"])["verdict"] == "false_alarm"


def test_a_button_never_guesses_whose_alert_is_meant() -> None:
    """With two open, the wearer has to be named, or the alert; a closed one can still be called false."""
    two = [alert(3, "alarm"), alert(2, "pending", "b1", "w2")]
    named = [asked(command="ack", device="w2"), asked(command="ack", alert_id="a1"), asked(command="ack", device="w3")]
    closed = [event(4, "resolved"), event(3, "resolved", "b1", "w2")]
    late = [asked(command="feedback"), asked(command="feedback", device="w1"), asked(command="ack", device="w1")]
    answers = play(*two, asked(command="ack"), *named, *closed, *late, asked(command="mute"), asked())
    which = "which of w1, w2? Name it as device in the button's payload"
    assert answers[2] == [None, {"kind": "asked", "payload": f"NOT SENT: ack: {which}"}]
    assert [answer[0]["topic"] for answer in answers[3:5]] == [Topics().command(name, "ack") for name in ("w2", "w1")]
    assert answers[5][1]["payload"] == "NOT SENT: ack: no such alert"
    assert answers[8][1]["payload"] == f"NOT SENT: feedback: {which}"
    assert answers[9][0]["topic"] == Topics().command("w1", "feedback")
    assert answers[10][1]["payload"] == "NOT SENT: ack: no such alert"
    one_open = play(*two, closed[0], asked(command="feedback"))
    assert one_open[3][0]["topic"] == Topics().command("w2", "feedback")
    assert answers[11][1] == answers[12][1]
    assert answers[11][1]["payload"] == "NOT SENT: command must be one of ack, cancel, feedback"


def test_no_receipt_without_a_receiver_and_another_prefix_is_answered_there() -> None:
    """An empty RECEIVER is for a service that lists none; the prefix is that of the topic that was heard."""
    topic = Topics("home/upstairs").event("w1")
    answers = play(
        (event(2, "pending")[0], {**event(2, "pending")[1], "topic": topic}), asked(command="ack"), RECEIVER=""
    )
    assert answers[0][1] is None
    assert answers[1][0]["topic"] == Topics("home/upstairs").command("w1", "ack")


def test_memory_of_what_was_told_is_bounded() -> None:
    """The last 1,000 alerts are known again; an older one would be new."""
    steps = [event(2, "pending", f"a{number}") for number in range(1100)]
    answer = run(*steps, event(2, "pending", "a1099"), event(2, "pending", "a0"))
    assert len(answer["kept"]["told"]) == 1000
    assert kinds(answer["answers"][-2:]) == [None, "new"]
