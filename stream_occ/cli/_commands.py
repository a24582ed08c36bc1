"""Finding command files by name, and running one of them through typer."""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Sequence
from functools import wraps
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
    """Exit code of the command `name` with arguments `argv`."""
    module = import_module(f"stream_occ.cli.{name.replace('-', '_')}")
    app = _typer_app(module, name)
    try:
        app(args=list(argv), prog_name=f"{program} {name}")
    except SystemExit as leaving:
        return _exit_code(leaving.code)
    return 0


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
    app = typer.Typer(**settings, epilog=epilog, no_args_is_help=group is not None, help=short_help(name))
    if group is None:
        app.command(epilog=epilog)(_with_exit_code(module.command))
        return app
    group.rich_markup_mode = None
    for info in group.registered_commands:
        if info.callback is not None:
            app.command(
                name=info.name,
                help=info.help,
                epilog=info.epilog or epilog,
                no_args_is_help=info.no_args_is_help,
            )(_with_exit_code(info.callback))
    if len(group.registered_commands) == 1:
        app.callback()(lambda: None)  # typer would otherwise swallow the name of an only subcommand
    return app


def _with_exit_code(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same command, whose returned int (if any) becomes the exit code."""

    @wraps(function)
    def command(*args: Any, **kwargs: Any) -> None:
        code = function(*args, **kwargs)
        if isinstance(code, int) and code != 0:
            raise SystemExit(code)

    return command


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    return code if isinstance(code, int) else 1
