"""The state file: what comes back, what is refused, what is bounded."""

from __future__ import annotations

import json
import os
import resource
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from stream_occ.errors import DataError, ServiceError
from stream_occ.pipeline import DeviceState
from stream_occ.samples import Alert, Decision
from stream_occ.saved import SavedDevice
from stream_occ.store import Store, StoreLimits
from stream_occ.store_file import APPLICATION_ID
from stream_occ.store_schema import SCHEMA_VERSION
from stream_occ.told_rows import Told
from stream_occ.waveform import Waveform

DAY_NS = 86_400 * 10**9
ALERT = Alert("id-1", "w1", 0, 5, "pending", "warning", ("still", "again"), 4.5, "m1", {"n": 2, "peak": 4.5}, "anna")


def told(seq: int = 0, *, alert_id: str = "id-1", told_ns: int = 10, waveform: Waveform | None = None) -> Told:
    return Told(replace(ALERT, alert_id=alert_id, seq=seq), told_ns, waveform)


def waveform(n: int = 3) -> Waveform:
    return Waveform(7, 50.0, np.arange(6 * n, dtype=np.float32).reshape(n, 6) / 3)


def test_what_was_saved_comes_back(tmp_path: Path) -> None:
    """State with its last decision, open alert, history in order, and the signals bit for bit."""
    path = tmp_path / "new" / "state.db"
    store = Store(path)
    state = DeviceState(n_windows=3, last=Decision("w1", 9, 1.25, 3.0, "normal", "m1"))
    store.save({"w1": (state, ALERT), "w2": (DeviceState(), None)}, [told(0, waveform=waveform()), told(1)],
               model_id="m1", now_ns=10)  # fmt: skip
    store.close()
    store = Store(path)
    found = store.devices()
    assert sorted(found) == ["w1", "w2"]
    assert (found["w1"].model_id, found["w1"].open_alert) == ("m1", ALERT)
    assert found["w1"].state is not None
    assert (found["w1"].state.n_windows, found["w1"].state.last) == (3, state.last)
    assert found["w2"].open_alert is None
    assert store.history("w1") == [ALERT, replace(ALERT, seq=1)]
    kept = store.waveform("id-1")
    assert kept is not None
    assert (kept[0], kept[1].t0_ns, kept[1].rate_hz) == (0, 7, 50.0)
    np.testing.assert_array_equal(kept[1].values, waveform().values)
    assert store.waveform("id-2") is None
    store.close()


def test_messages_are_known_again_over_a_jump_of_the_clock(tmp_path: Path) -> None:
    """Those of the last minute and of the last 200 saves: a clock set by an hour makes none of them old."""
    with closing(Store(tmp_path / "state.db")) as store:
        for i in range(250):
            now_ns = (i if i < 240 else 3600 + i) * 10**9
            store.save({}, [], model_id="m1", now_ns=now_ns, seen=bytes([i]) * 8)
        assert store.seen() == b"".join(bytes([i]) * 8 for i in range(49, 250))


@contextmanager
def full_disk() -> Iterator[None]:
    """No file of this process can grow."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_start_on_a_full_disk_forgets_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After an orderly end: SQLite has no room for what readers share, so the file is ours alone for a while."""
    path = tmp_path / "state.db"
    with closing(Store(path)) as store:
        store.save({"w1": (DeviceState(n_windows=3), ALERT)}, [told()], model_id="m1", now_ns=10)
    with full_disk():
        store = Store(path)
        assert store.devices()["w1"].open_alert == ALERT
        with pytest.raises(sqlite3.OperationalError):
            store.save({"w1": (DeviceState(n_windows=4), None)}, [told(1)], model_id="m1", now_ns=11)
    assert "nobody else can read it until something can be written" in caplog.text
    with closing(store), closing(sqlite3.connect(path, timeout=0.0)) as reader:
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            reader.execute("SELECT count(*) FROM alerts")
        store.save({"w1": (DeviceState(n_windows=5), None)}, [told(1)], model_id="m1", now_ns=12)
        assert [alert.seq for alert in store.history("w1")] == [0, 1]
        assert reader.execute("SELECT count(*) FROM alerts").fetchone() == (2,)


def test_file_is_for_its_user_alone(tmp_path: Path) -> None:
    """It says who fell."""
    Store(tmp_path / "state.db").close()
    assert (tmp_path / "state.db").stat().st_mode & 0o777 == 0o600


def test_what_is_saved_is_on_the_disk(tmp_path: Path) -> None:
    """Write-ahead log with synchronous FULL (2): a commit survives a power cut."""
    store = Store(tmp_path / "state.db")
    assert store._pragma("journal_mode") == "wal"
    assert store._pragma("synchronous") == 2
    store.close()


def test_database_of_another_program_that_still_has_a_log_is_not_touched(tmp_path: Path) -> None:
    """SQLite would write the log into the file when it closes it."""
    path = tmp_path / "state.db"
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = WAL")
    foreign(path)
    before = [file.read_bytes() for file in sorted(tmp_path.glob("state.db*"))]
    with pytest.raises(DataError, match="another program's"):
        Store(path)
    assert [file.read_bytes() for file in sorted(tmp_path.glob("state.db*")) if file.suffix != ".lock"] == before
    db.close()


def test_change_told_before_is_kept_as_it_was(tmp_path: Path) -> None:
    """(alert_id, seq) is the change's name: a second one changes nothing."""
    store = Store(tmp_path / "state.db")
    store.save({}, [told(0)], model_id="m1", now_ns=10)
    store.save({}, [Told(replace(ALERT, state="alarm"), 11)], model_id="m1", now_ns=11)
    assert store.history("w1") == [ALERT]
    store.close()


def remove(path: Path) -> None:
    for each in path.parent.glob("state.db*"):
        each.unlink()


def remove_file(path: Path) -> None:
    path.unlink()


def remove_log(path: Path) -> None:
    path.with_name("state.db-wal").unlink()


def remove_lock(path: Path) -> None:
    path.with_name("state.db.lock").unlink()


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("gone", [remove, remove_file, remove_log, remove_lock, remove_folder])
def test_file_removed_in_use_is_missed_and_comes_back_whole(tmp_path: Path, gone: Callable[[Path], None]) -> None:
    """The next save fails, the one after it is kept: with states, history and outbox, for its user and one process."""
    path = tmp_path / "folder" / "state.db"
    with closing(Store(path)) as store:
        store.save({"w1": (DeviceState(n_windows=3), ALERT)}, [replace(told(), waits=True)], model_id="m1", now_ns=10)
        gone(path)
        with pytest.raises(sqlite3.OperationalError, match="was removed or replaced in use"):
            store.save({"w2": (DeviceState(), None)}, [], model_id="m1", now_ns=11)
        store.save({"w2": (DeviceState(), None)}, [], model_id="m1", now_ns=12)
        store.look()
        assert path.stat().st_mode & 0o777 == 0o600
        with pytest.raises(ServiceError, match="a running detector"):
            Store(path)
        now = tmp_path / "killed" / "state.db"  # what a kill leaves
        shutil.copytree(path.parent, now.parent)
    with closing(Store(now)) as store:
        assert {name: found.open_alert for name, found in store.devices().items()} == {"w1": ALERT, "w2": None}
        assert store.history("w1") == [row.alert for row in store.outbox()] == [ALERT]


def test_what_takes_the_place_of_a_file_in_use_is_not_touched(tmp_path: Path) -> None:
    """Nothing is kept until it is moved away; then everything is, in a file of ours."""
    path = tmp_path / "state.db"
    with closing(Store(path)) as store:
        store.save({"w1": (DeviceState(), ALERT)}, [], model_id="m1", now_ns=10)
        remove(path)
        path.write_bytes(b"another")
        for reason in (
            "was removed or replaced in use",
            "another file is in its place",
            "another file is in its place",
        ):
            with pytest.raises(sqlite3.OperationalError, match=reason):
                store.save({}, [], model_id="m1", now_ns=11)
        assert path.read_bytes() == b"another"
        path.rename(tmp_path / "away")
        store.look()
    with closing(Store(path)) as store:
        assert store.devices()["w1"].open_alert == ALERT


def test_file_cut_short_in_use_is_missed(tmp_path: Path) -> None:
    """What a copy over it begins with: nothing is said to be kept any more."""
    path = tmp_path / "state.db"
    with closing(Store(path)) as store:
        store.save({"w1": (DeviceState(), ALERT)}, [], model_id="m1", now_ns=10)
        os.truncate(path, 0)
        for _ in range(3):
            with pytest.raises(sqlite3.OperationalError):
                store.save({}, [], model_id="m1", now_ns=11)


def test_file_made_smaller_by_its_owner_is_kept(tmp_path: Path) -> None:
    """VACUUM beside the service: looked at anew, and found whole."""
    path = tmp_path / "state.db"
    with closing(Store(path)) as store:
        store.save({f"w{i}": (DeviceState(), ALERT) for i in range(200)}, [], model_id="m1", now_ns=10)
        store.forget(f"w{i}" for i in range(1, 200))
        store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        store.look()
        with closing(sqlite3.connect(path)) as db:
            db.execute("VACUUM")
            db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        with pytest.raises(sqlite3.OperationalError):
            store.look()
        store.save({}, [], model_id="m1", now_ns=11)
        assert list(store.devices()) == ["w0"]


def test_failed_save_leaves_all_as_it_was(tmp_path: Path) -> None:
    """One transaction: a change that cannot be written takes the state beside it back too."""
    store = Store(tmp_path / "state.db")
    store._db.execute("CREATE TRIGGER no BEFORE INSERT ON alerts WHEN new.seq = 9 BEGIN SELECT RAISE(ABORT, 'no'); END")
    with pytest.raises(sqlite3.IntegrityError):
        store.save({"w1": (DeviceState(), None)}, [told(9)], model_id="m1", now_ns=10)
    assert store.devices() == {}
    store.save({"w1": (DeviceState(), None)}, [told()], model_id="m1", now_ns=10)
    assert list(store.devices()) == ["w1"]
    store.close()


def test_history_is_bounded_by_age_and_by_number(tmp_path: Path) -> None:
    """The oldest go first; signals have a bound of their own."""
    store = Store(tmp_path / "state.db", StoreLimits(keep_days=2, keep_changes=5, keep_waveforms=2))
    for seq in range(8):
        store.save({}, [told(seq, told_ns=seq, waveform=waveform())], model_id="m1", now_ns=seq)
    assert [alert.seq for alert in store.history("w1")] == [3, 4, 5, 6, 7]
    assert store._db.execute("SELECT seq FROM waveforms ORDER BY seq").fetchall() == [(6,), (7,)]
    store.save({}, [told(0, alert_id="id-2", told_ns=3 * DAY_NS)], model_id="m1", now_ns=3 * DAY_NS)
    assert [alert.alert_id for alert in store.history("w1")] == ["id-2"]
    assert store.waveform("id-1") is None
    store.close()


def test_no_waveforms_where_none_are_wanted(tmp_path: Path) -> None:
    """keep_waveforms 0."""
    store = Store(tmp_path / "state.db", StoreLimits(keep_waveforms=0))
    store.save({}, [told(waveform=waveform())], model_id="m1", now_ns=10)
    assert store.waveform("id-1") is None
    assert len(store.history("w1")) == 1
    store.close()


def test_forgotten_device_leaves_its_history(tmp_path: Path) -> None:
    """Its state goes, what was told of it stays."""
    store = Store(tmp_path / "state.db")
    store.save({"w1": (DeviceState(), None)}, [told()], model_id="m1", now_ns=10)
    store.forget(["w1"])
    assert store.devices() == {}
    assert len(store.history("w1")) == 1
    store.close()


def test_second_process_is_refused(tmp_path: Path) -> None:
    """Two services that write one file in turn would undo each other's alerts."""
    store = Store(tmp_path / "state.db")
    with pytest.raises(ServiceError, match="held by one process; got a running detector"):
        Store(tmp_path / "state.db")
    store.close()
    Store(tmp_path / "state.db").close()


def foreign(path: Path) -> None:
    db = sqlite3.connect(path)
    db.execute("CREATE TABLE music (title TEXT)")
    db.close()


def future(path: Path) -> None:
    Store(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    db.close()


def torn(path: Path) -> None:
    store = Store(path)
    store.save({f"w{i}": (DeviceState(), None) for i in range(200)}, [], model_id="m1", now_ns=10)
    store.close()
    data = bytearray(path.read_bytes())
    data[4096 : len(data) // 2] = bytes(len(data) // 2 - 4096)
    path.write_bytes(data)


def without_table(path: Path) -> None:
    Store(path).close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("DROP TABLE devices")
    db.close()


def without_column(path: Path) -> None:
    Store(path).close()
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("ALTER TABLE alerts RENAME COLUMN told_ns TO other")
    db.close()


def read(path: Path) -> None:
    store = Store(path)
    try:
        store.devices()
    finally:
        store.close()


@pytest.mark.parametrize(
    ("make", "got"),
    [
        (
            lambda path: path.write_bytes(b"not a database, but long enough to be looked at" * 100),
            "one that is not a database",
        ),
        (foreign, "another program's"),
        (future, f"version {SCHEMA_VERSION + 1}"),
        (torn, "malformed|Tree|Page"),
        (without_table, "must be an undamaged state file; got one without column device_id of table devices"),
        (without_column, "one without column told_ns of table alerts"),
    ],
)
def test_damaged_and_foreign_files_are_refused_and_not_touched(tmp_path: Path, make: object, got: str) -> None:
    """One line that names the file and what to do; the file is what it was."""
    path = tmp_path / "state.db"
    make(path)  # type: ignore[operator]
    before = path.read_bytes()
    with pytest.raises(DataError, match=got) as caught:
        read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    assert path.read_bytes() == before


def test_state_of_another_version_is_no_damage(tmp_path: Path) -> None:
    """Its open alert is given, its state is not."""
    store = Store(tmp_path / "state.db")
    store.save({"w1": (DeviceState(), ALERT)}, [], model_id="m1", now_ns=10)
    store._db.execute("UPDATE devices SET format_version = 1, state = 'of old'")
    [saved] = store.devices().values()
    assert (saved.state, saved.open_alert) == (None, ALERT)
    older = {name: value for name, value in asdict(ALERT).items() if name != "contributions"} | {"gone": 1}
    store._db.execute("UPDATE devices SET open_alert = ?", (json.dumps(older),))
    [saved] = store.devices().values()
    assert saved.open_alert == ALERT
    store.close()


def odd(**values: object) -> str:
    return json.dumps(asdict(ALERT) | values)


@pytest.mark.parametrize(
    "content",
    [
        *("no JSON", "[]", "{}", '{"reasons": 3}', odd(seq="x"), odd(seq=-1), odd(state="gone"), odd(evidence=[])),
        *(odd(score=float("nan")), odd(t_ns=10**30), odd(contributions=[["a"]])),
    ],
)
def test_open_alert_of_another_version_that_cannot_be_read_is_named(
    tmp_path: Path, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither an upgrade nor damage keeps the service from starting."""
    store = Store(tmp_path / "state.db")
    store.save({"w1": (DeviceState(), ALERT), "w2": (DeviceState(), None)}, [], model_id="m1", now_ns=10)
    store._db.execute("UPDATE devices SET format_version = 1, open_alert = ? WHERE device_id = 'w1'", (content,))
    assert store.devices()["w1"] == SavedDevice("m1", 10, None, None)
    assert "what is kept of w1 is damaged" in caplog.text
    store.close()


@pytest.mark.parametrize("is_open", [True, False])
@pytest.mark.parametrize("column", ["state", "open_alert", "model_id", "saved_ns"])
def test_damage_of_any_bit_costs_that_device_alone(
    tmp_path: Path, column: str, is_open: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """One line; its open alert goes on as the history tells it, and when; another device is untouched."""
    change = replace(ALERT, state="alarm" if is_open else "resolved")
    state = DeviceState(n_windows=3, last=Decision("w1", 9, 1.25, 3.0, "normal", "m1"))
    devices = {"w1": (state, change if is_open else None), "w2": (state, None)}
    with closing(Store(tmp_path / "state.db")) as store:
        store.save(devices, [Told(change, 12)], model_id="m1", now_ns=14)
        [[content]] = store._db.execute(f"SELECT {column} FROM devices WHERE device_id = 'w1'")
        rng = np.random.default_rng(3)
        for _ in range(40):
            if isinstance(content, bytes):
                damaged = bytearray(content)
                damaged[rng.integers(len(damaged))] ^= 1 << rng.integers(8)
                spoilt: object = bytes(damaged)
            elif isinstance(content, int):
                spoilt = content ^ int(1 << rng.integers(60))
            else:
                at = int(rng.integers(len(content or "x")))
                spoilt = "x" if content is None else content[:at] + chr(ord(content[at]) ^ 1) + content[at + 1 :]
            store._db.execute(f"UPDATE devices SET {column} = ? WHERE device_id = 'w1'", (spoilt,))
            caplog.clear()
            found = store.devices()
            assert (found["w1"].state, found["w1"].open_alert) == (None, change if is_open else None)
            assert found["w1"].saved_ns == 12
            assert found["w2"].state is not None
            assert ["w1" in record.getMessage() for record in caplog.records] == [True]


def test_mark_of_the_file_is_where_it_is_documented(tmp_path: Path) -> None:
    """`file` and others can tell: four bytes at offset 68."""
    Store(tmp_path / "state.db").close()
    assert int.from_bytes((tmp_path / "state.db").read_bytes()[68:72]) == APPLICATION_ID
