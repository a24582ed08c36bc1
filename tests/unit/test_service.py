"""The worker driven by hand: a fake link, a fake clock, a model that can be followed on paper."""

from __future__ import annotations

import json
import math
import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from stream_occ.inbox import Inbox, Received
from stream_occ.pace import SLICE_BYTES
from stream_occ.reporting import Reporter
from stream_occ.samples import NS_PER_S, SampleBlock
from tests.unit.service_bench import JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model


def test_first_message_makes_a_device_known_and_online() -> None:
    """Availability and state appear, retained, before there is enough for a score."""
    bench = Bench()
    bench.send(5)
    bench.run()
    assert bench.link.retained["stream_occ/w1/availability"] == b"online"
    assert bench.state()["state"] == "waiting"
    assert bench.state()["score"] is None
    assert bench.state()["last_seen"] == "2023-11-14T22:13:20.000Z"
    assert bench.state()["counters"] == {"samples": 5}


def test_messages_of_a_slice_are_scored_as_one_batch() -> None:
    """One step for all devices, with one block each, however many messages came."""
    bench = Bench()
    calls: list[list[tuple[str, int]]] = []
    pipeline = bench.service._pipeline
    step = type(pipeline).step

    class Counting:
        def step(self, state: Any, blocks: Any, now_ns: int, *, is_behind: bool = False) -> Any:
            calls.append([(block.device_id, len(block)) for block in blocks])
            return step(pipeline, state, blocks, now_ns)

    bench.service._pipeline = Counting()  # type: ignore[assignment]
    for device, first in (("a", 0), ("b", 0), ("a", 25)):
        bench.send(25, device=device, first=first)
    bench.run()
    assert calls == [[("a", 50), ("b", 25)]]
    assert bench.state("a")["counters"] == {"samples": 50, "windows": 7}


def test_a_backlog_is_worked_off_in_slices_of_bounded_size() -> None:
    """One slice of a full queue took more memory and time than there is (the watchdog ended the service after 60 s)."""
    bench = Bench()
    bench.service._bound.n_bytes = SLICE_BYTES  # as it is when some smaller ones took no time
    payload = b" " * 400_000 + b"{}"
    for _ in range(6):
        assert bench.deliver("wearables/w1/imu", payload)
    left = []
    for _ in range(3):
        bench.run()
        left.append((len(bench.inbox), bench.service.is_behind))
    assert left == [(4, True), (2, False), (0, False)]  # a third message would make more than 1 MiB
    assert bench.service.counters().refused == {"no_samples": 6}


def test_slices_are_as_large_as_can_be_decided_in_half_a_second() -> None:
    """64 KiB at first. Deciding at 20 kB/s: 10 kB from then on, which a floor of 64 KiB made slices of 3 s; at 100 kB/s
    50 kB; at 400 kB/s they grow to 200 kB; without any delay to 1 MiB, in steps of at most twice as much."""
    for rate, expected in (
        (2e4, [6, 1, 1]),
        (1e5, [6, 5, 5]),
        (4e5, [6, 13, 20, 20]),
        (math.inf, [6, 13, 26, 52, 104, 104]),
    ):
        bench = Bench()
        step = bench.service._work

        def work(*arguments: Any, step: Any = step, bench: Bench = bench, rate: float = rate) -> Any:
            yield from step(*arguments)
            bench.now_s += bench.service._n_bytes / rate

        bench.service._work = work  # type: ignore[method-assign]
        for _ in range(sum(expected)):
            assert bench.deliver("wearables/w1/imu", b" " * (10_000 - len("wearables/w1/imu")))
        found = []
        for _ in expected:
            n = len(bench.inbox)
            bench.run()
            found.append(n - len(bench.inbox))
        assert found == expected


def test_a_message_larger_than_a_slice_is_a_slice() -> None:
    """Nothing waits for ever."""
    bench = Bench(limits={"max_payload_bytes": 4_194_304})
    for _ in range(2):
        assert bench.deliver("wearables/w1/imu", b" " * 3_000_000)
    bench.run()
    assert len(bench.inbox) == 1


def test_end_works_off_what_waits() -> None:
    """The last slice is not the last one where more than a slice waits."""
    bench = Bench()
    for _ in range(4):
        assert bench.deliver("wearables/w1/imu", b" " * 900_000)
    bench.service.close()
    assert len(bench.inbox) == 0
    assert bench.service.counters().refused == {"invalid_json": 4}


def test_alert_is_announced_and_kept_until_a_person_ends_it() -> None:
    """event: QoS 1, not retained; alert: QoS 1, retained, from pending on; state follows at once."""
    bench = Bench()
    bench.send(40)
    bench.send(20, first=40, knock=True)
    bench.run()
    assert bench.events() == [("suspected", 0), ("pending", 1), ("alarm", 2)]
    [*_, event] = bench.link.of("stream_occ/w1/event")
    assert [alert["state"] for alert in bench.link.of("stream_occ/w1/alert")] == ["pending", "alarm"]
    assert json.loads(bench.link.retained["stream_occ/w1/alert"])["alert_id"] == event["alert_id"]
    assert bench.state()["state"] == "alarm"
    assert ("stream_occ/w1/event", 1, False) in [(topic, qos, kept) for topic, _, qos, kept in bench.link.sent]
    bench.send(400, first=60)
    bench.run(9.0)
    assert bench.state()["state"] == "alarm"
    bench.command("cancel")
    bench.run()
    assert bench.events()[3:] == [("resolved", 3)]
    assert bench.link.retained["stream_occ/w1/alert"] == b""
    assert bench.state()["state"] == "normal"


def test_scores_are_published_only_where_wanted() -> None:
    """One message a window, QoS 0, not retained."""
    for wanted in (False, True):
        bench = Bench(output={"publish_score": wanted})
        bench.send(30)
        bench.run()
        scores = bench.link.of("stream_occ/w1/score")
        assert [score["score"] for score in scores] == ([0.0, 0.0, 0.0] if wanted else [])


def test_state_is_published_on_change_and_at_its_interval() -> None:
    """Nothing new is said between, however many slices run."""
    bench = Bench(output={"state_interval_s": 10.0, "offline_after_s": 1000.0})
    bench.send(30)
    bench.run()
    topic = "stream_occ/w1/state"
    n = len(bench.link.of(topic))
    for _ in range(9):
        bench.run(1.0)
    assert len(bench.link.of(topic)) == n
    bench.run(1.0)
    assert len(bench.link.of(topic)) == n + 1


def test_between_ticks_only_devices_that_something_came_of_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """What changes by the clock alone is told four times a second: more often would cost what the scores cost."""
    looked_at: list[str] = []
    device = Reporter.device

    def noted(self: Reporter, device_id: str, *arguments: Any, **clocks: Any) -> None:
        looked_at.append(device_id)
        device(self, device_id, *arguments, **clocks)

    monkeypatch.setattr(Reporter, "device", noted)
    bench = Bench()
    for name in ("w1", "w2", "w3"):
        bench.send(5, device=name)
    bench.run()
    looked_at.clear()
    bench.send(5, device="w2", first=5)
    bench.command("mute", device="w3")
    bench.run(0.1)
    assert looked_at == ["w2", "w3"]
    bench.run(0.1)
    assert looked_at == ["w2", "w3"]
    bench.run(0.1)
    assert looked_at[2:] == ["w1", "w2", "w3"]


def test_silent_device_goes_offline_and_says_so_in_its_state() -> None:
    """Availability follows data, not the connection; it comes back with the next data."""
    bench = Bench(output={"offline_after_s": 10.0})
    bench.send(30)
    bench.run()
    bench.run(10.5)
    assert bench.link.retained["stream_occ/w1/availability"] == b"offline"
    assert bench.state()["faults"] == ["no_data"]
    bench.send(30, first=525)
    bench.run()
    assert bench.link.retained["stream_occ/w1/availability"] == b"online"
    assert bench.state()["faults"] == ["gap"]


def test_refused_message_is_counted_in_the_state_and_is_a_fault_for_a_while() -> None:
    """A device that sends nonsense is known by it, and is not online."""
    bench = Bench(output={"fault_hold_s": 60.0})
    assert bench.deliver("wearables/w1/imu", b"nonsense")
    bench.run()
    assert bench.state()["counters"] == {"invalid_json": 1}
    assert bench.state()["faults"] == ["invalid_json", "no_data"]
    assert bench.link.retained["stream_occ/w1/availability"] == b"offline"
    bench.run(61.0)
    assert bench.state()["faults"] == ["no_data"]
    assert bench.state()["counters"] == {"invalid_json": 1}


def test_stamps_far_from_the_wall_clock_refuse_their_message() -> None:
    """1970 and 2100; the limits are those of the configuration."""
    bench = Bench(stream={"max_past_s": 100.0, "max_future_s": 10.0})
    rows = np.tile([0.0, 0.0, 9.8], (1, 1))
    for offset_s, is_refused in ((-101, True), (-99, False), (9, False), (11, True)):
        before = bench.service.intake.refused["stamp_out_of_range"]
        t_ns = np.array([T0_NS + offset_s * NS_PER_S])
        bench.deliver("wearables/w1/imu", JSON.encode(SampleBlock("w1", t_ns, rows, np.zeros((1, 3)))))
        bench.run()
        assert (bench.service.intake.refused["stamp_out_of_range"] > before) == is_refused


def test_payload_above_the_limit_is_thrown_away_before_the_queue() -> None:
    """Only its size is kept, and counted."""
    bench = Bench(limits={"max_payload_bytes": 1000})
    bench.deliver("wearables/w1/imu", b"x" * 1001)
    assert bench.inbox.n_bytes == len("wearables/w1/imu")
    bench.run()
    assert bench.state()["counters"] == {"payload_too_large": 1}


def test_full_queue_refuses_the_newest_and_counts_it() -> None:
    """By number and by bytes, of topics too."""
    inbox = Inbox(2, 11)
    put = [inbox.put(Received("t", payload, False, 0.0, len(payload))) for payload in (b"12345", b"123456", b"1", b"")]
    assert put == [True, False, True, False]
    assert inbox.refused == {"queue_full": 2}
    found = [(message.payload, message.lost) for message in inbox.drain()]
    assert found == [(b"12345", None), (b"", {"t": 1}), (b"1", None)]
    assert not inbox.put(Received("ä" * 5, b"12", False, 0.0, 2))
    assert inbox.put(Received("t", b"1234567890", False, 0.0, 10))


def test_topics_count_in_a_slice_and_too_long_ones_are_refused_before_the_queue() -> None:
    """Five of 1,000 bytes are two slices of 3,000; 1,025 bytes are too many, 1,024 are not."""
    inbox = Inbox(100, 10_000)
    topics = ["t" * 1000] * 5 + ["t" * 1025, "ä" * 513, "ä" * 512]
    assert [inbox.put(Received(topic, b"", False, 0.0, 0)) for topic in topics] == [True] * 5 + [False, False, True]
    assert inbox.refused == {"topic_too_long": 2}
    assert inbox.n_bytes == 6024
    assert [len(inbox.drain(3000)) for _ in range(2)] == [3, 2]


def test_too_long_topics_are_counted_by_the_bridge() -> None:
    """As a message that came and was refused."""
    bench = Bench()
    assert not bench.deliver(f"wearables/{'x' * 60_000}/imu", b"")
    counters = bench.service.counters()
    assert (counters.messages, counters.refused) == (1, {"topic_too_long": 1})


def test_whoever_waits_for_a_message_is_told_of_it() -> None:
    """At once where one waits already; otherwise when it comes, or when the time is over."""
    inbox, is_over = Inbox(2, 10), threading.Event()

    def wait() -> None:
        inbox.wait(60.0)
        is_over.set()

    inbox.wait(0.001)
    threading.Thread(target=wait, daemon=True).start()
    assert not is_over.is_set()
    inbox.put(Received("t", b"", False, 0.0, 0))
    assert is_over.wait(10)
    inbox.wait(60.0)


def test_devices_beyond_the_limit_are_refused_and_counted_by_the_bridge() -> None:
    """Those that are known go on."""
    bench = Bench(limits={"max_devices": 2})
    for device in ("a", "b", "c"):
        bench.send(5, device=device)
    bench.run()
    assert sorted(bench.service.intake.devices) == ["a", "b"]
    assert bench.service.counters().refused == {"device_limit": 1}


def test_device_that_never_sent_anything_usable_gives_its_place_away() -> None:
    """A flood of ids with nonsense does not keep a real device out; its retained topics are taken away."""
    bench = Bench(limits={"max_devices": 2})
    for device in ("x", "y"):
        bench.deliver(f"wearables/{device}/imu", b"?")
    bench.run()
    bench.send(5, device="a")
    bench.run()
    assert sorted(bench.service.intake.devices) == ["a", "y"]
    assert bench.link.retained["stream_occ/x/state"] == b""


def test_silent_device_is_forgotten_but_not_one_with_an_open_alert() -> None:
    """After forget_device_after_s its state is dropped; an open alert is never dropped in silence."""
    bench = Bench(limits={"forget_device_after_s": 100.0})
    bench.send(30, device="quiet")
    bench.send(20, device="fallen")
    bench.send(20, device="fallen", first=20, knock=True)
    bench.run()
    bench.run(200.0)
    assert list(bench.service.intake.devices) == ["fallen"]
    assert list(bench.service._state.devices) == ["fallen"]


def test_only_listed_devices_are_heard_where_a_list_is_given() -> None:
    """limits.allowed_devices."""
    bench = Bench(limits={"allowed_devices": ["a"]})
    bench.send(5, device="a")
    bench.send(5, device="b")
    bench.run()
    assert list(bench.service.intake.devices) == ["a"]
    assert bench.service.counters().refused == {"device_not_listed": 1}


def test_unknown_topics_bad_ids_own_topics_and_retained_messages_are_counted() -> None:
    """None of them makes a device known, but for the retained one's sender."""
    bench = Bench()
    for topic in ("other/topic", "wearables/a b/imu", "stream_occ/w1/state"):
        bench.deliver(topic, b"{}")
    bench.run()
    assert bench.service.counters().refused == {"bad_device_id": 1, "no_input": 1, "own_topic": 1}
    assert bench.service.intake.devices == {}
    bench.deliver("wearables/w1/imu", b"{}", is_retained=True)
    bench.run()
    assert bench.service.counters().refused["retained"] == 1


def test_failing_step_costs_only_the_device_that_makes_it_fail() -> None:
    """The others' windows are scored; the failure is counted as internal_error."""
    bench = Bench()
    pipeline = bench.service._pipeline
    step = type(pipeline).step

    class Fragile:
        def step(self, state: Any, blocks: Any, now_ns: int, *, is_behind: bool = False) -> Any:
            if any(block.device_id == "bad" for block in blocks):
                raise RuntimeError("bug")
            return step(pipeline, state, blocks, now_ns)

    bench.service._pipeline = Fragile()  # type: ignore[assignment]
    bench.send(30, device="good")
    bench.send(30, device="bad")
    bench.run()
    assert bench.state("good")["counters"]["windows"] == 3
    assert bench.state("bad")["counters"] == {"internal_error": 1}


def test_nothing_retained_is_queued_while_the_broker_is_away_and_all_is_said_on_return() -> None:
    """The outbox keeps events, the link alerts; states are not kept, and come anew with the connection."""
    bench = Bench()
    bench.link.is_connected = False
    bench.send(40)
    bench.send(20, first=40, knock=True)
    bench.run()
    assert {topic for topic, *_ in bench.link.sent} == {"stream_occ/w1/alert"}
    bench.link.is_connected = True
    bench.link.retained.clear()  # a broker that lost everything
    bench.service.renew()
    bench.run()
    assert {topic.rpartition("/")[2] for topic in bench.link.retained} == {"availability", "state", "alert", "counters"}
    assert bench.state()["state"] == "alarm"
    assert bench.events() == [("suspected", 0), ("pending", 1), ("alarm", 2)]


def test_rate_other_than_the_profiles_is_a_fault() -> None:
    """50 Hz come where 100 Hz are configured, for 5 s: a link that stutters is none."""
    profile = {"nominal_rate_hz": 100}
    bench = Bench(inputs=[{"pattern": "wearables/{device}/imu", "profile": profile}])
    bench.send(80)
    bench.run()
    assert (bench.state()["rate_hz"], bench.state()["faults"]) == (50.0, [])
    bench.send(20, first=80)
    bench.run(5.0)
    assert (bench.state()["rate_hz"], bench.state()["faults"]) == (50.0, ["rate_mismatch"])


def test_batches_stamped_too_fast_are_named_whatever_the_profile_says() -> None:
    """Ten samples of 0.2 s in the first half of it: their mean rate is right, and half of each window is made up."""
    bench = Bench()
    k = np.arange(500)
    t_ns = T0_NS + (k // 10 * 200 + k % 10 * 10) * 1_000_000
    rng = np.random.default_rng(7)
    acc, gyr = rng.normal([0.0, 0.0, 9.8], 0.1, (500, 3)), rng.normal(0.0, 0.01, (500, 3))
    for i in range(0, 500, 10):
        rows = slice(i, i + 10)
        bench.deliver("wearables/w1/imu", JSON.encode(SampleBlock("w1", t_ns[rows], acc[rows], gyr[rows])))
        bench.run(0.2)
    assert bench.state()["rate_hz"] == pytest.approx(50.0, rel=0.1)
    assert "rate_mismatch" in bench.state()["faults"]
    assert bench.state()["state"] == "waiting"
    assert bench.service.counters().windows == 0


def test_too_slow_a_stream_is_a_fault_and_never_normal() -> None:
    """20 Hz where a model of 50 Hz needs 22.5: windows are made, and nothing below the threshold is called normal."""
    bench = Bench()
    bench.send(80, hz=20)
    bench.run()
    assert bench.state()["rate_hz"] == 20.0
    assert bench.state()["faults"] == ["rate_too_low", "unscorable"]
    assert bench.state()["state"] == "waiting"


def test_blind_model_is_a_fault_of_every_device_and_a_warning_at_start(caplog: pytest.LogCaptureFixture) -> None:
    """A model for research alone may run, but never in silence: also where its windows are normal."""
    blind = "accepts all 200 injected anomalies: for research alone"
    bench = Bench(replace(toy_model(), metadata={"training": {"blind": blind}}))
    assert [record.getMessage() for record in caplog.records] == [
        f"model toy {blind}; every device has the fault blind_model"
    ]
    for device in ("w1", "w2"):
        bench.send(80, device=device)
    bench.run()
    assert [bench.state(device)["faults"] for device in ("w1", "w2")] == [["blind_model"], ["blind_model"]]
    assert bench.state()["state"] == "waiting"
    bench.run(3600.0)
    assert bench.state()["faults"] == ["blind_model", "no_data"]


def test_end_says_that_nobody_watches_any_more() -> None:
    """The last slice is run, then every device is offline."""
    bench = Bench()
    bench.send(30)
    bench.service.close()
    assert bench.link.retained["stream_occ/w1/availability"] == b"offline"
    assert bench.state()["counters"]["windows"] == 3


def test_first_pattern_that_matches_decides() -> None:
    """Patterns are tried in the order of the configuration; + and # match as MQTT says."""
    inputs = [{"pattern": "a/+/{device}", "codec": "csv"}, {"pattern": "a/{device}/#", "codec": "json"}]
    bench = Bench(inputs=inputs)
    bench.deliver("a/x/w1", b"1")
    bench.deliver("a/w2", b"1")
    bench.deliver("a/w2/y/z", b"1")
    bench.run()
    assert bench.state("w1")["counters"] == {"wrong_shape": 1}
    assert bench.state("w2")["counters"] == {"invalid_json": 2}


def test_wearer_whom_nobody_scores_is_not_called_normal() -> None:
    """Samples that come too late for a window: waiting, with the fault not_scored, and normal again with good ones."""
    bench = Bench()
    bench.send(50)
    bench.run()
    assert bench.state()["state"] == "normal"
    for _ in range(6):
        bench.send(10)  # all late
        bench.run(10.0)
    assert bench.link.retained["stream_occ/w1/availability"] == b"online"
    assert bench.state()["state"] == "waiting"
    assert "not_scored" in bench.state()["faults"]
    bench.send(50, first=50)
    bench.run()
    assert bench.state()["state"] == "normal"
    assert "not_scored" not in bench.state()["faults"]


def test_silent_wearer_is_not_called_normal() -> None:
    """Offline devices were `normal` for ever: what was true of the last window is no state of the wearer."""
    bench = Bench()
    bench.send(50)
    bench.run()
    bench.run(1000.0)
    assert (bench.state()["state"], bench.state()["faults"]) == ("waiting", ["no_data"])


def test_alert_without_room_in_the_queue_is_sent_when_there_is() -> None:
    """Event and retained alert wait, in their order, and are not forgotten."""
    bench = Bench()
    bench.link.has_room = False
    bench.send(50, knock=True)
    bench.run()
    assert bench.state()["state"] == "alarm"
    assert bench.link.of("stream_occ/w1/event") == []
    bench.link.has_room = True
    bench.run(0.1)
    names = [topic.rpartition("/")[2] for topic, *_ in bench.link.sent if topic.endswith(("event", "alert"))]
    assert names == ["event", "event", "event", "alert", "alert"]  # suspected is not retained
    assert bench.events() == [("suspected", 0), ("pending", 1), ("alarm", 2)]
