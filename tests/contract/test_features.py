"""What every feature set promises: a new file in stream_occ/features is held to this by itself."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ import engines
from stream_occ.features import load
from stream_occ.filtering import butter1_lowpass_sos
from stream_occ.plugins import plugin_names
from stream_occ.samples import Window
from stream_occ.windowing import WindowBatch

LENGTHS_S = (2.5, 5.0)
G = 9.80665


@pytest.fixture(autouse=True, params=["numpy", "compiled"], scope="module")
def engine(request):
    """Whatever a set promises it promises by compiled code too."""
    if request.param == "compiled":
        pytest.importorskip("numba")
    engines.select(request.param)
    engines.warm()
    yield request.param
    engines.select("auto")


@pytest.fixture(params=plugin_names("stream_occ.features"))
def feature_set(request):
    return load(request.param)


def rate_of(feature_set):
    """A rate at which the set is defined: 50 Hz, or a quarter more than its least."""
    return max(50.0, 1.25 * feature_set.min_rate_hz)


def batch_of(signals, rate_hz):
    n = len(signals)
    return WindowBatch(tuple(f"dev{i}" for i in range(n)), np.arange(n, dtype=np.int64), rate_hz, signals)


def battery(rate_hz, window_s):
    """Windows by name that have upset feature code before: each (6, m), physically possible or just absurd."""
    m = round(window_s * rate_hz)
    i = np.arange(m)
    rng = np.random.default_rng(7)
    rest = np.zeros((6, m))
    rest[2] = G
    noise = rng.normal(size=(6, m))
    sine = np.sin(2 * np.pi * 2 * i / m)
    impact = np.where(np.abs(i - m // 2) < 3, 30.0, 0.0)
    ones = np.ones((6, 1))
    return {
        "zeros": np.zeros((6, m)),
        "minus_zeros": -np.zeros((6, m)),
        "rest": rest,
        "rest_with_rounding": rest * (1 + 1e-15 * noise),
        "rest_with_noise": rest + 0.02 * noise,
        "free_fall": np.zeros((6, m)) + np.where(i < m // 2, G, 0.0),
        "no_rotation": np.concatenate([rest[:3] + noise[:3], np.zeros((3, m))]),
        "stuck_axis": np.concatenate([noise[:2], np.full((1, m), 19.6), noise[3:]]),
        "clipped_impact": np.clip(rest + impact * [[3], [-4], [5], [1], [1], [-2]], -19.6, 19.6),
        "one_spike": np.where(i == m // 3, 1.0, 0.0) * ones,
        "spike_at_end": np.where(i == m - 1, -100.0, 0.0) * ones,
        "step": np.where(i < m // 2, -1.0, 1.0) * ones,
        "sine": sine * ones,
        "alternating": (-1.0) ** i * ones,
        "ramp": i * ones,
        "equal_axes": noise[:1] * ones,
        "rounded_to_tenths": np.round(noise, 1),
        "tiny": noise * 1e-12,
        "vanishing": noise * 1e-200,
        "large": noise * 1e12,
    }


def stream_windows(feature_set, n, m, hop, seed):
    """n strided windows of one random stream, bursts of zeros among noise, as a cutter would give them."""
    rng = np.random.default_rng(seed)
    stream = rng.normal(size=(6, m + (n - 1) * hop)) * 3 + [[0], [0], [G], [0], [0], [0]]
    stream[:, rng.random(stream.shape[1]) < 0.05] = 0.0
    views = np.lib.stride_tricks.sliding_window_view(stream, m, axis=1)[:, ::hop].transpose(1, 0, 2)
    return batch_of(views, rate_of(feature_set))


def rows_of(batch, index):
    """The windows of a batch that an index picks."""
    return batch_of(batch.signals[index], batch.rate_hz)


def test_set_is_found_under_its_own_name(feature_set):
    """A model stores the name: it must lead back to the same object."""
    assert load(feature_set.name) is feature_set


def test_version_is_a_positive_integer(feature_set):
    """A model refuses another version than its own."""
    assert type(feature_set.version) is int
    assert feature_set.version >= 1


def test_names_are_unique_snake_case(feature_set):
    """Reports, explanations and configs refer to features by name."""
    assert isinstance(feature_set.NAMES, tuple)
    assert len(set(feature_set.NAMES)) == len(feature_set.NAMES) > 0
    for name in feature_set.NAMES:
        assert re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", name), name


def test_lowpass_exists_at_every_rate_that_the_set_allows(feature_set):
    """The filter can be designed from just above the least rate on."""
    assert feature_set.min_rate_hz >= 0
    if feature_set.lowpass_hz is not None:
        rate_hz = math.nextafter(feature_set.min_rate_hz, math.inf)
        assert np.isfinite(butter1_lowpass_sos(feature_set.lowpass_hz, rate_hz)).all()


@pytest.mark.parametrize("window_s", LENGTHS_S)
def test_features_of_the_battery_are_finite(feature_set, window_s):
    """Degenerate windows give finite numbers, and no warning on the way (warnings are errors here)."""
    rate_hz = rate_of(feature_set)
    for name, signals in battery(rate_hz, window_s).items():
        X = feature_set.extract(batch_of(signals[np.newaxis], rate_hz))
        assert X.shape == (1, len(feature_set.NAMES))
        assert X.dtype == np.float64
        assert np.isfinite(X).all(), name


@pytest.mark.parametrize("window_s", LENGTHS_S)
def test_battery_as_one_batch_gives_the_bits_of_each_alone(feature_set, window_s):
    """A degenerate window changes nothing in its neighbours."""
    rate_hz = rate_of(feature_set)
    signals = np.array(list(battery(rate_hz, window_s).values()))
    together = feature_set.extract(batch_of(signals, rate_hz))
    for i in range(len(signals)):
        assert feature_set.extract(batch_of(signals[i : i + 1], rate_hz)).tobytes() == together[i].tobytes()


def test_features_tell_windows_apart(feature_set):
    """Rest, noise, sine and impact have four different rows: a constant extractor would pass all else."""
    rate_hz = rate_of(feature_set)
    windows = battery(rate_hz, 5.0)
    signals = np.array([windows[name] for name in ("rest", "rest_with_noise", "sine", "clipped_impact")])
    assert len(np.unique(feature_set.extract(batch_of(signals, rate_hz)), axis=0)) == 4


@settings(deadline=None, max_examples=10)
@given(seed=st.integers(0, 2**32 - 1), window_s=st.sampled_from(LENGTHS_S), hop=st.integers(1, 60))
def test_row_does_not_depend_on_its_batch(seed, window_s, hop):
    """Alone, in twos, in batches round 256, strided, copied, shuffled: the same bits for every set."""
    for name in plugin_names("stream_occ.features"):
        feature_set = load(name)
        m = round(window_s * rate_of(feature_set))
        batch = stream_windows(feature_set, 257, m, hop, seed)
        whole = feature_set.extract(batch)
        shuffled = np.random.default_rng(seed).permutation(257)
        picks = [slice(0, 255), slice(0, 256), slice(1, 257), slice(None, None, 3), shuffled]
        picks += [slice(i, i + n) for i in shuffled[:5].tolist() for n in (1, 2)]
        for pick in picks:
            assert feature_set.extract(rows_of(batch, pick)).tobytes() == whole[pick].tobytes(), (name, pick)
        for layout in (np.ascontiguousarray, np.asfortranarray):
            copied = batch_of(layout(batch.signals), batch.rate_hz)
            assert feature_set.extract(copied).tobytes() == whole.tobytes(), name


def test_windows_one_by_one_equal_the_batch(feature_set):
    """A list of `Window`s gives the bits of the `WindowBatch` that holds them."""
    batch = stream_windows(feature_set, 5, round(5 * rate_of(feature_set)), 10, 0)
    windows = [Window("dev", 0, batch.rate_hz, signals[:3].T, signals[3:].T) for signals in batch.signals]
    assert feature_set.extract(windows).tobytes() == feature_set.extract(batch).tobytes()


def test_windows_are_left_alone(feature_set):
    """Extraction writes into nothing that it was given, and keeps no state from call to call."""
    batch = stream_windows(feature_set, 5, round(5 * rate_of(feature_set)), 300, 0)
    before = batch.signals.tobytes()
    first = feature_set.extract(batch)
    kept = first.tobytes()
    feature_set.extract(stream_windows(feature_set, 5, round(5 * rate_of(feature_set)), 300, 1))
    assert batch.signals.tobytes() == before
    assert first.tobytes() == kept == feature_set.extract(batch).tobytes()


def test_read_only_windows_will_do(feature_set):
    """Views of a stream may be read-only."""
    batch = stream_windows(feature_set, 2, round(5 * rate_of(feature_set)), 10, 0)
    batch.signals.setflags(write=False)
    assert np.isfinite(feature_set.extract(batch)).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("row", range(6))
def test_value_that_is_no_number_is_refused_with_its_window(feature_set, row, value):
    """A scored window never has NaN or infinity; the error says which window had."""
    batch = stream_windows(feature_set, 4, round(5 * rate_of(feature_set)), 300, 0)
    signals = batch.signals.copy()
    signals[2, row, 17] = value
    with pytest.raises(ValueError, match=r"\bwindow 2\b"):
        feature_set.extract(batch_of(signals, batch.rate_hz))


def test_rate_must_lie_above_the_least(feature_set):
    """At the least rate itself the set is not defined."""
    batch = stream_windows(feature_set, 1, 250, 1, 0)
    with pytest.raises(ValueError, match=r"rate|Hz"):
        feature_set.extract(batch_of(batch.signals, feature_set.min_rate_hz))


def test_no_windows_give_no_rows(feature_set):
    """An empty batch has the set's columns."""
    assert feature_set.extract(batch_of(np.empty((0, 6, 250)), rate_of(feature_set))).shape == (
        0,
        len(feature_set.NAMES),
    )
