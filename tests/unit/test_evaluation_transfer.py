"""From one data set to another: who is fitted on, where thresholds come from, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

from stream_occ.errors import DataError
from stream_occ.evaluation import Protocol, TrainingSet, evaluate
from stream_occ.evaluation.protocol import assign_groups, kinds_of_people
from stream_occ.evaluation.report import score_transfer
from stream_occ.evaluation.transfer import check_people, check_placements, known_placements
from tests.unit.evaluation_people import Distance, crowd, trial

QUICK = Protocol(n_resamples=50)


def test_one_fit_on_everybody_and_one_without_each_group():
    """Six fits on normal recordings of the training set alone; nobody tested is among them."""
    trained, tests, spy = [t for t in crowd(seed=1) if not t.is_fall], crowd(n_both=2, n_normal_only=0), Distance()
    score_transfer([*tests, *trained], len(tests), [spy], seed=0, n_jobs=1)
    group_of = assign_groups(kinds_of_people(trained), seed=0)
    everybody = {t.subject for t in trained}
    seen = [set(fit.subject) for fit in spy.seen]
    assert seen == [everybody, *({p for p in everybody if group_of[p] != g} for g in range(5))]
    assert min(int(fit.recording.min()) for fit in spy.seen) >= len(tests)


def test_scores_and_thresholds_are_those_computed_here():
    """Tested: distance to the mean of all; held out: distance to the mean of the other four groups."""
    trained, tests = [t for t in crowd(seed=1) if not t.is_fall], crowd(n_both=2)
    (fold,) = score_transfer([*tests, *trained], len(tests), [Distance()], seed=0, n_jobs=1)["distance"]
    mean = np.concatenate([t.X for t in trained]).mean(axis=0)
    assert list(fold.tested) == list(range(len(tests)))
    for i, scores in fold.tested.items():
        np.testing.assert_allclose(scores, np.linalg.norm(tests[i].X - mean, axis=1), rtol=1e-12)
    group_of = assign_groups(kinds_of_people(trained), seed=0)
    assert set(fold.held_out) == set(range(len(tests), len(tests) + len(trained)))
    for i, scores in fold.held_out.items():
        own = trained[i - len(tests)]
        others = np.concatenate([t.X for t in trained if group_of[t.subject] != group_of[own.subject]])
        np.testing.assert_allclose(scores, np.linalg.norm(own.X - others.mean(axis=0), axis=1), rtol=1e-12)


def test_counts_are_those_of_the_tested_set_and_the_report_names_both():
    """Two tested people are enough; the falls of the training set count nowhere."""
    tests = crowd(n_both=2, n_normal_only=0, n_falls_only=0, seed=2)
    trained = TrainingSet("other", crowd(seed=1))
    report = evaluate("made-up", tests, [Distance()], QUICK, trained=trained).to_json()
    assert list(report)[:2] == ["dataset", "train_dataset"]
    assert (report["train_dataset"], report["n_recordings"], report["n_falls"], report["n_people"]) == (
        "other", 22, 6, 2,
    )  # fmt: skip
    assert report["adl_hours"] == pytest.approx(16 / 60)
    assert report["results"]["distance"]["trial_auc"]["value"] > 0.99
    without = evaluate("made-up", crowd(), [Distance()], QUICK).to_json()
    assert "train_dataset" not in without


def test_one_name_in_two_data_sets_is_two_people():
    """Sets number their people from 1: equal names do not mix training and test."""
    tests = crowd(n_both=3, n_normal_only=0, n_falls_only=0, seed=2)
    same, other = crowd(seed=1), [replace(t, subject=f"x{t.subject}") for t in crowd(seed=1)]
    found = [
        evaluate("made-up", tests, [Distance()], QUICK, trained=TrainingSet("other", own)).to_json()
        for own in (same, other)
    ]
    assert found[0]["results"]["distance"]["window_auc"] == found[1]["results"]["distance"]["window_auc"]


@pytest.mark.parametrize("names", [("made-up", "made-up"), ("csv", "recording")])
def test_the_same_people_in_both_are_refused(names):
    """One set under two variants, or own files of two kinds, may hold one person twice."""
    trained = TrainingSet(names[1], [trial("ann", "1", [[0, 0]]), trial("bob", "2", [[0, 0]])])
    with pytest.raises(DataError, match=r"^evaluate: people: .*; got 'bob' in both data sets"):
        check_people(names[0], [trial("bob", "3", [[0, 0]])], trained)
    check_people(names[0], [trial("eve", "3", [[0, 0]])], trained)


def test_too_few_training_people_are_one_line():
    """Thresholds need five groups of people in the training set, whatever the tested one has."""
    with pytest.raises(DataError, match="at least 5 with normal recordings; got 4 of 4"):
        evaluate("made-up", crowd(), [Distance()], QUICK, trained=TrainingSet("other", crowd(n_both=4)[: 4 * 11]))


def test_placements_must_match():
    """Equal ones say nothing, others are refused in one line, unknown ones are told."""
    assert check_placements({"wrist"}, {"wrist"}) == []
    with pytest.raises(DataError) as caught:
        check_placements({"thigh"}, {"wrist"})
    assert str(caught.value) == (
        "evaluate: placements: must be the same in both data sets; got thigh in training and wrist in the test. "
        "Pick a matching --variant or --train-variant, or say --any-placement."
    )
    (line,) = check_placements(set(), {"wrist"})
    assert line.startswith("the training data do not say where the sensor was worn")
    (line,) = check_placements(set(), set())
    assert line.startswith("the training and tested data do not say")


def test_any_placement_is_a_loud_note():
    """The run goes on, and its reader is told."""
    (line,) = check_placements({"thigh"}, {"waist", "wrist"}, any_placement=True)
    assert line.startswith("WORN ELSEWHERE: thigh in training and waist, wrist in the test")


def test_known_placements_leave_out_unknown():
    """What a recording does not say is no place."""
    trials = [replace(trial("a", "1", [[0, 0]]), placement=place) for place in ("wrist", "unknown", "wrist")]
    assert known_placements(trials) == {"wrist"}
