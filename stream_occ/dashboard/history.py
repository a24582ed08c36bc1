"""What was told of alerts, what people did here, and how long devices were worn: one SQLite file.

::

    alerts     one row an alert: device, when it was first told, its last state, the highest score
    changes    every told change: alert_id, seq, content (the alert message as JSON)
    waveforms  alert_id, seq, content (the waveform message as JSON)
    acts       who pressed what here, and what the broker said of it
    worn       seconds by hour (since 1970, UTC) and device

A change is on the disk when `add_change` returns. Others may read the file meanwhile. `now_ns` and instants are of our
clock, but for the `t_ns` of a change, which is the device's.
"""

from __future__ import annotations

import json
import os
import secrets
import sqlite3
import threading
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stream_occ.errors import DataError
from stream_occ.messages import AlertMessage, WaveformMessage
from stream_occ.samples import NS_PER_S
from stream_occ.store_file import locked

APPLICATION_ID = 0x0CCDA5B0
SCHEMA_VERSION = 1
NS_PER_MS = 1_000_000
NS_PER_DAY = 86_400 * NS_PER_S
MAX_PAGE = 200
REMEDY = "Name another file with --history, or move this one away"
_SCHEMA = f"""
CREATE TABLE alerts (id INTEGER PRIMARY KEY, alert_id TEXT NOT NULL UNIQUE, device_id TEXT NOT NULL,
                     first_ns INTEGER NOT NULL, last_ns INTEGER NOT NULL, seq INTEGER NOT NULL, state TEXT NOT NULL,
                     by TEXT, peak_score REAL NOT NULL);
CREATE INDEX alerts_by_time ON alerts (first_ns);
CREATE TABLE changes (alert_id TEXT NOT NULL, seq INTEGER NOT NULL, heard_ns INTEGER NOT NULL, content TEXT NOT NULL,
                      PRIMARY KEY (alert_id, seq)) WITHOUT ROWID;
CREATE TABLE waveforms (id INTEGER PRIMARY KEY, alert_id TEXT NOT NULL, seq INTEGER NOT NULL, content TEXT NOT NULL,
                        UNIQUE (alert_id, seq));
CREATE TABLE acts (id INTEGER PRIMARY KEY, t_ns INTEGER NOT NULL, device_id TEXT NOT NULL, alert_id TEXT,
                   kind TEXT NOT NULL, by TEXT NOT NULL, content TEXT NOT NULL, outcome TEXT NOT NULL);
CREATE INDEX acts_by_alert ON acts (alert_id);
CREATE TABLE worn (hour INTEGER NOT NULL, device_id TEXT NOT NULL, seconds REAL NOT NULL,
                   PRIMARY KEY (hour, device_id)) WITHOUT ROWID;
CREATE TABLE own (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which alerts; None: any. The first change lies in from_ns <= t < to_ns; before: rows older than this one."""

    device_id: str | None = None
    state: str | None = None
    from_ns: int | None = None
    to_ns: int | None = None
    before: int | None = None
    limit: int = 50


class History:
    """The file, held by one process. Its methods may be called by several threads."""

    def __init__(self, path: Path) -> None:
        self._lock = threading.Lock()
        with ExitStack() as opened:
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
                if path.exists() and not path.is_file():
                    raise DataError(str(path), "be a file", "a folder, pipe, socket or device", REMEDY)
                opened.enter_context(locked(path, holder="a running dashboard", key="--history"))
                if not path.exists():
                    os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
                self._db = opened.enter_context(closing(sqlite3.connect(path, check_same_thread=False, timeout=5.0)))
                self._prepare(path)
            except (OSError, sqlite3.Error) as error:
                got = getattr(error, "strerror", None) or str(error)
                raise DataError(str(path), "be a history that can be written", got, REMEDY) from error
            self._opened = opened.pop_all()

    def _prepare(self, path: Path) -> None:
        (found,) = self._db.execute("PRAGMA application_id").fetchone()
        (n_tables,) = self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()
        if n_tables and found != APPLICATION_ID:
            raise DataError(str(path), "be a history of the dashboard", "another program's database", REMEDY)
        (version,) = self._db.execute("PRAGMA user_version").fetchone()
        if n_tables and version != SCHEMA_VERSION:
            raise DataError(str(path), f"be of version {SCHEMA_VERSION}", f"version {version}", REMEDY)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = FULL")
        if not n_tables:
            self._db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")

    def close(self) -> None:
        """Closes the file and lets another process have it."""
        with self._lock:
            self._opened.close()

    # ---- what is kept

    @property
    def client_id(self) -> str:
        """Of the connection to the broker, the same from start to start: the broker keeps messages for it."""
        with self._lock, self._db:
            self._db.execute(
                "INSERT OR IGNORE INTO own VALUES ('client_id', ?)", (f"stream-occ-dashboard-{secrets.token_hex(4)}",)
            )
            (found,) = self._db.execute("SELECT value FROM own WHERE name = 'client_id'").fetchone()
        return str(found)

    def add_change(self, alert: AlertMessage, now_ns: int) -> bool:
        """True where the change was new."""
        peak = max(alert.score, float(alert.evidence.get("peak_score", alert.score)))
        with self._lock, self._db:
            added = self._db.execute(
                "INSERT OR IGNORE INTO changes VALUES (?, ?, ?, ?)",
                (alert.alert_id, alert.seq, now_ns, alert.model_dump_json()),
            ).rowcount
            if not added:
                return False
            self._db.execute(
                "INSERT INTO alerts (alert_id, device_id, first_ns, last_ns, seq, state, by, peak_score)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (alert_id) DO UPDATE SET"
                " peak_score = max(peak_score, excluded.peak_score),"
                " last_ns = CASE WHEN excluded.seq > seq THEN excluded.last_ns ELSE last_ns END,"
                " state = CASE WHEN excluded.seq > seq THEN excluded.state ELSE state END,"
                " by = CASE WHEN excluded.seq > seq THEN coalesce(excluded.by, by) ELSE coalesce(by, excluded.by) END,"
                " seq = max(seq, excluded.seq)",
                (alert.alert_id, alert.device, now_ns, now_ns, alert.seq, alert.state, alert.by, peak),
            )
        return True

    def add_waveform(self, waveform: WaveformMessage) -> None:
        """Keeps the signals of a change."""
        with self._lock, self._db:
            self._db.execute(
                "INSERT OR REPLACE INTO waveforms (alert_id, seq, content) VALUES (?, ?, ?)",
                (waveform.alert_id, waveform.seq, waveform.model_dump_json()),
            )

    def add_act(self, device_id: str, alert_id: str | None, kind: str, by: str, content: str, now_ns: int) -> int:
        """The row of an act that is about to be sent."""
        with self._lock, self._db:
            row = self._db.execute(
                "INSERT INTO acts (t_ns, device_id, alert_id, kind, by, content, outcome)"
                " VALUES (?, ?, ?, ?, ?, ?, '')",
                (now_ns, device_id, alert_id, kind, by, content),
            ).lastrowid
        return int(row or 0)

    def set_outcome(self, act: int, outcome: str) -> None:
        """What the broker said of an act."""
        with self._lock, self._db:
            self._db.execute("UPDATE acts SET outcome = ? WHERE id = ?", (outcome, act))

    def add_worn(self, seconds: Mapping[tuple[int, str], float]) -> None:
        """Adds up seconds by hour and device."""
        with self._lock, self._db:
            self._db.executemany(
                "INSERT INTO worn VALUES (?, ?, ?)"
                " ON CONFLICT (hour, device_id) DO UPDATE SET seconds = seconds + excluded.seconds",
                [(hour, device_id, value) for (hour, device_id), value in seconds.items()],
            )

    def prune(self, now_ns: int, *, keep_days: float, keep_changes: int, keep_waveforms: int) -> None:
        """Lets go of what is older or more; alerts go whole, with changes and signals, open ones never."""
        is_open = "state IN ('suspected', 'checking', 'pending', 'alarm', 'acknowledged')"
        with self._lock, self._db:
            oldest_ns = now_ns - round(keep_days * NS_PER_DAY)
            self._db.execute(f"DELETE FROM alerts WHERE last_ns < ? AND NOT {is_open}", (oldest_ns,))
            (n_changes,) = self._db.execute("SELECT count(*) FROM changes").fetchone()
            while n_changes > keep_changes:
                row = self._db.execute(f"SELECT id, alert_id FROM alerts WHERE NOT {is_open} ORDER BY id").fetchone()
                if row is None:
                    break
                self._db.execute("DELETE FROM alerts WHERE id = ?", (row[0],))
                n_changes -= self._db.execute("DELETE FROM changes WHERE alert_id = ?", (row[1],)).rowcount
            for table in ("changes", "waveforms"):
                self._db.execute(f"DELETE FROM {table} WHERE alert_id NOT IN (SELECT alert_id FROM alerts)")
            self._db.execute(
                "DELETE FROM waveforms WHERE id NOT IN (SELECT id FROM waveforms ORDER BY id DESC LIMIT ?)",
                (keep_waveforms,),
            )
            self._db.execute("DELETE FROM acts WHERE t_ns < ?", (oldest_ns,))
            self._db.execute("DELETE FROM worn WHERE hour < ?", (oldest_ns // (3600 * NS_PER_S),))

    # ---- what is asked

    def alerts(self, wanted: Filter) -> list[dict[str, Any]]:
        """Alerts, the newest first, `wanted.limit` at most (and MAX_PAGE)."""
        conditions = {
            "device_id = ?": wanted.device_id,
            "state = ?": wanted.state,
            "first_ns >= ?": wanted.from_ns,
            "first_ns < ?": wanted.to_ns,
            "id < ?": wanted.before,
        }
        given = {text: value for text, value in conditions.items() if value is not None}
        where = f" WHERE {' AND '.join(given)}" if given else ""
        with self._lock:
            rows = self._db.execute(
                "SELECT id, alert_id, device_id, first_ns, last_ns, state, by, peak_score, seq"
                f" FROM alerts{where} ORDER BY id DESC LIMIT ?",
                (*given.values(), min(wanted.limit, MAX_PAGE)),
            ).fetchall()
        return [
            {
                "row": row,
                "alert_id": alert_id,
                "device": device_id,
                "first_ms": first_ns // NS_PER_MS,
                "last_ms": last_ns // NS_PER_MS,
                "state": state,
                "by": by,
                "peak_score": peak,
                "n_changes": seq + 1,
            }
            for row, alert_id, device_id, first_ns, last_ns, state, by, peak, seq in rows
        ]

    def alert(self, alert_id: str) -> dict[str, Any] | None:
        """All that is kept of one alert: changes by seq, acts, waveform messages; None where it is not known."""
        with self._lock:
            changes = self._db.execute(
                "SELECT heard_ns, content FROM changes WHERE alert_id = ? ORDER BY seq", (alert_id,)
            ).fetchall()
            acts = self._db.execute(
                "SELECT t_ns, kind, by, outcome FROM acts WHERE alert_id = ? ORDER BY id", (alert_id,)
            ).fetchall()
            waveforms = self._db.execute(
                "SELECT content FROM waveforms WHERE alert_id = ? ORDER BY seq", (alert_id,)
            ).fetchall()
        if not changes:
            return None
        return {
            "changes": [{**json.loads(content), "heard_ms": heard_ns // NS_PER_MS} for heard_ns, content in changes],
            "acts": [
                {"t_ms": t_ns // NS_PER_MS, "kind": kind, "by": by, "outcome": outcome}
                for t_ns, kind, by, outcome in acts
            ],
            "waveforms": [json.loads(content) for (content,) in waveforms],
        }

    def trends(self, from_ns: int) -> dict[str, Any]:
        """Alerts by hour and last state, hours worn by hour: whoever shows it makes days of it, in their own zone."""
        hour_ns = 3600 * NS_PER_S
        with self._lock:
            alerts = self._db.execute(
                "SELECT first_ns / ?, state, count(*) FROM alerts WHERE first_ns >= ? GROUP BY 1, 2 ORDER BY 1",
                (hour_ns, from_ns),
            ).fetchall()
            worn = self._db.execute(
                "SELECT hour, sum(seconds) FROM worn WHERE hour >= ? GROUP BY 1 ORDER BY 1", (from_ns // hour_ns,)
            ).fetchall()
        return {
            "alerts": [{"hour": hour, "state": state, "n": n} for hour, state, n in alerts],
            "worn": [{"hour": hour, "hours": seconds / 3600} for hour, seconds in worn],
        }
