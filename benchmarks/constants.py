"""Feature set `fall31` with one of its constants changed, in a copy of its source: the tables of `ablation.py`."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType

from stream_occ.features import fall31

# By what they are: where they stand in the source. All numbers of a part are multiplied at once.
FLOORS: Mapping[str, tuple[str, ...]] = {
    ".1 m/s2": (
        "_log(top, 0.1)",
        "_log(dynamic, 0.1)",
        "_log(brief.max(axis=-1), 0.1)",
        "_log(swing.max(axis=-1), 0.1)",
    ),
    ".1, .1 of log_peak_over_mad": ("(spread + 0.1)", "_log(alone, 0.1)"),
    ".05, 1 of log_kurtosis_acc": ("np.maximum(_std(signals.a), 0.05)", "_log(_mean(z * z), 1.0)"),
    "1 m/s3": ("_log(speed.max(axis=-1), 1.0)", "_log(_mean(speed), 1.0)", "_log(_std(speed), 1.0)"),
    ".05 m/s2": ("[_log(part, 0.05)",),
    ".05, .02 rad/s, .02 rad": ("_log(w.max(axis=-1), 0.05)", "_log(part, 0.02)"),
    "4e-4 m2/s4": ("_NOISE_POWER = 4e-4",),
}
TIMES: Mapping[str, tuple[str, ...]] = {
    "jerk 40 ms": ("signals.lag(0.04,",),
    "means 200 ms": ("signals.lag(0.2,",),
    "range 1 s": ("width = signals.lag(1.0,",),
    "turn 1 s": ("_moving_mean(w, signals.lag(1.0,",),
    "tilt of means over 1 s": ("_moving_mean(acc, signals.lag(1.0,",),
    "tilt 2 s apart": ("lag = signals.lag(2.0,",),
    "lags from .3 s": ("first = signals.lag(0.3,",),
    "lags to 2 s": ("last = signals.lag(2.0,",),
    "first, last 1/4": ("self.n_samples // 4",),
    "low-pass 10 Hz": ("lowpass_hz: float | None = 10.0",),
    "bands": (f"BANDS_HZ = {fall31.BANDS_HZ}",),
}
CONSTANTS: Mapping[str, list[tuple[str, tuple[str, ...], float]]] = {
    "floors": [
        (f"{name}, times {factor:g}", parts, factor)
        for name, parts in {"all": sum(FLOORS.values(), ()), **FLOORS}.items()
        for factor in (0.5, 2.0)
    ],
    "times": [
        (f"{name}, times {factor:.2g}", parts, factor) for name, parts in TIMES.items() for factor in (2 / 3, 1.5)
    ],
    "shortest": [(f"{s:g} s", ("min_window_s: float = 3.0",), s / 3.0) for s in (3.0, 3.5, 4.0, 4.5, 5.0)],
}


def varied(parts: Sequence[str], factor: float) -> str:
    """Name of a feature set that is `fall31` with every number in these parts of its source multiplied."""
    source = inspect.getsource(fall31)
    for part in parts:
        if source.count(part) != 1:
            raise ValueError(f"fall31 must hold this once; got {source.count(part)} times: {part}")
        source = source.replace(part, _multiplied(part, factor))
    module = ModuleType("stream_occ.features.fall31_varied")
    sys.modules[module.__name__] = module
    exec(compile(source, module.__name__, "exec"), module.__dict__)
    return "fall31_varied"


def _multiplied(part: str, factor: float) -> str:
    """Every number with a decimal point or an exponent multiplied; of `n // 4` the whole."""
    if "//" in part:
        return f"int({factor!r} * {part})"
    return re.sub(r"\d+\.\d+|\d+e-\d+", lambda found: f"{float(found[0]) * factor:.10g}", part)
