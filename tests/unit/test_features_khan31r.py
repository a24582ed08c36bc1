"""khan31r on windows of known features, against a loop-written twin, and under transformations."""

import math
import zipfile

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stream_occ.features import khan31r, khan31r_nofilter, load
from stream_occ.features.khan31r import FEATURE_SET, NAMES, ORIENTATION_FREE
from stream_occ.samples import Window
from stream_occ.windowing import WindowBatch
from tests.reference.features_loop import features_loop

RATE_HZ = 50.0

# fmt: off
GOLDEN_ORDER = [
    "mean_acc_x_ms2", "mean_acc_y_ms2", "mean_acc_z_ms2", "mean_acc_norm_ms2",
    "mean_gyr_x_rads", "mean_gyr_y_rads", "mean_gyr_z_rads", "mean_gyr_norm_rads",
    "max_acc_norm_ms2", "max_gyr_norm_rads", "min_acc_norm_ms2", "min_gyr_norm_rads",
    "std_acc_norm_ms2", "std_gyr_norm_rads", "iqr_acc_norm_ms2", "iqr_gyr_norm_rads",
    "sma_acc_ms2", "sma_gyr_rads",
    "spectral_entropy_acc_norm", "spectral_entropy_gyr_norm", "energy_acc_norm_m2s4", "energy_gyr_norm_rad2s2",
    "corr_acc_x_acc_y", "corr_acc_x_acc_z", "corr_acc_y_acc_z",
    "corr_gyr_x_gyr_y", "corr_gyr_x_gyr_z", "corr_gyr_y_gyr_z",
    "mean_abs_derivative_acc_norm_ms3", "mean_abs_derivative_gyr_norm_rads2", "corr_acc_norm_gyr_norm",
]
# fmt: on


def batch_of(signals, rate_hz=RATE_HZ):
    """Windows (n, 6, m) of one device."""
    n = len(signals)
    return WindowBatch(("dev",) * n, np.zeros(n, dtype=np.int64), rate_hz, signals)


def extract(signals, rate_hz=RATE_HZ):
    return FEATURE_SET.extract(batch_of(np.asarray(signals, dtype=float), rate_hz))


def window_of(m, **rows):
    """Signals (6, m), 0 where no row is given: acc_x=..., gyr_z=..."""
    signals = np.zeros((6, m))
    for name, row in rows.items():
        signals[["acc_x", "acc_y", "acc_z", "gyr_x", "gyr_y", "gyr_z"].index(name)] = row
    return signals


def features_of(m, rate_hz=RATE_HZ, **rows):
    """Features by name of one window."""
    return dict(zip(NAMES, extract([window_of(m, **rows)], rate_hz)[0].tolist(), strict=True))


def both_norms(row, rate_hz=RATE_HZ):
    """Features by name of a window whose norms of acceleration and rotation both are the row given (>= 0)."""
    return features_of(len(row), rate_hz, acc_x=row, gyr_z=row)


def check(features, **expected):
    """Each `acc`/`gyr` pair of features, or feature, has the value expected, to 1e-12 of its size."""
    for name, value in expected.items():
        matching = [key for key in features if f"{key}_".startswith(f"{name}_")]
        assert matching, name
        for key in matching:
            assert features[key] == pytest.approx(value, rel=1e-12, abs=1e-12), key


def walk(n, m, seed=0):
    """Random windows like a phone in a pocket: gravity, steps, an impact; readings rounded and clipped at 2 g."""
    rng = np.random.default_rng(seed)
    i = np.arange(m)
    signals = rng.normal(size=(n, 6, m)) * 0.8
    signals[:, 1] += 9.81 + 3 * np.sin(2 * np.pi * 1.8 * i / RATE_HZ + rng.uniform(0, 6, size=(n, 1)))
    signals[:, :3] += 40 * np.exp(-0.5 * ((i - m / 2) / 2) ** 2) * rng.normal(size=(n, 3, 1))
    signals[:, :3] = np.clip(np.round(signals[:, :3] / 0.0383) * 0.0383, -19.6, 19.6)
    return signals


def test_there_are_31_unique_names_in_golden_order():
    """Models refer to columns by place: the order never changes within a version."""
    assert list(NAMES) == GOLDEN_ORDER
    assert len(set(NAMES)) == 31
    assert FEATURE_SET.NAMES == khan31r_nofilter.FEATURE_SET.NAMES == NAMES


def test_sets_are_found_by_name_with_their_filter_and_rate():
    """With the low-pass at 20 Hz above 40 Hz; without it at any rate."""
    with_filter, without = load("khan31r"), load("khan31r-nofilter")
    assert (with_filter.version, with_filter.lowpass_hz, with_filter.min_rate_hz) == (1, 20.0, 40.0)
    assert (without.version, without.lowpass_hz, without.min_rate_hz) == (1, None, 0.0)


def test_each_family_fills_as_many_columns_as_it_names():
    """The table of families is the only list there is: its functions and names belong together."""
    work = khan31r.statistics.workspace(3, 20)
    channels = khan31r.statistics.prepare(walk(3, 20), RATE_HZ, work=work)
    for family in khan31r.FAMILIES:
        assert family.compute(channels).shape == (3, len(family.names))


@pytest.mark.parametrize("m", [4, 5, 250, 251])
def test_window_at_rest_has_means_and_nothing_else(m):
    """A constant (3, 4, 12) of norm 13 and (2, 3, 6)/10 of norm .7: spread, spectrum and correlation are 0."""
    features = features_of(m, acc_x=3, acc_y=-4, acc_z=12, gyr_x=0.2, gyr_y=0.3, gyr_z=-0.6)
    expected = dict.fromkeys(NAMES, 0.0)
    expected |= {"mean_acc_x_ms2": 3, "mean_acc_y_ms2": -4, "mean_acc_z_ms2": 12, "sma_acc_ms2": 19}
    expected |= {"mean_gyr_x_rads": 0.2, "mean_gyr_y_rads": 0.3, "mean_gyr_z_rads": -0.6, "sma_gyr_rads": 1.1}
    for statistic in ("mean", "max", "min"):
        expected |= {f"{statistic}_acc_norm_ms2": 13, f"{statistic}_gyr_norm_rads": 0.7}
    for name in NAMES:
        assert features[name] == pytest.approx(expected[name], rel=1e-13, abs=1e-13), name


def test_step_has_hand_computed_features():
    """0 then 2, half and half, m = 8: odd bins hold 4/sin^2(pi k/8), so the shares are cos^2 and sin^2 of pi/8."""
    features = both_norms([0, 0, 0, 0, 2, 2, 2, 2])
    c, s = math.cos(math.pi / 8) ** 2, math.sin(math.pi / 8) ** 2
    check(features, mean_acc_norm=1, mean_gyr_norm=1, max=2, min=0, std=1, iqr=2, sma=1, energy=1)
    check(features, spectral_entropy=-(c * math.log(c) + s * math.log(s)) / math.log(4))
    check(features, mean_abs_derivative=RATE_HZ * 2 / 7, corr_acc_norm_gyr_norm=1)


@pytest.mark.parametrize("m", [4, 7, 100])
def test_ramp_has_closed_form_features(m):
    """0, 1, ..., m - 1: variance (m^2 - 1)/12, quartiles linear in rank, speed one step a sample."""
    features = both_norms(np.arange(m))
    variance = (m * m - 1) / 12
    check(features, mean_acc_x=(m - 1) / 2, max=m - 1, min=0, std=math.sqrt(variance), energy=variance)
    check(features, iqr=(m - 1) / 2, sma=(m - 1) / 2, mean_abs_derivative=RATE_HZ)


@pytest.mark.parametrize(("m", "k"), [(250, 1), (250, 7), (250, 124), (125, 3), (125, 62), (128, 63)])
def test_sine_at_a_bin_has_the_textbook_power_and_no_entropy(m, k):
    """3 + 2 sin: std 2/sqrt 2, energy 2^2/2, all power in one bin."""
    features = both_norms(3 + 2 * np.sin(2 * np.pi * k * np.arange(m) / m + 0.4))
    check(features, mean_acc_norm=3, mean_gyr_norm=3, sma=3, std=math.sqrt(2), energy=2)
    # Rounding leaves some 1e-32 of the power in each other bin.
    check(features, spectral_entropy=0)


def test_sine_through_its_crests_has_its_total_variation_as_derivative():
    """One period on 200 samples meets 0, crest and trough: total variation 4A - A sin(2 pi/m) from first to last."""
    m, amplitude = 200, 2.0
    features = both_norms(3 + amplitude * np.sin(2 * np.pi * np.arange(m) / m))
    variation = 4 * amplitude - amplitude * math.sin(2 * math.pi / m)
    check(features, max=5, min=1, mean_abs_derivative=variation * RATE_HZ / (m - 1))


@pytest.mark.parametrize("m", [1000, 4001])
def test_iqr_of_a_sine_is_root_two_amplitudes(m):
    """Quartiles of the arcsine law are -+A/sqrt 2; a rank is off by at most 1/m, the quantile by pi A sin(pi/4)/m."""
    features = both_norms(3 + 2 * np.sin(2 * np.pi * np.arange(m) / m))
    tolerance = 2 * (math.pi * 2 * math.sin(math.pi / 4)) / m
    for name in ("iqr_acc_norm_ms2", "iqr_gyr_norm_rads"):
        assert features[name] == pytest.approx(2 * math.sqrt(2), abs=tolerance)


def test_quartiles_are_interpolated_linearly():
    """Of 0, 1, 2, 10 the quartiles lie at ranks .75 and 2.25: .75 and 2 + .25 * 8 = 4."""
    check(both_norms([10, 0, 2, 1]), iqr=4 - 0.75)


def test_two_sines_share_the_power_by_squared_amplitude():
    """Amplitudes 1 and 3: shares .1 and .9 of the power, over m // 2 = 50 bins."""
    i = np.arange(100)
    features = both_norms(9 + np.sin(2 * np.pi * 5 * i / 100) + 3 * np.cos(2 * np.pi * 11 * i / 100))
    check(features, energy=5, spectral_entropy=-(0.1 * math.log(0.1) + 0.9 * math.log(0.9)) / math.log(50))


@pytest.mark.parametrize("m", [4, 5, 250, 251])
def test_impulse_has_a_white_spectrum(m):
    """One reading that differs gives all bins 1 .. m // 2 the same power: entropy 1."""
    row = np.full(m, 9.0)
    row[m // 3] += 5
    check(both_norms(row), spectral_entropy=1, energy=25 / m * (1 - 1 / m))


@pytest.mark.parametrize("m", [4, 250])
def test_nyquist_bin_counts_once(m):
    """Readings that alternate by -+A hold power A^2 in the last bin of an even m: its weight is 1, not 2."""
    check(both_norms(5 + 2 * (-1.0) ** np.arange(m)), energy=4, std=2, spectral_entropy=0)


@pytest.mark.parametrize("phase", [0.0, 0.3, math.pi / 2, 2.0, math.pi, -1.0])
def test_correlation_of_shifted_sines_is_the_cosine_of_the_shift(phase):
    """For every pair of axes and for the norms."""
    i = np.arange(120)
    one = 4 + np.sin(2 * np.pi * 3 * i / 120)
    other = 9 + 2 * np.sin(2 * np.pi * 3 * i / 120 + phase)
    for sensor in ("acc", "gyr"):
        for first, second in ("xy", "xz", "yz"):
            features = features_of(120, **{f"{sensor}_{first}": one, f"{sensor}_{second}": other})
            check_one = features[f"corr_{sensor}_{first}_{sensor}_{second}"]
            assert check_one == pytest.approx(math.cos(phase), abs=1e-12)
            assert sum(value != 0 for name, value in features.items() if "_x_" in name and name.startswith("corr")) <= 1
    assert features_of(120, acc_z=one, gyr_y=other)["corr_acc_norm_gyr_norm"] == pytest.approx(
        math.cos(phase), abs=1e-12
    )


@pytest.mark.parametrize("level", [9.81, 1e-3, 12345.678])
def test_rounding_of_a_constant_is_neither_spectrum_nor_correlation(level):
    """Wiggles of 1e-10 of the level are rounding: entropy, energy and correlations are exactly 0."""
    noise = np.random.default_rng(0).uniform(-0.5, 0.5, size=(6, 250))
    still = extract([level * (1 + 1e-10 * noise)])[0]
    for name, value in zip(NAMES, still, strict=True):
        if name.startswith(("spectral_entropy", "corr", "energy")):
            assert value == 0, name


def test_wiggle_above_the_tolerance_counts():
    """Peak-to-peak of 4e-9 of the level is a signal: its entropy is a spectrum's again."""
    row = 1 + 2e-9 * np.sin(2 * np.pi * 5 * np.arange(100) / 100)
    features = both_norms(row)
    assert features["corr_acc_norm_gyr_norm"] == pytest.approx(1, abs=1e-6)
    assert 0 < features["spectral_entropy_acc_norm"] < 0.01


def test_device_without_rotation_has_no_entropy_of_rotation():
    """All zeros: 0 ln 0 = 0, and 0/0 nowhere."""
    features = features_of(100, acc_z=9.81 + np.sin(np.arange(100)))
    assert all(features[name] == 0 for name in NAMES if "gyr" in name)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(-1e3, 1e3), st.floats(-100, 100))
def test_affine_axes_never_exceed_a_correlation_of_one(seed, factor, shift):
    """Rounding past 1 is clipped."""
    row = np.random.default_rng(seed).normal(size=50)
    features = extract([window_of(50, acc_x=row, acc_y=factor * row + shift)])[0]
    assert abs(features[NAMES.index("corr_acc_x_acc_y")]) <= 1.0


@pytest.mark.parametrize("scale", [1e-300, 1e-200, 1e-162, 1e-100, 1e90])
def test_absurd_scales_give_finite_features(scale):
    """Squares that vanish or nearly overflow end in finite numbers, without a warning."""
    assert np.isfinite(extract(walk(3, 50) * scale)).all()


@pytest.mark.parametrize("m", [4, 5, 6, 49, 100])
def test_twin_agrees_on_random_windows(m):
    """The loop-written twin gives the same 31 numbers, on noise and on steps with an impact."""
    windows = np.concatenate([walk(4, m), np.random.default_rng(m).normal(size=(4, 6, m))])
    # 1e-12 absolute for correlations near 0, which are differences of numbers near 1.
    np.testing.assert_allclose(extract(windows), features_loop(windows, RATE_HZ), rtol=1e-9, atol=1e-12)


def test_twin_agrees_on_recorded_falls_and_walks(shared_data):
    """The same on 5 s windows of recorded falls, jumps and a walk, resampled to 50 Hz."""
    stems = [("FALLS", "FOL"), ("FALLS", "BSC"), ("ADL", "JUM"), ("ADL", "WAL"), ("ADL", "STD")]
    windows = []
    with zipfile.ZipFile(shared_data / "mobifall.zip") as archive:
        for kind, code in stems:
            windows += recorded_windows(archive, f"sub2/{kind}/{code}/{code}_{{}}_2_1.txt")
    assert len(windows) >= 8
    # 1e-11 absolute: stamps are jittered, yet some correlations are near 0.
    np.testing.assert_allclose(extract(windows), features_loop(windows, RATE_HZ), rtol=1e-9, atol=1e-11)


def recorded_windows(archive, pattern):
    """Up to two windows (6, 250) of one recording, both sensors linearly interpolated."""
    sensors = []
    for sensor in ("acc", "gyro"):
        numbers = archive.read(pattern.format(sensor)).decode().partition("@DATA")[2].replace(",", " ").split()
        sensors.append(np.array([float(number) for number in numbers]).reshape(-1, 4))
    start = max(sensor[0, 0] for sensor in sensors)
    end = min(sensor[-1, 0] for sensor in sensors)
    grid = np.arange(start, end, 1e9 / RATE_HZ)
    rows = np.array([np.interp(grid, sensor[:, 0], sensor[:, axis]) for sensor in sensors for axis in (1, 2, 3)])
    return [rows[:, 250 * i : 250 * (i + 1)] for i in range(min(2, len(grid) // 250))]


def changed(before, after):
    """Names of features that differ by more than 1e-9 of their size."""
    return {
        name
        for name, x, y in zip(NAMES, before, after, strict=True)
        if not math.isclose(x, y, rel_tol=1e-9, abs_tol=1e-9)
    }


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1))
def test_turning_the_sensor_leaves_the_orientation_free_subset(seed):
    """Any rotation of the device on the body changes none of its 17 features, and all of the other 14."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    window = walk(1, 100, seed)[0]
    turned = np.concatenate([rotation @ window[:3], rotation @ window[3:]])
    before, after = extract([window, turned])
    assert changed(before, after) == set(NAMES) - set(ORIENTATION_FREE)
    assert len(ORIENTATION_FREE) == 17


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.permutations([0, 1, 2]))
def test_swapped_axes_swap_means_and_correlations_and_nothing_else(seed, order):
    """The means follow their axes, the correlations their pairs, and all other features stay."""
    window = walk(1, 100, seed)[0]
    before, after = extract([window, np.concatenate([window[:3][order], window[3:][order]])])
    old, new = (dict(zip(NAMES, row, strict=True)) for row in (before, after))
    for sensor, unit in (("acc", "ms2"), ("gyr", "rads")):
        for place, axis in enumerate(order):
            assert new[f"mean_{sensor}_{'xyz'[place]}_{unit}"] == old[f"mean_{sensor}_{'xyz'[axis]}_{unit}"]
        for one, other in ((0, 1), (0, 2), (1, 2)):
            first, second = sorted((order[one], order[other]))
            was = old[f"corr_{sensor}_{'xyz'[first]}_{sensor}_{'xyz'[second]}"]
            assert new[f"corr_{sensor}_{'xyz'[one]}_{sensor}_{'xyz'[other]}"] == was
    kept = {*ORIENTATION_FREE, "sma_acc_ms2", "sma_gyr_rads"}
    assert not changed(before, after) & kept


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 2**32 - 1), st.sampled_from([0.001, 0.5, 3.0, 1000.0]))
def test_scaling_scales_each_feature_by_its_power_of_the_unit(seed, factor):
    """Entropies and correlations have no unit, energies have its square, all others its first power."""
    window = walk(1, 100, seed)
    before, after = extract(window)[0], extract(window * factor)[0]
    for name, x, y in zip(NAMES, before, after, strict=True):
        power = 0 if name.startswith(("spectral", "corr")) else 2 if name.startswith("energy") else 1
        assert y == pytest.approx(x * factor**power, rel=1e-9, abs=1e-12), name


def test_time_reversal_changes_nothing():
    """No feature knows the direction of time."""
    for before, after in zip(extract(walk(20, 101)), extract(walk(20, 101)[:, :, ::-1]), strict=True):
        assert not changed(before, after)


def test_shift_round_the_window_changes_the_derivative_alone():
    """The spectrum's power and all order statistics do not see where a window starts in a cycle."""
    before, after = extract(walk(1, 100)), extract(np.roll(walk(1, 100), 17, axis=-1))
    assert changed(before[0], after[0]) == {name for name in NAMES if "derivative" in name}


def test_rate_moves_the_derivative_alone():
    """The same samples at twice the rate change twice as fast."""
    slow, fast = extract(walk(1, 100), 50.0)[0], extract(walk(1, 100), 100.0)[0]
    for name, x, y in zip(NAMES, slow, fast, strict=True):
        assert y == (2 * x if "derivative" in name else x), name


@pytest.mark.parametrize("m", [4, 7, 100, 101])
def test_energy_is_the_variance(m):
    """Parseval: the spectral energy without DC equals std squared, for even and odd lengths."""
    features = dict(zip(NAMES, extract(walk(50, m)).T, strict=True))
    np.testing.assert_allclose(features["energy_acc_norm_m2s4"], features["std_acc_norm_ms2"] ** 2, rtol=1e-12)
    np.testing.assert_allclose(features["energy_gyr_norm_rad2s2"], features["std_gyr_norm_rads"] ** 2, rtol=1e-12)


@pytest.mark.parametrize(
    ("value", "shown"), [(math.nan, "nan"), (math.inf, "inf"), (-math.inf, "-inf"), (1e101, "1e.101")]
)
def test_unusable_value_is_refused_with_its_window(value, shown):
    """The error names window, channel and sample, also far behind the first chunk, and says what to do."""
    windows = np.ones((300, 6, 20))
    windows[271, 4, 13] = value
    message = (
        rf"^windows must hold finite values below 1e\+100; got {shown} in window 271, gyr_y, sample 13\. Score no "
    )
    with pytest.raises(ValueError, match=message):
        extract(windows)


@pytest.mark.parametrize("m", [0, 1, 3])
def test_window_below_four_samples_is_refused(m):
    """Its spectrum would have at most one bin."""
    with pytest.raises(ValueError, match=rf"^windows must hold at least 4 samples; got {m}\. Lengthen the window\.$"):
        extract(np.ones((1, 6, m)))


@pytest.mark.parametrize("rate_hz", [40.0, 20.0, math.nan])
def test_rate_at_twice_the_cutoff_is_refused(rate_hz):
    """A 20 Hz low-pass needs more than 40 Hz; the set without filter takes any rate."""
    with pytest.raises(ValueError, match=r"^windows must be sampled at more than 40 Hz for khan31r; got .*nofilter\.$"):
        extract(walk(1, 20), rate_hz)


def test_slow_stream_gets_the_same_features_without_filter():
    """khan31r_nofilter at 25 Hz: the same formulas."""
    slow = khan31r_nofilter.FEATURE_SET.extract(batch_of(walk(2, 30), 25.0))
    np.testing.assert_allclose(slow, features_loop(walk(2, 30), 25.0), rtol=1e-9, atol=1e-12)


def test_no_windows_give_no_rows():
    """An empty batch has 31 columns."""
    assert extract(np.empty((0, 6, 250))).shape == (0, 31)


def test_single_windows_equal_the_batch():
    """A list of windows gives the bits of the batch that holds them."""
    signals = walk(5, 60)
    windows = [Window("dev", 0, RATE_HZ, np.ascontiguousarray(w[:3].T), np.ascontiguousarray(w[3:].T)) for w in signals]
    assert FEATURE_SET.extract(windows).tobytes() == extract(signals).tobytes()


@settings(deadline=None, max_examples=25)
@given(
    seed=st.integers(0, 2**32 - 1),
    m=st.sampled_from([4, 5, 7, 8, 9, 16, 31, 64, 125, 128, 129, 250, 251, 300]),
    hop=st.integers(1, 40),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
)
def test_row_has_the_same_bits_in_every_batch(seed, m, hop, scale):
    """Alone, in twos, in 255, 256 or 257, strided, copied, reversed or in any memory order: the same bits."""
    rng = np.random.default_rng(seed)
    stream = rng.normal(size=(6, m + 256 * hop)) * scale + [[0], [9.8 * scale], [0], [0], [0], [0]]
    stream[:, rng.random(stream.shape[1]) < 0.1] = 0.0  # dropouts, so that some windows are partly constant
    view = np.lib.stride_tricks.sliding_window_view(stream, m, axis=1)[:, ::hop].transpose(1, 0, 2)
    whole = FEATURE_SET.extract(batch_of(view))
    assert len(whole) == 257
    for n in (255, 256):
        assert FEATURE_SET.extract(batch_of(view[:n])).tobytes() == whole[:n].tobytes()
    for layout in (np.ascontiguousarray, np.asfortranarray):
        assert FEATURE_SET.extract(batch_of(layout(view))).tobytes() == whole.tobytes()
    assert FEATURE_SET.extract(batch_of(view[::-1])).tobytes() == whole[::-1].tobytes()
    for i in [*rng.integers(0, 257, size=8).tolist(), 63, 64, 256]:
        for rows in (slice(i, i + 1), slice(max(0, i - 1), i + 1)):
            assert FEATURE_SET.extract(batch_of(view[rows])).tobytes() == whole[rows].tobytes()
