"""What windows show apart from their score, against closed forms."""

import numpy as np
import pytest

from stream_occ.motion import MotionLimits, angle_deg, motion
from stream_occ.windowing import WindowBatch

RATE_HZ = 50.0
LIMITS = MotionLimits(0.7, 0.5)


def batch_of(*signals, rate_hz=RATE_HZ):
    """Windows (6, m) stacked."""
    n = len(signals)
    return WindowBatch(("dev",) * n, np.zeros(n, dtype=np.int64), rate_hz, np.stack(signals))


def window(acc_z=9.81, gyr_x=0.0, m=250, acc_x=0.0):
    """5 s whose acceleration x, z and rotation x are numbers or rows of m."""
    signals = np.zeros((6, m))
    signals[0], signals[2], signals[3] = acc_x, acc_z, gyr_x
    return signals


def swing(amplitude, m=250, hz=5.0):
    """A sine of whole periods in each second: its standard deviation is amplitude / sqrt(2)."""
    return amplitude * np.sin(2 * np.pi * hz * np.arange(m) / RATE_HZ)


def test_spread_of_the_last_second_is_that_of_a_sine():
    """|a| swings by 3 m/s2 round gravity; |w| of a rotation of -0.3 rad/s is 0.3."""
    found = motion(batch_of(window(9.81 + swing(3.0), -0.3)))
    assert found.acc_std_ms2[0] == pytest.approx(3.0 / np.sqrt(2))
    assert found.gyr_mean_rads[0] == pytest.approx(0.3)


def test_only_the_last_second_tells_whether_it_is_still():
    """A knock before it does not matter, one in it does; at the limit it is not still."""
    early, late = np.full(250, 9.81), np.full(250, 9.81)
    early[150:199] += 40.0
    late[230] += 40.0
    found = motion(batch_of(window(early), window(late), window(9.81, 0.5), window(9.81, 0.49)))
    assert found.is_still(LIMITS).tolist() == [True, False, False, True]


def test_gravity_is_the_direction_of_the_first_and_of_the_last_second():
    """Upright, then lying on x: unit vectors, 90 degrees apart, whatever lies between."""
    acc_z, acc_x = np.full(250, 9.81), np.zeros(250)
    acc_z[50:200], acc_z[200:] = -70.0, 0.0
    acc_x[200:] = 4.0
    found = motion(batch_of(window(acc_z, acc_x=acc_x)))
    np.testing.assert_allclose(found.gravity_before[0], [0, 0, 1], atol=1e-15)
    np.testing.assert_allclose(found.gravity_after[0], [1, 0, 0], atol=1e-15)
    assert angle_deg(tuple(found.gravity_before[0]), tuple(found.gravity_after[0])) == pytest.approx(90.0)


def test_mean_of_a_swinging_second_is_its_middle():
    """A swing of 3 m/s2 across gravity leaves no trace in the direction."""
    found = motion(batch_of(window(acc_x=swing(3.0))))
    np.testing.assert_allclose(found.gravity_after[0], [0, 0, 1], atol=1e-12)


def test_window_with_a_nan_is_not_still_not_motionless_and_without_direction():
    """And says so without a warning."""
    broken = window()
    broken[:, -1] = np.nan
    found = motion(batch_of(broken, window()))
    assert found.is_still(LIMITS).tolist() == [False, True]
    assert found.is_motionless.tolist() == [False, True]
    assert np.isnan(found.gravity_after[0]).all()
    assert np.isfinite(found.gravity_before[0]).all()


def test_free_fall_has_no_direction():
    """Mean acceleration zero."""
    assert np.isnan(motion(batch_of(window(0.0))).gravity_before).all()


@pytest.mark.parametrize(
    ("acc", "gyr", "expected"),
    [(0.13, 0.0, True), (0.15, 0.0, False), (0.0, 0.027, True), (0.0, 0.029, False)],
)
def test_motionless_is_noise_over_all_of_the_window(acc, gyr, expected):
    """Sines of std 0.1 m/s2 and 0.02 rad/s have amplitudes 0.141 and 0.0283; the gyroscope's offset of 0.3 is none."""
    found = motion(batch_of(window(9.81 + swing(acc), 0.3 + swing(gyr))))
    assert found.is_motionless.tolist() == [expected]
    assert found.is_still(LIMITS).tolist() == [True]


def test_stuck_is_where_no_value_changes():
    """The least step of one value of one channel is life."""
    alive = window()
    alive[4, 100] += 1e-4
    assert motion(batch_of(window(), alive)).is_stuck.tolist() == [True, False]


def test_window_shorter_than_a_second_is_taken_whole():
    """At 50 Hz, 20 samples: first and last second are the same."""
    found = motion(batch_of(window(np.linspace(0, 1, 20), acc_x=1.0, m=20)))
    np.testing.assert_array_equal(found.gravity_before, found.gravity_after)


def test_many_windows_and_none():
    """Rows keep their order beyond the block in which they are computed; no window has no rows."""
    found = motion(batch_of(*(window(9.81, i / 1000) for i in range(600))))
    np.testing.assert_allclose(found.gyr_mean_rads, np.arange(600) / 1000)
    assert len(motion(WindowBatch((), np.empty(0, dtype=np.int64), 50.0, np.empty((0, 6, 250)))).is_stuck) == 0


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ((0.0, 0.0, 1.0), (0.0, 0.0, 1.0), 0.0),
        ((0.0, 0.0, 1.0), (0.0, 0.0, -1.0), 180.0),
        ((0.0, 0.6, 0.8), (0.0, 0.0, 1.0), 36.86989764584402),  # of a triangle 3, 4, 5
        ((0.0, 0.0, 1.0 + 1e-12), (0.0, 0.0, 1.0), 0.0),
        (None, (0.0, 0.0, 1.0), None),
        ((0.0, 0.0, 1.0), None, None),
    ],
)
def test_angle_between_directions(a, b, expected):
    """Rounding beyond 1 is 0 degrees; no direction has no angle."""
    assert angle_deg(a, b) == (expected if expected is None else pytest.approx(expected, abs=1e-9))
