"""No window that holds samples of a broken sensor is normal, but for as long as docs/quality.md says that nobody could
tell: recordings of people at what they do every day, each fault beginning in the middle of one."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from simulators.faults import load_fault, taken
from stream_occ import features
from stream_occ.datasets import open_dataset
from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, SampleBlock
from tests.unit.toy_model import toy_model

DOC = Path(__file__).resolve().parents[2] / "docs" / "quality.md"
# Windows without a filter, and as the default model has them.
WINDOW_S = {"plain": 3.0, "default": 5.0}
SOS = {"plain": None, "default": features.design_lowpass(features.load("fall31"), 50.0)}
# Seconds for which it is unseen, without a filter and as the default model has it.
LASTS: dict[str, tuple[float, float]] = {
    **{f"stuck:{signal}": (0.3, 0.3) for signal in range(7)},
    "unit": (1.25, 2.0),
    "unit:0.5": (2.0, 3.5),
    "unit:2": (2.5, 4.5),
    "gravity": (2.0, 2.75),
    "noise:4": (2.5, 2.5),
    "noise": (2.5, 5.0),  # but in a jog
}
AXES_S = 0.75
AXES: dict[str, tuple[list[list[int]], list[list[int]]]] = {
    "x is -y, y is x, in both": ([[0, -1, 0], [1, 0, 0], [0, 0, 1]], [[0, -1, 0], [1, 0, 0], [0, 0, 1]]),
    "z is -y, y is z, in both": ([[1, 0, 0], [0, 0, 1], [0, -1, 0]], [[1, 0, 0], [0, 0, 1], [0, -1, 0]]),
    "all signs of acc": ([[-1, 0, 0], [0, -1, 0], [0, 0, -1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    "sign of x, in both": ([[-1, 0, 0], [0, 1, 0], [0, 0, 1]], [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    "sign of y, in both": ([[1, 0, 0], [0, -1, 0], [0, 0, 1]], [[1, 0, 0], [0, -1, 0], [0, 0, 1]]),
    "sign of y, of acc": ([[1, 0, 0], [0, -1, 0], [0, 0, 1]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
    "x and y, of both": ([[0, 1, 0], [1, 0, 0], [0, 0, 1]], [[0, 1, 0], [1, 0, 0], [0, 0, 1]]),
    "y and z, of acc": ([[1, 0, 0], [0, 0, 1], [0, 1, 0]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
}


@pytest.fixture(scope="module")
def blocks(shared_data: Path) -> dict[str, SampleBlock]:
    """Two people standing, walking, jogging and on stairs, a phone in the pocket, and walks with phone and watch."""
    found: dict[str, SampleBlock] = {}
    with open_dataset("mobifall", shared_data / "mobifall.zip", variant=None) as source:
        for one in source.iter_recordings():
            if one.subject in ("2", "9") and one.activity in ("STD", "WAL", "JOG", "STU", "STN"):
                found.setdefault(f"{one.activity} {one.subject}", one.block)
    with open_dataset("sp-sw-har", shared_data / "sp-sw-har.zip", variant=None) as source:
        for one in islice(source.iter_recordings(), 0, 40, 9):
            found[f"{one.subject} {one.placement} {one.trial}"] = one.block
    return {name: taken(b, b.t_ns < b.t_ns[0] + 20 * NS_PER_S) for name, b in found.items()}


def middle_of(block: SampleBlock, cut: str) -> int:
    """The row at which a fault begins: the middle, or where a window has ended before."""
    return max(len(block) // 2, int(np.searchsorted(block.t_ns, block.t_ns[0] + (WINDOW_S[cut] + 0.5) * NS_PER_S)))


def normal_since(block: SampleBlock, disturb: Callable[[SampleBlock], SampleBlock], cut: str) -> list[float]:
    """When, after the fault began in the middle of the block, windows that are normal end, s."""
    at_ns = int(block.t_ns[middle_of(block, cut)])
    first, second = taken(block, block.t_ns < at_ns), disturb(taken(block, block.t_ns >= at_ns))
    whole = SampleBlock(
        "w1",
        *(np.concatenate([getattr(b, name) for b in (first, second)]) for name in ("t_ns", "acc_ms2", "gyr_rads")),
    )
    pipeline = Pipeline(toy_model(threshold=1e6, window_s=WINDOW_S[cut], hop_s=0.25, sos=SOS[cut]))
    _, decisions, _ = pipeline.step(pipeline.initial(), [whole], int(whole.t_ns[-1]))
    ends_s = [(decision.t_end_ns - at_ns) / NS_PER_S for decision in decisions if decision.label == "normal"]
    assert [end for end in ends_s if end < 0]  # it can be normal before
    return [end for end in ends_s if end >= 0]


@pytest.mark.parametrize("cut", WINDOW_S)
@pytest.mark.parametrize("fault", LASTS)
def test_window_that_a_fault_touches_is_not_normal(blocks: dict[str, SampleBlock], fault: str, cut: str) -> None:
    """From so long after its beginning on, whatever the wearer does."""
    some = {name: block for name, block in blocks.items() if fault != "noise" or "JOG" not in name}
    told = {name: normal_since(block, load_fault(fault)(), cut) for name, block in some.items()}
    late = {name: [end for end in ends if end > LASTS[fault][list(WINDOW_S).index(cut)]] for name, ends in told.items()}
    assert {name: ends for name, ends in late.items() if ends} == {}


@pytest.mark.parametrize("cut", WINDOW_S)
@pytest.mark.parametrize("name", AXES)
def test_window_in_which_axes_change_is_not_normal(blocks: dict[str, SampleBlock], name: str, cut: str) -> None:
    """Wherever the change turns gravity by 75 degrees and more, from so long after it until it is in no window."""
    acc, gyr = (np.array(rows, dtype=float) for rows in AXES[name])
    n_turned = 0
    for activity, block in blocks.items():
        middle = middle_of(block, cut)
        gravity = block.acc_ms2[(block.t_ns > block.t_ns[middle] - NS_PER_S) & (block.t_ns < block.t_ns[middle])]
        before = gravity.mean(axis=0)
        if before @ acc @ before > np.cos(np.radians(75)) * (before @ before):
            continue
        n_turned += 1
        ends = normal_since(block, lambda b: replace(b, acc_ms2=b.acc_ms2 @ acc.T, gyr_rads=b.gyr_rads @ gyr.T), cut)
        assert [end for end in ends if AXES_S < end < WINDOW_S[cut]] == [], activity
    assert n_turned > 0


def test_what_is_unseen_and_for_how_long_is_documented() -> None:
    """docs/quality.md has the same times: a row for each fault that is tried here."""
    section = DOC.read_text().partition("## What a window can hide")[2].partition("\n## ")[0]
    told = {
        fault: (float(plain), float(default))
        for faults, plain, default in re.findall(r"^\| (.+?) \| ([0-9.]+) s \| ([0-9.]+) s \|", section, re.MULTILINE)
        for fault in re.findall(r"`([a-z0-9:.-]+)`", faults)
    }
    expected = {fault: unseen_s for fault, unseen_s in LASTS.items() if not fault.startswith("stuck")}
    assert told == {**expected, "stuck": (0.3, 0.3), "axes": (AXES_S, AXES_S), "sign": (AXES_S, AXES_S)}
