"""Training for the demo: a random-projection OCNN on windows of the wearers' normal activity.

The same detector, scaler and model file as `stream-occ train` uses; two things differ, to be done in seconds: fewer
members and windows (scoring costs as much as there are rows), and the threshold comes from another day of the same
wearers, in place of cross-validation over people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from stream_occ import features
from stream_occ.artifacts import load_model, save_model
from stream_occ.demo.wearers import RATE_HZ, Plan
from stream_occ.detectors import OCNN, RandomProjectionEnsemble
from stream_occ.detectors.calibration import quantile_threshold
from stream_occ.detectors.scaling import fit_scaler
from stream_occ.features import FeatureSet
from stream_occ.samples import FloatArray, Recording
from stream_occ.scoring import Model
from stream_occ.windowing import cut_windows

FEATURE_SET = "khan31r"
WINDOW_S = 3.0
HOP_S = 0.5
TRAIN_HOP_S = 0.5
SCALER = "min-max"
N_MEMBERS = 9
N_NEIGHBORS = 1
FLOOR = 20.0  # in medians; the paper's rule is 0. As large as this the ratio is nearly the plain distance
REJECT_SHARE = 0.001  # of held-out normal windows
N_SELF_TEST = 16

ProgressReport = Callable[[str, int, int], None]


def train_demo_model(plan: Plan, path: Path, report: ProgressReport) -> Model:
    """Trains on the plan's normal lives, saves the model to `path` and returns it as loaded again."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1, user_api="blas"):  # threads gain nothing on products this small, and spin
        return _train(plan, path, report)


def _train(plan: Plan, path: Path, report: ProgressReport) -> Model:
    feature_set = features.load(FEATURE_SET)
    sos = features.design_lowpass(feature_set, RATE_HZ)

    def rows(lives: Iterable[Recording], hop_s: float, stage: str) -> FloatArray:
        found = []
        for done, life in enumerate(lives, start=1):
            found.append(extract_rows(life, hop_s, feature_set, sos))
            report(stage, done, plan.n_wearers)
        return np.concatenate(found)

    X = rows(plan.training_lives(), TRAIN_HOP_S * plan.thinning, "Recording normal activity")
    held_out = rows(plan.held_out_lives(), HOP_S, "Recording some more to set the threshold")
    scaler = fit_scaler(X, SCALER)
    detector = RandomProjectionEnsemble(
        OCNN(n_neighbors=N_NEIGHBORS, k_neighbors=N_NEIGHBORS, floor=FLOOR),
        n_estimators=N_MEMBERS,
        combine="mean",
        random_state=plan.seed,
        n_jobs=-1,
    )
    detector.fit(scaler.transform(X), progress=lambda done, n: report("Training the ensemble", done, n))
    scorer = detector.to_scorer()
    scores = _scored(scorer.score, scaler.transform(held_out), report)
    model = Model(
        model_id="",
        feature_set=feature_set,
        rate_hz=RATE_HZ,
        window_s=WINDOW_S,
        hop_s=HOP_S,
        sos=sos,
        scaler=scaler,
        scorer=scorer,
        threshold=quantile_threshold(scores, REJECT_SHARE),
        metadata={"training": {"synthetic": True, "seed": plan.seed, "n_windows": len(X)}},
    )
    save_model(model, path, self_test_X=held_out[:: max(1, len(held_out) // N_SELF_TEST)][:N_SELF_TEST])
    return load_model(path)


def extract_rows(recording: Recording, hop_s: float, feature_set: FeatureSet, sos: FloatArray | None) -> FloatArray:
    """Feature rows of a recording's windows."""
    batch = cut_windows(recording.block, rate_hz=RATE_HZ, window_s=WINDOW_S, hop_s=hop_s, sos=sos)
    return feature_set.extract(batch)


def _scored(score: Callable[[FloatArray], FloatArray], X: FloatArray, report: ProgressReport) -> FloatArray:
    parts = np.array_split(X, max(1, len(X) // 500))
    scores = []
    for done, part in enumerate(parts, start=1):
        scores.append(score(part))
        report("Setting the threshold", done, len(parts))
    return np.concatenate(scores)
