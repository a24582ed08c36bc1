"""The command line as a whole: finding commands, exit codes, one-line errors, what `--version` costs."""

import io
import json
import logging
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stream_occ import __version__
from stream_occ.cli import _commands, _common, _service, run
from stream_occ.errors import UsageError

HEAVY = (
    "numpy",
    "scipy",
    "sklearn",
    "pandas",
    "river",
    "joblib",
    "matplotlib",
    "paho",
    "pydantic",
    "yaml",
    "typer",
    "rich",
)

ECHO = '''"""Say what was given.

More about it.
"""

from typing import Annotated

import typer

EXAMPLES = ("stream-occ echo-it --times 2", "stream-occ echo-it --fail config")


def command(times: Annotated[int, typer.Option(help="How often.")] = 1, fail: str = "") -> int:
    """Say what was given, at length."""
    from stream_occ.errors import ConfigError, ServiceError

    if fail == "config":
        raise ConfigError("ward.yaml: window.hop_s", "be in (0, 5]", "7.0", "Lower hop_s")
    if fail == "service":
        raise ServiceError("broker", "accept the login", "a refusal", "Check mqtt.username")
    if fail == "bug":
        raise KeyError("nobody\\nexpected this")
    if fail == "extra":
        raise ModuleNotFoundError("No module named 'sklearn.base'", name="sklearn.base")
    if fail == "keyboard":
        raise KeyboardInterrupt
    print("it " * times)
    return 1 if fail == "code" else 0
'''

GROUP = '''"""Two verbs on one thing."""

import typer

app = typer.Typer()
EXAMPLES = ("stream-occ thing check FILE",)


@app.command()
def check(file: str) -> int:
    """Check a thing."""
    return 2


@app.command()
def show() -> None:
    """Show a thing."""
    print("shown")
'''


@pytest.fixture
def commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command folder that holds two files, in the place of the package's own."""
    (tmp_path / "echo_it.py").write_text(ECHO)
    (tmp_path / "thing.py").write_text(GROUP)
    (tmp_path / "_not_a_command.py").write_text("raise SystemError")
    monkeypatch.setattr(_commands, "FOLDER", tmp_path)
    monkeypatch.setattr("stream_occ.cli.__path__", [str(tmp_path)])
    monkeypatch.delenv("STREAM_OCC_DEBUG", raising=False)
    for name in ("echo_it", "thing"):
        monkeypatch.delitem(sys.modules, f"stream_occ.cli.{name}", raising=False)
    yield
    for name in ("echo_it", "thing"):
        sys.modules.pop(f"stream_occ.cli.{name}", None)


def output(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of one command line."""
    code = run(argv)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


@pytest.mark.usefixtures("commands")
class TestCommands:
    """A folder of two command files."""

    def test_a_command_is_a_file_found_by_its_name(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The list of commands is the list of files, with the first line of each docstring."""
        code, out, _ = output(capsys, "--help")
        assert code == 0
        assert "  echo-it  Say what was given.\n  thing    Two verbs on one thing.\n" in out
        assert "not-a-command" not in out

    def test_no_command_prints_the_list_and_is_bad_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A bare `stream-occ` in a script is a mistake, for a person it is a question."""
        code, out, _ = output(capsys)
        assert code == 2
        assert "Commands:" in out

    def test_command_runs_with_its_options(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Options reach the function, its output is left alone."""
        assert output(capsys, "echo-it", "--times", "2") == (0, "it it \n", "")

    def test_help_of_a_command_ends_with_its_examples(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Each example keeps its own line."""
        for argv in (["echo-it", "--help"], ["help", "echo-it"]):
            code, out, _ = output(capsys, *argv)
            assert code == 0
            assert "Say what was given, at length." in out
            assert "Examples:" in out
            assert "    stream-occ echo-it --times 2\n    stream-occ echo-it --fail config\n" in out

    def test_groups_have_verbs(self, capsys: pytest.CaptureFixture[str]) -> None:
        """`app` in a command file is a group; examples show on its own help and on each verb's."""
        assert output(capsys, "thing", "show") == (0, "shown\n", "")
        assert output(capsys, "thing", "check", "file")[0] == 2
        for argv in (["thing", "--help"], ["thing", "check", "--help"]):
            assert "stream-occ thing check FILE" in output(capsys, *argv)[1]

    @pytest.mark.parametrize(
        ("fail", "code", "line"),
        [
            ("config", 2, "stream-occ: ward.yaml: window.hop_s: must be in (0, 5]; got 7.0. Lower hop_s.\n"),
            ("service", 1, "stream-occ: broker: must accept the login; got a refusal. Check mqtt.username.\n"),
            ("keyboard", 130, ""),
        ],
    )
    def test_errors_are_one_line_and_an_exit_code(
        self, fail: str, code: int, line: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """The line says where, what must hold, what came and what to do; the class decides the code."""
        assert output(capsys, "echo-it", "--fail", fail) == (code, "", line)

    def test_names_of_others_neither_break_the_line_nor_steer_the_terminal(
        self, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """Control characters, line ends and odd bytes are shown as what they are."""
        assert run(["a\nb\x1b[2J\u202ec\udcff"]) == 2
        line = capsys.readouterr().err
        assert "'a\\nb\\x1b[2J\\u202ec\\udcff'" in line.replace("\\\\", "\\")
        assert line.removesuffix("\n").isprintable()

    def test_missing_extra_is_named_with_its_install_line(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The base install has no scikit-learn: whoever trains is told what to install."""
        line = "stream-occ: this needs the extra 'train': pip install '.[train]' in a copy of the repository\n"
        assert output(capsys, "echo-it", "--fail", "extra") == (2, "", line)

    def test_unexpected_error_is_one_line_and_names_the_debug_switch(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Users see no traceback, developers get it on request."""
        code, _, err = output(capsys, "echo-it", "--fail", "bug")
        assert code == 1
        assert err.count("\n") == 1
        assert "unexpected error: KeyError" in err
        assert "(set STREAM_OCC_DEBUG=1 for the traceback)" in err
        monkeypatch.setenv("STREAM_OCC_DEBUG", "1")
        with pytest.raises(KeyError):
            run(["echo-it", "--fail", "bug"])

    def test_returned_number_is_the_exit_code(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A command may say that the thing failed by returning 1."""
        assert output(capsys, "echo-it", "--fail", "code")[0] == 1

    def test_unknown_command_suggests_the_nearest(self, capsys: pytest.CaptureFixture[str]) -> None:
        """A slip of the finger gets the right name."""
        code, _, err = output(capsys, "ehco-it")
        assert (code, err) == (2, "stream-occ: unknown command 'ehco-it'. Did you mean 'echo-it'?\n")
        code, _, err = output(capsys, "qqqqqq")
        assert (code, err) == (2, "stream-occ: unknown command 'qqqqqq'. See 'stream-occ --help'.\n")

    @pytest.mark.parametrize(
        ("argv", "begins", "command"),
        [
            (["echo-it", "--tmies", "2"], "No such option: --tmies", "echo-it"),
            (["echo-it", "--times", "two"], "Invalid value for '--times':", "echo-it"),
            (["echo-it", "--times"], "Option '--times' requires an argument", "echo-it"),
            (["echo-it", "more"], "Got unexpected extra argument", "echo-it"),
            (["thing", "check"], "Missing argument '", "thing check"),
            (["thing", "chek"], "No such command 'chek'.", "thing"),
        ],
    )
    def test_bad_usage_is_one_line_that_names_the_command(
        self, argv: list[str], begins: str, command: str, capsys: pytest.CaptureFixture[str]
    ) -> None:
        """typer's complaint, without its usage text and box, and where to look; code 2."""
        code, out, err = output(capsys, *argv)
        assert (code, out) == (2, "")
        assert err.startswith(f"stream-occ {command}: {begins}")
        assert err.endswith(f" See 'stream-occ {command} --help'.\n")
        assert err.count("\n") == 1

    def test_group_without_a_verb_prints_its_help_and_is_bad_usage(self, capsys: pytest.CaptureFixture[str]) -> None:
        """As a bare `stream-occ`."""
        code, out, err = output(capsys, "thing")
        assert (code, err) == (2, "")
        assert "Check a thing." in out


@pytest.mark.parametrize("name", _commands.command_names())
def test_every_command_has_short_help_and_examples(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`--help` of each command shows whole command lines that begin with its name."""
    short = _commands.short_help(name)
    assert short
    assert len(short) < 100
    code, out, _ = output(capsys, name, "--help")
    assert code == 0
    assert "Examples:" in out
    assert f"    stream-occ {name}" in out


def test_version_imports_nothing_heavy() -> None:
    """`python -m stream_occ --version` loads neither numpy nor the MQTT client nor typer, and prints the version."""
    argv = [sys.executable, "-X", "importtime", "-m", "stream_occ", "--version"]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == f"stream-occ {__version__}\n"
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert "stream_occ" in imported
    assert imported.isdisjoint(HEAVY)


@pytest.mark.parametrize("name", ["--help", *(f"{name} --help" for name in _commands.command_names())])
def test_help_imports_neither_numpy_nor_the_mqtt_client(name: str) -> None:
    """Heavy imports live inside the functions of the commands."""
    code = (
        f"import sys; from stream_occ.cli import run; run({name.split()!r}); "
        "bad = {'numpy', 'scipy', 'sklearn', 'paho', 'matplotlib', 'pandas'} & set(sys.modules); "
        "sys.exit(f'imports {sorted(bad)}' if bad else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_write_json_replaces_the_file_whole_or_not_at_all(tmp_path: Path) -> None:
    """NaN is refused and what stood there before stays; nothing else is left in the folder."""
    path = tmp_path / "new" / "out.json"
    _common.write_json(path, {"a": np.float64(0.5), "b": np.arange(2), "c": Path("x")})
    assert json.loads(path.read_text()) == {"a": 0.5, "b": [0, 1], "c": "x"}
    with pytest.raises(ValueError, match="JSON compliant"):
        _common.write_json(path, {"a": float("nan")})
    assert json.loads(path.read_text())["a"] == 0.5
    assert [p.name for p in path.parent.iterdir()] == ["out.json"]


def test_write_json_to_a_path_that_cannot_be_is_bad_usage(tmp_path: Path) -> None:
    """A folder in the way gives one line with the remedy."""
    with pytest.raises(UsageError, match=r"--json: must name a file that can be written; got .*\(Is a directory\)"):
        _common.write_json(tmp_path, {})


def test_write_json_writes_to_a_pipe_and_leaves_it_one(tmp_path: Path) -> None:
    """A device such as /dev/null, or a pipe, is written to: replacing it by a file would harm every other program."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        _common.write_json(pipe, [1])
        assert json.loads(os.read(reader, 100)) == [1]
    finally:
        os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize(
    ("path", "got"),
    [
        ("", "., a folder"),
        ("folder", "folder, a folder"),
        ("file/out.json", "file/out.json, below the file file"),
        ("file/new/out.json", "file/new/out.json, below the file file"),
        ("locked/new/out.json", "locked/new/out.json, in the folder locked that cannot be written to"),
    ],
)
@pytest.mark.parametrize(
    "argv",
    [
        ["demo"],
        ["evaluate", "--dataset", "mobifall", "--data", "absent"],
        ["train", "--dataset", "mobifall", "--data", "absent", "--out", "model.occ"],
        ["replay", "--synthetic", "1", "--port", "1"],
        ["config", "show"],
    ],
)
def test_json_that_cannot_be_written_is_told_before_the_work(
    argv: list[str],
    path: str,
    got: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """An hour's run must not end in a line that says its result has no place to go."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "locked").mkdir()
    may_write = os.access
    monkeypatch.setattr(os, "access", lambda p, mode: Path(p).name != "locked" and may_write(p, mode))  # root may all
    code, out, err = output(capsys, *argv, "--json", path)
    line = (
        f"stream-occ: --json: must name a file that can be written; got {got}. Make the folder, or name another file.\n"
    )
    assert (code, out, err) == (2, "", line)


@pytest.mark.parametrize(
    "argv",
    [
        ["train", "--dataset", "mobifall", "--data", "absent", "--out", "model.occ", "--report", "/proc/x"],
        ["train", "--dataset", "mobifall", "--data", "absent", "--out", "/proc/x"],
        ["train", "--dataset", "mobifall", "--data", "absent", "--out", "model.occ", "--json", "/proc/x"],
        ["evaluate", "--dataset", "mobifall", "--data", "absent", "--html", "/proc/x"],
        ["reproduce", "paper1", "--data", "absent", "--markdown", "/proc/x"],
    ],
)
def test_result_that_even_root_cannot_write_is_told_before_the_work(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing can be made in /proc, whatever its mode says; the data, which are not there, are not looked for."""
    monkeypatch.chdir(tmp_path)
    code, _, err = output(capsys, *argv)
    assert (code, "in the folder /proc that cannot be written to" in err) == (2, True)
    assert argv[-2] in err


@pytest.mark.parametrize("argv", [["evaluate", "--dataset", "mobifall"], ["reproduce", "paper1"]])
def test_fewer_processes_than_none_are_refused(
    argv: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """-1 alone means all cores."""
    code, _, err = output(capsys, *argv, "--data", str(tmp_path), "--jobs", "-5")
    assert code == 2
    assert err.startswith("stream-occ: --jobs: must be a number of processes, or -1 for all cores; got -5.")


def test_detector_that_there_is_not_is_told_before_the_data_are_opened(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Reading a set takes minutes, and this one is not there."""
    argv = ["train", "--dataset", "mobifall", "--data", "absent", "--out", str(tmp_path / "m.occ")]
    code, _, err = output(capsys, *argv, "--detector", "nope")
    assert (code, "must be the name of a preset; got 'nope'" in err) == (2, True)


def test_json_in_a_folder_that_will_be_made_or_to_a_device_is_taken(tmp_path: Path) -> None:
    """What `write_json` can write to is not refused before."""
    for path in (tmp_path / "new" / "deep" / "out.json", tmp_path / "out.json", Path("/dev/null")):
        _common.check_output("--json", path, makes_folder=True)


def test_write_json_dash_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    """`--json -` feeds a pipe."""
    _common.write_json("-", [1])
    assert json.loads(capsys.readouterr().out) == [1]


def test_progress_is_silent_where_stderr_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Logs of scheduled runs hold no control characters."""
    with _common.progress() as report:
        report("Reading recordings", 1, 2)
    assert capsys.readouterr() == ("", "")


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def as_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal in the place of stderr, for the rest of the test; made in it: pytest sets its own after fixtures."""
    stream = Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


@pytest.fixture
def _logging_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.mark.usefixtures("_logging_as_it_was")
def test_log_lines_stand_above_the_bar_and_output_stays_on_stdout(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log line begins on a line from which the bar was wiped; what a pipe reads is not mixed with bars."""
    terminal = as_terminal(monkeypatch)
    _service.log_to_stderr("warning")
    with _common.progress() as report:
        report("Recording (s)", 1, 5)
        logging.getLogger("some.module").warning("broker is away")
        _service.say("ready: recording")
        report("Recording (s)", 2, 5)
    assert capsys.readouterr().out == "ready: recording\n"
    shown = terminal.getvalue()
    [line] = [line for line in shown.splitlines() if "broker is away" in line]
    assert re.fullmatch(r"\S+Z WARNING some\.module: broker is away *", line.rpartition("\x1b[2K")[2])
    assert "\x1b[2K" in line
    assert "ready" not in shown


@pytest.mark.usefixtures("_logging_as_it_was")
def test_log_lines_as_json_are_one_object_each_whatever_is_in_them(capsys: pytest.CaptureFixture[str]) -> None:
    """Line ends and quotes of a message, and a traceback, stay inside of one line that a log collector can read."""
    _service.log_to_stderr("info", "json")
    log = logging.getLogger("some.module")
    log.debug("not wanted")
    log.info('refused %r\nof "w1"', "ü")
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("slice failed, %d in a row", 2)
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.pop("t"))
    assert first == {"level": "info", "logger": "some.module", "message": "refused 'ü'\nof \"w1\""}
    assert (second["level"], second["message"]) == ("error", "slice failed, 2 in a row")
    assert second["exception"].splitlines()[-1] == "ValueError: broken"


def test_bar_never_goes_beyond_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What turns out longer than was told fills the bar and no more."""
    terminal = as_terminal(monkeypatch)
    with _common.progress() as report:
        report("Replaying (s)", 12, 10)
    assert "10/10" in terminal.getvalue()
    assert "12/10" not in terminal.getvalue()


def test_record_without_a_broker_ends_in_time_with_one_line(tmp_path: Path) -> None:
    """--seconds counts from the start, whether or not anybody answers; exit code 1."""
    command = [sys.executable, "-m", "stream_occ", "record", "--port", "1", "--topic", "a/{device}", "--seconds", "0.4"]
    env = {**os.environ, "STREAM_OCC__LOG__LEVEL": "error"}
    done = subprocess.run(
        [*command, "--out", str(tmp_path)], env=env, capture_output=True, text=True, timeout=30, check=False
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "stream-occ: broker 127.0.0.1:1: must take the subscriptions within 0.4 s; got nothing. "
        "Check --host, --port and the broker's log.\n"
    )


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--seed", "-1"),
        ("--minutes", "inf"),
        ("--minutes", "1e9"),
        ("--pause-s", "inf"),
        ("--synthetic", "99999999"),
        ("--fall-count", "99999999"),
    ],
)
def test_replay_refuses_numbers_that_would_fill_the_memory_or_never_end(
    option: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A life without end is drawn before it is played."""
    assert run(["replay", "--synthetic", "1", "--port", "1", option, value]) == 2
    error = capsys.readouterr().err
    assert option in error
    assert error.count("\n") == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full")
@pytest.mark.parametrize("stdout", ["full", "closed", "pipe"])
def test_service_whose_stdout_takes_nothing_goes_on(stdout: str) -> None:
    """Cause: `detect > log` on a full disk, or beside a `tee` that had died, ended as soon as it was ready."""
    redirected = {"full": ">/dev/full", "closed": ">&-", "pipe": "| true"}[stdout]
    code = (
        "import time; time.sleep(.5); from stream_occ.cli._service import announce; announce('ready'); announce('on')"
    )
    script = f'{{ "{sys.executable}" -c "{code}"; echo $? >&2; }} {redirected}'
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
    *told, exit_code = done.stderr.splitlines()
    assert exit_code == "0", done.stderr
    assert len(told) == (stdout != "closed")


@pytest.mark.parametrize(("disposition", "is_stopping"), [("SIG_DFL", True), ("SIG_IGN", False)])
def test_terminal_that_is_closed_ends_a_service_in_order(disposition: str, is_stopping: bool) -> None:
    """SIGHUP does, but not where nohup has it ignored."""
    code = f"""
import os, signal
from stream_occ.cli._service import stop_on_signals
signal.signal(signal.SIGHUP, signal.{disposition})
stop = stop_on_signals()
os.kill(os.getpid(), signal.SIGHUP)
print(stop.is_set())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == str(is_stopping)
