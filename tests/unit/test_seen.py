"""The digests of the last messages: a table of numbers that says what an ordered dict would."""

import random
import sys
from collections import OrderedDict

import pytest

from stream_occ import seen
from stream_occ.seen import DIGEST_BYTES, MAX_SEEN, Seen


class PlainSeen:
    """The same by an ordered dict."""

    def __init__(self, limit: int) -> None:
        self.digests: OrderedDict[bytes, None] = OrderedDict()
        self.limit = limit

    def add(self, digest: bytes) -> None:
        self.digests[digest] = None
        if len(self.digests) > self.limit:
            self.digests.popitem(last=False)


@pytest.mark.parametrize("limit", [1, 7, 1500])
def test_it_knows_what_an_ordered_dict_knows(limit: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """New, repeated and forgotten digests, while the table grows and long after; the oldest goes first."""
    monkeypatch.setattr(seen, "MAX_SEEN", limit)
    rng, ours, plain, sent = random.Random(limit), Seen(), PlainSeen(limit), [bytes(DIGEST_BYTES)]
    for _ in range(6 * limit + 20):
        digest = rng.choice(sent[-2 * limit :]) if rng.random() < 0.3 else rng.randbytes(DIGEST_BYTES)
        asked = [digest, rng.choice(sent[-3 * limit :]), rng.randbytes(DIGEST_BYTES)]
        assert [each in ours for each in asked] == [each in plain.digests for each in asked]
        ours.add(digest)
        plain.add(digest)
        sent.append(digest)
    assert all(each in ours for each in plain.digests)


def test_a_run_of_neighbouring_slots_survives_the_loss_of_any_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digests that all want the same slot, around the end of the table, stay known while older ones go."""
    monkeypatch.setattr(seen, "MAX_SEEN", 40)
    ours = Seen()
    monkeypatch.setattr(ours, "_factor", 1)  # the slot is then that of the upper 32 bits
    last_slot = (1 << 32) - 1
    digests = [((last_slot << 32) + i).to_bytes(DIGEST_BYTES, "little") for i in range(100)]
    for i, digest in enumerate(digests):
        ours.add(digest)
        assert [each in ours for each in digests] == [max(0, i - 39) <= j <= i for j in range(100)]


def test_a_full_table_takes_less_than_two_megabytes() -> None:
    """8 bytes a slot, two slots a digest, and the ring."""
    rng, ours = random.Random(0), Seen()
    for _ in range(MAX_SEEN + 100):
        ours.add(rng.randbytes(DIGEST_BYTES))
    ours.saved()
    assert sum(sys.getsizeof(part) for part in vars(ours).values()) < 2 * 2**20


def test_what_nobody_asks_for_is_bounded() -> None:
    """Where nothing is ever saved, the digests that wait to be saved are the last ones."""
    ours = Seen()
    for i in range(3 * MAX_SEEN):
        ours.add(i.to_bytes(DIGEST_BYTES, "little"))
    waiting = ours.unsaved()
    assert len(waiting) == MAX_SEEN * DIGEST_BYTES
    assert waiting.endswith((3 * MAX_SEEN - 1).to_bytes(DIGEST_BYTES, "little"))
    ours.saved()
    assert ours.unsaved() == b""


def test_what_is_saved_of_some_devices_waits_for_the_others() -> None:
    """In the order in which it came; what belongs to no device is in each save."""
    ours, a, b, c = Seen(), b"a" * DIGEST_BYTES, b"b" * DIGEST_BYTES, b"c" * DIGEST_BYTES
    ours.add(a, "w1")
    ours.add(b)
    ours.add(c, "w2")
    assert ours.unsaved({"w1"}) == b + c
    assert ours.unsaved() == a + b + c
    ours.saved({"w1"})
    assert ours.unsaved() == a
    assert all(digest in ours for digest in (a, b, c))
