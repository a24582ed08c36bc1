"""EvidenceFusion: scales from rows whose person was not seen, one-sided evidence, its scorer's arrays."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import pytest
from sklearn.base import BaseEstimator

from stream_occ.detectors import OCNN, EvidenceFusion, RandomProjectionEnsemble, preset
from stream_occ.errors import ModelError, UsageError
from stream_occ.features.fall31 import NAMES
from stream_occ.scoring import load_scorer
from stream_occ.scoring.evidence_fusion import LARGEST_Z

PEOPLE = np.repeat([0, 1, 2, 3], 25)


def rows(n: int = 100, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(n, 4))


class FirstColumn:
    """A scorer that says the first column."""

    KIND = "first_column"
    n_features = 4

    def score(self, X: np.ndarray) -> np.ndarray:
        return np.asarray(X[:, 0], dtype=float)


class Spy(BaseEstimator):
    """A detector that keeps the rows of every fit, and scores by the first column."""

    fitted: ClassVar[list[np.ndarray]] = []

    def fit(self, X: np.ndarray, y: object = None) -> Self:
        Spy.fitted.append(X)
        return self

    def to_scorer(self) -> FirstColumn:
        return FirstColumn()


def test_score_is_novelty_plus_one_sided_evidence_by_hand() -> None:
    """Quantiles of 0..100: 50 and 95; novelty weighs 2; little evidence takes at most 2."""
    X = np.repeat(np.arange(101.0)[:, None], 4, axis=1)
    fused = EvidenceFusion(Spy(), evidence=(1, 3), novelty_weight=2.0).fit(X)
    asked = [[95.0, 95.0, -7.0, 50.0], [50.0, -999.0, 0.0, 140.0], [5.0, 5.0, 0.0, -45.0]]
    np.testing.assert_allclose(fused.explain(asked), [[2, 1, 0], [0, -2, 2], [-2, -1, -2]], atol=1e-12)
    np.testing.assert_allclose(fused.score_samples(asked), [-3, 0, 5], atol=1e-12)
    # of 101 rows 5 may be rejected, those above 95, whose own score is 2 + 1 + 1
    assert fused.score_threshold_ == pytest.approx(4.0)


def test_novelty_weighs_as_much_as_all_evidence_together_by_hand() -> None:
    """Of 0..100 the sum of three equal columns spreads three times as far as one, of rows that move; that of a column
    and its reverse hardly or not at all, and novelty still counts once; without evidence novelty is the score."""
    X = np.repeat(np.arange(101.0)[:, None], 4, axis=1)
    assert EvidenceFusion(Spy(), evidence=(1, 2, 3)).fit(X).novelty_weight_ == pytest.approx(3.0)
    assert EvidenceFusion(Spy(), evidence=((1, 2), 3)).fit(X).novelty_weight_ == pytest.approx(2.0)
    assert EvidenceFusion(Spy(), evidence=(1, 2), novelty_weight=0.5).fit(X).novelty_weight_ == 0.5
    assert EvidenceFusion(Spy()).fit(X).novelty_weight_ == 1.0
    for rest in (0.0, 1e-6, 1e-9):
        against = np.column_stack([X[:, 0], X[:, 1], 100.0 - X[:, 1] * (1 - rest), X[:, 3]])
        assert EvidenceFusion(Spy(), evidence=(1, 2)).fit(against).novelty_weight_ == 1.0
    rare = np.zeros((100, 5))
    rare[:4, 1:3] = rare[4:8, 3:5] = 1e9  # no column spreads, their sum does, by twice the largest z
    assert EvidenceFusion(Spy(), evidence=(1, 2, 3, 4)).fit(rare).novelty_weight_ == LARGEST_Z
    still = np.concatenate([X, np.tile([0.0, -900.0, -900.0, -1.0], (300, 1))])
    assert EvidenceFusion(Spy(), evidence=(1, 2), moving=3).fit(still).novelty_weight_ == pytest.approx(2.0)
    fused = EvidenceFusion(Spy(), evidence=(1, 2)).fit(X)
    np.testing.assert_allclose(fused.explain([[95.0, 95.0, 95.0, 0.0]]), [[2, 1, 1]], atol=1e-12)


def test_person_with_nearly_all_rows_is_not_held_out_whole() -> None:
    """What the few rows of the others would call normal is little: three blocks of rows are held out in their place."""
    Spy.fitted.clear()
    EvidenceFusion(Spy()).fit(rows(), groups=["a"] * 97 + ["b"] * 3)
    assert [len(fitted) for fitted in Spy.fitted] == [66, 67, 67, 100]
    Spy.fitted.clear()
    EvidenceFusion(Spy()).fit(rows(), groups=["a"] * 95 + ["b"] * 5)
    assert sorted(len(fitted) for fitted in Spy.fitted) == [5, 95, 100]


def test_columns_that_must_come_together_count_by_the_least() -> None:
    """Quantiles of 0..100: 50 and 95. Columns 1 and 3 as one evidence, 2 alone, 1 once more alone."""
    X = np.repeat(np.arange(101.0)[:, None], 4, axis=1)
    fused = EvidenceFusion(Spy(), evidence=((1, "d"), 2, [1]), feature_names="abcd").fit(X)
    asked = [[50.0, 140.0, 95.0, 50.0], [50.0, 95.0, 50.0, 185.0], [50.0, 500.0, 50.0, -999.0]]
    np.testing.assert_allclose(fused.explain(asked), [[0, 0, 1, 2], [0, 1, 0, 1], [0, -2, 0, 10]], atol=1e-12)
    assert fused.scorer_.parts == ("novelty", "1 and d", "2", "1")


def test_scales_are_of_rows_that_move_by_hand() -> None:
    """Movement 0 in 300 rows and 10 in 101: the middle of its range is 5, and quantiles are of the 101 rows alone."""
    X = np.concatenate([np.full((300, 4), -50.0), np.repeat(np.arange(101.0)[:, None], 4, axis=1)])
    X[:300, 2], X[300:, 2] = 0.0, 10.0
    fused = EvidenceFusion(Spy(), evidence=(1,), feature_names="abcd", moving="c").fit(X)
    np.testing.assert_allclose(fused.explain([[95.0, 5.0, 0.0, 0.0]]), [[1, -1]], atol=1e-12)
    assert EvidenceFusion(Spy(), evidence=(1,)).fit(X).explain([[95.0, 5.0, 0.0, 0.0]])[0, 1] > 0
    still = np.full((50, 4), 1.0)
    np.testing.assert_allclose(EvidenceFusion(Spy(), moving=2).fit(still).explain(still + 1.0), np.ones((50, 1)))


def test_scales_of_few_rows_that_move_are_warned_of() -> None:
    """19 of 300 rows move: ten seconds of movement say little of what is normal."""
    X = rows(300)
    X[:, 2] = np.arange(300) >= 281
    with pytest.warns(UserWarning, match="only 19 of 300 windows move"):
        EvidenceFusion(Spy(), evidence=(1,), moving=2).fit(X)


@pytest.mark.parametrize("groups", [PEOPLE, [str(person) for person in PEOPLE]])
def test_no_fit_that_scales_novelty_sees_the_person_it_scores(groups: Any) -> None:
    """Three fits without one to two people each, whole people; the last fit, which is kept, has everybody."""
    X = rows()
    Spy.fitted.clear()
    EvidenceFusion(Spy(), n_folds=3).fit(X, groups=groups)
    *held_out, last = Spy.fitted
    assert len(held_out) == 3
    np.testing.assert_array_equal(last, X)
    left_out = []
    for seen in held_out:
        is_seen = (X[:, None] == seen[None]).all(axis=2).any(axis=1)
        left_out += np.unique(PEOPLE[~is_seen]).tolist()
        assert not set(PEOPLE[~is_seen]) & set(PEOPLE[is_seen])
    assert sorted(left_out) == [0, 1, 2, 3]


@pytest.mark.parametrize("groups", [None, np.zeros(90)])
def test_without_people_blocks_of_neighbouring_rows_are_held_out(groups: Any) -> None:
    """Rows in a row overlap in time: a third in one piece, not every third."""
    X = rows(90)
    Spy.fitted.clear()
    EvidenceFusion(Spy(), n_folds=3).fit(X, groups=groups)
    for seen, start in zip(Spy.fitted, (0, 30, 60), strict=False):
        np.testing.assert_array_equal(seen, np.delete(X, slice(start, start + 30), axis=0))


def test_novelty_is_scaled_by_held_out_and_not_by_training_scores() -> None:
    """A 1-NN distance is 0 on its own training rows; held out, half of the rows lie above its centre."""
    X = rows(600)
    fused = EvidenceFusion(OCNN(floor=1e6), random_state=0).fit(X, groups=np.arange(600) // 150)
    fresh = fused.explain(rows(2000, seed=1))[:, 0]
    # of the same law: .5 above 0 and .05 above 1, but for sampling; by training scores all would be above 1
    assert 0.4 < (fresh > 0).mean() < 0.6
    assert 0.02 < (fresh > 1).mean() < 0.1


def test_linear_scaling_of_the_columns_changes_no_evidence() -> None:
    """The scaler outside moves and stretches columns; z of evidence is the same."""
    X, asked = rows(), rows(20, seed=1)
    stretch, shift = np.array([1.0, 5.0, 0.1, 30.0]), np.array([0.0, 7.0, -1.0, 100.0])
    plain = EvidenceFusion(Spy(), evidence=(1, 2, 3)).fit(X).explain(asked)
    scaled = EvidenceFusion(Spy(), evidence=(1, 2, 3)).fit(X * stretch + shift).explain(asked * stretch + shift)
    np.testing.assert_allclose(scaled, plain, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("noise", [0.1, 0.01, 0.0])
@pytest.mark.parametrize("share", [0.0, 0.45, 0.6, 0.75])
def test_a_day_that_is_mostly_rest_does_not_blind_novelty(share: float, noise: float) -> None:
    """A movement unlike all others, without a trace in the evidence, is an outlier whatever the share of rest."""
    rng = np.random.default_rng(0)
    n_rest = round(2000 * share)
    moving, rest = rng.normal(size=(2000 - n_rest, 12)), -6.0 + noise * rng.normal(size=(n_rest, 12))
    X = np.concatenate([moving, rest])[rng.permutation(2000)]
    fused = EvidenceFusion(evidence=(0, 1), moving=2, random_state=0, n_jobs=1)
    fused.fit(X, groups=np.arange(2000) // 200)
    strange = np.full((1, 12), 8.0)
    strange[:, :2] = 0.0
    assert fused.predict(strange).tolist() == [-1]
    assert fused.explain(strange)[0, 0] > 3.0  # novelty alone outweighs the little evidence


def test_little_evidence_cannot_hide_a_strange_row() -> None:
    """A row far off downwards in its evidence loses 2 for each, and is still an outlier."""
    X = rows()
    far = [[0.0, -60.0, 0.0, -60.0]]
    alone = EvidenceFusion(random_state=0, n_jobs=1, novelty_weight=1.0).fit(X)
    fused = EvidenceFusion(evidence=(1, 3), random_state=0, n_jobs=1, novelty_weight=1.0).fit(X)
    np.testing.assert_allclose(fused.score_samples(far), alone.score_samples(far) + 4.0)
    assert fused.predict(far) == alone.predict(far) == -1


def test_constant_column_as_evidence_is_taken_as_it_is() -> None:
    """No spread to divide by: the scale is 1."""
    X = rows()
    X[:, 2] = 3.0
    parts = EvidenceFusion(Spy(), evidence=(2,)).fit(X).explain([[0.0, 0.0, 3.0, 0.0], [0.0, 0.0, 5.0, 0.0]])
    assert parts[:, 1].tolist() == [0.0, 2.0]


def test_huge_values_stay_finite() -> None:
    """Whatever a feature says, the score is a number."""
    fused = EvidenceFusion(evidence=(0, 1), random_state=0, n_jobs=1).fit(rows())
    scores = fused.to_scorer().score(np.array([[1e308, 1e308, 0.0, 0.0], [-1e308, 1e-308, 1e100, 0.0]]))
    assert np.isfinite(scores).all()
    assert scores[0] > 2 * LARGEST_Z
    with pytest.raises(ValueError, match="finite"):
        fused.to_scorer().score(np.full((1, 4), np.nan))


def test_row_scores_the_same_in_any_batch() -> None:
    """Bit for bit, alone or among others."""
    scorer = EvidenceFusion(evidence=(0, 3), random_state=0, n_jobs=1).fit(rows()).to_scorer()
    asked = rows(300, seed=2)
    together = scorer.score(asked)
    assert [float(scorer.score(row[None])[0]) for row in asked] == together.tolist()
    assert scorer.score(asked[::-3]).tolist() == together[::-3].tolist()
    assert scorer.explain(asked).sum(axis=1) == pytest.approx(together, rel=1e-12)


def test_seed_decides_all() -> None:
    """The same seed gives the same scores for any number of threads; another seed others."""
    X, asked = rows(), rows(5, seed=3)
    first, again, other = (
        EvidenceFusion(RandomProjectionEnsemble(combine="mean"), (0,), random_state=seed, n_jobs=jobs)
        .fit(X)
        .score_samples(asked)
        for seed, jobs in ((1, 1), (1, 2), (2, 1))
    )
    assert first.tolist() == again.tolist() != other.tolist()


def test_evidence_is_found_by_name_in_the_feature_set() -> None:
    """The preset names features; a feature set without them is refused before any data are read."""
    fused = preset("fused", feature_names=NAMES, n_jobs=1).fit(np.random.default_rng(0).normal(size=(150, 31)))
    aftermath = ("log_max_dynamic_acc", "tilt_first_last")
    impact = ("log_max_dynamic_acc", "log_peak_over_mad")
    assert fused.scorer_.parts == ("novelty", *impact, " and ".join(aftermath))
    columns = fused.scorer_.arrays()["columns"]
    assert [NAMES[column] for column in columns] == [*impact, *aftermath]
    assert [NAMES[column] for column in fused.scorer_.groups[2]] == list(aftermath)
    with pytest.raises(UsageError, match=r"must find feature log_max_dynamic_acc; got other features"):
        preset("fused", feature_names=("mean_acc_x_ms2",))


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"evidence": ("shock",)}, "evidence must be one of the features"),
        ({"evidence": ("hardnes",), "feature_names": ("a", "hardness", "c", "d")}, "Did you mean hardness?"),
        ({"evidence": (-1,)}, "evidence must be one of the features"),
        ({"evidence": (4,)}, "evidence must be below 4"),
        ({"evidence": (0, ())}, "evidence must be a list of columns, or of lists of them that are not empty"),
        ({"evidence": None}, "evidence must be a list of columns"),
        ({"evidence": "shock"}, "evidence must be a list of columns"),
        ({"evidence": ((0, 4),)}, "evidence must be below 4"),
        ({"moving": "shock"}, "moving must be one of the features"),
        ({"moving": 4}, "moving must be below 4"),
        ({"evidence": (2**70,)}, "evidence must be below 4"),
        ({"evidence": {"a": 5}}, "evidence must be a list of columns"),
        ({"novelty_weight": -1.0}, r"novelty_weight must be None or a number in \[0, 1e\+06\]"),
        ({"novelty_weight": 1e7}, r"novelty_weight must be None or a number in \[0, 1e\+06\]"),
        ({"feature_names": ("a", "b", "c")}, "feature_names must be None or a name for each of the 4 columns"),
        ({"feature_names": ("a", "b", "c", "c")}, "feature_names must be None or a name for each of the 4 columns"),
        ({"feature_names": (1, 2, 3, 4)}, "feature_names must be None or a name for each of the 4 columns"),
        ({"feature_names": 5}, "feature_names must be None or a name for each of the 4 columns"),
        ({"eta": 1.0}, r"eta must be a number in \[0, 1\)"),
        ({"n_folds": 1}, "n_folds must be an int >= 2"),
    ],
)
def test_bad_parameter_is_named(params: dict[str, Any], words: str) -> None:
    """One line says which, what must hold and what came."""
    with pytest.raises(ValueError, match=words):
        EvidenceFusion(Spy(), **params).fit(rows())
    with pytest.raises(ValueError, match=r"groups must have one entry a row of X \(100\); got 3"):
        EvidenceFusion(Spy()).fit(rows(), groups=[1, 2, 3])


def damaged() -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """What may be wrong with a stored fusion: arrays and params that replace its own (None: taken away)."""
    return {
        "no novelty": ({}, {"novelty": None}),
        "a fusion within": ({}, {"novelty": {"kind": "evidence_fusion", "params": {}}}),
        "an unknown kind": ({}, {"novelty": {"kind": "magic", "params": {}}}),
        "a kind that is no scorer": ({}, {"novelty": {"kind": "explanation", "params": {}}}),
        "names no list": ({}, {"names": "shock"}),
        "one name too many": ({}, {"names": ["a", "b", "c"]}),
        "weight no number": ({}, {"weight": "1"}),
        "weight below 0": ({}, {"weight": -1.0}),
        "no columns": ({"columns": None}, {}),
        "another array": ({"other": np.zeros(1)}, {}),
        "column beyond": ({"columns": np.array([0, 4])}, {}),
        "column below": ({"columns": np.array([-1, 0])}, {}),
        "columns of floats": ({"columns": np.array([0.0, 1.0])}, {}),
        "starts of floats": ({"starts": np.array([0.0, 1.0])}, {}),
        "starts from 1 on": ({"starts": np.array([1, 1])}, {}),
        "evidence without a column": ({"starts": np.array([0, 0])}, {}),
        "starts beyond": ({"starts": np.array([0, 2])}, {}),
        "columns of no evidence": ({"starts": np.array([], dtype=np.int64)}, {"names": []}),
        "scale 0": ({"scale": np.array([1.0, 0.0, 1.0])}, {}),
        "center NaN": ({"center": np.array([np.nan, 0.0, 0.0])}, {}),
        "novelty without rows": ({"novelty.X": None}, {}),
    }


def test_model_from_before_evidence_of_several_columns_scores_as_it_did() -> None:
    """Its file has no `starts`: each column is an evidence."""
    scorer = EvidenceFusion(evidence=(0, 3), random_state=0, n_jobs=1).fit(rows()).to_scorer()
    stored = {name: array for name, array in scorer.arrays().items() if name != "starts"}
    again = load_scorer(scorer.KIND, stored, scorer.params())
    assert again.score(rows(5, seed=1)).tolist() == scorer.score(rows(5, seed=1)).tolist()


def test_groups_without_their_starts_are_refused() -> None:
    """Which columns belong together cannot be told."""
    scorer = EvidenceFusion(evidence=((0, 3), 1), random_state=0, n_jobs=1).fit(rows()).to_scorer()
    stored = {name: array for name, array in scorer.arrays().items() if name != "starts"}
    with pytest.raises(ModelError, match="starts"):
        load_scorer(scorer.KIND, stored, scorer.params())


@pytest.mark.parametrize("case", damaged())
def test_damaged_fusion_is_refused(case: str) -> None:
    """Arrays and parameters of a model file are checked before they are used."""
    scorer = EvidenceFusion(evidence=(0, 1), random_state=0, n_jobs=1).fit(rows()).to_scorer()
    new_arrays, new_params = damaged()[case]
    arrays = {name: a for name, a in (scorer.arrays() | new_arrays).items() if a is not None}
    params = {name: p for name, p in (scorer.params() | new_params).items() if p is not None}
    with pytest.raises(ModelError):
        load_scorer(scorer.KIND, arrays, params)
