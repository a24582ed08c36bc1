"""What users of MQTT services met, by the numbers of docs/reliability.md: what needs no broker."""

from __future__ import annotations

import json
import logging
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from stream_occ.inbox import Token
from stream_occ.keeping import Keeper
from stream_occ.mqtt import MqttLink, MqttOptions
from stream_occ.store import Store
from stream_occ.wiring import ClientId
from tests.unit.service_bench import CHECKED, Bench
from tests.unit.toy_model import toy_model

REPO = Path(__file__).resolve().parents[2]
WARD = {"events": CHECKED, "receivers": ["ward"]}
EVENT = "stream_occ/w1/event"


def names(bench: Bench) -> list[tuple[str, int]]:
    """(alert_id, seq) of all events sent."""
    return [(event["alert_id"], event["seq"]) for event in bench.link.of(EVENT)]


def test_ask_02_the_client_id_is_made_once_and_has_host_and_chance_in_it(tmp_path: Path) -> None:
    """The second start has the id of the first; another folder, as on another host, has another one."""
    config = Bench().config
    ids = []
    for folder in ("one", "one", "two"):
        client_id = ClientId(config, tmp_path / folder)
        ids.append(client_id.value)
        client_id.release()
    assert ids[0] == ids[1] != ids[2]
    assert re.fullmatch(r"stream_occ-edge-[A-Za-z0-9.-]*-[0-9a-f]{8}", ids[0])


def test_ask_05_a_message_without_room_is_counted_and_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Of 103 messages of QoS 1 for a broker that is away 100 wait; the others are told at level warning."""
    link = MqttLink(MqttOptions("127.0.0.1", 1, "asked", outgoing_messages=100))
    with caplog.at_level(logging.DEBUG, logger="stream_occ.mqtt"):
        results = [link.publish("out/a", b"", qos=1, is_retained=False) for _ in range(103)]
    assert results == [True] * 100 + [False] * 3
    assert dict(link.dropped) == {"outgoing_queue_full": 3}
    dropped = [record for record in caplog.records if "outgoing_queue_full" in record.getMessage()]
    assert [record.levelno for record in dropped] == [logging.WARNING] * 2  # the first and the second
    link._outgoing._pending.clear()
    link.stop()


def test_ask_05_an_event_outlives_a_full_queue_and_a_kill(tmp_path: Path) -> None:
    """No room on the link while the wearer falls, then a kill: the next start tells all three changes, once each."""
    keeper = Keeper(Store(tmp_path / "state.db"), model_id="toy", interval_s=5.0, is_wanted=True)
    first = Bench(keeper=keeper, events=CHECKED)
    first.link.has_room = False
    first.fall()
    assert names(first) == []
    keeper.close()
    keeper = Keeper(Store(tmp_path / "state.db"), model_id="toy", interval_s=5.0, is_wanted=True)
    second = Bench(toy_model(), keeper=keeper, at_s=8.0, events=CHECKED)
    second.run()
    second.run(1.0)
    assert [seq for _, seq in names(second)] == [0, 1, 2]
    keeper.close()


def test_ask_06_what_comes_twice_is_taken_once() -> None:
    """Each message of a fall delivered twice: the windows and changes of one delivery, and the second is counted."""
    benches = {n: Bench(events=CHECKED) for n in (1, 2)}
    for n, bench in benches.items():
        for i, kind in enumerate(({}, {}, {"knock": True}, {"lying": True}, {"lying": True}, {"lying": True})):
            bench.send(50, first=50 * i, **kind)
            [message] = bench.inbox.drain()
            for time in range(n):
                assert bench.inbox.put(replace(message, token=Token(1, 2 * i + time + 1, 1)))
            bench.run(1.0)
    once, twice = (bench.state()["counters"] for bench in benches.values())
    assert once == twice
    assert benches[1].events() == benches[2].events() != []
    assert names(benches[1]) == names(benches[2])
    assert benches[2].service.intake.refused["delivered_again"] == 6


def test_ask_06_an_event_told_again_has_the_name_it_had() -> None:
    """A receiver that says nothing is told again: the same alert_id and seq, so that it can act once."""
    bench = Bench(**WARD)
    bench.fall()
    bench.wait(10.0)
    told = names(bench)
    assert len(told) > 3
    assert len(set(told)) == 3
    assert len({alert_id for alert_id, _ in told}) == 1


def test_ask_08_the_client_library_is_of_the_generation_that_is_tested() -> None:
    """paho 2 is asked for, and the callbacks are of its version 2; warnings of what is out of date are errors here."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    [wanted] = [entry for entry in project["dependencies"] if entry.startswith("paho-mqtt")]
    assert re.match(r"paho-mqtt *>= *2\.", wanted)
    link = MqttLink(MqttOptions("127.0.0.1", 1, "asked"))
    assert link._client.callback_api_version.value == 2
    link.stop()


def test_ask_12_delivered_is_what_a_receiver_says() -> None:
    """The broker takes every event at once; until the ward has said so each is sent again, and then no more."""
    bench = Bench(**WARD)
    bench.fall()
    assert bench.link.outcome == "taken"
    bench.wait(10.0)
    alert_id = names(bench)[0][0]
    assert names(bench).count((alert_id, 2)) > 1
    for seq in range(3):
        bench.command("received", json.dumps({"alert_id": alert_id, "seq": seq, "receiver": "ward"}).encode())
    bench.run()
    n_before = len(names(bench))
    bench.wait(8.0)
    assert len(names(bench)) == n_before
