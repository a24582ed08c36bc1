"""Recorded data sets, one file each, found by name: `open_dataset("mobifall", path).iter_recordings()`.

Every recording comes in SI units with gravity, on the set's own clock in int64 ns. What could not be used is counted in
the data set's `report`. docs/datasets.md says how each set is read, and why.
"""

from __future__ import annotations

import difflib
import os
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING, cast

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Dataset, Loader, Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.errors import DataError

if TYPE_CHECKING:
    from stream_occ.datasets.table import Table

__all__ = ["Dataset", "FileTree", "LoadReport", "Loader", "Trial", "dataset_names", "load_table", "open_dataset"]

ENTRY_POINTS = "stream_occ.datasets"  # other people's packages offer their loaders under this group


def dataset_names() -> tuple[str, ...]:
    """Names that `open_dataset` knows, sorted: the files of this package and what other packages offer."""
    own = {path.stem for path in Path(__file__).parent.glob("*.py") if not path.stem.startswith("_")}
    offered = {entry.name for entry in entry_points(group=ENTRY_POINTS)}
    return tuple(sorted({name.replace("_", "-") for name in own | offered}))


def open_dataset(name: str, path: str | os.PathLike[str], *, variant: str | None = None) -> Dataset:
    """The data set `name` found anywhere below `path`, a folder or a zip archive (one file for csv and recording).

    `variant` picks one of the versions that some sets have (weda-fall: 50Hz, 25Hz). Raises DataError for an unknown
    name or variant, a missing path and a place without any file of the set.
    """
    loader = _find_loader(name)
    if variant is not None and variant not in loader.VARIANTS:
        known = ", ".join(loader.VARIANTS) or "left out: this set has one version alone"
        raise DataError(f"variant of {name}", f"be {known}", repr(variant), "Leave --variant out for the default")
    chosen = variant if variant is not None or not loader.VARIANTS else loader.VARIANTS[0]
    tree = FileTree(path, allow_file=loader.ALLOW_FILE)
    try:
        return Dataset(name, loader, tree, chosen)
    except BaseException:
        tree.close()
        raise


def load_table(path: str | os.PathLike[str]) -> Table:
    """Feature vectors with labels from a KEEL .dat or a CSV file: see `stream_occ.datasets.table`."""
    from stream_occ.datasets.table import read_table

    return read_table(path)


def _find_loader(name: str) -> Loader:
    known = dataset_names()
    if name not in known:
        near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.3)
        hint = f"Did you mean {near[0]}" if near else "Use one of these"
        raise DataError("dataset", f"be one of {', '.join(known)}", repr(name), hint)
    for entry in entry_points(group=ENTRY_POINTS):
        if entry.name.replace("_", "-") == name:
            return cast(Loader, entry.load())
    return cast(Loader, import_module(f"{__name__}.{name.replace('-', '_')}"))
