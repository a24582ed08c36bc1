"""docs/tutorial.md: each of its commands, with a simulated sender in place of the phone and of the ESP32.

Left out are those that install; changed are the broker's port, the dashboard's (a free one) and the demo's length.
"""

from __future__ import annotations

import json
import re
import tomllib
import urllib.request
from pathlib import Path

import pytest

from tests.integration.broker import MOSQUITTO, free_port
from tests.integration.detector import REPO, Watcher, wait_until
from tests.integration.page_commands import PageCommands, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.broker]

SENDERS = {
    "phone": "stream-occ replay --codec sensor-logger --device phone --topic 'phones/{device}/motion'",
    "w1": "stream-occ replay --codec compact --device w1",
}


def test_the_demo_of_the_tutorial_runs(tmp_path: Path) -> None:
    """With what step 1 installs; shortened to 18 seconds."""
    page, shell = PageCommands("tutorial.md"), Terminal(tmp_path)
    page.take("python3 -m venv .venv && . .venv/bin/activate")
    [extras] = re.findall(r"^pip install '\.\[(.*)\]'$", page.take("pip install"))
    known = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    said = shell.run(f"{page.take('stream-occ demo')} --minutes 0.3 --json demo.json")
    assert "http://127.0.0.1:" in said
    assert json.loads((tmp_path / "demo.json").read_text())["falls_flagged"] >= 1


@pytest.mark.parametrize("device", SENDERS)
def test_tutorial_leads_to_an_alert(tmp_path: Path, device: str) -> None:
    """Record, train, detect; the sender's fall becomes an alarm that `watch` shows and a person takes."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    page, port, sender = PageCommands("tutorial.md"), free_port(), SENDERS[device]
    shell = Terminal(tmp_path, STREAM_OCC__MQTT__PORT=str(port))
    for begin in ("python3 -m venv", "pip install", "stream-occ demo", "sudo apt-get install mosquitto"):
        page.take(begin)
    [config] = [text for text in page.files()["my.yaml"] if f"codec: {'compact' if device == 'w1' else 's'}" in text]
    (tmp_path / "my.yaml").write_text(config)
    normal = f"{sender} --synthetic 1 --minutes 5 --fall-count 0 --speed 40"
    shell.run(page.take("printf 'listener").replace("1883", f"{port} 127.0.0.1"))
    broker = page.take("/usr/sbin/mosquitto").replace("/usr/sbin/mosquitto", MOSQUITTO)
    with shell.running(broker, says="running"):
        with shell.running(f"{sender} --synthetic 1 --minutes 2 --fall-count 0", says=""):
            heard = shell.run(page.take("stream-occ doctor").replace("20", "6"))
        assert f"codec {'compact' if device == 'w1' else 'sensor-logger'}" in heard
        assert "no problem" in shell.run(page.take("stream-occ config check"))
        with shell.running(page.take("stream-occ record")):
            shell.run(normal)
        assert "Trained on 7" in shell.run(page.take("stream-occ train"))  # some 700 windows
        shell.run(page.take("stream-occ inspect"))
        with (
            Watcher(port) as watcher,
            shell.running(page.take("stream-occ detect")),
            shell.running(f"{page.take('stream-occ dashboard')} --port 0") as served,
            shell.running(page.take("stream-occ watch"), says="") as watched,
        ):
            fall = f"{sender} --synthetic 1 --minutes 1 --fall-count 2 --speed 20"
            shell.run(fall + (" --resend" if device == "w1" else ""))
            wait_until(lambda: f"{device}: alarm" in watched.read_text(), "an alarm", 40)
            shell.run(page.take("stream-occ watch"), code=1)
            assert device in (tmp_path / "now.json").read_text()
            [address] = re.findall(r"ready: (http\S+)", served.read_text())
            assert urllib.request.urlopen(address, timeout=10).status == 200
            watcher.send(f"stream_occ/{device}/set/ack", b"PRESS")
            wait_until(lambda: f"{device}: acknowledged" in watched.read_text(), "that it is taken")
    assert page.left == []
