"""Model files (`.occ`): written whole or not at all, memory-mapped, and refused with one line where anything is off.

The container is safetensors (`container.py`); no code is in it and nothing is unpickled. Its metadata has three
strings, in this order and first in the file: `sha256`, `hmac_sha256` and `model`, the last a JSON object (`Card`).

`sha256` is the SHA-256 of the whole file with the 64 digits of `sha256` and of `hmac_sha256` replaced by zeros. Its
first 12 digits are the model's id, so that a signed model has the id of the same model unsigned.
`hmac_sha256` is the HMAC-SHA256, under the key, of the 32 bytes of `sha256`; 64 zeros in an unsigned file.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from stream_occ import features
from stream_occ.artifacts import container
from stream_occ.artifacts.card import UNITS, Card, DetectorCard, FeatureSetCard, ModelInfo, SelfTest, first_problem
from stream_occ.artifacts.container import FormatError, Header
from stream_occ.artifacts.files import RETRAIN, map_file, write_whole
from stream_occ.errors import ConfigError, ModelError
from stream_occ.regular import open_regular
from stream_occ.samples import FloatArray
from stream_occ.scoring import Arrays, Model, Scaler, Scorer, load_scorer

FORMAT_VERSION = 1
SELF_TEST_RTOL = 1e-9  # another processor's log and exp may differ in the last digits; SHA-256 guards the bits
MAX_SELF_TEST_ROWS = 256
MIN_KEY_BYTES = 16
MAX_KEY_BYTES = 4096

_SCORER_PREFIX = "scorer."
_NO_DIGEST = "0" * 64
_PREFIX = re.compile(rb'\{"__metadata__":\{"sha256":"([0-9a-f]{64})","hmac_sha256":"([0-9a-f]{64})","model":"')
_SHA_AT = len(b'{"__metadata__":{"sha256":"')
_HMAC_AT = _SHA_AT + 64 + len(b'","hmac_sha256":"')


def save_model(model: Model, path: str | Path, *, self_test_X: FloatArray, key: bytes | None = None) -> str:
    """Writes the model whole or not at all and returns its id (`model.model_id` is not looked at).

    self_test_X: unscaled feature rows (n, d), n from 1 to 256; their scores are stored and computed anew at each load.
    key: signs the file. Written beside the target, flushed to the disk, read back and verified, then renamed over it.
    Raises ModelError where the model holds what a file cannot, StreamOccError where the disk refuses.
    """
    target = Path(path)
    content = pack_model(model, self_test_X=self_test_X, key=key)
    loaded = unpack_model(content, where=str(target), key=key)
    write_whole(target, content)
    return loaded.model_id


def load_model(path: str | Path, *, key: bytes | None = None) -> Model:
    """The model of a file, its arrays mapped read-only; raises ModelError, one line, where anything is off.

    Everything is verified: structure, SHA-256, signature (where a key is given, an unsigned or wrongly signed file is
    refused), feature set, scorer, self-test. Hashing takes about 1 ms a megabyte, the self-test one scoring of at most
    256 rows. What is mapped is a copy of ours: what then becomes of the file changes nothing of what was verified.
    """
    return verify_model(path, key=key)[0]


def verify_model(path: str | Path, *, key: bytes | None = None) -> tuple[Model, SelfTest]:
    """As `load_model`, and what the self-test measured."""
    where = str(path)
    _read_card(map_file(path), where)  # first: what is large and no model is not copied
    buffer = map_file(path, is_copied=True)
    header, card = _read_card(buffer, where)
    return _verified(buffer, header, card, where=where, key=key)


def read_info(path: str | Path) -> ModelInfo:
    """What a model file says of itself, without its arrays; only the structure is verified."""
    where = str(path)
    buffer = map_file(path)
    header, card = _read_card(buffer, where)
    return _info(header, card, where, len(buffer))


def pack_model(model: Model, *, self_test_X: FloatArray, key: bytes | None = None) -> bytes:
    """The bytes of the model's file: the same model, self-test and key give the same bytes."""
    X = np.ascontiguousarray(self_test_X, dtype=np.float64)
    if X.ndim != 2 or not 1 <= X.shape[0] <= MAX_SELF_TEST_ROWS or X.shape[1] != len(model.feature_set.NAMES):
        raise ValueError(f"self_test_X must be (1 to {MAX_SELF_TEST_ROWS}, {len(model.feature_set.NAMES)}); {X.shape}")
    arrays: dict[str, NDArray[Any]] = {
        "scaler.center": model.scaler.center,
        "scaler.scale": model.scaler.scale,
        "self_test.X": X,
        "self_test.scores": model.score_features(X),
    }
    if model.sos is not None:
        arrays["sos"] = model.sos
    arrays |= {_SCORER_PREFIX + name: array for name, array in model.scorer.arrays().items()}
    unhashed = container.pack({}, arrays)
    data_start = 8 + int.from_bytes(unhashed[:8], "little")
    card = _card(model, hashlib.sha256(memoryview(unhashed)[data_start:]).hexdigest())
    try:
        text = json.dumps(card.model_dump(), sort_keys=True, allow_nan=False)
        metadata = {"sha256": _NO_DIGEST, "hmac_sha256": _NO_DIGEST, "model": text}
        content = container.pack(metadata, arrays)
    except (ValueError, TypeError) as error:
        raise ModelError("model", "hold finite numbers, text, lists and tables alone", str(error), RETRAIN) from error
    digest = hashlib.sha256(content).digest()
    content[8 + _SHA_AT : 8 + _SHA_AT + 64] = digest.hex().encode()
    if key is not None:
        content[8 + _HMAC_AT : 8 + _HMAC_AT + 64] = _sign(key, digest).encode()
    return bytes(content)


def unpack_model(content: bytes, *, where: str = "model", key: bytes | None = None) -> Model:
    """The model of a file's bytes, verified as `load_model` does."""
    header, card = _read_card(content, where)
    return _verified(content, header, card, where=where, key=key)[0]


def read_key(path: str | Path) -> bytes:
    """The signing key in a file, without a line end; ModelError where it cannot be read or is too short."""
    try:
        with open_regular(path) as stream:
            key = stream.read(MAX_KEY_BYTES + 1).rstrip(b"\r\n")
    except OSError as error:
        raise ModelError(str(path), "be a readable key file", error.strerror or "an error", "Check its name") from error
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        expected = f"hold a key of {MIN_KEY_BYTES} to {MAX_KEY_BYTES} bytes"
        raise ModelError(str(path), expected, "another length", "Make one with: openssl rand -hex 32")
    return key


def _card(model: Model, arrays_sha256: str) -> Card:
    kind = model.scorer.KIND
    lowpass_hz = model.feature_set.lowpass_hz
    try:
        return Card(
            format_version=FORMAT_VERSION,
            detector=DetectorCard(kind=kind, params=model.scorer.params()),
            feature_set=FeatureSetCard(
                name=model.feature_set.name, version=model.feature_set.version, names=list(model.feature_set.NAMES)
            ),
            rate_hz=float(model.rate_hz),
            window_s=float(model.window_s),
            hop_s=float(model.hop_s),
            units=UNITS,
            filter=None if model.sos is None else f"first-order Butterworth low-pass, {lowpass_hz} Hz",
            scaler=model.scaler.kind,
            threshold=float(model.threshold),
            self_test_rtol=SELF_TEST_RTOL,
            arrays_sha256=arrays_sha256,
            metadata=model.metadata,
        )
    except ValidationError as error:
        raise ModelError("model", "have a valid card", first_problem(error), RETRAIN) from error


def _read_card(buffer: Any, where: str) -> tuple[Header, Card]:
    """The checked header and card; the format version is looked at before anything that a later one may change."""
    try:
        n_header = container.header_length(bytes(buffer[:8]), len(buffer))
        header = container.parse_header(bytes(buffer[8 : 8 + n_header]), len(buffer))
        if set(header.metadata) != {"sha256", "hmac_sha256", "model"} or not _PREFIX.match(header.text):
            raise FormatError("be a model of stream_occ", "a safetensors file of something else")
        table = container.loads_strict(header.metadata["model"])
    except FormatError as error:
        _refuse_format(where, buffer, error)
    version = table.get("format_version")
    if type(version) is int and version > FORMAT_VERSION:
        raise ModelError(
            where,
            f"have format version {FORMAT_VERSION} or lower",
            f"version {version if version < 1 << 62 else 'beyond 2**62'}",
            "Install a newer stream_occ, or train the model again with this one",
        )
    try:
        return header, Card.model_validate(table)
    except ValidationError as error:
        raise ModelError(where, "have a valid card", first_problem(error), RETRAIN) from error


def _refuse_format(where: str, buffer: Any, error: FormatError) -> NoReturn:
    starts_like_one = _PREFIX.match(bytes(buffer[8 : 8 + 512])) is not None
    if error.truncated and (starts_like_one or bytes(buffer[8:9]) in {b"{", b""}):
        raise ModelError(where, error.expected, f"{error.got}: the file is cut short", RETRAIN) from error
    if starts_like_one:
        raise ModelError(where, error.expected, f"{error.got}: the file is damaged", RETRAIN) from error
    raise ModelError(
        where, error.expected, f"{error.got}: not a model file", "Name the .occ file that train wrote"
    ) from error


def _verified(buffer: Any, header: Header, card: Card, *, where: str, key: bytes | None) -> tuple[Model, SelfTest]:
    digest = _check_digest(buffer, header, card, where)
    _check_signature(header, digest, key, where)
    arrays = {
        entry.name: container.view(buffer, entry)
        for entry in header.entries
        if not entry.name.startswith(container.PADDING_PREFIX)
    }
    model = Model(
        model_id=digest.hex()[:12],
        feature_set=_load_feature_set(card.feature_set, card.rate_hz, where),
        rate_hz=card.rate_hz,
        window_s=card.window_s,
        hop_s=card.hop_s,
        sos=_take_sos(arrays, card, where),
        scaler=_take_scaler(arrays, card, where),
        scorer=_take_scorer(arrays, card, where),
        threshold=card.threshold,
        metadata=card.metadata,
    )
    return model, _self_test(model, arrays, card, where)


def _check_digest(buffer: Any, header: Header, card: Card, where: str) -> bytes:
    head = bytearray(buffer[: header.data_start])
    for at in (8 + _SHA_AT, 8 + _HMAC_AT):
        head[at : at + 64] = _NO_DIGEST.encode()
    hasher = hashlib.sha256(head)
    with memoryview(buffer) as whole, whole[header.data_start :] as data:
        hasher.update(data)
        digest = hasher.digest()
        if digest.hex() == header.metadata["sha256"]:
            return digest
        are_arrays_whole = hashlib.sha256(data).hexdigest() == card.arrays_sha256
    got = "another digest: its metadata was changed" if are_arrays_whole else "another digest: its arrays are damaged"
    raise ModelError(where, "match its own SHA-256", got, RETRAIN)


def _sign(key: bytes, digest: bytes) -> str:
    if len(key) < MIN_KEY_BYTES:
        raise ModelError("signing key", f"be at least {MIN_KEY_BYTES} bytes long", f"{len(key)}", "Use a longer key")
    return hmac.new(key, digest, hashlib.sha256).hexdigest()


def _check_signature(header: Header, digest: bytes, key: bytes | None, where: str) -> None:
    if key is None:
        return
    signature, expected = header.metadata["hmac_sha256"], _sign(key, digest)
    if hmac.compare_digest(signature, expected):
        return
    got = "an unsigned file" if signature == _NO_DIGEST else "a signature by another key"
    raise ModelError(where, "be signed with the configured key", got, "Sign it with that key, or take the key out")


def _load_feature_set(card: FeatureSetCard, rate_hz: float, where: str) -> features.FeatureSet:
    install = "Install the stream_occ that wrote the model, or train it again with this one"
    try:
        feature_set = features.load(card.name)
    except ConfigError as error:
        raise ModelError(where, "use a known feature set", repr(card.name[:80]), install) from error
    if feature_set.version != card.version:
        raise ModelError(
            where, f"use version {feature_set.version} of feature set {card.name}", f"version {card.version}", install
        )
    if tuple(card.names) != feature_set.NAMES:
        raise ModelError(where, f"name the features of {card.name} in their order", "other names", install)
    if rate_hz <= feature_set.min_rate_hz:
        raise ModelError(
            where, f"have a rate above the {feature_set.min_rate_hz} Hz of {card.name}", f"{rate_hz} Hz", RETRAIN
        )
    return feature_set


def _take(arrays: Arrays, name: str, shape: tuple[int, ...], where: str) -> FloatArray:
    """A finite float64 array of the given shape (-1: any length) out of the file's."""
    array = arrays.get(name)
    expected = f"hold {name} as finite float64 {shape}".replace("-1", "n")
    if array is None:
        raise ModelError(where, expected, "none", RETRAIN)
    is_shape = array.ndim == len(shape) and all(n in (-1, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype != np.float64 or not is_shape:
        raise ModelError(where, expected, f"{array.dtype} {array.shape}", RETRAIN)
    if not np.isfinite(array).all():
        raise ModelError(where, expected, "NaN or infinity", RETRAIN)
    return array


def _take_scaler(arrays: Arrays, card: Card, where: str) -> Scaler:
    n_features = len(card.feature_set.names)
    center = _take(arrays, "scaler.center", (n_features,), where)
    scale = _take(arrays, "scaler.scale", (n_features,), where)
    if not (scale > 0).all():
        raise ModelError(where, "have a scaler.scale above 0", f"{scale.min()}", RETRAIN)
    return Scaler(card.scaler, center, scale)


def _take_sos(arrays: Arrays, card: Card, where: str) -> FloatArray | None:
    if "sos" not in arrays and card.filter is None:
        return None
    sos = _take(arrays, "sos", (-1, 6), where)
    a0, a1, a2 = sos[:, 3], sos[:, 4], sos[:, 5]
    if not len(sos) or not ((a0 == 1) & (np.abs(a2) < 1) & (np.abs(a1) < 1 + a2)).all():
        raise ModelError(where, "hold stable filter sections with a0 = 1", "others", RETRAIN)
    return sos


def _take_scorer(arrays: Arrays, card: Card, where: str) -> Scorer:
    own = {
        name.removeprefix(_SCORER_PREFIX): array for name, array in arrays.items() if name.startswith(_SCORER_PREFIX)
    }
    try:
        with np.errstate(all="ignore"):  # whatever the numbers are, the self-test decides
            scorer = load_scorer(card.detector.kind, own, card.detector.params)
        n_features = scorer.n_features
    except ModelError as error:
        part = error.where.removeprefix("model file: ")
        raise ModelError(f"{where}: {part}", error.expected, error.got, error.remedy) from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, TypeError, ValueError) as error:
        got = f"{type(error).__name__} {str(error)[:120]}"
        raise ModelError(where, f"hold the arrays of a {card.detector.kind} scorer", got, RETRAIN) from error
    if n_features != len(card.feature_set.names):
        raise ModelError(
            where, f"have a scorer of {len(card.feature_set.names)} features", f"one of {n_features}", RETRAIN
        )
    return scorer


def _self_test(model: Model, arrays: Mapping[str, NDArray[Any]], card: Card, where: str) -> SelfTest:
    X = _take(dict(arrays), "self_test.X", (-1, len(card.feature_set.names)), where)
    stored = _take(dict(arrays), "self_test.scores", (X.shape[0],), where)
    if not 1 <= X.shape[0] <= MAX_SELF_TEST_ROWS:
        raise ModelError(where, f"hold 1 to {MAX_SELF_TEST_ROWS} self-test rows", f"{X.shape[0]}", RETRAIN)
    try:
        with np.errstate(all="ignore"):
            scores = model.score_features(X)
            size = np.maximum(np.maximum(np.abs(scores), np.abs(stored)), np.finfo(float).tiny)
            difference = float((np.abs(scores - stored) / size).max())
    except (ArithmeticError, LookupError, MemoryError, TypeError, ValueError) as error:
        got = f"{type(error).__name__} {str(error)[:120]}"
        raise ModelError(where, "score its own self-test rows", got, RETRAIN) from error
    if not difference <= card.self_test_rtol:
        got = f"a relative difference of {difference:.3g} over {X.shape[0]} rows"
        raise ModelError(where, f"give its self-test scores again to {card.self_test_rtol:g}", got, RETRAIN)
    return SelfTest(X.shape[0], difference, bool(np.array_equal(scores, stored)))


def _info(header: Header, card: Card, where: str, n_bytes: int) -> ModelInfo:
    arrays = tuple(entry for entry in header.entries if not entry.name.startswith(container.PADDING_PREFIX))
    is_signed = header.metadata["hmac_sha256"] != _NO_DIGEST
    return ModelInfo(where, n_bytes, header.metadata["sha256"], is_signed, card, arrays)
