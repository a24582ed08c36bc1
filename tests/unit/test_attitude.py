"""Accelerometer and gyroscope of one motion, against rotations in closed form."""

import numpy as np
import pytest

from stream_occ.attitude import agreement, rotations

G, RATE_HZ = 9.80665, 50.0
TURN_Z = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])  # x is -y, y is x
MIRROR = np.diag([-1.0, 1, 1])


def about(axis, angle):
    """Rotation matrix of one axis, 0 to 2."""
    i, j = (axis + 1) % 3, (axis + 2) % 3
    turn = np.eye(3)
    turn[i, i] = turn[j, j] = np.cos(angle)
    turn[i, j], turn[j, i] = -np.sin(angle), np.sin(angle)
    return turn


def window(down=(0.0, 0.0, 1.0), *, angle_of=lambda s: 0.0, axis=0, shake=0.0, length_s=3.0, size=G):
    """A device (6, m) that lay with gravity along `down`, turned about its axis by angle_of(seconds), and is shaken."""
    t = np.arange(round(length_s * RATE_HZ)) / RATE_HZ
    angles = np.array([angle_of(s) for s in t])
    acc = np.stack([about(axis, angle).T @ np.asarray(down) * size for angle in angles], axis=1)
    signals = np.zeros((6, t.size))
    signals[:3] = acc + shake * np.sin(2 * np.pi * 2 * t) * np.array([[1.0], [0.5], [-0.7]])
    signals[3 + axis] = np.gradient(angles, 1 / RATE_HZ)
    return signals


def from_sample(first, signals, acc, gyr):
    """The window whose axes change at a sample."""
    changed = signals.copy()
    changed[:3, first:], changed[3:, first:] = acc @ signals[:3, first:], gyr @ signals[3:, first:]
    return changed


def seen(*windows):
    """(turned, jump, odd, votes) of windows, as lists."""
    signals = np.stack(windows)
    found = agreement(signals, np.sqrt((signals[:, :3] ** 2).sum(axis=1)).mean(axis=1), rate_hz=RATE_HZ)
    return tuple(mark.tolist() for mark in (found.is_turned, found.is_jump, found.is_odd, found.votes))


def bend(s):
    """120 degrees within a second, one second after the beginning."""
    return np.radians(120) * (0.5 - 0.5 * np.cos(np.pi * np.clip(s - 1.0, 0, 1)))


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("rate_rads", [0.0, 1e-9, 0.7, 9.0])
def test_steady_turning_is_a_rotation_by_rate_times_time(axis, rate_rads):
    """Of one axis, after each sample, to rounding; also where there are more samples than one block has."""
    gyr = np.zeros((1, 3, 60))
    gyr[0, axis] = rate_rads
    expected = np.stack([about(axis, rate_rads * k / RATE_HZ) for k in range(60)])
    np.testing.assert_allclose(rotations(gyr, rate_hz=RATE_HZ)[0], expected, atol=1e-12)


def test_turns_follow_one_another_in_the_devices_own_frame():
    """A quarter about x, then a quarter about its own y, which then points where z was."""
    gyr = np.zeros((1, 3, 102))
    gyr[0, 0, 1:50] = gyr[0, 1, 52:101] = np.pi / 2 * RATE_HZ / 49
    np.testing.assert_allclose(
        rotations(gyr, rate_hz=RATE_HZ)[0, -1], about(0, np.pi / 2) @ about(1, np.pi / 2), atol=1e-9
    )
    assert rotations(gyr[:0], rate_hz=RATE_HZ).shape == (0, 102, 3, 3)


def test_turning_that_both_sensors_tell_is_none_of_the_axes():
    """A bend of 120 degrees, shaken or not, speaks for the axes; a device that lies still says nothing."""
    found = seen(window(angle_of=bend), window(angle_of=bend, shake=2.0), window(), window(shake=2.0))
    assert found == ([False] * 4, [False] * 4, [False] * 4, [-1, -1, 0, 0])


@pytest.mark.parametrize("first", [30, 50, 75, 100, 120])
def test_axes_that_change_are_told_while_the_device_turns(first):
    """Beyond half a second from the ends, and a second from them it is named; whichever way the device turns."""
    aslant = np.array([0.95, 0.0, 0.31])
    walks = window(aslant, angle_of=lambda s: 0.4 * np.sin(2 * np.pi * s), axis=1, shake=2.0)
    for acc, gyr in ((TURN_Z, TURN_Z), (-np.eye(3), np.eye(3)), (MIRROR, MIRROR)):
        turned, jump, _, _ = seen(from_sample(first, walks, acc, gyr))
        assert (jump, turned) == ([True], [50 <= first <= 100])


def test_axes_that_turn_about_gravity_leave_no_trace():
    """Down stays down: nothing but a compass would tell."""
    assert seen(from_sample(75, window(shake=1.0), TURN_Z, TURN_Z)) == ([False], [False], [False], [0])


@pytest.mark.parametrize(
    ("acc", "gyr"), [(MIRROR, MIRROR), (np.eye(3), -np.eye(3)), (TURN_Z, np.eye(3)), (np.diag([1.0, -1, 1]), np.eye(3))]
)
def test_device_whose_sensors_disagree_is_told_by_each_bend(acc, gyr):
    """A mirrored one, one that turns the wrong way round, and axes of one sensor alone."""
    _, _, odd, votes = seen(from_sample(0, window(angle_of=bend, shake=1.0), acc, gyr))
    assert (odd, votes) == ([True], [1])


def test_device_in_a_mirror_is_as_good_as_one_before_it():
    """All accelerations with the other sign turn as they should: mechanics has no left and right."""
    _, _, odd, votes = seen(from_sample(0, window(angle_of=bend, shake=1.0), -np.eye(3), np.eye(3)))
    assert (odd, votes) == ([False], [-1])


def test_size_of_gravity_shows_under_any_shaking():
    """A run has 1.5 g in the mean of |a| and no more than g in the fixed frame; 1.3 g there is another unit, 0.7 g in
    |a| as well, and no gravity under a shaking of any size."""
    run = window(shake=25.0)
    windows = run, window(shake=25.0, size=1.3 * G), window(size=0.7 * G), window(shake=15.0, size=0.0)
    assert np.sqrt((run[:3] ** 2).sum(axis=0)).mean() > 1.5 * G
    assert seen(*windows)[2] == [False, True, True, True]


def test_window_is_judged_as_it_is_alone():
    """The same bits whatever windows lie beside it; a NaN, too few samples and sizes beyond floats say nothing."""
    rng = np.random.default_rng(0)
    windows = [window(rng.normal(size=3), angle_of=bend, axis=int(rng.integers(3)), shake=3.0) for _ in range(70)]
    windows = [from_sample(int(rng.integers(150)), w, TURN_Z, TURN_Z) for w in windows]
    alone = [seen(w) for w in windows]
    assert seen(*windows) == tuple([one[k][0] for one in alone] for k in range(4))
    broken, huge = np.full((6, 150), np.nan), np.full((6, 150), 1e300)
    assert seen(broken) == ([False], [False], [False], [0])
    assert not agreement(huge[None], np.array([np.inf]), rate_hz=RATE_HZ).is_turned.any()
    for m in (1, 20, 99):
        assert seen(windows[0][:, :m] / 2) == ([False], [False], [False], [0])


@pytest.mark.parametrize("angle_of", [lambda s: 0.0, bend, lambda s: 3.0 * s])
def test_gravity_is_what_stands_still_in_either_frame(angle_of):
    """A device that lies, bends or turns all the time: gravity of 1 (g read as m/s2) with half of that shaken, against
    shaking that has the same mean."""
    windows = np.stack([window(angle_of=angle_of, size=1.0, shake=0.5), window(angle_of=angle_of, size=0.0, shake=1.2)])
    mean_ms2 = np.sqrt((windows[:, :3] ** 2).sum(axis=1)).mean(axis=1)
    np.testing.assert_allclose(mean_ms2, 1.05, atol=0.1)
    np.testing.assert_allclose(agreement(windows, mean_ms2, rate_hz=RATE_HZ).gravity_ms2, [1.0, 0.0], atol=0.25)


@pytest.mark.parametrize("rate_hz", [0.5, 1.0, 2.0, 13.0, 33.3, 60.0, 104.0, 238.0])
@pytest.mark.parametrize("length_s", [2.0, 3.1, 7.0])
def test_any_rate_and_length_will_do(rate_hz, length_s):
    """A device that lies still shows nothing of its axes at 0.5 to 238 Hz, and turned over with its gyroscope silent it
    has jumped from 25 Hz on, if in the middle."""
    still = np.zeros((1, 6, round(rate_hz * length_s)))
    still[:, 2] = G
    over = still.copy()
    over[:, :, still.shape[2] // 2 :] *= -1
    mean_ms2 = np.array([G])
    assert not agreement(still, mean_ms2, rate_hz=rate_hz).is_jump.any()
    assert agreement(over, mean_ms2, rate_hz=rate_hz).is_jump.all() or rate_hz < 25
