"""Who is trained on, who is tested, and on what scale: nothing of the tested people leaks into their own scores."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stream_occ.errors import DataError
from stream_occ.evaluation.protocol import (
    Fold,
    anchors,
    assign_groups,
    kinds_of_people,
    plan,
    pool_trials,
    pool_windows,
    stack,
)
from stream_occ.evaluation.report import score_folds
from tests.unit.evaluation_people import Constant, Distance, NotFinite, crowd, trial


def run_folds(trials, method, *, seed=0):
    """Groups and folds of one method."""
    group_of = assign_groups(kinds_of_people(trials), seed=seed)
    return group_of, score_folds(trials, [method], group_of, seed=seed, n_jobs=1)[method.key]


def people_index(trials):
    return {person: i for i, person in enumerate(kinds_of_people(trials))}


@given(n_both=st.integers(0, 12), n_normal=st.integers(0, 12), n_falls=st.integers(0, 15), seed=st.integers(0, 99))
def test_groups_are_balanced_among_normals_and_among_all(n_both, n_normal, n_falls, seed):
    """No group has two people more than another, counted over those with normal recordings or over all."""
    kinds = {f"b{i}": (True, True) for i in range(n_both)}
    kinds |= {f"n{i}": (False, True) for i in range(n_normal)} | {f"f{i}": (True, False) for i in range(n_falls)}
    if n_both + n_normal < 5:
        with pytest.raises(DataError, match="at least 5 with normal recordings"):
            assign_groups(kinds, seed=seed)
        return
    group_of = assign_groups(kinds, seed=seed)
    assert set(group_of) == set(kinds)
    for chosen in (kinds, [person for person, (_, normal) in kinds.items() if normal]):
        sizes = Counter(dict.fromkeys(range(5), 0))
        sizes.update(group_of[person] for person in chosen)
        assert max(sizes.values()) - min(sizes.values()) <= 1


def test_groups_are_seeded_and_differ_between_seeds():
    """The same seed gives the same groups whatever the order of the people; another seed gives others."""
    kinds = {f"p{i}": (True, True) for i in range(20)}
    backwards = dict(reversed(kinds.items()))
    assert assign_groups(kinds, seed=4) == assign_groups(backwards, seed=4)
    assert assign_groups(kinds, seed=4) != assign_groups(kinds, seed=5)


def test_too_few_people_with_normal_recordings_is_one_line():
    """Four people with normal recordings and any number with falls only cannot make five folds."""
    trials = crowd(n_both=4, n_normal_only=0, n_falls_only=9)
    with pytest.raises(DataError) as caught:
        assign_groups(kinds_of_people(trials))
    assert str(caught.value) == (
        "evaluate: people: must include at least 5 with normal recordings; got 4 of 13. Give a data set of more people."
    )


def test_a_method_is_fitted_on_normal_recordings_of_other_groups_alone():
    """A spy sees fifteen fits: none with a fall, with people it is tested on, or with a falls-only person."""
    trials, spy = crowd(), Distance()
    group_of, _ = run_folds(trials, spy)
    assert len(spy.seen) == 15
    for fit, job in zip(spy.seen, plan(trials, group_of), strict=True):
        assert not any(trials[i].is_fall for i in np.unique(fit.recording))
        assert {group_of[person] for person in fit.subject} == set(range(5)) - set(job.left_out)
        assert not any(person.startswith("f") for person in fit.subject)


def test_every_recording_is_tested_once_by_its_persons_own_fold():
    """Falls-only people are tested with their group; each recording appears in one fold, that of its person."""
    trials = crowd()
    group_of, found = run_folds(trials, Distance())
    tested = [(i, fold.group) for fold in found for i in fold.tested]
    assert sorted(i for i, _ in tested) == list(range(len(trials)))
    assert all(group_of[trials[i].subject] == group for i, group in tested)


def test_thresholds_and_scale_come_from_normals_of_people_outside_the_tested_group():
    """The held-out recordings of a fold are the normal ones of all other groups, each once."""
    trials = crowd()
    group_of, found = run_folds(trials, Distance())
    for fold in found:
        expected = {i for i, t in enumerate(trials) if not t.is_fall and group_of[t.subject] != fold.group}
        assert set(fold.held_out) == expected


def test_held_out_scores_come_from_fits_that_saw_neither_the_held_out_nor_the_tested_group():
    """Each held-out score is the distance to the mean of the normals of the three other groups, computed here."""
    trials = crowd()
    group_of, found = run_folds(trials, Distance())
    for fold in found:
        for i, scores in fold.held_out.items():
            out = {fold.group, group_of[trials[i].subject]}
            used = [t.X for t in trials if not t.is_fall and group_of[t.subject] not in out]
            mean = np.concatenate(used).mean(axis=0)
            np.testing.assert_allclose(scores, np.linalg.norm(trials[i].X - mean, axis=1), rtol=1e-12)


def test_changing_the_tested_peoples_data_changes_no_threshold_and_no_scale():
    """With everything of one group replaced by noise, the held-out scores of its fold stay bit for bit."""
    trials = crowd()
    group_of, found = run_folds(trials, Distance())
    rng = np.random.default_rng(9)
    changed = [replace(t, X=rng.normal(50, 9, t.X.shape)) if group_of[t.subject] == 2 else t for t in trials]
    _, after = run_folds(changed, Distance())
    assert found[2].held_out.keys() == after[2].held_out.keys()
    for i, scores in found[2].held_out.items():
        np.testing.assert_array_equal(scores, after[2].held_out[i])


def test_changing_the_falls_changes_no_score_of_a_normal_recording():
    """Falls enter no fit, no threshold and no scale: normals keep scores and flags when falls become noise."""
    trials = crowd()
    rng = np.random.default_rng(9)
    changed = [replace(t, X=rng.normal(50, 9, t.X.shape)) if t.is_fall else t for t in trials]
    pooled = [pool_trials(own, run_folds(own, Distance())[1], people_index(own), 0.05) for own in (trials, changed)]
    for values in ("score", "flagged"):
        before, after = (getattr(items, values)[~items.is_fall] for items in pooled)
        np.testing.assert_array_equal(before, after)


def test_pooling_keeps_the_ranking_within_a_fold():
    """Within one fold the pooled scores order the trials exactly as the raw ones do."""
    trials = crowd()
    _, found = run_folds(trials, Distance())
    items = pool_trials(trials, found, people_index(trials), 0.05)
    for fold in found:
        raw = np.array([scores.max() for scores in fold.tested.values()])
        pooled = items.score[list(fold.tested)]
        np.testing.assert_array_equal(np.argsort(raw), np.argsort(pooled))


def test_pooling_undoes_a_folds_own_scale():
    """A fold whose raw scores are all multiplied and shifted gives the same pooled scores and flags."""
    trials = crowd()
    _, found = run_folds(trials, Distance())
    index = people_index(trials)
    stretched = [
        replace(
            fold,
            tested={i: 8.0 * s + 16.0 for i, s in fold.tested.items()},
            held_out={i: 8.0 * s + 16.0 for i, s in fold.held_out.items()},
        )
        if fold.group == 3
        else fold
        for fold in found
    ]
    for pool in (pool_trials, pool_windows):
        before, after = pool(trials, found, index, 0.05), pool(trials, stretched, index, 0.05)
        np.testing.assert_allclose(before.score, after.score, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(before.flagged, after.flagged)


def test_a_trials_score_is_its_largest_and_a_short_one_is_unscored():
    """The trial's score comes from its worst window; without windows it is -inf and never flagged."""
    trials = [*crowd(), trial("b0", "short", np.empty((0, 2)), is_fall=True), trial("b1", "brief", np.empty((0, 2)))]
    _, found = run_folds(trials, Distance())
    items = pool_trials(trials, found, people_index(trials), 0.05)
    windows = pool_windows(trials, found, people_index(trials), 0.05)
    assert items.score[-2:].tolist() == [-np.inf, -np.inf]
    assert items.flagged[-2:].tolist() == [False, False]
    assert np.isfinite(items.score[:-2]).all()
    assert windows.score.size == sum(len(t) for t in trials)


def test_windows_outside_the_annotated_fall_are_normal():
    """In a fall recording only the windows that overlap the fall count as falls."""
    trials = crowd()
    _, found = run_folds(trials, Distance())
    items = pool_windows(trials, found, people_index(trials), 0.05)
    np.testing.assert_array_equal(items.is_fall, np.concatenate([t.overlaps_fall for t in trials]))


def test_flags_lie_above_the_threshold_that_rejects_the_share_of_held_out_trials():
    """Of 40 held-out trials scored 0 to 39 two are rejected at .05: the threshold is 37, and a tie is accepted."""
    trials = [trial("a", f"{i}", [[0, 0]]) for i in range(43)]
    held_out = {i: np.array([float(i)]) for i in range(40)}
    fold = Fold(0, {40: np.array([37.0]), 41: np.array([37.5]), 42: np.array([-1.0])}, held_out)
    for pool in (pool_trials, pool_windows):
        assert pool(trials, [fold], {"a": 0}, 0.05).flagged.tolist() == [False, True, False]


def test_anchors_are_median_and_its_distance_to_the_95_percent_quantile():
    """Of 0 to 100 they are 50 and 45."""
    assert anchors(np.arange(101.0)) == (50.0, 45.0)


def test_anchors_of_scores_that_are_mostly_equal_do_not_divide_by_zero():
    """Votes that nearly all accept take the mean distance from the median; constant scores take 1."""
    assert anchors(np.array([0.0] * 99 + [1.0])) == (0.0, 0.01)
    assert anchors(np.full(10, 7.0)) == (7.0, 1.0)


def test_a_score_that_is_not_finite_is_one_line():
    """The method is named and the run stops."""
    with pytest.raises(DataError, match=r"^method not_finite: must give one finite score a window; got (\d+) of \1 "):
        run_folds(crowd(), NotFinite())


def test_a_fold_without_windows_is_one_line():
    """All normal recordings too short: there is nothing to train on."""
    trials = [trial(f"p{i}", f"p{i}", np.empty((0, 2))) for i in range(6)]
    with pytest.raises(DataError, match="must give windows to train on in every fold"):
        run_folds(trials, Constant())


def test_short_windows_are_tested_and_not_trained_on():
    """Recordings without a whole window: their people are tested by them, and no fit sees one."""
    trials = crowd()
    short = [i for i, own in enumerate(trials) if own.name.endswith("0")]
    for i in short:
        shown = replace(trials[i].shown, is_closing=np.ones(len(trials[i]), dtype=bool))
        trials[i] = replace(trials[i], shown=shown)
    assert short
    group_of, found = run_folds(trials, Constant())
    assert {i for fold in found for i in fold.tested} == set(range(len(trials)))
    jobs = plan(trials, group_of)
    assert not {i for job in jobs for i in job.trained} & set(short)
    whole = [i for i in range(len(trials)) if i not in short]
    assert len(stack(trials, range(len(trials)), on_hop=True)) == sum(len(trials[i]) for i in whole)
    items = pool_trials(trials, found, people_index(trials), 0.05)
    assert np.isfinite(items.score).all()


def test_seed_of_a_fit_depends_on_the_groups_left_out_alone():
    """The fit that serves two folds is one fit; all fifteen seeds differ and are the same in every run."""
    first, second = Distance(), Distance()
    run_folds(crowd(), first)
    run_folds(crowd(), second)
    assert len(set(first.seeds)) == 15
    assert first.seeds == second.seeds


def test_stacked_windows_name_their_recording_and_person():
    """Rows come recording by recording; a recording without windows adds none."""
    trials = [trial("a", "1", [[1, 2], [3, 4]]), trial("a", "2", np.empty((0, 2))), trial("b", "3", [[5, 6]])]
    windows = stack(trials, [2, 1, 0])
    np.testing.assert_array_equal(windows.X, [[5, 6], [1, 2], [3, 4]])
    assert windows.subject == ("b", "a", "a")
    assert windows.recording.tolist() == [2, 0, 0]
