"""Watch wearers and their alerts live in the terminal."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from stream_occ.cli._common import HostOption, JsonOption, MqttConfigOption, PortOption, QuietOption

if TYPE_CHECKING:
    from stream_occ.board import Board, Watched

EXAMPLES = (
    "stream-occ watch",
    "stream-occ watch -c configs/edge.yaml",
    "stream-occ watch --host broker.lan --once --json wards.json",
)

# Never by colour alone: each has a sign and a word.
LOOKS = {
    "alarm": ("!!", "bold white on red"),
    "pending": ("! ", "bold black on yellow"),
    "acknowledged": ("+ ", "bold cyan"),
    "checking": ("? ", "yellow"),
    "suspected": ("? ", "yellow"),
    "offline": ("x ", "magenta"),
    "normal": ("  ", "green"),
}
ONCE_S = 1.0
MARGIN_LINES = 8  # of the screen, for what stands around the rows


def command(
    config: MqttConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    once: Annotated[bool, typer.Option("--once", help="Show what is retained now, and end.")] = False,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.5, help="End after so long.")] = None,
    quiet: QuietOption = False,
    json_path: JsonOption = None,
) -> int:
    """Show wearers, open alerts first, until Ctrl-C; without a terminal, a line for each change.

    It reads retained topics alone and publishes nothing. --json writes what is known at the end. Exit code with --once:
    1 where an alarm is open that nobody has acknowledged, or no service is online.
    """
    import secrets
    import sys

    from rich.console import Console
    from rich.live import Live

    from stream_occ import board
    from stream_occ.cli import EXIT_FAILED, EXIT_OK
    from stream_occ.cli._common import write_json
    from stream_occ.cli._service import log_to_stderr, say, stop_on_signals
    from stream_occ.config import adjusted_config

    unused = [{"pattern": "{device}", "codec": "json"}]  # a configuration must name an input
    settings = adjusted_config(config, mqtt={"host": host, "port": port}, inputs=unused if config is None else None)
    log_to_stderr("error")
    quiet = quiet or str(json_path) == "-"
    console, stop = Console(), stop_on_signals()
    is_live = sys.stdout.isatty() and not once and not quiet
    live = Live(console=console, screen=True, auto_refresh=False) if is_live else None

    def show(seen: Board, lines: Iterable[str], is_connected: bool) -> None:
        if live is not None:
            live.update(screen_of(seen, is_connected=is_connected, height=console.size.height), refresh=True)
        elif not quiet and not once:
            for line in lines:
                say(line)

    if live is not None:
        live.start()
    try:
        seen = board.follow(
            settings,
            client_id=f"stream-occ-watch-{secrets.token_hex(4)}",
            stop=stop,
            seconds=ONCE_S if once else seconds,
            on_change=show,
        )
    finally:
        if live is not None:
            live.stop()
    if once and not quiet:
        console.print(screen_of(seen, is_connected=True, height=None))
    if json_path is not None:
        write_json(json_path, seen.to_json())
    is_calling = any(wearer.shown == "alarm" for wearer in seen.wearers.values())
    return EXIT_FAILED if once and (is_calling or not any(seen.services.values())) else EXIT_OK


def screen_of(seen: Board, *, is_connected: bool, height: int | None) -> Any:
    """The table; height: lines of the screen, None for as many as there are."""
    import time

    from rich.table import Table
    from rich.text import Text

    now_ns = time.time_ns()
    ordered = seen.ordered()
    n_shown = len(ordered) if height is None else max(1, height - MARGIN_LINES)
    table = Table(title=_title(seen, is_connected=is_connected), title_justify="left", expand=True)
    for name in ("wearer", "state", "score - threshold", "rate", "last seen", "faults"):
        table.add_column(name, overflow="fold")
    for wearer in ordered[:n_shown]:
        sign, style = LOOKS.get(wearer.shown, ("  ", ""))
        margin = "" if wearer.margin is None else f"{wearer.margin:+.2f}"
        rate = "" if wearer.rate_hz is None else f"{wearer.rate_hz:.0f} Hz"
        cells = (_age(wearer, now_ns), ", ".join(wearer.faults))
        table.add_row(
            Text(wearer.device), Text(sign + _words(wearer, now_ns), style=style), margin, rate, *map(Text, cells)
        )
    n_left = len(ordered) - n_shown + seen.n_more
    table.caption = f"and {n_left} more, none more urgent" if n_left > 0 else None if ordered else "no wearer heard yet"
    return table


def _title(seen: Board, *, is_connected: bool) -> Any:
    from rich.text import Text

    away = [name for name, is_online in seen.services.items() if not is_online]
    if not is_connected:
        return Text("NO CONNECTION to the broker: what is below may be old", style="bold white on red")
    if away or not seen.services:
        which = ", ".join(away) or "none was ever there"
        return Text(f"SERVICE OFFLINE ({which}): nobody watches", style="bold white on red")
    n_open = sum(wearer.alert_state is not None for wearer in seen.wearers.values())
    return Text(f"stream-occ: {len(seen.wearers)} wearers, {n_open} open alerts; Ctrl-C ends this view alone")


def _words(wearer: Watched, now_ns: int) -> str:
    if wearer.deadline_ns is not None:
        return f"{wearer.shown}, alarm in {max(0, wearer.deadline_ns - now_ns) / 1e9:.0f} s"
    return f"{wearer.shown} by {wearer.by}" if wearer.by and wearer.alert_state == "acknowledged" else wearer.shown


def _age(wearer: Watched, now_ns: int) -> str:
    from stream_occ.board import age

    return age(wearer.last_seen, now_ns)
