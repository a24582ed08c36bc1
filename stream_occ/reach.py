"""How far the sensors of a model's normal recordings went and could go, and whether a device's can go as far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, isfinite
from typing import Any, Self

import numpy as np

from stream_occ.samples import DeviceProfile, FloatArray, Recording

# (acc, gyr): key in a model's metadata, name and unit in words
_SENSORS = (("acc_ms2", "acc", "m/s2"), ("gyr_rads", "gyr", "rad/s"))
N_REACHED = 3  # samples of a recording: one or two may be a glitch, as in `quality`
# Scales are off by 3 % (MPU-6050 data sheet), 2 g is 19.6 in a profile, and recordings that were cut off end at their
# full scale: so much of what was reached is as good as all of it.
ENOUGH = 0.95
# Of the full scale: sensors are set to it in steps of 2, and one step less may be meant; with room for rounding.
MUCH_LESS = 0.45


@dataclass(frozen=True, slots=True)
class Reach:
    """Of (acc, gyr), m/s2 and rad/s. reached: the size of an axis that N_REACHED samples of some recording have;
    full_scale: of the narrowest sensors among them, inf where no loader knows it."""

    reached: tuple[float, float] = (0.0, 0.0)
    full_scale: tuple[float, float] = (inf, inf)

    @classmethod
    def of_recording(cls, recording: Recording) -> Self:
        """That of one recording."""
        block = recording.block
        return cls((_reached(block.acc_ms2), _reached(block.gyr_rads)), recording.full_scale)

    @classmethod
    def of_model(cls, metadata: Mapping[str, Any]) -> Self | None:
        """What a model file says; None where it says nothing, as those from before it was noted, or nothing usable."""
        training = metadata.get("training")
        noted = training.get("range") if isinstance(training, dict) else None
        found = [noted.get(key) if isinstance(noted, dict) else None for key, *_ in _SENSORS]
        if not all(isinstance(own, dict) and _is_size(own.get("reached")) for own in found):
            return None
        acc, gyr = ((float(own["reached"]), _or_inf(own.get("full_scale"))) for own in found if own is not None)
        return cls((acc[0], gyr[0]), (acc[1], gyr[1]))

    def joined(self, other: Reach) -> Reach:
        """That of both together."""
        return Reach(
            (max(self.reached[0], other.reached[0]), max(self.reached[1], other.reached[1])),
            (min(self.full_scale[0], other.full_scale[0]), min(self.full_scale[1], other.full_scale[1])),
        )

    def to_json(self) -> dict[str, dict[str, float | None]]:
        """As `of_model` reads it."""
        return {
            key: {"reached": reached, "full_scale": full_scale if isfinite(full_scale) else None}
            for (key, *_), reached, full_scale in zip(_SENSORS, self.reached, self.full_scale, strict=True)
        }

    def in_words(self) -> str:
        """For people: "acc to 39.2 m/s2 of 157, gyr to 8.73 rad/s"."""
        return ", ".join(
            f"{name} to {reached:.3g} {unit}" + (f" of {full_scale:.3g}" if isfinite(full_scale) else "")
            for (_, name, unit), reached, full_scale in zip(_SENSORS, self.reached, self.full_scale, strict=True)
        )

    def beyond(self, profile: DeviceProfile) -> list[str]:
        """What of it the device cannot show, a line a sensor; none where its profile says no full scale."""
        found: list[str] = []
        declared = (profile.acc_range_ms2, profile.gyr_range_rads)
        if declared == (None, None):  # asked of each device in each slice
            return found
        for (_, name, unit), own, reached, full_scale in zip(
            _SENSORS, declared, self.reached, self.full_scale, strict=True
        ):
            if own is not None and own < ENOUGH * reached:
                found.append(f"{name} ends at {own:.3g} {unit}, and normal recordings reach {reached:.3g}")
            elif own is not None and isfinite(full_scale) and own < MUCH_LESS * full_scale:
                found.append(f"{name} ends at {own:.3g} {unit}, and the sensors of training at {full_scale:.3g}")
        return found


def _reached(values: FloatArray) -> float:
    largest = np.sort(np.abs(values).max(axis=1))
    return float(largest[-N_REACHED]) if len(largest) >= N_REACHED else 0.0


def _is_size(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value) and value >= 0


def _or_inf(value: object) -> float:
    return float(value) if isinstance(value, int | float) and _is_size(value) and value > 0 else inf
