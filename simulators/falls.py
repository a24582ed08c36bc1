"""Falls of several kinds: loss of balance, descent, one or several impacts, rebound, lying still in a new posture.

The hip's descent and its impacts are one momentum balance: what the descent gains in speed the impacts take away, so
a long free descent cannot end softly unless it is spread over several contacts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from simulators.activities import Posture
from simulators.kinematics import AXIAL, PITCH, ROLL, YAW, Motion, drift, hann_pulse, minimum_jerk, ringing
from simulators.movements import rattle, rest
from simulators.people import Person
from stream_occ.samples import FloatArray

Range = tuple[float, float]
SIDEWAYS = 0.10  # of a contact's push, standard deviation of each share along the floor
ECHO = 0.42  # of a contact's peak that swings back along its push
SHAKE = 0.08  # of a contact's peak that shakes the sensor in its pocket, standard deviation an axis
END_OF_FALL_S = 1.2  # from the first contact to the end of the annotated interval: rebound and sliding are over


@dataclass(frozen=True, slots=True)
class FallKind:
    """One kind of fall; ranges are (low, high), drawn uniformly.

    goal_rad: mean of (pitch, roll, axial) when lying; spread_rad: its standard deviations; mirror: the side is drawn;
    stagger_s: from losing balance to losing support; descent_s: from there to the first contact; unload: share of
    weight lost in the descent (1 = free fall); n_contacts: knees, hands, hip, trunk; contacts_s: from the first to the
    last; width_s: of one contact's push; main_share: of the momentum taken by the heaviest contact, the second where
    there are several; rock_rad: rocking of the pocket at full impact; roll_rad: rolling of the thigh around the
    impacts; slack: share of the turn that is left for after the first contact.
    """

    needs: Posture
    goal_rad: tuple[float, float, float]
    spread_rad: tuple[float, float, float]
    mirror: bool
    stagger_s: Range
    descent_s: Range
    unload: Range
    n_contacts: tuple[int, int]
    contacts_s: Range
    width_s: Range
    main_share: Range
    rock_rad: float
    roll_rad: float
    slack: Range


FALLS: dict[str, FallKind] = {
    "fall_forward": FallKind(
        "standing", (1.36, 0.0, 0.0), (0.12, 0.2, 0.25), False, (0.2, 0.7), (0.35, 0.50), (0.60, 0.94), (3, 5),
        (0.3, 0.8), (0.038, 0.07), (0.22, 0.40), 0.10, 0.12, (0.1, 0.35),
    ),
    "fall_backward": FallKind(
        "standing", (-1.60, 0.0, 0.0), (0.14, 0.15, 0.25), False, (0.1, 0.6), (0.42, 0.51), (0.53, 0.72), (4, 5),
        (0.3, 1.1), (0.037, 0.067), (0.32, 0.48), 0.08, 0.16, (0.05, 0.3),
    ),
    "fall_lateral": FallKind(
        "standing", (-0.35, 1.3, 0.0), (0.22, 0.2, 0.15), True, (0.2, 0.7), (0.37, 0.44), (0.53, 0.67), (5, 6),
        (0.25, 0.8), (0.043, 0.067), (0.24, 0.34), 0.10, 0.17, (0.1, 0.35),
    ),
    "fall_faint": FallKind(
        "standing", (-1.52, 0.0, 1.1), (0.10, 0.12, 0.3), True, (0.1, 0.5), (0.38, 0.48), (0.60, 0.84), (5, 7),
        (0.4, 0.9), (0.042, 0.070), (0.24, 0.36), 0.09, 0.11, (0.2, 0.5),
    ),
    "fall_from_chair": FallKind(
        "sitting", (-1.25, 0.3, 1.2), (0.25, 0.25, 0.4), True, (0.3, 0.9), (0.32, 0.50), (0.36, 0.82), (1, 3),
        (0.2, 0.7), (0.035, 0.08), (0.45, 0.85), 0.08, 0.05, (0.1, 0.4),
    ),
}  # fmt: skip


def fall(
    motion: Motion, kind: FallKind, person: Person, rng: np.random.Generator, onset_s: float
) -> tuple[float, float]:
    """Fills `motion` with a fall whose balance is lost at onset_s; returns (start, end) of the fall, s."""
    stagger = float(rng.uniform(*kind.stagger_s))
    descent = float(rng.uniform(*kind.descent_s)) * float(np.sqrt(person.height_m / 1.72))
    contact = onset_s + stagger + descent
    _stagger(motion, person, rng, onset_s, stagger)
    _turn(motion, kind, rng, onset_s, contact)
    _land(motion, kind, person, rng, onset_s + stagger, descent, contact)
    _lie_still(motion, person, rng, contact + END_OF_FALL_S)
    return onset_s, min(contact + END_OF_FALL_S, motion.duration_s)


def _stagger(motion: Motion, person: Person, rng: np.random.Generator, onset_s: float, takes_s: float) -> None:
    """Fights for balance: uneven pushes and swings of the thigh that grow until support is lost."""
    t = motion.t_s
    fight = hann_pulse(t, onset_s + 0.7 * takes_s, 1.8 * takes_s + 0.3)
    force = float(rng.uniform(0.5, 2.5)) * person.vigour
    motion.hip_ms2 += force * fight[:, None] * np.stack([drift(rng, t, 1.0, 4.0) for _ in range(3)], axis=1)
    rattle(motion, rng, 0.5 * force * fight, 6.0, 18.0)
    for column, size in ((PITCH, 0.13), (ROLL, 0.08), (AXIAL, 0.10)):
        motion.angles[:, column] += size * fight * drift(rng, t, 0.6, 2.0)


def _turn(motion: Motion, kind: FallKind, rng: np.random.Generator, onset_s: float, contact_s: float) -> None:
    """Turns the thigh to where it will lie: ever faster until the first contact, the rest of the way after it."""
    t = motion.t_s
    side = float(rng.choice([-1.0, 1.0])) if kind.mirror else 1.0
    pitch, roll, axial = rng.normal(kind.goal_rad, kind.spread_rad)
    goal = np.array([motion.angles[0, YAW] + rng.normal(0, 0.5), pitch, side * roll, side * axial])
    slack = float(rng.uniform(*kind.slack))
    takes = contact_s - onset_s
    early = minimum_jerk(t, contact_s - 0.85 * takes, 1.15 * takes)
    late = minimum_jerk(t, contact_s - 0.05, float(rng.uniform(0.35, 0.9)))
    motion.angles += ((1 - slack) * early + slack * late)[:, None] * (goal - motion.angles[0])
    rolling = hann_pulse(t, contact_s + 0.35, 1.6)
    for column, size in ((PITCH, 1.0), (ROLL, 1.0), (AXIAL, 1.7)):
        motion.angles[:, column] += size * kind.roll_rad * rolling * drift(rng, t, 0.8, 2.2)


def _land(
    motion: Motion, kind: FallKind, person: Person, rng: np.random.Generator, start_s: float, descent_s: float,
    contact_s: float,
) -> None:  # fmt: skip
    """Lets the hip sink and stops it: the contacts' areas add up to the speed gained, sideways shares come on top."""
    t = motion.t_s
    loss = 9.8 * float(rng.uniform(*kind.unload))
    sink = loss * hann_pulse(t, start_s + 0.56 * descent_s, 1.15 * descent_s) ** 0.6
    sink[t > contact_s + 0.02] = 0.0
    motion.hip_ms2[:, 2] -= sink
    speed = float(sink.sum()) / motion.rate_hz
    n = int(rng.integers(kind.n_contacts[0], kind.n_contacts[1] + 1))
    main = float(rng.uniform(*kind.main_share)) if n > 1 else 1.0
    shares = np.array([main]) if n == 1 else (1 - main) * rng.dirichlet(np.full(n - 1, 4.0))
    if n > 1:  # hands or knees first, then the weight
        shares = np.insert(shares, 1, main)
    later = (np.arange(1, n) - rng.uniform(0.0, 0.7, n - 1)) / max(n - 1, 1) * float(rng.uniform(*kind.contacts_s))
    for share, at in zip(shares, contact_s + np.concatenate([[0.0], later]), strict=True):
        # the more of the body lands at once, the longer it takes
        width = float(rng.uniform(*kind.width_s)) * (0.75 + share) / np.sqrt(person.firmness)
        _contact(motion, kind, person, rng, float(at), 2 * share * speed / width, width)


def _contact(
    motion: Motion,
    kind: FallKind,
    person: Person,
    rng: np.random.Generator,
    at_s: float,
    peak_ms2: float,
    width_s: float,
) -> None:
    """One contact with the floor: push upwards and along the floor, ringing of flesh and pocket, rocking."""
    t = motion.t_s
    push = np.array([rng.normal(0, SIDEWAYS), rng.normal(0, SIDEWAYS), 1.0])
    start = at_s - 0.3 * width_s
    echo = ringing(t, at_s + 0.3 * width_s, rng.uniform(8, 16), rng.uniform(0.05, 0.12))
    motion.hip_ms2 += peak_ms2 * (hann_pulse(t, at_s, width_s) - ECHO * echo)[:, None] * push
    for axis in range(3):
        ring = ringing(t, start, rng.uniform(8, 18), rng.uniform(0.07, 0.16))
        motion.jolt_ms2[:, axis] += SHAKE * peak_ms2 * rng.normal(0, 1.0) * ring
        rock = ringing(t, start, rng.uniform(3, 7), rng.uniform(0.08, 0.18))
        motion.wobble[:, axis] += kind.rock_rad * person.rocking * np.sqrt(peak_ms2 / 30.0) * rng.normal(0, 1.0) * rock


def _lie_still(motion: Motion, person: Person, rng: np.random.Generator, from_s: float) -> None:
    """Lies where the fall ended: breathing alone for most, some stir or groan."""
    first = min(int(from_s * motion.rate_hz), len(motion.angles))
    calm = Motion.at_rest((len(motion.angles) - first) / motion.rate_hz, motion.rate_hz, motion.angles[-1])
    if len(motion.angles) - first < 2:
        return
    rest(calm, person, rng, stirs_hz=0.08, unrest=3.0)
    still: FloatArray = calm.angles - motion.angles[-1]
    motion.angles[first:] += still
    motion.hip_ms2[first:] += calm.hip_ms2
