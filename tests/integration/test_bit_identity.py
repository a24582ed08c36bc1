"""One recording, three ways: offline, through the library call in messages of any size, and replayed through a broker.

The scores of the windows are the same to the last bit. Three MobiFall recordings of a person whom the model never saw:
a fall backwards onto a chair, jogging, getting into a car.
"""

from __future__ import annotations

import itertools
import json
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from simulators.publisher import Publisher
from simulators.replay import replay
from stream_occ.alarm_budget import raised_ns
from stream_occ.artifacts import load_model, save_model
from stream_occ.codecs import load_codec
from stream_occ.datasets import open_dataset
from stream_occ.evaluation.alarms import watched
from stream_occ.evaluation.extraction import FrontEnd, extract_trial
from stream_occ.events import Command, EventPolicy, command, finish
from stream_occ.features import design_lowpass, load
from stream_occ.mqtt import MqttOptions
from stream_occ.pipeline import Pipeline, PipelineState
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from stream_occ.scoring import Model
from stream_occ.training import TrainingConfig, train
from stream_occ.training.data import read_training_data
from stream_occ.windowing import WindowBatch, WindowShape, concatenate, iter_windows
from tests.integration.broker import Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.unit.training_recordings import Source

pytestmark = pytest.mark.slow

TRAINED = ("2", "3")
TESTED = (("4", "BSC", "1"), ("4", "JOG", "1"), ("4", "CSI", "1"))
CONFIGS = {
    "working": {"detector": {"name": "working", "params": {"n_estimators": 7}}},
    "JKNN": {"detector": {"name": "JKNN"}, "threshold": {"rule": "quantile"}},  # theta 1 rejects both people's windows
    "11NN(theta)-RP": {
        "detector": {"name": "11NN(theta)-RP", "params": {"n_estimators": 9}},
        "threshold": {"rule": "detector"},  # votes of nine members have too few values for a quantile of .99
        "train_hop_s": 2.5,  # beside windows that overlap by nine tenths, another person's are all rejected
    },
}
SHORT_ACTIVITIES = ("JOG", "JUM", "STU", "STN", "SCH", "CSI", "CSO")


@pytest.fixture(scope="module")
def mobifall(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The recordings wanted, unpacked; the walks and stands of five minutes are left out."""
    folder = tmp_path_factory.mktemp("mobifall")
    with zipfile.ZipFile(shared_data / "mobifall.zip") as archive:
        for name in archive.namelist():
            parts = name.split("/")
            person = next((part.removeprefix("sub") for part in parts if part.startswith("sub")), None)
            is_trained = person in TRAINED and any(f"/{activity}/" in name for activity in SHORT_ACTIVITIES)
            is_tested = any(
                person == p and Path(name).name in (f"{a}_acc_{p}_{t}.txt", f"{a}_gyro_{p}_{t}.txt")
                for p, a, t in TESTED
            )
            if is_trained or is_tested:
                archive.extract(name, folder)
    return folder


@pytest.fixture(scope="module")
def recordings(mobifall: Path) -> list[Recording]:
    """The three recordings."""
    with open_dataset("mobifall", mobifall) as dataset:
        found = {(r.subject, r.activity, r.trial): r for r in dataset.iter_recordings()}
    return [found[key] for key in TESTED]


@pytest.fixture(scope="module", params=CONFIGS)
def model_path(request: pytest.FixtureRequest, mobifall: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of two other people's normal recordings, as a file."""
    config = TrainingConfig.model_validate({"people": TRAINED, **CONFIGS[request.param]})
    with open_dataset("mobifall", mobifall) as dataset:
        result = train([dataset], config)
    path = tmp_path_factory.mktemp("model") / "model.occ"
    save_model(result.model, path, self_test_X=result.self_test_X)
    return path


def offline_scores(model: Model, block: SampleBlock) -> list[float]:
    """As evaluation scores: windows, features, score; without those that get no verdict."""
    return told(model, cut(model, block))


def cut(model: Model, block: SampleBlock) -> WindowBatch:
    """The model's windows of a whole recording."""
    shape = shape_of(model)
    return concatenate(list(iter_windows(block, shape, sos=model.sos)), shape)


def shape_of(model: Model) -> WindowShape:
    """With the slowest stream that tells: below it, and over holes, windows are marked."""
    times = {"rate_hz": model.rate_hz, "window_s": model.window_s, "hop_s": model.hop_s}
    return WindowShape.of(**times, min_stream_hz=model.min_stream_hz)


def offline_scores_and_ends(model: Model, block: SampleBlock) -> list[float]:
    """Scores of the offline path, and of the window that ends each segment where it is flagged, in order of time."""
    shape = shape_of(model)
    later = np.append(block.t_ns, block.t_ns[-1] + 3600 * NS_PER_S)  # then the stream goes on: that was an end
    acc, gyr = (np.concatenate([rows, rows[-1:]]) for rows in (block.acc_ms2, block.gyr_rads))
    longer = SampleBlock(block.device_id, later, acc, gyr)
    batch = concatenate(list(iter_windows(longer, shape, sos=model.sos, closing=True)), shape)
    return told(model, batch)


def told(model: Model, batch: WindowBatch) -> list[float]:
    """The scores, those of the ends of segments and of windows full of holes only where they are flagged."""
    scores = model.score_features(model.feature_set.extract(batch))
    return scores[~(batch.closes | batch.lossy) | (scores > model.threshold)].tolist()


def pushed_scores(model: Model, block: SampleBlock, sizes: tuple[int, ...]) -> list[float]:
    """As the library call scores, fed with messages of the given sizes in turn."""
    pipeline = Pipeline(model)
    state, scores, start = pipeline.initial(), [], 0
    sizes_in_turn = itertools.cycle(sizes)
    while start < len(block):
        size = next(sizes_in_turn)
        part = slice(start, start + size)
        message = SampleBlock(block.device_id, block.t_ns[part], block.acc_ms2[part], block.gyr_rads[part])
        state, decisions, _ = pipeline.step(state, [message], now_ns=0)
        scores += [decision.score for decision in decisions]
        start += size
    return scores


def test_library_call_gives_the_offline_scores_whatever_the_messages(
    model_path: Path, recordings: list[Recording]
) -> None:
    """The whole recording at once, single samples, and messages of odd sizes: the bits of the offline path."""
    model = load_model(model_path)
    everything: list[float] = []
    for recording in recordings:
        expected = offline_scores(model, recording.block)
        assert expected, recording.name
        everything += expected
        for sizes in ((len(recording.block),), (1,), (7, 1, 31, 2, 113)):
            assert pushed_scores(model, recording.block, sizes) == expected, (recording.name, sizes)
    assert len(set(everything)) >= 3  # a score that is always the same would pass


def test_devices_beside_each_other_get_the_scores_they_get_alone(model_path: Path, recordings: list[Recording]) -> None:
    """The three recordings as three devices in the same steps: windows scored as one batch, bits unchanged."""
    model = load_model(model_path)
    pipeline = Pipeline(model)
    state, found = pipeline.initial(), {name: [] for name in "abc"}
    longest = max(len(recording.block) for recording in recordings)
    for start in range(0, longest, 53):
        part = slice(start, start + 53)
        blocks = [
            SampleBlock(name, r.block.t_ns[part], r.block.acc_ms2[part], r.block.gyr_rads[part])
            for name, r in zip("abc", recordings, strict=True)
        ]
        state, decisions, _ = pipeline.step(state, [block for block in blocks if len(block)], now_ns=0)
        for decision in decisions:
            found[decision.device_id].append(decision.score)
    for name, recording in zip("abc", recordings, strict=True):
        assert found[name] == offline_scores(model, recording.block), recording.name


def twice(recording: Recording, *, is_broken: bool) -> Recording:
    """3.5 s of the recording's middle, less than a window, a pause of ten minutes, the recording, such a pause, and the
    recording again: broken, its accelerometer is clipped for two swings of the first half, and its gyroscope stuck for
    ten seconds of the second.

    7 samples short, so that the last whole hop is not the end.
    """
    block = recording.block
    acc, gyr, start = block.acc_ms2[:-7].copy(), block.gyr_rads[:-7].copy(), len(block) // 3
    if is_broken:
        gyr[start : start + 500] = gyr[start]
        acc[start : start + 100, 1] = np.clip(30.0 * np.sin(2 * np.pi * np.arange(100) / 50.0), -19.6, 19.6)
    shift_ns = int(block.t_ns[-1] - block.t_ns[0]) + 600 * NS_PER_S
    middle = int(block.t_ns[len(block) // 2])
    short = (block.t_ns >= middle - 1_750_000_000) & (block.t_ns < middle + 1_750_000_000)
    joined = SampleBlock(
        block.device_id,
        np.concatenate([block.t_ns[short] - shift_ns, block.t_ns[:-7], block.t_ns[:-7] + shift_ns]),
        np.concatenate([block.acc_ms2[short], acc, block.acc_ms2[:-7]]),
        np.concatenate([block.gyr_rads[short], block.gyr_rads[:-7], gyr]),
    )
    return replace(recording, block=joined)


def pipeline_raises(model: Model, block: SampleBlock, policy: EventPolicy) -> list[int]:
    """Instants at which the service's step enters `pending`, up to the recording's end.

    Somebody ends each alarm when it begins: no message holds more than one window.
    """
    pipeline, state, name = Pipeline(model, policy=policy), PipelineState(), block.device_id
    cuts = range(0, len(block), 10)
    messages = [
        SampleBlock(name, block.t_ns[i : i + 10], block.acc_ms2[i : i + 10], block.gyr_rads[i : i + 10]) for i in cuts
    ]
    alerts = []
    for message in messages:
        state, _, changes = pipeline.step(state, [message], now_ns=0)
        alerts += changes
        for alarm in [alert for alert in changes if alert.state == "alarm"][-1:]:
            device = state.devices[name]
            events = command(device.events, Command("cancel", "", alarm.t_ns), policy)[0]
            state = replace(state, devices={name: replace(device, events=events)})
    alerts += finish(state.devices[name].events, policy)[1]
    return [alert.t_ns for alert in alerts if alert.state == "pending" and "again" not in alert.reasons]


@pytest.mark.parametrize("policy", [EventPolicy(), EventPolicy(k=2, n=3, check=False, countdown_s=600.0)])
def test_evaluation_raises_the_alarms_of_the_pipeline(
    model_path: Path, recordings: list[Recording], policy: EventPolicy
) -> None:
    """The same instants from evaluation's engine as from `Pipeline.step`: windows that end off the hop before a pause,
    a clipped sensor, and a stuck one, included; at the median score, the highest but one, and below all."""
    model = load_model(model_path)
    front_end = FrontEnd(model.feature_set.name, model.rate_hz, model.window_s, model.hop_s)
    n_closing = n_faulty = n_saturated = 0
    for recording, is_broken in itertools.product(recordings, (False, True)):
        played = twice(recording, is_broken=is_broken)
        trial = extract_trial(played, front_end)
        scores = model.score_features(trial.X)
        seen = watched(trial, scores)
        n_closing, n_faulty = n_closing + trial.shown.is_closing.sum(), n_faulty + trial.shown.is_faulty.sum()
        n_saturated += sum(batch.saturated.sum() for batch in front_end.cut(played)) if is_broken else 0
        for threshold in (float(np.median(scores)), float(np.sort(scores)[-2]), float(scores.min()) - 1.0):
            expected = pipeline_raises(replace(model, threshold=threshold), played.block, policy)
            raised = raised_ns(seen, threshold, policy)
            assert raised == expected, (recording.name, is_broken)
        if not policy.check:  # all windows flagged: the second one is the second of three
            assert raised[0] == trial.shown.t_end_ns[1]
    assert n_closing >= 4 + 6  # of each recording, whole and broken, the short piece
    assert n_saturated >= 20
    assert n_faulty >= n_saturated + 20


def test_training_sees_the_windows_of_evaluation(recordings: list[Recording]) -> None:
    """Those off the hop and those of a piece shorter than a window among them: a threshold is set on what alarms."""
    config = TrainingConfig()
    front_end = FrontEnd(config.feature_set, config.rate_hz, config.window_s, config.hop_s)
    normal = [replace(twice(recording, is_broken=False), is_fall=False) for recording in recordings]
    trials = [extract_trial(recording, front_end) for recording in normal]
    features = load(config.feature_set)
    sos = design_lowpass(features, config.rate_hz)
    data = read_training_data(
        [Source(normal)], config, feature_set=features, sos=sos, progress=lambda stage, done, total: None
    )
    assert min(trial.shown.is_closing.sum() for trial in trials) >= 1
    for number, trial in enumerate(trials):
        rows = data.recording == number
        assert np.array_equal(data.X[rows], trial.X)
        assert np.array_equal(data.shown.t_end_ns[rows], trial.shown.t_end_ns)
        assert np.array_equal(data.shown.is_closing[rows], trial.shown.is_closing)


@pytest.mark.broker
def test_replay_through_a_broker_at_speed_20_gives_the_offline_scores(
    broker: Broker, model_path: Path, recordings: list[Recording], tmp_path: Path
) -> None:
    """Published as JSON with device timing, received by `stream-occ detect`, read off the score topic: the same bits.

    Each recording is played by a device of its own, and all three, one after another, by a fourth at the same time.
    """
    model = load_model(model_path)
    streams = {f"r{i}": [recording] for i, recording in enumerate(recordings)} | {"all": recordings}
    expected = {
        device: [score for recording in played for score in offline_scores_and_ends(model, recording.block)]
        for device, played in streams.items()
    }
    n_expected = sum(len(scores) for scores in expected.values())
    detector = Detector(tmp_path, broker.port, model_path, output={"publish_score": True})
    with Watcher(broker.port, "stream_occ/+/score") as watcher, detector:
        with Publisher(MqttOptions(host="127.0.0.1", port=broker.port, client_id="replay-under-test")) as publish:
            report = replay(streams, publish, load_codec("json"), speed=20.0)
        wait_until(lambda: len(watcher.log) >= n_expected, f"{n_expected} scores", timeout_s=60.0)
        assert detector.stop() == 0
    assert report.is_complete
    found: dict[str, list[float]] = {device: [] for device in streams}
    for topic, payload, _ in watcher.log:
        found[topic.split("/")[1]].append(json.loads(payload)["score"])
    assert found == expected
