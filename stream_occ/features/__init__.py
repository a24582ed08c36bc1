"""Feature sets, one file each, found by name: `load("khan31r").extract(windows)` -> (n, 31)."""

from __future__ import annotations

from importlib import import_module
from typing import Protocol, cast

from stream_occ.errors import ConfigError
from stream_occ.samples import FloatArray
from stream_occ.windowing import WindowBatch, WindowsLike

__all__ = ["FeatureSet", "WindowBatch", "load"]


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
        """The slowest sampling rate for which the set is defined (exclusive)."""

    def extract(self, windows: WindowsLike) -> FloatArray:
        """Features (n, len(NAMES)) of windows as given: filtering is the stream's work, done before they are cut."""


def load(name: str) -> FeatureSet:
    """The feature set called `name`; raises ConfigError for an unknown one."""
    module_name = f"stream_occ.features.{name.replace('-', '_')}"
    try:
        if not name.replace("-", "_").isidentifier():
            raise ModuleNotFoundError(name=module_name)
        module = import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        raise ConfigError("feature_set", "be the name of a feature set", repr(name), "Use khan31r") from error
    return cast(FeatureSet, module.FEATURE_SET)
