"""A personal model: what the wearer's rows change, what stays strange, what is refused, what the file says."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from stream_occ.artifacts import load_model, save_model
from stream_occ.datasets import LoadReport
from stream_occ.detectors import OCNN, EvidenceFusion
from stream_occ.errors import DataError, ModelError
from stream_occ.samples import NS_PER_S, Recording, SampleBlock
from stream_occ.scoring import Model
from stream_occ.training import TrainingConfig, TrainingResult, load_training_config, train
from stream_occ.training.adapting import adapt, settings_of
from stream_occ.training.blending import MAX_ROWS, beside, blend, k_neighbors_of, parts, thinned
from stream_occ.training.report import render_report
from tests import fake_model

RATE_HZ, STEP_S, GRAVITY = 50, 5, 9.80665
DETECTOR = {"name": "working", "params": {"n_estimators": 5}}


class Source:
    """A data set in memory."""

    name = "fake"

    def __init__(self, *recordings: Recording) -> None:
        self.recordings, self.report, self.n_files = recordings, LoadReport("fake"), len(recordings)

    def iter_recordings(self) -> Iterator[Recording]:
        yield from self.recordings


def turning(subject: str, trial: str, levels: np.ndarray, *, hit_s: float | None = None, **changes: Any) -> Recording:
    """A sensor that turns at each of `levels` (rad/s) for five seconds; hit_s: one sample of 60 m/s2 and 40 rad/s."""
    rng = np.random.default_rng([ord(c) for c in subject + trial])
    n = len(levels) * STEP_S * RATE_HZ
    acc = np.column_stack([np.zeros((n, 2)), np.full(n, GRAVITY)]) + rng.normal(0, 0.1, (n, 3))
    gyr = np.column_stack([np.repeat(levels, STEP_S * RATE_HZ), np.zeros((n, 2))])
    if hit_s is not None:
        first = round(hit_s * RATE_HZ)
        acc[first : first + 25, 2] = 60.0
        gyr[first : first + 25, 0] = 40.0
    t_ns = np.arange(n) * (NS_PER_S // RATE_HZ)
    whole = Recording("fake", subject, "day", trial, False, None, "waist", SampleBlock("d", t_ns, acc, gyr))
    return dataclasses.replace(whole, **changes)


def usual(subject: str) -> Recording:
    return turning(subject, "1", np.random.default_rng(ord(subject)).uniform(0, 1, 24))


def habit(trial: str, subject: str = "w", **changes: Any) -> Recording:
    """Ten minutes of a wearer who turns at 0 to 4 rad/s, which others never do beyond 1."""
    levels = np.random.default_rng(ord(trial)).uniform(0, 4, 120)
    return turning(subject, trial, levels, **changes)


@pytest.fixture(scope="module")
def trained() -> TrainingResult:
    fake_model.register()
    config = TrainingConfig.model_validate({"feature_set": "fake3", "window_s": 5.0, "detector": DETECTOR})
    return train([Source(*map(usual, "abcd"))], config)


@pytest.fixture
def general(trained: TrainingResult) -> Model:
    """The general model with a threshold that 4 % of the wearer's habit lie above."""
    fake_model.register()
    scores = trained.model.score_features(rows_of(trained.model, habit("1")))
    return dataclasses.replace(trained.model, threshold=float(np.quantile(scores, 0.96)))


def rows_of(model: Model, recording: Recording) -> np.ndarray:
    """Unscaled features of all windows of a recording."""
    from stream_occ.windowing import cut_windows

    windows = cut_windows(recording.block, rate_hz=model.rate_hz, window_s=5.0, hop_s=0.5, sos=None)
    return model.feature_set.extract(windows)


def adapted(general: Model, *recordings: Recording, is_vouched: bool = False, **filters: Any) -> TrainingResult:
    config = load_training_config(None, settings_of(general) | filters)
    return adapt([Source(*recordings)], general, config, self_test_X=np.ones((3, 3)), is_vouched=is_vouched)


def refusal(general: Model, *recordings: Recording, error: type[Exception] = DataError, **filters: Any) -> str:
    with pytest.raises(error) as caught:
        adapted(general, *recordings, **filters)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_habit_that_the_general_model_rejects_is_accepted(general: Model) -> None:
    """Windows of another recording of the habit, above the threshold before, are below it after."""
    other = rows_of(general, habit("2"))
    n_before = int((general.score_features(other) > general.threshold).sum())
    result = adapted(general, habit("1"))
    n_after = int((result.model.score_features(other) > result.model.threshold).sum())
    assert n_before >= 10
    assert n_after <= n_before / 10
    assert result.model.threshold == general.threshold


def test_what_looks_like_a_fall_stays_strange_and_is_counted(general: Model) -> None:
    """A hit among the recordings is above the threshold before and after, and the notes tell of it."""
    spoilt = habit("1", hit_s=300.2)
    scores = general.score_features(rows_of(general, spoilt))
    result = adapted(general, spoilt)
    effect = result.summary["adaptation"]
    hit = rows_of(general, spoilt)[592:601]  # windows that end at 301 to 305 s, hop 0.5: all hold the hit
    assert (general.score_features(hit) > general.threshold).all()
    assert (result.model.score_features(hit) > general.threshold).all()
    assert effect["n_fall_like"] == int((scores > general.threshold).sum())
    assert effect["n_left_out"] > effect["n_fall_like"]
    assert any("were left out" in note for note in result.summary["notes"])


def test_no_row_near_a_hit_enters(general: Model) -> None:
    """Of the rows added none is of a window that overlaps one above the threshold, though most of those score low."""
    spoilt = habit("1", hit_s=300.2)
    result = adapted(general, spoilt)
    effect = result.summary["adaptation"]
    X = result.model.scorer.arrays()["X"]
    assert len(X) == effect["n_rows_general"] + effect["n_rows_wearer"]
    added = X[effect["n_rows_general"] :] * result.model.scaler.scale + result.model.scaler.center
    assert added[:, 1].max() < 20.0  # acc_max; the hit has 60


def test_file_alone_is_enough_and_says_what_was_added(general: Model, tmp_path: Path) -> None:
    """Saved, loaded, adapted, saved and loaded again: id of the general model, digests, claim and self-test rows."""
    save_model(general, tmp_path / "general.occ", self_test_X=np.ones((3, 3)))
    from_file = load_model(tmp_path / "general.occ")
    result = adapted(from_file, habit("1"))
    model_id = save_model(result.model, tmp_path / "own.occ", self_test_X=result.self_test_X)
    loaded = load_model(tmp_path / "own.occ")
    assert loaded.model_id == model_id == result.summary["model_id"]
    assert loaded.metadata["adaptation"]["adapted_from"] == from_file.model_id
    assert loaded.metadata["adaptation"]["minutes"] == pytest.approx(10.0)
    assert loaded.metadata["calibration"] == from_file.metadata["calibration"]
    assert len(loaded.metadata["recording_digests"]) == 5
    assert loaded.metadata["recording_digests"][:4] == from_file.metadata["recording_digests"]
    assert (result.self_test_X == 1.0).all(axis=1).sum() == 3


def test_held_out_minutes_are_told_with_intervals(general: Model) -> None:
    """Counts before and after on the same minutes; the exact interval of no alarm in 1/6 h is 0 to 22.1 an hour."""
    still = turning("w", "1", np.random.default_rng(0).uniform(0, 1, 120))
    effect = adapted(general, still).summary["adaptation"]
    for own in (effect["before"], effect["after"]):
        assert own["n_alarms"] == 0
        assert own["alarms_per_hour"] == pytest.approx([0.0, 0.0, -np.log(0.025) * 6], rel=1e-6)
    assert effect["after"]["mean_score"] < effect["before"]["mean_score"]


def test_report_shows_the_adaptation(general: Model) -> None:
    """The HTML has the two lines that are to be compared."""
    page = render_report(adapted(general, habit("1")))
    assert "Adapted to one wearer" in page
    assert "General model on the wearer" in page


def test_no_help_is_said(general: Model) -> None:
    """Where held-out minutes alarm no less the notes say so; short recordings are told."""
    notes = adapted(general, turning("w", "1", np.full(24, 0.5) + np.linspace(0, 0.2, 24))).summary["notes"]
    assert any(note.startswith("no fewer alarms on held-out minutes: 0 with the general model, 0") for note in notes)
    assert any(note.startswith("2.0 min of the wearer: record at least 10") for note in notes)


def test_several_people_are_refused(general: Model) -> None:
    """One person may be named."""
    assert "be of one wearer; got 2 people (v, w)" in refusal(general, habit("1"), habit("2", "v"))
    named = adapted(general, habit("1"), habit("2", "v"), people=("w",))
    assert named.summary["n_recordings"] == 1


def test_other_placement_is_refused_unless_allowed(general: Model) -> None:
    """A watch does not move like a waist."""
    wrist = habit("1", placement="wrist")
    assert "be worn where the model was trained, waist; got wrist" in refusal(general, wrist)
    assert adapted(general, wrist, allow_mixed_placement=True).model.model_id


def test_recordings_that_it_was_trained_on_are_refused(general: Model) -> None:
    """The copy of a training recording would count twice."""
    assert "be new to the general model; got 1 of 1" in refusal(general, usual("a"))


def test_too_much_above_the_threshold_is_refused(general: Model) -> None:
    """More than 5 % of the windows: the sensor is worn or declared otherwise."""
    strange = turning("w", "1", np.random.default_rng(1).uniform(8, 9, 60))
    assert "at most 5% of the windows above its threshold; got 9" in refusal(general, strange)


def test_too_little_beside_what_looks_like_a_fall_is_refused(general: Model) -> None:
    """A hit in the windows that start at 0 and 0.5 s takes those that start by 5 s with it: 11 of 101."""
    short = turning("w", "1", np.full(11, 0.5), hit_s=0.2)
    expected = "give 100 windows apart from those that look like a fall; got 90 of 101"
    assert expected in refusal(general, short)


def test_what_is_vouched_for_is_blended_and_said(general: Model) -> None:
    """Somebody knows better than the threshold: all rows enter, and the notes count them."""
    strange = turning("w", "1", np.random.default_rng(1).uniform(8, 9, 60))
    result = adapted(general, strange, is_vouched=True)
    effect = result.summary["adaptation"]
    assert (effect["n_left_out"], effect["n_rows_wearer"]) == (0, min(591, effect["n_rows_general"]))
    assert effect["after"]["n_flagged_windows"] < effect["n_fall_like"] / 10
    assert any(note.endswith("count as normal now: vouched for") for note in result.summary["notes"])


def test_adapted_and_blind_models_are_refused(general: Model) -> None:
    """Rows would add up; a blind model tells nothing apart."""
    own = adapted(general, habit("1")).model
    assert "one that was adapted already" in refusal(own, habit("2"), error=ModelError)
    blind = dataclasses.replace(general, metadata={"training": {"blind": "accepts all"}})
    assert "a blind one" in refusal(blind, habit("1"), error=ModelError)


def test_scorer_without_rows_is_refused(general: Model) -> None:
    """A scorer of another kind, or one whose K no summary tells."""
    other = dataclasses.replace(general, scorer=fake_model.make_model().scorer)
    assert "keeps its training rows" in refusal(other, habit("1"), error=ModelError)
    assert "Train a new model" in refusal(dataclasses.replace(general, metadata={}), habit("1"), error=ModelError)


def mean_distance(row: np.ndarray, rows: np.ndarray, k: int) -> float:
    """To the k nearest, by plain loops."""
    return float(np.mean(sorted(np.sqrt(((row - other) ** 2).sum()) for other in rows)[:k]))


def test_blended_scores_are_those_of_all_rows_together() -> None:
    """Ratio of the mean distance to J = 3 of all rows and of theirs to K = 2; the old rows keep their own distances."""
    rng = np.random.default_rng(0)
    old, new, tested = rng.normal(size=(30, 2)), rng.normal(3, 1, (8, 2)), rng.normal(2, 2, (5, 2))
    scorer = OCNN(n_neighbors=3, k_neighbors=2).fit(old).to_scorer()
    everything = np.concatenate([old, new])
    own = [mean_distance(row, np.delete(old, i, axis=0), 2) for i, row in enumerate(old)]
    own += [mean_distance(row, np.delete(everything, 30 + i, axis=0), 2) for i, row in enumerate(new)]
    expected = []
    for row in tested:
        nearest = np.argsort(((everything - row) ** 2).sum(axis=1))[:3]
        expected.append(mean_distance(row, everything, 3) / np.mean([own[i] for i in nearest]))
    np.testing.assert_allclose(blend(scorer, new, 2).score(tested), expected, rtol=1e-12)


def test_fusion_keeps_its_scales() -> None:
    """Rows change the novelty alone: center and scale stay, and no row scores higher than before."""
    rng = np.random.default_rng(1)
    fused = EvidenceFusion(evidence=(0,), random_state=0).fit(rng.normal(size=(60, 3)))
    before, tested = fused.to_scorer(), rng.normal(0, 2, (20, 3))
    after = blend(before, rng.normal(2, 1, (40, 3)), 5)
    for name in ("center", "scale", "columns"):
        np.testing.assert_array_equal(after.arrays()[name], before.arrays()[name])
    assert (after.score(tested) <= before.score(tested)).all()


def test_wearers_rows_are_at_most_as_many_as_the_others() -> None:
    """Half of the model, or MAX_ROWS; evenly taken, first and last among them."""
    assert thinned(5, 10).tolist() == [0, 1, 2, 3, 4]
    assert thinned(9, 3).tolist() == [0, 4, 8]
    assert len(thinned(20_000, 50_000)) == MAX_ROWS


def test_k_is_known_where_all_members_share_one() -> None:
    """By the trainer's summary, as loaded from JSON."""
    scorer = OCNN().fit(np.arange(9.0)[:, None]).to_scorer()
    assert k_neighbors_of(scorer, {"k_neighbors": {"7": 25}}) == 7
    for unknown in ({"k_neighbors": {"7": 20, "8": 5}}, {"k_neighbors": {"x": 1}}, {}, None):
        assert k_neighbors_of(scorer, unknown) is None


def test_rows_beside_a_marked_one_overlap_it_in_time() -> None:
    """Windows of 2 s that end at 0 to 4 s: those less than 2 s from the marked one, in its recording alone."""
    t_end_ns = np.array([0, 1, 2, 3, 4, 2, 3]) * NS_PER_S
    recording = np.array([0, 0, 0, 0, 0, 1, 1])
    marked = np.array([False, False, True, False, False, False, False])
    expected = [False, True, True, True, False, False, False]
    assert beside(marked, recording, t_end_ns, 2.0).tolist() == expected


def test_halves_and_thirds_alternate_by_recording_and_minute() -> None:
    """Three walks in turn, then the three minutes of one rest in turn."""
    activities = ["walk", "walk", "walk", "sit", "sit", "sit", "sit"]
    recording = np.array([0, 1, 2, 3, 3, 3, 3])
    t_end_ns = np.array([5, 5, 5, 5, 64, 65, 130]) * NS_PER_S
    assert parts(activities, recording, t_end_ns).tolist() == [1, 0, 1, 0, 0, 1, 0]
    assert parts(activities, recording, t_end_ns, 3).tolist() == [0, 1, 2, 0, 0, 1, 2]
