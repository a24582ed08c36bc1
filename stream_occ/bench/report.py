"""What a part of the benchmark is given, what it finds, and all of it as one JSON object and one plot."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Protocol, cast

from stream_occ.bench.rows import Rows, recorded_rows, synthetic_rows
from stream_occ.errors import StreamOccError, UsageError
from stream_occ.plugins import load_plugin, plugin_names

FAMILY = "stream_occ.bench.parts"
PACKAGES = ("numpy", "scipy", "scikit-learn", "numba", "pyod", "river", "tsfel", "tsfresh", "msgspec", "orjson")

__all__ = ["Amount", "Found", "Ratio", "Settings", "draw", "measure", "part_names", "three_digits"]


@dataclass(frozen=True, slots=True)
class Settings:
    """How much is measured; data: a recorded set, beside synthetic windows; is_quick: figures say little."""

    n_rows: int = 26_660
    dataset: str = "mobifall"
    data: Path | None = None
    is_quick: bool = False

    @property
    def rounds(self) -> int:
        """Paired runs whose median is told."""
        return 3 if self.is_quick else 9

    @property
    def n_members(self) -> int:
        """Of the ensemble that decides."""
        return 5 if self.is_quick else 25

    @property
    def has_bars(self) -> bool:
        """Whether the project's bars are meant: they are for 25 members and 26,660 rows or more."""
        return not self.is_quick and self.n_rows >= 26_660

    def rows(self) -> list[Rows]:
        """Synthetic windows and, where data is given, recorded ones."""
        recorded = [] if self.data is None else [recorded_rows(self.dataset, self.data, self.n_rows)]
        return [synthetic_rows(self.n_rows), *recorded]


@dataclass(frozen=True, slots=True)
class Ratio:
    """So many times what ours costs costs a peer, at the same task. at_least: the bar that this project has set."""

    task: str
    peer: str
    times: float
    at_least: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is reached; None where there is none."""
        return None if self.at_least is None else self.times >= self.at_least

    def line(self) -> str:
        """For people."""
        bar = "" if self.at_least is None else f" (bar: {self.at_least:g}{'' if self.is_met else ', not met'})"
        return f"{self.times:>9.3g} x  {self.task}: {self.peer}{bar}"


@dataclass(frozen=True, slots=True)
class Amount:
    """How much something takes, or how many there are, where no peer is beside it; with the bar, from one side."""

    what: str
    value: float
    unit: str
    at_most: float | None = None
    at_least: float | None = None

    @property
    def is_met(self) -> bool | None:
        """Whether the bar is kept; None where there is none."""
        if self.at_most is not None:
            return self.value <= self.at_most
        return None if self.at_least is None else self.value >= self.at_least

    def line(self) -> str:
        """For people."""
        bars = (("at most", self.at_most), ("at least", self.at_least))
        missed = ", not met" if self.is_met is False else ""
        told = "".join(f" (bar: {side} {bar:g}{missed})" for side, bar in bars if bar is not None)
        return f"{self.what}: {self.value:g} {self.unit}{told}"


@dataclass(frozen=True, slots=True)
class Found:
    """What a part has measured. lines: what no ratio or amount says; not_installed: peers that are absent."""

    figures: dict[str, Any]
    ratios: Sequence[Ratio] = ()
    amounts: Sequence[Amount] = field(default=(), kw_only=True)
    lines: Sequence[str] = ()
    not_installed: Sequence[str] = field(default=())


def three_digits(value: float) -> float:
    """As much as is told of a ratio.

    >>> three_digits(12.345)
    12.3
    """
    return float(f"{value:.3g}")


class Part(Protocol):
    """A file in stream_occ/bench/parts/."""

    def measure(self, settings: Settings) -> Found:
        """Measures; a StreamOccError says in one line what is missing."""


def part_names() -> tuple[str, ...]:
    """Names of all parts."""
    return plugin_names(FAMILY)


def measure(names: Sequence[str], settings: Settings, told: Callable[[str, Found | str], None]) -> dict[str, Any]:
    """All figures of these parts as one JSON object; told(name, what was found or why not) after each.

    Raises UsageError for an unknown name before anything is measured, and the error of a part that is alone; of
    several, one that cannot run is skipped.
    """
    parts = {name: cast(Part, load_plugin(FAMILY, name, kind="part", error=UsageError)) for name in names}
    report: dict[str, Any] = {"machine": machine(), "settings": asdict(settings), "parts": {}}
    for name, part in parts.items():
        load = os.getloadavg()[0]
        try:
            found = part.measure(settings)
        except StreamOccError as error:
            if len(parts) == 1:
                raise
            report["parts"][name] = {"skipped": str(error)}
            told(name, str(error))
            continue
        judged = {
            kind: [asdict(each) | {"is_met": each.is_met} for each in entries]
            for kind, entries in (("ratios", found.ratios), ("amounts", found.amounts))
        }
        loads = [round(load, 1), round(os.getloadavg()[0], 1)]
        report["parts"][name] = {"load_1min": loads, **asdict(found), **judged}
        told(name, found)
    return report


def machine() -> dict[str, Any]:
    """What it ran on and with."""
    versions: dict[str, str] = {}
    for name in PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return {
        "cpu": _cpu_model(),
        "n_cores": os.cpu_count(),
        "python": platform.python_version(),
        "threads": os.environ.get("OPENBLAS_NUM_THREADS", "all"),
        "versions": versions,
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), platform.machine())


def draw(report: dict[str, Any], path: Path) -> None:
    """Each part's ratios as bars on a logarithmic axis, with the project's own bars as ticks across them."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    parts = {name: part["ratios"] for name, part in report["parts"].items() if part.get("ratios")}
    heights = [max(len(ratios), 1) for ratios in parts.values()] or [1]
    with mpl.rc_context({"svg.hashsalt": "stream_occ", "font.size": 8, "text.parse_math": False}):
        figure = Figure(figsize=(9, 1.2 + 0.19 * sum(heights) + 0.6 * len(heights)), layout="constrained")
        axes = figure.subplots(len(heights), squeeze=False, sharex=True, gridspec_kw={"height_ratios": heights})[:, 0]
        for axis, (name, ratios) in zip(axes, parts.items(), strict=False):
            _bars(axis, name, ratios)
        axes[-1].set_xlabel(
            "times the cost of stream_occ, median of paired runs (1: as much); ticks: the project's bars"
        )
        figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def _bars(axis: Any, name: str, ratios: Sequence[dict[str, Any]]) -> None:
    numbers, times = range(len(ratios)), [ratio["times"] for ratio in ratios]
    colors = ["#2b6cb0" if value >= 1.0 else "#c05621" for value in times]
    axis.barh(numbers, [value - 1.0 for value in times], left=1.0, color=colors)
    axis.set_xscale("log")
    axis.axvline(1.0, color="black", linewidth=0.8)
    for number, ratio in zip(numbers, ratios, strict=True):
        axis.annotate(f" {ratio['times']:.3g}", (max(ratio["times"], 1.0), number), va="center")
        if ratio["at_least"] is not None:
            axis.plot([ratio["at_least"]] * 2, [number - 0.45, number + 0.45], color="black", linewidth=1.5)
    axis.set_yticks(list(numbers), [f"{ratio['task']}: {ratio['peer']}" for ratio in ratios])
    axis.set_ylim(len(ratios) - 0.4, -0.6)
    axis.margins(x=0.15)
    axis.xaxis.set_major_formatter("{x:g}")
    axis.set_title(name, loc="left", fontweight="bold")
