"""Damage at random: what a mutation loop of our own does to seeds where atheris is not installed."""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence

MAX_BYTES = 16_384
TOKENS = tuple(
    token.encode()
    for token in (
        *"\"'[]{},:;|%#\n\t\x00\u2028\u202e\ufeff\u0661",
        *(
            "\r\n",
            "&a",
            "*a",
            "!!",
            "- ",
            "? ",
            "\\u0000",
            "\\ud800",
            "\x1b[2J",
            "",
            "[[[[[[[[[[",
            "a" * 300,
            "device",
            "w1",
        ),
        *("null", "true", "NaN", "nan", "Infinity", "-inf", "0", "-0", "-1", "1e999", "1e-999", "1.5", "0x1", "1_0"),
        *("9223372036854775807", "18446744073709551616", "4611686018427387904", "1700000000", "9" * 40, "9" * 4400),
    )
)
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**62, 2**63 - 1, 2**63)
_FLOATS = (float("nan"), float("inf"), float("-inf"), 5e-324, -0.0, 1.7e308)


def mutated(rng: random.Random, seeds: Sequence[bytes]) -> bytes:
    """One of the seeds with one to six changes, each where chance has it."""
    data = bytearray(rng.choice(seeds))
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 6))):
        rng.choice(_CHANGES)(rng, data, seeds)
    return bytes(data[:MAX_BYTES])


def _span(rng: random.Random, data: bytearray) -> slice:
    start = rng.randint(0, len(data))
    return slice(start, min(len(data), start + rng.choice((1, 1, 2, 4, 8, 30, 200))))


def _flip(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[rng.randrange(len(data))] = rng.choice((0, 1, 0x20, 0x7F, 0x80, 0xFE, 0xFF, rng.randrange(256)))


def _delete(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[_span(rng, data)]


def _repeat(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    span = _span(rng, data)
    data[span.stop : span.stop] = data[span] * rng.choice((1, 2, 9, 60))


def _cut(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[rng.randint(0, len(data)) :]


def _token(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    span = _span(rng, data)
    data[span if rng.random() < 0.5 else slice(span.start, span.start)] = rng.choice(TOKENS)


def _number(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """A binary number over what is there."""
    order, start = rng.choice("<>"), rng.randint(0, len(data))
    if rng.random() < 0.3:
        raw = struct.pack(order + rng.choice("fd"), rng.choice(_FLOATS[:5]))
    else:
        code, n_bits = rng.choice((("B", 8), ("H", 16), ("I", 32), ("Q", 64)))
        raw = struct.pack(order + code, rng.choice(NUMBERS) & (2**n_bits - 1))
    data[start : start + len(raw)] = raw


def _splice(rng: random.Random, data: bytearray, seeds: Sequence[bytes]) -> None:
    """A piece of another seed."""
    other = bytearray(rng.choice(seeds))
    data[_span(rng, data)] = other[_span(rng, other)]


def _digits(rng: random.Random, data: bytearray, _: Sequence[bytes]) -> None:
    """A number in a text becomes another."""
    places = [i for i, byte in enumerate(data) if 0x30 <= byte <= 0x39]
    if places:
        start = stop = rng.choice(places)
        while stop < len(data) and (0x30 <= data[stop] <= 0x39 or data[stop] in b".eE+-"):
            stop += 1
        data[start:stop] = rng.choice(
            (str(rng.choice(NUMBERS)), str(rng.uniform(-100, 100)), *map(str, _FLOATS))
        ).encode()


_CHANGES = (_flip, _set, _delete, _repeat, _cut, _token, _token, _number, _splice, _digits)
