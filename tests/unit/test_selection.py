"""Selection without outliers: candidates whose held-out behaviour is known by hand, and real detectors in a grid."""

import itertools
from typing import Any, ClassVar, Self

import numpy as np
import pytest
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.estimator_checks import parametrize_with_checks

from stream_occ.detectors import OCNN, MultiLayerKRR
from stream_occ.detectors._base import FrozenScorerMixin
from stream_occ.detectors.selection import (
    SelectedDetector,
    SelectionWarning,
    candidates_of,
    consistency_limit,
    gmean,
    group_arguments,
    held_out_rejections,
)
from stream_occ.samples import FloatArray
from stream_occ.training import TrainingConfig, fitting


class Reach:
    """Scores a row by its distance from the origin: all that the tests' detector needs."""

    KIND = "reach"
    n_features = 1

    def score(self, X: FloatArray) -> FloatArray:
        return np.abs(X[:, 0])


class Radius(FrozenScorerMixin, BaseEstimator):  # type: ignore[misc]
    """Rejects what lies farther than `radius` from 0, whatever it was trained on; counts its fits."""

    fitted: ClassVar[list[tuple[float, int]]] = []

    def __init__(self, radius: float = 1.0, eta: float = 0.5, random_state: Any = None) -> None:
        self.radius = radius
        self.eta = eta
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None) -> Self:
        Radius.fitted.append((self.radius, len(np.asarray(X))))
        self.n_features_in_ = 1
        self.scorer_, self.score_threshold_ = Reach(), float(self.radius)  # type: ignore[assignment]
        self.offset_ = -self.score_threshold_
        return self


@pytest.fixture
def line() -> np.ndarray:
    """Rows 1..100: a radius of r rejects exactly (100 - r) % of them."""
    Radius.fitted = []
    return np.arange(1.0, 101.0)[:, None]


def chosen(X: np.ndarray, radii: list[float], **parameters: Any) -> SelectedDetector:
    return SelectedDetector(Radius(), {"radius": radii}, random_state=0, **parameters).fit(X)


@pytest.mark.parametrize(
    ("eta", "n", "limit"),
    [(0.05, 19, 0.15), (0.05, 475, 0.07), (0.2, 100, 0.28), (0.5, 1, 1.5)],  # .0475/19 = .0025, root .05
)
def test_consistency_limit_by_hand(eta: float, n: int, limit: float) -> None:
    """eta plus two standard errors of a share eta among n rows."""
    assert consistency_limit(eta, n) == pytest.approx(limit, rel=1e-14)


def test_too_complex_candidate_is_passed_over(line: np.ndarray) -> None:
    """Half rejected, then 9 %, then 8 %: at eta = 5 % of 100 rows the limit is 9.36 %, so the second is taken."""
    found = chosen(line, [50.0, 91.0, 92.0])
    assert (found.index_, found.params_) == (1, {"radius": 91.0})
    assert found.measured_.tolist() == [0.5, 0.09]  # the third was never tried
    assert [radius for radius, _ in Radius.fitted] == [50.0] * 5 + [91.0] * 5 + [91.0]
    assert [n for _, n in Radius.fitted] == [80] * 10 + [100]  # four folds of five, then all


def test_more_rejection_than_the_limit_is_inconsistent(line: np.ndarray) -> None:
    """10 % is above 9.36 %; with eta = 10 % the limit is 16 % and it passes."""
    assert chosen(line, [90.0, 95.0]).params_ == {"radius": 95.0}
    assert chosen(line, [90.0, 95.0], eta=0.1).params_ == {"radius": 90.0}


def test_no_consistent_candidate_gives_the_least_rejection_and_a_warning(line: np.ndarray) -> None:
    """All reject too much: the least is taken, of equals the simplest (last), and the warning says how much it is."""
    with pytest.warns(SelectionWarning, match=r"at most 0\.0936 .* the least, 0\.3,"):
        found = chosen(line, [10.0, 70.0, 70.5, 40.0])
    assert found.index_ == 2
    assert found.measured_.tolist() == [0.9, 0.3, 0.3, 0.6]


def test_consistency_never_counts_a_row_by_a_model_that_saw_it() -> None:
    """11NN accepts any training row, so a resubstitution rate would be 0; held out it rejects about half."""
    X = np.random.default_rng(0).normal(size=(100, 3))
    found = SelectedDetector(OCNN(), {"theta": [1.0, 50.0]}, random_state=0).fit(X)
    assert (OCNN().fit(X).predict(X) == 1).all()
    assert 0.3 < found.measured_[0] < 0.7
    assert found.params_ == {"theta": 50.0}


def proxies_at_the_ends() -> np.ndarray:
    """95 rows within 1 of the origin and 5 far off: Algorithm 2 at omega = 1.5 marks exactly the five."""
    return np.concatenate([np.linspace(-1.0, 1.0, 95), [8.0, -8.0, 9.0, -9.0, 10.0]])[:, None]


def test_proxy_rule_takes_the_best_gmean() -> None:
    """Radius 0.5 accepts half the targets, 1 all of them and no proxy, 8.5 all and two proxies, 99 everything.

    Each of the five folds has one proxy and nineteen targets. Mean gmeans: sqrt of the share within 0.5, averaged;
    1; 3/5, since the two folds whose proxy is at +-8 have 0; and 0.
    """
    Radius.fitted = []
    found = chosen(proxies_at_the_ends(), [0.5, 1.0, 8.5, 99.0], rule="iqr-proxy")
    assert found.params_ == {"radius": 1.0}
    assert found.measured_[0] == pytest.approx(np.sqrt(47 / 95), abs=0.03)
    assert found.measured_[1:].tolist() == pytest.approx([1.0, 0.6, 0.0])
    assert {n for _, n in Radius.fitted} == {76, 100}  # proxies never train a fold; all rows train the last fit


@pytest.mark.parametrize("constant", [-1.0, 99.0])
@pytest.mark.parametrize("last", [True, False])
def test_constant_detector_cannot_win_the_proxy_rule(constant: float, last: bool) -> None:
    """One that rejects all or accepts all has gmean 0 and loses to one that rejects a single proxy, in any place."""
    radii = [9.5, constant] if last else [constant, 9.5]
    found = chosen(proxies_at_the_ends(), radii, rule="iqr-proxy")
    assert found.params_ == {"radius": 9.5}
    assert found.measured_[int(last)] == 0.0


def test_proxy_ties_go_to_the_simplest() -> None:
    """Radii 1 and 2 and 3 part targets from proxies alike: the last listed is taken."""
    assert chosen(proxies_at_the_ends(), [1.0, 3.0, 2.0, 0.1], rule="iqr-proxy").params_ == {"radius": 2.0}


def test_proxy_rule_warns_where_nothing_tells_apart() -> None:
    """Candidates that accept everything have gmean 0, and a warning says so."""
    with pytest.warns(SelectionWarning, match="no candidate accepts"):
        assert chosen(proxies_at_the_ends(), [98.0, 99.0], rule="iqr-proxy").index_ == 1


def test_people_are_held_out_whole() -> None:
    """Six people 100 apart: a row has neighbours of its own person to train on, a person held out has none."""
    rng = np.random.default_rng(3)
    people = np.repeat(np.arange(6), 30)
    X = 100.0 * people[:, None] + rng.normal(size=(180, 2))
    detector = SelectedDetector(OCNN(k_neighbors=2, theta=10.0), random_state=0)
    assert detector.fit(X).measured_[0] < 0.05
    for rule in ("consistency", "iqr-proxy"):
        with pytest.warns(SelectionWarning):
            detector.set_params(rule=rule).fit(X, groups=people.astype(str))
        assert detector.measured_.tolist() == ([1.0] if rule == "consistency" else [0.0])


def test_held_out_rejections_train_on_the_other_folds_alone() -> None:
    """Three clusters in two folds: those of one fold reject the cluster that only the other fold has."""
    X = np.array([0.0, 1.0, 2.0, 0.5, 1.5, 100.0])[:, None]
    fold = np.array([0, 0, 0, 1, 1, 1])
    assert held_out_rejections(OCNN(theta=3.0), X, fold).tolist() == [False, False, False, False, False, True]
    spared = held_out_rejections(OCNN(theta=3.0), X, fold, trains=np.array([True] * 5 + [False]))
    assert spared.tolist() == [False, False, False, False, False, True]


def test_candidates_are_ordered_seeded_and_share_eta() -> None:
    """First parameter slowest; eta and the seed reach the estimators unless the grid gives them."""
    combinations, candidates = candidates_of(Radius(), {"radius": [3.0, 2.0], "eta": [0.1, 0.2]}, eta=0.05, seed=7)
    assert combinations == [
        {"radius": 3.0, "eta": 0.1},
        {"radius": 3.0, "eta": 0.2},
        {"radius": 2.0, "eta": 0.1},
        {"radius": 2.0, "eta": 0.2},
    ]
    assert [(item.radius, item.eta, item.random_state) for item in candidates[:2]] == [(3.0, 0.1, 7), (3.0, 0.2, 7)]
    assert candidates_of(Radius(), {}, eta=0.05, seed=7)[1][0].eta == 0.05
    assert len(candidates_of(OCNN(), {}, eta=0.05, seed=7)[1]) == 1


def test_gmean_by_hand() -> None:
    """3 of 4 targets accepted and 1 of 3 outliers rejected: sqrt(3/4 * 1/3) = 1/2."""
    rejected = np.array([False, False, False, True, True, False, False])
    assert gmean(rejected, np.array([False] * 4 + [True] * 3)) == pytest.approx(0.5, rel=1e-15)


def test_seed_gives_the_same_and_progress_ends_full(line: np.ndarray) -> None:
    """Two fits of one seed agree; progress ends at its total though later candidates were not tried."""
    told: list[tuple[int, int]] = []
    X = np.random.default_rng(1).normal(size=(60, 2))
    detector = SelectedDetector(OCNN(), {"theta": [0.9, 2.0, 4.0, 8.0]}, random_state=5)
    first = detector.fit(X, progress=lambda done, total: told.append((done, total))).measured_.tolist()
    assert detector.fit(X).measured_.tolist() == first
    assert told[-1] == (5, 5)
    assert detector.decides_by_itself
    assert not SelectedDetector(OCNN(floor=1.0)).decides_by_itself


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"rule": "outliers"}, "rule must be consistency or iqr-proxy; got 'outliers'"),
        ({"eta": 0.0}, r"eta must be a share in \(0, 1\)"),
        ({"n_folds": 1}, "n_folds must be an int >= 2"),
        ({"grid": {"theta": []}}, r"grid\['theta'\] must be a list of values, most complex first"),
        ({"grid": {"theta": "abc"}}, r"grid\['theta'\] must be a list of values"),
        ({"grid": {"nothing": [1]}}, "Invalid parameter 'nothing'"),
        ({"estimator": "11NN"}, "estimator must be a detector of stream_occ or None"),
    ],
)
def test_bad_parameters_are_named(parameters: dict[str, Any], message: str) -> None:
    """Each refusal says which parameter and what must hold."""
    with pytest.raises(ValueError, match=message):
        SelectedDetector(**parameters).fit(np.arange(20.0)[:, None])


@pytest.mark.filterwarnings("ignore::stream_occ.detectors.selection.SelectionWarning")  # the checks fit tiny tables
@parametrize_with_checks([SelectedDetector(), SelectedDetector(OCNN(floor=1.0), {"theta": [2.0, 1.0]}, "iqr-proxy")])  # type: ignore[untyped-decorator]
def test_scikit_learn_contract_holds(estimator: Any, check: Any) -> None:
    """scikit-learn's own estimator checks pass under both rules."""
    check(estimator)


def test_what_no_fold_may_split() -> None:
    """People where there are two, else minutes, shorter in short data; nothing for a detector that takes no groups."""
    two = ["a", "b", "a"]
    assert group_arguments(SelectedDetector(), two) == {"groups": two}
    for n_rows, size, n_parts in ((40, 4, 10), (3000, 120, 25)):
        parts = group_arguments(SelectedDetector(), ["a"] * n_rows)["groups"].tolist()
        assert parts == sorted(parts)
        assert [parts.count(part) for part in range(n_parts)] == [size] * n_parts
    assert group_arguments(OCNN(), two) == {}


def test_trainer_says_who_is_who(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trainer's fit hands people over to a detector that chooses by them."""
    seen, real = [], SelectedDetector.fit

    def spy(self: SelectedDetector, X: ArrayLike, y: object = None, *, groups: Any = None, progress: Any = None) -> Any:
        seen.append(groups)
        return real(self, X, y, groups=groups, progress=progress)

    monkeypatch.setattr(SelectedDetector, "fit", spy)
    config = TrainingConfig.model_validate({"detector": {"name": "KOC_iqr-proxy"}, "scaler": "z-score"})
    X, people = np.random.default_rng(0).normal(size=(60, 2)), ["a"] * 20 + ["b"] * 20 + ["c"] * 20
    fitting.fit(X, config, "Fitting", lambda stage, done, total: None, [], people)
    assert seen == [people]


def test_groups_must_fit_the_rows_and_be_two() -> None:
    """One name a row, and at least two different ones."""
    X = np.arange(20.0)[:, None]
    with pytest.raises(ValueError, match=r"one entry a row of X \(20\); got 3"):
        SelectedDetector().fit(X, groups=["a", "b", "c"])
    with pytest.raises(ValueError, match="at least two people or recordings; got 1"):
        SelectedDetector().fit(X, groups=["a"] * 20)


@pytest.mark.parametrize(
    ("graph", "grid"),
    [
        ("cda", {"n_layers": (2, 1), "C": (64.0, 8.0), "lam": (0.125, 8.0), "n_clusters": (8, 3)}),
        ("lle", {"n_layers": (2, 1), "C": (64.0, 8.0), "lam": (0.125, 8.0), "graph_neighbors": (8, 3)}),
    ],
)
def test_kernel_ridge_is_chosen_along_all_its_axes(graph: Any, grid: dict[str, Any]) -> None:
    """Layers, C, lambda and clusters or neighbours: the first of 16 candidates whose held-out rejection passes."""
    rng = np.random.default_rng(1)
    X = np.tanh(rng.normal(size=(150, 2)) @ rng.normal(size=(2, 4))) + 0.05 * rng.normal(size=(150, 4))
    found = SelectedDetector(MultiLayerKRR(graph=graph), grid, random_state=0).fit(X)
    limit = 0.05 + 2 * np.sqrt(0.05 * 0.95 / 150)
    places = list(itertools.product(*grid.values()))
    assert tuple(found.params_[name] for name in grid) == places[found.index_]
    assert found.measured_[-1] <= limit
    assert all(share > limit for share in found.measured_[:-1])
    assert len(found.measured_) == found.index_ + 1
    told = found.tuning_summary()
    assert told["chosen"] == {name: float(value) for name, value in found.params_.items()}
    assert told["selection by consistency"]["measured"] == found.measured_[-1]
    assert found.index_ > 0  # C = 64 rejects too many rows that it has not seen
