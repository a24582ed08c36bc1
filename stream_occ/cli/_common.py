"""What several commands share: progress bars on stderr, JSON results written whole or not at all, option types."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from stream_occ.errors import UsageError

REMEDY = "Give another path, or - for stdout"

ProgressReport = Callable[[str, int, int], None]
"""Called as report(stage, done, total): a stage is named by what it does ("Reading recordings"); total 0 is unknown."""


def counted(n: int, one: str, many: str | None = None) -> str:
    """The number with its noun.

    >>> counted(1, "person", "people"), counted(2, "recording")
    ('1 person', '2 recordings')
    """
    return f"{n} {one if n == 1 else many or one + 's'}"


def names_in(flag: str, text: str | None) -> tuple[str, ...] | None:
    """The names in a comma-separated option, None where it was not given; UsageError where it holds none.

    >>> names_in("--people", "2, 3"), names_in("--people", None)
    (('2', '3'), None)
    """
    if text is None:
        return None
    found = tuple(name.strip() for name in text.split(",") if name.strip())
    if not found:  # an empty shell variable must not mean everybody
        raise UsageError(flag, "hold at least one name", repr(text), "Leave it out to filter nothing")
    return found


def check_output(flag: str, path: Path, *, makes_folder: bool) -> None:
    """Raises UsageError where no file can be written to `path`; for before the work whose result goes there.

    makes_folder: missing folders will be made, and a device or pipe is written to; else neither will do.
    """
    expected = "name a file that can be written" if makes_folder else "be a file name in an existing folder"
    try:
        problem = _obstacle(path, makes_folder=makes_folder)
    except OSError as error:
        raise UsageError(flag, expected, f"{str(path)[:80]} ({error.strerror})", "Name another file") from error
    if problem is not None:
        raise UsageError(flag, expected, f"{path}, {problem}", "Make the folder, or name another file")


def check_apart(written: Sequence[tuple[str, Path | None]], read: Sequence[tuple[str, Path | None]]) -> None:
    """Raises UsageError where something is written over what is read, or over what is written before it."""
    earlier = {path.resolve(): flag for flag, path in reversed(read) if path is not None}
    for flag, path in written:
        if path is None:
            continue
        if path.resolve() in earlier:
            raise UsageError(flag, f"be another file than {earlier[path.resolve()]}", str(path), "Name another file")
        earlier[path.resolve()] = flag


def _obstacle(path: Path, *, makes_folder: bool) -> str | None:
    if path.is_dir():
        return "a folder"
    if path.exists() and not path.is_file():
        return None if makes_folder and os.access(path, os.W_OK) else "a device or pipe"
    folder = path.parent
    while makes_folder and not folder.exists() and folder != folder.parent:
        folder = folder.parent
    if not folder.exists():
        return "in a folder that does not exist"
    if not folder.is_dir():
        return f"below the file {folder}"
    may_write = os.access(folder, os.W_OK | os.X_OK)
    with suppress(OSError):  # tried too: root may write everywhere, and yet nothing can be written to /proc
        tempfile.TemporaryFile(dir=folder).close()
        return None if may_write else f"in the folder {folder} that cannot be written to"
    return f"in the folder {folder} that cannot be written to"


def _checked_json(path: Path | None) -> Path | None:
    if path is not None and str(path) != "-":
        check_output("--json", path, makes_folder=True)
    return path


JsonOption = Annotated[
    Path | None,
    typer.Option(
        "--json",
        metavar="PATH",
        callback=_checked_json,
        help="Write machine-readable results to PATH (- for stdout).",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print warnings and errors alone, no progress; see --json.")
]
MqttConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="Configuration: the mqtt section is used.")
]
HostOption = Annotated[str | None, typer.Option("--host", help="Broker, in place of the configuration's.")]
PortOption = Annotated[int | None, typer.Option("--port", help="Its port, in place of the configuration's.")]


@contextmanager
def progress(*, is_quiet: bool = False, is_still: bool = False) -> Iterator[ProgressReport]:
    """One bar a stage on stderr, with the time left, drawn only where stderr is a terminal; yields
    report(stage, done, total). is_still: drawn when told alone, by no thread, for what measures time.

    Lines written meanwhile go above the bars; those to a stdout that is no terminal go there, untouched.
    """
    if is_quiet or not sys.stderr.isatty():
        yield lambda stage, done, total: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, redirect_stdout=sys.stdout.isatty(), auto_refresh=not is_still) as bars:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total or None)
            bars.update(tasks[stage], completed=min(done, total) if total else done, total=total or None,
                        refresh=is_still)  # fmt: skip

        yield report


def is_told(json_path: Path | None, quiet: bool) -> bool:
    """Whether lines for people belong on stdout: not with --quiet, nor where JSON goes there."""
    return not quiet and str(json_path) != "-"


def self_test_rows(path: Path) -> Any:
    """The self-test rows of a verified model file: a model made of it keeps them."""
    from stream_occ.artifacts import container, read_info
    from stream_occ.artifacts.files import map_file

    entry = next(entry for entry in read_info(path).arrays if entry.name == "self_test.X")
    return container.view(map_file(path), entry)


def write_json(path: Path | str, value: Any) -> None:
    """Write `value` as JSON to `path`, whole or not at all; "-" is stdout.

    A device or pipe, such as /dev/stdout, is written to, never replaced. NaN and infinity are refused (ValueError); a
    path that cannot be written is a UsageError.
    """
    text = json.dumps(value, indent=2, allow_nan=False, default=_plain) + "\n"
    if str(path) == "-":
        sys.stdout.write(text)
        return
    try:
        target = Path(path)
        if target.exists() and not target.is_file() and not target.is_dir():
            target.write_text(text, encoding="utf-8")
        else:
            _write_whole(target, text)
    except OSError as error:
        raise UsageError("--json", "name a file that can be written", f"{path} ({error.strerror})", REMEDY) from error


def _write_whole(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _plain(value: Any) -> Any:
    """numpy scalars and arrays as Python numbers and lists, paths as text."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Path):
        return str(value)
    raise TypeError(f"{type(value).__name__} is not JSON serialisable")
