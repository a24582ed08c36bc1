"""How far training's sensors went: what is noted, where it is kept and told, and when a device's end below it."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stream_occ.artifacts import load_model, save_model
from stream_occ.cli import run
from stream_occ.datasets import open_dataset
from stream_occ.datasets.recording import RecordingWriter
from stream_occ.errors import DataError
from stream_occ.reach import Reach
from stream_occ.recording import Labels, Recorder
from stream_occ.samples import NS_PER_S, DeviceProfile, Recording, SampleBlock
from stream_occ.scoring import Model
from stream_occ.training import train
from stream_occ.training.adapting import _metadata
from stream_occ.training.report import render_report
from stream_occ.wiring import warn_of_ranges
from tests import fake_model
from tests.unit.service_bench import JSON, Bench
from tests.unit.test_asks_time import shaken
from tests.unit.toy_model import toy_model
from tests.unit.training_recordings import Source, config, people, recording

INF = float("inf")


def trial(acc: list[list[float]], gyr: list[list[float]], **more: Any) -> Recording:
    block = SampleBlock("d", np.arange(len(acc)) * 20_000_000, np.array(acc), np.array(gyr))
    return Recording("fake", "1", "walk", "1", False, None, "waist", block, **more)


def model_of(**sensors: dict[str, float | None]) -> Model:
    noted = {"acc_ms2": {"reached": 40.0}, "gyr_rads": {"reached": 10.0}} | sensors
    return fake_model.make_model(metadata={"training": {"range": noted}})


def found(model: Model, acc: float | None = None, gyr: float | None = None) -> list[str]:
    reach = Reach.of_model(model.metadata)
    assert reach is not None
    return reach.beyond(DeviceProfile(acc_range_ms2=acc, gyr_range_rads=gyr))


def test_reached_is_what_three_samples_have_on_some_axis() -> None:
    """Sizes by sample 12, 30, 9, 90 and 25: two may be a glitch, so 25. Of the gyroscope 1, 2, 3, 4, 5: 3."""
    acc = [[0.0, -12.0, 9.0], [30.0, 0.0, 9.0], [0.0, 1.0, -9.0], [0.0, -90.0, 1.0], [-25.0, 24.0, 9.0]]
    gyr = [[1.0, 0.0, 0.0], [0.0, -2.0, 1.0], [3.0, 0.0, 0.0], [0.0, 0.0, -4.0], [5.0, 4.0, 0.0]]
    assert Reach.of_recording(trial(acc, gyr)) == Reach((25.0, 3.0), (INF, INF))
    assert Reach.of_recording(trial(acc[:2], gyr[:2], full_scale=(78.5, INF))) == Reach((0.0, 0.0), (78.5, INF))


def test_together_the_farthest_and_the_narrowest_count() -> None:
    """One of them may be all that a model was trained on in its kind of motion."""
    together = Reach((25.0, 3.0), (157.0, INF)).joined(Reach((20.0, 4.0), (39.2, 34.9)))
    assert together == Reach((25.0, 4.0), (39.2, 34.9))


@pytest.mark.parametrize(
    ("acc_ms2", "gyr_rads", "words"),
    [
        (38.1, 9.6, []),  # a twentieth less is as good as all of it
        (37.9, None, ["acc ends at 37.9 m/s2, and normal recordings reach 40"]),
        (None, 9.4, ["gyr ends at 9.4 rad/s, and normal recordings reach 10"]),
        (19.6, 4.36, ["acc ends at 19.6 m/s2, and normal", "gyr ends at 4.36 rad/s, and normal"]),
        (None, None, []),
        (156.9, 34.9, []),
    ],
)
def test_device_must_reach_what_normal_recordings_reached(
    acc_ms2: float | None, gyr_rads: float | None, words: list[str]
) -> None:
    """40 m/s2 and 10 rad/s, a twentieth of it forgiven; what the profile does not say is not compared."""
    told = found(model_of(), acc_ms2, gyr_rads)
    assert len(told) == len(words)
    assert all(line.startswith(start) for line, start in zip(told, words, strict=True))


@pytest.mark.parametrize(("own_g", "is_told"), [(16, False), (8, False), (4, True), (2, True)])
def test_device_may_be_set_to_half_of_trainings_full_scale_and_not_to_a_quarter(own_g: int, is_told: bool) -> None:
    """Normal recordings of a 16 g sensor that reach 18 m/s2 fit into 2 g, and an impact is cut off all the same."""
    model = model_of(acc_ms2={"reached": 18.0, "full_scale": 16 * 9.80665})
    told = found(model, own_g * 9.80665)
    assert told == ([f"acc ends at {own_g * 9.80665:.3g} m/s2, and the sensors of training at 157"] if is_told else [])


@pytest.mark.parametrize(
    "training",
    [
        None,
        "by hand",
        {},
        {"range": None},
        {"range": {"acc_ms2": {"reached": 40.0}}},
        {"range": {"acc_ms2": {"reached": 40.0}, "gyr_rads": 10.0}},
        *(
            {"range": {"acc_ms2": {"reached": bad}, "gyr_rads": {"reached": 1.0}}}
            for bad in (None, "40", True, -1.0, INF)
        ),
    ],
)
def test_model_that_says_nothing_usable_is_compared_with_nothing_and_said_once(
    training: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Older files and those made by others: no warning, no fault, one line of information."""
    model = fake_model.make_model(model_id="old", metadata={"training": training})
    assert Reach.of_model(model.metadata) is None
    narrow = {"acc_range_ms2": 1.0, "gyr_range_rads": 1.0}
    inputs = [{"pattern": f"{name}/{{device}}", "profile": narrow} for name in "ab"]
    with caplog.at_level(logging.INFO):
        warn_of_ranges(Bench(inputs=inputs).config, model)
    told = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert told == [("INFO", "model old does not say how far its training's sensors went: no input is compared")]


def test_profiles_that_do_not_say_it_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    """One line for all inputs that cannot be compared in full; none of them is warned of."""
    whole = {"acc_range_ms2": 78.4, "gyr_range_rads": 34.9}
    profiles = {"a": whole, "b": {"acc_range_ms2": 78.4}, "c": {}}
    inputs = [{"pattern": f"{name}/{{device}}", "profile": profile} for name, profile in profiles.items()]
    with caplog.at_level(logging.INFO):
        warn_of_ranges(Bench(inputs=inputs).config, model_of())
    [line] = caplog.records
    assert line.levelname == "INFO"
    assert line.getMessage().startswith("inputs b/{device}, c/{device}: no acc_range_ms2 or gyr_range_rads")


def test_device_with_an_input_for_each_sensor_keeps_its_fault() -> None:
    """Its messages come by turns under two profiles, of which one ends at 2 g: one fault all the time, counted once."""
    noted = {"acc_ms2": {"reached": 40.0}, "gyr_rads": {"reached": 10.0}}
    profiles = {"narrow": {"acc_range_ms2": 19.6}, "wide": {"acc_range_ms2": 78.4}}
    inputs = [{"pattern": f"{name}/{{device}}", "profile": profile} for name, profile in profiles.items()]
    bench = Bench(replace(toy_model(), metadata={"training": {"range": noted}}), inputs=inputs)
    for second in range(6):
        name = ("narrow", "wide")[second % 2]
        assert bench.deliver(f"{name}/w1", JSON.encode(shaken(50, hz=50.0, first=50 * second)))
        bench.run(1.0)
        assert bench.state()["faults"] == ["range_too_low"]
    assert bench.state()["counters"]["range_too_low"] == 1


def test_full_scale_that_no_loader_knows_is_none_and_is_read_so() -> None:
    """JSON has no infinity; null and what is no size mean that nobody knows."""
    reach = Reach((25.0, 3.0), (INF, 34.9))
    noted = json.loads(json.dumps(reach.to_json()))
    assert noted == {
        "acc_ms2": {"reached": 25.0, "full_scale": None},
        "gyr_rads": {"reached": 3.0, "full_scale": 34.9},
    }
    assert Reach.of_model({"training": {"range": noted}}) == reach
    assert reach.in_words() == "acc to 25 m/s2, gyr to 3 rad/s of 34.9"


def test_trainer_notes_the_range_of_the_recordings_that_it_used(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Three samples of 31.5 m/s2 among the used ones; neither a fall nor somebody left out, who reach 90, count. It
    is in the file, in the report and in what `inspect` prints."""

    def peaked(size: float) -> Any:
        def change(acc: np.ndarray) -> np.ndarray:
            acc[[100, 400, 700], 1] = -size
            return acc

        return change

    used = people(full_scale=(39.2, INF))
    used[3] = recording("1", "walk", acc=peaked(31.5), full_scale=(78.4, INF))
    others = [recording("8", "fall", acc=peaked(90.0), is_fall=True), recording("9", "walk", acc=peaked(90.0))]
    result = train([Source([*used, *others])], config(exclude_people=("9",)))
    save_model(result.model, tmp_path / "m.occ", self_test_X=result.self_test_X)
    noted = load_model(tmp_path / "m.occ").metadata["training"]["range"]
    assert noted["acc_ms2"] == {"reached": 31.5, "full_scale": 39.2}
    third = max(sorted(max(map(abs, row)) for row in one.block.gyr_rads.tolist())[-3] for one in used)
    assert noted["gyr_rads"] == {"reached": third, "full_scale": None}
    words = f"acc to 31.5 m/s2 of 39.2, gyr to {third:.3g} rad/s"
    assert words in render_report(result)
    assert run(["inspect", str(tmp_path / "m.occ")]) == 0
    assert words in " ".join(capsys.readouterr().out.split())


def test_adapted_model_keeps_the_range_of_the_general_one() -> None:
    """What the wearer's own device recorded, it can show; and what looked like a fall there was left out."""
    general = model_of()
    data: Any = SimpleNamespace(digests=("a",), recordings=[recording("w", "walk", acc=lambda a: a * 3.0)])
    assert _metadata(general, data, {})["training"]["range"] == general.metadata["training"]["range"]


@pytest.mark.parametrize(
    ("name", "files", "variant", "full_scale"),
    [
        ("sisfall", {"SA01/D01_SA01_R01.txt": "256,0,0,0,0,0,0,0,2048;\n"}, "adxl345", (156.9064, 34.9066)),
        ("sisfall", {"SA01/D01_SA01_R01.txt": "256,0,0,0,0,0,0,0,2048;\n"}, "mma8451q", (78.4532, 34.9066)),
        (
            "fallalld",
            {f"S01_D3_A001_T01_{sensor}.dat": "1000,-2000,4000\n" * 9 for sensor in "AG"},
            None,
            (78.4532, 34.9066),
        ),
    ],
)
def test_loaders_of_raw_counts_know_the_full_scale(
    tmp_path: Path, name: str, files: dict[str, str], variant: str | None, full_scale: tuple[float, float]
) -> None:
    """16 g and 8 g of 9.80665 m/s2, 2000 deg/s of pi / 180; samples are judged by none of it."""
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(exist_ok=True)
        (tmp_path / file).write_text(text)
    with open_dataset(name, tmp_path, variant=variant) as dataset:
        [one] = dataset.iter_recordings()
    assert one.full_scale == pytest.approx(full_scale, abs=1e-3)
    assert one.block.full_scale == (INF, INF)


def test_recorder_writes_the_profiles_range_and_the_loader_reads_it(tmp_path: Path) -> None:
    """What is recorded with a profile is trained on with it; a profile that says nothing adds nothing to the header."""
    for folder, profile, expected in (
        ("known", {"acc_range_ms2": 39.2}, (39.2, INF)),
        ("unknown", {}, (INF, INF)),
    ):
        bench = Bench(inputs=[{"pattern": "wearables/{device}/imu", "profile": profile}])
        bench.send(50)
        recorder = Recorder(bench.config, tmp_path / folder, Labels())
        recorder.take(bench.inbox.drain(), now_ns=1_700_000_001 * NS_PER_S, now_s=1.0)
        recorder.close()
        [path] = (tmp_path / folder).iterdir()
        assert ("full_scale" in path.read_text().partition("\n")[0]) == (folder == "known")
        with open_dataset("recording", path) as dataset:
            [one] = dataset.iter_recordings()
        assert one.full_scale == expected


@pytest.mark.parametrize("bad", ["7", "[1]", "[1, 2, 3]", '["16", null]', "[0, null]", "[-1, 2]", "[true, null]"])
def test_header_with_another_full_scale_is_refused_in_one_line(tmp_path: Path, bad: str) -> None:
    """Two sizes or null."""
    path = tmp_path / "a.rec"
    with RecordingWriter(path, "dev", full_scale=(39.2, INF)) as writer:
        writer.append(SampleBlock("dev", np.arange(3), np.ones((3, 3)), np.ones((3, 3))))
    path.write_text(path.read_text().replace("[39.2, null]", bad))
    with (
        pytest.raises(DataError, match="hold two positive numbers or null as full_scale"),
        open_dataset("recording", path) as dataset,
    ):
        list(dataset.iter_recordings())
