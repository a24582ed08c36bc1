"""benchmarks/tile.py: as many people and recordings as SisFall has, made from four people."""

import re
from collections import Counter
from pathlib import Path
from zipfile import ZipFile

import numpy as np

from benchmarks.tile import move_sisfall, plan_sisfall, write
from stream_occ.datasets import open_dataset


def names() -> list[str]:
    """Of the sample as its zip lists them: trials by person and activity."""
    found = []
    for person in ("SA01", "SA02", "SE01", "SE06"):
        for kind, n in (("D", 19), ("F", 15)):
            for number in range(1, n + 1):
                activity = f"{kind}{number:02}"
                is_missing = person == "SE01" and (kind == "F" or number in (6, 13, 18, 19))
                once = kind == "D" and number <= 4
                n_trials = 0 if is_missing else 1 if once else 2 if person == "SE06" else 5
                found += [f"set/{person}/{activity}_{person}_R{k + 1:02}.txt" for k in range(n_trials)]
    return [*found, "set/Readme.txt"]


def test_the_whole_has_the_sizes_of_sisfall() -> None:
    """38 people, 4,505 recordings, 1,798 falls of 24 people, as published (Sucerquia et al., Sensors 17:198, 2017)."""
    copies = [copy for _, copy, _ in plan_sisfall(names())]
    people = Counter(copy.partition("/")[0] for copy in copies)
    falls = Counter(copy.partition("/")[0] for copy in copies if "/F" in copy)
    assert (len(people), len(copies), falls.total(), len(falls)) == (38, 4505, 1798, 24)
    assert [person for person in falls if person.startswith("SE")] == ["SE06"]
    assert all(re.fullmatch(r"(S[AE]\d\d)/[DF]\d\d_\1_R\d\d\.txt", copy) for copy in copies)


def test_counts_move_by_two_at_most_and_stay_possible() -> None:
    """Blanks, the ';' at the end and CRLF are read; a clipped count stays within 13, 16 and 14 bits."""
    text = (
        "  17,-179, -99, -18,-504,-352,  76,-697,-279;\r\n\r\n" * 400 + "4095,0,-4096,32767,0,0,8191,0,-8192;\r\n" * 400
    )
    moved = move_sisfall(text, np.random.default_rng(0))
    rows = [[int(n) for n in line.rstrip(";").split(",")] for line in moved.split()]
    first = np.array(rows[:400]) - [17, -179, -99, -18, -504, -352, 76, -697, -279]
    assert (len(rows), set(np.unique(first).tolist())) == (800, {-2, -1, 0, 1, 2})
    last = np.array(rows[400:])
    assert (last[:, 0].max(), last[:, 2].min(), last[:, 3].max(), last[:, 8].min()) == (4095, -4096, 32767, -8192)


def test_a_tile_is_read_as_sisfall_and_comes_out_the_same_again(tmp_path: Path) -> None:
    """Two people of one recording each; another seed moves otherwise."""
    with ZipFile(tmp_path / "sample.zip", "w") as archive:
        for person in ("SA01", "SA02"):
            archive.writestr(f"x/{person}/D01_{person}_R01.txt", "1, 2,-256, 0,0,0, 1,1,1;\r\n" * 300)
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert write(tmp_path / "sample.zip", tmp_path / folder, seed=seed, n_people=2) == {"SA01": 1, "SA02": 1}
    texts = [(tmp_path / folder / "SA02" / "D01_SA02_R01.txt").read_text() for folder in "abc"]
    assert (texts[0] == texts[1], texts[0] == texts[2]) == (True, False)
    with open_dataset("sisfall", tmp_path / "a") as dataset:
        assert [(r.subject, r.activity, len(r.block)) for r in dataset.iter_recordings()] == [
            ("SA01", "D01", 300),
            ("SA02", "D01", 300),
        ]


def test_two_people_are_never_the_same_recording(tmp_path: Path) -> None:
    """Copies of one file differ, or `calibrate` and `train` would leave them out as copies."""
    with ZipFile(tmp_path / "sample.zip", "w") as archive:
        archive.writestr("x/SE01/D01_SE01_R01.txt", "1, 2,-256, 0,0,0, 1,1,1;\n" * 300)
    write(tmp_path / "sample.zip", tmp_path)
    assert len({path.read_text() for path in tmp_path.glob("SE*/*.txt")}) == 14
