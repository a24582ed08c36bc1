"""What outlives the service, driven by hand over a real file: restarts at the worst moments, and a disk that fails."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_occ import keeping
from stream_occ import store as store_module
from stream_occ.config import Config
from stream_occ.errors import DataError
from stream_occ.inbox import Received, Token
from stream_occ.keeping import Keeper, open_keeper
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.store import Store
from tests.unit.service_bench import CHECKED, JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model


class Starts:
    """Services over the file, one after another; called with the time of the start."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keepers: list[Keeper] = []

    def __call__(self, at_s: float = 0.0, *, model_id: str = "toy", **sections: object) -> Bench:
        self.kill()
        keeper = Keeper(Store(self.path), model_id=model_id, interval_s=5.0, is_wanted=True)
        self.keepers.append(keeper)
        model = replace(toy_model(), model_id=model_id)
        return Bench(model, keeper=keeper, at_s=at_s, **{"events": CHECKED, **sections})

    def kill(self) -> None:
        """Ends the last one with no last word: only its lock goes, as it does with a process."""
        for keeper in self.keepers:
            keeper.close()

    @property
    def store(self) -> Store:
        """The running one's."""
        store = self.keepers[-1]._store
        assert store is not None
        return store


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    starts = Starts(tmp_path / "state.db")
    yield starts
    starts.kill()


def fallen(start: Starts) -> Bench:
    """Pending since about 3.4 s; the countdown ends 20 s later."""
    bench = start()
    bench.fall()
    assert bench.state()["state"] == "pending"
    bench.run()  # notes that the broker has the events
    return bench


def test_countdown_goes_on_over_a_kill(start: Starts) -> None:
    """Same alert, next number, stamped with the same deadline; nothing is told twice."""
    first = fallen(start)
    [alert] = first.link.of("stream_occ/w1/alert")
    second = start(10.0)
    second.run()
    assert second.state()["state"] == "pending"
    assert second.events() == []
    second.wait(30.0)
    [event] = second.link.of("stream_occ/w1/event")
    assert (event["event_type"], event["seq"], event["alert_id"]) == ("alarm", 3, alert["alert_id"])
    assert event["t_ns"] == alert["evidence"]["t_deadline_ns"]


def test_countdown_that_ended_while_nobody_ran_is_an_alarm_soon(start: Starts) -> None:
    """Without a sample, as soon as those that may still be on their way had their time."""
    fallen(start)
    second = start(35.0)
    second.wait(15.0)
    assert second.events() == [("alarm", 3)]
    assert second.state()["state"] == "alarm"


@pytest.mark.parametrize("behind_s", [600.0, 10 * 365 * 86_400.0])
@pytest.mark.parametrize("is_set_right", [False, True])
def test_countdown_ends_though_our_clock_begins_behind_what_is_kept(
    start: Starts, behind_s: float, is_set_right: bool
) -> None:
    """A machine without a battery for its clock: as soon as with a right one, set right after 3 s or not at all."""
    fallen(start)
    second = start(35.0, ahead_s=-behind_s)
    second.wait(3.0)
    if is_set_right:
        second.ahead_s = 0.0
    second.wait(30.0)
    assert second.events() == [("alarm", 3)]


def test_retained_alert_is_said_again_after_a_restart(start: Starts) -> None:
    """A broker that restarted too has lost it."""
    first = fallen(start)
    second = start(7.0)
    second.service.renew()
    second.run()
    assert second.link.retained["stream_occ/w1/alert"] == first.link.retained["stream_occ/w1/alert"]


def test_alert_that_was_closed_unheard_is_emptied(start: Starts) -> None:
    """Killed between keeping and telling: whatever the broker still holds goes."""
    first = fallen(start)
    first.link.has_room = False
    first.command("cancel")
    first.run()
    second = start(8.0)
    second.run()
    assert second.link.retained["stream_occ/w1/alert"] == b""
    assert second.state()["state"] == "waiting"


def test_a_persons_acts_outlive_a_kill_that_follows_at_once(start: Starts) -> None:
    """Acknowledged and muted: kept in the slice that takes them."""
    first = fallen(start)
    first.command("ack", b'{"by": "anna"}')
    first.command("mute", b'{"minutes": 30}')
    first.run()
    first.run()  # notes that the broker has the event
    muted_until = first.state()["muted_until"]
    assert muted_until is not None
    second = start(60.0)
    second.wait(1000.0)
    assert (second.state()["state"], second.state()["muted_until"]) == ("acknowledged", muted_until)
    assert second.events() == []
    second.command("cancel", b'{"by": "bert"}')
    second.run()
    [event] = second.link.of("stream_occ/w1/event")
    assert (event["event_type"], event["seq"], event["by"]) == ("resolved", 4, "bert")


def test_ordinary_end_and_start_lose_nothing(start: Starts) -> None:
    """The same samples give the same scores and numbers of windows whether or not the service ended between."""
    whole = Bench(output={"publish_score": True})
    first = start(output={"publish_score": True})
    for bench in (whole, first):
        bench.send(33)
        bench.run(0.5)
    first.service.close()
    second = start(0.5, output={"publish_score": True})
    for bench in (whole, second):
        bench.send(40, first=33)
        bench.run(1.0)
    topic = "stream_occ/w1/score"
    assert first.link.of(topic) + second.link.of(topic) == whole.link.of(topic)
    assert len(whole.link.of(topic)) == 11
    kept = [bench.service._state.devices["w1"] for bench in (second, whole)]
    assert kept[0].resampler.counters == kept[1].resampler.counters


def test_another_model_starts_streams_afresh_and_keeps_alerts(start: Starts) -> None:
    """Its windows are of another length; what people were told of stays open, with a countdown that ends."""
    fallen(start)
    second = start(10.0, model_id="other")
    second.run()
    assert "windows" not in second.state()["counters"]
    assert second.state()["state"] == "pending"
    second.wait(30.0)
    assert second.events() == [("alarm", 3)]


def test_another_version_of_states_keeps_the_open_alert(start: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rebuilt from how it was last told: the countdown ends, and a person can end it."""
    fallen(start)
    monkeypatch.setattr(store_module, "FORMAT_VERSION", store_module.FORMAT_VERSION + 1)
    second = start(10.0)
    second.run()
    assert second.state()["state"] == "pending"
    second.wait(30.0)
    assert second.events() == [("alarm", 3)]
    second.command("cancel")
    second.run()
    assert second.events()[1:] == [("resolved", 4)]
    assert second.link.retained["stream_occ/w1/alert"] == b""


def test_devices_without_a_place_are_not_restored_but_for_open_alerts(start: Starts) -> None:
    """The limit may have been lowered, the list changed; an open alert is never dropped in silence."""
    first = fallen(start)
    for device in ("a", "b"):
        first.send(30, device=device, first=270)
    first.run()
    first.service.close()
    second = start(7.0, limits={"max_devices": 2})
    assert sorted(second.service.intake.devices) == ["a", "w1"]
    third = start(7.0, limits={"allowed_devices": ["b"]})
    assert sorted(third.service.intake.devices) == ["b", "w1"]


def test_forgotten_device_is_forgotten_on_disk_too(start: Starts) -> None:
    """After a day of silence; its history stays."""
    first = start(limits={"forget_device_after_s": 100.0})
    first.send(30)
    first.run(1.0)
    first.service.close()
    first.run(200.0)
    assert start(300.0).service.intake.devices == {}


def test_quiet_devices_are_saved_seldom_and_open_alerts_often(start: Starts) -> None:
    """Wear of the disk: one write for each change told, then every 5 s, and every 60 s where nothing is open."""
    bench = start()
    written: list[list[str]] = []
    kept_store = start.store
    save = kept_store.save

    def counting(devices: object, *arguments: object, **named: object) -> None:
        written.append(sorted(devices))  # type: ignore[call-overload]
        save(devices, *arguments, **named)  # type: ignore[arg-type]

    kept_store.save = counting  # type: ignore[method-assign]
    for second in range(120):
        bench.send(50, first=50 * second)
        bench.run(1.0)
    assert 2 <= len(written) <= 4
    written.clear()
    bench.send(25, first=6000, knock=True)
    bench.run(0.5)
    assert written == [["w1"]]
    for second in range(20):
        bench.send(50, first=6025 + 50 * second, lying=True)
        bench.run(1.0)
    assert 4 <= len(written) <= 8


def full(store: Store) -> None:
    """No page more."""
    pages = store._db.execute("PRAGMA page_count").fetchone()[0]
    store._db.execute(f"PRAGMA max_page_count = {pages}")


def read_only(store: Store) -> None:
    store._db.execute("PRAGMA query_only = 1")


def freed(store: Store) -> None:
    store._db.execute("PRAGMA max_page_count = 1000000")
    store._db.execute("PRAGMA query_only = 0")


@pytest.mark.parametrize("spoil", [full, read_only])
def test_disk_that_fails_is_named_and_costs_no_alert(
    start: Starts, tmp_path: Path, spoil: Callable[[Store], None], caplog: pytest.LogCaptureFixture
) -> None:
    """The alert is told, every device has the fault state_not_kept, and what waited is written when there is room."""
    bench = start()
    for i in range(40):
        bench.send(30, device=f"d{i}")
    bench.run(1.0)
    kept_store = start.store
    kept_store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    spoil(kept_store)
    for i in range(40):
        bench.send(20, device=f"d{i}", first=30)
    bench.fall()
    assert [state for state, _ in bench.events()] == ["suspected", "checking", "pending"]
    assert "state_not_kept" in bench.state()["faults"]
    assert "state_not_kept" in bench.state("d7")["faults"]
    for _ in range(20):
        bench.run(1.0)
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert 1 <= len(errors) <= 4
    assert str(tmp_path / "state.db") in errors[0].getMessage()
    freed(kept_store)
    bench.run(6.0)
    assert "state_not_kept" not in bench.state()["faults"]
    assert len(kept_store.history("w1")) == len(bench.events())
    assert start(40.0).service.intake.devices["w1"].open_alert is not None


def test_file_removed_under_an_open_alert_is_named_and_comes_back(
    start: Starts, caplog: pytest.LogCaptureFixture
) -> None:
    """Though no device speaks any more; a kill after that forgets nothing, and what came meanwhile was not let go."""
    bench = fallen(start)
    for each in start.path.parent.glob("state.db*"):
        each.unlink()
    token = Token(1, 7, 1)
    message = Received.of("wearables/w2/imu", b"{}", is_retained=False, arrived_s=0.0, max_bytes=99, token=token)
    bench.inbox.put(message)
    bench.run(5.5)
    assert bench.service._keeper.is_failing
    assert "state_not_kept" in bench.state()["faults"]
    assert token not in bench.link.acknowledged
    bench.run(5.5)
    assert not bench.service._keeper.is_failing
    assert token in bench.link.acknowledged
    told = [r.levelname for r in caplog.records if str(start.path) in r.getMessage()]
    assert told == ["ERROR", "WARNING", "WARNING"]  # gone, there again, kept again
    second = start(10.0)
    second.run()
    assert second.state()["state"] == "pending"


def test_state_that_cannot_be_written_costs_no_alert(start: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of ours while saving is no reason to keep quiet about a fall."""

    def fail(*_: object) -> bytes:
        raise ValueError("Out of range float values are not JSON compliant")

    monkeypatch.setattr(store_module, "dump_state", fail)
    bench = fallen(start)
    assert [state for state, _ in bench.events()] == ["suspected", "checking", "pending"]
    assert "state_not_kept" in bench.state()["faults"]


def test_many_changes_of_one_slice_are_all_kept(start: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    """More than memory has room for while a disk fails: this one works, so none is lost and none counted."""
    monkeypatch.setattr(keeping, "MAX_UNSAVED", 2)
    bench = fallen(start)
    assert [alert.seq for alert in start.store.history("w1")] == [0, 1, 2]
    assert bench.service.counters().dropped == {}


def test_changes_that_outlast_the_memory_for_them_are_counted(start: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    """Room for two and a disk that fails: of three the first is lost to the history, and that is said for good."""
    monkeypatch.setattr(keeping, "MAX_UNSAVED", 2)
    bench = start()
    bench.run()
    read_only(start.store)
    bench.fall()
    assert [seq for _, seq in bench.events()] == [0, 1, 2]
    assert bench.service.counters().dropped == {"change_not_kept": 1}
    freed(start.store)
    bench.run(6.0)
    assert [alert.seq for alert in start.store.history("w1")] == [1, 2]
    assert bench.service.counters().dropped == {"change_not_kept": 1}


def test_numbering_device_is_told_of_nothing_that_is_not_on_the_disk(start: Starts) -> None:
    """What it keeps until then is taken again after a kill; when the disk takes all, it is told of all."""
    bench = start(inputs=[{"pattern": "wearables/{device}/imu", "resends": True}])
    k = np.arange(25)
    blocks = [
        SampleBlock("w1", T0_NS + (k + 25 * i) * (NS_PER_S // 50), np.ones((25, 3)), 0.1 * np.ones((25, 3)), ("b", i))
        for i in range(3)
    ]
    for i, block in enumerate(blocks):
        bench.deliver("wearables/w1/imu", JSON.encode(block))
        bench.run(1.5)
        told = [message["seq"] for message in bench.link.of("stream_occ/w1/received_up_to")]
        assert told == ([0], [0], [0, 2])[i]
        read_only(start.store) if i == 0 else freed(start.store)


@pytest.mark.parametrize(
    "spoilt", ["no JSON", "[]", '["b"]', '["b", "x"]', '["b", 1.5]', "[[], 3]", "null", b"\xff", 7]
)
def test_damaged_number_of_a_device_is_counted_and_the_next_start_heals_it(
    start: Starts, spoilt: object, caplog: pytest.LogCaptureFixture
) -> None:
    """As other damaged rows; what the broker gives again is known by content and taken once, new messages are numbered
    from there on."""
    k = np.arange(25)
    sent = [
        JSON.encode(SampleBlock("w1", T0_NS + (k + 25 * i) * (NS_PER_S // 50), *2 * [np.ones((25, 3))], ("b", i)))
        for i in range(3)
    ]

    def heard(bench: Bench, *numbers: int) -> int:
        """How many messages were taken."""
        before = bench.service.intake.n_data
        for i in numbers:
            token = Token(1, i + 1, 1)
            received = ("wearables/w1/imu", sent[i])
            bench.inbox.put(Received.of(*received, is_retained=False, arrived_s=0.0, max_bytes=10**6, token=token))
        bench.run(6.0)
        return bench.service.intake.n_data - before

    assert heard(start(), 0, 1) == 2
    start.store._db.execute("UPDATE numbers SET number = ?", (spoilt,))
    start.store._db.execute("INSERT INTO seen (saved_ns, digests) VALUES (1, 'no digests')")
    second = start(10.0)
    assert [r.levelname for r in caplog.records if "damaged" in r.getMessage()] == ["ERROR", "ERROR"]
    assert second.service.counters().dropped == {"kept_damaged": 2}
    assert heard(second, 1, 2) == 1
    assert start.store.numbers() == {"w1": ("b", 2)}


@pytest.mark.parametrize("kind", ["ack", "cancel"])
def test_equal_act_that_a_broker_gives_anew_changes_nothing(start: Starts, kind: str) -> None:
    """A broker that was killed between sending and saving gives an unsigned act another id and no flag: as a second
    press it is taken by the alert's state, which it finds changed."""
    bench = fallen(start)
    bench.wait(25.0)
    assert bench.state()["state"] == "alarm"
    for mid in (7, 8):
        bench.inbox.put(
            Received.of(
                f"stream_occ/w1/set/{kind}", b"", is_retained=False, arrived_s=0.0, max_bytes=99, token=Token(1, mid, 1)
            )
        )
        bench.run(0.5)
    told = [state for state, _ in bench.events()]
    assert told == [*told[:4], {"ack": "acknowledged", "cancel": "resolved"}[kind]]
    refused = bench.service.counters().refused
    assert refused.get("not_in_this_state", 0) + refused.get("no_open_alert", 0) == 1


def config(**state: object) -> Config:
    return Config.model_validate({"inputs": ({"pattern": "a/{device}"},), "state": state})


def test_file_lies_in_the_state_folder_unless_told_otherwise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """systemd's STATE_DIRECTORY first; nothing is made where state is off."""
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "given"))
    open_keeper(config(), "toy").close()
    assert (tmp_path / "given" / "stream_occ-edge.db").exists()
    open_keeper(config(path=tmp_path / "own" / "ward.db"), "toy").close()
    assert (tmp_path / "own" / "ward.db").exists()
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "off"))
    keeper = open_keeper(config(enabled=False), "toy")
    assert not keeper.is_failing
    assert not (tmp_path / "off").exists()


def test_place_that_cannot_be_written_is_a_fault_and_no_end(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Detecting without a memory is better than not detecting."""
    (tmp_path / "file").write_text("")
    keeper = open_keeper(config(path=tmp_path / "file" / "state.db"), "toy")
    assert keeper.is_failing
    assert "state cannot be kept" in caplog.text
    bench = Bench(keeper=keeper)
    bench.send(30)
    bench.run()
    bench.run(1.0)
    assert "state_not_kept" in bench.state()["faults"]


def test_damaged_file_ends_the_start_with_one_line(tmp_path: Path) -> None:
    """And is left as it is."""
    (tmp_path / "state.db").write_bytes(b"no database at all" * 1000)
    with pytest.raises(DataError, match="be an undamaged state file; got one that is not a database"):
        open_keeper(config(path=tmp_path / "state.db"), "toy")
    assert (tmp_path / "state.db").read_bytes() == b"no database at all" * 1000


def test_signals_behind_an_alert_are_kept(start: Starts) -> None:
    """On by default in the file: of the burst, and not of who lies still after it."""
    fallen(start)
    db = sqlite3.connect(start.path)  # others may read while the service runs
    rows = db.execute("SELECT seq, rate_hz, length(signals) FROM waveforms ORDER BY seq").fetchall()
    assert rows == [(0, 50.0, 20 * 6 * 4)]
    states = [state for (state,) in db.execute("SELECT state FROM alerts ORDER BY id")]
    assert states == ["suspected", "checking", "pending"]
    db.close()
