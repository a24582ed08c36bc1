"""The network part of configs/mosquitto.conf and its access list, as shipped, with a real mosquitto and `detect`."""

from __future__ import annotations

import json
import logging
import re
import shutil
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion, MQTTProtocolVersion

from stream_occ.commands import sign_command
from stream_occ.errors import ConfigError
from stream_occ.messages import MESSAGES
from stream_occ.mqtt import MqttLink, MqttOptions
from tests.integration.broker import MOSQUITTO, Broker, free_port
from tests.integration.credentials import certify, write_passwords
from tests.integration.detector import REPO, Detector, wait_until
from tests.service_model import payload, tumbling, walking

pytestmark = [
    pytest.mark.broker,
    # The client drops its socket unclosed where a handshake fails; the interpreter closes it, with a warning.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.skipif(MOSQUITTO is None, reason="mosquitto not found on PATH"),
]

USERS = ("detector", "homeassistant", "ward", "nodered", "family", "w1", "w2")
NOT_AUTHORIZED = "Not authorized"
KEY = "a key for the commands of tests"
PLAIN = ("listener 1883", "allow_anonymous true")
WITH_CERTIFICATES = ("#require_certificate", "#use_identity_as_username")


def password(user: str) -> str:
    return f"secret of {user}"


@pytest.fixture(scope="module")
def etc(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the shipped files call /etc/mosquitto: certificates, passwords, the access list."""
    folder = tmp_path_factory.mktemp("etc")
    certs = folder / "certs"
    certs.mkdir()
    for authority in ("ca", "other-ca"):
        certify(certs, authority, authority)
    certify(certs, "broker", "ca", "IP:127.0.0.1")
    for user in USERS:
        certify(certs, user, "ca")
    write_passwords(folder / "passwords", {user: password(user) for user in USERS})
    certify(certs, "foreign", "other-ca")
    certify(certs, "locked", "ca", options=("-passout", "pass:abcd"))
    shutil.copy(REPO / "configs" / "mosquitto.acl", folder / "acl")
    return folder


@contextmanager
def shipped_broker(etc: Path, folder: Path, *, with_certificates: bool = False) -> Iterator[Broker]:
    """mosquitto with the shipped file as its comments say: two lines out, the # before others away."""
    port, lines = free_port(), []
    for line in (REPO / "configs" / "mosquitto.conf").read_text().splitlines():
        is_wanted = not line.startswith(PLAIN) and (with_certificates or not line.startswith(WITH_CERTIFICATES))
        if is_wanted and (not with_certificates or not line.startswith("#password_file")):
            lines.append(re.sub(r"^#(?=\w)", "", line))
    text = "\n".join(lines).replace("/etc/mosquitto", str(etc)).replace("/var/lib/mosquitto", str(folder))
    with_port = text.replace("listener 8883", f"listener {port} 127.0.0.1")
    assert with_port != text
    broker = Broker(folder, port, whole=f"{with_port}\nlog_dest none\n")
    broker.run()
    with broker:
        yield broker


def client_of(etc: Path, user: str, client_id: str = "", *, with_certificate: bool) -> paho.Client:
    """A client that will show the user's certificate, or say the password."""
    client = paho.Client(CallbackAPIVersion.VERSION2, client_id, protocol=MQTTProtocolVersion.MQTTv5)
    context = ssl.create_default_context(cafile=str(etc / "certs" / "ca.pem"))
    if with_certificate:
        context.load_cert_chain(etc / "certs" / f"{user}.pem", etc / "certs" / f"{user}.key")
    else:
        client.username_pw_set(user, password(user))
    client.tls_set_context(context)
    return client


class User:
    """Somebody with a password, or a certificate, who reads all that is let through and may try to write."""

    def __init__(self, etc: Path, port: int, name: str, *, with_certificate: bool = False) -> None:
        self.heard: dict[str, bytes] = {}
        self._answers: dict[int, str] = {}
        self._ready = threading.Event()
        self._client = client_of(etc, name, with_certificate=with_certificate)
        self._client.on_connect = lambda c, *_: c.subscribe("#", 1)
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = self._hear
        self._client.on_publish = self._answered
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._ready.wait(10), name

    def _hear(self, _c: Any, _u: Any, message: paho.MQTTMessage) -> None:
        self.heard[message.topic] = message.payload

    def _answered(self, _c: Any, _u: Any, mid: int, reason: Any, _p: Any) -> None:
        self._answers[mid] = str(reason)

    def write(self, topic: str, content: bytes = b"") -> str:
        """What the broker says to it."""
        mid = self._client.publish(topic, content, qos=1).mid
        return str(wait_until(lambda: self._answers.get(mid), f"an answer to {topic}"))

    def may(self, topic: str) -> bool:
        return self.write(topic) != NOT_AUTHORIZED

    def hears(self, topic: str) -> bytes:
        return bytes(wait_until(lambda: self.heard.get(topic), f"{topic} to be heard"))

    def __enter__(self) -> User:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


def fall(user: User, device: str) -> None:
    """Walking, then hard knocks, of the present."""
    t0_ns = time.time_ns() - 12 * 10**9
    for first in range(0, 500, 50):
        user.write(f"wearables/{device}/imu", payload(walking(device, 50, t0_ns=t0_ns, first=first)))
    user.write(f"wearables/{device}/imu", payload(tumbling(device, 100, t0_ns=t0_ns, first=500)))


@pytest.mark.parametrize("with_certificates", [False, True])
def test_service_does_all_it_needs_over_tls_and_nobody_does_more_than_is_his(
    etc: Path, tmp_path: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch, with_certificates: bool
) -> None:
    """A fall goes from device to ward and its acknowledgement back; what the list does not name is refused by name."""
    tls = {"enabled": True, "ca_file": str(etc / "certs" / "ca.pem")}
    if with_certificates:
        tls |= {
            f"{part}_file": str(etc / "certs" / f"detector.{end}") for part, end in (("cert", "pem"), ("key", "key"))
        }
    else:
        monkeypatch.setenv("STREAM_OCC__MQTT__USERNAME", "detector")
        monkeypatch.setenv("STREAM_OCC__MQTT__PASSWORD", password("detector"))
        monkeypatch.setenv("STREAM_OCC__COMMAND_KEY", KEY)
    events = {"k": 2, "n": 3, "check": False, "countdown_s": 0.0}
    output = {"publish_score": True, "publish_waveform": True}
    with shipped_broker(etc, tmp_path, with_certificates=with_certificates) as broker:
        port = broker.port
        inputs = [{"pattern": "wearables/{device}/imu", "resends": False}]
        mqtt = {"tls": tls, "is_only_instance": False}
        sections: dict[str, Any] = {"mqtt": mqtt, "events": events, "output": output, "inputs": inputs}
        sections["home_assistant"] = {"enabled": True}
        if with_certificates:
            (tmp_path / "command.key").write_text(KEY + "\n")
            sections["command_key_file"] = "command.key"
        people = {name: User(etc, port, name, with_certificate=with_certificates) for name in USERS[1:]}
        with Detector(tmp_path, port, model_file, **sections) as detector:
            fall(people["w1"], "w1")
            alert = json.loads(people["ward"].hears("stream_occ/w1/alert"))
            assert json.loads(people["family"].hears("stream_occ/w1/event"))["alert_id"] == alert["alert_id"]
            assert json.loads(people["homeassistant"].hears("stream_occ/w1/state"))["state"] == "alarm"
            assert people["homeassistant"].hears("homeassistant/device/stream_occ_w1/config")
            fall(people["w2"], "w2")
            people["ward"].hears("stream_occ/w2/alert")
            acknowledge, text = "stream_occ/w1/set/ack", json.dumps({"by": "anna", "t": time.time()})
            people["ward"].write(acknowledge, b'{"by": "anna"}')
            people["ward"].write(acknowledge, sign_command(KEY.encode(), acknowledge, text))
            wait_until(
                lambda: json.loads(people["family"].hears("stream_occ/w1/alert"))["by"] == "anna", "her name in it"
            )
            assert detector.stop() == 0
            summary = json.loads(detector.summary.read_text())
            assert "secret of" not in detector.log.read_text()
            assert KEY not in detector.log.read_text()
        assert summary["refused"] == {"command_unsigned": 1}
        assert "refused_by_broker" not in json.dumps(summary)
        assert set(people["w1"].heard) <= {"stream_occ/w1/received_up_to"}
        assert {topic.split("/")[1] for topic in people["family"].heard} == {"w1"}
        assert {topic.split("/")[2] for topic in people["nodered"].heard} == {"alert", "event"}
        assert not any("/set/" in topic for topic in people["ward"].heard)
        with User(etc, port, "detector", with_certificate=with_certificates) as service:
            refused = {
                "w1": ("wearables/w2/imu", "stream_occ/w1/set/ack", "stream_occ/w1/alert", "stream_occ/w1/state"),
                "ward": ("stream_occ/w1/alert", "stream_occ/w1/set/other", "wearables/w1/imu", "stream_occ/status"),
                "nodered": ("stream_occ/w1/alert", "stream_occ/w1/set/mute", "wearables/w1/imu", "stream_occ/status"),
                "family": ("stream_occ/w1/set/ack", "stream_occ/w1/set/received", "wearables/w1/imu", "anything"),
                "homeassistant": ("stream_occ/w1/state", "stream_occ/w1/set/received", "homeassistant/device/a/config"),
                "detector": (
                    "homeassistant/status",
                    "stream_occ/w1/set/ack",
                    "wearables/w1/imu",
                    "stream_occ/w1/config",
                    "anything",
                ),
            }
            for name, topics in refused.items():
                who = service if name == "detector" else people[name]
                assert [topic for topic in topics if who.may(topic)] == [], name
            assert all(people["ward"].may(f"stream_occ/w1/set/{kind}") for kind in ("cancel", "mute", "received"))
            assert all(people["homeassistant"].may(f"stream_occ/w1/set/{kind}") for kind in ("ack", "cancel", "mute"))
            assert all(people["nodered"].may(f"stream_occ/w1/set/{kind}") for kind in ("ack", "feedback", "received"))
            assert people["homeassistant"].may("homeassistant/status")
            assert service.may("homeassistant/device/stream_occ_w1/config")
            own = ("availability", "state", "event", "alert", "score", "waveform", "received_up_to")
            assert all(service.may(f"stream_occ/w1/{name}") for name in own)
        for user in people.values():
            user.__exit__()


def connect_as(etc: Path, port: int, user: str, client_id: str, *, with_certificate: bool) -> paho.Client:
    """A connection of a user that claims a client id, and the session that is kept for it."""
    client = client_of(etc, user, client_id, with_certificate=with_certificate)
    accepted = threading.Event()
    client.on_connect = lambda *_: accepted.set()
    client.connect("127.0.0.1", port, clean_start=True)
    client.loop_start()
    assert accepted.wait(10)
    return client


@pytest.mark.parametrize("with_certificates", [False, True])
def test_nobody_takes_over_what_waits_for_the_service_by_claiming_its_client_id(
    etc: Path, tmp_path: Path, model_file: Path, monkeypatch: pytest.MonkeyPatch, with_certificates: bool
) -> None:
    """The service is killed, messages wait for it, and a device's user connects with its id, afresh: they come."""
    tls: dict[str, Any] = {"enabled": True, "ca_file": str(etc / "certs" / "ca.pem")}
    if with_certificates:
        tls |= {"cert_file": str(etc / "certs" / "detector.pem"), "key_file": str(etc / "certs" / "detector.key")}
    else:
        monkeypatch.setenv("STREAM_OCC__MQTT__USERNAME", "detector")
        monkeypatch.setenv("STREAM_OCC__MQTT__PASSWORD", password("detector"))
    t0_ns, state = time.time_ns() - 10 * 10**9, "stream_occ/w1/state"
    with shipped_broker(etc, tmp_path, with_certificates=with_certificates) as broker:
        mqtt = {"tls": tls, "is_only_instance": False}
        with (
            Detector(tmp_path, broker.port, model_file, mqtt=mqtt) as detector,
            User(etc, broker.port, "ward", with_certificate=with_certificates) as ward,
        ):
            with User(etc, broker.port, "w1", with_certificate=with_certificates) as device:
                device.write("wearables/w1/imu", payload(walking("w1", 50, t0_ns=t0_ns)))
                ward.hears(state)
                assert detector.process is not None
                detector.process.kill()
                detector.process.wait()
                assert detector.process.stdout is not None
                detector.process.stdout.close()
                for first in range(50, 300, 50):
                    device.write("wearables/w1/imu", payload(walking("w1", 50, t0_ns=t0_ns, first=first)))
            claimed = "detect-under-test"
            thief = connect_as(etc, broker.port, "w1", claimed, with_certificate=with_certificates)
            thief.disconnect()
            thief.loop_stop()
            detector.start()
            wait_until(lambda: json.loads(ward.heard[state])["counters"]["samples"] == 300, "what waited")
            assert detector.stop() == 0


def test_access_list_has_a_line_for_every_message_of_the_service() -> None:
    """A new one would be refused by the broker, silently over MQTT 3.1.1."""
    lines = (REPO / "configs" / "mosquitto.acl").read_text().split("user detector\n")[1].split("\n\n")[0].splitlines()
    written = {line.split()[-1] for line in lines if line.startswith("topic write ")}
    own = {f"stream_occ/+/{name}" for name in (*MESSAGES, "availability") if name != "counters"}
    of_service = {"stream_occ/status", "stream_occ/bridge/+/status", "stream_occ/bridge/+/counters"}
    assert written == own | of_service | {"homeassistant/device/+/config"}
    read = {"wearables/#", "stream_occ/+/set/#", "homeassistant/status"}
    assert {line.split()[-1] for line in lines if " read " in line} == read


def refusals(caplog: pytest.LogCaptureFixture, options: MqttOptions) -> set[str]:
    """What a link says that is not let in."""
    caplog.clear()
    with caplog.at_level(logging.WARNING, "stream_occ.mqtt"):
        link = MqttLink(options)
        link.start()
        wait_until(lambda: len(caplog.messages) > 2, "three lines")
        assert not link.is_connected
        assert link.n_connects == 0
        assert link.is_alive
        link.stop()
    return set(caplog.messages)


def test_wrong_certificates_and_names_are_refused_in_one_line_that_says_which(
    etc: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Wrong authority, wrong name, no certificate or another authority's, no TLS there; it is tried again for ever."""
    certs = etc / "certs"
    with shipped_broker(etc, tmp_path, with_certificates=True) as broker:
        files = {"ca_file": certs / "ca.pem", "cert_file": certs / "w1.pem", "key_file": certs / "w1.key"}
        soon = {"reconnect_min_s": 0.05, "reconnect_max_s": 0.1}
        good: dict[str, Any] = {"host": "127.0.0.1", "port": broker.port, "client_id": "link", "use_tls": True}
        good |= files | soon
        cases: list[tuple[dict[str, Any], str]] = [
            ({"ca_file": certs / "other-ca.pem"}, "its certificate is refused: .*Check mqtt.tls.ca_file$"),
            ({"ca_file": None}, "its certificate is refused: .*Check mqtt.tls.ca_file$"),
            ({"host": "localhost"}, "its certificate is refused: Hostname mismatch.*'localhost'. Check mqtt.host$"),
            (
                {"cert_file": None, "key_file": None},
                "TLS refused by the broker: .*Set mqtt.tls.cert_file and key_file$",
            ),
            (
                {"cert_file": certs / "foreign.pem", "key_file": certs / "foreign.key"},
                "TLS refused by the broker: it does not know who signed our certificate. Check mqtt.tls.cert_file$",
            ),
        ]
        for change, expected in cases:
            said = refusals(caplog, MqttOptions(**{**good, **change}))
            assert any(re.search(expected, line) for line in said), (change, said)
            assert len(said) <= 2, said  # what is wrong, and where TLS 1.3 says it late that the connection was lost
            assert not any("\n" in line for line in said)
    with Broker.start(tmp_path) as plain:
        assert len(refusals(caplog, MqttOptions(**{**good, "port": plain.port}))) == 1


@pytest.mark.parametrize(
    ("cert", "key", "ca", "told"),
    [
        ("locked.pem", "locked.key", "ca.pem", "the key has a pass phrase"),
        ("w1.pem", "w2.key", "ca.pem", "KEY_VALUES_MISMATCH"),
        ("w1.key", "w1.key", "ca.pem", "SSLError"),
        ("w1.pem", "w1.key", "broker.key", "SSLError"),
    ],
)
def test_files_that_cannot_be_used_are_refused_before_anything_is_sent(
    etc: Path, cert: str, key: str, ca: str, told: str
) -> None:
    """A key that only a pass phrase opens asks nobody; a key of another certificate, a key for a certificate."""
    certs = etc / "certs"
    options = MqttOptions(
        "127.0.0.1", 1, "link", use_tls=True, ca_file=certs / ca, cert_file=certs / cert, key_file=certs / key
    )
    with pytest.raises(ConfigError, match=told) as caught:
        MqttLink(options)
    assert "\n" not in str(caught.value)
