"""A live page of wearers and alerts, with buttons to act."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

EXAMPLES = (
    "stream-occ dashboard -c configs/edge.yaml",
    "stream-occ dashboard --hash-password",
    "stream-occ dashboard -c ward.yaml --host 0.0.0.0 --people people.txt --tls-cert cert.pem --tls-key key.pem",
    "stream-occ dashboard -c ward.yaml --people people.txt --proxy-header X-Remote-User --proxy-from 127.0.0.1",
)


def command(
    config: Annotated[
        Path | None, typer.Option("--config", "-c", metavar="FILE", help="Configuration of the detector: its broker.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to serve on; beyond this machine with a log-in.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Its port; 0 for a free one.")] = 8484,
    people: Annotated[
        Path | None,
        typer.Option("--people", metavar="FILE", help="Who may log in: lines name:role:hash, role view or act."),
    ] = None,
    proxy_header: Annotated[
        str | None,
        typer.Option("--proxy-header", metavar="NAME", help="Header in which a reverse proxy says who it is."),
    ] = None,
    proxy_from: Annotated[
        str | None, typer.Option("--proxy-from", metavar="ADDRESSES", help="Addresses from which that is believed.")
    ] = None,
    tls_cert: Annotated[
        Path | None, typer.Option("--tls-cert", metavar="FILE", help="Certificate (PEM), for https.")
    ] = None,
    tls_key: Annotated[Path | None, typer.Option("--tls-key", metavar="FILE", help="Its key (PEM).")] = None,
    history: Annotated[
        Path | None,
        typer.Option("--history", metavar="FILE", help="The history of alerts. Default: in the state folder."),
    ] = None,
    receiver: Annotated[
        str | None,
        typer.Option("--receiver", metavar="NAME", help="Tell services what is kept, as this one of receivers."),
    ] = None,
    hash_password: Annotated[
        bool, typer.Option("--hash-password", help="Read a password, print what --people wants, and end.")
    ] = False,
) -> None:
    """Serve the page until SIGTERM or Ctrl-C.

    Prints one line that begins with "ready:" and holds the address of the page. It may be started before the broker.
    Without --people or --proxy-header nobody logs in, and it serves this machine alone.
    """
    import sys

    from stream_occ.cli._service import announce, log_to_stderr, say, stop_on_signals
    from stream_occ.config import load_config
    from stream_occ.dashboard import access, serving
    from stream_occ.errors import UsageError

    if hash_password:
        from getpass import getpass

        given = getpass() if sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
        say(access.hash_password(given))
        return
    if config is None:
        raise UsageError("dashboard", "be given --config", "none", "Name the detector's configuration")
    for one, other, names in (
        (proxy_header, proxy_from, "--proxy-header and --proxy-from"),
        (tls_cert, tls_key, "--tls-cert and --tls-key"),
    ):
        if (one is None) != (other is None):
            raise UsageError(names, "be given together", "one of them", "Give both, or neither")
    settings = load_config(config)
    proxy = None if proxy_header is None or proxy_from is None else access.Proxy.of(proxy_header, proxy_from)
    who = access.Access(None if people is None else access.read_people(people), proxy)
    where = serving.Where(host, port, tls_cert, tls_key)
    if who.is_open and not where.is_loopback:
        raise UsageError(
            "--host",
            "be of this machine where nobody logs in",
            host,
            "Give --people, or --proxy-header and --proxy-from",
        )
    for flag, path in (("--tls-cert", tls_cert), ("--tls-key", tls_key)):
        if path is not None and not path.is_file():
            raise UsageError(flag, "be an existing file", str(path), "Check the path")
    if receiver is not None and receiver not in settings.receivers:
        listed = ", ".join(settings.receivers) or "nobody"
        raise UsageError("--receiver", f"be listed in receivers ({listed})", receiver, "List it in the configuration")
    log_to_stderr(settings.log.level, settings.log.format)
    serving.run(
        settings,
        who,
        where,
        history_file=history or serving.history_path(settings),
        receiver=receiver,
        stop=stop_on_signals(),
        on_ready=announce,
    )
