"""Whatever fails in telling of one device, the others are told of and their messages acknowledged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import stream_occ.outbox
import stream_occ.reporting
from stream_occ.deliveries import NUMBERED_SAVE_S
from stream_occ.samples import SampleBlock
from tests.unit.service_bench import JSON, Bench

HALF = "\ud800"


def break_for(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, device: str) -> None:
    """`name` of owner fails where one of its arguments is of the device."""
    whole = getattr(owner, name)

    def broken(*arguments: Any, **named: Any) -> Any:
        of = {getattr(each, "device_id", each) for each in arguments if isinstance(each, str) or hasattr(each, "score")}
        if device in of:
            raise RuntimeError("made to fail")
        return whole(*arguments, **named)

    monkeypatch.setattr(owner, name, broken)


def falls() -> Bench:
    """w1 and w2 fall at once, and the service publishes all it has."""
    bench = Bench(receivers=["ward"], output={"publish_score": True})
    for device in ("w1", "w2"):
        bench.send(100, device=device)
        bench.send(25, device=device, first=100, knock=True)
        bench.send(175, device=device, first=125, lying=True)
    return bench


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (stream_occ.reporting, "alert_message"),
        (stream_occ.outbox, "event_message"),
        (stream_occ.reporting, "score_message"),
        (stream_occ.reporting.Reporter, "device"),
    ],
)
def test_what_fails_of_one_device_costs_it_alone(
    owner: object, name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """w1's alert, event, score or state cannot be told: w2's alarm is, in the same slice, and the error is w1's."""
    bench = falls()
    break_for(monkeypatch, owner, name, "w1")
    bench.run(6.0)
    assert bench.link.of("stream_occ/w2/alert")[-1]["state"] == "alarm"
    assert ("alarm", 2) in bench.events("w2")
    assert bench.state("w2")["state"] == "alarm"
    devices = bench.service.intake.devices
    assert devices["w1"].refused["internal_error"] >= 1
    assert devices["w2"].refused["internal_error"] == 0
    bench.wait(20)
    n = devices["w1"].refused["internal_error"]
    assert sum("something of w1 failed" in line.message for line in caplog.records) == n.bit_length()


def test_a_number_that_cannot_be_told_is_told_to_nobody_and_not_tried_for_ever() -> None:
    """A codec of other people lets half a character through to the service's memory: the next slice is a usual one."""
    bench = falls()
    bench.run(6.0)
    numbering = bench.service.intake.devices["w1"].numbering
    numbering.last, numbering.is_due = (HALF, 0), True
    other = bench.service.intake.devices["w2"].numbering
    other.last, other.is_due = ("b", 7), True
    bench.service.intake.numbered |= {"w1", "w2"}
    bench.run(NUMBERED_SAVE_S)
    assert bench.link.of("stream_occ/w2/received_up_to") == [{"boot": "b", "seq": 7}]
    assert (numbering.is_due, bench.service.intake.devices["w1"].refused["internal_error"]) == (False, 1)


def test_a_codec_that_makes_a_number_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a character as a boot, by a codec that does not look."""
    bench = Bench()
    entry = bench.service.intake._inputs[0]

    class Careless:
        def decode(self, payload: bytes, **named: Any) -> list[SampleBlock]:
            return [replace(block, number=(HALF, 0)) for block in JSON.decode(payload, **named)]

    monkeypatch.setattr(bench.service.intake, "_inputs", [replace(entry, codec=Careless())])
    bench.send(50)
    bench.run(1.0)
    assert bench.service.intake.refused == {"bad_field": 1}


def test_a_message_at_which_the_desk_fails_costs_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """The samples after it are taken."""
    bench = Bench()
    whole = bench.service._accept
    failing = iter([True])

    def accept(*arguments: Any) -> Any:
        if next(failing, False):
            raise RuntimeError("made to fail")
        return whole(*arguments)

    monkeypatch.setattr(bench.service, "_accept", accept)
    bench.send(50)
    bench.send(50, device="w2")
    bench.run(1.0)
    assert bench.service.intake.refused == {"internal_error": 1}
    assert set(bench.service._state.devices) == {"w2"}
