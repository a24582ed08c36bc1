"""What people's acts and the life of an alert make the service tell: a fake link, a fake clock."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.keeping import Keeper
from stream_occ.samples import NS_PER_S, SampleBlock
from stream_occ.scoring import Model
from stream_occ.store import Store
from tests.unit.service_bench import CHECKED, JSON, T0_NS, Bench


def fallen(**sections: object) -> Bench:
    """Somebody who walks for 2 s, is knocked for half a second and lies still until 6 s: pending."""
    bench = Bench(events=CHECKED, **sections)
    bench.fall()
    return bench


def test_fall_is_suspected_checked_and_pending_and_only_pending_is_retained() -> None:
    """The state topic follows each step; the retained alert begins with the countdown."""
    bench = fallen()
    assert bench.events() == [("suspected", 0), ("checking", 1), ("pending", 2)]
    assert [alert["state"] for alert in bench.link.of("stream_occ/w1/alert")] == ["pending"]
    assert bench.state()["state"] == "pending"
    assert bench.link.of("stream_occ/w1/alert")[0]["reasons"] == ["posture"]


def test_countdown_ends_in_an_alarm_though_the_device_died_in_the_fall() -> None:
    """No samples come any more: the alarm is stamped with the deadline, and is repeated until a person acts."""
    bench = fallen()
    deadline_ns = bench.link.of("stream_occ/w1/alert")[0]["evidence"]["t_deadline_ns"]
    bench.wait(18.0)
    assert bench.events()[3:] == []
    bench.wait(12.0)
    assert bench.events()[3:] == [("alarm", 3)]
    [alarm] = bench.link.of("stream_occ/w1/alert")[1:]
    assert (alarm["t_ns"], alarm["severity"]) == (deadline_ns, "critical")
    bench.wait(60.0)
    assert bench.events()[4:] == [("alarm", 4)]
    bench.command("ack", b'{"by": "anna"}')
    bench.wait(1000.0)
    assert bench.events()[5:] == [("acknowledged", 5)]
    assert bench.state()["state"] == "acknowledged"
    assert json.loads(bench.link.retained["stream_occ/w1/alert"])["by"] == "anna"


def test_wearer_cancels_within_the_countdown() -> None:
    """The retained alert is emptied and no alarm follows; who it was is in the event."""
    bench = fallen()
    bench.command("cancel", b'{"by": "the wearer"}')
    bench.run()
    [*_, event] = bench.link.of("stream_occ/w1/event")
    assert (event["event_type"], event["by"], event["seq"]) == ("cancelled", "the wearer", 3)
    assert bench.link.retained["stream_occ/w1/alert"] == b""
    assert bench.state()["state"] == "normal"
    bench.send(1500, first=300)
    bench.wait(40.0)
    assert len(bench.events()) == 4


def test_command_for_another_alert_or_for_none_is_refused_and_counted() -> None:
    """An id that is not the open alert's, an act that is done already, and one when all is over."""
    bench = fallen()
    bench.command("ack", b'{"alert_id": "other"}')
    bench.command("ack")
    bench.command("ack")
    bench.run()
    bench.command("cancel")
    bench.command("cancel")
    bench.run()
    assert bench.events()[3:] == [("acknowledged", 3), ("resolved", 4)]
    assert bench.service.counters().refused == {"other_alert": 1, "not_in_this_state": 1, "no_open_alert": 1}
    counters = bench.state()["counters"]
    assert {name: counters[name] for name in bench.service.counters().refused} == bench.service.counters().refused
    assert not set(bench.service.counters().refused) & set(bench.state()["faults"])


def test_retained_command_changes_nothing() -> None:
    """An acknowledgement that a broker kept meets a fresh alert."""
    bench = fallen()
    bench.command("cancel", is_retained=True)
    bench.run()
    assert bench.state()["state"] == "pending"
    assert bench.service.counters().refused == {"retained": 1}


def test_own_topics_other_than_commands_stay_refused() -> None:
    """The loop guard lets set/ through and nothing else, and commands are no samples."""
    bench = fallen()
    bench.deliver("stream_occ/w1/state", b"{}")
    bench.deliver("stream_occ/w1/set", b"")
    bench.deliver("stream_occ/set/ack", b"")
    bench.run()
    assert bench.service.counters().refused == {"own_topic": 3}


def test_command_does_not_meet_samples_that_came_later() -> None:
    """Cancelled before the fall that comes in the same slice: that fall is another matter."""
    bench = Bench(events=CHECKED)
    bench.send(100)
    bench.command("cancel")
    bench.send(25, first=100, knock=True)
    bench.send(175, first=125, lying=True)
    bench.run(6.0)
    assert bench.service.counters().refused == {"no_open_alert": 1}
    assert bench.state()["state"] == "pending"


def test_command_meets_samples_that_came_before_it_in_the_same_slice() -> None:
    """The fall and its cancellation wait together: it is cancelled."""
    bench = Bench(events=CHECKED)
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.send(175, first=125, lying=True)
    bench.command("cancel")
    bench.run(6.0)
    assert [state for state, _ in bench.events()] == ["suspected", "checking", "pending", "cancelled"]


def test_command_that_fails_costs_itself_alone(caplog: pytest.LogCaptureFixture) -> None:
    """What the samples of the same slice made is told all the same."""
    bench = Bench(events=CHECKED)
    pipeline = bench.service._pipeline

    class Fragile:
        model = pipeline.model
        step = staticmethod(pipeline.step)

        def command(self, *_: Any) -> Any:
            raise RuntimeError("bug")

    bench.service._pipeline = Fragile()  # type: ignore[assignment]
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.command("ack")
    bench.send(175, first=125, lying=True)
    bench.run(6.0)
    assert [state for state, _ in bench.events()] == ["suspected", "checking", "pending"]
    assert bench.service.counters().refused == {"internal_error": 1}
    assert "ack of w1 failed" in caplog.text


def test_muted_alerts_are_told_and_marked() -> None:
    """The state says until when; every change has muted 1; nothing is left out."""
    bench = Bench(events=CHECKED)
    bench.send(50)
    bench.run(1.0)
    bench.command("mute", b'{"minutes": 0.5, "by": "anna"}')
    bench.run()
    assert bench.state()["muted_until"] == "2023-11-14T22:13:50.980Z"
    bench.send(50, first=50)
    bench.send(25, first=100, knock=True)
    bench.send(175, first=125, lying=True)
    bench.run(5.0)
    assert [event["evidence"]["muted"] for event in bench.link.of("stream_occ/w1/event")] == [1, 1, 1]
    bench.run(26.0)
    assert bench.state()["muted_until"] is None
    bench.command("mute")
    bench.command("unmute")
    bench.run()
    assert bench.state()["muted_until"] is None


def test_feedback_after_the_end_is_told_of_the_same_alert() -> None:
    """`fall` changes nothing but is told; `false_alarm` is the last word."""
    bench = fallen()
    bench.command("cancel")
    bench.command("feedback", b'{"verdict": "fall", "by": "dr. b"}')
    bench.command("feedback", b'{"verdict": "false_alarm"}')
    bench.run()
    events = bench.link.of("stream_occ/w1/event")[3:]
    assert [(event["event_type"], event["reasons"]) for event in events] == [
        ("cancelled", ["cancel"]),
        ("cancelled", ["feedback_fall"]),
        ("false_alarm", ["feedback_false_alarm"]),
    ]
    assert len({event["alert_id"] for event in events}) == 1
    assert bench.link.retained["stream_occ/w1/alert"] == b""


def test_unconfirmed_changes_can_be_left_out() -> None:
    """publish_suspected false: a stumble is only in the state, and a fall is told from pending on."""
    bench = Bench(events=CHECKED, output={"publish_suspected": False})
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.run(3.0)
    assert bench.state()["state"] == "checking"
    bench.send(700, first=125)
    bench.run(14.0)
    assert bench.events() == []
    assert bench.state()["state"] == "normal"
    bench.send(25, first=3000, knock=True)
    bench.send(175, first=3025, lying=True)
    bench.run(47.0)
    assert bench.events() == [("pending", 2)]


def test_late_data_is_a_fault_and_raises_no_alarm() -> None:
    """What a device buffered for two hours is told as history: suspected, then expired, and nothing retained."""
    bench = Bench(events={**CHECKED, "live_within_s": 3600.0})
    bench.now_s = 7200.0
    bench.send(100)
    bench.send(25, first=100, knock=True)
    bench.send(175, first=125, lying=True)
    bench.run()
    assert "late_data" in bench.state()["faults"]
    assert {state for state, _ in bench.events()} == {"suspected", "expired"}
    assert "stream_occ/w1/alert" not in bench.link.retained
    assert bench.state()["state"] == "waiting"
    assert bench.state()["counters"]["late_data"] == bench.state()["counters"]["windows"]
    bench.run(61.0)
    assert "late_data" not in bench.state()["faults"]


@pytest.mark.parametrize("clock", ["utc", "own"])
def test_backlog_at_the_pace_of_life_calls_nobody_unless_nobody_sets_the_clock(
    clock: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Two hours late for four minutes, with a fall in them: of UTC history, never normal, and one line says why."""
    profile = {"clock": clock}
    bench = Bench(events=CHECKED, inputs=[{"pattern": "wearables/{device}/imu", "profile": profile}])
    for second in range(240):
        bench.now_s = 7200.0 + second
        k = 50 * second
        if second == 200:
            bench.send(25, first=k, knock=True)
            bench.send(25, first=k + 25, lying=True)
        else:
            bench.send(50, first=k, lying=second > 200)
        bench.run()
    told, states = [state for state, _ in bench.events()], bench.link.of("stream_occ/w1/state")
    lines = [record.message for record in caplog.records if "clock: own" in record.message]
    if clock == "own":
        assert told[:4] == ["suspected", "checking", "pending", "alarm"]
        assert (bench.link.retained["stream_occ/w1/alert"] != b"", lines) == (True, [])
        return
    assert set(told) == {"suspected", "expired"}
    assert "stream_occ/w1/alert" not in bench.link.retained
    assert "normal" not in {state["state"] for state in states}
    assert {"clock_skew", "late_data"} <= set(bench.state()["faults"])
    assert lines == [
        "w1: samples are 7199 s old when they come: history, which raises no alarm. If that is no backlog, set the"
        " device's clock, or say clock: own in its profile"
    ]


def test_clock_that_nobody_sets_is_normal_from_the_moment_on_at_which_it_raises_alarms() -> None:
    """Two hours behind: two minutes in which nothing is acted on, and no state is normal; then both."""
    inputs = [{"pattern": "wearables/{device}/imu", "profile": {"clock": "own"}}]
    bench = Bench(events={**CHECKED, "live_within_s": 3600.0}, inputs=inputs)
    states = set()
    for second in range(119):
        bench.now_s = 7200.0 + second
        bench.send(50, first=50 * second)
        bench.run()
        states.add(bench.state()["state"])
    assert states == {"waiting"}
    for second in range(119, 123):
        bench.now_s = 7200.0 + second
        bench.send(50, first=50 * second)
        bench.run()
    assert (bench.state()["state"], bench.state()["faults"]) == ("normal", ["clock_skew", "late_data"])
    bench.send(25, first=50 * 123, knock=True)
    bench.run(1.0)
    assert bench.state()["state"] == "checking"


def test_silent_device_is_not_normal_however_long_a_window_counts() -> None:
    """offline_after_s shorter than a window: the fault no_data and the state say the same."""
    bench = Bench(output={"offline_after_s": 0.2})
    bench.send(50)
    bench.run(1.0)
    assert bench.state()["state"] == "normal"
    bench.run(0.3)
    assert (bench.state()["state"], bench.state()["faults"]) == ("waiting", ["no_data"])


@pytest.mark.parametrize("is_wanted", [False, True])
def test_waveform_of_a_pending_alert_is_published_only_where_wanted(is_wanted: bool) -> None:
    """The signals of the burst's last window, as they were sent, before the alert's other changes."""
    bench = fallen(output={"publish_waveform": is_wanted})
    waveforms = bench.link.of("stream_occ/w1/waveform")
    assert len(waveforms) == int(is_wanted)
    if is_wanted:
        [event, *_] = bench.link.of("stream_occ/w1/event")
        [message] = waveforms
        assert (message["alert_id"], message["seq"], message["rate_hz"]) == (event["alert_id"], 0, 50.0)
        values = np.frombuffer(base64.b64decode(message["data"]), "<f4").reshape(-1, 6)
        t_end_ns = message["t0_ns"] + 19 * 20_000_000
        assert (values.shape, t_end_ns) == ((20, 6), event["t_ns"])
        k = np.arange(20) + (message["t0_ns"] - T0_NS) // (NS_PER_S // 50)
        np.testing.assert_allclose(values[:, 0], np.where(k >= 100, 20.0, 0.0), atol=0.0011)  # the bench's noise


def test_signals_that_are_kept_are_those_of_the_burst_not_of_who_lies_still(tmp_path: Path) -> None:
    """`pending` comes after it: what a person looks at later must hold the knock of 20 m/s2."""
    keeper = Keeper(Store(tmp_path / "state.db"), model_id="toy", interval_s=0.1, is_wanted=True)
    bench = fallen(keeper=keeper)
    [event, *_, last] = bench.link.of("stream_occ/w1/event")
    seq, kept = keeper.waveform(event["alert_id"]) or (-1, None)
    keeper.close()
    assert last["event_type"] == "pending"
    assert last["t_ns"] > event["t_ns"] + NS_PER_S // 2  # a window is shorter
    assert kept is not None
    assert seq == 0
    assert kept.values[:, 0].max() > 19.0


def test_in_what_the_first_window_is_odd_stays_with_the_alert(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every change of the alert says it, and the retained alert; a scorer that keeps no rows says nothing."""
    assert [event["contributions"] for event in fallen().link.of("stream_occ/w1/event")] == [[], [], []]
    made = (("last_acc_x_ms2", 7.5), ("mean_gyr_z_rads", -2.5))
    monkeypatch.setattr(Model, "judge", lambda self, X: (self.score_features(X), [made] * len(X)))
    link, odd = fallen().link, [["last_acc_x_ms2", 7.5], ["mean_gyr_z_rads", -2.5]]
    assert [event["contributions"] for event in link.of("stream_occ/w1/event")] == [odd, odd, odd]
    assert link.of("stream_occ/w1/alert")[0]["contributions"] == odd


@pytest.mark.parametrize(("falls", "is_named"), [(True, False), (False, True)])
def test_a_signal_that_stands_still_is_no_stuck_sensor_after_an_impact(falls: bool, is_named: bool) -> None:
    """Every value constant from 6 s on: `stuck` where somebody walked before, never while a fall is being checked."""
    bench = fallen() if falls else Bench(events=CHECKED)
    if not falls:
        bench.send(300)
        bench.run(6.0)
    k = np.arange(300, 500)
    still = SampleBlock("w1", T0_NS + k * (NS_PER_S // 50), np.tile([0.0, 9.8, 0.0], (200, 1)), np.zeros((200, 3)))
    assert bench.deliver("wearables/w1/imu", JSON.encode(still))
    bench.run(4.0)
    assert ("stuck" in bench.state()["faults"]) is is_named
    assert (bench.state()["state"] == "pending") is falls
