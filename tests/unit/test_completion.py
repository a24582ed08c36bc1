"""`stream-occ completion`: its script in a real bash, and what it says of every command."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest

from stream_occ.cli import _commands, run


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert run(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(text: str, *words: str, shell: str = "bash") -> list[str]:
    """What the shell would offer for the last of the words."""
    given = " ".join(f"'{word}'" for word in ("stream-occ", *words))
    ask = f'{text}\nCOMP_WORDS=({given}); COMP_CWORD={len(words)}; _stream_occ; printf "%s\\n" "${{COMPREPLY[@]}}"'
    done = subprocess.run([shell, "-c", ask], capture_output=True, text=True, check=True, timeout=30)
    assert done.stderr == ""
    return done.stdout.split()


def test_bash_completes_commands_subcommands_and_options(capsys: pytest.CaptureFixture[str]) -> None:
    """Each command is offered by its first letters; what is no command offers nothing."""
    text = script("bash", capsys)
    assert completed(text, "wat") == ["watch"]
    assert completed(text, "de") == ["demo", "detect"]
    assert completed(text, "--v") == ["--version"]
    assert set(_commands.command_names()) < set(completed(text, ""))
    assert completed(text, "detect", "--sh") == ["--shard"]
    assert completed(text, "config", "ch") == ["check"]
    assert "--once" in completed(text, "watch", "--port", "1883", "--")
    assert completed(text, "nonsense", "--") == []


def test_every_command_has_its_help_option(capsys: pytest.CaptureFixture[str]) -> None:
    """A new command file is in the script by being there."""
    text = script("bash", capsys)
    for name in _commands.command_names():
        assert completed(text, name, "--hel") == ["--help"]


def test_zsh_loads_the_same_by_its_emulation(capsys: pytest.CaptureFixture[str]) -> None:
    """compinit and bashcompinit first."""
    bash, zsh = script("bash", capsys), script("zsh", capsys)
    assert zsh == "autoload -U compinit bashcompinit && compinit && bashcompinit\n" + bash


def test_fish_has_a_line_a_word(capsys: pytest.CaptureFixture[str]) -> None:
    """Commands with their short help; read by fish where it is installed."""
    text = script("fish", capsys)
    watch = _commands.short_help("watch")
    assert f"complete -c stream-occ -n __fish_use_subcommand -f -a watch -d '{watch}'" in text.splitlines()
    assert "complete -c stream-occ -n '__fish_seen_subcommand_from watch' -l once" in text.splitlines()
    if shutil.which("fish"):
        subprocess.run(["fish", "--no-execute"], input=text, text=True, check=True, timeout=30)


def test_unknown_shell_is_bad_usage(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that there are."""
    assert run(["completion", "tcsh"]) == 2
    assert "bash" in capsys.readouterr().err


def test_json_holds_the_words_of_each_command(capsys: pytest.CaptureFixture[str]) -> None:
    """For shells that there is no script for."""
    assert run(["completion", "bash", "--json", "-"]) == 0
    words = json.loads(capsys.readouterr().out)
    assert list(words) == _commands.command_names()
    assert {"check", "show", "--json", "--help"} <= set(words["config"])
