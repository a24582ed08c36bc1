"""What `record` writes over days: files that can be read again."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stream_occ import recording
from stream_occ.codecs import load_codec
from stream_occ.config import Config
from stream_occ.datasets import open_dataset
from stream_occ.inbox import Received
from stream_occ.recording import Labels, Recorder
from stream_occ.samples import NS_PER_S, SampleBlock

T0_NS = 1_700_000_000 * NS_PER_S


def test_long_recording_goes_into_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """At 100 samples a file, 250 samples of a device are three files, and all samples are read again, in order."""
    monkeypatch.setattr(recording, "MAX_SAMPLES", 100)
    config = Config.model_validate_json('{"inputs": [{"pattern": "wearables/{device}/imu"}]}', strict=True)
    recorder = Recorder(config, tmp_path / "out", Labels())
    for second in range(5):
        t_ns = T0_NS + second * NS_PER_S + np.arange(50) * (NS_PER_S // 50)
        payload = load_codec("json").encode(SampleBlock("w1", t_ns, np.full((50, 3), 5.0), np.zeros((50, 3))))
        message = Received("wearables/w1/imu", payload, False, float(second), len(payload))
        recorder.take([message], now_ns=int(t_ns[-1]), now_s=float(second))
    assert recorder.n_samples == 250
    assert sorted(recorder.close().files.values()) == [50, 100, 100]
    with open_dataset("recording", tmp_path / "out") as opened:
        stamps = np.concatenate([one.block.t_ns for one in opened.iter_recordings()])
    assert stamps.tolist() == [T0_NS + k * (NS_PER_S // 50) for k in range(250)]
