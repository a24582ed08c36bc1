"""A fault's name on one recording of each of the first eleven people of MobiFall: the right one, or none and no other.

What a recording is too short or too lively to show, docs/quality.md says in numbers of people; its table is held to
what comes of it here, with the windows and the filter of the default model.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

import pytest

from stream_occ.datasets import open_dataset
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from tests.unit.test_faults import COSTS_VERDICTS, DOC, LENGTH_S, named, played

PEOPLE = tuple(map(str, range(1, 12)))
QUICK = [("stuck:0", "FOL", "5"), ("stuck:0", "BSC", "9"), ("stuck:3", "BSC", "5"), ("stuck:3", "FOL", "7")]
QUICK += [("nan", "FOL", "5"), ("nan", "FOL", "9"), ("gravity", "FOL", "4")]
NAMES = {
    **{f"stuck:{i}": "acc_stuck" if i < 3 else "gyr_stuck" for i in range(6)},
    "axes": "axis_change",
    "sign": "axis_change",
    "gravity": "gravity_missing",
    "unit": "acc_unit_g_as_ms2",
    "unit:9.80665": "acc_unit_ms2_as_g",
    "unit:0.6": "acc_scale",
    "saturation": "saturated",
    "nan": "not_finite",
    "rate": "rate_mismatch",
}
TABLE = DOC.read_text().partition("## On how many people")[2].partition("\n## ")[0]
ROWS = [
    (fault, activity, int(n), int(of))
    for faults, activity, n, of in re.findall(r"^\| (`.*`) \| (\w+) \| (\d+) of (\d+) \|", TABLE, re.MULTILINE)
    for fault in re.findall(r"`([^`]+)`", faults)
]


@cache
def recordings(data: Path) -> dict[tuple[str, str], Recording]:
    """The first trial of each person and activity of the table, at most LENGTH_S of it."""
    wanted, found = {activity for _, activity, *_ in ROWS}, {}
    with open_dataset("mobifall", data / "mobifall.zip", variant=None) as source:
        for one in source.iter_recordings():
            key = (one.subject, one.activity)
            if one.subject in PEOPLE and one.activity in wanted and key not in found:
                block = one.block
                kept = block.t_ns < block.t_ns[0] + round(LENGTH_S * NS_PER_S)
                block = SampleBlock("w1", block.t_ns[kept], block.acc_ms2[kept], block.gyr_rads[kept])
                whose = (one.dataset, one.subject, one.activity, one.trial, one.is_fall)
                found[key] = Recording(*whose, None, one.placement, block)
    return found


@cache
def undisturbed(data: Path, person: str, activity: str) -> set[str]:
    return named(played(recordings(data)[person, activity], None, cut="default"))


def told(data: Path, fault: str, activity: str, person: str) -> set[str]:
    """What the fault is called, beside what the replay shows without it."""
    bench = played(recordings(data)[person, activity], fault, cut="default")
    if NAMES[fault] in ("acc_stuck", "gyr_stuck", "gravity_missing", "not_finite"):  # named or not
        counters = bench.state()["counters"]
        assert counters["unscorable"] == counters["windows"]
    return named(bench) - undisturbed(data, person, activity) - COSTS_VERDICTS


@pytest.mark.parametrize(("fault", "activity", "person"), QUICK)
def test_fault_of_a_fall_gets_no_other_name(shared_data: Path, fault: str, activity: str, person: str) -> None:
    """Recordings of which a stuck axis was named as a scale, or a hole as another rate or other axes."""
    expected = set() if fault == "gravity" else {NAMES[fault]}
    assert told(shared_data, fault, activity, person) == expected


@pytest.mark.slow
@pytest.mark.parametrize(("fault", "activity", "n", "of"), ROWS)
def test_fault_gets_its_name_or_none_whoever_wears_the_device(
    shared_data: Path, fault: str, activity: str, n: int, of: int
) -> None:
    """As many people as the table says."""
    people = [person for person in PEOPLE if (person, activity) in recordings(shared_data)]
    names = [told(shared_data, fault, activity, person) for person in people]
    assert [name for name in names if name and name != {NAMES[fault]}] == []
    assert (sum(map(bool, names)), len(people)) == (n, of)


def test_table_has_its_rows() -> None:
    """All kinds of faults of the sensor that are told by samples alone."""
    assert {NAMES[fault] for fault, *_ in ROWS} == set(NAMES.values())
