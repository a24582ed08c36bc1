"""What users met with models and scores, by the numbers of docs/reliability.md."""

from __future__ import annotations

import ast
import hashlib
import inspect
import pickle
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from stream_occ import detectors
from stream_occ.artifacts import load_model, save_model, verify_model
from stream_occ.checkpoint import dump_state
from stream_occ.detectors import OCNN, RandomProjectionEnsemble, preset, preset_names
from stream_occ.detectors.online import SlidingOCNN
from stream_occ.errors import DataError, ModelError
from stream_occ.pipeline import Pipeline
from stream_occ.samples import NS_PER_S
from stream_occ.scoring import load_scorer
from stream_occ.training import train
from stream_occ.training.anomalies import blindness, check_tells_apart
from tests.service_model import make_model
from tests.unit.service_bench import JSON, T0_NS, Bench
from tests.unit.test_asks_time import shaken
from tests.unit.toy_model import toy_model
from tests.unit.training_recordings import Source, config, people

REPO = Path(__file__).resolve().parents[2]
GOLDEN = REPO / "tests" / "golden"


def rows(n: int, seed: int = 0, d: int = 5) -> np.ndarray:
    """Rows of low intrinsic dimension."""
    rng, mix = np.random.default_rng(seed), np.random.default_rng(99).normal(size=(2, d))
    X: np.ndarray = np.tanh(rng.normal(size=(n, 2)) @ mix) + 0.05 * rng.normal(size=(n, d))
    return X


class Trap:
    """Unpickled, it leaves a file behind."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, tuple[Path]]:
        return Path.touch, (self.path,)


def test_ask_32_no_module_can_run_what_a_file_says() -> None:
    """No import of pickle and its kind, no loader of joblib, no eval, exec or compile in the package."""
    banned = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "marshal", "shelve"}
    for path in (REPO / "stream_occ").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert not {alias.name.partition(".")[0] for alias in node.names} & banned, path
            elif isinstance(node, ast.ImportFrom):
                names, module = {alias.name for alias in node.names}, (node.module or "").partition(".")[0]
                is_pool = module == "joblib" and names <= {"Parallel", "delayed", "effective_n_jobs"}
                assert is_pool or module not in banned, path
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"eval", "exec", "compile", "__import__"}, path
            elif isinstance(node, ast.keyword) and node.arg == "allow_pickle":
                assert isinstance(node.value, ast.Constant), path
                assert node.value.value is False, path


def test_ask_32_a_pickle_in_place_of_a_model_is_refused_and_not_run(tmp_path: Path) -> None:
    """One line, and the file that it would have made is not there."""
    model, made = tmp_path / "model.occ", tmp_path / "made"
    model.write_bytes(pickle.dumps(Trap(made)))
    with pytest.raises(ModelError):
        load_model(model)
    assert not made.exists()


def test_ask_33_a_model_of_the_first_format_is_read_for_ever() -> None:
    """tests/golden/model-format-1.occ, written once: its id by SHA-256, and its scores by the sum written out here."""
    path = GOLDEN / "model-format-1.occ"
    model, self_test = verify_model(path)
    assert self_test.n_rows == 4
    assert (model.rate_hz, model.window_s, model.hop_s, model.threshold) == (50.0, 1.0, 0.5, 1.5)
    assert model.model_id == "8d8262f1eebb"
    assert (
        hashlib.sha256(path.read_bytes()).hexdigest()
        == "e0df228099891f7f370271cec4be8cc811cc9c1bdb9d0485436e7a8d243bb8f6"
    )
    # Rows 0 and 1 in every feature, own distances sqrt(d): 1.5 is .5 sqrt(d) from row 1, 4 is 3 sqrt(d) from it.
    d = len(model.feature_set.NAMES)
    assert model.score_features(np.outer([1.5, 4.0], np.ones(d))).tolist() == pytest.approx([0.5, 3.0])


@pytest.mark.parametrize("name", preset_names())
def test_ask_34_no_detector_has_a_share_of_contamination_to_guess(name: str) -> None:
    """Falls are not in the training data, so there is nothing to tell a detector of how many there are."""
    parameters = preset(name).get_params(deep=True)
    assert not {key for key in parameters if "contamination" in key}


def test_ask_34_the_rule_and_the_share_behind_a_threshold_are_told() -> None:
    """The card has the rule, the held-out windows and how many of them lie above; the share is their quotient."""
    result = train([Source(people())], config(threshold={"rule": "quantile"}))
    found = result.model.metadata["calibration"]
    assert found["rule"] == "quantile"
    assert found["value"] == result.model.threshold
    assert found["rejected_share"] == found["n_rejected"] / found["n_windows"]
    assert 0 < found["n_windows"] <= 8 * 31


@pytest.mark.parametrize("name", ["11NN", "11NN-RP", "working", "SVDD", "KernelPCANovelty"])
def test_ask_35_high_is_abnormal(name: str) -> None:
    """Rows eight ranges off score above the threshold and are -1; more than half of normal ones lie below it."""
    if name in preset_names():
        detector = preset(name, random_state=0, feature_names=("log_max_dynamic_acc", "b", "c", "d", "e"))
    else:
        detector = getattr(detectors, name)()
    detector.fit(rows(300))
    scorer, far, near = detector.to_scorer(), rows(20, 2) + 16.0, rows(200, 1)
    assert (scorer.score(far) > detector.score_threshold_).all()
    assert (detector.predict(far) == -1).all()
    assert np.median(scorer.score(near)) < scorer.score(far).min()


def test_ask_35_the_margin_is_above_zero_where_a_window_is_flagged() -> None:
    """score - threshold, as published: 0 or less is normal."""
    bench = Bench(output={"publish_score": True})
    bench.send(50)
    bench.send(50, first=50, knock=True)
    bench.run(2.0)
    told = bench.link.of("stream_occ/w1/score")
    assert {score["label"] for score in told} == {"normal", "outlier"}
    for score in told:
        assert score["margin"] == pytest.approx(score["score"] - 9.0)
        assert (score["margin"] > 0) == (score["label"] == "outlier")


def test_ask_36_the_model_scales_once_and_by_the_training_rows(tmp_path: Path) -> None:
    """Raw features in: the score is the scorer's of (x - center) / scale, whatever other rows are in the batch."""
    model = load_model(make_model(tmp_path))
    X = 100.0 * np.random.default_rng(0).normal(size=(20, len(model.feature_set.NAMES)))
    by_hand = model.scorer.score((X - model.scaler.center) / model.scaler.scale)
    assert model.score_features(X).tolist() == by_hand.tolist()
    assert [model.score_features(x[None])[0] for x in X] == by_hand.tolist()


def test_ask_36_detectors_share_no_default() -> None:
    """Fitting one ensemble changes neither another one nor what a third starts with."""
    first, second = RandomProjectionEnsemble(n_estimators=3), RandomProjectionEnsemble(n_estimators=3)
    before = second.get_params(deep=True)
    first.fit(rows(100))
    assert str(second.get_params(deep=True)) == str(before)
    assert not hasattr(second, "maps_")
    for kind in (OCNN, RandomProjectionEnsemble):
        for parameter in inspect.signature(kind).parameters.values():
            assert not isinstance(parameter.default, (list, dict, set, np.ndarray))


def test_ask_37_models_that_tell_nothing_apart_are_not_shipped() -> None:
    """Constant scores, all anomalies accepted, all normal windows rejected: each is an error of the trainer."""
    X = rows(100, d=2)
    constant = replace(toy_model(), scorer=SimpleNamespace(score=lambda X: np.zeros(len(X)), arrays=dict))
    with pytest.raises(DataError, match="give different scores"):
        check_tells_apart(constant, X, X + 100.0)
    some = np.array([True, False])
    with pytest.raises(DataError, match="accepts all 200 injected anomalies"):
        blindness({"1": 0.0, "10": 0.0}, some, "people", is_printed=False)
    with pytest.raises(DataError, match="rejects all 2 normal windows"):
        blindness({"1": 0.0, "10": 1.0}, np.array([True, True]), "people", is_printed=False)
    assert blindness({"1": 0.0, "10": 1.0}, some, "people", is_printed=False) == ""


@pytest.mark.parametrize("hold_back", [0, 20])
def test_ask_38_a_learner_takes_in_neither_anomalies_nor_what_belongs_to_an_alert(hold_back: int) -> None:
    """After 700 normal rows: 200 far ones change no score; 100 normal ones with an alert open, or muted, neither."""
    rng = np.random.default_rng(5)
    named = [{f"f{i}": float(value) for i, value in enumerate(row)} for row in rng.normal(size=(900, 3))]
    far = [{key: value + 8.0 for key, value in row.items()} for row in named[:200]]
    learner = SlidingOCNN(300, n_trusted=200, hold_back=hold_back)
    for row in named[:700]:
        learner.learn_one(row)
    probes = [*named[:5], *far[:5]]
    before = [learner.score_one(row) for row in probes]
    for row in far:
        learner.learn_one(row)
    for name, rows in (("is_alert_open", named[700:800]), ("is_muted", named[800:])):
        setattr(learner, name, True)
        for row in rows:
            learner.learn_one(row)
        setattr(learner, name, False)
    assert [learner.score_one(row) for row in probes] == before
    assert learner.n_refused["score"] >= 200
    assert learner.n_refused["alert"] == 100 + hold_back  # those that waited led to it
    assert learner.n_refused["muted"] == 100


def test_ask_39_the_same_data_and_seed_give_the_same_file(tmp_path: Path) -> None:
    """Byte by byte, with random projections; they are in the file, and so is the hash of the data."""
    settings = config(detector={"name": "JKNN-RP", "params": {"n_estimators": 3}})
    files = []
    for name in ("one.occ", "two.occ"):
        result = train([Source(people())], settings)
        save_model(result.model, tmp_path / name, self_test_X=result.self_test_X)
        files.append((tmp_path / name).read_bytes())
    assert files[0] == files[1]
    loaded = load_model(tmp_path / "one.occ")
    maps = np.asarray(loaded.scorer.arrays()["maps"])
    assert maps.shape[0] == 3
    assert not np.array_equal(maps[0], maps[1])
    assert len(loaded.metadata["data_sha256"]) == 64


@pytest.mark.parametrize("name", ["11NN-RP", "working"])
def test_ask_40_the_shipped_scorer_decides_as_the_trained_detector_does(name: str) -> None:
    """10,000 windows, through arrays and back: not one decision differs; there is one number format, float64."""
    detector = preset(name, random_state=0, feature_names=("log_max_dynamic_acc", "b", "c", "d", "e"))
    if "n_estimators" in detector.get_params():
        detector.set_params(n_estimators=5)
    detector.fit(rows(300))
    scorer = detector.to_scorer()
    shipped = load_scorer(scorer.KIND, scorer.arrays(), scorer.params())
    Z = np.concatenate([rows(8_000, 1), 3.0 * rows(2_000, 2)])
    flagged = shipped.score(Z) > detector.score_threshold_
    assert np.array_equal(flagged, detector.predict(Z) == -1)
    assert 0 < flagged.sum() < len(Z)


def test_ask_41_one_file_is_the_whole_model(tmp_path: Path) -> None:
    """Moved alone into an empty folder it gives threshold, rate, window, filter, scaler and scores as before."""
    original = make_model(tmp_path)
    before = load_model(original)
    (tmp_path / "other").mkdir()
    moved = load_model(shutil.copy(original, tmp_path / "other" / "m.occ"))
    for name in ("model_id", "threshold", "rate_hz", "window_s", "hop_s"):
        assert getattr(moved, name) == getattr(before, name)
    assert before.sos is not None
    assert moved.sos is not None
    assert moved.sos.tolist() == before.sos.tolist()
    X = np.random.default_rng(0).normal(size=(5, len(before.feature_set.NAMES)))
    assert moved.score_features(X).tolist() == before.score_features(X).tolist()


def test_ask_42_a_stream_that_goes_on_holds_no_more() -> None:
    """After 20 s and after 400 s the whole state of a device is as large, within a twentieth."""
    pipeline, sizes = Pipeline(toy_model()), []
    state = pipeline.initial()
    for second in range(400):
        block = shaken(50, hz=50.0, first=50 * second)
        state, _, _ = pipeline.step(state, [block], T0_NS + second * NS_PER_S)
        if second in (20, 399):
            sizes.append(len(dump_state(state)))
    assert sizes[1] < 1.05 * sizes[0]


def test_ask_42_a_flood_of_device_ids_is_bounded_and_those_that_send_stay() -> None:
    """3,000 ids with nonsense at a limit of 20: 20 records; a real device gets its place, idle ones lose theirs."""
    bench = Bench(limits={"max_devices": 20, "forget_device_after_s": 100.0})
    for i in range(3000):
        assert bench.deliver(f"wearables/d{i}/imu", b"{")
        if i % 100 == 99:
            bench.run(0.01)
    assert len(bench.service.intake.devices) == 20
    bench.send(50, device="real")
    bench.run(1.0)
    assert "real" in bench.service.intake.devices
    assert len(bench.service.intake.devices) == 20
    bench.wait(200.0)
    assert len(bench.service.intake.devices) <= 1


def test_ask_43_scoring_changes_nothing(tmp_path: Path) -> None:
    """The same row scored again after a thousand others gives the same bits; arrays cannot be written to."""
    model = load_model(make_model(tmp_path))
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1, len(model.feature_set.NAMES)))
    kept = x.copy()
    first = model.score_features(x)[0]
    model.score_features(rng.normal(size=(1000, x.shape[1])))
    assert model.score_features(x)[0] == first
    np.testing.assert_array_equal(x, kept)
    assert not any(array.flags.writeable for array in model.scorer.arrays().values() if isinstance(array, np.ndarray))


def test_ask_43_before_the_first_window_the_state_is_waiting_not_normal() -> None:
    """10 of 20 samples: waiting, no score; then normal. While learning the state says so."""
    bench = Bench(events={"k": 2, "n": 3, "learning_s": 1000.0})
    bench.send(10)
    bench.run(0.2)
    assert (bench.state()["state"], bench.state()["score"]) == ("waiting", None)
    bench.send(40, first=10)
    bench.run(0.8)
    assert (bench.state()["state"], bench.state()["learning"]) == ("normal", True)


def test_ask_44_a_lasting_change_of_scores_is_told_and_taken_back() -> None:
    """Scores of 1, then of 4 below a threshold of 9: the fault `drift`, and no alarm; back at 1 it is gone."""
    bench = Bench(drift={"block_s": 10.0, "min_blocks": 2, "max_blocks": 64, "delta": 0.5})
    first, seen = 0, []
    for size, n_minutes in ((1.0, 4), (4.0, 4), (1.0, 5)):
        for _ in range(6 * n_minutes):
            block = shaken(500, hz=50.0, first=first)
            bench.deliver("wearables/w1/imu", as_json(block, size))
            bench.run(10.0)
            first += 500
        seen.append("drift" in bench.state()["faults"])
    assert seen == [False, True, False]
    assert bench.events() == []


def as_json(block: Any, size: float) -> bytes:
    """The block as a message, with acc x around `size`."""
    return JSON.encode(replace(block, acc_ms2=block.acc_ms2 + np.array([size, 0.0, 0.0])))
