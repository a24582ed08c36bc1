"""Model files under fire: any model comes back, any damage is a ModelError, never another exception."""

from __future__ import annotations

import hashlib
import json
import struct
from contextlib import suppress
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from stream_occ.artifacts import pack_model, unpack_model
from stream_occ.errors import ModelError
from stream_occ.scoring import Scaler
from tests.fake_model import SELF_TEST_SCORES, SELF_TEST_X, FrozenScorer, make_model

SIGNED = pack_model(make_model(), self_test_X=SELF_TEST_X, key=b"a key of twenty bytes")
CONTENT = pack_model(make_model(), self_test_X=SELF_TEST_X)
FINITE = st.floats(-1e6, 1e6)
PATIENT = settings(deadline=None)  # a shared machine may stall for longer than any example takes
THOROUGH = settings(deadline=None, max_examples=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def outcome(content: bytes) -> str:
    """`refused`, or `same` where the model loaded is the one that was written; anything else fails the test."""
    line = ""
    try:
        model = unpack_model(content)
    except ModelError as error:
        line = str(error)
    if line:
        assert "\n" not in line
        return "refused"
    assert model.threshold == 3.0
    assert model.score_features(SELF_TEST_X).tolist() == SELF_TEST_SCORES
    return "same"


def reassemble(header: Any, data: bytes) -> bytes:
    """A file whose digest fits whatever is in it."""
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    whole = struct.pack("<Q", len(text)) + text + data
    return whole.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + hashlib.sha256(whole).hexdigest().encode(), 1)


def test_every_byte_of_the_file_is_guarded() -> None:
    """Whatever single byte changes, the file is refused."""
    for position in range(len(CONTENT)):
        damaged = bytearray(CONTENT)
        damaged[position] ^= 1 << (position % 8)
        is_signature = CONTENT[8:].index(b'"hmac_sha256":"') + 8 + 15 <= position
        is_signature = is_signature and position < CONTENT[8:].index(b'","model"') + 8
        assert outcome(bytes(damaged)) == "refused" or is_signature, position


@PATIENT
@given(position=st.integers(0, len(SIGNED) - 1), value=st.integers(0, 255))
def test_any_byte_set_to_any_value_is_refused_or_the_same_model(position: int, value: int) -> None:
    """Also in a signed file: without the key, the digits of the signature are all that may change."""
    damaged = bytearray(SIGNED)
    damaged[position] = value
    outcome(bytes(damaged))


@PATIENT
@given(n_bytes=st.integers(0, len(CONTENT) - 1))
def test_any_truncation_is_refused(n_bytes: int) -> None:
    """A file cut anywhere is refused, down to no byte at all."""
    assert outcome(CONTENT[:n_bytes]) == "refused"


@PATIENT
@given(st.binary(max_size=300), st.booleans())
def test_random_bytes_are_refused(content: bytes, has_length: bool) -> None:
    """Noise, and noise behind a header length that fits."""
    assert outcome(struct.pack("<Q", len(content)) + content if has_length else content) == "refused"


N_HEADER = struct.unpack("<Q", CONTENT[:8])[0]
HEADER = json.loads(CONTENT[8 : 8 + N_HEADER])
CARD = json.loads(HEADER["__metadata__"]["model"])


def forged(card: Any, data: bytes = CONTENT[8 + N_HEADER :], **entries: Any) -> bytes:
    """The file with another card, other data or other array entries, and a digest that fits."""
    metadata = {"sha256": "0" * 64, "hmac_sha256": "0" * 64, "model": json.dumps(card)}
    return reassemble({**HEADER, **entries, "__metadata__": metadata}, data)  # keeps the metadata first


def test_forgery_without_a_change_is_the_same_model() -> None:
    """The forger of these tests knows the format: what it writes unchanged is accepted."""
    assert outcome(forged(CARD)) == "same"


@THOROUGH
@given(key=st.sampled_from(sorted(CARD)), value=JSON)
def test_any_card_with_a_fitting_digest_is_refused_or_a_model(key: str, value: Any) -> None:
    """A forger who fixes the digest gets a model or a ModelError, never a crash."""
    with suppress(ModelError):
        unpack_model(forged({**CARD, key: value}))


@THOROUGH
@given(
    name=st.sampled_from(sorted(set(HEADER) - {"__metadata__"})), field=st.sampled_from(["dtype", "shape"]), value=JSON
)
def test_any_array_entry_with_a_fitting_digest_is_refused_or_a_model(name: str, field: str, value: Any) -> None:
    """Wrong dtypes and shapes stop at the reader or at the scorer."""
    with suppress(ModelError):
        unpack_model(forged(CARD, **{name: {**HEADER[name], field: value}}))


@THOROUGH
@given(position=st.integers(0, len(CONTENT) - N_HEADER - 9), raw=st.binary(min_size=1, max_size=16))
def test_any_data_with_a_fitting_digest_is_refused_or_a_model(position: int, raw: bytes) -> None:
    """NaN, infinity and denormals in any array."""
    data = bytearray(CONTENT[8 + N_HEADER :])
    data[position : position + len(raw)] = raw
    del data[len(CONTENT) - N_HEADER - 8 :]
    with suppress(ModelError):
        unpack_model(forged(CARD, bytes(data)))


@PATIENT
@given(
    center=arrays(np.float64, 3, elements=FINITE),
    scale=arrays(np.float64, 3, elements=st.floats(1e-6, 1e6)),
    threshold=st.floats(-1e9, 1e9),
    rate_hz=st.floats(10.5, 1000),
    self_test_X=arrays(np.float64, st.tuples(st.integers(1, 9), st.just(3)), elements=FINITE),
    metadata=st.dictionaries(st.text(max_size=8), JSON, max_size=4),
)
def test_any_model_round_trips_bit_for_bit(
    center: np.ndarray,
    scale: np.ndarray,
    threshold: float,
    rate_hz: float,
    self_test_X: np.ndarray,
    metadata: dict[str, Any],
) -> None:
    """Numbers, arrays, scores and notes are the same to the last bit."""
    if "Infinity" in json.dumps(metadata):
        return
    model = make_model(
        scaler=Scaler("robust", center, scale),
        scorer=FrozenScorer(center * 0.5, 1),
        threshold=threshold,
        rate_hz=rate_hz,
        metadata=metadata,
    )
    loaded = unpack_model(pack_model(model, self_test_X=self_test_X))
    assert (loaded.threshold, loaded.rate_hz, loaded.metadata) == (threshold, rate_hz, metadata)
    assert loaded.scaler.center.tobytes() == center.tobytes()
    assert loaded.scaler.scale.tobytes() == scale.tobytes()
    assert loaded.score_features(self_test_X).tobytes() == model.score_features(self_test_X).tobytes()
