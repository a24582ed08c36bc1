"""Listen to a broker and say which configuration would read it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from stream_occ.cli._common import HostOption, JsonOption, MqttConfigOption, PortOption, QuietOption

EXAMPLES = (
    "stream-occ doctor --host broker.lan",
    "stream-occ doctor --host broker.lan --topic 'sensors/#' --seconds 20",
    "stream-occ doctor -c configs/edge.yaml --json findings.json",
    "stream-occ doctor --host broker.lan --port 8883 --tls --ca-file ca.pem --username w --password-file secret",
)


def command(
    config: MqttConfigOption = None,
    host: HostOption = None,
    port: PortOption = None,
    tls: Annotated[bool, typer.Option("--tls", help="Connect with TLS.")] = False,
    ca_file: Annotated[
        Path | None, typer.Option("--ca-file", metavar="FILE", help="With --tls: the authority's certificate (PEM).")
    ] = None,
    username: Annotated[str | None, typer.Option("--username", help="User of the broker.")] = None,
    password_file: Annotated[
        Path | None, typer.Option("--password-file", metavar="FILE", help="File with the user's password alone.")
    ] = None,
    topic: Annotated[str, typer.Option("--topic", metavar="FILTER", help="Topics to listen to.")] = "#",
    seconds: Annotated[float, typer.Option("--seconds", min=0.5, max=3600, help="How long to listen.")] = 60.0,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write the configuration to FILE.")
    ] = None,
    json_path: JsonOption = None,
    quiet: QuietOption = False,
) -> int:
    """Listen for --seconds, then print for each topic what was heard, what is not clear, and a configuration.

    Nothing is guessed silently: what the messages leave open is a line that begins with "?" and names the line to set.
    Move the device a little, and let it lie still for some seconds: rest tells the accelerometer's unit, turning the
    gyroscope's. Exit code 1: nothing was heard, or no codec reads any of it.
    """
    import secrets
    from dataclasses import asdict

    from stream_occ import doctor
    from stream_occ.cli import EXIT_FAILED, EXIT_OK
    from stream_occ.cli._common import check_output, is_told, progress, write_json
    from stream_occ.cli._service import log_to_stderr, say, stop_on_signals
    from stream_occ.config import adjusted_config
    from stream_occ.errors import UsageError

    _check_filter(topic)
    if ca_file is not None and not tls:
        raise UsageError("--ca-file", "come with --tls", "no --tls", "Add it")
    if out is not None:
        check_output("--out", out, makes_folder=False)
    broker = {
        "host": host,
        "port": port,
        "username": username,
        "password_file": None if password_file is None else str(password_file.resolve()),
        "tls": {"enabled": True, "ca_file": None if ca_file is None else str(ca_file.resolve())} if tls else None,
    }
    unused = [{"pattern": "{device}", "codec": "json"}]  # a configuration must name an input
    settings = adjusted_config(config, mqtt=broker, inputs=unused if config is None else None)
    log_to_stderr("warning")
    is_quiet = not is_told(json_path, quiet)
    stop = stop_on_signals()
    with progress(is_quiet=quiet) as show:
        heard = doctor.listen(
            settings,
            topic,
            seconds,
            client_id=f"stream-occ-doctor-{secrets.token_hex(4)}",
            stop=stop,
            on_ready=(lambda line: None) if is_quiet else say,
            on_progress=lambda elapsed_s: show("Listening (s)", int(elapsed_s), int(seconds)),
        )
    diagnosis = doctor.diagnose(heard)
    text = doctor.configuration(diagnosis, settings, has_file=config is not None) if diagnosis.inputs else ""
    if not is_quiet:
        say(doctor.report(diagnosis))
        say(f"# Configuration that would read it; check it with: stream-occ config check FILE\n{text}" if text else "")
    if json_path is not None:
        write_json(json_path, {**asdict(diagnosis), "configuration": text})
    if out is not None and text:
        out.write_text(text, encoding="utf-8")
    return EXIT_OK if diagnosis.inputs else EXIT_FAILED


def _check_filter(topic: str) -> None:
    """Raises UsageError for what is no topic filter of MQTT."""
    from stream_occ.errors import UsageError

    levels = topic.split("/")
    for i, level in enumerate(levels):
        is_wild = level == "+" or (level == "#" and i == len(levels) - 1)
        if not topic or "\0" in topic or (not is_wild and ("+" in level or "#" in level)):
            raise UsageError("--topic", "have + and # as whole levels, # as the last", repr(topic)[:60], "Correct it")
