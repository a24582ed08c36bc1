"""Recorded data sets, one file each, found by name: `open_dataset("mobifall", path).iter_recordings()`.

Every recording comes in SI units with gravity, on the set's own clock in int64 ns. What could not be used is counted in
the data set's `report`. docs/datasets.md says how each set is read, and why.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from stream_occ.datasets._files import FileTree
from stream_occ.datasets._loading import Dataset, Loader, Trial
from stream_occ.datasets._report import LoadReport
from stream_occ.errors import DataError, nearest
from stream_occ.plugins import load_plugin, plugin_names

if TYPE_CHECKING:
    from stream_occ.datasets.table import Table

__all__ = ["Dataset", "FileTree", "LoadReport", "Loader", "Trial", "dataset_names", "load_table", "open_dataset"]


def dataset_names() -> tuple[str, ...]:
    """Names that `open_dataset` knows, sorted: the files of this package and what other packages offer."""
    return plugin_names(__name__)


def open_dataset(name: str, path: str | os.PathLike[str], *, variant: str | None = None) -> Dataset:
    """The data set `name` found anywhere below `path`, a folder or a zip archive (one file for csv and recording).

    `variant` picks one of the versions that some sets have (weda-fall: 50Hz, 25Hz). Raises DataError for an unknown
    name or variant, a missing path and a place without any file of the set.
    """
    loader: Loader = load_plugin(__name__, name, kind="dataset", error=DataError)
    name = name.replace("_", "-")
    if variant is not None and variant not in loader.VARIANTS:
        known = ", ".join(loader.VARIANTS) or "left out: this set has one version alone"
        remedy = nearest(variant, loader.VARIANTS, "Leave --variant out for the default")
        raise DataError(f"variant of {name}", f"be {known}", repr(variant), remedy)
    chosen = variant if variant is not None or not loader.VARIANTS else loader.VARIANTS[0]
    # users' own files may lie beside their backup, an archive; published sets come as archives of archives
    tree = FileTree(path, allow_file=loader.ALLOW_FILE, nested=not loader.ALLOW_FILE)
    try:
        return Dataset(name, loader, tree, chosen)
    except BaseException:
        tree.close()
        raise


def load_table(path: str | os.PathLike[str]) -> Table:
    """Feature vectors with labels from a KEEL .dat or a CSV file: see `stream_occ.datasets.table`."""
    from stream_occ.datasets.table import read_table

    return read_table(path)
