"""The trainer on small in-memory data sets: what is used, what is left out, what is refused, what threshold results."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from stream_occ.artifacts import load_model, save_model
from stream_occ.datasets import LoadReport
from stream_occ.errors import ConfigError, DataError, UsageError
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from stream_occ.training import TrainingConfig, fitting, holding_out, load_training_config, train
from stream_occ.training.anomalies import check_tells_apart, inject_anomalies, note_of_anomalies
from stream_occ.training.checks import measured_rate_hz
from stream_occ.training.report import render_report, write_report
from tests import fake_model

GRAVITY = 9.80665


def recording(subject: str = "1", activity: str = "walk", trial: str = "1", **changes: Any) -> Recording:
    """Twenty seconds of a swinging, turning sensor at 50 Hz; the same names give the same samples."""
    rate_hz, duration_s = changes.pop("rate_hz", 50.0), changes.pop("duration_s", 20.0)
    rng = np.random.default_rng([ord(c) for c in subject + activity + trial])
    t = np.arange(round(duration_s * rate_hz)) / rate_hz
    swing = 2.0 * np.sin(2 * np.pi * 1.5 * t + rng.uniform(0, 6))
    acc = np.column_stack([swing, 0.5 * swing, GRAVITY + swing]) + rng.normal(0, 0.3, (len(t), 3))
    gyr = np.column_stack([swing, -swing, 0.2 * swing]) + rng.normal(0, 0.1, (len(t), 3))
    t_ns = (t * NS_PER_S).astype(np.int64)
    acc, gyr = changes.pop("acc", lambda a: a)(acc), changes.pop("gyr", lambda w: w)(gyr)
    whole = Recording("fake", subject, activity, trial, False, None, "waist", SampleBlock("d", t_ns, acc, gyr))
    return dataclasses.replace(whole, **changes)


class Source:
    """A data set in memory; counts how often a block was looked at through `iter_recordings`."""

    name = "fake"

    def __init__(self, recordings: list[Recording]) -> None:
        self.recordings, self.report = recordings, LoadReport("fake")

    @property
    def n_files(self) -> int:
        return len(self.recordings)

    def iter_recordings(self) -> Iterator[Recording]:
        yield from self.recordings


def people(n: int = 4, **changes: Any) -> list[Recording]:
    return [recording(str(i), activity, **changes) for i in range(n) for activity in ("sit", "walk")]


def config(**changes: Any) -> TrainingConfig:
    """The small feature set, a fast detector and windows of 5 s."""
    fields: dict[str, Any] = {
        "feature_set": "fake3",
        "detector": {"name": "11NN"},
        "scaler": "z-score",
        "window_s": 5.0,
    }
    return TrainingConfig.model_validate({**fields, **changes})


@pytest.fixture(autouse=True)
def _registered() -> None:
    fake_model.register()


def refusal(recordings: list[Recording], error: type[Exception] = DataError, **changes: Any) -> str:
    with pytest.raises(error) as caught:
        train([Source(recordings)], config(**changes))
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_model_is_made_of_all_normal_windows() -> None:
    """8 recordings of 20 s, 50 Hz: 1000 samples, windows of 250 every 25: 31 each, 248 in all."""
    result = train([Source(people())], config())
    summary = result.summary
    assert (summary["n_people"], summary["n_recordings"], summary["n_windows"]) == (4, 8, 8 * 31)
    assert summary["hours"] == pytest.approx(8 * 19.98 / 3600, abs=1e-4)
    assert summary["activities"]["walk"]["n_windows"] == 4 * 31
    assert result.model.score_features(result.self_test_X).shape == (32,)


def test_falls_are_never_used_and_counted() -> None:
    """A fall recording changes nothing but its count: not even one that could not be trained on."""
    fall = recording("9", "fall", acc=lambda a: a * np.nan, is_fall=True)
    without = train([Source(people())], config())
    with_falls = train([Source([fall, *people(), fall])], config())
    assert with_falls.summary["n_falls_left_out"] == 2
    assert without.summary["n_falls_left_out"] == 0
    assert with_falls.summary["data_sha256"] == without.summary["data_sha256"]
    assert with_falls.model.threshold == without.model.threshold
    np.testing.assert_array_equal(with_falls.self_test_X, without.self_test_X)


def test_same_data_and_seed_give_the_same_model_id() -> None:
    """The file is a function of data, configuration and versions."""
    assert train([Source(people())], config()).model.model_id == train([Source(people())], config()).model.model_id


def test_one_changed_sample_changes_the_data_hash() -> None:
    """The hash is over the samples used."""
    changed = people()
    changed[3].block.gyr_rads[17, 2] += 1e-12
    first, second = train([Source(people())], config()), train([Source(changed)], config())
    assert first.summary["data_sha256"] != second.summary["data_sha256"]


def test_filters_keep_and_leave_out_people_and_activities() -> None:
    """Both directions for both; what they leave out is counted."""
    for changes, n_used in (
        ({"people": ("0", "2")}, 4),
        ({"exclude_people": ("0",)}, 6),
        ({"activities": ("walk",)}, 4),
        ({"exclude_activities": ("walk",), "exclude_people": ("1",)}, 3),
    ):
        limits = {"min_windows": 50}
        summary = train([Source(people())], config(**changes, limits=limits)).summary
        assert (summary["n_recordings"], summary["n_filtered_out"]) == (n_used, 8 - n_used)


def test_unknown_name_in_a_filter_is_refused() -> None:
    """A misspelt person would otherwise be trained on, or missed, in silence."""
    assert "people: must be in the data; got '7'. It holds normal recordings of 0, 1, 2, 3" in refusal(
        people(), exclude_people=("7",)
    )
    assert "activities: must be in the data; got 'run'" in refusal(people(), activities=("walk", "run"))


def test_too_little_data_is_refused_with_what_was_left_out() -> None:
    """Windows, recordings, people: each has its least number."""
    fall = recording("9", "fall", is_fall=True)
    assert (
        "hold normal activity: at least 100 windows; got 31 (left out: 1 fall recordings, 0 by filters, 1 too short)"
        in refusal([recording(), fall, recording("2", duration_s=3.0)])
    )
    assert "at least 9 recordings; got 8" in refusal(people(), limits={"min_recordings": 9})
    assert "at least 5 people; got 4" in refusal(people(), limits={"min_people": 5})
    assert "must hold normal activity: at least 1 person; got 0" in refusal([fall])


def test_too_little_data_names_the_rows_that_were_refused() -> None:
    """Decimal commas or NaN throughout leave no row: the remedy then is another one than to record more."""
    source = Source([])
    source.report.refuse("walk.csv", "wrong number of fields", 3000)
    with pytest.raises(DataError, match=r"rows refused: 3000 wrong number of fields\)\. Correct the rows"):
        train([source], config())
    source.report.note("walk.csv", "passed over")
    with pytest.raises(DataError, match=r"wrong number of fields; walk\.csv: passed over\)"):
        train([source], config())


@pytest.mark.parametrize(
    ("spoil", "text"),
    [
        ({"acc": lambda a: a / GRAVITY}, "got 1.01, which points to acc_unit_g_as_ms2"),
        ({"acc": lambda a: a * GRAVITY}, "must have a mean |a| within a factor of 3"),
        ({"acc": lambda a: np.full_like(a, 0.577)}, "got 0.999, which points to acc_unit_g_as_ms2"),
        ({"acc": lambda a: np.zeros_like(a)}, "points to gravity_missing"),
        ({"gyr": lambda w: w * 180 / np.pi}, "must have a 99 % quantile of |w| of at most 61 rad/s"),
        ({"gyr": lambda w: w * np.nan}, "must hold finite samples; got NaN or infinity alone"),
        ({"rate_hz": 20.0}, "must be sampled at 22.5 Hz or faster for a model of 50 Hz with fake3; got 20 Hz"),
    ],
)
def test_recording_in_other_units_or_rates_is_named(spoil: dict[str, Callable[..., Any]], text: str) -> None:
    """One bad recording among good ones would teach the model that nonsense is normal."""
    line = refusal([*people(), recording("8", "odd", **spoil)])
    assert line.startswith("fake/8/odd/1: ")
    assert text in line


def test_some_nan_samples_are_refused_by_number() -> None:
    """Loaders refuse such rows; whatever comes here with them was not read by one."""
    bad = recording("8", "odd")
    bad.block.acc_ms2[10:13, 1] = np.inf
    assert "must hold finite samples; got 3 of 1000 with NaN or infinity" in refusal([*people(), bad])


def test_mixed_rates_are_refused_beyond_a_factor_of_two() -> None:
    """50 and 90 Hz may be one phone; 50 and 150 Hz are two kinds of sensor."""
    train([Source([*people(), recording("8", "odd", rate_hz=90.0)])], config())
    line = refusal([*people(), recording("8", "odd", rate_hz=150.0)])
    assert "must have sampling rates within a factor of 2; got 50 Hz (fake/0/sit/1) and 150 Hz (fake/8/odd/1)" in line


def test_slightly_slow_recordings_pass() -> None:
    """WEDA-FALL's 39.8 Hz is half a percent below khan31r's limit; 35 Hz is more than a tenth."""
    slow = people(rate_hz=39.8)
    assert train([Source(slow)], config(feature_set="khan31r")).summary["rate_hz_measured"]["max"] < 40
    assert "be sampled at 36 Hz or faster" in refusal(people(rate_hz=35.0), feature_set="khan31r")


def test_measured_rate_leaves_holes_and_doubles_out() -> None:
    """Two stretches of 10 Hz with a minute between, one stamp twice: still 10 Hz."""
    t_ns = np.array([0, 100, 100, 200, 60_200, 60_300]) * 1_000_000
    assert measured_rate_hz(t_ns) == pytest.approx(10.0)
    assert measured_rate_hz(t_ns[:1]) == 0.0


def test_mixed_placement_is_refused_unless_allowed() -> None:
    """A wrist among waists; `unknown` goes with any."""
    mixed = [*people(), recording("8", "odd", placement="wrist")]
    assert "come from one place on the body; got waist (fake/0/sit/1) and wrist (fake/8/odd/1)" in refusal(mixed)
    assert train([Source(mixed)], config(allow_mixed_placement=True)).summary["placements"] == ["waist", "wrist"]
    train([Source([*people(), recording("8", "odd", placement="unknown")])], config())


def test_constant_data_are_refused() -> None:
    """A stuck sensor teaches nothing."""
    stuck = people(acc=lambda a: np.full_like(a, GRAVITY / 3**0.5), gyr=lambda w: np.ones_like(w))
    assert "training data: must vary; got 248 windows that are all the same" in refusal(stuck)


def test_rate_at_or_below_the_feature_sets_is_refused() -> None:
    """The limit is exclusive."""
    line = refusal(people(), ConfigError, feature_set="khan31r", rate_hz=40.0)
    assert line.startswith("rate_hz: must be above 40 for feature set khan31r; got 40")


def test_unknown_detector_and_parameter_are_told_before_data_are_read() -> None:
    """A mistake of a second is not told after minutes of reading."""

    class Unread(Source):
        def iter_recordings(self) -> Iterator[Recording]:
            raise AssertionError("data were read")

    with pytest.raises(UsageError, match="detector: must be the name of a preset"):
        train([Unread([])], config(detector={"name": "11NNN"}))
    with pytest.raises(ConfigError, match=r"detector\.params: must be parameters of 11NN; got Invalid parameter"):
        train([Unread([])], config(detector={"name": "11NN", "params": {"nope": 1}}))


def test_threshold_rejects_the_share_of_held_out_people() -> None:
    """At most floor(share n) held-out windows lie above, and with distinct scores exactly that many."""
    result = train([Source(people())], config(threshold={"rule": "quantile", "reject_share": 0.1}))
    evidence = result.evidence
    assert (evidence.unit, evidence.n_folds) == ("people", 3)
    assert int((evidence.scores > result.model.threshold).sum()) == 24  # floor(.1 * 248)
    assert result.summary["threshold"]["n_rejected"] == 24


def test_held_out_person_is_not_in_the_fit_that_scores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fold's fit sees none of the rows that it scores."""
    seen: list[np.ndarray] = []
    real = fitting.fit

    def spy(X: np.ndarray, *args: Any) -> Any:
        seen.append(X)
        return real(X, *args)

    monkeypatch.setattr(fitting, "fit", spy)
    result = train([Source(people(2))], config(limits={"min_windows": 10}))
    assert [len(X) for X in seen] == [62, 62, 124]
    assert not {row.tobytes() for row in seen[0]} & {row.tobytes() for row in seen[1]}
    assert result.evidence.n_folds == 2


def test_same_subject_of_two_sets_is_two_people() -> None:
    """Every set numbers its people from 1."""
    other = [dataclasses.replace(one, dataset="other") for one in people(1)]
    result = train([Source(people(1)), Source(other)], config())
    assert result.summary["n_people"] == 2
    assert result.summary["datasets"] == ["fake", "other"]
    assert result.evidence.unit == "people"


def test_what_the_loader_refused_and_noted_is_said() -> None:
    """Nothing is lost in silence: rows by reason, and the first notes."""
    source = Source(people())
    source.report.refuse("walk.csv", "not a number", 3)
    for i in range(7):
        source.report.note(f"{i}.csv", "odd")
    summary = train([source], config()).summary
    assert summary["refused_rows"] == {"not a number": 3}
    assert summary["notes"][-6:] == [*(f"loader: {i}.csv: odd" for i in range(5)), "loader: and 2 more notes"]


def test_one_person_is_held_out_by_minutes_and_warned_of() -> None:
    """The path of a user who recorded herself: five minutes of one thing are in every fold; a note says the limits."""
    walk, sit = recording("me", "walk", duration_s=300.0), recording("me", "sit", duration_s=300.0)
    result = train([Source([walk, sit])], config())
    assert result.summary["threshold"]["held_out"] == "minutes of the same person"
    data = SimpleNamespace(
        X=np.zeros((1200, 1)), recording=np.repeat([0, 1], 600), recordings=[SimpleNamespace(person="me")] * 2
    )
    unit, fold, guard = holding_out._folds(cast(Any, data), config())
    assert (unit, guard) == ("minutes of the same person", 10)
    assert fold.tolist() == [minute % 3 for minute in range(10) for _ in range(120)]
    assert any(
        note.startswith("one person: the threshold comes from other minutes") for note in result.summary["notes"]
    )


def test_one_recording_is_held_out_in_parts_without_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Windows of 5 s every 0.5 s: 9 on each side of a part overlap it, and are trained on with neither."""
    sizes: list[int] = []
    real = fitting.fit

    def spy(X: np.ndarray, *args: Any) -> Any:
        sizes.append(len(X))
        return real(X, *args)

    monkeypatch.setattr(fitting, "fit", spy)
    summary = train([Source([recording(duration_s=64.5)])], config()).summary
    assert summary["n_windows"] == 120
    assert summary["threshold"]["held_out"] == "minutes of the same person"
    assert sizes == [120 - 40 - 27, 120 - 40 - 36, 120 - 40 - 27, 120]  # six parts of 20, two a fold


@pytest.mark.parametrize(
    ("name", "params", "rule"),
    [
        ("11NN", {}, "detector"),
        ("11NN", {"floor": 4.0}, "budget"),
        ("11NN-RP", {"n_estimators": 3}, "detector"),
        ("working", {"n_estimators": 3}, "budget"),
    ],
)
def test_auto_rule_is_the_one_that_suits_the_detector(name: str, params: dict[str, Any], rule: str) -> None:
    """A ratio or vote of the papers decides by itself; other scores take their threshold from held-out people."""
    chosen = config(detector={"name": name, "params": params}, threshold={"rule": "auto"})
    assert train([Source(people())], chosen).summary["threshold"]["rule"] == rule


def test_detector_rule_takes_the_detectors_own_threshold() -> None:
    """11NN rejects where the ratio is 1 or more: its threshold is the number just below 1."""
    result = train([Source(people())], config(threshold={"rule": "detector"}))
    assert result.model.threshold == np.nextafter(1.0, -np.inf)
    assert result.summary["threshold"]["rule"] == "detector"


def test_windows_are_thinned_to_the_limit_by_the_seed() -> None:
    """Long data do not grow the model without bound; how many were left out is said."""
    summary = train([Source(people())], config(limits={"max_windows": 100})).summary
    assert (summary["n_windows"], summary["n_windows_thinned"]) == (100, 148)


def fake_detector(score: Callable[[np.ndarray], np.ndarray], threshold: float, **attributes: Any) -> Any:
    scorer = fake_model.FrozenScorer(np.zeros(3), 2)
    scorer.score = score
    return SimpleNamespace(
        fit=lambda X: None,
        to_scorer=lambda: scorer,
        score_threshold_=threshold,
        get_params=dict,
        set_params=dict,
        **attributes,
    )


def accept_all(X: np.ndarray) -> np.ndarray:
    return -np.abs(X).sum(axis=1)


def reject_all(X: np.ndarray) -> np.ndarray:
    return 1.0 + np.abs(X).sum(axis=1)


@pytest.mark.parametrize(
    ("score", "threshold", "text"),
    [
        (lambda X: np.full(len(X), 0.5), 0.0, "must give different scores; got 0.5 for every window"),
        (accept_all, 0.0, "must reject some injected anomalies; got a model that accepts all 200 injected anomalies"),
        (
            reject_all,
            0.5,
            "must accept some normal windows; got a model that rejects all 248 normal windows of held-out",
        ),
    ],
)
def test_model_that_tells_nothing_apart_is_refused(
    monkeypatch: pytest.MonkeyPatch, score: Callable[[np.ndarray], np.ndarray], threshold: float, text: str
) -> None:
    """Constant scores, accept-all and reject-all never become a file."""
    monkeypatch.setattr(fitting, "make_detector", lambda config: fake_detector(score, threshold))
    assert text in refusal(people(), threshold={"rule": "detector"})


@pytest.mark.parametrize(
    ("theta", "blind"),
    [
        (1e30, "accepts all 200 injected anomalies: for research alone"),
        (1e-30, "rejects all 248 normal windows of held-out people: for research alone"),
    ],
)
def test_blind_model_by_a_printed_rule_is_written_and_says_so(tmp_path: Path, theta: float, blind: str) -> None:
    """No ratio is above 1e30, none below 1e-30: said in summary, file and report; by a rule of ours it is refused."""
    result = train([Source(people())], config(detector={"name": "11NN", "params": {"theta": theta}}))
    assert (result.summary["threshold"]["rule"], result.summary["blind"]) == ("detector", blind)
    assert f"<strong>Blind model: it {blind}.</strong>" in render_report(result)
    save_model(result.model, tmp_path / "blind.occ", self_test_X=result.self_test_X)
    assert load_model(tmp_path / "blind.occ").blindness == blind
    ours = {"name": "working", "params": {"estimator__theta": theta**0.2}}  # its log ratios end at +-27.6
    assert blind.partition(":")[0] in refusal(people(), detector=ours, threshold={"rule": "detector"})


def test_blind_model_by_a_threshold_from_held_out_data_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the detector would decide by itself; one score for everything is refused by any rule."""
    blind, alike = (
        fake_detector(score, 0.5, decides_by_itself=True) for score in (accept_all, lambda X: np.zeros(len(X)))
    )
    monkeypatch.setattr(fitting, "make_detector", lambda config: blind)
    assert "must reject some injected anomalies" in refusal(people(), threshold={"rule": "quantile"})
    monkeypatch.setattr(fitting, "make_detector", lambda config: alike)
    assert "must give different scores" in refusal(people(), threshold={"rule": "auto"})


def test_model_that_sees_has_no_blindness() -> None:
    """The key is there for blind models alone; a file without training metadata is not blind."""
    result = train([Source(people())], config())
    assert "blind" not in result.summary
    assert result.model.blindness == ""
    assert "Blind model" not in render_report(result)
    assert fake_model.make_model(metadata={}).blindness == ""
    assert fake_model.make_model(metadata={"training": "by hand"}).blindness == ""


def test_model_that_misses_what_is_far_is_said_to() -> None:
    """Where rows ten ranges off score as normal the notes say which share; a detector that rejects all says nothing."""
    X = np.random.default_rng(0).normal(size=(50, 4))
    rows = inject_anomalies(X, 0)
    off = np.abs(rows - X.mean(axis=0)).max(axis=1) / np.ptp(X, axis=0).max()
    assert [round(float(np.median(off[i::4]))) for i in range(4)] == [1, 2, 5, 10]
    blind = SimpleNamespace(score_features=lambda Z: np.where(np.abs(Z).max(axis=1) > 20, 0.0, 1.0), threshold=0.5)
    rejected = check_tells_apart(cast(Any, blind), X, rows)
    assert (rejected["1"], rejected["10"]) == (1.0, 0.0)
    assert note_of_anomalies(rejected) == [
        "accepts 100 % of injected anomalies 10 training ranges off: this detector can miss what is far"
    ]
    assert note_of_anomalies({"10": 1.0}) == []


def test_spread_of_the_tuning_is_told() -> None:
    """theta, J and K of the fitted members stand in the summary, the model file and the report."""
    result = train([Source(people())], config(detector={"name": "11NN(theta)-RS(50)", "params": {"n_estimators": 3}}))
    tuning = result.summary["tuning"]
    thetas = result.model.scorer.arrays()["theta"]
    assert tuning["theta"] == {"min": min(thetas), "median": np.median(thetas), "max": max(thetas)}
    assert (tuning["n_neighbors"], tuning["k_neighbors"]) == ({"1": 3}, {"1": 3})
    assert tuning["n_noise"]["min"] >= 5
    assert result.model.metadata["training"]["tuning"] == tuning
    page = render_report(result)
    assert "Fitted theta" in page
    assert f"max: {max(thetas):.6g}" in page


def test_progress_is_told_by_stage() -> None:
    """Reading by recording, then each fit; done never passes the total."""
    told: list[tuple[str, int, int]] = []
    train([Source(people())], config(), lambda *step: told.append(step))
    assert told[:2] == [("Reading fake", 1, 8), ("Reading fake", 2, 8)]
    stages = list(dict.fromkeys(stage for stage, _, _ in told))
    assert stages == [
        "Reading fake",
        *(f"Holding out people, {i} of 3" for i in (1, 2, 3)),
        "Fitting the model",
    ]
    assert all(done <= total for _, done, total in told)


def test_file_holds_no_names_of_people_and_no_paths(tmp_path: Path) -> None:
    """A model may be handed on: who was recorded stays with the trainer."""
    everyone = [recording(f"Erika Mustermann {i}", activity) for i in range(3) for activity in ("sit", "walk")]
    settings = config(
        people=tuple(f"Erika Mustermann {i}" for i in range(3)),
        data=({"dataset": "csv", "path": "/home/erika"},),
    )
    result = train([Source(everyone)], settings)
    save_model(result.model, tmp_path / "m.occ", self_test_X=result.self_test_X)
    assert b"rika" not in (tmp_path / "m.occ").read_bytes()
    metadata = load_model(tmp_path / "m.occ").metadata
    assert metadata["training"]["n_people"] == 3
    assert metadata["data_sha256"] == result.summary["data_sha256"]


def test_report_is_one_file_without_outside_assets(tmp_path: Path) -> None:
    """Nothing is fetched when it is opened; names out of data are text, in the page and in the plots."""
    nasty = [recording(str(i), "<script>alert(1)</script> $\\frac$ 行走") for i in range(4)]
    result = train([Source(nasty)], config())
    write_report(result, tmp_path / "model.html")
    page = (tmp_path / "model.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    assert "http://" not in page
    assert "https://" not in page
    assert page.count('src="data:image/png;base64,') == page.count("<img ") == 4
    assert result.model.model_id in page


def test_report_makes_no_claim_about_falls() -> None:
    """The words of detection are not the trainer's to use."""
    page = render_report(train([Source(people())], config()))
    assert "They say nothing about falls" in page
    for word in ("sensitivity", "accuracy", "detects falls", "detection rate"):
        assert word not in page.lower()


def test_configuration_file_is_read_with_lines(tmp_path: Path) -> None:
    """Paths are relative to the file; flags win over it."""
    file = tmp_path / "train.yaml"
    file.write_text("data:\n  - {dataset: csv, path: walks}\nwindow_s: 4.0\nthreshold:\n  reject_share: 0.02\n")
    loaded = load_training_config(file, {"window_s": 3.0, "detector.params.n_estimators": 5})
    assert loaded.data[0].path == str(tmp_path / "walks")
    assert (loaded.window_s, loaded.threshold.reject_share) == (3.0, 0.02)
    assert loaded.detector.params == {"n_estimators": 5}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("windw_s: 4.0\n", 1, "windw_s must be a known key; got an unknown one"),
        ("seed: 0\nthreshold:\n  reject_share: 0.7\n", 3, "threshold.reject_share must be less than 0.5; got 0.7"),
        ("seed: 0\nhop_s: fast\n", 2, "hop_s must be a valid number; got 'fast'"),
        ("people: [2, 3]\n", 1, "people.0 must be a valid string; got 2. Put it in quotes"),
        ("data:\n  - {dataset: csv}\n", 2, "data.0.path must be given; got nothing"),
        ("- 1\n", 1, "must hold keys and values; got list"),
    ],
)
def test_mistake_in_the_configuration_is_named_by_line(tmp_path: Path, text: str, line: int, words: str) -> None:
    """File, line, key, what must hold."""
    file = tmp_path / "train.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_training_config(file)
    assert str(caught.value).replace(": must", " must").startswith(f"{file}:{line}")
    assert words in str(caught.value).replace(": must", " must")


@pytest.mark.parametrize("text", ["detector: JKNN", "detector: [1]", "detector: null", "detector: {params: 3}"])
def test_flag_over_a_section_that_is_none_names_the_section(tmp_path: Path, text: str) -> None:
    """A flag cannot be put into a text or a list: the file's line is told, as without the flag."""
    file = tmp_path / "train.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=r"train\.yaml:1: detector.*must be a valid dictionary"):
        load_training_config(file, {"detector.name": "11NN", "detector.params.theta": 1.0})


def test_mistake_in_a_flag_is_named_by_flag() -> None:
    """No file, no line: the flag itself."""
    with pytest.raises(ConfigError, match=r"--reject-share: threshold\.reject_share: must be greater than 0; got 0\.0"):
        load_training_config(None, {"threshold.reject_share": 0.0})


def test_hop_and_window_must_fit() -> None:
    """A hop beyond the window would leave samples that no window sees."""
    with pytest.raises(ConfigError, match=r"hop_s: must be .* at most window_s = 4\.5 s; got 6"):
        load_training_config(None, {"hop_s": 6.0})
    with pytest.raises(ConfigError, match="window_s: must hold at least 4 samples"):
        load_training_config(None, {"window_s": 0.05, "hop_s": 0.05})


def test_example_configuration_is_complete_and_holds_the_defaults() -> None:
    """configs/train.yaml shows every key with its default; only the data are an example."""
    file = Path(__file__).parents[2] / "configs" / "train.yaml"
    loaded = load_training_config(file)
    assert loaded.model_fields_set == set(TrainingConfig.model_fields)
    assert loaded.model_copy(update={"data": ()}) == TrainingConfig()
