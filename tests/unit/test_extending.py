"""docs/extending.md: its examples work as they stand there."""

import importlib
import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import stream_occ.codecs
import stream_occ.datasets
import stream_occ.detectors
import stream_occ.features
import stream_occ.sinks
from stream_occ.errors import PayloadError
from stream_occ.samples import DeviceProfile, SampleBlock
from stream_occ.windowing import cut_windows
from tests.sink_peers import a_notice

REPO = Path(__file__).resolve().parents[2]
EXAMPLE = re.compile(r"```python\n# stream_occ/(\w+)/(\w+)\.py\n(.*?)```", re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def examples(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Each example as a file of its family, in a folder beside the package's own."""
    found = EXAMPLE.findall((REPO / "docs" / "extending.md").read_text(encoding="utf-8"))
    assert {family for family, _, _ in found} == {"codecs", "features", "datasets", "detectors", "sinks"}
    patch = pytest.MonkeyPatch()
    for family, name, source in found:
        folder = tmp_path_factory.mktemp(family)
        (folder / f"{name}.py").write_text(source, encoding="utf-8")
        package = importlib.import_module(f"stream_occ.{family}")
        patch.setattr(package, "__path__", [*package.__path__, str(folder)])
    importlib.invalidate_caches()
    yield
    patch.undo()
    for family, name, _ in found:
        sys.modules.pop(f"stream_occ.{family}.{name}", None)
        package = importlib.import_module(f"stream_occ.{family}")
        package.__dict__.pop(name, None)


def a_block(n: int = 200) -> SampleBlock:
    """Four seconds at 50 Hz of a sensor that turns slowly; the 100th sample is a bump of 30 m/s2."""
    t_ns = np.arange(n, dtype=np.int64) * 20_000_000
    acc = np.tile([0.0, 0.0, 9.81], (n, 1))
    acc[100] = [0.0, 0.0, 30.0]
    return SampleBlock("w1", t_ns, acc, np.full((n, 3), 0.5))


def test_codec_example_gives_back_what_it_took() -> None:
    """It is found by its name, keeps every bit, and refuses by reason."""
    codec = stream_occ.codecs.load_codec("semicolon")
    block = a_block()
    [back] = codec.decode(codec.encode(block), device_id="w1", profile=DeviceProfile())
    assert back.t_ns.tobytes() == block.t_ns.tobytes()
    assert back.acc_ms2.tobytes() == block.acc_ms2.tobytes()
    for payload, reason in (
        (b"1;x;0;0;0;0;0", "not_a_number"),
        (b"1;2;3", "wrong_shape"),
        (b"1" + b";nan" * 6, "not_f"),
    ):
        with pytest.raises(PayloadError) as caught:
            codec.decode(payload, device_id="w1", profile=DeviceProfile())
        assert caught.value.reason.startswith(reason)


def test_feature_set_example_finds_the_bump() -> None:
    """The largest |a| is the bump's, the angular rate is 0.5 sqrt 3."""
    batch = cut_windows(a_block(), rate_hz=50.0, window_s=4.0, hop_s=0.5)
    [row] = stream_occ.features.load("peaks").extract(batch)
    assert row == pytest.approx([30.0, 9.81, 0.5 * np.sqrt(3)], rel=1e-12)


def test_dataset_example_reads_si_units(tmp_path: Path) -> None:
    """g becomes m/s2, deg/s becomes rad/s, the fall is told by its name."""
    for name in ("anna_walking_1", "anna_fall-forward_2"):
        (tmp_path / f"{name}.txt").write_text("0.00 0 0 1 180 0 0\n0.02 0 0 2 0 0 0\n")
    with stream_occ.datasets.open_dataset("plain-text", tmp_path) as dataset:
        fall, walk = list(dataset.iter_recordings())
    assert (fall.name, fall.is_fall, walk.is_fall) == ("plain-text/anna/fall-forward/2", True, False)
    assert walk.block.t_ns.tolist() == [0, 20_000_000]
    assert walk.block.acc_ms2[:, 2].tolist() == [9.80665, 19.6133]
    assert walk.block.gyr_rads[0, 0] == pytest.approx(np.pi, rel=1e-15)


def test_sink_example_rings() -> None:
    """It is a kind of the configuration, by its name alone."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as bell:
        bell.bind(("127.0.0.1", 0))
        bell.settimeout(5)
        keys = {"kind": "bell", "host": "127.0.0.1", "port": bell.getsockname()[1]}
        settings = stream_occ.sinks.settings_class("bell", "sinks").model_validate_json(json.dumps(keys), strict=True)
        stream_occ.sinks.open_sink("door", settings).send(a_notice(2))
        assert bell.recv(100) == b"a1.2 w1 alarm"


def test_detector_example_is_a_preset() -> None:
    """Its name makes an estimator with what the example says."""
    detector = stream_occ.detectors.preset("many-projections", random_state=0)
    assert (detector.n_estimators, detector.estimator.n_neighbors) == (101, 3)
