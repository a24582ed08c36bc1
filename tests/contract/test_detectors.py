"""What every detector and preset keeps, found by walking the package."""

import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import stream_occ.detectors
from stream_occ.detectors import (
    OCNN,
    SVDD,
    EvidenceFusion,
    KernelOCSVM,
    KernelPCANovelty,
    KernelRidgeAutoEncoder,
    KernelRidgeOCC,
    MultiLayerKRR,
    RandomProjectionEnsemble,
    RandomSubspaceEnsemble,
    SelectedDetector,
    preset,
    preset_names,
)
from stream_occ.errors import UsageError
from stream_occ.scoring import load_scorer

OCNN_PRESETS = {
    f"{rule}{suffix}"
    for rule in ("11NN", "11NN(theta)", "JKNN", "1KNN", "J1NN")
    for suffix in ("", "-RP", "-RS(50)", "-RS(75)")
} | {"working"}


@parametrize_with_checks(  # type: ignore[untyped-decorator]
    [
        OCNN(),
        OCNN(n_neighbors=2, k_neighbors=3, floor=1.0),
        RandomProjectionEnsemble(n_estimators=5),
        RandomProjectionEnsemble(combine="mean", n_estimators=3),
        RandomSubspaceEnsemble(n_estimators=4),
        EvidenceFusion(RandomProjectionEnsemble(combine="mean", n_estimators=3), evidence=(0,)),
        SelectedDetector(OCNN(), {"theta": [2.0, 1e6]}),
        KernelPCANovelty(),
        KernelPCANovelty(variance=0.85, bandwidth="mean"),
        KernelPCANovelty(n_landmarks=20, random_state=0),
        SVDD(),
        KernelOCSVM(),
        KernelOCSVM(nu=0.5, bandwidth="mean"),
        KernelRidgeOCC(),
        KernelRidgeOCC("cda", threshold="theta2", theta1_rule="paper"),
        KernelRidgeAutoEncoder("le"),
        MultiLayerKRR(),
        MultiLayerKRR(3, "lle", evidence="layers"),
        MultiLayerKRR(2, "sv", n_landmarks=5, evidence="layers"),
    ]
)
def test_scikit_learn_contract_holds(estimator: Any, check: Any) -> None:
    """scikit-learn's own estimator checks pass."""
    check(estimator)


@pytest.fixture(scope="module")
def rows() -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.tanh(rng.normal(size=(150, 3)) @ rng.normal(size=(3, 5))) + 0.05 * rng.normal(size=(150, 5))


@pytest.mark.parametrize("name", preset_names())
def test_preset_keeps_one_algebra(name: str, rows: np.ndarray) -> None:
    """Signs, thresholds and the frozen scorer agree; a far row is an outlier; the scorer survives its arrays."""
    names = ("log_max_dynamic_acc", "log_peak_over_mad", "log_std_acc", "tilt_first_last", "e")
    detector = clone(preset(name, random_state=0, feature_names=names))
    told: list[tuple[int, int]] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # tuned on a small table: optimum on the edge
        detector.fit(rows[:120], progress=lambda done, total: told.append((done, total)))
    Z = np.concatenate([rows[120:], 50.0 * rows[:5]])
    scorer = detector.to_scorer()
    scores, decided = scorer.score(Z), detector.decision_function(Z)
    assert np.isfinite(scores).all()
    np.testing.assert_array_equal(decided, detector.score_samples(Z) - detector.offset_)
    np.testing.assert_array_equal(detector.predict(Z), np.where(decided >= 0.0, 1, -1))
    np.testing.assert_array_equal(scores > detector.score_threshold_, detector.predict(Z) == -1)
    if not (isinstance(detector, MultiLayerKRR) and detector.evidence == "output"):  # the paper's depth hides far rows
        assert (detector.predict(Z[30:]) == -1).all()
    assert detector.score_one(Z[0]) == scores[0]
    again = load_scorer(scorer.KIND, scorer.arrays(), scorer.params())
    assert again.score(Z).tolist() == scores.tolist()
    assert told
    assert told[-1][0] == told[-1][1]


def test_presets_of_the_first_paper_are_there() -> None:
    """Five rules, single and in three ensembles, and the working mode; seed and threads are set where given."""
    assert set(preset_names()) >= OCNN_PRESETS
    made = preset("JKNN-RS(75)", random_state=7, n_jobs=1)
    assert (made.random_state, made.n_jobs, made.max_features, made.n_estimators) == (7, 1, 0.75, 25)
    assert (made.estimator.n_neighbors, made.estimator.k_neighbors, made.estimator.theta) == ("cv", "cv", 1.0)
    assert made.estimator.max_neighbors == 10
    assert preset("1KNN").get_params()["k_neighbors"] == "cv"
    assert preset("J1NN-RP").estimator.n_neighbors == "cv"
    assert preset("working").combine == "mean"


@pytest.mark.parametrize(
    ("name", "nearest"), [("JKN-RP", "JKNN-RP"), ("11nn(theta)-rp", "11NN(theta)-RP"), ("workin", "working")]
)
def test_unknown_preset_names_the_nearest(name: str, nearest: str) -> None:
    """The message offers the closest valid name."""
    with pytest.raises(UsageError, match="Did you mean") as caught:
        preset(name)
    assert f"Did you mean {nearest}?" in str(caught.value)


def test_names_are_found_lazily() -> None:
    """Importing the package alone imports neither scikit-learn nor scipy; an unknown name is an AttributeError."""
    code = "import sys, stream_occ.detectors; print(sorted({'sklearn', 'scipy', 'joblib'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        stream_occ.detectors.Nothing  # noqa: B018


def test_frozen_scorer_needs_numpy_alone() -> None:
    """What the running service imports of a detector brings in no scikit-learn, scipy or joblib."""
    heavy = "{'sklearn', 'scipy', 'joblib', 'river'}"
    code = f"import sys, stream_occ.scoring.ocnn_ensemble; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
