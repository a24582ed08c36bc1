"""What a sensor at rest tells about its units: gravity is 9.81 m/s2 everywhere on earth, so |a| at rest must be too."""

from __future__ import annotations

import numpy as np

from stream_occ.samples import STANDARD_GRAVITY_MS2, FloatArray

# A window is at rest where |a| spreads by less than this share of its mean, or by less than REST_STD_MS2.
REST_RELATIVE_STD = 0.02
REST_STD_MS2 = 0.15
# Cheap accelerometers are off by 50 to 80 mg an axis at rest (MPU-6050 data sheet): 12 % of g holds that in one axis.
GRAVITY_TOLERANCE = 0.12
_CHUNK = 256

# What |a| at rest would be under the usual mistakes, in m/s2 as decoded.
_MISTAKES: tuple[tuple[str, float], ...] = (
    ("acc_unit_g_as_ms2", 1.0),
    ("acc_unit_ms2_as_g", STANDARD_GRAVITY_MS2 * STANDARD_GRAVITY_MS2),
    ("acc_unit_mg_as_ms2", 1000.0),
    ("acc_unit_mg_as_g", 1000.0 * STANDARD_GRAVITY_MS2),
)


def rest_magnitude_ms2(signals: FloatArray) -> FloatArray:
    """Mean |a| (n,) of the windows (n, 6, m) that are at rest, m/s2; NaN for those that are not."""
    mean, std = np.empty(len(signals)), np.empty(len(signals))
    for start in range(0, len(signals), _CHUNK):  # windows overlap: all their samples at once would be many copies
        acc = signals[start : start + _CHUNK, :3]
        norm = np.ascontiguousarray(np.sqrt(acc[:, 0] ** 2 + acc[:, 1] ** 2 + acc[:, 2] ** 2))
        mean[start : start + _CHUNK], std[start : start + _CHUNK] = norm.mean(axis=-1), norm.std(axis=-1)
    at_rest = std < np.maximum(REST_RELATIVE_STD * mean, REST_STD_MS2 * (mean < STANDARD_GRAVITY_MS2 / 2))
    rest: FloatArray = np.where(at_rest, mean, np.nan)
    return rest


def rest_fault(magnitude_ms2: float) -> str | None:
    """The named mistake that |a| at rest points to, or None where it is gravity.

    `gravity_missing`: nothing is left at rest; `acc_unit_<sent>_as_<declared>`: another unit than declared;
    `acc_scale`: neither. A magnitude of NaN (not at rest) says nothing: None.
    """
    if np.isnan(magnitude_ms2) or abs(magnitude_ms2 / STANDARD_GRAVITY_MS2 - 1) <= GRAVITY_TOLERANCE:
        return None
    for code, expected in _MISTAKES:
        if abs(magnitude_ms2 / expected - 1) <= GRAVITY_TOLERANCE:
            return code
    return "gravity_missing" if magnitude_ms2 < REST_STD_MS2 * 4 else "acc_scale"
