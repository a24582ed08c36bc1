"""What a recording's samples must be for a model to be trained, calibrated or tested on them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from stream_occ.errors import DataError
from stream_occ.features import FeatureSet, slowest_stream_hz
from stream_occ.quality import rest_fault, rest_magnitude_ms2
from stream_occ.resampling import StreamSettings
from stream_occ.samples import NS_PER_S, STANDARD_GRAVITY_MS2, FloatArray, IntArray, Recording
from stream_occ.windowing import WindowBatch

# A 2000 deg/s sensor, the widest in use, gives at most sqrt(3) * 34.9 = 60.5 rad/s.
MAX_GYR_RADS = 61.0
# Over a while the mean of the vector a is gravity's reaction, so the mean of |a| is g or more: 8.5 to 18 m/s2 over all
# activities of MobiFall, WEDA-FALL and sp-sw-har (the median goes down to 3.3: a jumper is in free fall half the time).
MEAN_ACC_FACTOR = 3.0


def measured_rate_hz(t_ns: IntArray) -> float:
    """Samples a second between distinct stamps, holes over 0.5 s left out; 0 for fewer than two."""
    steps = np.diff(np.unique(t_ns))
    steps = steps[steps <= StreamSettings().gap_ns]
    return float(steps.size * NS_PER_S / steps.sum()) if steps.size else 0.0


def check_samples(recording: Recording, batches: Sequence[WindowBatch], feature_set: FeatureSet) -> None:
    """Raises DataError, one line, for NaN, for other units, and for a stream too slow for a model of these windows."""
    check_finite(recording)
    if batches:
        check_units(recording, np.concatenate([rest_magnitude_ms2(batch.signals) for batch in batches]))
        check_rate(recording, batches[0].rate_hz, feature_set)


def check_finite(recording: Recording) -> None:
    """Raises DataError for NaN or infinity."""
    block = recording.block
    bad = ~(np.isfinite(block.acc_ms2).all(axis=1) & np.isfinite(block.gyr_rads).all(axis=1))
    if bad.any():
        got = "NaN or infinity alone" if bad.all() else f"{int(bad.sum())} of {len(block)} with NaN or infinity"
        raise DataError(recording.name, "hold finite samples", got, "Leave the recording out")


def check_units(recording: Recording, rest_ms2: FloatArray) -> None:
    """|a| at rest, or the mean |a| where nothing is at rest, tells the unit; the gyroscope's range tells degrees."""
    block, at_rest = recording.block, rest_ms2[np.isfinite(rest_ms2)]
    remedy = "Declare the unit it was recorded in, or leave the recording out"
    if at_rest.size:
        magnitude = float(np.median(at_rest))
        fault = rest_fault(magnitude)
        if fault is not None and fault != "acc_scale":
            raise DataError(
                recording.name,
                f"have |a| = {STANDARD_GRAVITY_MS2:.2f} m/s2 at rest",
                f"{magnitude:.3g}, which points to {fault}",
                remedy,
            )
    else:
        magnitude = float(np.sqrt((block.acc_ms2**2).sum(axis=1)).mean())
        if not 1 / MEAN_ACC_FACTOR <= magnitude / STANDARD_GRAVITY_MS2 <= MEAN_ACC_FACTOR:
            expected = f"have a mean |a| within a factor of {MEAN_ACC_FACTOR:g} of {STANDARD_GRAVITY_MS2:.2f} m/s2"
            raise DataError(recording.name, expected, f"{magnitude:.3g}, as of another unit", remedy)
    rotation = float(np.quantile(np.sqrt((block.gyr_rads**2).sum(axis=1)), 0.99))
    if rotation > MAX_GYR_RADS:
        expected = f"have a 99 % quantile of |w| of at most {MAX_GYR_RADS:g} rad/s"
        raise DataError(recording.name, expected, f"{rotation:.3g}, as of degrees", remedy)


def check_rate(recording: Recording, model_rate_hz: float, feature_set: FeatureSet) -> None:
    """Raises DataError for a stream too slow for a model of so many Hz."""
    rate_hz, lowest = measured_rate_hz(recording.block.t_ns), slowest_stream_hz(model_rate_hz, feature_set)
    if rate_hz < lowest:
        raise DataError(
            recording.name,
            f"be sampled at {lowest:g} Hz or faster for a model of {model_rate_hz:g} Hz with {feature_set.name}",
            f"{rate_hz:.3g} Hz",
            "Lower --rate-hz, take a feature set for slower streams, or leave the recording out",
        )
