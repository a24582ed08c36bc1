"""Floods of made-up devices, topics and commands: memory and tables stay as they are, and real devices stay in them."""

from __future__ import annotations

import gc
import random
import tracemalloc

import pytest

from tests.service_model import walking
from tests.unit.service_bench import JSON, T0_NS, Bench

MAX_DEVICES = 40
GOOD = JSON.encode(walking("anybody", 2, t0_ns=T0_NS))
REAL = ("anna", "bert", "carl")


def made_up(rng: random.Random) -> tuple[str, bytes]:
    """A topic nobody has, with nonsense, or with a sample that is as good as any."""
    name = f"{rng.getrandbits(64):x}"
    topic = rng.choice([f"wearables/{name}/imu", f"wearables/{name}/imu", f"{name}/x", f"stream_occ/{name}/set/ack"])
    return topic, rng.choice([GOOD, GOOD, b"", b"{}", rng.randbytes(20)])


def real_second(bench: Bench, second: int) -> None:
    for device in REAL:
        bench.send(50, device=device, first=50 * second)


@pytest.mark.slow
def test_made_up_devices_cost_bounded_memory_and_push_no_real_one_out() -> None:
    """30,000 messages of as many ids: in the second half nothing grows, and who is heard is scored throughout."""
    bench, rng = Bench(limits={"max_devices": MAX_DEVICES}), random.Random(5)
    sizes = []
    tracemalloc.start()
    try:
        for second in range(60):
            real_second(bench, second)
            for _ in range(500):
                bench.deliver(*made_up(rng))
            bench.run(1.0)
            bench.link.sent.clear()
            if second in (29, 59):
                bench.link.retained = {topic: payload for topic, payload in bench.link.retained.items() if payload}
                n_topics = len(bench.link.retained)
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    devices = bench.service.intake.devices
    assert len(devices) <= MAX_DEVICES
    assert set(bench.service._state.devices) <= set(devices)
    assert set(REAL) <= set(devices)
    assert n_topics <= 3 * MAX_DEVICES + 3
    assert all(bench.service._state.devices[device].n_windows > 590 for device in REAL)
    refused = bench.service.counters().refused
    assert set(refused) <= {"device_limit", "no_input", "unknown_device", "empty", "invalid_json", "no_samples",
                            "invalid_utf8"}  # fmt: skip
    assert bench.service.counters().messages == 60 * (500 + len(REAL))
    assert sizes[1] - sizes[0] < 200_000, sizes


def test_longest_silent_device_gives_its_place_away() -> None:
    """Least recently heard first, and only who is silent for long; 10 s are long where no window was scored."""
    bench = Bench(limits={"max_devices": 3, "idle_device_after_s": 100.0})
    for start_s, device in enumerate(("first", "second")):
        bench.send(50, device=device)
        bench.run(1.0 + start_s)
    bench.send(1, device="brief")
    bench.run(1.0)
    bench.send(1, device="new")
    bench.run(9.0)
    assert list(bench.service.intake.devices) == ["first", "second", "brief"]
    assert bench.service.counters().refused == {"device_limit": 1}
    bench.send(1, device="new")
    bench.run(2.0)
    assert list(bench.service.intake.devices) == ["first", "second", "new"]
    bench.send(1, device="new", first=1)
    bench.run(89.0)
    bench.send(1, device="newer", first=1)
    bench.run(0.5)
    assert list(bench.service.intake.devices) == ["second", "new", "newer"]
    assert bench.link.retained["stream_occ/first/state"] == b""


def test_who_has_an_open_alert_keeps_its_place_however_silent() -> None:
    """It may have died in the fall."""
    bench = Bench(limits={"max_devices": 1, "idle_device_after_s": 5.0})
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.run(3.0)
    assert bench.state()["state"] == "alarm"
    for _ in range(5):
        bench.send(1, device="other")
        bench.run(60.0)
    assert list(bench.service.intake.devices) == ["w1"]


def test_device_of_which_something_is_told_keeps_its_place_until_it_is_out() -> None:
    """Cause: a newcomer took it in the slice of a late feedback, and all that the slice had to tell was lost."""
    bench = Bench(limits={"max_devices": 2, "idle_device_after_s": 5.0})
    bench.fall()
    bench.command("cancel")
    bench.run(0.1)
    bench.send(100, device="w2", first=200)
    bench.run(6.0)
    bench.send(25, device="w2", first=300, knock=True)
    bench.send(25, device="w2", first=325)
    bench.command("feedback", b'{"verdict": "fall"}')
    bench.send(1, device="new", first=300)
    bench.run(0.5)
    assert bench.events()[-1] == ("resolved", 4)
    assert "alarm" in {state for state, _ in bench.events("w2")}
    assert list(bench.service.intake.devices) == ["w1", "w2"]
    bench.send(1, device="new", first=375)
    bench.run(1.5)
    assert list(bench.service.intake.devices) == ["w2", "new"]


@pytest.mark.parametrize("size", [0, 10, 5000])
def test_flood_of_commands_is_counted_and_keeps_nothing(size: int) -> None:
    """For devices that are known and that are not."""
    bench = Bench()
    bench.send(50)
    bench.run(1.0)
    for k in range(3000):
        bench.deliver(f"stream_occ/{'w1' if k % 2 else k}/set/ack", b"x" * size)
    while len(bench.inbox):
        bench.run(1.0)
    refused = bench.service.counters().refused
    assert sum(refused.values()) == 3000
    assert len(bench.service.intake.devices) == 1
