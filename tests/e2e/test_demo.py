"""The demo as a person runs it: one command, a summary, the promised JSON, nothing left behind."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from stream_occ.cli import run
from stream_occ.demo import broker as embedded_broker

PROMISED = {"falls_simulated", "falls_flagged", "falls_missed", "false_alarms", "median_delay_s", "seed"}


def run_demo(folder: Path, *argv: str, timeout_s: float = 280) -> tuple[subprocess.CompletedProcess[str], dict]:
    """Runs the command in an empty folder, with its own temporary folder; the result and its JSON."""
    (folder / "tmp").mkdir(exist_ok=True)
    (folder / "cwd").mkdir(exist_ok=True)
    command = [sys.executable, "-m", "stream_occ", "demo", *argv, "--json", str(folder / "demo.json")]
    env = {**os.environ, "TMPDIR": str(folder / "tmp"), "XDG_STATE_HOME": str(folder / "state"), "HOME": str(folder)}
    done = subprocess.run(
        command, cwd=folder / "cwd", env=env, capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done, json.loads((folder / "demo.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("broker", ["mosquitto", "iotcore"])
def test_short_demo_flags_falls_over_either_broker(broker: str, tmp_path: Path) -> None:
    """0.3 minutes hold one fall a wearer; the summary and the JSON agree; nothing stays but the JSON."""
    if broker == "mosquitto" and embedded_broker._mosquitto() is None:
        pytest.skip("mosquitto is not installed")
    if broker == "iotcore":
        pytest.importorskip("iotcore")
    done, result = run_demo(tmp_path, "--minutes", "0.3", "--broker", broker)
    assert result.keys() >= PROMISED
    assert (result["falls_simulated"], result["seed"], result["broker"]) == (6, 0, broker)
    assert result["falls_flagged"] + result["falls_missed"] == result["falls_simulated"]
    assert result["falls_flagged"] >= 5
    assert result["windows_scored"] > 6 * 100
    assert f"falls flagged    {result['falls_flagged']}" in done.stdout
    assert done.stdout.count("Synthetic wearers") == 1
    assert "detected" not in done.stdout.lower()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["cwd", "demo.json", "tmp"]
    assert list((tmp_path / "tmp").iterdir()) == []
    assert list((tmp_path / "cwd").iterdir()) == []


@pytest.mark.slow
def test_quiet_demo_says_nothing(tmp_path: Path) -> None:
    """What came of it is in the JSON."""
    done, result = run_demo(tmp_path, "--minutes", "0.2", "--wearers", "1", "--quiet")
    assert (done.stdout, done.stderr) == ("", "")
    assert result.keys() >= PROMISED


def _heed_ctrl_c() -> None:
    """What runs in the background of a script has been told to ignore it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
def test_page_beside_the_demo_stays_at_a_terminal_until_ctrl_c(tmp_path: Path) -> None:
    """Its address is printed, its history holds the simulated fall, and Ctrl-C ends all in order, with the JSON."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "stream_occ", "demo", "--dashboard", "--minutes", "0.3", "--wearers", "1"]
    env = {**os.environ, "TMPDIR": str(tmp_path), "XDG_STATE_HOME": str(tmp_path / "state"), "TERM": "xterm"}
    demo = subprocess.Popen(
        [*command, "--json", "demo.json"], cwd=tmp_path, env=env, stdout=theirs, stderr=theirs, preexec_fn=_heed_ctrl_c
    )
    os.close(theirs)
    said = ""
    with os.fdopen(ours, "rb", buffering=0) as terminal:
        try:
            while "until Ctrl-C" not in said:
                said += terminal.read(65536).decode(errors="replace")
            url = re.search(r"Dashboard: (http://127\.0\.0\.1:\d+/)", said)[1]
            with urllib.request.urlopen(f"{url}api/alerts", timeout=5) as answer:
                alerts = json.load(answer)["alerts"]
            demo.send_signal(signal.SIGINT)
            assert demo.wait(20) == 0
        finally:
            demo.kill()
            demo.wait()
    assert {alert["device"] for alert in alerts} == {"wearer-1"}
    assert "falls simulated  1" in said
    assert [path.name for path in tmp_path.iterdir()] == ["demo.json"]


def test_page_without_its_extra_is_refused_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line that names the extra, exit code 2."""
    monkeypatch.delitem(sys.modules, "stream_occ.dashboard.serving", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert run(["demo", "--dashboard"]) == 2
    line = "stream-occ: this needs the extra 'dashboard': pip install '.[dashboard]' in a copy of the repository\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_default_seed_flags_nine_of_ten_falls_and_few_false_alarms(tmp_path: Path) -> None:
    """Seed 0, played faster than by default so as to end sooner: the data are those of the default run."""
    _, result = run_demo(tmp_path, "--minutes", "1.5", "--speed", "16", timeout_s=380)
    assert result["falls_simulated"] == 24
    assert result["falls_flagged"] >= 0.9 * result["falls_simulated"]
    assert result["false_alarms"] <= 0.1 * result["falls_simulated"]


@pytest.mark.slow
def test_demo_ends_with_1_where_the_service_dies(tmp_path: Path) -> None:
    """A service that cannot start gives one line and exit code 1."""
    code = (
        "import sys; import stream_occ.demo.run as run; from stream_occ.cli import run as cli; "
        "keep = run.service_config; run.service_config = lambda broker: {**keep(broker), 'model': 'absent.occ'}; "
        "sys.exit(cli(['demo', '--minutes', '0.2', '--wearers', '1']))"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "demo: detect service: must run until the end; got exit code 2" in done.stderr
