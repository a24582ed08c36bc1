"""Models that tell nothing apart: refused, or by a paper's own rule written with a warning."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from stream_occ.artifacts import load_model, save_model
from stream_occ.training import fitting, train
from stream_occ.training.anomalies import check_tells_apart, inject_anomalies, note_of_anomalies
from stream_occ.training.report import render_report
from tests import fake_model
from tests.unit.training_recordings import Source, config, people, refusal


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
