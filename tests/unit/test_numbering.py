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


def test_time_in_which_a_device_is_not_heard_is_no_waiting() -> None:
    """A broker that was away for minutes: the device is given its 15 s to send again, not taken as it comes."""
    numbering = Numbering(("a", 4))
    assert numbering.take(("a", 7), 10.0, resends=True) == ("early", 0)
    assert numbering.take(("a", 8), 500.0, resends=True) == ("early", 0)
    assert numbering.take(("a", 5), 503.0, resends=True) == ("taken", 0)


def test_of_a_device_that_does_not_send_again_all_is_taken() -> None:
    """A hole is counted at once; a number that goes back under the same boot drops nothing."""
    numbering = Numbering()
    steps = [(5, 0), (6, 0), (9, 2), (0, 0), (1, 0)]
    for seq, n_missing in steps:
        assert numbering.take((1, seq), 0.0, resends=False) == ("taken", n_missing)


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
    """Message 10 of 5 samples is lost, 120 ms: of windows of 20 samples, one every 5, 35 to 50 on bridge it, and the
    one from 55 on begins with its end. Without numbers they are scored."""
    bench = Bench(inputs=[INPUT], output={"publish_score": True})
    for seq in range(40):
        if seq != 10:
            send(bench, seq, boot, n=5)
        bench.run(0.1)
    bench.run(60.0)
    counters = bench.state()["counters"]
    assert (counters["interpolated"], counters["bridged"], counters["windows"]) == (5, 4, 37)
    n_lost = 0 if boot is None else 1
    assert (counters.get("missing", 0), counters.get("unscorable", 0)) == (n_lost, 5 * n_lost)
    scores = [(score["t_ns"], score["bridged"]) for score in bench.link.of("stream_occ/w1/score")]
    starts = [start for start in range(0, 181, 5) if boot is None or not 35 <= start <= 55]
    assert scores == [(T0_NS + (start + 19) * 20_000_000, 35 <= start <= 50) for start in starts]


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
