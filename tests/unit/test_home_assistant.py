"""Discovery messages for Home Assistant, against a stand-in for it that knows its documentation and not our code."""

from __future__ import annotations

import copy
import json
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from stream_occ.config import Config, check_config
from stream_occ.home_assistant import HomeAssistant
from stream_occ.inbox import Received
from stream_occ.keeping import open_keeper
from stream_occ.topics import Topics
from tests.home_assistant_peer import Peer, check_discovery
from tests.unit.service_bench import CHECKED, Bench, FakeLink

ON: dict[str, Any] = {"home_assistant": {"enabled": True}}
W1 = "homeassistant/device/stream_occ_w1/config"
NOW = datetime(2023, 11, 14, 22, 13, 22, tzinfo=UTC)  # of the bench
BRIDGE = "stream_occ/bridge/edge/status"


def announced(bench: Bench, name: str = "homeassistant/device/") -> list[tuple[str, bytes]]:
    """Topic and payload of all discovery messages so far; each is retained and of QoS 1."""
    sent = [entry for entry in bench.link.sent if entry[0].startswith(name)]
    assert all(entry[2:] == (1, True) for entry in sent)
    return [entry[:2] for entry in sent]


def peer_of(bench: Bench, *, is_service_online: bool = True) -> Peer:
    """Home Assistant, having heard all that was published, in its order."""
    peer = Peer()
    peer.hear(BRIDGE, b"online" if is_service_online else b"offline")
    for topic, payload, *_ in bench.link.sent:
        peer.hear(topic, payload)
    return peer


def states(peer: Peer, *keys: str) -> list[str | None]:
    return [peer.devices[W1][key].state for key in keys]


def says(bench: Bench, payload: bytes, *, is_retained: bool = False) -> None:
    """Home Assistant on its status topic."""
    bench.service.home_assistant.hear(
        Received.of("homeassistant/status", payload, is_retained=is_retained, arrived_s=bench.now_s, max_bytes=100)
    )
    bench.run(0.5)


def connected(**sections: Any) -> Bench:
    """A service whose subscriptions the broker has taken."""
    bench = Bench(**(ON | sections))
    bench.service.renew()
    return bench


def walked(**sections: Any) -> Bench:
    """A device that walked for 2 s."""
    bench = connected(**sections)
    bench.send(100)
    bench.run(2.0)
    return bench


def test_nothing_is_said_by_default() -> None:
    """Off: no message, no subscription, and Home Assistant's word changes nothing."""
    bench = walked(home_assistant={})
    says(bench, b"online")
    assert announced(bench) == []


def test_message_is_what_the_documentation_of_device_discovery_asks_for() -> None:
    """Origin, device, all entities of the device, each by the rules of its platform."""
    [(topic, payload)] = announced(walked())
    message = check_discovery(topic, payload)
    assert topic == W1
    assert message["device"]["identifiers"] == ["stream_occ_w1"]
    assert message["origin"]["name"] == "stream_occ"
    found = {key: (c["platform"], c.get("device_class")) for key, c in message["components"].items()}
    assert found == {
        "fall": ("binary_sensor", "safety"),
        "problem": ("binary_sensor", "problem"),
        "alert": ("event", None),
        "state": ("sensor", "enum"),
        "score": ("sensor", None),
        "rate": ("sensor", "frequency"),
        "last_seen": ("sensor", "timestamp"),
        **dict.fromkeys(("ack", "cancel", "mute", "unmute"), ("button", None)),
    }


@pytest.mark.parametrize(
    "spoil",
    [
        lambda message: message.pop("origin"),
        lambda message: message["device"].update(identifiers=[]),
        lambda message: message.update(stat_topic="a"),
        lambda message: message["components"]["fall"].pop("unique_id"),
        lambda message: message["components"]["fall"].update(device_class="fall"),
        lambda message: message["components"]["fall"].update(value_templat="x"),
        lambda message: message["components"]["alert"].pop("event_types"),
        lambda message: message["components"]["ack"].update(unique_id="stream_occ_w1_fall"),
        lambda message: message["components"]["ack"].update(command_topic="stream_occ/+/set/ack"),
        lambda message: message["components"]["state"].update(state_class="measurement"),
    ],
)
def test_stand_in_refuses_what_home_assistant_would(spoil: Any) -> None:
    """A checker that takes everything would show nothing."""
    [(topic, payload)] = announced(walked())
    message = copy.deepcopy(json.loads(payload))
    spoil(message)
    with pytest.raises((AssertionError, jsonschema.ValidationError)):
        check_discovery(topic, json.dumps(message).encode())


def test_each_entity_reads_the_messages_as_they_are() -> None:
    """While somebody walks: safe, no problem, a score, 50 Hz, an instant; threshold and faults are attributes."""
    bench = walked()
    peer, state = peer_of(bench), bench.state()
    assert states(peer, "fall", "problem", "state") == ["off", "off", "normal"]
    score, rate, last_seen = states(peer, "score", "rate", "last_seen")
    assert float(str(score)) == state["score"]
    assert float(str(rate)) == pytest.approx(50.0)
    assert last_seen == state["last_seen"]
    assert peer.devices[W1]["score"].attributes == {"threshold": state["threshold"]}
    assert peer.devices[W1]["problem"].attributes == {"faults": []}


def test_fall_is_on_from_pending_to_the_end_and_each_change_is_an_event() -> None:
    """suspected and checking are no alarm yet; an acknowledged alert is still one; cancelled is over."""
    bench = walked(events=CHECKED)
    bench.send(25, first=100, knock=True)
    bench.send(175, first=125, lying=True)
    bench.run(4.0)
    assert states(peer_of(bench), "fall", "state") == ["on", "pending"]
    bench.wait(27)
    assert states(peer_of(bench), "fall", "state") == ["on", "alarm"]
    bench.command("ack")
    bench.run(0.5)
    assert states(peer_of(bench), "fall", "state") == ["on", "acknowledged"]
    bench.command("cancel")
    bench.run(0.5)
    peer = peer_of(bench)
    assert peer.devices[W1]["fall"].state != "on"
    fired = [event["event_type"] for event in peer.devices[W1]["alert"].fired]
    assert fired == ["suspected", "checking", "pending", "alarm", "acknowledged", "resolved"]


def test_a_burst_that_is_being_checked_is_not_on_yet() -> None:
    """Walking, a knock, walking on: nobody is called, and the entity never said so."""
    bench = connected(events=CHECKED)
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.run(2.5)
    peer = peer_of(bench)
    assert states(peer, "state")[0] in ("suspected", "checking")
    assert states(peer, "fall") == ["off"]


def test_a_device_that_falls_silent_is_unknown_and_a_problem_not_safe() -> None:
    """What comes from samples is unavailable; the problem, when it was last seen, and buttons are not."""
    bench = walked()
    bench.wait(15)
    peer = peer_of(bench)
    assert states(peer, "fall", "problem", "state") == [None, "on", "waiting"]
    assert peer.devices[W1]["problem"].attributes["faults"] == ["no_data"]
    assert states(peer, "score", "rate") == ["unavailable", "unavailable"]
    assert peer.devices[W1]["last_seen"].state == bench.state()["last_seen"]


def test_a_device_that_dies_in_the_fall_stays_on() -> None:
    """An alarm of which nothing is heard any more is the one that must not go away."""
    bench = connected(events=CHECKED)
    bench.fall()
    bench.wait(60)
    peer = peer_of(bench)
    assert bench.link.retained["stream_occ/w1/availability"] == b"offline"
    assert states(peer, "fall", "state", "problem") == ["on", "alarm", "on"]


def test_without_the_service_nothing_is_available() -> None:
    """Its last will takes everything with it, the buttons too."""
    peer = peer_of(walked(), is_service_online=False)
    assert {entity.state for entity in peer.devices[W1].values()} == {"unavailable"}


def test_a_state_that_nobody_tells_again_expires() -> None:
    """Six intervals, at least a minute: what a service that lost its memory left behind must not look safe for ever."""
    for interval_s, expected_s in ((1.0, 60), (10.0, 60), (30.0, 180)):
        bench = walked(output={"state_interval_s": interval_s})
        components = json.loads(announced(bench)[0][1])["components"]
        assert {components[key]["expire_after"] for key in ("fall", "problem", "state", "score")} == {expected_s}


@pytest.mark.parametrize(("kind", "told"), [("ack", "acknowledged"), ("cancel", "resolved")])
def test_a_pressed_button_acts_and_its_name_is_in_the_event(kind: str, told: str) -> None:
    """ack acknowledges the open alarm, cancel ends it."""
    bench = walked()
    bench.send(25, first=100, knock=True)
    bench.run(0.5)
    assert bench.deliver(*peer_of(bench).devices[W1][kind].press(at=NOW))
    bench.run(0.5)
    assert bench.link.of("stream_occ/w1/event")[-1]["event_type"] == told
    assert bench.link.of("stream_occ/w1/event")[-1]["by"] == "Home Assistant"


def test_buttons_mute_for_an_hour_and_unmute() -> None:
    """Home Assistant's word for it is in the state."""
    bench = walked()
    for kind, is_muted in (("mute", True), ("unmute", False)):
        assert bench.deliver(*peer_of(bench).devices[W1][kind].press(at=NOW))
        bench.run(0.5)
        assert (bench.state()["muted_until"] is not None) is is_muted


def test_a_press_that_comes_hours_late_is_refused() -> None:
    """It would acknowledge whatever alert is open then."""
    bench = walked()
    bench.send(25, first=100, knock=True)
    bench.run(0.5)
    bench.deliver(*peer_of(bench).devices[W1]["ack"].press(at=NOW - timedelta(hours=2)))
    bench.run(0.5)
    assert bench.state()["state"] == "alarm"
    assert bench.service.intake.refused["command_expired"] == 1


def test_where_commands_must_be_signed_there_are_no_buttons(tmp_path: Path) -> None:
    """Home Assistant has no key: what its buttons would send is refused."""
    file = tmp_path / "edge.yaml"
    file.write_text(
        "inputs: [{pattern: 'a/{device}'}]\nhome_assistant: {enabled: true}\ncommand_key: sixteen characters\n"
    )
    config, problems = check_config(file, {})
    assert problems == []
    message = HomeAssistant(FakeLink(), config, Topics()).message("w1")
    assert "button" not in {component["platform"] for component in message["components"].values()}


def test_announced_once_and_anew_on_connection_and_birth_alone() -> None:
    """Not with each state; a retained `online` came with the connection; `offline` and other words say nothing."""
    bench = walked()
    bench.wait(30)
    assert len(announced(bench)) == 1
    says(bench, b"online", is_retained=True)
    for word in (b"offline", b"", b"\xff", b"ONLINE"):
        says(bench, word)
    assert len(announced(bench)) == 1
    says(bench, b"online")
    assert len(announced(bench)) == 2
    bench.service.renew()
    bench.run(0.5)
    assert len(announced(bench)) == 3
    assert len({payload for _, payload in announced(bench)}) == 1


def test_nothing_is_said_before_the_broker_has_taken_the_subscriptions() -> None:
    """Connected comes first, and then every device would be announced twice."""
    bench = Bench(**ON)
    bench.send(100)
    bench.run(2.0)
    assert announced(bench) == []
    bench.service.renew()
    bench.wait(3)
    assert len(announced(bench)) == 1


def test_a_device_without_a_usable_sample_is_not_announced() -> None:
    """Whoever sends rubbish under a thousand names must not fill Home Assistant."""
    bench = connected()
    assert bench.deliver("wearables/junk/imu", b"{}")
    bench.run(1.0)
    assert "stream_occ/junk/state" in bench.link.retained
    assert announced(bench) == []


def test_many_are_announced_piece_by_piece_and_none_where_there_is_no_room() -> None:
    """60 devices: 50 at a look, and while the outgoing queue is full none."""
    bench = connected()
    for i in range(60):
        bench.send(25, device=f"w{i}")
    bench.link.has_room = False
    bench.run(1.0)
    assert announced(bench) == []
    bench.link.has_room = True
    counts = []
    for _ in range(3):
        bench.run(0.5)
        counts.append(len(announced(bench)))
    assert counts == [50, 60, 60]
    assert len(peer_of(bench).devices) == 60


def test_a_forgotten_device_is_taken_away_also_when_the_broker_was_away_then() -> None:
    """Its message is emptied once, with the next connection; the others stay."""
    bench = walked(limits={"forget_device_after_s": 100.0})
    bench.link.is_connected = False
    bench.wait(90)
    bench.send(50, device="w2", first=4500)
    bench.run(0.5)
    bench.wait(100)
    assert set(bench.service.intake.devices) == {"w2"}
    bench.link.is_connected = True
    bench.service.renew()
    bench.wait(3)
    assert [payload for topic, payload in announced(bench) if topic == W1][1:] == [b""]
    assert set(peer_of(bench).devices) == {"homeassistant/device/stream_occ_w2/config"}


def test_a_device_forgotten_while_home_assistant_was_away_is_told_and_taken_away_once_more() -> None:
    """Home Assistant keeps what it was not told to take away: told of it, unretained, it lets go 10 s later."""
    bench = walked(limits={"forget_device_after_s": 100.0})
    says(bench, b"offline")
    bench.wait(170)
    assert announced(bench)[1:] == [(W1, b"")]
    says(bench, b"online")
    bench.wait(3)
    told, *rest = [entry for entry in bench.link.sent if entry[0] == W1][2:]
    assert (rest, told[2:]) == ([], (1, False))
    assert check_discovery(*told[:2])["device"]["name"] == "w1"
    bench.wait(60)
    assert [entry[1:] for entry in bench.link.sent if entry[0] == W1][3:] == [(b"", 1, True)]


def test_one_that_came_back_meanwhile_stays() -> None:
    """Forgotten, then heard again, all while Home Assistant was away."""
    bench = walked(limits={"forget_device_after_s": 100.0})
    says(bench, b"offline")
    bench.wait(170)
    bench.send(50, first=8700)
    bench.run(0.5)
    says(bench, b"online")
    bench.wait(30)
    assert [bool(payload) for _, payload in announced(bench)] == [True, False, True, True]


def test_a_topic_emptied_makes_no_template_fail() -> None:
    """The state of a forgotten device is emptied, and Home Assistant may read that before it lets the device go."""
    peer = peer_of(walked())
    peer.hear("stream_occ/w1/state", b"")
    assert states(peer, "fall", "state", "last_seen", "score") == [None] * 4


def test_a_device_forgotten_while_the_service_was_off_is_taken_away_at_its_start(tmp_path: Path) -> None:
    """Known from the state file, and not in limits.allowed_devices any more."""
    state: dict[str, Any] = {"state": {"path": str(tmp_path / "state.db")}, **ON}
    config = Config.model_validate_json(json.dumps({"inputs": [{"pattern": "a/{device}"}], **state}), strict=True)
    keeper = open_keeper(config, "toy")
    bench = connected(keeper=keeper, **state)
    for device in ("w1", "w2"):
        bench.send(100, device=device)
    bench.run(2.0)
    bench.service.close()
    keeper.close()
    keeper = open_keeper(config, "toy")
    bench = connected(keeper=keeper, at_s=3.0, limits={"allowed_devices": ["w2"]}, **state)
    bench.run(0.5)
    keeper.close()
    found = dict(announced(bench))
    assert found.pop(W1) == b""
    assert [check_discovery(*item)["device"]["name"] for item in found.items()] == ["w2"]


@pytest.mark.parametrize("device", ["a.b", "a-b", "a_b", "a--b", "..w", "-", "_", "W1", "a-db", "a-.b"])
def test_every_device_id_gives_a_topic_that_home_assistant_takes(device: str) -> None:
    """Its ids have no dots, ours may; the device keeps its name."""
    bench = connected()
    bench.send(50, device=device)
    bench.run(1.0)
    [(topic, payload)] = announced(bench)
    assert check_discovery(topic, payload)["device"]["name"] == device


def test_no_two_devices_share_a_topic() -> None:
    """All ids of one to four of a - . _ d: 5 + 25 + 125 + 625."""
    names = ["".join(characters) for n in range(1, 5) for characters in product("a-._d", repeat=n)]
    topics = {Topics(discovery_prefix="homeassistant").discovery(name) for name in names}
    assert len(topics) == len(names) == 780


def test_each_share_of_the_devices_names_its_own_process() -> None:
    """With shards there is no stream_occ/status: availability follows the process that has the device."""
    bench = walked(shard="1of1", mqtt={"instance": "ward"})
    assert b'"stream_occ/bridge/ward/status"' in announced(bench)[0][1]
    config = Config.model_validate({"inputs": ({"pattern": "a/{device}"},), "shard": "2of4", **ON})
    topics = Topics(config.mqtt.prefix, config.instance, config.discovery_prefix)
    message = HomeAssistant(FakeLink(), config, topics).message("w1")
    named = {entry["topic"] for component in message["components"].values() for entry in component["availability"]}
    assert named == {"stream_occ/bridge/edge-2of4/status", "stream_occ/w1/availability"}


def test_own_messages_are_never_taken_for_samples() -> None:
    """Also where an input's pattern covers Home Assistant's topics."""
    bench = walked(inputs=[{"pattern": "wearables/{device}/imu"}, {"pattern": "homeassistant/{device}/#"}])
    assert bench.deliver(*announced(bench)[0])
    bench.run(0.5)
    assert bench.service.intake.refused["own_topic"] == 1
    assert set(bench.service.intake.devices) == {"w1"}


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ("discovery_prefix: stream_occ/ha", "home_assistant.discovery_prefix outside of its own topics, stream_occ/"),
        ("status_topic: stream_occ/status", "home_assistant.status_topic outside of its own topics, stream_occ/"),
        ("discovery_prefix: home/#", "home_assistant.discovery_prefix"),
        ("status_topic: ''", "home_assistant.status_topic"),
        ("status_topic: 'a\\nb'", "home_assistant.status_topic"),
    ],
)
def test_texts_that_are_no_topics_or_our_own_are_refused(tmp_path: Path, keys: str, told: str) -> None:
    """In one line that names the key."""
    file = tmp_path / "edge.yaml"
    file.write_text(f"inputs: [{{pattern: 'a/{{device}}'}}]\nhome_assistant:\n  {keys}\n")
    [problem] = check_config(file, {})[1]
    assert told in str(problem)


def test_flood_of_its_starts_is_a_line_each_ten_seconds(caplog: pytest.LogCaptureFixture) -> None:
    """Each is heeded; 61 of them in half a minute are said three times, and a fourth at its end."""
    caplog.set_level("INFO", "stream_occ.home_assistant")
    bench = walked()
    for _ in range(61):
        says(bench, b"online")
    assert len([1 for record in caplog.records if "has started" in record.getMessage()]) == 4
    assert len(announced(bench)) == 62
