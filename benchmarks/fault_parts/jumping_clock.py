"""`python jumping_clock.py FILE detect ...`: stream-occ with a wall clock that is off by the seconds in FILE.

Read at the start and on each SIGUSR1. The monotonic clock goes on, as it does when a machine's clock is set.
"""

import signal
import sys
import time
from pathlib import Path

OFFSET, REAL_NS = Path(sys.argv.pop(1)), time.time_ns
offset_ns = 0


def read(*_: object) -> None:
    """How far the clock is off now."""
    global offset_ns
    offset_ns = int(OFFSET.read_text()) * 1_000_000_000


read()
signal.signal(signal.SIGUSR1, read)
time.time_ns = lambda: REAL_NS() + offset_ns
time.time = lambda: time.time_ns() / 1e9

from stream_occ.cli import main  # noqa: E402 - its modules take the clock when they are imported

sys.exit(main())
