"""The service with a note of each instant: python -m stream_occ.bench.noting NOTES.json detect -c edge.yaml

Of each window: when the message with its last sample came (the MQTT client's callback), when it was decided (the
pipeline's step returned), when its score, where one is told, was handed to the client. Of each step: CPU time of the
worker's thread so far, and of decoding, deciding and saving in it. Nothing else of `stream-occ detect` is changed.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stream_occ.bench.devices import Noted
from stream_occ.intake import Intake
from stream_occ.mqtt import MqttLink
from stream_occ.pipeline import Pipeline
from stream_occ.service import Service

STAGES = ("decode", "decide", "save")


class Notes:
    """What is noted; patches the classes of this process."""

    def __init__(self) -> None:
        self.arrived: list[Noted] = []
        self.decided: list[Noted] = []
        self.handed: list[float] = []
        self.spent_s = dict.fromkeys(STAGES, 0.0)
        self.spent: list[tuple[float, ...]] = []  # monotonic s, CPU s of the worker's thread, of each stage
        self.saves: list[tuple[float, float]] = []  # monotonic s, how long it took
        accept, step, keep, publish = Intake.accept, Pipeline.step, Service._keep, MqttLink.publish

        def accepting(intake: Intake, message: Any, **clocks: Any) -> Any:
            blocks = self._timed("decode", lambda: accept(intake, message, **clocks))
            self.arrived.extend((block.device_id, int(block.t_ns[-1]), message.arrived_s) for block in blocks)
            return blocks

        def stepping(*arguments: Any, **options: Any) -> Any:
            result = self._timed("decide", lambda: step(*arguments, **options))
            now_s = time.monotonic()
            self.decided.extend((decision.device_id, decision.t_end_ns, now_s) for decision in result[1])
            self.spent.append((now_s, time.thread_time(), *self.spent_s.values()))
            return result

        def keeping(*arguments: Any, **options: Any) -> None:
            start_s = time.monotonic()
            self._timed("save", lambda: keep(*arguments, **options))
            self.saves.append((start_s, time.monotonic() - start_s))

        def publishing(link: MqttLink, topic: str, *arguments: Any, **options: Any) -> bool:
            if topic.endswith("/score"):  # one a decision, in the same order
                self.handed.append(time.monotonic())
            return publish(link, topic, *arguments, **options)

        for kind, name, noting in (
            (Intake, "accept", accepting),
            (Pipeline, "step", stepping),
            (Service, "_keep", keeping),
            (MqttLink, "publish", publishing),
        ):
            setattr(kind, name, noting)

    def _timed(self, stage: str, task: Callable[[], Any]) -> Any:
        start_s = time.thread_time()
        try:
            return task()
        finally:
            self.spent_s[stage] += time.thread_time() - start_s

    def write(self, path: Path) -> None:
        """As JSON."""
        names = ("arrived", "decided", "handed", "spent", "saves")
        path.write_text(json.dumps({name: getattr(self, name) for name in names}), encoding="utf-8")


def main() -> None:
    """Runs the rest of the command line as `stream-occ`, and writes the notes when it ends."""
    path, notes = Path(sys.argv.pop(1)), Notes()
    try:
        runpy.run_module("stream_occ", run_name="__main__", alter_sys=True)
    finally:
        notes.write(path)


if __name__ == "__main__":
    main()
