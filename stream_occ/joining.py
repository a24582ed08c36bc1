"""Accelerometer and gyroscope on stamps of their own, made samples of both: `join(state, blocks, settings)`.

The accelerometer's stamps are kept. The gyroscope, and gravity where it is sent apart, are interpolated onto them,
between two samples at most gap_s apart and never beyond the last one: what is younger waits. A sample that waited for
max_skew_s of the device's own time is given up, counted under one of `LOSSES`. Samples leave in the order of their
stamps, so a stream is joined to the same samples however it was cut into messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from stream_occ.samples import NS_PER_S, BoolArray, FloatArray, IntArray, SampleBlock, Sensor, SensorBlock

MAX_HELD = 4096  # samples of one sensor: 10 s at 400 Hz; a device holds 0.5 MB at most
# Blocks in a row that are older than all that is held, until they are taken for a clock that was set back.
CLOCK_RESET_BLOCKS = 4

LOSSES = {
    "gyro_missing": "accelerometer samples without gyroscope samples within stream.max_skew_s",
    "gravity_unsent": "samples of acceleration without gravity, with no gravity samples within stream.max_skew_s",
    "acc_missing": "gyroscope samples without accelerometer samples within stream.max_skew_s",
    "join_late": "samples of one sensor that came later than stream.max_skew_s after the other's",
}


@dataclass(frozen=True, slots=True)
class JoinSettings:
    """max_skew_s: how much later one sensor may come than the other; gap_s: the widest hole that is interpolated."""

    max_skew_s: float = 1.0
    gap_s: float = 0.5

    @property
    def max_skew_ns(self) -> int:
        """max_skew_s in ns."""
        return round(self.max_skew_s * NS_PER_S)

    @property
    def gap_ns(self) -> int:
        """gap_s in ns."""
        return round(self.gap_s * NS_PER_S)


@dataclass(frozen=True, slots=True, eq=False)
class Track:
    """Held samples of one sensor, sorted by stamp, none twice."""

    t_ns: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    values: FloatArray = field(default_factory=lambda: np.empty((0, 3)))

    def merged(self, t_ns: IntArray, values: FloatArray) -> Track:
        """With more samples; of two with one stamp the first one stays."""
        stamps = np.concatenate([self.t_ns, t_ns])
        unique, first = np.unique(stamps, return_index=True)
        return Track(unique, np.concatenate([self.values, values])[first])

    def since(self, index: int) -> Track:
        """Without the samples before `index`, in memory of its own."""
        return self if index <= 0 else Track(self.t_ns[index:].copy(), self.values[index:].copy())

    def at(self, t_ns: IntArray, gap_ns: int) -> tuple[FloatArray, BoolArray]:
        """Values at `t_ns` by linear interpolation, and where there are any: between samples at most gap_ns apart."""
        n = self.t_ns.size
        if n == 0:
            return np.zeros((t_ns.size, 3)), np.zeros(t_ns.size, dtype=np.bool_)
        right = np.searchsorted(self.t_ns, t_ns)
        after, before = np.minimum(right, n - 1), np.maximum(right - 1, 0)
        is_hit = self.t_ns[after] == t_ns
        is_between = (right > 0) & (right < n) & (self.t_ns[after] - self.t_ns[before] <= gap_ns)
        base = self.t_ns[0]  # differences are exact in float64 up to 104 days, stamps are not
        grid, known = (t_ns - base).astype(np.float64), (self.t_ns - base).astype(np.float64)
        columns = [np.interp(grid, known, self.values[:, k]) for k in range(3)]
        return np.stack(columns, axis=1), is_hit | is_between


@dataclass(frozen=True, slots=True, eq=False)
class JoinState:
    """What one device has sent and was not joined yet, and what is needed to join what comes.

    head_ns: the newest stamp of any sensor; acc_ns: the newest of the accelerometer. n_stale: stale blocks in a row.
    is_after_loss: samples of a sensor are missing that were sent; next to which joined ones is not known.
    """

    acc: Track = field(default_factory=Track)
    linear: Track = field(default_factory=Track)
    gravity: Track = field(default_factory=Track)
    gyr: Track = field(default_factory=Track)
    head_ns: int | None = None
    acc_ns: int | None = None
    n_stale: int = 0
    is_after_loss: bool = False


def join(
    state: JoinState, blocks: Sequence[SampleBlock | SensorBlock], settings: JoinSettings
) -> tuple[JoinState, list[SampleBlock], Counter[str]]:
    """The state after the blocks of one device, the samples that they complete, and what was given up by `LOSSES`.

    Blocks of one call count as one message: whatever it holds is joined before anything of it is given up.
    """
    lost: Counter[str] = Counter()
    parts = [part for block in blocks for part in _parts(block)]
    if not parts:
        return state, [], lost
    device_id = parts[0].device_id
    head_before_ns = state.head_ns
    for part in parts:
        state, head_before_ns = _take(state, head_before_ns, part, settings, lost)
    given_up_ns = None if head_before_ns is None else head_before_ns - settings.max_skew_ns
    joined: list[SampleBlock] = []
    for sensor in ("acc", "linear"):
        state, block = _release(state, sensor, device_id, given_up_ns, settings, lost)
        if block is not None:
            joined.append(block)
    state = _trimmed(state, given_up_ns, lost)
    is_after_loss = state.is_after_loss or bool(+lost)
    if is_after_loss and joined:
        joined = [replace(block, lost_rows=np.arange(len(block))) for block in joined]
    if state.is_after_loss != (is_after_loss and not joined):
        state = replace(state, is_after_loss=not joined)
    return state, joined, +lost


def _parts(block: SampleBlock | SensorBlock) -> tuple[SensorBlock, ...]:
    if isinstance(block, SensorBlock):
        return (block,)
    return (
        SensorBlock(block.device_id, "acc", block.t_ns, block.acc_ms2),
        SensorBlock(block.device_id, "gyr", block.t_ns, block.gyr_rads),
    )


def _take(
    state: JoinState, head_before_ns: int | None, part: SensorBlock, settings: JoinSettings, lost: Counter[str]
) -> tuple[JoinState, int | None]:
    """One sensor's samples beside the held ones; what is older than all that is held is given up, or a new clock."""
    newest = int(part.t_ns.max())
    if head_before_ns is not None and newest < head_before_ns - settings.max_skew_ns:
        if state.n_stale + 1 < CLOCK_RESET_BLOCKS:
            lost["join_late"] += len(part)
            return replace(state, n_stale=state.n_stale + 1), head_before_ns
        lost["join_late"] += state.acc.t_ns.size + state.linear.t_ns.size
        state, head_before_ns = JoinState(), None
    track: Track = getattr(state, part.sensor)
    head_ns = newest if state.head_ns is None else max(state.head_ns, newest)
    state = replace(state, head_ns=head_ns, n_stale=0, **{part.sensor: track.merged(part.t_ns, part.values)})  # type: ignore[arg-type]
    if part.sensor in ("acc", "linear"):
        state = replace(state, acc_ns=newest if state.acc_ns is None else max(state.acc_ns, newest))
    return state, head_before_ns


def _release(
    state: JoinState,
    sensor: Sensor,
    device_id: str,
    given_up_ns: int | None,
    settings: JoinSettings,
    lost: Counter[str],
) -> tuple[JoinState, SampleBlock | None]:
    """The joined samples of acc or linear up to the first that still waits."""
    waiting: Track = getattr(state, sensor)
    if waiting.t_ns.size == 0:
        return state, None
    gyr, has_gyr = state.gyr.at(waiting.t_ns, settings.gap_ns)
    acc, is_whole = waiting.values, has_gyr
    if sensor == "linear":
        gravity, has_gravity = state.gravity.at(waiting.t_ns, settings.gap_ns)
        acc, is_whole = acc + gravity, has_gyr & has_gravity
    is_given_up = np.zeros_like(is_whole) if given_up_ns is None else waiting.t_ns < given_up_ns
    is_given_up[: max(0, waiting.t_ns.size - MAX_HELD)] = True
    waits = ~(is_whole | is_given_up)
    n_done = int(waits.argmax()) if waits.any() else waits.size
    done = is_whole[:n_done]
    lost["gyro_missing"] += int((~has_gyr[:n_done]).sum())
    lost["gravity_unsent"] += int((has_gyr[:n_done] & ~done).sum())
    block = None
    if done.any():
        block = SampleBlock(device_id, waiting.t_ns[:n_done][done], acc[:n_done][done], gyr[:n_done][done])
    return replace(state, **{sensor: waiting.since(n_done)}), block  # type: ignore[arg-type]


def _trimmed(state: JoinState, given_up_ns: int | None, lost: Counter[str]) -> JoinState:
    """Without gyroscope and gravity samples that no accelerometer sample can need any more."""
    tracks = {}
    for sensor in ("gyr", "gravity"):
        track: Track = getattr(state, sensor)
        n_old = 0 if given_up_ns is None else int(np.searchsorted(track.t_ns, given_up_ns)) - 1
        n_old = max(n_old, track.t_ns.size - MAX_HELD, 0)
        if sensor == "gyr":
            never_met = track.t_ns[:n_old] > (-1 if state.acc_ns is None else state.acc_ns)
            lost["acc_missing"] += int(never_met.sum())
        tracks[sensor] = track.since(n_old)
    return replace(state, gyr=tracks["gyr"], gravity=tracks["gravity"])
