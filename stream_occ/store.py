"""The service's memory on disk, one SQLite file: devices' states, every told change of an alert, signals behind it
(stream_occ.store_schema).

What is written is on the disk when `save` returns (write-ahead log, synchronous FULL). Others may read the file while
the service runs. A file that is damaged or not ours is refused and never touched. What is open outlives its name: where
that was removed in use, the next save but one puts a file with all that was kept in its place.
"""

from __future__ import annotations

import json
import logging
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stream_occ.checkpoint import FORMAT_VERSION, dump_state, load_state
from stream_occ.errors import DataError
from stream_occ.numbering import Number, is_boot, is_seq
from stream_occ.pipeline import DeviceState, PipelineState
from stream_occ.samples import NS_PER_S, OPEN_ALERT_STATES, Alert
from stream_occ.saved import SavedDevice, alert_json, alert_of, sealed, unsealed
from stream_occ.sink_rows import SinkKey, SinkRow, trim_sinks, waiting_rows, write_sinks
from stream_occ.store_file import check_header, check_kind, copy_to, damaged, identities, locked
from stream_occ.store_schema import prepare
from stream_occ.told_rows import Key, OutboxRow, Told, waveform_of, write_settled, write_told
from stream_occ.waveform import Waveform

log = logging.getLogger("stream_occ.store")

KEEP_SEEN_NS = 60 * NS_PER_S  # a broker that is killed forgets acknowledgements of its last second or so
KEEP_SEEN_SAVES = 200  # whatever the clock says: it may have jumped
_UPSERT = (
    "INSERT INTO devices VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (device_id) DO UPDATE SET"
    " model_id = excluded.model_id, format_version = excluded.format_version, saved_ns = excluded.saved_ns,"
    " state = excluded.state, open_alert = excluded.open_alert"
)


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """How much history is kept: days, told changes, waveforms (0: none); what is open is kept whatever its age."""

    keep_days: float = 90.0
    keep_changes: int = 100_000
    keep_waveforms: int = 10_000


class Store:
    """An open state file; every method may raise sqlite3.Error where the disk is full, read-only or broken."""

    _files: list[tuple[int, int] | None]  # what names led to when we opened them
    _size: int  # of the file when we last looked
    _is_astray: bool

    def __init__(self, path: Path, limits: StoreLimits | None = None) -> None:
        """Opens or makes the file; raises DataError for a foreign or damaged one, ServiceError for one in use."""
        self.path = path
        self.n_damaged = 0  # rows that could not be read
        self._limits = limits or StoreLimits()
        path.parent.mkdir(parents=True, exist_ok=True)
        check_kind(path)
        self._lock = locked(path)
        try:
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # what it holds is for its user alone
            check_header(path)
            self._open()
        except BaseException:
            self._lock.close()
            raise

    def devices(self) -> dict[str, SavedDevice]:
        """All saved devices by id; of one that is damaged only its open alert, where its last told change says so."""
        rows = self._db.execute("SELECT device_id, model_id, saved_ns, format_version, state, open_alert FROM devices")
        found: dict[str, SavedDevice] = {}
        for device_id, model_id, saved_ns, version, content, open_alert in rows:
            state, beside = None, (device_id, model_id, saved_ns, open_alert)
            try:
                if version == FORMAT_VERSION:
                    state = load_state(unsealed(content, *beside)).devices[device_id]
                alert = None if open_alert is None else alert_of(open_alert)
            except (DataError, KeyError, ValueError, TypeError, AttributeError) as error:
                self.n_damaged += 1
                state, alert, saved_ns = None, *self._last_told(device_id, saved_ns)
                goes = "it has no open alert" if alert is None else f"its alert goes on as told, {alert.state}"
                problem = "%s: what is kept of %s is damaged: %s. It starts afresh; %s"
                log.error(problem, self.path, device_id, error, goes, extra={"device": device_id})
            found[device_id] = SavedDevice(model_id, saved_ns, state, alert)
        return found

    def _last_told(self, device_id: str, saved_ns: int) -> tuple[Alert | None, int]:
        """The open alert that the history knows of, and when it was told."""
        by_time = "SELECT content, told_ns FROM alerts WHERE device_id = ? ORDER BY id DESC LIMIT 1"
        for content, told_ns in self._db.execute(by_time, (device_id,)).fetchall():
            with suppress(ValueError):
                alert = alert_of(content)
                return (alert if alert.state in OPEN_ALERT_STATES else None), told_ns
        return None, saved_ns

    def save(
        self,
        devices: Mapping[str, tuple[DeviceState, Alert | None]],
        told: Sequence[Told],
        *,
        model_id: str,
        now_ns: int,
        settled: Mapping[Key, frozenset[str] | None] | None = None,
        seen: bytes = b"",
        numbers: Mapping[str, Number] | None = None,
        receipts: Mapping[SinkKey, str] | None = None,
    ) -> None:
        """Writes states with their open alerts, and told changes, as one transaction; a change told before is kept.

        settled: who has a change that waits; None: it waits no more. seen: digests of messages that the states hold;
        numbers: of the last ones, of devices that number them; receipts: how changes ended for sinks.
        """
        states = [_row(name, state, alert, model_id, now_ns) for name, (state, alert) in devices.items()]
        for_sinks = [
            (name, a.alert_id, a.seq, alert_json(a)) for each in told for a in (each.alert,) for name in each.sinks
        ]
        self.look()
        with _Transaction(self._db):
            self._db.executemany(_UPSERT, states)
            write_told(self._db, told, has_waveforms=self._limits.keep_waveforms > 0)
            write_settled(self._db, settled or {})
            write_sinks(self._db, for_sinks, receipts or {}, now_ns)
            self._write_taken(seen, numbers or {}, now_ns)
            if told:
                self._trim(now_ns)
        if self._is_alone:
            self._db.close()
            self._open()

    def outbox(self) -> list[OutboxRow]:
        """Told changes that wait for receivers, the oldest first; one that cannot be read is left out and logged."""
        found: list[OutboxRow] = []
        for alert_id, seq, content, received in self._db.execute(
            "SELECT alert_id, seq, content, received FROM outbox ORDER BY id"
        ):
            try:
                found.append(OutboxRow(alert_of(content), frozenset(map(str, json.loads(received)))))
            except (ValueError, TypeError) as error:
                self.n_damaged += 1
                told = {"alert_id": alert_id}
                log.error(
                    "%s: change %r of alert %.64r cannot be sent: %s", self.path, seq, alert_id, error, extra=told
                )
        return found

    def sink_rows(self) -> list[SinkRow]:
        """Told changes that wait for sinks, the oldest first; one that cannot be read is left out and logged."""
        found, n_damaged = waiting_rows(self._db, self.path)
        self.n_damaged += n_damaged
        return found

    def numbers(self) -> dict[str, Number]:
        """Of the last message that each numbering device's state holds; one that cannot be read is left out, logged."""
        found: dict[str, Number] = {}
        for device_id, text in self._db.execute("SELECT device_id, number FROM numbers"):
            try:
                boot, seq = json.loads(text)
                if not (is_boot(boot) and is_seq(seq)):
                    raise ValueError(f"{text!r:.80} is none")
                found[device_id] = (boot, seq)
            except (ValueError, TypeError) as error:
                self.n_damaged += 1
                problem = (
                    "%s: the number of the last message of %s is damaged: %s. What it sends again is known by content"
                )
                log.error(problem, self.path, device_id, error, extra={"device": device_id})
        return found

    def seen(self) -> bytes:
        """Digests of messages that the states hold, of the last minute before the last save."""
        rows = [row for (row,) in self._db.execute("SELECT digests FROM seen ORDER BY id")]
        sound = [row for row in rows if isinstance(row, bytes)]
        if len(sound) < len(rows):
            self.n_damaged += len(rows) - len(sound)
            log.error("%s: which messages were taken is damaged: a broker may deliver some again", self.path)
        return b"".join(sound)

    def forget(self, device_ids: Iterable[str]) -> None:
        """Takes devices' states out; their history stays."""
        self.look()
        with _Transaction(self._db):
            names = [(name,) for name in device_ids]
            self._db.executemany("DELETE FROM devices WHERE device_id = ?", names)
            self._db.executemany("DELETE FROM numbers WHERE device_id = ?", names)

    def history(self, device_id: str) -> list[Alert]:
        """The device's told changes, the oldest first."""
        rows = self._db.execute("SELECT content FROM alerts WHERE device_id = ? ORDER BY id", (device_id,))
        return [alert_of(content) for (content,) in rows]

    def look(self) -> None:
        """Raises OperationalError where the next start would not find what is written: our files were removed, replaced
        or cut short in use. The call after that puts them back where nothing is in their place."""
        if identities(self.path) == self._files and (size := self.path.stat().st_size) >= self._size:
            self._size, self._is_astray = size, False
            return
        if self._is_astray:
            self._put_back()
        else:
            self._is_astray = True
            raise sqlite3.OperationalError("the file, its log or its lock was removed or replaced in use")

    def _put_back(self) -> None:
        """Under the file's name again: all that our open one holds."""
        self._lock.close()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._lock = locked(self.path)
        file, *_ = identities(self.path)
        if file is None:
            copy_to(self.path, self._db)
            self._files, self._size = identities(self.path), 0
        elif file != self._files[0] or self.path.stat().st_size == 0:
            raise sqlite3.OperationalError("another file is in its place: move that one away, or start anew with it")
        elif (problem := self._pragma("quick_check(1)")) != "ok":
            raise damaged(self.path, problem)
        with suppress(sqlite3.Error):
            self._db.close()
        self._open()
        log.warning("%s is there again, with all that was kept", self.path)

    def waveform(self, alert_id: str) -> tuple[int, Waveform] | None:
        """The latest signals kept for an alert, and the number of the change they belong to."""
        return waveform_of(self._db, alert_id)

    def close(self) -> None:
        """Ends the log file and lets another process have the store."""
        with suppress(sqlite3.Error):  # a full disk must not keep the service from ending
            self._db.close()
        self._lock.close()

    def _open(self) -> None:
        try:
            self._connect("NORMAL")
        except sqlite3.OperationalError as error:
            # A disk that has no room for the index that readers share: what is kept can be read, by us alone.
            self._connect("EXCLUSIVE")
            log.warning("%s: nobody else can read it until something can be written: %s", self.path, error)
        self._files, self._size, self._is_astray = identities(self.path), 0, False

    def _connect(self, locking: str) -> None:
        self._db = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False, timeout=2.0)
        self._is_alone = locking == "EXCLUSIVE"
        try:
            self._pragma(f"locking_mode = {locking}")
            prepare(self._db, self.path)
        except BaseException:
            self._db.close()
            raise

    def _pragma(self, text: str) -> Any:
        return self._db.execute(f"PRAGMA {text}").fetchone()[0]

    def _write_taken(self, seen: bytes, numbers: Mapping[str, Number], now_ns: int) -> None:
        """Which messages the states hold."""
        self._db.executemany(
            "INSERT OR REPLACE INTO numbers VALUES (?, ?)",
            [(name, json.dumps(number)) for name, number in numbers.items()],
        )
        if seen:
            self._db.execute(
                "DELETE FROM seen WHERE abs(saved_ns - ?) > ? AND id <= (SELECT max(id) FROM seen) - ?",
                (now_ns, KEEP_SEEN_NS, KEEP_SEEN_SAVES),
            )
            self._db.execute("INSERT INTO seen (saved_ns, digests) VALUES (?, ?)", (now_ns, seen))

    def _trim(self, now_ns: int) -> None:
        oldest_ns = now_ns - round(self._limits.keep_days * 86_400 * NS_PER_S)
        for table, keep in (("alerts", self._limits.keep_changes), ("waveforms", self._limits.keep_waveforms)):
            self._db.execute(f"DELETE FROM {table} WHERE told_ns < ?", (oldest_ns,))
            self._db.execute(f"DELETE FROM {table} WHERE id <= (SELECT max(id) FROM {table}) - ?", (keep,))
        trim_sinks(self._db, oldest_ns, self._limits.keep_changes)


class _Transaction:
    """BEGIN ... COMMIT, or ROLLBACK where something is raised."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            try:
                self._db.execute("COMMIT")
            except sqlite3.Error:
                self._roll_back()
                raise
        else:
            self._roll_back()

    def _roll_back(self) -> None:
        if self._db.in_transaction:  # a full disk ends it by itself
            self._db.execute("ROLLBACK")


def _row(device_id: str, state: DeviceState, alert: Alert | None, model_id: str, now_ns: int) -> tuple[object, ...]:
    """Of table devices."""
    open_alert = None if alert is None else alert_json(alert)
    content = sealed(dump_state(PipelineState({device_id: state})), device_id, model_id, now_ns, open_alert)
    return device_id, model_id, FORMAT_VERSION, now_ns, content, open_alert
