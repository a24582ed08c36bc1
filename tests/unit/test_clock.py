"""How far a device's clock is off, how fast it runs away, and stamps in another unit of time than declared."""

import pytest

from stream_occ.clock import ClockState, epoch_mistake, push_clock
from stream_occ.samples import NS_PER_S


@pytest.mark.parametrize("unit", [1, 10**3, 10**6, 10**9])
@pytest.mark.parametrize("declared", [1, 10**3, 10**6, 10**9])
def test_stamp_in_another_unit_is_known(unit, declared):
    """Each of s, ms, us and ns, in a month in which the clock may be; what is right is no mistake."""
    now_ns = 1_790_000_000 * 10**9
    stamp = (now_ns // 10**9 - 30 * 86_400) * (10**9 // unit) * declared
    assert (epoch_mistake(stamp, now_ns) is None) == (unit == declared)


def clocked(lag_s_of, minutes):
    """The clock's state after a message each second with the given lateness."""
    state = ClockState()
    for second in range(60 * minutes + 1):
        now_ns = (1000 + second) * NS_PER_S
        state = push_clock(state, now_ns - round(lag_s_of(second) * NS_PER_S), now_ns)
    return state


@pytest.mark.parametrize(
    ("lag_s_of", "offset_s", "drift_ppm", "faults"),
    [
        (lambda s: 0.2 + s % 7, -0.2, 0.0, ()),  # a link that stutters
        (lambda s: -40.0 + s % 2, 40.0, 0.0, ("clock_skew",)),
        (lambda s: 7200.0, -7200.0, 0.0, ("clock_skew",)),
        (lambda s: -0.002 * s, 0.96, 2000.0, ("clock_drift",)),
        (lambda s: 0.0001 * s, -0.042, -100.0, ()),
        (lambda s: 7200.0 - 9 * s, None, None, ()),  # a backlog that is worked off
        (lambda s: 0.4 * s, None, None, ()),  # another rate
        (lambda s: 2.0 * (s >= 200), -2.0, 0.0, ()),  # set once
        (lambda s: 8.0 * (s >= 200), -8.0, 0.0, ()),
    ],
)
def test_clock_is_told_by_the_least_late_message(lag_s_of, offset_s, drift_ppm, faults):
    """Eight minutes, a message a second; the fast clock has gained 0.96 s when the eighth minute ends."""
    state = clocked(lag_s_of, 8)
    assert state.faults == faults
    if offset_s is None:
        assert (state.offset_s, state.drift_ppm) == (None, None)
    else:
        assert state.offset_s == pytest.approx(offset_s, abs=0.003)
        assert state.drift_ppm == pytest.approx(drift_ppm, abs=3.0)


def test_clock_that_is_mended_is_told_as_right_below_half_the_limit():
    """From 20 s off to 7 s, which begins no fault and ends none, to 2 s."""
    state, told = ClockState(), []
    for minute, lag_s in enumerate([20, 20, 7, 7, 2, 2, 2]):
        for second in range(60):
            now_ns = (60 * minute + second) * NS_PER_S
            state = push_clock(state, now_ns - lag_s * NS_PER_S, now_ns)
        told.append("clock_skew" in state.faults)
    assert told == [False, True, True, True, True, False, False]
