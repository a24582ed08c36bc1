"""JSON read fast, with and without compiled code: the samples and refusals of the careful way, to the last letter."""

import json
import math
import random
import struct
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from stream_occ import engines
from stream_occ.codecs import json as codec
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, SampleBlock
from tests.fuzz.mutation import mutated

CORPUS = Path(__file__).parents[1] / "corpus" / "codec-json"
PROFILES = (
    DeviceProfile(),
    DeviceProfile("m/s2", "rad/s"),
    DeviceProfile("g", "deg/s", axes=("-z", "x", "y"), acc_sign=-1),
    DeviceProfile("g", "deg/s", acc_counts_per_unit=16384, gyr_counts_per_unit=131),
    DeviceProfile("mg", "mdeg/s", gravity="excluded"),
)
T = 1_700_000_000_000_000_000
UNITS = '"units":{"acc":"g","gyr":"deg/s"}'
ROWS = "[[1,2.5,-3e-1],[0.001,-0,-0.0]]"
BATCH = f'{{"t_ns":[{T},{T + 1}],"acc":{ROWS},"gyr":{ROWS},{UNITS}}}'

Outcome = tuple[object, ...]


@pytest.fixture(autouse=True, params=["numpy", "compiled"])
def engine(request: pytest.FixtureRequest) -> Iterator[str]:
    if request.param == "compiled":
        pytest.importorskip("numba")
    engines.select(request.param)
    engines.warm()
    yield request.param
    engines.select("auto")


def outcome(read: Callable[[], SampleBlock]) -> Outcome:
    """The bits of a block, or the words of the refusal."""
    try:
        block = read()
    except PayloadError as error:
        return error.reason, str(error), error.t_ns
    arrays = block.t_ns, block.acc_ms2, block.gyr_rads
    return (block.device_id, block.number, *((a.dtype, a.shape, a.tobytes()) for a in arrays))


def check(payload: bytes, profile: DeviceProfile) -> Outcome:
    """The outcome of `decode`, which the careful way shares."""
    found = outcome(lambda: codec.decode(payload, device_id="w1", profile=profile)[0])
    assert found == outcome(lambda: codec._carefully(payload, "w1", profile)), payload[:300]
    return found


def messages(rng: random.Random) -> Iterator[bytes]:
    """Messages of every documented shape, with numbers as devices write them."""
    for form in ("", ".3f", ".6g", ".17g", ".1e"):
        n = rng.randrange(1, 8)
        rows = [[format(rng.gauss(0, 9), form) if form else repr(rng.gauss(0, 9)) for _ in range(3)] for _ in range(n)]
        text = "[" + ", ".join("[" + ",".join(row) + "]" for row in rows) + "]"
        samples = f'"acc": {text},\n "gyr" :{text}'
        tail = rng.choice(["", f",{UNITS}", ',"units":null,"battery":93.5', ',"seq":7,"boot":"7f3a",' + UNITS])
        steps = [20 * i for i in range(n)]
        for stamps in (
            f'"t_ns":{[T + step for step in steps]}',
            f'"t_us":{[T // 1000 + step for step in steps]}',
            f'"t_ms":{[T // 10**6 + step for step in steps]}',
            f'"t_s":{[T / 1e9 + step for step in steps]}',
            f'"t0_ms":{T // 10**6},"rate_hz":50',
            f'"t0_s":{T // 10**9}.25,"rate_hz":104.5',
        ):
            yield f"{{{stamps},{samples}{tail}}}".encode()
        row = f"[{','.join(rows[0])}]"
        yield f'{{"seq":{rng.randrange(9)},"boot":5,"t_ns":{T},"acc":{row},"gyr":{row},{UNITS},"device":"w1"}}'.encode()


def test_documented_messages_give_the_bits_of_the_careful_way() -> None:
    """Every shape, stamp, unit and way to write a number, by every profile."""
    rng = random.Random(0)
    taken = 0
    for _ in range(12):
        for payload in messages(rng):
            for profile in PROFILES:
                taken += len(check(payload, profile)) > 3
    assert taken > 900


def test_damaged_messages_are_refused_in_the_same_words() -> None:
    """Thousands of them, from seeds of the corpus and of every shape."""
    rng = random.Random(1)
    seeds = [path.read_bytes() for path in sorted(CORPUS.iterdir())] + list(messages(rng)) + [BATCH.encode()]
    reasons = set()
    for number in range(6000):
        found = check(mutated(rng, seeds), PROFILES[number % 3])
        reasons.add(found[0])
    assert len(reasons) > 10


def variant(old: str, new: str) -> bytes:
    assert old in BATCH
    return BATCH.replace(old, new, 1).encode()


@pytest.mark.parametrize(
    "payload",
    [
        variant("-0.0]]", "-0.0]].5"),  # what is left of it after the arrays must not become a number
        variant("-0.0]]", "-0.0]]e5"),
        variant("-0.0]]", "-0.0]] 5"),
        variant(f"{T + 1}]", f"{T + 1}]0"),
        variant('"acc":', '"acc":[[1,2,3],[4,5,6]],"acc":'),
        variant('"acc":', '"gyr":null,"acc":'),
        variant('"acc":', '"acc" '),
        variant('"acc":', '"x":"acc":'),
        variant('"acc":', '"x":{"acc":[[1,2,3]]},"acc":'),
        variant('"acc":', '"x":[{"acc":[[1,2,3]]}],"acc":'),
        variant('"acc":', '"x":[[1,2,3]],"acc":'),
        variant('"acc":', '"x":[[[[[[[[[1]]]]]]]]],"acc":'),
        variant('"acc":', '"x":"\\ud800","acc":'),
        variant('"acc":', '"x":"\\u00e9","acc":'),
        variant('"acc":', '"12:30":"12:30:59","acc":'),
        variant('"acc":', '"a\tb":1,"acc":'),
        variant('"acc":', f'"x":{"9" * 4400},"acc":'),
        variant('"acc":', f'"x":{2**64},"acc":'),
        variant('"acc":', '"x":1e999,"acc":'),
        variant('"acc":', '"x":NaN,"acc":'),
        variant('"acc":', '"t_us":5,"acc":'),
        variant('"acc":', '"t0_ns":5,"acc":'),
        variant('"acc":', '"seq":5,"seq":6,"boot":1,"acc":'),
        variant('"acc":', '"seq":-5,"boot":1,"acc":'),
        variant('"acc":', '"seq":5.0,"boot":1,"acc":'),
        variant('"acc":', '"seq":null,"boot":1,"acc":'),
        variant('"acc":', f'"seq":{2**63 - 1},"boot":1,"acc":'),
        variant('"acc":', f'"seq":{2**63},"boot":1,"acc":'),
        variant('"acc":', '"seq":05,"boot":1,"acc":'),
        variant('"acc":', '"seq":true,"boot":1,"acc":'),
        variant('"acc":', '"seq":[5],"boot":1,"acc":'),
        variant('"acc":', '"device":"w2","acc":'),
        variant('"acc":', f'"firmware":"{"x" * 300}","acc":'),
        variant("[[1,", "[[1.,"),
        variant("[[1,", "[[01,"),
        variant("[[1,", "[[+1,"),
        variant("[[1,", "[[.5,"),
        variant("[[1,", "[[-,"),
        variant("[[1,", "[[1e,"),
        variant("[[1,", "[[1e+,"),
        variant("[[1,", "[[1e5,"),
        variant("[[1,", "[[1e-0000000000000000000005,"),
        variant("[[1,", "[[1e400,"),
        variant("[[1,", "[[1e-400,"),
        variant("[[1,", "[[0e5,"),
        variant("[[1,", "[[-0e5,"),
        variant("[[1,", "[[true,"),
        variant("[[1,", '[["1",'),
        variant("[[1,", "[[null,"),
        variant("[[1,", "[[[1],"),
        variant("[[1,", "[[,"),
        variant("[[1,", f"[[{'9' * 25},"),
        variant("[[1,", f"[[0.{'0' * 30}{'9' * 25},"),
        variant("[[1,", f"[[1.{'3' * 60},"),
        variant("[[1,2.5", "[[1"),
        variant("[[1,", "[[1,2,3,4],[1,"),
        variant(f"[{T},", "["),
        variant(f"[{T},", f"[{2**62},"),
        variant(f"[{T},", f"[{2**62 - 1},"),
        variant(f"[{T},", f"[{2**64 + T},"),
        variant(f"[{T},", "[-5,"),
        variant(f"[{T},", "[0,"),
        variant(f"[{T},", "[00,"),
        variant(f'"t_ns":[{T},{T + 1}]', f'"t_ns":{T}'),
        variant(f'"t_ns":[{T},{T + 1}]', '"t_ns":[]'),
        variant(f'"t_ns":[{T},{T + 1}]', '"t0_ns":5,"rate_hz":true'),
        variant(f'"t_ns":[{T},{T + 1}]', '"t0_ns":5'),
        variant(f'"t_ns":[{T},{T + 1}]', '"t0_ns":[5],"rate_hz":50'),
        variant(f'"t_ns":[{T},{T + 1}]', '"t_ns":[5'),
        variant(ROWS, "[]"),
        variant(ROWS, "[1,2,3]"),
        b"[" + BATCH.encode() + b"]",
        BATCH.encode() + b"\0",
        BATCH.encode() + b"}",
        b"\xef\xbb\xbf" + BATCH.encode(),
        BATCH.encode()[:-1],
        BATCH[: len(BATCH) // 2].encode(),
        variant('"acc"', '"\xff"').decode().encode("latin-1"),
        b"",
        b" ",
        b"[" * 100_000,
        b'{"acc":' * 50_000,
        b'{"t_ns":[' + b"1," * 30_000 + b'1],"acc":' + b"[[1,1,1]," * 30_000,
    ],
)
def test_a_trap_ends_as_on_the_careful_way(payload: bytes) -> None:
    """Each is something that only one of two parsers might let pass."""
    for profile in PROFILES[:3]:
        check(payload, profile)


def decimals(rng: random.Random) -> Iterator[str]:
    """Numbers as texts: of sensors, of any size, and those that lie next to the middle of two floats."""
    for _ in range(4000):
        yield repr(rng.gauss(0, 9))
        yield f"{rng.gauss(0, 30):.{rng.randrange(1, 16)}f}"
        yield f"{rng.choice(['', '-'])}{rng.randrange(10 ** rng.randrange(1, 18))}e-{rng.randrange(20, 50)}"
        x = rng.uniform(1, 20)
        middle = (Fraction(x) + Fraction(math.nextafter(x, math.inf))) / 2
        yield f"{int(middle * 10**16) + rng.choice([0, 1])}e-16"


def test_numbers_are_rounded_as_python_does() -> None:
    """To nearest, ties to even, and -0.0 kept: `float` is the judge, whose rounding is proven right."""
    rng = random.Random(2)
    texts = [text for text in decimals(rng) if abs(float(text)) < 1000.0]
    texts += ["-0.0", "0.0", "-0.0e0", "9007199254740993e-14", "123456789012345678e-16", "0.1", "0.3", "5e-324"]
    texts = texts[: len(texts) // 3 * 3]
    for part in range(0, len(texts), 3 * 40):
        chosen = texts[part : part + 3 * 40]
        rows = "[" + ",".join("[" + ",".join(chosen[i : i + 3]) + "]" for i in range(0, len(chosen), 3)) + "]"
        payload = f'{{"t0_ns":5,"rate_hz":50,"acc":{rows},"gyr":{rows},"units":{{"acc":"m/s2","gyr":"rad/s"}}}}'
        [block] = codec.decode(payload.encode(), device_id="w1", profile=DeviceProfile())
        expected = struct.pack(f"{len(chosen)}d", *map(float, chosen))
        assert block.acc_ms2.tobytes() == block.gyr_rads.tobytes() == expected


def test_documented_messages_take_the_fast_way(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All but stamps with a point: the careful reader is not needed, nor with compiled code any list."""

    def not_needed(*_: object, **__: object) -> None:
        raise AssertionError

    rng = random.Random(3)
    chosen = [payload for payload in messages(rng) if b'"t_s"' not in payload and b'"t0_s"' not in payload]
    monkeypatch.setattr(codec, "json_text", not_needed)
    if engine == "compiled":
        monkeypatch.setattr(codec, "block_of_document", not_needed)
    for payload in chosen:
        profile = DeviceProfile() if b'"units":{' in payload else DeviceProfile("g", "deg/s")
        [block] = codec.decode(payload, device_id="w1", profile=profile)
        message = json.loads(payload)
        rows = np.array(message["acc"], dtype=np.float64).reshape(-1, 3)
        np.testing.assert_array_equal(block.acc_ms2, rows * 9.80665)


def test_what_is_remembered_of_messages_is_bounded() -> None:
    """Messages that differ in all but their samples leave nothing behind but a bounded number of short forms."""
    from stream_occ.codecs import _quick_json

    for number in range(3000):
        codec.decode(variant('"acc":', f'"x":{number},"acc":'), device_id="w1", profile=DeviceProfile())
    assert _quick_json._form.cache_info().currsize <= 1024


def test_block_holds_no_more_than_its_samples() -> None:
    """The signals behind an alert are blocks of the last seconds: room for what a message might have held would be kept
    with each."""
    rows = json.dumps([[0.123456789012345, -9.80665, 0.1]] * 25)
    payload = f'{{"t_ns":{[T + k for k in range(25)]},"acc":{rows},"gyr":{rows}}}'.encode()
    [block] = codec.decode(payload, device_id="w1", profile=DeviceProfile("m/s2", "rad/s"))
    owners = {}
    for array in (block.t_ns, block.acc_ms2, block.gyr_rads):
        while isinstance(array.base, np.ndarray):
            array = array.base
        owners[id(array)] = array
    assert sum(array.nbytes for array in owners.values()) <= 2 * 25 * 7 * 8
