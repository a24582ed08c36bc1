"""When the service's memory is written, and what happens where it cannot be: the service goes on, and says so."""

from __future__ import annotations

import logging
import math
import sqlite3
from collections.abc import Iterable, Mapping, Sequence, Set
from weakref import ref

from stream_occ.config import Config
from stream_occ.numbering import Number
from stream_occ.pipeline import DeviceState
from stream_occ.samples import Alert
from stream_occ.saved import SavedDevice
from stream_occ.seen import Seen
from stream_occ.sharding import own_file
from stream_occ.sink_rows import SinkKey, SinkRow
from stream_occ.store import Store, StoreLimits
from stream_occ.told_rows import Key, OutboxRow, Told
from stream_occ.waveform import Waveform
from stream_occ.wiring import state_folder

log = logging.getLogger("stream_occ.keeping")

QUIET_INTERVALS = 12  # a device without an open alert is saved every twelfth interval: little hangs on its last minute
PIECE = 32  # devices of one save, so that thousands do not hold the worker up together: 6 ms, and an fsync
READY = 0.9  # of an interval: then a device with an open alert is saved again
MAX_UNSAVED = 1000  # told changes that wait for a disk that takes them again; then the oldest go, and are counted
RETRY_S = 1.0  # after a failure nobody asks the disk sooner, however urgent it is

Standing = tuple[DeviceState, Alert | None]


class Keeper:
    """Has told changes and what people did written at once, other states when they are due.

    Where more than PIECE devices are due, those that wait longest are saved, and the next ones soon after, so that each
    has its turn within the interval. A store that fails is tried again. store None: nothing is kept; with is_wanted
    that is a fault.
    """

    def __init__(self, store: Store | None, *, model_id: str, interval_s: float = 5.0, is_wanted: bool = False) -> None:
        self.n_lost_changes = 0
        self._store = store
        self._model_id = model_id
        self._interval_s = interval_s
        self._is_missing = is_wanted and store is None
        self._piece_s = -math.inf  # when the last one was written
        self._n_quiet = 0  # devices that no message touched and that had no place in it
        self._saved: dict[str, tuple[ref[DeviceState], float]] = {}  # the state as it was written, and when
        self._unsaved: list[Told] = []
        self._settled: dict[Key, frozenset[str] | None] = {}
        self._receipts: dict[SinkKey, str] = {}
        self._changed: set[str] = set()
        self._touched: dict[str, float] = {}  # since when, the longest first
        self._forgotten: set[str] = set()
        self._numbers: dict[str, Number] = {}
        self._n_failed = 0
        self._failed_s = 0.0

    @property
    def is_failing(self) -> bool:
        """True while what should be kept is not."""
        return self._is_missing or self._n_failed > 0

    @property
    def n_damaged(self) -> int:
        """Rows that could not be read."""
        return 0 if self._store is None else self._store.n_damaged

    @property
    def is_keeping(self) -> bool:
        """True where there is a store, working or not."""
        return self._store is not None

    @property
    def unsaved(self) -> Set[str]:
        """Devices that were touched since they were last written."""
        return self._touched.keys()

    def seen(self) -> bytes:
        """Digests of messages that the restored states hold."""
        return b"" if self._store is None else self._store.seen()

    def numbers(self) -> dict[str, Number]:
        """Numbers of the last messages that the restored states hold."""
        return {} if self._store is None else self._store.numbers()

    def touch(self, names: Iterable[str], now_s: float) -> None:
        """Devices whose states changed by messages that are not yet acknowledged."""
        if self._store is not None:
            for name in names:
                self._touched.setdefault(name, now_s)

    def restored(self) -> dict[str, SavedDevice]:
        """What was saved; raises DataError where it is damaged."""
        return {} if self._store is None else self._store.devices()

    def outbox(self) -> list[OutboxRow]:
        """Told changes that wait for receivers, the oldest first."""
        return [] if self._store is None else self._store.outbox()

    def sink_rows(self) -> list[SinkRow]:
        """Told changes that wait for sinks, the oldest first."""
        return [] if self._store is None else self._store.sink_rows()

    def waveform(self, alert_id: str) -> tuple[int, Waveform] | None:
        """The latest signals kept for an alert."""
        try:
            return None if self._store is None else self._store.waveform(alert_id)
        except sqlite3.Error as error:
            log.warning("signals of alert %s cannot be read: %s", alert_id, error, extra={"alert_id": alert_id})
            return None

    def note(
        self,
        told: Sequence[Told],
        changed: Iterable[str] = (),
        settled: Mapping[Key, frozenset[str] | None] | None = None,
        receipts: Mapping[SinkKey, str] | None = None,
    ) -> None:
        """What the next `save` writes whether or not it is due: changes of alerts, who has them, devices changed."""
        if self._store is not None:
            self._receipts.update(receipts or {})
            self._settled.update(settled or {})
            self._unsaved += told
            if self._n_failed:
                self._forget_oldest()
            self._changed |= {each.alert.device_id for each in told} | set(changed)

    def forget(self, device_id: str) -> None:
        """The device is not known any more."""
        if self._store is not None:
            self._forgotten.add(device_id)
            self._changed.discard(device_id)
            self._touched.pop(device_id, None)
            self._numbers.pop(device_id, None)
            self._saved.pop(device_id, None)

    def is_due(self, now_s: float, *, within_s: float = math.inf) -> bool:
        """True where `save` has something to do: what is noted, or devices whose turn it is.

        within_s: so long after a message at the latest, where that is less than the interval.
        """
        noted = self._unsaved, self._changed, self._forgotten, self._settled, self._receipts
        is_urgent = self._n_failed == 0 and any(noted)
        within_s, n_waiting = min(within_s, self._interval_s), len(self._touched) + self._n_quiet
        pace_s = self._piece_s + within_s * PIECE / max(PIECE, n_waiting)
        oldest_s = math.inf if self._n_failed else next(iter(self._touched.values()), math.inf)
        return is_urgent or now_s >= min(pace_s, oldest_s + within_s)

    def save(
        self,
        devices: Mapping[str, Standing],
        *,
        now_s: float,
        now_ns: int,
        is_whole: bool = False,
        is_last: bool = False,
        seen: Seen | None = None,
        numbers: Mapping[str, Number] | None = None,
    ) -> bool:
        """Writes what is noted, and of what waits a piece, in one transaction but for forgotten devices.

        is_whole: all that was touched; is_last: all that differs. seen: digests of messages that the states hold;
        numbers: of the last ones, of devices that number them; both are written with their device. True where it is
        kept: messages may be acknowledged of all devices that are not `unsaved`.
        """
        if self._store is None:
            self._piece_s = now_s
            return True
        self._numbers.update(numbers or {})
        if self._n_failed and now_s < self._failed_s + RETRY_S and not is_last:
            return False
        piece = set(devices) if is_last else self._piece(devices, now_s, is_whole=is_whole)
        names = {name for name in self._changed & devices.keys() | piece if self._differs(name, devices[name])}
        left = self._touched.keys() & devices.keys() - names - piece
        states = {name: devices[name] for name in sorted(names)}
        try:
            is_written = self._write(states, devices, left, seen, now_ns)
        except Exception as error:  # whatever it is: what was told just now must still go out
            self._failed(error, now_s)
            return False
        if is_written:
            self._written(states, left, seen, now_s)
        self._leave(left)
        return True

    def close(self) -> None:
        """Lets another process have the file."""
        if self._store is not None:
            self._store.close()

    def _write(
        self,
        states: Mapping[str, Standing],
        known: Mapping[str, Standing],
        left: Set[str],
        seen: Seen | None,
        now_ns: int,
    ) -> bool:
        """Writes states and what is noted; False where there is nothing to write, and the store is well."""
        assert self._store is not None
        numbers = {name: number for name, number in self._numbers.items() if name not in left}
        noted = self._unsaved, self._forgotten, self._settled, self._receipts
        if not (states or numbers or self._n_failed or any(noted)):
            self._store.look()  # as those below do by themselves
            return False
        self._store.forget(self._forgotten - known.keys())
        self._store.save(
            states,
            self._unsaved,
            model_id=self._model_id,
            now_ns=now_ns,
            settled=self._settled,
            seen=b"" if seen is None else seen.unsaved(left),
            numbers=numbers,
            receipts=self._receipts,
        )
        return True

    def _written(self, states: Mapping[str, Standing], left: Set[str], seen: Seen | None, now_s: float) -> None:
        """What was noted is on the disk."""
        assert self._store is not None
        if self._n_failed:
            log.warning("state is kept again in %s", self._store.path)
        self._n_failed = 0
        if seen is not None:
            seen.saved(left)
        self._unsaved.clear()
        self._settled.clear()
        self._receipts.clear()
        self._changed.clear()
        self._forgotten.clear()
        self._saved.update({name: (ref(standing[0]), now_s) for name, standing in states.items()})

    def _leave(self, names: Set[str]) -> None:
        """These devices wait, and no others."""
        self._touched = {name: since_s for name, since_s in self._touched.items() if name in names}
        self._numbers = {name: number for name, number in self._numbers.items() if name in names}

    def _piece(self, devices: Mapping[str, Standing], now_s: float, *, is_whole: bool) -> set[str]:
        """Devices to be written now, of those that wait: what messages touched goes first."""
        touched, quiet = [name for name in self._touched if name in devices], self._quiet_due(devices, now_s)
        n_quiet = max(PIECE // 4, PIECE - len(touched))
        self._piece_s, self._n_quiet = now_s, max(0, len(quiet) - n_quiet)
        return {*(touched if is_whole else touched[:PIECE]), *quiet[:n_quiet]}

    def _quiet_due(self, devices: Mapping[str, Standing], now_s: float) -> list[str]:
        """Devices that changed, by no message that is to be acknowledged, since a save long ago; the longest first."""
        quiet_s, open_s = now_s - QUIET_INTERVALS * self._interval_s, now_s - READY * self._interval_s
        saved_s = {name: self._saved[name][1] if name in self._saved else -math.inf for name in devices}
        due = [
            name
            for name, standing in devices.items()
            if name not in self._touched
            and saved_s[name] <= (quiet_s if standing[1] is None else open_s)
            and self._differs(name, standing)
        ]
        return sorted(due, key=saved_s.__getitem__)

    def _differs(self, name: str, standing: Standing) -> bool:
        return name not in self._saved or self._saved[name][0]() is not standing[0]

    def _forget_oldest(self) -> None:
        """Of changes that wait for the disk; those of one slice, however many, are written together where it works."""
        n_lost = max(0, len(self._unsaved) - MAX_UNSAVED)
        self.n_lost_changes += n_lost
        del self._unsaved[:n_lost]

    def _failed(self, error: Exception, now_s: float) -> None:
        self._forget_oldest()
        self._n_failed += 1
        self._failed_s = now_s
        if self._n_failed & (self._n_failed - 1) == 0:  # 1, 2, 4, 8, ...: seen at once, and no flood
            assert self._store is not None
            log.error("state cannot be kept in %s (%d times so far): %s", self._store.path, self._n_failed, error)


def open_keeper(config: Config, model_id: str) -> Keeper:
    """The keeper that the configuration asks for; raises InputError for a file that is damaged, foreign or in use.

    Where the disk does not let us keep anything, detecting goes on without: silence would be worse than forgetting.
    """
    state, mqtt = config.state, config.mqtt
    if not state.enabled:
        return Keeper(None, model_id=model_id)
    path = own_file(state.path or state_folder() / f"{mqtt.prefix}-{mqtt.instance}.db", config.own_shard)
    limits = StoreLimits(state.keep_days, state.keep_changes, state.keep_waveforms)
    try:
        store = Store(path, limits)
    except (OSError, sqlite3.OperationalError) as error:
        log.error("state cannot be kept in %s, an open alert will be forgotten at the next start: %s", path, error)
        return Keeper(None, model_id=model_id, is_wanted=True)
    return Keeper(store, model_id=model_id, interval_s=state.save_interval_s)
