"""A lasting change of scores is found, as river's ADWIN finds it, and the service says it."""

import logging
import pickle
from typing import Any

import numpy as np
import pytest
from river.drift import ADWIN

from stream_occ.drift import DriftPolicy, DriftWatch, find_change
from stream_occ.samples import NS_PER_S, Decision, SampleBlock
from tests.reference import drift_loop
from tests.unit.test_service import JSON, T0_NS, Bench


def decision(score: float, t_s: float) -> Decision:
    return Decision("w1", round(t_s * NS_PER_S), score, 9.0, "normal", "m")


def pushed(watch: DriftWatch, scores: Any, *, start_s: float = 0.0, step_s: float = 1.0) -> list[Any]:
    """What the watch said, as (number of the score, drift)."""
    told = [(i, watch.push(decision(float(score), start_s + i * step_s))) for i, score in enumerate(scores)]
    return [(i, drift) for i, drift in told if drift is not None]


SMALL = DriftPolicy(spacing_s=1.0, block_s=5.0, max_blocks=120)


@pytest.mark.parametrize("seed", range(6))
def test_test_equals_its_loop_written_twin(seed: int) -> None:
    """The bound and the best cut, on values with and without a change."""
    rng = np.random.default_rng(seed)
    values = np.clip(0.1 * rng.normal(size=40) + np.where(np.arange(40) < 25, 0.4, 0.3 + 0.1 * seed), 0.0, 1.0)
    excess, cut = find_change(values, delta=0.002, min_size=5)
    expected, expected_cut = drift_loop.find_change(values.tolist(), 0.002, 5)
    assert excess == pytest.approx(expected, rel=1e-9)
    assert cut == expected_cut


def test_test_by_hand() -> None:
    """Ten 0 and ten 1: d = ln(2 * 2.9957 / .5) = 2.4836, bound sqrt(.5 * d * .2) + 2 / 3 * d * .2 = .4984 + .3311."""
    excess, cut = find_change(np.repeat([0.0, 1.0], 10), delta=0.5, min_size=1)
    assert cut == 10
    assert excess == pytest.approx(1.0 / (0.4984 + 0.3311), rel=1e-3)


def test_too_few_or_equal_values_are_no_change() -> None:
    """Nothing is said of fewer than two sides' worth of values, nor of a constant."""
    assert find_change(np.arange(9.0), delta=0.1, min_size=5) == (0.0, 9)
    assert find_change(np.full(30, 0.5), delta=0.1, min_size=5)[0] == 0.0


def test_what_rivers_adwin_reports_is_reported() -> None:
    """Steps of many sizes that river's ADWIN finds on the same blocks are found at the same block or before it."""
    n_found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values = np.clip(np.repeat([0.4, 0.4 + 0.02 * seed], 200) + 0.1 * rng.normal(size=400), 0.0, 1.0)
        theirs = ADWIN(clock=1, grace_period=10)
        reported = []
        for i, value in enumerate(values.tolist(), start=1):
            theirs.update(value)
            if theirs.drift_detected:
                reported.append(i)
        own = [i for i in range(10, 401) if find_change(values[:i], delta=0.002, min_size=5)[0] > 1.0]
        if reported:
            n_found += 1
            assert own[0] <= reported[0]
        assert all(i > 200 for i in own)
    assert n_found >= 8


def test_a_step_is_found_with_its_direction_and_taken_back() -> None:
    """Up: adrift, with the mean ranks of both sides; down again: no more."""
    rng = np.random.default_rng(0)
    watch = DriftWatch(SMALL)
    assert pushed(watch, rng.normal(1.0, 0.1, 300)) == []
    [(_, up)] = pushed(watch, rng.normal(2.0, 0.1, 300), start_s=300.0)
    assert (up.direction, watch.is_adrift) == ("up", True)
    assert up.before == pytest.approx(0.5, abs=0.1)
    assert up.after == 1.0
    [(_, down)] = pushed(watch, rng.normal(1.0, 0.1, 300), start_s=600.0)
    assert (down.direction, watch.is_adrift) == ("down", False)


def test_wild_single_scores_are_no_drift() -> None:
    """One score in ten that is 1e300 weighs no more than the largest of everyday life."""
    rng = np.random.default_rng(1)
    scores = rng.normal(1.0, 0.1, 600)
    scores[300::10] = 1e300
    assert pushed(DriftWatch(SMALL), scores) == []


def test_stationary_scores_are_left_alone() -> None:
    """40 weeks of independent blocks: no report, where ADWIN's bound allows one in 500 windows."""
    rng = np.random.default_rng(3)
    policy = DriftPolicy(spacing_s=1.0, block_s=5.0)
    assert pushed(DriftWatch(policy), rng.gamma(2.0, size=40 * 336 * 5)) == []


def test_scores_between_are_not_looked_at_and_a_clock_set_back_is() -> None:
    """One score in spacing_s counts; after a stamp from before, the next is taken."""
    watch = DriftWatch(DriftPolicy(spacing_s=5.0, block_s=10.0, min_blocks=2, max_blocks=8))
    pushed(watch, [1.0] * 10, step_s=0.5)  # stamps 0 to 4.5: the first alone
    assert watch._scores == [1.0]
    watch.push(decision(2.0, -100.0))
    assert watch._scores == [1.0, 2.0]


def test_memory_is_bounded() -> None:
    """After any time there are at most max_blocks blocks, one block's scores and the reference."""
    watch = DriftWatch(SMALL)
    sizes = []
    for part in range(3):
        pushed(watch, np.random.default_rng(part).normal(size=2000), start_s=part * 2000.0)
        sizes.append(len(pickle.dumps(watch)))
        assert len(watch._blocks) <= 120
    assert max(sizes) - min(sizes) < 600


DRIFT = {"block_s": 10.0, "min_blocks": 2, "max_blocks": 64, "delta": 0.5}


def walk(bench: Bench, n: int, *, first: int, size: float) -> int:
    """n samples of w1 whose acc x, and with it the score, is `size` (below 9.0 a window is normal)."""
    for start in range(first, first + n, 500):
        k = np.arange(start, start + 500)
        acc = np.tile([size, 0.0, 9.8], (500, 1))
        acc[:, 2] += 0.05 * np.sin(2 * np.pi * 2.0 * k / 50.0)  # a sensor that never changes is stuck
        acc[:, :2] += 0.001 * ((k % 20 == 2) * 1.0 - (k % 20 == 12))[:, None]  # where no window ends: scores stay whole
        block = SampleBlock("w1", T0_NS + k * 20_000_000, acc, np.zeros((500, 3)))
        assert bench.deliver("wearables/w1/imu", JSON.encode(block))
        bench.run(10.0)
    return first + n


def test_the_service_names_a_drift_and_takes_it_back(caplog: pytest.LogCaptureFixture) -> None:
    """Scores that rise for good are the fault `drift`, which leaves the state alone; back down, it is gone."""
    bench = Bench(drift=DRIFT)
    n = walk(bench, 10_000, first=0, size=1.0)
    assert bench.state()["faults"] == []
    with caplog.at_level(logging.WARNING, logger="stream_occ.service"):
        n = walk(bench, 10_000, first=n, size=4.0)
    assert (bench.state()["faults"], bench.state()["state"]) == (["drift"], "normal")
    [line] = [record.getMessage() for record in caplog.records if "for good" in record.getMessage()]
    assert line.startswith("scores of w1 have gone up for good, ")
    assert line.endswith(" blocks of 10 s ago: mean rank 0.50 before, 1.00 since")
    walk(bench, 12_000, first=n, size=1.0)
    assert bench.state()["faults"] == []


def test_alerts_and_switched_off_watches_report_no_drift() -> None:
    """Scores of an open alert are an event, not drift; without the section's `enabled` nothing is watched."""
    bench = Bench(drift=DRIFT, events={"k": 1, "n": 1})
    walk(bench, 10_000, first=walk(bench, 10_000, first=0, size=1.0), size=20.0)
    assert "drift" not in bench.state()["faults"]
    assert bench.state()["state"] == "alarm"
    off = Bench(drift={**DRIFT, "enabled": False})
    walk(off, 10_000, first=walk(off, 10_000, first=0, size=1.0), size=4.0)
    assert off.state()["faults"] == []
