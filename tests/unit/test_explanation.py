"""What made a decision: robust z against the nearest normal rows, by hand and by a loop; the rows that scorers keep."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stream_occ.artifacts import load_model
from stream_occ.detectors import preset, preset_names
from stream_occ.neighbors import NearestRows
from stream_occ.pipeline import Pipeline
from stream_occ.samples import Decision, SampleBlock
from stream_occ.scoring import Model
from stream_occ.scoring._explanation import Explainer, known_rows, robust_z, spread_of
from stream_occ.scoring.evidence_fusion import FrozenScorer
from stream_occ.scoring.ocnn_ensemble import FrozenScorer as NeighborScorer
from stream_occ.windowing import cut_windows
from tests.reference.explanation_loop import explained
from tests.reference.ocnn_loop import neighbors
from tests.service_model import make_model, tumbling, walking

# Columns: 0..19, three constants. Nearest along the first axis to 7.2: 5 to 9, with median 7. Its median over all is
# 9.5, the median distance from there 5.
ROWS = np.concatenate([np.arange(20.0)[:, None], np.full((20, 3), [0.0, 2.0, -1.0])], axis=1)
NAMES = ("log_max_dynamic_acc", "log_peak_over_mad", "log_std_acc", "tilt_first_last", "e")


class Keeps:
    """A scorer that keeps rows, or none, and says `says` of everything."""

    KIND = "keeps"

    def __init__(self, n_features: int, says: float = 2.0, **arrays: np.ndarray) -> None:
        self.n_features, self._says, self._arrays = n_features, says, arrays

    def arrays(self) -> dict[str, np.ndarray]:
        return self._arrays

    def score(self, X: np.ndarray) -> np.ndarray:
        return np.full(len(X), self._says)


def told(scorer: object, names: str, x: list[float]) -> tuple[tuple[str, float], ...]:
    """What is told of one row."""
    return Explainer(scorer, names).judge(np.array([x]))[1][0]  # type: ignore[arg-type]


def fusion(novelty: float) -> FrozenScorer:
    """Novelty adds so much; columns c and d are evidence of 4.6 + c and d - 2; the rows are zeros."""
    return FrozenScorer(
        Keeps(5, novelty, X=np.zeros((21, 5))),  # type: ignore[arg-type]
        names=("c", "d"),
        columns=np.array([2, 3]),
        starts=np.array([0, 1]),
        center=np.array([0.0, -4.6, 2.0]),
        scale=np.ones(3),
    )


def test_row_is_set_beside_its_nearest_rows_on_the_scale_of_all() -> None:
    """(7.2 - 7) / (1.4826 * 5) in the first feature; constant ones have scale 1."""
    assert told(Keeps(4, X=ROWS), "abcd", [7.2, 0.0, -3.0, -1.0]) == (
        ("c", -5.0),
        ("a", pytest.approx(0.2 / (1.4826 * 5), rel=1e-12)),
        ("b", 0.0),
        ("d", 0.0),
    )


def test_column_of_few_other_values_is_scaled_by_its_deviation() -> None:
    """Median absolute deviation 0, one in twenty is 2: standard deviation sqrt(.05 * .95) * 2."""
    rows = np.zeros((20, 1))
    rows[3] = 2.0
    z = robust_z(np.array([[1.0]]), rows[None, 5:10], spread_of(rows))
    assert z[0, 0] == pytest.approx(1 / (2 * np.sqrt(0.05 * 0.95)))


def test_furthest_features_come_first_with_their_sign() -> None:
    """Five of six, by size; equal ones in their order."""
    found = told(Keeps(6, X=np.zeros((21, 6))), "abcdef", [0.0, -9.0, 3.0, 3.0, 1.0, 20.0])
    assert found == (("f", 20.0), ("b", -9.0), ("c", 3.0), ("d", 3.0), ("e", 1.0))


def test_what_no_scale_can_hold_is_told_as_a_million() -> None:
    """1e100 and more, over a scale of 1: finite, the sign kept."""
    found = told(Keeps(2, X=np.zeros((21, 2))), "ab", [1.0, -1e200])
    assert found == (("b", -1e6), ("a", 1.0))


def test_of_a_fusion_the_features_come_first_that_made_the_score() -> None:
    """Novelty adds 2, shared by squared z: 9 and 1 of 10 in the second and fourth; the third, hardly odd, is evidence
    of 4.7, the fourth of -1, which takes and does not make."""
    found = told(fusion(2.0), "abcde", [0.0, 3.0, 0.1, 1.0, 0.0])
    assert found == (("c", 0.1), ("b", 3.0), ("d", 1.0), ("a", 0.0), ("e", 0.0))


def test_evidence_of_two_columns_is_shared_by_them() -> None:
    """The least of 4.6 + 0.1 and 6 is 4.7, half of it each; alone, the fourth would be second to what is furthest."""
    scorer = FrozenScorer(
        Keeps(5, -1.5, X=np.zeros((21, 5))),  # type: ignore[arg-type]
        names=("c and d",),
        columns=np.array([2, 3]),
        starts=np.array([0]),
        center=np.array([0.0, -4.6, 2.0]),
        scale=np.array([1.0, 1.0, 1.0]),
    )
    found = told(scorer, "abcde", [-0.2, 0.5, 0.1, 8.0, -0.9])
    assert found == (("d", 8.0), ("c", 0.1), ("e", -0.9), ("b", 0.5), ("a", -0.2))


def test_where_novelty_adds_nothing_evidence_comes_first_then_the_furthest() -> None:
    """Novelty -1.5, evidence c 4.7 and d -1.4 (taken off): c, then by |z| alone, also the fourth."""
    found = told(fusion(-1.5), "abcde", [-0.2, 0.5, 0.1, 0.6, -0.9])
    assert found == (("c", 0.1), ("e", -0.9), ("d", 0.6), ("b", 0.5), ("a", -0.2))


def test_where_nothing_adds_to_the_score_the_furthest_come_first() -> None:
    """Novelty -1.5, evidence c -0.4 and d -2, as of most normal windows: not the first five, but by |z|."""
    found = told(fusion(-1.5), "abcde", [0.0, 0.1, -5.0, -3.0, 0.3])
    assert found == (("c", -5.0), ("d", -3.0), ("e", 0.3), ("b", 0.1), ("a", 0.0))


def test_scorer_without_rows_is_not_explained() -> None:
    """No rows, or none left: no explanation, no error, the scores all the same."""
    for scorer in (Keeps(2, weights=np.ones(3)), Keeps(2, X=np.empty((0, 2)))):
        scores, found = Explainer(scorer, "ab").judge(np.zeros((2, 2)))  # type: ignore[arg-type]
        assert (scores.tolist(), found) == ([2.0, 2.0], [(), ()])


@pytest.mark.filterwarnings("ignore::stream_occ.detectors._base.TuningWarning")
@pytest.mark.parametrize("name", preset_names())
def test_every_preset_explains_normal_and_strange_rows_as_the_loop_does(name: str) -> None:
    """The loop's features in its order; scores are the scorer's, to the bit, and a row alone gets what it gets among
    others. The far feature of a far row is named first."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 5))
    scorer = preset(name, random_state=0, n_jobs=1, feature_names=NAMES).fit(X).to_scorer()
    asked = np.concatenate(
        [X[:3], rng.normal(size=(6, 5)), 4.0 * rng.normal(size=(4, 5)), [[0.0, 0.0, 0.0, 40.0, 0.0]]]
    )
    explainer = Explainer(scorer, NAMES)
    scores, found = explainer.judge(asked)
    assert scores.tolist() == scorer.score(asked).tolist()
    rows = known_rows(scorer)
    assert rows is not None
    for i, x in enumerate(asked):
        parts = None
        if isinstance(scorer, FrozenScorer):
            novelty, *evidence = scorer.explain(x[None])[0].tolist()
            parts = {None: novelty}
            for group, part in zip(scorer.groups, evidence, strict=True):  # equal shares within a group
                columns = group.tolist()
                for column in columns:
                    parts[column] = parts.get(column, 0.0) + max(part, 0.0) / len(columns)
        expected = explained(x.tolist(), rows.tolist(), parts)
        assert [key for key, _ in found[i]] == [NAMES[c] for c, _ in expected]
        np.testing.assert_allclose([z for _, z in found[i]], [z for _, z in expected], rtol=1e-12, atol=1e-12)
        assert explainer.judge(x[None])[1] == [found[i]]
    assert found[-1][0][0] == NAMES[3]


def plain(rows: np.ndarray, j: int, **changes: object) -> NeighborScorer:
    """Neighbours in the space of the rows themselves."""
    fields = {
        "maps": np.eye(rows.shape[1])[None],
        "own_distance": np.ones((1, len(rows))),
        "n_neighbors": np.array([j]),
        "theta": np.ones(1),
        "floor": np.zeros(1),
        "combine": "single",
    } | changes
    return NeighborScorer(rows, **fields)  # type: ignore[arg-type]


def test_neighbours_that_the_scorer_found_are_not_searched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever J is, nothing else is searched; the answer is a search's, on a lattice full of ties."""
    rng = np.random.default_rng(1)
    rows, asked = rng.integers(0, 3, size=(400, 4)).astype(float), rng.integers(0, 3, size=(300, 4)) + 0.5
    searched = Explainer(Keeps(4, X=rows), "abcd").judge(asked)[1]  # type: ignore[arg-type]
    monkeypatch.delattr(NearestRows, "of")
    for j in (1, 3, 5, 7):
        scores, found = Explainer(plain(rows, j), "abcd").judge(asked)
        assert found == searched
        assert scores.tolist() == plain(rows, j).score(asked).tolist()


def test_scorer_hands_over_the_rows_that_it_found() -> None:
    """Nearest first, ties by lower row, as the loop; none with a map, with rows left out or with several members."""
    rng = np.random.default_rng(2)
    rows, asked = rng.integers(0, 3, size=(50, 3)).astype(float), rng.normal(size=(20, 3))
    for k in (1, 6, 9, 50):
        scores, nearest = plain(rows, 6).score_and_nearest(asked, k)
        assert nearest is not None
        assert nearest.tolist() == [[number for _, number in neighbors(x, rows.tolist(), k)] for x in asked.tolist()]
        assert scores.tolist() == plain(rows, 6).score(asked).tolist()
    two = {name: np.ones((2, *shape)) for name, shape in {"theta": (), "floor": (), "own_distance": (50,)}.items()}
    two |= {"maps": np.stack([np.eye(3)] * 2), "n_neighbors": np.array([6, 6]), "combine": "mean"}
    for changes in (
        two,
        {"maps": np.eye(3)[None, ::-1]},
        {"own_distance": np.where(np.arange(50) == 7, -1.0, 1.0)[None]},
    ):
        assert plain(rows, 6, **changes).score_and_nearest(asked, 5)[1] is None


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """The bench's model: walking is normal."""
    return load_model(make_model(tmp_path_factory.mktemp("model")))


def stream() -> SampleBlock:
    """Ten seconds of walking, then four of tumbling."""
    parts = walking("w", 500, t0_ns=0), tumbling("w", 200, t0_ns=0, first=500)
    signals = zip(*((part.t_ns, part.acc_ms2, part.gyr_rads) for part in parts), strict=True)
    return SampleBlock("w", *(np.concatenate(signal) for signal in signals))


def decided(model: Model, size: int, devices: str = "w") -> list[Decision]:
    """The decisions of the stream in messages of so many samples, from each of the devices."""
    pipeline, block, decisions = Pipeline(model), stream(), []
    state = pipeline.initial()
    for start in range(0, len(block), size):
        part = slice(start, start + size)
        sent = [SampleBlock(name, block.t_ns[part], block.acc_ms2[part], block.gyr_rads[part]) for name in devices]
        state, made, _ = pipeline.step(state, sent, int(sent[0].t_ns[-1]))
        decisions += made
    return decisions


def test_every_decision_is_explained_whatever_it_is(model: Model) -> None:
    """Normal windows too, five features each, the furthest first; flagged ones are farther out."""
    decisions = decided(model, 500)
    sizes = {"normal": [], "outlier": []}
    for decision in decisions:
        z = [abs(value) for _, value in decision.contributions]
        assert len(z) == 5
        assert z == sorted(z, reverse=True)
        assert {name for name, _ in decision.contributions} <= set(model.feature_set.NAMES)
        sizes[decision.label].append(z[0])
    assert min(len(found) for found in sizes.values()) > 5
    assert np.median(sizes["normal"]) < 3.0 < min(sizes["outlier"])


def test_explanation_is_the_same_offline_and_in_any_messages(model: Model) -> None:
    """Bit by bit: the windows of the whole recording at once, single samples, odd messages, three devices at once."""
    shape = {"rate_hz": model.rate_hz, "window_s": model.window_s, "hop_s": model.hop_s}
    batch = cut_windows(stream(), **shape, sos=model.sos)
    offline = model.judge(model.feature_set.extract(batch))[1]
    for size in (1, 37, 700):
        assert [decision.contributions for decision in decided(model, size)] == offline
    for name in "abc":
        beside = [decision for decision in decided(model, 113, "abc") if decision.device_id == name]
        assert [decision.contributions for decision in beside] == offline


def test_alert_tells_what_the_window_that_began_it_told(model: Model) -> None:
    """The first flagged window's features, with every change of the alert."""
    pipeline, block = Pipeline(model), stream()
    _, decisions, alerts = pipeline.step(pipeline.initial(), [block], int(block.t_ns[-1]))
    first = next(decision for decision in decisions if decision.label == "outlier")
    assert len(alerts) > 1
    assert {alert.contributions for alert in alerts} == {first.contributions}


def test_warmed_model_opens_no_search_at_its_first_window(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A scorer of kernels has none of its own: opened by the first message it would compile there, for a minute."""
    rows, n_opened = np.random.default_rng(0).normal(size=(30, 31)), 0

    def counted(X: np.ndarray) -> NearestRows:
        nonlocal n_opened
        n_opened += 1
        return NearestRows(X)

    monkeypatch.setattr("stream_occ.scoring._explanation.open_rows", counted)
    model = replace(load_model(make_model(tmp_path)), scorer=Keeps(31, X=rows))  # type: ignore[arg-type]
    model.warm()
    assert n_opened == 1
    model.judge(rows[:3])
    assert n_opened == 1
