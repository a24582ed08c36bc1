"""fall31's rotation, posture and velocity: values by hand, each time at its edge."""

import math

import numpy as np
import pytest

from stream_occ.features.fall31 import FEATURE_SET
from tests.unit.fall31_window import G, check, features_of

log, sqrt = math.log, math.sqrt


def turning(m, rate_hz, speed, plane):
    """Gravity that turns in a plane of two axes at `speed` rad/s, as axes of features_of."""
    angle = speed * np.arange(m) / rate_hz
    axes = dict.fromkeys(("acc_x", "acc_y", "acc_z"), np.zeros(m))
    axes[plane[0]], axes[plane[1]] = G * np.cos(angle), G * np.sin(angle)
    return features_of(axes.pop("acc_z"), rate_hz, **axes)


def test_lying_down_turns_gravity_by_a_right_angle():
    """From z to x after half of the window; free fall of half a second between is the lowest 200 ms."""
    upright, lying = np.repeat([G, 0.0], 100), np.repeat([0.0, G], 100)
    found = features_of(upright, acc_x=lying)
    check(found, tilt_first_last=math.pi / 2, max_tilt_2s=math.pi / 2, log_std_acc=log(0.05))
    upright[75:100] = 0.0
    check(features_of(upright, acc_x=lying), min_acc=0, min_acc_200ms=0, tilt_first_last=math.pi / 2)


def test_rotation_is_told_in_radians_turned_within_a_second():
    """2 rad/s for one second of four: the way turned is 2 rad, the mean a quarter."""
    gyr = np.zeros(200)
    gyr[100:150] = -2.0
    found = features_of(np.full(200, G), gyr_y=gyr)
    check(found, log_turn_1s=log(2.02), log_max_gyr=log(2.05), log_mean_gyr=log(0.52))
    check(
        found, log_std_gyr=log(2 * math.sqrt(3) / 4 + 0.02), log_mean_gyr_first=log(0.02), log_mean_gyr_last=log(0.02)
    )


def test_each_quarter_has_its_own_rotation():
    """1, 2, 3, 4 rad/s about a skew axis, a second each: mean 2.5, standard deviation the root of 5 / 4."""
    w = np.repeat([1.0, 2.0, 3.0, 4.0], 50)
    found = features_of(np.full(200, G), gyr_x=2 / 3 * w, gyr_y=-1 / 3 * w, gyr_z=2 / 3 * w)
    check(found, log_mean_gyr_first=log(1.02), log_mean_gyr_last=log(4.02), log_mean_gyr=log(2.52))
    check(found, log_std_gyr=log(sqrt(1.25) + 0.02), log_max_gyr=log(4.05), log_turn_1s=log(4.02))


def test_turning_in_the_last_quarter_is_none_in_the_first():
    """2 rad/s in the last quarter alone: a quarter of it in the mean."""
    found = features_of(np.full(200, G), gyr_x=np.repeat([0.0, 0.0, 0.0, 2.0], 50))
    check(found, log_mean_gyr_first=log(0.02), log_mean_gyr_last=log(2.02), log_mean_gyr=log(0.52))


def test_quarters_of_rotation_end_at_their_edges():
    """203 samples have quarters of 50: what turns right beside them is not theirs."""
    w = np.zeros(203)
    w[40:50], w[50:60], w[143:153], w[153:163] = 1.0, 7.0, 7.0, 2.0
    found = features_of(np.full(203, G), gyr_z=w)
    check(found, log_mean_gyr_first=log(0.22), log_mean_gyr_last=log(0.42))


@pytest.mark.parametrize(("m", "rate_hz", "turned"), [(1000, 200.0, 1.5), (200, 50.0, 1.5), (150, 200.0, 2.0)])
def test_brief_turn_counts_for_its_length(m, rate_hz, turned):
    """3 rad/s for half a second are 1.5 rad in a second; of a window of .75 s, cut to it, 2 rad/s."""
    w = np.zeros(m)
    w[25 : 25 + round(rate_hz / 2)] = 3.0
    check(features_of(np.full(m, G), rate_hz, gyr_y=w), log_turn_1s=log(turned + 0.02))


@pytest.mark.parametrize("plane", [("acc_x", "acc_y"), ("acc_y", "acc_z"), ("acc_z", "acc_x")])
def test_steady_turn_is_told_by_its_speed(plane):
    """.3 rad/s for 5 s: .6 rad in 2 s, and the middles of first and last quarter lie 750 samples of 200 Hz apart."""
    check(turning(1000, 200.0, 0.3, plane), max_tilt_2s=0.6, tilt_first_last=0.3 * 3.75)


def test_short_window_cuts_the_times_of_tilt():
    """302 samples of 200 Hz: means over a third, 100, of which first and last lie 202 apart; quarters of 75, 227."""
    found = turning(302, 200.0, 0.8, ("acc_z", "acc_x"))
    check(found, max_tilt_2s=0.8 * 202 / 200, tilt_first_last=0.8 * 227 / 200)


def test_tilt_has_its_whole_time_from_three_seconds_on():
    """Upright for 1 s, on the side for 1 s, head down for 1 s: means over the first and the last second, pi apart.

    A shorter window would cut the time of a mean: 3 s is the shortest that is judged.
    """
    upright = np.repeat([G, 0.0, -G], 50)
    check(features_of(upright, acc_x=np.repeat([0.0, G, 0.0], 50)), max_tilt_2s=math.pi)
    assert FEATURE_SET.min_window_s == 3.0


def test_short_lie_tilts_by_its_share_of_a_second():
    """A quarter of a second on the side: (1/4, 3/4) G in the mean over that second, upright 2 s before."""
    upright = np.full(1000, G)
    upright[800:850] = 0.0
    found = features_of(upright, 200.0, acc_x=G - upright)
    check(found, max_tilt_2s=math.atan(1 / 3), tilt_first_last=math.atan(1 / 4))


def test_fall_and_rise_within_two_seconds_has_no_lasting_tilt_but_a_large_one():
    """On the side for the second second of five: 2 s later upright again, a right angle; first and last agree."""
    upright = np.full(250, G)
    upright[100:150] = 0.0
    check(features_of(upright, acc_x=G - upright), max_tilt_2s=math.pi / 2, tilt_first_last=0)


def test_upside_down_is_half_a_turn():
    """From z to -z: an angle of pi, to the last bit."""
    check(features_of(np.repeat([G, -G], 125)), tilt_first_last=math.pi, max_tilt_2s=math.pi)


@pytest.mark.parametrize(("left", "angle"), [(0.0, 0), (9.5e-7, 0), (1.05e-6, math.pi / 2)])
@pytest.mark.parametrize("quarter", [0, 3])
def test_mean_that_vanishes_has_no_angle(quarter, left, angle):
    """Weightless in one quarter: below a millionth of a m/s2 the direction is rounding, not posture."""
    upright, other = np.full(200, G), np.zeros(200)
    rows = slice(50 * quarter, 50 * quarter + 50)
    upright[rows], other[rows] = 0.0, left
    check(features_of(upright, acc_y=other), tilt_first_last=angle)


@pytest.mark.parametrize("rate_hz", [50.0, 200.0])
def test_velocity_is_gained_and_lost_against_the_mean(rate_hz):
    """13, 5, 12, 10 m/s2 for a second each, mean 10: up to 3 m/s, down to -2, back to 0."""
    found = features_of(np.repeat([13.0, 5.0, 12.0, 10.0], round(rate_hz)), rate_hz)
    check(found, min_velocity=-2, range_velocity=5)
