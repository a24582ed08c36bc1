"""Command lines in README and docs: commands and options that they name exist, and so do the scripts.

Those of the tutorial and of the how-to pages are run as well: tests/integration/test_tutorial.py, test_guides.py.
"""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import typer

from stream_occ.cli import _commands

REPO = Path(__file__).resolve().parents[2]
PAGES = [REPO / "README.md", REPO / "CONTRIBUTING.md", *sorted((REPO / "docs").glob("*.md"))]
CODE = re.compile(r"^ *```(?:sh|text)?\n(.*?)^ *```|^((?:    .*\n)+)|`([^`\n]+)`", re.DOTALL | re.MULTILINE)
COMMAND = re.compile(r"(?:^|[\s(/|;])stream-occ ([a-z][\w-]*)((?:[^|;&#\n])*)")
OPTION = re.compile(r"(?<![\w-])(--[a-z][\w-]*|-[a-z])(?![\w-])")
SCRIPT = re.compile(r"(?:^|[\s`])((?:benchmarks|scripts)/[\w/]+(?:\.py)?)(?=[\s`])")


def code_of(page: Path) -> str:
    """Blocks and quoted words, a command on one line."""
    found = ["".join(parts) for parts in CODE.findall(page.read_text(encoding="utf-8"))]
    return "\n".join(found).replace("\\\n", " ")


def options_of(name: str) -> set[str]:
    """Of a command and its subcommands."""
    group: Any = typer.main.get_command(
        _commands._typer_app(import_module(f"stream_occ.cli.{name.replace('-', '_')}"), name)
    )
    commands = [group, *getattr(group, "commands", {}).values()]
    return {"--help"} | {each for one in commands for p in one.params for each in (*p.opts, *p.secondary_opts)}


OPTIONS = {name: options_of(name) for name in _commands.command_names()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_what_a_page_tells_to_type_exists(page: Path) -> None:
    """A renamed option is found in every page that names it."""
    code = code_of(page)
    found = COMMAND.findall(code)
    assert [name for name, _ in found if name not in OPTIONS] == []
    unknown = [
        f"{name} {option}" for name, rest in found for option in OPTION.findall(rest) if option not in OPTIONS[name]
    ]
    assert unknown == []
    assert [name for name in SCRIPT.findall(code) if not (REPO / name).exists()] == []


def test_pages_name_every_command() -> None:
    """The search finds command lines, and no command is without one."""
    named = {name for page in PAGES for name, _ in COMMAND.findall(code_of(page))}
    assert named >= set(OPTIONS)
