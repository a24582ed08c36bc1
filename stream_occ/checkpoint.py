"""The pipeline's state as bytes, and back, without losing a bit.

JSON: dataclasses by name, arrays as base64 of their little-endian bytes, floats by their shortest exact text. A class
that is not one of the state's own is refused, so that a file from elsewhere can make nothing but a state.
"""

from __future__ import annotations

import base64
import json
from dataclasses import fields, is_dataclass
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

FORMAT_VERSION = 12
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
_DTYPES = frozenset({"<f8", "<i8"})


def dump_state(state: PipelineState) -> bytes:
    """The state as UTF-8 JSON; equal states give equal bytes."""
    document = {"format_version": FORMAT_VERSION, "state": _encode(state)}
    return json.dumps(document, allow_nan=False, separators=(",", ":")).encode()


def load_state(data: bytes) -> PipelineState:
    """The state that `dump_state` wrote; raises DataError for anything else."""
    remedy = "Delete the checkpoint: streams start afresh and open alerts are forgotten"
    try:
        document = json.loads(data)
        version = document["format_version"]
        if version != FORMAT_VERSION:
            raise DataError("checkpoint", f"have format version {FORMAT_VERSION}", repr(version), remedy)
        state = _decode(document["state"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError("checkpoint", "be what dump_state wrote", f"{type(error).__name__}: {error}", remedy) from error
    if not isinstance(state, PipelineState):
        raise DataError("checkpoint", "hold a PipelineState", type(state).__name__, remedy)
    return state


def _encode(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        array = np.ascontiguousarray(value)
        dtype = array.dtype.newbyteorder("<")
        data = base64.b64encode(array.astype(dtype, copy=False).tobytes()).decode()
        return {"array": data, "dtype": dtype.str, "shape": list(array.shape)}
    if is_dataclass(value) and not isinstance(value, type):
        return {
            "class": type(value).__name__,
            "fields": {f.name: _encode(getattr(value, f.name)) for f in fields(value)},
        }
    if isinstance(value, tuple):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {"map": [[key, _encode(item)] for key, item in value.items()]}
    return value


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_decode(item) for item in value)
    if not isinstance(value, dict):
        return value
    if "array" in value:
        if value["dtype"] not in _DTYPES:
            raise ValueError(f"dtype {value['dtype']!r}")
        data = base64.b64decode(value["array"], validate=True)
        return np.frombuffer(data, dtype=value["dtype"]).reshape(value["shape"]).copy()
    if "map" in value:
        return {key: _decode(item) for key, item in value["map"]}
    cls = _CLASSES[value["class"]]
    return cls(**{name: _decode(item) for name, item in value["fields"].items()})
