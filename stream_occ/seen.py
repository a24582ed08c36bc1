"""Which messages were taken lately, so that one that a broker delivers again is not taken again.

A broker delivers again what it has no acknowledgement for: after a reconnection, after our own restart, after its own
from a file that is a second old. The flag `dup` says so only in the first case.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b

DIGEST_BYTES = 8
MAX_SEEN = 65_536


class Seen:
    """Digests of the last MAX_SEEN messages, and of those since `unsaved` was last asked."""

    def __init__(self, saved: bytes = b"") -> None:
        self._digests: OrderedDict[bytes, None] = OrderedDict()
        self._unsaved: list[bytes] = []
        for i in range(0, len(saved) - DIGEST_BYTES + 1, DIGEST_BYTES):
            self._digests[saved[i : i + DIGEST_BYTES]] = None

    def __contains__(self, digest: bytes) -> bool:
        return digest in self._digests

    def add(self, digest: bytes) -> None:
        """Notes a message as taken."""
        self._digests[digest] = None
        self._unsaved.append(digest)
        if len(self._digests) > MAX_SEEN:
            self._digests.popitem(last=False)

    def unsaved(self) -> bytes:
        """What was added since the last call."""
        unsaved, self._unsaved = b"".join(self._unsaved[-MAX_SEEN:]), []
        return unsaved


def digest(topic: str, payload: bytes) -> bytes:
    """Tells two messages apart."""
    return blake2b(payload, digest_size=DIGEST_BYTES, key=blake2b(topic.encode(), digest_size=32).digest()).digest()
