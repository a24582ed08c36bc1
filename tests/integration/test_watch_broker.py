"""`stream-occ watch` against a real mosquitto."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from stream_occ.messages import alert_message
from tests.integration.broker import Broker
from tests.integration.detector import REPO, Watcher, wait_until
from tests.sink_peers import an_alert

pytestmark = [pytest.mark.broker, pytest.mark.slow]


def run(port: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "stream_occ", "watch", "--port", str(port), *arguments]
    return subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=60, check=False)


def test_retained_alarm_is_shown_and_is_the_exit_code(broker: Broker, tmp_path: Path) -> None:
    """For a person, and for a script that asks whether somebody waits."""
    found = tmp_path / "found.json"
    with Watcher(broker.port) as watcher:
        watcher.send("stream_occ/bridge/edge/status", b"online", retain=True)
        done = run(broker.port, "--once")
        assert (done.returncode, "0 wearers, 0 open alerts" in done.stdout) == (0, True), done
        alert = an_alert(0, "alarm")
        watcher.send("stream_occ/w1/alert", alert_message(alert).to_payload(), retain=True)
        done = run(broker.port, "--once", "--json", str(found))
    assert done.returncode == 1
    assert "alarm" in done.stdout
    [wearer] = json.loads(found.read_text())["wearers"]
    assert (wearer["device"], wearer["shown"], wearer["alert_id"]) == ("w1", "alarm", "a1")


def test_changes_are_lines_without_a_terminal(broker: Broker) -> None:
    """One that was there, then what --seconds lasts for."""
    with Watcher(broker.port) as watcher:
        watcher.send("stream_occ/w1/alert", alert_message(an_alert(0, "alarm")).to_payload(), retain=True)
        done = run(broker.port, "--seconds", "1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "w1: alarm (was waiting)\n", "")


def test_broker_that_is_away_is_one_line(tmp_path: Path) -> None:
    """Within the configuration's time, with what to do."""
    config = tmp_path / "edge.yaml"
    config.write_text("mqtt: {connect_timeout_s: 0.5}\ninputs: [{pattern: 'a/{device}'}]\n")
    done = run(9, "-c", str(config))
    assert done.returncode == 1
    assert done.stderr.startswith("stream-occ: broker 127.0.0.1:9: must take the subscriptions within ")
    assert len(done.stderr.splitlines()) == 1


def test_screen_is_drawn_again_with_each_change_and_left_as_it_was(broker: Broker) -> None:
    """In a real terminal: an alarm appears, Ctrl-C ends the view; the screen of before and the cursor are back."""
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "stream_occ", "watch", "--port", str(broker.port)]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100", "LINES": "30"}
    with (
        Watcher(broker.port) as watcher,
        subprocess.Popen(command, cwd=REPO, stdout=slave, stderr=slave, env=environment) as process,
    ):
        os.close(slave)
        shown = b""

        def read() -> bytes:
            nonlocal shown
            while select.select([master], [], [], 0.01)[0]:
                try:
                    shown += os.read(master, 65536)
                except OSError:  # the other end is closed
                    break
            return shown

        wait_until(lambda: b"none was ever there" in read(), "the first screen", 60)
        watcher.send("stream_occ/bridge/edge/status", b"online", retain=True)
        watcher.send("stream_occ/w1/alert", alert_message(an_alert(0, "alarm")).to_payload())
        wait_until(lambda: b"!!alarm" in read() and b"1 open alerts" in read(), "the alarm", 60)
        process.send_signal(signal.SIGINT)
        wait_until(lambda: read() and process.poll() is not None, "the end", 60)
        read()
    os.close(master)
    assert process.returncode == 0
    assert shown.rindex(b"\x1b[?1049l") > shown.rindex(b"\x1b[?1049h")
    assert shown.rindex(b"\x1b[?25h") > shown.rindex(b"\x1b[?25l")
