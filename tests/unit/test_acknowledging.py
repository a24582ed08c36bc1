"""When messages are acknowledged, and what a second delivery does: driven by hand over a real file."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ import keeping
from stream_occ.inbox import Received, Token
from stream_occ.keeping import Keeper
from stream_occ.pipeline import Pipeline
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

    def deliver(
        self, bench: Bench, payload: bytes, topic: str = TOPIC, *, is_again: bool = False, mid: int | None = None
    ) -> int:
        """mid: where it is delivered again with the id that it had."""
        mid = mid or next(self.mids)
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


AT_ARRIVAL = {"stamps": "arrival", "acc_unit": "m/s2", "gyr_unit": "rad/s"}


def test_messages_stamped_at_arrival_may_be_alike(start: Starts) -> None:
    """A device without a clock that lies still: a second delivery has the id of a first that was taken, also by the
    process before; any other is another message, though it is delivered again, or has an id that is used anew."""
    inputs = [{"pattern": "wearables/{device}/imu", "profile": AT_ARRIVAL}]
    bench = start(inputs=inputs)
    payload = b'{"t_s": 1700000000, "acc": [0, 0, 9.8], "gyr": [0, 0, 0]}'
    deliveries = [(1, False), (2, False), (3, False), (3, True), (4, True), (4, True), (2, False)]
    for mid, is_again in deliveries:
        start.deliver(bench, payload, mid=mid, is_again=is_again)
        bench.run(0.1)
    assert samples(bench) == 5
    assert bench.service.counters().refused == {"delivered_again": 2}
    bench.run(5.0)
    start.deliver(bench, payload, mid=5)
    bench.run(0.1)  # taken, and not saved
    second = start(bench.now_s + 1.0, inputs=inputs)
    for mid in (4, 5, 6):
        start.deliver(second, payload, mid=mid, is_again=True)
        second.run(0.1)
    assert samples(second) == 7
    assert second.service.counters().refused == {"delivered_again": 1}


def test_act_is_done_once_and_may_be_repeated_by_a_person(start: Starts) -> None:
    """Feedback that the broker delivers again is told once; a person who sends the same again is heard, and refused."""
    bench = start()
    bench.fall()
    topic, payload = "stream_occ/w1/set/feedback", json.dumps({"verdict": "fall"}).encode()
    n = len(bench.events())
    mid = start.deliver(bench, payload, topic)
    bench.run()
    start.deliver(bench, payload, topic, mid=mid, is_again=True)
    bench.run()
    assert len(bench.events()) == n + 1
    for is_again in (False, True):  # True: it was sent to us before, and did not come
        start.deliver(bench, payload, topic, is_again=is_again)
        bench.run()
    assert len(bench.events()) == n + 1
    assert bench.service.counters().refused == {"delivered_again": 1, "not_in_this_state": 2}


@pytest.mark.parametrize("is_killed", [False, True])
def test_second_press_is_an_act_though_the_first_delivery_was_lost(start: Starts, is_killed: bool) -> None:
    """PRESS cancels an alert; the next one's PRESS comes only the second time, over another link or to another start.

    Once more after that it is known: the third alert is not cancelled by what was meant for the second.
    """
    bench, topic, mids_ = start(), "stream_occ/w1/set/cancel", iter((900, 901))
    for k in range(3):
        at = 2000 * k
        bench.now_s = at / 50
        bench.send(100, first=at)
        bench.send(25, first=at + 100, knock=True)
        bench.send(175, first=at + 125, lying=True)
        bench.run(6.0)
        assert bench.state()["state"] == "pending"
        if k and is_killed:
            bench = start(bench.now_s + 0.5)
        mid = next(mids_, 901)
        start.deliver(bench, b"PRESS", topic, mid=mid, is_again=k > 0)
        bench.run(0.25)
        assert bench.state()["state"] == ("pending" if k == 2 else "waiting" if is_killed and k else "normal")
    assert bench.service.counters().refused == {"delivered_again": 1}


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


@pytest.fixture
def saved(monkeypatch: pytest.MonkeyPatch) -> list[set[str]]:
    """The devices of each save."""
    found: list[set[str]] = []
    save = Store.save

    def noted(store: Store, devices: dict[str, Any], *arguments: Any, **named: Any) -> None:
        save(store, devices, *arguments, **named)
        found.append(set(devices))

    monkeypatch.setattr(Store, "save", noted)
    return found


def of_device(payload: bytes, name: str) -> tuple[bytes, str]:
    return payload.replace(b"w1", name.encode()), f"wearables/{name}/imu"


def test_many_devices_are_saved_in_turns(start: Starts, saved: list[set[str]]) -> None:
    """150 that send four times a second: 32 at most are written at once, each within the interval and a slice."""
    bench, names = start(), [f"w{i:03}" for i in range(150)]
    for i in range(60):
        for name in names:
            start.deliver(bench, *of_device(walking(12 * i, 12), name))
        bench.run(0.25)
        acknowledged = mids(bench)
        assert acknowledged == list(range(1, len(acknowledged) + 1))
        assert len(acknowledged) >= 150 * (i + 1 - 22)
    assert max(map(len, saved)) == 32
    assert all(set().union(*saved[i : i + 5]) == set(names) for i in range(len(saved) - 4))
    assert 12 <= len(saved) <= 15


def test_alert_is_written_at_once_with_its_own_device(start: Starts, saved: list[set[str]]) -> None:
    """150 wait; of those behind the 32 that wait longest only the one that falls is written."""
    bench, names = start(events={"k": 1, "n": 1}), [f"w{i:03}" for i in range(150)]
    bench.run()
    for name in names:
        start.deliver(bench, *of_device(walking(0), name))
    while len(bench.inbox):
        bench.run(0.1)
    assert saved == []
    start.deliver(bench, *of_device(walking(0, knock=True), "w150"))
    bench.run(0.1)
    assert bench.events("w150")
    assert saved == [{*names[:32], "w150"}]
    assert mids(bench) == list(range(1, 33))


@pytest.mark.parametrize("seed", range(4))
def test_kill_or_loss_of_the_link_between_two_saves_loses_and_doubles_nothing(
    start: Starts, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Seven devices, two a save: what is acknowledged is in the file; the rest, delivered again, is not taken twice."""
    monkeypatch.setattr(keeping, "PIECE", 2)
    rng, names = np.random.default_rng(seed), [f"w{i}" for i in range(1, 8)]
    bench, connection, mid = start(), 1, count(1)
    n_sent, unacknowledged = dict.fromkeys(names, 0), dict[int, tuple[str, int]]()

    def deliver(name: str, i: int, *, is_again: bool = False) -> None:
        payload, topic = of_device(walking(12 * i, 12), name)
        token = Token(connection, next(mid), 1)
        unacknowledged[token.mid] = (name, i)
        named: dict[str, Any] = {"is_retained": False, "arrived_s": bench.now_s, "max_bytes": 100_000}
        assert bench.inbox.put(Received.of(topic, payload, token=token, is_again=is_again, **named))

    for _ in range(150):
        for name in rng.permutation(names)[: rng.integers(0, 8)].tolist():
            deliver(name, n_sent[name])
            n_sent[name] += 1
        bench.run(float(rng.uniform(0.0, 0.6)))
        for token in bench.link.acknowledged:
            unacknowledged.pop(token.mid, None)
        kept = start.keeper.restored()  # type: ignore[union-attr]
        for name in names:
            state = kept[name].state if name in kept else None
            oldest = min((i for each, i in unacknowledged.values() if each == name), default=n_sent[name])
            assert oldest * 12 <= (0 if state is None else state.resampler.counters.n_samples) <= n_sent[name] * 12
        is_kill, is_loss = rng.random(2) < 0.06
        if is_kill:
            bench = start(bench.now_s)
        if is_kill or is_loss:
            again, connection = list(unacknowledged.values()), connection + 1
            unacknowledged.clear()
            for name, i in again:
                deliver(name, i, is_again=True)
    for _ in range(24):
        bench.run(0.5)
    for name in names:
        device = bench.service._state.devices[name]
        counters = device.resampler.counters
        assert counters.n_samples == 12 * n_sent[name]
        assert (counters.late, counters.duplicate, counters.clock_reset, counters.gap) == (0, 0, 0, 0)
        assert device.n_windows == max(0, (12 * n_sent[name] - 20) // 5 + 1)
    assert {token.mid for token in bench.link.acknowledged} >= set(unacknowledged)
    assert set(bench.service.counters().refused) <= {"delivered_again"}


def test_device_whose_samples_make_the_pipeline_fail_holds_no_other_up(
    start: Starts, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its state stays what it was, so that no save has it; a device is written at a time."""
    monkeypatch.setattr(keeping, "PIECE", 1)
    bench = start()
    push = Pipeline._push_block

    def fails(pipeline: Pipeline, device: Any, block: SampleBlock, *more: Any) -> Any:
        if block.device_id == "w1":
            raise ValueError("a mistake")
        return push(pipeline, device, block, *more)

    monkeypatch.setattr(Pipeline, "_push_block", fails)
    bench.run()
    for i in range(5):
        for name in ("w1", "w2", "w3"):
            start.deliver(bench, *of_device(walking(12 * i, 12), name))
        bench.run(0.25)
    for _ in range(20):
        bench.run(0.25)
    assert mids(bench) == list(range(1, 16))
    assert bench.service.counters().refused == {"internal_error": 5}


class Disk:
    """A disk that is full until it is not."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full, save = False, Store.save

        def saved(store: Store, *arguments: Any, **named: Any) -> None:
            if self.is_full:
                raise OSError("no space left on device")
            save(store, *arguments, **named)

        monkeypatch.setattr(Store, "save", saved)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return Disk(monkeypatch)


def test_nothing_is_acknowledged_while_the_disk_is_full(start: Starts, disk: Disk) -> None:
    """For two and a half minutes of four messages a second: all of them come again after a kill, and none is doubled.

    Until the disk has room again; then what a failed save would have held is known, too.
    """
    bench = start()
    bench.run()
    disk.is_full = True
    n = 600
    for i in range(n):
        start.deliver(bench, walking(12 * i, 12))
        bench.run(0.25)
    assert mids(bench) == []
    assert "state_not_kept" in bench.state()["faults"]
    assert bench.service.counters().dropped == {}
    disk.is_full = False
    bench.run(5.0)
    assert mids(bench) == list(range(1, n + 1))
    assert "state_not_kept" not in bench.state()["faults"]
    start(bench.now_s)
    assert start.keeper is not None
    known = Seen(start.keeper.seen())
    assert all(digest(TOPIC, walking(12 * i, 12)) in known for i in range(n))


class Window:
    """A broker that has no more than so many messages under way; the others wait in its queue."""

    def __init__(self, start: Starts, bench: Bench, size: int) -> None:
        self.start, self.bench, self.size = start, bench, size
        self.queue: list[bytes] = []
        self.n_sent = 0

    def play(self, payloads: Iterable[bytes], every_s: float) -> int:
        """A message each every_s; the most that waited in the queue."""
        longest = 0
        for payload in payloads:
            self.queue.append(payload)
            while self.queue and self.n_sent - len(self.bench.link.acknowledged) < self.size:
                self.start.deliver(self.bench, self.queue.pop(0))
                self.n_sent += 1
            longest = max(longest, len(self.queue))
            self.bench.run(every_s)
        return longest


@pytest.mark.parametrize(("size", "waited_s"), [(1, 10), (10, 10), (20, 3), (1000, 0)])
def test_full_disk_makes_no_broker_fall_silent(start: Starts, disk: Disk, size: int, waited_s: int) -> None:
    """Whatever it has under way: 3 s are waited, once, and what is let go for it is counted.

    Longer where so few are under way that it stands still for 5 s from save to save anyway. At least half of what the
    broker has under way, or of 400 that we allow, is kept back.
    """
    bench = start(limits={"queue_messages": 400})
    window = Window(start, bench, size)
    window.play([walking(12 * i, 12) for i in range(8)], 0.25)
    disk.is_full = True
    n_before = len(bench.link.acknowledged)
    longest = window.play([walking(12 * i, 12) for i in range(8, 800)], 0.25)
    assert longest <= 4 * (waited_s + 1) + 8
    window.play([], 0.25)
    n_unsaved = len(bench.link.acknowledged) - n_before
    assert bench.service.counters().dropped == {"acknowledged_unsaved": n_unsaved}
    assert min(size, 400) // 2 <= window.n_sent - len(bench.link.acknowledged) <= min(size, 400)
    assert samples(bench) >= 12 * (800 - 52)
    disk.is_full = False
    bench.run(5.0)
    assert len(bench.link.acknowledged) == window.n_sent
    assert bench.service.counters().dropped == {"acknowledged_unsaved": n_unsaved}


def test_fall_is_told_however_long_the_disk_is_full_and_however_little_the_broker_sends(
    start: Starts, disk: Disk
) -> None:
    """Twenty under way, a minute on a full disk, then a fall: pending within the seconds that it takes to be told."""
    bench = start()
    bench.run()
    disk.is_full = True
    window = Window(start, bench, 20)
    window.play([walking(12 * i, 12) for i in range(240)], 0.25)
    assert bench.events() == []
    k = np.arange(2880, 3180)
    acc = np.tile([0.0, 9.8, 0.0], (300, 1)) + 0.05 * np.sin(k)[:, None]
    acc[:25] = [20.0, 0.0, 9.8]
    block = SampleBlock("w1", T0_NS + k * (NS_PER_S // 50), acc, 0.001 * np.cos(np.outer(k, [1, 2, 3])))
    parts = [replace(block, **{f: getattr(block, f)[i : i + 12] for f in ("t_ns", "acc_ms2", "gyr_rads")}) for i in
             range(0, 300, 12)]  # fmt: skip
    window.play(map(JSON.encode, parts), 0.25)
    assert [state for state, _ in bench.events()][-1] == "pending"


def test_silence_of_devices_is_not_taken_for_the_brokers_again_and_again(start: Starts, disk: Disk) -> None:
    """A message each 8 s: none is let go; where nothing comes for an hour half of them are, once."""
    bench = start()
    for i in range(30):
        disk.is_full = i > 4
        start.deliver(bench, walking(12 * i, 12))
        bench.wait(8.0)
    assert bench.service.counters().dropped == {}
    bench.wait(3600.0)
    assert bench.service.counters().dropped == {"acknowledged_unsaved": 13}


def test_numbering_device_is_told_of_what_is_not_saved_only_where_it_would_stop(start: Starts, disk: Disk) -> None:
    """It sends 200 messages without a word: at 150 it gets one, and what it so forgets is counted."""
    bench = start(inputs=[{"pattern": "wearables/{device}/imu", "resends": True}])
    bench.run()
    disk.is_full = True
    for i in range(400):
        message = json.loads(walking(12 * i, 12)) | {"boot": "b", "seq": i}
        start.deliver(bench, json.dumps(message).encode())
        bench.run(0.25)
    assert [word["seq"] for word in bench.link.of("stream_occ/w1/received_up_to")] == [149, 299]
    assert bench.service.counters().dropped == {"told_unsaved": 300}
    assert samples(bench) == 4800


def test_what_an_earlier_connection_delivered_takes_no_place(start: Starts, disk: Disk) -> None:
    """A broker that connects anew each second on a full disk delivers all again: tokens do not pile up."""
    bench = start(limits={"queue_messages": 40})
    bench.run()
    disk.is_full = True
    for connection in range(1, 30):
        for i in range(20):
            token = Token(connection, i + 1, 1)
            named: dict[str, Any] = {"is_retained": False, "arrived_s": bench.now_s, "max_bytes": 10_000}
            assert bench.inbox.put(Received.of(TOPIC, walking(12 * i, 12), token=token, is_again=True, **named))
        bench.run(1.0)
    assert bench.link.acknowledged == []
    assert samples(bench) == 240


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
    assert digest("a", b"2") in again
    assert digest("b", b"2") not in again
