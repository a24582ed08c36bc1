"""Told changes of alerts as rows of the state file: their history, their signals, and which wait for receivers."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from stream_occ.samples import Alert
from stream_occ.saved import alert_json
from stream_occ.waveform import Waveform


@dataclass(frozen=True, slots=True)
class Told:
    """A change of an alert as it is told, and the signals of its window where there are any; waits: for receivers;
    sinks: for which it waits."""

    alert: Alert
    told_ns: int
    waveform: Waveform | None = None
    waits: bool = False
    sinks: tuple[str, ...] = ()


Key = tuple[str, int]
"""alert_id and seq of a change."""


class OutboxRow(NamedTuple):
    """A change that waits, and the receivers that have it already."""

    alert: Alert
    received: frozenset[str] = frozenset()


def write_told(db: sqlite3.Connection, told: Sequence[Told], *, has_waveforms: bool) -> None:
    """Within a transaction; a change told before is kept as it was."""
    changes = [
        (a.alert_id, a.seq, a.device_id, a.t_ns, each.told_ns, a.state, alert_json(a))
        for each in told
        for a in (each.alert,)
    ]
    signals = [
        (each.alert.alert_id, each.alert.seq, each.alert.device_id, w.t0_ns, w.rate_hz, each.told_ns, w.to_bytes())
        for each in told
        if has_waveforms and (w := each.waveform) is not None
    ]
    waiting = [(each.alert.alert_id, each.alert.seq, alert_json(each.alert)) for each in told if each.waits]
    db.executemany(
        "INSERT OR IGNORE INTO alerts (alert_id, seq, device_id, t_ns, told_ns, state, content)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        changes,
    )
    db.executemany(
        "INSERT OR IGNORE INTO waveforms (alert_id, seq, device_id, t0_ns, rate_hz, told_ns, signals)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        signals,
    )
    db.executemany("INSERT OR IGNORE INTO outbox (alert_id, seq, content, received) VALUES (?, ?, ?, '[]')", waiting)


def write_settled(db: sqlite3.Connection, settled: Mapping[Key, frozenset[str] | None]) -> None:
    """Within a transaction: who has a change that waits; None: it waits no more."""
    gone = [key for key, received in settled.items() if received is None]
    received = [(json.dumps(sorted(names)), *key) for key, names in settled.items() if names is not None]
    db.executemany("DELETE FROM outbox WHERE alert_id = ? AND seq = ?", gone)
    db.executemany("UPDATE outbox SET received = ? WHERE alert_id = ? AND seq = ?", received)


def waveform_of(db: sqlite3.Connection, alert_id: str) -> tuple[int, Waveform] | None:
    """The latest signals that an open state file keeps of an alert, and the number of the change they belong to."""
    row = db.execute(
        "SELECT seq, t0_ns, rate_hz, signals FROM waveforms WHERE alert_id = ? ORDER BY seq DESC LIMIT 1", (alert_id,)
    ).fetchone()
    if row is None:
        return None
    return row[0], Waveform(row[1], row[2], np.frombuffer(row[3], dtype="<f4").reshape(-1, 6))
