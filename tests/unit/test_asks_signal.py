"""What users met with sensors and units, by the numbers of docs/reliability.md."""

from __future__ import annotations

import json
import logging
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from stream_occ.codecs import load_codec
from stream_occ.errors import PayloadError
from stream_occ.messages import MESSAGES, StateMessage
from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, DeviceProfile, SampleBlock
from stream_occ.wiring import warn_of_placements, warn_of_ranges
from tests.unit.service_bench import CHECKED, JSON, T0_NS, Bench
from tests.unit.test_asks_time import shaken
from tests.unit.toy_model import ToyFeatures, ToyScorer, toy_model
from tests.unit.training_recordings import people, recording, refusal

G = 9.80665
TOPIC = "wearables/w1/imu"


def lying(n: int, *, scale: float = 1.0, offset: float = 0.0, first: int = 0) -> SampleBlock:
    """A device at rest with its sensor's noise; gravity along z in m/s2, times scale."""
    k = np.arange(first, first + n)
    rng = np.random.default_rng(first)
    acc = rng.normal(0, 0.01, (n, 3)) + np.array([0.0, 0.0, G - offset])
    return SampleBlock("w1", T0_NS + k * (NS_PER_S // 50), acc * scale, rng.normal(0, 0.002, (n, 3)))


def sent(bench: Bench, block: SampleBlock, *, seconds: float = 1.0) -> None:
    assert bench.deliver(TOPIC, JSON.encode(block))
    bench.run(seconds)


def named(bench: Bench) -> set[str]:
    return {fault for state in bench.link.of("stream_occ/w1/state") for fault in state["faults"]}


@pytest.mark.parametrize(
    ("scale", "offset", "fault"),
    [(1.0, 0.0, None), (1 / G, 0.0, "acc_unit_g_as_ms2"), (G, 0.0, "acc_unit_ms2_as_g"), (1.0, G, "gravity_missing")],
)
def test_ask_24_25_rest_tells_a_wrong_unit_and_a_missing_gravity(
    scale: float, offset: float, fault: str | None
) -> None:
    """|a| at rest is 9.81 where all is well; 1, 96 and 0 m/s2 have their names, and no window with them is normal."""
    bench = Bench()
    for second in range(5):
        sent(bench, lying(50, scale=scale, offset=offset, first=50 * second))
    assert named(bench) & {"acc_unit_g_as_ms2", "acc_unit_ms2_as_g", "gravity_missing"} == ({fault} - {None})
    assert (bench.state()["state"] == "normal") == (fault is None)


def test_ask_24_degrees_are_not_taken_for_radians() -> None:
    """180 deg/s declared are pi rad/s; without a unit the message is refused, not guessed."""
    message = {"t_ns": T0_NS, "acc": [0, 0, 1], "gyr": [180, 0, 0]}
    decode = load_codec("json").decode
    declared = json.dumps({**message, "units": {"acc": "g", "gyr": "deg/s"}}).encode()
    [block] = decode(declared, device_id="w1", profile=DeviceProfile())
    assert block.gyr_rads[0].tolist() == pytest.approx([math.pi, 0, 0])
    assert block.acc_ms2[0].tolist() == pytest.approx([0, 0, G])
    with pytest.raises(PayloadError) as caught:
        decode(json.dumps(message).encode(), device_id="w1", profile=DeviceProfile())
    assert caught.value.reason == "units_unknown"


def test_ask_26_a_sensor_worn_elsewhere_is_told_at_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """A model of waists: a wrist is warned of, a waist and what is not declared are not; a mixed model covers both."""
    inputs = [
        {"pattern": f"{place}/{{device}}", "profile": {"placement": place}} for place in ("wrist", "waist", "unknown")
    ]
    config = Bench(inputs=inputs).config
    for trained_at, n_warned in (("waist", 1), ("waist/wrist", 0), ("unknown", 0)):
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            warn_of_placements(config, replace(toy_model(), metadata={"placement": trained_at}))
        assert len(caplog.records) == n_warned
    with caplog.at_level(logging.WARNING):
        warn_of_placements(config, replace(toy_model(), metadata={"placement": "waist"}))
    assert "wrist/{device}" in caplog.text
    assert "worn at the wrist" in caplog.text


def test_ask_26_a_model_is_not_trained_on_two_places_by_accident() -> None:
    """One recording of a wrist among waists is refused."""
    line = refusal([*people(), recording("9", "walk", placement="wrist")])
    assert "wrist" in line
    assert "waist" in line


def test_ask_27_a_sensor_that_is_stuck_is_named_and_gives_no_nan() -> None:
    """One value for five seconds: the fault `stuck`, no window normal, every number told finite."""
    bench = Bench(output={"publish_score": True})
    sent(bench, shaken(100, hz=50.0))
    for second in range(2, 7):
        block = shaken(50, hz=50.0, first=50 * second)
        sent(bench, replace(block, acc_ms2=np.full((50, 3), 5.0), gyr_rads=np.zeros((50, 3))))
    assert "stuck" in bench.state()["faults"]
    assert bench.state()["state"] == "waiting"
    for _, payload, *_ in bench.link.sent:
        assert not {b"NaN", b"Infinity"} & set(payload.replace(b",", b" ").replace(b":", b" ").split())


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_ask_28_a_number_that_is_none_costs_its_message(value: str) -> None:
    """Refused and counted at the door; what comes after is taken."""
    bench = Bench()
    units = '"units": {"acc": "m/s2", "gyr": "rad/s"}'
    assert bench.deliver(TOPIC, f'{{"t_ns": {T0_NS}, "acc": [0, {value}, 9], "gyr": [0, 0, 0], {units}}}'.encode())
    sent(bench, shaken(50, hz=50.0))
    counters = bench.state()["counters"]
    assert (counters.get("not_finite", 0) + counters.get("value_out_of_range", 0), counters["samples"]) == (1, 50)


def test_ask_28_no_message_can_say_nan() -> None:
    """Whatever a bug would put into a state: it is refused before it is JSON."""
    state = {"state": "normal", "score": math.nan, "threshold": 1.0, "rate_hz": None, "last_seen": None, "faults": ()}
    more = {"muted_until": None, "not_worn": False, "learning": False, "counters": {}, "model": "m"}
    assert MESSAGES["state"] is StateMessage
    with pytest.raises(ValueError, match="finite"):
        StateMessage(**state, **more).to_payload()  # type: ignore[arg-type]


@dataclass(frozen=True)
class OftenUndefined(ToyFeatures):
    """NaN in every second window."""

    def extract(self, windows: Any) -> np.ndarray:
        X = super().extract(windows)
        X[::2, 1] = np.nan
        return X


class Forgiving(ToyScorer):
    """Takes NaN for 0, as a model of other people may."""

    def score(self, X: np.ndarray) -> np.ndarray:
        return np.nan_to_num(X).max(axis=1)


def test_ask_29_a_window_without_a_number_has_no_verdict() -> None:
    """Of 97 windows 49 have a feature that is NaN: 48 verdicts, 49 counted, none of the 49 normal."""
    pipeline = Pipeline(replace(toy_model(), feature_set=OftenUndefined(), scorer=Forgiving()))
    state, decisions, _ = pipeline.step(pipeline.initial(), [shaken(501, hz=50.0)], T0_NS + 10 * NS_PER_S)
    assert (len(decisions), state.devices["w1"].n_unscorable) == (48, 49)
    assert all(math.isfinite(decision.score) for decision in decisions)


def test_ask_30_a_device_on_the_table_is_told_and_a_fall_is_not_suppressed() -> None:
    """Ten seconds without any motion: not worn, in the state; the knock that follows is checked all the same."""
    bench = Bench(events={**CHECKED, "not_worn_s": 5.0, "not_worn_guard_s": 0.0})
    for second in range(10):
        sent(bench, lying(50, first=50 * second))
    assert bench.state()["not_worn"] is True
    assert bench.link.of("stream_occ/w1/event") == []
    bench.send(50, first=500, knock=True)
    bench.run(1.0)
    assert bench.state()["not_worn"] is False
    assert [state for state, _ in bench.events()][:1] == ["suspected"]


@pytest.mark.parametrize("threshold", [100.0, 0.0])
def test_ask_31_a_window_with_a_clipped_sample_is_flagged_or_gets_no_verdict(threshold: float) -> None:
    """Peaks of 21.8 m/s2 that a sensor of 2 g cuts off at 19.6, 1.7 times a second: windows of 0.4 s without one are
    normal below the threshold, those with one are not; above it all are flagged."""
    bench, k = Bench(toy_model(threshold=threshold), output={"state_interval_s": 0.5}), np.arange(50)
    for second in range(6):
        block = shaken(50, hz=50.0, first=50 * second)
        acc = block.acc_ms2.copy()
        acc[:, 2] = np.clip(G + 12.0 * np.sin(2 * np.pi * 1.7 * (k + 50 * second) / 50.0), -2 * G, 2 * G)
        sent(bench, replace(block, acc_ms2=acc))
    counters = bench.state()["counters"]
    assert "saturated" in named(bench)
    assert counters["saturated"] > 10
    assert counters["windows"] > 50
    assert (30 < counters.get("unscorable", 0) < 50) == (threshold == 100.0)
    assert ("normal" in {state["state"] for state in bench.link.of("stream_occ/w1/state")}) == (threshold == 100.0)


@pytest.mark.parametrize(("range_g", "is_told"), [(2, True), (4, False)])
def test_ask_31_a_sensor_narrower_than_training_is_told_at_the_start_and_in_its_state(
    range_g: int, is_told: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Normal recordings that reach 3 g: a sensor of 2 g is warned of and has a fault and a count, one of 4 g has not.
    Its windows are judged as they were, and what does not say its range is left alone."""
    noted = {"acc_ms2": {"reached": 3 * G, "full_scale": None}, "gyr_rads": {"reached": 9.0, "full_scale": None}}
    model = replace(toy_model(), metadata={"training": {"range": noted}})
    inputs = [
        {"pattern": "wearables/{device}/imu", "profile": {"acc_range_ms2": range_g * G, "gyr_range_rads": 34.9}},
        {"pattern": "silent/{device}/imu"},
    ]
    bench = Bench(model, inputs=inputs)
    with caplog.at_level(logging.WARNING):
        warn_of_ranges(bench.config, model)
    told = [record.getMessage() for record in caplog.records]
    assert told == is_told * [
        "inputs wearables/{device}/imu: model toy was trained to see more: acc ends at 19.6 m/s2, and normal "
        "recordings reach 29.4; its devices have the fault range_too_low"
    ]
    bench.send(100)
    assert bench.deliver("silent/w2/imu", JSON.encode(replace(shaken(100, hz=50.0), device_id="w2")))
    bench.run(2.0)
    assert bench.state()["faults"] == is_told * ["range_too_low"]
    assert bench.state()["counters"].get("range_too_low", 0) == is_told
    assert bench.state()["state"] == "normal"
    assert bench.state()["score"] == 0.0
    assert bench.state("w2")["faults"] == []
    bench.send(25, first=100, knock=True)
    bench.run(0.5)
    assert bench.state()["state"] == "alarm"
    assert bench.state()["counters"].get("range_too_low", 0) == is_told
