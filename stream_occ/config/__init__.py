"""Reading a configuration: the YAML file, then environment variables `STREAM_OCC__SECTION__KEY`, which win.

Unknown keys and variables are refused, with file and line (or the variable's name) and the nearest known key. Relative
paths are relative to the file's folder. Secrets come from a file (`password_file`) or the environment and are never
printed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from stream_occ.config.draft import ENVIRONMENT_PREFIX, Draft
from stream_occ.config.inputs import DEVICE_FIELD, InputConfig, ProfileConfig
from stream_occ.config.models import (
    Config,
    DriftConfig,
    EventsConfig,
    HttpConfig,
    LimitsConfig,
    LogConfig,
    MqttConfig,
    OutputConfig,
    StateConfig,
    StreamConfig,
    TlsConfig,
)
from stream_occ.config.yaml_lines import Document, load_yaml
from stream_occ.errors import ConfigError

__all__ = [
    "DEVICE_FIELD",
    "ENVIRONMENT_PREFIX",
    "Config",
    "DriftConfig",
    "EventsConfig",
    "HttpConfig",
    "InputConfig",
    "LimitsConfig",
    "LogConfig",
    "MqttConfig",
    "OutputConfig",
    "ProfileConfig",
    "StateConfig",
    "StreamConfig",
    "TlsConfig",
    "adjusted_config",
    "check_config",
    "load_config",
]


def load_config(path: Path | str, environment: Mapping[str, str] | None = None) -> Config:
    """The configuration in the file; raises the ConfigError of the first problem, and says how many there are."""
    config, problems = check_config(path, environment)
    return _sound(config, problems, path)


def check_config(
    path: Path | str, environment: Mapping[str, str] | None = None
) -> tuple[Config | None, list[ConfigError]]:
    """The configuration, or None and all problems of the file and of the environment (default: the process's own)."""
    return _checked(Path(path), os.environ if environment is None else environment, {})


def adjusted_config(path: Path | str | None, **changes: Any) -> Config:
    """The configuration in the file (None: defaults and environment alone) with values of the command line over it.

    changes: sections or keys by name, as data; None values, also within a section, change nothing.
    """
    config, problems = _checked(None if path is None else Path(path), os.environ, changes)
    return _sound(config, problems, path)


def _sound(config: Config | None, problems: Sequence[ConfigError], path: Path | str | None) -> Config:
    if config is not None:
        return config
    first = problems[0]
    if len(problems) == 1 or path is None:
        raise first
    more = f"{first.remedy} ({len(problems) - 1} more: stream-occ config check {path})"
    raise ConfigError(first.where, first.expected, first.got, more)


def _checked(
    source: Path | None, environment: Mapping[str, str], changes: Mapping[str, Any]
) -> tuple[Config | None, list[ConfigError]]:
    try:
        document = Document({}, {}) if source is None else load_yaml(source)
        if not isinstance(document.data, dict):
            raise ConfigError(
                f"{source}:1", "hold sections with keys", "something else", "Start from configs/edge.yaml"
            )
        _check_kind(document.data, str(source))
    except ConfigError as problem:
        return None, [problem]
    draft = Draft(source or Path("command line"), document.data, document)
    draft.apply_environment(environment)
    draft.apply_changes(changes)
    draft.resolve_paths()
    draft.resolve_profiles()
    draft.resolve_sinks()
    config = draft.validate()
    if config is None or draft.problems:
        return None, draft.problems
    return config, []


def _check_kind(data: dict[str, Any], name: str) -> None:
    """Raises ConfigError for a file of another kind, in place of one error for each of its keys."""
    strange = [key for key in data if key not in Config.model_fields]
    if "inputs" not in data and len(strange) > max(2, len(data) // 2):
        got = f"{', '.join(map(repr, strange[:3]))} and more"
        remedy = "Start from configs/edge.yaml; a training configuration goes to stream-occ train --config"
        raise ConfigError(f"{name}:1", "hold the sections of a detector's configuration", got, remedy)
