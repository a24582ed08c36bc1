"""Daily activities of a thigh: each fills a stretch of motion and ends at rest in a posture.

Sizes are set so that the statistics of the sensed signal lie where recordings of the same activity have them
(docs/simulators.md); the recordings themselves are not in here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from simulators.kinematics import AXIAL, PITCH, ROLL, YAW, Motion, drift, hann_pulse, minimum_jerk
from simulators.kinematics import minimum_jerk_acceleration as jerk_acc
from simulators.movements import change_posture, fade_in_out, rattle, rest, settle, strike
from simulators.people import Person
from stream_occ.samples import FloatArray

Posture = Literal["standing", "sitting", "lying"]
Perform = Callable[[Motion, Person, np.random.Generator], None]


@dataclass(frozen=True, slots=True)
class Activity:
    """Posture it starts from and ends in, how long it usually lasts (s), and what fills the motion."""

    needs: Posture
    leaves: Posture
    usual_s: tuple[float, float]
    perform: Perform


@dataclass(frozen=True, slots=True)
class Gait:
    """Manner of stepping. Lengths of time relative to the stride where not in s; sizes at vigour and firmness 1.

    cadence: factor on the person's own; swing_rad: amplitude of the thigh's pitch; lift_rad: its mean; bounce_ms2:
    vertical acceleration at the step rate; strike_ms2: peak at the own foot's landing; other: share of it felt at the
    other foot's; width_s: of the strike; rock_rad: rocking in the pocket a strike; sideways_ms2; rattle_ms2: of the
    sensor in its pocket, root mean square an axis.
    """

    cadence: float
    swing_rad: float
    lift_rad: float
    bounce_ms2: float
    strike_ms2: float
    other: float
    width_s: float
    rock_rad: float
    sideways_ms2: float
    rattle_ms2: float
    unevenness: float = 0.12


WALK = Gait(1.0, 0.32, -0.16, 2.7, 6.3, 0.55, 0.085, 0.045, 1.0, 0.75)
UPSTAIRS = Gait(0.86, 0.34, -0.38, 2.7, 5.2, 0.5, 0.10, 0.03, 1.0, 0.5, 0.2)
DOWNSTAIRS = Gait(1.0, 0.24, -0.25, 3.2, 6.6, 0.55, 0.09, 0.035, 1.0, 0.6, 0.2)
JOG = Gait(1.5, 0.40, -0.30, 8.3, 9.0, 0.7, 0.09, 0.06, 2.2, 1.8)


def stand(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Stands, weight moving from leg to leg once in a while."""
    settle(motion, person.stance_rad, 0.8)
    rest(motion, person, rng, stirs_hz=0.05)


def sit(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Sits still, stirring now and then."""
    rest(motion, person, rng)


def gait(style: Gait) -> Perform:
    """Makes the activity of stepping in a given manner."""

    def perform(motion: Motion, person: Person, rng: np.random.Generator) -> None:
        fade = fade_in_out(motion, 0.7)
        t = motion.t_s
        stride_hz = 0.5 * person.cadence_hz * style.cadence * float(rng.normal(1.0, 0.04))
        phase = 2 * np.pi * np.cumsum(stride_hz * (1 + 0.03 * drift(rng, t, 0.1, 0.6))) / motion.rate_hz
        phase += rng.uniform(0, 2 * np.pi)
        size = person.vigour * np.exp(0.5 * style.unevenness * drift(rng, t, 0.2, 1.0)) * fade
        base = person.stance_rad + np.array([0.0, style.lift_rad, 0.0, 0.0])
        settle(motion, person.stance_rad, 0.6)
        motion.angles += fade[:, None] * (base - person.stance_rad)
        _swing(motion, rng, style, phase, size)
        lag = rng.uniform(-0.4, 0.4)
        motion.hip_ms2[:, 2] += (
            size
            * style.bounce_ms2
            * (0.85 * np.cos(2 * phase + 0.6 + lag) + 0.3 * np.cos(4 * phase + rng.uniform(-1, 1)))
        )
        motion.hip_ms2[:, 0] += size * 0.5 * style.bounce_ms2 * np.sin(2 * phase + lag)
        motion.hip_ms2[:, 1] += size * style.sideways_ms2 * np.sin(phase + rng.uniform(-0.5, 0.5))
        rattle(motion, rng, size * style.rattle_ms2 * person.rocking, 7.0, 20.0)
        for landing, share in _landings(phase, style.other):
            hardness = style.strike_ms2 * share * person.firmness * float(np.exp(rng.normal(0, 1.3 * style.unevenness)))
            strike(motion, person, rng, t[landing], hardness * fade[landing], style.width_s, style.rock_rad * share)

    return perform


def _swing(motion: Motion, rng: np.random.Generator, style: Gait, phase: FloatArray, size: FloatArray) -> None:
    """Swings the thigh: pitch at the stride rate with its harmonic, axial and roll rotation at a third of it."""
    amplitude = style.swing_rad * size
    motion.angles[:, PITCH] += amplitude * (np.cos(phase) + 0.22 * np.cos(2 * phase + rng.uniform(0.5, 1.5)))
    motion.angles[:, AXIAL] += 0.38 * amplitude * np.sin(phase + rng.uniform(-1, 1))
    motion.angles[:, ROLL] += 0.22 * amplitude * np.sin(phase + rng.uniform(-1, 1))
    motion.angles[:, YAW] += 0.15 * amplitude * np.cos(phase + rng.uniform(-1, 1))
    motion.wobble += (0.03 * size)[:, None] * np.stack([drift(rng, motion.t_s, 2.0, 5.0) for _ in range(3)], axis=1)


def _landings(phase: FloatArray, other: float) -> list[tuple[int, float]]:
    """Grid indices at which a foot lands, with the share felt at this thigh: 1 for the own foot, `other` else."""
    half = np.floor(phase / np.pi).astype(np.int64)
    return [(int(k), 1.0 if half[k] % 2 == 0 else other) for k in np.flatnonzero(np.diff(half)) + 1]


def seated_angles(rng: np.random.Generator) -> FloatArray:
    """Thigh about level, front up, a little apart and turned."""
    return rng.normal([0.0, -1.48, 0.0, 0.0], [0.0, 0.09, 0.06, 0.15])


def sit_down(hardness_ms2: tuple[float, float], takes_s: tuple[float, float]) -> Perform:
    """Makes sitting down that ends in a bump of a peak drawn from a range."""

    def perform(motion: Motion, person: Person, rng: np.random.Generator) -> None:
        takes = float(rng.uniform(*takes_s))
        start = float(rng.uniform(0.1, 0.4)) * max(motion.duration_s - takes - 0.8, 0.0)
        drop = 0.24 * person.height_m
        change_posture(motion, rng, person, seated_angles(rng), drop, start, takes)
        peak = float(np.exp(rng.uniform(*np.log(hardness_ms2)))) * person.firmness
        strike(motion, person, rng, start + 0.86 * takes, peak, float(rng.uniform(0.09, 0.16)), 0.004 + 0.0015 * peak)
        rest(motion, person, rng)

    return perform


def stand_up(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Rises from a chair or, from lying, from a bed."""
    takes = min(float(rng.uniform(0.9, 1.7)), 0.8 * motion.duration_s)
    change_posture(motion, rng, person, person.stance_rad, -0.24 * person.height_m, 0.05, takes)
    for at in (0.25 * takes, 0.05 + takes, 0.5 + takes):  # the feet take the weight, then find their place
        strike(motion, person, rng, at, float(np.exp(rng.uniform(np.log(0.8), np.log(5.0)))), 0.1, 0.01)
    rest(motion, person, rng)


def lie_down(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Lies down on a bed, on the back or on a side."""
    side = float(rng.choice([0.0, 0.0, 1.35, -1.35]))
    goal = rng.normal([0.0, -1.5, 0.0, side], [0.0, 0.08, 0.06, 0.15])
    takes = min(float(rng.uniform(1.6, 2.8)), 0.8 * motion.duration_s)
    change_posture(motion, rng, person, goal, 0.2 * person.height_m, 0.1, takes)
    strike(motion, person, rng, 0.1 + 0.8 * takes, float(rng.uniform(0.6, 3.0)), 0.16, 0.01)
    rest(motion, person, rng)


def lie(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Lies, turning over now and then."""
    rest(motion, person, rng)
    if motion.duration_s > 15 and rng.random() < 0.5:
        goal = np.array(motion.angles[0])
        goal[AXIAL] = float(rng.choice([0.0, 1.35, -1.35])) + rng.normal(0, 0.1)
        at = float(rng.uniform(2, motion.duration_s - 6))
        step = minimum_jerk(motion.t_s, at, float(rng.uniform(1.6, 3.0)))
        motion.angles += step[:, None] * (goal - motion.angles[0])


def ride(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Sits in a moving car: the seat's low rumble, bends and brakes, an odd pothole."""
    rest(motion, person, rng)
    t, edge = motion.t_s, fade_in_out(motion, 2.0)
    rumble = float(np.exp(rng.uniform(np.log(0.15), np.log(0.5))))
    for axis, share in enumerate((0.45, 0.45, 1.0)):
        motion.hip_ms2[:, axis] += edge * rumble * share * drift(rng, t, 1.0, 12.0)
    motion.hip_ms2[:, 0] += edge * 0.8 * drift(rng, t, 0.03, 0.2)
    motion.hip_ms2[:, 1] += edge * 0.8 * drift(rng, t, 0.03, 0.2)
    for _ in range(rng.poisson(motion.duration_s / 25)):
        at = float(rng.uniform(1, max(motion.duration_s - 1, 1.1)))
        strike(motion, person, rng, at, float(rng.uniform(1, 4)), 0.12, 0.005)


def clap(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Claps while standing: the thigh feels a small jolt at each clap and the body rocking along."""
    stand(motion, person, rng)
    t, edge = motion.t_s, fade_in_out(motion, 0.5)
    beat, late = float(rng.uniform(2.2, 3.6)), float(rng.uniform(0, 0.3))
    size = float(np.exp(rng.uniform(np.log(0.28), np.log(0.5))))
    for axis, share in enumerate((0.6, 0.4, 0.75)):
        motion.hip_ms2[:, axis] += edge * size * share * np.sin(2 * np.pi * beat * (t - late) + rng.uniform(0, 6))
    rattle(motion, rng, 0.15 * edge, 6.0, 18.0)
    for at in np.arange(late + 0.5, motion.duration_s - 0.7, 1.0 / beat):
        strike(
            motion, person, rng, float(at + rng.normal(0, 0.01)), 1.3 * size * float(rng.uniform(0.5, 1.5)), 0.06, 0.003
        )


def jump(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Jumps on the spot, over and over: flight without weight, a long firm landing."""
    settle(motion, person.stance_rad, 0.5)
    t, edge = motion.t_s, fade_in_out(motion, 0.5)
    rate = float(rng.uniform(1.7, 2.3))
    phase = 2 * np.pi * np.cumsum(rate * (1 + 0.03 * drift(rng, t, 0.1, 0.5))) / motion.rate_hz
    flight = float(rng.uniform(0.34, 0.46))  # share of the time in the air
    cycle = (phase / (2 * np.pi)) % 1.0
    stance = np.clip((cycle - flight) / (1 - flight), 0.0, 1.0)
    shape = np.sin(np.pi * stance) ** 1.3
    motion.hip_ms2[:, 2] += edge * 9.4 * (shape / max(float(shape.mean()), 1e-9) - 1.0)
    motion.hip_ms2[:, 0] += edge * 0.8 * drift(rng, t, 1.0, 4.0)
    motion.hip_ms2[:, 1] += edge * 0.8 * drift(rng, t, 1.0, 4.0)
    motion.angles[:, PITCH] -= edge * float(rng.uniform(0.10, 0.24)) * shape
    motion.angles[:, AXIAL] += 0.05 * edge * drift(rng, t, 0.8, 2.5)
    motion.wobble += 0.02 * edge[:, None] * np.stack([drift(rng, t, 2, 5) for _ in range(3)], axis=1)
    for k in np.flatnonzero(np.diff(np.floor(phase / (2 * np.pi) - flight))) + 1:
        peak = float(rng.uniform(7.0, 16.0)) * person.firmness * edge[k]
        strike(motion, person, rng, float(t[k]) + 0.04, peak, 0.08, 0.06)


def keep_house(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Sweeps, wipes and picks up: steps here and there, bends, leans and turns, on the feet all the time."""
    settle(motion, person.stance_rad, 0.8)
    t, edge = motion.t_s, fade_in_out(motion, 0.8)
    busy = np.clip(0.6 + 0.5 * drift(rng, t, 0.03, 0.2), 0.1, 1.4) * edge * person.vigour
    for column, size in ((PITCH, 0.08), (ROLL, 0.04), (AXIAL, 0.08), (YAW, 0.12)):
        motion.angles[:, column] += size * busy * drift(rng, t, 0.15, 0.9)
    for axis, size in enumerate((0.35, 0.3, 0.30)):
        motion.hip_ms2[:, axis] += size * busy * drift(rng, t, 0.8, 5.0)
    at = float(rng.exponential(1.5))
    while at < motion.duration_s - 1.0:
        k = min(int(at * motion.rate_hz), len(t) - 1)
        strike(motion, person, rng, at, float(rng.uniform(0.6, 3.2)) * float(busy[k]), 0.10, 0.015)
        if rng.random() < 0.12 and 1.5 < at < motion.duration_s - 3.0:
            _bend(motion, person, rng, at)
        at += float(rng.exponential(1.1)) + 0.35


def _bend(motion: Motion, person: Person, rng: np.random.Generator, at_s: float) -> None:
    """Bends the knees to reach the floor and comes up again."""
    t, down = motion.t_s, float(rng.uniform(0.7, 1.2))
    depth, drop = float(rng.uniform(0.3, 1.0)), 0.12 * person.height_m
    stay = float(rng.uniform(0.0, 0.8))
    motion.angles[:, PITCH] -= depth * (minimum_jerk(t, at_s, down) - minimum_jerk(t, at_s + down + stay, down))
    motion.hip_ms2[:, 2] -= drop * depth * (jerk_acc(t, at_s, down) - jerk_acc(t, at_s + down + stay, down))


def enter_car(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Steps into a car: turns, lifts a leg over the sill, drops into a low seat, pulls the other leg in."""
    _through_the_door(motion, person, rng, seated_angles(rng), 0.26 * person.height_m)


def leave_car(motion: Motion, person: Person, rng: np.random.Generator) -> None:
    """Steps out of a car: swings the leg out, pushes up, steps clear."""
    _through_the_door(motion, person, rng, person.stance_rad, -0.26 * person.height_m)


def _through_the_door(
    motion: Motion, person: Person, rng: np.random.Generator, goal: FloatArray, drop_m: float
) -> None:
    """Gets in (drop_m > 0) or out: the posture change, a high leg lift over the sill, a turn, two or three steps."""
    t = motion.t_s
    takes = float(rng.uniform(1.3, 2.0))
    inwards = drop_m > 0
    start = min(float(rng.uniform(0.9, 1.5)) if inwards else float(rng.uniform(0.3, 0.8)), motion.duration_s - takes)
    change_posture(motion, rng, person, goal, drop_m, start, takes)
    turn = float(rng.choice([-1, 1])) * rng.uniform(0.7, 1.5)
    motion.angles[:, YAW] += turn * minimum_jerk(t, start, takes)
    lift = start + (0.95 if inwards else 0.1) * takes
    wide = float(rng.uniform(0.9, 1.4))
    motion.angles[:, PITCH] -= float(rng.uniform(0.3, 0.8)) * hann_pulse(t, lift, wide)
    motion.angles[:, AXIAL] += float(rng.normal(0, 0.5)) * hann_pulse(t, lift, wide)
    motion.angles[:, ROLL] += float(rng.normal(0, 0.3)) * hann_pulse(t, lift, wide)
    busy = hann_pulse(t, start + 0.5 * takes, 2.0 * takes)
    force = float(np.exp(rng.normal(0.3, 0.3))) * person.vigour
    motion.hip_ms2 += (force * busy)[:, None] * np.stack([drift(rng, t, 0.8, 5) for _ in range(3)], axis=1)
    rattle(motion, rng, 0.35 * force * busy, 6.0, 18.0)
    for column, size in ((PITCH, 0.09), (ROLL, 0.06), (AXIAL, 0.12)):
        motion.angles[:, column] += size * busy * drift(rng, t, 0.5, 1.4)
    motion.wobble += (0.03 * person.rocking * busy)[:, None] * np.stack([drift(rng, t, 1, 4) for _ in range(3)], axis=1)
    steps = (start - 0.7, start - 0.1) if inwards else (start + takes, start + takes + 0.6, start + takes + 1.1)
    for at in steps:
        strike(motion, person, rng, at, float(rng.uniform(1.5, 7.0)), 0.09, 0.03)
    hard = float(np.exp(rng.uniform(np.log(1.2), np.log(9.0))))
    strike(motion, person, rng, start + 0.8 * takes, hard, 0.11, 0.006 + 0.003 * hard)
    rest(motion, person, rng)


ACTIVITIES: dict[str, Activity] = {
    "standing": Activity("standing", "standing", (10.0, 60.0), stand),
    "walking": Activity("standing", "standing", (15.0, 90.0), gait(WALK)),
    "stairs_up": Activity("standing", "standing", (6.0, 15.0), gait(UPSTAIRS)),
    "stairs_down": Activity("standing", "standing", (6.0, 15.0), gait(DOWNSTAIRS)),
    "jogging": Activity("standing", "standing", (10.0, 30.0), gait(JOG)),
    "jumping": Activity("standing", "standing", (6.0, 15.0), jump),
    "housework": Activity("standing", "standing", (20.0, 90.0), keep_house),
    "hand_claps": Activity("standing", "standing", (5.0, 15.0), clap),
    "sit_down": Activity("standing", "sitting", (4.0, 6.0), sit_down((0.8, 7.0), (1.0, 1.6))),
    "sit_down_bump": Activity("standing", "sitting", (4.0, 6.0), sit_down((8.5, 26.0), (0.5, 0.72))),
    "stand_up": Activity("sitting", "standing", (2.5, 4.0), stand_up),
    "sitting": Activity("sitting", "sitting", (15.0, 120.0), sit),
    "lie_down": Activity("sitting", "lying", (4.0, 6.0), lie_down),
    "get_up": Activity("lying", "standing", (3.0, 5.0), stand_up),
    "lying": Activity("lying", "lying", (20.0, 120.0), lie),
    "enter_car": Activity("standing", "sitting", (5.5, 7.0), enter_car),
    "car_ride": Activity("sitting", "sitting", (30.0, 180.0), ride),
    "leave_car": Activity("sitting", "standing", (5.5, 7.0), leave_car),
}
