"""Engines that find nearest rows: numpy, which is always there, and a compiled one; the same answers to the bit.

The compiled engine needs numba (extra `fast`). Nothing of it is imported before a search is large enough to gain, and
everything is compiled, or read from numba's copy on disk, before that search is made: `open_members` and `open_rows`
return when that is done. Which engine is meant holds for the process: `select`, else the variable STREAM_OCC_ENGINE.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Any, Protocol

from stream_occ.engines._members import Members, NumpyMembers, ratio_of
from stream_occ.errors import ConfigError
from stream_occ.neighbors import NearestRows
from stream_occ.samples import BoolArray, FloatArray, IntArray

ENGINES = ("auto", "numpy", "compiled")
VARIABLE = "STREAM_OCC_ENGINE"
LEAST_MEASURED = 10_000  # rows times members from which `auto` compiles to score
LEAST_JOINED = 5_000  # rows from which it does to find the neighbours of all rows

log = logging.getLogger("stream_occ.engines")
_selected = "auto"
_warm: dict[str, ModuleType] = {}

__all__ = [
    "ENGINES",
    "Members",
    "MembersSearch",
    "RowsSearch",
    "nearest",
    "open_members",
    "open_rows",
    "ratio_of",
    "select",
    "warm",
    "warmed",
]


class MembersSearch(Protocol):
    """Measures rows Z (n, d), finite and within +-1e100, in the members of an ensemble."""

    def ratios(self, Z: FloatArray, k: int = 1) -> tuple[FloatArray, IntArray]:
        """nn_ratio (n, L), and the J or, where that is more, k rows that are nearest in the first member."""

    def n_rejecting(self, Z: FloatArray) -> IntArray:
        """Members (n,) that reject each row: nn_ratio >= theta."""

    def more_reject(self, Z: FloatArray, bar: int) -> BoolArray:
        """Whether more than `bar` members reject each row (n,)."""


class RowsSearch(Protocol):
    """Finds the nearest of some rows for queries that come one batch after another."""

    def of(self, Q: FloatArray, k: int, *, skip: IntArray | None = None) -> tuple[FloatArray, IntArray]:
        """Distances and row numbers (n, k): see `stream_occ.neighbors.nearest`."""


def select(name: str) -> None:
    """Makes an engine the process's: `numpy`, `compiled`, or `auto`, the compiled one where it is there and gains.

    For what is opened later. Raises ConfigError for other names, and for `compiled` without numba.
    """
    global _selected
    if name not in ENGINES:
        raise ConfigError("engine", f"be one of {', '.join(ENGINES)}", repr(name)[:60], "Use one of these")
    if name == "compiled" and not has_numba():
        raise ConfigError("engine", "have numba for compiled", "none installed", "Run pip install 'stream_occ[fast]'")
    _selected = name
    _warm.clear()


def warm() -> None:
    """Loads what else is compiled, streams, features and decoding, where the compiled engine is meant; with `auto`,
    where a search has begun to use it. Before a service's first message: later nothing is loaded."""
    is_used = "stream_occ.engines.compiled" in sys.modules
    if _load(is_used) is not None:
        names = ("_fall31", "_khan31r", "_json", "_stream")
        with _without_scipy():
            _warm.update({name: import_module(f"stream_occ.engines.{name}") for name in names})
        _drop_bitcode()


def warmed(name: str) -> Any:
    """The compiled functions of one of the modules that `warm` loads; None before, and where numpy is meant."""
    return _warm.get(name)


def open_members(members: Members) -> MembersSearch:
    """A search among the members of an ensemble, by the engine that is meant."""
    compiled = _compiled(members.own_distance.size >= LEAST_MEASURED, members.X.shape[1])
    search: MembersSearch = NumpyMembers(members) if compiled is None else compiled.CompiledMembers(members)
    return search


def open_rows(X: FloatArray, *, is_join: bool = False) -> RowsSearch:
    """A search among rows X (N, d), by the engine that is meant; is_join: for about as many queries as rows."""
    compiled = _compiled(len(X) >= (LEAST_JOINED if is_join else LEAST_MEASURED), X.shape[1])
    search: RowsSearch = NearestRows(X) if compiled is None else compiled.CompiledRows(X)
    return search


def nearest(Q: FloatArray, X: FloatArray, k: int, *, skip: IntArray | None = None) -> tuple[FloatArray, IntArray]:
    """As `stream_occ.neighbors.nearest`, by the engine that is meant."""
    return open_rows(X, is_join=len(Q) * 16 >= len(X)).of(Q, k, skip=skip)


def _compiled(gains: bool, n_columns: int) -> Any:
    """The compiled engine, or None where another is meant, it would not gain, or it is not there."""
    module = _load(gains)
    return module if module is not None and module.handles(n_columns) else None


def _load(gains: bool) -> Any:
    meant = os.environ.get(VARIABLE, "auto") if _selected == "auto" else _selected
    if meant not in ENGINES:
        raise ConfigError(VARIABLE, f"be one of {', '.join(ENGINES)}", repr(meant)[:60], "Correct or remove it")
    if meant == "numpy" or (meant == "auto" and not (gains and has_numba())):
        return None
    try:
        with _without_scipy():
            return import_module("stream_occ.engines.compiled")
    except ImportError as error:
        if meant == "compiled":
            raise ConfigError("engine", "have a numba that works", str(error)[:200], "Use engine numpy") from error
        log.warning("numba is there and does not work, so numpy searches: %s", error)
        return None


def _drop_bitcode() -> None:
    """Lets go of what numba keeps of each kernel to link others with, 12 MB in all: there will be none."""
    for module in [module for name, module in sys.modules.items() if name.startswith("stream_occ.engines.")]:
        for kernel in vars(module).values():
            for made in getattr(kernel, "overloads", {}).values():
                if hasattr(made.library, "_shared_module"):  # as of numba 0.57 to 0.68
                    made.library._shared_module = None


@contextmanager
def _without_scipy() -> Iterator[None]:
    """numba imports scipy for a BLAS that nothing here calls: 15 MB, which a process that has none of it is spared."""
    if "scipy" in sys.modules:
        yield
        return
    sys.modules["scipy"] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules["scipy"]


def has_numba() -> bool:
    """Whether numba is installed; it is not imported."""
    try:
        return find_spec("numba") is not None
    except ValueError:  # it is there without a spec: hidden on purpose
        return False
