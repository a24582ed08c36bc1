"""Benchmarks run on little: their ways decide alike, and ratios are of paired runs."""

import pytest

from stream_occ import engines
from stream_occ.bench.ocnn import by_rows, deciding, fitted, needed, scoring
from stream_occ.bench.rows import synthetic_rows
from stream_occ.bench.timing import in_turns
from stream_occ.bench.training import self_join, sweep, tuning


def test_all_ways_decide_alike() -> None:
    """Peers differ from ours in time alone, on all three kinds of windows; tied votes included."""
    found = deciding(synthetic_rows(400), n_members=4, rounds=1)
    assert set(found["equal_decisions"].values()) == {1.0}
    assert found["rejected"]["normal"] < 0.5
    assert (found["rejected"]["borderline"], found["rejected"]["fall"]) == (1.0, 1.0)
    assert {(entry["windows"], entry["batch"]) for entry in found["timed"]} == {
        (kind, batch) for kind in ("normal", "borderline", "fall") for batch in (1, 256)
    }
    for entry in found["timed"]:
        assert entry["ways"][found["reference"]]["ratio"] == 1.0


def test_what_members_decide_without_neighbours_is_counted() -> None:
    """All of them reject a row far off without one; a training row, at distance 0, is within reach in all."""
    rows = synthetic_rows(300)
    detector = fitted(rows, 2)
    assert needed(detector, rows.train[:5] + 100.0) == {
        "without": 1.0,
        "accepted": 0.0,
        "rejected": 0.0,
        "beyond_nearest": 0.0,
    }
    known = needed(detector, rows.train[:5])
    assert (known["without"], known["beyond_nearest"]) == (0.0, 0.0)
    assert known["accepted"] + known["rejected"] == pytest.approx(1.0)


def test_costs_are_compared_over_numbers_of_rows() -> None:
    """Both engines and the loop, at each size; each beside itself on the fewest rows."""
    names = ["numpy", *(["compiled"] if engines.has_numba() else []), "ckdtree"]
    normal, fall = by_rows(synthetic_rows, (100, 300), n_members=2, rounds=1)
    assert (normal["windows"], fall["windows"]) == ("normal", "fall")
    for found in (normal, fall):
        assert {size: [*ways] for size, ways in found["ways"].items()} == {"100": names, "300": names}
        assert [*found["growth"]] == names
        for sizes in found["growth"].values():
            assert (set(sizes), sizes["100"]["ratio"]) == ({"100", "300"}, 1.0)
    assert len(scoring(synthetic_rows(100), n_members=1, rounds=1)["timed"]) == 4


def test_training_by_trees_of_other_people_finds_the_same() -> None:
    """J, K and theta are those of one cKDTree a fold; distances of the join are too, and Algorithm 4's theta."""
    rows = synthetic_rows(600)
    found = tuning(rows, rounds=1)["found"]
    for name, values in found.items():
        assert (values["J"], values["K"]) == (found["ckdtree"]["J"], found["ckdtree"]["K"]), name
        assert values["theta"] == pytest.approx(found["ckdtree"]["theta"], rel=1e-12), name
    assert self_join(rows, rounds=1)["largest_difference"] < 1e-12
    assert sweep(500, rounds=1)["same"]


def test_ways_take_turns() -> None:
    """Each round begins with another way, and calls in a row go on through the windows."""
    called: list[tuple[str, int]] = []
    tasks = {name: (lambda number, name=name: called.append((name, number))) for name in "ab"}
    found = in_turns(tasks, 2, reference="a", calls=1)
    assert called[2:] == [("a", 0), ("a", 1), ("b", 0), ("b", 1), ("b", 2), ("b", 3), ("a", 2), ("a", 3)]
    assert found["a"]["ratio"] == 1.0
