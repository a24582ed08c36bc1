"""Print what makes a shell complete commands and options."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from stream_occ.cli._common import JsonOption, write_json

EXAMPLES = (
    "stream-occ completion bash > ~/.local/share/bash-completion/completions/stream-occ",
    "stream-occ completion zsh >> ~/.zshrc",
    "stream-occ completion fish > ~/.config/fish/completions/stream-occ.fish",
    "stream-occ completion bash --json -",
)

BASH = """\
_stream_occ() {{
  local word="${{COMP_WORDS[COMP_CWORD]}}" names="{commands} help --help --version"
  if [ "$COMP_CWORD" -gt 1 ]; then
    case "${{COMP_WORDS[1]}}" in
{cases}
      *) names="" ;;
    esac
  fi
  COMPREPLY=()
  local name
  for name in $names; do
    case "$name" in "$word"*) COMPREPLY+=("$name") ;; esac
  done
}}
complete -o default -F _stream_occ stream-occ
"""
ZSH = "autoload -U compinit bashcompinit && compinit && bashcompinit\n"


class Shell(StrEnum):
    """For which there is a script."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def command(shell: Annotated[Shell, typer.Argument(help="Which shell.")], json_path: JsonOption = None) -> None:
    """Print the shell's script: commands, subcommands, options, and file names where a value is wanted.

    It is made of the commands of this version: write it again after an upgrade. --json writes what it completes: the
    words of each command.
    """
    import sys

    words = {name: _words(name) for name in _names()}
    if json_path is not None:
        write_json(json_path, words)
    if str(json_path) != "-":
        sys.stdout.write(_fish(words) if shell == Shell.fish else (ZSH if shell == Shell.zsh else "") + _bash(words))


def _names() -> list[str]:
    from stream_occ.cli import _commands

    return _commands.command_names()


def _words(name: str) -> list[str]:
    """Subcommands, and long options of the command and of its subcommands."""
    from importlib import import_module

    from stream_occ.cli import _commands

    app: Any = _commands._typer_app(import_module(f"stream_occ.cli.{name.replace('-', '_')}"), name)
    found: Any = typer.main.get_command(app)
    inner = dict(getattr(found, "commands", {}))
    params = [param for each in (found, *inner.values()) for param in each.params]
    options = {option for param in params for option in (*param.opts, *param.secondary_opts) if option[:2] == "--"}
    return [*sorted(inner), *sorted(options | {"--help"})]


def _bash(words: dict[str, list[str]]) -> str:
    cases = "\n".join(f'      {name}) names="{" ".join(each)}" ;;' for name, each in words.items())
    return BASH.format(commands=" ".join(words), cases=cases)


def _fish(words: dict[str, list[str]]) -> str:
    from stream_occ.cli import _commands

    lines = [
        f"complete -c stream-occ -n __fish_use_subcommand -f -a {name} -d {_quoted(_commands.short_help(name))}"
        for name in words
    ]
    for name, each in words.items():
        for word in each:
            what = f"-l {word[2:]}" if word.startswith("--") else f"-a {word}"
            lines.append(f"complete -c stream-occ -n '__fish_seen_subcommand_from {name}' {what}")
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
