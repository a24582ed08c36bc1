"""Synthetic wearers: a person with a sensor in the trouser pocket who lives through a script, with ground truth.

Everything follows from one seed. The same wearer, script and rate give the same samples bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from simulators.activities import ACTIVITIES, Posture
from simulators.falls import FALLS, fall
from simulators.kinematics import Motion, sense
from simulators.people import Person, Pocket, Sensor
from stream_occ.errors import UsageError
from stream_occ.samples import NS_PER_S, FloatArray, IntArray, Placement, Recording, SampleBlock

_FINE_HZ = 200.0  # motion is computed at the smallest multiple of the sensor's rate that is not below this
_LIE_AFTER_FALL_S = 6.0
_SEAM_S = 0.15
MIN_FALL_S = 4.0  # losing balance, coming down and rebounding take up to 3.5 s

Script = Sequence[tuple[str, float]]

_BRIDGE: dict[tuple[Posture, Posture], tuple[str, ...]] = {
    ("standing", "sitting"): ("sit_down",),
    ("standing", "lying"): ("sit_down", "lie_down"),
    ("sitting", "standing"): ("stand_up",),
    ("sitting", "lying"): ("lie_down",),
    ("lying", "standing"): ("get_up",),
    ("lying", "sitting"): ("get_up", "sit_down"),
}


@dataclass(frozen=True, slots=True)
class Span:
    """Ground truth of a stretch of time, ns on the device's clock, [start, end)."""

    t_start_ns: int
    t_end_ns: int
    activity: str
    is_fall: bool


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """What one activity gave: its samples, its span, and for a fall the interval from lost balance to rest."""

    block: SampleBlock
    span: Span
    fall_interval_ns: tuple[int, int] | None


@dataclass(frozen=True, slots=True, eq=False)
class Trace:
    """A wearer's whole script: one block and the spans that cover it without a hole."""

    block: SampleBlock
    timeline: tuple[Span, ...]
    fall_intervals_ns: tuple[tuple[int, int], ...]


def activity_names() -> tuple[str, ...]:
    """Names that a script may hold, falls last."""
    return (*ACTIVITIES, *FALLS)


class Wearer:
    """One person with one device; each call goes on where the last one ended.

    seed: an int or a Generator. The device samples at `sensor.rate_hz` from start_ns on. placement: the thigh is the
    one place that is modelled. person and pocket are drawn where not given.
    """

    def __init__(
        self,
        device_id: str,
        seed: int | np.random.Generator,
        *,
        rate_hz: float = 50.0,
        sensor: Sensor | None = None,
        placement: Placement = "thigh",
        start_ns: int = 0,
        person: Person | None = None,
        pocket: Pocket | None = None,
    ) -> None:
        if placement != "thigh":
            raise UsageError("placement", "be thigh", repr(placement), "Other places are not modelled yet")
        self.device_id = device_id
        self.placement = placement
        self.sensor = Sensor(rate_hz=rate_hz) if sensor is None else sensor
        self._rng = np.random.default_rng(seed)
        self.person = Person.draw(self._rng) if person is None else person
        self.pocket = Pocket.draw(self._rng, self.person) if pocket is None else pocket
        self._bias_acc = self.sensor.bias_acc_ms2 * self._rng.standard_normal(3)
        self._bias_gyr = self.sensor.bias_gyr_rads * self._rng.standard_normal(3)
        self._start_ns = start_ns
        self._n_sampled = 0
        self._angles: FloatArray = np.array(self.person.stance_rad)
        self._posture: Posture = "standing"

    def iter_pieces(self, script: Script) -> Iterator[Piece]:
        """Lives through (activity, duration s) one by one; posture changes that the script leaves out are put in."""
        for activity, duration_s in script:
            for bridge in self._bridge_to(activity):
                yield self._perform(bridge, float(self._rng.uniform(*ACTIVITIES[bridge].usual_s)))
            yield self._perform(activity, duration_s)

    def generate(self, script: Script) -> Trace:
        """Lives through a whole script and returns it in one block with its timeline."""
        pieces = list(self.iter_pieces(script))
        if not pieces:
            raise UsageError("script", "name at least one activity", "an empty script", "Use draw_script")
        block = SampleBlock(
            self.device_id,
            np.concatenate([p.block.t_ns for p in pieces]),
            np.concatenate([p.block.acc_ms2 for p in pieces]),
            np.concatenate([p.block.gyr_rads for p in pieces]),
        )
        falls = tuple(p.fall_interval_ns for p in pieces if p.fall_interval_ns is not None)
        return Trace(block, tuple(p.span for p in pieces), falls)

    def iter_recordings(self, script: Script) -> Iterator[Recording]:
        """Lives through a script as one recording an activity, which go on from each other without a pause."""
        for k, piece in enumerate(self.iter_pieces(script)):
            name, interval = piece.span.activity, piece.fall_interval_ns
            yield Recording(
                "synthetic", self.device_id, name, str(k), interval is not None, interval, self.placement, piece.block
            )

    def recording(self, activity: str, script: Script, *, trial: str = "1") -> Recording:
        """A trial as data sets hold them: the script's samples under the name of one activity."""
        trace = self.generate(script)
        interval = trace.fall_intervals_ns[0] if trace.fall_intervals_ns else None
        is_fall = interval is not None
        return Recording("synthetic", self.device_id, activity, trial, is_fall, interval, self.placement, trace.block)

    def _bridge_to(self, activity: str) -> tuple[str, ...]:
        if activity not in ACTIVITIES and activity not in FALLS:
            names = ", ".join(activity_names())
            raise UsageError("script", f"hold activities among {names}", repr(activity), "Correct the name")
        needs = FALLS[activity].needs if activity in FALLS else ACTIVITIES[activity].needs
        return _BRIDGE.get((self._posture, needs), ())

    def _perform(self, activity: str, duration_s: float) -> Piece:
        if activity in FALLS and duration_s < MIN_FALL_S:
            raise UsageError(activity, f"last at least {MIN_FALL_S:g} s", f"{duration_s:g} s", "Give it more time")
        rate = self.sensor.rate_hz
        n = max(round(duration_s * rate), 2)
        every = int(np.ceil(_FINE_HZ / rate))
        motion = Motion.at_rest(n / rate, rate * every, self._angles)
        interval_s: tuple[float, float] | None = None
        if activity in FALLS:
            onset = float(self._rng.uniform(0.1, 0.3)) * max(n / rate - _LIE_AFTER_FALL_S, 0.0)
            interval_s = fall(motion, FALLS[activity], self.person, self._rng, onset)
            self._posture = "lying"
        else:
            ACTIVITIES[activity].perform(motion, self.person, self._rng)
            self._posture = ACTIVITIES[activity].leaves
        motion.calm_edges(_SEAM_S)
        self._angles = np.array(motion.angles[-1])
        start_ns = self._stamp(0)
        block = self._sample(motion, n)
        self._n_sampled += n
        span = Span(start_ns, self._stamp(0), activity, activity in FALLS)
        interval = None
        if interval_s is not None:
            interval = (start_ns + round(interval_s[0] * NS_PER_S), start_ns + round(interval_s[1] * NS_PER_S))
        return Piece(block, span, interval)

    def _stamp(self, k: int) -> int:
        """Even stamp of the k-th sample from here, ns."""
        return self._start_ns + round((self._n_sampled + k) * (NS_PER_S / self.sensor.rate_hz))

    def _sample(self, motion: Motion, n: int) -> SampleBlock:
        """What the device reports of a motion: sampled at (jittered) stamps, with bias, noise and clipping."""
        sensor, rng = self.sensor, self._rng
        acc, gyr = sense(motion, self.pocket.mounting, self.pocket.lever_m)
        period_ns = NS_PER_S / sensor.rate_hz
        even: IntArray = self._start_ns + np.rint((self._n_sampled + np.arange(n)) * period_ns).astype(np.int64)
        late = np.zeros(n, dtype=np.int64)
        if sensor.jitter_s > 0:
            bound = 0.45 / sensor.rate_hz  # keeps the stamps in order
            late = np.rint(np.clip(sensor.jitter_s * rng.standard_normal(n), -bound, bound) * NS_PER_S).astype(np.int64)
        at = (even - even[0] + late) / NS_PER_S
        read_acc = (
            _interpolate(at, motion.t_s, acc) + self._bias_acc + sensor.noise_acc_ms2 * rng.standard_normal((n, 3))
        )
        read_gyr = (
            _interpolate(at, motion.t_s, gyr) + self._bias_gyr + sensor.noise_gyr_rads * rng.standard_normal((n, 3))
        )
        read_acc = np.clip(read_acc, -sensor.acc_range_ms2, sensor.acc_range_ms2)
        read_gyr = np.clip(read_gyr, -sensor.gyr_range_rads, sensor.gyr_range_rads)
        return SampleBlock(self.device_id, even + late, read_acc, read_gyr)


def _interpolate(at_s: FloatArray, t_s: FloatArray, values: FloatArray) -> FloatArray:
    return np.stack([np.interp(at_s, t_s, values[:, axis]) for axis in range(values.shape[1])], axis=1)


_DAY: tuple[tuple[str, float], ...] = (  # what a day is made of: activity and its weight in the draw
    ("walking", 5.0),
    ("standing", 2.0),
    ("sitting", 4.0),
    ("housework", 4.0),
    ("stairs_up", 1.5),
    ("stairs_down", 1.5),
    ("hand_claps", 1.0),
    ("sit_down_bump", 1.5),
    ("lying", 1.5),
    ("car", 1.5),
    ("jogging", 0.5),
)


def draw_script(
    rng: np.random.Generator, duration_s: float, *, n_falls: int = 0, lie_s: tuple[float, float] = (15.0, 30.0)
) -> list[tuple[str, float]]:
    """Draws a day of about duration_s: activities by weight, never the same twice running, n_falls spread over it.

    A fall lasts until the person, having lain for a time within lie_s, gets up again; falls take turns over the kinds.
    """
    names, weights = [name for name, _ in _DAY], np.array([weight for _, weight in _DAY])
    script: list[tuple[str, float]] = []
    total, last = 0.0, ""
    while total < duration_s:
        name = str(rng.choice(names, p=weights / weights.sum()))
        if name == last:
            continue
        last = name
        for part in ("enter_car", "car_ride", "leave_car") if name == "car" else (name,):
            takes = float(rng.uniform(*ACTIVITIES[part].usual_s))
            script.append((part, takes))
            total += takes
    return _with_falls(rng, script, n_falls, lie_s)


def _with_falls(
    rng: np.random.Generator, script: list[tuple[str, float]], n_falls: int, lie_s: tuple[float, float]
) -> list[tuple[str, float]]:
    """Puts falls at even distances into a script, never into the middle of a car trip."""
    kinds = list(rng.permutation(list(FALLS)))
    gaps = [k for k in range(1, len(script) + 1) if script[k - 1][0] not in ("enter_car", "car_ride")]
    for i in reversed(range(n_falls)):
        place = gaps[min(int((i + 0.5) / n_falls * len(gaps)), len(gaps) - 1)]
        script.insert(place, (str(kinds[i % len(kinds)]), _LIE_AFTER_FALL_S + float(rng.uniform(*lie_s))))
    return script
