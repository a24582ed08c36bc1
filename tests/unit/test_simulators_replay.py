"""Replay: when each message is due, that samples are not touched, and how the player keeps time; no real clock."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulators.publisher import check_device_id, check_topic
from simulators.replay import Due, replay, schedule
from simulators.sources import Choice, synthetic_streams
from stream_occ.codecs import load_codec
from stream_occ.errors import UsageError
from stream_occ.samples import DeviceProfile, Recording, SampleBlock

S = 1_000_000_000
START_NS = 1_700_000_000_000_000_000


def recording(t_s: list[float], *, name: str = "1", fall_s: tuple[float, float] | None = None) -> Recording:
    """A trial with these stamps after an uptime of 5000 s, and values that are awkward to print."""
    n = len(t_s)
    values = np.random.default_rng(n).standard_normal((n, 6)) / 3
    t_ns = np.array([5000 * S + round(t * S) for t in t_s], dtype=np.int64)
    interval = None if fall_s is None else (5000 * S + round(fall_s[0] * S), 5000 * S + round(fall_s[1] * S))
    block = SampleBlock("original", t_ns, values[:, :3], values[:, 3:])
    return Recording("set", "p", "act", name, fall_s is not None, interval, "thigh", block)


def even(seconds: float, rate_hz: float = 10.0) -> list[float]:
    return [k / rate_hz for k in range(round(seconds * rate_hz))]


@dataclass
class FakeClock:
    """Time that passes only while somebody waits; ends the replay after `until_s`."""

    until_s: float = math.inf
    t_s: float = 100.0
    waits: list[float] = field(default_factory=list)

    def now_s(self) -> float:
        return self.t_s

    def now_ns(self) -> int:
        return START_NS + round((self.t_s - 100.0) * S)

    def wait_s(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.t_s += max(seconds, 0.0)
        return self.t_s - 100.0 > self.until_s


def test_message_is_due_when_its_last_sample_has_come() -> None:
    """Ten samples a second in messages of half a second: due at 0.4 s and 0.9 s, stamped from the start on."""
    dues = list(schedule({"d": [recording(even(1.0))]}, start_ns=START_NS, batch_s=0.5))
    assert [due.due_s for due in dues] == [0.4, 0.9]
    assert [due.block.t_ns[0] - START_NS for due in dues] == [0, S // 2]
    assert {due.block.device_id for due in dues} == {"d"}


def test_recordings_of_one_device_follow_each_other_after_a_pause() -> None:
    """The second begins 2 s after the first one's last stamp: a gap for the pipeline."""
    dues = list(schedule({"d": [recording(even(1.0)), recording(even(0.5), name="2")]}, start_ns=START_NS, pause_s=2.0))
    first, second = dues[0].placed, dues[-1].placed
    assert (first.t_start_ns, first.t_end_ns) == (START_NS, START_NS + 9 * S // 10)
    assert second.t_start_ns == START_NS + 29 * S // 10
    assert [due.due_s for due in dues] == sorted(due.due_s for due in dues)


def test_fall_interval_moves_with_its_recording() -> None:
    """Ground truth is on the clock of the stamps that were sent."""
    (due,) = schedule({"d": [recording(even(1.0), fall_s=(0.3, 0.6))]}, start_ns=START_NS, batch_s=5.0)
    assert due.placed.fall_interval_ns == (START_NS + 3 * S // 10, START_NS + 6 * S // 10)
    assert due.placed.is_fall


def test_devices_run_side_by_side() -> None:
    """Two devices of the same start are interleaved by due time."""
    streams = {"a": [recording(even(1.0))], "b": [recording(even(1.0, 20.0))]}
    dues = list(schedule(streams, start_ns=START_NS, batch_s=0.5))
    assert [due.device_id for due in dues] == ["a", "b", "a", "b"]


@settings(max_examples=100)
@given(
    st.lists(st.lists(st.floats(-2, 3), min_size=1, max_size=30), min_size=1, max_size=3),
    st.floats(0.01, 2.0),
)
def test_any_cut_keeps_every_sample_in_order_and_bit_for_bit(trials: list[list[float]], batch_s: float) -> None:
    """Whatever the stamps do (backwards, doubled) and however messages are cut, values and stamp differences stay."""
    recordings = [recording(t_s, name=str(k)) for k, t_s in enumerate(trials)]
    dues = list(schedule({"d": recordings}, start_ns=START_NS, batch_s=batch_s))
    by_trial = [list(group) for _, group in itertools.groupby(dues, key=lambda due: due.placed.name)]
    assert len(by_trial) == len(recordings)
    for sent, original in zip(by_trial, recordings, strict=True):
        np.testing.assert_array_equal(np.concatenate([d.block.acc_ms2 for d in sent]), original.block.acc_ms2)
        np.testing.assert_array_equal(np.concatenate([d.block.gyr_rads for d in sent]), original.block.gyr_rads)
        shift = np.concatenate([d.block.t_ns for d in sent]) - original.block.t_ns
        assert len(set(shift.tolist())) == 1
    assert all(len(due.block) > 0 for due in dues)
    assert all(a.due_s <= b.due_s for a, b in itertools.pairwise(dues))


def test_stamps_that_go_back_do_not_hold_messages_up() -> None:
    """A clock that jumps back by 0.6 s: the samples go out with the message of the moment, not later."""
    dues = list(schedule({"d": [recording([0.0, 0.2, 0.8, 0.2, 0.3, 0.9])]}, start_ns=START_NS, batch_s=0.5))
    assert [len(due.block) for due in dues] == [2, 4]
    assert [due.due_s for due in dues] == [0.2, 0.9]


def test_endless_replay_starts_over_after_the_pause() -> None:
    """The third round of a one-second recording starts two seconds and two pauses after the first."""
    dues = schedule({"d": [recording(even(1.0))]}, start_ns=0, batch_s=10.0, pause_s=1.0, is_looped=True)
    starts = [due.placed.t_start_ns / S for due in itertools.islice(dues, 3)]
    assert starts == pytest.approx([0.0, 1.9, 3.8])


def test_endless_replay_of_nothing_ends() -> None:
    """No sample anywhere: no endless search for one."""
    empty = recording([])
    assert list(schedule({"d": [empty], "e": []}, start_ns=0, is_looped=True)) == []


@pytest.mark.parametrize(("batch_s", "pause_s"), [(0.0, 1.0), (math.nan, 1.0), (0.5, 0.0), (0.5, -1.0)])
def test_bounds_without_sense_are_refused(batch_s: float, pause_s: float) -> None:
    """Nothing is due at once for ever, and no recording overlaps the one before."""
    with pytest.raises(UsageError, match="must be above 0"):
        schedule({"d": []}, start_ns=0, batch_s=batch_s, pause_s=pause_s)


def play(clock: FakeClock, **options: object) -> tuple[list[tuple[float, str, bytes]], object]:
    sent: list[tuple[float, str, bytes]] = []
    streams = {"d": [recording(even(2.0)), recording(even(1.0), name="2")]}
    report = replay(
        streams,
        lambda device, payload: sent.append((clock.t_s - 100.0, device, payload)),
        load_codec("json"),
        clock=clock,
        batch_s=0.5,
        **options,  # type: ignore[arg-type]
    )
    return sent, report


def test_at_speed_two_everything_takes_half_the_time() -> None:
    """Due at 0.4, 0.9, 1.4, 1.9 and, after the pause, 4.3 and 4.8 s of the device: at half of that on the wall."""
    sent, report = play(FakeClock(), speed=2.0)
    assert [at for at, _, _ in sent] == pytest.approx([0.2, 0.45, 0.7, 0.95, 2.15, 2.4])
    assert report.is_complete  # type: ignore[attr-defined]
    assert (report.n_messages, report.n_samples, report.n_recordings) == (6, 30, 2)  # type: ignore[attr-defined]


def test_how_far_stamps_end_ahead_of_the_clock_is_told() -> None:
    """At speed two the last of 4.8 s of stamps goes out after 2.4 s; in real time none runs ahead."""
    assert play(FakeClock(), speed=2.0)[1].ahead_s == pytest.approx(2.4)  # type: ignore[attr-defined]
    assert play(FakeClock())[1].ahead_s == pytest.approx(0.0)  # type: ignore[attr-defined]


def test_infinite_speed_does_not_wait() -> None:
    """No wait above 0."""
    clock = FakeClock()
    sent, _ = play(clock, speed=math.inf)
    assert len(sent) == 6
    assert max(clock.waits) <= 0.0


def test_slow_publishing_is_told_and_caught_up() -> None:
    """Each message takes 1 s to hand over: later ones are late, none is left out."""
    clock = FakeClock()
    n_sent = 0

    def publish(_device: str, _payload: bytes) -> None:
        nonlocal n_sent
        n_sent += 1
        clock.t_s += 1.0

    report = replay({"d": [recording(even(2.0))]}, publish, load_codec("json"), clock=clock, batch_s=0.5)
    assert n_sent == 4
    assert report.behind_s == pytest.approx(3.4 - 1.9)  # the fourth is due at 1.9 s, handed over at 0.4 + 3 s


def test_stopped_replay_ends_between_messages_and_says_so() -> None:
    """What was published before stays counted."""
    sent, report = play(FakeClock(until_s=1.0))
    assert len(sent) == 2
    assert not report.is_complete  # type: ignore[attr-defined]
    assert report.n_messages == 2  # type: ignore[attr-defined]


def test_payloads_decode_to_the_recorded_values() -> None:
    """Through the codec and back: not one bit differs, and stamps start with the replay."""
    sent, _ = play(FakeClock())
    codec = load_codec("json")
    blocks = [block for _, _, p in sent for block in codec.decode(p, device_id="d", profile=DeviceProfile())]
    original = recording(even(2.0)).block
    np.testing.assert_array_equal(np.concatenate([b.acc_ms2 for b in blocks])[:20], original.acc_ms2)
    assert blocks[0].t_ns[0] == START_NS


@pytest.mark.parametrize("speed", [0.0, -1.0, math.nan])
def test_speed_must_be_above_zero(speed: float) -> None:
    """Time does not stand still, nor run back."""
    with pytest.raises(UsageError, match="speed: must be above 0"):
        play(FakeClock(), speed=speed)


def test_choice_is_the_cut_of_its_three_wishes() -> None:
    """People, activities and falls; None asks for nothing."""
    fall, other = recording([0.0], fall_s=(0, 1)), recording([0.0])
    assert Choice().accepts(fall)
    assert Choice(falls=True).accepts(fall)
    assert not Choice(falls=True).accepts(other)
    assert Choice({"p"}, {"act"}, False).accepts(other)
    assert not Choice({"q"}).accepts(other)
    assert not Choice(None, {"walk"}).accepts(other)


def test_synthetic_life_is_the_same_at_each_pass_and_runs_without_a_pause() -> None:
    """Laid with a pause of one sample period its stamps are even from the first to the last, falls included."""
    streams = synthetic_streams(2, "w", duration_s=60.0, n_falls=1, seed=3)
    assert list(streams) == ["w-1", "w-2"]
    one, other = (list(_life(streams, "w-1")) for _ in range(2))
    t_ns = np.concatenate([due.block.t_ns for due in one])
    assert set(np.diff(t_ns).tolist()) == {S // 50}
    for a, b in zip(one, other, strict=True):
        np.testing.assert_array_equal(a.block.acc_ms2, b.block.acc_ms2)
    assert sum(placed.is_fall for placed in {due.placed for due in one}) == 1


def _life(streams: object, device_id: str) -> list[Due]:
    life = streams[device_id]  # type: ignore[index]
    return list(schedule({device_id: life}, start_ns=START_NS, pause_s=1 / 50))


@pytest.mark.parametrize("topic", ["wearables/imu", "a/{device}/{device}", "a/x{device}", "a/{device}/#", "a/{other}"])
def test_topic_without_a_place_for_the_device_is_refused(topic: str) -> None:
    """{device} is one whole level, and nothing else is left open."""
    with pytest.raises(UsageError, match="--topic: must hold"):
        check_topic(topic)


def test_device_id_that_detect_would_not_take_is_refused() -> None:
    """A slash would make another topic of it."""
    check_device_id("ward-3.watch_7")
    with pytest.raises(UsageError, match="--device: must be 1 to 64 of"):
        check_device_id("a/b")
