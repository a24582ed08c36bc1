"""Which windows may be normal: what |a| no body has, at rest or not, and what is named after how many of them."""

import math

import pytest

from stream_occ.quality import CLEAN, Signs, motion_fault
from stream_occ.sensor import SensorState, watch_sensor

G = 9.80665


def watched(looks, state=None):
    """(faults, may be normal) after each (signs, mean |a|, |a| at rest)."""
    state, told = state or SensorState(), []
    for signs, mean_ms2, rest_ms2 in looks:
        state, may_be_normal = watch_sensor(state, signs, mean_ms2, rest_ms2, n_overlapping=9)
        told.append((state.faults, may_be_normal))
    return state, told


@pytest.mark.parametrize(
    ("mean_ms2", "fault"),
    [
        (0.5 * G + 0.01, None),
        (2.5 * G - 0.01, None),
        (math.nan, None),
        (1.1, "acc_unit_g_as_ms2"),  # a walk in g, read as m/s2
        (G * G * 1.1, "acc_unit_ms2_as_g"),
        (1100.0, "acc_unit_mg_as_ms2"),
        (1100.0 * G, "acc_unit_mg_as_g"),
        (2.5, "gravity_missing"),  # a walk without gravity
        (30.0, "acc_scale"),
    ],
)
def test_mean_that_no_body_has_points_to_a_mistake(mean_ms2, fault):
    """Half of gravity to 2.5 times as much is what a body may show for seconds."""
    assert motion_fault(mean_ms2) == fault


def test_walk_without_gravity_is_no_walk_in_g():
    """Both have 1 m/s2 in the mean, and of one too little stands still in half of the windows; 3 g is no unit."""
    assert motion_fault(1.1, 0.7) == "gravity_missing"
    assert motion_fault(1.1, 0.9) == "acc_unit_g_as_ms2"
    assert motion_fault(30.0, 0.7) == "acc_scale"
    bare, whole = ((Signs(is_odd=True, gravity_ms2=gravity), 1.1, math.nan) for gravity in (0.7, 0.9))
    state, told = watched([whole, bare] * 30)
    assert told[-1] == (("gravity_missing",), False)
    _, told = watched([whole] * 200, state)
    assert {faults for faults, _ in told} == {("gravity_missing",)}
    _, told = watched([bare, whole, whole] * 20)
    assert told[-2:] == [((), False), (("acc_unit_g_as_ms2",), False)]


def test_walk_in_another_unit_is_never_normal_and_named_after_sixty_windows():
    """From the first window on; three windows at rest that are right take it back."""
    walk = (CLEAN, 1.1, math.nan)
    state, told = watched([walk] * 60)
    assert told == [((), False)] * 59 + [(("acc_unit_g_as_ms2",), False)]
    _, told = watched([(CLEAN, G, math.nan), (CLEAN, G, G), (CLEAN, G, G), (CLEAN, G, G)], state)
    assert told == [(("acc_unit_g_as_ms2",), False)] * 3 + [((), True)]


def test_one_odd_window_is_not_normal_and_no_more():
    """The count begins anew with a window as a body shows it."""
    odd, plain = (CLEAN, 3.0, math.nan), (CLEAN, G, math.nan)
    _, told = watched([*[odd] * 59, plain, odd, plain])
    assert [normal for _, normal in told[-4:]] == [False, True, False, True]
    assert not any(faults for faults, _ in told)


def test_window_after_a_jump_is_not_normal_either():
    """Two more, of nine that overlap: in them it would be too near to the beginning."""
    _, told = watched([(Signs(is_jump=True), G, math.nan), *[(CLEAN, G, math.nan)] * 4])
    assert told == [((), False)] * 3 + [((), True)] * 2


@pytest.mark.parametrize(
    "signs",
    [Signs(is_noisy=True), Signs(is_lossy=True), Signs(is_saturated=True), Signs(is_odd=True), Signs(is_spinning=True)],
)
def test_window_in_which_something_shows_is_not_normal(signs):
    """Noise before it is named, a hole of what could not be believed, a saturated sample, what no working sensor shows,
    a turning that nobody has; the next window is."""
    _, told = watched([(signs, G, math.nan), (CLEAN, G, math.nan)])
    assert [normal for _, normal in told] == [False, True]
