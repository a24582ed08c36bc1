"""Model files: what is written is what is read, and whatever is off is refused with its own one line."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.artifacts import (
    files,
    load_model,
    pack_model,
    read_info,
    read_key,
    save_model,
    unpack_model,
    verify_model,
)
from stream_occ.artifacts.container import FormatError, pack, parse_header
from stream_occ.errors import ModelError, StreamOccError
from tests import fake_model
from tests.fake_model import SELF_TEST_SCORES, SELF_TEST_X, FakeFeatureSet, make_model

KEY = b"0123456789abcdef-a-key"


@pytest.fixture
def content() -> bytes:
    return pack_model(make_model(), self_test_X=SELF_TEST_X)


@pytest.fixture
def path(tmp_path: Path, content: bytes) -> Path:
    file = tmp_path / "model.occ"
    file.write_bytes(content)
    return file


def header_of(content: bytes) -> dict[str, Any]:
    n = struct.unpack("<Q", content[:8])[0]
    return json.loads(content[8 : 8 + n])


def data_of(content: bytes) -> bytes:
    return content[8 + struct.unpack("<Q", content[:8])[0] :]


def assemble(header: dict[str, Any], data: bytes, *, rehash: bool = True) -> bytes:
    """A file of any header and data, its SHA-256 computed anew as docs/model-file.md says: by other code than ours."""
    if rehash:
        header["__metadata__"] |= {"sha256": "0" * 64, "hmac_sha256": "0" * 64}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    whole = struct.pack("<Q", len(text)) + text + data
    if not rehash:
        return whole
    return whole.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + hashlib.sha256(whole).hexdigest().encode(), 1)


def with_card(content: bytes, **changes: Any) -> bytes:
    """The file with its card changed and its digest made to fit, as a careful forger would."""
    header = header_of(content)
    card = json.loads(header["__metadata__"]["model"])
    header["__metadata__"]["model"] = json.dumps({**card, **changes})
    return assemble(header, data_of(content))


def refusal(path: Path, content: bytes, **kwargs: Any) -> str:
    path.write_bytes(content)
    with pytest.raises(ModelError) as caught:
        load_model(path, **kwargs)
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    assert caught.value.exit_code == 2
    return line.removeprefix(str(path))


def test_saved_model_is_loaded_with_every_field(tmp_path: Path) -> None:
    """What `detect` needs and what the trainer noted come back as they were."""
    model = make_model()
    model_id = save_model(model, tmp_path / "m.occ", self_test_X=SELF_TEST_X)
    loaded = load_model(tmp_path / "m.occ")
    assert loaded.model_id == model_id
    assert (loaded.rate_hz, loaded.window_s, loaded.hop_s, loaded.threshold) == (50.0, 5.0, 0.5, 3.0)
    assert loaded.feature_set.name == "fake3"
    assert loaded.scaler.kind == "z-score"
    assert loaded.metadata == model.metadata
    np.testing.assert_array_equal(loaded.sos, model.sos)
    assert loaded.score_features(SELF_TEST_X).tolist() == SELF_TEST_SCORES


def test_model_without_filter_has_none_after_loading() -> None:
    """A feature set without low-pass stores no filter."""
    loaded = unpack_model(pack_model(make_model(sos=None), self_test_X=SELF_TEST_X))
    assert loaded.sos is None


def test_same_model_gives_same_bytes_and_id() -> None:
    """No clock and no draw goes into a file."""
    assert pack_model(make_model(), self_test_X=SELF_TEST_X) == pack_model(make_model(), self_test_X=SELF_TEST_X)


def test_model_id_is_the_start_of_the_documented_sha256(path: Path, content: bytes) -> None:
    """SHA-256 of the file with both digests' digits as zeros, computed here from the text of docs/model-file.md."""
    sha = header_of(content)["__metadata__"]["sha256"]
    assert hashlib.sha256(content.replace(sha.encode(), b"0" * 64)).hexdigest() == sha
    assert load_model(path).model_id == read_info(path).model_id == sha[:12]


def test_safetensors_library_reads_the_file(path: Path) -> None:
    """The container is the public format: an independent reader finds the same arrays."""
    from safetensors.numpy import load_file

    arrays = load_file(path)
    assert arrays["self_test.scores"].tolist() == SELF_TEST_SCORES
    assert arrays["scorer.table"].tolist() == [0, 1, 2, 3, 4]


def test_arrays_are_aligned_and_read_only(path: Path) -> None:
    """Every array starts at a multiple of 64 bytes and cannot be written through the map."""
    assert all(entry.start % 64 == 0 for entry in read_info(path).arrays)
    loaded = load_model(path)
    with pytest.raises(ValueError, match="read-only"):
        loaded.scaler.center[0] = 5.0


def test_verify_says_that_every_bit_is_equal(path: Path) -> None:
    """On the machine that wrote it, the self-test gives the stored scores bit for bit."""
    _, self_test = verify_model(path)
    assert (self_test.n_rows, self_test.max_relative_difference, self_test.is_bit_equal) == (3, 0.0, True)


def test_info_is_read_without_arrays(path: Path) -> None:
    """`read_info` gives the card of a file whose arrays are damaged; it is the structure that it checks."""
    damaged = bytearray(path.read_bytes())
    damaged[-70] ^= 1
    path.write_bytes(damaged)
    info = read_info(path)
    assert info.card.detector.kind == "fake_distance"
    assert info.card.units["acc"] == "m/s2, gravity included"
    assert not info.is_signed


@pytest.mark.parametrize("spoil", [lambda path: path.write_bytes(b"\0" * 10**6), lambda path: os.truncate(path, 0)])
def test_loaded_model_is_untouched_by_what_becomes_of_its_file(path: Path, spoil: Callable[[Path], object]) -> None:
    """cp over it cuts it short first, and a page of it would end this process by SIGBUS."""
    arrays = load_model(path).scorer.arrays()
    before = {name: array.copy() for name, array in arrays.items()}
    spoil(path)
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, before[name])


def test_saving_replaces_an_older_model_and_leaves_no_other_file(path: Path) -> None:
    """The rename is atomic; the temporary file is gone."""
    save_model(make_model(threshold=4.0), path, self_test_X=SELF_TEST_X)
    assert load_model(path).threshold == 4.0
    assert os.listdir(path.parent) == ["model.occ"]


def test_failed_write_keeps_the_older_model(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk costs the new model, never the old one."""

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(StreamOccError, match=r"be writable; got .*No space left"):
        save_model(make_model(threshold=4.0), path, self_test_X=SELF_TEST_X)
    assert load_model(path).threshold == 3.0
    assert os.listdir(path.parent) == ["model.occ"]


def test_saving_into_a_missing_folder_is_refused(tmp_path: Path) -> None:
    """A path that cannot be written is the user's to mend."""
    with pytest.raises(ModelError, match="a folder that does not exist"):
        save_model(make_model(), tmp_path / "no" / "m.occ", self_test_X=SELF_TEST_X)


def test_saving_over_a_pipe_or_device_is_refused(tmp_path: Path) -> None:
    """The rename would replace /dev/null itself where the user may do so."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelError, match="a folder, device or pipe"):
        save_model(make_model(), tmp_path / "pipe", self_test_X=SELF_TEST_X)
    assert (tmp_path / "pipe").is_fifo()


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_json_cannot_hold_is_refused_at_saving(value: float) -> None:
    """A NaN in the threshold or the notes would come back as something else."""
    for changes in ({"threshold": value}, {"metadata": {"x": value}}):
        with pytest.raises(ModelError, match="finite"):
            pack_model(make_model(**changes), self_test_X=SELF_TEST_X)


def test_file_problems_have_their_own_line(tmp_path: Path) -> None:
    """Missing, empty, a folder, a pipe: nothing hangs and nothing leaks a traceback."""
    (tmp_path / "empty.occ").touch()
    os.mkfifo(tmp_path / "pipe.occ")
    expected = {"missing.occ": "no such file", "empty.occ": "an empty file", "pipe.occ": "something else"}
    for name, text in expected.items():
        with pytest.raises(ModelError, match=text):
            load_model(tmp_path / name)
    with pytest.raises(ModelError, match="a folder"):
        load_model(tmp_path)


def test_other_files_are_not_model_files(path: Path) -> None:
    """Text, a zip and a foreign safetensors file are named as what they are not."""
    assert "not a model file" in refusal(path, b"hello, this is no model at all" * 10)
    assert "not a model file" in refusal(path, b"PK\x03\x04" + bytes(100))
    foreign = bytes(pack({"format": "pt"}, {"weight": np.zeros(3)}))
    assert "a safetensors file of something else: not a model file" in refusal(path, foreign)


def test_every_truncation_is_refused(path: Path, content: bytes) -> None:
    """A copy that was cut short is said to be so."""
    n_header = struct.unpack("<Q", content[:8])[0]
    for n_bytes in (1, 7, 8, 9, 200, 8 + n_header - 1, 8 + n_header, len(content) - 1):
        assert "cut short" in refusal(path, content[:n_bytes]), n_bytes


def test_trailing_bytes_are_refused(path: Path, content: bytes) -> None:
    """Nothing may hide behind the arrays."""
    assert "1 trailing bytes: the file is damaged" in refusal(path, content + b"\0")


def test_huge_header_is_refused_before_it_is_read(path: Path) -> None:
    """A header of more than 1 MB is never parsed."""
    assert "header of at most 1000000 bytes" in refusal(path, struct.pack("<Q", 1 << 40) + b'{"a"' + bytes(100))


def test_damaged_array_is_told_from_changed_metadata(path: Path, content: bytes) -> None:
    """Two lines: a bit lost on the way, and a card edited by hand."""
    damaged = bytearray(content)
    damaged[-100] ^= 4
    assert "match its own SHA-256; got another digest: its arrays are damaged" in refusal(path, bytes(damaged))
    edited = content.replace(b'threshold\\": 3.0', b'threshold\\": 9.0')
    assert edited != content
    assert "match its own SHA-256; got another digest: its metadata was changed" in refusal(path, edited)


def test_future_version_is_named_whatever_else_it_changed(path: Path, content: bytes) -> None:
    """A later format may have other keys: the version is looked at first."""
    later = with_card(content, format_version=2, new_key=1)
    assert "have format version 1 or lower; got version 2. Install a newer stream_occ" in refusal(path, later)


def test_card_problems_name_the_key(path: Path, content: bytes) -> None:
    """Unknown keys, wrong types and impossible values."""
    assert "extra: Extra inputs are not permitted" in refusal(path, with_card(content, extra=1))
    assert "rate_hz: Input should be greater than 0" in refusal(path, with_card(content, rate_hz=-1.0))
    assert "threshold: Input should be a valid number" in refusal(path, with_card(content, threshold="3"))
    assert "format_version" in refusal(path, with_card(content, format_version="1"))
    assert "format_version: Input should be greater than or equal to 1" in refusal(
        path, with_card(content, format_version=0)
    )


def test_units_and_windows_of_another_kind_are_refused(path: Path, content: bytes) -> None:
    """A model of samples in g, or of windows that hold no sample or leave some out, would score nonsense."""
    assert "units: Value error" in refusal(path, with_card(content, units={"acc": "g", "gyr": "dps", "time": "s"}))
    for change in ({"window_s": 1e-9}, {"hop_s": 1e-9}, {"hop_s": 3600.0}):
        assert "hop_s: Value error, no windows of 4 samples" in refusal(path, with_card(content, **change))


def test_unknown_scorer_is_refused(path: Path, content: bytes) -> None:
    """A kind is the name of a scorer, never of another module."""
    for kind in ("not_there", "base", "os.path", ""):
        line = refusal(path, with_card(content, detector={"kind": kind, "params": {}}))
        assert line.startswith(": scorer: must be one of ")
        assert f"ocnn-ensemble; got {kind!r}" in line


def test_scorer_that_does_not_fit_its_arrays_is_refused(path: Path, content: bytes) -> None:
    """A scorer's own complaint and a plain KeyError are one line each."""
    wrong = with_card(content, detector={"kind": "fake_distance", "params": {"power": 7}})
    assert "have power 1 or 2; got 7" in refusal(path, wrong)
    lacking = with_card(content, detector={"kind": "fake_distance", "params": {}})
    assert "hold the arrays of a fake_distance scorer; got KeyError" in refusal(path, lacking)


def test_feature_set_must_match_in_name_version_and_columns(
    path: Path, content: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another version of a feature means other numbers: the model is refused, never bent."""
    card = {"name": "fake3", "version": 7, "names": list(fake_model.FEATURE_NAMES)}
    unknown = with_card(content, feature_set={**card, "name": "gone"})
    assert "use a known feature set; got 'gone'" in refusal(path, unknown)
    swapped = with_card(content, feature_set={**card, "names": card["names"][::-1]})
    assert "name the features of fake3 in their order" in refusal(path, swapped)
    fake_model.register(FakeFeatureSet(version=8))
    assert "use version 8 of feature set fake3; got version 7" in refusal(path, content)
    fake_model.register()


def test_rate_too_slow_for_the_features_is_refused(path: Path, content: bytes) -> None:
    """`min_rate_hz` is exclusive."""
    assert "have a rate above the 10.0 Hz of fake3; got 10.0 Hz" in refusal(path, with_card(content, rate_hz=10.0))


def test_forged_array_is_refused_by_the_self_test(path: Path, content: bytes) -> None:
    """A careful forger fixes the digest; the scores then are not the stored ones."""
    changed = with_card(content, detector={"kind": "fake_distance", "params": {"power": 1}})
    assert "give its self-test scores again to 1e-09; got a relative difference of" in refusal(path, changed)


def test_scaler_must_be_finite_and_above_zero(path: Path, content: bytes) -> None:
    """A zero scale would make every score infinite."""
    header = header_of(content)
    start = header["scaler.scale"]["data_offsets"][0]
    for value, text in ((0.0, "scaler.scale above 0"), (np.nan, "NaN or infinity")):
        data = bytearray(data_of(content))
        data[start : start + 8] = struct.pack("<d", value)
        assert text in refusal(path, assemble(header_of(content), bytes(data)))


def test_filter_must_be_stable(path: Path) -> None:
    """A pole on or beyond the unit circle would let the filter's state grow without end."""
    for sections in ([[1.0, 0, 0, 1.0, -1.0, 0]], [[1.0, 0, 0, 2.0, 0, 0]], np.empty((0, 6))):
        with pytest.raises(ModelError, match="hold stable filter sections with a0 = 1"):
            unpack_model(pack_model(make_model(sos=np.array(sections)), self_test_X=SELF_TEST_X))


def test_key_file_is_read_without_its_line_end(tmp_path: Path) -> None:
    """`openssl rand -hex 32 > model.key` ends with a newline that is not part of the key."""
    (tmp_path / "key").write_bytes(KEY + b"\r\n")
    assert read_key(tmp_path / "key") == KEY
    (tmp_path / "short").write_bytes(b"short\n")
    for name, text in (("short", "hold a key of 16 to 4096 bytes"), ("gone", "be a readable key file; got No such")):
        with pytest.raises(ModelError, match=text):
            read_key(tmp_path / name)


def test_signed_file_needs_its_key_where_one_is_configured(tmp_path: Path, content: bytes) -> None:
    """With a key, an unsigned or wrongly signed file fails closed; without one, a signature is not looked at."""
    path = tmp_path / "signed.occ"
    model_id = save_model(make_model(), path, self_test_X=SELF_TEST_X, key=KEY)
    assert load_model(path, key=KEY).model_id == load_model(path).model_id == model_id
    assert read_info(path).is_signed
    signed = path.read_bytes()
    assert "be signed with the configured key; got a signature by another key" in refusal(
        path, signed, key=b"another key of 22 bytes"
    )
    assert "be signed with the configured key; got an unsigned file" in refusal(path, content, key=KEY)


def test_signature_is_the_documented_hmac(content: bytes) -> None:
    """HMAC-SHA256 over the 32 bytes of the SHA-256; signing does not change the model's id."""
    signed = pack_model(make_model(), self_test_X=SELF_TEST_X, key=KEY)
    metadata = header_of(signed)["__metadata__"]
    assert metadata["sha256"] == header_of(content)["__metadata__"]["sha256"]
    expected = hmac.new(KEY, bytes.fromhex(metadata["sha256"]), "sha256").hexdigest()
    assert metadata["hmac_sha256"] == expected


def test_short_key_is_refused() -> None:
    """A key that can be guessed signs nothing."""
    with pytest.raises(ModelError, match="signing key: must be at least 16 bytes long; got 5"):
        pack_model(make_model(), self_test_X=SELF_TEST_X, key=b"short")


def entry(dtype: str = "U8", shape: Any = (1,), offsets: Any = (0, 1)) -> dict[str, Any]:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


@pytest.mark.parametrize(
    ("table", "n_data", "text"),
    [
        ({"a": entry("BF16", (1,), (0, 2))}, 2, "hold arrays of F64"),
        ({"a": entry(shape=(2,))}, 1, "2 bytes of its shape"),
        ({"a": entry(shape=(-1,))}, 1, "natural numbers"),
        ({"a": entry(shape=(True,))}, 1, "natural numbers"),
        ({"a": entry(offsets=(1, 0))}, 1, "rising natural numbers"),
        ({"a": entry(shape=(1 << 40, 1 << 40, 1 << 40))}, 1, "hold arrays that fit"),
        ({"a": entry(shape=[1] * 9)}, 1, "at most 8 natural"),
        ({"a": entry(), "b": entry()}, 1, "without hole or overlap"),
        ({"a": entry(offsets=(1, 2))}, 2, "without hole or overlap"),
        ({"a": entry(), "b": entry(offsets=(1, 2))}, 2, "align arrays"),
        ({"a": {"dtype": "U8"}}, 0, "describe each array"),
        ({"a": 5}, 0, "describe each array"),
        ({"__metadata__": {"a": 1}}, 0, "maps strings to strings"),
    ],
)
def test_header_that_breaks_the_format_is_refused(table: dict[str, Any], n_data: int, text: str) -> None:
    """Dtype, shape, offsets, overlap, hole, alignment: each checked before anything is mapped."""
    raw = json.dumps(table).encode()
    raw += b" " * (-(8 + len(raw)) % 64)
    with pytest.raises(FormatError, match=text):
        parse_header(raw, 8 + len(raw) + n_data)


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b'{"a":1,"a":1}', "each key once"),
        (b'{"a":NaN}', "finite numbers"),
        (b'{"a":1e999}', "finite numbers"),
        (b'{"a":\xff}', "valid JSON"),
        (b'{"a":' * 5000, "valid JSON"),
        (b'{"a":' + b"9" * 5000 + b"}", "valid JSON"),
        (b"[1]", "starts with {"),
    ],
)
def test_header_that_is_no_plain_json_is_refused(raw: bytes, text: str) -> None:
    """Doubled keys, NaN, bad UTF-8 and endless nesting."""
    with pytest.raises(FormatError, match=text):
        parse_header(raw, 8 + len(raw))


def test_mapping_a_20_mb_file_does_not_read_it(tmp_path: Path) -> None:
    """Opening, parsing and viewing touches the header alone: 50 ms of processor time is far above what that takes."""
    from stream_occ.artifacts import container

    file = tmp_path / "big"
    file.write_bytes(pack({}, {"x": np.zeros((2500, 1000))}))
    started = time.process_time()
    buffer = files.map_file(file)
    n_header = container.header_length(buffer[:8], len(buffer))
    header = parse_header(buffer[8 : 8 + n_header], len(buffer))
    array = container.view(buffer, header.entries[0])
    assert time.process_time() - started < 0.05
    assert array.shape == (2500, 1000)


@pytest.mark.parametrize("missing", [True, False])
def test_model_loads_where_there_are_no_files_in_memory(
    missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another system has no such call; a container may forbid it."""

    def forbidden(name: str) -> int:
        raise PermissionError(1, "Operation not permitted")

    path = tmp_path / "m.occ"
    expected = save_model(make_model(), path, self_test_X=SELF_TEST_X)
    if missing:
        monkeypatch.delattr("os.memfd_create")
    else:
        monkeypatch.setattr("os.memfd_create", forbidden)
    assert load_model(path).model_id == expected
