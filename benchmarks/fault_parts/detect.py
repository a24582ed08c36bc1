"""`python detect.py CLOCK CLOSINGS detect ...`: stream-occ with a clock that can be set, and a witness of its windows.

The wall clock is off by the seconds in CLOCK, read at the start and on each SIGUSR1; the monotonic clock goes on, as it
does when a machine's clock is set. CLOSINGS gets a line, device and end in ns, for each window that is cut where a
stream falls silent: the only windows beside those that start a whole hop after the last.
"""

import contextlib
import signal
import sys
import time
from pathlib import Path
from typing import Any

CLOCK, CLOSINGS = Path(sys.argv.pop(1)), Path(sys.argv.pop(1))
REAL_NS = time.time_ns
offset_ns = 0


def read(*_: object) -> None:
    """How far the clock is off now."""
    global offset_ns
    offset_ns = int(CLOCK.read_text()) * 1_000_000_000


read()
signal.signal(signal.SIGUSR1, read)
time.time_ns = lambda: REAL_NS() + offset_ns
time.time = lambda: time.time_ns() / 1e9

from stream_occ import pipeline  # noqa: E402 - its modules take the clock when they are imported
from stream_occ.cli import main  # noqa: E402

cut, untold = pipeline.closing_window, []


def told(*state: Any, **options: Any) -> Any:
    """The same, and its line; on a disk that is full for all files the line comes with the next."""
    batch = cut(*state, **options)
    untold.extend(f"{name} {t_ns}\n" for name, t_ns in zip(batch.device_ids, batch.t_end_ns.tolist(), strict=True))
    with contextlib.suppress(OSError):
        if untold:
            with CLOSINGS.open("a") as file:
                file.write("".join(untold))
            untold.clear()
    return batch


pipeline.closing_window = told
sys.exit(main())
