"""Listen to devices on an MQTT broker and publish alerts."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from stream_occ.cli._common import JsonOption

EXAMPLES = (
    "stream-occ detect -c configs/edge.yaml",
    "stream-occ detect -c configs/edge.yaml --model models/ward.occ",
    "stream-occ detect -c configs/edge.yaml --shard 1of4",
    "STREAM_OCC__MQTT__HOST=broker.lan stream-occ detect -c configs/edge.yaml",
)


def command(
    config: Annotated[Path, typer.Option("--config", "-c", metavar="FILE", help="Configuration file (YAML).")],
    model: Annotated[
        Path | None, typer.Option("--model", metavar="FILE", help="Model file, in place of the configuration's.")
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="NofM", help="Take one share of the devices, such as 2of4; others the rest.")
    ] = None,
    json_path: JsonOption = None,
) -> None:
    """Run the detector until SIGTERM, SIGHUP or Ctrl-C.

    Prints one line that begins with "ready:" when the broker has taken its subscriptions; it may be started before the
    broker. At the end it publishes offline, sends what is pending and exits with 0. --json writes its counters then.
    """
    # Read when numpy is imported. A second thread gains 8 % at most for twice the CPU time; on a busy machine the two
    # wait for each other, spinning, and a batch takes up to 17 times as long.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from stream_occ import running
    from stream_occ.artifacts import load_model
    from stream_occ.cli._common import write_json
    from stream_occ.cli._service import announce, log_to_stderr, stop_on_signals
    from stream_occ.config import adjusted_config
    from stream_occ.engines import select, warm
    from stream_occ.wiring import ClientId, warn_of_placements, warn_of_ranges

    settings = adjusted_config(config, shard=shard)
    log_to_stderr(settings.log.level, settings.log.format)
    select(settings.engine)
    loaded = load_model(model or settings.model, key=settings.model_key)
    loaded.warm()  # first: with engine auto it decides whether anything is compiled
    warm()
    warn_of_placements(settings, loaded)
    warn_of_ranges(settings, loaded)
    stop = stop_on_signals()
    client_id = ClientId(settings)
    try:
        counters = running.run(settings, loaded, client_id=client_id.value, stop=stop, on_ready=announce)
    finally:
        client_id.release()
    if json_path is not None:
        write_json(json_path, counters.model_dump(mode="json"))
