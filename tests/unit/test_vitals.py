"""What the worker notes of itself: counts by state, and whether data that arrive are scored."""

from __future__ import annotations

import pytest

from stream_occ.vitals import BOUNDS_S, Histogram, Monitor, ScoringWatch, Vitals
from tests.unit.service_bench import Bench


@pytest.mark.parametrize(
    ("slices", "expected"),
    [  # (now_s, messages, windows) of slices; horizon 10 s
        ([(0, 0, 0), (100, 0, 0)], True),  # nothing comes: there is nothing to score
        ([(0, 1, 0), (5, 2, 0), (10, 3, 0)], True),  # a window is not full at once
        ([(0, 1, 0), (5, 2, 0), (10.1, 3, 0)], False),  # data arrive and nothing is scored
        ([(0, 1, 0), (5, 2, 1), (10.1, 3, 1), (15, 4, 1)], True),
        ([(0, 1, 0), (5, 2, 1), (10, 3, 1), (15.1, 4, 1)], False),
        ([(0, 1, 0), (5, 2, 0), (11, 3, 0), (12, 4, 1)], True),  # it goes again
        ([(0, 1, 0), (6, 2, 1), (9, 3, 1), (17, 3, 1), (18.9, 3, 1), (20, 3, 1)], True),  # silence is no fault
        ([(0, 1, 0), (8, 2, 0), (16, 3, 0), (26.1, 3, 0)], True),  # and takes an old fault with it
        ([(0, 1, 0), (20, 2, 0), (40, 3, 0), (60, 4, 0)], True),  # too seldom to be judged
    ],
)
def test_data_that_arrive_and_are_not_scored_are_told_from_silence(
    slices: list[tuple[float, int, int]], expected: bool
) -> None:
    """Only messages that came for longer than the horizon after the last score count against it."""
    watch = ScoringWatch(10.0)
    assert [watch.push(*slice_) for slice_ in slices][-1] is expected


def test_histogram_counts_up_to_each_bound_with_the_bound_itself() -> None:
    """Cumulative, as Prometheus wants it; what is longer than the last bound is in +Inf alone."""
    histogram = Histogram()
    for duration_s in (0.001, 0.005, 0.006, 30.0, 99.0):
        told = histogram.push(duration_s)
    assert dict(zip(BOUNDS_S, told.at_most, strict=True)) == dict.fromkeys(BOUNDS_S, 3) | {
        0.005: 2,
        30.0: 4,
        float("inf"): 5,
    }
    assert told.sum_s == pytest.approx(129.012)


def noted(bench: Bench, monitor: Monitor, seconds: float) -> Vitals:
    """After a slice that took no time."""
    bench.run(seconds)
    monitor.note(bench.service.counters(), bench.service.intake, started_s=bench.now_s, now_s=bench.now_s)
    assert monitor.last is not None
    return monitor.last


def test_devices_alerts_and_faults_are_counted_by_name_of_the_state() -> None:
    """One device walks, one fell, one sends nonsense; of no device is there a name."""
    bench = Bench()
    monitor = Monitor(bench.inbox, 10.0)
    bench.send(60, device="walks")
    bench.send(40, device="fell")
    bench.send(20, device="fell", first=40, knock=True)
    assert bench.deliver("wearables/broken/imu", b"nonsense")
    bench.now_s = 1.5
    vitals = noted(bench, monitor, 0.25)
    assert vitals.devices == {"normal": 1, "alarm": 1, "waiting": 1}
    assert vitals.open_alerts == {"alarm": 1}
    assert (vitals.faults["invalid_json"], vitals.faults["no_data"]) == (1, 1)
    assert (vitals.counters.messages, vitals.counters.refused) == (4, {"invalid_json": 1})
    assert vitals.latencies.sum_s == pytest.approx(1.75)
    assert not any(name in repr(vitals) for name in ("walks", "fell", "broken"))


def test_messages_that_cannot_be_read_are_data_and_those_of_others_are_none() -> None:
    """A codec that is set wrong makes the service unready; a neighbour's devices do not."""
    for topic, expected in (("wearables/w1/imu", False), ("wearables/theirs/imu", True)):
        bench = Bench(limits={"allowed_devices": ["w1"]})
        monitor = Monitor(bench.inbox, 10.0)
        for _ in range(12):
            assert bench.deliver(topic, b"nonsense")
            vitals = noted(bench, monitor, 1.0)
        assert vitals.is_scoring is expected


@pytest.mark.parametrize(
    ("kind", "payload"),
    [("received", b'{"alert_id": "x", "seq": 0, "receiver": "ward"}'), ("mute", b'{"minutes": 5}'), ("cancel", b"{")],
)
def test_what_people_and_receivers_say_while_devices_are_silent_is_no_data(kind: str, payload: bytes) -> None:
    """A display that says every 3 s what it has, for a minute, makes no service unready."""
    bench = Bench(receivers=["ward"])
    monitor = Monitor(bench.inbox, 10.0)
    for second in range(4):
        bench.send(50, first=50 * second)
        noted(bench, monitor, 1.0)
    for _ in range(20):
        bench.command(kind, payload)
        assert noted(bench, monitor, 3.0).is_scoring


def test_scored_data_keep_the_service_ready() -> None:
    """Windows of one device are enough."""
    bench = Bench()
    monitor = Monitor(bench.inbox, 3.0)
    for second in range(8):
        bench.send(50, first=50 * second)
        assert noted(bench, monitor, 1.0).is_scoring
