"""Deciding a window with 25 nearest-neighbour members, beside trees, brute force and other people's detectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stream_occ.bench.ocnn import BATCH, CALLS, borderline, by_rows, deciding, fitted, ours
from stream_occ.bench.peers import absent, detectors, shared_product
from stream_occ.bench.report import Amount, Found, Ratio, Settings, three_digits
from stream_occ.bench.rows import Rows, synthetic_rows
from stream_occ.bench.timing import in_turns

SIZES = (1_000, 5_000, 26_660, 100_000)
LABELS = {
    "ckdtree": "cKDTree loop",
    "ckdtree_stops": "cKDTree loop, same stop",
    "sklearn_brute": "sklearn brute loop",
    "sklearn_kd_tree": "sklearn kd_tree loop",
    "numpy": "our numpy engine",
    "compiled_stops": "ours, stopping at a majority",
}
BARS = {  # of the compiled engine
    **{(kind, 1, "ckdtree"): 15.0 for kind in ("normal", "borderline")},
    **{(kind, 1, "ckdtree_stops"): 8.0 for kind in ("normal", "borderline")},
    ("fall", 1, "ckdtree"): 100.0,
    **{(kind, BATCH, "ckdtree"): 10.0 for kind in ("normal", "borderline", "fall")},
    **{(kind, BATCH, "sklearn_brute"): 4.0 for kind in ("normal", "borderline", "fall")},
}
NUMPY_BAR = 3.0  # of the numpy engine, to the loop, one normal window
GROWTH_BAR, BARRED_SIZE = 8.0, "26660"  # what a window costs with so many rows, over what it costs with the fewest


def measure(settings: Settings) -> Found:
    """Normal, borderline and fall windows, alone and 256 at once, on each set of rows; and over numbers of rows."""
    figures: dict[str, Any] = {}
    ratios: list[Ratio] = []
    lines: list[str] = []
    for rows in settings.rows():
        decided = deciding(rows, n_members=settings.n_members, rounds=settings.rounds)
        figures[rows.name] = decided | {"others": beside(rows, settings)}
        ratios += _ratios(rows.name, figures[rows.name], has_bars=settings.has_bars)
        equal = min(decided["equal_decisions"].values())
        lines.append(f"{rows.name}, {decided['n_rows']} rows: all ways decide alike in {100 * equal:g} %")
    most = max(settings.n_rows, SIZES[-1]) if settings.has_bars else settings.n_rows
    sizes = [size for size in SIZES if size <= most] or [settings.n_rows]
    figures["by_rows"] = by_rows(synthetic_rows, sizes, n_members=settings.n_members, rounds=settings.rounds)
    ratios += _ratios_by_rows(figures["by_rows"])
    amounts = _growth(figures["by_rows"], has_bars=settings.has_bars)
    return Found(figures, ratios, lines, absent("numba", "pyod", "river"), amounts=amounts)


def beside(rows: Rows, settings: Settings) -> list[dict[str, Any]]:
    """Milliseconds of one window for our fastest engine, the plain BLAS product and other people's detectors."""
    detector = fitted(rows, settings.n_members)
    ways = ours(detector)
    reference = "compiled" if "compiled" in ways else "numpy"
    kinds = {"normal": rows.normal, "borderline": borderline(rows, ways[reference]), "fall": rows.fall}
    tasks: dict[str, Callable[[Any], Any]] = {
        reference: ways[reference],
        "shared X, one BLAS product": shared_product(detector),
        **detectors(rows.train),
    }
    timed = []
    for kind, Z in kinds.items():
        turns = {name: (lambda number, task=task, Z=Z: task(Z[number % len(Z)][None])) for name, task in tasks.items()}
        found = in_turns(turns, settings.rounds, reference=reference, calls=CALLS)
        timed.append({"windows": kind, "batch": 1, "reference": reference, "ways": found})
    return timed


def _ratios_by_rows(found: list[dict[str, Any]]) -> list[Ratio]:
    """At each number of rows the loop, and our other engine, to our fastest."""
    return [
        Ratio(f"synthetic, {size} rows, {entry['windows']}, alone", LABELS[way], values["ratio"])
        for entry in found
        for size, ways in entry["ways"].items()
        for way, values in ways.items()
        if way != entry["reference"]
    ]


def _growth(found: list[dict[str, Any]], *, has_bars: bool) -> list[Amount]:
    """What a window costs with more rows over what it costs with the fewest, of each engine and the loop."""
    return [
        Amount(
            f"{entry['windows']}, alone, {way}: cost({size}) / cost({next(iter(sizes))})",
            values["ratio"],
            "times",
            GROWTH_BAR if has_bars and size == BARRED_SIZE and way != "ckdtree" else None,
        )
        for entry in found
        for way, sizes in entry["growth"].items()
        for size, values in sizes.items()
        if size != next(iter(sizes))
    ]


def _ratios(name: str, figures: dict[str, Any], *, has_bars: bool) -> list[Ratio]:
    """To the whole vote of our fastest engine; what stops at a majority, to ours that does (a quotient of medians)."""
    reference, found = figures["reference"], []
    for entry in figures["timed"]:
        kind, batch, ways = entry["windows"], entry["batch"], entry["ways"]
        task = f"{name.split(',')[0]}, {kind}, {'alone' if batch == 1 else f'{batch} at once'}"
        for way, label in LABELS.items():
            if way in ways and way != reference:
                of_ours = ways[f"{reference}_stops"]["ratio"] if way == "ckdtree_stops" else 1.0
                bar = BARS.get((kind, batch, way)) if has_bars and reference == "compiled" else None
                found.append(Ratio(task, label, three_digits(ways[way]["ratio"] / of_ours), bar))
        if reference == "compiled" and batch == 1 and kind == "normal":
            times = three_digits(ways["ckdtree"]["ratio"] / ways["numpy"]["ratio"])
            found.append(Ratio(task, "cKDTree loop, to our numpy engine", times, NUMPY_BAR if has_bars else None))
    for entry in figures["others"]:
        task = f"{name.split(',')[0]}, {entry['windows']}, alone"
        others = {way: values for way, values in entry["ways"].items() if way != entry["reference"]}
        found += [Ratio(task, way, values["ratio"]) for way, values in others.items()]
    return found
