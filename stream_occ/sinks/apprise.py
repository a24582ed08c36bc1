"""Whatever Apprise speaks to: ntfy, Matrix, Signal, SMS gateways, pagers and a hundred more, each by one address.

One address a sink, so that each has a receipt of its own. Apprise says yes or no: a no is tried again.
"""

from __future__ import annotations

import logging
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

from pydantic import SecretStr

from stream_occ.errors import ConfigError
from stream_occ.samples import AlertState
from stream_occ.sinks import _wording
from stream_occ.sinks._base import FOR_PEOPLE, Later, Notice, SinkSettings

_SPEAKER: ContextVar[object] = ContextVar("speaker")  # which sink Apprise works for, in whatever thread it does


class Settings(SinkSettings):
    """url as in Apprise's list of services, such as ntfys://ntfy.example/ward; it mostly holds a secret."""

    kind: Literal["apprise"]
    url: SecretStr
    url_file: Path | None = None
    states: tuple[AlertState, ...] = FOR_PEOPLE


class Sink:
    """One address of Apprise; it takes an alert where Apprise says that it did."""

    def __init__(self, settings: Settings) -> None:
        try:
            import apprise
        except ImportError:
            got, remedy = "none", "Install it with: pip install 'stream_occ[notify]'"
            raise ConfigError("sinks: kind apprise", "have Apprise installed", got, remedy) from None
        self._types = {
            "info": apprise.NotifyType.INFO,
            "warning": apprise.NotifyType.WARNING,
            "critical": apprise.NotifyType.FAILURE,
        }
        self._last = _LastWarning()
        logger = logging.getLogger("apprise")
        logger.addHandler(self._last)
        logger.propagate = False  # what it says of a failure is told as the sink's reason, once
        logging.getLogger("urllib3").setLevel(logging.ERROR)  # below, it tells paths, which may be secrets
        asset = apprise.AppriseAsset(async_mode=False, secure_logging=True, app_id="stream-occ", app_desc="fall alerts")
        address = _with_limits(settings.url.get_secret_value(), settings.timeout_s)
        self._apprise: Any = apprise.Apprise(asset=asset)
        if not self._apprise.add(address):
            expected, remedy = "be an address that Apprise knows", "See Apprise's list of services"
            raise ConfigError("sinks: kind apprise: url", expected, "another", remedy)

    def send(self, notice: Notice) -> None:
        """One notification."""
        alert = notice.alert
        self._last.begin()
        kind = self._types[alert.severity]
        if not self._apprise.notify(
            body=_wording.text(alert), title=_wording.headline(alert), notify_type=kind, body_format="text"
        ):
            raise Later(self._last.text or "Apprise could not send it")


class _LastWarning(logging.Handler):
    """Keeps what was said last of the notice that began here; without secrets of addresses, by secure_logging."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.text = ""

    def begin(self) -> None:
        self.text = ""
        _SPEAKER.set(self)

    def emit(self, record: logging.LogRecord) -> None:
        if _SPEAKER.get(None) is self:
            self.text = record.getMessage()


def _with_limits(url: str, timeout_s: float) -> str:
    """Apprise's own limits, of connecting, reading and redirections, where the address does not give them."""
    given, limits = url.partition("?")[2], {"cto": f"{timeout_s:g}", "rto": f"{timeout_s:g}", "redirect": "no"}
    added = [f"{key}={value}" for key, value in limits.items() if f"{key}=" not in given]
    return f"{url}{'&' if '?' in url else '?'}{'&'.join(added)}" if added else url
