"""What users met with clocks and sampling, by the numbers of docs/reliability.md."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgpack
import numpy as np
import pytest

from stream_occ.codecs import load_codec
from stream_occ.doctor.signals import timing
from stream_occ.events import EventPolicy
from stream_occ.pipeline import Pipeline
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import NS_PER_S, DeviceProfile, SampleBlock
from tests.unit.service_bench import CHECKED, JSON, T0_NS, Bench
from tests.unit.toy_model import toy_model

MS = 1_000_000


def ramp(t_ms: Any) -> SampleBlock:
    """acc x is the stamp in ms."""
    t = np.asarray(t_ms, dtype=np.float64)
    acc = np.zeros((t.size, 3))
    acc[:, 0] = t
    return SampleBlock("w1", np.rint(t * MS).astype(np.int64), acc, np.zeros((t.size, 3)))


def gridded(*blocks: SampleBlock, **settings: Any) -> tuple[list[float], Any]:
    """acc x on the grid of 50 Hz, and the counters."""
    state, values = ResamplerState(), []
    for block in blocks:
        state, chunks = resample(state, block, rate_hz=50.0, settings=StreamSettings(**settings))
        values += [value for chunk in chunks for value in chunk.values[:, 0].tolist()]
    return values, state.counters


def shaken(n: int, *, hz: float, first: int = 0, t0_ns: int = T0_NS, knock: bool = False) -> SampleBlock:
    """n samples of a device that swings along gravity, or is knocked, at so many Hz of its own clock."""
    k = np.arange(first, first + n)
    acc = np.zeros((n, 3))
    acc[:, 0] = (20.0 if knock else 0.0) + 0.01 * (k % 3)
    acc[:, 2] = 9.81 + 2.0 * np.sin(2 * np.pi * 2.0 * k / hz)
    acc[:, 1] = 0.01 * np.sin(2 * np.pi * 3.0 * k / hz)
    t_ns = t0_ns + np.rint(k * NS_PER_S / hz).astype(np.int64)
    return SampleBlock("w1", t_ns, acc, 0.001 * np.stack([k % 3, k % 5, k % 7], axis=1))


@pytest.mark.parametrize(("nominal_hz", "is_told"), [(50.0, False), (100.0, True)])
def test_ask_15_a_rate_other_than_declared_is_a_fault(nominal_hz: float, is_told: bool) -> None:
    """50 Hz come for ten seconds."""
    bench = Bench(inputs=[{"pattern": "wearables/{device}/imu", "profile": {"nominal_rate_hz": nominal_hz}}])
    for second in range(10):
        bench.send(50, first=50 * second)
        bench.run(1.0)
    assert bench.state()["rate_hz"] == pytest.approx(50.0)
    assert ("rate_mismatch" in bench.state()["faults"]) == is_told


def test_ask_16_jitter_moves_no_value_off_its_instant() -> None:
    """Steps of 20 ms plus or minus 15: on the grid each value of a line is that of its instant."""
    rng = np.random.default_rng(0)
    t_ms = 20.0 * np.arange(400) + rng.uniform(-7.5, 7.5, 400)
    values, _ = gridded(ramp(t_ms))
    np.testing.assert_allclose(values, t_ms[0] + 20.0 * np.arange(len(values)), atol=1e-5)
    assert len(values) >= 398


def test_ask_16_jitter_is_measured_where_a_device_is_set_up() -> None:
    """`doctor` on steps of 10 and 30 ms in turn: 50 Hz, 10 ms off on either side."""
    t_ns = np.cumsum([0, *([10 * MS, 30 * MS] * 50)])
    found = timing(t_ns, [])
    assert found.rate_hz == pytest.approx(50.0)
    assert found.jitter_ms == pytest.approx(10.0)


def test_ask_16_jitter_of_a_running_device_is_in_its_state() -> None:
    """Steps of 10 and 30 ms in turn: 10 ms off on either side; even ones have none."""
    for steps_ms, jitter_ms in (([10, 30] * 50, 10.0), ([20] * 100, 0.0)):
        bench = Bench()
        t_ns = T0_NS + np.cumsum([0, *steps_ms]) * MS
        acc = np.tile([0.0, 0.0, 9.8], (t_ns.size, 1)) + 0.1 * np.sin(np.arange(t_ns.size))[:, None]
        bench.deliver("wearables/w1/imu", JSON.encode(SampleBlock("w1", t_ns, acc, 0.01 * acc)))
        bench.run(2.0)
        assert bench.state()["jitter_ms"] == pytest.approx(jitter_ms)


def test_ask_18_a_clock_that_runs_off_is_followed() -> None:
    """2.4 s a day too fast, ten hours behind, set by nobody: both are found, no window lost, a fall at the end live."""
    pipeline = Pipeline(toy_model(threshold=15.0), policy=EventPolicy(k=1, n=1, live_within_s=60.0))
    state, n_decided, drift = pipeline.initial(), 0, 2.4 / 86_400
    for second in range(600):
        ahead_ns = round((-36_000 + second * drift) * NS_PER_S)
        block = shaken(50, hz=50.0 * (1 - drift), first=50 * second, t0_ns=T0_NS - 36_000 * NS_PER_S)
        block = replace(block, has_own_clock=True)
        assert abs(int(block.t_ns[0]) - (T0_NS + second * NS_PER_S + ahead_ns)) < MS
        state, decisions, told = pipeline.step(state, [block], T0_NS + (second + 1) * NS_PER_S)
        n_decided += len(decisions)
        assert not told
    assert n_decided == pytest.approx((600 - 0.4) / 0.1, abs=3)
    clock = state.devices["w1"].clock
    assert clock.offset_s == pytest.approx(-36_000, abs=0.05)  # told as clock_offset_s
    assert clock.drift_ppm == pytest.approx(drift * 1e6, abs=2.0)  # told as clock_drift_ppm
    block = shaken(25, hz=50.0, first=30_001, t0_ns=T0_NS - 36_000 * NS_PER_S, knock=True)
    _, _, told = pipeline.step(state, [replace(block, has_own_clock=True)], T0_NS + 601 * NS_PER_S)
    assert [(alert.state, alert.reasons) for alert in told][:1] == [("suspected", ("k_of_n",))]


def test_ask_19_late_samples_are_put_in_their_place_or_counted() -> None:
    """60 ms late: in its place with a buffer of 100 ms, left out and counted without."""
    block = ramp([0, 20, 60, 80, 40, 100, 120, 140, 160, 180, 200, 220])
    block.acc_ms2[4, 0] = 41.0
    values, counters = gridded(block, reorder_s=0.1)
    assert (values[:4], counters.late) == ([0.0, 20.0, 41.0, 60.0], 0)
    values, counters = gridded(block)
    assert (values[:4], counters.late) == ([0.0, 20.0, 40.0, 60.0], 1)


def test_ask_19_a_clock_set_back_begins_a_new_window() -> None:
    """An hour back: after half a second it is taken up from its first sample on, and no grid reaches over the jump."""
    values, counters = gridded(ramp(3_600_000 + 20 * np.arange(50)), ramp(20 * np.arange(100)))
    assert counters.clock_reset == 1
    after = [value for value in values if value < 3_600_000]
    assert after == (20.0 * np.arange(100)).tolist()
    assert len(values) - len(after) == 50


@pytest.mark.parametrize(
    ("stamp", "t_ns"),
    [
        ('"t_ns": 1700000000123456789', 1_700_000_000_123_456_789),
        ('"t_us": 1700000000123457', 1_700_000_000_123_457_000),
        ('"t_ms": 1700000000123.456789', 1_700_000_000_123_456_789),
        ('"t_s": 1700000000.123456789', 1_700_000_000_123_456_789),
    ],
)
def test_ask_21_stamps_are_read_to_the_nanosecond(stamp: str, t_ns: int) -> None:
    """A float of this size is a multiple of 256 ns."""
    message = f'{{{stamp}, "acc": [0, 0, 9.8], "gyr": [0, 0, 0]}}'.encode()
    profile = DeviceProfile(acc_unit="m/s2", gyr_unit="rad/s")
    [block] = load_codec("json").decode(message, device_id="w1", profile=profile)
    assert block.t_ns.tolist() == [t_ns]


UNITS_NS = {"s": NS_PER_S, "ms": MS, "us": 1000, "ns": 1}


@pytest.mark.parametrize("codec", ["json", "csv", "msgpack"])
@pytest.mark.parametrize("declared", UNITS_NS)
@pytest.mark.parametrize("sent", UNITS_NS)
def test_ask_21_a_stamp_in_another_unit_is_named_not_guessed(codec: str, declared: str, sent: str) -> None:
    """Each unit sent as each other one: refused as `epoch_unit` and nothing else, also beyond the range of a clock."""
    bench = Bench(inputs=[{"pattern": "wearables/{device}/imu", "codec": codec}])
    stamp = T0_NS // UNITS_NS[sent]
    message: dict[str, Any] = {f"t_{declared}": stamp, "acc": [0, 0, 9.8], "gyr": [0, 0, 0]}
    message["units"] = {"acc": "m/s2", "gyr": "rad/s"}
    columns = f"t_{declared},acc_x,acc_y,acc_z,gyr_x,gyr_y,gyr_z"
    payloads = {
        "json": json.dumps(message).encode(),
        "csv": f"# acc=m/s2 gyr=rad/s\n{columns}\n{stamp},0,0,9.8,0,0,0".encode(),
        "msgpack": msgpack.packb(message),
    }
    assert bench.deliver("wearables/w1/imu", payloads[codec])
    bench.run()
    refused = {} if sent == declared else {"epoch_unit": 1}
    assert bench.service.counters().refused == refused
    assert set(bench.state()["faults"]) >= set(refused)
    assert bench.state()["counters"] == (refused or {"samples": 1})


@pytest.mark.parametrize("stamp", ["1e15", "17e14", "1" + "0" * 25, "1" + "0" * 3000, "-1700000000"])
def test_ask_21_a_stamp_that_no_other_unit_explains_is_invalid(stamp: str) -> None:
    """`t_s` far beyond the range of a clock, of any number of digits: `stamp_invalid`, unless a unit makes it now."""
    bench = Bench()
    units = '"units": {"acc": "m/s2", "gyr": "rad/s"}'
    message = f'{{"t_s": {stamp}, "acc": [0, 0, 9.8], "gyr": [0, 0, 0], {units}}}'
    assert bench.deliver("wearables/w1/imu", message.encode())
    bench.run()
    reason = "epoch_unit" if stamp == "17e14" else "stamp_invalid"  # microseconds
    assert bench.service.counters().refused == {reason: 1}


def test_ask_22_a_backlog_is_told_as_history_and_calls_nobody() -> None:
    """A fall that was two hours in a device's memory: no countdown, nothing retained; the reason is `historical`."""
    bench = Bench(events={**CHECKED, "live_within_s": 3600.0}, at_s=7200.0)
    bench.fall()
    bench.wait(60.0)
    told = bench.link.of("stream_occ/w1/event")
    assert {event["event_type"] for event in told} == {"suspected", "expired"}
    assert all("historical" in event["reasons"] for event in told if event["event_type"] == "expired")
    assert "stream_occ/w1/alert" not in bench.link.retained
    assert "late_data" in {fault for state in bench.link.of("stream_occ/w1/state") for fault in state["faults"]}


@pytest.mark.parametrize("hz", [50.0, 100.0, 200.0])
def test_ask_23_a_faster_stream_is_resampled_to_the_models_rate(hz: float) -> None:
    """Ten seconds are 97 windows of 0.4 s every 0.1 s at the model's 50 Hz, whatever the sensor's rate."""
    pipeline = Pipeline(toy_model())
    _, decisions, _ = pipeline.step(pipeline.initial(), [shaken(round(10 * hz) + 1, hz=hz)], T0_NS + 10 * NS_PER_S)
    assert len(decisions) == 97


def test_ask_23_a_slower_stream_is_refused_aloud() -> None:
    """20 Hz for a model of 50 Hz: a fault, no state is normal, and no window has a verdict."""
    bench = Bench(output={"state_interval_s": 0.5})
    for second in range(10):
        bench.send(20, first=20 * second, hz=20)
        bench.run(1.0)
    assert "rate_too_low" in bench.state()["faults"]
    told = bench.link.of("stream_occ/w1/state")
    assert len(told) == 10
    assert {state["state"] for state in told} == {"waiting"}
    counters = bench.state()["counters"]
    assert counters["unscorable"] == counters["windows"] > 80
