"""When messages are acknowledged, and what a second delivery does: driven by hand over a real file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import numpy as np
import pytest

from stream_occ.inbox import Received, Token
from stream_occ.keeping import Keeper
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.seen import MAX_SEEN, Seen, digest
from stream_occ.store import Store
from tests.unit.service_bench import CHECKED, JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model

TOPIC = "wearables/w1/imu"


class Starts:
    """Services over one file, each killed by the next; messages are numbered."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keeper: Keeper | None = None
        self.mids = count(1)

    def __call__(self, at_s: float = 0.0, **sections: object) -> Bench:
        self.kill()
        self.keeper = Keeper(Store(self.path), model_id="toy", interval_s=5.0, is_wanted=True)
        return Bench(toy_model(), keeper=self.keeper, at_s=at_s, **{"events": CHECKED, **sections})

    def kill(self) -> None:
        if self.keeper is not None:
            self.keeper.close()

    def deliver(self, bench: Bench, payload: bytes, topic: str = TOPIC, *, is_again: bool = False) -> int:
        mid = next(self.mids)
        message = Received.of(
            topic,
            payload,
            is_retained=False,
            arrived_s=bench.now_s,
            max_bytes=100_000,
            token=Token(1, mid, 1),
            is_again=is_again,
        )
        assert bench.inbox.put(message)
        return mid


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    starts = Starts(tmp_path / "state.db")
    yield starts
    starts.kill()


def walking(first: int, n: int = 25, *, knock: bool = False) -> bytes:
    """Samples `first` and on: at rest but for a shake, or a knock."""
    k = np.arange(first, first + n)
    acc = np.tile([20.0 if knock else 0.0, 0.0, 9.8], (n, 1))
    acc[:, 2] += 2.0 * np.sin(2 * np.pi * 2.0 * k / 50.0)
    return JSON.encode(SampleBlock("w1", T0_NS + k * (NS_PER_S // 50), acc, 0.01 * np.ones((n, 3)) * (k % 7)[:, None]))


def mids(bench: Bench) -> list[int]:
    return [token.mid for token in bench.link.acknowledged]


def samples(bench: Bench) -> int:
    return bench.service._state.devices["w1"].resampler.counters.n_samples


def test_message_is_acknowledged_when_its_state_is_on_the_disk(start: Starts) -> None:
    """Not before the save that is due every 5 s, and then all in their order, refused ones too."""
    bench = start()
    bench.run()
    for i in range(4):
        start.deliver(bench, walking(25 * i) if i != 2 else b"{")
        bench.run(1.0)
    assert mids(bench) == []
    bench.run(1.0)
    assert mids(bench) == [1, 2, 3, 4]
    store = start.keeper._store  # type: ignore[union-attr]
    assert store is not None
    state = store.devices()["w1"].state
    assert state is not None
    assert state.resampler.counters.n_samples == 75
    bench.run(10.0)
    assert mids(bench) == [1, 2, 3, 4]


def test_told_change_saves_and_acknowledges_all_devices_that_messages_came_from(start: Starts) -> None:
    """Otherwise the others' states and the broker's idea of what we have would come apart."""
    bench = start(events={"k": 1, "n": 1})
    bench.run()
    start.deliver(bench, walking(0).replace(b"w1", b"w2"), "wearables/w2/imu")
    bench.run(0.5)
    assert mids(bench) == []
    start.deliver(bench, walking(0, knock=True))
    bench.run(0.5)
    assert bench.events()
    assert mids(bench) == [1, 2]
    assert set(start.keeper.restored()) == {"w1", "w2"}  # type: ignore[union-attr]


def test_what_a_kill_left_unacknowledged_is_taken_once(start: Starts) -> None:
    """Delivered again to the next start: what the file holds is known, what it does not is taken."""
    first = start()
    first.run()
    payloads = [walking(25 * i) for i in range(8)]
    for payload in payloads[:4]:
        start.deliver(first, payload)
    first.run(5.0)
    for payload in payloads[4:6]:
        start.deliver(first, payload)
    first.run(1.0)
    assert samples(first) == 150
    second = start(8.0)
    for payload in payloads[1:]:  # the acknowledgements of 1 to 3 did not arrive; the process knew nothing of 4 and 5
        start.deliver(second, payload)
    second.run()
    assert samples(second) == 200
    counters = second.service._state.devices["w1"].resampler.counters
    assert (counters.late, counters.duplicate, counters.clock_reset, counters.gap) == (0, 0, 0, 0)
    assert second.service.counters().refused == {"delivered_again": 3}
    assert second.service._state.devices["w1"].n_windows == (200 - 20) // 5 + 1


def test_messages_stamped_at_arrival_may_be_alike(start: Starts) -> None:
    """A device without a clock that lies still: only what the broker calls a second delivery is one."""
    profile = {"stamps": "arrival", "acc_unit": "m/s2", "gyr_unit": "rad/s"}
    bench = start(inputs=[{"pattern": "wearables/{device}/imu", "profile": profile}])
    payload = b'{"t_s": 1700000000, "acc": [0, 0, 9.8], "gyr": [0, 0, 0]}'
    for _ in range(3):
        start.deliver(bench, payload)
        bench.run(0.1)
    start.deliver(bench, payload, is_again=True)
    bench.run(0.1)
    assert samples(bench) == 3
    assert bench.service.counters().refused == {"delivered_again": 1}


def test_act_is_done_once_and_may_be_repeated_by_a_person(start: Starts) -> None:
    """Feedback that the broker delivers again is told once; a person who sends the same again is heard, and refused."""
    bench = start()
    bench.fall()
    topic, payload = "stream_occ/w1/set/feedback", json.dumps({"verdict": "fall"}).encode()
    n = len(bench.events())
    start.deliver(bench, payload, topic)
    bench.run()
    start.deliver(bench, payload, topic, is_again=True)
    bench.run()
    assert len(bench.events()) == n + 1
    start.deliver(bench, payload, topic)
    bench.run()
    assert len(bench.events()) == n + 1
    assert bench.service.counters().refused == {"delivered_again": 1, "not_in_this_state": 1}


def test_broker_that_waits_for_acknowledgements_gets_them(start: Starts) -> None:
    """Sixteen wait and none comes: a save is made then, not in 5 s."""
    bench = start()
    bench.run()
    for i in range(16):
        start.deliver(bench, walking(25 * i))
    bench.run(0.1)
    assert mids(bench) == []
    bench.run(0.1)
    assert mids(bench) == list(range(1, 17))


def test_disk_that_fails_holds_acknowledgements_but_not_for_ever(
    start: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For 10 s what is not on the disk is not acknowledged; then a service that hears nothing would be worse."""
    bench = start()
    bench.run()
    save = Store.save

    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Store, "save", fail)
    start.deliver(bench, walking(0))
    bench.run(5.0)
    start.deliver(bench, walking(25))
    bench.run(5.0)
    assert mids(bench) == []
    assert "state_not_kept" in bench.state()["faults"]
    bench.run(5.0)
    assert mids(bench) == [1, 2]
    start.deliver(bench, walking(50))
    monkeypatch.setattr(Store, "save", save)
    bench.run(5.0)
    assert mids(bench) == [1, 2, 3]
    assert "state_not_kept" not in bench.state()["faults"]
    start(30.0)
    assert start.keeper is not None
    known = Seen(start.keeper.seen())
    assert all(digest(TOPIC, walking(25 * i)) in known for i in range(3))  # those that a failed save had, too


def test_device_that_did_not_hear_what_was_taken_is_told_again(start: Starts) -> None:
    """It has sent all that it may without a word, and sends that again: known by its digests, told of once more.

    A word of QoS 0 that was lost would otherwise silence the device for good.
    """
    bench = start(inputs=[{"pattern": "wearables/{device}/imu", "resends": True}])
    up_to = "stream_occ/w1/received_up_to"
    messages = [json.dumps(json.loads(walking(25 * i)) | {"boot": "b", "seq": i}).encode() for i in range(3)]
    for n_told in (1, 2):
        for message in messages:
            start.deliver(bench, message)
        bench.run(2.0)
        assert bench.link.of(up_to) == n_told * [{"boot": "b", "seq": 2}]
    assert samples(bench) == 75
    bench.run(2.0)
    assert len(bench.link.of(up_to)) == 2


def test_without_a_file_messages_are_acknowledged_in_their_slice() -> None:
    """There is nothing to wait for."""
    bench = Bench()
    assert bench.inbox.put(
        Received.of(TOPIC, walking(0), is_retained=False, arrived_s=0.0, max_bytes=10_000, token=Token(1, 7, 1))
    )
    bench.run()
    assert mids(bench) == [7]


def test_seen_is_bounded_and_comes_back() -> None:
    """The oldest go; what was written is known again."""
    seen = Seen()
    for i in range(MAX_SEEN + 2):
        seen.add(digest("a", str(i).encode()))
    assert digest("a", b"1") not in seen
    assert digest("a", b"2") in seen
    again = Seen(seen.unsaved())
    assert seen.unsaved() == b""
    assert digest("a", b"2") in again
    assert digest("b", b"2") not in again
