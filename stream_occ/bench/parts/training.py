"""Training a member with both cross-validations, its self-join and Algorithm 4, beside cKDTree and plain code."""

from __future__ import annotations

from typing import Any

from stream_occ.bench.peers import absent
from stream_occ.bench.report import Found, Ratio, Settings
from stream_occ.bench.training import self_join, sweep, tuning

TUNING_BAR = 8.0
ROUNDS = 3  # a round takes a minute


def measure(settings: Settings) -> Found:
    """On each set of rows, CPU time of one thread."""
    figures: dict[str, Any] = {}
    ratios: list[Ratio] = []
    for rows in settings.rows():
        task, rounds = rows.name.split(",")[0], 1 if settings.is_quick else ROUNDS
        tuned, joined = tuning(rows, rounds=rounds), self_join(rows, rounds=rounds)
        figures[rows.name] = {"tuning": tuned, "self_join": joined}
        for name, found, bar in (
            (f"{task}, both cross-validations", tuned, TUNING_BAR if settings.has_bars else None),
            (f"{task}, self-join", joined, None),
        ):
            reference = found["reference"]
            ratios += [
                Ratio(
                    name,
                    "cKDTree" if way == "ckdtree" else f"our {way} engine",
                    values["ratio"],
                    bar if way == "ckdtree" else None,
                )
                for way, values in found["ways"].items()
                if way != reference
            ]
    figures["sweep"] = sweep(min(settings.n_rows, 26_660), rounds=1 if settings.is_quick else ROUNDS)
    ratios.append(
        Ratio("threshold by Algorithm 4", "all pairs, as printed", figures["sweep"]["ways"]["all_pairs"]["ratio"])
    )
    return Found(figures, ratios, (), absent("numba"))
