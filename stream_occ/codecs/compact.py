"""Compact binary messages for small devices that number what they send; layout and a sender in docs/device-codecs.md.

A header of 34 bytes, little-endian, then the samples, then the CRC-32 of all before it. `SampleBlock.number` is (boot,
seq) of the header.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

from stream_occ.codecs._common import (
    MAX_STAMP_NS,
    check_count,
    check_size,
    refuse,
    regular_stamps,
    to_block,
)
from stream_occ.samples import DeviceProfile, IntArray, SampleBlock

MAGIC, VERSION = b"SO", 1
# magic, version, flags, boot, seq, t0_ns, rate_hz, acc m/s2 a count, gyr rad/s a count, n
HEADER = struct.Struct("<2sBBIIqfffH")
CRC = struct.Struct("<I")
NUMBERED, STAMPED, DOUBLES = 1, 2, 4  # flags: boot and seq count; one stamp a sample; values are float64, no counts
_ALL = NUMBERED | STAMPED | DOUBLES
_REMEDY = "Choose the codec of the device, or send version 1 as documented"


def decode(payload: bytes, *, device_id: str, profile: DeviceProfile) -> list[SampleBlock]:
    """One block; raises PayloadError, and nothing else, for whatever is not a documented message."""
    check_size(payload, device_id)
    if len(payload) < HEADER.size + CRC.size or not payload.startswith(MAGIC):
        refuse(device_id, "invalid_binary", "begin with SO and a header", f"{len(payload)} other bytes", _REMEDY)
    _, version, flags, boot, seq, t0_ns, rate_hz, acc_scale, gyr_scale, n = HEADER.unpack_from(payload)
    if version != VERSION or flags & ~_ALL:
        refuse(device_id, "invalid_binary", "be version 1", f"version {version}, flags {flags}", _REMEDY)
    kind = np.dtype("<f8" if flags & DOUBLES else "<i2")
    n_stamps = n if flags & STAMPED else 0
    values_at = HEADER.size + 8 * n_stamps
    n_bytes = values_at + 6 * n * kind.itemsize + CRC.size
    if len(payload) != n_bytes:
        refuse(device_id, "invalid_binary", f"have {n_bytes} bytes for {n} samples", f"{len(payload)}", _REMEDY)
    if CRC.unpack_from(payload, n_bytes - CRC.size)[0] != zlib.crc32(payload[: -CRC.size]):
        refuse(device_id, "checksum_wrong", "have the CRC-32 of its bytes", "another", "Look for what damages it")
    check_count(n, device_id)
    if not (0 < acc_scale < np.inf and 0 < gyr_scale < np.inf):
        got = f"{acc_scale:g}, {gyr_scale:g}"
        refuse(device_id, "bad_field", "have scales above 0", got, "Send m/s2 and rad/s a count")
    stamps = np.frombuffer(payload, "<i8", n_stamps, HEADER.size)
    t_ns = _checked(stamps, device_id) if n_stamps else _regular(t0_ns, rate_hz, n, device_id)
    values = np.frombuffer(payload, kind, 6 * n, values_at).reshape(n, 6).astype(np.float64)
    acc, gyr = np.ascontiguousarray(values[:, :3]), np.ascontiguousarray(values[:, 3:])
    if not flags & DOUBLES:
        acc, gyr = acc * acc_scale, gyr * gyr_scale
    number = (boot, seq) if flags & NUMBERED else None
    return [to_block(device_id, profile, t_ns, acc, gyr, ("m/s2", "rad/s"), number)]


def encode(block: SampleBlock) -> bytes:
    """A message with a stamp a sample and float64 values, so that they come back bit for bit."""
    flags = STAMPED | DOUBLES
    boot, seq = block.number or (0, 0)
    if block.number is not None and type(boot) is int:
        flags |= NUMBERED
    header = HEADER.pack(
        MAGIC, VERSION, flags, boot if flags & NUMBERED else 0, seq, int(block.t_ns[0]), 0.0, 1.0, 1.0, len(block)
    )
    values = np.concatenate([block.acc_ms2, block.gyr_rads], axis=1)
    body = header + block.t_ns.astype("<i8").tobytes() + values.astype("<f8").tobytes()
    return body + CRC.pack(zlib.crc32(body))


def _regular(t0_ns: int, rate_hz: float, n: int, device_id: str) -> IntArray:
    return regular_stamps(int(_checked(np.array([t0_ns]), device_id)[0]), rate_hz, n, device_id)


def _checked(stamps: IntArray, device_id: str) -> IntArray:
    """The stamps as int64; refuses those out of range."""
    if stamps.min() < 0 or stamps.max() >= MAX_STAMP_NS:
        got = str(int(stamps.min() if stamps.min() < 0 else stamps.max()))
        refuse(device_id, "stamp_invalid", "have stamps from 0 to 2^62 ns", got, "Check the device's clock")
    return stamps.astype(np.int64)
