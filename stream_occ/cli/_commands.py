"""Finding command files by name, and running one of them through typer."""

from __future__ import annotations

import ast
import difflib
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).resolve().parent

HEADER = """\
Usage: {program} COMMAND [OPTIONS]

{about}

Commands:
{commands}

Options:
  --version  Print the version and exit.
  --help     Print this text, or with a command its options and examples.

Examples:
  {program} demo --minutes 1
  {program} COMMAND --help

Exit codes: 0 done, 1 the thing failed, 2 bad usage, configuration, data or model.
"""


def command_names() -> list[str]:
    """Names of all commands, sorted: one for each file of this folder that has no leading underscore."""
    return sorted(path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


def short_help(name: str) -> str:
    """First line of a command file's docstring, read without importing the file."""
    source = (FOLDER / f"{name.replace('-', '_')}.py").read_text(encoding="utf-8")
    try:
        docstring = ast.get_docstring(ast.parse(source)) or ""
    except SyntaxError:
        return "(this file does not parse)"
    return docstring.partition("\n")[0]


def overview(program: str, names: Sequence[str]) -> str:
    """What `stream-occ --help` prints."""
    import stream_occ

    width = max((len(name) for name in names), default=0)
    commands = "\n".join(f"  {name:<{width}}  {short_help(name)}" for name in names)
    about = (stream_occ.__doc__ or "").partition("\n")[0]
    return HEADER.format(program=program, about=about, commands=commands)


def unknown(program: str, name: str, names: Sequence[str]) -> str:
    """One line that names the nearest command."""
    kind = "option" if name.startswith("-") else "command"
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    hint = f"Did you mean '{near[0]}'?" if near else f"See '{program} --help'."
    return f"unknown {kind} {name!r}. {hint}"


def run_command(program: str, name: str, argv: Sequence[str]) -> int:
    """Exit code of the command `name` with arguments `argv`; bad usage is one line on stderr."""
    import typer

    from stream_occ.cli import EXIT_INTERRUPTED, EXIT_USAGE

    module = import_module(f"stream_occ.cli.{name.replace('-', '_')}")
    is_bare_group = hasattr(module, "app") and not argv
    bad_usage: Any = typer.BadParameter.__base__  # click's UsageError: newer typers bring their own click, unnamed
    try:
        code = _typer_app(module, name)(
            args=["--help"] if is_bare_group else list(argv), prog_name=f"{program} {name}", standalone_mode=False
        )
    except SystemExit as leaving:
        code = leaving.code
    except typer.Abort:
        code = EXIT_INTERRUPTED
    except bad_usage as error:
        path = error.ctx.command_path if error.ctx else f"{program} {name}"
        line = _with_nearest(" ".join(error.format_message().split()))
        end = "" if line.endswith((".", "?")) else "."
        sys.stderr.write(f"{path}: {line}{end} See '{path} --help'.\n")
        code = EXIT_USAGE
    return EXIT_USAGE if is_bare_group else _exit_code(code)


def _with_nearest(line: str) -> str:
    """The line; where it says that a value is none of those there are, with the one that is most like it.

    >>> _with_nearest("Invalid value: Value error, 'bsh' is not one of 'bash', 'zsh'.")
    "Invalid value: 'bsh' is not one of 'bash', 'zsh'. Did you mean bash?"
    """
    from stream_occ.errors import nearest

    line = line.replace("Value error, ", "")
    found = re.search(r"'([^']*)' is not one of (.+)", line)
    if found is None:
        return line
    near = nearest(found[1], re.findall(r"'([^']+)'", found[2]), "")
    return f"{line} {near}".rstrip()


def examples_epilog(examples: Sequence[str]) -> str:
    r"""End of a `--help` text: the examples, one a line (\b keeps the formatter from re-wrapping them)."""
    if not examples:
        return ""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)


def _typer_app(module: ModuleType, name: str) -> Any:
    import typer

    epilog = examples_epilog(getattr(module, "EXAMPLES", ()))
    settings: dict[str, Any] = {"add_completion": False, "pretty_exceptions_enable": False, "rich_markup_mode": None}
    group = getattr(module, "app", None)
    app = typer.Typer(**settings, epilog=epilog, help=short_help(name))
    if group is None:
        app.command(epilog=epilog)(module.command)
        return app
    group.rich_markup_mode = None
    for info in group.registered_commands:
        if info.callback is not None:
            app.command(name=info.name, help=info.help, epilog=info.epilog or epilog)(info.callback)
    if len(group.registered_commands) == 1:
        app.callback()(lambda: None)  # typer would otherwise swallow the name of an only subcommand
    return app


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
