"""Which messages were taken lately, so that one that a broker delivers again is not taken again.

A broker delivers again what it has no acknowledgement for: after a reconnection, after our own restart, after its own
from a file that is a second old. The flag `dup` says that it sent the message before, not that we took it, and after
its own restart it may be left out. Two messages that may be alike (`PRESS`) are told apart by the broker's id, which a
second delivery keeps.
"""

from __future__ import annotations

import secrets
from array import array
from collections.abc import Set
from hashlib import blake2b

DIGEST_BYTES = 8
MAX_SEEN = 65_536

_FIRST_SLOTS = 1024
_WORD = (1 << 64) - 1


class Seen:
    """Digests of the last MAX_SEEN messages, and which of them no file holds yet.

    A table of numbers, at most half full: a digest stands in the first free slot from its own on. A ring says which is
    the oldest. Both grow as messages come, to 1.5 MB; a dict would take 14 to 21.
    """

    def __init__(self, saved: bytes = b"") -> None:
        self._ring = array("Q")
        self._oldest = 0
        self._slots = array("Q", bytes(8 * _FIRST_SLOTS))  # 0: free
        self._factor = secrets.randbits(64) | 1  # nobody can choose messages that all want the same slot
        self._unsaved: dict[bytes, str] = {}  # the device whose state holds the message
        for i in range(0, len(saved) - DIGEST_BYTES + 1, DIGEST_BYTES):
            self._note(_number(saved[i : i + DIGEST_BYTES]))

    def __contains__(self, digest: bytes) -> bool:
        return self._slots[self._find(_number(digest))] != 0

    def add(self, digest: bytes, device_id: str = "") -> None:
        """Notes a message as taken, into the state of a device or of none."""
        self._note(_number(digest))
        self._unsaved[digest] = device_id
        if len(self._unsaved) > MAX_SEEN:
            del self._unsaved[next(iter(self._unsaved))]

    def unsaved(self, without: Set[str] = frozenset()) -> bytes:
        """Digests that no file holds, but for those of some devices, in the order in which they came."""
        return b"".join(digest for digest, device_id in self._unsaved.items() if device_id not in without)

    def saved(self, without: Set[str] = frozenset()) -> None:
        """What `unsaved` gave is in the file."""
        self._unsaved = {digest: name for digest, name in self._unsaved.items() if name in without}

    def _note(self, number: int) -> None:
        if self._slots[self._find(number)]:
            return
        if len(self._ring) < MAX_SEEN:
            self._ring.append(number)
            if 2 * len(self._ring) > len(self._slots):
                self._grow()
        else:
            self._forget(self._ring[self._oldest])
            self._ring[self._oldest] = number
            self._oldest = (self._oldest + 1) % MAX_SEEN
        self._slots[self._find(number)] = number

    def _home(self, number: int) -> int:
        """The slot that a number would like."""
        return ((number * self._factor & _WORD) >> 32) & (len(self._slots) - 1)

    def _find(self, number: int) -> int:
        """The slot where a number stands, or the free one where it would."""
        slots, last, slot = self._slots, len(self._slots) - 1, self._home(number)
        while slots[slot] and slots[slot] != number:
            slot = (slot + 1) & last
        return slot

    def _forget(self, number: int) -> None:
        """Frees a number's slot, and moves up what stands behind it only because it was taken."""
        slots, last, free = self._slots, len(self._slots) - 1, self._find(number)
        slot = (free + 1) & last
        while slots[slot]:
            if (slot - self._home(slots[slot])) & last >= (slot - free) & last:
                slots[free], free = slots[slot], slot
            slot = (slot + 1) & last
        slots[free] = 0

    def _grow(self) -> None:
        self._slots = array("Q", bytes(2 * 8 * len(self._slots)))
        for number in self._ring[:-1]:
            self._slots[self._find(number)] = number


def _number(digest: bytes) -> int:
    """A digest as a number that is not 0."""
    return int.from_bytes(digest, "little") or 1


def digest(topic: str, payload: bytes, mid: int = 0) -> bytes:
    """Tells two messages apart; mid: those, too, that are alike but for the id, 1 to 65535, that they came by."""
    key, salt = blake2b(topic.encode(), digest_size=32).digest(), mid.to_bytes(2, "little")
    return blake2b(payload, digest_size=DIGEST_BYTES, key=key, salt=salt).digest()
