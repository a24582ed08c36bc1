"""A set of SisFall's size from its sample: python benchmarks/tile.py sisfall-sample.zip sisfall-tiled

38 people and 4,505 recordings, as many as the whole set has, 23 of the young, 15 of the old of whom SE06 alone falls:
copies of the sample's four people under other names, each count moved by -2 to 2 at random. For time and memory; what
is measured of falls on it means nothing, since everybody has near copies among the others.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from stream_occ.datasets.sisfall import LARGEST_COUNTS

N_YOUNG, N_OLD = 23, 15
YOUNG, OLD, FALLS = ("SA01", "SA02"), "SE01", "SE06"
MOVE = 2
_NAME = re.compile(r"([DF]\d\d)_(S[AE]\d\d)_R(\d\d)\.txt")


def plan(names: list[str]) -> dict[str, str]:
    """The file to copy by the name of the copy, person by person, from the names in the sample."""
    sources = {match.groups(): name for name in names if (match := _NAME.fullmatch(Path(name).name))}
    people = {f"SA{i + 1:02}": YOUNG[i % len(YOUNG)] for i in range(N_YOUNG)}
    people |= {f"SE{i + 1:02}": OLD for i in range(N_OLD)}
    people[FALLS] = FALLS
    copies = {}
    for person, source in people.items():
        trials: dict[str, list[str]] = {}
        for (activity, subject, _), name in sorted(sources.items()):
            if subject == source:
                trials.setdefault(activity, []).append(name)
        for activity, of_activity in trials.items():
            wanted = _n_of_sole_faller(activity) if person == FALLS else len(of_activity)
            for k in range(wanted):
                copies[f"{person}/{activity}_{person}_R{k + 1:02}.txt"] = of_activity[k % len(of_activity)]
    return copies


def _n_of_sole_faller(activity: str) -> int:
    """SE06 has two trials of each in the sample; so many make the 4,505 recordings of the whole set."""
    if activity in ("D01", "D02", "D03", "D04"):
        return 1
    return 4 if activity.startswith("D") or activity in ("F14", "F15") else 5


def moved(text: str, rng: np.random.Generator) -> str:
    """The rows of a file with each count moved by -MOVE to MOVE, within what the sensor can tell."""
    values = np.array(re.sub("[,;]", " ", text).split(), dtype=np.int64)
    counts = values[: len(values) // 9 * 9].reshape(-1, 9)
    counts = counts + rng.integers(-MOVE, MOVE, counts.shape, endpoint=True)
    counts = np.clip(counts, -LARGEST_COUNTS, LARGEST_COUNTS - 1).astype(np.int64)
    return "".join(",".join(map(str, row)) + ";\n" for row in counts.tolist())


def write(sample: Path, folder: Path, *, seed: int = 0, n_people: int | None = None) -> Mapping[str, int]:
    """Number of recordings written below the folder, by person; n_people: the first so many of the 38 alone."""
    written: dict[str, int] = {}
    with ZipFile(sample) as archive:
        for number, (copy, name) in enumerate(plan(archive.namelist()).items()):
            person = copy.partition("/")[0]
            if person not in written and len(written) == n_people:
                break
            written[person] = written.get(person, 0) + 1
            (folder / person).mkdir(parents=True, exist_ok=True)
            text = archive.read(name).decode("latin-1")
            (folder / copy).write_text(moved(text, np.random.default_rng([seed, number])))
    return written


def main() -> None:
    """Writes the set and prints its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--people", type=int, help="the first so many of the 38 alone")
    args = parser.parse_args()
    written = write(args.sample, args.folder, seed=args.seed, n_people=args.people)
    print(f"{sum(written.values())} recordings of {len(written)} people in {args.folder}")


if __name__ == "__main__":
    main()
