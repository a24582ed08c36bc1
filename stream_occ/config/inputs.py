"""Keys of `inputs` and of profiles: topics of one kind of device, and what it sends; as in stream_occ.config.models."""

from __future__ import annotations

import re
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from stream_occ.codecs import check_axes, codec_names
from stream_occ.errors import ConfigError, nearest
from stream_occ.samples import DeviceProfile, Placement
from stream_occ.section import Section

DEVICE_FIELD = "{device}"

Axis = Literal["x", "y", "z", "-x", "-y", "-z"]


class ProfileConfig(Section):
    """What a device sends; units that are None must be declared by its messages."""

    acc_unit: Literal["m/s2", "g", "mg"] | None = None
    gyr_unit: Literal["rad/s", "deg/s", "mdeg/s"] | None = None
    acc_counts_per_unit: float | None = Field(default=None, gt=0, le=1e9)
    gyr_counts_per_unit: float | None = Field(default=None, gt=0, le=1e9)
    stamps: Literal["message", "arrival"] = "message"
    clock: Literal["utc", "own"] = "utc"
    gravity: Literal["included", "excluded"] | None = None
    axes: tuple[Axis, Axis, Axis] = ("x", "y", "z")
    acc_sign: Literal[1, -1] | None = None
    nominal_rate_hz: float | None = Field(default=None, gt=0, le=10_000)
    acc_range_ms2: float | None = Field(default=None, gt=0)
    gyr_range_rads: float | None = Field(default=None, gt=0)
    placement: Placement = "unknown"

    @field_validator("axes")
    @classmethod
    def _permutation(cls, axes: tuple[Axis, Axis, Axis]) -> tuple[Axis, Axis, Axis]:
        try:
            check_axes(axes)
        except ConfigError as error:
            raise ValueError(f"{error.expected}|{error.remedy}") from error
        return axes

    @model_validator(mode="after")
    def _counts_of_a_unit(self) -> Self:
        for sensor in ("acc", "gyr"):
            if getattr(self, f"{sensor}_counts_per_unit") is not None and getattr(self, f"{sensor}_unit") is None:
                raise ValueError(f"have {sensor}_unit beside {sensor}_counts_per_unit|Say of which unit")
        return self

    @model_validator(mode="after")
    def _clock_of_stamps(self) -> Self:
        if self.clock == "own" and self.stamps == "arrival":
            raise ValueError("have clock: utc beside stamps: arrival, which are ours|Leave clock or stamps out")
        return self

    def to_profile(self) -> DeviceProfile:
        """The same as the core's type."""
        return DeviceProfile(**self.model_dump())


class InputConfig(Section):
    """Topics of one kind of device. pattern: {device} is one level of it; + is any level, # at the end any rest."""

    pattern: str = Field(max_length=1024)
    codec: str = "json"
    profile: str | ProfileConfig = ProfileConfig()
    qos: int = Field(default=1, ge=0, le=2)
    resends: bool = False

    @field_validator("pattern")
    @classmethod
    def _one_device(cls, pattern: str) -> str:
        levels = pattern.split("/")
        if levels[0] == "$share":
            raise ValueError("name topics, and a shared subscription is none|Leave $share and its group out")
        if levels.count(DEVICE_FIELD) != 1:
            raise ValueError("have {device} as exactly one level|Write for example wearables/{device}/imu")
        for i, level in enumerate(levels):
            is_wild = level == "+" or (level == "#" and i == len(levels) - 1)
            if level != DEVICE_FIELD and not is_wild and re.search(r"[+#{}\x00]", level):
                raise ValueError("have +, # and {device} as whole levels, # as the last|Correct the pattern")
        return pattern

    @field_validator("codec")
    @classmethod
    def _known(cls, codec: str) -> str:
        name = codec.replace("_", "-")  # as the file is called
        if name not in codec_names():
            remedy = nearest(codec, codec_names(), "Name a codec of this list")
            raise ValueError(f"be one of {', '.join(codec_names())}|{remedy}")
        return name

    @property
    def topic_filter(self) -> str:
        """What to subscribe to: {device} is +."""
        return self.pattern.replace(DEVICE_FIELD, "+")

    @property
    def device_profile(self) -> DeviceProfile:
        """The profile; only after `load_config` has put the file's content in place of its name."""
        assert isinstance(self.profile, ProfileConfig)
        return self.profile.to_profile()
