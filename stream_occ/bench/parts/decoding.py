"""Decoding a message of 50 samples to arrays, beside json with numpy, pydantic, msgspec and orjson."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

from stream_occ import engines
from stream_occ.bench.devices import walking
from stream_occ.bench.peers import absent
from stream_occ.bench.report import Found, Ratio, Settings
from stream_occ.bench.timing import in_turns
from stream_occ.codecs import load_codec
from stream_occ.samples import NS_PER_S, DeviceProfile

BAR = 3.0  # to json with numpy, 50 samples
CALLS = 50


def measure(settings: Settings) -> Found:
    """50 samples and one; ours also checks counts, units, finiteness and stamps, of which pydantic checks a part."""
    engines.select("compiled" if engines.has_numba() else "numpy")
    engines.warm()  # as `detect` does before its first message
    figures: dict[str, Any] = {}
    ratios: list[Ratio] = []
    for n_samples in (50, 1):
        payload, ways = message(n_samples), decoders()
        turns = {name: (lambda number, way=way, payload=payload: way(payload)) for name, way in ways.items()}
        timed = in_turns(turns, settings.rounds, reference="ours", calls=CALLS)
        task = f"JSON, {n_samples} sample{'s' if n_samples > 1 else ''}"
        figures[task] = {"bytes": len(payload), "ways": timed}
        for name in [name for name in timed if name != "ours"]:
            is_barred = name == "json, numpy" and n_samples == 50
            ratios.append(Ratio(task, name, timed[name]["ratio"], BAR if is_barred else None))
    engines.select("auto")
    us = 1000 * figures["JSON, 50 samples"]["ways"]["ours"]["ms"]
    return Found(figures, ratios, [f"{us:.3g} us for 50 samples"], absent("msgspec", "orjson"))


def message(n_samples: int) -> bytes:
    """A batch in the documented format."""
    k = np.arange(n_samples)
    t_ns = 1_700_000_000 * NS_PER_S + np.rint(k * NS_PER_S / 50.0).astype(np.int64)
    return load_codec("json").encode(walking("d0", k, t_ns, np.random.default_rng(0)))


def decoders() -> dict[str, Callable[[bytes], Any]]:
    """Ours, and what others take to have the same numbers in arrays."""
    from pydantic import BaseModel

    class Batch(BaseModel):
        t_ns: list[int]
        acc: list[tuple[float, float, float]]
        gyr: list[tuple[float, float, float]]

    def arrays(t_ns: Any, acc: Any, gyr: Any) -> Any:
        return np.array(t_ns, dtype=np.int64), np.array(acc, dtype=np.float64), np.array(gyr, dtype=np.float64)

    def of_keys(found: Any) -> Any:
        return arrays(found["t_ns"], found["acc"], found["gyr"])

    def by_pydantic(payload: bytes) -> Any:
        found = Batch.model_validate_json(payload)
        return arrays(found.t_ns, found.acc, found.gyr)

    codec, profile = load_codec("json"), DeviceProfile()
    ways: dict[str, Callable[[bytes], Any]] = {
        "ours": lambda payload: codec.decode(payload, device_id="d0", profile=profile),
        "json, numpy": lambda payload: of_keys(json.loads(payload)),
        "pydantic, numpy": by_pydantic,
    }
    if not absent("orjson"):
        loads = import_module("orjson").loads
        ways["orjson, numpy"] = lambda payload: of_keys(loads(payload))
    if not absent("msgspec"):
        decode = import_module("msgspec.json").decode
        ways["msgspec, numpy"] = lambda payload: of_keys(decode(payload))
    return ways
