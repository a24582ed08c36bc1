"""Critical-difference diagram: mean ranks on a line, bars over methods that Nemenyi's test does not tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from stream_occ.errors import UsageError

_LINE = 0.28  # inches from one name to the next

__all__ = ["check_plot", "critical_difference_plot", "groups_within"]


def critical_difference_plot(mean_ranks: Mapping[str, float], difference: float, path: Path, *, title: str) -> None:
    """Draws mean ranks (1 = best, left) to a .svg or .png file; a bar joins methods less than `difference` apart.

    Raises UsageError for another kind of file or one that cannot be written. The same ranks give the same bytes.
    """
    import matplotlib as mpl
    from matplotlib.figure import Figure

    check_plot(path)
    ranked = sorted(mean_ranks.items(), key=lambda item: item[1])
    values = [rank for _, rank in ranked]
    bars = groups_within(values, difference)
    half = (len(ranked) + 1) // 2
    top = -0.35 * len(bars) - 0.4
    figure = Figure(figsize=(9.0, 1.2 - _LINE * top + _LINE * half), layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlim=(-2.6, len(ranked) + 3.6), ylim=(top - half - 0.5, 2.2), title=title)
    axes.axis("off")
    axes.plot([1, len(ranked)], [0, 0], color="black")
    for tick in range(1, len(ranked) + 1):
        axes.plot([tick, tick], [0, 0.2], color="black", linewidth=0.8)
        axes.text(tick, 0.35, str(tick), ha="center", va="bottom", fontsize=8)
    axes.plot([1, 1 + difference], [1.5, 1.5], color="tab:red", linewidth=2)
    axes.text(1 + difference / 2, 1.65, f"critical difference {difference:.2f}", ha="center", va="bottom", fontsize=8)
    for place, (name, rank) in enumerate(ranked):
        is_left = place < half
        height = top - (place if is_left else len(ranked) - 1 - place)
        end = 0.0 if is_left else len(ranked) + 1.0
        axes.plot([rank, rank, end], [0, height, height], color="grey", linewidth=0.7)
        text = f"{name}  {rank:.2f}" if is_left else f"{rank:.2f}  {name}"
        axes.text(
            end - 0.08 if is_left else end + 0.08,
            height,
            text,
            ha="right" if is_left else "left",
            va="center",
            fontsize=8,
        )
    for level, (first, last) in enumerate(bars):
        y = -0.35 * (level + 1)
        axes.plot([values[first] - 0.06, values[last] + 0.06], [y, y], color="tab:blue", linewidth=3)
    with mpl.rc_context({"svg.hashsalt": "stream-occ"}):
        try:
            figure.savefig(path, dpi=150, metadata={"Date": None} if path.suffix.lower() == ".svg" else None)
        except OSError as error:
            got = f"{path} ({error.strerror})"
            raise UsageError("--plot", "name a file that can be written", got, "Give another path") from error


def check_plot(path: Path) -> None:
    """Raises UsageError unless the path ends in .svg or .png and its folder exists."""
    if path.suffix.lower() not in (".svg", ".png") or not path.parent.is_dir():
        raise UsageError("--plot", "end in .svg or .png, in a folder that exists", str(path), "Give such a path")


def groups_within(values: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """Largest runs (first, last) of at least two ascending values that lie less than `difference` apart.

    >>> groups_within([1.0, 1.5, 2.2, 4.0], 1.0)
    [(0, 1), (1, 2)]
    """
    runs: list[tuple[int, int]] = []
    for first, value in enumerate(values):
        last = max(i for i, other in enumerate(values) if other - value < difference)
        if last > first and (not runs or last > runs[-1][1]):
            runs.append((first, last))
    return runs
