"""Messages that a broker, or a device that numbers them, keeps until it is told that we have them.

Which are new, and when they may be forgotten: where a save holds them. A save holds some devices; messages are let go
in their order, up to the first whose device has not been saved since. While none can be made (a full disk) only so many
are let go that messages still come, the oldest first, and they are counted: a kill loses them, but to hear nothing
would mean to see no fall.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager

from stream_occ.inbox import Link, Received, Token
from stream_occ.intake import Intake
from stream_occ.messages import ReceivedUpToMessage
from stream_occ.numbering import WINDOW, Number
from stream_occ.seen import Seen, digest
from stream_occ.topics import Topics

log = logging.getLogger("stream_occ.deliveries")

# Messages are acknowledged when a save holds them. A broker that sends no more than so many without acknowledgements
# stands still until then: so many wait and none comes.
STALLED_MESSAGES = 16
NUMBERED_SAVE_S = 1.0  # a device that sends again what it is not told of must be told soon
MANY, PRESSING = 0.5, 0.75  # of what comes without our word: then a save is made at once, or of all that waits
ROOM = 0.75  # of what comes without our word: what of it waits while nothing can be saved
# While nothing can be saved, so long a silence is the broker's, that sends no more; where devices leave longer holes
# between their messages, twice the longest, and holes beyond LONGEST_HOLE_S are no rhythm.
STALLED_S, LONGEST_HOLE_S = 3.0, 10.0


class Deliveries:
    """Holds the tokens of what was taken; what has none is not the broker's concern and passes through."""

    def __init__(
        self,
        link: Link,
        intake: Intake,
        topics: Topics,
        seen: Seen,
        shield: Callable[[str, float], AbstractContextManager[None]],
        *,
        max_unacknowledged: int,
    ) -> None:
        """seen: what was taken before, outlives the process; max_unacknowledged: then the broker sends no more."""
        self.dropped: Counter[str] = Counter()  # what was let go while no save held it
        self._link = link
        self._intake = intake
        self._topics = topics
        self._seen = seen
        self._shield = shield
        self._max_unacknowledged = self._window = max_unacknowledged
        self._tokens: list[Token] = []
        self._digest = b""  # of the message that `fresh` gave last
        self._n_before = 0  # tokens before those of `_tokens`: let go, or of an earlier connection
        self._first: dict[str, int] = {}  # of an unsaved device: number of the first token that no save of it covers
        self._is_stalled = False
        self._heard_s = self._stalled_s = 0.0
        self._hole_s = 0.0

    def numbers(self, now_s: float) -> dict[str, Number]:
        """What numbering devices are to be told of, once it is saved."""
        known = ((name, self._intake.devices[name].numbering) for name in self._intake.numbered)
        return {
            name: numbering.last
            for name, numbering in known
            if numbering.is_due and numbering.is_to_be_told(now_s) and numbering.last is not None
        }

    @property
    def are_many(self) -> bool:
        """True where so many wait for a save that one must not be put off."""
        return len(self._tokens) > self._max_unacknowledged * MANY

    @property
    def are_pressing(self) -> bool:
        """True where the broker waits for our word on all, or will soon."""
        return self._is_stalled or len(self._tokens) > self._max_unacknowledged * PRESSING

    def fresh(self, messages: Sequence[Received], now_s: float) -> Iterator[Received]:
        """Those of a slice's messages that were not taken before; all are to be acknowledged."""
        if messages:
            self._hole_s = max(0.99 * self._hole_s, min(now_s - self._heard_s, LONGEST_HOLE_S))
            self._heard_s = now_s
        self._is_stalled = not messages and len(self._tokens) >= STALLED_MESSAGES
        for message in messages:
            if message.token is None:
                yield message
                continue
            if self._tokens and self._tokens[-1].connection != message.token.connection:
                self._n_before += len(self._tokens)  # nothing can be acknowledged of an earlier connection
                self._tokens = []
            self._tokens.append(message.token)
            is_command = self._topics.is_command(message.topic)
            # Two acts, or two messages that are stamped at arrival, may be alike. A second delivery has the id of the
            # first, and says that it is one: the id alone is no proof, since ids are used anew.
            may_be_alike = is_command or self._intake.is_stamped_here(message.topic)
            self._digest = digest(message.topic, message.payload, message.token.mid if may_be_alike else 0)
            if self._digest in self._seen and (message.is_again or not may_be_alike):
                self._intake.refuse_command("delivered_again", message.topic, "")
                self._intake.remind(message.topic)
                continue
            if is_command:
                self._seen.add(self._digest)
            yield message

    def took(self, message: Received, names: Iterable[str], *, is_refused: bool = False) -> None:
        """Notes that the devices' states hold the latest message's samples; or, refused, that they are missing."""
        if message.token is not None:
            for name in names:
                if not is_refused:  # once more it is refused once more
                    self._seen.add(self._digest, name)
                self._first.setdefault(name, self._n_before + len(self._tokens) - 1)

    def acknowledge(self, unsaved: Set[str] = frozenset()) -> None:
        """Lets the broker forget what is saved, or would be if anything ever were; unsaved: devices that are not."""
        self._window = self._max_unacknowledged
        self._first = {name: n for name, n in self._first.items() if name in unsaved}
        n_kept = min(self._first.values(), default=self._n_before + len(self._tokens)) - self._n_before
        self._release(max(0, n_kept))

    def tell(self, numbers: Mapping[str, Number], now_s: float) -> None:
        """Lets devices forget the messages up to these numbers."""
        for name, (boot, seq) in numbers.items():
            self._intake.devices[name].numbering.tell(now_s)
            with self._shield(name, now_s):
                payload = ReceivedUpToMessage(boot=boot, seq=seq).to_payload()
                self._link.publish(self._topics.received_up_to(name), payload, qos=0, is_retained=False)

    def make_room(self, now_s: float) -> None:
        """While nothing can be saved: lets go of the oldest messages where without that no more would come.

        The broker may send fewer than we allow; a silence tells how many.
        """
        is_silent = now_s - self._heard_s >= max(STALLED_S, 2 * self._hole_s)
        if is_silent and self._tokens and self._stalled_s != self._heard_s:  # once a silence
            self._stalled_s, self._window = self._heard_s, len(self._tokens)
        n_before = self.dropped.total()
        if len(self._tokens) > self._window * ROOM:
            n = len(self._tokens) - self._window // 2
            self.dropped["acknowledged_unsaved"] += n
            self._release(n)
        for name, number in self.numbers(now_s).items():
            n_untold = self._intake.devices[name].numbering.n_untold
            if n_untold >= WINDOW * ROOM:
                self.dropped["told_unsaved"] += n_untold
                self.tell({name: number}, now_s)
        n_now = self.dropped.total()
        if n_before.bit_length() < n_now.bit_length():  # twice as many as when it was last said
            log.error("%d messages are let go that are not saved: else no more would come", n_now)

    def _release(self, n: int) -> None:
        if n:
            self._link.acknowledge(self._tokens[:n])
            self._tokens = self._tokens[n:]
            self._n_before += n
