"""An input as configured: which topics are its own, how their messages are read, and what its devices' samples are."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from stream_occ.codecs import Codec, load_codec
from stream_occ.config import DEVICE_FIELD, InputConfig
from stream_occ.samples import DeviceProfile, SampleBlock, SensorBlock

AT_RANGE = 0.995  # of the full scale: a two's complement ends one step below it, and a reading is scaled
_LEVELS = {DEVICE_FIELD: "(?P<device>[^/]*)", "+": "[^/]*", "#": "(?:.*)"}


@dataclass(frozen=True, slots=True)
class Input:
    """pattern: of whole topics, with the group `device`; resends: its devices send again what was not received."""

    pattern: re.Pattern[str]
    codec: Codec
    profile: DeviceProfile
    resends: bool

    @classmethod
    def of(cls, config: InputConfig) -> Input:
        """From the configuration.

        >>> Input.of(InputConfig(pattern="a/{device}/#")).pattern.fullmatch("a/w1/x/y")["device"]
        'w1'
        """
        levels = [_LEVELS.get(level) or re.escape(level) for level in config.pattern.split("/")]
        pattern = "/".join(levels).replace("/(?:.*)", "(?:/.*)?")  # a/# matches a as well
        return cls(re.compile(pattern, re.DOTALL), load_codec(config.codec), config.device_profile, config.resends)


def as_declared(block: SampleBlock, profile: DeviceProfile) -> SampleBlock:
    """The block with what the profile declares: where its values are cut off, and whose clock its stamps are of."""
    acc_ms2, gyr_rads, has_own_clock = profile.acc_range_ms2, profile.gyr_range_rads, profile.clock == "own"
    if acc_ms2 is None and gyr_rads is None and not has_own_clock:
        return block
    full_scale = AT_RANGE * (acc_ms2 or np.inf), AT_RANGE * (gyr_rads or np.inf)
    return replace(block, full_scale=full_scale, has_own_clock=has_own_clock)


def at_arrival(blocks: Sequence[SampleBlock | SensorBlock], arrived_ns: int) -> list[SampleBlock | SensorBlock]:
    """The blocks with stamps moved, all by as much, so that the last sample of all is at `arrived_ns`."""
    last_ns = max((int(block.t_ns.max()) for block in blocks), default=0)
    return [replace(block, t_ns=block.t_ns + (arrived_ns - last_ns)) for block in blocks]
