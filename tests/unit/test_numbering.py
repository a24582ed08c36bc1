"""Devices that number their messages: order, holes, repeats, and what they are told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.keeping import Keeper
from stream_occ.numbering import Numbering
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.store import Store
from tests.unit.service_bench import JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model

INPUT = {"pattern": "wearables/{device}/imu"}
RESENDS = {"inputs": [{**INPUT, "resends": True}]}
UP_TO = "stream_occ/w1/received_up_to"


def send(bench: Bench, seq: int, boot: str | None = "a", n: int = 25) -> None:
    """Message `seq` holds samples n seq and on; no boot: it is not numbered."""
    k = np.arange(n * seq, n * seq + n)
    acc = np.tile([0.0, 0.0, 9.8], (n, 1)) + 0.1 * np.sin(k)[:, None]
    block = SampleBlock("w1", T0_NS + k * (NS_PER_S // 50), acc, 0.1 * np.cos(np.outer(k, [1, 2, 3])))
    assert bench.deliver("wearables/w1/imu", JSON.encode(replace(block, number=None if boot is None else (boot, seq))))


def told(bench: Bench) -> list[tuple[Any, int]]:
    return [(message["boot"], message["seq"]) for message in bench.link.of(UP_TO)]


def taken(bench: Bench) -> int:
    return bench.service._state.devices["w1"].resampler.counters.n_samples


def test_numbers_are_taken_in_order_and_none_twice() -> None:
    """0, 1, then 3 too early, 1 again, 2, 3; another boot begins anew."""
    numbering = Numbering()
    steps = [(0, "taken"), (1, "taken"), (3, "early"), (1, "again"), (2, "taken"), (3, "taken")]
    for seq, expected in steps:
        assert numbering.take(("a", seq), 0.0, resends=True) == (expected, 0)
    assert numbering.take(("b", 1), 0.0, resends=True) == ("early", 0)
    assert numbering.take(("b", 0), 0.0, resends=True) == ("taken", 0)


def test_what_never_comes_is_waited_for_and_counted() -> None:
    """15 s after the first that came too early; then the stream goes on."""
    numbering = Numbering(("a", 4))
    for second in range(15):
        assert numbering.take(("a", 7), 10.0 + second, resends=True) == ("early", 0)
    assert numbering.take(("a", 7), 25.0, resends=True) == ("taken", 2)
    assert numbering.take(("a", 9), 100.0, resends=True) == ("early", 0)


def test_of_what_came_too_early_the_lowest_goes_first() -> None:
    """5 and 6 are gone; 7 to 11 are sent again in turn, and 15 s are over at 9: 7 is taken when it comes, then all
    others. Where the lowest does not come again either, 15 s more are waited."""
    numbering = Numbering(("a", 4))
    times = iter(range(1000))
    for _ in range(3):
        for seq in range(7, 12):
            assert numbering.take(("a", seq), next(times), resends=True) == ("early", 0)
    for seq in (9, 10, 11):
        assert numbering.take(("a", seq), next(times), resends=True) == ("early", 0)
    assert numbering.take(("a", 7), next(times), resends=True) == ("taken", 2)
    assert all(numbering.take(("a", seq), next(times), resends=True) == ("taken", 0) for seq in range(8, 12))
    numbering = Numbering(("a", 4))
    steps = [numbering.take(("a", 7 + second), second, resends=True) for second in range(31)]
    assert steps == [("early", 0)] * 30 + [("taken", 32)]


def test_device_that_lost_its_place_goes_on_where_it_was_and_nothing_of_it_is_missing() -> None:
    """500 messages were taken before; it sends again from 500 on each 3 s, as it has done after a silence."""
    numbering = Numbering()
    assert [numbering.take(("a", 500), t, resends=True) for t in (0.0, 3.0)] == [("early", 0)] * 2
    assert numbering.take(("a", 506), 5.9, resends=True) == ("early", 0)
    assert numbering.take(("a", 507), 6.5, resends=True) == ("early", 0)
    assert [numbering.take(("a", seq), 7.0, resends=True) for seq in (500, 501)] == [("taken", 0)] * 2
    numbering = Numbering()
    assert numbering.take(("b", 1), 0.0, resends=True) == ("early", 0)  # the first message is sent again, too
    assert [numbering.take(("b", seq), 3.0, resends=True) for seq in (0, 1)] == [("taken", 0)] * 2


def test_time_in_which_a_device_is_not_heard_is_no_waiting() -> None:
    """A broker that was away for minutes: the device is given its 15 s to send again, not taken as it comes."""
    numbering = Numbering(("a", 4))
    assert numbering.take(("a", 7), 10.0, resends=True) == ("early", 0)
    assert numbering.take(("a", 8), 500.0, resends=True) == ("early", 0)
    assert numbering.take(("a", 5), 503.0, resends=True) == ("taken", 0)


def test_of_a_device_that_does_not_send_again_all_is_taken() -> None:
    """A hole is seen at once; an old number drops nothing, and what comes after it is no hole."""
    numbering = Numbering()
    steps = [(5, 0), (6, 0), (9, 2), (0, 0), (10, 0), (7, 0), (12, 1)]
    for seq, n_missing in steps:
        assert numbering.take((1, seq), 0.0, resends=False) == ("taken", n_missing)
    assert numbering.last == (1, 12)


def test_what_comes_while_it_is_waited_for_is_not_missing() -> None:
    """Messages of two samples, one a second, stragglers have 2 s: 3 is the last that 4 came before; 6 comes with 7."""
    numbering = Numbering()

    def comes(seq: int, now_s: float, at: int | None = None) -> tuple[int, int | None]:
        verdict, n = numbering.take(("a", seq), now_s, resends=False)
        assert verdict == "taken"
        first = NS_PER_S * (seq if at is None else at)
        return numbering.settle(np.array([first, first + 1]), ("a", seq), n, now_s, 2.0)

    assert [comes(1, 0.0), comes(4, 1.0), comes(2, 1.5), comes(3, 2.9)] == [(0, None)] * 3 + [(0, 4 * NS_PER_S)]
    assert [comes(7, 4.0), comes(6, 5.9), comes(8, 6.0)] == [(0, None), (0, None), (1, None)]
    assert comes(5, 6.0) == (0, None)  # it was given up
    assert [comes(10, 7.0), comes(9, 7.1, at=11)] == [(0, None)] * 2  # what comes does not lie before 10
    assert [comes(13, 8.0), comes(15, 8.0)] == [(0, None)] * 2
    assert comes(12, 8.1) == (0, None)  # 11 is still open, and 12 later than 2 s before 15
    assert comes(14, 8.2) == (0, 15 * NS_PER_S)
    assert comes(400, 9.0) == (384, None)  # no disorder
    assert comes(401, 10.0) == (1, None)


def test_hole_is_counted_and_a_fault_for_a_while() -> None:
    """Two of four never come."""
    bench = Bench(inputs=[INPUT])
    for seq in (0, 3):
        send(bench, seq)
    bench.run()
    assert bench.state()["counters"]["missing"] == 2
    assert "missing" in bench.state()["faults"]
    assert told(bench) == [("a", 3)]
    bench.wait(70.0)
    assert "missing" not in bench.state()["faults"]


@pytest.mark.parametrize("boot", ["a", None])
def test_windows_over_a_message_that_never_came_are_marked_and_not_normal_where_that_is_known(boot: str | None) -> None:
    """Message 14 of 4 samples is lost, 100 ms: of windows of 20 samples, one every 5, 40 to 55 on bridge it, and the
    one from 60 on begins with its end. Without numbers they are scored."""
    bench = Bench(inputs=[INPUT], output={"publish_score": True})
    for seq in range(50):
        if seq != 14:
            send(bench, seq, boot, n=4)
        bench.run(0.1)
    bench.run(60.0)
    counters = bench.state()["counters"]
    assert (counters["interpolated"], counters["bridged"], counters["windows"]) == (4, 4, 37)
    n_lost = 0 if boot is None else 1
    assert (counters.get("missing", 0), counters.get("unscorable", 0)) == (n_lost, 5 * n_lost)
    scores = [(score["t_ns"], score["bridged"]) for score in bench.link.of("stream_occ/w1/score")]
    starts = [start for start in range(0, 181, 5) if boot is None or not 40 <= start <= 60]
    assert scores == [(T0_NS + (start + 19) * 20_000_000, 40 <= start <= 55) for start in starts]


ORDERS = {  # what comes; missing, late samples, duplicate ones where stragglers are waited for, and where not
    "in order": ([*range(40)], (0, 0, 0), (0, 0, 0)),
    "20 and 21 swapped": ([*range(20), 21, 20, *range(22, 40)], (0, 0, 0), (1, 5, 0)),
    "20 after 22": ([*range(20), 21, 22, 20, *range(23, 40)], (0, 0, 0), (1, 5, 0)),
    "20 after 30": ([*range(20), *range(21, 31), 20, *range(31, 40)], (1, 5, 0), (1, 5, 0)),
    "17 once more": ([*range(21), 17, *range(21, 40)], (0, 0, 5), (0, 0, 5)),
    "20 never": ([*range(20), *range(21, 40)], (1, 0, 0), (1, 0, 0)),
}


@pytest.mark.parametrize("reorder_s", [0.5, 0.0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("is_one_slice", [False, True])
def test_stragglers_are_counted_as_what_they_are(order: str, reorder_s: float, is_one_slice: bool) -> None:
    """Messages of 0.1 s: one in time is nothing, a later one is late and was missed, one that came before is doubled.

    No window is lost for one that came in time, and none over a hole is normal. All in one slice, the later one is late
    by its stamps, and came as soon as any.
    """
    bench = Bench(inputs=[INPUT], output={"publish_score": True}, stream={"reorder_s": reorder_s})
    seqs, in_time, at_once = ORDERS[order]
    expected = in_time if reorder_s else at_once
    for seq in seqs:
        send(bench, seq, n=5)
        if not is_one_slice:
            bench.run(0.1)
    for seq in range(40, 48):  # so that what waits goes on
        send(bench, seq, n=5)
        bench.run(0.1)
    bench.run(60.0)
    counters = bench.state()["counters"]
    if is_one_slice and reorder_s and order == "20 after 30":
        assert (counters.get("missing", 0), counters["late"]) == (0, 5)
    else:
        assert tuple(counters.get(name, 0) for name in ("missing", "late", "duplicate")) == expected
    assert (counters.get("unscorable", 0) > 0) == (expected[0] > 0)
    starts = {round((score["t_ns"] - T0_NS) / 20e6) - 19 for score in bench.link.of("stream_occ/w1/score")}
    assert not (expected[0] and starts & set(range(85, 106, 5)))


def test_device_that_sends_again_loses_nothing_and_doubles_nothing() -> None:
    """Message 1 is lost on its way: what follows waits until it comes, and it is told up to where it may forget."""
    bench = Bench(**RESENDS)
    for seq in (0, 2, 3):
        send(bench, seq)
    bench.run()
    assert (told(bench), taken(bench)) == ([("a", 0)], 25)
    for seq in (1, 2, 3, 3):
        send(bench, seq)
    bench.run(1.0)
    assert (told(bench), taken(bench)) == ([("a", 0), ("a", 3)], 100)
    counters = bench.service._state.devices["w1"].resampler.counters
    assert (counters.gap, counters.late, counters.duplicate, counters.interpolated) == (0, 0, 0, 0)
    assert bench.service.counters().refused == {"too_early": 2, "sent_again": 1}
    assert not {"too_early", "sent_again"} & set(bench.state()["faults"])


def test_device_that_lost_its_place_to_others_comes_back_without_loss() -> None:
    """Told of 9, silent, forgotten for another device; then it goes on with 10, and sends it again until it is told."""
    bench = Bench(inputs=RESENDS["inputs"], limits={"max_devices": 1, "idle_device_after_s": 20.0})
    for seq in range(10):
        send(bench, seq)
        bench.run(0.5)
    bench.run(1.0)
    assert told(bench)[-1] == ("a", 9)
    bench.now_s += 30.0
    other = SampleBlock("other", T0_NS + np.arange(2), np.ones((2, 3)), np.ones((2, 3)))
    assert bench.deliver("wearables/other/imu", JSON.encode(other))
    bench.run(0.1)
    assert "w1" not in bench.service.intake.devices
    bench.now_s += 30.0
    n = 10
    for _ in range(20):
        n += 1
        kept = range(told(bench)[-1][1] + 1, n)
        for seq in kept:
            send(bench, seq)
        bench.run(1.0)
    bench.run(1.0)
    assert told(bench)[-1] == ("a", n - 1)
    assert taken(bench) == 25 * (n - 10)
    counters = bench.state()["counters"]
    assert "missing" not in counters
    assert "missing" not in bench.service.counters().refused


def test_device_that_was_not_heard_is_told_again() -> None:
    """received_up_to was lost: it sends again what we have, and is told once more."""
    bench = Bench(**RESENDS)
    send(bench, 0)
    bench.run()
    send(bench, 0)
    bench.run(1.0)
    assert told(bench) == [("a", 0)] * 2
    bench.run(1.0)
    assert told(bench) == [("a", 0)] * 2


def test_same_number_is_told_after_waits_that_double() -> None:
    """Messages that come too early each quarter of a second: 1, 2, 4, then each 8 s, and at once of a new number.

    Each word makes the device send 200 messages again; a queue full of them must not ask for as many once more.
    """
    numbering, told_s = Numbering(("a", 4), is_due=True), []
    for quarter in range(160):
        numbering.is_due = True
        if numbering.is_to_be_told(quarter / 4):
            numbering.tell(quarter / 4)
            told_s.append(quarter / 4)
    assert told_s == [0.0, 1.0, 3.0, 7.0, 15.0, 23.0, 31.0, 39.0]
    assert numbering.take(("a", 5), 40.0, resends=True) == ("taken", 0)
    assert numbering.is_to_be_told(40.0)
    numbering.tell(40.0)
    assert not numbering.is_to_be_told(50.0)
    assert numbering.take(("a", 5), 50.0, resends=True) == ("again", 0)
    assert numbering.is_to_be_told(50.0)


def test_device_that_is_early_for_long_is_told_the_same_seldom() -> None:
    """Message 1 is on its way for 12 s while later ones come four times a second: told at 0, 1, 3, 7 s, then of 1."""
    bench = Bench(**RESENDS)
    send(bench, 0)
    bench.run()
    for quarter in range(48):
        send(bench, 2 + quarter, n=5)
        bench.run(0.25)
    assert told(bench) == [("a", 0)] * 4
    send(bench, 1)
    bench.run(1.0)
    assert told(bench)[4:] == [("a", 1)]


def test_number_is_kept_with_the_state_and_told_after(tmp_path: Path) -> None:
    """A second at the latest after it was taken; a killed service goes on where the file is."""
    keeper = Keeper(Store(tmp_path / "state.db"), model_id="toy", interval_s=1000.0, is_wanted=True)
    bench = Bench(toy_model(), keeper=keeper, **RESENDS)
    bench.run(2.0)
    send(bench, 0)
    bench.run()
    send(bench, 1)
    bench.run(0.5)
    assert told(bench) == []
    bench.run(0.5)
    assert told(bench) == [("a", 1)]
    send(bench, 2)
    bench.run(0.5)
    keeper.close()
    keeper = Keeper(Store(tmp_path / "state.db"), model_id="toy", interval_s=1000.0, is_wanted=True)
    again = Bench(toy_model(), keeper=keeper, at_s=5.0, **RESENDS)
    assert taken(again) == 50
    for seq in (1, 2):
        send(again, seq)
    again.run(2.0)
    assert (told(again), taken(again)) == ([("a", 2)], 75)
    keeper.close()


def test_number_of_another_device_is_none_of_this_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A codec of other people that names the wrong device must not move the right one's numbers on."""

    class Mistaken:
        def decode(self, payload: bytes, **how: Any) -> list[SampleBlock]:
            is_late = b'"seq":9' in payload.replace(b" ", b"")
            return [replace(block, device_id="w2" if is_late else "w1") for block in JSON.decode(payload, **how)]

    monkeypatch.setattr("stream_occ.inputs.load_codec", lambda _: Mistaken())
    bench = Bench(**RESENDS)
    for seq in (0, 9, 1):
        send(bench, seq)
        bench.run(0.5)
    assert +bench.service.intake.refused == {"device_mismatch": 1}
    assert taken(bench) == 50
