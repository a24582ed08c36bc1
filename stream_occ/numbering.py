"""Messages that their device numbers, (boot, seq): which come next, which are missing, which came before.

A device that keeps what it sent until it is told that we have it (`resends`) is taken in order: what comes too early is
refused until the missing ones come, for at most PATIENCE_S in which it is heard; then the lowest that came goes first,
for as long again. What came before is not taken again. Of any other, all is taken, and the highest number counts; what
did not come before a later one may come within the time that samples wait for stragglers, then it is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from stream_occ.samples import NS_PER_S, IntArray

WINDOW = 200  # messages that such a device sends beyond the last that it was told of
MAX_SEQ = 2**63 - 1
MIN_BOOT, MAX_BOOT = -(2**63), 2**64 - 1  # whatever a device has as 64 random bits
MAX_BOOT_CHARACTERS = 64
PATIENCE_S = 15.0  # several times the 3 s after which a device sends again
FIRST_PATIENCE_S = 6.0  # with one of which no number is known: it is new, or it lost its place, and begins where it was
FIRST_WAIT_S, LONGEST_WAIT_S = 1.0, 8.0  # between two words that say the same: each makes the device send all again
HEARD_S = 3.0  # of a longer silence no more counts: a device that is away cannot send again

Number = tuple[int | str, int]
"""boot, different from start to start of the device, and seq, from 0."""


def is_boot(boot: object) -> bool:
    """True for an integer of 64 bits or a short text that UTF-8 can hold.

    >>> is_boot("7f3a"), is_boot(2**64 - 1), is_boot(2**64), is_boot(True), is_boot("x" * 65), is_boot("\\ud800")
    (True, True, False, False, False, False)
    """
    if type(boot) is str:
        return len(boot) <= MAX_BOOT_CHARACTERS and not any("\ud800" <= character <= "\udfff" for character in boot)
    return type(boot) is int and MIN_BOOT <= boot <= MAX_BOOT


def is_seq(seq: object) -> bool:
    """True for a whole number from 0 to MAX_SEQ."""
    return type(seq) is int and 0 <= seq <= MAX_SEQ


@dataclass(slots=True)
class Numbering:
    """last: the highest taken, of the latest boot. is_due: the device has to be told of it; told: what it was told
    last, which it is told again from due_s on, and n_untold: messages taken since; early_s: when a message came too
    early last, waited_s: how long so far, and lowest: of those messages. open: numbers that a later one came before,
    since when, and the stamp of the sample after the hole; newest_ns: the newest stamp of all."""

    last: Number | None = None
    told: Number | None = None
    is_due: bool = False
    n_untold: int = 0
    due_s: float = 0.0
    wait_s: float = 0.0
    early_s: float | None = None
    waited_s: float = 0.0
    lowest: Number | None = None
    open: dict[Number, tuple[float, int]] = field(default_factory=dict)
    newest_ns: int | None = None

    def take(self, number: Number, now_s: float, *, resends: bool) -> tuple[Literal["taken", "again", "early"], int]:
        """What a message is, and how many right before it have not come: with `resends`, that are missing for good."""
        boot, seq = number
        is_known = self.last is not None and self.last[0] == boot
        expected = self.last[1] + 1 if self.last is not None and is_known else 0 if resends else seq
        if seq < expected:
            self.is_due |= resends
            return "again" if resends else "taken", 0
        if resends and seq > expected:
            if self._is_early(number, now_s):
                self.is_due = True
                return "early", 0
            if self.last is None and self.lowest is not None:
                expected = self.lowest[1]  # what came before it may have been taken before
        self.n_untold += resends
        self.last, self.is_due, self.early_s, self.waited_s, self.lowest = number, True, None, 0.0, None
        return "taken", max(0, seq - expected)

    def _is_early(self, number: Number, now_s: float) -> bool:
        if self.early_s is not None:
            self.waited_s += min(now_s - self.early_s, HEARD_S)
        self.early_s = now_s
        if self.lowest is None or self.lowest[0] != number[0] or number[1] < self.lowest[1]:
            self.lowest = number
        patience_s = FIRST_PATIENCE_S if self.last is None else PATIENCE_S
        return self.waited_s < patience_s or (number != self.lowest and self.waited_s < 2 * patience_s)

    def settle(
        self, t_ns: IntArray, number: Number, n_before: int, now_s: float, reorder_s: float
    ) -> tuple[int, int | None]:
        """How many messages are now missing for good, and the stamp of a later one that came before this, where this
        was the last to be missing between: None, it was not.

        After `take`, and of a device that does not send again. t_ns: the message's stamps; n_before: messages right
        before it that have not come; one that does not within reorder_s is missing.
        """
        low_ns, high_ns = int(t_ns.min()), int(t_ns.max())
        is_in_time = self.newest_ns is None or low_ns > self.newest_ns - round(reorder_s * NS_PER_S)
        self.newest_ns = high_ns if self.newest_ns is None else max(self.newest_ns, high_ns)
        _, after_ns = self.open.pop(number, (0.0, 0))
        is_filled = is_in_time and high_ns < after_ns and all(t != after_ns for _, t in self.open.values())
        n_lost = n_before if len(self.open) + n_before > WINDOW else 0  # more is no disorder
        boot, seq = number
        self.open.update({(boot, seq - k): (now_s, int(t_ns[0])) for k in range(1, n_before - n_lost + 1)})
        gone = [each for each, (since_s, _) in self.open.items() if since_s <= now_s - reorder_s]
        for each in gone:
            del self.open[each]
        return n_lost + len(gone), after_ns if is_filled else None

    def is_to_be_told(self, now_s: float) -> bool:
        """True where the device waits for a word: of a new number at once, of the same after waits that double."""
        return self.is_due and self.last is not None and (self.last != self.told or now_s >= self.due_s)

    def tell(self, now_s: float) -> None:
        """The device is told of `last` now."""
        self.wait_s = min(2 * self.wait_s, LONGEST_WAIT_S) if self.last == self.told else FIRST_WAIT_S
        self.told, self.due_s, self.is_due, self.n_untold = self.last, now_s + self.wait_s, False, 0
