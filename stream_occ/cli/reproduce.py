"""Run the experiments of the two papers again, beside the figures that they print."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stream_occ.cli._common import JsonOption, QuietOption, check_output, is_told, progress, write_json

if TYPE_CHECKING:
    from stream_occ.reproduction.report import Report

EXAMPLES = (
    "stream-occ reproduce paper1 --data tables",
    "stream-occ reproduce paper1 --data tables --seeds 10 --leak --json paper1.json --markdown paper1.md",
    "stream-occ reproduce paper1 --data tables --folds file --leak",
    "stream-occ reproduce paper1 --data tables --mobifall mobifall.zip",
    "stream-occ reproduce paper2 --data tables --json paper2.json",
)

app = typer.Typer()

DataOption = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder or archive of tables, found at any depth.")]
SeedsOption = Annotated[int, typer.Option(min=1, help="Seeds 0, 1, ...: each deals out new folds and draws new maps.")]
JobsOption = Annotated[int, typer.Option(help="Processes; -1 for all cores. Changes no figure.")]
DatasetsOption = Annotated[
    str | None, typer.Option(metavar="NAMES", help="Only these sets, separated by commas, e.g. glass5,yeast6.")
]


def _checked_markdown(path: Path | None) -> Path | None:
    if path is not None:
        check_output("--markdown", path, makes_folder=True)
    return path


MarkdownOption = Annotated[
    Path | None,
    typer.Option(
        "--markdown", metavar="PATH", callback=_checked_markdown, help="Write the tables to PATH, in Markdown."
    ),
]


@app.command()
def paper1(
    data: DataOption,
    seeds: SeedsOption = 5,
    datasets: DatasetsOption = None,
    folds: Annotated[
        str, typer.Option(metavar="HOW", help="shuffled by each seed, or file: in the file's order, as the print's.")
    ] = "shuffled",
    leak: Annotated[
        bool, typer.Option("--leak", help="Also re-create the label's leak behind the printed RP figures.")
    ] = False,
    mobifall: Annotated[
        Path | None, typer.Option(metavar="PATH", help="MobiFall's folder or archive: adds the set mf (slow).")
    ] = None,
    dlr: Annotated[
        Path | None, typer.Option(metavar="PATH", help="DLR's recordings in the csv layout: adds the set dlr.")
    ] = None,
    cov: Annotated[
        Path | None, typer.Option(metavar="PATH", help="COV's recordings in the csv layout: adds the set cov.")
    ] = None,
    jobs: JobsOption = -1,
    json_path: JsonOption = None,
    markdown: MarkdownOption = None,
    quiet: QuietOption = False,
) -> None:
    """Nearest-neighbour rules and their ensembles (Khan & Ahmad, Tables III to VIII).

    Three rules (11NN, 11NN(theta), JKNN), alone and as 25 members in random subspaces or projections; five outer folds,
    two inner ones; outliers are never trained on. A set whose file is absent gets a row that says so.
    """
    from stream_occ.reproduction.paper1 import run

    jobs = _n_jobs(jobs)
    given = {"mf": mobifall, "dlr": dlr, "cov": cov}
    with progress(is_quiet=quiet) as report:
        found = run(
            data,
            n_seeds=seeds,
            datasets=_names(datasets),
            folds=folds,
            leak=leak,
            recordings={name: path for name, path in given.items() if path is not None},
            n_jobs=jobs,
            progress=report,
        )
    _write(found, json_path, markdown, quiet)


@app.command()
def paper2(
    data: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Tables; without it scikit-learn's own data sets alone.")
    ] = None,
    seeds: SeedsOption = 1,
    datasets: DatasetsOption = None,
    methods: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Only these methods, separated by commas, e.g. KOC,SVDD.")
    ] = None,
    selection: Annotated[
        str,
        typer.Option(
            metavar="HOW", help="Parameters by consistency or iqr-proxy (no outliers), or as the paper by outliers."
        ),
    ] = "consistency",
    grid: Annotated[str, typer.Option(metavar="SIZE", help="small, or full as in the paper (hours).")] = "small",
    resume: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Keep finished rows in FILE, and take them from there.")
    ] = None,
    plot: Annotated[Path | None, typer.Option(metavar="PATH", help="Diagram of mean ranks, .svg or .png.")] = None,
    jobs: JobsOption = -1,
    json_path: JsonOption = None,
    markdown: MarkdownOption = None,
    quiet: QuietOption = False,
) -> None:
    """Kernel ridge regression with graphs and layers beside eleven other detectors (Gautam et al.).

    The paper's own figures and most of its sets could not be had: its methods are compared on public ones, by gmean and
    by the square root of precision times recall, which the authors' code calls gmean.

    Grid small: 1 to 3 layers, C 8, 1, 1/8, lam 1/8, 8, clusters 10, 2. Grid full, as the paper: 1 to 5 layers, C and
    lam 2^-3 to 2^3, clusters 2 to 20. KPCA keeps 95, 90 or 85 % of variance in both. Selection by iqr-proxy
    or outliers takes longer than by consistency, which stops at the first candidate that passes.
    """
    from stream_occ.reproduction.paper2 import run

    jobs = _n_jobs(jobs)
    with progress(is_quiet=quiet) as report:
        found = run(
            data,
            n_seeds=seeds,
            datasets=_names(datasets),
            methods=_names(methods),
            selection=selection,
            grid=grid,
            resume=resume,
            plot=plot,
            n_jobs=jobs,
            progress=report,
        )
    _write(found, json_path, markdown, quiet)


def _names(text: str | None) -> tuple[str, ...] | None:
    return None if text is None else tuple(name.strip() for name in text.split(",") if name.strip())


def _n_jobs(jobs: int) -> int:
    """Processes, at most one a core."""
    from stream_occ.errors import UsageError

    if jobs == 0 or jobs < -1:
        raise UsageError("--jobs", "be a number of processes, or -1 for all cores", f"{jobs}", "Leave it out")
    return jobs if jobs < 0 else min(jobs, os.cpu_count() or 1)


def _write(found: Report, json_path: Path | None, markdown: Path | None, quiet: bool) -> None:
    from stream_occ.errors import UsageError

    if json_path is not None:
        write_json(json_path, found.to_json())
    text = found.to_markdown()
    if markdown is not None:
        try:
            markdown.parent.mkdir(parents=True, exist_ok=True)
            markdown.write_text(text, encoding="utf-8")
        except OSError as error:
            got = f"{markdown} ({error.strerror})"
            raise UsageError("--markdown", "name a file that can be written", got, "Give another path") from error
        if not quiet:
            sys.stderr.write(f"Tables written to {markdown}\n")
    elif is_told(json_path, quiet):
        sys.stdout.write(text)
