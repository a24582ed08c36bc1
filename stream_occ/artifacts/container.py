"""The safetensors container, written and read with numpy alone: a JSON header, then the arrays' bytes, aligned to 64.

Layout: 8 bytes little-endian header length, the header (JSON, padded with spaces), the arrays without holes.
Here every array starts at a multiple of 64 bytes of the file, so that a memory map of it can be used as it is: the
header is padded to that, and padding tensors `_pad.<i>` (uint8) fill the space between arrays, since the format
allows no holes. The safetensors library sorts arrays as it likes when it writes, so it cannot do this; it reads what
is written here (a test holds us to it).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

ALIGNMENT = 64
MAX_HEADER_BYTES = 1_000_000
MAX_DIMENSIONS = 8
PADDING_PREFIX = "_pad."

DTYPES: dict[str, np.dtype[Any]] = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "U8": np.dtype("u1"),
}
_CODES = {dtype: code for code, dtype in DTYPES.items()}


class FormatError(ValueError):
    """The bytes break the format: `expected` completes "must ...", `got` is what came, `truncated` says bytes lack."""

    def __init__(self, expected: str, got: str, *, truncated: bool = False) -> None:
        super().__init__(f"must {expected}; got {got}")
        self.expected = expected
        self.got = got
        self.truncated = truncated


@dataclass(frozen=True, slots=True)
class Entry:
    """One array of the file: bytes [start, end) counted from the file's first byte."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Header:
    """A checked header: `text` is its JSON as it stands in the file, `metadata` maps strings to strings."""

    text: bytes
    metadata: dict[str, str]
    entries: tuple[Entry, ...]

    @property
    def data_start(self) -> int:
        """First byte after the header."""
        return 8 + len(self.text)


def pack(metadata: Mapping[str, str], arrays: Mapping[str, NDArray[Any]]) -> bytearray:
    """The file's bytes; metadata keys keep their order and come first. ValueError for a dtype or name not allowed."""
    table: dict[str, Any] = {"__metadata__": dict(metadata)}
    chunks: list[bytes] = []
    offset = 0
    for index, (name, array) in enumerate(arrays.items()):
        if name.startswith("_"):
            raise ValueError(f"array name must not start with an underscore; got {name!r}")
        array = np.asarray(array)
        dtype = array.dtype.newbyteorder("<") if array.dtype.itemsize > 1 else array.dtype
        if dtype not in _CODES:
            raise ValueError(f"array {name!r} must be one of {', '.join(map(str, _CODES))}; got {array.dtype}")
        chunk = np.ascontiguousarray(array, dtype=dtype).tobytes()
        table[name] = {
            "dtype": _CODES[dtype],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + len(chunk)],
        }
        chunks.append(chunk)
        offset += len(chunk)
        gap = -offset % ALIGNMENT
        if gap:
            table[f"{PADDING_PREFIX}{index}"] = {"dtype": "U8", "shape": [gap], "data_offsets": [offset, offset + gap]}
            chunks.append(bytes(gap))
            offset += gap
    text = json.dumps(table, separators=(",", ":"), ensure_ascii=True, allow_nan=False).encode("ascii")
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"header must be at most {MAX_HEADER_BYTES} bytes; got {len(text)}")
    return bytearray(b"".join([len(text).to_bytes(8, "little"), text, *chunks]))


def header_length(first_8_bytes: bytes, file_size: int) -> int:
    """Length of the header in bytes; raises FormatError where it cannot be one."""
    if len(first_8_bytes) < 8:
        raise FormatError("be at least 8 bytes long", f"{len(first_8_bytes)} bytes", truncated=True)
    n_header = int.from_bytes(first_8_bytes, "little")
    if n_header > MAX_HEADER_BYTES:
        raise FormatError(f"have a header of at most {MAX_HEADER_BYTES} bytes", f"a header length of {n_header}")
    if n_header < 2:
        raise FormatError("have a header of at least 2 bytes", f"a header length of {n_header}")
    if 8 + n_header > file_size:
        raise FormatError(f"hold its whole header of {n_header} bytes", f"{file_size} bytes in all", truncated=True)
    return n_header


def parse_header(text: bytes, file_size: int) -> Header:
    """The checked header of a file of `file_size` bytes; raises FormatError for whatever breaks the format.

    Checked: JSON with no doubled key and no NaN, dtypes of `DTYPES`, shape times item size against the offsets,
    offsets that follow each other from the first byte after the header to the file's last, and the alignment.
    """
    if not text.startswith(b"{"):
        raise FormatError("have a header that starts with {", repr(text[:1]))
    table = loads_strict(text)
    metadata = table.pop("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise FormatError("have metadata that maps strings to strings", "something else")
    data_start = 8 + len(text)
    entries = sorted(
        (_parse_entry(name, fields, data_start) for name, fields in table.items()), key=lambda e: (e.start, e.end)
    )
    position = data_start
    for entry in entries:
        if entry.start != position:
            raise FormatError(
                "hold arrays that follow each other without hole or overlap",
                f"array {entry.name[:80]!r} at byte {entry.start}, not {position}",
            )
        if entry.start % ALIGNMENT and not entry.name.startswith(PADDING_PREFIX):
            raise FormatError(f"align arrays to {ALIGNMENT} bytes", f"array {entry.name[:80]!r} at byte {entry.start}")
        position = entry.end
    if position > file_size:
        raise FormatError(f"be {position} bytes long by its header", f"{file_size} bytes", truncated=True)
    if position < file_size:
        raise FormatError(f"end at byte {position} by its header", f"{file_size - position} trailing bytes")
    return Header(text, metadata, tuple(entries))


def loads_strict(text: bytes | str) -> dict[str, Any]:
    """A JSON object without doubled keys, NaN or infinity; raises FormatError for anything else."""
    try:
        value = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse_constant, parse_float=_finite)
    except FormatError:
        raise
    except (ValueError, RecursionError) as error:
        raise FormatError("hold valid JSON", f"{type(error).__name__} while reading it") from error
    if not isinstance(value, dict):
        raise FormatError("hold a JSON object", type(value).__name__)
    return value


def view(buffer: Any, entry: Entry) -> NDArray[Any]:
    """The entry's array as a read-only view of the whole file's bytes; no copy."""
    count = math.prod(entry.shape)
    array = np.frombuffer(buffer, dtype=entry.dtype, count=count, offset=entry.start) if count else None
    array = np.empty(0, dtype=entry.dtype) if array is None else array
    array = array.reshape(entry.shape)
    array.flags.writeable = False
    return array


def _parse_entry(name: str, fields: Any, data_start: int) -> Entry:
    shown = repr(name[:80])
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "data_offsets"}:
        raise FormatError("describe each array by dtype, shape and data_offsets", f"other keys for array {shown}")
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if not isinstance(code, str) or code not in DTYPES:
        raise FormatError(f"hold arrays of {', '.join(DTYPES)} alone", f"{str(code)[:20]!r} for array {shown}")
    if not _is_naturals(shape) or len(shape) > MAX_DIMENSIONS:
        raise FormatError(f"have shapes of at most {MAX_DIMENSIONS} natural numbers", f"another shape for {shown}")
    if not _is_naturals(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise FormatError("have data_offsets of two rising natural numbers", f"other offsets for array {shown}")
    dtype = DTYPES[code]
    n_bytes = math.prod(shape) * dtype.itemsize
    if n_bytes != offsets[1] - offsets[0]:
        raise FormatError(
            f"give array {shown} the {n_bytes} bytes of its shape" if n_bytes < 1 << 62 else "hold arrays that fit",
            f"{offsets[1] - offsets[0]} bytes" if offsets[1] < 1 << 62 else "more bytes than a file can have",
        )
    return Entry(name, dtype, tuple(shape), data_start + offsets[0], data_start + offsets[1])


def _is_naturals(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int and 0 <= item < 1 << 62 for item in value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise FormatError("name each key once", "a doubled key")
    return table


def _refuse_constant(name: str) -> float:
    raise FormatError("hold finite numbers", name)


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise FormatError("hold finite numbers", digits[:40])
    return number
