"""What a reproduction found: rows and tests for the JSON report, and the same as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import ArrayLike

from stream_occ.reproduction.ranks import bergmann_hommel, friedman

Row = Mapping[str, Any]

__all__ = ["Report", "Section", "friedman_entry", "friedman_lines", "mean_sd", "table_lines"]


@dataclass(frozen=True, slots=True)
class Section:
    """A heading of the Markdown report and the lines below it."""

    heading: str
    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Report:
    """Results of one paper's experiments.

    rows: one figure set each, plain JSON values; friedman: entries of `friedman_entry`; settings: what the run was
    asked for; notes: sentences on what was left out.
    """

    paper: int
    settings: Mapping[str, Any]
    rows: Sequence[Row]
    friedman: Sequence[Row]
    sections: Sequence[Section]
    notes: Sequence[str] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """The JSON report; a figure that the data do not give is null."""
        return {
            "paper": self.paper,
            "settings": dict(self.settings),
            "rows": [dict(row) for row in self.rows],
            "friedman": [dict(entry) for entry in self.friedman],
            "notes": list(self.notes),
        }

    def to_markdown(self) -> str:
        """All sections, then the notes."""
        parts = [f"## {section.heading}\n\n" + "\n".join(section.lines) for section in self.sections]
        if self.notes:
            parts.append("## Notes\n\n" + "\n".join(f"- {note}" for note in self.notes))
        return "\n\n".join(parts) + "\n"


def table_lines(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """An aligned Markdown table.

    >>> table_lines(["set", "g"], [["wine1", ".5"]])
    ['| set   | g  |', '|-------|----|', '| wine1 | .5 |']
    """
    cells = [list(header), *(list(row) for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    return [lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]]


def mean_sd(mean: float | None, sd: float | None = None, *, digits: int = 3) -> str:
    """A figure and its deviation in brackets; a dash where there is none.

    >>> mean_sd(0.5, 0.031), mean_sd(None)
    ('0.500 (0.031)', '-')
    """
    if mean is None:
        return "-"
    return f"{mean:.{digits}f}" if sd is None else f"{mean:.{digits}f} ({sd:.{digits}f})"


def friedman_entry(
    name: str,
    methods: Sequence[str],
    scores: Sequence[Sequence[float]],
    *,
    adjust: Callable[[ArrayLike, int], dict[tuple[int, int], float]] = bergmann_hommel,
    **facts: Any,
) -> dict[str, Any]:
    """Friedman's test of methods over data sets, scores (n_sets, n_methods), and adjusted p-values of pairs.

    adjust(mean_ranks, n_sets) is a function of `ranks`; `bergmann_hommel` takes at most nine methods.
    """
    test = friedman(scores)
    pairs = adjust(test.mean_ranks, len(scores))
    return {
        "name": name,
        **facts,
        "n_datasets": len(scores),
        "methods": list(methods),
        "statistic": test.statistic,
        "p_value": test.p_value,
        "mean_ranks": dict(zip(methods, test.mean_ranks.tolist(), strict=True)),
        "adjustment": adjust.__name__.replace("_", "-"),
        "pairs": [{"a": methods[i], "b": methods[j], "p": p} for (i, j), p in pairs.items()],
    }


def friedman_lines(entries: Sequence[Row]) -> list[str]:
    """One table line a test: mean ranks, p of Friedman's test, and the pairs that differ at .05."""
    rows = []
    for entry in entries:
        ranked = sorted(entry["mean_ranks"].items(), key=lambda item: item[1])
        differ = [f"{pair['a']} / {pair['b']} ({pair['p']:.3f})" for pair in entry["pairs"] if pair["p"] < 0.05]
        means = ", ".join(f"{method} {rank:.2f}" for method, rank in ranked)
        rows.append(
            [entry["name"], str(entry["n_datasets"]), means, f"{entry['p_value']:.3f}", "; ".join(differ) or "none"]
        )
    return table_lines(["compared", "sets", "mean ranks, best first", "p", "pairs that differ at .05"], rows)
