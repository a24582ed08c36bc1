"""CPU time of one thread, of several ways in turns: what a busy machine does to one it does to the next."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping

Task = Callable[[int], object]

__all__ = ["Task", "in_turns"]


def in_turns(tasks: Mapping[str, Task], rounds: int, *, reference: str, calls: int = 1) -> dict[str, dict[str, float]]:
    """Calls task(number) of each way in turns, each round beginning with another way.

    `cold_ms` is the median time of a turn's first call, which finds the caches full of the others' data; `ms` that of
    `calls` more in a row (without any, the first). `ratio` and `cold_ratio`: median over rounds of the time over that
    of `reference` in the same round.
    """
    names = list(tasks)
    cold: dict[str, list[float]] = {name: [] for name in names}
    hot: dict[str, list[float]] = {name: [] for name in names}
    for name in names:
        tasks[name](0)
    for turn in range(rounds):
        first = turn % len(names)
        for name in names[first:] + names[:first]:
            number = turn * (calls + 1)
            cold[name].append(_cpu_ms(tasks[name], range(number, number + 1)))
            hot[name].append(_cpu_ms(tasks[name], range(number + 1, number + 1 + calls)) if calls else cold[name][-1])
    return {
        name: {
            "ms": _digits(statistics.median(hot[name])),
            "ratio": _ratio(hot[name], hot[reference]),
            "cold_ms": _digits(statistics.median(cold[name])),
            "cold_ratio": _ratio(cold[name], cold[reference]),
        }
        for name in names
    }


def _cpu_ms(task: Task, numbers: range) -> float:
    start = time.thread_time_ns()
    for number in numbers:
        task(number)
    return (time.thread_time_ns() - start) / 1e6 / len(numbers)


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return _digits(statistics.median(a / b for a, b in zip(ours, theirs, strict=True)))


def _digits(value: float) -> float:
    return float(f"{value:.3g}")
