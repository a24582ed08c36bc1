"""Synthetic wearers: repeatable, physically consistent, and with a ground truth that covers every sample."""

from __future__ import annotations

import numpy as np
import pytest

from simulators.activities import ACTIVITIES
from simulators.falls import FALLS
from simulators.people import Person, Pocket, Sensor
from simulators.synthetic import Trace, Wearer, draw_script
from stream_occ.errors import UsageError
from stream_occ.samples import NS_PER_S, FloatArray, SampleBlock

G = 9.80665
DAY = [("walking", 6.0), ("sitting", 5.0), ("fall_from_chair", 9.0), ("housework", 8.0)]


def life(seed: int, **options: object) -> Trace:
    return Wearer("w", seed, **options).generate(DAY)  # type: ignore[arg-type]


def assert_same(one: SampleBlock, other: SampleBlock) -> None:
    np.testing.assert_array_equal(one.t_ns, other.t_ns)
    np.testing.assert_array_equal(one.acc_ms2, other.acc_ms2)
    np.testing.assert_array_equal(one.gyr_rads, other.gyr_rads)


def test_one_seed_gives_one_life_bit_for_bit() -> None:
    """Timeline and samples of two wearers of the same seed are equal."""
    one, other = life(7), life(7)
    assert one.timeline == other.timeline
    assert_same(one.block, other.block)


def test_two_seeds_give_two_people() -> None:
    """Another seed draws another person, and other samples."""
    assert not np.array_equal(life(7).block.acc_ms2[:100], life(8).block.acc_ms2[:100])
    assert Person.draw(np.random.default_rng(7)).height_m != Person.draw(np.random.default_rng(8)).height_m


def test_pieces_and_whole_are_the_same_life() -> None:
    """Taking it piece by piece changes no bit."""
    pieces = list(Wearer("w", 7).iter_pieces(DAY))
    whole = life(7)
    assert tuple(piece.span for piece in pieces) == whole.timeline
    np.testing.assert_array_equal(np.concatenate([p.block.acc_ms2 for p in pieces]), whole.block.acc_ms2)


@pytest.mark.parametrize("rate_hz", [50.0, 84.0, 100.0])
def test_timeline_covers_every_sample_without_a_hole(rate_hz: float) -> None:
    """Spans follow each other; the stamps are even, and lie in the spans."""
    trace = life(3, rate_hz=rate_hz, start_ns=1_700_000_000_000_000_000)
    spans = trace.timeline
    assert [a.t_end_ns for a in spans[:-1]] == [b.t_start_ns for b in spans[1:]]
    assert spans[0].t_start_ns == trace.block.t_ns[0] == 1_700_000_000_000_000_000
    assert trace.block.t_ns[-1] < spans[-1].t_end_ns
    steps = np.diff(trace.block.t_ns)
    assert np.abs(steps - NS_PER_S / rate_hz).max() <= 1  # rounding to whole ns


def test_ground_truth_names_falls_and_their_interval() -> None:
    """The fall's span is a fall, its interval lies within it and ends long before it; no other span is one."""
    trace = life(3)
    falls = [span for span in trace.timeline if span.is_fall]
    assert [span.activity for span in falls] == ["fall_from_chair"]
    ((start_ns, end_ns),) = trace.fall_intervals_ns
    assert falls[0].t_start_ns <= start_ns < end_ns < falls[0].t_end_ns
    assert 1.0 < (end_ns - start_ns) / NS_PER_S < 4.0


def test_impact_lies_within_the_annotated_interval() -> None:
    """For every kind of fall and several people the largest |a| is inside."""
    for kind in FALLS:
        for seed in range(5):
            trace = Wearer("w", seed).generate([(kind, 9.0)])
            fall = next(span for span in trace.timeline if span.is_fall)
            keep = trace.block.t_ns >= fall.t_start_ns
            peak = trace.block.t_ns[keep][np.linalg.norm(trace.block.acc_ms2[keep], axis=1).argmax()]
            start_ns, end_ns = trace.fall_intervals_ns[0]
            assert start_ns <= peak <= end_ns, (kind, seed)


def test_posture_changes_are_put_in() -> None:
    """Who sat has to stand up before walking; who fell gets up first."""
    trace = Wearer("w", 1).generate([("sitting", 3.0), ("walking", 3.0), ("fall_forward", 8.0), ("walking", 3.0)])
    names = [span.activity for span in trace.timeline]
    assert names == ["sit_down", "sitting", "stand_up", "walking", "fall_forward", "get_up", "walking"]


@pytest.mark.parametrize("activity", ["standing", "sitting", "lying"])
def test_at_rest_the_accelerometer_shows_gravity(activity: str) -> None:
    """|a| is 9.81 m/s2 on average, whatever the posture, and the gyroscope shows next to nothing."""
    wearer = Wearer("w", 5, sensor=Sensor().ideal())
    trace = wearer.generate([(activity, 10.0)])
    last = trace.block.t_ns >= trace.timeline[-1].t_start_ns + 2 * NS_PER_S
    assert np.linalg.norm(trace.block.acc_ms2[last], axis=1).mean() == pytest.approx(G, abs=0.03)
    assert np.linalg.norm(trace.block.gyr_rads[last], axis=1).mean() < 0.15


@pytest.mark.parametrize("kind", sorted(FALLS))
def test_gyroscope_integrates_to_the_turn_that_gravity_shows(kind: str) -> None:
    """Turning the first gravity vector by the gyroscope's path over a whole fall gives the last gravity vector.

    The tolerance of 2 degrees covers sway in the half seconds averaged over and the integration's step of 5 ms.
    """
    for seed in range(4):
        wearer = Wearer("w", seed, sensor=Sensor(rate_hz=200.0, acc_range_ms2=1e4, gyr_range_rads=1e3).ideal())
        trace = wearer.generate([(kind, 10.0)])
        fall = next(span for span in trace.timeline if span.is_fall)
        keep = trace.block.t_ns >= fall.t_start_ns
        before, after = _turned_by_gyroscope(trace.block.acc_ms2[keep], trace.block.gyr_rads[keep], 200.0)
        cosine = before @ after / np.linalg.norm(before) / np.linalg.norm(after)
        assert np.degrees(np.arccos(min(cosine, 1.0))) < 2.0, (kind, seed)


def _turned_by_gyroscope(acc: FloatArray, gyr: FloatArray, rate_hz: float) -> tuple[FloatArray, FloatArray]:
    """First gravity vector carried through the rotation, step by step, and the last one: a loop of its own."""
    gravity = acc[:10].mean(axis=0)
    for k in range(5, len(gyr) - 5):
        step = gyr[k] / rate_hz
        angle = float(np.linalg.norm(step))
        if angle > 0:
            axis = -step / angle  # the world turns the other way round in the body's frame
            gravity = (
                gravity * np.cos(angle)
                + np.cross(axis, gravity) * np.sin(angle)
                + axis * (axis @ gravity) * (1 - np.cos(angle))
            )
    return gravity, acc[-10:].mean(axis=0)


def test_readings_stay_within_the_range_and_some_falls_reach_it() -> None:
    """A phone of 2 g clips each axis at 2 g, as MobiFall's does."""
    sensor = Sensor(acc_range_ms2=2 * G, gyr_range_rads=5.0)
    largest = [0.0, 0.0]
    for seed in range(10):
        block = Wearer("w", seed, sensor=sensor).generate([("fall_forward", 8.0)]).block
        largest = [max(largest[0], np.abs(block.acc_ms2).max()), max(largest[1], np.abs(block.gyr_rads).max())]
    assert largest == [2 * G, 5.0]


def test_jittered_stamps_stay_in_order() -> None:
    """However large the jitter, stamps grow, and they are no longer even."""
    block = life(3, sensor=Sensor(jitter_s=0.5)).block
    steps = np.diff(block.t_ns)
    assert steps.min() > 0
    assert steps.std() > 1e6


def test_a_person_can_be_given() -> None:
    """The same person with the same pocket under two seeds: another day of the same man or woman."""
    rng = np.random.default_rng(1)
    person = Person.draw(rng)
    pocket = Pocket.draw(rng, person)
    one = Wearer("a", 1, person=person, pocket=pocket)
    other = Wearer("b", 2, person=person, pocket=pocket)
    assert one.person is other.person
    assert not np.array_equal(one.generate(DAY).block.acc_ms2, other.generate(DAY).block.acc_ms2)


def test_pocket_is_a_proper_rotation() -> None:
    """Right-handed axes in, right-handed axes out."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        mounting = Pocket.draw(rng, Person.draw(rng)).mounting
        np.testing.assert_allclose(mounting @ mounting.T, np.eye(3), atol=1e-12)
        assert np.linalg.det(mounting) == pytest.approx(1.0)


def test_recordings_of_a_life_go_on_from_each_other() -> None:
    """One recording an activity, the next one a sample period after the last: laid end to end they are the trace."""
    recordings = list(Wearer("w", 7).iter_recordings(DAY))
    assert [r.is_fall for r in recordings] == [span.is_fall for span in life(7).timeline]
    np.testing.assert_array_equal(np.concatenate([r.block.t_ns for r in recordings]), life(7).block.t_ns)
    assert {r.placement for r in recordings} == {"thigh"}
    assert all((r.fall_interval_ns is not None) == r.is_fall for r in recordings)


def test_trial_is_a_recording_under_one_name() -> None:
    """As data sets hold it: standing, then a fall, the whole of it a fall recording."""
    recording = Wearer("w", 7).recording("fall_lateral", [("standing", 1.0), ("fall_lateral", 9.0)], trial="3")
    assert recording.name == "synthetic/w/fall_lateral/3"
    assert recording.is_fall
    assert recording.fall_interval_ns is not None
    assert len(recording.block) == 500


def test_unknown_activity_is_refused_by_name() -> None:
    """One line that lists what there is."""
    with pytest.raises(UsageError, match=r"script: must hold activities among standing, .*; got 'flying'"):
        Wearer("w", 1).generate([("flying", 3.0)])


def test_other_places_than_the_thigh_are_refused() -> None:
    """What is not modelled is not pretended."""
    with pytest.raises(UsageError, match="placement: must be thigh; got 'wrist'"):
        Wearer("w", 1, placement="wrist")


def test_fall_too_short_to_lie_still_is_refused() -> None:
    """A fall needs time to happen: less than 4 s is an error, not half a fall."""
    with pytest.raises(UsageError, match=r"fall_forward: must last at least 4 s; got 2.5 s"):
        Wearer("w", 1).generate([("fall_forward", 2.5)])


def test_drawn_script_has_its_falls_and_never_one_inside_a_car() -> None:
    """Falls are spread, of all kinds in turn; a trip by car is entered, ridden and left without one."""
    for seed in range(10):
        script = draw_script(np.random.default_rng(seed), 1800.0, n_falls=7)
        names = [name for name, _ in script]
        falls = [name for name in names if name in FALLS]
        assert len(falls) == 7
        assert set(falls) == set(FALLS)
        for k, name in enumerate(names):
            if name == "enter_car":
                assert names[k + 1 : k + 3] == ["car_ride", "leave_car"]
        assert sum(takes for name, takes in script if name in ACTIVITIES) >= 1800.0


def test_drawn_script_repeats_with_its_seed() -> None:
    """One seed, one day."""
    first, second = (draw_script(np.random.default_rng(4), 600.0, n_falls=2) for _ in range(2))
    assert first == second
