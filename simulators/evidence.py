"""What the synthetic wearers are held against: statistics of a trial, and which recordings are evidence for what.

`scripts/measure_activity_ranges.py` measures recorded trials with these functions, the test of honesty synthetic ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from simulators.people import Sensor
from simulators.synthetic import Script, Wearer
from stream_occ.samples import NS_PER_S, STANDARD_GRAVITY_MS2, FloatArray, SampleBlock

GRID_HZ = 50.0
BEFORE_PEAK_S, AFTER_PEAK_S = 1.5, 4.5  # a fall's piece, around its largest |acceleration|
STILL_FROM_S, STILL_TO_S = 2.0, 4.5  # after the largest |acceleration|: the aftermath

STATISTICS = {
    "peak_acc_ms2": "largest |a|",
    "low_acc_ms2": "smallest |a|: how near to free fall",
    "spread_acc_ms2": "standard deviation of |a|",
    "jerk_ms3": "root mean square of |da/dt|",
    "mean_rotation_rads": "mean of |w|",
    "peak_rotation_rads": "largest |w|",
    "still_acc_ms2": "falls: standard deviation of |a| from 2.0 s to 4.5 s after the largest |a|",
    "still_rotation_rads": "falls: mean |w| in the same stretch",
    "turned_rad": "falls: angle between mean acceleration in the first 0.4 s of the piece and in that stretch",
}


@dataclass(frozen=True, slots=True)
class Source:
    """Recordings that are evidence: activities `codes` of a data set, at a place of the body.

    cut: `whole` trial, `pieces` of length_s from skip_s on, `tail` (the last length_s) or `fall` (around the peak).
    clip_ms2: the recording device's range; a synthetic trial is clipped alike before it is compared.
    level: readings are scaled so that the median |a| is standard gravity; at rest a phone's calibration error is larger
    than all that the body does. omit: statistics that do not carry over (other place, other noise, no gyroscope).
    """

    dataset: str
    codes: tuple[str, ...]
    placement: str
    cut: str = "whole"
    length_s: float = 0.0
    skip_s: float = 0.0
    clip_ms2: float = 16 * STANDARD_GRAVITY_MS2
    level: bool = False
    omit: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Comparison:
    """A synthetic activity, laid out in time as its recorded trials are, and the evidence that bounds it.

    script: what a synthetic trial consists of; sources: pooled recordings; widen: factor by which the recorded range
    is opened at both ends, above 1 only where the recordings are too few to show a range.
    """

    script: Script
    sources: tuple[Source, ...]
    widen: float = 1.0

    @property
    def cut(self) -> Source:
        """The source whose cut and clipping are applied to synthetic trials: the first."""
        return self.sources[0]


_PHONE_2G = 2 * STANDARD_GRAVITY_MS2
_ROTATION = frozenset({"mean_rotation_rads", "peak_rotation_rads", "still_rotation_rads"})
_STILLNESS = frozenset({"still_acc_ms2", "still_rotation_rads"})
_PEAKS = frozenset({"peak_acc_ms2", "low_acc_ms2"})  # what a trial of getting down and up again says of each half
_TURN = frozenset({"turned_rad"})  # waist and thigh turn differently


def _all_but(kept: frozenset[str]) -> frozenset[str]:
    return frozenset(STATISTICS) - kept


def _pocket(
    *codes: str, cut: str = "whole", length_s: float = 0.0, level: bool = False, omit: frozenset[str] = frozenset()
) -> Source:
    """MobiFall's phone; the first 2 s are left out of trials that are cut into pieces."""
    return Source("mobifall", codes, "thigh", cut, length_s, 2.0 if cut == "pieces" else 0.0, _PHONE_2G, level, omit)


_ALL_FALLS = ("FOL", "FKL", "BSC", "SDL")

COMPARISONS: dict[str, Comparison] = {
    "standing": Comparison((("standing", 14.0),), (_pocket("STD", cut="pieces", length_s=10, level=True),)),
    "walking": Comparison((("walking", 14.0),), (_pocket("WAL", cut="pieces", length_s=10),)),
    "jogging": Comparison((("jogging", 14.0),), (_pocket("JOG", cut="pieces", length_s=10),)),
    "jumping": Comparison((("jumping", 14.0),), (_pocket("JUM", cut="pieces", length_s=10),)),
    "stairs_up": Comparison((("standing", 1.3), ("stairs_up", 7.1), ("standing", 1.5)), (_pocket("STU"),)),
    "stairs_down": Comparison((("standing", 1.1), ("stairs_down", 6.8), ("standing", 2.0)), (_pocket("STN"),)),
    "sit_down": Comparison((("sit_down", 5.9),), (_pocket("SCH"),)),
    "enter_car": Comparison((("enter_car", 5.9),), (_pocket("CSI"),)),
    "leave_car": Comparison((("leave_car", 5.9),), (_pocket("CSO"),)),
    "sitting": Comparison((("sitting", 14.0),), (_pocket("SCH", cut="tail", length_s=2, level=True),)),
    "lying": Comparison((("lying", 14.0),), (_pocket(*_ALL_FALLS, cut="tail", length_s=3, level=True),)),
    "sit_down_bump": Comparison(
        (("standing", 3.0), ("sit_down_bump", 5.0), ("sitting", 4.0)),
        (Source("sisfall", ("D08", "D10", "D11"), "waist"),),
    ),
    "lie_down": Comparison(
        (("sitting", 2.0), ("lie_down", 5.0)),
        (Source("sisfall", ("D12", "D13"), "waist", omit=_all_but(_PEAKS)),),
    ),
    "get_up": Comparison(
        (("lying", 2.0), ("get_up", 5.0)),
        (Source("sisfall", ("D12", "D13"), "waist", omit=_all_but(_PEAKS)),),
    ),
    "stand_up": Comparison(
        (("sitting", 2.0), ("stand_up", 4.0)),
        (Source("sisfall", ("D07", "D09"), "waist", omit=_all_but(_PEAKS)),),
    ),
    "housework": Comparison(
        (("housework", 14.0),),
        (
            Source("sisfall", ("D15", "D16"), "waist", "pieces", 9.9, omit=_ROTATION),
            Source("umafall", ("Bending", "OpeningDoor"), "thigh", "pieces", 9.9, omit=_ROTATION),
            Source("smartfallmm", ("A05",), "waist", "pieces", 9.9, omit=_ROTATION),
            _pocket("STD", "WAL", cut="pieces", length_s=10, omit=_all_but(_ROTATION)),
        ),
    ),
    "hand_claps": Comparison(
        (("hand_claps", 14.0),),
        (Source("umafall", ("Aplausing",), "thigh", "pieces", 9.9, 2.0, omit=_ROTATION),),
        widen=1.5,
    ),
    "fall_forward": Comparison((("standing", 1.0), ("fall_forward", 8.9)), (_pocket("FOL", cut="fall"),)),
    "fall_faint": Comparison((("standing", 1.0), ("fall_faint", 8.9)), (_pocket("FKL", cut="fall"),)),
    "fall_backward": Comparison((("standing", 1.0), ("fall_backward", 8.9)), (_pocket("BSC", cut="fall"),)),
    "fall_lateral": Comparison((("standing", 1.0), ("fall_lateral", 8.9)), (_pocket("SDL", cut="fall"),)),
    "fall_from_chair": Comparison(
        (("sitting", 2.0), ("fall_from_chair", 9.0)),
        (
            Source("sisfall", ("F13", "F14", "F15"), "waist", "fall", omit=_TURN | _STILLNESS),
            _pocket(*_ALL_FALLS, cut="fall", omit=_all_but(_STILLNESS)),
        ),
    ),
}

# What no recording of these sets holds, and why it may be simulated all the same: docs/simulators.md.
WITHOUT_EVIDENCE = ("car_ride",)

# All falls beyond 2 g, which MobiFall's phone cannot show, from devices with a range of 16 g; F05 is a fall from a run.
FULL_RANGE_FALLS = Comparison(
    (),
    (
        Source("umafall", ("forwardFall", "backwardFall", "lateralFall"), "thigh", "fall", omit=_ROTATION),
        Source("sisfall", tuple(f"F{k:02d}" for k in range(1, 16) if k != 5), "waist", "fall", omit=_TURN),
    ),
)
FULL_RANGE_STATISTICS = ("peak_acc_ms2", "spread_acc_ms2", "jerk_ms3")


def on_grid(block: SampleBlock, clip_ms2: float) -> tuple[FloatArray, FloatArray]:
    """Acceleration, clipped to the range on each axis, and rotation, both (n, 3) on the common 50 Hz grid."""
    order = np.argsort(block.t_ns, kind="stable")
    t = (block.t_ns[order] - block.t_ns[order[0]]) / NS_PER_S
    at = np.arange(0.0, t[-1], 1.0 / GRID_HZ)
    acc = np.clip(block.acc_ms2[order], -clip_ms2, clip_ms2)
    gyr = block.gyr_rads[order]
    grid = [np.stack([np.interp(at, t, values[:, k]) for k in range(3)], axis=1) for values in (acc, gyr)]
    return grid[0], grid[1]


def iter_pieces(block: SampleBlock, source: Source, clip_ms2: float | None = None) -> Iterator[dict[str, float]]:
    """Statistics of each piece that a source's cut makes of a trial."""
    acc, gyr = on_grid(block, source.clip_ms2 if clip_ms2 is None else clip_ms2)
    if source.level:
        acc = acc * (STANDARD_GRAVITY_MS2 / float(np.median(np.linalg.norm(acc, axis=1))))
    n = round(source.length_s * GRID_HZ)
    if source.cut == "fall":
        yield fall_statistics(acc, gyr)
    elif source.cut == "tail":
        yield activity_statistics(acc[-n:], gyr[-n:])
    elif source.cut == "pieces":
        for i in range(round(source.skip_s * GRID_HZ), len(acc) - n + 1, n):
            yield activity_statistics(acc[i : i + n], gyr[i : i + n])
    else:
        yield activity_statistics(acc, gyr)


def activity_statistics(acc: FloatArray, gyr: FloatArray) -> dict[str, float]:
    """The first six of `STATISTICS` for (n, 3) signals on the grid."""
    size = np.linalg.norm(acc, axis=1)
    turn = np.linalg.norm(gyr, axis=1)
    change = np.diff(acc, axis=0) * GRID_HZ
    return {
        "peak_acc_ms2": float(size.max()),
        "low_acc_ms2": float(size.min()),
        "spread_acc_ms2": float(size.std()),
        "jerk_ms3": float(np.sqrt((change**2).sum(axis=1).mean())),
        "mean_rotation_rads": float(turn.mean()),
        "peak_rotation_rads": float(turn.max()),
    }


def fall_statistics(acc: FloatArray, gyr: FloatArray) -> dict[str, float]:
    """All of `STATISTICS` for the stretch around the largest |a|, as far as the trial reaches."""
    peak = int(np.linalg.norm(acc, axis=1).argmax())
    first = max(0, peak - round(BEFORE_PEAK_S * GRID_HZ))
    last = peak + round(AFTER_PEAK_S * GRID_HZ)
    out = activity_statistics(acc[first:last], gyr[first:last])
    after = slice(peak + round(STILL_FROM_S * GRID_HZ), peak + round(STILL_TO_S * GRID_HZ))
    if len(acc[after]) < GRID_HZ:
        return out
    upright, lying = acc[first : first + 20].mean(axis=0), acc[after].mean(axis=0)
    cosine = upright @ lying / (np.linalg.norm(upright) * np.linalg.norm(lying))
    out["still_acc_ms2"] = float(np.linalg.norm(acc[after], axis=1).std())
    out["still_rotation_rads"] = float(np.linalg.norm(gyr[after], axis=1).mean())
    out["turned_rad"] = float(np.arccos(np.clip(cosine, -1.0, 1.0)))
    return out


def synthetic_statistics(
    comparison: Comparison, n_trials: int, seed: int, *, clip_ms2: float | None = None
) -> list[dict[str, float]]:
    """Statistics of n_trials synthetic trials, each of another person, cut and clipped as the recorded ones.

    The device samples at 84 Hz with jittered stamps, as MobiFall's phone does on average; of a trial cut into pieces
    the first counts.
    """
    out: list[dict[str, float]] = []
    for rng in np.random.default_rng(seed).spawn(n_trials):
        wearer = Wearer("synthetic", rng, sensor=Sensor(rate_hz=84.0, jitter_s=0.002))
        trace = wearer.generate(comparison.script)
        asked = comparison.script[0][0]
        start_ns = next(span.t_start_ns for span in trace.timeline if span.activity == asked)
        keep = trace.block.t_ns >= start_ns  # drops posture changes before the trial
        block = trace.block
        trial = SampleBlock(block.device_id, block.t_ns[keep], block.acc_ms2[keep], block.gyr_rads[keep])
        out.append(next(iter_pieces(trial, comparison.cut, clip_ms2)))
    return out
