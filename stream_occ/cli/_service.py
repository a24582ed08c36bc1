"""What the commands that hold a broker connection share: log lines on stderr, an orderly end on SIGTERM and SIGINT."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from typing import Any, Literal

LOG_FIELDS = ("device", "alert_id", "reason", "state")  # of a line's `extra`; each is in its text too


def log_to_stderr(level: str, form: Literal["text", "json"] = "text") -> None:
    """Lines with UTC time, level and module on stderr; json: an object a line, errors with their traceback in it."""
    import json
    import time

    from stream_occ.errors import visible

    class JsonFormatter(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            content = {
                "t": f"{self.formatTime(record, self.datefmt)}.{int(record.msecs):03d}Z",
                "level": record.levelname.lower(),
                "logger": record.name,
                "message": record.getMessage(),
            }
            content |= {name: record.__dict__[name] for name in LOG_FIELDS if name in record.__dict__}
            if record.exc_info:
                content["exception"] = self.formatException(record.exc_info)
            return json.dumps(content)

    class TextFormatter(logging.Formatter):
        """Names and values of others stand in messages: none may begin a line of its own, or steer a terminal."""

        def formatMessage(self, record: logging.LogRecord) -> str:
            return visible(super().formatMessage(record))

        def formatException(self, ei: Any) -> str:
            return "\n".join(f"  {visible(line)}" for line in super().formatException(ei).split("\n"))

    class StderrHandler(logging.StreamHandler[Any]):
        """Writes to what is stderr at the moment: a progress bar stands in for it, to keep lines apart from itself."""

        def emit(self, record: logging.LogRecord) -> None:
            self.stream = sys.stderr
            super().emit(record)

    handler = StderrHandler()
    kind = JsonFormatter if form == "json" else TextFormatter
    formatter = kind("%(asctime)s.%(msecs)03dZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())


def stop_on_signals() -> threading.Event:
    """An event that SIGTERM or SIGINT sets, and SIGHUP where `nohup` does not ask to outlive the terminal."""
    stop = threading.Event()

    def handle(_number: int, _frame: Any) -> None:
        stop.set()

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, handle)
    return stop


def say(line: str) -> None:
    """A line on stdout, at once: others wait for it."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def announce(line: str) -> None:
    """`say`, for a service: that nobody can read it (a full disk, a reader that is gone) must not end the service."""
    if sys.stdout is None:  # closed before the start
        return
    try:
        say(line)
    except OSError as error:
        logging.getLogger("stream_occ").warning("stdout cannot be written (%s), and is left alone: %s", error, line)
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the rest would fail at the exit
