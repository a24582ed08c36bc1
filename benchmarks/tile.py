"""A set of its published size from its sample: python benchmarks/tile.py sisfall-sample.zip sisfall-tiled

Copies of the sample's few people under other names, each value moved a little at random, and as many people and
recordings as the whole set has: SisFall 38 and 4,505, UMAFall 19 and 746, FallAllD 15 and 6,605, SmartFallMM 40 (of
its recordings no number is published; each gets those of the sample's fullest person). For time and memory; what is
measured of falls on it means nothing, since everybody has near copies among the others. The set is named by the
sample's file name, or by --dataset.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from itertools import cycle, islice
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from stream_occ.datasets.sisfall import LARGEST_COUNTS

Copies = Iterator[tuple[str, str, str]]  # person, name of the copy, name in the sample

MOVE = 2  # counts
MOVE_SHARE = 0.002  # of a number that is no count

# SisFall: 23 young and 15 old, of whom SE06 alone falls
N_YOUNG, N_OLD = 23, 15
YOUNG, OLD, FALLS = ("SA01", "SA02"), "SE01", "SE06"
_SISFALL = re.compile(r"([DF]\d\d)_(S[AE]\d\d)_R(\d\d)\.txt")

UMAFALL_PEOPLE, UMAFALL_ADL, UMAFALL_FALLS, UMAFALL_SPOILT = 19, 538, 208, "13"
_UMAFALL = re.compile(r"UMAFall_Subject_(\d\d)_(ADL|Fall)_(.+?)_\d+_[\d-]+_[\d-]+\.csv")
_UMAFALL_START = datetime(2016, 6, 1)

FALLALLD_PEOPLE, FALLALLD_RECORDINGS = 15, 6605
_FALLALLD = re.compile(r"S01_D([23])_A(\d{3})_T(\d\d)_A\.dat")

SMARTFALLMM_YOUNG, SMARTFALLMM_OLD = range(29, 48), range(1, 22)
_SMARTFALLMM = re.compile(r"young/(accelerometer|gyroscope)/(watch|meta_hip)/S(\d\d)A(\d\d)(T\d\d)\.csv")
_FULLEST = {"watch": "30", "meta_hip": "29"}


def plan_sisfall(names: list[str]) -> Copies:
    """Person by person, from the names in the sample."""
    sources = {match.groups(): name for name in names if (match := _SISFALL.fullmatch(Path(name).name))}
    people = {f"SA{i + 1:02}": YOUNG[i % len(YOUNG)] for i in range(N_YOUNG)}
    people |= {f"SE{i + 1:02}": OLD for i in range(N_OLD)}
    people[FALLS] = FALLS
    for person, source in people.items():
        trials: dict[str, list[str]] = {}
        for (activity, subject, _), name in sorted(sources.items()):
            if subject == source:
                trials.setdefault(activity, []).append(name)
        for activity, of_activity in trials.items():
            wanted = _n_of_sole_faller(activity) if person == FALLS else len(of_activity)
            for k in range(wanted):
                yield person, f"{person}/{activity}_{person}_R{k + 1:02}.txt", of_activity[k % len(of_activity)]


def _n_of_sole_faller(activity: str) -> int:
    """SE06 has two trials of each in the sample; so many make the 4,505 recordings of the whole set."""
    if activity in ("D01", "D02", "D03", "D04"):
        return 1
    return 4 if activity.startswith("D") or activity in ("F14", "F15") else 5


def plan_umafall(names: list[str]) -> Copies:
    """Two of three people fall; the spoilt recordings stay with the person whose they are."""
    sources: dict[str, list[tuple[str, str]]] = {"ADL": [], "Fall": []}
    spoilt: list[tuple[str, str]] = []
    for name in sorted(names):
        if match := _UMAFALL.fullmatch(Path(name).name):
            person, kind, activity = match.groups()
            (spoilt if person == UMAFALL_SPOILT else sources[kind]).append((activity, name))
    people = [f"{i + 1:02}" for i in range(UMAFALL_PEOPLE) if f"{i + 1:02}" != UMAFALL_SPOILT]
    wanted = [(UMAFALL_SPOILT, "ADL", *source) for source in spoilt]
    for kind, n, who in (
        ("ADL", UMAFALL_ADL - len(spoilt), people),
        ("Fall", UMAFALL_FALLS, [person for i, person in enumerate(people) if i % 3]),
    ):
        wanted += [(person, kind, *source) for person, source in islice(zip(cycle(who), cycle(sources[kind])), n)]
    for k, (person, kind, activity, name) in enumerate(sorted(wanted)):
        stamp = (_UMAFALL_START + timedelta(minutes=k)).strftime("%Y-%m-%d_%H-%M-%S")
        yield person, f"UMAFall_Subject_{person}_{kind}_{activity}_{k % 6 + 1}_{stamp}.csv", name


def plan_fallalld(names: list[str]) -> Copies:
    """As many of each device; those of the neck, which the sample has not, are the wrist's."""
    sources: dict[str, list[tuple[str, str]]] = {"2": [], "3": []}
    for name in sorted(names):
        if match := _FALLALLD.fullmatch(Path(name).name):
            sources[match.group(1)].append((match.group(2), name))
    sources["1"] = sources["2"]
    places = [(f"S{i + 1:02}", device) for i in range(FALLALLD_PEOPLE) for device in "123"]
    for i, (person, device) in enumerate(places):
        n = FALLALLD_RECORDINGS // len(places) + (i < FALLALLD_RECORDINGS % len(places))
        n_trials: dict[str, int] = {}
        for activity, name in islice(cycle(sources[device]), n):
            n_trials[activity] = n_trials.get(activity, 0) + 1
            stem = f"{person}_D{device}_A{activity}_T{n_trials[activity]:02}"
            for sensor in "AG":
                yield person, f"{stem}_{sensor}.dat", name.replace("_A.dat", f"_{sensor}.dat")


def plan_smartfallmm(names: list[str]) -> Copies:
    """Everybody has the trials of one person of the sample; the old do not fall."""
    sources = [(match.groups(), name) for name in sorted(names) if (match := _SMARTFALLMM.fullmatch(name))]
    people = [("young", i) for i in SMARTFALLMM_YOUNG] + [("old", i) for i in SMARTFALLMM_OLD]
    for group, i in people:
        for (sensor, device, person, activity, trial), name in sources:
            if person == _FULLEST[device] and (group == "young" or int(activity) < 10):
                yield f"S{i:02}", f"{group}/{sensor}/{device}/S{i:02}A{activity}{trial}.csv", name


def move_counts(text: str, rng: np.random.Generator, n_columns: int = 3) -> str:
    """The rows of a file with each count moved by -MOVE to MOVE, within 16 bits."""
    counts = np.array(re.sub("[,;]", " ", text).split(), dtype=np.int64).reshape(-1, n_columns)
    counts = np.clip(counts + rng.integers(-MOVE, MOVE, counts.shape, endpoint=True), -(2**15), 2**15 - 1)
    return "".join(",".join(map(str, row)) + "\n" for row in counts.tolist())


def move_sisfall(text: str, rng: np.random.Generator) -> str:
    """Nine counts a row, each within what its sensor can tell."""
    values = np.array(re.sub("[,;]", " ", text).split(), dtype=np.int64)
    counts = values[: len(values) // 9 * 9].reshape(-1, 9)
    counts = counts + rng.integers(-MOVE, MOVE, counts.shape, endpoint=True)
    counts = np.clip(counts, -LARGEST_COUNTS, LARGEST_COUNTS - 1).astype(np.int64)
    return "".join(",".join(map(str, row)) + ";\n" for row in counts.tolist())


def move_numbers(text: str, rng: np.random.Generator, *, delimiter: str, columns: slice) -> str:
    """Rows of numbers with each of those columns made larger or smaller by MOVE_SHARE at most; other rows stay."""
    lines = text.splitlines()
    shares = 1 + rng.uniform(-MOVE_SHARE, MOVE_SHARE, (len(lines), 3))
    for i, (line, share) in enumerate(zip(lines, shares.tolist(), strict=True)):
        fields = line.split(delimiter)
        try:
            moved = [repr(float(field) * factor) for field, factor in zip(fields[columns], share, strict=True)]
        except ValueError:  # a header, or damage: it belongs to the set
            continue
        fields[columns] = moved
        lines[i] = delimiter.join(fields)
    return "\n".join(lines) + "\n"


SETS: Mapping[str, tuple[Callable[[list[str]], Copies], Callable[[str, np.random.Generator], str]]] = {
    "sisfall": (plan_sisfall, move_sisfall),
    "umafall": (plan_umafall, lambda text, rng: move_numbers(text, rng, delimiter=";", columns=slice(2, 5))),
    "fallalld": (plan_fallalld, move_counts),
    "smartfallmm": (
        plan_smartfallmm,
        lambda text, rng: move_numbers(text, rng, delimiter=",", columns=slice(-3, None)),
    ),
}


def write(
    sample: Path, folder: Path, *, dataset: str = "sisfall", seed: int = 0, n_people: int | None = None
) -> Mapping[str, int]:
    """Number of files written below the folder, by person; n_people: the first so many alone."""
    plan, move = SETS[dataset]
    written: dict[str, int] = {}
    with ZipFile(sample) as archive:
        for number, (person, copy, name) in enumerate(plan(archive.namelist())):
            if person not in written and len(written) == n_people:
                continue
            written[person] = written.get(person, 0) + 1
            (folder / copy).parent.mkdir(parents=True, exist_ok=True)
            text = archive.read(name).decode("latin-1")
            (folder / copy).write_text(move(text, np.random.default_rng([seed, number])), encoding="latin-1")
    return written


def main() -> None:
    """Writes the set and prints its size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--dataset", choices=sorted(SETS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--people", type=int, help="the first so many of them alone")
    args = parser.parse_args()
    dataset = args.dataset or next((name for name in SETS if args.sample.name.startswith(name)), None)
    if dataset is None:
        parser.error(f"--dataset: {args.sample.name} does not say which of {', '.join(SETS)} it is")
    written = write(args.sample, args.folder, dataset=dataset, seed=args.seed, n_people=args.people)
    print(f"{sum(written.values())} files of {len(written)} people in {args.folder}")


if __name__ == "__main__":
    main()
