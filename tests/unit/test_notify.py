"""What systemd hears, at a socket that a test holds in its place."""

from __future__ import annotations

import configparser
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_occ.notify import Notifier
from stream_occ.running import WORKER_SILENCE_S

REPO = Path(__file__).resolve().parents[2]


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[socket.socket]:
    """The listening end; its address is the path of the test's folder."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind(str(tmp_path / "notify"))
        listener.setblocking(False)
        yield listener


def heard(listener: socket.socket) -> list[str]:
    lines: list[str] = []
    while True:
        try:
            lines += listener.recv(4096).decode().splitlines()
        except BlockingIOError:
            return lines


def test_life_of_a_service_is_told_in_order(systemd: socket.socket) -> None:
    """READY=1 without a broker, a status line, STOPPING=1; no watchdog where systemd does not ask for one."""
    notifier = Notifier({"NOTIFY_SOCKET": systemd.getsockname()})
    notifier.ready()
    notifier.status("connected")
    notifier.beat(1)
    notifier.stopping()
    assert heard(systemd) == ["READY=1", "STATUS=waiting for the broker", "STATUS=connected", "STOPPING=1"]


def test_watchdog_is_fed_four_times_a_period_and_only_while_slices_end(systemd: socket.socket) -> None:
    """A worker that hangs, or whose slices all fail, is restarted by systemd, though the main thread lives."""
    now_s = [100.0]
    environment = {"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "8000000", "WATCHDOG_PID": str(os.getpid())}
    notifier = Notifier(environment, monotonic_s=lambda: now_s[0])
    told: list[bool] = []
    for n_slices, passed_s in ((0, 0.0), (1, 1.0), (2, 1.0), (3, 1.0), (3, 2.0), (3, 60.0), (4, 0.1)):
        now_s[0] += passed_s
        notifier.beat(n_slices)
        told.append(heard(systemd) == ["WATCHDOG=1"])
    assert told == [False, True, False, True, False, False, True]


def test_watchdog_of_another_process_is_not_ours_to_feed(systemd: socket.socket) -> None:
    """A child inherits the variables of its parent."""
    notifier = Notifier({"NOTIFY_SOCKET": systemd.getsockname(), "WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"})
    notifier.beat(1)
    assert heard(systemd) == []


def test_abstract_socket_is_reached() -> None:
    """systemd writes the leading zero byte of its name as @."""
    name = f"stream-occ-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
        listener.bind("\0" + name)
        listener.setblocking(False)
        Notifier({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert heard(listener) == ["STOPPING=1"]


@pytest.mark.parametrize("environment", [{}, {"NOTIFY_SOCKET": "/nowhere/at/all"}])
def test_nobody_who_listens_is_no_error(environment: dict[str, str]) -> None:
    """By hand, in a container, or where the socket is gone, the service runs all the same."""
    notifier = Notifier(environment)
    notifier.ready()
    notifier.beat(1)
    notifier.stopping()


def test_unit_file_waits_longer_than_the_service_itself() -> None:
    """A stuck worker ends the service with a line in the log before systemd kills it without one."""
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str  # type: ignore[assignment,method-assign]
    unit.read(REPO / "configs" / "stream-occ.service")
    service = unit["Service"]
    assert service["Type"] == "notify"
    assert service["NotifyAccess"] == "main"
    assert float(service["WatchdogSec"]) > WORKER_SILENCE_S
    assert service["StateDirectory"] == "stream_occ"
    assert service["Restart"] == "on-failure"
