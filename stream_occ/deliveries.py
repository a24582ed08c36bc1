"""Messages that a broker delivers until they are acknowledged: which are new, and when it may forget them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stream_occ.inbox import Link, Received, Token
from stream_occ.intake import Intake
from stream_occ.seen import Seen, digest
from stream_occ.topics import Topics

# Messages are acknowledged when a save holds them. A broker that sends no more than so many without acknowledgements
# stands still until then: so many wait and none comes.
STALLED_MESSAGES = 16


class Deliveries:
    """Holds the tokens of what was taken; what has none is not the broker's concern and passes through."""

    def __init__(self, link: Link, intake: Intake, topics: Topics, seen: Seen, *, max_waiting: int) -> None:
        """seen: what was taken before, outlives the process; max_waiting: more are not left to wait for a save."""
        self._link = link
        self._intake = intake
        self._topics = topics
        self._seen = seen
        self._max_waiting = max_waiting
        self._tokens: list[Token] = []
        self._is_stalled = False

    @property
    def are_pressing(self) -> bool:
        """True where the broker waits for acknowledgements, or too many wait for a save."""
        return self._is_stalled or len(self._tokens) > self._max_waiting

    def fresh(self, messages: Sequence[Received]) -> Iterator[Received]:
        """Those of a slice's messages that were not taken before; all are to be acknowledged."""
        self._is_stalled = not messages and len(self._tokens) >= STALLED_MESSAGES
        for message in messages:
            if message.token is None:
                yield message
                continue
            self._tokens.append(message.token)
            key, is_command = digest(message.topic, message.payload), self._topics.is_command(message.topic)
            # Two acts, or two messages that are stamped at arrival, may be alike.
            may_be_alike = is_command or self._intake.is_stamped_here(message.topic)
            if key in self._seen and (message.is_again or not may_be_alike):
                self._intake.refuse_command("delivered_again", message.topic, "")
                self._intake.remind(message.topic)
                continue
            if is_command:
                self._seen.add(key)
            yield message

    def took(self, message: Received) -> None:
        """Notes that a device's state holds the message's samples."""
        if message.token is not None:
            self._seen.add(digest(message.topic, message.payload))

    def acknowledge(self) -> None:
        """Lets the broker forget what was taken so far."""
        if self._tokens:
            self._link.acknowledge(self._tokens)
            self._tokens = []
