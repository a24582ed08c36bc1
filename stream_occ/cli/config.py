"""Check a configuration, or show the effective one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from stream_occ.cli._common import JsonOption

EXAMPLES = (
    "stream-occ config check configs/edge.yaml",
    "stream-occ config show configs/edge.yaml",
    "STREAM_OCC__MQTT__PORT=8883 stream-occ config show configs/edge.yaml",
)

app = typer.Typer()


@app.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Configuration file (YAML); - reads stdin.")],
    json_path: JsonOption = None,
) -> int:
    """Check the file, the profiles it names and the environment; print all problems, one a line (exit code 2)."""
    from stream_occ.cli._common import write_json
    from stream_occ.config import check_config
    from stream_occ.errors import visible

    _config, problems = check_config(file)
    for problem in problems:
        sys.stderr.write(f"{visible(str(problem))}\n")
    if json_path is not None:
        found = [
            {"where": p.where, "expected": p.expected, "got": p.got, "remedy": p.remedy, "text": str(p)}
            for p in problems
        ]
        write_json(json_path, {"file": str(file), "problems": found})
    elif not problems:
        sys.stdout.write(f"{file}: no problem\n")
    return 2 if problems else 0


@app.command()
def show(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="Configuration file, - for stdin; none: defaults.")
    ] = None,
    json_path: JsonOption = None,
) -> None:
    """Print the effective configuration as YAML: the file under the environment, defaults filled in, secrets as ***."""
    import yaml

    from stream_occ.cli._common import write_json
    from stream_occ.config import adjusted_config

    placeholder = [{"pattern": "wearables/{device}/imu"}] if file is None else None
    settings = adjusted_config(file, inputs=placeholder)
    if json_path is not None:
        write_json(json_path, settings.shown())
    else:
        sys.stdout.write(yaml.safe_dump(settings.shown(), sort_keys=False, allow_unicode=True))
