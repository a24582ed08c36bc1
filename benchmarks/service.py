"""How soon the service decides, and how much of a core it needs: devices at 50 Hz through a real mosquitto.

    python benchmarks/service.py --devices 100 --samples 10 --seconds 60 --json service.json

One run as `stream-occ bench service` makes many of: `detect` on one core; mosquitto and this process, which plays the
devices, on the others. `sent_to_score_ms` runs from before a window's last sample is handed to the socket until its
score has come back, so the broker (twice) and a client are in it. The model is the default one (fall31, `fused`, 5 s
every 0.5 s), fitted on as many synthetic windows as MobiFall has; --model takes any other.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")

from paho.mqtt import client as paho
from paho.mqtt.enums import CallbackAPIVersion

from stream_occ.bench.devices import Noted, Player, waits_ms, walking
from stream_occ.bench.report import machine
from stream_occ.bench.serving import MOBIFALL_WINDOWS, Load, Run, free_port, make_model, mosquitto, run, spread
from stream_occ.bench.serving import end as _end
from stream_occ.errors import ServiceError
from stream_occ.samples import FloatArray

__all__ = ["_end", "free_port", "make_model", "play", "walking"]  # what footprint.py takes


class Scores:
    """Notes when the score of each window came back."""

    def __init__(self, port: int) -> None:
        self.arrived: list[Noted] = []
        self.client = paho.Client(CallbackAPIVersion.VERSION2)
        self.client.on_connect = lambda c, *_: c.subscribe("stream_occ/+/score", 0)
        self.client.on_message = self._note
        self.client.connect("127.0.0.1", port)

    def __enter__(self) -> Scores:
        self.client.loop_start()
        return self

    def __exit__(self, *_: object) -> None:
        self.client.loop_stop()

    def _note(self, _client: Any, _user: Any, message: paho.MQTTMessage) -> None:
        now_s = time.monotonic()
        self.arrived.append((message.topic.split("/")[1], json.loads(message.payload)["t_ns"], now_s))


def play(port: int, phases: FloatArray, seconds: float, n_samples: int, *, is_numbered: bool) -> list[Noted]:
    """Sends each device's samples in real time: see Player."""
    return Player(port, phases, seconds, n_samples, is_numbered=is_numbered).play()


def figures_of(found: Run, arguments: argparse.Namespace) -> dict[str, Any]:
    """The run's own, and those of scores."""
    decided = found.noted["decided"]
    handed = [(name, stamp, at_s) for (name, stamp, _), at_s in zip(decided, found.noted["handed"], strict=True)]
    return {
        "model": str(arguments.model or f"default, {arguments.rows} synthetic windows"),
        "phases": arguments.phases,
        "numbered": arguments.numbered,
        **found.figures(),
        "arrival_to_handed_over_ms": spread(waits_ms(found.noted["arrived"], handed, found.since_s)),
        "sent_to_score_ms": spread(waits_ms(found.sent, found.seen, found.since_s)),
        "machine": machine() | {"load_1min": round(os.getloadavg()[0], 1)},
    }


def main() -> int:
    """Prints the figures, and writes them to --json; exit code 1 where p99 is not below --p99-ms."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--devices", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--samples", type=int, default=10, help="a message")
    parser.add_argument("--phases", choices=("random", "equal"), default="random", help="equal: all send at once")
    parser.add_argument("--numbered", action="store_true", help="devices number their messages: a save every second")
    parser.add_argument("--rows", type=int, default=MOBIFALL_WINDOWS, help="training windows in the model")
    parser.add_argument("--model", type=Path, help="a model file in place of the default detector")
    parser.add_argument("--slice-s", type=float, help="output.slice_s, where not its default")
    parser.add_argument("--p99-ms", type=float, help="bar for arrival to decision")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    try:
        mosquitto()
    except ServiceError as error:
        print(error)
        return 1
    slice_s = "" if arguments.slice_s is None else f", slice_s: {arguments.slice_s}"
    load = Load(
        arguments.devices,
        arguments.seconds,
        n_samples=arguments.samples,
        is_random=arguments.phases == "random",
        is_numbered=arguments.numbered,
        options=f"output: {{publish_score: true{slice_s}}}",
    )
    with tempfile.TemporaryDirectory() as name:
        model = arguments.model
        if model is None:
            make_model(model := Path(name) / "bench.occ", arguments.rows)
        figures = figures_of(run(Path(name), model.resolve(), load, listen=Scores), arguments)
    print(json.dumps(figures, indent=2))
    if arguments.json is not None:
        arguments.json.write_text(json.dumps(figures, indent=2) + "\n")
    return int(arguments.p99_ms is not None and figures["arrival_to_decision_ms"]["p99"] >= arguments.p99_ms)


if __name__ == "__main__":
    sys.exit(main())
