"""Write what devices send to files that `train` reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_occ.cli._common import HostOption, JsonOption, PortOption, QuietOption

EXAMPLES = (
    "stream-occ record -c configs/edge.yaml --out recordings --seconds 600 --subject anna --activity walking",
    "stream-occ record --host broker.lan --topic 'wearables/{device}/imu' --profile si --out recordings",
)


def command(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Folder for one file a device; made if missing.")],
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Configuration: broker, inputs and limits.")
    ] = None,
    host: HostOption = None,
    port: PortOption = None,
    topic: Annotated[
        str | None, typer.Option("--topic", metavar="PATTERN", help="Topics with {device}, in place of the inputs.")
    ] = None,
    codec: Annotated[str, typer.Option("--codec", help="Codec for --topic.")] = "json",
    profile: Annotated[str, typer.Option("--profile", help="Profile for --topic: a name in profiles/.")] = "declared",
    seconds: Annotated[
        float | None, typer.Option("--seconds", min=0.1, help="End this long after the start; without it, on Ctrl-C.")
    ] = None,
    subject: Annotated[str | None, typer.Option("--subject", help="Who wears the device. Default: its id.")] = None,
    activity: Annotated[str, typer.Option("--activity", help="What is done, for reports.")] = "unknown",
    fall: Annotated[bool, typer.Option("--fall", help="The recording holds a fall: it is never trained on.")] = False,
    placement: Annotated[
        str | None, typer.Option("--placement", help="waist, wrist, thigh, chest, neck or ankle.")
    ] = None,
    json_path: JsonOption = None,
    quiet: QuietOption = False,
) -> int:
    """Subscribe and record until --seconds are over, SIGTERM or Ctrl-C.

    Prints one line that begins with "ready:" when the broker has taken the subscriptions; where it has not within
    mqtt.connect_timeout_s (10 s), or --seconds if less, exit code is 1. Damaged messages are left out and counted by
    reason.
    """
    import secrets
    from dataclasses import asdict
    from typing import get_args

    from stream_occ import recording
    from stream_occ.cli import EXIT_FAILED, EXIT_OK
    from stream_occ.cli._common import counted, is_told, progress, write_json
    from stream_occ.cli._service import log_to_stderr, say, stop_on_signals
    from stream_occ.config import adjusted_config
    from stream_occ.errors import UsageError, nearest
    from stream_occ.samples import Placement

    if config is None and topic is None:
        raise UsageError("record", "be given --config or --topic", "neither", "Say which topics to record")
    if placement is not None and placement not in get_args(Placement):
        known = get_args(Placement)
        remedy = nearest(placement, known, "Correct it")
        raise UsageError("--placement", f"be one of {', '.join(known)}", placement, remedy)
    entry = None if topic is None else {"pattern": topic, "codec": codec, "profile": profile}
    broker = {"host": host, "port": port}
    settings = adjusted_config(config, mqtt=broker, inputs=None if entry is None else [entry])
    log_to_stderr(settings.log.level, settings.log.format)
    labels = recording.Labels(subject, activity, fall, placement)  # type: ignore[arg-type]
    stop = stop_on_signals()
    tell = say if is_told(json_path, quiet) else (lambda line: None)
    with progress(is_quiet=quiet) as report:
        summary = recording.run(
            settings,
            out,
            labels,
            client_id=f"stream-occ-record-{secrets.token_hex(4)}",
            stop=stop,
            seconds=seconds,
            on_ready=tell,
            on_progress=lambda elapsed_s, _n: report("Recording (s)", int(elapsed_s), int(seconds or 0)),
        )
    for path, n_samples in summary.files.items():
        tell(f"{path}: {counted(n_samples, 'sample')}")
    refused = ", ".join(f"{reason} {n}" for reason, n in summary.refused.items()) or "none"
    tell(f"{counted(summary.n_messages, 'message')}, refused: {refused}")
    if json_path is not None:
        write_json(json_path, asdict(summary))
    if not summary.files:
        tell("nothing was recorded")
        return EXIT_FAILED
    return EXIT_OK
