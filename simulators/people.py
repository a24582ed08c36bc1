"""Whom and what is simulated: a person's build and manner, the pocket, and the sensor in it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from simulators.kinematics import rotation_about
from stream_occ.samples import DEG_TO_RAD, STANDARD_GRAVITY_MS2, FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Person:
    """Build and manner of one wearer; every movement scales with them.

    height_m; cadence_hz: steps a second of easy walking; vigour: factor on the forces of moving, about 1; firmness:
    factor on how hard feet and falls land, about 1; rocking: factor on how loose the sensor sits in the pocket, about
    1; stance_rad (4,): thigh angles when standing; sway_rad: how much the standing person sways, root mean square.
    """

    height_m: float
    cadence_hz: float
    vigour: float
    firmness: float
    rocking: float
    stance_rad: FloatArray
    sway_rad: float

    @classmethod
    def draw(cls, rng: np.random.Generator) -> Person:
        """One grown-up drawn from broad ranges."""
        return cls(
            height_m=float(rng.uniform(1.52, 1.92)),
            cadence_hz=float(np.clip(rng.normal(1.78, 0.12), 1.45, 2.1)),
            vigour=float(np.exp(np.clip(rng.normal(0.0, 0.13), -0.3, 0.3))),
            firmness=float(np.exp(np.clip(rng.normal(0.0, 0.12), -0.3, 0.3))),
            rocking=float(np.exp(np.clip(rng.normal(0.0, 0.18), -0.4, 0.4))),
            stance_rad=rng.normal([0.0, -0.08, 0.0, 0.0], [0.0, 0.06, 0.05, 0.1]),
            sway_rad=float(rng.uniform(0.002, 0.006)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Pocket:
    """How the sensor lies against the thigh: mounting (3, 3) sensor to thigh, lever_m (3,) from the hip joint."""

    mounting: FloatArray
    lever_m: FloatArray

    @classmethod
    def draw(cls, rng: np.random.Generator, person: Person) -> Pocket:
        """Front trouser pocket: long axis along the bone, somewhat askew; seldom head down or screen inwards.

        The shares and the spread are those of MobiFall's trials: 7 % stand head down, the front of the seated thigh is
        within about 0.5 rad of the screen.
        """
        upright = rotation_about(0, np.array([np.pi / 2]))[0]  # the sensor's y along the bone, its z out of the front
        flip = rotation_about(2, np.array([np.pi * float(rng.random() < 0.07)]))[0]  # head down
        face = 0.5 * np.pi + np.pi * float(rng.random() < 0.10)  # screen outwards, or inwards
        turn = rotation_about(2, np.array([face + rng.normal(0.0, 0.5)]))[0]
        mounting = turn @ upright @ flip
        for axis in range(3):
            mounting = mounting @ rotation_about(axis, np.array([rng.normal(0.0, 0.10)]))[0]
        below = rng.uniform(0.07, 0.13) * person.height_m
        return cls(mounting, np.array([rng.uniform(0.04, 0.08), rng.uniform(-0.03, 0.03), -below]))


@dataclass(frozen=True, slots=True)
class Sensor:
    """A device's sampling and faults of normal grade.

    rate_hz; jitter_s: standard deviation of a stamp (0 = even); acc_range_ms2 and gyr_range_rads: full scale, a value
    beyond it is clipped on its axis; noise_*: white, standard deviation an axis; bias_*: constant, drawn once with
    this standard deviation an axis.
    """

    rate_hz: float = 50.0
    jitter_s: float = 0.0
    acc_range_ms2: float = 8 * STANDARD_GRAVITY_MS2
    gyr_range_rads: float = 2000 * DEG_TO_RAD
    noise_acc_ms2: float = 0.034
    noise_gyr_rads: float = 0.008
    bias_acc_ms2: float = 0.06
    bias_gyr_rads: float = 0.008

    def ideal(self) -> Sensor:
        """The same sampling without noise, bias or jitter."""
        none = {"noise_acc_ms2": 0.0, "noise_gyr_rads": 0.0, "bias_acc_ms2": 0.0, "bias_gyr_rads": 0.0}
        return replace(self, jitter_s=0.0, **none)
