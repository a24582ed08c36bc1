"""The table of the state file that says which told changes wait for which sink, and how others ended.

::

    sinks      sink, alert_id, seq, content (JSON of the change while it waits, else NULL),
               receipt (NULL while it waits, else delivered, refused, dropped), changed_ns (ours)
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stream_occ.samples import Alert
from stream_occ.saved import alert_of

log = logging.getLogger("stream_occ.sink_rows")

SCHEMA = """
CREATE TABLE IF NOT EXISTS sinks (id INTEGER PRIMARY KEY, sink TEXT NOT NULL, alert_id TEXT NOT NULL,
                                  seq INTEGER NOT NULL, content TEXT, receipt TEXT, changed_ns INTEGER NOT NULL,
                                  UNIQUE (sink, alert_id, seq));
CREATE INDEX IF NOT EXISTS sinks_waiting ON sinks (id) WHERE receipt IS NULL;
"""

SinkKey = tuple[str, str, int]
"""Name of a sink, alert_id and seq of a change."""


class SinkRow(NamedTuple):
    """A change that waits for a sink."""

    sink: str
    alert: Alert


def write_sinks(
    db: sqlite3.Connection, waiting: Iterable[tuple[str, str, int, str]], receipts: Mapping[SinkKey, str], now_ns: int
) -> None:
    """Within a transaction. waiting: name, alert_id, seq and JSON; receipts: how changes ended."""
    db.executemany(
        "INSERT OR IGNORE INTO sinks (sink, alert_id, seq, content, changed_ns) VALUES (?, ?, ?, ?, ?)",
        [(*row, now_ns) for row in waiting],
    )
    db.executemany(
        "UPDATE sinks SET receipt = ?, content = NULL, changed_ns = ? WHERE sink = ? AND alert_id = ? AND seq = ?",
        [(how, now_ns, *key) for key, how in receipts.items()],
    )


def waiting_rows(db: sqlite3.Connection, where: object) -> tuple[list[SinkRow], int]:
    """What waits, the oldest first, and how many changes cannot be read: each is left out and logged."""
    found: list[SinkRow] = []
    n_damaged = 0
    query = "SELECT sink, alert_id, seq, content FROM sinks WHERE receipt IS NULL ORDER BY id"
    for sink, alert_id, seq, content in db.execute(query):
        try:
            alert = alert_of(content)
            if (alert.alert_id, alert.seq) != (alert_id, seq):
                raise ValueError("it is another change")
            found.append(SinkRow(str(sink), alert))
        except (ValueError, TypeError) as error:
            n_damaged += 1
            told = {"alert_id": alert_id}
            line = "%s: change %r of alert %.64r cannot be told to sink %.64r: %s"
            log.error(line, where, seq, alert_id, sink, error, extra=told)
    return found, n_damaged


def trim_sinks(db: sqlite3.Connection, oldest_ns: int, keep: int) -> None:
    """Within a transaction: takes out what is older, and of what has ended all but the last `keep`."""
    n_given_up = db.execute("DELETE FROM sinks WHERE changed_ns < ? AND receipt IS NULL", (oldest_ns,)).rowcount
    if n_given_up:
        log.error("%d changes of alerts waited for their sinks longer than what is kept: never told", n_given_up)
    db.execute("DELETE FROM sinks WHERE changed_ns < ?", (oldest_ns,))
    db.execute("DELETE FROM sinks WHERE receipt IS NOT NULL AND id <= (SELECT max(id) FROM sinks) - ?", (keep,))
