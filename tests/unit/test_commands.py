"""The desk for people's commands: what is taken, what is refused and why."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.alert_types import Command
from stream_occ.commands import MAX_COMMAND_BYTES, CommandDesk, sign_command
from stream_occ.config import Config
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.messages import COMMAND_REASONS, COMMANDS
from stream_occ.seen import Seen
from stream_occ.topics import Topics

NOW_NS = 1_772_366_409_000_000_000  # 2026-03-01T12:00:09Z
TOPICS = Topics()


class Desk:
    """A desk that knows the device w1."""

    def __init__(self, key: bytes | None = None, seen: Seen | None = None) -> None:
        config = Config.model_validate_json('{"inputs": [{"pattern": "wearables/{device}/imu"}]}', strict=True)
        self.intake = Intake(config, TOPICS)
        self.intake.restore("w1", None, 0.0)
        self.desk = CommandDesk(TOPICS, self.intake, max_age_s=300.0, key=key, seen=seen)

    def take(
        self, topic: str, payload: bytes = b"", *, is_retained: bool = False, after_s: int = 0
    ) -> tuple[str, Command] | None:
        message = Received.of(topic, payload, is_retained=is_retained, arrived_s=0.0, max_bytes=100_000)
        return self.desk.take(message, NOW_NS + after_s * 10**9)


@pytest.mark.parametrize("payload", [b"", b"PRESS", b"{}", b" PRESS\n"])
@pytest.mark.parametrize("kind", ["ack", "cancel", "mute", "unmute"])
def test_pressed_button_means_the_open_alert_now(kind: str, payload: bytes) -> None:
    """Nothing needs to be said but the topic."""
    assert Desk().take(f"stream_occ/w1/set/{kind}", payload) == ("w1", Command(kind, "", NOW_NS))  # type: ignore[arg-type]


def test_everything_that_a_command_can_say() -> None:
    """Alert, person, minutes, verdict; `t` is checked and not used."""
    desk = Desk()
    told = {"alert_id": "id-1", "by": "Änne", "t": "2026-03-01T13:00:00+01:00"}
    assert desk.take("stream_occ/w1/set/ack", json.dumps(told).encode()) == (
        "w1", Command("ack", "Änne", NOW_NS, "id-1"),
    )  # fmt: skip
    assert desk.take("stream_occ/w1/set/mute", b'{"minutes": 30}') == ("w1", Command("mute", "", NOW_NS, None, 30.0))
    assert desk.take("stream_occ/w1/set/feedback", b'{"verdict": "fall", "t": 1772366409}') == (
        "w1", Command("feedback", "", NOW_NS, verdict="fall"),
    )  # fmt: skip
    assert desk.intake.refused == {}


@pytest.mark.parametrize(
    ("topic", "payload", "reason"),
    [
        ("stream_occ/w1/set/ack", b"press", "command_invalid"),
        ("stream_occ/w1/set/ack", b"[]", "command_invalid"),
        ("stream_occ/w1/set/ack", b"\xff", "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"who": "anna"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"by": 1}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"by": "a\\nb"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"by": "\\u009b2J"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"by": "a\\u202eb"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"by": "' + 101 * b"a" + b'"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"alert_id": ""}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"minutes": 5}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"verdict": "fall"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"t": "2026-03-01T12:00:09"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"t": NaN}', "command_invalid"),
        ("stream_occ/w1/set/mute", b'{"minutes": 0}', "command_invalid"),
        ("stream_occ/w1/set/mute", b'{"minutes": 1441}', "command_invalid"),
        ("stream_occ/w1/set/mute", b'{"minutes": NaN}', "command_invalid"),
        ("stream_occ/w1/set/mute", b'{"minutes": "30"}', "command_invalid"),
        ("stream_occ/w1/set/feedback", b"PRESS", "command_invalid"),
        ("stream_occ/w1/set/feedback", b'{"verdict": "maybe"}', "command_invalid"),
        ("stream_occ/w1/set/ack", b'{"t": "2026-03-01T11:55:08Z"}', "command_expired"),
        ("stream_occ/w1/set/ack", b'{"t": "2026-03-01T12:05:10Z"}', "command_expired"),
        ("stream_occ/w1/set/ack", b'{"t": "0001-01-01T00:00:00+14:00"}', "command_expired"),
        ("stream_occ/w1/set/ack", b'{"t": "9999-12-31T23:59:59-14:00"}', "command_expired"),
        ("stream_occ/w1/set/ack", b" " * (MAX_COMMAND_BYTES + 1), "payload_too_large"),
        ("stream_occ/w2/set/ack", b"", "unknown_device"),
        ("stream_occ/w1/set/reboot", b"", "command_unknown"),
        ("stream_occ/w1/set/", b"", "command_unknown"),
        ("stream_occ/w1/set/ack/x", b"", "command_unknown"),
        ("stream_occ/a b/set/ack", b"", "command_unknown"),
    ],
)
def test_refused_command_is_counted_with_its_reason(topic: str, payload: bytes, reason: str) -> None:
    """Once, and of the device where it is known; it is no fault of the device."""
    desk = Desk()
    assert desk.take(topic, payload) is None
    assert desk.intake.refused == {reason: 1}
    record = desk.intake.devices["w1"]
    assert record.refused == ({reason: 1} if topic.startswith("stream_occ/w1/") else {})
    assert record.fault_seen_s == {}
    assert desk.intake.n_messages == 1


def test_limits_of_age_are_within() -> None:
    """300 s on either side."""
    desk = Desk()
    for t in ("2026-03-01T11:55:09Z", "2026-03-01T12:05:09Z"):
        assert desk.take("stream_occ/w1/set/ack", json.dumps({"t": t}).encode()) is not None


def test_retained_command_is_refused() -> None:
    """The broker repeats it at every start: an acknowledgement of last week must not meet tonight's alarm."""
    desk = Desk()
    assert desk.take("stream_occ/w1/set/ack", b"", is_retained=True) is None
    assert desk.intake.refused == {"retained": 1}


def test_refusals_are_logged_at_1_2_4_8_and_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """No flood, and nothing of the payload breaks the line."""
    desk = Desk()
    with caplog.at_level(logging.WARNING):
        for _ in range(9):
            desk.take("stream_occ/w1/set/ack", b'{"a\\nb": 1}')
    lines = [record.getMessage() for record in caplog.records]
    assert len(lines) == 4
    assert lines[0].startswith("refused (command_invalid) 'stream_occ/w1/set/ack', 1 so far: ")
    assert not any("\n" in line for line in lines)


@given(st.sampled_from(COMMANDS), st.binary(max_size=200))
def test_any_bytes_are_a_command_or_a_counted_refusal(kind: str, payload: bytes) -> None:
    """Nothing is raised and nothing is lost."""
    desk = Desk()
    taken = desk.take(f"stream_occ/w1/set/{kind}", payload)
    assert (taken is None) == (sum(desk.intake.refused.values()) == 1)


@given(
    st.sampled_from(COMMANDS),
    st.dictionaries(
        st.sampled_from(["alert_id", "by", "t", "minutes", "verdict"]),
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=20), st.just([])),
    ),
)
def test_any_json_is_a_command_or_a_counted_refusal(kind: str, content: dict[str, Any]) -> None:
    """Numbers without bound, texts of any characters, wrong types."""
    desk = Desk()
    taken = desk.take(f"stream_occ/w1/set/{kind}", json.dumps(content).encode())
    assert (taken is None) == (sum(desk.intake.refused.values()) == 1)
    assert set(desk.intake.refused) <= set(COMMAND_REASONS)


KEY = b"thirty-two characters of a key.."
ACK = "stream_occ/w1/set/ack"
TEXT = '{"by": "anna", "t": "2026-03-01T12:00:09Z"}'
# printf '%s\n%s' "$topic" "$text" | openssl dgst -sha256 -hmac "$key", of the three above
BY_OPENSSL = "2f93b34ed2ce297e204504dd0bcc3fd6321cd11bb5971c1704515b4517d5f957"


def test_signature_is_that_of_openssl() -> None:
    """Anybody can sign with topic, line feed, text, and what is on every machine."""
    assert json.loads(sign_command(KEY, ACK, TEXT)) == {"signed": TEXT, "hmac_sha256": BY_OPENSSL}


def test_signed_command_is_taken_once_within_its_age() -> None:
    """Whoever caught it can send it again, in whatever spelling, and nothing happens; later it is expired."""
    desk = Desk(KEY)
    assert desk.take(ACK, sign_command(KEY, ACK, TEXT)) == ("w1", Command("ack", "anna", NOW_NS))
    respelt = json.dumps(json.loads(sign_command(KEY, ACK, TEXT)), indent=3).encode()
    assert desk.take(ACK, respelt, after_s=299) is None
    assert desk.take(ACK, respelt, after_s=301) is None
    assert desk.intake.refused == {"command_repeated": 1, "command_expired": 1}
    assert desk.take(ACK, sign_command(KEY, ACK, TEXT.replace(":09Z", ":10Z"))) is not None


def test_signed_command_is_taken_once_over_a_restart() -> None:
    """The digests that outlive the process know it."""
    seen = Seen()
    assert Desk(KEY, seen).take(ACK, sign_command(KEY, ACK, TEXT)) is not None
    next_start = Desk(KEY, Seen(seen.unsaved()))
    assert next_start.take(ACK, sign_command(KEY, ACK, TEXT)) is None
    assert next_start.intake.refused == {"command_repeated": 1}


def test_memory_of_signed_commands_is_bounded_by_their_age() -> None:
    """What is too old to be taken need not be remembered."""
    desk = Desk(KEY)
    for second in range(0, 3000, 10):
        assert desk.take(ACK, sign_command(KEY, ACK, f'{{"t": {1772366409 + second}}}'), after_s=second) is not None
    assert len(desk.desk._taken) <= 31


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"PRESS", "command_unsigned"),
        (TEXT.encode(), "command_unsigned"),
        (json.dumps({"signed": TEXT, "hmac_sha256": ""}).encode(), "command_unsigned"),
        (json.dumps({"signed": TEXT, "hmac_sha256": "0" * 64}).encode(), "command_forged"),
        (json.dumps({"signed": TEXT + " ", "hmac_sha256": BY_OPENSSL}).encode(), "command_forged"),
        (sign_command(b"another key of our own", ACK, TEXT), "command_forged"),
        (sign_command(KEY, "stream_occ/w1/set/cancel", TEXT), "command_forged"),
        (sign_command(KEY, "stream_occ/w2/set/ack", TEXT), "command_forged"),
        (sign_command(KEY, ACK, "{}"), "command_invalid"),
        (sign_command(KEY, ACK, "PRESS"), "command_invalid"),
        (sign_command(KEY, ACK, '{"t": "2026-03-01T11:55:08Z"}'), "command_expired"),
        (sign_command(KEY, ACK, '{"t": "2026-03-01T12:05:10Z"}'), "command_expired"),
    ],
)
def test_where_a_key_is_configured_all_else_is_refused(payload: bytes, reason: str) -> None:
    """Unsigned, of another key, device, command or text, without a time, old or of the future; each is counted."""
    desk = Desk(KEY)
    assert desk.take(ACK, payload) is None
    assert desk.intake.refused == {reason: 1}
    assert desk.take(ACK, sign_command(KEY, ACK, TEXT)) is not None


def test_without_a_key_a_signed_command_is_taken_for_its_text() -> None:
    """So senders can be taught to sign one after the other, the service last."""
    desk = Desk()
    assert desk.take(ACK, sign_command(KEY, ACK, TEXT)) == ("w1", Command("ack", "anna", NOW_NS))
    assert desk.take(ACK, sign_command(KEY, ACK, '{"by": 1}')) is None
    assert desk.intake.refused == {"command_invalid": 1}


def test_receipts_are_signed_too() -> None:
    """A forged one would keep an event from its receiver; one sent again says nothing new."""
    desk = Desk(KEY)
    topic, text = "stream_occ/w1/set/received", '{"alert_id": "a", "seq": 1, "receiver": "ward"}'
    for payload, is_taken in ((text.encode(), False), (sign_command(KEY, topic, text), True)):
        message = Received.of(topic, payload, is_retained=False, arrived_s=0.0, max_bytes=100_000)
        assert [desk.desk.take_receipt(message) is not None for _ in range(2)] == [is_taken] * 2
    assert desk.intake.refused == {"command_unsigned": 2}


@given(st.text(max_size=50) | st.binary(max_size=50), st.booleans())
def test_any_text_that_is_signed_is_a_command_or_a_counted_refusal(text: str | bytes, has_key: bool) -> None:
    """Half characters and NUL in a signed text too."""
    desk = Desk(KEY if has_key else None)
    body = text if isinstance(text, str) else text.decode(errors="surrogateescape")
    taken = desk.take(ACK, json.dumps({"signed": body, "hmac_sha256": "0" * 64}).encode())
    assert (taken is None) == (sum(desk.intake.refused.values()) == 1)
