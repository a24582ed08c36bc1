"""Commands of `stream-occ`: one file each in this folder, found by its name; exit codes; nothing else.

A command is a file without a leading underscore: `some_name.py` is `stream-occ some-name`. It holds

- a module docstring, whose first line is the short help in the list of commands;
- `def command(...)`, a typer-annotated function whose docstring is the long help and that returns None or an exit
  code, or else `app`, a `typer.Typer()` with subcommands;
- `EXAMPLES: tuple[str, ...]`, whole command lines, shown at the end of `--help`.

Heavy imports (numpy included) go inside the function body, so that `--help` and `--version` stay fast.

Exit codes: 0 done; 1 the thing failed; 2 bad usage, configuration, data or model; 130 interrupted from the keyboard.
A `StreamOccError` becomes its one line on stderr and its own exit code; anything else unforeseen becomes one line and
exit code 1, with the traceback where STREAM_OCC_DEBUG=1 is set.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from stream_occ import __version__
from stream_occ.errors import StreamOccError, visible

PROGRAM = "stream-occ"
DEBUG_VARIABLE = "STREAM_OCC_DEBUG"

_EXTRAS = {
    **dict.fromkeys(("scipy", "sklearn", "joblib", "threadpoolctl", "matplotlib"), "train"),
    "iotcore": "demo",
    "river": "online",
    **dict.fromkeys(("msgpack", "cbor2"), "codecs"),
    **dict.fromkeys(("starlette", "uvicorn"), "dashboard"),
}
"""What the base install lacks, and the extra that brings it."""

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> NoReturn:
    """Run one command line and exit with its code."""
    sys.exit(run(sys.argv[1:] if argv is None else list(argv)))


def run(argv: Sequence[str]) -> int:
    """The exit code of one command line; every error is one line on stderr."""
    try:
        return _dispatch(list(argv))
    except StreamOccError as error:
        if _debugging():
            raise
        return _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return _reader_went_away()
    except Exception as error:
        if _debugging():
            raise
        extra = _EXTRAS.get((error.name or "").partition(".")[0]) if isinstance(error, ModuleNotFoundError) else None
        if extra is not None:
            return _fail(
                f"this needs the extra '{extra}': pip install '.[{extra}]' in a copy of the repository", EXIT_USAGE
            )
        what = " ".join(f"{type(error).__name__}: {error}".split())
        return _fail(f"unexpected error: {what} (set {DEBUG_VARIABLE}=1 for the traceback)", EXIT_FAILED)


def _dispatch(argv: list[str]) -> int:
    first = argv[0] if argv else "--help"
    if first in ("--version", "-V"):
        sys.stdout.write(f"{PROGRAM} {__version__}\n")
        return EXIT_OK
    from stream_occ.cli import _commands

    names = _commands.command_names()
    if first in ("--help", "-h", "help") and len(argv) < 2:
        sys.stdout.write(_commands.overview(PROGRAM, names))
        return EXIT_OK if argv else EXIT_USAGE
    if first == "help":
        first, argv = argv[1], [argv[1], "--help"]
    if first not in names:
        return _fail(_commands.unknown(PROGRAM, first, names), EXIT_USAGE)
    return _commands.run_command(PROGRAM, first, argv[1:])


def _debugging() -> bool:
    return os.environ.get(DEBUG_VARIABLE, "") not in ("", "0")


def _fail(line: str, code: int) -> int:
    """Names and values of others stand in the line: none may break it, or steer the terminal."""
    sys.stderr.write(f"{PROGRAM}: {visible(line)}\n")
    return code


def _reader_went_away() -> int:
    """`stream-occ ... | head` closed the pipe: leave quietly, and keep the interpreter from flushing into it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return EXIT_FAILED
