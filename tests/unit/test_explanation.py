"""What makes a window odd: robust z against the nearest normal rows, by hand; the rows that scorers keep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from stream_occ.artifacts import load_model
from stream_occ.detectors import preset, preset_names
from stream_occ.pipeline import Pipeline
from stream_occ.scoring.evidence_fusion import FrozenScorer
from stream_occ.scoring.explanation import Explainer, against_nearest, known_rows, spread_of
from tests.service_model import make_model, tumbling, walking

# Columns: 0..19, three constants. Nearest along the first axis to 7.2: 5 to 9, with median 7. Its median over all is
# 9.5, the median distance from there 5.
ROWS = np.concatenate([np.arange(20.0)[:, None], np.full((20, 3), [0.0, 2.0, -1.0])], axis=1)


class Keeps:
    """A scorer that keeps rows, or none."""

    def __init__(self, **arrays: np.ndarray) -> None:
        self._arrays = arrays

    def arrays(self) -> dict[str, np.ndarray]:
        return self._arrays


class Novelty(Keeps):
    """A scorer that says 2 of everything."""

    KIND = "novelty"
    n_features = 5

    def __init__(self, X: np.ndarray) -> None:
        super().__init__(X=X)

    def score(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), 2.0)


def test_row_is_set_beside_its_nearest_rows_on_the_scale_of_all() -> None:
    """(7.2 - 7) / (1.4826 * 5) in the first feature; constant ones have scale 1."""
    z = against_nearest(np.array([7.2, 0.0, -3.0, -1.0]), ROWS, spread_of(ROWS))
    np.testing.assert_allclose(z, [0.2 / (1.4826 * 5), 0.0, -5.0, 0.0], atol=1e-12)


def test_column_of_few_other_values_is_scaled_by_its_deviation() -> None:
    """Median absolute deviation 0, one in twenty is 2: standard deviation sqrt(.05 * .95) * 2."""
    rows = np.zeros((20, 1))
    rows[3] = 2.0
    assert against_nearest(np.array([1.0]), rows, spread_of(rows))[0] == pytest.approx(1 / (2 * np.sqrt(0.05 * 0.95)))


def test_furthest_features_come_first_with_their_sign() -> None:
    """Five of six, by size; equal ones in their order."""
    rows = np.zeros((21, 6))
    found = Explainer(Keeps(X=rows), "abcdef").explain(np.array([0.0, -9.0, 3.0, 3.0, 1.0, 20.0]))  # type: ignore[arg-type]
    assert found == (("f", 20.0), ("b", -9.0), ("c", 3.0), ("d", 3.0), ("e", 1.0))


def test_of_a_fusion_the_features_come_first_that_made_the_score() -> None:
    """Novelty adds 2, shared by squared z: 9 and 1 of 10 in the second and fourth; the third, hardly odd, is evidence
    of 4.7, the fourth of -1, which takes and does not make."""
    novelty = Novelty(np.tile([[0.0] * 5], (21, 1)))
    scorer = FrozenScorer(
        novelty,
        names=("c", "d"),
        columns=np.array([2, 3]),
        center=np.array([0.0, -4.6, 2.0]),
        scale=np.ones(3),
    )
    found = Explainer(scorer, "abcde").explain(np.array([0.0, 3.0, 0.1, 1.0, 0.0]))
    assert [name for name, _ in found] == ["c", "b", "d", "a", "e"]
    assert dict(found) == {"c": 0.1, "b": 3.0, "d": 1.0, "a": 0.0, "e": 0.0}


def test_scorer_without_rows_explains_nothing() -> None:
    """No rows, no explanation, no error."""
    assert Explainer(Keeps(weights=np.ones(3)), "ab").explain(np.zeros(2)) == ()  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore::stream_occ.detectors._base.TuningWarning")
@pytest.mark.parametrize("name", [name for name in preset_names() if not name.endswith(("_theta2", "-RP", "-RS(50)"))])
def test_every_kind_of_scorer_keeps_rows_of_the_features(name: str) -> None:
    """Training rows or landmarks, in the scaled space of the features: the far feature of a far row is named first."""
    X = np.random.default_rng(0).normal(size=(60, 5))
    names = ("log_max_dynamic_acc", "log_peak_over_mad", "log_std_acc", "d", "e")
    scorer = preset(name, random_state=0, n_jobs=1, feature_names=names).fit(X).to_scorer()
    rows = known_rows(scorer)
    assert rows is not None
    assert rows.shape[1] == 5
    assert Explainer(scorer, names).explain(np.array([0.0, 0.0, 0.0, 40.0, 0.0]))[0][0] == "d"


def test_every_flagged_window_says_in_what_it_is_odd(tmp_path: Path) -> None:
    """Those of an alert under way too; normal ones say nothing; the alert tells what the window that began it said."""
    pipeline = Pipeline(load_model(make_model(tmp_path)))
    blocks = [walking("w", 500, t0_ns=0), tumbling("w", 200, t0_ns=0, first=500)]
    state, decisions, alerts = pipeline.initial(), [], []
    for block in blocks:
        state, made, told = pipeline.step(state, [block], int(block.t_ns[-1]))
        decisions += made
        alerts += told
    said = [decision for decision in decisions if decision.contributions]
    assert said == [decision for decision in decisions if decision.label == "outlier"]
    assert len(said) > 1
    assert (said[0].t_end_ns, said[0].contributions) == (alerts[0].t_ns, alerts[0].contributions)
    sizes = [abs(z) for _, z in said[0].contributions]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > 3
    assert {name for name, _ in said[0].contributions} <= set(pipeline.model.feature_set.NAMES)
