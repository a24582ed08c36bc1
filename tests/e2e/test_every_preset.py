"""Every detector preset goes the whole way: trained, saved, loaded by `stream-occ detect`, and heard over MQTT."""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_occ.artifacts import load_model, save_model
from stream_occ.datasets import LoadReport
from stream_occ.detectors import preset_names
from stream_occ.events import EventPolicy
from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from stream_occ.training import TrainingConfig, train
from tests.integration.broker import MOSQUITTO, Broker
from tests.integration.detector import Detector, Watcher, wait_until
from tests.service_model import RATE_HZ, payload, tumbling, walking

QUICK = (
    "fused",
    "working",
    "11NN",
    "KOC",
    "LMKOC-LLE_theta1",
    "KPCA",
)  # of each kind of scorer one; the others are slow tests
OWN_RULE = ("11NN(theta)", "KOC_theta2", "SVDD")  # by --threshold auto: the threshold that fit found goes along
EVENTS = {"k": 2, "n": 3, "clear_after_s": 3600.0}
N_SAMPLES = 600


class Walks:
    """Four people who walk for 40 s each."""

    name = "walks"
    n_files = 4

    def __init__(self) -> None:
        self.report = LoadReport(self.name)

    def iter_recordings(self) -> Iterator[Recording]:
        for person in range(self.n_files):
            block = walking("train", 2000, t0_ns=0, seed=person)
            yield Recording(self.name, str(person), "walk", "1", False, None, "waist", block)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """One mosquitto for all presets."""
    if MOSQUITTO is None:
        pytest.skip("mosquitto not found on PATH: install it to run this test")
    with Broker.start(tmp_path_factory.mktemp("broker")) as running:
        yield running


def trained(name: str, folder: Path, rule: str) -> Path:
    """A model file with this preset; windows of 1 s."""
    threshold = {"rule": rule, "reject_share": 0.2}  # a vote of 25 has too few values for a small share
    config = TrainingConfig.model_validate(
        {
            "feature_set": "fall31",
            "detector": {"name": name},
            "window_s": 1.0,
            "hop_s": 0.5,
            "threshold": threshold,
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # tuned on few rows: an optimum on the grid's edge
        result = train([Walks()], config)
    path = folder / "model.occ"
    save_model(result.model, path, self_test_X=result.self_test_X)
    return path


def blocks() -> list[SampleBlock]:
    """Twelve seconds of walking by someone else with tumbling in the last four, half a second a message."""
    t0_ns = time.time_ns() - 20 * NS_PER_S
    n_walked = N_SAMPLES - 200
    whole = [walking("anna", n_walked, t0_ns=t0_ns, seed=9), tumbling("anna", 200, t0_ns=t0_ns, first=n_walked)]
    return [
        SampleBlock("anna", block.t_ns[part], block.acc_ms2[part], block.gyr_rads[part])
        for block in whole
        for part in (slice(i, i + 25) for i in range(0, len(block), 25))
    ]


@pytest.mark.broker
@pytest.mark.parametrize(
    ("name", "rule"),
    [pytest.param(name, "quantile", marks=() if name in QUICK else pytest.mark.slow) for name in preset_names()]
    + [pytest.param(name, "auto", marks=pytest.mark.slow) for name in OWN_RULE],
)
def test_preset_is_trained_saved_loaded_and_heard_over_mqtt(
    name: str, rule: str, broker: Broker, tmp_path: Path
) -> None:
    """Scores and labels on the topics are those of the library's own step on the same samples, to the last bit."""
    path = trained(name, tmp_path, rule)
    pipeline = Pipeline(load_model(path), policy=EventPolicy(k=2, n=3, clear_after_s=3600.0))
    sent = blocks()
    _, decisions, alerts = pipeline.step(pipeline.initial(), sent, now_ns=sent[-1].t_ns[-1])
    expected = [(decision.score, decision.threshold, decision.label) for decision in decisions]
    assert len(expected) == (N_SAMPLES - RATE_HZ) // 25 + 1
    assert len({score for score, _, _ in expected}) > 1  # a constant score would pass
    detector = Detector(tmp_path, broker.port, path, output={"publish_score": True}, events=EVENTS)
    with Watcher(broker.port, "stream_occ/anna/#") as watcher:
        with detector:
            for block in sent:
                watcher.send("wearables/anna/imu", payload(block))
            heard = wait_until(lambda: scores_of(watcher, len(expected)), f"{len(expected)} scores")
            assert detector.stop() == 0
        assert heard == expected
        raised = [json.loads(content) for topic, content, _ in watcher.log if topic.endswith("/event")]
    assert [event["event_type"] for event in raised] == [alert.state for alert in alerts]
    clear_retained(broker, watcher.last)


def scores_of(watcher: Watcher, n: int) -> list[tuple[float, float, str]]:
    """(score, threshold, label) of every window heard; [] while there are fewer than n."""
    messages = [json.loads(content) for topic, content, _ in watcher.log if topic == "stream_occ/anna/score"]
    found = [(message["score"], message["threshold"], message["label"]) for message in messages]
    return found if len(found) >= n else []


def clear_retained(broker: Broker, topics: dict[str, bytes]) -> None:
    """The next preset starts with nobody's retained state."""
    with Watcher(broker.port) as cleaner:
        for topic in topics:
            cleaner.send(topic, b"", retain=True)
