"""Measures the ranges that synthetic activities must keep, from recorded data, into tests/golden/activity_ranges.json.

    python scripts/measure_activity_ranges.py [--data ../shared/data] [--out tests/golden/activity_ranges.json]

The file holds percentiles of statistics over trials, no data: what is measured is in simulators/evidence.py.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from simulators.evidence import (
    COMPARISONS,
    FULL_RANGE_FALLS,
    FULL_RANGE_STATISTICS,
    STATISTICS,
    Comparison,
    iter_pieces,
)
from stream_occ.datasets import FileTree, open_dataset
from stream_occ.samples import DEG_TO_RAD, STANDARD_GRAVITY_MS2, FloatArray, SampleBlock

PERCENTILES = (1, 5, 10, 50, 90, 95, 99)
REPO = Path(__file__).resolve().parents[1]
Trial = tuple[str, str, SampleBlock]  # subject, activity code, samples


def iter_mobifall(data: Path) -> Iterator[Trial]:
    """All trials, as the project's loader reads them."""
    with open_dataset("mobifall", data / "mobifall.zip") as dataset:
        for recording in dataset.iter_recordings():
            yield recording.subject, recording.activity, recording.block


def iter_sisfall(data: Path) -> Iterator[Trial]:
    """Waist, 200 Hz without stamps: columns 1-3 in 32 g / 2^13, 4-6 in 4000 deg/s / 2^16 (the set's Readme)."""
    tree = FileTree(data / "sisfall-sample.zip")
    for name in tree.names:
        match = re.fullmatch(r"([DF]\d\d)_(S[AE]\d\d)_R\d\d\.txt", PurePosixPath(name).name)
        if match:
            lines = tree.read(name).decode("latin-1").splitlines()
            rows = [line.strip(" ;\t").split(",") for line in lines if line.count(",") == 8]
            values = np.array(rows, dtype=np.float64)
            acc = values[:, :3] * (32 / 2**13 * STANDARD_GRAVITY_MS2)
            gyr = values[:, 3:6] * (4000 / 2**16 * DEG_TO_RAD)
            yield match[2], match[1], _block(np.arange(len(values)) / 200.0, acc, gyr)


def iter_umafall(data: Path) -> Iterator[Trial]:
    """The phone in the right pocket, which has no gyroscope; subject 13's file is damaged and has no usable row."""
    tree = FileTree(data / "umafall-sample.zip")
    for name in tree.names:
        match = re.search(r"Subject_(\d+)_(?:ADL|Fall)_([A-Za-z_]+)_\d+_20.*\.csv", name)
        if not match or match[1] == "13":
            continue
        lines = tree.read(name).decode("latin-1").splitlines()
        phone = next(found[1] for line in lines if (found := re.match(r"%\S+; (\d+); RIGHTPOCKET;", line)))
        rows = [line.rstrip("; ").split(";") for line in lines if line[:1].isdigit()]
        values = np.array(
            [[row[0], *row[2:5]] for row in rows if len(row) == 7 and row[5:] == ["0", phone]], dtype=np.float64
        )
        yield match[1], match[2], _block(values[:, 0] / 1e3, values[:, 1:] * STANDARD_GRAVITY_MS2)


def iter_smartfallmm(data: Path) -> Iterator[Trial]:
    """The accelerometer at the hip, in g; files that hold gyroscope values (above 16 g) are passed over."""
    tree = FileTree(data / "smartfallmm-sample.zip")
    for name in tree.names:
        match = re.search(r"/accelerometer/meta_hip/(S\d+)(A\d+)T\d+\.csv$", name)
        if match:
            rows = [line.split(",") for line in tree.read(name).decode("latin-1").splitlines() if line[:1].isdigit()]
            values = np.array([[row[0], *row[-3:]] for row in rows], dtype=np.float64)
            if np.abs(values[:, 1:]).max() <= 16.0:
                yield match[1], match[2], _block(values[:, 0] / 1e3, values[:, 1:] * STANDARD_GRAVITY_MS2)


def _block(t_s: FloatArray, acc_ms2: FloatArray, gyr_rads: FloatArray | None = None) -> SampleBlock:
    t_ns = np.rint((t_s - t_s[0]) * 1e9).astype(np.int64)
    return SampleBlock("recorded", t_ns, acc_ms2, np.zeros_like(acc_ms2) if gyr_rads is None else gyr_rads)


READERS: dict[str, Callable[[Path], Iterator[Trial]]] = {
    "mobifall": iter_mobifall,
    "sisfall": iter_sisfall,
    "umafall": iter_umafall,
    "smartfallmm": iter_smartfallmm,
}


def measure(comparison: Comparison, trials: dict[str, list[Trial]]) -> dict[str, Any]:
    """Percentiles of every statistic over the pooled pieces of a comparison's sources, with their provenance."""
    pooled: dict[str, list[float]] = {}
    provenance = []
    for source in comparison.sources:
        used = [trial for trial in trials[source.dataset] if trial[1] in source.codes]
        pieces = [piece for _, _, block in used for piece in iter_pieces(block, source)]
        for piece in pieces:
            for name in piece.keys() - source.omit:
                pooled.setdefault(name, []).append(piece[name])
        provenance.append(
            {
                "dataset": source.dataset,
                "codes": list(source.codes),
                "placement": source.placement,
                "cut": source.cut,
                "n_people": len({subject for subject, _, _ in used}),
                "n_trials": len(used),
                "n_pieces": len(pieces),
            }
        )
    keys = [f"p{q}" for q in PERCENTILES]
    ranges = {
        name: dict(zip(keys, np.percentile(values, PERCENTILES).round(4).tolist(), strict=True))
        for name, values in sorted(pooled.items())
    }
    return {"sources": provenance, "widen": comparison.widen, "statistics": ranges}


def measure_all(data: Path) -> dict[str, Any]:
    """The whole content of the golden file."""
    trials = {name: list(read(data)) for name, read in READERS.items()}
    full_range = measure(FULL_RANGE_FALLS, trials)
    full_range["statistics"] = {name: full_range["statistics"][name] for name in FULL_RANGE_STATISTICS}
    return {
        "provenance": "written by scripts/measure_activity_ranges.py: percentiles over recorded trials; no data",
        "definitions": STATISTICS,
        "activities": {name: measure(comparison, trials) for name, comparison in COMPARISONS.items()},
        "full_range_falls": full_range,
    }


def main() -> None:
    """Measures and writes the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    default = os.environ.get("STREAM_OCC_DATA", str(REPO.parent / "shared" / "data"))
    parser.add_argument("--data", type=Path, default=Path(default), help="folder of the archives (default %(default)s)")
    parser.add_argument("--out", type=Path, default=REPO / "tests" / "golden" / "activity_ranges.json")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.exit(f"{arguments.data}: must be the folder of recorded data; got no such folder. Set --data.")
    arguments.out.write_text(json.dumps(measure_all(arguments.data), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
