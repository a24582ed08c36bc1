"""Measure what it costs on this machine, beside other people's code in the same run."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_occ.cli._common import JsonOption, QuietOption, check_apart, check_output, counted, progress, write_json
from stream_occ.errors import visible

if TYPE_CHECKING:
    from stream_occ.bench.report import Found

EXAMPLES = (
    "stream-occ bench ocnn --json ocnn.json --plot ocnn.svg",
    "stream-occ bench features decoding --quick",
    "stream-occ bench ocnn --data mobifall.zip",
    "chrt -r 5 stream-occ bench service",
    "stream-occ bench all --json bench.json --plot bench.svg",
)
SUFFIXES = (".svg", ".png", ".pdf")
ROWS, ROWS_QUICK = 26_660, 1_000


def _checked_plot(path: Path | None) -> Path | None:
    if path is not None:
        if path.suffix not in SUFFIXES:
            raise typer.BadParameter(f"must end in {', '.join(SUFFIXES)}; got {path.name}")
        check_output("--plot", path, makes_folder=False)
    return path


def command(
    parts: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PART]...", help="ocnn, training, features, decoding, krr, service, footprint, or all."
        ),
    ] = None,
    dataset: Annotated[str, typer.Option(metavar="NAME", help="Data set of --data.")] = "mobifall",
    data: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="Its folder or archive: windows of people, beside synthetic ones."),
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=200, max=1_000_000, help="Training windows. [default: 26660, with --quick 1000]")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Seconds, not many minutes: shows that it runs.")] = False,
    json_path: JsonOption = None,
    quiet: QuietOption = False,
    plot: Annotated[
        Path | None,
        typer.Option(metavar="PATH", callback=_checked_plot, help="Draw the ratios to PATH: .svg, .png or .pdf."),
    ] = None,
) -> None:
    """Measure what it costs on this machine, beside other people's code in the same run.

    Without a part, all of them. Times are CPU time of one thread; ratios are medians of paired runs: so many times
    what ours costs. Peers that are not installed are told and left out ('.[bench]' has them). Parts that run the
    service need mosquitto. docs/performance.md says what each figure means.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # read when numpy is imported
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    from stream_occ.bench.report import Settings, draw, measure, part_names

    check_apart([("--json", None if str(json_path) == "-" else json_path), ("--plot", plot)], [("--data", data)])
    names = part_names() if not parts or "all" in parts else tuple(dict.fromkeys(parts))
    n_rows = rows or (ROWS_QUICK if quick else ROWS)
    n_measured = 0

    def told(name: str, found: Found | str) -> None:
        nonlocal n_measured
        n_measured += 1
        show("Measuring parts", n_measured, len(names))
        if not quiet:
            out = sys.stderr if str(json_path) == "-" else sys.stdout
            out.write("\n".join(map(visible, _lines(name, found))) + "\n")
            out.flush()

    with progress(is_quiet=quiet, is_still=True) as show:
        show("Measuring parts", 0, len(names))
        report = measure(names, Settings(n_rows, dataset.replace("_", "-"), data, quick), told)
    if json_path is not None:
        write_json(json_path, report)
    if plot is not None:
        draw(report, plot)
    n_skipped = sum("skipped" in part for part in report["parts"].values())
    if n_skipped:
        sys.stderr.write(f"{counted(n_skipped, 'part')} skipped\n")


def _lines(name: str, found: Found | str) -> list[str]:
    """A part as it is told to a person."""
    if isinstance(found, str):
        return [f"{name}: skipped: {found}"]
    missing = [f"  not installed: {', '.join(found.not_installed)}"] if found.not_installed else []
    return [
        f"{name}:",
        *(f"  {ratio.line()}" for ratio in found.ratios),
        *(f"  {amount.line()}" for amount in found.amounts),
        *(f"  {line}" for line in found.lines),
        *missing,
    ]
