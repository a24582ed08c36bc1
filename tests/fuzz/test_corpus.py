"""Every seed and every earlier finding, and some thousands of damaged ones, each to a result or a counted refusal.

`scripts/fuzz` does the same for as long as one likes.
"""

from __future__ import annotations

import random
import time
from contextlib import suppress
from pathlib import Path

import pytest

from stream_occ.codecs import codec_names, load_codec
from stream_occ.errors import DataError, PayloadError
from stream_occ.samples import DeviceProfile
from tests.fuzz.corpus import CORPUS, seeds_of
from tests.fuzz.mutation import mutated
from tests.fuzz.targets import targets

NAMES = tuple(targets(Path("unused")))
N_DAMAGED = 150
MAX_SEED_BYTES = 20_000
ONE_MIB = 1024 * 1024


@pytest.mark.parametrize("name", NAMES)
def test_seeds_findings_and_damaged_ones_are_answered(name: str, tmp_path: Path) -> None:
    """The same damage in every run: it is scripts/fuzz that looks for more."""
    target, seeds, rng = targets(tmp_path)[name], seeds_of(name), random.Random(name)
    outcomes = {seed: target(content) for seed, content in seeds.items()}
    assert "taken" in outcomes.values(), outcomes
    for _ in range(N_DAMAGED):
        assert target(mutated(rng, list(seeds.values())))


def test_corpus_is_small_and_of_known_targets() -> None:
    """Shapes written by us, no recorded data."""
    assert {path.name for path in CORPUS.iterdir() if path.is_dir()} == set(NAMES)
    assert all(path.stat().st_size <= MAX_SEED_BYTES for path in CORPUS.rglob("*"))


@pytest.mark.parametrize("filler", [b"9", b" ", b'"', b",", b"\\", b"[", b"\n", b";", b"\x81"])
@pytest.mark.parametrize("name", codec_names())
def test_no_message_of_a_mebibyte_holds_the_service_up(name: str, filler: bytes) -> None:
    """Seconds at most, on any machine: a run of digits once took a time that grew with its square, hours in all."""
    seed = next(iter(seeds_of(f"codec-{name}").values()))
    payload = seed[:-1] + filler * (ONE_MIB - len(seed)) + b"x" + seed[-1:]
    started_s = time.process_time()
    with suppress(PayloadError):
        load_codec(name).decode(payload, device_id="w1", profile=DeviceProfile("m/s2", "rad/s", acc_sign=1))
    assert time.process_time() - started_s < 10.0


def test_error_of_a_huge_value_is_a_line_that_can_be_read() -> None:
    """The value stands in the line, and only its beginning."""
    assert len(str(DataError("file", "be short", "9" * 10**6, "Shorten it"))) < 1100
