"""The service's own wall clock is set while it runs: time did not pass, and nobody's stream became older."""

from __future__ import annotations

import logging

import pytest

from stream_occ.clock import ClockState, push_clock, set_clock
from stream_occ.samples import NS_PER_S
from tests.unit.service_bench import CHECKED, Bench

HOUR_S = 3600.0
JUMPS = pytest.mark.parametrize("by_s", [-2 * HOUR_S, -HOUR_S, HOUR_S, 2 * HOUR_S])


@JUMPS
def test_fall_after_a_jump_calls_somebody(by_s: float, caplog: pytest.LogCaptureFixture) -> None:
    """Live as it was before: not historical, and told with the stamps that it would have had."""
    bench, untouched = Bench(events=CHECKED), Bench(events=CHECKED)
    for each in (bench, untouched):
        each.send(100)
        each.run(2.0)
    with caplog.at_level(logging.WARNING):
        bench.ahead_s = by_s
        bench.run()
    assert f"the wall clock was set by {by_s:+.1f} s" in caplog.text
    for each in (bench, untouched):
        each.send(25, first=100, knock=True)
        each.send(175, first=125, lying=True)
        each.run(4.0)
    assert bench.events() == untouched.events() == [("suspected", 0), ("checking", 1), ("pending", 2)]
    assert bench.link.retained["stream_occ/w1/alert"] == untouched.link.retained["stream_occ/w1/alert"]


@JUMPS
def test_countdown_of_a_silent_device_is_as_long_as_ever(by_s: float) -> None:
    """Pending at 3.4 s, and the device dies: the alarm is told in the same second, whatever the clock says."""
    bench, untouched = Bench(events=CHECKED), Bench(events=CHECKED)
    told_s: list[int] = []
    for each, ahead_s in ((bench, by_s), (untouched, 0.0)):
        each.fall()
        each.run(1.0)
        each.ahead_s = ahead_s
        told_s += [second for second in range(40) if (each.run(1.0), each.state()["state"] == "alarm")[1]][:1]
    assert told_s[0] == told_s[1]
    assert 15 <= told_s[0] <= 30


def test_backlog_of_a_device_stays_old_over_a_jump() -> None:
    """Two hours old when it comes, before and after: historical, and nobody is called."""
    bench = Bench(events=CHECKED)
    bench.now_s += 2 * HOUR_S
    bench.run()
    bench.send(100)
    bench.run(2.0)
    bench.ahead_s = -HOUR_S / 2
    bench.send(25, first=100, knock=True)
    bench.send(175, first=125, lying=True)
    bench.run(4.0)
    assert bench.events() == [("suspected", 0), ("expired", 1)]


@pytest.mark.parametrize("is_own", [False, True])
def test_clock_of_a_device_is_as_far_off_as_ours_was_set(is_own: bool) -> None:
    """Three minutes 5 s behind, then ours goes on by 100 s: 105 s behind at once, at the same pace; no beginning."""
    state = ClockState()
    for second in range(0, 181, 10):
        state = push_clock(state, (second - 5) * NS_PER_S, second * NS_PER_S, is_own=is_own)
    assert (state.offset_s, state.behind_ns) == (-5.0, 5 * NS_PER_S if is_own else 0)
    state = set_clock(state, 100 * NS_PER_S)
    assert (state.offset_s, state.behind_ns) == (-105.0, 105 * NS_PER_S if is_own else 100 * NS_PER_S)
    for second in range(190, 261, 10):
        state = push_clock(state, (second - 5) * NS_PER_S, (second + 100) * NS_PER_S, is_own=is_own)
    assert (state.offset_s, state.drift_ppm, state.faults) == (-105.0, 0.0, ("clock_skew",))
    assert set_clock(ClockState(), NS_PER_S) == ClockState()


@pytest.mark.parametrize("is_own", [False, True])
@pytest.mark.parametrize("wrong_s", [-7200, 7200])
def test_clock_that_was_wrong_from_the_start_and_is_set_right_hides_no_late_data(wrong_s: int, is_own: bool) -> None:
    """A small computer without a clock of its own, until it reaches the network: 1 s late is live, 1 s is all it is."""
    state = ClockState()
    for second in range(0, 301, 10):
        state = push_clock(state, (second - 1) * NS_PER_S, (second + wrong_s) * NS_PER_S, is_own=is_own)
    state = set_clock(state, -wrong_s * NS_PER_S)
    assert 0 <= state.behind_ns <= NS_PER_S
    for second in range(310, 500, 10):
        state = push_clock(state, (second - 1) * NS_PER_S, second * NS_PER_S, is_own=is_own)
    assert (state.set_ns, state.least_ns) == (0, NS_PER_S)  # what was wrong is forgotten


def test_device_that_is_utc_is_not_learned_however_long_it_is_late() -> None:
    """Two hours behind for ten minutes, and what was learned while it was declared otherwise is forgotten at once."""
    state = ClockState()
    for second in range(0, 601, 10):
        state = push_clock(state, (second - 7200) * NS_PER_S, second * NS_PER_S, is_own=True)
    assert state.behind_ns == 7200 * NS_PER_S
    for second in range(610, 1201, 10):
        state = push_clock(state, (second - 7200) * NS_PER_S, second * NS_PER_S)
        assert state.behind_ns == 0
