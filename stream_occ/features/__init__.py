"""Feature sets, one file each, found by name: `load("khan31r").extract(windows)` -> (n, 31)."""

from __future__ import annotations

from typing import Protocol, cast

from stream_occ.errors import ConfigError
from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.plugins import load_plugin
from stream_occ.samples import FloatArray
from stream_occ.windowing import WindowBatch, WindowsLike

__all__ = ["FeatureSet", "WindowBatch", "design_lowpass", "load", "slowest_stream_hz"]


class FeatureSet(Protocol):
    """A named, versioned list of features of a window; one lives in stream_occ/features/<name>.py as `FEATURE_SET`."""

    @property
    def name(self) -> str:
        """Name under which models refer to the set."""

    @property
    def version(self) -> int:
        """Raised whenever a value changes; a model refuses another version than its own."""

    @property
    def NAMES(self) -> tuple[str, ...]:
        """Feature names, in the order of the columns."""

    @property
    def lowpass_hz(self) -> float | None:
        """Cut-off of the first-order Butterworth low-pass that the stream goes through first; None for no filter."""

    @property
    def min_rate_hz(self) -> float:
        """The slowest rate of windows for which the set is defined (exclusive)."""

    @property
    def min_stream_hz(self) -> float:
        """The slowest measured rate of a stream that may be resampled for the set."""

    @property
    def min_window_s(self) -> float | None:
        """The shortest window by which a stream may be judged that ends before a whole one; None: it may not."""

    def extract(self, windows: WindowsLike) -> FloatArray:
        """Features (n, len(NAMES)) of windows as given: filtering is the stream's work, done before they are cut."""


# Linear interpolation may fill every second grid point, no more, and a nominal rate may be missed by a tenth.
MIN_RATE_SHARE = 0.45


def slowest_stream_hz(model_rate_hz: float, feature_set: FeatureSet) -> float:
    """The slowest measured rate of a stream that a model of so many Hz may be trained, tested and run on."""
    return max(MIN_RATE_SHARE * model_rate_hz, feature_set.min_stream_hz)


def design_lowpass(feature_set: FeatureSet, rate_hz: float) -> FloatArray | None:
    """Second-order sections of the set's low-pass at a model's rate, None where it has no filter.

    Raises ConfigError for a rate at which the set is not defined.
    """
    if rate_hz <= feature_set.min_rate_hz:
        raise ConfigError(
            "rate_hz",
            f"be above {feature_set.min_rate_hz:g} for feature set {feature_set.name}",
            f"{rate_hz:g}",
            "Raise the rate, or take a feature set for slower streams",
        )
    return None if feature_set.lowpass_hz is None else butter1_lowpass_sos(feature_set.lowpass_hz, rate_hz)


def load(name: str) -> FeatureSet:
    """The feature set called `name`; raises ConfigError for an unknown one."""
    return cast(FeatureSet, load_plugin(__name__, name, kind="feature_set", error=ConfigError).FEATURE_SET)
