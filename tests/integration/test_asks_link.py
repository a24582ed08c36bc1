"""What users of MQTT services met, by the numbers of docs/reliability.md: the link and the service at a mosquitto."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stream_occ.inbox import Inbox
from stream_occ.mqtt import Birth, MqttLink, MqttOptions, Subscription
from stream_occ.samples import SampleBlock
from tests.integration.broker import MOSQUITTO, Broker, free_port
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload, tumbling, walking

pytestmark = pytest.mark.broker

TOPIC, STATE = "wearables/w1/imu", "stream_occ/w1/state"
COUNTERS = "stream_occ/bridge/edge/counters"


def options(port: int, **changes: Any) -> MqttOptions:
    fields = {"client_id": "asked", "reconnect_min_s": 0.05, "reconnect_max_s": 0.2, "connect_timeout_s": 3.0}
    return MqttOptions("127.0.0.1", port, **{**fields, **changes})


def part(block: SampleBlock, rows: slice) -> SampleBlock:
    return SampleBlock(block.device_id, block.t_ns[rows], block.acc_ms2[rows], block.gyr_rads[rows])


def send_walk(watcher: Watcher, n_seconds: int, *, t0_ns: int, first: int = 0) -> None:
    for second in range(n_seconds):
        watcher.send(TOPIC, payload(walking("w1", 50, t0_ns=t0_ns, first=first + 50 * second)))


@pytest.mark.parametrize("expiry_s", [0, 60])
def test_ask_01_subscriptions_come_back_with_a_broker_that_forgot_them(broker: Broker, expiry_s: int) -> None:
    """mosquitto without persistence is killed and started: the next message is heard, whatever session was agreed."""
    heard: list[bytes] = []
    ready = threading.Event()
    link = MqttLink(
        options(broker.port, session_expiry_s=expiry_s),
        on_message=lambda message: heard.append(message.payload),
        subscriptions=[Subscription("in/+")],
        on_ready=ready.set,
    )
    link.start()
    assert ready.wait(10)
    for name in (b"first", b"second"):
        ready.clear()
        broker.stop(kill=True)
        broker.run()
        assert ready.wait(10)
        with Watcher(broker.port, "nothing") as watcher:
            watcher.send("in/a", name)
            wait_until(lambda name=name: heard[-1:] == [name], "the message")  # type: ignore[misc]
    assert heard == [b"first", b"second"]
    link.stop()


def test_ask_02_clients_that_share_an_id_slow_down_and_say_why(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """Two links that throw each other out for 2.5 s: with a wait of 20 ms they would do so some 100 times."""
    links = [MqttLink(options(broker.port, reconnect_min_s=0.02, reconnect_max_s=60.0)) for _ in range(2)]
    for link in links:
        link.start()
    time.sleep(2.5)
    for link in links:
        link.stop()
    assert max(link.n_connects for link in links) < 15
    assert "does another client use the id 'asked'?" in caplog.text


def test_ask_03_the_link_comes_up_by_itself_when_the_broker_does(caplog: pytest.LogCaptureFixture) -> None:
    """Started without a broker: waits double from 0.1 s, shortened by half at most, so that 2 s see 5 or 6 attempts."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    port, ready = free_port(), threading.Event()
    link = MqttLink(options(port, reconnect_min_s=0.1, reconnect_max_s=60.0), on_ready=ready.set)
    with caplog.at_level(logging.WARNING, logger="stream_occ.mqtt"):
        link.start()
        time.sleep(2.0)
    assert 4 <= sum("ConnectionRefusedError" in record.getMessage() for record in caplog.records) <= 6
    assert not link.is_connected
    link.stop()


def test_ask_03_a_broker_that_comes_late_is_found(broker: Broker) -> None:
    """The broker starts half a second after the link, and once more after a kill."""
    broker.stop()
    link = MqttLink(options(broker.port))
    link.start()
    for n in (1, 2):
        time.sleep(0.5)
        broker.run()
        wait_until(lambda n=n: link.n_connects == n and link.is_connected, "a connection")  # type: ignore[misc]
        broker.stop(kill=True)
        wait_until(lambda: not link.is_connected, "the loss to be seen")
    link.stop()


def test_ask_04_a_live_link_does_not_hide_a_silent_device(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """The broker answers and w2 sends: w1, which stopped, is offline, has no_data and is not normal."""
    output = {"offline_after_s": 1.0}
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file, output=output):
        t0_ns = time.time_ns() - 3 * 10**9
        send_walk(watcher, 3, t0_ns=t0_ns)
        wait_until(lambda: watcher.json(STATE).get("state") == "normal", "state normal")
        for second in range(4):
            block = walking("w2", 50, t0_ns=t0_ns, first=50 * second)
            watcher.send("wearables/w2/imu", payload(block))
            time.sleep(0.5)
        wait_until(lambda: watcher.last["stream_occ/w1/availability"] == b"offline", "w1 offline")
        assert watcher.last["stream_occ/w2/availability"] == b"online"
        assert watcher.last["stream_occ/bridge/edge/status"] == b"online"
        assert (watcher.json(STATE)["state"], watcher.json(STATE)["faults"]) == ("waiting", ["no_data"])


def test_ask_07_a_worker_that_stands_still_blocks_no_callback(broker: Broker) -> None:
    """With 500 messages unworked, answers of another thread leave in order, half of them within 40 ms."""
    inbox, ready = Inbox(10_000, 10**7), threading.Event()
    link = MqttLink(
        options(broker.port), on_message=inbox.put, subscriptions=[Subscription("in/+")], on_ready=ready.set
    )
    link.start()
    assert ready.wait(10)
    with Watcher(broker.port, "out/#") as watcher:
        for i in range(500):
            watcher.client.publish("in/a", b"%d" % i, qos=1)
        wait_until(lambda: len(inbox) == 500, "all queued")
        delays = []
        for i in range(50):
            start_s = time.monotonic()
            assert link.publish("out/a", b"%d" % i, qos=1, is_retained=False)
            wait_until(lambda i=i: watcher.last.get("out/a") == b"%d" % i, "the answer")  # type: ignore[misc]
            delays.append(time.monotonic() - start_s)
        assert [content for _, content, _ in watcher.log] == [b"%d" % i for i in range(50)]
        assert statistics.median(delays) < 0.04
    assert [message.payload for message in inbox.drain()] == [b"%d" % i for i in range(500)]
    link.stop()


def test_ask_09_messages_that_nobody_can_read_hold_nothing_up(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """300 broken ones of QoS 1, of which mosquitto keeps 20 in flight: each is counted, and what follows is scored."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file) as detector:
        for i in range(300):
            watcher.send(TOPIC, b'{"t_ns": [%d' % i)
        send_walk(watcher, 3, t0_ns=time.time_ns() - 3 * 10**9)
        wait_until(lambda: watcher.json(STATE).get("state") == "normal", "state normal")
        assert watcher.json(STATE)["counters"]["invalid_json"] == 300
        lines = [line for line in detector.log.read_text().splitlines() if "refused (invalid_json)" in line]
        assert len(lines) == 9  # the 1st, 2nd, 4th, ... 256th


def test_ask_10_nothing_retained_is_a_command_or_an_event(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """A cancellation that the broker kept is refused at the start; who subscribes late gets no old event."""
    events = {"k": 2, "n": 3, "check": False, "countdown_s": 600.0}
    with Watcher(broker.port) as watcher:
        watcher.send("stream_occ/w1/set/cancel", b"PRESS", retain=True)
        with Detector(tmp_path, broker.port, model_file, events=events):
            t0_ns = time.time_ns() - 5 * 10**9
            send_walk(watcher, 3, t0_ns=t0_ns)
            watcher.send(TOPIC, payload(tumbling("w1", 100, t0_ns=t0_ns, first=150)))
            wait_until(lambda: watcher.json(STATE).get("state") == "pending", "pending")
            wait_until(lambda: watcher.json(COUNTERS).get("refused", {}).get("retained") == 1, "the refusal")
            with Watcher(broker.port, "stream_occ/+/event", STATE) as late:
                wait_until(lambda: late.last.get(STATE), "the retained state")
                assert {topic for topic, *_ in late.log} == {STATE}
            assert watcher.json(STATE)["state"] == "pending"


def test_ask_10_a_retained_command_is_refused_also_while_the_service_hears_it_live(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """Sent to be retained while `detect` is connected, an act and a receipt are refused; the same act unretained is
    obeyed."""
    events = {"k": 2, "n": 3, "check": False, "countdown_s": 600.0}
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file, events=events, receivers=["a"]):
        t0_ns = time.time_ns() - 5 * 10**9
        send_walk(watcher, 3, t0_ns=t0_ns)
        watcher.send(TOPIC, payload(tumbling("w1", 100, t0_ns=t0_ns, first=150)))
        told = wait_until(lambda: watcher.json("stream_occ/w1/alert"), "an alert")
        receipt = {"receiver": "a", "alert_id": told["alert_id"], "seq": told["seq"]}
        watcher.send("stream_occ/w1/set/cancel", b"PRESS", retain=True)
        watcher.send("stream_occ/w1/set/received", json.dumps(receipt).encode(), retain=True)
        wait_until(lambda: watcher.json(COUNTERS).get("refused", {}).get("retained") == 2, "two refusals")
        assert watcher.json(STATE)["state"] == "pending"
        watcher.send("stream_occ/w1/set/cancel", b"PRESS")
        wait_until(lambda: watcher.json(STATE)["state"] != "pending", "the cancellation")
        events_told = [event["event_type"] for event in watcher.contents("stream_occ/w1/event")]
        assert "cancelled" in events_told


def test_ask_11_availability_is_true_again_after_each_restart(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """A broker that forgot all hears it anew; a receiver that restarts finds it retained; a kill leaves `offline`."""
    topics = ("stream_occ/status", "stream_occ/bridge/edge/status", "stream_occ/w1/availability")
    with Detector(tmp_path, broker.port, model_file, output={"offline_after_s": 60.0}) as detector:
        with Watcher(broker.port) as watcher:
            send_walk(watcher, 2, t0_ns=time.time_ns() - 2 * 10**9)
            wait_until(lambda: [watcher.last.get(topic) for topic in topics] == [b"online"] * 3, "all online")
        broker.stop(kill=True)
        broker.run()
        for _ in range(2):  # the second one is a receiver that was restarted
            with Watcher(broker.port, *topics) as watcher:
                wait_until(lambda: [watcher.last.get(topic) for topic in topics] == [b"online"] * 3, "online again")
        with Watcher(broker.port, *topics) as watcher:
            assert detector.process is not None
            detector.process.kill()
            detector.process.wait(10)
            wait_until(lambda: [watcher.last.get(topic) for topic in topics[:2]] == [b"offline"] * 2, "the last will")


def test_ask_13_messages_of_one_sample_and_of_thousands_are_alike(
    broker: Broker, model_file: Path, tmp_path: Path
) -> None:
    """200 messages of a sample and one of 400 kB or more make the same stream; our own topics are never taken in."""
    t0_ns = time.time_ns() - 200 * 10**9
    inputs = [{"pattern": "+/{device}/#", "codec": "json"}]
    block = walking("w1", 5000, t0_ns=t0_ns)
    large = payload(part(block, slice(200, 5000)))
    assert len(large) > 400_000
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file, inputs=inputs):
        for i in range(200):
            watcher.send(TOPIC, payload(part(block, slice(i, i + 1))))
        watcher.send(TOPIC, large)
        wait_until(lambda: watcher.json(STATE).get("counters", {}).get("samples") == 5000, "all samples")
        counters = watcher.json(STATE)["counters"]
        assert counters["windows"] == (5000 - 50) // 25 + 1
        assert not {"late", "duplicate", "gap"} & set(counters)
        wait_until(lambda: watcher.json(COUNTERS).get("devices"), "counters after the first device")  # once a second
        assert watcher.json(COUNTERS)["devices"] == 1
        assert watcher.json(COUNTERS)["refused"]["own_topic"] > 0


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_ask_14_a_refused_password_is_no_connection_and_is_in_the_log(
    password_broker: Broker, protocol: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """In both versions of the protocol: not connected, no birth, the broker's reason; the right one connects."""
    for password, is_right in (("wrong", False), ("hunter2", True)):
        ready = threading.Event()
        link = MqttLink(
            options(password_broker.port, protocol=protocol, username="ward", password=password),
            birth=Birth("status"),
            on_ready=ready.set,
        )
        link.start()
        if is_right:
            assert ready.wait(10)
        else:
            wait_until(lambda: "Not authorized" in caplog.text, "the reason")
        assert (link.is_connected, link.n_connects) == (is_right, int(is_right))
        link.stop()
    assert "wrong" not in caplog.text


def test_ask_14_a_service_that_the_broker_refuses_is_not_ready(tmp_path: Path, model_file: Path) -> None:
    """Anonymous at a broker that wants a name: /ready is 503 and says why, as do log, metrics and summary; then not."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    port = free_port()
    folder = tmp_path / "broker"
    folder.mkdir()
    with Broker.start(folder, extra="allow_anonymous false") as broker, contextlib.ExitStack() as stack:
        detector = Detector(tmp_path, broker.port, model_file, http={"enabled": True, "port": port})
        stack.callback(detector.__exit__)
        detector.start(is_ready=False)

        def get(path: str) -> tuple[int, str]:
            request = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            request.request("GET", path)
            answer = request.getresponse()
            found = answer.status, answer.read().decode()
            request.close()
            return found

        def is_told() -> bool:
            with contextlib.suppress(ConnectionRefusedError):
                return "reason" in get("/ready")[1]
            return False

        wait_until(is_told, "the reason")
        assert "refused us: Not authorized" in detector.log.read_text()
        code, body = get("/ready")
        told = {"ready": False, "connected": False, "reason": "the broker refused us: Not authorized"}
        assert (code, json.loads(body).items() >= told.items()) == (503, True), body
        broker.stop()
        broker.extra = "allow_anonymous true"
        broker.run()
        detector.wait_ready()
        wait_until(lambda: "reason" not in get("/ready")[1], "no reason")
        counted = 'stream_occ_connects_refused_total{reason="Not authorized"}'
        wait_until(lambda: counted in get("/metrics")[1], "the count, after the next slice")
        detector.stop()
        assert json.loads(detector.summary.read_text())["connects_refused"]["Not authorized"] > 0


def test_ask_14_a_message_that_the_broker_forbids_is_not_taken_for_sent(tmp_path: Path) -> None:
    """An ACL that allows another topic alone: MQTT 5 says so, and it is counted."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    acl = tmp_path / "acl"
    acl.write_text("topic readwrite allowed/#\n")
    outcomes: list[str] = []
    with Broker.start(tmp_path, extra=f"acl_file {acl}") as broker:
        link = MqttLink(options(broker.port))
        link.start()
        wait_until(lambda: link.is_connected, "connection")
        assert link.publish("forbidden/a", b"1", qos=1, is_retained=False, on_done=outcomes.append)
        wait_until(lambda: outcomes, "an answer")
        assert outcomes == ["refused"]
        assert dict(link.dropped) == {"refused_by_broker": 1}
        link.stop()
