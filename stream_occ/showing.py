"""An alert as a person looks at it: what its message says, the signals around it, the features that made it."""

from __future__ import annotations

import base64
import json
import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from pydantic import ValidationError

from stream_occ.errors import DataError
from stream_occ.messages import AlertMessage, EventMessage, Message, WaveformMessage, alert_message, instant
from stream_occ.regular import open_regular
from stream_occ.saved import alert_of
from stream_occ.told_rows import waveform_of
from stream_occ.waveform import Waveform
from stream_occ.wiring import state_folder

MAX_BYTES = 16 * 1024 * 1024  # of a JSON file: a window of 10 minutes at 200 Hz is 4 MB in base64
SYSTEM_FOLDER = Path("/var/lib/stream_occ")  # StateDirectory of configs/stream-occ.service
_REMEDY = "Save a message of the alert, event or waveform topic as it came"
_AXES = ("x", "y", "z")
M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """One change of an alert and the signals of its window, where they are known. device: empty where not told."""

    message: AlertMessage | EventMessage
    device: str
    state: str
    waveform: Waveform | None = None

    @property
    def peak_score(self) -> float:
        """Of the alert's windows; the message's own score is of the last window, which mostly is normal again."""
        return self.message.evidence.get("peak_score", self.message.score)

    def lines(self) -> list[str]:
        """What the message says, in words."""
        message, evidence = self.message, self.message.evidence
        threshold = evidence.get("threshold")
        against = "" if threshold is None else f", threshold {threshold:.4g}"
        found = [
            f"Alert {message.alert_id}{f' of {self.device}' if self.device else ''}: {self.state}, change "
            f"{message.seq} at {message.t} ({message.severity}; {', '.join(message.reasons) or 'no reason told'})"
            f"{f', by {message.by}' if message.by else ''}.",
            f"Highest score {self.peak_score:.4g}{against}, model {message.model}.",
        ]
        if message.contributions:
            parts = ", ".join(f"{name} {z:+.1f}" for name, z in message.contributions)
            found.append(f"What made the score, most first, in robust z from the nearest normal windows: {parts}.")
        return found


def read_alert(path: Path) -> Shown:
    """The alert in a JSON file, as it came on the alert or event topic; raises DataError, one line, for another."""
    content = _read_json(path)
    kind: type[AlertMessage] | type[EventMessage] = EventMessage if "event_type" in content else AlertMessage
    message = _validated(kind, content, path)
    if isinstance(message, EventMessage):
        return Shown(message, "", message.event_type)
    return Shown(message, message.device, message.state)


def read_waveform(path: Path, alert_id: str) -> Waveform:
    """The signals in a JSON file, as they came on the waveform topic; DataError for another file, or another alert."""
    message = _validated(WaveformMessage, _read_json(path), path)
    if message.alert_id != alert_id:
        raise DataError(str(path), f"be of alert {alert_id}", f"one of alert {message.alert_id}", "Name its own file")
    try:
        values = np.frombuffer(base64.b64decode(message.data, validate=True), dtype="<f4").reshape(-1, 6)
    except ValueError as error:
        raise DataError(f"{path}: data", "be rows of six 32-bit floats in base64", str(error), _REMEDY) from error
    return Waveform(message.t0_ns, message.rate_hz, values)


def alert_in(state: Path, alert_id: str | None = None) -> Shown:
    """The last told change of an alert (None: of the latest alert) in a service's state file, with its signals.

    The file is read alone, also while the service runs. Raises DataError where it is not ours or has no such alert.
    """
    where = "" if alert_id is None else " WHERE alert_id = ?"
    with _reading(state) as db:
        row = db.execute(
            f"SELECT content FROM alerts{where} ORDER BY id DESC LIMIT 1", () if alert_id is None else (alert_id,)
        ).fetchone()
        alert = None if row is None else alert_of(row[0])
    if alert is None:
        wanted = "an alert" if alert_id is None else f"alert {alert_id}"
        raise DataError(str(state), f"hold {wanted}", "none such", "Look at another file, or at another alert")
    return Shown(alert_message(alert), alert.device_id, alert.state, signals_in(state, alert.alert_id))


def signals_in(state: Path, alert_id: str) -> Waveform | None:
    """The latest signals that a service's state file keeps of an alert, None where it keeps none."""
    with _reading(state) as db:
        found = waveform_of(db, alert_id)
    return None if found is None else found[1]


def kept_signals(alert_id: str) -> tuple[Waveform, Path] | None:
    """The latest signals of an alert and their file, among the state files where services keep them by default.

    A file there that cannot be read, as one of another user, is passed over.
    """
    for path in [path for folder in (state_folder(), SYSTEM_FOLDER) for path in sorted(folder.glob("*.db"))]:
        with suppress(DataError, OSError):
            found = signals_in(path, alert_id)
            if found is not None:
                return found, path
    return None


@contextmanager
def _reading(path: Path) -> Iterator[sqlite3.Connection]:
    if not path.is_file():
        raise DataError(str(path), "be a state file of stream-occ", "no file", "Name the state.path of the service")
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=5.0)) as db:
            yield db
    except (sqlite3.Error, ValueError, TypeError, KeyError, AttributeError) as error:
        raise DataError(
            str(path), "be a state file of stream-occ", str(error), "Name the state.path of the service"
        ) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        with open_regular(path) as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise DataError(str(path), f"hold at most {MAX_BYTES} bytes", str(path.stat().st_size), _REMEDY)
        content = _printable(json.loads(data))
    except OSError as error:
        raise DataError(str(path), "be a file that can be read", str(error.strerror), "Name another") from error
    except (ValueError, RecursionError) as error:
        raise DataError(str(path), "be JSON", str(error)[:100], _REMEDY) from error
    if not isinstance(content, dict):
        raise DataError(str(path), "be a JSON object", type(content).__name__, _REMEDY)
    return content


def _printable(value: Any) -> Any:
    """JSON without what moves a terminal's cursor or no font can draw; ValueError for a number beyond 64 bits."""
    if isinstance(value, str):
        return value if value.isprintable() else "".join(c if c.isprintable() else "\ufffd" for c in value)
    if isinstance(value, int) and abs(value) >= 2**63:
        raise ValueError("a number of more than 64 bits")
    if isinstance(value, list):
        return [_printable(each) for each in value]
    return {name: _printable(each) for name, each in value.items()} if isinstance(value, dict) else value


def _validated(kind: type[M], content: dict[str, Any], path: Path) -> M:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"])) or "message"
        raise DataError(f"{path}: {where}", f"be as in a {kind.__name__}", str(first["msg"])[:100], _REMEDY) from error


def draw(shown: Shown, path: Path) -> None:
    """Writes a picture (.svg, .png or .pdf): acceleration, rotation, and the furthest features, as far as known."""
    from matplotlib.figure import Figure

    panels = [*([] if shown.waveform is None else [_acceleration, _rotation]), _features]
    figure = Figure(figsize=(9, 2.6 * len(panels)), layout="constrained")
    figure.suptitle("\n".join(_title(shown)), fontsize=10)
    for number, panel in enumerate(panels, start=1):
        axes = figure.add_subplot(len(panels), 1, number)
        axes.spines[["top", "right"]].set_visible(False)
        panel(axes, shown)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a letter that the font lacks, a bar too long: drawn as well as can be
        figure.savefig(path)


def _title(shown: Shown) -> list[str]:
    name = (shown.device or shown.message.alert_id).replace("$", r"\$")  # no formulas of others
    return [f"{name}: {shown.state} at {shown.message.t}", f"highest score {shown.peak_score:.4g}"]


def _acceleration(axes: Any, shown: Shown) -> None:
    _signals(axes, shown, slice(0, 3), "acceleration, m/s2")


def _rotation(axes: Any, shown: Shown) -> None:
    _signals(axes, shown, slice(3, 6), "rotation, rad/s")


def _signals(axes: Any, shown: Shown, columns: slice, label: str) -> None:
    """Three axes thin, their length bold, seconds from the first sample, whose instant is told."""
    waveform = shown.waveform
    assert waveform is not None
    values = waveform.values[:, columns].astype(np.float64)
    t_s = np.arange(len(values)) / waveform.rate_hz
    for axis, name in enumerate(_AXES):
        axes.plot(t_s, values[:, axis], linewidth=0.8, alpha=0.8, label=name)
    axes.plot(t_s, np.sqrt((values**2).sum(axis=1)), color="black", linewidth=1.4, label="length")
    axes.set(xlabel=f"seconds from {instant(waveform.t0_ns)}", ylabel=label)
    axes.legend(ncols=4, fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0))


def _features(axes: Any, shown: Shown) -> None:
    found = shown.message.contributions
    if not found:
        axes.text(0.5, 0.5, "no features told", ha="center", va="center", transform=axes.transAxes)
        axes.set_axis_off()
        return
    names, z = [name for name, _ in found][::-1], [value for _, value in found][::-1]
    axes.barh([name.replace("$", r"\$") for name in names], z, color="0.4")
    axes.axvline(0.0, color="black", linewidth=0.8)
    axes.set_xlabel("robust z against the nearest normal windows")
