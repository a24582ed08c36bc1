"""E-mail against a real SMTP server: what people read, whom it believes, and which replies it takes for what."""

from __future__ import annotations

import email
import email.policy
import json
import socket
import time
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stream_occ.sinks import Later, Refused
from stream_occ.sinks.email import Settings, Sink
from tests.integration.credentials import certify
from tests.sink_peers import MailServer, a_notice, mail_server

KEYS = {"kind": "email", "host": "127.0.0.1", "security": "none", "sender": "occ@ward.example"}


def settings(**keys: Any) -> Settings:
    content = {**KEYS, "recipients": ["anna@ward.example"], **keys}
    return Settings.model_validate_json(json.dumps(content), strict=True)


def a_sink(peer: MailServer, **keys: Any) -> Sink:
    return Sink(settings(port=peer.port, **keys))


def read(content: bytes) -> EmailMessage:
    found = email.message_from_bytes(content, policy=email.policy.default)
    assert isinstance(found, EmailMessage)
    return found


def test_mail_says_who_what_when_and_why_in_words() -> None:
    """The alarm first of all; a second sending has the same Message-ID, later changes are of its thread."""
    with mail_server() as peer:
        sink = a_sink(peer, recipients=["anna@ward.example", "bo@ward.example"])
        sink.send(a_notice(3, "alarm", evidence={"level": 2}))
        sink.send(a_notice(3, "alarm", evidence={"level": 2}))
        sink.send(a_notice(4, "acknowledged", by="Jürgen Müller"))
    (recipients, raw), (_, again), (_, later) = peer.mails
    assert recipients == ["anna@ward.example", "bo@ward.example"]
    mail, text = read(raw), read(raw).get_content()
    assert mail["Subject"] == "w1: ALARM, a fall and nobody has answered (told 3 times)"
    assert "Please look after the wearer now." in text
    for line in ("Wearer: w1", "Why: still", "Alert: a1, change 3"):
        assert line in text.splitlines()
    when = time.strftime("When: %Y-%m-%d %H:%M:%S ", time.localtime(1_772_366_409))
    assert when in text
    assert mail["Auto-Submitted"] == "auto-generated"
    assert mail["Message-ID"] == read(again)["Message-ID"] == "<a1.3@alerts.stream-occ.invalid>"
    assert read(later)["References"] == mail["References"] == "<a1.0@alerts.stream-occ.invalid>"
    assert "Jürgen Müller has taken this alert." in read(later).get_content()


@pytest.mark.parametrize(
    ("state", "changes", "sentence"),
    [
        ("pending", {"evidence": {"t_deadline_ns": 1_772_366_439_000_000_000}}, "it becomes an alarm at 2026-03-01 "),
        ("alarm", {"reasons": ("historical",)}, "This comes from old data"),
        ("pending", {"reasons": ("learning",)}, "still learning"),
        ("alarm", {"evidence": {"muted": 1}}, "Alerts of this wearer are muted."),
        ("cancelled", {"by": "bo"}, "bo has cancelled"),
        ("false_alarm", {}, "Somebody has said that it was no fall."),
        ("resolved", {}, "all clear"),
        ("expired", {}, "Nothing has to be done."),
        ("suspected", {}, "nothing has to be done yet"),
        ("checking", {}, "nothing has to be done yet"),
    ],
)
def test_every_state_has_its_sentence(state: Any, changes: dict[str, Any], sentence: str) -> None:
    """And none leaves a hole where a word should be."""
    from stream_occ.sinks import _wording

    text = _wording.text(a_notice(1, state, **changes).alert)
    assert sentence in text
    assert "{" not in text


def test_password_goes_over_tls_to_the_right_server_alone(tmp_path: Path) -> None:
    """STARTTLS and TLS from the start; a certificate of another authority, or another name, gets nothing."""
    certify(tmp_path, "ca", "ca")
    certify(tmp_path, "mail", "ca", "DNS:localhost")
    ca, login = str(tmp_path / "ca.pem"), {"username": "occ", "password": "hunter2"}
    with mail_server(certificate=tmp_path / "mail.pem", login=("occ", "hunter2")) as peer:
        with_tls = {"host": "localhost", "security": "starttls", **login}
        a_sink(peer, **with_tls, ca_file=ca).send(a_notice())
        for wrong in ({**with_tls}, {**with_tls, "host": "127.0.0.1", "ca_file": ca}):
            with pytest.raises(Later, match="certificate verify failed"):
                a_sink(peer, **wrong).send(a_notice())
        with pytest.raises(Later, match=r"SMTP 535 \(SMTPAuthenticationError\)"):
            a_sink(peer, **{**with_tls, "password": "wrong"}, ca_file=ca).send(a_notice())
    assert len(peer.mails) == 1
    with mail_server(certificate=tmp_path / "mail.pem", is_tls_from_start=True) as peer:
        a_sink(peer, host="localhost", security="tls", ca_file=ca).send(a_notice())
    assert len(peer.mails) == 1


def test_server_without_starttls_gets_no_mail_where_it_is_asked_for() -> None:
    """Nobody on the way can have the mail sent in the clear by taking the offer out."""
    with mail_server() as peer, pytest.raises(Later, match="STARTTLS"):
        a_sink(peer, security="starttls").send(a_notice())
    assert peer.mails == []


def test_recipient_who_is_put_off_gets_it_later_and_the_others_once() -> None:
    """A grey list says 450 to one of two: the second try is for that one alone."""
    with mail_server() as peer:
        peer.refusals["bo@ward.example"] = ["450 try again"]
        sink = a_sink(peer, recipients=["anna@ward.example", "bo@ward.example"])
        with pytest.raises(Later, match="SMTP 450 for 1 of 2 recipients"):
            sink.send(a_notice())
        sink.send(a_notice())
    assert [recipients for recipients, _ in peer.mails] == [["anna@ward.example"], ["bo@ward.example"]]


def test_recipient_who_is_unknown_is_a_refusal_and_the_others_have_it() -> None:
    """One, or all of them."""
    with mail_server() as peer:
        peer.refusals["bo@ward.example"] = ["550 no such user"] * 2
        sink = a_sink(peer, recipients=["anna@ward.example", "bo@ward.example"])
        with pytest.raises(Refused, match="SMTP 550 for 1 of 2 recipients"):
            sink.send(a_notice())
        with pytest.raises(Refused, match="SMTP 550 for 1 of 1 recipients"):
            a_sink(peer, recipients=["bo@ward.example"]).send(a_notice())
    assert [recipients for recipients, _ in peer.mails] == [["anna@ward.example"]]


def test_refusal_of_one_is_told_though_another_was_put_off_meanwhile() -> None:
    """Nobody takes the change for delivered to all at the end."""
    with mail_server() as peer:
        peer.refusals = {"bo@ward.example": ["550 no such user"], "cy@ward.example": ["450 try again"]}
        sink = a_sink(peer, recipients=["anna@ward.example", "bo@ward.example", "cy@ward.example"])
        with pytest.raises(Later, match="SMTP 450 for 1 of 3 recipients"):
            sink.send(a_notice())
        with pytest.raises(Refused, match="SMTP 550 for 1 of 3 recipients"):
            sink.send(a_notice())
    assert [recipients for recipients, _ in peer.mails] == [["anna@ward.example"], ["cy@ward.example"]]


@pytest.mark.parametrize(("reply", "error"), [("451 later", Later), ("554 no", Refused)])
def test_reply_to_the_text_decides(reply: str, error: type[Exception]) -> None:
    """4xx is later, 5xx is no."""
    with mail_server() as peer:
        peer.data_reply = reply
        with pytest.raises(error, match=f"SMTP {reply[:3]}"):
            a_sink(peer).send(a_notice())


def test_server_that_is_away_or_hangs_is_asked_later() -> None:
    """One without a greeting is given up after timeout_s."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        silent = MailServer(port=listener.getsockname()[1])
        started_s = time.monotonic()
        with pytest.raises(Later, match="timed out"):
            a_sink(silent, timeout_s=0.3).send(a_notice())
        assert time.monotonic() - started_s < 1.5
    with pytest.raises(Later, match="refused"):
        a_sink(silent).send(a_notice())


@pytest.mark.parametrize(
    "keys",
    [
        {"recipients": []},
        {"recipients": ["anna"]},
        {"recipients": ["anna@ward.example\nBcc: eve@evil.example"]},
        {"recipients": ["anna@ward.example", "anna@ward.example"]},
        {"username": "occ"},
        {"host": "mail.example", "username": "occ", "password": "hunter2"},
        {"sender": "Anna <anna@ward.example>"},
    ],
)
def test_settings_that_cannot_work_are_refused(keys: dict[str, object]) -> None:
    """No recipient twice, no second header, no password in the clear."""
    with pytest.raises(ValidationError):
        settings(**keys)


def test_mail_in_the_clear_over_a_network_is_warned_of() -> None:
    """Not on this machine, and not with TLS."""
    given = ({"host": "mail.example"}, {}, {"host": "mail.example", "security": "starttls"})
    assert [settings(**keys).warning is not None for keys in given] == [True, False, False]
