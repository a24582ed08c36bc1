"""One of several processes that divide a fleet's devices between them: which devices are its own.

Where the wearers are too many for one core, each process takes one share. A device belongs to the share that the CRC-32
of its id names, so every process knows without asking, and none has another's device.
"""

from __future__ import annotations

import re
import zlib
from dataclasses import dataclass
from pathlib import Path

from stream_occ.errors import DataError

MAX_SHARDS = 256


@dataclass(frozen=True, slots=True)
class Shard:
    """Share `number` of `of`, counted from 1.

    >>> [Shard.parse(f"{number}of3").owns("w1") for number in (1, 2, 3)]
    [False, True, False]
    """

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str) -> Shard:
        """From `2of4`; raises ValueError where that names no share."""
        match = re.fullmatch(r"([1-9]\d{0,2})of([1-9]\d{0,2})", text)
        if match is None or not int(match[1]) <= int(match[2]) <= MAX_SHARDS:
            raise ValueError(f"{text!r:.20} is no share such as 2of4")
        return cls(int(match[1]), int(match[2]))

    def owns(self, device_id: str) -> bool:
        """True where the device is this process's."""
        return self.of == 1 or zlib.crc32(device_id.encode()) % self.of == self.number - 1

    def named(self, name: str) -> str:
        """A name that each share needs for itself: `edge` becomes `edge-2of4`."""
        return name if self.of == 1 else f"{name}-{self.number}of{self.of}"


def own_file(path: Path, shard: Shard) -> Path:
    """This share's file beside `path`; raises DataError where another number of processes kept theirs there.

    A device would leave its open alert behind in a file that nobody reads.
    """
    for found in sorted(path.parent.glob(f"{path.stem}*{path.suffix}")):
        match = re.fullmatch(rf"{re.escape(path.stem)}(?:-\d+of(\d+))?", found.stem)
        if match and int(match[1] or 1) != shard.of:
            expected = "hold the state of a detector that is whole" if shard.of == 1 else f"be of {shard.of} processes"
            got = f"that of {match[1] or 1} process{'es' if match[1] else ''}"
            remedy = "Run as many as before until no alert is open, then move these files away"
            raise DataError(str(found), expected, got, remedy)
    return path.with_name(shard.named(path.stem) + path.suffix)
