"""See it all work in minutes: broker, synthetic wearers, training, live alerts."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from stream_occ.cli._common import JsonOption, QuietOption

EXAMPLES = (
    "stream-occ demo",
    "stream-occ demo --minutes 1 --speed 15",
    "stream-occ demo --seed 3 --wearers 10 --json demo.json",
    "stream-occ demo --broker iotcore",
    "stream-occ demo --dashboard",
)


def command(
    minutes: Annotated[
        float, typer.Option("--minutes", min=0.2, max=240, help="Wall-clock time, with training.")
    ] = 3.0,
    speed: Annotated[float, typer.Option("--speed", min=1, max=100, help="Times real time; more falls.")] = 7.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="The same seed: the same wearers, falls, counts.")] = 0,
    wearers: Annotated[int, typer.Option("--wearers", min=1, max=50, help="How many synthetic wearers.")] = 6,
    broker: Annotated[
        Literal["auto", "mosquitto", "iotcore"],
        typer.Option("--broker", help="auto: mosquitto where it is installed, else the embedded one."),
    ] = "auto",
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="A live page of it all beside, its address printed.")
    ] = False,
    json_path: JsonOption = None,
    quiet: QuietOption = False,
) -> None:
    """Simulate wearers, train on their normal activity, run the real service, and count what it flags.

    An MQTT broker starts on loopback on a free port; a model is trained on normal activity of synthetic wearers; the
    service runs as its own process; the wearers' streams, with falls, go through the broker at --speed times real
    time. At the end comes a summary. Training takes some 20 s of --minutes, or half that on half the data where
    --minutes is below 0.75; on a slow machine it takes longer, and the demo with it. Exit code 1 where the service
    failed. Nothing is written outside a temporary folder but what --json names. Synthetic wearers: the figures say
    nothing of people. The page of --dashboard needs the extra of that name; at a terminal it stays until Ctrl-C.
    """
    import io
    import sys
    from importlib import import_module

    from stream_occ.cli._common import write_json
    from stream_occ.demo.run import run_demo
    from stream_occ.demo.screen import Screen
    from stream_occ.demo.wearers import Plan
    from stream_occ.errors import UsageError

    if quiet and dashboard:
        raise UsageError("--quiet", "be left out beside --dashboard", "both", "The page's address has to be printed")
    if dashboard:
        import_module("stream_occ.dashboard.serving")  # runs in another process: a missing extra is told here, at once
    plan = Plan(seed=seed, n_wearers=wearers, speed=speed, minutes=minutes)
    screen = Screen(io.StringIO() if quiet else sys.stderr if str(json_path) == "-" else sys.stdout)
    result = run_demo(plan, screen, broker_kind=None if broker == "auto" else broker, with_page=dashboard)
    if json_path is not None:
        write_json(json_path, result.as_json())
