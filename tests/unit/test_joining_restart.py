"""Sensors that come apart, and a service that is killed between the two halves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from stream_occ.checkpoint import dump_state, load_state
from stream_occ.joining import JoinState, Track
from stream_occ.pipeline import DeviceState, PipelineState
from tests.senml_halves import half
from tests.unit.service_bench import T0_NS, Bench
from tests.unit.test_acknowledging import Starts

APART = {"inputs": [{"pattern": "wearables/{device}/imu", "codec": "senml"}]}


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Starts]:
    starts = Starts(tmp_path / "state.db")
    yield starts
    starts.kill()


def taken(bench: Bench) -> int:
    return bench.service._state.devices["w1"].resampler.counters.n_samples


def test_half_that_was_acknowledged_is_there_after_a_kill(start: Starts) -> None:
    """The accelerometer's half second is saved and acknowledged; the gyroscope's comes to the next start."""
    bench = start(**APART)
    mid = start.deliver(bench, half("acc", 25, t0_ns=T0_NS))
    bench.run()
    bench.run(5.0)
    assert mid in {token.mid for token in bench.link.acknowledged}
    again = start(at_s=6.0, **APART)
    start.deliver(again, half("gyr", 25, t0_ns=T0_NS))
    again.run()
    assert taken(again) == 25
    assert again.service.intake.refused == {}


def test_half_that_was_not_acknowledged_is_delivered_again_and_taken_once(start: Starts) -> None:
    """Killed before the save: both halves come again to the next start, and once more."""
    bench = start(**APART)
    bench.run(1.0)
    start.deliver(bench, half("acc", 25, t0_ns=T0_NS))
    bench.run()
    assert bench.link.acknowledged == []
    again = start(at_s=2.0, **APART)
    for kind in ("acc", "gyr", "acc", "gyr"):
        start.deliver(again, half(kind, 25, t0_ns=T0_NS), is_again=True)
    again.run()
    assert taken(again) == 25
    assert again.service.intake.refused == {"delivered_again": 2}


def test_what_waits_is_in_the_checkpoint_bit_for_bit() -> None:
    """Stamps, values and how far each sensor is."""
    track = Track(np.array([3, 5]), np.array([[0.1, 0.2, 1 / 3], [-0.0, 1e-300, 9.8]]))
    join = JoinState(acc=track, head_ns=5, acc_ns=5, n_stale=1)
    state = load_state(dump_state(PipelineState({"w1": DeviceState(join=join)})))
    found = state.devices["w1"].join
    assert found is not None
    assert (found.head_ns, found.acc_ns, found.n_stale, found.gyr.t_ns.size) == (5, 5, 1, 0)
    assert found.acc.t_ns.tobytes() == track.t_ns.tobytes()
    assert found.acc.values.tobytes() == track.values.tobytes()
