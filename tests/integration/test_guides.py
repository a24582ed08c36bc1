"""The how-to pages: each of their commands, with simulated senders, other ports, and folders for /etc and /opt.

`sudo` and the owner of files are left out, and so is what installs packages or speaks with systemd.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

import pytest

from tests.integration.broker import MOSQUITTO, Broker, free_port
from tests.integration.detector import REPO, wait_until
from tests.integration.page_commands import PageCommands, Terminal

pytestmark = [pytest.mark.slow, pytest.mark.broker, pytest.mark.timeout(600)]

REPLAY = "stream-occ replay --synthetic 1"


def terminal(folder: Path, port: int) -> Terminal:
    """In what looks like a copy of the repository; stream-occ without a configuration finds the broker."""
    (folder / "configs").symlink_to(REPO / "configs")
    return Terminal(folder, STREAM_OCC__MQTT__PORT=str(port))


@pytest.mark.parametrize("name", ["raspberry-pi", "care-home", "own-recordings", "alarm-budget"])
def test_guide_is_short(name: str) -> None:
    """At most 80 lines."""
    assert PageCommands(f"{name}.md").text.count("\n") <= 80


def test_own_recordings_become_a_model_within_a_budget(broker: Broker, tmp_path: Path) -> None:
    """Three people recorded, two trained on, the third sets the threshold; then the page of the budget."""
    page, shell = PageCommands("own-recordings.md"), terminal(tmp_path, broker.port)
    (tmp_path / "ward.yaml").write_text('inputs: [{pattern: "wearables/{device}/imu"}]\n')
    for seed, person in enumerate(("anna", "bert", "cleo")):
        command = page.take("stream-occ record")
        assert f"--subject {person}" in command
        with shell.running(command):
            shell.run(f"{REPLAY} --minutes 2 --fall-count 0 --speed 40 --seed {seed}")
    assert "2 people" in shell.run(page.take("stream-occ train"))
    assert "Verified" in shell.run(page.take("stream-occ inspect"))
    [settings] = page.files()["train.yaml"]
    (tmp_path / "train.yaml").write_text(settings)
    assert "Budget: 2 a day" in shell.run(page.take("stream-occ train --config train.yaml"))
    assert "Supported: no, 2 a day" in shell.run(page.take("stream-occ calibrate"))
    with shell.running(page.take("stream-occ detect")):
        shell.run(page.take("stream-occ replay"))
    shell.run(page.take("(umask 077; openssl rand"))
    shell.run(page.take("stream-occ train"))
    assert "signature" in shell.run(page.take("stream-occ inspect"))
    assert page.left == []

    page = PageCommands("alarm-budget.md")
    assert shell.run(page.take("for n in 1 2 8; do stream-occ calibrate")).count("Supported: no") == 3
    assert "Supported: no, 8 a day" in shell.run(page.take("stream-occ calibrate"))
    assert "Verified" in shell.run(page.take("stream-occ inspect"))
    shell.run(page.take("stream-occ calibrate"), code=1)
    assert not (tmp_path / "strict.occ").exists()
    [settings] = page.files()["ward.yaml"]
    (tmp_path / "ward.yaml").write_text(settings)
    assert "no problem" in shell.run(page.take("stream-occ config check"))
    shell.run(page.take("stream-occ calibrate"))
    assert page.left == []


def test_care_home_lets_in_whom_it_knows(tmp_path: Path, model_file: Path) -> None:
    """mosquitto with the files as the page makes them: a device is heard, the ward sees it, and it hears nothing."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    page, port, etc = PageCommands("care-home.md"), free_port(), tmp_path / "etc"
    shell = terminal(tmp_path, port)
    shutil.copy(model_file, tmp_path / "model.occ")

    def take(begin: str) -> str:
        there = page.take(begin).replace("sudo ", "").replace("-o mosquitto ", "").replace("broker.lan", "localhost")
        return there.replace("/etc/", f"{etc}/").replace("8883", str(port))

    for begin in ("mkdir", "openssl", "(umask 077", "sed", "(cat"):
        shell.run(take(begin))
    for _ in range(4):
        shell.run(take("sudo install"))
    page.take("sudo systemctl restart mosquitto")
    text = (etc / "mosquitto" / "mosquitto.conf").read_text().replace("/etc/", f"{etc}/")
    text = text.replace("/var/lib/mosquitto", str(tmp_path)).replace("listener 8883", f"listener {port} 127.0.0.1")
    [config] = page.files()["care.yaml"]
    (tmp_path / "care.yaml").write_text(config.replace("broker.lan", "localhost").replace("8883", str(port)))
    (tmp_path / "broker").mkdir()
    broker = Broker(tmp_path / "broker", port, whole=f"{text}\nlog_dest none\n")
    broker.run()
    with broker:
        assert "no problem" in shell.run(take("stream-occ config check"))
        with shell.running(take("stream-occ detect")) as said:
            shell.run(take("sed s/detector/ward/"))
            shell.run("sed s/detector/w1/ care.yaml >w1.yaml")
            shell.run(f"{REPLAY} -c w1.yaml --device w1 --minutes 1 --speed 20")
            wait_until(lambda: "device w1 registered" in said.read_text(), "w1 to be heard")
            assert "w1" in shell.run("stream-occ watch -c ward.yaml --once || true")  # 1 where a fall was flagged
            shell.run(take("(umask 077; echo").replace("$(stream-occ", "$(echo not-a-secret | stream-occ"))
            with shell.running(f"{take('stream-occ dashboard')} --port 0") as served:
                assert "ready: https://" in served.read_text()
            shell.run(take("stream-occ doctor"), code=1)
            shell.run(take("stream-occ doctor"), code=1)
    assert page.left == []


def test_raspberry_pi_runs_what_its_unit_starts(broker: Broker, tmp_path: Path, model_file: Path) -> None:
    """What lies in /etc and /opt after the page is what the unit's command finds; it answers on /ready."""
    page, http = PageCommands("raspberry-pi.md"), free_port()
    shell = terminal(tmp_path, broker.port)
    shutil.copy(model_file, tmp_path / "model.occ")
    for folder in ("etc/mosquitto", "etc/systemd/system", "opt/stream_occ/bin"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "opt/stream_occ/bin/stream-occ").symlink_to(Path(sys.executable).parent / "stream-occ")

    def here(text: str) -> str:
        return re.sub(r"(?<![\w.])/(etc|opt)/", rf"{tmp_path}/\1/", text.replace("sudo ", "")).replace(
            "9464", str(http)
        )

    for begin in ("sudo apt-get", "sudo python3 -m venv", "sudo /opt/stream_occ/bin/pip install ."):
        page.take(begin)
    shell.run(here(page.take("sudo install -b -m 644 configs/mosquitto.conf")))
    page.take("sudo systemctl restart mosquitto")
    [config] = page.files()["edge.yaml"]
    (tmp_path / "edge.yaml").write_text(config.replace("enabled: true", f"enabled: true, port: {http}"))
    assert "no problem" in shell.run(here(page.take("/opt/stream_occ/bin/stream-occ config check")))
    for _ in range(3):
        shell.run(here(page.take("sudo install")))
    unit = (tmp_path / "etc/systemd/system/stream-occ.service").read_text()
    [command] = re.findall(r"^ExecStart=(.*)", unit, re.MULTILINE)
    for begin in (
        "sudo systemctl daemon-reload",
        "sudo systemctl enable --now stream-occ",
        "systemctl status stream-occ",
    ):
        page.take(begin)
    with shell.running(here(command)):
        assert "wearers" in shell.run(here(page.take("/opt/stream_occ/bin/stream-occ watch --once")))
        assert "ready" in shell.run(here(page.take("python3 -c")))
    for begin in ("sudo /opt/stream_occ/bin/pip install .", "sudo systemctl restart stream-occ"):
        page.take(begin)
    assert page.left == []
