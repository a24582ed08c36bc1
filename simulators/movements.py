"""Building blocks of movement that activities and falls share: coming to rest, landing, changing posture."""

from __future__ import annotations

import numpy as np

from simulators.kinematics import AXIAL, PITCH, ROLL, YAW, Motion, drift, hann_pulse, minimum_jerk, ringing
from simulators.kinematics import minimum_jerk_acceleration as jerk_acc
from simulators.people import Person
from stream_occ.samples import FloatArray

RING = 0.6  # ringing of a jolted pocket relative to the jolt


def fade_in_out(motion: Motion, edge_s: float) -> FloatArray:
    """0 at both ends, 1 in between, smooth within edge_s (a third of a shorter motion)."""
    edge = min(edge_s, motion.duration_s / 3)
    t = motion.t_s
    out: FloatArray = minimum_jerk(t, 0.0, edge) * (1 - minimum_jerk(t, motion.duration_s - edge - 0.01, edge))
    return out


def settle(motion: Motion, target: FloatArray, within_s: float) -> None:
    """Goes from the motion's angles to `target` (yaw kept) within the time given."""
    step = minimum_jerk(motion.t_s, 0.0, min(within_s, motion.duration_s))
    goal = np.array(target)
    goal[YAW] = motion.angles[0, YAW]
    motion.angles += step[:, None] * (goal - motion.angles[0])


def rattle(motion: Motion, rng: np.random.Generator, size_ms2: FloatArray, low_hz: float, high_hz: float) -> None:
    """Shakes the sensor in its pocket, all ways alike; size_ms2 (n,) is the root mean square an axis."""
    for axis in range(3):
        motion.jolt_ms2[:, axis] += size_ms2 * drift(rng, motion.t_s, low_hz, high_hz)


def stir(motion: Motion, rng: np.random.Generator, at_s: float, size_rad: float) -> None:
    """Moves the thigh a little there and back within a second or two, as one who stirs."""
    t = motion.t_s
    length = float(rng.uniform(0.8, 2.0))
    there = hann_pulse(t, at_s, length) * fade_in_out(motion, 0.3)
    motion.angles += size_rad * there[:, None] * rng.normal(0, [0.3, 1.0, 0.6, 1.0])
    motion.hip_ms2 += 2.5 * size_rad * there[:, None] * np.stack([drift(rng, t, 1.0, 4.0) for _ in range(3)], axis=1)


def rest(
    motion: Motion, person: Person, rng: np.random.Generator, *, stirs_hz: float = 0.03, unrest: float = 1.0
) -> None:
    """Adds what a body at rest shows: sway and breathing of a few milliradians, tremor, now and then a small shift."""
    t = motion.t_s
    edge = fade_in_out(motion, 0.5)
    unrest *= float(np.exp(rng.normal(0.0, 0.5)))
    for column in (PITCH, ROLL, AXIAL):
        motion.angles[:, column] += edge * person.sway_rad * np.sqrt(unrest) * drift(rng, t, 0.1, 0.9)
    rattle(motion, rng, 0.02 * unrest * edge, 2.0, 12.0)
    for _ in range(rng.poisson(motion.duration_s * stirs_hz)):
        at = float(rng.uniform(0, motion.duration_s))
        stir(motion, rng, at, float(np.exp(rng.uniform(np.log(0.01), np.log(0.25)))))


def strike(
    motion: Motion, person: Person, rng: np.random.Generator, at_s: float, peak_ms2: float, width_s: float, rock: float
) -> None:
    """Adds one landing: a bump upwards, a smaller one along and across, ringing of the pocket and its rocking.

    The bump is followed by a shallow dip of half its area, as the body springs back.
    """
    first, last = (int(np.clip(x * motion.rate_hz, 0, len(motion.angles))) for x in (at_s - 0.2, at_s + 0.7))
    if last - first < 2 or peak_ms2 <= 0:
        return
    cut = slice(first, last)
    t = motion.t_s[cut]
    width = width_s * float(rng.uniform(0.8, 1.25))
    bump = hann_pulse(t, at_s, width) - 0.18 * hann_pulse(t, at_s + 1.7 * width, 2.4 * width)
    push = np.array([rng.normal(-0.3, 0.2), rng.normal(0.0, 0.2), 1.0])
    motion.hip_ms2[cut] += peak_ms2 * bump[:, None] * push
    fade = np.clip((0.7 - (t - at_s)) / 0.2, 0.0, 1.0)
    for axis in range(3):
        ring = ringing(t, at_s - 0.25 * width, rng.uniform(9, 19), rng.uniform(0.05, 0.09)) * fade
        motion.jolt_ms2[cut, axis] += RING * peak_ms2 * rng.normal(0, 1.0) * ring
    rocking = ringing(t, at_s - 0.25 * width, rng.uniform(4, 8), 0.10) * fade
    motion.wobble[cut] += rock * person.rocking * rocking[:, None] * rng.normal(0, [1.0, 1.0, 1.0])


def change_posture(
    motion: Motion,
    rng: np.random.Generator,
    person: Person,
    goal: FloatArray,
    drop_m: float,
    start_s: float,
    takes_s: float,
) -> None:
    """Turns the thigh to `goal` while the hip sinks by drop_m (rises where negative), both smooth, a little shaky."""
    t = motion.t_s
    step = minimum_jerk(t, start_s, takes_s)
    goal = np.array(goal)
    goal[YAW] = motion.angles[0, YAW] + rng.normal(0, 0.1)
    motion.angles += step[:, None] * (goal - motion.angles[0])
    motion.hip_ms2[:, 2] -= drop_m * jerk_acc(t, start_s, takes_s)
    motion.hip_ms2[:, 0] -= 0.4 * drop_m * jerk_acc(t, start_s + 0.05 * takes_s, takes_s)
    busy = hann_pulse(t, start_s + 0.5 * takes_s, 1.2 * takes_s)
    motion.hip_ms2 += (0.35 * person.vigour * busy)[:, None] * np.stack([drift(rng, t, 2, 7) for _ in range(3)], 1)
    rattle(motion, rng, float(np.exp(rng.normal(-1.1, 0.3))) * person.vigour * busy, 6.0, 18.0)
    for column in (ROLL, AXIAL):
        motion.angles[:, column] += 0.09 * busy * drift(rng, t, 0.5, 1.5)
    motion.wobble += (0.02 * person.rocking * busy)[:, None] * np.stack([drift(rng, t, 1.5, 5) for _ in range(3)], 1)
