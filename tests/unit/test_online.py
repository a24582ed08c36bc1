"""Detectors that learn on a stream: equal to their batch twins at any time, bounded, guarded, and river's own."""

import math
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from river import checks, datasets

import stream_occ.detectors
from stream_occ.detectors import OCNN
from stream_occ.detectors.online import OnlineKernelRidge, SlidingOCNN
from stream_occ.events import EventPolicy, EventState, Observation, push
from stream_occ.samples import NS_PER_S, Decision, Label
from tests.reference import ocnn_loop, online_loop


def named(row: Any) -> dict[str, float]:
    return {f"f{i}": float(value) for i, value in enumerate(row)}


def learned(detector: Any, rows: Any) -> Any:
    for row in rows:
        detector.learn_one(named(row))
    return detector


OPEN: dict[str, Any] = {"hold_back": 0, "threshold": math.inf}  # learns all it is given


class CardRows:
    """Stands in for the table of card payments that river's checks download: rare rows off in 28 of 30 columns."""

    def take(self, n: int) -> Iterator[tuple[dict[str, float], int]]:
        rng = np.random.default_rng(0)
        for i in range(n):
            is_rare = i % 97 == 50
            values = rng.normal(scale=8.0 if is_rare else 1.0, size=28)
            row = {"Time": i / 2, **{f"V{j + 1}": value for j, value in enumerate(values.tolist())}}
            yield {**row, "Amount": float(rng.exponential(50.0))}, int(is_rare)


DETECTORS = [
    SlidingOCNN(window_size=200),
    SlidingOCNN(window_size=100, sampling="reservoir"),
    OnlineKernelRidge(n_landmarks=30, warm_up=60, seed=0),
    OnlineKernelRidge(n_landmarks=30, warm_up=60, forgetting_factor=0.99, seed=0),
    SlidingOCNN(window_size=50, n_trusted=50),
    OnlineKernelRidge(n_landmarks=30, warm_up=60, seed=0, n_trusted=50),
    SlidingOCNN(window_size=200, **OPEN),
    OnlineKernelRidge(n_landmarks=30, warm_up=60, seed=0, **OPEN),
]


@pytest.fixture(scope="module", autouse=True)
def card_rows() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "CreditCard", CardRows)
        yield


@pytest.mark.slow
@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: type(detector).__name__)
def test_rivers_own_checks_pass(detector: Any) -> None:
    """river's check_estimator passes, none of its checks left out."""
    assert detector._unit_test_skips() == set()
    checks.check_estimator(detector)


@pytest.mark.parametrize("sampling", ["window", "reservoir"])
@given(
    rows=st.lists(st.tuples(*[st.integers(0, 5)] * 2), min_size=8, max_size=60),
    window_size=st.integers(6, 20),
    j=st.integers(1, 4),
    k=st.integers(1, 4),
    floor=st.sampled_from([0.0, 1.0]),
)
@settings(max_examples=60, deadline=None)
def test_sliding_ocnn_equals_a_batch_fit_on_its_rows(
    sampling: Any, rows: list[Any], window_size: int, j: int, k: int, floor: float
) -> None:
    """After any sequence, duplicates and equal distances included, scores are those of OCNN fitted on the rows kept."""
    detector = SlidingOCNN(window_size, j, k, floor, sampling, seed=0, **OPEN)
    for n_learned, row in enumerate(rows, start=1):
        detector.learn_one(named(row))
        kept = detector.rows()
        if n_learned % 7 or len(kept) < max(j, k + 1) or np.ptp(kept, axis=0).max() == 0.0:
            continue
        if sampling == "window":
            assert kept.tolist() == [list(row) for row in rows[:n_learned][-window_size:]]
        tested = np.array([[0.5, 2.0], [2.0, 2.0], [9.0, -3.0], rows[0]])
        batch = OCNN(j, k, theta=1.0, floor=floor).fit(kept)
        for z in tested:
            ratio = ocnn_loop.nn_ratio(z.tolist(), kept.tolist(), j, k, floor)
            score = detector.score_one(named(z))
            assert score == pytest.approx(batch.score_one(z), rel=1e-9)
            assert score == pytest.approx(min(ratio, 1e300), rel=1e-9)


def test_sliding_ocnn_stays_exact_on_a_long_stream() -> None:
    """After 3,000 rows through a window of 150 the kept-up distances are those of a fit: no error builds up."""
    rng = np.random.default_rng(0)
    stream = np.cumsum(rng.normal(size=(3000, 5)), axis=0) * 0.1 + rng.normal(size=(3000, 5))
    detector = learned(SlidingOCNN(150, **OPEN), stream)
    batch = OCNN(5, 5, floor=10.0).fit(stream[-150:])
    for z in rng.normal(size=(20, 5)):
        assert detector.score_one(named(z)) == pytest.approx(batch.score_one(z), rel=1e-9)


def test_reservoir_keeps_a_uniform_sample() -> None:
    """Each of 300 rows is among the 30 kept in a tenth of 200 draws: chi-square within 4 standard deviations."""
    rows = [{"a": float(i)} for i in range(300)]
    counts = np.zeros(300)
    for seed in range(200):
        detector = SlidingOCNN(30, 1, 1, sampling="reservoir", seed=seed, **OPEN)
        for row in rows:
            detector.learn_one(row)
        counts[detector.rows()[:, 0].astype(int)] += 1
    assert counts.sum() == 30 * 200
    chi_square = ((counts - 20.0) ** 2 / (20.0 * 0.9)).sum()
    assert abs(chi_square - 299) < 4 * np.sqrt(2 * 299)


def test_later_features_count_as_zero_before() -> None:
    """A feature that comes late gives the same as rows that had it at 0 from the start."""
    late, early = SlidingOCNN(10, 1, 1, 0.0, **OPEN), SlidingOCNN(10, 1, 1, 0.0, **OPEN)
    for i in range(8):
        late.learn_one({"a": float(i * i)} if i < 5 else {"b": 1.0 * i, "a": float(i * i)})
        early.learn_one({"a": float(i * i), "b": 0.0 if i < 5 else 1.0 * i})
    assert late.score_one({"a": 7.0, "b": 3.0}) == early.score_one({"a": 7.0, "b": 3.0})


@pytest.mark.parametrize("n_learned", [0, 1, 12, 59, 60, 137])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_kernel_ridge_equals_one_system_over_all_rows(n_learned: int, C: float) -> None:
    """At any time the output is that of Nystrom ridge regression on all rows learned, to 1e-9."""
    rng = np.random.default_rng(1)
    landmarks, rows, tested = rng.normal(size=(12, 3)), rng.normal(size=(n_learned, 3)), rng.normal(size=(10, 3)) * 2
    detector = learned(OnlineKernelRidge(12, C, landmarks=[named(row) for row in landmarks], **OPEN), rows)
    if n_learned == 0:
        assert [detector.score_one(named(z)) for z in tested] == [1.0] * 10
        return
    expected = online_loop.outputs(tested.tolist(), rows.tolist(), [1.0] * n_learned, landmarks.tolist(), 1.0 / C)
    for z, output in zip(tested, expected, strict=True):
        assert detector.output_one(named(z)) == pytest.approx(output, abs=1e-9)
        assert detector.score_one(named(z)) == pytest.approx(abs(output - 1.0), abs=1e-9)


@pytest.mark.parametrize("n_learned", [5, 36, 41, 400])
def test_kernel_ridge_forgets_exponentially(n_learned: int) -> None:
    """With g = .9 a row of age n weighs g^n; the ridge stays I / C."""
    rng = np.random.default_rng(2)
    landmarks, rows, tested = rng.normal(size=(12, 3)), rng.normal(size=(n_learned, 3)), rng.normal(size=(10, 3)) * 2
    given_landmarks = [named(row) for row in landmarks]
    detector = learned(OnlineKernelRidge(12, 2.0, 0.9, landmarks=given_landmarks, **OPEN), rows)
    weights = [0.9**age for age in reversed(range(n_learned))]
    expected = online_loop.outputs(tested.tolist(), rows.tolist(), weights, landmarks.tolist(), 0.5)
    for z, output in zip(tested, expected, strict=True):
        assert detector.output_one(named(z)) == pytest.approx(output, abs=1e-9)


def test_kernel_ridge_draws_landmarks_from_the_warm_up() -> None:
    """After the warm-up all its rows are learned; landmarks are some of them; another seed draws others."""
    rows = np.random.default_rng(3).normal(size=(60, 2))
    detectors = [learned(OnlineKernelRidge(8, warm_up=40, seed=seed, **OPEN), rows) for seed in (0, 0, 1)]
    scores = [detector.score_one(named([0.3, -0.2])) for detector in detectors]
    assert scores[0] == scores[1] != scores[2]
    assert detectors[0].n_learned == 60
    points = detectors[0]._kernel.points.tolist()
    assert len(points) == 8
    assert all(point in rows[:40].tolist() for point in points)
    given_again = OnlineKernelRidge(8, landmarks=[named(point) for point in points], **OPEN)
    assert learned(given_again, rows).score_one(named([0.3, -0.2])) == pytest.approx(scores[0], abs=1e-9)


def test_kernel_ridge_waits_while_rows_are_all_alike() -> None:
    """A stuck sensor gives no bandwidth: rows go on waiting, a bounded number, and nothing is scored."""
    detector = learned(OnlineKernelRidge(4, warm_up=10, seed=0, **OPEN), [[1.0, 2.0]] * 50)
    assert detector.score_one(named([9.0, 9.0])) == 0.0
    assert len(detector._first) < 10
    learned(detector, np.random.default_rng(0).normal(size=(20, 2)))
    assert detector.score_one(named([9.0, 9.0])) == pytest.approx(1.0)


@pytest.mark.parametrize("make", [lambda: SlidingOCNN(60), lambda: OnlineKernelRidge(40, C=100.0, warm_up=60, seed=0)])
def test_far_rows_score_higher(make: Any) -> None:
    """Every row four units off scores above nearly all rows of the kind that was learned."""
    rng = np.random.default_rng(4)
    detector = learned(make(), rng.normal(size=(300, 3)))
    near = [detector.score_one(named(z)) for z in rng.normal(size=(100, 3))]
    far = [detector.score_one(named(z)) for z in 4.0 + rng.normal(size=(100, 3)) * 0.3]
    assert min(far) > np.quantile(near, 0.97)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: type(detector).__name__)
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_is_refused(detector: Any, value: float) -> None:
    """NaN and infinity raise one line that names the feature, and nothing is learned of the row."""
    fresh = learned(detector.clone(), np.random.default_rng(0).normal(size=(80, 2)))
    before = fresh.score_one({"f0": 0.5, "f1": 0.5})
    for act in (fresh.learn_one, fresh.score_one):
        with pytest.raises(ValueError, match=r"^x must be finite; got NaN or infinity in f1$"):
            act({"f0": 0.0, "f1": value})
    assert fresh.score_one({"f0": 0.5, "f1": 0.5}) == before


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: SlidingOCNN(window_size=5), "window_size must be an int >= 6; got 5"),
        (lambda: SlidingOCNN(n_neighbors=0), "n_neighbors must be an int >= 1; got 0"),
        (lambda: SlidingOCNN(sampling="all"), 'sampling must be "window" or "reservoir"; got \'all\''),
        (lambda: OnlineKernelRidge(C=0.0), "C must be a finite number > 0; got 0.0"),
        (
            lambda: OnlineKernelRidge(forgetting_factor=1.5),
            "forgetting_factor must be in (0, 1]; got 1.5",
        ),
        (lambda: OnlineKernelRidge(warm_up=20), "warm_up must be an int >= 100; got 20"),
        (lambda: SlidingOCNN(quantile=1.0), "quantile must be in [0.5, 1); got 1.0"),
        (lambda: OnlineKernelRidge(n_trusted=0), "n_trusted must be an int >= 1; got 0"),
        (lambda: SlidingOCNN(threshold=math.nan), "threshold must be a number, infinity or None; got nan"),
    ],
)
def test_a_bad_parameter_is_named(make: Any, text: str) -> None:
    """One line says which parameter, what must hold and what came."""
    with pytest.raises(ValueError, match=r"must be") as caught:
        make()
    assert str(caught.value) == text


LEARNERS = {
    "window": lambda: SlidingOCNN(300, n_trusted=200),
    "reservoir": lambda: SlidingOCNN(300, sampling="reservoir", seed=0, n_trusted=200),
    "ridge": lambda: OnlineKernelRidge(40, 10.0, 0.995, warm_up=100, seed=0, n_trusted=200),
}


def settled(kind: str) -> Any:
    """A learner whose guard has its limit: 700 normal rows of three features."""
    return learned(LEARNERS[kind](), np.random.default_rng(5).normal(size=(700, 3)))


def state(detector: Any) -> bytes:
    """All that a learner holds, bit by bit, but its count of refusals; after a score, which caches what it needs."""
    detector.score_one(named([0.0, 0.0, 0.0]))
    return pickle.dumps({name: value for name, value in vars(detector).items() if name != "n_refused"})


@pytest.mark.parametrize("kind", LEARNERS)
def test_burst_of_far_rows_leaves_the_learner_bit_identical(kind: str) -> None:
    """300 rows eight units off, no alert open: refused and counted, and not a bit of the learner differs."""
    detector = settled(kind)
    before, n_refused = state(detector), detector.n_refused["score"]
    learned(detector, 8.0 + np.random.default_rng(6).normal(scale=0.2, size=(300, 3)))
    assert state(detector) == before
    assert detector.n_refused["score"] == n_refused + 300
    learned(detector, [[0.1, 0.2, 0.3]])
    assert state(detector) != before


@pytest.mark.parametrize("kind", LEARNERS)
def test_nothing_is_learned_while_an_alert_is_open(kind: str) -> None:
    """Normal rows too, and those that wait, are refused and counted until the caller takes the flag back."""
    detector, row = settled(kind), named([0.1, 0.2, 0.3])
    before, n_learned = detector.score_one(named([2.0, 2.0, 2.0])), detector.n_learned
    detector.is_alert_open = True
    assert detector.refusal(row) == "alert"
    for _ in range(50):
        detector.learn_one(row)
    assert (detector.score_one(named([2.0, 2.0, 2.0])), detector.n_learned) == (before, n_learned)
    assert detector.n_refused["alert"] == 50 + 20  # and the 20 that waited
    detector.is_alert_open = False
    for _ in range(21):
        detector.learn_one(row)
    assert (detector.n_learned, detector.refusal(named([30.0, 0.0, 0.0]))) == (n_learned + 1, "score")


@pytest.mark.parametrize("kind", ["window", "ridge"])
def test_slow_lasting_change_is_followed(kind: str) -> None:
    """Rows wander 1.5 units off in 6,000: at the end nearly all are learned, and what is far is still refused."""
    rng, detector = np.random.default_rng(7), settled(kind)
    first_limit = detector.limit
    learned(detector, rng.normal(size=(6000, 3)) + np.linspace(0.0, 1.5, 6000)[:, None])
    n_learned = detector.n_learned
    learned(detector, rng.normal(size=(1000, 3)) + 1.5)
    assert detector.n_learned - n_learned > 900
    assert detector.refusal(named([9.0, 9.0, 9.0])) == "score"
    # a window's scores follow by themselves; with landmarks that stand still they rise, and the limit with them
    assert detector.limit > first_limit or kind == "window"


def test_limit_neither_sinks_nor_rises_on_a_steady_stream() -> None:
    """After forty renewals it refuses between .2 and 5 % of normal rows: cut off at itself, it does not shrink."""
    detector = settled("reservoir")
    learned(detector, np.random.default_rng(8).normal(size=(8000, 3)))
    n_refused = detector.n_refused["score"]
    learned(detector, np.random.default_rng(9).normal(size=(2000, 3)))
    assert 4 <= detector.n_refused["score"] - n_refused <= 100


def test_limit_by_hand() -> None:
    """The later four of 1..8 have median 6.5 and 75th percentile 7.25: .75 above each eight's median, or 7.25."""
    detector = SlidingOCNN(quantile=0.75, n_trusted=8, hold_back=0)
    for score in (1.0, 2.0, 3.0, 4.0, 0.0, 5.0, 6.0, 7.0, 8.0):
        detector._move_limit(score)
    assert detector.limit == 7.25
    for scores, limit in (([1, 6, 7, 7, 8, 8, 8, 9], 8.25), ([1, 1, 1, 2, 4, 5, 5, 5], 7.25)):
        for score in scores:
            before = detector.limit
            detector._move_limit(float(score))
        assert (detector.limit, before == limit) == (limit, False)


@pytest.mark.parametrize("share", [0.05, 0.3])
def test_guard_keeps_poison_out(share: float) -> None:
    """Abnormal rows, a few for long, are never learned; the same stream turns a learner without a guard round."""
    rng = np.random.default_rng(6)
    bare, guard = SlidingOCNN(300, **OPEN), settled("window")
    learned(bare, np.random.default_rng(5).normal(size=(700, 3)))
    poison = named([8.0, 8.0, 8.0])
    first = guard.score_one(poison)
    for _ in range(1500):
        is_poison = rng.random() < share
        row = (8.0 if is_poison else 0.0) + rng.normal(scale=0.2 if is_poison else 1.0, size=3)
        learned(bare, [row])
        learned(guard, [row])
    assert (guard.rows() < 5.0).all()
    assert guard.score_one(poison) > 0.85 * first > 2.0 * bare.score_one(poison)


def test_guard_holds_rows_back() -> None:
    """A row is learned when hold_back later ones have come, so that it is no neighbour of the windows it overlaps."""
    detector = SlidingOCNN(10, 1, 1, 0.0, hold_back=3)
    for value in range(6):
        detector.learn_one({"a": float(value)})
    assert detector.rows()[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert detector.n_learned == 3


def test_guard_with_a_threshold_starts_at_once() -> None:
    """A given threshold holds from the first row that is scored, for good, and a tie is learned."""
    detector = SlidingOCNN(10, 1, 1, 0.0, hold_back=0, threshold=3.0, n_trusted=1)
    for value in (0.0, 1.0, 2.0, 3.0):
        detector.learn_one({"a": value})
    assert (detector.refusal({"a": 6.0}), detector.refusal({"a": 6.5})) == (None, "score")  # ratios 3 / 1 and 3.5 / 1


def test_online_is_no_place_to_look_for_presets() -> None:
    """Presets are found, and names looked up, without river; the module itself is reached by its name."""
    code = (
        "import sys; from stream_occ.detectors import OCNN, preset_names; preset_names(); print('river' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert stream_occ.detectors.online.SlidingOCNN is SlidingOCNN


def test_shortest_memories_give_finite_scores() -> None:
    """However fast it forgets, no score of 400 rows is NaN or absurd: the ridge stays."""
    rows = np.random.default_rng(3).normal(size=(400, 4))
    for factor in (0.75, 1e-3):
        detector = OnlineKernelRidge(50, forgetting_factor=factor, warm_up=60, seed=0, **OPEN)
        scores = [detector.score_one(named(row)) for row in rows if learned(detector, [row])]
        assert np.isfinite(scores).all()
        assert max(scores) < 2.0


def test_nothing_of_an_alert_of_the_event_engine_is_learned() -> None:
    """Windows of a burst that the engine alarms on, and those just before it, are refused; the rest are learned."""
    guard = SlidingOCNN(50, 1, 1, hold_back=4, threshold=math.inf)
    engine, policy = EventState(), EventPolicy(k=2, n=3, clear_after_s=2.0)
    scores = [0.0] * 10 + [5.0] * 3 + [0.0] * 10
    for i, score in enumerate(scores):
        t_ns = i * NS_PER_S // 2
        label: Label = "outlier" if score > 1.0 else "normal"
        engine, _ = push(engine, Observation.of(Decision("a", t_ns, score, 1.0, label, "m")), policy)
        guard.is_alert_open = engine.state != "normal"
        guard.learn_one({"x": float(i)})
    learned_values = sorted(guard.rows()[:, 0].tolist())
    assert set(learned_values).isdisjoint(range(8, 16))
    assert {0.0, 1.0, 2.0, 3.0} <= set(learned_values)
