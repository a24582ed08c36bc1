"""Which windows that a fault of the sensor touches could be called normal, and how long after it began; and what the
rules cost where nothing is wrong.

    python benchmarks/sensor_faults.py --dataset mobifall --data mobifall.zip
    python benchmarks/sensor_faults.py --dataset weda-fall --data weda-fall.zip --activities D01,D03 --every 5
    python benchmarks/sensor_faults.py --dataset weda-fall --data weda-fall.zip --undisturbed

Each fault begins in the middle of a recording of an activity and lasts to its end. Counted are the windows (--window-s,
every 0.5 s, behind the filter of the default features, as `detect` cuts them) that hold a faulty sample, by the time
from the fault's beginning to their end; no score is taken: a window could be normal where no rule withholds its
verdict. Where a change of axes leaves gravity where it was, within 60 degrees, it counts in a line of its own. With
--undisturbed no fault is made: of all windows, also of falls, those without a verdict for any reason but a saturated
sample, and what was named in how many windows and recordings.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

REPO = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPO))

from simulators.faults import load_fault, taken  # noqa: E402
from stream_occ import features  # noqa: E402
from stream_occ import motion as wearer  # noqa: E402
from stream_occ.datasets import open_dataset  # noqa: E402
from stream_occ.samples import NS_PER_S, FloatArray, SampleBlock  # noqa: E402
from stream_occ.sensor import SensorState, looks_of, watch_sensor  # noqa: E402
from stream_occ.windowing import WindowShape, iter_windows  # noqa: E402

RATE_HZ, HOP_S = 50.0, 0.5
SOS = features.design_lowpass(features.load("fall31"), RATE_HZ)
SINCE_S = (0.0, 0.3, 0.5, 1.0, 2.0, 4.0, 1e9)
UNTURNED_DEG = 60.0
AS_IS = np.eye(3)

Disturb = Callable[[SampleBlock], SampleBlock]


def axes(acc: FloatArray, gyr: FloatArray) -> Disturb:
    """Both sensors' axes by matrices."""
    return lambda block: replace(block, acc_ms2=block.acc_ms2 @ acc.T, gyr_rads=block.gyr_rads @ gyr.T)


def fault(text: str) -> Disturb:
    """One of the simulators', from its first sample on."""
    return load_fault(text)()


def flip(i: int) -> FloatArray:
    """One axis has the other sign."""
    return np.diag([-1.0 if j == i else 1.0 for j in range(3)])


def swap(i: int, j: int) -> FloatArray:
    """Two axes in one another's place."""
    order = [j if k == i else i if k == j else k for k in range(3)]
    return AS_IS[order]


TURN_Z, TURN_X = flip(1) @ swap(0, 1), flip(2) @ swap(1, 2)
AXES: dict[str, tuple[FloatArray, FloatArray]] = {
    "axes turned about z": (TURN_Z, TURN_Z),
    "axes turned about x": (TURN_X, TURN_X),
    "all signs of acc": (-AS_IS, AS_IS),
    **{f"sign of {'xyz'[i]}, both": (flip(i), flip(i)) for i in range(3)},
    **{f"{'xyz'[i]} and {'xyz'[j]} swapped, both": (swap(i, j), swap(i, j)) for i, j in ((0, 1), (1, 2), (0, 2))},
    **{f"sign of {'xyz'[i]}, acc": (flip(i), AS_IS) for i in range(3)},
    **{f"{'xyz'[i]} and {'xyz'[j]} swapped, acc": (swap(i, j), AS_IS) for i, j in ((0, 1), (1, 2), (0, 2))},
    **{f"sign of {'xyz'[i]}, gyr": (AS_IS, flip(i)) for i in range(3)},
    "x and y swapped, gyr": (AS_IS, swap(0, 1)),
    "all signs of gyr": (AS_IS, -AS_IS),
}
FAULTS = (
    *(f"stuck:{i}" for i in range(7)),
    *("noise:2", "noise:4", "gravity", "saturation", "saturation:12"),
    *("unit", "unit:0.5", "unit:0.7", "unit:0.8", "unit:1.2", "unit:1.3", "unit:1.5", "unit:2"),
)


def judged(block: SampleBlock, window_s: float) -> Iterator[tuple[int, bool, tuple[str, ...]]]:
    """End, whether it could be normal, and the faults that hold, of each window."""
    state, shape = SensorState(), WindowShape.of(rate_hz=RATE_HZ, window_s=window_s, hop_s=HOP_S)
    n_overlapping = -(-shape.n_samples // shape.n_hop)
    for batch in iter_windows(block, shape, sos=SOS):
        found = wearer.motion(batch)
        for t_end_ns, look in zip(batch.t_end_ns.tolist(), looks_of(batch, found), strict=True):
            state, may_be_normal = watch_sensor(state, *look, n_overlapping=n_overlapping)
            yield t_end_ns, may_be_normal, state.faults


def turned_deg(acc: FloatArray, block: SampleBlock, at_ns: int) -> float:
    """By how much a change of the accelerometer's axes turns gravity, as it was in the second before."""
    near = (block.t_ns > at_ns - NS_PER_S) & (block.t_ns <= at_ns)
    gravity = block.acc_ms2[near].mean(axis=0)
    return float(np.degrees(np.arccos(np.clip(gravity @ acc @ gravity / (gravity @ gravity), -1, 1))))


def main() -> None:
    """Prints a line for each fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dataset", required=True)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--activities", help="some, separated by commas; all without")
    parser.add_argument("--every", type=int, default=1, help="one of so many recordings")
    parser.add_argument("--longest-s", type=float, default=60.0, help="of a recording, from its beginning")
    parser.add_argument("--window-s", type=float, default=5.0, help="of a window")
    parser.add_argument("--undisturbed", action="store_true", help="no faults: what the rules cost")
    args = parser.parse_args()
    if args.undisturbed:
        tell_costs(args.dataset, args.data, args.window_s)
        return
    only = None if args.activities is None else set(args.activities.split(","))
    seen: dict[str, Counter[tuple[float, bool]]] = {}
    names: dict[str, Counter[str]] = {}
    n_recordings = n_used = 0
    with open_dataset(args.dataset, args.data, variant=None) as source:
        for one in source.iter_recordings():
            if one.is_fall or (only is not None and one.activity not in only):
                continue
            n_recordings += 1
            if (n_recordings - 1) % args.every:
                continue
            block = taken(one.block, one.block.t_ns < one.block.t_ns[0] + round(args.longest_s * NS_PER_S))
            at_ns = int(block.t_ns[len(block) // 2])
            n_used += 1
            for name, disturb, start_ns in [("undisturbed", None, 0), *started(block, at_ns)]:
                changed = block if disturb is None else after(block, at_ns, disturb)
                told = seen.setdefault(name, Counter())
                for t_end_ns, may_be_normal, faults in judged(changed, args.window_s):
                    if t_end_ns >= start_ns:
                        since_s = (t_end_ns - start_ns) / NS_PER_S
                        told[max(s for s in SINCE_S if s <= since_s), may_be_normal] += 1
                        names.setdefault(name, Counter()).update(faults)
    print(
        f"{args.dataset}: {n_used} recordings; windows that could be normal, of those that end so long after the fault"
    )
    spans = [f"{a:g}-{b:g} s" if b < 1e9 else f"{a:g} s on" for a, b in pairwise(SINCE_S)]
    print(f"{'':34}" + "".join(f"{span:>13}" for span in spans) + "  named")
    for name, told in seen.items():
        counts = [(told[s, True], told[s, True] + told[s, False]) for s in SINCE_S[:-1]]
        print(f"{name:34}" + "".join(f"{f'{a} of {n}':>13}" for a, n in counts), dict(names.get(name, {})))


def tell_costs(dataset: str, data: Path, window_s: float) -> None:
    """Prints a line for everyday activities and one for falls."""
    for is_fall in (False, True):
        n_windows = n_without = 0
        named, recordings = Counter[str](), Counter[str]()
        with open_dataset(dataset, data, variant=None) as source:
            for one in source.iter_recordings():
                told = list(judged(one.block, window_s)) if bool(one.is_fall) == is_fall else []
                n_windows += len(told)
                n_without += sum(not may_be_normal and "saturated" not in faults for _, may_be_normal, faults in told)
                faults_of = [faults for *_, faults in told]
                named.update(name for faults in faults_of for name in faults)
                recordings.update({name for faults in faults_of for name in faults})
        kind = "falls" if is_fall else "activities"
        found = ", ".join(f"{name} {n} ({recordings[name]} recordings)" for name, n in named.items())
        print(f"{dataset}, {kind}: {n_without} of {n_windows} windows without a verdict; {found}")


def started(block: SampleBlock, at_ns: int) -> Iterator[tuple[str, Disturb, int]]:
    """Each fault's name, itself, and when it begins."""
    for name, (acc, gyr) in AXES.items():
        is_turned = turned_deg(acc, block, at_ns) > UNTURNED_DEG
        yield name if is_turned else f"{name}, unturned", axes(acc, gyr), at_ns
    for name in FAULTS:
        yield name, fault(name), at_ns


def after(block: SampleBlock, at_ns: int, disturb: Disturb) -> SampleBlock:
    """The block, disturbed from at_ns on."""
    is_before = block.t_ns < at_ns
    first, second = taken(block, is_before), disturb(taken(block, ~is_before))
    arrays = ((getattr(part, name) for part in (first, second)) for name in ("t_ns", "acc_ms2", "gyr_rads"))
    return SampleBlock(block.device_id, *(np.concatenate(list(pair)) for pair in arrays))


if __name__ == "__main__":
    main()
