"""A change of an alert in words for people: a line, and some sentences."""

from __future__ import annotations

from datetime import UTC, datetime

from stream_occ.samples import NS_PER_S, Alert, AlertState

_HEADS: dict[AlertState, str] = {
    "suspected": "something like a fall, being looked at",
    "checking": "something like a fall, being looked at",
    "pending": "probably a fall",
    "alarm": "ALARM, a fall and nobody has answered",
    "acknowledged": "somebody takes care",
    "resolved": "over",
    "cancelled": "cancelled",
    "false_alarm": "a false alarm",
    "expired": "nothing came of it",
}
_SENTENCES: dict[AlertState, str] = {
    "suspected": "The sensor saw a movement like a fall. What follows is being watched; nothing has to be done yet.",
    "checking": "The sensor saw a movement like a fall. What follows is being watched; nothing has to be done yet.",
    "pending": "It looks like a fall. Unless somebody cancels, it becomes an alarm{deadline}.",
    "alarm": "It looks like a fall, and nobody has cancelled or acknowledged. Please look after the wearer now.",
    "acknowledged": "{by} has taken this alert.",
    "resolved": "The alert is closed: all clear.",
    "cancelled": "{by} has cancelled the alert before it became an alarm.",
    "false_alarm": "{by} has said that it was no fall.",
    "expired": "The wearer moved on. Nothing has to be done.",
}
_NOTES = {
    "historical": "This comes from old data: it happened while nothing of this sensor arrived here.",
    "learning": "The service is still learning: this alert does not become an alarm by itself.",
}


def headline(alert: Alert) -> str:
    """Who and what, in a line."""
    level = int(alert.evidence.get("level", 0))
    again = f" (told {level + 1} times)" if alert.state == "alarm" and level > 0 else ""
    return f"{alert.device_id}: {_HEADS[alert.state]}{again}"


def text(alert: Alert) -> str:
    """What happened and when, in this machine's time zone, and what tells this alert from others."""
    due_ns = alert.evidence.get("t_deadline_ns")
    deadline = "" if due_ns is None else f" at {_clock(int(due_ns))}"
    lines = [_SENTENCES[alert.state].format(deadline=deadline, by=alert.by or "Somebody")]
    lines += [sentence for reason, sentence in _NOTES.items() if reason in alert.reasons]
    if alert.evidence.get("muted"):
        lines.append("Alerts of this wearer are muted.")
    lines += [
        "",
        f"Wearer: {alert.device_id}",
        f"When: {_clock(alert.t_ns)}, by the sensor's clock",
        f"Why: {', '.join(alert.reasons) or 'not said'}",
        f"Alert: {alert.alert_id}, change {alert.seq}",
    ]
    return "\n".join(lines) + "\n"


def _clock(t_ns: int) -> str:
    moment = datetime.fromtimestamp(t_ns // NS_PER_S, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S %Z}"
