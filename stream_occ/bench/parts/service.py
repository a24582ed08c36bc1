"""Devices at 50 Hz that one core serves: the largest number with 99 of 100 windows decided within 100 ms."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_occ.bench.peers import absent
from stream_occ.bench.report import Amount, Found, Settings
from stream_occ.bench.serving import MOBIFALL_WINDOWS, Load, make_model, mosquitto, run

BAR = 1_000  # devices
MOST_P99_MS = 100.0
LEAST_DECIDED = 0.98  # of the windows that are due: less is a queue that grows
HOWS = {"states saved": True, "states not saved": False}
FIRST = 64
MOST = 8_192
NEAREST = 1.1  # between the most that were served and the fewest that were not
SECONDS, SECONDS_QUICK = 10.0, 3.0


def measure(settings: Settings) -> Found:
    """By doubling, then halving the gap; a window every 0.5 s, 25 samples a message, QoS 1, the default detector.

    Twice: with states saved every 5 s in a temporary folder, as they are by default, and without.
    """
    mosquitto()
    n_rows = min(settings.n_rows, MOBIFALL_WINDOWS)
    figures: dict[str, Any] = {"n_rows": n_rows}
    with tempfile.TemporaryDirectory() as name:
        make_model(Path(name) / "bench.occ", n_rows)
        figures |= {how: searched(Path(name), settings, is_kept=is_kept) for how, is_kept in HOWS.items()}
    bar = None if settings.is_quick or n_rows < MOBIFALL_WINDOWS else BAR
    amounts = [
        Amount(f"devices per core, {how}", figures[how]["devices_per_core"], "devices", at_least=bar) for how in HOWS
    ]
    told = [f"{how}: {line}" for how in HOWS for line in lines(figures[how])]
    return Found(figures, lines=told, not_installed=absent("numba"), amounts=amounts)


def searched(folder: Path, settings: Settings, *, is_kept: bool) -> dict[str, Any]:
    """The most devices that are served, and the figures of all runs."""
    runs: dict[int, dict[str, Any]] = {}

    def is_served(n_devices: int) -> bool:
        load = Load(n_devices, SECONDS_QUICK if settings.is_quick else SECONDS, is_kept=is_kept)
        runs[n_devices] = run(folder, folder / "bench.occ", load).figures()
        return served(runs[n_devices])

    most = (5 if is_served(5) else 0) if settings.is_quick else largest(is_served)
    return {"devices_per_core": most, "runs": [runs[n] for n in sorted(runs)]}


def served(figures: dict[str, Any]) -> bool:
    """Whether nothing was lost or left, and p99 from the sender to the decision is below 100 ms."""
    is_soon = figures["sent_to_decision_ms"].get("p99", float("inf")) < MOST_P99_MS
    return is_soon and figures["share_decided"] >= LEAST_DECIDED and not figures["refused"] and not figures["dropped"]


def largest(is_served: Callable[[int], bool]) -> int:
    """The largest number found to be served, by doubling and then halving the gap; 0 where the first is not."""
    most, fewest = 0, FIRST
    while fewest <= MOST and is_served(fewest):
        most, fewest = fewest, 2 * fewest
    while most and fewest <= MOST and fewest / most > NEAREST:
        middle = (most + fewest) // 2
        most, fewest = (middle, fewest) if is_served(middle) else (most, middle)
    return most


def lines(figures: dict[str, Any]) -> list[str]:
    """Each run, and where the core's time goes in the largest that was served."""
    told = []
    for each in figures["runs"]:
        waits, share = each["sent_to_decision_ms"], each["cpu_share_of_one_core"]
        delays = f"p50 {waits['p50']:g}, p99 {waits['p99']:g} ms from sender to decision" if waits else "none decided"
        told.append(f"{each['devices']} devices: {delays}, {share:.2f} of the core")
    most = next((each for each in figures["runs"] if each["devices"] == figures["devices_per_core"]), None)
    if most is not None:
        shares = ", ".join(f"{name} {share:.2f}" for name, share in most["cpu_shares"].items())
        told.append(f"{most['devices']} devices, of the core: {shares}")
        told.append(f"longest save {most['longest_save_ms']:g} ms")
    return told
