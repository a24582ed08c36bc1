"""The signals behind an alert."""

from __future__ import annotations

import numpy as np

from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.waveform import SignalMemory, Signals


def block(first: int, n: int, *, device: str = "w1") -> SampleBlock:
    """50 Hz; sample k has acc (k, -k, 9.8) and gyr (0, 0, k / 2)."""
    k = np.arange(first, first + n)
    acc = np.stack([k, -k, np.full(n, 9.8)], axis=1).astype(float)
    gyr = np.stack([0 * k, 0 * k, k / 2], axis=1)
    return SampleBlock(device, k * 20_000_000, acc, gyr)


def test_cut_is_the_window_that_ends_at_the_stamp() -> None:
    """Samples 26 to 50 for a window of half a second that ends at 1 s, whatever blocks they came in."""
    memory = SignalMemory(keep_s=10.0, max_samples=10_000)
    for first, n in ((0, 7), (7, 30), (37, 63)):
        memory.push(block(first, n))
    cut = memory.cut(NS_PER_S, window_s=0.5, rate_hz=50.0)
    assert cut is not None
    assert cut.t0_ns == 520_000_000
    k = np.arange(26, 51)
    np.testing.assert_array_equal(cut.values, np.stack([k, -k, 0 * k + 9.8, 0 * k, 0 * k, k / 2], axis=1).astype("f4"))


def test_late_and_doubled_samples_are_put_in_order() -> None:
    """The same cut from blocks that came the wrong way round and twice."""
    straight, mixed = SignalMemory(10.0, 10_000), SignalMemory(10.0, 10_000)
    straight.push(block(0, 60))
    for part in (block(30, 30), block(0, 30), block(10, 20)):
        mixed.push(part)
    one = straight.cut(NS_PER_S, window_s=0.5, rate_hz=50.0)
    other = mixed.cut(NS_PER_S, window_s=0.5, rate_hz=50.0)
    assert one is not None
    assert other is not None
    np.testing.assert_array_equal(one.values, other.values)


def test_after_a_hole_the_cut_begins_anew() -> None:
    """Nothing is invented between."""
    memory = SignalMemory(10.0, 10_000)
    memory.push(block(0, 10))
    memory.push(block(45, 6))
    cut = memory.cut(NS_PER_S, window_s=1.0, rate_hz=50.0)
    assert cut is not None
    assert (cut.t0_ns, len(cut.values)) == (900_000_000, 6)


def test_nothing_near_is_no_waveform() -> None:
    """A deadline of a device that fell silent has no window."""
    memory = SignalMemory(10.0, 10_000)
    assert memory.cut(NS_PER_S, window_s=0.5, rate_hz=50.0) is None
    memory.push(block(0, 60))
    assert memory.cut(60 * NS_PER_S, window_s=0.5, rate_hz=50.0) is None


def test_memory_is_bounded_in_time_and_in_samples() -> None:
    """Old blocks go; a device that sends far too many samples keeps its latest ones."""
    memory = SignalMemory(keep_s=1.0, max_samples=80)
    for first in range(0, 500, 25):
        memory.push(block(first, 25))
        memory.trim()
    assert sum(len(part) for part in memory._blocks) == 75
    memory.push(block(500, 1000))
    memory.trim()
    assert [len(part) for part in memory._blocks] == [80]
    assert int(memory._blocks[0].acc_ms2[-1, 0]) == 1499


def test_clock_set_back_forgets_the_old_clock() -> None:
    """Stamps ahead of the latest block are of a clock that is no more."""
    memory = SignalMemory(keep_s=10.0, max_samples=1000)
    memory.push(block(5000, 50))
    memory.push(block(0, 50))
    memory.trim()
    assert [int(part.acc_ms2[0, 0]) for part in memory._blocks] == [0]


def test_each_device_has_its_own_memory() -> None:
    """And a forgotten one has none."""
    signals = Signals(0.5, 50.0)
    signals.push([block(0, 60), block(100, 60, device="w2")])
    signals.trim()
    assert signals.cut("w2", NS_PER_S) is None
    assert signals.cut("w1", NS_PER_S) is not None
    signals.forget("w1")
    assert signals.cut("w1", NS_PER_S) is None
