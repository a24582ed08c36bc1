"""Replay: recordings published with the timing of a device, at any speed; the samples stay the same bit for bit.

Stamps are moved by whole nanoseconds, so that a device's first sample is of the instant at which the replay starts;
from there they run by the recording's own clock. At speed 20 they run ahead of the wall clock by 19 s a second.
"""

from __future__ import annotations

import heapq
import itertools
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

import numpy as np

from simulators.faults import Disturb
from stream_occ.codecs import Codec
from stream_occ.errors import UsageError
from stream_occ.samples import NS_PER_S, Recording, SampleBlock

Publish = Callable[[str, bytes], None]  # device id, payload
MAX_REMEMBERED = 10_000  # recordings that a report lists; an endless replay counts on

BATCH_S = 0.25
MEANWHILE_S = 0.05
PAUSE_S = 2.0  # above the pipeline's gap_s, 0.5 s, so that no window spans two recordings


@dataclass(frozen=True, slots=True)
class Placed:
    """A recording's place on the device's clock: ground truth of a replay, ns."""

    device_id: str
    name: str
    activity: str
    is_fall: bool
    t_start_ns: int
    t_end_ns: int
    fall_interval_ns: tuple[int, int] | None


class Due(NamedTuple):
    """A message's worth of samples and when the device has them, s of its own time since the start."""

    due_s: float
    device_id: str
    block: SampleBlock
    placed: Placed


class Clock(Protocol):
    """Time of the player, so that tests need not wait."""

    def now_s(self) -> float:
        """Seconds since some instant, never going back."""

    def now_ns(self) -> int:
        """UTC, ns."""

    def wait_s(self, seconds: float) -> bool:
        """Waits, not at all where seconds <= 0; True when the replay shall end."""


class WallClock:
    """The computer's clock; sleeps until due or until `stop` is set, and calls `meanwhile` now and then."""

    def __init__(self, stop: threading.Event | None = None, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._stop = threading.Event() if stop is None else stop
        self._meanwhile = meanwhile

    def now_s(self) -> float:
        """Monotonic seconds."""
        return time.monotonic()

    def now_ns(self) -> int:
        """UTC, ns."""
        return time.time_ns()

    def wait_s(self, seconds: float) -> bool:
        """True once `stop` is set."""
        until_s = self.now_s() + seconds
        while not self._stop.wait(max(0.0, min(MEANWHILE_S, until_s - self.now_s()))):
            self._meanwhile()
            if self.now_s() >= until_s:
                return False
        return True


@dataclass(slots=True)
class ReplayReport:
    """What was published.

    behind_s: by how much the latest message was late at worst, wall-clock s. ahead_s: by how much the newest stamp was
    ahead of the wall clock when it was published last. Another replay to the same devices that starts within this time
    starts with stamps older than those they have sent, and `detect` takes their clocks for set back. n_acknowledged:
    messages that the service says it has, n_sent_again: how often one was sent once more; None: nobody asked.
    """

    n_messages: int = 0
    n_samples: int = 0
    n_bytes: int = 0
    n_recordings: int = 0
    behind_s: float = 0.0
    ahead_s: float = 0.0
    is_complete: bool = False
    n_acknowledged: int | None = None
    n_sent_again: int | None = None
    placed: deque[Placed] = field(default_factory=lambda: deque(maxlen=MAX_REMEMBERED))


def schedule(
    streams: Mapping[str, Iterable[Recording]],
    *,
    start_ns: int,
    batch_s: float = BATCH_S,
    pause_s: float = PAUSE_S,
    is_looped: bool = False,
) -> Iterator[Due]:
    """Messages of all devices in the order in which they are due; reads no clock.

    streams: device id to its recordings, which are laid one after another with pause_s between the last stamp of one
    and the first of the next. A message holds the samples, in their recorded order, of batch_s of the device's time; it
    is due when the latest of its stamps has come. is_looped: each device starts over for ever (its iterable must be
    one that can be gone through again). Raises UsageError for bounds that make no sense.
    """
    if not (math.isfinite(batch_s) and batch_s > 0):
        raise UsageError("batch_s", "be above 0", repr(batch_s), "Give the seconds of samples in a message")
    if not (math.isfinite(pause_s) and pause_s > 0):
        raise UsageError("pause_s", "be above 0", repr(pause_s), "Give the seconds between two recordings")
    lanes = [
        _lane(device_id, recordings, start_ns, batch_s, pause_s, is_looped) for device_id, recordings in streams.items()
    ]
    return heapq.merge(*lanes, key=lambda due: due.due_s)


def _lane(
    device_id: str, recordings: Iterable[Recording], start_ns: int, batch_s: float, pause_s: float, is_looped: bool
) -> Iterator[Due]:
    """One device's messages."""
    next_ns = start_ns
    has_played = True
    while has_played:
        has_played = False
        for recording in recordings:
            if len(recording.block) == 0:
                continue
            has_played = is_looped
            placed, block = place(recording, device_id, next_ns)
            for part, latest_ns in _cut(block, batch_s):
                yield Due((latest_ns - start_ns) / NS_PER_S, device_id, part, placed)
            next_ns = placed.t_end_ns + round(pause_s * NS_PER_S)


def place(recording: Recording, device_id: str, first_ns: int) -> tuple[Placed, SampleBlock]:
    """The recording under another device's name, its first sample stamped first_ns; values are not touched."""
    block = recording.block
    shift = first_ns - int(block.t_ns[0])
    moved = replace(block, device_id=device_id, t_ns=block.t_ns + shift)
    interval = recording.fall_interval_ns
    placed = Placed(
        device_id=device_id,
        name=recording.name,
        activity=recording.activity,
        is_fall=recording.is_fall,
        t_start_ns=int(moved.t_ns.min()),
        t_end_ns=int(moved.t_ns.max()),
        fall_interval_ns=None if interval is None else (interval[0] + shift, interval[1] + shift),
    )
    return placed, moved


def _cut(block: SampleBlock, batch_s: float) -> Iterator[tuple[SampleBlock, int]]:
    """Consecutive parts of batch_s of the device's time, each with the latest stamp that the device has seen by then.

    Stamps may go back; the device's time is their running maximum, so a part never waits for a stamp that went back.
    """
    seen = np.maximum.accumulate(block.t_ns)
    bins = (seen - seen[0]) // round(batch_s * NS_PER_S)
    edges = [0, *(np.flatnonzero(np.diff(bins)) + 1).tolist(), len(block)]
    for first, last in itertools.pairwise(edges):
        rows = slice(first, last)
        part = SampleBlock(block.device_id, block.t_ns[rows], block.acc_ms2[rows], block.gyr_rads[rows])
        yield part, int(seen[last - 1])


def replay(
    streams: Mapping[str, Iterable[Recording]],
    publish: Publish,
    codec: Codec,
    *,
    speed: float = 1.0,
    is_looped: bool = False,
    batch_s: float = BATCH_S,
    pause_s: float = PAUSE_S,
    start_ns: int | None = None,
    clock: Clock | None = None,
    fault: Callable[[], Disturb] | None = None,
    boot: int | None = None,
    on_progress: Callable[[ReplayReport, Due], None] | None = None,
) -> ReplayReport:
    """Publishes recordings as devices would, each message when it is due; speed inf does not wait at all.

    start_ns: stamp of every device's first sample, by default the present. fault: put into each device's messages, see
    `simulators.faults`. boot: each device numbers its messages, (boot, 0) and on. Between messages it sleeps. Ends when
    all is played, when the clock says so, or with what `publish` raises.
    """
    if not speed > 0:
        raise UsageError("speed", "be above 0", repr(speed), "1 is real time")
    clock = WallClock() if clock is None else clock
    report = ReplayReport()
    began_ns = clock.now_ns() if start_ns is None else start_ns
    began_s = clock.now_s()
    last: dict[str, Placed] = {}
    n_sent: Counter[str] = Counter()
    disturb: dict[str, Disturb] = {}
    newest_ns = began_ns
    for due in schedule(streams, start_ns=began_ns, batch_s=batch_s, pause_s=pause_s, is_looped=is_looped):
        ahead_s = due.due_s / speed - (clock.now_s() - began_s)
        if clock.wait_s(ahead_s):
            return report
        if math.isfinite(speed):
            report.behind_s = max(report.behind_s, -ahead_s)
        if last.get(due.device_id) is not due.placed:
            last[due.device_id] = due.placed
            report.placed.append(due.placed)
            report.n_recordings += 1
        block = due.block
        if fault is not None:
            block = disturb.setdefault(due.device_id, fault())(block)
        if len(block) == 0:
            continue
        if boot is not None:
            block = replace(block, number=(boot, n_sent[due.device_id]))
        n_sent[due.device_id] += 1
        payload = _encoded(codec, block)
        publish(due.device_id, payload)
        report.n_messages += 1
        report.n_samples += len(block)
        report.n_bytes += len(payload)
        newest_ns = max(newest_ns, int(block.t_ns.max()))
        report.ahead_s = (newest_ns - clock.now_ns()) / NS_PER_S
        if on_progress is not None:
            on_progress(report, due)
    report.is_complete = True
    return report


def _encoded(codec: Codec, block: SampleBlock) -> bytes:
    try:
        return codec.encode(block)
    except ValueError as error:  # JSON has no NaN
        raise UsageError("--codec", "be able to write the samples", str(error), "Replay it as msgpack") from error
