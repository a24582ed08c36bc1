"""Messages as a service publishes them, for tests of the dashboard and of watch."""

from __future__ import annotations

import json
from typing import Any

from stream_occ.messages import instant
from stream_occ.samples import NS_PER_S

T0_NS = 1_772_366_400 * NS_PER_S  # 2026-03-01T12:00:00Z


def at(seconds: float) -> int:
    """Nanoseconds, so many seconds after T0_NS."""
    return T0_NS + round(seconds * NS_PER_S)


def state(name: str = "normal", *, t_ns: int = T0_NS, **keys: Any) -> bytes:
    """A state message."""
    content: dict[str, Any] = {
        "state": name, "score": 0.5, "threshold": 3.0, "rate_hz": 50.0, "jitter_ms": 1.0, "clock_offset_s": None,
        "clock_drift_ppm": None, "last_seen": instant(t_ns), "faults": [], "muted_until": None, "not_worn": False,
        "learning": False, "counters": {"samples": 1}, "model": "abc",
    }  # fmt: skip
    return json.dumps(content | keys).encode()


def event(name: str, seq: int, *, t_ns: int = T0_NS, device: str | None = None, **keys: Any) -> bytes:
    """An event message; of a device, an alert message."""
    content: dict[str, Any] = {
        "alert_id": "a1", "seq": seq, "t": instant(t_ns), "t_ns": t_ns, "severity": "warning", "reasons": ["still"],
        "by": None, "score": 0.4, "model": "abc", "evidence": {"peak_score": 7.0, "threshold": 3.0, "level": 0},
        "contributions": [["log_max_dynamic_acc", 6.0]],
    }  # fmt: skip
    if name == "pending":
        content["evidence"]["t_deadline_ns"] = t_ns + 30 * NS_PER_S
    content |= {"event_type": name} if device is None else {"state": name, "device": device}
    return json.dumps(content | keys).encode()


def counters(n_messages: int, **keys: Any) -> bytes:
    """A counters message."""
    content: dict[str, Any] = {
        "started": instant(T0_NS), "devices": 1, "messages": n_messages, "windows": 3, "refused": {}, "dropped": {},
        "queue": 0, "connects": 1, "connects_refused": {},
    }  # fmt: skip
    return json.dumps(content | keys).encode()
