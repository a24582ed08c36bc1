"""Real exports of apps and sensors over a real mosquitto: the doctor's configuration reads every one, in its units."""

from __future__ import annotations

import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.config import Config, load_config
from stream_occ.inbox import Received
from stream_occ.intake import Intake
from stream_occ.resampling import ResamplerState, StreamSettings, resample
from stream_occ.samples import FloatArray, SampleBlock
from stream_occ.topics import Topics
from tests.integration.broker import Broker
from tests.integration.detector import Watcher
from tests.integration.test_doctor_broker import listened
from tests.recorded_messages import recorded

pytestmark = [pytest.mark.broker, pytest.mark.slow]

SECONDS = 12.0
G = 9.80665


def taken_in(config: Config, messages: list[tuple[int, str, bytes]]) -> tuple[Intake, dict[str, list[SampleBlock]]]:
    """Blocks of each device, of the messages in the order and at the times at which they came."""
    intake, found = Intake(config, Topics("stream_occ", "edge")), defaultdict(list)
    for at_ns, topic, payload in messages:
        message = Received.of(topic, payload, is_retained=False, arrived_s=0.0, max_bytes=10**7)
        for block in intake.accept(message, now_ns=at_ns, now_s=0.0):
            found[block.device_id].append(block)
    return intake, found


def n_late(blocks: list[SampleBlock], reorder_s: float) -> int:
    """Samples that the service would drop as late."""
    state = ResamplerState()
    for block in blocks:
        state, _ = resample(state, block, rate_hz=50.0, settings=StreamSettings(reorder_s=reorder_s))
    return state.counters.late


def in_a_row(blocks: list[SampleBlock]) -> tuple[FloatArray, FloatArray]:
    """|a| and |w| of all samples."""
    acc, gyr = (np.concatenate([getattr(one, name) for one in blocks]) for name in ("acc_ms2", "gyr_rads"))
    return np.linalg.norm(acc, axis=1), np.linalg.norm(gyr, axis=1)


def test_real_exports_are_read_by_the_configuration_that_is_printed(
    broker: Broker, tmp_path: Path, shared_data: Path
) -> None:
    """Seven topics at the pace of their recordings: all samples but those at the ends, |a| and |w| in SI.

    WitMotion and Movesense lie still, at 1.043 g and no turning, and at 9.64 m/s2 and (-1.47, -3.71, 0.14) deg/s. The
    watch, the walk of phyphox and the phone move: median |a| from 0.9 to 1.6 g, median |w| below 6 rad/s.
    """
    came: list[tuple[int, str, bytes]] = []

    def send() -> None:
        began_ns, began_s = time.time_ns(), time.monotonic()
        with Watcher(broker.port, "nothing") as watcher:
            for after_s, topic, payload in recorded(shared_data / "payloads", began_ns, SECONDS):
                time.sleep(max(0.0, began_s + after_s - time.monotonic()))
                came.append((time.time_ns(), topic, payload))
                watcher.send(topic, payload)

    _, content = listened(broker, tmp_path, "--seconds", str(SECONDS + 4), send=send)
    profiles: dict[str, dict[str, Any]] = {one["pattern"]: one["profile"] for one in content["inputs"]}
    assert set(profiles) == {
        "lab/{device}/acc",
        "lab/{device}/gyr",
        "movesense/{device}/imu",
        "phones/{device}/motion",
        "pushes/{device}/motion",
        "watches/{device}/export",
        "witmotion/{device}/csv",
    }
    assert profiles["watches/{device}/export"]["acc_unit"] == "g"
    assert profiles["watches/{device}/export"]["acc_sign"] == -1
    assert "acc_counts_per_unit" not in profiles["watches/{device}/export"]
    assert profiles["movesense/{device}/imu"]["gyr_unit"] == "deg/s"
    config = load_config(tmp_path / "found.yaml", {})
    intake, blocks = taken_in(config, came)
    assert not intake.refused
    least = {"n1": 90 * 10, "m3": 190 * 10, "a1": 90 * 10, "c2": 100 * 10, "s1": 9 * 7, "s2": 1}  # Hz times seconds
    assert {device: sum(map(len, own)) >= least[device] for device, own in blocks.items()} == dict.fromkeys(least, True)
    for device, rest, offset in (("m3", 1.043 * G, 0.0), ("c2", 9.64, np.radians(3.99))):
        a, w = in_a_row(blocks[device])
        assert np.median(a) == pytest.approx(rest, rel=0.01)
        assert abs(np.median(a) / G - 1) < 0.12
        assert np.median(w) == pytest.approx(offset, rel=0.1)
    for device in ("n1", "a1"):
        a, w = in_a_row(blocks[device])
        assert 0.9 < np.median(a) / G < 1.6, device
        assert 0.1 < np.median(w) < 6.0, device
    for device, own in blocks.items():
        assert n_late(own, config.stream.reorder_s) <= 0.002 * sum(map(len, own)), device
