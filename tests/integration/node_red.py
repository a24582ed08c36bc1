"""A Node-RED of one's own, without its editor, that runs configs/node-red-flow.json against a broker of a test."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from tests.integration.broker import free_port
from tests.integration.detector import REPO, wait_until

SETTINGS = {
    "flowFile": "flows.json",
    "uiHost": "127.0.0.1",
    "disableEditor": True,
    "credentialSecret": False,
    "mqttReconnectTime": 200,
    "telemetry": {"enabled": False},
    "logging": {"console": {"level": "info", "metrics": False, "audit": False}},
}


class NodeRed:
    """The running program; use as a context manager, again for a restart.

    user, password: what a person types at the flow's broker; settings: of Node-RED, beside those of all tests.
    """

    def __init__(
        self, folder: Path, broker_port: int, *, user: str = "", password: str = "", **settings: object
    ) -> None:
        program = shutil.which("node-red")
        if program is None:
            pytest.skip("node-red not found on PATH: npm install node-red (docs/node-red.md), or bash scripts/test")
        folder.mkdir()
        self.port = free_port()
        self.log = folder / "node-red.log"
        flow = json.loads((REPO / "configs" / "node-red-flow.json").read_text(encoding="utf-8"))
        [at] = [node for node in flow if node["type"] == "mqtt-broker"]
        at |= {"broker": "127.0.0.1", "port": str(broker_port)}
        self._buttons = {node["name"]: node["id"] for node in flow if node["type"] == "inject"}
        (folder / "flows.json").write_text(json.dumps(flow))
        (folder / "flows_cred.json").write_text(json.dumps({at["id"]: {"user": user, "password": password}}))
        file = folder / "settings.js"
        file.write_text(f"module.exports = {json.dumps({**SETTINGS, 'uiPort': self.port, **settings})};\n")
        self._command = [program, "--userDir", str(folder), "--settings", str(file)]
        self._process: subprocess.Popen[bytes] | None = None

    def told(self, begin: str) -> list[str]:
        """The lines of debug nodes that begin so."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        texts = [line.split("] ", 2)[2] for line in lines if "[debug:" in line]
        return [text for text in texts if text.startswith(begin)]

    def press(self, button: str) -> None:
        """What a click on the button of an inject node does."""
        address = f"http://127.0.0.1:{self.port}/inject/{self._buttons[button]}"
        with urlopen(Request(address, data=b"{}", headers={"Content-Type": "application/json"}), timeout=10) as answer:
            assert answer.status == 200

    def __enter__(self) -> NodeRed:
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT)
        try:
            wait_until(lambda: self.told("CONNECTED"), "Node-RED to be connected", timeout_s=60)
        except AssertionError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGINT)
        try:
            self._process.wait(15)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
