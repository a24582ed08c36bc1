"""The tables of the state file: made where the file is empty, looked at where it is not.

::

    devices    device_id, model_id, format_version, saved_ns, state (checkpoint of this device alone,
               and a CRC-32 of the row),
               open_alert (JSON of its last told change while it is open, else NULL)
    alerts     alert_id, seq, device_id, t_ns (device's clock), told_ns (ours), state, content (JSON of the change)
    waveforms  alert_id, seq, device_id, t0_ns, rate_hz, signals (float32 little-endian, n rows of acc x, y, z in m/s2
               and gyr x, y, z in rad/s)
    numbers    device_id, number (JSON: boot, seq): the last message that its state holds, where the device numbers them
    seen       saved_ns, digests: of messages whose samples are in the states
    outbox     alert_id, seq, content, received (JSON list): told changes that some receiver does not have yet
    sinks      what waits for each sink, and how others ended (stream_occ.sink_rows)
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from stream_occ.errors import DataError
from stream_occ.sink_rows import SCHEMA as SINKS
from stream_occ.store_file import APPLICATION_ID, REMEDY, damaged

SCHEMA_VERSION = 1
_ADDED = f"""{SINKS}
CREATE TABLE IF NOT EXISTS numbers (device_id TEXT PRIMARY KEY, number TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS seen (id INTEGER PRIMARY KEY, saved_ns INTEGER NOT NULL, digests BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS outbox (id INTEGER PRIMARY KEY, alert_id TEXT NOT NULL, seq INTEGER NOT NULL,
                                   content TEXT NOT NULL, received TEXT NOT NULL, UNIQUE (alert_id, seq));
"""  # not in files of the first versions, which know nothing of them and leave them alone
_SCHEMA = f"""
CREATE TABLE devices (device_id TEXT PRIMARY KEY, model_id TEXT NOT NULL, format_version INTEGER NOT NULL,
                      saved_ns INTEGER NOT NULL, state BLOB NOT NULL, open_alert TEXT) WITHOUT ROWID;
CREATE TABLE alerts (id INTEGER PRIMARY KEY, alert_id TEXT NOT NULL, seq INTEGER NOT NULL, device_id TEXT NOT NULL,
                     t_ns INTEGER NOT NULL, told_ns INTEGER NOT NULL, state TEXT NOT NULL, content TEXT NOT NULL,
                     UNIQUE (alert_id, seq));
CREATE TABLE waveforms (id INTEGER PRIMARY KEY, alert_id TEXT NOT NULL, seq INTEGER NOT NULL, device_id TEXT NOT NULL,
                        t0_ns INTEGER NOT NULL, rate_hz REAL NOT NULL, told_ns INTEGER NOT NULL, signals BLOB NOT NULL,
                        UNIQUE (alert_id, seq));
CREATE INDEX alerts_by_device ON alerts (device_id, told_ns);
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {SCHEMA_VERSION};
"""


def prepare(db: sqlite3.Connection, path: Path) -> None:
    """Has all tables in the open file; raises DataError for one of another version or damaged."""
    try:
        db.execute("PRAGMA synchronous = FULL")
        if db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
        if (version := _pragma(db, "user_version")) != SCHEMA_VERSION:
            raise DataError(str(path), f"have version {SCHEMA_VERSION}", f"version {version}", REMEDY)
        if (problem := _pragma(db, "quick_check(1)")) != "ok":
            raise damaged(path, problem)
        db.executescript(_ADDED)
        if missing := _columns_wanted() - _columns(db):
            table, column = min(missing)
            raise damaged(path, f"one without column {column} of table {table}")
        _pragma(db, "journal_mode = WAL")  # last: until then the mark of the file is in the file itself
        _pragma(db, "user_version")  # the log is made with the first reading
    except sqlite3.OperationalError:
        raise  # full, read-only, locked: the disk's trouble, not the file's
    except sqlite3.DatabaseError as error:
        raise damaged(path, str(error)) from error


def _pragma(db: sqlite3.Connection, text: str) -> Any:
    return db.execute(f"PRAGMA {text}").fetchone()[0]


def _columns(db: sqlite3.Connection) -> set[tuple[str, str]]:
    """(table, column) of all that is there."""
    return set(
        db.execute("SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c WHERE m.type = 'table'")
    )


def _columns_wanted() -> set[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as db:
        db.executescript(_SCHEMA + _ADDED)
        return _columns(db)
