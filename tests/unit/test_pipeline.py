"""The pure step: what a batch of blocks of several devices turns into."""

from dataclasses import replace

import numpy as np
import pytest

from stream_occ.checkpoint import dump_state, load_state
from stream_occ.errors import DataError
from stream_occ.events import Command, EventPolicy
from stream_occ.pipeline import Pipeline
from stream_occ.samples import SampleBlock, joined
from tests.unit.toy_model import ToyFeatures, toy_model

MS = 1_000_000


def worn(device_id, n=100, acc_x=0.0, acc_z=9.81, start_ms=0):
    """A still device at 50 Hz for n samples, with the noise that a sensor has."""
    acc = np.tile([acc_x, 0.0, acc_z], (n, 1))
    acc[:, 1] += 0.01 * (-1.0) ** np.arange(n)
    gyr = np.zeros((n, 3))
    acc[2::10] += 0.001  # no window ends there, so that scores are whole
    gyr[2::10] += 0.001
    return SampleBlock(device_id, (start_ms + np.arange(n) * 20) * MS, acc, gyr)


def moving(device_id, n=100, start_ms=0):
    """A device that swings by 3 m/s2 along gravity, five times a second."""
    block = worn(device_id, n, start_ms=start_ms)
    block.acc_ms2[:, 2] += 3.0 * np.sin(2 * np.pi * 5.0 * np.arange(n) / 50.0)
    return block


def test_devices_are_scored_apart_and_ordered_by_first_block():
    """Device b comes first because its block does; only the device over the threshold is flagged."""
    pipeline = Pipeline(toy_model(threshold=5.0))
    _, decisions, alerts = pipeline.step(pipeline.initial(), [worn("b", acc_x=7.0), worn("a")], 0)
    assert [d.device_id for d in decisions] == ["b"] * 17 + ["a"] * 17
    assert {d.label for d in decisions if d.device_id == "a"} == {"normal"}
    assert [(a.device_id, a.state) for a in alerts] == [("b", "suspected"), ("b", "checking")]
    assert decisions[0].margin == pytest.approx(2.0)


def test_score_at_the_threshold_is_normal():
    """An outlier lies strictly above the threshold."""
    pipeline = Pipeline(toy_model(threshold=1.0))
    _, decisions, _ = pipeline.step(pipeline.initial(), [worn("a", acc_x=1.0)], 0)
    assert {d.label for d in decisions} == {"normal"}


def test_step_leaves_the_state_it_was_given_alone():
    """The same state stepped twice gives the same: nothing in it is written to."""
    pipeline = Pipeline(toy_model())
    state, _, _ = pipeline.step(pipeline.initial(), [worn("a", n=33)], 0)
    before = dump_state(state)
    first = pipeline.step(state, [worn("a", n=40, start_ms=660)], 0)
    second = pipeline.step(state, [worn("a", n=40, start_ms=660)], 0)
    assert dump_state(state) == before
    assert dump_state(first[0]) == dump_state(second[0])
    assert first[1] == second[1]


def test_window_with_non_finite_features_gets_no_verdict():
    """A feature that overflows is counted unscorable: neither normal nor flagged."""

    class Broken(ToyFeatures):
        def extract(self, windows):
            X = super().extract(windows)
            X[1::2, 0] = np.nan
            return X

    pipeline = Pipeline(replace(toy_model(), feature_set=Broken()))
    state, decisions, _ = pipeline.step(pipeline.initial(), [worn("a")], 0)
    assert state.devices["a"].n_windows == 17
    assert state.devices["a"].n_unscorable == 8
    assert len(decisions) == 9


@pytest.mark.parametrize(("acc_z", "faults"), [(9.81, ()), (1.0, ("acc_unit_g_as_ms2",)), (0.0, ("gravity_missing",))])
def test_wrong_unit_is_named_once_the_device_rests(acc_z, faults):
    """A device that sends g as m/s2 is named in its state after three windows at rest."""
    pipeline = Pipeline(toy_model())
    state, _, _ = pipeline.step(pipeline.initial(), [worn("a", acc_z=acc_z)], 0)
    assert state.devices["a"].faults == faults


def test_no_window_is_normal_while_a_fault_of_the_sensor_shows_or_holds():
    """The third window at rest names the fault, and none of 17 gets a verdict; nor do two before it is taken back."""
    pipeline = Pipeline(toy_model(threshold=5.0))
    state, decisions, _ = pipeline.step(pipeline.initial(), [worn("a", acc_z=1.0)], 0)
    assert decisions == []
    assert (state.devices["a"].n_windows, state.devices["a"].n_unscorable) == (17, 17)
    assert state.devices["a"].faults == ("acc_unit_g_as_ms2",)
    state, decisions, _ = pipeline.step(state, [worn("a", n=35, start_ms=12_000)], 0)
    assert [d.label for d in decisions] == ["normal"] * 2  # of four
    assert state.devices["a"].faults == ()


def test_window_that_bridges_what_could_not_be_believed_is_flagged_or_nothing():
    """Windows of 20 samples every 5, samples 50 to 54 refused: those that hold a part of the hole or its end: 54 to
    74; an impact among them is flagged. As two messages or as one; a hole that is only late is bridged."""
    pipeline = Pipeline(toy_model(threshold=5.0))
    whole = moving("a", 100)
    whole.acc_ms2[64, 0] = 7.0  # the last sample of a window
    before, after = (
        SampleBlock("a", whole.t_ns[rows], whole.acc_ms2[rows], whole.gyr_rads[rows])
        for rows in (slice(50), slice(55, None))
    )
    after = replace(after, lost_rows=np.zeros(1, dtype=np.int64))
    expected = [(n, "outlier" if n == 64 else "normal") for n in range(19, 100, 5) if n == 64 or not 54 <= n <= 74]
    for blocks in ([before, after], joined([before, after])):
        _, decisions, _ = pipeline.step(pipeline.initial(), blocks, 0)
        assert [(round(d.t_end_ns / 20e6), d.label) for d in decisions] == expected
    rows = slice(53, None)  # so short a hole that little of a window is made up
    plain = SampleBlock("a", whole.t_ns[rows], whole.acc_ms2[rows], whole.gyr_rads[rows])
    assert len(pipeline.step(pipeline.initial(), [before, plain], 0)[1]) == 17


AT_ONCE = EventPolicy(check=False, countdown_s=0.0, clear_after_s=1.5)


def taken(pipeline, state, device_id, t_ns):
    """The state after a person has acknowledged the device's alarm, and the change that it makes."""
    state, [change], refusal = pipeline.command(state, device_id, Command("ack", "nurse", t_ns))
    assert (change.state, change.by, refusal) == ("acknowledged", "nurse", None)
    return state, change


def test_open_alert_does_not_clear_while_a_fault_of_the_sensor_holds():
    """Eight seconds of a sensor that lost gravity are no quiet; two of the mended sensor in motion are."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=AT_ONCE)
    state, _, raised = pipeline.step(pipeline.initial(), [worn("a", acc_x=7.0, n=25)], 0)
    assert [a.state for a in raised] == ["suspected", "pending", "alarm"]
    state, _ = taken(pipeline, state, "a", 0)
    state, _, changes = pipeline.step(state, [worn("a", acc_z=0.0, n=400, start_ms=500)], 0)
    assert changes == []
    state, _, changes = pipeline.step(state, [worn("a", start_ms=8500), moving("a", start_ms=10_500)], 0)
    assert [a.state for a in changes] == ["resolved"]


def test_window_above_the_threshold_is_flagged_whatever_the_sensor_says():
    """A fault is no reason to look away: |a| = 7.1 at rest is not gravity, and acc x above 5 still raises."""
    pipeline = Pipeline(toy_model(threshold=5.0))
    state, decisions, alerts = pipeline.step(pipeline.initial(), [worn("a", acc_x=7.0, acc_z=1.0)], 0)
    assert state.devices["a"].faults == ("acc_scale",)
    assert {d.label for d in decisions} == {"outlier"}
    assert len(decisions) == 17
    assert [a.state for a in alerts] == ["suspected", "checking"]


def test_fault_is_taken_back_when_the_device_is_mended():
    """After three windows of true gravity the fault is gone."""
    pipeline = Pipeline(toy_model())
    state, _, _ = pipeline.step(pipeline.initial(), [worn("a", acc_z=1.0)], 0)
    state, _, _ = pipeline.step(state, [worn("a", start_ms=2000, n=200)], 0)
    assert state.devices["a"].faults == ()


def test_forgotten_device_starts_afresh():
    """`without` drops one device and keeps the others."""
    pipeline = Pipeline(toy_model())
    state, _, _ = pipeline.step(pipeline.initial(), [worn("a"), worn("b")], 0)
    assert set(state.without("a").devices) == {"b"}


def test_alert_survives_a_restart():
    """An open alert and its half-full windows come back from the checkpoint."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=AT_ONCE)
    state, _, raised = pipeline.step(pipeline.initial(), [worn("a", acc_x=7.0)], 0)
    state, _ = taken(pipeline, load_state(dump_state(state)), "a", 0)
    state = load_state(dump_state(state))
    _, _, changes = pipeline.step(state, [worn("a", start_ms=2000), moving("a", start_ms=4000)], 0)
    assert [(a.alert_id, a.state, a.seq) for a in changes] == [(raised[0].alert_id, "resolved", 4)]


S = 1_000_000_000
UTC = (
    1_700_000_000 * S
)  # what the service's clock shows where the devices' show 0: theirs are wrong, and that is all right
PATIENT = EventPolicy(k=1, n=1, live_within_s=1e10)


def fallen(pipeline, now_ns, device_id="a"):
    """The state after a device has flagged a window and died at 0.48 s of its own clock."""
    state, _, told = pipeline.step(pipeline.initial(), [worn(device_id, acc_x=7.0, n=25)], now_ns)
    assert [a.state for a in told] == ["suspected", "checking"]
    return state


def test_countdown_of_a_device_that_died_in_the_fall_ends_by_ticks():
    """Its clock goes on with ours: pending 10 s after its last window, alarm after 30 more, each told 5 s late."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    state, told = fallen(pipeline, UTC), []
    for second in range(1, 60):
        state, decisions, changes = pipeline.step(state, [], UTC + second * S)
        assert decisions == []
        told += [(second, a.t_ns / S, a.state, *a.reasons) for a in changes]
    assert told == [(15, 10.48, "pending", "no_data"), (45, 40.48, "alarm", "countdown")]


def ticked(pipeline, state, start_ns, seconds, **kwargs):
    """The state after a step each second, and the changes told as (second, state)."""
    told = []
    for second in range(1, seconds + 1):
        state, _, changes = pipeline.step(state, [], start_ns + second * S, **kwargs)
        told += [(second, a.device_id, a.state) for a in changes]
    return state, told


def test_tick_of_one_device_leaves_the_others_alone():
    """b, known since, sends on and is well."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    state, told = ticked(pipeline, fallen(pipeline, UTC), UTC, 14)
    assert told == []
    state, _, changes = pipeline.step(state, [worn("b", n=700)], UTC + 15 * S)
    assert [(a.device_id, a.state) for a in changes] == [("a", "pending")]
    assert state.devices["b"].events.state == "normal"


def test_wall_clock_that_is_set_back_does_not_stop_a_countdown():
    """An hour back, 10 s after the fall: 5 s later it is pending as it would have been."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    state, _ = ticked(pipeline, fallen(pipeline, UTC), UTC, 10)
    state, _, changes = pipeline.step(state, [], UTC - 3600 * S)
    assert changes == []
    assert ticked(pipeline, state, UTC - 3600 * S, 6)[1] == [(5, "a", "pending")]


def test_after_a_pause_samples_that_waited_come_first():
    """The service was down for ten minutes: 9 s later the device's own samples say that its wearer walks."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    state, back = load_state(dump_state(fallen(pipeline, UTC))), UTC + 600 * S
    state, _, told = pipeline.step(state, [], back)
    assert told == []
    state, told = ticked(pipeline, state, back, 9)
    assert told == []
    _, _, changes = pipeline.step(state, [moving("a", n=3000, start_ms=500)], back + 9 * S)
    assert [a.state for a in changes] == ["expired"]


def test_after_a_pause_a_dead_device_is_not_waited_for_longer_than_that():
    """Pending and alarm are long due: 10 s after the pause, at their own stamps."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    state, _, told = pipeline.step(fallen(pipeline, UTC), [], UTC + 70 * S)
    assert told == []
    _, told = ticked(pipeline, state, UTC + 70 * S, 20)
    assert told == [(10, "a", "pending"), (10, "a", "alarm")]


def test_service_that_is_behind_waits_with_deadlines_but_not_for_ever():
    """More samples wait in its own queue: for a minute nothing ends by the clock."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    _, told = ticked(pipeline, fallen(pipeline, UTC), UTC, 70, is_behind=True)
    assert told == [(60, "a", "pending"), (60, "a", "alarm")]


def test_service_whose_steps_take_long_ends_countdowns_all_the_same():
    """A step each 6 s is one pause after another."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    state, told = fallen(pipeline, UTC), []
    for second in range(6, 73, 6):
        state, _, changes = pipeline.step(state, [], UTC + second * S)
        told += [(second, a.state) for a in changes]
    assert told == [(60, "pending"), (60, "alarm")]


def test_act_is_stamped_on_the_clock_of_the_device():
    """Three seconds after the last window came, which ended at 0.48 s of the device's clock."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=replace(PATIENT, check=False))
    state, _, _ = pipeline.step(pipeline.initial(), [worn("a", acc_x=7.0, n=25)], UTC)
    _, [change], refusal = pipeline.command(state, "a", Command("cancel", "anna", UTC + 3 * S))
    assert (change.state, change.t_ns, change.by, refusal) == ("cancelled", 3_480_000_000, "anna", None)


def test_refused_act_changes_nothing():
    """Of a device that nobody knows, too."""
    pipeline = Pipeline(toy_model())
    state = pipeline.initial()
    assert pipeline.command(state, "a", Command("ack", "nurse", UTC)) == (state, [], "no_open_alert")


def test_device_can_be_muted_before_it_has_sent_anything():
    """The mute is on our clock until the device's is known."""
    pipeline = Pipeline(toy_model())
    state, told, refusal = pipeline.command(pipeline.initial(), "a", Command("mute", "nurse", UTC, minutes=5))
    assert (told, refusal) == ([], None)
    assert state.devices["a"].events.muted_until_ns == UTC + 300 * S


def test_burst_that_comes_later_than_live_within_s_is_history():
    """Windows end at 0.38 and 0.48 s; a second after 0.45 s only the second one is live."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=EventPolicy(k=1, n=1, live_within_s=1.0))
    block = worn("a", acc_x=7.0, n=25)
    _, _, told = pipeline.step(pipeline.initial(), [block], 1_450_000_000)
    assert [(a.state, a.reasons[-1]) for a in told] == [
        ("suspected", "historical"),
        ("expired", "historical"),
        ("suspected", "reopened"),
    ]
    _, _, told = pipeline.step(pipeline.initial(), [block], 1_600_000_000)
    assert [a.state for a in told] == ["suspected", "expired"]


@pytest.mark.parametrize("has_own_clock", [False, True])
def test_what_comes_a_day_late_at_the_pace_of_life_is_live_only_of_a_clock_that_nobody_sets(has_own_clock):
    """After two minutes of samples that come as they are made; UTC says what it says."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=EventPolicy(k=1, n=1))
    state, day_ns = pipeline.initial(), 86_400 * S
    for second in range(122):
        walk = replace(worn("a", n=50, start_ms=1000 * second), has_own_clock=has_own_clock)
        state, _, _ = pipeline.step(state, [walk], day_ns + second * S)
    fall = replace(worn("a", acc_x=7.0, n=5, start_ms=122_000), has_own_clock=has_own_clock)
    state, _, told = pipeline.step(state, [fall], day_ns + 122 * S)
    n_late = state.devices["a"].n_late
    if not has_own_clock:
        assert [(a.state, a.reasons) for a in told] == [
            ("suspected", ("k_of_n", "historical")),
            ("expired", ("historical",)),
        ]
        assert n_late == state.devices["a"].n_windows
        return
    assert [(a.state, a.reasons) for a in told] == [("suspected", ("k_of_n",))]
    again = replace(worn("a", acc_x=7.0, n=5, start_ms=122_100), has_own_clock=True)
    state, _, told = pipeline.step(state, [again], day_ns + (122 + 3700) * S)  # that clock stamped it an hour ago
    assert state.devices["a"].n_late == n_late + 1
    declared = replace(worn("a", n=5, start_ms=122_200), has_own_clock=False)  # and is learned no more
    state, _, _ = pipeline.step(state, [declared], day_ns + 123 * S)
    assert state.devices["a"].is_history(3600.0)


def test_blocks_that_are_joined_keep_what_is_declared_of_their_clock():
    """Two of one device, whose messages came in one slice."""
    blocks = [replace(worn("a", n=5, start_ms=100 * i), has_own_clock=True) for i in range(2)]
    assert [(len(block), block.has_own_clock) for block in joined(blocks)] == [(10, True)]


@pytest.mark.parametrize("percent", [90, 105, 150, 1000])
def test_backlog_that_is_worked_off_is_history_however_long_that_takes(percent):
    """A day late and at another pace than it was recorded at: for ten minutes each burst is history."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=EventPolicy(k=1, n=1))
    state, day_ns, told = pipeline.initial(), 86_400 * S, []
    for second in range(600):
        ms = 10 * percent
        block = worn("a", n=ms // 20, start_ms=ms * second, acc_x=7.0 if second % 60 == 59 else 0.0)
        state, _, changes = pipeline.step(state, [block], day_ns + second * S)
        told += changes
    assert {a.state for a in told} == {"suspected", "expired"}
    assert all("historical" in a.reasons for a in told)


def test_stuck_sensor_gets_no_normal_verdict_and_ends_no_check():
    """Not one value changes: after a burst that is pending, before one it is unscorable."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    stuck = SampleBlock("a", (500 + np.arange(600) * 20) * MS, np.tile([0.0, 0.0, 9.81], (600, 1)), np.zeros((600, 3)))
    state, decisions, _ = pipeline.step(pipeline.initial(), [stuck], UTC)
    assert (decisions, state.devices["a"].n_unscorable) == ([], state.devices["a"].n_windows)
    state, _, told = pipeline.step(fallen(pipeline, UTC), [stuck], UTC)
    assert [a.reasons for a in told] == [("unscorable",)]


def test_wearer_who_lies_still_after_the_fall_is_seen():
    """Upright, a knock, then gravity along y: still, and turned by 90 degrees, from the samples alone."""
    pipeline = Pipeline(toy_model(threshold=5.0), policy=PATIENT)
    lying = worn("a", n=100, start_ms=1500, acc_z=0.0)
    lying.acc_ms2[:, 1] += 9.81
    blocks = [worn("a", n=50), worn("a", acc_x=7.0, n=25, start_ms=1000), lying]
    _, _, told = pipeline.step(pipeline.initial(), blocks, UTC)
    assert [(a.state, a.reasons[0]) for a in told][-1] == ("pending", "posture")
    assert told[-1].evidence["posture_deg"] == pytest.approx(90.0, abs=0.1)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[1",
        b'{"format_version":7,"state":{"class":"os.system","fields":{}}}',
        b"\xff",
        b"[" * 100_000,
        b'{"format_version":7,"state":{"array":"AAAA","dtype":"|O","shape":[1]}}',
        b'{"format_version":7,"state":3}',
    ],
)
def test_foreign_checkpoint_is_refused_in_one_line(data):
    """Anything but a checkpoint gives a DataError that says what to do, and runs nothing."""
    with pytest.raises(DataError, match="Delete the checkpoint") as caught:
        load_state(data)
    assert "\n" not in str(caught.value)


def test_checkpoint_of_another_version_is_refused():
    """The message names both versions."""
    with pytest.raises(DataError, match="format version 17; got 2"):
        load_state(b'{"format_version":2}')
