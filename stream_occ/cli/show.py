"""Draw an alert: the signals around it, and the features that made it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from stream_occ.cli._common import JsonOption, check_output, write_json
from stream_occ.errors import UsageError, visible

EXAMPLES = (
    "stream-occ show alert.json",
    "stream-occ show alert.json --waveform waveform.json --out alert.png",
    "stream-occ show --state ~/.local/state/stream_occ/stream_occ-edge.db",
)
SUFFIXES = (".svg", ".png", ".pdf")


def command(
    alert: Annotated[
        Path | None, typer.Argument(metavar="ALERT.json", help="A message of the alert or event topic.")
    ] = None,
    state: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.db",
            help="State file of the service: the alert, or signals of ALERT.json. [default: where services keep them]",
        ),
    ] = None,
    alert_id: Annotated[
        str | None, typer.Option(metavar="ID", help="Which alert of --state. [default: its latest]")
    ] = None,
    waveform: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A message of the waveform topic, where signals are published.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Picture: .svg, .png or .pdf. [default: <alert id>.svg]")
    ] = None,
    json: JsonOption = None,
) -> None:
    """Draw an alert: the signals around it, and the features that made it.

    An alert message carries no signals. They lie in the state file of the service, which is looked for in its
    default places, or in a message of the waveform topic where output.publish_waveform is set; without them
    the features alone are drawn.
    """
    from stream_occ.showing import alert_in, draw, kept_signals, read_alert, read_waveform, signals_in

    if alert is not None and alert_id is not None:
        raise UsageError("--alert-id", "come without ALERT.json", "both", "Leave one out")
    if out is not None and out.suffix not in SUFFIXES:
        raise UsageError("--out", f"end in {', '.join(SUFFIXES)}", out.name, "Name another file")
    if out is not None:
        check_output("--out", out, makes_folder=False)
    shown = alert_in(_given(state), alert_id) if alert is None else read_alert(alert)
    signals, where = shown.waveform, ""
    if waveform is not None:
        signals = read_waveform(waveform, shown.message.alert_id)
    elif alert is not None and state is not None:
        signals = signals_in(state, shown.message.alert_id)
    elif alert is not None and (kept := kept_signals(shown.message.alert_id)) is not None:
        signals, where = kept[0], f", signals from {kept[1]}"
    shown = type(shown)(shown.message, shown.device, shown.state, signals)
    target = out or Path(f"{_file_stem(shown.message.alert_id)}.svg")
    if out is None:
        check_output("--out", target, makes_folder=False)
    draw(shown, target)
    if json is not None:
        n_samples = 0 if signals is None else len(signals.values)
        message = shown.message.model_dump(mode="json")
        write_json(json, {"device": shown.device, "alert": message, "n_samples": n_samples, "out": str(target)})
    if str(json) != "-":
        told = where if signals is not None else ", without signals: none are at hand (--state, --waveform)"
        sys.stdout.write("\n".join([*shown.lines(), visible(f"Drawn to {target}{told}.")]) + "\n")


def _given(state: Path | None) -> Path:
    if state is None:
        raise UsageError("ALERT.json, --state", "name an alert", "neither", "Give a message, or the state file")
    return state


def _file_stem(alert_id: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]", "_", Path(alert_id).name).strip(".") or "alert"
