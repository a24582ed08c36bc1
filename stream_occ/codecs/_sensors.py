"""What codecs share whose sensors come apart: batches with one stamp, whole samples or blocks of one sensor each."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np

from stream_occ.codecs._common import MAX_ABS_ACC_MS2, MAX_STAMP_NS, check_values, number_rows, refuse
from stream_occ.samples import NS_PER_S, DeviceProfile, FloatArray, IntArray, SampleBlock, SensorBlock


def check_sign(profile: DeviceProfile, device_id: str) -> None:
    """Refuses a profile without acc_sign, for apps whose sign depends on the phone."""
    if profile.acc_sign is None:
        refuse(
            device_id,
            "sign_unknown",
            "have acc_sign in its profile, since this app turns accelerations round on iOS",
            "none",
            "Set acc_sign: 1 (Android, or iOS with standardised frames) or -1 (iOS as delivered) in the profile",
        )


def spread(
    t_ns: IntArray, counts: Sequence[int], rate_hz: float | None, device_id: str, *, is_last: bool = False
) -> IntArray:
    """A stamp for every sample of batches that have one each: of their first samples, or of their last ones.

    The others are 1 / rate_hz apart, or less where the next batch (the one before) would be reached otherwise: batches
    that are in order stay so.
    """
    if rate_hz is None:
        if all(n == 1 for n in counts):
            return t_ns
        refuse(
            device_id,
            "rate_invalid",
            "say how far samples with one stamp are apart",
            "no rate",
            "Set nominal_rate_hz in the profile of the input",
        )
    period_ns = NS_PER_S / rate_hz
    sizes = np.asarray(counts)
    room_ns = np.diff(t_ns, append=t_ns[-1:]) if not is_last else np.diff(t_ns, prepend=t_ns[:1])
    fits = np.where(room_ns > 0, room_ns / sizes, np.inf)
    steps = np.minimum(period_ns, fits).repeat(sizes)
    first = np.repeat(np.cumsum(sizes) - sizes, sizes)
    k = np.arange(int(sizes.sum())) - first
    if is_last:
        k = k - (sizes.repeat(sizes) - 1)
    stamps: IntArray = t_ns.repeat(sizes) + np.rint(k * steps).astype(np.int64)
    if stamps.min() < 0 or stamps.max() >= MAX_STAMP_NS:
        refuse(device_id, "stamp_invalid", "have stamps from 0 to 2^62 ns", "others", "Check the device's clock")
    return stamps


def whole_or_apart(blocks: Sequence[SensorBlock], device_id: str) -> list[SampleBlock | SensorBlock]:
    """One block of whole samples where all sensors of a message have the same stamps, else the blocks as they are."""
    parts = {block.sensor: block for block in blocks if len(block)}
    if not parts:
        refuse(
            device_id, "no_samples", "hold samples of a motion sensor", "none", "Switch accelerometer and gyroscope on"
        )
    t_ns = next(iter(parts.values())).t_ns
    if parts.keys() not in ({"acc", "gyr"}, {"linear", "gravity", "gyr"}) or not all(
        np.array_equal(block.t_ns, t_ns) for block in parts.values()
    ):
        return list(parts.values())
    if "acc" in parts:
        acc_ms2 = parts["acc"].values
    else:
        acc_ms2 = parts["linear"].values + parts["gravity"].values
        check_values(acc_ms2, "acc", MAX_ABS_ACC_MS2, "m/s2", device_id)
    return [SampleBlock(device_id, t_ns, acc_ms2, parts["gyr"].values)]


def exact_rows(rows: Sequence[Sequence[Any]], sensor: str, device_id: str) -> FloatArray:
    """Rows of three numbers, Decimals among them, as float64 (n, 3); what `number_rows` refuses is refused."""
    if any(isinstance(value, Decimal) and not value.is_finite() for row in rows for value in row):
        refuse(device_id, "not_finite", f"have finite numbers in {sensor}", "others", "Leave broken samples out")
    floats = [[float(value) if isinstance(value, Decimal) else value for value in row] for row in rows]
    return number_rows(floats, sensor, len(floats), device_id)
