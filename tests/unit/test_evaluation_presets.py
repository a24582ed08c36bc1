"""Detectors as methods of evaluation: names, scaling, what they are fitted on."""

import numpy as np
import pytest

from stream_occ.errors import ConfigError, DataError, UsageError
from stream_occ.evaluation.extraction import FrontEnd
from stream_occ.evaluation.presets import DetectorMethod, default_method, methods_of, note_of_landmarks
from stream_occ.evaluation.protocol import stack
from stream_occ.training.config import TrainingConfig
from tests.unit.evaluation_people import trial


def normal_windows(n=120, seed=0):
    rng = np.random.default_rng(seed)
    return stack([trial("a", "1", rng.normal(size=(n, 2))), trial("b", "2", rng.normal(size=(n, 2)))], [0, 1])


def asked_windows():
    return stack([trial("c", "3", [[0.0, 0.0], [8.0, -8.0]])], [0])


def test_default_is_the_configurations_detector_window_and_scaler():
    """Left out, it is the fused preset on fall31 windows of 5 s every 0.5 s at 50 Hz, z-scored."""
    method, front_end = default_method(TrainingConfig())
    assert (method.key, method.preset, method.scaling) == ("default", "fused", "z-score")
    assert front_end == FrontEnd("fall31", 50.0, 5.0, 0.5)


def test_methods_are_found_by_name_and_once():
    """Baselines, presets and the default, in the order asked for."""
    chosen, _ = methods_of(["knn5", "11NN(theta)-RP", "default", "knn5"], TrainingConfig())
    assert [method.key for method in chosen] == ["knn5", "11NN(theta)-RP", "default"]
    assert chosen[1].scaling == "min-max"


def test_unknown_method_is_one_line():
    """The known ones are listed."""
    with pytest.raises(UsageError, match=r"^--methods: must be among default, peak_acc, .*; got 'knn'\."):
        methods_of(["knn"], TrainingConfig())
    with pytest.raises(UsageError, match="name at least one method"):
        methods_of([], TrainingConfig())


def test_unknown_parameter_of_the_detector_is_told_before_any_data_are_read():
    """A typo in the model configuration costs no run."""
    config = TrainingConfig.model_validate({"detector": {"name": "11NN", "params": {"tetha": 2.0}}})
    with pytest.raises(ConfigError, match=r"detector\.params: must be parameters of 11NN"):
        methods_of(["default"], config)


@pytest.mark.parametrize("preset", ["11NN", "11NN(theta)-RP", "JKNN", "working"])
def test_presets_score_a_distant_window_above_a_central_one(preset):
    """Scores are finite, high = abnormal; votes are scored by the share of members that reject."""
    score = DetectorMethod("x", preset, scaling="min-max").fit(normal_windows(), seed=3)
    near, far = score(asked_windows())
    assert np.isfinite([near, far]).all()
    assert far > near


def test_same_seed_gives_the_same_scores():
    """Random projections are drawn from the seed of the fit."""
    method = DetectorMethod("x", "11NN-RP", params={"n_estimators": 5})
    first, again, other = (method.fit(normal_windows(), seed=s)(normal_windows(seed=5)) for s in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_methods_on_landmarks_are_named():
    """Kernel methods with more than 5,000 windows to train on; not others, nor with landmarks of one's own."""
    methods, _ = methods_of(["knn5", "KOC", "KPCA", "11NN", "SVDD"], TrainingConfig())
    methods.append(DetectorMethod("mine", "KOC", {"n_landmarks": 7}))
    said = "KOC, KPCA: fitted on 1000 landmarks where a fold trains on more than 5000 windows"
    assert note_of_landmarks(methods, 5001) == [said]
    assert note_of_landmarks(methods, 5000) == []
    assert note_of_landmarks([DetectorMethod("x", "KOC", stride=5)], 25_004) == []


def test_stride_and_limit_choose_training_windows_within_recordings():
    """Every third window of each recording, counted from its first; at most as many as the limit says."""
    windows = stack([trial("a", "1", np.zeros((5, 2))), trial("b", "2", np.zeros((4, 2)))], [0, 1])
    assert DetectorMethod("x", stride=3)._rows(windows, 0).tolist() == [0, 3, 5, 8]
    assert len(DetectorMethod("x", stride=3, max_windows=2)._rows(windows, 0)) == 2


def test_training_windows_that_do_not_suit_the_detector_are_one_line():
    """Two windows are too few for the cross-validation of J and K."""
    few = stack([trial("a", "1", [[0.0, 1.0], [1.0, 0.0]])], [0])
    with pytest.raises(DataError, match=r"^method x: must suit the training windows"):
        DetectorMethod("x", "JKNN").fit(few, seed=0)
