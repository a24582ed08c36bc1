"""Rigid motion: hand-worked rotations, rates, gravity and lever arm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.kinematics import (
    PITCH,
    Motion,
    body_rate,
    hann_pulse,
    minimum_jerk,
    minimum_jerk_acceleration,
    ringing,
    rotation_about,
    rotation_from_vector,
    sense,
)

G = 9.80665
NO_LEVER = np.zeros(3)


def test_quarter_turn_about_z_takes_x_to_y() -> None:
    """Right hand rule."""
    turn = rotation_about(2, np.array([np.pi / 2]))[0]
    np.testing.assert_allclose(turn @ [1, 0, 0], [0, 1, 0], atol=1e-15)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_rotation_vector_along_an_axis_is_the_rotation_about_it(axis: int) -> None:
    """Two independent formulas agree, from no turn at all to beyond half a turn."""
    angles = np.array([0.0, 1e-9, 0.3, -1.2, 3.0, 4.0])
    vectors = np.zeros((len(angles), 3))
    vectors[:, axis] = angles
    np.testing.assert_allclose(rotation_from_vector(vectors), rotation_about(axis, angles), atol=1e-14)


@settings(max_examples=50)
@given(st.lists(st.floats(-3, 3), min_size=3, max_size=3))
def test_rotations_keep_lengths_and_handedness(vector: list[float]) -> None:
    """R' R = 1 and det R = 1."""
    turn = rotation_from_vector(np.array([vector]))[0]
    np.testing.assert_allclose(turn.T @ turn, np.eye(3), atol=1e-12)
    assert np.linalg.det(turn) == pytest.approx(1.0, abs=1e-12)


def test_steady_turning_has_its_rate_in_the_moving_frame() -> None:
    """2 rad/s about z, seen from a frame that was first turned by a quarter about x, is 2 rad/s about its y."""
    t = np.arange(50) / 100.0
    path = rotation_about(2, 2.0 * t) @ rotation_about(0, np.array([np.pi / 2]))[0]
    np.testing.assert_allclose(body_rate(path, 100.0), np.tile([0.0, 2.0, 0.0], (50, 1)), atol=1e-12)


def test_a_path_of_one_point_does_not_turn() -> None:
    """No neighbour, no rate."""
    assert body_rate(np.eye(3)[None], 50.0).tolist() == [[0.0, 0.0, 0.0]]


def test_at_rest_gravity_lies_along_the_upright_axis() -> None:
    """Standing: +g along the bone; seated, the thigh level with its front up: +g out of the front."""
    standing = Motion.at_rest(1.0, 100.0, np.zeros(4))
    seated = Motion.at_rest(1.0, 100.0, np.array([0.7, -np.pi / 2, 0.0, 0.0]))
    np.testing.assert_allclose(sense(standing, np.eye(3), NO_LEVER)[0], np.tile([0, 0, G], (100, 1)), atol=1e-12)
    np.testing.assert_allclose(sense(seated, np.eye(3), NO_LEVER)[0], np.tile([G, 0, 0], (100, 1)), atol=1e-12)


def test_free_fall_is_felt_as_nothing() -> None:
    """The hip accelerates downwards by g: the accelerometer reads 0."""
    motion = Motion.at_rest(1.0, 100.0, np.array([0.3, -0.4, 0.2, 0.1]))
    motion.hip_ms2[:, 2] = -G
    np.testing.assert_allclose(sense(motion, np.eye(3), NO_LEVER)[0], 0.0, atol=1e-12)


def test_swinging_the_leg_pulls_the_pocket_outwards() -> None:
    """A pocket 0.2 m below the hip of a leg that turns at 3 rad/s is pulled towards the hip by 9 * 0.2 = 1.8 m/s2."""
    motion = Motion.at_rest(1.0, 1000.0, np.zeros(4))
    motion.angles[:, PITCH] = 3.0 * (motion.t_s - 0.5)
    acc, gyr = sense(motion, np.eye(3), np.array([0.0, 0.0, -0.2]))
    np.testing.assert_allclose(acc[500], [0.0, 0.0, G + 1.8], atol=1e-3)
    np.testing.assert_allclose(gyr[500], [0.0, 3.0, 0.0], atol=1e-9)


def test_mounting_turns_both_sensors_alike() -> None:
    """A sensor that lies upside down reads the negative of two axes, in acceleration and in rate."""
    motion = Motion.at_rest(0.5, 200.0, np.zeros(4))
    motion.angles[:, PITCH] = np.sin(4 * motion.t_s)
    lever = np.array([0.05, 0.0, -0.15])
    acc, gyr = sense(motion, np.eye(3), lever)
    flipped_acc, flipped_gyr = sense(motion, np.diag([1.0, -1.0, -1.0]), lever)
    np.testing.assert_allclose(flipped_acc, acc * [1, -1, -1], atol=1e-12)
    np.testing.assert_allclose(flipped_gyr, gyr * [1, -1, -1], atol=1e-12)


def test_minimum_jerk_goes_from_rest_to_rest_and_knows_its_acceleration() -> None:
    """0 before, 1 after, 1/2 half way; the second difference agrees with the closed form."""
    t = np.linspace(0, 2, 2001)
    step = minimum_jerk(t, 0.5, 1.0)
    assert (step[0], step[1000], step[-1]) == (0.0, pytest.approx(0.5), 1.0)
    numeric = np.gradient(np.gradient(step, t), t)
    np.testing.assert_allclose(numeric[5:-5], minimum_jerk_acceleration(t, 0.5, 1.0)[5:-5], atol=0.1)  # dt = 1 ms


def test_pulse_has_height_one_and_half_its_width_as_area() -> None:
    """What the momentum balance of a fall rests on."""
    t = np.arange(0, 1, 1e-4)
    pulse = hann_pulse(t, 0.5, 0.08)
    assert pulse.max() == pytest.approx(1.0, abs=1e-6)
    assert pulse.sum() * 1e-4 == pytest.approx(0.04, rel=1e-3)


def test_ringing_starts_at_zero_and_dies_away() -> None:
    """Nothing before its start, less than a thousandth after seven decay times."""
    t = np.arange(0, 2, 1e-3)
    wave = ringing(t, 0.5, 10.0, 0.1)
    assert np.all(wave[t <= 0.5] == 0.0)
    assert np.abs(wave[t > 1.2]).max() < 1e-3
