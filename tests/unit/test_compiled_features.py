"""The feature sets by compiled code: the numbers that numpy gives, to the bit, whatever the window."""

from collections.abc import Iterator

import numpy as np
import pytest

from stream_occ import engines
from stream_occ.features import FeatureSet, load
from stream_occ.windowing import WindowBatch
from tests.contract.test_features import battery
from tests.reference import features_fall31_loop
from tests.unit.test_features_fall31 import walk

SETS = ("fall31", "khan31r", "khan31r-nofilter")


@pytest.fixture(autouse=True)
def _compiled() -> Iterator[None]:
    pytest.importorskip("numba")
    yield
    engines.select("auto")


def extract(engine: str, feature_set: FeatureSet, signals: np.ndarray, rate_hz: float) -> np.ndarray:
    """Features by one engine."""
    n = len(signals)
    engines.select(engine)
    engines.warm()
    return feature_set.extract(WindowBatch(("dev",) * n, np.zeros(n, dtype=np.int64), rate_hz, signals))


def rows(n: int, m: int, seed: int) -> np.ndarray:
    """Windows of rest, noise, motion, sensors of few bits, halves without a value, and none at all."""
    rng = np.random.default_rng(seed)
    signals = rng.normal(size=(n, 6, m)) * rng.choice([0.0, 1e-3, 0.02, 1.0, 8.0], size=(n, 1, 1))
    signals[:, 2] += rng.choice([0.0, 9.80665], size=(n, 1))
    signals[::5] = signals[::5].round(1)
    signals[1::7, :, : m // 2] = 0.0
    signals[2::7, rng.integers(6)] = 19.6
    return signals


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize(
    ("m", "rate_hz"),
    [(m, 50.0) for m in (4, 5, 8, 63, 128, 129, 225, 250)] + [(257, 200.0), (1000, 200.0), (2049, 100.0)],
)
def test_every_length_of_a_window_gives_numpy_s_numbers(name: str, m: int, rate_hz: float) -> None:
    """Sums are halved in another place at each length; 65 windows are more than one chunk."""
    feature_set, signals = load(name), rows(65, m, seed=m)
    numpy_s = extract("numpy", feature_set, signals, rate_hz)
    assert np.array_equal(extract("compiled", feature_set, signals, rate_hz), numpy_s)
    assert np.array_equal(extract("compiled", feature_set, signals[:1], rate_hz), numpy_s[:1])


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("window_s", [0.2, 2.5, 5.0])
def test_degenerate_windows_give_numpy_s_numbers(name: str, window_s: float) -> None:
    """Constant, vanishing, clipped and huge: what is constant, and 0 / 0, is decided alike."""
    feature_set, signals = load(name), np.array(list(battery(50.0, window_s).values()))
    assert np.array_equal(extract("compiled", feature_set, signals, 50.0), extract("numpy", feature_set, signals, 50.0))


@pytest.mark.parametrize("name", SETS)
def test_absurd_values_go_to_numpy(name: str) -> None:
    """Where squares overflow, infinity and NaN come out as they do there: no decision may differ."""
    feature_set, signals = load(name), rows(3, 225, seed=0) * np.array([1.0, 1e60, 1e97])[:, None, None]
    with np.errstate(all="ignore"):
        numpy_s = extract("numpy", feature_set, signals, 50.0)
        compiled = extract("compiled", feature_set, signals, 50.0)
    assert np.array_equal(compiled, numpy_s, equal_nan=True)


@pytest.mark.parametrize("value", [np.nan, np.inf, -1e100])
def test_what_is_no_value_is_refused_in_the_same_words(value: float) -> None:
    """The error names the window, the axis and the sample."""
    signals = rows(3, 225, seed=1)
    signals[1, 4, 17] = value
    for name in SETS:
        with pytest.raises(ValueError, match="windows must hold") as numpy_s:
            extract("numpy", load(name), signals, 50.0)
        with pytest.raises(ValueError, match="window 1, gyr_y, sample 17") as compiled:
            extract("compiled", load(name), signals, 50.0)
        assert str(compiled.value) == str(numpy_s.value)


def test_strided_read_only_windows_of_a_stream_will_do() -> None:
    """The windows that a cutter gives are views; they are read where they lie."""
    stream = rows(1, 400, seed=2)[0]
    stream.setflags(write=False)
    views = np.lib.stride_tricks.sliding_window_view(stream, 225, axis=1)[:, ::25].transpose(1, 0, 2)
    for name in SETS:
        copied = extract("numpy", load(name), views.copy(), 50.0)
        assert np.array_equal(extract("compiled", load(name), views, 50.0), copied)


@pytest.mark.parametrize(("m", "rate_hz"), [(60, 25.0), (225, 50.0)])
def test_loop_written_twin_agrees(m: int, rate_hz: float) -> None:
    """To rounding, with a twin that shares no line with either form."""
    signals = walk(3, m, rate_hz, seed=m)
    expected = np.array([features_fall31_loop.features_loop(window, rate_hz) for window in signals])
    found = extract("compiled", load("fall31"), signals, rate_hz)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-7)


def test_nothing_is_compiled_before_a_service_asks_for_it() -> None:
    """`select` forgets; `warm` fetches, and with engine numpy fetches nothing."""
    engines.select("compiled")
    assert engines.warmed("_fall31") is None
    engines.warm()
    assert engines.warmed("_fall31") is not None
    engines.select("numpy")
    engines.warm()
    assert engines.warmed("_fall31") is None
