"""A mosquitto of one's own: on a free loopback port, with its files in a temporary folder.

Use as a context manager, or the fixture `broker` of tests/integration/conftest.py:

    with Broker.start(tmp_path) as broker:
        client.connect("127.0.0.1", broker.port)
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

MOSQUITTO = shutil.which("mosquitto", path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")


def free_port() -> int:
    """A TCP port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Broker:
    """A running (or stopped) mosquitto; `stop` and `run` again on the same port make a restart.

    whole: a complete configuration, in place of the usual one with `extra`.
    """

    folder: Path
    port: int
    extra: str = ""
    whole: str = ""
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @classmethod
    def start(cls, folder: Path, *, extra: str = "", port: int | None = None) -> Broker:
        """Starts one and waits until it listens; `extra` is added to its configuration."""
        broker = cls(folder, port or free_port(), extra)
        broker.run()
        return broker

    def run(self) -> None:
        """Starts the process and waits until it accepts connections."""
        assert MOSQUITTO is not None, "mosquitto is not installed"
        config = self.folder / "mosquitto.conf"
        as_root = "user root\n" if os.geteuid() == 0 else ""  # it would drop to a user that cannot read our files
        config.write_text(
            f"{as_root}{self.whole}"
            if self.whole
            else f"listener {self.port} 127.0.0.1\nallow_anonymous true\n{as_root}"
            f"max_queued_messages 0\npersistence false\nlog_dest none\n{self.extra}\n"
        )
        self.process = subprocess.Popen([MOSQUITTO, "-c", str(config)], cwd=self.folder, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                assert self.process.stderr is not None
                raise RuntimeError(f"mosquitto ended: {self.process.stderr.read().decode()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.02)
        raise RuntimeError("mosquitto does not listen")

    def stop(self, *, kill: bool = False) -> None:
        """Ends the process, in order or by SIGKILL."""
        if self.process is None:
            return
        deadline = time.monotonic() + 10
        while self.process.poll() is None and time.monotonic() < deadline:
            # more than once: mosquitto forgets a SIGTERM that comes between listening and its main loop
            self.process.kill() if kill else self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.5)
        assert self.process.poll() is not None, "mosquitto does not end"
        if self.process.stderr is not None:
            self.process.stderr.close()
        self.process = None

    def __enter__(self) -> Broker:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
