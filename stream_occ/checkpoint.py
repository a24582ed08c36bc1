"""The pipeline's state as bytes, and back, without losing a bit.

A line of JSON, dataclasses by name and floats by their shortest exact text, then the bytes of all arrays, little-endian
and one after another. A class that is not one of the state's own is refused, so that a file from elsewhere can make
nothing but a state.
"""

from __future__ import annotations

import json
import math
from dataclasses import fields
from typing import Any

import numpy as np

from stream_occ.clock import ClockState
from stream_occ.errors import DataError
from stream_occ.events import EventState, OpenAlert
from stream_occ.joining import JoinState, Track
from stream_occ.pipeline import DeviceState, PipelineState
from stream_occ.quality import HoldState, QualityState, RailState
from stream_occ.resampling import ResamplerState, StreamCounters
from stream_occ.samples import Decision
from stream_occ.sensor import RestState, SensorState
from stream_occ.windowing import CutterState

FORMAT_VERSION = 17
_CLASSES: dict[str, type[Any]] = {
    cls.__name__: cls
    for cls in (
        PipelineState,
        DeviceState,
        ResamplerState,
        StreamCounters,
        CutterState,
        EventState,
        OpenAlert,
        RestState,
        SensorState,
        QualityState,
        HoldState,
        RailState,
        ClockState,
        Decision,
        JoinState,
        Track,
    )
}
_NAMES = {cls: tuple(each.name for each in fields(cls)) for cls in _CLASSES.values()}
_KIND = ""  # the key of an object that is a class or an array; no map in the state has it
_DTYPES = {"f8": np.dtype("<f8"), "i8": np.dtype("<i8")}


def dump_state(state: PipelineState) -> bytes:
    """The state as bytes; equal states give equal bytes."""
    arrays: list[bytes] = []

    def plain(value: Any) -> dict[str, Any]:
        """What JSON does not know: a dataclass with its name; an array by kind and shape, its bytes apart."""
        if isinstance(value, np.ndarray):
            kind = value.dtype.str[1:]
            arrays.append(value.astype(_DTYPES[kind], copy=False).tobytes())
            return {_KIND: kind, "shape": value.shape}
        cls = type(value)
        return {_KIND: cls.__name__, **{name: getattr(value, name) for name in _NAMES[cls]}}

    document = {"format_version": FORMAT_VERSION, "state": state}
    text = json.dumps(document, allow_nan=False, check_circular=False, separators=(",", ":"), default=plain)
    return b"".join([text.encode(), b"\n", *arrays])


def load_state(data: bytes) -> PipelineState:
    """The state that `dump_state` wrote; raises DataError for anything else."""
    remedy = "Delete the checkpoint: streams start afresh and open alerts are forgotten"
    text, _, arrays = data.partition(b"\n")
    try:
        document = json.loads(text)
        version = document["format_version"]
        if version != FORMAT_VERSION:
            raise DataError("checkpoint", f"have format version {FORMAT_VERSION}", repr(version), remedy)
        state, end = _decode(document["state"], arrays, 0)
        if end != len(arrays):
            raise ValueError(f"{len(arrays)} bytes of arrays that are {end}")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError("checkpoint", "be what dump_state wrote", f"{type(error).__name__}: {error}", remedy) from error
    if not isinstance(state, PipelineState):
        raise DataError("checkpoint", "hold a PipelineState", type(state).__name__, remedy)
    return state


def _decode(value: Any, arrays: bytes, at: int) -> tuple[Any, int]:
    """The value, and where the bytes of the next array begin; arrays were written in this order."""
    if isinstance(value, list):
        items = []
        for item in value:
            decoded, at = _decode(item, arrays, at)
            items.append(decoded)
        return tuple(items), at
    if not isinstance(value, dict):
        return value, at
    kind = value.pop(_KIND, None)
    if kind in _DTYPES:
        end = at + math.prod(value["shape"]) * _DTYPES[kind].itemsize
        return np.frombuffer(arrays[at:end], dtype=_DTYPES[kind]).reshape(value["shape"]).copy(), end
    named = {}
    for name, item in value.items():
        named[name], at = _decode(item, arrays, at)
    return named if kind is None else _CLASSES[kind](**named), at
