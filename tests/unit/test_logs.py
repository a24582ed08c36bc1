"""What log lines say: changes of state, in fields of their own where they are JSON, and nothing of a person."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator

import msgpack
import pytest

from stream_occ.cli import _service
from stream_occ.codecs import load_codec
from stream_occ.codecs.json import decode as decode_json
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile
from tests.app_payloads import SHIMMER
from tests.unit.service_bench import T0_NS, Bench

NAME, SAMPLE = "Erika Mustermann", "31415.9265"
TOPIC = "wearables/w1/imu"
UNITS = {"acc": "m/s2", "gyr": "rad/s"}
DOCUMENT = {"t_ns": T0_NS, "acc": [0.0, 0.0, 9.8], "gyr": [0.0, 0.0, 0.0], "units": UNITS}
QUOTED: list[tuple[str, bytes]] = [
    ("json", json.dumps({**DOCUMENT, "device": NAME}).encode()),
    ("json", json.dumps({**DOCUMENT, "acc": [float(SAMPLE), 0, 0]}).encode()),
    ("json", json.dumps({**DOCUMENT, "gyr": [0, NAME, 0]}).encode()),
    ("json", json.dumps({**DOCUMENT, "t_ns": NAME}).encode()),
    ("csv", f"1,0,0,{SAMPLE}x,0,0,0".encode()),
    ("csv", f"t_ns,{NAME}\n1,2".encode()),
    ("msgpack", msgpack.packb({**DOCUMENT, "device": NAME})),
    ("sensor-logger", json.dumps({"payload": [NAME, SAMPLE]}).encode()),
    ("sensor-logger", json.dumps([{"deviceId": NAME, "payload": []}, {"deviceId": "p2", "payload": []}]).encode()),
    ("phyphox", json.dumps({NAME: [SAMPLE]}).encode()),
    ("phyphox", f"{NAME},{SAMPLE}\n1,2".encode()),
    ("senml", json.dumps([{"n": "acc_x", "u": "m/s2", "bt": 1.7e9, "v": NAME}]).encode()),
    ("esp32", json.dumps({NAME: SAMPLE}).encode()),
    ("shimmer", SHIMMER.replace(b"1.7E12", NAME.encode())),
    ("apple-watch", f"{NAME},{SAMPLE}\n1,2".encode()),
    ("witmotion", f"{NAME},{SAMPLE}\n1,2".encode()),
]


def holds_what_came(text: str) -> bool:
    """True for a text that quotes the name or the sample, or the digits that rounding leaves of it."""
    return NAME in text or SAMPLE[:5] in text


@pytest.mark.parametrize(("codec", "payload"), QUOTED)
def test_refusal_is_logged_with_what_to_do_and_without_what_came(
    codec: str, payload: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """The error quotes name or sample, for whoever listens with the doctor; the service's log has neither."""
    with pytest.raises(PayloadError) as caught:
        load_codec(codec).decode(payload, device_id="w1", profile=DeviceProfile())
    error = caught.value
    assert holds_what_came(str(error))
    bench = Bench(inputs=[{"pattern": "wearables/{device}/imu", "codec": codec}])
    with caplog.at_level(logging.DEBUG):
        assert bench.deliver(TOPIC, payload)
        bench.run()
    [line] = [message for message in caplog.messages if message.startswith("refused")]
    expected = f"refused ({error.reason}) '{TOPIC}', 1 so far: message of w1: must {error.expected}. {error.remedy}"
    assert line.removesuffix("?").removesuffix(".") == expected.removesuffix("?")
    assert not any(map(holds_what_came, caplog.messages))


def test_who_gave_a_command_is_in_its_event_and_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A nurse's name is for those who look after the wearer."""
    bench = Bench()
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.run(3.0)
    with caplog.at_level(logging.DEBUG):
        bench.command("ack", json.dumps({"by": NAME}).encode())
        bench.command("ack", json.dumps({NAME: 1}).encode())
        bench.run(1.0)
    assert bench.link.of("stream_occ/w1/event")[-1]["by"] == NAME
    assert "ack of w1" in caplog.messages
    assert any("refused (command_invalid)" in message for message in caplog.messages)
    assert not any(map(holds_what_came, caplog.messages))


def test_error_of_a_foreign_codec_is_logged_by_its_place(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its text may quote the message, so kind and line are told."""

    def fails(payload: bytes, *, device_id: str, profile: DeviceProfile) -> object:
        decode_json(payload, device_id=device_id, profile=profile)
        raise ValueError(f"odd value {SAMPLE} of {NAME}")

    monkeypatch.setattr("stream_occ.codecs.json.decode", fails)
    bench = Bench()
    with caplog.at_level(logging.DEBUG):
        bench.send(1)
        bench.run()
    [line] = [message for message in caplog.messages if message.startswith("refused (internal_error)")]
    assert f"the codec failed: ValueError in {__file__}, line " in line
    assert not holds_what_came(caplog.text)


def logged(record: logging.LogRecord) -> dict[str, str]:
    """What the JSON formatter of a started service makes of a record, less time, level and module."""
    _service.log_to_stderr("info", "json")
    [handler] = logging.getLogger().handlers
    content: dict[str, str] = json.loads(handler.format(record))
    return {name: text for name, text in content.items() if name not in ("t", "level", "logger")}


@pytest.fixture
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:] = before[0]
    root.setLevel(before[1])


def test_acts_that_are_sent_again_and_again_do_not_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """One line each ten seconds of a device and a kind of act; another kind has its own."""
    bench = Bench()
    bench.send(100)
    bench.run()
    with caplog.at_level(logging.INFO):
        for _ in range(30):
            for _ in range(20):
                bench.command("mute", b'{"minutes": 5}')
            bench.run(0.5)
        bench.command("unmute")
        bench.run()
    lines = [record.getMessage() for record in caplog.records if " of w1" in record.getMessage()]
    assert lines == ["mute of w1", "mute of w1", "unmute of w1"]


@pytest.mark.usefixtures("_logging_as_it_was")
def test_json_lines_have_device_alert_reason_and_state_apart(caplog: pytest.LogCaptureFixture) -> None:
    """A collector finds all lines of one alert without taking texts apart."""
    bench = Bench()
    with caplog.at_level(logging.INFO):
        bench.send(100)
        bench.send(25, first=100, knock=True)
        bench.run(3.0)
        bench.deliver(TOPIC, b"no JSON")
        bench.deliver("wearables/a b/imu", b"{}")
        bench.command("ack")
        bench.run()
    lines = {line["message"]: line for line in map(logged, list(caplog.records))}
    [alert_id] = {event["alert_id"] for event in bench.link.of("stream_occ/w1/event")}
    assert lines["device w1 registered (1 of 200)"]["device"] == "w1"
    told = [line for line in lines.values() if line.get("alert_id") == alert_id]
    assert [line["state"] for line in told] == [event for event, _ in bench.events()]
    for line in told:
        assert line["device"] == "w1"
        assert line["message"] == f"alert {alert_id} of w1: {line['state']} ({line['reason']})"
    assert lines["ack of w1"] == {"message": "ack of w1", "device": "w1"}
    [odd] = [line for line in lines.values() if line.get("reason") == "invalid_json"]
    assert odd["device"] == "w1"
    [nameless] = [line for line in lines.values() if line.get("reason") == "bad_device_id"]
    assert "device" not in nameless


def test_text_lines_are_as_they_were(caplog: pytest.LogCaptureFixture) -> None:
    """Fields of their own are for JSON: a text line has them in its message alone."""
    formatter = logging.Formatter("%(levelname)s %(name)s: %(message)s")
    bench = Bench()
    with caplog.at_level(logging.INFO):
        bench.send(1)
        bench.run()
    assert formatter.format(caplog.records[0]) == "INFO stream_occ.intake: device w1 registered (1 of 200)"
