"""Data that come late at the pace of life, over a real mosquitto: the service itself, its clock moved by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_occ.artifacts import load_model
from stream_occ.config import Config
from stream_occ.inbox import Inbox
from stream_occ.mqtt import MqttLink, MqttOptions, Subscription
from stream_occ.pace import Clock
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.service import Service
from tests.integration.broker import Broker
from tests.integration.detector import Watcher, wait_until
from tests.integration.test_event_commands import lying
from tests.service_model import payload, tumbling, walking

pytestmark = pytest.mark.broker

T0_NS = 1_700_000_000 * NS_PER_S
FALL_S, END_S = 180, 240


def second(number: int) -> SampleBlock:
    """Three minutes of walking, two seconds of tumbling, and then the floor; 50 samples."""
    if number < FALL_S:
        return walking("w1", 50, t0_ns=T0_NS, first=50 * number)
    if number < FALL_S + 2:
        return tumbling("w1", 50, t0_ns=T0_NS, first=50 * number)
    return lying(50, t0_ns=T0_NS, first=50 * number)


@pytest.mark.slow
@pytest.mark.parametrize(("clock", "late_s", "is_told"), [("utc", 7200, False), ("utc", 60, True), ("own", 7200, True)])
def test_fall_in_what_is_two_hours_old_raises_an_alarm_only_where_nobody_sets_the_clock(
    clock: str, late_s: int, is_told: bool, broker: Broker, model_file: Path
) -> None:
    """Four minutes at the pace of life. Of UTC it is history, in events and state; a minute late is no history."""
    entry = {"pattern": "wearables/{device}/imu", "codec": "json", "profile": {"clock": clock}}
    events = {"k": 2, "n": 3, "countdown_s": 10.0}
    config = Config.model_validate_json(json.dumps({"inputs": [entry], "events": events}), strict=True)
    now_s = [float(late_s)]
    inbox = Inbox(config.limits.queue_messages, config.limits.queue_bytes)
    link = MqttLink(
        MqttOptions("127.0.0.1", broker.port, client_id="late"),
        on_message=inbox.put,
        subscriptions=[Subscription("wearables/+/imu")],
    )
    wall = Clock(lambda: T0_NS + round(now_s[0] * NS_PER_S), lambda: now_s[0], lambda: round(now_s[0] * NS_PER_S))
    service = Service(config, load_model(model_file), link, inbox, clock=wall)
    with Watcher(broker.port) as watcher:
        link.start()
        wait_until(lambda: link.is_subscribed, "the subscription")
        for number in range(END_S):
            watcher.client.publish("wearables/w1/imu", payload(second(number)), qos=1)
            wait_until(lambda: len(inbox), "the message")
            now_s[0] = late_s + number + 1.0
            service.run_slice()
        assert link.flush(10)
        wait_until(lambda: watcher.json("stream_occ/w1/state"), "a state")
        link.stop()
        told = {event["event_type"] for event in watcher.contents("stream_occ/w1/event")}
        states = {state["state"] for state in watcher.contents("stream_occ/w1/state")}
        assert ({"pending", "alarm"} <= told, "normal" in states) == (is_told, is_told)
        if not is_told:
            assert told == {"suspected", "expired"}
            assert {"late_data", "clock_skew"} <= set(watcher.json("stream_occ/w1/state")["faults"])
            assert not watcher.last.get("stream_occ/w1/alert")
