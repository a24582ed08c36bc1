"""A simulated device's memory: what it sends when, what it forgets, and that nothing is lost on any link."""

from __future__ import annotations

import random

import pytest

from simulators.resending import Memory, check_can_number
from stream_occ.codecs import load_codec
from stream_occ.errors import UsageError
from stream_occ.numbering import Numbering


def filled(n: int, **options: int) -> Memory:
    memory = Memory(**options)
    for seq in range(n):
        memory.add(bytes([seq]))
    return memory


def sent(memory: Memory, now_s: float, connection: int = 1) -> list[int]:
    """Numbers of all that is due now."""
    found = []
    while (payload := memory.due(now_s, connection)) is not None:
        found.append(payload[0])
    return found


def test_each_message_is_sent_once_while_the_service_answers() -> None:
    """0 to 4 at once; told of 2 it keeps two and sends nothing again."""
    memory = filled(5)
    assert sent(memory, 0.0) == [0, 1, 2, 3, 4]
    assert memory.hear(2, 1.0)
    assert (sent(memory, 2.0), len(memory), memory.n_again) == ([], 2, 0)
    assert memory.hear(4, 2.5)
    assert (len(memory), memory.told) == (0, 4)


def test_after_a_silence_all_that_is_not_told_of_is_sent_again_and_silences_double() -> None:
    """After 3, 6, 12 and again 12 s; a word of the service makes it 3 s again."""
    memory = filled(3)
    assert sent(memory, 0.0) == [0, 1, 2]
    heard = {t: sent(memory, float(t)) for t in range(1, 41)}
    assert {t for t, numbers in heard.items() if numbers} == {3, 9, 21, 33}
    assert heard[33] == [0, 1, 2]
    assert memory.n_again == 12
    memory.hear(0, 40.0)
    assert (sent(memory, 42.9), sent(memory, 43.0)) == ([], [1, 2])


def test_told_the_same_again_it_sends_again_but_not_at_every_word() -> None:
    """The service waits for number 1: at 1 s and at 2 s it is sent, not in between."""
    memory = filled(3)
    sent(memory, 0.0)
    memory.hear(0, 0.0)
    found = {}
    for now_s in (0.5, 1.0, 1.5, 2.0):
        memory.hear(0, now_s)
        found[now_s] = sent(memory, now_s)
    assert found == {0.5: [], 1.0: [1, 2], 1.5: [], 2.0: [1, 2]}


def test_silence_begins_when_something_is_sent() -> None:
    """A device that had nothing to say for a minute is in no hurry."""
    memory = Memory()
    assert sent(memory, 0.0) == []
    memory.add(b"\0")
    assert sent(memory, 60.0) == [0]
    assert (sent(memory, 62.9), sent(memory, 63.0)) == ([], [0])


def test_on_another_connection_all_that_is_not_told_of_is_sent_again_at_once() -> None:
    """A broker that was killed may have lost it."""
    memory = filled(4)
    sent(memory, 0.0)
    memory.hear(1, 0.5)
    assert sent(memory, 0.6, connection=2) == [2, 3]


def test_not_more_than_200_are_sent_beyond_what_is_told_of() -> None:
    """Message 200 waits until the service has number 0."""
    memory = filled(250)
    assert sent(memory, 0.0) == list(range(200))
    memory.hear(0, 1.0)
    assert sent(memory, 1.0) == [200]


@pytest.mark.parametrize("n", [12, 250])
def test_what_does_not_fit_is_dropped_the_oldest_first(n: int) -> None:
    """Ten are kept, which ever so many are gone; they are sent, and told of."""
    memory = filled(n, max_kept=10)
    assert (len(memory), memory.n_dropped) == (10, n - 10)
    assert sent(memory, 0.0) == list(range(n - 10, n))
    assert memory.hear(n - 1, 1.0)
    assert len(memory) == 0


@pytest.mark.parametrize("seq", [-1, 1, 5, 10**12])
def test_word_of_what_is_known_or_was_never_sent_changes_nothing(seq: int) -> None:
    """Old words come late; others' words are wrong."""
    memory = filled(5)
    memory.hear(1, 0.0)
    assert not memory.hear(seq, 1.0)
    assert (memory.told, len(memory)) == (1, 3)


@pytest.mark.parametrize("seed", range(20))
def test_broken_connections_lose_nothing_and_double_nothing(seed: int) -> None:
    """Every 2 to 6 s, for two minutes; what goes either way in the first and last half second of each connection is
    lost. The service takes 0, 1, 2, ... once each."""
    rng = random.Random(seed)
    memory, numbering, connection, begins, ends = Memory(), Numbering(), 0, 0, 0
    taken: list[int] = []
    for tick in range(2000):
        now_s = tick / 10
        if tick < 240:
            memory.add(bytes([tick]))
        if tick == ends:
            connection, begins, ends = connection + 1, tick, tick + (rng.randint(20, 60) if tick < 1200 else 10**6)
        is_lost = tick - begins < 5 or ends - tick <= 5
        numbers = sent(memory, now_s, connection)
        arrived = [] if is_lost else numbers
        taken += [seq for seq in arrived if numbering.take(("a", seq), now_s, resends=True) == ("taken", 0)]
        if numbering.is_due and tick % 10 == 0 and numbering.last is not None:
            numbering.is_due = False
            if not is_lost:
                memory.hear(numbering.last[1], now_s)
    assert taken == list(range(240))
    assert len(memory) == 0


@pytest.mark.parametrize("name", ["json", "msgpack", "cbor", "compact"])
def test_codecs_that_number_are_taken(name: str) -> None:
    """Those of docs/topics.md."""
    check_can_number(load_codec(name), name)


@pytest.mark.parametrize("name", ["csv", "senml", "phyphox", "sensor-logger"])
def test_codec_without_numbers_is_refused_in_one_line(name: str) -> None:
    """With those that have them."""
    with pytest.raises(UsageError, match="json, msgpack, cbor or compact"):
        check_can_number(load_codec(name), name)
