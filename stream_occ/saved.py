"""What is read back of a device from the memory on disk, and changes of alerts as JSON."""

from __future__ import annotations

import json
import zlib
from dataclasses import asdict, dataclass, fields, replace

from pydantic import TypeAdapter, ValidationError

from stream_occ.alert_types import EventState, OpenAlert
from stream_occ.messages import alert_message
from stream_occ.pipeline import DeviceState
from stream_occ.samples import Alert

_ALERT = TypeAdapter(Alert)


@dataclass(frozen=True, slots=True)
class SavedDevice:
    """What the file says of a device; state None: written by a version whose states are not ours."""

    model_id: str
    saved_ns: int
    state: DeviceState | None
    open_alert: Alert | None

    def resumed(self, model_id: str) -> DeviceState:
        """The state to go on from: of another model only its alerts and clock, of another version its open alert."""
        if self.state is None:
            return DeviceState() if self.open_alert is None else _rebuilt(self.open_alert, self.saved_ns)
        if self.model_id == model_id:
            return self.state
        fresh = DeviceState()
        return replace(
            self.state,
            resampler=fresh.resampler,
            cutter=fresh.cutter,
            sensor=replace(self.state.sensor, rest=fresh.sensor.rest),
            last=None,
            n_windows=0,
            n_unscorable=0,
            n_bridged=0,
        )


def sealed(state: bytes, *beside: object) -> bytes:
    """The state's bytes, and a check sum of them and of what stands beside them: SQLite has none of its own."""
    return state + zlib.crc32(repr(beside).encode(), zlib.crc32(state)).to_bytes(4, "little")


def unsealed(content: bytes, *beside: object) -> bytes:
    """The state's bytes; ValueError where not all is as it was sealed."""
    if sealed(content[:-4], *beside) != content:
        raise ValueError("its check sum does not fit")
    return content[:-4]


def alert_json(alert: Alert) -> str:
    """The change as JSON."""
    return json.dumps(asdict(alert), allow_nan=False, separators=(",", ":"))


def alert_of(text: str) -> Alert:
    """The change that `alert_json` wrote, in this version or another; ValueError for what could not be told."""
    known = {each.name for each in fields(Alert)}
    try:
        given = {name: value for name, value in json.loads(text).items() if name in known}
        alert = _ALERT.validate_python(given)
        alert_message(alert)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ValueError(f"{'.'.join(map(str, first['loc']))!r:.80}: {first['msg']:.80}") from error
    except (TypeError, AttributeError, OverflowError) as error:
        raise ValueError(str(error)) from error
    return alert


def _rebuilt(alert: Alert, saved_ns: int) -> DeviceState:
    """A state that holds the alert as it was last told; what its deadlines were is past, or in its evidence."""
    evidence = alert.evidence
    first_ns = int(evidence.get("t_first_flagged_ns", alert.t_ns))
    open_alert = OpenAlert(
        alert_id=alert.alert_id,
        device_id=alert.device_id,
        model_id=alert.model_id,
        threshold=evidence.get("threshold", alert.score),
        score=alert.score,
        peak_score=evidence.get("peak_score", alert.score),
        n_flagged=int(evidence.get("n_flagged_windows", 1)),
        t_first_ns=first_ns,
        t_last_flagged_ns=int(evidence.get("t_last_flagged_ns", alert.t_ns)),
        t_event_ns=first_ns,
        t_told_ns=alert.t_ns,
        t_state_ns=alert.t_ns,
        trusted_ns=alert.t_ns,
        check_end_ns=alert.t_ns,
        seq=alert.seq,
        state=alert.state,
        by=alert.by,
        contributions=alert.contributions,
        level=int(evidence.get("level", 0)),
        due_ns=None if alert.state == "acknowledged" else int(evidence.get("t_deadline_ns", alert.t_ns)),
    )
    return DeviceState(events=EventState(t_ns=alert.t_ns, alert=open_alert), seen_ns=(alert.t_ns, saved_ns))
