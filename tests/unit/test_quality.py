"""What |a| at rest says of units and gravity, and signals that are stuck."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.quality import (
    HoldState,
    QualityState,
    Signs,
    held_signals,
    is_moving,
    rest_fault,
    rest_magnitude_ms2,
    watch,
)


def window(level, spread, seed=0):
    """One (1, 6, 250) window with acc z at `level` and Gaussian noise of `spread` on each axis."""
    signals = np.random.default_rng(seed).normal(0, spread, (1, 6, 250))
    signals[0, 2] += level
    return signals


@pytest.mark.parametrize(
    ("level", "spread", "fault"),
    [
        (9.81, 0.03, None),
        (10.6, 0.05, None),  # 80 mg of offset
        (1.0, 0.004, "acc_unit_g_as_ms2"),
        (96.2, 0.3, "acc_unit_ms2_as_g"),
        (1000.0, 3.0, "acc_unit_mg_as_ms2"),
        (0.0, 0.02, "gravity_missing"),
        (5.5, 0.02, "acc_scale"),
    ],
)
def test_rest_magnitude_names_the_mistake(level, spread, fault):
    """A still device with a wrong unit, scale or without gravity is named; one at 9.81 is not."""
    magnitude = rest_magnitude_ms2(window(level, spread))[0]
    assert rest_fault(magnitude) == fault
    assert np.isfinite(magnitude)


def test_moving_device_says_nothing():
    """While |a| spreads there is no magnitude at rest, hence no fault."""
    assert np.isnan(rest_magnitude_ms2(window(9.81, 2.0))[0])
    assert rest_fault(float("nan")) is None


def held_loop(values, n_hold):
    """Bit r of each row where signal r has not changed for n_hold steps, one sample after another."""
    marks, run = [], [0] * 6
    for i, row in enumerate(values):
        run = [run[r] + 1 if i and row[r] == values[i - 1][r] else 0 for r in range(6)]
        marks.append(sum(1 << r for r in range(6) if run[r] >= n_hold))
    return marks


@given(
    st.lists(st.tuples(*[st.sampled_from([0.0, 1.0])] * 6), max_size=30),
    st.lists(st.integers(0, 30), max_size=6),
    st.sampled_from([2.0, 3.0]),
)
def test_held_signals_equal_a_loop_for_any_cutting(rows, points, rate_hz):
    """At 2 and 3 Hz a signal is held after two and three steps without a change."""
    values = np.array(rows).reshape(-1, 6)
    state, marks = HoldState(), []
    bounds = [0, *sorted(min(p, len(rows)) for p in points), len(rows)]
    for a, b in pairwise(bounds):
        state, made = held_signals(state, values[a:b], rate_hz=rate_hz)
        marks += made.tolist()
    assert marks == held_loop(rows, round(rate_hz))


def test_held_signal_is_stuck_only_once_the_device_moves():
    """Lying still, a coarse sensor keeps its value; moving, it cannot. Stuck it stays until it is no longer held."""
    state, names = QualityState(), []
    for signs in (Signs(held=1), Signs(held=1, is_moving=True), Signs(held=1), Signs(), Signs(held=1)):
        state = watch(state, signs)
        names.append(state.faults)
    assert names == [(), ("acc_stuck",), ("acc_stuck",), (), ()]
    assert state.counts == {"acc_stuck": 2}


def test_what_moves():
    """A swing of |a|, or of the angle; not an offset of the gyroscope."""
    still, swings, turns = (window(9.81, 0.01)[0] for _ in range(3))
    still[4] += 1.0
    swings[2] += 2.0 * np.sin(np.arange(250))
    turns[4] += 1.0 * np.sin(np.arange(250))
    assert is_moving(np.stack([still, swings, turns])).tolist() == [False, True, True]
