"""`stream-occ record` against a real mosquitto: what was sent can be read back as a data set."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from stream_occ.datasets import open_dataset
from tests.integration.broker import Broker
from tests.integration.detector import REPO, Watcher, wait_until
from tests.service_model import payload, walking

pytestmark = pytest.mark.broker


def test_recorded_samples_are_those_that_were_sent_and_damage_is_counted(broker: Broker, tmp_path: Path) -> None:
    """Two devices, one damaged message: the recordings hold every other sample bit for bit, labelled as told."""
    out, summary = tmp_path / "out", tmp_path / "summary.json"
    command = [sys.executable, "-m", "stream_occ", "record", "--host", "127.0.0.1", "--port", str(broker.port)]
    command += ["--topic", "wearables/{device}/imu", "--out", str(out), "--json", str(summary)]
    command += ["--activity", "walking", "--placement", "waist", "--subject", "anna"]
    with subprocess.Popen(command, cwd=REPO, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready:")
        t0_ns = time.time_ns()
        sent = {device: [walking(device, 50, t0_ns=t0_ns, first=50 * i) for i in range(3)] for device in ("w1", "w2")}
        with Watcher(broker.port, "nothing") as watcher:
            for device, blocks in sent.items():
                for block in blocks:
                    watcher.send(f"wearables/{device}/imu", payload(block))
            watcher.send("wearables/w1/imu", b'{"t_ns": 1}')
        wait_until(lambda: sum(path.stat().st_size > 1000 for path in out.glob("*.rec")) == 2, "two files")
        time.sleep(0.3)
        process.terminate()
        assert process.wait(15) == 0
    result = json.loads(summary.read_text())
    assert result["refused"] == {"no_samples": 1}
    assert result["n_messages"] == 7
    assert list(result["files"].values()) == [150, 150]
    recordings = {
        recording.block.device_id: recording for recording in open_dataset("recording", out).iter_recordings()
    }
    assert sorted(recordings) == ["w1", "w2"]
    for device, recording in recordings.items():
        assert (recording.subject, recording.activity, recording.placement) == ("anna", "walking", "waist")
        assert not recording.is_fall
        np.testing.assert_array_equal(recording.block.t_ns, np.concatenate([block.t_ns for block in sent[device]]))
        np.testing.assert_array_equal(recording.block.acc_ms2, np.concatenate([b.acc_ms2 for b in sent[device]]))
        np.testing.assert_array_equal(recording.block.gyr_rads, np.concatenate([b.gyr_rads for b in sent[device]]))


def test_recording_ends_after_its_seconds_and_says_that_nothing_came(broker: Broker, tmp_path: Path) -> None:
    """Exit code 1: a recording without a sample is no recording."""
    command = [sys.executable, "-m", "stream_occ", "record", "--port", str(broker.port), "--topic", "a/{device}"]
    command += ["--out", str(tmp_path / "out"), "--seconds", "2"]
    done = subprocess.run(command, cwd=REPO, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert "nothing was recorded" in done.stdout


def test_json_on_stdout_stands_alone_there(broker: Broker, tmp_path: Path) -> None:
    """No "ready:", no count; and with --quiet nothing at all."""
    command = [sys.executable, "-m", "stream_occ", "record", "--port", str(broker.port), "--topic", "a/{device}"]
    command += ["--out", str(tmp_path / "out"), "--seconds", "1"]
    found = [
        subprocess.run([*command, *more], cwd=REPO, capture_output=True, text=True, timeout=30, check=False)
        for more in (["--json", "-"], ["--quiet"])
    ]
    assert [each.returncode for each in found] == [1, 1]
    assert json.loads(found[0].stdout)["n_messages"] == 0
    assert found[1].stdout == ""
