"""The link's own behaviour against a real mosquitto: passwords, protocol versions, takeover, errors in callbacks."""

from __future__ import annotations

import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from stream_occ.inbox import Received
from stream_occ.mqtt import MAX_ACKS, Birth, MqttLink, MqttOptions, Subscription
from tests.integration.broker import MOSQUITTO, Broker
from tests.integration.credentials import certify
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import payload, walking

pytestmark = pytest.mark.broker


def options(port: int, **changes: Any) -> MqttOptions:
    fields = {"client_id": "link-under-test", "reconnect_min_s": 0.05, "reconnect_max_s": 0.2, "connect_timeout_s": 3.0}
    return MqttOptions("127.0.0.1", port, **{**fields, **changes})


@pytest.mark.parametrize("protocol", ["5", "3.1.1"])
def test_both_protocol_versions_hear_publish_and_say_goodbye(broker: Broker, protocol: Any) -> None:
    """Birth and end are published, messages come, and nothing is pending afterwards."""
    heard: list[Received] = []
    ready = threading.Event()
    link = MqttLink(
        options(broker.port, protocol=protocol, session_expiry_s=60),
        on_message=heard.append,
        subscriptions=[Subscription("in/+")],
        birth=Birth("out/status"),
        on_ready=ready.set,
    )
    with Watcher(broker.port, "out/#") as watcher:
        link.start()
        assert ready.wait(10)
        watcher.send("in/a", b"hello")
        wait_until(lambda: heard, "the message")
        assert (heard[0].topic, heard[0].payload, heard[0].is_retained) == ("in/a", b"hello", False)
        assert link.publish("out/x", b"1", qos=0, is_retained=False)
        assert link.publish("out/y", b"2", qos=1, is_retained=True)
        wait_until(lambda: watcher.last.get("out/x") == b"1" and watcher.last.get("out/y") == b"2", "both messages")
        assert watcher.last["out/status"] == b"online"
        assert link.flush(5)
        link.stop()
        wait_until(lambda: watcher.last["out/status"] == b"offline", "offline")
        assert not link.is_alive
        assert link.n_pending == 0


def test_a_save_that_lets_go_of_many_messages_holds_none_up(broker: Broker) -> None:
    """Acknowledgements go out a few at a time, reading and sending between them; packets do not wait for each other."""
    heard: list[Received] = []
    link = MqttLink(
        options(broker.port, session_expiry_s=60, unacknowledged_messages=1000),
        on_message=heard.append,
        subscriptions=[Subscription("in/+")],
    )
    n_acknowledged: list[int] = []
    send_acks = link._send_acks

    def counting(at_most: int) -> None:
        before = len(link._acks)
        send_acks(at_most)
        n_acknowledged.append(before - len(link._acks))

    link._send_acks = counting  # type: ignore[method-assign]
    with Watcher(broker.port, "nothing") as watcher:
        link.start()
        wait_until(lambda: link.is_subscribed, "the subscription")
        for i in range(100):
            watcher.client.publish(f"in/{i}", b"", qos=1)
        wait_until(lambda: len(heard) == 100, "all messages")
        sock: Any = link._client.socket()
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        link.acknowledge([message.token for message in heard if message.token is not None])
        wait_until(lambda: sum(n_acknowledged) == 100, "all acknowledgements")
        link.stop()
    assert max(n_acknowledged) == MAX_ACKS == 20


def test_messages_that_came_while_away_are_delivered_on_return(broker: Broker) -> None:
    """A fixed client id, clean_start False and a session that lasts: QoS 1 messages wait at the broker."""
    heard: list[Received] = []
    with Watcher(broker.port, "nothing") as watcher:
        for name in ("first", "second"):
            ready = threading.Event()
            link = MqttLink(
                options(broker.port, session_expiry_s=60),
                on_message=heard.append,
                subscriptions=[Subscription("in/+")],
                on_ready=ready.set,
            )
            link.start()
            assert ready.wait(10)
            link.stop()
            watcher.send("in/a", name.encode())
    assert [message.payload for message in heard] == [b"first"]


def test_error_in_a_callback_does_not_end_the_network_thread(broker: Broker) -> None:
    """The next message is heard all the same."""
    heard: list[bytes] = []
    ready = threading.Event()

    def fragile(message: Received) -> None:
        heard.append(message.payload)
        if message.payload == b"bad":
            raise RuntimeError("bug")

    link = MqttLink(options(broker.port), on_message=fragile, subscriptions=[Subscription("in/+")], on_ready=ready.set)
    link.start()
    assert ready.wait(10)
    with Watcher(broker.port, "nothing") as watcher:
        watcher.send("in/a", b"bad")
        watcher.send("in/a", b"good")
        wait_until(lambda: heard == [b"bad", b"good"], "both")
    assert link.is_alive
    assert link.n_connects == 1
    link.stop()


def test_qos_1_waits_for_the_broker_and_qos_0_is_dropped_and_counted(broker: Broker) -> None:
    """What is published before the broker is there arrives in order once it is."""
    broker.stop()
    link = MqttLink(options(broker.port, outgoing_messages=100))
    link.start()
    assert not link.publish("out/a", b"0", qos=0, is_retained=False)
    results = [link.publish("out/a", b"%d" % i, qos=1, is_retained=False) for i in range(102)]
    assert results == [True] * 100 + [False] * 2
    assert dict(link.dropped) == {"offline": 1, "outgoing_queue_full": 2}
    broker.run()
    wait_until(lambda: link.is_connected, "connection")
    assert link.flush(10)
    link.stop()


def test_two_links_with_one_client_id_slow_down_and_name_the_cause(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    """mosquitto 2.0 drops the older one without a reason: waits grow from loss to loss, and the log says why."""
    links = [MqttLink(options(broker.port, reconnect_min_s=0.02, reconnect_max_s=60.0)) for _ in range(2)]
    for link in links:
        link.start()
    wait_until(lambda: "does another client use the id 'link-under-test'?" in caplog.text, "the hint")
    for link in links:
        link.stop()
    assert max(link.n_connects for link in links) < 15


def test_wrong_password_is_not_connected_and_the_right_one_from_a_file_is(
    password_broker: Broker, tmp_path: Path, model_file: Path
) -> None:
    """A refused CONNACK is no connection; `detect` reads the password from its file and never logs it."""
    link = MqttLink(options(password_broker.port, username="ward", password="wrong"), birth=Birth("s"))
    link.start()
    wait_until(lambda: not link.is_connected and link.n_connects == 0 and link.silent_s < 1, "an answer")
    assert not link.is_connected
    link.stop()
    (tmp_path / "secret").write_text("hunter2\n")
    mqtt = {"username": "ward", "password_file": "secret"}
    with Detector(tmp_path, password_broker.port, model_file, mqtt=mqtt) as detector:
        assert detector.stop() == 0
        assert "hunter2" not in detector.log.read_text()


# The client drops its socket unclosed where a handshake fails; the interpreter closes it, with a warning.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_tls_with_an_own_authority_and_a_client_certificate(tmp_path: Path) -> None:
    """Large and many small messages pass; a client that does not trust the broker or shows no certificate waits."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    for name in ("ca", "server", "client"):
        certify(tmp_path, name, "ca", "IP:127.0.0.1")
    extra = f"cafile {tmp_path}/ca.pem\ncertfile {tmp_path}/server.pem\nkeyfile {tmp_path}/server.key\n"
    folder = tmp_path / "broker"
    folder.mkdir()
    heard: list[Received] = []
    ready = threading.Event()
    with Broker.start(folder, extra=extra + "require_certificate true") as broker:
        trusting = {"use_tls": True, "ca_file": tmp_path / "ca.pem"}
        known = {**trusting, "cert_file": tmp_path / "client.pem", "key_file": tmp_path / "client.key"}
        link = MqttLink(
            options(broker.port, **known),
            on_message=heard.append,
            subscriptions=[Subscription("in/+")],
            on_ready=ready.set,
        )
        link.start()
        assert ready.wait(10)
        sizes = [500_000] + [10] * 200
        for size in sizes:
            assert link.publish("in/a", b"x" * size, qos=1, is_retained=False)
        wait_until(lambda: len(heard) == len(sizes), "all messages")
        assert [message.n_bytes for message in heard] == sizes
        link.stop()
        for less in ({"use_tls": True}, trusting, {}):
            stranger = MqttLink(options(broker.port, client_id="stranger", connect_timeout_s=0.5, **less))
            stranger.start()
            stranger._stopping.wait(1.0)
            assert stranger.n_connects == 0
            assert stranger.is_alive
            stranger.stop()


def test_running_detector_has_no_training_library_in_memory(broker: Broker, model_file: Path, tmp_path: Path) -> None:
    """After scoring, none of its mapped files belongs to scikit-learn, scipy, pandas, river, joblib or matplotlib."""
    with Watcher(broker.port) as watcher, Detector(tmp_path, broker.port, model_file) as detector:
        t0_ns = time.time_ns()
        for second in range(3):
            watcher.send("wearables/w1/imu", payload(walking("w1", 50, t0_ns=t0_ns, first=50 * second)))
        wait_until(lambda: watcher.json("stream_occ/w1/state").get("state") == "normal", "a score")
        maps = Path(f"/proc/{detector.pid}/maps").read_text()
        found = [name for name in ("sklearn", "scipy", "pandas", "river", "matplotlib") if f"/{name}/" in maps]
        assert found == []


def test_two_detectors_of_one_instance_on_one_host_are_refused(
    broker: Broker, model_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kept client id is held by one process; the second ends with one line and exit code 1."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "state"))
    first = Detector(tmp_path, broker.port, model_file, mqtt={"client_id": None})
    with first:
        second = Detector(tmp_path / "state", broker.port, model_file, mqtt={"client_id": None})
        second.start(is_ready=False)
        assert second.process is not None
        assert second.process.wait(20) == 1
        second.__exit__()
        assert "must be held by one process" in second.log.read_text()
        assert first.stop() == 0
    kept = (tmp_path / "state" / "stream_occ-edge.client-id").read_text()
    assert kept.startswith("stream_occ-edge-")
    assert json.loads(first.summary.read_text())["connects"] == 1
