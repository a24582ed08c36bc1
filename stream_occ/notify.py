"""Word to systemd, over the socket that it names in the environment: ready, alive, stopping; nothing without it."""

from __future__ import annotations

import contextlib
import os
import socket
import time
from collections.abc import Callable, Mapping

SEND_TIMEOUT_S = 1.0
BEATS_PER_PERIOD = 4  # systemd asks for two: one may be late


class Notifier:
    """Datagrams of `sd_notify`. `beat` says WATCHDOG=1 only where the worker has ended a slice since the last one."""

    def __init__(
        self, environment: Mapping[str, str] | None = None, *, monotonic_s: Callable[[], float] = time.monotonic
    ) -> None:
        given = os.environ if environment is None else environment
        address = given.get("NOTIFY_SOCKET", "")
        self._address = "\0" + address[1:] if address.startswith("@") else address
        is_ours = given.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        period = given.get("WATCHDOG_USEC", "") if is_ours else ""
        self._interval_s = int(period) / 1e6 / BEATS_PER_PERIOD if period.isdecimal() else None
        self._monotonic_s = monotonic_s
        self._due_s = 0.0
        self._n_slices = 0

    def ready(self) -> None:
        """The service runs; a broker that is away is no part of it."""
        self._send("READY=1\nSTATUS=waiting for the broker")

    def status(self, line: str) -> None:
        """One line for `systemctl status`."""
        self._send(f"STATUS={line}")

    def beat(self, n_slices: int) -> None:
        """Called often; n_slices: how many slices the worker has ended without an error."""
        now_s = self._monotonic_s()
        if self._interval_s is None or now_s < self._due_s or n_slices == self._n_slices:
            return
        self._due_s, self._n_slices = now_s + self._interval_s, n_slices
        self._send("WATCHDOG=1")

    def stopping(self) -> None:
        """The last slices are made: no more beats."""
        self._send("STOPPING=1")

    def _send(self, text: str) -> None:
        if not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.settimeout(SEND_TIMEOUT_S)
            sender.sendto(text.encode(), self._address)
