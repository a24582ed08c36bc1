"""Accelerometer and gyroscope that come apart are put together, and what cannot be is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.codecs import load_codec
from stream_occ.config import Config, InputConfig
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.joining import CLOCK_RESET_BLOCKS, MAX_HELD, JoinSettings, JoinState, join
from stream_occ.samples import SampleBlock, Sensor, SensorBlock
from stream_occ.topics import Topics
from tests.reference.joining_loop import join_loop

T0 = 1_700_000_000_000_000_000
MS = 1_000_000
SETTINGS = JoinSettings(max_skew_s=1.0, gap_s=0.5)


def block(sensor: Sensor, *rows: tuple[float, float]) -> SensorBlock:
    """Samples (ms after T0, x) of a sensor; y is 10 x and z is -x."""
    t_ns = np.array([T0 + round(ms * MS) for ms, _ in rows], dtype=np.int64)
    return SensorBlock("w1", sensor, t_ns, np.array([[x, 10 * x, -x] for _, x in rows]))


def run(*messages: list[SensorBlock | SampleBlock]) -> tuple[list[tuple[float, float, float]], Counter[str], JoinState]:
    """(ms, acc x, gyr x) of all joined samples in their order, what was given up, and the last state."""
    state, lost = JoinState(), Counter[str]()
    rows: list[tuple[float, float, float]] = []
    for message in messages:
        state, joined, given_up = join(state, message, SETTINGS)
        lost += given_up
        for one in joined:
            ms = ((one.t_ns - T0) / MS).tolist()
            rows += zip(ms, one.acc_ms2[:, 0].tolist(), one.gyr_rads[:, 0].tolist(), strict=True)
    return rows, lost, state


def test_gyroscope_is_interpolated_onto_the_accelerometers_stamps() -> None:
    """At 5 of 0..20 ms a quarter of the way from 1 to 3: 1.5; what lies beyond the last gyroscope sample waits."""
    rows, lost, _ = run([block("acc", (5, 7), (20, 8), (25, 9)), block("gyr", (0, 1), (20, 3))])
    assert rows == [(5, 7, 1.5), (20, 8, 3)]
    assert not lost


def test_streams_in_messages_of_their_own_are_joined() -> None:
    """Accelerometer first, gyroscope in the next message, and the other way round."""
    acc, gyr = block("acc", (10, 1), (20, 2)), block("gyr", (10, 5), (20, 6))
    assert run([acc], [gyr])[0] == run([gyr], [acc])[0] == [(10, 1, 5), (20, 2, 6)]


def test_batches_longer_than_the_skew_are_joined() -> None:
    """Five seconds of each in one message: nothing is given up before the other sensor had its turn."""
    stamps = [(ms, 1.0) for ms in range(0, 5000, 20)]
    rows, lost, _ = run([block("acc", *stamps)], [block("gyr", *stamps)])
    assert len(rows) == 250
    assert not lost


def test_gravity_sent_apart_is_added() -> None:
    """1 without gravity plus 9 to 11 of gravity, halfway: 11; y is ten times as much."""
    state, [joined], lost = join(
        JoinState(),
        [block("linear", (10, 1)), block("gravity", (0, 9), (20, 11)), block("gyr", (0, 0), (20, 0))],
        SETTINGS,
    )
    assert joined.acc_ms2.tolist() == [[11, 110, -11]]
    assert not lost
    assert state.linear.t_ns.size == 0


def test_without_gyroscope_samples_are_given_up_after_the_skew_and_counted() -> None:
    """Ten seconds of accelerometer alone: all but those that may still be met are counted."""
    messages = [[block("acc", *((s * 1000 + ms, 1.0) for ms in range(0, 1000, 20)))] for s in range(10)]
    rows, lost, state = run(*messages)
    assert rows == []
    assert lost == {"gyro_missing": 500 - state.acc.t_ns.size}
    assert state.acc.t_ns.size <= 101  # one second of skew and the last message


def test_without_gravity_the_loss_says_so() -> None:
    """Gyroscope there, gravity not."""
    both = [
        [block(s, *((k * 1000 + ms, 1.0) for ms in range(0, 1000, 20))) for s in ("linear", "gyr")] for k in range(9)
    ]
    rows, lost, _ = run(*both)
    assert rows == []
    assert set(lost) == {"gravity_unsent"}
    assert lost["gravity_unsent"] > 300


def test_a_gyroscope_alone_is_counted() -> None:
    """No accelerometer: nothing can be joined, and what leaves memory is counted."""
    rows, lost, state = run(*([block("gyr", *((s * 1000 + ms, 1.0) for ms in range(0, 1000, 20)))] for s in range(10)))
    assert rows == []
    assert lost == {"acc_missing": 500 - state.gyr.t_ns.size}
    assert state.gyr.t_ns.size <= 102


def test_a_hole_in_the_gyroscope_is_not_bridged() -> None:
    """600 ms without gyroscope: samples inside are given up, those before and after are joined, in order."""
    acc = [(ms, 1.0) for ms in range(0, 4000, 100)]
    gyr = [(ms, 2.0) for ms in range(0, 4000, 100) if not 1000 < ms < 1600]
    messages: list[list[SensorBlock | SampleBlock]] = []
    for start in range(0, 4000, 200):
        parts = [[row for row in rows if start <= row[0] < start + 200] for rows in (acc, gyr)]
        messages.append([block(sensor, *part) for sensor, part in zip(("acc", "gyr"), parts, strict=True) if part])
    rows, lost, _ = run(*messages)
    assert [ms for ms, _, _ in rows] == [ms for ms, _ in gyr]
    assert lost == {"gyro_missing": 5}


def test_memory_is_bounded() -> None:
    """However much comes in one message, at most MAX_HELD samples of a sensor are kept."""
    many = [(k * 0.01, 1.0) for k in range(3 * MAX_HELD)]
    _, lost, state = run([block("acc", *many)], [block("linear", *many)])
    assert state.acc.t_ns.size <= MAX_HELD
    assert state.linear.t_ns.size <= MAX_HELD
    assert lost["gyro_missing"] >= 2 * MAX_HELD
    _, lost, state = run([block("gyr", *many), block("gravity", *many)])
    assert state.gyr.t_ns.size == state.gravity.t_ns.size == MAX_HELD


def test_one_message_that_comes_much_too_late_costs_itself_alone() -> None:
    """A straggler of a minute ago is counted; the stream goes on."""
    whole = [[block("acc", (ms, 1)), block("gyr", (ms, 2))] for ms in range(60_000, 61_000, 100)]
    rows, lost, _ = run(*whole[:5], [block("acc", (0, 1))], *whole[5:])
    assert len(rows) == 10
    assert lost == {"join_late": 1}


def test_a_clock_set_back_is_taken_up() -> None:
    """An hour back: some blocks are lost and counted, then the new clock holds."""

    def both(ms: int) -> list[SensorBlock | SampleBlock]:
        return [block("acc", (ms, 1)), block("gyr", (ms, 2))]

    rows, lost, _ = run(*map(both, range(3_600_000, 3_601_000, 100)), *map(both, range(0, 2000, 100)))
    assert [ms for ms, _, _ in rows[:10]] == list(range(3_600_000, 3_601_000, 100))
    assert [ms for ms, _, _ in rows[10:]] == list(range(200, 2000, 100))
    assert lost["join_late"] == CLOCK_RESET_BLOCKS - 1


def test_whole_samples_among_single_sensors_are_taken_too() -> None:
    """A message whose stamps happen to be common, between two whose stamps are not."""
    t_ns = np.array([T0 + 20 * MS, T0 + 30 * MS])
    whole = SampleBlock("w1", t_ns, np.ones((2, 3)), np.full((2, 3), 2.0))
    rows, lost, _ = run(
        [block("acc", (10, 1)), block("gyr", (8, 2))], [whole], [block("acc", (40, 1)), block("gyr", (41, 2))]
    )
    assert rows == [(ms, 1, 2) for ms in (10, 20, 30, 40)]
    assert not lost


streams = st.lists(st.integers(1, 300), min_size=2, max_size=40).map(lambda steps: np.cumsum(steps).tolist())


@settings(max_examples=150, deadline=None)
@given(acc_ms=streams, gyr_ms=streams, data=st.data())
def test_however_a_stream_is_cut_the_same_samples_come_out(
    acc_ms: list[int], gyr_ms: list[int], data: st.DataObject
) -> None:
    """Cut anywhere, every sensor in messages of its own or together: as the slow loop has it, bit for bit alike."""
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    values = {"acc": rng.normal(size=(len(acc_ms), 3)), "gyr": rng.normal(size=(len(gyr_ms), 3))}
    stamps = {"acc": np.array(acc_ms) * MS + T0, "gyr": np.array(gyr_ms) * MS + T0}
    patient = JoinSettings(max_skew_s=60.0, gap_s=0.2)
    expected = join_loop(acc_ms, values["acc"].tolist(), gyr_ms, values["gyr"].tolist(), 200)
    events = sorted((t, sensor, i) for sensor in ("acc", "gyr") for i, t in enumerate(stamps[sensor].tolist()))
    cuts = sorted(data.draw(st.sets(st.integers(1, len(events) - 1), max_size=8)))
    state, out = JoinState(), []
    last = max(t for t, _, _ in events)
    flush = [  # a minute later, so that nothing waits any more
        SensorBlock("w1", sensor, np.array([last + 61_000 * MS + k]), np.zeros((1, 3)))
        for k in range(2)
        for sensor in ("gyr", "acc")
    ]
    for start, stop in zip([0, *cuts], [*cuts, len(events)], strict=True):
        message = []
        for sensor in ("acc", "gyr"):
            rows = [i for _, own, i in events[start:stop] if own == sensor]
            if rows:
                message.append(SensorBlock("w1", sensor, stamps[sensor][rows], values[sensor][rows]))
        state, joined, _ = join(state, message, patient)
        out += joined
    for extra in (flush[:2], flush[2:]):
        state, joined, _ = join(state, extra, patient)
        out += joined
    t_ns = np.concatenate([one.t_ns for one in out]) if out else np.empty(0, dtype=np.int64)
    is_own = t_ns <= last
    assert ((t_ns[is_own] - T0) // MS).tolist() == [t for t, _, _ in expected]
    if expected:
        np.testing.assert_array_equal(np.concatenate([one.acc_ms2 for one in out])[is_own], [a for _, a, _ in expected])
        gyr = np.concatenate([one.gyr_rads for one in out])[is_own]
        np.testing.assert_allclose(gyr, [g for _, _, g in expected], rtol=0, atol=1e-14)


@pytest.mark.parametrize("ms", [0.0, 0.3])
def test_ask_21_stamps_of_this_century_lose_no_nanosecond(ms: float) -> None:
    """Two gyroscope samples 3 ns apart at 1.7e18 ns, where float64 steps by 256 ns: a third of the way is a third."""
    t = T0 + round(ms * MS)
    gyr = SensorBlock("w1", "gyr", np.array([t, t + 3]), np.array([[0.0] * 3, [3.0] * 3]))
    acc = SensorBlock("w1", "acc", np.array([t + 1]), np.zeros((1, 3)))
    _, [joined], _ = join(JoinState(), [acc, gyr], SETTINGS)
    assert joined.gyr_rads.tolist() == [[1.0, 1.0, 1.0]]


def test_the_front_desk_joins_both_and_names_a_silent_gyroscope(monkeypatch: pytest.MonkeyPatch) -> None:
    """Messages of one sensor each: samples once both are there; seconds of accelerometer alone are gyro_missing."""
    desk, sent = a_desk(monkeypatch)
    acc, gyr = block("acc", (10, 1), (20, 2)), block("gyr", (10, 5), (20, 6))
    assert sent(acc, 0.0) == []
    [joined] = sent(gyr, 0.1)
    assert joined.acc_ms2[:, 0].tolist() == [1, 2]
    record = desk.devices["w1"]
    assert (record.data_s, dict(record.fault_seen_s)) == (0.1, {})
    for k in range(1, 6):
        assert sent(block("acc", *((1000 * k + ms, 1.0) for ms in range(0, 1000, 20))), k) == []
    assert set(record.fault_seen_s) == {"gyro_missing"}
    assert desk.refused["gyro_missing"] == record.refused["gyro_missing"] == 149  # 1.00 to 3.96 s, given up before 3.98
    assert record.data_s == 0.1


def a_desk(monkeypatch: pytest.MonkeyPatch) -> tuple[Intake, Callable[[SensorBlock, float], list[SampleBlock]]]:
    """An intake with a codec that gives what it is told, and how to tell it."""
    entry = InputConfig(pattern="a/{device}/#")
    desk = Intake(Config(inputs=(entry,)), Topics("stream_occ", "edge"))
    told: list[SensorBlock] = []
    monkeypatch.setattr(load_codec("json"), "decode", lambda *_, **__: told[-1:])

    def sent(what: SensorBlock, now_s: float) -> list[SampleBlock]:
        told.append(what)
        message = Received.of("a/w1/x", b"x", is_retained=False, arrived_s=now_s, max_bytes=100)
        return desk.accept(message, now_ns=T0, now_s=now_s)

    return desk, sent
