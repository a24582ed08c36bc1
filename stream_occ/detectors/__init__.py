"""Detectors: scikit-learn estimators that learn from normal rows alone, one file each, found by walking this package.

A public name of any file here (`OCNN`, `RandomProjectionEnsemble`, ...) can be imported from this package; the file is
imported on first use. A file may offer ready detectors in its `PRESETS`: name -> function that makes one, and say in
`SCALING` how their paper scales the features (without it: min-max).

What learns on a stream is in `stream_occ.detectors.online`, which needs river and is imported by its full name alone.
"""

from __future__ import annotations

import difflib
import pkgutil
from collections.abc import Callable
from importlib import import_module
from types import ModuleType
from typing import Any

from stream_occ.errors import UsageError

__all__ = ["preset", "preset_names", "preset_scaling"]

_NEEDS_AN_EXTRA = frozenset({"online"})


def preset(
    name: str,
    *,
    random_state: int | None = None,
    n_jobs: int | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Any:
    """A new unfitted detector by its preset name, such as "JKNN-RP" or "working"; raises UsageError for an unknown one.

    random_state, n_jobs and feature_names (of the columns that it will see) are set where given and where the detector
    has them; UsageError where it needs a feature that is not among them.

    >>> preset("11NN(theta)", random_state=0).theta
    'empirical'
    """
    makers = _presets()
    if name not in makers:
        lowered = {known.lower(): known for known in makers}
        close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.0)
        remedy = f"Did you mean {lowered[close[0]]}? Names: {', '.join(makers)}" if close else "No presets found"
        raise UsageError("detector", "be the name of a preset", repr(name), remedy)
    detector = makers[name]()
    given = {"random_state": random_state, "n_jobs": n_jobs, "feature_names": feature_names}
    known = detector.get_params(deep=False)
    detector.set_params(**{key: value for key, value in given.items() if value is not None and key in known})
    missing = set(getattr(detector, "named_features", ())).difference(feature_names) if feature_names else set()
    if missing:
        raise UsageError(
            f"detector {name}",
            f"find feature {min(missing)}",
            "other features",
            "Take fall31, or detector working",
        )
    return detector


def preset_names() -> tuple[str, ...]:
    """Names of all presets, in the order of the files."""
    return tuple(_presets())


def preset_scaling(name: str) -> str:
    """How the features of this preset are scaled where the user does not say: as its paper does; min-max if unknown.

    >>> preset_scaling("working")
    'min-max'
    """
    found = (module for module in _modules() if name in getattr(module, "PRESETS", {}))
    return str(getattr(next(found, None), "SCALING", "min-max"))


def _presets() -> dict[str, Callable[[], Any]]:
    return {name: make for module in _modules() for name, make in getattr(module, "PRESETS", {}).items()}


def _modules() -> list[ModuleType]:
    names = {item.name for item in pkgutil.iter_modules(__path__) if not item.name.startswith("_")}
    return [import_module(f"{__name__}.{name}") for name in sorted(names - _NEEDS_AN_EXTRA)]


def __getattr__(name: str) -> Any:
    if any(item.name == name for item in pkgutil.iter_modules(__path__)):  # a file, not a name in one: load it alone
        return import_module(f"{__name__}.{name}")
    if not name.startswith("_"):
        for module in _modules():
            if name in getattr(module, "__all__", ()):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
