"""Detectors that learn on a stream: equal to their batch twins at any time, bounded, guarded, and river's own."""

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
from stream_occ.detectors.online import GuardedLearner, OnlineKernelRidge, SlidingOCNN
from stream_occ.events import EventPolicy, EventState, Observation, push
from stream_occ.samples import NS_PER_S, Decision, Label
from tests.reference import ocnn_loop, online_loop


def named(row: Any) -> dict[str, float]:
    return {f"f{i}": float(value) for i, value in enumerate(row)}


def learned(detector: Any, rows: Any) -> Any:
    for row in rows:
        detector.learn_one(named(row))
    return detector


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
    GuardedLearner(SlidingOCNN(window_size=50), warm_up=50),
    GuardedLearner(OnlineKernelRidge(n_landmarks=30, warm_up=60, seed=0), warm_up=50),
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
    detector = SlidingOCNN(window_size, j, k, floor, sampling, seed=0)
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
    detector = learned(SlidingOCNN(150), stream)
    batch = OCNN(5, 5, floor=10.0).fit(stream[-150:])
    for z in rng.normal(size=(20, 5)):
        assert detector.score_one(named(z)) == pytest.approx(batch.score_one(z), rel=1e-9)


def test_reservoir_keeps_a_uniform_sample() -> None:
    """Each of 300 rows is among the 30 kept in a tenth of 200 draws: chi-square within 4 standard deviations."""
    rows = [{"a": float(i)} for i in range(300)]
    counts = np.zeros(300)
    for seed in range(200):
        detector = SlidingOCNN(30, 1, 1, sampling="reservoir", seed=seed)
        for row in rows:
            detector.learn_one(row)
        counts[detector.rows()[:, 0].astype(int)] += 1
    assert counts.sum() == 30 * 200
    chi_square = ((counts - 20.0) ** 2 / (20.0 * 0.9)).sum()
    assert abs(chi_square - 299) < 4 * np.sqrt(2 * 299)


def test_later_features_count_as_zero_before() -> None:
    """A feature that comes late gives the same as rows that had it at 0 from the start."""
    late, early = SlidingOCNN(10, 1, 1, 0.0), SlidingOCNN(10, 1, 1, 0.0)
    for i in range(8):
        late.learn_one({"a": float(i * i)} if i < 5 else {"b": 1.0 * i, "a": float(i * i)})
        early.learn_one({"a": float(i * i), "b": 0.0 if i < 5 else 1.0 * i})
    assert late.score_one({"a": 7.0, "b": 3.0}) == early.score_one({"a": 7.0, "b": 3.0})


@pytest.mark.parametrize("n_learned", [0, 1, 12, 59, 60, 137])
@pytest.mark.parametrize("C", [0.1, 10.0])
def test_kernel_ridge_equals_one_system_over_all_rows(n_learned: int, C: float) -> None:
    """At any time the output is that of Nystrom ridge regression on all rows learned, to 1e-8."""
    rng = np.random.default_rng(1)
    landmarks, rows, tested = rng.normal(size=(12, 3)), rng.normal(size=(n_learned, 3)), rng.normal(size=(10, 3)) * 2
    detector = learned(OnlineKernelRidge(12, C, landmarks=[named(row) for row in landmarks]), rows)
    if n_learned == 0:
        assert [detector.score_one(named(z)) for z in tested] == [1.0] * 10
        return
    expected = online_loop.outputs(tested.tolist(), rows.tolist(), [1.0] * n_learned, landmarks.tolist(), 1.0 / C)
    for z, output in zip(tested, expected, strict=True):
        assert detector.output_one(named(z)) == pytest.approx(output, abs=1e-8)
        assert detector.score_one(named(z)) == pytest.approx(abs(output - 1.0), abs=1e-8)


@pytest.mark.parametrize("n_learned", [5, 36, 41, 400])
def test_kernel_ridge_forgets_exponentially(n_learned: int) -> None:
    """With g = .9 a row of age n weighs g^n; the ridge fades from I / C for at most n_landmarks rows."""
    rng = np.random.default_rng(2)
    landmarks, rows, tested = rng.normal(size=(12, 3)), rng.normal(size=(n_learned, 3)), rng.normal(size=(10, 3)) * 2
    given_landmarks = [named(row) for row in landmarks]
    detector = learned(OnlineKernelRidge(12, 2.0, 0.9, landmarks=given_landmarks), rows)
    weights = [0.9**age for age in reversed(range(n_learned))]
    ridge = 0.9 ** (n_learned % 12) / 2.0
    expected = online_loop.outputs(tested.tolist(), rows.tolist(), weights, landmarks.tolist(), ridge)
    for z, output in zip(tested, expected, strict=True):
        assert detector.output_one(named(z)) == pytest.approx(output, abs=1e-8)


def test_kernel_ridge_draws_landmarks_from_the_warm_up() -> None:
    """After the warm-up all its rows are learned; landmarks are some of them; another seed draws others."""
    rows = np.random.default_rng(3).normal(size=(60, 2))
    detectors = [learned(OnlineKernelRidge(8, warm_up=40, seed=seed), rows) for seed in (0, 0, 1)]
    scores = [detector.score_one(named([0.3, -0.2])) for detector in detectors]
    assert scores[0] == scores[1] != scores[2]
    assert detectors[0].n_seen == 60
    points = detectors[0]._kernel.points.tolist()
    assert len(points) == 8
    assert all(point in rows[:40].tolist() for point in points)
    given_again = OnlineKernelRidge(8, landmarks=[named(point) for point in points])
    assert learned(given_again, rows).score_one(named([0.3, -0.2])) == pytest.approx(scores[0], abs=1e-8)


def test_kernel_ridge_waits_while_rows_are_all_alike() -> None:
    """A stuck sensor gives no bandwidth: rows go on waiting, a bounded number, and nothing is scored."""
    detector = learned(OnlineKernelRidge(4, warm_up=10, seed=0), [[1.0, 2.0]] * 50)
    assert detector.score_one(named([9.0, 9.0])) == 0.0
    assert len(detector._waiting) < 10
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
            "forgetting_factor must be in [0.8710, 1] with 100 landmarks; got 1.5",
        ),
        (lambda: OnlineKernelRidge(warm_up=20), "warm_up must be an int >= 100; got 20"),
        (lambda: GuardedLearner(SlidingOCNN(), quantile=1.0), "quantile must be in (0, 1); got 1.0"),
    ],
)
def test_a_bad_parameter_is_named(make: Any, text: str) -> None:
    """One line says which parameter, what must hold and what came."""
    with pytest.raises(ValueError, match=r"must be") as caught:
        make()
    assert str(caught.value) == text


def guarded(**changes: Any) -> GuardedLearner:
    detector = GuardedLearner(SlidingOCNN(window_size=300), warm_up=200, **changes)
    return learned(detector, np.random.default_rng(5).normal(size=(300, 3)))  # type: ignore[no-any-return]


@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
def test_guard_keeps_poison_out(share: float) -> None:
    """Abnormal rows, a few for long or in one burst, are never learned; the same stream turns a bare detector round."""
    rng = np.random.default_rng(6)
    bare, guard = SlidingOCNN(window_size=300), guarded()
    for row in np.random.default_rng(5).normal(size=(300, 3)):
        bare.learn_one(named(row))
    poison = named([8.0, 8.0, 8.0])
    first = guard.score_one(poison)
    assert bare.score_one(poison) == pytest.approx(first, rel=0.02)  # the guard has refused a few rows
    n_refused_before = guard.n_refused["score"]
    n_poison = n_normal = 0
    for _ in range(1500):
        is_poison = rng.random() < share
        centre = 8.0 if is_poison else 0.0
        row = named(centre + rng.normal(scale=0.2 if is_poison else 1.0, size=3))
        bare.learn_one(row)
        guard.learn_one(row)
        n_poison, n_normal = n_poison + is_poison, n_normal + (not is_poison)
    assert (guard.detector.rows() < 5.0).all()
    assert guard.score_one(poison) > 0.9 * first > 2.0 * bare.score_one(poison)
    n_refused_normals = guard.n_refused["score"] - n_refused_before - n_poison
    assert 0 <= n_refused_normals <= 0.1 * n_normal  # 1 % by the quantile; what it keeps out narrows the window


def test_guard_learns_nothing_while_an_alert_is_open() -> None:
    """Normal rows too are refused and counted until the caller takes the flag back; the scores do not move."""
    guard = guarded()
    row, probe = named([0.1, 0.2, 0.3]), named([2.0, 2.0, 2.0])
    before, n_learned = guard.score_one(probe), guard.n_learned
    guard.is_alert_open = True
    assert guard.refusal(row) == "alert"
    for _ in range(50):
        guard.learn_one(row)
    assert (guard.score_one(probe), guard.n_learned) == (before, n_learned)
    assert guard.n_refused["alert"] == 50 + 20  # and the 20 that waited
    guard.is_alert_open = False
    for _ in range(21):
        guard.learn_one(row)
    assert (guard.n_learned, guard.refusal(named([30.0, 0.0, 0.0]))) == (n_learned + 1, "score")


def test_guard_holds_rows_back() -> None:
    """A row is learned when hold_back later ones have come, so that it is no neighbour of the windows it overlaps."""
    guard = GuardedLearner(SlidingOCNN(10, 1, 1, 0.0), hold_back=3)
    for value in range(6):
        guard.learn_one({"a": float(value)})
    assert guard.detector.rows()[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert guard.n_learned == 3


def test_guard_with_a_threshold_starts_at_once() -> None:
    """A given threshold holds from the first row that is scored, and a tie is learned."""
    guard = GuardedLearner(SlidingOCNN(10, 1, 1, 0.0), hold_back=0, threshold=3.0)
    for value in (0.0, 1.0, 2.0):
        guard.learn_one({"a": value})
    assert (guard.refusal({"a": 5.0}), guard.refusal({"a": 5.5})) == (None, "score")  # ratios 3 / 1 and 3.5 / 1


def test_online_is_no_place_to_look_for_presets() -> None:
    """Presets are found, and names looked up, without river; the module itself is reached by its name."""
    code = (
        "import sys; from stream_occ.detectors import OCNN, preset_names; preset_names(); print('river' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
    assert stream_occ.detectors.online.SlidingOCNN is SlidingOCNN


def test_shortest_memory_that_is_accepted_gives_finite_scores() -> None:
    """At the least forgetting factor no score of 400 rows is NaN or absurd; one below is refused."""
    rows = np.random.default_rng(3).normal(size=(400, 4))
    detector = OnlineKernelRidge(50, forgetting_factor=0.7586, warm_up=60, seed=0)
    scores = [detector.score_one(named(row)) for row in rows if learned(detector, [row])]
    assert np.isfinite(scores).all()
    assert max(scores) < 2.0
    with pytest.raises(ValueError, match="forgetting_factor must be in"):
        OnlineKernelRidge(50, forgetting_factor=0.7585)


def test_nothing_of_an_alert_of_the_event_engine_is_learned() -> None:
    """Windows of a burst that the engine alarms on, and those just before it, are refused; the rest are learned."""
    guard = GuardedLearner(SlidingOCNN(window_size=50, n_neighbors=1, k_neighbors=1), hold_back=4, threshold=1e9)
    state, policy = EventState(), EventPolicy(k=2, n=3, clear_after_s=2.0)
    scores = [0.0] * 10 + [5.0] * 3 + [0.0] * 10
    for i, score in enumerate(scores):
        t_ns = i * NS_PER_S // 2
        label: Label = "outlier" if score > 1.0 else "normal"
        state, _ = push(state, Observation.of(Decision("a", t_ns, score, 1.0, label, "m")), policy)
        guard.is_alert_open = state.state != "normal"
        guard.learn_one({"x": float(i)})
    learned_values = sorted(guard.detector._X[: guard.detector._n_rows, 0].tolist())
    assert set(learned_values).isdisjoint(range(8, 16))
    assert {0.0, 1.0, 2.0, 3.0} <= set(learned_values)
