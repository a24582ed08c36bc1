"""The link's bookkeeping, without a broker: reason codes, bounds, options."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from stream_occ.config import load_config
from stream_occ.errors import ConfigError, ServiceError
from stream_occ.inbox import Received
from stream_occ.mqtt import SESSION_TAKEN_OVER, Birth, MqttLink, MqttOptions
from stream_occ.wiring import ClientId, link_options


def a_link(**changes: object) -> MqttLink:
    options = MqttOptions("127.0.0.1", 1, "c", **changes)  # type: ignore[arg-type]
    return MqttLink(options, birth=Birth("s"))


def test_third_takeover_within_a_minute_is_fatal() -> None:
    """An MQTT 5 broker that gives the reason makes it sure: another process has our client id."""
    link = a_link()
    reason = ReasonCode(PacketTypes.DISCONNECT, identifier=SESSION_TAKEN_OVER)
    for _ in range(2):
        link._on_disconnect(None, None, None, reason, None)
    assert link.fatal is None
    link._on_disconnect(None, None, None, reason, None)
    assert isinstance(link.fatal, ServiceError)
    link.stop()


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_peer_that_speaks_no_mqtt_is_named(answer: bytes) -> None:
    """Another server, or one that hangs up at once: `/ready` has the reason, and a broker's refusal stays its own."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = MqttLink(MqttOptions("127.0.0.1", listener.getsockname()[1], "c"), birth=Birth("s"))
        link.start()
        peer, _ = listener.accept()
        peer.recv(4096)
        peer.sendall(answer)
        peer.close()
        deadline_s = time.monotonic() + 10.0
        while link.trouble is None and time.monotonic() < deadline_s:
            time.sleep(0.01)
        assert "speaks no MQTT" in str(link.trouble)
        link.stop()


def test_publish_that_the_broker_refuses_is_counted_not_taken_for_sent() -> None:
    """on_publish is called for refusals too: its reason code decides."""
    link = a_link()
    link._on_publish(None, None, 1, ReasonCode(PacketTypes.PUBACK, "Success"), None)
    assert dict(link.dropped) == {}
    link._on_publish(None, None, 2, ReasonCode(PacketTypes.PUBACK, "Not authorized"), None)
    assert dict(link.dropped) == {"refused_by_broker": 1}
    link.stop()


def test_password_is_not_in_the_options_repr() -> None:
    """Options may be logged."""
    assert "hunter2" not in repr(MqttOptions("h", 1, "c", password="hunter2"))


def test_certificate_that_is_none_is_a_config_error(tmp_path: Path) -> None:
    """The file is named, not a traceback."""
    (tmp_path / "ca.pem").write_text("hello")
    with pytest.raises(ConfigError, match=r"ca\.pem"):
        a_link(use_tls=True, ca_file=tmp_path / "ca.pem")


def test_large_payload_is_not_kept() -> None:
    """Only its size is."""
    message = Received.of("t", b"12345", is_retained=False, arrived_s=0.0, max_bytes=4)
    assert (message.payload, message.n_bytes) == (b"", 5)


def test_client_id_is_kept_from_start_to_start_and_held_by_one(tmp_path: Path) -> None:
    """The same id after a restart; a second holder at the same time is refused."""
    file = tmp_path / "c.yaml"
    file.write_text("inputs: [{pattern: 'a/{device}'}]\n")
    config = load_config(file, {})
    first = ClientId(config, tmp_path / "state")
    with pytest.raises(ServiceError, match="must be held by one process"):
        ClientId(config, tmp_path / "state")
    first.release()
    again = ClientId(config, tmp_path / "state")
    assert again.value == first.value
    assert len(again.value) <= 64
    again.release()
    file.write_text("mqtt: {client_id: mine}\ninputs: [{pattern: 'a/{device}'}]\n")
    assert ClientId(load_config(file, {}), tmp_path / "elsewhere").value == "mine"
    assert not (tmp_path / "elsewhere").exists()


def test_damaged_client_id_is_made_anew(tmp_path: Path) -> None:
    """Bytes that are no text cost the old id, not the service."""
    file = tmp_path / "c.yaml"
    file.write_text("inputs: [{pattern: 'a/{device}'}]\n")
    (tmp_path / "stream_occ-edge.client-id").write_bytes(b"\xff\xfe")
    made = ClientId(load_config(file, {}), tmp_path)
    made.release()
    assert made.value.startswith("stream_occ-edge-")
    assert (tmp_path / "stream_occ-edge.client-id").read_text() == made.value + "\n"


def test_client_id_that_cannot_be_kept_is_an_error_of_one_line(tmp_path: Path) -> None:
    """/dev/full takes nothing, as a full disk does."""
    file = tmp_path / "c.yaml"
    file.write_text("inputs: [{pattern: 'a/{device}'}]\n")
    (tmp_path / "stream_occ-edge.client-id").symlink_to("/dev/full")
    with pytest.raises(ServiceError, match=r"stream_occ-edge\.client-id: must be a file that can be written; got"):
        ClientId(load_config(file, {}), tmp_path)


def test_options_carry_the_secret_of_the_configuration(tmp_path: Path) -> None:
    """Host, bounds and the password from its file."""
    (tmp_path / "secret").write_text("hunter2\n")
    file = tmp_path / "c.yaml"
    file.write_text("mqtt: {host: b, username: u, password_file: secret}\ninputs: [{pattern: 'a/{device}'}]\n")
    options = link_options(load_config(file, {}), "id")
    assert (options.host, options.username, options.password, options.client_id) == ("b", "u", "hunter2", "id")


@pytest.mark.parametrize(("host", "is_warned"), [("127.0.0.1", False), ("localhost", False), ("broker.lan", True)])
def test_password_over_a_network_without_tls_is_warned_of(
    host: str, is_warned: bool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It works, so nobody would notice."""
    file = tmp_path / "c.yaml"
    file.write_text("inputs: [{pattern: 'a/{device}'}]\n")
    environment = {"STREAM_OCC__MQTT__HOST": host, "STREAM_OCC__MQTT__PASSWORD": "hunter2"}
    assert link_options(load_config(file, environment), "id").password == "hunter2"
    assert bool(caplog.messages) == is_warned
    assert "hunter2" not in caplog.text
