"""Sample instants where the stamps of a set say when a sample arrived, and gyroscope values at other instants.

docs/datasets.md holds the measurements behind each step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from stream_occ.samples import NS_PER_S, BoolArray, FloatArray, IntArray

MAX_GYR_HOLE_S = 0.5  # as the stream's own `gap_s`: a longer hole is not bridged
HOLE_CANDIDATE_NS = 150_000_000  # one and a half times the 0.1 s between two bursts of WEDA-FALL
HOLE_STEP_NS = 60_000_000  # three samples of 50 Hz; bursts alone move a local median by less than 30 ms
N_FITS = 5  # fits after which no sample of any WEDA-FALL file changes sides any more
MIN_DEVIATION_NS = 1_000_000  # stamps of whole milliseconds are never closer to a line
HOLE_SPAN_S = 1.0  # local medians before and after a candidate are taken over ten bursts


def sampling_instants(arrival_ns: IntArray) -> IntArray:
    """Instants at which samples were taken, from sorted stamps of when they arrived; sorted too.

    The sensor runs at a constant rate and delivery adds a delay, so the instants lie on a line over the sample's
    index: least squares without the samples that came more than three robust deviations late or early (the delay of
    bursts is a saw tooth, which biases medians of slopes: 0.2 % in the median file of WEDA-FALL, 1.7 % in the worst).
    The mean delay cannot be seen and stays in.

    Where samples were lost the line is broken: at a step between stamps above 0.15 s, if from there on no second's
    median residual comes back to within three samples of the second before, the later part is put off by whole
    samples. Fewer than four samples, stamps that stand still in the median and such as no rising line fits are left as
    given.
    """
    n = len(arrival_ns)
    if n < 4 or not np.median(arrival_ns[n // 2 :] - arrival_ns[: n - n // 2]) > 0:
        return arrival_ns
    t = (arrival_ns - arrival_ns[0]).astype(np.float64)
    lost = _lost_ns(t)
    instants = np.rint(_line(t - lost) + lost).astype(np.int64) + int(arrival_ns[0])
    is_rising = bool((np.diff(instants) > 0).all())
    return instants if is_rising else arrival_ns  # a few stamps far from any line can tilt it backwards


def _line(t: FloatArray) -> FloatArray:
    index = np.arange(len(t), dtype=np.float64)
    half = len(t) // 2
    slope = float(np.median((t[half:] - t[: len(t) - half]) / half))
    offset = float(np.median(t - index * slope))
    for _ in range(N_FITS):
        residual = np.abs(t - (offset + slope * index))
        used = residual <= max(3 * 1.4826 * float(np.median(residual)), MIN_DEVIATION_NS)
        x, y = index[used], t[used]
        centred = x - x.mean()
        slope = float((centred * y).sum() / (centred * centred).sum())
        offset = float(y.mean() - slope * x.mean())
    return offset + slope * index


def _lost_ns(t: FloatArray) -> FloatArray:
    """Time lost in holes before each sample: 0 up to the first hole, then the sum of the steps."""
    lost = np.zeros(len(t))
    span = min(len(t) // 4, 50)
    period = float(np.median((t[2 * span :] - t[: len(t) - 2 * span]) / (2 * span)))
    if not period > 0:
        return lost
    residual = t - np.arange(len(t)) * period
    reach = max(4, round(HOLE_SPAN_S * NS_PER_S / period))
    for i in np.flatnonzero(np.diff(t) > HOLE_CANDIDATE_NS):
        before, after = residual[max(0, i + 1 - reach) : i + 1], residual[i + 1 :]
        if min(len(before), len(after)) < reach // 2:
            continue
        # late samples are followed by punctual ones sooner or later, lost ones never: the earliest second counts
        seconds = np.array_split(after, max(1, round(len(after) / reach)))
        step = min(float(np.median(second)) for second in seconds) - float(np.median(before))
        if step > max(HOLE_STEP_NS, 3 * period):
            # a whole number of samples is missing: keep the sensor's own grid
            lost[i + 1 :] += round(step / period) * period
    return lost


@dataclass(frozen=True, slots=True, eq=False)
class Merged:
    """Gyroscope values at the accelerometer's stamps: `keep` marks rows that have them, `gyr_rads` is (n_kept, 3)."""

    keep: BoolArray
    gyr_rads: FloatArray
    n_outside: int
    n_in_hole: int
    n_duplicate_gyr: int


def interpolate_gyr(
    t_acc_ns: IntArray, t_gyr_ns: IntArray, gyr_rads: FloatArray, *, max_hole_s: float = MAX_GYR_HOLE_S
) -> Merged:
    """Gyroscope linearly interpolated onto the accelerometer's stamps; nothing is extrapolated.

    Accelerometer rows before the first or after the last gyroscope stamp, and rows strictly inside a gyroscope hole
    longer than max_hole_s, are not kept. Of gyroscope rows with one stamp the first is used.
    """
    t_unique, first = np.unique(t_gyr_ns, return_index=True)
    values = gyr_rads[first]
    n_duplicate = len(t_gyr_ns) - len(t_unique)
    if len(t_unique) == 0:
        return Merged(np.zeros(len(t_acc_ns), bool), np.empty((0, 3)), len(t_acc_ns), 0, 0)
    right = np.searchsorted(t_unique, t_acc_ns, side="left").clip(max=len(t_unique) - 1)
    exact = t_unique[right] == t_acc_ns
    left = np.where(exact, right, (right - 1).clip(min=0))
    inside = (t_acc_ns >= t_unique[0]) & (t_acc_ns <= t_unique[-1])
    in_hole = inside & (t_unique[right] - t_unique[left] > round(max_hole_s * NS_PER_S))
    keep = inside & ~in_hole
    left, right, t_kept = left[keep], right[keep], t_acc_ns[keep]
    width = np.maximum(t_unique[right] - t_unique[left], 1)
    weight = ((t_kept - t_unique[left]) / width)[:, None]
    merged = values[left] + weight * (values[right] - values[left])
    return Merged(keep, merged, int((~inside).sum()), int(in_hole.sum()), n_duplicate)
