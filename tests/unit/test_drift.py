"""A lasting change of scores is found, dependence is not taken for one, and the service says it."""

import logging
import pickle
from typing import Any

import numpy as np
import pytest

from stream_occ.drift import DriftPolicy, DriftWatch, rank_change
from stream_occ.samples import NS_PER_S, Decision, SampleBlock
from tests.reference import drift_loop
from tests.unit.test_service import JSON, T0_NS, Bench


def decision(score: float, t_s: float) -> Decision:
    return Decision("w1", round(t_s * NS_PER_S), score, 9.0, "normal", "m")


def pushed(watch: DriftWatch, scores: Any, *, start_s: float = 0.0, step_s: float = 1.0) -> list[Any]:
    """What the watch said, as (number of the score, drift)."""
    told = [(i, watch.push(decision(float(score), start_s + i * step_s))) for i, score in enumerate(scores)]
    return [(i, drift) for i, drift in told if drift is not None]


SMALL = DriftPolicy(spacing_s=1.0, block_s=5.0, max_blocks=60, min_blocks=6)


@pytest.mark.parametrize("seed", range(6))
def test_statistic_equals_its_loop_written_twin(seed: int) -> None:
    """Ranks with ties, the best cut and the correction for dependence, on values with and without a change."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(size=40), 1) + np.where(np.arange(40) < 25, 0.0, seed - 2.0)
    z, cut = rank_change(values, 5)
    expected_z, expected_cut = drift_loop.rank_change(values.tolist(), 5)
    assert z == pytest.approx(expected_z, rel=1e-9)
    assert cut == expected_cut


def test_statistic_by_hand() -> None:
    """1..4 before 5..8: the ranks after sum to 26 where 18 is expected, over sqrt(12). Residuals are -1.5, -.5, .5, 1.5
    twice: their neighbours' products sum to 1.25 in each half and -2.25 between, their squares to 10, so r = .025."""
    z, cut = rank_change(np.arange(8.0), 4)
    assert cut == 4
    assert z == pytest.approx(8.0 / np.sqrt(12.0) / np.sqrt(1.025 / 0.975))


def test_too_few_or_equal_values_are_no_change() -> None:
    """Nothing is said of fewer than two sides' worth of values, nor of a constant."""
    assert rank_change(np.arange(11.0), 6) == (0.0, 11)
    assert rank_change(np.full(30, 2.0), 6)[0] == 0.0


def test_a_step_is_found_with_its_direction_and_taken_back() -> None:
    """Up: adrift, with the medians of both sides; down again: no more."""
    rng = np.random.default_rng(0)
    watch = DriftWatch(SMALL)
    assert pushed(watch, rng.normal(1.0, 0.1, 150)) == []
    [(_, up)] = pushed(watch, rng.normal(2.0, 0.1, 150), start_s=150.0)
    assert (up.direction, watch.is_adrift) == ("up", True)
    assert up.before == pytest.approx(1.0, abs=0.1)
    assert up.after == pytest.approx(2.0, abs=0.1)
    [(_, down)] = pushed(watch, rng.normal(1.0, 0.1, 150), start_s=300.0)
    assert (down.direction, watch.is_adrift) == ("down", False)


def test_wild_single_scores_are_no_drift() -> None:
    """A fall in every block, 1e300 among five scores, moves no median."""
    rng = np.random.default_rng(1)
    scores = rng.normal(1.0, 0.1, 600)
    scores[300::5] = 1e300
    assert pushed(DriftWatch(SMALL), scores) == []


def test_slow_swings_are_no_drift() -> None:
    """Levels that change every 10 blocks are reported in less than a tenth of the cases of plain rank sums."""
    rng = np.random.default_rng(2)
    plain = corrected = 0
    for _ in range(200):
        first = rng.integers(10)
        values = np.repeat(rng.normal(size=6), 10)[first : first + 50] + rng.normal(scale=0.3, size=50)
        n = len(values)
        z, cut = rank_change(values, 6)
        ranks = np.argsort(np.argsort(values)) + 1.0
        raw = (ranks[cut:].sum() - (n - cut) * (n + 1) / 2) / np.sqrt(cut * (n - cut) * (n + 1) / 12)
        plain, corrected = plain + (abs(raw) > 4.5), corrected + (abs(z) > 4.5)
    assert plain > 50
    assert corrected < plain / 10


def test_stationary_scores_are_left_alone() -> None:
    """40 weeks of independent blocks: at 4.5 deviations at most one false report is expected, and none is seen."""
    rng = np.random.default_rng(3)
    policy = DriftPolicy(spacing_s=1.0, block_s=1.0)
    assert pushed(DriftWatch(policy), rng.gamma(2.0, size=40 * 336)) == []


def test_scores_between_are_not_looked_at_and_a_clock_set_back_is() -> None:
    """One score in spacing_s counts; after a stamp from before, the next is taken."""
    watch = DriftWatch(DriftPolicy(spacing_s=5.0, block_s=10.0, min_blocks=2, max_blocks=8))
    pushed(watch, [1.0] * 10, step_s=0.5)  # stamps 0 to 4.5: the first alone
    assert watch._scores == [1.0]
    watch.push(decision(2.0, -100.0))
    assert list(watch._blocks) == [1.5]


def test_memory_is_bounded() -> None:
    """After any time there are at most max_blocks blocks and one block's scores."""
    watch = DriftWatch(SMALL)
    sizes = []
    for part in range(3):
        pushed(watch, np.random.default_rng(part).normal(size=2000), start_s=part * 2000.0)
        sizes.append(len(pickle.dumps(watch)))
        assert len(watch._blocks) <= 60
    assert max(sizes) - min(sizes) < 600


DRIFT = {"block_s": 10.0, "min_blocks": 3, "max_blocks": 24, "limit": 2.0}


def walk(bench: Bench, n: int, *, first: int, size: float) -> int:
    """n samples of w1 whose acc x, and with it the score, is `size` (below 9.0 a window is normal)."""
    for start in range(first, first + n, 500):
        k = np.arange(start, start + 500)
        acc = np.tile([size, 0.0, 9.8], (500, 1))
        block = SampleBlock("w1", T0_NS + k * 20_000_000, acc, np.zeros((500, 3)))
        assert bench.deliver("wearables/w1/imu", JSON.encode(block))
        bench.run(10.0)
    return first + n


def test_the_service_names_a_drift_and_takes_it_back(caplog: pytest.LogCaptureFixture) -> None:
    """Scores that rise for good are the fault `drift`, which leaves the state alone; back down, it is gone."""
    bench = Bench(drift=DRIFT)
    n = walk(bench, 2500, first=0, size=1.0)
    assert bench.state()["faults"] == []
    with caplog.at_level(logging.WARNING, logger="stream_occ.service"):
        n = walk(bench, 2500, first=n, size=4.0)
    assert (bench.state()["faults"], bench.state()["state"]) == (["drift"], "normal")
    [line] = [record.getMessage() for record in caplog.records if "for good" in record.getMessage()]
    assert line.startswith("scores of w1 have gone up for good, ")
    assert line.endswith(" blocks of 10 s ago: median 1 before, 4 since")
    walk(bench, 5000, first=n, size=1.0)
    assert bench.state()["faults"] == []


def test_alerts_and_switched_off_watches_report_no_drift() -> None:
    """Scores of an open alert are an event, not drift; without the section's `enabled` nothing is watched."""
    bench = Bench(drift=DRIFT, events={"k": 1, "n": 1})
    walk(bench, 2500, first=walk(bench, 2500, first=0, size=1.0), size=20.0)
    assert "drift" not in bench.state()["faults"]
    assert bench.state()["state"] == "alarm"
    off = Bench(drift={**DRIFT, "enabled": False})
    walk(off, 2500, first=walk(off, 2500, first=0, size=1.0), size=4.0)
    assert off.state()["faults"] == []
