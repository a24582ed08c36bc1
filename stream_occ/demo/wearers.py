"""Who is simulated and what they live through: normal activity to train on, and lives with falls to be replayed.

Each wearer is one person with one pocket. What is trained on, what sets the threshold and what is replayed are three
lives of that person from three different seeds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from simulators.falls import FALLS
from simulators.people import Person, Pocket
from simulators.synthetic import Wearer, draw_script
from stream_occ.samples import Recording

RATE_HZ = 50.0
PREPARE_S = 20.0  # wall-clock time set aside for training, at most 55 % of the whole
SHARE_TO_PREPARE = 0.55
SHORT_MINUTES = 0.75  # a shorter demo trains on half the windows, for a quarter of the work
FIRST_FALL_S = 15.0  # data time before a wearer's first fall: the stream has to fill its first windows
LAST_FALL_S = 40.0  # data time from the last fall's start to the end, enough for it to be flagged
FALL_EVERY_S = 270.0
LIE_S = (12.0, 24.0)
FALL_S = 6.0  # of a fall's span before the lying counts
SHORTEST_S = 4.0
HELD_OUT_S = 900.0

_PEOPLE, _TRAINING, _HELD_OUT, _REPLAYED = range(4)  # what a seed is for

# How often each activity is gone through when normal activity is recorded for training, and for how long. Transitions
# come often because they are what resembles a fall most; lying lasts long enough to turn over.
ROUTINE: tuple[tuple[str, int, float], ...] = (
    ("walking", 5, 18.0),
    ("standing", 3, 8.0),
    ("sitting", 3, 8.0),
    ("housework", 8, 24.0),
    ("stairs_up", 6, 9.0),
    ("stairs_down", 6, 9.0),
    ("hand_claps", 4, 8.0),
    ("sit_down_bump", 16, 4.5),
    ("sit_down", 6, 4.5),
    ("lying", 44, 16.5),
    ("jogging", 12, 10.0),
    ("car", 16, 0.0),
)
CAR: tuple[tuple[str, float], ...] = (("enter_car", 6.0), ("car_ride", 7.0), ("leave_car", 6.0))


@dataclass(frozen=True, slots=True)
class Plan:
    """What a demo will do; everything but the wall clock follows from it.

    data_s: length of each replayed life in the wearers' own time; n_falls: falls of each wearer.
    """

    seed: int
    n_wearers: int
    speed: float
    minutes: float

    @property
    def data_s(self) -> float:
        """Length of each replayed life, s of data time."""
        wall_s = 60.0 * self.minutes
        return (wall_s - min(PREPARE_S, SHARE_TO_PREPARE * wall_s)) * self.speed

    @property
    def thinning(self) -> int:
        """By how much fewer windows are trained on and held out than in a demo of full length."""
        return 2 if self.minutes < SHORT_MINUTES else 1

    @property
    def n_falls(self) -> int:
        """Falls of each wearer."""
        return max(1, round((self.data_s - FIRST_FALL_S) / FALL_EVERY_S))

    @property
    def device_ids(self) -> tuple[str, ...]:
        """Names of the wearers' devices."""
        return tuple(f"wearer-{k}" for k in range(1, self.n_wearers + 1))

    def training_lives(self) -> Iterator[Recording]:
        """Normal activity of every wearer, one recording each, to be trained on."""
        for k in range(self.n_wearers):
            wearer, rng = self._wearer(k, _TRAINING)
            yield wearer.recording("routine", _routine(rng))

    def held_out_lives(self) -> Iterator[Recording]:
        """A stretch of another day of every wearer, without a fall: decides the threshold, never trained on."""
        for k in range(self.n_wearers):
            wearer, rng = self._wearer(k, _HELD_OUT)
            yield wearer.recording("day", draw_script(rng, HELD_OUT_S / self.thinning))

    def replayed_lives(self) -> dict[str, Callable[[], Iterator[Recording]]]:
        """Device id to a function that lives through the day with its falls, made as it is played."""

        def life(k: int) -> Callable[[], Iterator[Recording]]:
            return lambda: self._day(k)

        return {name: life(k) for k, name in enumerate(self.device_ids)}

    def _wearer(self, k: int, purpose: int) -> tuple[Wearer, np.random.Generator]:
        who = np.random.default_rng((self.seed, k, _PEOPLE))
        person = Person.draw(who)
        pocket = Pocket.draw(who, person)
        rng = np.random.default_rng((self.seed, k, purpose))
        return Wearer(self.device_ids[k], rng, rate_hz=RATE_HZ, person=person, pocket=pocket), rng

    def _day(self, k: int) -> Iterator[Recording]:
        wearer, rng = self._wearer(k, _REPLAYED)
        falls = _fall_times(rng, self.data_s, self.n_falls)
        kinds = [str(kind) for kind in rng.permutation(list(FALLS))]
        elapsed_s, n_fallen = 0.0, 0
        while elapsed_s < self.data_s:
            is_due = n_fallen < len(falls) and elapsed_s >= falls[n_fallen]
            until_s = falls[n_fallen] if n_fallen < len(falls) else self.data_s
            if is_due:
                script = [(kinds[(k + n_fallen) % len(kinds)], FALL_S + float(rng.uniform(*LIE_S)))]
                n_fallen += 1
            else:
                script = _trimmed(draw_script(rng, 1.0), until_s - elapsed_s)
            for recording in wearer.iter_recordings(script):
                elapsed_s += len(recording.block) / RATE_HZ
                yield recording


def _routine(rng: np.random.Generator) -> list[tuple[str, float]]:
    items = [(name, takes) for name, n, takes in ROUTINE for _ in range(n)]
    order = rng.permutation(len(items)).tolist()
    parts = [part for i in order for part in (CAR if items[i][0] == "car" else (items[i],))]
    return [(name, takes * float(rng.uniform(0.88, 1.15))) for name, takes in parts]


def _fall_times(rng: np.random.Generator, data_s: float, n_falls: int) -> list[float]:
    """Earliest starts of a wearer's falls: one at random in the middle of each of n equal stretches of time."""
    slot = max(data_s - FIRST_FALL_S - LAST_FALL_S, 0.0) / n_falls
    return [FIRST_FALL_S + slot * (i + float(rng.uniform(0.2, 0.6))) for i in range(n_falls)]


def _trimmed(script: list[tuple[str, float]], left_s: float) -> list[tuple[str, float]]:
    """The activities of a script, none of which lasts much beyond what is left."""
    return [(name, max(SHORTEST_S, min(takes, left_s))) for name, takes in script]
