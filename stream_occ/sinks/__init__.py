"""Where alerts go beside MQTT: each kind of sink is one file, found by its name.

A member is a module with `Settings`, its keys in the configuration (a `SinkSettings`), and `Sink(settings)`, whose
`send` returns when the receiver has the notice and raises `Later` or `Refused` where it has not.
"""

from __future__ import annotations

from stream_occ.errors import ConfigError
from stream_occ.plugins import load_plugin, plugin_names
from stream_occ.sinks._base import Later, Notice, Refused, Sink, SinkSettings

__all__ = ["Later", "Notice", "Refused", "Sink", "SinkSettings", "open_sink", "settings_class", "sink_kinds"]


def sink_kinds() -> tuple[str, ...]:
    """Names of all kinds.

    >>> sink_kinds()
    ('apprise', 'email', 'file', 'webhook')
    """
    return plugin_names(__name__)


def settings_class(kind: str, where: str) -> type[SinkSettings]:
    """The keys of a kind; raises ConfigError with the nearest name for an unknown one."""
    found: type[SinkSettings] = load_plugin(__name__, kind, kind=where, error=ConfigError).Settings
    return found


def open_sink(name: str, settings: SinkSettings) -> Sink:
    """The sink; raises ConfigError where what it needs is not there."""
    opened: Sink = load_plugin(__name__, settings.kind, kind=f"sinks.{name}", error=ConfigError).Sink(settings)
    return opened
