"""Start and memory of `detect` with a model of 5,000 windows, by engine."""

from __future__ import annotations

import statistics
import tempfile
from pathlib import Path
from typing import Any

from stream_occ.bench.peers import absent
from stream_occ.bench.report import Amount, Found, Settings
from stream_occ.bench.serving import Load, make_model, mosquitto, run

MOST_ROWS = 5_000
N_RUNS = 3
BARS = {"numpy": 80.0, "compiled": 200.0}  # MB
START_BAR_S = 1.5
LOAD = {"n_devices": 1, "n_samples": 250, "is_random": False}  # the first message is a whole window


def measure(settings: Settings) -> Found:
    """Medians of three starts; benchmarks/footprint.py in a copy of the repository says what adds what."""
    mosquitto()
    engines = ("numpy",) if absent("numba") else ("numpy", "compiled")
    figures: dict[str, Any] = {"n_rows": min(settings.n_rows, MOST_ROWS)}
    has_bars = not settings.is_quick and figures["n_rows"] == MOST_ROWS
    amounts = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_model(folder / "bench.occ", figures["n_rows"])
        for engine in engines:
            load = Load(**LOAD, seconds=3.0 if settings.is_quick else 10.0, options=f"engine: {engine}")  # type: ignore[arg-type]
            runs = [run(folder, folder / "bench.occ", load) for _ in range(1 if settings.is_quick else N_RUNS)]
            start_s = round(statistics.median(each.first_decision_s for each in runs), 2)
            rss_mb = round(statistics.median(each.rss_mb for each in runs), 1)
            figures[engine] = {"first_decision_s": start_s, "rss_mb": rss_mb}
            amounts += [
                Amount(f"{engine}: start to first decision", start_s, "s", START_BAR_S if has_bars else None),
                Amount(f"{engine}: resident memory", rss_mb, "MB", BARS[engine] if has_bars else None),
            ]
    return Found(figures, amounts=amounts, not_installed=absent("numba"))
