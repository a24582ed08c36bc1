"""`stream-occ replay` against a real mosquitto: what a subscriber receives is the recording, bit for bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from simulators.publisher import Publisher
from simulators.replay import replay
from simulators.sources import synthetic_streams
from simulators.synthetic import Wearer
from stream_occ.codecs import load_codec
from stream_occ.datasets.recording import RecordingWriter
from stream_occ.errors import ServiceError
from stream_occ.mqtt import MqttOptions
from stream_occ.samples import DeviceProfile, Recording, SampleBlock
from tests.integration.broker import Broker, free_port
from tests.integration.detector import REPO, Watcher, wait_until

pytestmark = pytest.mark.broker

TOPIC = "wearables/{device}/imu"


def received(watcher: Watcher, codec_name: str = "json") -> dict[str, SampleBlock]:
    """All samples that came, by device, in the order of arrival."""
    codec, blocks = load_codec(codec_name), defaultdict(list)
    for topic, payload, _ in list(watcher.log):
        device_id = topic.split("/")[1]
        blocks[device_id] += codec.decode(payload, device_id=device_id, profile=DeviceProfile("m/s2", "rad/s"))
    return {
        device_id: SampleBlock(
            device_id,
            np.concatenate([b.t_ns for b in parts]),
            np.concatenate([b.acc_ms2 for b in parts]),
            np.concatenate([b.gyr_rads for b in parts]),
        )
        for device_id, parts in blocks.items()
    }


def assert_shifted(sent: SampleBlock, got: SampleBlock) -> int:
    """Values equal bit for bit, stamps moved by one whole number of ns, which is returned."""
    np.testing.assert_array_equal(got.acc_ms2, sent.acc_ms2)
    np.testing.assert_array_equal(got.gyr_rads, sent.gyr_rads)
    shift = set((got.t_ns - sent.t_ns).tolist())
    assert len(shift) == 1
    return int(shift.pop())


def write_recording(folder: Path, device_id: str, seed: int) -> Recording:
    """A recorded fall, in a file as `record` writes it."""
    recording = Wearer(device_id, seed, start_ns=10**15).recording("fall_forward", [("fall_forward", 8.0)])
    writer = RecordingWriter(
        folder / f"{device_id}.rec", device_id, subject=f"person-{seed}", activity="fall_forward", is_fall=True
    )
    writer.append(recording.block)
    writer.close()
    return recording


def command(port: int, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "stream_occ", "replay", "--port", str(port), *arguments]


@pytest.mark.parametrize("codec", ["json", "csv"])
def test_two_people_replayed_side_by_side_arrive_bit_for_bit(broker: Broker, tmp_path: Path, codec: str) -> None:
    """One device a person, both at once; stamps begin at the wall clock's present; the ground truth says when."""
    folder, truth = tmp_path / "set", tmp_path / "truth.json"
    folder.mkdir()
    sent = {f"w-person-{seed}": write_recording(folder, f"dev{seed}", seed) for seed in (1, 2)}
    watcher = Watcher(broker.port, "wearables/#")
    started_ns = time.time_ns()
    arguments = ["--dataset", "recording", "--data", str(folder), "--device", "w-{person}", "--speed", "20"]
    done = subprocess.run(
        command(broker.port, *arguments, "--codec", codec, "--json", str(truth)),
        cwd=REPO,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    told: dict[str, Any] = json.loads(truth.read_text())
    wait_until(lambda: len(watcher.log) >= told["n_messages"], "all messages")
    got = received(watcher, codec)
    watcher.close()
    assert sorted(got) == sorted(sent)
    for device_id, recording in sent.items():
        assert_shifted(recording.block, got[device_id])
        assert started_ns <= got[device_id].t_ns[0] <= time.time_ns()
    assert told["n_samples"] == 800
    assert {(p["device_id"], p["is_fall"]) for p in told["placed"]} == {(device_id, True) for device_id in sent}
    assert all(p["t_start_ns"] == got[p["device_id"]].t_ns[0] for p in told["placed"])


def test_synthetic_lives_arrive_bit_for_bit_without_a_gap(broker: Broker) -> None:
    """From Python: three wearers, as fast as it goes; what arrives are the lives that the seed gives."""
    streams = synthetic_streams(3, "w", duration_s=40.0, n_falls=1, seed=5)
    watcher = Watcher(broker.port, "wearables/#")
    with Publisher(MqttOptions("127.0.0.1", broker.port, "replay-test"), TOPIC) as publish:
        report = replay(streams, publish, load_codec("json"), speed=float("inf"), pause_s=1 / 50)
    wait_until(lambda: len(watcher.log) >= report.n_messages, "all messages")
    got = received(watcher)
    watcher.close()
    assert report.is_complete
    for device_id, life in streams.items():
        blocks = [recording.block for recording in life]
        np.testing.assert_array_equal(got[device_id].acc_ms2, np.concatenate([b.acc_ms2 for b in blocks]))
        np.testing.assert_array_equal(got[device_id].gyr_rads, np.concatenate([b.gyr_rads for b in blocks]))
        assert set(np.diff(got[device_id].t_ns).tolist()) == {20_000_000}


def test_quiet_replay_says_nothing(broker: Broker, tmp_path: Path) -> None:
    """What was played is in the JSON."""
    words = command(broker.port, "--synthetic", "1", "--minutes", "0.1", "--speed", "20", "--fall-count", "0", "-q")
    done = subprocess.run([*words, "--json", str(tmp_path / "truth.json")], cwd=REPO, capture_output=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert json.loads((tmp_path / "truth.json").read_text())["n_recordings"] == 1


def test_speed_is_kept(broker: Broker) -> None:
    """Eight seconds of life at speed 8 take a second of wall clock, and a little."""
    life = {"w": [Wearer("w", 1).recording("walking", [("walking", 8.0)])]}
    with Publisher(MqttOptions("127.0.0.1", broker.port, "replay-test"), TOPIC) as publish:
        began_s = time.monotonic()
        report = replay(life, publish, load_codec("json"), speed=8.0)
        took_s = time.monotonic() - began_s
    assert 0.9 < took_s < 3.0  # above 1 s only where the machine is busy
    assert report.n_samples == 400


def test_endless_replay_ends_in_order_on_ctrl_c(broker: Broker) -> None:
    """SIGINT: the last message is acknowledged, a line says what was published, exit code 0."""
    watcher = Watcher(broker.port, "wearables/#")
    arguments = ["--synthetic", "1", "--minutes", "0.2", "--fall-count", "0", "--speed", "50", "--loop"]
    with subprocess.Popen(
        command(broker.port, *arguments), cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        wait_until(lambda: len(watcher.log) > 200, "messages")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, err) == (0, "")
    n_messages = int(out.split(" samples in ")[1].split()[0])
    wait_until(lambda: len(watcher.log) == n_messages, "exactly the messages that were told")
    watcher.close()


def test_missing_broker_is_one_line_and_exit_code_1() -> None:
    """Nobody listens: the service failed, not the user's flags."""
    port = free_port()
    with (
        pytest.raises(ServiceError, match=rf"broker 127.0.0.1:{port}: must accept a connection within 0.3 s"),
        Publisher(MqttOptions("127.0.0.1", port, "replay-test"), TOPIC, timeout_s=0.3),
    ):
        pass


def test_broker_that_dies_is_noticed(broker: Broker) -> None:
    """Messages are never dropped in silence: without acknowledgements the replay ends with an error."""
    life = {"w": [Wearer("w", 1).recording("walking", [("walking", 200.0)])]}
    n_sent = 0

    def until_broken(device_id: str, payload: bytes) -> None:
        nonlocal n_sent
        publish(device_id, payload)
        n_sent += 1
        if n_sent == 20:
            broker.stop(kill=True)

    with (
        pytest.raises(ServiceError, match="must acknowledge what was published within 1 s"),
        Publisher(MqttOptions("127.0.0.1", broker.port, "replay-test"), TOPIC, timeout_s=1.0) as publish,
    ):
        replay(life, until_broken, load_codec("json"), speed=float("inf"))
    assert n_sent < 20 + 200 + 1


def test_slow_replay_notices_a_dead_broker_long_before_its_queue_is_full(broker: Broker) -> None:
    """A few messages a second: a broker that stays away ends the replay after timeout_s."""
    n_sent = 0

    def send_until_lost(publisher: Publisher) -> None:
        nonlocal n_sent
        publisher("w1", b"{}")
        broker.stop(kill=True)
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            publisher("w1", b"{}")
            n_sent += 1
            time.sleep(0.1)

    options = MqttOptions("127.0.0.1", broker.port, "slow-replay")
    with pytest.raises(ServiceError, match="be back within 1 s"), Publisher(options, timeout_s=1.0) as publisher:
        send_until_lost(publisher)
    assert 0 < n_sent < 30
